#!/usr/bin/env python3
"""The tables of benchmarks/aging-verify.sh: verify.tsv and verify.md of a directory of its results.

usage: aging-table.py DIRECTORY
"""
import json
import math
import os
import sys

GOALS = {"ext2": 0.03, "ext4": 0.05}
COLUMNS = ("history", "kind", "deletes", "short_lived", "days", "score_real", "score_simulated", "difference", "goal",
           "rms_days", "rms_by_size", "ks_free_extents", "ks_free_bytes", "free_real", "free_simulated")


def layout(path):
    with open(path, encoding="utf-8") as text:
        return json.load(text)


def by_size(real, simulated):
    """Root mean square of the differences of the scores of classes of sizes, weighted by the real one's blocks."""
    pairs = {c["up_to_bytes"]: c["score"] for c in simulated["by_size"]}
    total = squares = 0.0
    for size in real["by_size"]:
        other = pairs.get(size["up_to_bytes"])
        if size["score"] and other:
            weight = size["score"]["counted_blocks"]
            total += weight
            squares += weight * (size["score"]["value"] - other["value"]) ** 2
    return math.sqrt(squares / total) if total else float("nan")


def distance(real, simulated, what):
    """Kolmogorov and Smirnov's distance of two distributions of free extents over their sizes."""
    sizes = sorted({c["from_bytes"] for f in (real, simulated) for c in f["by_size"]})

    def shares(free):
        found = {c["from_bytes"]: c[what] for c in free["by_size"]}
        total, sum_, all_ = sum(found.values()), 0, []
        for size in sizes:
            sum_ += found.get(size, 0)
            all_.append(sum_ / max(total, 1))
        return all_

    return max((abs(a - b) for a, b in zip(shares(real), shares(simulated))), default=0.0)


def rows(directory):
    for name in sorted(os.listdir(directory)):
        if not name.endswith("-real.json"):
            continue
        case = name.removesuffix("-real.json")
        kind, history = case.split("-", 1)
        real = layout(f"{directory}/{name}")["layouts"][0]
        for deletes in ("uniform", "learnt"):
            for short in ("without", "with"):
                path = f"{directory}/{case}-{deletes}-{short}.json"
                if not os.path.exists(path):
                    continue
                simulated = layout(path)["layouts"][0]
                days = layout(path.removesuffix(".json") + "-days.json")
                a, b = real["score"]["value"], simulated["score"]["value"]
                yield (history, kind, deletes, short, len(days["layouts"]), a, b, b - a, GOALS.get(kind, math.nan),
                       days["score_rms_distance"], by_size(real, simulated),
                       distance(real["free"], simulated["free"], "extents"),
                       distance(real["free"], simulated["free"], "bytes"),
                       real["free"]["extents"], simulated["free"]["extents"])


def shown(value):
    return f"{value:.3f}" if isinstance(value, float) else str(value)


directory = sys.argv[1]
found = [tuple(map(shown, row)) for row in rows(directory)]
with open(f"{directory}/verify.tsv", "w", encoding="utf-8") as out:
    print(*COLUMNS, sep="\t", file=out)
    for row in found:
        print(*row, sep="\t", file=out)
with open(f"{directory}/verify.md", "w", encoding="utf-8") as out:
    head = ("history", "on", "deletions", "short-lived", "real", "simulated", "difference", "days, RMS", "by size, RMS",
            "free extents, KS", "free bytes, KS")
    print("|", " | ".join(head), "|", file=out)
    print("|", " | ".join(["---"] * 4 + ["---:"] * 7), "|", file=out)
    for row in found:
        print("|", " | ".join(row[:4] + row[5:8] + row[9:13]), "|", file=out)
with open(f"{directory}/verify.md", encoding="utf-8") as text:
    print(text.read(), end="")

#!/usr/bin/env python3
"""The scale of the model's error that makes 95 of 100 intervals hold, from a kept validation.

    benchmarks/scales.py benchmarks/runs/2026-11-23-matrix-open/again-last.json.gz 0.16 0.28

The numbers are the scales (in memory, on other devices) that the printed intervals were made with
(crates/predict/src/certainty.rs); the rest of an interval's width is the profile's and stays. Printed are, for each
group of targets, how many intervals held, the least scale with which 95 of 100 would, and the half-width (as a
factor) that the median interval then has. To be run on the open half alone: the sealed half only judges.
"""
import gzip
import json
import math
import sys

T_975 = 3.182
HOLD = 0.95


def main(path: str, memory: str, device: str) -> None:
    with gzip.open(path) as file:
        pairs = json.load(file)["pairs"]
    for group, scale in (("ram", float(memory)), ("disk", float(device))):
        errors, rest = [], []
        for pair in pairs:
            if pair["group"] != group or pair.get("predicted_ns") is None:
                continue
            low, high = pair["predicted_interval_ns"]
            half = math.log(high / low) / 2
            errors.append(abs(math.log(pair["predicted_ns"] / pair["measured_ns"])))
            rest.append(max(0.0, half**2 - (T_975 * scale) ** 2))
        if not errors:
            continue

        def halves(scale: float) -> list[float]:
            return [math.sqrt((T_975 * scale) ** 2 + r) for r in rest]

        def held(scale: float) -> float:
            return sum(e <= h for e, h in zip(errors, halves(scale))) / len(errors)

        least = next(n / 200 for n in range(1, 1000) if held(n / 200) >= HOLD)
        median = sorted(halves(least))[len(errors) // 2]
        print(
            f"{group}: {len(errors)} pairs, {100 * held(scale):.1f} % of the intervals held with {scale}; "
            f"{least:.3f} makes {100 * held(least):.1f} % hold, half of the median one a factor of {math.exp(median):.2f}"
        )


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

#!/usr/bin/env bash
# Does it matter for throughput how like the aged file systems of benchmarks/aging-verify.sh are? The files of the last
# days are read cold, directory by directory, on the real file system, on the simulated one and on a fresh copy, each on
# an emulated disk of 7200 rpm.
#
#   sudo KEEP=IMAGES benchmarks/aging-verify.sh OUT ...
#   sudo benchmarks/aging-hot.sh IMAGES OUT [RUNS]
#
# OUT is that of aging-verify.sh, which lists the files; it gets hot.md and each experiment. Goal: the simulated one's throughput
# within 5 % of the real one's. FSAGE names a program that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
images=$(realpath "$1") out=$(realpath "$2") runs=${3:-5}
command -v jq >/dev/null || { echo "not run: needs jq" >&2; exit 1; }
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "not run: needs root and /dev/fuse" >&2; exit 1; }
fsage=${FSAGE:-target/release/fsage}
{
    echo "command: benchmarks/aging-hot.sh, $runs runs"
    machine
} >"$out/hot-machine.txt"
for real in "$images"/*-real.fsi; do
    name=$(basename "$real" -real.fsi)
    list="$out/$name-hot.txt"
    # The command runs in a directory of its own in the target's root.
    {
        printf 'seed = 1\nmin_runs = %s\nmax_runs = %s\ncache = "cold"\nrequired = ["elapsed"]\n' "$runs" "$runs"
        for which in real simulated fresh; do
            printf '[[target]]\nname = "%s"\nspec = "aged:%s,on=disk:hdd-7200"\n' "$which" "$images/$name-$which.fsi"
        done
        printf '[[workload]]\nname = "hot"\nspec = "cmd:cd .. && xargs -0 cat <%s >/dev/null"\n' "$list"
    } >"$out/$name-hot.toml"
    plan=("$out/$name-hot.toml")
    [ ! -e "$out/$name-hot/runs.jsonl" ] || plan=(--resume)
    "$fsage" -q bench "${plan[@]}" --allow-commands --allow-paths --json -o "$out/$name-hot" >"$out/$name-hot.json"
done
{
    echo "| on, history | files | real | simulated to real | fresh to real |"
    echo "| --- | ---: | ---: | ---: | ---: |"
    for result in "$out"/*-hot.json; do
        name=$(basename "$result" -hot.json)
        files=$(tr -dc '\0' <"$out/$name-hot.txt" | wc -c)
        # Throughputs are as the times' inverse, as all read the same bytes; each with half its 95 % interval.
        jq -r --arg name "$name" --arg files "$files" '
            def of($target): .configurations[] | select(.target == $target) | .metrics[] | select(.metric == "elapsed");
            def shown: . * 1000 | round / 1000;
            of("real") as $real | of("simulated") as $simulated | of("fresh") as $fresh
            | "| \($name) | \($files) | \($real.mean / 1e9 | shown) s ± \($real.half_width / $real.mean * 100 | shown) % | \($real.mean / $simulated.mean | shown) ± \($simulated.half_width / $simulated.mean * 100 | shown) % | \($real.mean / $fresh.mean | shown) |"
        ' "$result"
    done
} | tee "$out/hot.md"

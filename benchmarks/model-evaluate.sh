#!/bin/sh
# How far models (.fsm) of built-in workloads are off on the three built-in oracles (docs/mem.md): no noise, the same
# in every run. Each workload is written as a trace, a model is fitted to that, and both run side by side.
# Usage: benchmarks/model-evaluate.sh [OUT-DIRECTORY]
# Goal: all figures within half of the strict limits of docs/model-files.md. FSAGE names the binary. Needs jq.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-model-evaluate}
fsage=${FSAGE:-target/release/fsage}
mkdir -p "$out"
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
{
    echo "command: benchmarks/model-evaluate.sh"
    machine
} >"$out/machine.txt"
for workload in ${WORKLOADS:-postmark:files=500,transactions=2000 varmail webproxy webserver fileserver \
    sdet:scripts=4 andrew lfs-small:files=500 mongo bonnie:size=4M,files=200}; do
    name=${workload%%:*}
    # Personalities go on until they are told to end.
    case $name in
    varmail | webproxy | webserver | fileserver | mongo) set -- --ops "${OPERATIONS:-2000}" ;;
    *) set -- ;;
    esac
    "$fsage" run "$workload" "$@" --to-trace "$kept/$name.fst" 2>>"$out/said.txt"
    "$fsage" model fit "$kept/$name.fst" -o "$kept/$name.fsm" >/dev/null 2>>"$out/said.txt"
    # Exit code 3: a figure is off by more than its limit, which is what is asked.
    "$fsage" model evaluate "$kept/$name.fst" "$kept/$name.fsm" --strict \
        --on mem:fast --on mem:disk --on mem:tiny --json >"$kept/$name.json" 2>>"$out/said.txt" || [ $? -eq 3 ] || continue
    gzip -9nc "$kept/$name.json" >"$out/$name.json.gz"
done
for result in "$out"/*.json.gz; do
    name=$(basename "$result" .json.gz)
    zcat "$result" | jq -r --arg name "$name" '.targets[] | . as $t | .figures[] | select(.limit != null) |
        [$name, $t.name, .name, .original.mean, .model.mean,
         (if .error == null then "" else .error * 1000 | round / 10 end), .limit * 100, .within] | @tsv'
done >"$kept/figures.tsv"
{
    printf 'workload\ttarget\tfigure\toriginal\tmodel\terror_percent\tlimit_percent\twithin\n'
    cat "$kept/figures.tsv"
} >"$out/figures.tsv"
for result in "$out"/*.json.gz; do
    zcat "$result" | jq -r --arg name "$(basename "$result" .json.gz)" '"\($name): \(.missed) of \(.judged) missed; \(
        .ranking.same | if . then "ranks alike" else "ranks otherwise" end)"'
done

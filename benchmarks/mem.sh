#!/bin/sh
# Predictions on the three built-in oracles (docs/mem.md): no noise, the same in every run.
# Usage: benchmarks/mem.sh [OUT-DIRECTORY]
# Goal: each total within 2 %, every pair ranked rightly. FSAGE names the binary. Needs jq.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-mem}
fsage=${FSAGE:-target/release/fsage}
mkdir -p "$out"
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
set --
for workload in postmark:files=2000,transactions=5000 sdet:scripts=2 andrew lfs-small:files=1000 \
    small-read webserver:nthreads=2 mongo bonnie:size=16M,files=500; do
    set -- "$@" --workload "$workload"
done
{
    echo "command: benchmarks/mem.sh"
    machine
} >"$out/machine.txt"
"$fsage" validate "$@" --target mem:fast --target mem:disk --target mem:tiny --runs 1 -o "$kept/v" --json |
    gzip -9n >"$out/validation.json.gz"
zcat "$out/validation.json.gz" |
    jq -r '"workload\ttarget\tmeasured_ns\tpredicted_ns\terror_percent", (.pairs[] |
        "\(.workload)\t\(.target)\t\(.measured_ns)\t\(.predicted_ns)\t\(.error * 1000 | round / 10)")' >"$out/pairs.tsv"
zcat "$out/validation.json.gz" | jq -r '"ranks right: \(.ranks_right) of \(.ranks_total); average error \(.average_error)"'

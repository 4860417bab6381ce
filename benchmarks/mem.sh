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
    small-read webserver:nthreads=2 mongo bonnie:size=16M,files=500 lfs-large:size=16M \
    seqio:size=64K-4M,total=16M readers:total=16M,n=2 stride:size=16M,s=4 varying:chunks=2,ops=500 \
    selfscale:size=8M,requests=2000 varmail:nthreads=1 webproxy:nthreads=4,nfiles=1000 \
    fileserver:nthreads=1,nfiles=500 oltp:nshadows=4,ndbwriters=2 \
    videoserver:filesize=1M,numactivevids=4,numpassivevids=4,nthreads=4,eventrate=0; do
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

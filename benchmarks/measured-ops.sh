#!/bin/sh
# What handing on measured operations costs the streams' thread: PostMark on the engine that does nothing.
# Usage: benchmarks/measured-ops.sh [OUT.tsv] [ROUNDS]
# Goal: at most 30 ns of processor time an operation more than without.
# Both take turns within a round; what counts is the median over rounds of the difference of the bests.
# OVERHEAD names a build of the example that is there already.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-measured/overhead.tsv}
rounds=${2:-5}
mkdir -p "$(dirname "$out")"
program=${OVERHEAD:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p fsage-exec --example harness_overhead
    program="${CARGO_TARGET_DIR:-target}/release/examples/harness_overhead"
fi
{
    echo "command: benchmarks/measured-ops.sh, $rounds rounds"
    machine
    echo "compiler: $(rustc -V)"
} > "${out%.tsv}.txt"
printf 'round\tmode\tstream\tbest_ns\tmedian_ns\n' > "$out"
for round in $(seq "$rounds"); do
    "$program" |
        sed -n 's/.*"mode": "\([^"]*\)", "stream": "\([^"]*\)", "best_ns": \([0-9.]*\), "median_ns": \([0-9.]*\).*/\1\t\2\t\3\t\4/p' |
        sed "s/^/$round\t/" >> "$out"
done
for stream in prepared "one batch" generated; do
    awk -F'\t' -v stream="$stream" '$3 == stream && ($2 == "HandedOn" || $2 == "MeasuredCpu") {
        best[$1, $2] = $4; rounds[$1]
    }
    END { for (r in rounds) print best[r, "HandedOn"] - best[r, "MeasuredCpu"] }' "$out" |
        sort -n |
        awk -v stream="$stream" '{ d[NR] = $1; all = all " " $1 }
            END { printf "handed on, %s: median of rounds %.1f ns more, from%s\n", stream, d[int((NR + 1) / 2)], all }'
done | tee -a "${out%.tsv}.txt"

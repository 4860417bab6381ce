#!/bin/sh
# What the executor adds to an operation: PostMark on the engine that does nothing.
# Usage: benchmarks/harness-overhead.sh [OUT.tsv] [ROUNDS] [OLDER]
# Goal: measured less the stream alone under 100 ns per operation (two clock readings included).
# OLDER is the example of another build (target/release/examples/harness_overhead): both then take turns.
# OVERHEAD names a build of this one that is there already.
# A shared machine's speed changes within seconds: what counts is the median over rounds of each round's
# best repetition less that of the stream alone.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-harness/overhead.tsv}
rounds=${2:-5}
older=${3:-}
mkdir -p "$(dirname "$out")"
this=${OVERHEAD:-}
if [ -z "$this" ]; then
    cargo build --release --quiet -p fsage-exec --example harness_overhead
    this="${CARGO_TARGET_DIR:-target}/release/examples/harness_overhead"
fi
{
    echo "command: benchmarks/harness-overhead.sh, $rounds rounds, CPU 1"
    machine
    echo "compiler: $(rustc -V)"
} > "${out%.tsv}.txt"
printf 'build\tround\tmode\tstream\tbest_ns\tmedian_ns\n' > "$out"
for round in $(seq "$rounds"); do
    for build in older this; do
        case $build in
            older) program=$older ;;
            *) program=$this ;;
        esac
        [ -n "$program" ] || continue
        taskset -c 1 "$program" |
            sed -n 's/.*"mode": "\([^"]*\)", "stream": "\([^"]*\)", "best_ns": \([0-9.]*\), "median_ns": \([0-9.]*\).*/\1\t\2\t\3\t\4/p' |
            sed "s/^/$build\t$round\t/" >> "$out"
    done
done
awk -F'\t' -v summary="${out%.tsv}.txt" '
function median(list,    v, n, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j-1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
NR > 1 { best[$1, $2, $3, $4] = $5; seen[$1 FS $2 FS $4] }
END {
    for (k in seen) {
        split(k, p, FS)
        alone = best[p[1], p[2], "SourceAlone", p[3]]
        for (m = 1; m <= 2; m++) {
            mode = m == 1 ? "Measured" : "Direct"
            key = mode " less stream alone, " p[3] ", " p[1] " build"
            sums[key] = sums[key] " " best[p[1], p[2], mode, p[3]] - alone
        }
        key = "stream alone, " p[3] ", " p[1] " build"
        sums[key] = sums[key] " " alone
    }
    for (key in sums) {
        line = sprintf("%-55s median of rounds %5.1f ns, from%s", key, median(sums[key]), sums[key])
        print line | "sort"
        print line | ("sort >> " summary)
    }
}' "$out"

#!/usr/bin/env bash
# What `fsage bench` adds to a short command, beside hyperfine, in interleaved pairs.
# Usage: benchmarks/bench-overhead.sh [OUT.tsv] [PAIRS] [RUNS]
# Goal: the median of what bench says is within 0.3 ms of what hyperfine says. Both start the same program,
# `sh -c COMMAND`, without a shell around it (hyperfine -N); hyperfine's time has the making of the process in
# it, bench's begins when the program does. FSAGE names a program that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-bench-overhead/pairs.tsv}
pairs=${2:-10}
runs=${3:-40}
if ! command -v hyperfine >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || { echo "not run: needs hyperfine" >&2; exit 1; }
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y hyperfine >/dev/null
fi
command -v jq >/dev/null || { echo "not run: needs jq" >&2; exit 1; }
fsage=${FSAGE:-}
if [ -z "$fsage" ]; then
    cargo build --release --locked --quiet -p fsage
    fsage="${CARGO_TARGET_DIR:-target}/release/fsage"
fi
fsage=$(realpath "$fsage")
mkdir -p "$(dirname "$out")"
out=$(realpath "$out")
dir=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$dir"' EXIT INT TERM
{
    echo "command: benchmarks/bench-overhead.sh, $pairs pairs of $runs runs each"
    echo "hyperfine: $(hyperfine --version), -N --warmup 5"
    machine
} >"${out%.tsv}.txt"
cd "$dir"
theirs() {
    hyperfine -N --warmup 5 --runs "$runs" --export-json theirs.json "sh -c '$1'" >/dev/null 2>&1
    jq '.results[0].times | sort | .[length / 2 | floor] * 1000' theirs.json
}
ours() {
    "$fsage" bench --runs "$runs" --json -- "$1" 2>/dev/null |
        jq '[.configurations[0].runs[].elapsed_ns] | sort | .[length / 2 | floor] / 1000000'
}
printf 'line\tpair\thyperfine_ms\tfsage_ms\n' >"$out"
for pair in $(seq "$pairs"); do
    for line in 'true' 'ls / >/dev/null' 'sleep 0.02'; do
        # Who goes first changes.
        if [ $((pair % 2)) = 0 ]; then
            h=$(theirs "$line"); f=$(ours "$line")
        else
            f=$(ours "$line"); h=$(theirs "$line")
        fi
        printf '%s\t%s\t%s\t%s\n' "$line" "$pair" "$h" "$f" >>"$out"
    done
done
awk -F'\t' -v summary="${out%.tsv}.txt" '
function median(list,    v, n, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j-1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
NR > 1 { h[$1] = h[$1] " " $3; f[$1] = f[$1] " " $4; d[$1] = d[$1] " " ($4 - $3) }
END {
    for (k in h) {
        off = median(d[k])
        line = sprintf("%-18s median: hyperfine %.3f ms, fsage %.3f ms, difference in pairs %+.3f ms", k, median(h[k]), median(f[k]), off)
        print line; print line >> summary
        if (off > 0.3 || off < -0.3) bad = 1
    }
    if (bad) print "expected differences within 0.3 ms"
    exit bad
}' "$out"

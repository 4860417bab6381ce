#!/bin/sh
# Cached 4 KiB preads of one tmpfs file: the executor against fio's psync, in interleaved pairs.
# Usage: benchmarks/harness-fio.sh [OUT.tsv] [PAIRS] [SECONDS]
# Goal: the executor's median rate within 3 % of fio's or above, at random and in order, with the time of
# each operation taken (fio's default) and without (gtod_reduce). Both run on one CPU; the file is read
# once before, so that its pages are there. fio picks offsets without a map of those done, as ours does.
# CACHED_PREAD names a build of the example that is there already. Needs fio and awk.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-harness/fio.tsv}
pairs=${2:-7}
seconds=${3:-1}
mkdir -p "$(dirname "$out")"
ours=${CACHED_PREAD:-}
if [ -z "$ours" ]; then
    cargo build --release --quiet -p fsage-exec --example cached_pread
    ours="${CARGO_TARGET_DIR:-target}/release/examples/cached_pread"
fi
dir=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$dir"' EXIT INT TERM
head -c 64M /dev/urandom > "$dir/file"
{
    echo "command: benchmarks/harness-fio.sh, $pairs pairs of $seconds s, 64 MiB file on tmpfs, CPU 1"
    echo "fio: $(fio --version), psync, bs=4k, iodepth=1, time_based, norandommap"
    machine
    echo "compiler: $(rustc -V)"
} > "${out%.tsv}.txt"
theirs() {
    taskset -c 1 fio --name=j --filename="$dir/file" --ioengine=psync --rw="$1" --bs=4k --size=64m \
        --norandommap --time_based --runtime="$seconds" --invalidate=0 --thread --output-format=terse \
        --terse-version=3 $2 | cut -d';' -f8
}
printf 'pattern\ttiming\tpair\tfio_per_s\tfsage_per_s\n' > "$out"
for pair in $(seq "$pairs"); do
    for timing in timed untimed; do
        reduce=''
        [ $timing = timed ] || reduce=--gtod_reduce=1
        for pattern in random sequential; do
            rw=randread
            [ $pattern = random ] || rw=read
            # Who goes first changes.
            if [ $((pair % 2)) = 0 ]; then
                f=$(theirs $rw "$reduce")
                o=$(taskset -c 1 "$ours" "$dir/file" $pattern $timing "$seconds")
            else
                o=$(taskset -c 1 "$ours" "$dir/file" $pattern $timing "$seconds")
                f=$(theirs $rw "$reduce")
            fi
            printf '%s\t%s\t%s\t%s\t%s\n' $pattern $timing "$pair" "$f" "$o" >> "$out"
        done
    done
done
awk -F'\t' -v summary="${out%.tsv}.txt" '
function median(list,    v, n, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j-1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
NR > 1 { k = $1 " " $2; f[k] = f[k] " " $4; o[k] = o[k] " " $5; r[k] = r[k] " " $5 / $4 }
END {
    for (k in f) {
        line = sprintf("%-20s median: fio %.0f/s, fsage %.0f/s, fsage/fio %.3f", k, median(f[k]), median(o[k]), median(r[k]))
        print line; print line >> summary
    }
}' "$out"

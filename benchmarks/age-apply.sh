#!/usr/bin/env bash
# How fast `fsage age apply` ages an ext4 in memory: creates and deletes a second with --fast, bytes a second when data
# is written, and the memory that it takes, beside the device's own sequential write rate.
# Usage: benchmarks/age-apply.sh [OUT.tsv] [ROUNDS]
# Goal: at least 60,000 creates and deletes a second with --fast, one thread (100,000 aimed at); at least 70 % of the
# sequential write rate; memory that does not grow with the workload. Geriatrix 2018 on a machine of two processors:
# 6,100 a second, which only allocate, and 7,000 without any I/O. FSAGE names a program that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-age-apply/rounds.tsv}
rounds=${2:-5}
[ "$(id -u)" = 0 ] || { echo "not run: needs root" >&2; exit 1; }
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
trap 'mountpoint -q "$dir/mnt" && umount "$dir/mnt"; rm -rf "$dir"' EXIT INT TERM
{
    echo "command: benchmarks/age-apply.sh, $rounds rounds"
    machine
} >"${out%.tsv}.txt"
cd "$dir"
small=(--profile mail --size 1G --days 120)
large=(--profile home-1996 --size 2G --days 60)
"$fsage" -q age generate "${small[@]}" -o small.fst
"$fsage" -q age generate "${large[@]}" -o large.fst
# What one program writes to the same kind of file system, in pieces of a MiB, until the device has it.
sequential() {
    truncate -s 3G image && mkfs.ext4 -q -F image && mkdir -p mnt && mount -o loop image mnt
    local begin=$EPOCHREALTIME
    dd if=/dev/urandom of=piece bs=1M count=64 status=none
    begin=$EPOCHREALTIME
    for n in $(seq 24); do dd if=piece of="mnt/f$n" bs=1M status=none; done
    sync -f mnt
    echo "$begin $EPOCHREALTIME" | awk '{printf "%.0f", 24 * 67108864 / ($2 - $1)}'
    umount mnt && rm -f image piece
}
apply() {
    command time -f %M -o memory "$fsage" -q age apply "$@" --no-score --json >result.json || [ $? = 3 ]
}
printf 'round\tchanges_per_second_fast\tmemory_fast_kib\tbytes_per_second\tmemory_kib\tsequential_bytes_per_second\n' >"$out"
for round in $(seq "$rounds"); do
    apply small.fst scratch:ext4,size=3G --fast
    fast=$(jq .changes_per_second result.json) memory_fast=$(cat memory)
    apply large.fst scratch:ext4,size=3G
    written=$(jq .bytes_per_second result.json) memory=$(cat memory)
    printf '%s\t%.0f\t%s\t%.0f\t%s\t%s\n' "$round" "$fast" "$memory_fast" "$written" "$memory" "$(sequential)" | tee -a "$out"
done

#!/usr/bin/env bash
# How fast `fsage age apply` ages an ext4 in memory: creates and deletes a second with --fast, bytes a second when data
# is written, and the memory that it takes, beside the device's own sequential write rate. The creates and deletes are
# those of a news spool, which does nothing else, and of a mail spool, which renames each file as well; beside them what
# a C program gets on the same file system that makes the bare calls, with and without rename: the kernel's floor.
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
for tool in jq cc; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
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
news=(--profile news --size 1G --days 15)
mail=(--profile mail --size 1G --days 120)
large=(--profile home-1996 --size 2G --days 60)
"$fsage" -q age generate "${news[@]}" -o news.fst
"$fsage" -q age generate "${mail[@]}" -o mail.fst
"$fsage" -q age generate "${large[@]}" -o large.fst
# Creates and deletes a second of 200,000 files in 100 directories, of which the last 20,000 live, synced now and then.
cat >floor.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int dirs[100], renames = atoi(argv[2]), changes = 0;
    char name[32], to[32];
    struct timespec from, until;
    if (chdir(argv[1])) return 1;
    for (int i = 0; i < 100; i++) {
        sprintf(name, "%d", i);
        mkdir(name, 0755);
        dirs[i] = open(name, O_PATH | O_DIRECTORY);
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 200000; i++) {
        sprintf(name, "new%d", i);
        int file = openat(dirs[i / 20 % 100], name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        if (file < 0 || fallocate(file, 0, 0, 1000 + i * 7919LL % 5000)) return 1;
        close(file);
        sprintf(to, "f%d", i);
        if (renames && renameat(dirs[i / 20 % 100], name, dirs[i / 20 % 100], to)) return 1;
        int old = i - 20000;
        sprintf(name, renames ? "f%d" : "new%d", old);
        if (old >= 0 && unlinkat(dirs[old / 20 % 100], name, 0)) return 1;
        changes += 1 + (old >= 0);
        if (i % 10000 == 0) syncfs(dirs[0]);
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    printf("%.0f", changes / (until.tv_sec - from.tv_sec + (until.tv_nsec - from.tv_nsec) / 1e9));
}
C
cc -O2 -o floor floor.c
floor() {
    truncate -s 3G image && mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 image && mkdir -p mnt
    mount -o loop image mnt && ./floor mnt "$1" && umount mnt && rm -f image
}
# What one program writes to the same kind of file system, in pieces of a MiB, until the device has it.
sequential() {
    truncate -s 3G image && mkfs.ext4 -q -F image && mkdir -p mnt && mount -o loop image mnt
    local begin
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
fast() {
    apply "$1.fst" scratch:ext4,size=3G --fast
    jq '.changes_per_second | round' result.json
}
printf 'round\tnews_per_second\tfloor_per_second\tmail_per_second\tfloor_with_renames_per_second\tmemory_fast_kib\tbytes_per_second\tmemory_kib\tsequential_bytes_per_second\n' >"$out"
for round in $(seq "$rounds"); do
    changes="$(fast news)\t$(floor 0)\t$(fast mail)\t$(floor 1)\t$(cat memory)"
    apply large.fst scratch:ext4,size=3G
    written=$(jq .bytes_per_second result.json) memory=$(cat memory)
    printf "%s\t$changes\t%.0f\t%s\t%s\n" "$round" "$written" "$memory" "$(sequential)" | tee -a "$out"
done

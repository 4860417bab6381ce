#!/bin/sh
# Replay at original speed on the system that was traced: how far total time and starts are off.
# Usage: benchmarks/replay.sh [OUT-DIR]        (FSAGE: the binary; root, for eBPF)
# Goal: total time within 5 %, median start error under 1 ms.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-replay}
fsage=$(realpath "${FSAGE:-${CARGO_TARGET_DIR:-target}/release/fsage}")
mkdir -p "$out"
out=$(realpath "$out")
work=$(mktemp -d -p /dev/shm)
trap 'rm -rf "$work"' EXIT INT TERM
{
    echo "command: benchmarks/replay.sh"
    machine
    echo "fsage: $("$fsage" --version)"
    echo "file system: tmpfs, trees made from snapshots"
} > "$out/machine.txt"

cat > "$work/pauses" <<'SH'
for i in $(seq 150); do
    head -c 20000 /dev/zero > f$i; cat f$i > /dev/null; mv f$i g$i; sleep 0.02; rm g$i
done
SH
cat > "$work/compile" <<'SH'
for round in 1 2 3; do
    for i in $(seq 12); do
        echo "#include <stdio.h>
int f$i(int x) { printf(\"%d\", x); return x * $i; }" > s$i.c
    done
    for i in 1 3 5 7 9 11; do
        cc -O1 -c s$i.c -o s$i.o & cc -O1 -c s$((i + 1)).c -o s$((i + 1)).o & wait
    done
    ar rcs liball.a s*.o; rm s*.o liball.a
done
SH
cat > "$work/tree" <<'SH'
git init -q . 2> /dev/null; git config user.email a@b.c; git config user.name n
for commit in 1 2 3 4 5; do
    mkdir -p d$commit
    for i in $(seq 60); do echo "$commit $i" > d$commit/f$i; done
    git add . > /dev/null; git commit -q -m "$commit"
done
git checkout -q HEAD~3; git checkout -q -; git status > /dev/null
SH
for name in pauses compile tree; do
    case $name in
        compile) command -v cc > /dev/null || continue ;;
        tree) command -v git > /dev/null || continue ;;
    esac
    for run in 1 2 3; do
        rm -rf "$work/src" "$work/on"
        mkdir "$work/src" "$work/on"
        "$fsage" snapshot "$work/src" -o "$work/$name.fss" 2> /dev/null
        (cd "$work/src" && "$fsage" trace --under . -o "$work/$name.fst" -- sh "$work/$name" > /dev/null) 2>> "$out/stderr.txt"
        "$fsage" replay "$work/$name.fst" "$work/on" --snapshot "$work/$name.fss" --speed original \
            --verify --json > "$out/$name-$run.json" 2>> "$out/stderr.txt" || echo "$name $run: exit $?" >> "$out/stderr.txt"
    done
done
for file in "$out"/*.json; do
    python3 - "$file" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
t = r["timing"]
e = t["start_error"]
print(f"{sys.argv[1].rsplit('/', 1)[1]:16} replayed {r['replayed']:6} differ {r['differ']:4} wrong {r['verified']['wrong']:3} "
      f"traced {t['traced_elapsed_ns'] / 1e9:7.3f} s ratio {t['ratio']:.4f} "
      f"start error p50 {e['p50_ns'] / 1e3:8.1f} us p99 {e['p99_ns'] / 1e3:9.1f} us max {e['max_ns'] / 1e3:9.1f} us")
PY
done | tee "$out/summary.txt"

#!/usr/bin/env bash
# What a benchmark hides: the study's section 12.2 (Traeger 2007) through `fsage bench`. A compilation
# and three configurations of PostMark on ext2, with read, write and lookup slowed (benchmarks/study-12.2.toml).
#
#   sudo benchmarks/study-12.2.sh [OUTPUT-DIRECTORY [OPTION...]]
#
# Takes about 15 minutes. A run that was stopped goes on where it stopped when it is started again with the
# same directory. Options go to `fsage bench`, for one `--runs 3`. Needs root, /dev/fuse, mkfs.ext2, cc.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-study-12.2}
fsage=${FSAGE:-target/release/fsage}

for tool in mkfs.ext2 cc; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
[ -e /dev/fuse ] || { echo "not run: needs /dev/fuse" >&2; exit 1; }

# The plan names compile.sh by it.
export COMMANDS="$PWD/examples/commands"
mkdir -p "$out"
if [ -e "$out/runs.jsonl" ]; then
    "$fsage" bench --resume --allow-commands -o "$out" "${@:2}" >"$out/tables.txt"
else
    "$fsage" bench benchmarks/study-12.2.toml --allow-commands -o "$out" "${@:2}" >"$out/tables.txt"
fi

# Each workload's slowings against the same without any.
: >"$out/comparison.txt"
for workload in compile "PostMark FSL" "PostMark CVFS" "PostMark CVFS-LARGE"; do
    names=()
    for slow in none read=32 read=4 write=4 lookup=4 read=4,write=4,lookup=4; do
        names+=(--config "slowfs / $workload / target.slow=$slow")
    done
    "$fsage" compare "$out" "${names[@]}" --metric elapsed >>"$out/comparison.txt"
done
cat "$out/tables.txt" "$out/comparison.txt"

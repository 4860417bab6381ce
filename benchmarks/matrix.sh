#!/usr/bin/env bash
# How far predictions can be trusted, over the whole matrix: ext2, ext4, xfs and btrfs in memory and on
# an emulated 7200 rpm disk, seven workloads (benchmarks/matrix.toml).
#
#   sudo benchmarks/matrix.sh [OUTPUT-DIRECTORY [OPTION...]]
#
# Takes an hour or more. A run that was stopped goes on where it stopped when it is started again with the
# same directory. Options go to `fsage validate`, for one `--workload PostMark`. MATRIX_TREE is the source
# tree that is copied, searched, archived and deleted (default /usr/include/linux). Needs root, xfsprogs
# and btrfs-progs, and /dev/fuse.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-matrix}
fsage=${FSAGE:-target/release/fsage}

for tool in mkfs.xfs mkfs.btrfs; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
[ -e /dev/fuse ] || { echo "not run: needs /dev/fuse" >&2; exit 1; }

mkdir -p "$out"
cp benchmarks/matrix.toml "$out/plan.toml"
{
    echo "command: benchmarks/matrix.sh"
    machine
    echo "tree: ${MATRIX_TREE:-/usr/include/linux}, $(find "${MATRIX_TREE:-/usr/include/linux}" | wc -l) entries"
} >"$out/machine.txt"
"$fsage" validate benchmarks/matrix.toml --allow-commands --output "$out" --resume "${@:2}" | tee "$out/tables.txt"

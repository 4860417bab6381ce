#!/bin/sh
# How long a layout of many files and a snapshot of unchanged ones take.
#
# usage: benchmarks/layout.sh [REPETITIONS] [DIRECTORY]
#
# Prints one line of JSON per repetition: `fsage layout` of 100,000 files, a whole `fsage snapshot` of 200,000 and
# one with --previous of which nothing has changed, all warm, on an ext4 in an image in DIRECTORY (default /dev/shm).
# FSAGE names a program that is built already. Needs root, mkfs.ext4, python3 and jq.
set -eu
cd "$(dirname "$0")/.."
repetitions=${1:-5}
work=$(TMPDIR=${2:-/dev/shm} mktemp -d)
end() {
    mountpoint -q "$work/fs" && umount "$work/fs"
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
if [ -z "${FSAGE:-}" ]; then
    cargo build --release --quiet
    FSAGE=${CARGO_TARGET_DIR:-target}/release/fsage
fi
truncate -s 4G "$work/image"
mkfs.ext4 -q -N 300000 "$work/image"
mkdir "$work/fs"
mount -o loop "$work/image" "$work/fs"
python3 - "$work/fs" <<'PY'
import os, sys
root = sys.argv[1]
for half in ("one", "two"):
    for directory in range(1000):
        path = f"{root}/{half}/{directory}"
        os.makedirs(path)
        for file in range(100):
            with open(f"{path}/{file}", "wb") as out:
                out.write(b"x" * (500 + 97 * file))
PY
sync
# What is younger than two seconds is read anew.
sleep 3
took() {
    from=$(date +%s%N)
    "$@" >/dev/null
    echo $(($(date +%s%N) - from))
}
"$FSAGE" --quiet snapshot "$work/fs" -o "$work/warm.fss"
i=0
while [ "$i" -lt "$repetitions" ]; do
    layout=$(took "$FSAGE" layout "$work/fs/one" --json)
    whole=$(took "$FSAGE" --quiet snapshot "$work/fs" -o "$work/whole.fss")
    since=$(took "$FSAGE" --quiet snapshot "$work/fs" --previous "$work/whole.fss" -o "$work/since.fss" --json)
    unchanged=$("$FSAGE" --quiet snapshot "$work/fs" --previous "$work/whole.fss" -o "$work/since.fss" --json | jq .unchanged)
    printf '{"layout_100000_files_ns":%s,"snapshot_200000_files_ns":%s,"snapshot_unchanged_ns":%s,"unchanged":%s}\n' \
        "$layout" "$whole" "$since" "$unchanged"
    i=$((i + 1))
done

#!/bin/bash
# Rebuilds fsage.bpf.o and compares it with the committed one: check.sh. Fails where they differ.
# Only the same major version of clang gives the same bytes; with another, or none, nothing is
# compared, and the answer says so.
set -euo pipefail
cd "$(dirname "$0")"
committed=14
clang=clang
command -v "clang-$committed" >/dev/null && clang=clang-$committed
if ! command -v "$clang" >/dev/null || ! [ -e /usr/include/bpf/bpf_helpers.h ]; then
    echo "fsage.bpf.o: not compared: needs clang $committed, llvm-strip and libbpf-dev"
    exit 0
fi
major=$("$clang" -dumpversion | cut -d. -f1)
if [ "$major" != "$committed" ]; then
    echo "fsage.bpf.o: not compared: clang $major, committed with $committed"
    exit 0
fi
new=$(mktemp --suffix=.o)
trap 'rm -f "$new"' EXIT
if [ "$clang" = "clang-$committed" ] && command -v "llvm-strip-$committed" >/dev/null; then
    CLANG_VERSION=$committed ./build.sh "$new"
else
    ./build.sh "$new"
fi
if cmp -s "$new" fsage.bpf.o; then
    echo "fsage.bpf.o: what its sources say"
else
    echo "fsage.bpf.o: differs from its sources; run crates/capture/bpf/build.sh" >&2
    exit 1
fi

#!/bin/bash
# Builds fsage.bpf.o beside its source: build.sh [OUTPUT]. Needs clang, llvm-strip and libbpf's
# headers; nothing else in the project does.
set -euo pipefail
cd "$(dirname "$0")"
output=${1:-fsage.bpf.o}
version=${CLANG_VERSION:-}
# The paths of the build must not end up in the object.
"clang${version:+-$version}" -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Wall -Werror \
    -Wno-unused-function -fdebug-compilation-dir=. -c fsage.bpf.c -o "$output.tmp"
"llvm-strip${version:+-$version}" -g "$output.tmp"
mv "$output.tmp" "$output"

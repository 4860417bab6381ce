#!/bin/sh
# A compilation as a workload: C files that include headers of their own, compiled one by one, linked.
#
#   sh compile.sh setup FILES    writes FILES sources and a fourth as many headers into ./compile
#   sh compile.sh run            compiles and links what is there, and removes what came out
#
# As a workload of fsage, in a target directory that was set up before:
#   cmd:sh /path/to/compile.sh run
# Needs cc. Only the compiler's reads and writes below the target are the target's; its own files,
# and /tmp, are not.
set -eu

case "${1:-}" in
setup)
    files=${2:?"number of files"}
    mkdir -p compile/include compile/src
    headers=$(((files + 3) / 4))
    i=0
    while [ "$i" -lt "$headers" ]; do
        {
            echo "#pragma once"
            awk -v h="$i" 'BEGIN { for (k = 0; k < 40; k++) printf "int value_%d_%d(int x);\n", h, k }'
        } >"compile/include/part$i.h"
        i=$((i + 1))
    done
    i=0
    while [ "$i" -lt "$files" ]; do
        awk -v f="$i" -v headers="$headers" 'BEGIN {
            for (k = 0; k < 3; k++) printf "#include \"part%d.h\"\n", (f + k) % headers
            for (k = 0; k < 30; k++)
                printf "int f%d_%d(int x) { int s = %d; for (int i = 0; i < x; i++) s += i * s; return s; }\n", f, k, k + 1
        }' >"compile/src/file$i.c"
        i=$((i + 1))
    done
    echo "int f0_0(int x); int main(void) { return f0_0(1) > 99; }" >compile/src/main.c
    ;;
run)
    cd compile
    for source in src/*.c; do
        cc -O1 -Iinclude -c "$source" -o "${source%.c}.o"
    done
    cc -o program src/*.o
    ./program
    rm -f program src/*.o
    ;;
*)
    echo "usage: compile.sh setup FILES | run" >&2
    exit 2
    ;;
esac

#!/bin/sh
# An archive as a workload: a tree is packed, unpacked beside it, compared and removed.
#
#   sh tar.sh setup FILES    makes a tree of FILES files, 1 to 32 KiB, in directories of 20
#   sh tar.sh run            packs, unpacks, compares, removes the copy
#
# As a workload of fsage, in a target directory that was set up before:
#   cmd:sh /path/to/tar.sh run
# Needs tar.
set -eu

case "${1:-}" in
setup)
    files=${2:?"number of files"}
    i=0
    while [ "$i" -lt "$files" ]; do
        directory="tree/d$((i / 20))"
        mkdir -p "$directory"
        # Sizes from a fixed sequence, so that every run has the same tree.
        head -c $((1024 + i * 7919 % 31744)) /dev/urandom >"$directory/f$i"
        i=$((i + 1))
    done
    ;;
run)
    tar -cf tree.tar tree
    mkdir copy
    tar -xf tree.tar -C copy
    diff -r tree copy/tree
    rm -r copy tree.tar
    ;;
*)
    echo "usage: tar.sh setup FILES | run" >&2
    exit 2
    ;;
esac

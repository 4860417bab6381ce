#!/usr/bin/env bash
# What of fsage is on the machine: mounts, loop devices, temporary files.
#   clean.sh list           prints them
#   clean.sh check BEFORE   fails if there is something that the file BEFORE does not list
set -euo pipefail

list() {
    grep fsage /proc/self/mounts || :
    for backing in /sys/block/loop*/loop/backing_file; do
        [ -e "$backing" ] && grep -H fsage "$backing" || :
    done
    find "${TMPDIR:-/tmp}" /dev/shm -maxdepth 1 -name '*fsage*' 2>/dev/null || :
}

case "${1:-}" in
    list) list | sort ;;
    check)
        left=$(list | sort | comm -23 - "$2")
        [ -z "$left" ] || { printf 'left behind:\n%s\n' "$left"; exit 1; }
        ;;
    *)
        echo "usage: clean.sh list | clean.sh check BEFORE" >&2
        exit 2
        ;;
esac

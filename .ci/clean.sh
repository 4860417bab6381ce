#!/usr/bin/env bash
# What of fsage is on the machine: mounts, loop devices, processes of this repository's programs, temporary files.
#   clean.sh list           prints them
#   clean.sh check BEFORE   fails if there is something that the file BEFORE does not list
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd -P)

# Whether a fsage from elsewhere has a device open.
held() {
    local process program
    for process in /proc/[0-9]*; do
        program=$(readlink "$process/exe" 2>/dev/null) || continue
        case "$program" in
            "$root"/target/*) ;;
            */fsage*) find "$process/fd" -lname "$1" 2>/dev/null | grep -q . && return ;;
        esac
    done
    return 1
}

list() {
    grep fsage /proc/self/mounts || :
    for backing in /sys/block/loop*/loop/backing_file; do
        [ -e "$backing" ] && grep -H fsage "$backing" || :
        # An image that never had a name; one that a fsage from elsewhere holds is not ours.
        device=${backing#/sys/block/} device=/dev/${device%%/*}
        [ -e "$backing" ] && grep -qE '/#[0-9]+ \(deleted\)$' "$backing" && ! held "$device" &&
            grep -H . "$backing" || :
    done
    for exe in /proc/[0-9]*/exe; do
        program=$(readlink "$exe" 2>/dev/null) || continue
        case "$program" in "$root"/target/*/fsage*) echo "process ${exe//[!0-9]/}: $program" ;; esac
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

#!/usr/bin/env bash
# After the tests and the demo: no mount, loop device or temporary file of fsage is left.
set -euo pipefail
bad=0
if grep fsage /proc/self/mounts; then
    echo "a mount is left"
    bad=1
fi
for backing in /sys/block/loop*/loop/backing_file; do
    [ -e "$backing" ] || continue
    if grep -H fsage "$backing"; then
        echo "a loop device is left"
        bad=1
    fi
done
left=$(find "${TMPDIR:-/tmp}" /dev/shm -maxdepth 1 -name '*fsage*' 2>/dev/null || echo)
if [ -n "$left" ]; then
    echo "left behind: $left"
    bad=1
fi
exit "$bad"

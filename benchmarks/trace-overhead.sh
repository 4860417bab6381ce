#!/bin/bash
# What tracing costs PostMark: trace-overhead.sh DIRECTORY [PAIRS] [FSAGE]
#
# DIRECTORY is an empty place on the file system to use (a RAM-backed ext4, for figures that can be
# compared). Runs pairs of PostMark untraced and under `fsage trace`, alternating, and prints the
# medians of PostMark's own elapsed time, of the whole command's, their ratios, events lost, bytes
# per event, and the largest memory of the tracer. Needs postmark, GNU time, jq; eBPF needs root.
set -euo pipefail
directory=${1:?a directory to work in}
pairs=${2:-5}
fsage=${3:-fsage}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/config" <<CONFIG
set location $directory
set number 20000
set transactions 60000
set size 512 16384
set subdirectories 50
run
quit
CONFIG
# The command's own time, without the tracer's start and end.
cat > "$work/timed" <<TIMED
#!/bin/bash
exec /usr/bin/time -a -o "\$1" -f %e postmark "$work/config"
TIMED
chmod +x "$work/timed"

median() { sort -n "$1" | awk '{v[NR]=$1} END {print NR%2 ? v[(NR+1)/2] : (v[NR/2]+v[NR/2+1])/2}'; }

for _ in $(seq "$pairs"); do
    "$work/timed" "$work/plain" > /dev/null
    /usr/bin/time -a -o "$work/whole" -f "%e %M" \
        "$fsage" trace -o "$work/trace.fst" -- "$work/timed" "$work/traced" > /dev/null
    "$fsage" show "$work/trace.fst" --json | jq -r '"\(.operations) \(.lost)"' >> "$work/counts"
    stat -c %s "$work/trace.fst" >> "$work/bytes"
done
awk '{print $1}' "$work/whole" > "$work/elapsed"
plain=$(median "$work/plain") traced=$(median "$work/traced") whole=$(median "$work/elapsed")
awk '{print $1}' "$work/counts" > "$work/operations"
operations=$(median "$work/operations") bytes=$(median "$work/bytes")
echo "untraced             $plain s"
echo "traced               $traced s, $(echo "scale=3; $traced / $plain" | bc) times"
echo "whole fsage trace    $whole s, $(echo "scale=3; $whole / $plain" | bc) times"
echo "operations           $operations, lost $(awk '{n += $2} END {print n}' "$work/counts")"
echo "bytes per operation  $(echo "scale=2; $bytes / $operations" | bc)"
echo "tracer's memory      $(awk '$2 > m {m = $2} END {print m}' "$work/whole") KiB"

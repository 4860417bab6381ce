#!/bin/sh
# What fitting a model (.fsm) costs: time for a million operations, and memory as traces become longer. Traces are of
# PostMark, whose files come and go, and of a mail server's threads, whose files stay; both are seeded, on the oracle.
# Usage: benchmarks/model-fit.sh [OUT-DIRECTORY]
# Goal: under 30 s a million, in memory that does not grow with the number of operations but for a dozen bytes a visit.
# TRANSACTIONS names the lengths of PostMark (8 operations each); FSAGE the binary. Needs GNU time.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
begin model-fit "$@"
printf 'workload\toperations\tseconds\tseconds_a_million\tmemory_mib\tmodel_kib\n' >"$out/table.tsv"
for workload in $(for n in ${TRANSACTIONS:-12500 125000 1250000}; do
    echo "postmark:files=20000,transactions=$n"
done) ${PERSONALITIES-varmail}; do
    trace=$kept/trace.fst
    case $workload in
    postmark:*) "$fsage" run "$workload" mem:fast --trace "$trace" >/dev/null 2>"$kept/said" ;;
    *) "$fsage" run "$workload" mem:fast --ops "${OPERATIONS:-100000}" --trace "$trace" >/dev/null 2>"$kept/said" ;;
    esac
    command time -f '%e %M' -o "$kept/took" "$fsage" model fit "$trace" -o "$kept/m.fsm" >"$kept/fit"
    read -r seconds kib <"$kept/took"
    operations=$(sed -n 's/^operations = //p' "$kept/m.fsm")
    size=$(wc -c <"$kept/m.fsm")
    echo "$workload $operations $seconds $kib $size" | awk '{
        printf "%s\t%d\t%.1f\t%.1f\t%d\t%.1f\n", $1, $2, $3, $3 / $2 * 1e6, $4 / 1024, $5 / 1024 }' >>"$out/table.tsv"
done
column -t -s "$(printf '\t')" "$out/table.tsv"

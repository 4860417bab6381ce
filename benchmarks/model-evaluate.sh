#!/bin/sh
# How far models (.fsm) of built-in workloads are off on the three built-in oracles (docs/mem.md): no noise, the same
# in every run. Each workload is traced on mem:disk, a model is fitted to that, and both run side by side.
# Usage: benchmarks/model-evaluate.sh [OUT-DIRECTORY]
# Goal: all figures within half of the strict limits of docs/model-files.md. FSAGE names the binary. Needs jq.
set -eu
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
begin model-evaluate "$@"
# The rows of the table in docs/model-files.md, then others. What begins with corpus/ is a real trace with its snapshot.
# Half of fileserver's files: all of them are 1,000 MiB, and mem: holds 1,024 (docs/mem.md).
for workload in ${WORKLOADS:-postmark:files=500,transactions=2000 varying:config=c,chunks=3,ops=500 \
    varying:config=d,chunks=5,ops=100 varying:config=e,chunks=3,ops=500 webproxy webserver fileserver:nfiles=5000 \
    corpus/traces/build.fst corpus/traces/database.fst corpus/traces/mail.fst sdet:scripts=4 \
    wml:benchmarks/workloads/backup-beside-server.f \
    varmail andrew lfs-small:files=500 mongo bonnie:size=4M,files=200}; do
    case $workload in
    varying:config=*) name=varying-${workload#varying:config=} name=${name%%,*} ;;
    wml:* | corpus/*) name=$(basename "${workload%.*}") ;;
    *) name=${workload%%:*} ;;
    esac
    trace=$kept/$name.fst
    set --
    case $workload in
    corpus/*) trace=$workload ;;
    # Personalities go on until they are told to end.
    varmail | webproxy | webserver | fileserver* | mongo | wml:*)
        "$fsage" run "$workload" mem:disk --ops "${OPERATIONS:-2000}" --trace "$trace" >/dev/null 2>>"$out/said.txt" ;;
    *) "$fsage" run "$workload" mem:disk --trace "$trace" >/dev/null 2>>"$out/said.txt" ;;
    esac
    if [ -e "${trace%.fst}.fss" ]; then
        set -- --snapshot "${trace%.fst}.fss"
    fi
    "$fsage" model fit "$trace" "$@" -o "$kept/$name.fsm" >/dev/null 2>>"$out/said.txt"
    # Exit code 3: a figure is off by more than its limit, which is what is asked.
    "$fsage" model evaluate "$trace" "$kept/$name.fsm" "$@" --strict \
        --on mem:fast --on mem:disk --on mem:tiny --json >"$kept/$name.json" 2>>"$out/said.txt" || [ $? -eq 3 ] || continue
    gzip -9nc "$kept/$name.json" >"$out/$name.json.gz"
done
for result in "$out"/*.json.gz; do
    name=$(basename "$result" .json.gz)
    zcat "$result" | jq -r --arg name "$name" '.targets[] | . as $t | .figures[] | select(.limit != null) |
        [$name, $t.name, .name, .original.mean, .model.mean,
         (if .error == null then "" else .error * 1000 | round / 10 end), .limit * 100, .within] | @tsv'
done >"$kept/figures.tsv"
{
    printf 'workload\ttarget\tfigure\toriginal\tmodel\terror_percent\tlimit_percent\twithin\n'
    cat "$kept/figures.tsv"
} >"$out/figures.tsv"
for result in "$out"/*.json.gz; do
    zcat "$result" | jq -r --arg name "$(basename "$result" .json.gz)" '"\($name): \(.missed) of \(.judged) missed; \(
        .ranking.same | if . then "ranks alike" else "ranks otherwise" end)"'
done

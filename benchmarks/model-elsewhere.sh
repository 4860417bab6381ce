#!/usr/bin/env bash
# Do a workload and its model run alike on file systems that the trace never saw? Each workload is traced on ext4, a model
# is fitted to that, and both run side by side on the other file systems and on one on an emulated 7200 rpm disk.
#
#   sudo benchmarks/model-elsewhere.sh [OUT-DIRECTORY]
#
# Goal (docs/model-files.md): throughput of both differs by at most 15 % on each, and both rank the file systems alike.
# Peers in the same run: the model exported to fio and run by Debian's fio, exported to filebench and run by filebench
# where there is one, and the script of the personality itself, run for as long.
# SECONDS_EACH (20) is how long an original is; RUNS (3) of each side on each target; WORKLOADS, TARGETS and FSAGE may be
# given. With the defaults it ends within 15 minutes on two processors; it needs root, /dev/fuse, jq, mkfs.xfs and
# mkfs.btrfs, and a machine on which nothing else runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-model-elsewhere}
fsage=${FSAGE:-target/release/fsage}
each=${SECONDS_EACH:-20} runs=${RUNS:-3}
read -ra targets <<<"${TARGETS:-scratch:ext4 scratch:xfs scratch:btrfs scratch:ext2 scratch:ext4,on=disk:hdd-7200}"
[ "$(id -u)" = 0 ] || { echo "not run: needs root" >&2; exit 1; }
for tool in jq mkfs.xfs mkfs.btrfs; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
[ -e /dev/fuse ] || { echo "not run: needs /dev/fuse" >&2; exit 1; }
mkdir -p "$out"
out=$(realpath "$out")
kept=$(mktemp -d)
mounted=
# What is still in use stays, and is named: nothing is removed through a mount.
finish() {
    if [ -n "$mounted" ] && ! umount "$mounted"; then
        echo "left: $mounted is in use, and $kept with it" >&2
        exit 1
    fi
    rm -rf "$kept"
}
trap finish EXIT
{
    echo "command: benchmarks/model-elsewhere.sh, $each s of each workload, $runs runs"
    machine
} >"$out/machine.txt"
on=()
for target in "${targets[@]}"; do on+=(--on "$target"); done

# A peer in a directory of a new ext4: operations a second, as it tells them.
peer() {
    local name=$1 log=$2
    shift 2
    if ! command -v "$1" >/dev/null; then
        printf '%s\t%s\tnot run: no %s here\n' "$workload" "$name" "$1" >>"$out/peers.tsv"
        return
    fi
    if [ "$1" = filebench ]; then
        sed "s|^set \$dir=.*|set \$dir=$kept/mount|" "$3" >"$kept/peer.f"
        grep -q '^run' "$kept/peer.f" || echo "run $each" >>"$kept/peer.f"
        set -- filebench -f "$kept/peer.f"
    fi
    truncate -s 2G "$kept/image"
    mkfs.ext4 -q -F "$kept/image"
    mkdir -p "$kept/mount"
    mount -o loop "$kept/image" "$kept/mount"
    mounted=$kept/mount
    local status=0
    (cd "$mounted" && timeout 120 "$PEER_RUN" "$@") >"$log" 2>&1 || status=$?
    umount "$mounted"
    mounted=
    rm -f "$kept/image"
    printf '%s\t%s\t%s\n' "$workload" "$name" "$("told_by_${name%%-*}" "$log" || echo "failed ($status)")" >>"$out/peers.tsv"
}
# filebench needs addresses that stay: it shares memory between its processes.
PEER_RUN=$kept/run
printf '#!/bin/sh\nexec setarch -R "$@"\n' >"$PEER_RUN"
chmod +x "$PEER_RUN"
told_by_fio() {
    # Warnings stand before the object. Phases follow one another; a short one takes no whole millisecond.
    sed -n '/^{/,$p' "$1" | jq -er '([.jobs[] | .read.total_ios + .write.total_ios] | add) as $all
        | ([.jobs[] | {phase: (.jobname | split("-")[0]), ms: .job_runtime}] | group_by(.phase)
            | map(map(.ms) | max) | add / 1000) as $s
        | "\($all) transfers, " + if $s > 0 then "\($all / $s | round) a second" else "in less than a millisecond" end'
}
told_by_filebench() { grep -m1 -o 'IO Summary.*' "$1"; }

: >"$out/peers.tsv"
status=0
for workload in ${WORKLOADS:-postmark:files=2000,transactions=20000 varmail fileserver webserver}; do
    name=${workload%%:*}
    length=()
    case $name in postmark) ;; *) length=(--for "${each}s") ;; esac
    "$fsage" run "$workload" scratch:ext4 "${length[@]}" --trace "$kept/$name.fst" --quiet >"$out/$name.run.txt"
    "$fsage" model fit "$kept/$name.fst" -o "$out/$name.fsm" >"$out/$name.fit.txt"
    # Exit code 3: a figure is off by more than its limit.
    "$fsage" model evaluate "$kept/$name.fst" "$out/$name.fsm" "${on[@]}" --runs "$runs" --json \
        >"$kept/$name.json" 2>>"$out/said.txt" || [ $? -eq 3 ] || { status=1; continue; }
    gzip -9nc "$kept/$name.json" >"$out/$name.json.gz"
    "$fsage" export "$out/$name.fsm" --to fio -o "$out/$name.fio" >>"$out/said.txt" 2>&1
    peer fio "$out/$name.fio.json" fio --output-format=json --directory=. "$out/$name.fio"
    "$fsage" export "$out/$name.fsm" --to filebench -o "$out/$name.f" >>"$out/said.txt" 2>&1
    peer filebench-model "$out/$name.filebench.txt" filebench -f "$out/$name.f"
    case $name in
    postmark) ;;
    *)
        peer filebench-personality "$out/$name.personality.txt" filebench \
            -f "$PWD/crates/workload/src/wml/personalities/$name.f" ;;
    esac
done
for result in "$out"/*.json.gz; do
    zcat "$result" | jq -r --arg name "$(basename "$result" .json.gz)" '. as $e | .targets[] | . as $t | .figures[]
        | select(.name == "throughput") | [$name, $t.spec, (.original.mean | round), (.model.mean | round),
            (.error * 1000 | round / 10), ((.error_interval // []) | map(. * 1000 | round / 10 | tostring) | join(" to ")),
            (if (.error | fabs) <= 0.15 then "within 15 %" else "off" end),
            (if $e.ranking == null then "" elif $e.ranking.same then "ranks alike" else "ranks otherwise" end)] | @tsv'
done >"$out/table.tsv"
{
    printf 'workload\ttarget\toriginal_ops_s\tmodel_ops_s\terror_percent\tinterval_percent\twithin\tranking\n'
    cat "$out/table.tsv"
} | column -t -s "$(printf '\t')"
cat "$out/peers.tsv"
exit "$status"

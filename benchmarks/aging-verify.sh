#!/usr/bin/env bash
# Is an artificially aged file system like the one that it is made after? The papers' own test (Smith 2001, 3.2.3): real
# activity for some days on an ext2 and an ext4 in memory, a snapshot at each day's end; an aging workload from these
# snapshots alone, applied to a fresh file system of the same kind, size and options; then both beside each other.
#
#   sudo benchmarks/aging-verify.sh [OUT [DAYS [SIZE [HISTORIES [KINDS]]]]]
#
# HISTORIES: "git users mail" (benchmarks/aging-history.py), KINDS: "ext2 ext4". Four workloads of each: deletions
# uniformly at random as in the papers or learnt, without and with short-lived files, which are learnt from the traces
# of two days. OUT gets verify.tsv and verify.md, and what they are made from: the real and the simulated layouts. With
# KEEP=DIR images of the real, of the last simulated and of a freshly copied file system are kept there, for
# benchmarks/aging-hot.sh. Goals: the aggregate layout score at the end within 0.03 on ext2 and 0.05 on ext4 (the
# thesis: 0.876 for 0.815; the 1996 paper: 0.77 for 0.68). FSAGE names a program that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
. benchmarks/machine.sh
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-aging-verify}
days=${2:-30} size=${3:-512M} histories=${4:-git users mail} kinds=${5:-ext2 ext4}
[ "$(id -u)" = 0 ] || { echo "not run: needs root" >&2; exit 1; }
for tool in jq python3 git mkfs.ext4; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done
# Mounts are this script's alone, whatever ends it.
if [ -z "${AGING_VERIFY_ALONE:-}" ]; then
    AGING_VERIFY_ALONE=1 exec unshare -m "$0" "$@"
fi
fsage=${FSAGE:-}
if [ -z "$fsage" ]; then
    cargo build --release --locked --quiet -p fsage
    fsage="${CARGO_TARGET_DIR:-target}/release/fsage"
fi
fsage=$(realpath "$fsage")
mkdir -p "$out"
out=$(realpath "$out")
history=$(realpath benchmarks/aging-history.py)
table=$(realpath benchmarks/aging-table.py)
work=$(mktemp -d -p /dev/shm)
end() {
    mountpoint -q "$work/mnt" && umount "$work/mnt"
    rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM
{
    echo "command: benchmarks/aging-verify.sh, $days days, $size, histories $histories, on $kinds"
    machine
} >"$out/machine.txt"
cd "$work"
mkdir -p mnt aux

# The same file system each time: also where directories go depends on the identity.
fresh() {
    mountpoint -q mnt && umount mnt
    rm -f image
    truncate -s "$size" image
    "mkfs.$1" -q -F -b 4096 -U 0b1f6f5e-7f7e-4a0a-9d5c-3c1f6d1a9e01 \
        -E hash_seed=5f0c3a52-9a7d-4b43-8f56-1d2c1f0a7b11,lazy_itable_init=0 image
    mount -o loop image mnt
    rmdir mnt/lost+found
}
keep() {
    [ -z "${KEEP:-}" ] || { mkdir -p "$KEEP" && "$fsage" -q age keep mnt -o "$KEEP/$1.fsi"; }
}
for history_name in $histories; do
    for kind in $kinds; do
        name=$kind-$history_name
        rm -rf nights traces && mkdir nights traces
        fresh "$kind"
        for ((day = 0; day < days; day++)); do
            now=(python3 -B "$history" "$history_name" mnt "$day" "$days" 1 "$PWD/aux")
            begin=$EPOCHREALTIME
            if ((day == days / 3 || day == days * 2 / 3)); then
                "$fsage" -q trace --under mnt -o "traces/$day.fst" -- "${now[@]}"
            else
                "${now[@]}"
            fi
            took=$(echo "$begin $EPOCHREALTIME" | awk '{print $2 - $1}')
            sync -f mnt
            "$fsage" -q snapshot mnt -o "$(printf nights/day-%03d.fss "$day")"
            [ ! -e "traces/$day.fst" ] || echo "$took" >"traces/$day.s"
        done
        "$fsage" layout mnt --free --by-size --json >"$out/$name-real.json"
        "$fsage" layout nights/*.fss --json >"$out/$name-days.json"
        keep "$name-real"
        # The files of the last fifth of the days, in the order of their directories.
        since=$(stat -c %Y "$(printf nights/day-%03d.fss $((days * 4 / 5 - 1)))")
        (cd mnt && find . -type f -newermt "@$since" -print0 | sort -z) >"$out/$name-hot.txt"
        if [ -n "${KEEP:-}" ]; then
            mkdir copy && cp -a mnt/. copy/ && fresh "$kind" && cp -a copy/. mnt/ && sync -f mnt && rm -rf copy
            keep "$name-fresh"
        fi
        day_s=$(cat traces/*.s | awk '{s += $1} END {printf "%.3f", s / NR}')
        "$fsage" -q age short-lived traces/*.fst --day "${day_s}s" -o short.toml
        for deletes in uniform learnt; do
            for short in without with; do
                options=(--deletes "$deletes")
                [ "$short" = without ] || options+=(--short-lived short.toml)
                "$fsage" -q age generate --from-snapshots nights "${options[@]}" -o w.fst
                fresh "$kind"
                "$fsage" -q age apply w.fst mnt --json >applied.json || [ $? = 3 ]
                "$fsage" layout mnt --free --by-size --json >"$out/$name-$deletes-$short.json"
                "$fsage" layout nights/*.fss --against applied.json --json >"$out/$name-$deletes-$short-days.json"
                jq -c '{operations: .tally.operations, written_bytes: .tally.written_bytes, no_space: .tally.no_space, absent: .tally.absent}' \
                    applied.json >"$out/$name-$deletes-$short-applied.json"
            done
        done
        keep "$name-simulated"
        umount mnt
        python3 -B "$table" "$out" >/dev/null
    done
done
python3 -B "$table" "$out"

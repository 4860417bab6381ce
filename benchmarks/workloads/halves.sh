#!/usr/bin/env bash
# How the halves of benchmarks/matrix.toml were drawn. Nobody had worked with the workloads below. They stand in pairs of
# a like kind, so that neither half lacks a kind; of each pair the one whose SHA-256 of "SEED NAME" is the smaller is
# sealed. SEED is the plan's `sealed_seed`. The seven workloads that the model was made with are open, and
# so are those after `restic` in the plan, which nobody had worked with either, but for substitutes.
#
#   benchmarks/workloads/halves.sh            # what was drawn
#   benchmarks/workloads/halves.sh --check    # whether the plan's marks are that, but for those in `moved`
set -euo pipefail
plan=$(dirname "$0")/../matrix.toml
pairs=("pgbench mariadb" "sqlite-wal sqlite-rollback" "leveldb borg" "autotools cmake" "compile processes"
    "git-clone git-gc" "byte-compile pip" "zip rsync" "layers dpkg" "maildir mbox" "nginx search"
    "fio-psync fio-mmap" "fio-direct logs")
# What was sealed and is open now, as something was changed because of it: "NAME SUBSTITUTE", in the order of the moves. The
# substitute is sealed, until it moves itself.
moved=("compile thumbs" "rsync cpio" "thumbs manuals" "cpio squashfs" "maildir procmail" "dpkg rpm" "fio-direct dd" "manuals wordlists"
    "borg restic" "fio-mmap lmdb" "rpm fossil")
seed=$(sed -n 's/^# sealed_seed = \([0-9]*\).*/\1/p' "$plan")

draw() {
    local pair name
    for pair in "${pairs[@]}"; do
        for name in $pair; do
            printf '%s %s\n' "$(printf '%s %s' "$seed" "$name" | sha256sum | cut -c1-64)" "$name"
        done | sort | awk '{ print (NR == 1 ? "sealed" : "open"), $2 }'
    done
}

if [ "${1:-}" != --check ]; then
    draw
    exit
fi
expected=" $(draw | sed -n 's/^sealed //p' | tr '\n' ' ')"
for move in ${moved[@]+"${moved[@]}"}; do
    expected=${expected/ ${move% *} / ${move#* } }
done
marked=$(awk '/^\[\[/ { name = "" } /^name = / { name = $3 } /^sealed = true/ { print name }' "$plan" | tr -d '"' | sort)
if [ "$marked" != "$(tr ' ' '\n' <<<"$expected" | sed '/^$/d' | sort)" ]; then
    printf 'the plan seals\n%s\nand not, as was drawn,%s\n' "$marked" "$expected" >&2
    exit 1
fi

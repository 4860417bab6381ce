#!/usr/bin/env bash
# How far predictions can be trusted: ext4, xfs, btrfs and ext2 on RAM-backed scratch, with PostMark,
# a source tree, a compile and an fsync-heavy workload.
#
#   sudo benchmarks/validate-ram.sh [OUTPUT-DIRECTORY [SOURCE-TREE [C-SOURCES]]]
#
# SOURCE-TREE is copied, searched, archived and deleted (default /usr/include). C-SOURCES is a
# directory with *.c files that compile on their own (default: a small library that is written for the
# occasion). Needs root, xfsprogs, btrfs-progs, cc and sqlite3.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-benchmarks/runs/$(date +%Y-%m-%d)-validate-ram}
tree=${2:-/usr/include}
sources=${3:-}
runs=${RUNS:-3}
fsage=${FSAGE:-target/release/fsage}

for tool in mkfs.xfs mkfs.btrfs cc sqlite3; do
    command -v "$tool" >/dev/null || { echo "not run: needs $tool" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "$sources" ]; then
    sources=$work/library
    mkdir -p "$sources"
    for i in $(seq 60); do
        {
            echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'
            echo "#include \"shared.h\""
            for f in $(seq 20); do
                echo "int f${i}_$f(int x) { char b[64]; snprintf(b, sizeof b, \"%d\", x * $f); return atoi(b) + (int)strlen(b) + SHARED; }"
            done
        } >"$sources/unit$i.c"
    done
    echo '#define SHARED 1' >"$sources/shared.h"
fi
mkdir -p "$out"
cat >"$work/commits.sh" <<'SQL'
{
    echo 'create table t(id integer primary key, v blob);'
    for i in $(seq 180); do echo "begin; insert into t(v) values (randomblob(2000)); commit;"; done
} | sqlite3 mail.db
SQL

"$fsage" validate \
    --target scratch:ext4 --target scratch:xfs --target scratch:btrfs --target scratch:ext2 \
    --workload PostMark=postmark:files=5000,transactions=20000,size=512-16384,subdirs=50 \
    --workload "source tree=cmd: cp -r '$tree' tree && grep -r -c main tree | wc -l >/dev/null && tar cf tree.tar tree && ls -lR tree >/dev/null && rm -r tree tree.tar" \
    --workload "compile=cmd: cp -r '$sources' lib && cd lib && for f in *.c; do cc -O1 -I. -c \$f || exit 1; done && ar rc lib.a *.o && rm -f *.o" \
    --workload "commits=cmd: sh '$work/commits.sh'" \
    --one-cpu --runs "$runs" --output "$out" "${@:4}" | tee "$out/tables.txt"

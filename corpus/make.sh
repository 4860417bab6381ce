#!/usr/bin/env bash
# Makes the corpus anew: as root, on real file systems. The workloads vary between runs as workloads do, so
# everything golden changes with it; `FSAGE_WRITE=1 cargo xtask test -p fsage --test corpus` then writes it.
#   make.sh traces FSAGE          the traces and the snapshots, some minutes
#   make.sh profiles FSAGE        the profiles, some more
# needs gcc, make, sqlite3, fio, python3, jq, e2fsprogs, xfsprogs, btrfs-progs
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
what=${1:?traces or profiles} fsage=$(realpath "${2:?the fsage to use}")

# Names of the machine stay out: a host name and mounts of its own, and work in /srv/work.
if [ -z "${FSAGE_CORPUS_INSIDE:-}" ]; then
    FSAGE_CORPUS_INSIDE=1 exec unshare --mount --uts -- bash "$here/make.sh" "$what" "$fsage"
fi
hostname example
mount -t tmpfs tmpfs /srv
echo quiet >/srv/cmdline
mount --bind /srv/cmdline /proc/cmdline
cp "$fsage" /srv/fsage
fsage=/srv/fsage
export LC_ALL=C HOME=/srv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

profiles() {
    local target file
    for file in ext4:ext4 xfs:xfs btrfs:btrfs ext4-hdd:ext4,on=disk:hdd-7200; do
        target=${file#*:} file=${file%%:*}
        "$fsage" profile "scratch:$target" --quick --quiet -o "/srv/$file.fsp"
        # Without samples, which take most of it, and what only this machine says of itself.
        jq -c '.metrics[].samples = [] | .environment.machine |= (.kernel.release |= sub("-.*"; "")
            | .kernel.build = null | .kernel.command_line = null | .load = {} | .tools = []
            | .processor.mitigations = {}) | .environment.target.kernel_threads = {}
            | .measurement.procedures = []' \
            "/srv/$file.fsp" >"$here/profiles/$file.fsp"
    done
}

# The tree before, then the trace of a command in it.
traced() {
    local name=$1
    shift
    "$fsage" snapshot . --quiet -o "$here/traces/$name.fss"
    "$fsage" trace --quiet --under . -o "$here/traces/$name.fst" -- "$@"
}

traces() {
    truncate -s 1G /srv/image
    mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /srv/image
    mkdir /srv/work
    mount -o loop /srv/image /srv/work
    local name
    for name in build database mail threads mapped failing; do
        mkdir "/srv/work/$name"
        cd "/srv/work/$name"
        "$name"
        cd /
    done
    umount /srv/work
}

build() {
    python3 - <<'PY'
import os
os.makedirs("src/lib"), os.makedirs("include")
for h in range(24):
    with open(f"include/part{h}.h", "w") as f:
        f.write(f"#pragma once\n#include <stdio.h>\nint part{h}(int);\n" + f"/* {h} */\n" * 60)
for c in range(64):
    with open(f"src/lib/file{c}.c", "w") as f:
        f.writelines(f'#include "part{(c * 5 + h) % 24}.h"\n' for h in range(6))
        f.write("#include <stdlib.h>\n#include <string.h>\n")
        f.writelines(f"int f{c}_{n}(int x) {{ return x * {n} + (int)strlen(\"{c}\"); }}\n" for n in range(40))
with open("Makefile", "w") as f:
    f.write("O := $(patsubst src/lib/%.c,out/%.o,$(wildcard src/lib/*.c))\n"
            "out/all.a: $(O)\n\tar rcs $@ $^\n"
            "out/%.o: src/lib/%.c\n\t@mkdir -p out\n\tgcc -pipe -Iinclude -O1 -MMD -c $< -o $@\n"
            "clean:\n\trm -rf out\n-include $(O:.o=.d)\n")
PY
    traced build sh -c 'make -s -j2 && touch include/part3.h && make -s -j2 && make -s clean'
}

database() {
    cat >run.sql <<'SQL'
PRAGMA journal_mode = DELETE;
CREATE TABLE entry (id INTEGER PRIMARY KEY, name TEXT, value BLOB);
CREATE INDEX by_name ON entry (name);
SQL
    local i
    for i in $(seq 400); do
        echo "INSERT INTO entry (name, value) VALUES ('name $((i * 7919 % 1000))', zeroblob($((i % 13 * 300 + 50))));"
        [ $((i % 5)) = 0 ] && echo "UPDATE entry SET value = zeroblob(99) WHERE id = $((i / 2));"
        [ $((i % 20)) = 0 ] && echo "SELECT count(*), sum(length(value)) FROM entry WHERE name > 'name 5';"
    done >>run.sql
    echo "VACUUM;" >>run.sql
    traced database sh -c 'sqlite3 data.db <run.sql'
}

mail() {
    mkdir spool
    traced mail "$fsage" run varmail:nfiles=400,nthreads=4,iterations=160 spool --quiet -o /dev/null
}

threads() {
    cat >/srv/threads.c <<'C'
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void *one(void *of)
{
	long t = (long)of;
	char name[64], to[64], buffer[8192] = { 0 };
	int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
	int shared = open("shared", O_RDWR | O_CREAT, 0644);

	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "t%ld-%d", t, i);
		snprintf(to, sizeof to, "done/t%ld-%d", t, i % 50);
		int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
		for (int j = 0; j <= i % 4; j++)
			write(fd, buffer, 1000 + i * 20);
		lseek(fd, 0, SEEK_SET);
		while (read(fd, buffer, sizeof buffer) > 0)
			;
		if (i % 16 == 0)
			fsync(fd);
		close(fd);
		rename(name, to);
		pwrite(shared, buffer, 4096, (i * 37 + t * 11) % 200 * 4096L);
		pread(shared, buffer, 4096, (i * 53 + t * 29) % 200 * 4096L);
		write(log, name, 16);
		struct stat st;
		stat(to, &st);
	}
	close(shared);
	close(log);
	return NULL;
}

int main(void)
{
	pthread_t threads[6];

	mkdir("done", 0755);
	for (long t = 0; t < 6; t++)
		pthread_create(&threads[t], NULL, one, (void *)t);
	for (int t = 0; t < 6; t++)
		pthread_join(threads[t], NULL);
	return 0;
}
C
    gcc -O1 -pthread -w -o /srv/threads /srv/threads.c
    traced threads /srv/threads
}

mapped() {
    fio --name=lay --filename=data --size=24M --rw=write --bs=1M --end_fsync=1 --output=/dev/null
    cat >/srv/mapped.fio <<'FIO'
[global]
filename=data
size=24M
randseed=9
[mapped]
ioengine=mmap
rw=randrw
bs=4k
number_ios=2500
[ring]
stonewall
ioengine=io_uring
iodepth=8
rw=randrw
bs=4k
number_ios=4000
[ring-sync]
stonewall
ioengine=io_uring
iodepth=4
rw=write
bs=16k
fsync=8
number_ios=800
FIO
    traced mapped fio --output=/dev/null /srv/mapped.fio
}

failing() {
    cat >/srv/failing.py <<'PY'
import errno, os
os.makedirs("full/sub")
open("plain", "w").write("x" * 5000)
os.symlink("loop-b", "loop-a"), os.symlink("loop-a", "loop-b"), os.symlink("nowhere", "dangling")
R, W, C, X = os.O_RDONLY, os.O_WRONLY, os.O_CREAT, os.O_EXCL
tries = [
    lambda i: os.open(f"missing-{i % 40}", R),
    lambda i: os.stat(f"full/sub/missing-{i}"),
    lambda i: os.stat(f"nothing/below/{i}"),
    lambda i: os.open("plain", W | C | X),
    lambda i: os.open("plain/below", R),
    lambda i: os.open("loop-a", R),
    lambda i: os.open("dangling", R),
    lambda i: os.mkdir("full"),
    lambda i: os.rmdir("full"),
    lambda i: os.unlink("full"),
    lambda i: os.unlink(f"missing-{i}"),
    lambda i: os.rename(f"missing-{i % 7}", "plain"),
    lambda i: os.link("plain", "dangling"),
    lambda i: os.readlink("plain"),
    lambda i: os.open("x" * 300, R),
    lambda i: os.open("full", W),
    lambda i: os.truncate("full", 1),
    lambda i: os.read(plain, -1 if i % 2 else 10),
    lambda i: os.pread(full, 10, 0),
    lambda i: os.write(plain, b"read only"),
    lambda i: os.listdir("plain"),
    lambda i: os.close(999),
]
plain, full = os.open("plain", R), os.open("full", R)
for i in range(400):
    for attempt in tries:
        try:
            attempt(i)
        except OSError as error:
            assert error.errno != errno.EIO
    # What works in between: names that were missing come and go.
    name = f"missing-{i % 40}"
    fd = os.open(name, W | C)
    os.write(fd, b"now it is here")
    os.close(fd)
    os.stat(name)
    os.unlink(name)
PY
    traced failing /usr/bin/python3 -I -S /srv/failing.py
}

mkdir -p "$here/traces" "$here/profiles"
"$what"

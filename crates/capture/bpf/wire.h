/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/*
 * What goes through the ring; src/ebpf/wire.rs reads it. All numbers are little endian.
 *
 * A record without a path is the first part of `struct wire`: up to `file` and as many arguments
 * as its call has, or all of it where WIDE is set. A record with PATHS is `struct wire_paths`.
 */
#ifndef FSAGE_WIRE_H
#define FSAGE_WIRE_H

enum wire_kind {
	KIND_CALL = 0,  /* a system call returned */
	KIND_FORK = 1,  /* args: child's process, child's thread, clone flags */
	KIND_EXEC = 2,  /* file: the program; path: as given */
	KIND_EXIT = 3,  /* args: whether it was the last thread, wait status */
	KIND_FAULT = 4, /* result: page index */
	KIND_URING = 5, /* args: opcode, offset, length, flags; with `nr`: those of the call that does the same */
	KIND_WAKE = 6,  /* struct wire_away up to `woken`, which is the thread woken at `start` */
	KIND_AWAY = 7,  /* struct wire_away */
	KIND_MOVED = 8, /* struct wire_away up to `woken`: who is not watched renamed something */
};

enum wire_flags {
	PATH_UNREADABLE = 1,
	PATH_TRUNCATED = 2,
	NO_FILE = 4,
	LATENCY_US = 8, /* latency counts microseconds, not nanoseconds */
	WIDE = 16,
	PATHS = 32,
	WRITE_FAULT = 64,
	NO_LATENCY = 128,
	/* Of KIND_AWAY: a watched thread ended the sleep; the processor had been idle until then. */
	BY_WATCHED = 1,
	FROM_IDLE = 2,
};

struct wire_file {
	__u64 ino;
	__u64 position;
	__u64 size;
	__u32 dev;
	__u32 generation;
	__u32 open_flags;
	__u16 mode;
	__u16 held; /* of a call's `file`: since its thread's last record the tracer held that back, in 64 ns */
};

struct wire {
	__u64 start;
	__u32 latency;
	__u16 nr;
	__u8 kind;
	__u8 flags;
	__u32 tid;
	__u32 pid;
	__s64 result;
	__u32 missed;
	__u32 ahead;
	struct wire_file file;
	__u64 args[6];
	__u64 extra[2];
	struct wire_file file2;
};

/* A time that a thread was on no processor: from `start` to `back`. */
struct wire_away {
	__u64 start;
	__u32 unused;
	__u16 nr;
	__u8 kind;
	__u8 flags;
	__u32 tid;
	__u32 pid;
	__u64 woken; /* when its sleep ended; 0: it did not sleep, others ran */
	__u64 back;
};

#define WIRE_WAKE_END 32
#define WIRE_AWAY_END 40
#define WIRE_FILE_END 80
#define WIRE_EXTRA_END 144
#define WIRE_END 184

/* The head of a record with paths: `struct wire` up to and with `extra`, then two lengths, each
 * with the NUL, then the bytes. */
#define PATH_MAX 4096
struct wire_paths {
	__u64 wire[WIRE_EXTRA_END / 8]; /* whole words: what is copied may be an address */
	__u16 length;
	__u16 length2;
	char bytes[4 * PATH_MAX];
};
#define WIRE_PATHS_HEAD 148

_Static_assert(__builtin_offsetof(struct wire_away, back) == WIRE_WAKE_END, "wire layout");
_Static_assert(sizeof(struct wire_away) == WIRE_AWAY_END, "wire layout");
_Static_assert(__builtin_offsetof(struct wire, args) == WIRE_FILE_END, "wire layout");
_Static_assert(__builtin_offsetof(struct wire, file2) == WIRE_EXTRA_END, "wire layout");
_Static_assert(sizeof(struct wire) == WIRE_END, "wire layout");
_Static_assert(__builtin_offsetof(struct wire_paths, bytes) == WIRE_PATHS_HEAD, "wire layout");

#endif

// SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0)
/*
 * Records the file system calls of the tasks that it is told of and of all that they start.
 *
 * Storage attached to a task says that it is watched and holds its call in flight. A call is
 * noted when it begins and sent when it ends, together with the paths it was given (at its start
 * their pages need not be resident) and what the kernel knows of its files. Other tasks cost one
 * lookup per call.
 *
 * Only tp_btf programs and helpers, no kfunc: any loader can load it.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "wire.h"
#include "calls.h"
#include "calls32.h"

char LICENSE[] SEC("license") = "GPL";

#define PAGE_SHIFT 12
#define MAP_ANONYMOUS 0x20
#define TS_COMPAT 2
#define ENAMETOOLONG 36
#define SEEN_AHEAD 16
#define MADV_POPULATE_WRITE 23
#define POPULATES_TO_WRITE 2

/* Set by the loader before the programs are loaded. */
const volatile __u32 wake_bytes = 1 << 20; /* waiting data at which the reader is woken */
const volatile __u32 hold_bytes = 0;       /* waiting data at which calls are held back; 0: never */
const volatile __u32 pid_level = 0;        /* depth of the reader's PID namespace */
const volatile __u32 adopt_threads = 0;    /* threads of a watched leader are watched */

struct fault {
	__u64 mapping;
	__u64 index;
	__u64 start;
	__u64 last;
	__u32 missed;
	__u32 ahead;
	__u16 write;
	__u16 pending;
	__u32 unused;
	struct wire_file file;
};

struct state {
	struct wire wire;
	__u64 inode;   /* of the call's first file, to compare with */
	__u32 active;  /* a call is in flight */
	__u32 held;    /* for how long it was held back since its last record, in 64 ns */
	struct fault fault;
	__u64 fault_start;   /* the page fault being handled, as its trace point told; 0 once a record has it */
	__u64 fault_address;
	__u64 fault_error;
	__u64 faulted; /* of the call in flight, what is told as page faults that came behind its own work, in ns */
	__u64 left;    /* when it last left its processor; 0: never yet */
	__u64 woken;   /* when its sleep ended */
	__u8 asleep;   /* it left the processor to sleep */
	__u8 by;       /* a watched thread ended the sleep */
	__u8 in_call;  /* it is in a system call: whom it wakes, it wakes itself */
	__u8 populates; /* that call faults on one page after the other */
};

struct request {
	struct wire wire;
	__u64 opcode; /* of io_uring */
};

struct counters {
	__u64 events;
	__u64 lost;
	__u64 compat;  /* calls of the 32-bit table, not recorded */
	__u64 held_ns; /* for how long calls were kept from returning */
	__u64 held;    /* how many were */
	__u64 hold_ns; /* how long the next ones are to be */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct state);
} fsage_tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} fsage_ring SEC(".maps");

/* One room for each program that builds records with paths; they run with preemption off. */
enum { ROOM_CALL, ROOM_EXEC, ROOM_URING, ROOMS };
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROOMS);
	__type(key, __u32);
	__type(value, struct wire_paths);
} fsage_rooms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} fsage_counts SEC(".maps");

/* How long the reader wants calls to be held back, in ns. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} fsage_pressure SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct request);
} fsage_requests SEC(".maps");

/* Whether this processor is at the functions of timers that ran out. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} fsage_timers SEC(".maps");

#include "record.h"
#include "files.h"
#include "tasks.h"
#include "away.h"
#include "pages.h"
#include "uring_calls.h"
#include "uring.h"
#include "aio.h"

static __always_inline __u64 argument(const struct wire *w, int n)
{
	switch (n) {
	case 0: return w->args[0];
	case 1: return w->args[1];
	case 2: return w->args[2];
	case 3: return w->args[3];
	case 4: return w->args[4];
	default: return w->args[5];
	}
}

/* fcntl's F_DUPFD, F_SETFD, F_SETFL, locks, open-file locks, F_DUPFD_CLOEXEC; mappings of files; copies that share
 * blocks, and maps of blocks. */
static __always_inline bool of_interest(long id, const struct pt_regs *regs)
{
	if (id == NR_MMAP)
		return !(regs->r10 & MAP_ANONYMOUS);
	__u32 command = regs->si;
	if (id == NR_IOCTL)
		return command == FICLONE || command == FICLONERANGE || command == FIEMAP;
	return command == 0 || command == 2 || (command >= 4 && command <= 7) ||
	       (command >= 36 && command <= 38) || command == 1030;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(fsage_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *s = watched(task);
	if (!s)
		return 0;
	flush_fault(s);
	s->active = 0;
	s->in_call = 1;
	s->fault_start = 0;
	s->faulted = 0;
	s->populates = 0;
	if ((__u64)id >= CALLS)
		return 0;
	if (task->thread_info.status & TS_COMPAT) {
		if (calls32[id & (CALLS - 1)])
			count_compat();
		return 0;
	}
	if (id == NR_IO_SUBMIT)
		return aio_submit(regs->dx, regs->si);
	const volatile struct call *call = &calls[id & (CALLS - 1)];
	s->populates = call->populates;
	if (!call->on) {
		if (call->populates) {
			s->fault_start = bpf_ktime_get_ns();
			if (id == NR_MADVISE && (__u32)regs->dx == MADV_POPULATE_WRITE)
				s->populates = POPULATES_TO_WRITE;
		}
		return 0;
	}
	if (call->filtered && !of_interest(id, regs))
		return 0;
	struct wire *w = &s->wire;
	w->nr = id;
	w->kind = KIND_CALL;
	w->flags = NO_FILE;
	w->missed = w->ahead = 0;
	w->args[0] = regs->di;
	w->args[1] = regs->si;
	w->args[2] = regs->dx;
	w->args[3] = regs->r10;
	w->args[4] = regs->r8;
	w->args[5] = regs->r9;
	if (id == NR_IOCTL) {
		if ((__u32)w->args[1] != FIEMAP)
			read_clone(w);
		else if (!read_map(w))
			return 0;
	}
	s->inode = 0;
	if (call->fd >= 0)
		s->inode = read_descriptor(task, argument(w, call->fd), w, &w->file);
	if (call->fd2 >= 0) {
		__u8 flags = w->flags;
		w->file2.mode = 0;
		read_descriptor(task, argument(w, call->fd2), w, &w->file2);
		w->flags = flags | WIDE;
	}
	if (call->extra == EXTRA_IOVEC)
		read_iovec(w);
	s->active = 1;
	w->start = bpf_ktime_get_ns();
	return 0;
}

/* Who is not watched renamed something: names that are known may be others. */
static __always_inline void tell_moved(long id)
{
	if (id != NR_RENAME && id != NR_RENAMEAT && id != NR_RENAMEAT2)
		return;
	struct wire_away w = { .start = bpf_ktime_get_ns(), .kind = KIND_MOVED };
	/* None of the operations that are counted. */
	bpf_ringbuf_output(&fsage_ring, &w, WIRE_WAKE_END, BPF_RB_NO_WAKEUP);
}

/* Sends a call that was given paths. */
static __always_inline struct counters *send_with_paths(struct wire *w,
							const volatile struct call *call)
{
	__u32 room = ROOM_CALL;
	struct wire_paths *out = bpf_map_lookup_elem(&fsage_rooms, &room);
	if (!out)
		return 0;
	long one = 0, two = 0;
	if (call->path >= 0) {
		one = bpf_probe_read_user_str(out->bytes, PATH_MAX,
					      (void *)argument(w, call->path));
		if (one < 0) {
			w->flags |= PATH_UNREADABLE;
			one = 0;
		}
	}
	one &= 2 * PATH_MAX - 1;
	if (call->path2 >= 0) {
		two = bpf_probe_read_user_str(out->bytes + one, PATH_MAX,
					      (void *)argument(w, call->path2));
		if (two < 0) {
			w->flags |= PATH_UNREADABLE;
			two = 0;
		}
	}
	two &= 2 * PATH_MAX - 1;
	if (w->result == -ENAMETOOLONG && (one == PATH_MAX || two == PATH_MAX))
		w->flags |= PATH_TRUNCATED;
	w->flags |= PATHS;
	return send_paths(out, w, one, two);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(fsage_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *s = bpf_task_storage_get(&fsage_tasks, task, 0, 0);
	if (!s) {
		if (!ret)
			tell_moved(regs->orig_ax);
		return 0;
	}
	if (s->fault.pending)
		end_faults(s);
	s->in_call = 0;
	if (!s->active) {
		aio_exit(regs, ret);
		hold_back(counters(), &s->held);
		return 0;
	}
	s->active = 0;
	struct wire *w = &s->wire;
	set_latency(w, bpf_ktime_get_ns() - w->start - s->faulted);
	const volatile struct call *call = &calls[w->nr & (CALLS - 1)];
	w->result = ret;
	if (ret >= 0) {
		if (call->opens)
			read_descriptor(task, ret, w, &w->file);
		if (call->moves)
			read_directory(task, w);
		if (call->stat >= 0)
			read_stat(w, argument(w, call->stat));
		if (call->statx >= 0)
			read_statx(w, argument(w, call->statx));
	}
	if (call->extra)
		read_extra(w, call->extra);
	w->file.held = s->held > 0xffff ? 0xffff : s->held;
	s->held -= w->file.held;
	/* After a successful exec the old program's memory is gone; KIND_EXEC brought the path. */
	bool executed = ret == 0 && (w->nr == NR_EXECVE || w->nr == NR_EXECVEAT);
	if ((call->path >= 0 || call->path2 >= 0) && !executed) {
		hold_back(send_with_paths(w, call), &s->held);
		return 0;
	}
	__u32 length = WIRE_FILE_END + 8 * (call->arguments & 7);
	if (w->flags & WIDE)
		length = WIRE_END;
	if (length > WIRE_END)
		return 0;
	hold_back(send(w, length), &s->held);
	return 0;
}

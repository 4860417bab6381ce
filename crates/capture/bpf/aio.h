/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Requests of Linux's own asynchronous I/O, as libaio makes them: told as those of io_uring are, from the
   call that submits them to the call that brings their result. */
#ifndef FSAGE_AIO_H
#define FSAGE_AIO_H

/* Requests of one call that are looked at; more are counted as lost. */
#define AIO_MOST 128

enum { IOCB_PREAD = 0, IOCB_PWRITE = 1, IOCB_FSYNC = 2, IOCB_FDSYNC = 3, IOCB_PREADV = 7, IOCB_PWRITEV = 8 };

/* struct iocb and struct io_event of linux/aio_abi.h. */
struct aio_request {
	__u64 data;
	__u32 key, rw_flags;
	__u16 opcode;
	__s16 priority;
	__s32 fd;
	__u64 buffer, length;
	__s64 offset;
	__u64 reserved;
	__u32 flags, result_fd;
};

struct aio_event {
	__u64 data, request;
	__s64 result, result2;
};

/* Where a request lies in its process tells it apart; no pointer of the kernel's is odd. */
static __always_inline __u64 aio_key(__u64 request)
{
	__u64 process = bpf_get_current_pid_tgid() >> 32;
	return (request ^ process << 42) | 1;
}

static __always_inline __u64 aio_at(__u64 array, __u32 index)
{
	__u64 request = 0;
	bpf_probe_read_user(&request, sizeof(request), (void *)(array + 8 * (__u64)index));
	return request;
}

/* The opcode of io_uring for one, 0 for what is not recorded. */
static __always_inline __u8 aio_opcode(__u16 opcode)
{
	switch (opcode) {
	case IOCB_PREAD: return OP_READ;
	case IOCB_PWRITE: return OP_WRITE;
	case IOCB_PREADV: return OP_READV;
	case IOCB_PWRITEV: return OP_WRITEV;
	case IOCB_FSYNC:
	case IOCB_FDSYNC: return OP_FSYNC;
	default: return 0;
	}
}

/* How many of `all` requests are looked at. One after the other by bpf_loop: the verifier looks at a step once, and
   took seconds where it went through all of them. */
static __always_inline __u32 aio_count(__u64 all)
{
	return all < AIO_MOST ? all : AIO_MOST;
}

static long aio_submit_one(__u32 i, __u64 *array)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *s = bpf_task_storage_get(&fsage_tasks, task, 0, 0);
	struct aio_request asked;
	__u64 request = aio_at(*array, i);
	if (!s || bpf_probe_read_user(&asked, sizeof(asked), (void *)request))
		return 0;
	struct request r = {};
	struct wire *w = &r.wire;
	head(w, s, KIND_URING);
	w->flags = NO_FILE;
	w->args[0] = aio_opcode(asked.opcode);
	if (!w->args[0])
		return 0;
	r.opcode = w->args[0];
	if (w->args[0] != OP_FSYNC) {
		w->args[1] = asked.offset;
		w->args[2] = asked.length;
	}
	w->args[3] = asked.opcode == IOCB_FDSYNC;
	w->args[4] = asked.fd;
	read_descriptor(task, w->args[4], w, &w->file);
	__u64 key = aio_key(request);
	w->start = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&fsage_requests, &key, &r, BPF_ANY))
		count(counters(), 1);
	return 0;
}

static __noinline int aio_submit(__u64 array, __u64 all)
{
	bpf_loop(aio_count(all), aio_submit_one, &array, 0);
	struct counters *c = counters();
	if (c && all > AIO_MOST && all < 1 << 20)
		c->lost += all - AIO_MOST;
	return 0;
}

struct aio_part {
	__u64 array;
	long taken;
};

static long aio_refuse_one(__u32 i, struct aio_part *part)
{
	__u64 key = aio_key(aio_at(part->array, i));
	if ((long)i >= part->taken)
		bpf_map_delete_elem(&fsage_requests, &key);
	return 0;
}

/* Of `all` only the first `taken` were submitted. */
static __noinline int aio_refused(__u64 array, __u64 all, long taken)
{
	struct aio_part part = { array, taken };
	bpf_loop(aio_count(all), aio_refuse_one, &part, 0);
	return 0;
}

static long aio_complete_one(__u32 i, __u64 *events)
{
	struct aio_event event = {};
	bpf_probe_read_user(&event, sizeof(event), (void *)(*events + sizeof(event) * (__u64)i));
	complete(aio_key(event.request), event.result, 0);
	return 0;
}

static __noinline int aio_completed(__u64 events, long all)
{
	bpf_loop(aio_count(all), aio_complete_one, &events, 0);
	return 0;
}

static __always_inline void aio_exit(struct pt_regs *regs, long result)
{
	long id = regs->orig_ax;
	if (id == NR_IO_SUBMIT && result < (long)regs->si)
		aio_refused(regs->dx, regs->si, result);
	else if ((id == NR_IO_GETEVENTS || id == NR_IO_PGETEVENTS) && result > 0)
		aio_completed(regs->r10, result);
}

#endif

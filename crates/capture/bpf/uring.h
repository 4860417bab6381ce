/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Requests of io_uring, which no system call tells of. */
#ifndef FSAGE_URING_H
#define FSAGE_URING_H

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(fsage_uring_submit, struct io_kiocb *req)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *s = watched(task);
	if (!s)
		return 0;
	__u8 op = req->opcode;
	struct request r = { .opcode = op };
	struct names names = {};
	struct wire *w = &r.wire;
	head(w, s, KIND_URING);
	w->flags = NO_FILE;
	w->args[0] = op;
	if (reads_or_writes(op)) {
		struct io_rw *rw = (void *)req;
		w->args[1] = BPF_CORE_READ(rw, kiocb.ki_pos);
		w->args[2] = BPF_CORE_READ(rw, len);
	} else if (op == OP_FSYNC) {
		struct io_sync *sync = (void *)req;
		w->args[1] = BPF_CORE_READ(sync, off);
		w->args[2] = BPF_CORE_READ(sync, len);
		w->args[3] = BPF_CORE_READ(sync, flags);
	} else if (op == OP_OPENAT || op == OP_OPENAT2) {
		struct io_open *open = (void *)req;
		/* Into what is registered with the ring, without a descriptor: no trace can say so. */
		if (BPF_CORE_READ(open, file_slot)) {
			count(counters(), 1);
			return 0;
		}
		w->args[1] = (__s64)BPF_CORE_READ(open, dfd);
		w->args[2] = BPF_CORE_READ(open, how.mode);
		w->args[3] = BPF_CORE_READ(open, how.flags);
		names.one = (__u64)BPF_CORE_READ(open, filename, name);
	} else if (op == OP_CLOSE) {
		struct io_close *close = (void *)req;
		if (BPF_CORE_READ(close, file_slot))
			return 0;
		w->args[1] = (__s64)BPF_CORE_READ(close, fd);
		read_descriptor(task, w->args[1], w, &w->file);
	} else {
		int told = as_call(task, req, op, w, &names);
		if (told == UNTOLD)
			count(counters(), 1);
		if (told != TOLD)
			return 0;
	}
	if (reads_or_writes(op) || op == OP_FSYNC)
		w->args[4] = asked_of(task, req, w);
	/* Of one that asks for no word of its success no end is told. */
	__u64 flags = BPF_CORE_READ(req, flags);
	if (flags & REQ_F_CQE_SKIP) {
		if (may_be_of_file(w))
			count(counters(), 1);
		return 0;
	}
	__u64 key = (__u64)req;
	w->start = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&fsage_requests, &key, &r, BPF_ANY)) {
		count(counters(), 1);
		return 0;
	}
	/* Names are gone once the request is done, and known to the kernel already. */
	if (names.one || names.two)
		send_names(w, key, &names);
	return 0;
}

/* `file` is what it was asked of, where the descriptor did not tell. */
static __always_inline int complete(__u64 key, __s32 result, __u64 file)
{
	struct request *r = bpf_map_lookup_elem(&fsage_requests, &key);
	if (!r)
		return 0;
	struct wire *w = &r->wire;
	set_latency(w, bpf_ktime_get_ns() - w->start);
	w->result = result;
	__u8 op = r->opcode;
	if (op == OP_OPENAT || op == OP_OPENAT2) {
		if (result >= 0)
			read_descriptor(bpf_get_current_task_btf(), result, w, &w->file);
	} else if (op == OP_STATX) {
		if (result >= 0)
			read_statx(w, w->args[4]);
	} else if ((w->flags & NO_FILE) && op != OP_CLOSE) {
		if (file && read_file(file, &w->file))
			w->flags &= ~NO_FILE;
	}
	/* The offsets of a splice stand there already. */
	if (op != OP_SPLICE)
		w->extra[0] = key;
	w->flags |= WIDE;
	send(w, WIRE_END);
	bpf_map_delete_elem(&fsage_requests, &key);
	return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(fsage_uring_complete, struct io_ring_ctx *ring, struct io_kiocb *req,
	     struct io_uring_cqe *cqe)
{
	return complete((__u64)req, BPF_CORE_READ(cqe, res), (__u64)BPF_CORE_READ(req, file));
}

/* Before Linux 6.10 the trace point was given user data and result instead of the entry. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(fsage_uring_complete_old, struct io_ring_ctx *ring, struct io_kiocb *req,
	     __u64 user_data, int result)
{
	return complete((__u64)req, result, (__u64)BPF_CORE_READ(req, file));
}

#endif

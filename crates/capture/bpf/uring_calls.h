/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* What requests of io_uring ask for. Most do what a system call does, and are told as that call is: by its number
   and its arguments. */
#ifndef FSAGE_URING_CALLS_H
#define FSAGE_URING_CALLS_H

enum {
	OP_READV = 1, OP_WRITEV = 2, OP_FSYNC = 3, OP_READ_FIXED = 4, OP_WRITE_FIXED = 5,
	OP_SYNC_FILE_RANGE = 8, OP_FALLOCATE = 17, OP_OPENAT = 18, OP_CLOSE = 19, OP_STATX = 21,
	OP_READ = 22, OP_WRITE = 23, OP_FADVISE = 24, OP_OPENAT2 = 28, OP_SPLICE = 30,
	OP_RENAMEAT = 35, OP_UNLINKAT = 36, OP_MKDIRAT = 37, OP_SYMLINKAT = 38, OP_LINKAT = 39,
	OP_FSETXATTR = 41, OP_SETXATTR = 42, OP_FGETXATTR = 43, OP_GETXATTR = 44,
	OP_FTRUNCATE = 55, OP_READV_FIXED = 60, OP_WRITEV_FIXED = 61,
};

#define REQ_F_FIXED_FILE 1
#define REQ_F_CQE_SKIP 64
#define SPLICE_F_FD_IN_FIXED (1U << 31)
#define S_IFREG 0100000
#define S_IFDIR 0040000

/* Whether a request is told; one that is UNTOLD is on files and counted as lost. */
enum told { TOLD, OTHER, UNTOLD };

/* Where the names of a request lie in the kernel, in the order of a record's paths. */
struct names {
	__u64 one, two;
};

static __always_inline bool reads_or_writes(__u8 op)
{
	return op == OP_READV || op == OP_WRITEV || op == OP_READ_FIXED || op == OP_WRITE_FIXED ||
	       op == OP_READ || op == OP_WRITE || op == OP_READV_FIXED || op == OP_WRITEV_FIXED;
}

/* The descriptor of what is asked of, whose file is read; all ones for a registered file. */
static __always_inline __u64 asked_of(struct task_struct *task, struct io_kiocb *req, struct wire *w)
{
	if (BPF_CORE_READ(req, flags) & REQ_F_FIXED_FILE)
		return ~0ULL;
	__u64 fd = (__s64)BPF_CORE_READ(req, cqe.fd);
	read_descriptor(task, fd, w, &w->file);
	return fd;
}

/* Not a socket, a pipe or the like, as far as is known. */
static __always_inline bool may_be_of_file(const struct wire *w)
{
	__u16 type = w->file.mode & S_IFMT;
	return (w->flags & NO_FILE) || type == S_IFREG || type == S_IFDIR;
}

static __always_inline __u64 address(struct filename *name)
{
	return name ? (__u64)BPF_CORE_READ(name, name) : 0;
}

/* Both files, of which one may be a pipe; of pipes and sockets alone nothing is told. */
static __always_inline int splice(struct task_struct *task, struct io_kiocb *req, struct wire *w)
{
	struct io_splice *of = (void *)req;
	unsigned int flags = BPF_CORE_READ(of, flags);
	if ((flags & SPLICE_F_FD_IN_FIXED) || (BPF_CORE_READ(req, flags) & REQ_F_FIXED_FILE))
		return UNTOLD;
	w->nr = 275;
	w->args[0] = (__s64)BPF_CORE_READ(of, splice_fd_in);
	w->args[2] = (__s64)BPF_CORE_READ(req, cqe.fd);
	w->args[4] = BPF_CORE_READ(of, len);
	w->args[5] = flags;
	w->extra[0] = BPF_CORE_READ(of, off_in);
	w->extra[1] = BPF_CORE_READ(of, off_out);
	read_descriptor(task, w->args[2], w, &w->file2);
	w->flags = NO_FILE;
	read_descriptor(task, w->args[0], w, &w->file);
	bool of_files = (w->file.mode & S_IFMT) == S_IFREG || (w->file2.mode & S_IFMT) == S_IFREG;
	return of_files ? TOLD : OTHER;
}

/* On an open file. What older kernels have no request for the verifier does not look at there. */
static __always_inline int on_file(struct task_struct *task, struct io_kiocb *req, __u8 op,
				   struct wire *w, struct names *names)
{
	if (op == OP_FALLOCATE || op == OP_SYNC_FILE_RANGE) {
		struct io_sync *of = (void *)req;
		__u64 offset = BPF_CORE_READ(of, off), length = BPF_CORE_READ(of, len);
		bool allocates = op == OP_FALLOCATE;
		w->nr = allocates ? 285 : 277;
		w->args[1] = allocates ? BPF_CORE_READ(of, mode) : offset;
		w->args[2] = allocates ? offset : length;
		w->args[3] = allocates ? length : BPF_CORE_READ(of, flags);
	} else if (op == OP_FTRUNCATE && bpf_core_type_exists(struct io_ftrunc)) {
		struct io_ftrunc *of = (void *)req;
		w->nr = 77;
		w->args[1] = BPF_CORE_READ(of, len);
	} else if (op == OP_FADVISE) {
		struct io_fadvise *of = (void *)req;
		w->nr = 221;
		w->args[1] = BPF_CORE_READ(of, offset);
		w->args[2] = BPF_CORE_READ(of, len);
		if (bpf_core_field_size(of->len) == 4)
			w->args[2] = (__u32)w->args[2];
		w->args[3] = BPF_CORE_READ(of, advice);
	} else if ((op == OP_FSETXATTR || op == OP_FGETXATTR) && bpf_core_type_exists(struct io_xattr)) {
		struct io_xattr *of = (void *)req;
		w->nr = op == OP_FSETXATTR ? 190 : 193;
		w->args[3] = BPF_CORE_READ(of, ctx.size);
		w->args[4] = BPF_CORE_READ(of, ctx.flags);
		names->two = (__u64)BPF_CORE_READ(of, ctx.kname);
	} else {
		return OTHER;
	}
	w->args[0] = asked_of(task, req, w);
	return TOLD;
}

/* By two names, or one and a link's text. */
static __always_inline int by_names(struct io_kiocb *req, __u8 op, struct wire *w, struct names *names)
{
	if (op == OP_RENAMEAT) {
		struct io_rename *of = (void *)req;
		w->nr = 316;
		w->args[0] = (__s64)BPF_CORE_READ(of, old_dfd);
		w->args[2] = (__s64)BPF_CORE_READ(of, new_dfd);
		w->args[4] = (__u32)BPF_CORE_READ(of, flags);
		names->one = address(BPF_CORE_READ(of, oldpath));
		names->two = address(BPF_CORE_READ(of, newpath));
		return TOLD;
	}
	struct io_link *of = (void *)req;
	__u64 one = address(BPF_CORE_READ(of, oldpath)), two = address(BPF_CORE_READ(of, newpath));
	if (op == OP_LINKAT) {
		w->nr = 265;
		w->args[0] = (__s64)BPF_CORE_READ(of, old_dfd);
		w->args[2] = (__s64)BPF_CORE_READ(of, new_dfd);
		w->args[4] = (__u32)BPF_CORE_READ(of, flags);
		names->one = one;
		names->two = two;
	} else {
		/* The link is the call's first path, its text the second. */
		w->nr = 266;
		w->args[1] = (__s64)BPF_CORE_READ(of, new_dfd);
		names->one = two;
		names->two = one;
	}
	return TOLD;
}

static __always_inline int by_name(struct task_struct *task, struct io_kiocb *req, __u8 op,
				   struct wire *w, struct names *names)
{
	if (op == OP_UNLINKAT) {
		struct io_unlink *of = (void *)req;
		w->nr = 263;
		w->args[0] = (__s64)BPF_CORE_READ(of, dfd);
		w->args[2] = (__u32)BPF_CORE_READ(of, flags);
		names->one = address(BPF_CORE_READ(of, filename));
	} else if (op == OP_MKDIRAT) {
		struct io_mkdir *of = (void *)req;
		w->nr = 258;
		w->args[0] = (__s64)BPF_CORE_READ(of, dfd);
		w->args[2] = BPF_CORE_READ(of, mode);
		names->one = address(BPF_CORE_READ(of, filename));
	} else if (op == OP_STATX) {
		struct io_statx *of = (void *)req;
		w->nr = 332;
		w->args[0] = (__s64)BPF_CORE_READ(of, dfd);
		w->args[2] = BPF_CORE_READ(of, flags);
		w->args[3] = BPF_CORE_READ(of, mask);
		w->args[4] = (__u64)BPF_CORE_READ(of, buffer);
		names->one = address(BPF_CORE_READ(of, filename));
		w->args[1] = names->one;
		read_descriptor(task, w->args[0], w, &w->file);
	} else if ((op == OP_SETXATTR || op == OP_GETXATTR) && bpf_core_type_exists(struct io_xattr)) {
		struct io_xattr *of = (void *)req;
		w->nr = op == OP_SETXATTR ? 188 : 191;
		w->args[3] = BPF_CORE_READ(of, ctx.size);
		w->args[4] = BPF_CORE_READ(of, ctx.flags);
		names->one = address(BPF_CORE_READ(of, filename));
		names->two = (__u64)BPF_CORE_READ(of, ctx.kname);
	} else {
		return OTHER;
	}
	return TOLD;
}

/* The request as the call that does the same. */
static __always_inline int as_call(struct task_struct *task, struct io_kiocb *req, __u8 op,
				   struct wire *w, struct names *names)
{
	w->args[0] = 0;
	if (op == OP_SPLICE)
		return splice(task, req, w);
	if (op == OP_RENAMEAT || op == OP_LINKAT || op == OP_SYMLINKAT)
		return by_names(req, op, w, names);
	int told = by_name(task, req, op, w, names);
	return told == TOLD ? told : on_file(task, req, op, w, names);
}

/* A first half, known by its key; the second follows at completion. */
static __always_inline void send_names(struct wire *w, __u64 key, const struct names *names)
{
	__u32 room = ROOM_URING;
	struct wire_paths *out = bpf_map_lookup_elem(&fsage_rooms, &room);
	if (!out)
		return;
	long one = 0, two = 0;
	if (names->one)
		one = bpf_probe_read_kernel_str(out->bytes, PATH_MAX, (void *)names->one);
	if (one < 0)
		one = 0;
	one &= 2 * PATH_MAX - 1;
	if (names->two)
		two = bpf_probe_read_kernel_str(out->bytes + one, PATH_MAX, (void *)names->two);
	if (two < 0)
		two = 0;
	two &= 2 * PATH_MAX - 1;
	w->extra[0] = key;
	w->flags |= PATHS;
	send_paths(out, w, one, two);
}

#endif

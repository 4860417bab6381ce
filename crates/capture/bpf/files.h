/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* What the kernel, or a structure that a call filled in, says of a file. */
#ifndef FSAGE_FILES_H
#define FSAGE_FILES_H

/*
 * A pointer that was read, not followed, has no type for the verifier, and reading member by
 * member costs a helper call each: so the part of the structure that holds them all is copied at
 * once, and members are taken from the copy. Where a kernel has one further behind, it is read
 * alone.
 */
#define FILE_PART 144
#define PART 176

#define TAKE(to, held, part, from, type, field)                                                     \
	do {                                                                                  \
		__u32 at = bpf_core_field_offset(type, field);                                \
		if (at <= held - sizeof(to))                                          \
			__builtin_memcpy(&to, (char *)part + at, sizeof(to));                 \
		else                                                                          \
			bpf_probe_read_kernel(&to, sizeof(to), (char *)from + at);            \
	} while (0)

static __always_inline void read_inode(__u64 inode, __u64 part[PART / 8], struct wire_file *out)
{
	if (bpf_probe_read_kernel(part, PART, (void *)inode))
		return;
	__u64 ino = 0, sb = 0, size = 0;
	__u32 generation = 0, dev = 0;
	__u16 mode = 0;
	TAKE(mode, PART, part, inode, struct inode, i_mode);
	TAKE(ino, PART, part, inode, struct inode, i_ino);
	TAKE(sb, PART, part, inode, struct inode, i_sb);
	TAKE(size, PART, part, inode, struct inode, i_size);
	TAKE(generation, PART, part, inode, struct inode, i_generation);
	bpf_probe_read_kernel(&dev, sizeof(dev),
			      (char *)sb + bpf_core_field_offset(struct super_block, s_dev));
	out->ino = ino;
	out->size = size;
	out->generation = generation;
	out->mode = mode;
	out->dev = dev;
}

/* Fills `out` from a struct file; returns its inode's address. */
static __always_inline __u64 read_file(__u64 file, struct wire_file *out)
{
	__u64 part[PART / 8];
	if (bpf_probe_read_kernel(part, FILE_PART, (void *)file))
		return 0;
	__u64 inode = 0, position = 0;
	__u32 flags = 0;
	TAKE(inode, FILE_PART, part, file, struct file, f_inode);
	TAKE(position, FILE_PART, part, file, struct file, f_pos);
	TAKE(flags, FILE_PART, part, file, struct file, f_flags);
	out->position = position;
	out->open_flags = flags;
	out->held = 0;
	read_inode(inode, part, out);
	return inode;
}

/* The same through a pointer that the verifier knows. */
static __always_inline void host_file(struct inode *host, struct wire_file *out)
{
	out->ino = host->i_ino;
	out->size = host->i_size;
	out->dev = host->i_sb->s_dev;
	out->generation = host->i_generation;
	out->mode = host->i_mode;
	out->position = 0;
	out->open_flags = 0;
	out->held = 0;
}

static __always_inline __u64 file_of(struct task_struct *task, __u64 fd)
{
	struct files_struct *files = task->files;
	if (!files)
		return 0;
	struct fdtable *table = files->fdt;
	if ((__u32)fd >= table->max_fds)
		return 0;
	__u64 file = 0;
	bpf_probe_read_kernel(&file, sizeof(file), (void *)(table->fd + (__u32)fd));
	return file;
}

/* Fills `out` from a descriptor of the current task and clears NO_FILE. */
static __noinline __u64 read_descriptor(struct task_struct *task, __u64 fd, struct wire *w,
					struct wire_file *out)
{
	__u64 file = file_of(task, fd);
	if (!file)
		return 0;
	__u64 inode = read_file(file, out);
	if (inode)
		w->flags &= ~NO_FILE;
	return inode;
}

/* Where a process is. */
static __always_inline void read_directory(struct task_struct *task, struct wire *w)
{
	struct fs_struct *fs = task->fs;
	if (!fs)
		return;
	struct dentry *dentry = fs->pwd.dentry;
	struct inode *inode = dentry ? dentry->d_inode : 0;
	if (!inode)
		return;
	host_file(inode, &w->file);
	w->flags &= ~NO_FILE;
}

/* From the encoding of stat(2) to the kernel's own. */
static __always_inline __u32 kernel_dev(__u64 dev)
{
	__u32 major = (dev >> 8) & 0xfff, minor = (dev & 0xff) | ((dev >> 12) & 0xfff00);
	return major << 20 | minor;
}

static __always_inline void set_identity(struct wire *w, __u32 dev, __u64 ino, __u64 size,
					 __u16 mode)
{
	struct wire_file *f = &w->file;
	if ((w->flags & NO_FILE) || f->ino != ino) {
		f->generation = 0;
		f->open_flags = 0;
		f->position = 0;
		f->held = 0;
		f->dev = dev;
		f->ino = ino;
	}
	f->size = size;
	f->mode = mode;
	w->flags &= ~NO_FILE;
}

static __always_inline void read_stat(struct wire *w, __u64 buffer)
{
	__u64 st[7]; /* dev, ino, nlink, mode and uid, gid, rdev, size */
	if (!bpf_probe_read_user(st, sizeof(st), (void *)buffer))
		set_identity(w, kernel_dev(st[0]), st[1], st[6], st[3]);
}

static __always_inline void read_statx(struct wire *w, __u64 buffer)
{
	__u64 st[18]; /* at 28 the mode, at 32 the inode, at 40 the size, at 136 the device */
	if (bpf_probe_read_user(st, sizeof(st), (void *)buffer))
		return;
	__u32 major = st[17], minor = st[17] >> 32;
	set_identity(w, (major & 0xfff) << 20 | (minor & 0xfffff), st[4], st[5], st[3] >> 32);
}

/* Total length and number of the buffers; of more than 64 the rest is left out. */
static __always_inline void read_iovec(struct wire *w)
{
	struct {
		__u64 base, length;
	} part[8];
	__u64 total = 0, number = w->args[2];
	for (int i = 0; i < 64; i += 8) {
		if (i >= number || bpf_probe_read_user(part, sizeof(part), (void *)(w->args[1] + i * 16))) {
			for (int k = 0; k < 8; k++) {
				if (i + k >= number || bpf_probe_read_user(part, 16, (void *)(w->args[1] + (i + k) * 16)))
					break;
				total += part[0].length;
			}
			break;
		}
		for (int k = 0; k < 8; k++)
			if (i + k < number)
				total += part[k].length;
	}
	w->extra[0] = total;
	w->extra[1] = number;
	w->flags |= WIDE;
}

#define FICLONE 0x40049409
#define FICLONERANGE 0x4020940d
#define FIEMAP 0xc020660b
#define FIEMAP_SYNC 1

/* What a copy that shares blocks is told, as arguments: the source's descriptor, its offset, the length (0: to its end)
 * and the offset in the destination, which is argument 0. */
static __always_inline void read_clone(struct wire *w)
{
	__u64 range[4] = {};
	if ((__u32)w->args[1] == FICLONE)
		range[0] = w->args[2];
	else if (bpf_probe_read_user(range, sizeof(range), (void *)w->args[2]))
		range[0] = ~0ULL;
	for (int i = 0; i < 4; i++)
		w->args[2 + i] = range[i];
}

/* Whether a map of a file's blocks is asked for that has it written before; its descriptor becomes argument 2. */
static __always_inline bool read_map(struct wire *w)
{
	__u32 flags = 0;
	if (bpf_probe_read_user(&flags, sizeof(flags), (void *)(w->args[2] + 16)))
		return false;
	w->args[2] = w->args[0];
	return flags & FIEMAP_SYNC;
}

/* An offset that the call was pointed to. It has been advanced by what was moved. */
static __always_inline __u64 offset_before(struct wire *w, __u64 pointer)
{
	__u64 offset = 0;
	if (!pointer || bpf_probe_read_user(&offset, sizeof(offset), (void *)pointer))
		return ~0ULL;
	return w->result > 0 ? offset - w->result : offset;
}

#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* The address family of a socket; all ones where it cannot be read. */
static __always_inline __u64 family_of(__u64 file)
{
	struct socket *socket = BPF_CORE_READ((struct file *)file, private_data);
	__u16 family = BPF_CORE_READ(socket, sk, __sk_common.skc_family);
	return family ? family : ~0ULL;
}

static __always_inline void read_extra(struct wire *w, __u8 extra)
{
	__u64 words[3];
	if (extra == EXTRA_IN_OUT) {
		w->extra[0] = offset_before(w, w->args[1]);
		w->extra[1] = offset_before(w, w->args[3]);
	} else if (extra == EXTRA_IN) {
		w->extra[0] = offset_before(w, w->args[2]);
		w->extra[1] = ~0ULL;
		if ((w->file2.mode & S_IFMT) == S_IFSOCK)
			w->extra[1] = family_of(file_of(bpf_get_current_task_btf(), w->args[0]));
	} else if (extra == EXTRA_HOW) {
		w->extra[0] = w->extra[1] = 0;
		/* Flags, mode, how names are resolved. */
		if (!bpf_probe_read_user(words, sizeof(words), (void *)w->args[2])) {
			w->extra[0] = words[0];
			w->extra[1] = words[2];
		}
	} else if (extra == EXTRA_XATTR) {
		w->extra[0] = w->extra[1] = 0;
		bpf_probe_read_user(w->extra, sizeof(w->extra), (void *)w->args[4]);
	} else if (extra == EXTRA_FLOCK) {
		w->extra[0] = w->extra[1] = 0;
		if (w->args[1] >= 5 && w->args[1] <= 38) {
			bool read = !bpf_probe_read_user(words, sizeof(words), (void *)w->args[2]);
			if (read) {
				w->extra[0] = words[1];
				w->extra[1] = words[2];
				w->flags |= WIDE;
			}
			/* l_type and l_whence. */
			w->args[2] = read ? (__u32)words[0] : ~0ULL;
		}
	}
}

#endif

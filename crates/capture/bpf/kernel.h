/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/*
 * The few kernel types that fsage.bpf.c looks into, with only the members that it reads. Every
 * access is relocated against the running kernel's BTF when the program is loaded, so order and
 * place of the members here mean nothing; only names and kinds do.
 *
 * A suffix after three underscores names a variant of the same kernel type ("flavour").
 */
#ifndef FSAGE_KERNEL_H
#define FSAGE_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

#define BPF_ANY 0
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2
#define BPF_RB_AVAIL_DATA 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10, r9, r8, dx, si, di, orig_ax;
};

struct super_block {
	__u32 s_dev;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	__s64 i_size;
	__u32 i_generation;
};

struct address_space {
	struct inode *host;
};

struct file {
	struct inode *f_inode;
	unsigned int f_flags;
	__s64 f_pos;
	void *private_data;
};

struct sock_common {
	unsigned short skc_family;
};

struct sock {
	struct sock_common __sk_common;
};

struct socket {
	struct sock *sk;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct dentry {
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct fs_struct {
	struct path pwd;
};

struct upid {
	int nr;
};

struct pid {
	struct upid numbers[1];
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
};

struct thread_info {
	__u32 status;
};

struct task_struct {
	struct thread_info thread_info;
	int pid;
	struct fs_struct *fs;
	struct files_struct *files;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct signal_struct *signal;
	int exit_code;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
};

enum pageflags {
	PG_head = 6,
};

/* Since Linux 6.18 the flags of a folio are a structure of one word. */
struct memdesc_flags {
	unsigned long f;
};

struct folio___memdesc {
	struct memdesc_flags flags;
};

struct folio {
	unsigned long flags;
	unsigned long index;
	struct address_space *mapping;
	unsigned long _flags_1;
};

struct io_cqe {
	__s32 fd;
};

struct io_kiocb {
	struct file *file;
	__u8 opcode;
	__u64 flags;
	struct io_cqe cqe;
};

struct kiocb {
	__s64 ki_pos;
};

struct io_rw {
	struct kiocb kiocb;
	__u32 len;
};

struct io_sync {
	__s64 len;
	__s64 off;
	int flags;
	int mode;
};

struct io_ftrunc {
	__s64 len;
};

/* The length has 32 bits in older kernels. */
struct io_fadvise {
	__u64 offset;
	__u64 len;
	__u32 advice;
};

struct io_splice {
	__s64 off_out;
	__s64 off_in;
	__u64 len;
	int splice_fd_in;
	unsigned int flags;
};

struct open_how {
	__u64 flags;
	__u64 mode;
};

struct filename {
	const char *name;
};

struct io_open {
	int dfd;
	__u32 file_slot;
	struct filename *filename;
	struct open_how how;
};

struct io_close {
	int fd;
	__u32 file_slot;
};

struct io_unlink {
	int dfd;
	int flags;
	struct filename *filename;
};

struct io_mkdir {
	int dfd;
	__u16 mode;
	struct filename *filename;
};

struct io_rename {
	int old_dfd;
	int new_dfd;
	struct filename *oldpath;
	struct filename *newpath;
	int flags;
};

/* Of LINKAT and SYMLINKAT. */
struct io_link {
	int old_dfd;
	int new_dfd;
	struct filename *oldpath;
	struct filename *newpath;
	int flags;
};

struct io_statx {
	int dfd;
	unsigned int mask;
	unsigned int flags;
	struct filename *filename;
	void *buffer;
};

struct xattr_name {
	char name[256];
};

struct kernel_xattr_ctx {
	unsigned long size;
	struct xattr_name *kname;
	unsigned int flags;
};

struct io_xattr {
	struct kernel_xattr_ctx ctx;
	struct filename *filename;
};

struct io_uring_cqe {
	__s32 res;
};

#pragma clang attribute pop

struct io_ring_ctx;

#endif

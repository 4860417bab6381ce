/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0) */
/* Which system calls (x86-64) are recorded, and where their arguments are. */
#ifndef FSAGE_CALLS_H
#define FSAGE_CALLS_H

#define CALLS 512

enum call_extra {
	EXTRA_NONE = 0,
	EXTRA_HOW,     /* struct open_how at argument 2: flags, resolve */
	EXTRA_IOVEC,   /* struct iovec[argument 2] at argument 1: total length, count */
	EXTRA_IN_OUT,  /* loff_t pointers at arguments 1 and 3 */
	EXTRA_IN,      /* loff_t pointer at argument 2 */
	EXTRA_FLOCK,   /* struct flock at argument 2 of a lock command */
	EXTRA_XATTR,   /* struct xattr_args at argument 4 */
};

/* What pages that enter the page cache during the call mean. */
enum call_io {
	IO_OTHER = 0, /* a lookup, a listing: whatever had to be read was missed */
	IO_READ,      /* at the file's position, argument 2 bytes */
	IO_READ_AT,   /* at argument 3 */
	IO_WRITE,
	IO_WRITE_AT,
	IO_COPY,      /* from the first file, wherever */
};

struct call {
	__u8 on;
	__s8 fd, fd2, path, path2; /* argument numbers, -1 for none */
	__u8 extra;
	__s8 stat, statx;          /* where a struct stat or statx is filled in */
	__u8 arguments;            /* how many are sent */
	__u8 io;
	__u8 opens;
	__u8 filtered;             /* only some forms of the call count */
	__u8 moves;                /* its `file` is where the process is after it */
	__u8 populates;            /* it may fault on pages one after the other, as nobody touches them */
};

#define NONE .fd = -1, .fd2 = -1, .path = -1, .path2 = -1, .stat = -1, .statx = -1
#define CALL(n, ...) { .on = 1, NONE, .arguments = n, ##__VA_ARGS__ }
#define FD(n, ...) CALL(n, .fd = 0, ##__VA_ARGS__)
#define NAME(n, ...) CALL(n, .path = 0, ##__VA_ARGS__)
#define AT(n, ...) CALL(n, .path = 1, ##__VA_ARGS__)
/* Not recorded itself. */
#define POPULATES { NONE, .populates = 1 }

#pragma clang diagnostic ignored "-Winitializer-overrides"
const volatile struct call calls[CALLS] = {
	[0] = FD(3, .io = IO_READ),                                  /* read */
	[1] = FD(3, .io = IO_WRITE),                                 /* write */
	[2] = NAME(3, .opens = 1),                                   /* open */
	[3] = FD(1),                                                 /* close */
	[4] = NAME(2, .stat = 1),                                    /* stat */
	[5] = FD(2, .stat = 1),                                      /* fstat */
	[6] = NAME(2, .stat = 1),                                    /* lstat */
	[8] = FD(3),                                                 /* lseek */
	[9] = CALL(6, .fd = 4, .filtered = 1, .populates = 1),       /* mmap */
	[11] = CALL(2),                                              /* munmap */
	[16] = CALL(6, .fd = 2, .fd2 = 0, .io = IO_COPY, .filtered = 1), /* ioctl: FICLONE, FICLONERANGE, FIEMAP */
	[17] = FD(4, .io = IO_READ_AT),                              /* pread64 */
	[18] = FD(4, .io = IO_WRITE_AT),                             /* pwrite64 */
	[19] = FD(3, .io = IO_READ, .extra = EXTRA_IOVEC),           /* readv */
	[20] = FD(3, .io = IO_WRITE, .extra = EXTRA_IOVEC),          /* writev */
	[21] = NAME(2),                                              /* access */
	[25] = CALL(5),                                              /* mremap */
	[26] = CALL(3),                                              /* msync */
	[28] = POPULATES,                                            /* madvise */
	[32] = FD(1),                                                /* dup */
	[33] = FD(2),                                                /* dup2 */
	[40] = CALL(4, .fd = 1, .fd2 = 0, .io = IO_COPY, .extra = EXTRA_IN), /* sendfile */
	[59] = NAME(1),                                              /* execve */
	[72] = FD(3, .filtered = 1, .extra = EXTRA_FLOCK),           /* fcntl */
	[73] = FD(2),                                                /* flock */
	[74] = FD(1),                                                /* fsync */
	[75] = FD(1),                                                /* fdatasync */
	[76] = NAME(2),                                              /* truncate */
	[77] = FD(2),                                                /* ftruncate */
	[78] = FD(3),                                                /* getdents */
	[80] = NAME(1, .moves = 1),                                  /* chdir */
	[81] = FD(1),                                                /* fchdir */
	[82] = NAME(2, .path2 = 1),                                  /* rename */
	[83] = NAME(2),                                              /* mkdir */
	[84] = NAME(1),                                              /* rmdir */
	[85] = NAME(2, .opens = 1),                                  /* creat */
	[86] = NAME(2, .path2 = 1),                                  /* link */
	[87] = NAME(1),                                              /* unlink */
	[88] = CALL(2, .path = 1, .path2 = 0),                       /* symlink */
	[89] = NAME(3),                                              /* readlink */
	[90] = NAME(2),                                              /* chmod */
	[91] = FD(2),                                                /* fchmod */
	[92] = NAME(3),                                              /* chown */
	[93] = FD(3),                                                /* fchown */
	[94] = NAME(3),                                              /* lchown */
	[132] = NAME(2),                                             /* utime */
	[133] = NAME(3),                                             /* mknod */
	[137] = NAME(2),                                             /* statfs */
	[138] = FD(2),                                               /* fstatfs */
	[149] = POPULATES,                                           /* mlock */
	[151] = POPULATES,                                           /* mlockall */
	[155] = NAME(2, .path2 = 1),                                 /* pivot_root */
	[161] = NAME(1),                                             /* chroot */
	[162] = CALL(0),                                             /* sync */
	[165] = CALL(5),                                             /* mount */
	[187] = FD(3),                                               /* readahead */
	[188] = NAME(5, .path2 = 1),                                 /* setxattr */
	[189] = NAME(5, .path2 = 1),                                 /* lsetxattr */
	[190] = FD(5, .path2 = 1),                                   /* fsetxattr */
	[191] = NAME(4, .path2 = 1),                                 /* getxattr */
	[192] = NAME(4, .path2 = 1),                                 /* lgetxattr */
	[193] = FD(4, .path2 = 1),                                   /* fgetxattr */
	[194] = NAME(3),                                             /* listxattr */
	[195] = NAME(3),                                             /* llistxattr */
	[196] = FD(3),                                               /* flistxattr */
	[197] = NAME(2, .path2 = 1),                                 /* removexattr */
	[198] = NAME(2, .path2 = 1),                                 /* lremovexattr */
	[199] = FD(2, .path2 = 1),                                   /* fremovexattr */
	[217] = FD(3),                                               /* getdents64 */
	[221] = FD(4),                                               /* fadvise64 */
	[235] = NAME(2),                                             /* utimes */
	[257] = AT(4, .opens = 1),                                   /* openat */
	[258] = AT(3),                                               /* mkdirat */
	[259] = AT(4),                                               /* mknodat */
	[260] = AT(5),                                               /* fchownat */
	[261] = AT(3),                                               /* futimesat */
	[262] = AT(4, .fd = 0, .stat = 2),                           /* newfstatat */
	[263] = AT(3),                                               /* unlinkat */
	[264] = AT(4, .path2 = 3),                                   /* renameat */
	[265] = AT(5, .path2 = 3),                                   /* linkat */
	[266] = CALL(3, .path = 2, .path2 = 0),                      /* symlinkat */
	[267] = AT(4),                                               /* readlinkat */
	[268] = AT(3),                                               /* fchmodat */
	[269] = AT(3),                                               /* faccessat */
	[272] = CALL(1),                                             /* unshare */
	[275] = FD(6, .fd2 = 2, .io = IO_COPY, .extra = EXTRA_IN_OUT), /* splice */
	[277] = FD(4),                                               /* sync_file_range */
	[280] = AT(4, .fd = 0),                                      /* utimensat */
	[285] = FD(4),                                               /* fallocate */
	[292] = FD(3),                                               /* dup3 */
	[295] = FD(4, .io = IO_READ_AT, .extra = EXTRA_IOVEC),       /* preadv */
	[296] = FD(4, .io = IO_WRITE_AT, .extra = EXTRA_IOVEC),      /* pwritev */
	[304] = CALL(3, .opens = 1),                                 /* open_by_handle_at */
	[306] = FD(1),                                               /* syncfs */
	[308] = CALL(2, .moves = 1),                                 /* setns */
	[316] = AT(5, .path2 = 3),                                   /* renameat2 */
	[322] = AT(5),                                               /* execveat */
	[325] = POPULATES,                                           /* mlock2 */
	[326] = FD(6, .fd2 = 2, .io = IO_COPY, .extra = EXTRA_IN_OUT), /* copy_file_range */
	[327] = FD(6, .io = IO_READ_AT, .extra = EXTRA_IOVEC),       /* preadv2 */
	[328] = FD(6, .io = IO_WRITE_AT, .extra = EXTRA_IOVEC),      /* pwritev2 */
	[332] = AT(5, .fd = 0, .statx = 4),                          /* statx */
	[428] = AT(3, .opens = 1),                                   /* open_tree */
	[429] = CALL(5),                                             /* move_mount */
	[436] = CALL(3),                                             /* close_range */
	[437] = AT(4, .opens = 1, .extra = EXTRA_HOW),               /* openat2 */
	[439] = AT(4),                                               /* faccessat2 */
	[452] = AT(4),                                               /* fchmodat2 */
	[463] = AT(6, .path2 = 3, .extra = EXTRA_XATTR),             /* setxattrat */
	[464] = AT(6, .path2 = 3, .extra = EXTRA_XATTR),             /* getxattrat */
	[465] = AT(5),                                               /* listxattrat */
	[466] = AT(4, .path2 = 3),                                   /* removexattrat */
};

#define NR_MMAP 9
#define NR_IOCTL 16
#define NR_MADVISE 28
#define NR_EXECVE 59
#define NR_RENAME 82
#define NR_IO_GETEVENTS 208
#define NR_IO_SUBMIT 209
#define NR_IO_PGETEVENTS 333
#define NR_FCNTL 72
#define NR_RENAMEAT 264
#define NR_RENAMEAT2 316
#define NR_EXECVEAT 322

#endif

//! Which argument of which call goes into which field of an operation.

use fsage_core::OpKind;
use fsage_core::OpKind::{
    Access, Advise, Chdir, Chmod, Chown, Close, Exec, Fallocate, Fchdir, Fchmod, Fchown, Fdatasync,
    Fstat, Fstatfs, Fsync, Ftruncate, Getxattr, Link, Listxattr, Lock, Mkdir, Mknod, Mmap, Open,
    Read, Readdir, Readlink, Removexattr, Rename, Rmdir, Seek, Setxattr, Stat, Statfs, Symlink,
    SyncFileRange, Syncfs, Truncate, Unlink, Utimens, Write,
};
use fsage_namespace::flags::O_PATH;

/// No such argument.
const NO: i8 = -1;

/// Positions of the arguments of a call that acts on a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathCall {
    pub kind: OpKind,
    pub dir: i8,
    pub path: i8,
    pub dir2: i8,
    pub path2: i8,
    pub flags: i8,
    pub offset: i8,
    pub length: i8,
    /// Flags that the call's name stands for.
    pub implied: u32,
}

/// Positions of the arguments of a call that acts on a descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct FdCall {
    pub kind: OpKind,
    pub fd: i8,
    pub path2: i8,
    pub flags: i8,
    pub offset: i8,
    pub length: i8,
    pub implied: u32,
    /// Whether `length` is an array of buffers.
    pub vector: bool,
}

const NOFOLLOW: u32 = 0x100;
const WILLNEED: u32 = 3;
/// `O_CREAT | O_WRONLY | O_TRUNC`.
const CREAT: u32 = 0o1101;

/// The row of a call that acts on a name. The columns: directory, path, second directory, second
/// path, flags, offset, length.
pub(super) fn path_call(name: &str) -> Option<PathCall> {
    let (kind, at, implied) = match name {
        "open" => (Open, [NO, 0, NO, NO, 1, NO, NO], 0),
        "openat" | "openat2" => (Open, [0, 1, NO, NO, 2, NO, NO], 0),
        "open_tree" => (Open, [0, 1, NO, NO, NO, NO, NO], O_PATH),
        "creat" => (Open, [NO, 0, NO, NO, NO, NO, NO], CREAT),
        "stat" | "stat64" | "oldstat" => (Stat, [NO, 0, NO, NO, NO, NO, NO], 0),
        "lstat" | "lstat64" | "oldlstat" => (Stat, [NO, 0, NO, NO, NO, NO, NO], NOFOLLOW),
        "newfstatat" | "fstatat64" => (Stat, [0, 1, NO, NO, 3, NO, NO], 0),
        "statx" => (Stat, [0, 1, NO, NO, 2, NO, NO], 0),
        "access" => (Access, [NO, 0, NO, NO, 1, NO, NO], 0),
        "faccessat" | "faccessat2" => (Access, [0, 1, NO, NO, 2, NO, NO], 0),
        "unlink" => (Unlink, [NO, 0, NO, NO, NO, NO, NO], 0),
        "unlinkat" => (Unlink, [0, 1, NO, NO, 2, NO, NO], 0),
        "rename" => (Rename, [NO, 0, NO, 1, NO, NO, NO], 0),
        "renameat" => (Rename, [0, 1, 2, 3, NO, NO, NO], 0),
        "renameat2" => (Rename, [0, 1, 2, 3, 4, NO, NO], 0),
        "mkdir" => (Mkdir, [NO, 0, NO, NO, 1, NO, NO], 0),
        "mkdirat" => (Mkdir, [0, 1, NO, NO, 2, NO, NO], 0),
        "rmdir" => (Rmdir, [NO, 0, NO, NO, NO, NO, NO], 0),
        "link" => (Link, [NO, 0, NO, 1, NO, NO, NO], 0),
        "linkat" => (Link, [0, 1, 2, 3, 4, NO, NO], 0),
        "symlink" => (Symlink, [NO, 1, NO, 0, NO, NO, NO], 0),
        "symlinkat" => (Symlink, [1, 2, NO, 0, NO, NO, NO], 0),
        "readlink" => (Readlink, [NO, 0, NO, NO, NO, NO, 2], 0),
        "readlinkat" => (Readlink, [0, 1, NO, NO, NO, NO, 3], 0),
        "truncate" | "truncate64" => (Truncate, [NO, 0, NO, NO, NO, NO, 1], 0),
        "chmod" => (Chmod, [NO, 0, NO, NO, 1, NO, NO], 0),
        "fchmodat" | "fchmodat2" => (Chmod, [0, 1, NO, NO, 2, NO, NO], 0),
        "chown" => (Chown, [NO, 0, NO, NO, NO, 1, 2], 0),
        "lchown" => (Chown, [NO, 0, NO, NO, NO, 1, 2], NOFOLLOW),
        "fchownat" => (Chown, [0, 1, NO, NO, 4, 2, 3], 0),
        "utime" | "utimes" => (Utimens, [NO, 0, NO, NO, NO, NO, NO], 0),
        "futimesat" => (Utimens, [0, 1, NO, NO, NO, NO, NO], 0),
        "utimensat" => (Utimens, [0, 1, NO, NO, 3, NO, NO], 0),
        "setxattr" => (Setxattr, [NO, 0, NO, 1, NO, NO, 3], 0),
        "lsetxattr" => (Setxattr, [NO, 0, NO, 1, NO, NO, 3], NOFOLLOW),
        "getxattr" => (Getxattr, [NO, 0, NO, 1, NO, NO, 3], 0),
        "lgetxattr" => (Getxattr, [NO, 0, NO, 1, NO, NO, 3], NOFOLLOW),
        "listxattr" => (Listxattr, [NO, 0, NO, NO, NO, NO, 2], 0),
        "llistxattr" => (Listxattr, [NO, 0, NO, NO, NO, NO, 2], NOFOLLOW),
        "removexattr" => (Removexattr, [NO, 0, NO, 1, NO, NO, NO], 0),
        "lremovexattr" => (Removexattr, [NO, 0, NO, 1, NO, NO, NO], NOFOLLOW),
        "statfs" | "statfs64" => (Statfs, [NO, 0, NO, NO, NO, NO, NO], 0),
        "chdir" => (Chdir, [NO, 0, NO, NO, NO, NO, NO], 0),
        "execve" => (Exec, [NO, 0, NO, NO, NO, NO, NO], 0),
        "execveat" => (Exec, [0, 1, NO, NO, 4, NO, NO], 0),
        "mknod" => (Mknod, [NO, 0, NO, NO, 1, NO, NO], 0),
        "mknodat" => (Mknod, [0, 1, NO, NO, 2, NO, NO], 0),
        _ => return None,
    };
    let [dir, path, dir2, path2, flags, offset, length] = at;
    Some(PathCall {
        kind,
        dir,
        path,
        dir2,
        path2,
        flags,
        offset,
        length,
        implied,
    })
}

/// The row of a call that acts on a descriptor. The columns: descriptor, second path, flags,
/// offset, length.
pub(super) fn fd_call(name: &str) -> Option<FdCall> {
    let (kind, at, implied) = match name {
        "close" => (Close, [0, NO, NO, NO, NO], 0),
        "read" => (Read, [0, NO, NO, NO, 2], 0),
        "pread64" | "pread" => (Read, [0, NO, NO, 3, 2], 0),
        "readv" => (Read, [0, NO, NO, NO, 1], 0),
        "preadv" => (Read, [0, NO, NO, 3, 1], 0),
        "preadv2" => (Read, [0, NO, 4, 3, 1], 0),
        "write" => (Write, [0, NO, NO, NO, 2], 0),
        "pwrite64" | "pwrite" => (Write, [0, NO, NO, 3, 2], 0),
        "writev" => (Write, [0, NO, NO, NO, 1], 0),
        "pwritev" => (Write, [0, NO, NO, 3, 1], 0),
        "pwritev2" => (Write, [0, NO, 4, 3, 1], 0),
        "lseek" | "_llseek" => (Seek, [0, NO, 2, 1, NO], 0),
        "fstat" | "fstat64" | "oldfstat" => (Fstat, [0, NO, NO, NO, NO], 0),
        "ftruncate" | "ftruncate64" => (Ftruncate, [0, NO, NO, NO, 1], 0),
        "fallocate" => (Fallocate, [0, NO, 1, 2, 3], 0),
        "getdents" | "getdents64" => (Readdir, [0, NO, NO, NO, 2], 0),
        "fsync" => (Fsync, [0, NO, NO, NO, NO], 0),
        "fdatasync" => (Fdatasync, [0, NO, NO, NO, NO], 0),
        "syncfs" => (Syncfs, [0, NO, NO, NO, NO], 0),
        "sync_file_range" => (SyncFileRange, [0, NO, 3, 1, 2], 0),
        "fchmod" => (Fchmod, [0, NO, 1, NO, NO], 0),
        "fchown" => (Fchown, [0, NO, NO, 1, 2], 0),
        "fsetxattr" => (Setxattr, [0, 1, NO, NO, 3], 0),
        "fgetxattr" => (Getxattr, [0, 1, NO, NO, 3], 0),
        "flistxattr" => (Listxattr, [0, NO, NO, NO, 2], 0),
        "fremovexattr" => (Removexattr, [0, 1, NO, NO, NO], 0),
        "fstatfs" | "fstatfs64" => (Fstatfs, [0, NO, NO, NO, NO], 0),
        "fchdir" => (Fchdir, [0, NO, NO, NO, NO], 0),
        "flock" => (Lock, [0, NO, 1, NO, NO], 0),
        "fadvise64" | "fadvise64_64" => (Advise, [0, NO, 3, 1, 2], 0),
        "readahead" => (Advise, [0, NO, NO, 1, 2], WILLNEED),
        "mmap" | "mmap2" => (Mmap, [4, NO, NO, 5, 1], 0),
        _ => return None,
    };
    let [fd, path2, flags, offset, length] = at;
    let vector = name.ends_with('v') || name.ends_with("v2");
    Some(FdCall {
        kind,
        fd,
        path2,
        flags,
        offset,
        length,
        implied,
        vector,
    })
}

/// Calls that make descriptors which are not files.
pub(super) fn makes_descriptor(name: &str) -> bool {
    matches!(
        name,
        "socket"
            | "accept"
            | "accept4"
            | "eventfd"
            | "eventfd2"
            | "epoll_create"
            | "epoll_create1"
            | "signalfd"
            | "signalfd4"
            | "timerfd_create"
            | "inotify_init"
            | "inotify_init1"
            | "fanotify_init"
            | "pidfd_open"
            | "userfaultfd"
            | "perf_event_open"
            | "io_uring_setup"
            | "memfd_create"
            | "pipe"
            | "pipe2"
            | "socketpair"
    )
}

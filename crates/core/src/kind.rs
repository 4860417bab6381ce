//! The closed list of operation kinds.

use serde::{Deserialize, Serialize};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal, $class:ident;)*) => {
        /// What an operation does. System calls that differ only in how they pass arguments are one
        /// kind: `pread64`, `readv` and a read by io_uring or libaio are all [`OpKind::Read`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[repr(u8)]
        pub enum OpKind {
            $($(#[$doc])* $variant = $code,)*
        }

        impl OpKind {
            /// Every kind, in the order of the codes.
            pub const ALL: &'static [OpKind] = &[$(OpKind::$variant,)*];

            /// The name used in traces, tables and JSON.
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$variant => $name,)* }
            }

            /// The kind of that name.
            pub fn from_name(name: &str) -> Option<OpKind> {
                match name { $($name => Some(OpKind::$variant),)* _ => None }
            }

            /// The kind of that stored code.
            pub fn from_code(code: u8) -> Option<OpKind> {
                match code { $($code => Some(OpKind::$variant),)* _ => None }
            }

            /// What family of rules the kind falls under.
            pub fn class(self) -> KindClass {
                match self { $(OpKind::$variant => KindClass::$class,)* }
            }
        }
    };
}

/// In the flags of [`OpKind::CopyIn`] and [`OpKind::CopyOut`]: the call asked to share the source's blocks.
pub const COPY_SHARES: u32 = 1;
/// The same: a system that can share the source's blocks does, as both sides are on one file system, begin on a block
/// and end on one or where the files do.
pub const COPY_WHOLE_BLOCKS: u32 = 2;

/// In the flags of [`OpKind::Write`], as the kernel has them: what this one call writes is made stable before it returns.
pub const RWF_DSYNC: u32 = 2;
/// The same, and what belongs to the file.
pub const RWF_SYNC: u32 = 4;
/// In the flags of [`OpKind::Write`]: it writes at the file's end.
pub const RWF_APPEND: u32 = 16;
/// Likewise: it writes at its offset, even if the file was opened with `O_APPEND`.
pub const RWF_NOAPPEND: u32 = 32;

/// In the flags of [`OpKind::Close`]: no call of its own, but what `dup2` closes in whose place it puts another
/// descriptor. What the file system does for it comes after the call.
pub const CLOSE_BY_DUP: u32 = 1;

/// The families of kinds; each has its own meaning of [`Op`](crate::Op)'s fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KindClass {
    /// Moves data between a file and memory: offset and length are the request's, the result is
    /// the number of bytes moved.
    Data,
    /// Acts on a name: `path` is its argument.
    Name,
    /// Acts on an open file.
    File,
    /// Waits for data or metadata to be stable.
    Sync,
    /// Tells about processes, not about files.
    Process,
}

kinds! {
    /// `open`, `openat`, `openat2`, `creat`, io_uring `openat`. `flags`: open(2) flags. The result
    /// is the new descriptor.
    Open = 0, "open", Name;
    /// `close` (one op for each descriptor of a `close_range`); `flags`: [`CLOSE_BY_DUP`].
    Close = 1, "close", File;
    /// `dup`, `dup2`, `dup3`, `fcntl(F_DUPFD)`. The result is the new descriptor.
    Dup = 2, "dup", File;
    /// Every form of read. `flags`: those of `preadv2` (`RWF_*`).
    Read = 3, "read", Data;
    /// Every form of write. `flags`: those of `pwritev2` ([`RWF_DSYNC`], [`RWF_SYNC`], [`RWF_APPEND`], ...).
    Write = 4, "write", Data;
    /// `lseek`. `offset`: argument; `flags`: whence; the result is the new offset.
    Seek = 5, "seek", File;
    /// `stat`, `lstat`, `newfstatat`, `statx` by path. `flags`: `AT_SYMLINK_NOFOLLOW` for `lstat`.
    Stat = 6, "stat", Name;
    /// `fstat`, and `statx`/`newfstatat` with an empty path.
    Fstat = 7, "fstat", File;
    /// `access`, `faccessat`, `faccessat2`. `flags`: the mode asked.
    Access = 8, "access", Name;
    /// `unlink`, `unlinkat` without `AT_REMOVEDIR`.
    Unlink = 9, "unlink", Name;
    /// `rename`, `renameat`, `renameat2`. `path2`: new name; `flags`: renameat2's.
    Rename = 10, "rename", Name;
    /// `mkdir`, `mkdirat`. `flags`: mode.
    Mkdir = 11, "mkdir", Name;
    /// `rmdir`, `unlinkat` with `AT_REMOVEDIR`.
    Rmdir = 12, "rmdir", Name;
    /// `link`, `linkat`. `path2`: new name.
    Link = 13, "link", Name;
    /// `symlink`, `symlinkat`. `path`: new name; `path2`: the target text.
    Symlink = 14, "symlink", Name;
    /// `readlink`, `readlinkat`. `length`: buffer size.
    Readlink = 15, "readlink", Name;
    /// `truncate`. `length`: new size.
    Truncate = 16, "truncate", Name;
    /// `ftruncate`. `length`: new size.
    Ftruncate = 17, "ftruncate", File;
    /// `fallocate`. `offset`, `length`: the range; `flags`: mode.
    Fallocate = 18, "fallocate", File;
    /// `getdents`, `getdents64`. `length`: buffer size; the result is bytes returned.
    Readdir = 19, "readdir", File;
    /// `fsync`, io_uring `fsync`.
    Fsync = 20, "fsync", Sync;
    /// `fdatasync`, io_uring `fsync` with `IORING_FSYNC_DATASYNC`.
    Fdatasync = 21, "fdatasync", Sync;
    /// `sync`.
    Sync = 22, "sync", Sync;
    /// `syncfs`.
    Syncfs = 23, "syncfs", Sync;
    /// `sync_file_range`. `offset`, `length`: range; `flags`: its flags.
    SyncFileRange = 24, "sync_file_range", Sync;
    /// `msync` of a file mapping. `offset`, `length`: range in the file; `flags`: its flags.
    Msync = 25, "msync", Sync;
    /// `mmap` of a file. `offset`, `length`: range in the file; `flags`: low 8 bits `PROT_*`, above
    /// them `MAP_*`.
    Mmap = 26, "mmap", File;
    /// `munmap` of a file mapping. `offset`, `length`: range in the file.
    Munmap = 27, "munmap", File;
    /// A page fault on a mapped file. `offset`: of the page; `length`: the page size; `flags`: 1
    /// for a write fault.
    Fault = 28, "fault", Data;
    /// `copy_file_range`; `ioctl` with `FICLONE` or `FICLONERANGE` that succeeded; `sendfile` into a file. `flags`:
    /// [`COPY_SHARES`], [`COPY_WHOLE_BLOCKS`]. The op is the *reading* side; a [`OpKind::CopyOut`] follows for the other.
    CopyIn = 29, "copy_in", Data;
    /// The writing side of a copy; its latency is 0, the pair's is on the reading side.
    CopyOut = 30, "copy_out", Data;
    /// `sendfile` from a file to what is no file. `flags`: the address family of the socket that it goes to (1 Unix,
    /// 2 and 10 Internet), 0 where it is none or not known.
    Sendfile = 31, "sendfile", Data;
    /// `splice` from a file.
    SpliceIn = 32, "splice_in", Data;
    /// `splice` into a file.
    SpliceOut = 33, "splice_out", Data;
    /// `chmod` family by path. `flags`: mode.
    Chmod = 34, "chmod", Name;
    /// `fchmod`. `flags`: mode.
    Fchmod = 35, "fchmod", File;
    /// `chown` family by path. `offset`: uid, `length`: gid; `flags`: `AT_SYMLINK_NOFOLLOW` for `lchown`.
    Chown = 36, "chown", Name;
    /// `fchown`. `offset`: uid, `length`: gid.
    Fchown = 37, "fchown", File;
    /// `utime`, `utimes`, `futimesat`, `utimensat` by path. `flags`: `AT_SYMLINK_NOFOLLOW` or 0.
    Utimens = 38, "utimens", Name;
    /// `utimensat` with no path (`futimens`).
    Futimens = 39, "futimens", File;
    /// `setxattr`, `lsetxattr`, `fsetxattr`. `length`: value size; `path2`: attribute name; `flags`:
    /// `AT_SYMLINK_NOFOLLOW` for `lsetxattr`.
    Setxattr = 40, "setxattr", Name;
    /// `getxattr` family. `flags`: `AT_SYMLINK_NOFOLLOW` for `lgetxattr`, as of the other two `l` calls.
    Getxattr = 41, "getxattr", Name;
    /// `listxattr` family.
    Listxattr = 42, "listxattr", Name;
    /// `removexattr` family.
    Removexattr = 43, "removexattr", Name;
    /// `statfs`.
    Statfs = 44, "statfs", Name;
    /// `fstatfs`.
    Fstatfs = 45, "fstatfs", File;
    /// `chdir`.
    Chdir = 46, "chdir", Name;
    /// `fchdir`.
    Fchdir = 47, "fchdir", File;
    /// `flock`, and `fcntl` with a lock command, which has `offset` and `length`: `l_start` and `l_len`. `flags`: the
    /// operation or command and what is asked for, as in [`lock`](crate::lock).
    Lock = 48, "lock", File;
    /// `posix_fadvise`, `readahead`. `offset`, `length`: range; `flags`: advice.
    Advise = 49, "advise", File;
    /// `fork`, `vfork`, `clone`: the result is the child's thread id; `flags`: clone flags;
    /// `length`: the child's process id. A thread that is its own child made descriptors its own (unshare(2)); `flags`:
    /// what it goes on sharing.
    Fork = 50, "fork", Process;
    /// `execve`, `execveat`. `path`: the program.
    Exec = 51, "exec", Name;
    /// A thread ended. `length`: 1 if it was the process's last one; `result`: exit code.
    Exit = 52, "exit", Process;
    /// `mknod`, `mknodat`. `flags`: mode.
    Mknod = 53, "mknod", Name;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for (index, &kind) in OpKind::ALL.iter().enumerate() {
            assert_eq!(
                kind as usize, index,
                "codes are dense, so that tables can be indexed"
            );
            assert_eq!(OpKind::from_name(kind.name()), Some(kind));
            assert_eq!(OpKind::from_code(kind as u8), Some(kind));
        }
        assert_eq!(OpKind::from_code(OpKind::ALL.len() as u8), None);
    }
}

//! Flags of the calls that change processes, names and descriptors, as Linux numbers them.

#![allow(
    missing_docs,
    reason = "open(2), fcntl(2), rename(2), fallocate(2), clone(2)"
)]

use fsage_core::{Op, OpKind};

pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
pub const O_TRUNC: u32 = 0o1000;
pub const O_APPEND: u32 = 0o2000;
pub const O_DIRECT: u32 = 0o40000;
pub const O_DIRECTORY: u32 = 0o200_000;
pub const O_NOFOLLOW: u32 = 0o400_000;
pub const O_CLOEXEC: u32 = 0o2_000_000;
pub const O_PATH: u32 = 0o10_000_000;
pub const O_TMPFILE: u32 = 0o20_000_000;
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
/// Of a link: of what a symbolic link leads to.
pub const AT_SYMLINK_FOLLOW: u32 = 0x400;
/// Of a link, in a trace: it is of the file that the operation's descriptor is open on, whatever name that has.
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const RENAME_NOREPLACE: u32 = 1;
pub const RENAME_EXCHANGE: u32 = 2;
/// Leaves a character device where the name was.
pub const RENAME_WHITEOUT: u32 = 4;
/// Of a seek: from the end; to data, to a hole.
pub const SEEK_END: u32 = 2;
pub const SEEK_DATA: u32 = 3;
pub const SEEK_HOLE: u32 = 4;
pub const FALLOC_FL_KEEP_SIZE: u32 = 1;
/// Of `openat2`: the directory that a name starts from is its root.
pub const RESOLVE_IN_ROOT: u64 = 0x10;
/// Of `msync`: that it waits.
pub const MS_SYNC: u32 = 4;
pub const CLONE_VM: u32 = 0x100;
pub const CLONE_FS: u32 = 0x200;
pub const CLONE_FILES: u32 = 0x400;
pub const CLONE_THREAD: u32 = 0x1_0000;

/// Whether a call on a name follows a symbolic link at its end, for the kinds of which some calls do and others not, as the
/// operation's flags say; `None` for every other kind.
pub fn follows_last(op: &Op) -> Option<bool> {
    if op.kind == OpKind::Link {
        return Some(op.flags & AT_SYMLINK_FOLLOW != 0);
    }
    matches!(
        op.kind,
        OpKind::Stat
            | OpKind::Chown
            | OpKind::Utimens
            | OpKind::Setxattr
            | OpKind::Getxattr
            | OpKind::Listxattr
            | OpKind::Removexattr
    )
    .then_some(op.flags & AT_SYMLINK_NOFOLLOW == 0)
}

/// Whether a call on a name follows a symbolic link at its end: not where the name is made, taken away or read itself.
pub fn follows_end(op: &Op) -> bool {
    match op.kind {
        OpKind::Open => {
            op.flags & O_NOFOLLOW == 0 && op.flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL
        }
        OpKind::Unlink
        | OpKind::Rmdir
        | OpKind::Rename
        | OpKind::Symlink
        | OpKind::Mkdir
        | OpKind::Mknod
        | OpKind::Readlink => false,
        _ => follows_last(op).unwrap_or(true),
    }
}

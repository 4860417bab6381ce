//! The 52 operations of Appendix B.
//!
//! The appendix numbers `OP_READ` 34 and `OP_WRITE` 35. Figure 13, Figure 32, every sample of a configuration and the
//! text (“if the operation was a read operation … 35”) have it the other way round, and so has FileRunner: here 34 is
//! a write and 35 a read.

use fsage_core::OpKind;

/// The names in the order of their numbers, without `OP_`.
const NAMES: [&str; 52] = [
    "base",
    "read_inode",
    "write_inode",
    "put_inode",
    "delete_inode",
    "put_super",
    "statfs",
    "remount_fs",
    "clear_inode",
    "umount_begin",
    "write_super",
    "d_revalidate",
    "d_hash",
    "d_compare",
    "d_delete",
    "d_release",
    "d_iput",
    "dget",
    "dput",
    "create",
    "lookup",
    "link",
    "unlink",
    "symlink",
    "mkdir",
    "rmdir",
    "mknod",
    "rename",
    "readlink",
    "follow_link",
    "inode_revalidate",
    "setattr",
    "permission",
    "llseek",
    "write",
    "read",
    "readdir",
    "poll",
    "flush",
    "mmap",
    "lock",
    "fsync",
    "fasync",
    "ioctl",
    "open",
    "release",
    "readpage",
    "readpages",
    "writepage",
    "writepages",
    "prepare_write",
    "commit_write",
];

/// An operation by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation(u8);

impl Operation {
    /// Makes an empty file.
    pub const CREATE: Operation = Operation(19);
    /// Removes a file.
    pub const DELETE: Operation = Operation(22);
    /// Writes to a file.
    pub const WRITE: Operation = Operation(34);
    /// Reads from a file.
    pub const READ: Operation = Operation(35);
    /// What FileRunner runs, in the order in which it does in each time chunk.
    pub const RUN: [Operation; 4] = [Self::CREATE, Self::WRITE, Self::READ, Self::DELETE];

    /// The operation of that number, 0 to 51.
    pub fn from_number(number: u64) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        (usize::from(number) < NAMES.len()).then_some(Self(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name, as the appendix has it without `OP_`.
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or_default()
    }

    /// The number of those in [`Operation::RUN`].
    pub fn stage(self) -> Option<usize> {
        Self::RUN.iter().position(|&o| o == self)
    }

    /// What a tracer below the system calls would have seen of a successful call; `None` for a call that Appendix B
    /// has no number for. `created`: the open made the file.
    pub fn of(kind: OpKind, created: bool) -> Option<Self> {
        Some(match kind {
            OpKind::Open if created => Self::CREATE,
            OpKind::Open => Self(44),
            OpKind::Close => Self(45),
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => Self::READ,
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => Self::WRITE,
            OpKind::Seek => Self(33),
            OpKind::Stat | OpKind::Fstat => Self(30),
            OpKind::Access => Self(32),
            OpKind::Unlink => Self::DELETE,
            OpKind::Rename => Self(27),
            OpKind::Mkdir => Self(24),
            OpKind::Rmdir => Self(25),
            OpKind::Link => Self(21),
            OpKind::Symlink => Self(23),
            OpKind::Readlink => Self(28),
            OpKind::Truncate
            | OpKind::Ftruncate
            | OpKind::Chmod
            | OpKind::Fchmod
            | OpKind::Chown
            | OpKind::Fchown
            | OpKind::Utimens
            | OpKind::Futimens => Self(31),
            OpKind::Readdir => Self(36),
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncFileRange | OpKind::Msync => Self(41),
            OpKind::Sync | OpKind::Syncfs => Self(10),
            OpKind::Mmap => Self(39),
            OpKind::Fault => Self(46),
            OpKind::Statfs | OpKind::Fstatfs => Self(6),
            OpKind::Lock => Self(40),
            OpKind::Mknod => Self(26),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_appendix_but_for_read_and_write() {
        let at = |n: u64| Operation::from_number(n).unwrap().name();
        let known = [
            (1, "read_inode"),
            (4, "delete_inode"),
            (10, "write_super"),
            (18, "dput"),
            (19, "create"),
            (22, "unlink"),
            (32, "permission"),
            (36, "readdir"),
            (41, "fsync"),
            (46, "readpage"),
            (51, "commit_write"),
        ];
        for (number, name) in known {
            assert_eq!(at(number), name);
        }
        assert_eq!((at(34), at(35)), ("write", "read"));
        assert_eq!(Operation::from_number(52), None);
        let stages: Vec<_> = Operation::RUN.iter().map(|o| o.stage().unwrap()).collect();
        assert_eq!(stages, [0, 1, 2, 3]);
    }
}

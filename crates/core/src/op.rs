//! One file system operation.

use crate::{Errno, Fd, FileId, KindClass, OpKind, PathId, Pause, Pid, Tid};

/// What an operation returned: a value of zero or more, or an error number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcome(i64);

impl Outcome {
    /// Success with a value (bytes moved, a descriptor, 0).
    pub fn ok(value: u64) -> Self {
        Self(i64::try_from(value).unwrap_or(i64::MAX))
    }

    /// Failure with an error number.
    pub fn err(errno: Errno) -> Self {
        Self(-i64::from(errno.0))
    }

    /// From the kernel's convention: -4095 to -1 is an error, everything else a value.
    pub fn from_raw(raw: i64) -> Self {
        if raw < -4095 {
            Self(raw.wrapping_abs().max(0))
        } else {
            Self(raw)
        }
    }

    /// The kernel's convention: negative for an error.
    pub fn raw(self) -> i64 {
        self.0
    }

    /// Whether the operation succeeded.
    pub fn is_ok(self) -> bool {
        self.0 >= 0
    }

    /// The value, `None` for a failure.
    pub fn value(self) -> Option<u64> {
        u64::try_from(self.0).ok()
    }

    /// The error number, `None` for a success.
    pub fn errno(self) -> Option<Errno> {
        if self.0 < 0 {
            i32::try_from(-self.0).ok().map(Errno)
        } else {
            None
        }
    }
}

/// How the record of an operation came about; a set of bits, stored as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct OpFlags(pub u16);

impl OpFlags {
    /// The path could not be read from the process.
    pub const PATH_UNREADABLE: OpFlags = OpFlags(1);
    /// The path is longer than was recorded.
    pub const PATH_TRUNCATED: OpFlags = OpFlags(2);
    /// Issued through io_uring or io_submit (libaio); the thread is the submitter's.
    pub const URING: OpFlags = OpFlags(4);
    /// The offset is the file's position, kept by the kernel or reconstructed, not an argument.
    pub const IMPLICIT_OFFSET: OpFlags = OpFlags(8);
    /// The file was opened with `O_DIRECT`.
    pub const DIRECT: OpFlags = OpFlags(16);
    /// The file was opened with `O_APPEND`.
    pub const APPEND: OpFlags = OpFlags(32);
    /// The descriptor does not name a regular file or directory of a file system (pipe, socket,
    /// device, anonymous inode).
    pub const NOT_A_FILE: OpFlags = OpFlags(64);
    /// The file is a directory.
    pub const DIRECTORY: OpFlags = OpFlags(128);
    /// The call had to wait for the target's device; set only where the target tells.
    pub const DEVICE: OpFlags = OpFlags(256);
    /// Since the operation before, dirty data was written back and cached data dropped.
    pub const COLD_DATA: OpFlags = OpFlags(512);
    /// Names and inodes were dropped with it.
    pub const COLD_NAMES: OpFlags = OpFlags(1024);
    /// What the thread waited for before it is known: see [`Pause`].
    pub const WAITS: OpFlags = OpFlags(2048);

    /// The bits that say how long a tracer held the thread back before the call.
    const HELD_SHIFT: u32 = 12;
    const HELD_LEAST_NS: u64 = 2000;

    /// That a tracer held the thread back for so many nanoseconds since its last operation, in powers of two of
    /// a microsecond from 2 us to 33 ms; `ns` keeps what is left over, for the next operation.
    pub fn held_back(ns: &mut u64) -> OpFlags {
        if *ns < Self::HELD_LEAST_NS {
            return OpFlags::default();
        }
        let code = (*ns / 1000).ilog2().min(15);
        let flags = OpFlags((code as u16) << Self::HELD_SHIFT);
        *ns -= flags.held_back_ns();
        flags
    }

    /// For how long a tracer held the thread back between its last operation and this one, in nanoseconds: time
    /// that is neither's, and no work of the program's.
    pub fn held_back_ns(self) -> u64 {
        match self.0 >> Self::HELD_SHIFT {
            0 => 0,
            code => 1000 << code,
        }
    }

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: OpFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for OpFlags {
    type Output = OpFlags;
    fn bitor(self, rhs: OpFlags) -> OpFlags {
        OpFlags(self.0 | rhs.0)
    }
}

impl std::ops::BitOrAssign for OpFlags {
    fn bitor_assign(&mut self, rhs: OpFlags) {
        self.0 |= rhs.0;
    }
}

/// One file system operation, small and closed: what an analysis adds is a record of its own.
///
/// The meaning of `offset`, `length` and `flags` for each kind stands at [`OpKind`]. Paths are ids
/// in the [`PathTable`](crate::PathTable) of the stream that the operation came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Op {
    /// What was done.
    pub kind: OpKind,
    /// How the record came about.
    pub record: OpFlags,
    /// When it was issued, in nanoseconds since the stream began.
    pub start_ns: u64,
    /// How long the kernel worked on it, in nanoseconds; `None` if it was not measured.
    pub latency_ns: Option<u64>,
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// What it returned.
    pub result: Outcome,
    /// The descriptor it was given (for path operations the directory's, `AT_FDCWD` as `None`).
    pub fd: Option<Fd>,
    /// The file it acted on (for `Open` the file opened), where known.
    pub file: Option<FileId>,
    /// The path as given.
    pub path: Option<PathId>,
    /// The second path as given.
    pub path2: Option<PathId>,
    /// The directory against which a relative `path` resolves, absolute, where known.
    pub dir: Option<PathId>,
    /// The directory against which a relative `path2` resolves, absolute, where it differs.
    pub dir2: Option<PathId>,
    /// Offset in bytes.
    pub offset: Option<u64>,
    /// Length in bytes.
    pub length: Option<u64>,
    /// Flags of the call.
    pub flags: u32,
    /// Size of the file in bytes when the call began (for `Open`, `Stat`: when it returned).
    pub size_bytes: Option<u64>,
    /// Requested pages that were not in the page cache; `None` if unknown.
    pub pages_missed: Option<u32>,
    /// Pages read beyond the request; `None` if unknown.
    pub pages_ahead: Option<u32>,
    /// What the thread did not do itself since its last operation.
    pub pause: Pause,
}

impl Op {
    /// An operation with nothing known but its kind, process and time.
    pub fn new(kind: OpKind, pid: Pid, tid: Tid, start_ns: u64) -> Self {
        Self {
            kind,
            record: OpFlags::default(),
            start_ns,
            latency_ns: None,
            pid,
            tid,
            result: Outcome::ok(0),
            fd: None,
            file: None,
            path: None,
            path2: None,
            dir: None,
            dir2: None,
            offset: None,
            length: None,
            flags: 0,
            size_bytes: None,
            pages_missed: None,
            pages_ahead: None,
            pause: Pause::default(),
        }
    }

    /// Whether its latency is the work of a file system. A fork (a vfork lasts until the child's exec), an
    /// exec (which mostly builds a process), a read of a pipe and a call on no descriptor are none of it;
    /// the name of a device is.
    pub fn in_file_system(&self) -> bool {
        let class = self.kind.class();
        let foreign = self.kind == OpKind::Exec
            || class == KindClass::Process
            || self.record.contains(OpFlags::NOT_A_FILE) && class != KindClass::Name
            || self.file.is_none() && self.result.errno() == Some(Errno::EBADF);
        !foreign
    }

    /// When it returned, in nanoseconds since the stream began; its start where no latency is known.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.latency_ns.unwrap_or(0))
    }

    /// Bytes moved by a successful data operation, 0 for everything else.
    pub fn bytes_moved(&self) -> u64 {
        if self.kind.class() == KindClass::Data && self.kind != OpKind::Fault {
            self.result.value().unwrap_or(0)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_pipes_and_no_descriptors_are_no_work_of_a_file_system() {
        let op = |kind| Op::new(kind, Pid(1), Tid(1), 0);
        assert!(op(OpKind::Read).in_file_system() && op(OpKind::Open).in_file_system());
        for kind in [OpKind::Exec, OpKind::Fork, OpKind::Exit] {
            assert!(!op(kind).in_file_system(), "{kind:?}");
        }
        let (mut pipe, mut device, mut closed) =
            (op(OpKind::Read), op(OpKind::Open), op(OpKind::Read));
        for op in [&mut pipe, &mut device] {
            op.record = OpFlags::NOT_A_FILE;
        }
        closed.result = Outcome::err(Errno::EBADF);
        assert!(!pipe.in_file_system() && device.in_file_system() && !closed.in_file_system());
    }

    #[test]
    fn outcomes_keep_the_kernels_convention() {
        assert_eq!(Outcome::from_raw(-2).errno(), Some(Errno(2)));
        assert_eq!(Outcome::from_raw(7).value(), Some(7));
        assert_eq!(Outcome::err(Errno(28)).raw(), -28);
        assert!(!Outcome::err(Errno(1)).is_ok());
    }
}

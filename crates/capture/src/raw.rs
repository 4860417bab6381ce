//! What a capture backend saw, before it is understood.
//!
//! Both backends (eBPF, ptrace) yield [`RawEvent`]s; the assembler alone turns them into
//! [`fsage_core::Op`]s. Events come in the order in which calls *ended*.

use fsage_core::{Pid, Tid};
use rustix::process::Signal;

use crate::session::OwnTime;

/// The file behind a descriptor as the kernel (or /proc) showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RawFile {
    /// Device in the kernel's internal encoding (`s_dev`): 12 bits of major above 20 of minor.
    pub dev: u32,
    /// `i_mode`: type and permissions; 0 where unknown.
    pub mode: u32,
    /// Inode number.
    pub ino: u64,
    /// `i_generation`, 0 where unknown.
    pub generation: u32,
    /// `f_flags` of the open file; 0 where unknown.
    pub open_flags: u32,
    /// `f_pos` in bytes at the start of the call.
    pub position: u64,
    /// `i_size` in bytes at the start of the call (for an open: at its end).
    pub size_bytes: u64,
}

/// A system call that returned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawCall {
    /// The x86-64 system call number.
    pub nr: u32,
    /// Start in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// Nanoseconds from entry to exit, less what the tracer takes itself.
    pub latency_ns: u64,
    /// Process and thread.
    pub pid: Pid,
    /// Thread.
    pub tid: Tid,
    /// Return value.
    pub result: i64,
    /// For how long the tracer held the thread back since its last record.
    pub held_back_ns: u64,
    /// The six arguments. The third of an `fcntl` lock is `l_type` and, above 16 bits, `l_whence`; all ones where
    /// that could not be read.
    pub args: [u64; 6],
    /// The file of the first descriptor argument (for an open: of the descriptor returned; for a call that changes it:
    /// the working directory, where known).
    pub file: Option<RawFile>,
    /// The file of the second descriptor argument (`copy_file_range`, `sendfile`, `splice`).
    pub file2: Option<RawFile>,
    /// The first path argument, without its NUL.
    pub path: Option<Vec<u8>>,
    /// The second path argument (or the target text of a symlink, or an attribute's name).
    pub path2: Option<Vec<u8>>,
    /// A path argument was there and could not be read.
    pub path_unreadable: bool,
    /// A path is longer than was recorded.
    pub path_truncated: bool,
    /// Requested pages that were added to the page cache during the call; `None` if unknown.
    pub pages_missed: Option<u32>,
    /// Pages added beyond the request; `None` if unknown.
    pub pages_ahead: Option<u32>,
    /// The two words of an argument structure that the call points to, where it has one: `openat2`
    /// (flags, how names are resolved), `readv` family (total length, count), `copy_file_range`/`splice` (offsets in
    /// and out at entry, `u64::MAX` for a null pointer), `sendfile` (the offset likewise; the address
    /// family of the socket, `u64::MAX` where there is none or it is not known), `fcntl` locks (start, length),
    /// `setxattrat` and `getxattrat` (the value's address, its size).
    pub extra: [u64; 2],
    /// It was asked for by io_uring: times are those of its submission and completion. The descriptor is all ones
    /// for a file that was registered with the ring.
    pub request: bool,
}

/// Something seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RawEvent {
    /// A system call returned, or an io_uring request was completed that does what one does.
    Call(Box<RawCall>),
    /// A thread or process was made.
    Fork {
        /// When, ns of `CLOCK_MONOTONIC`.
        at_ns: u64,
        /// Maker.
        pid: Pid,
        /// Making thread.
        tid: Tid,
        /// The child's process (equal to `pid` for a thread).
        child_pid: Pid,
        /// The child's thread.
        child_tid: Tid,
        /// clone(2) flags: `CLONE_FILES` and `CLONE_FS` say whether tables are shared.
        clone_flags: u64,
    },
    /// A process runs another program; descriptors with `FD_CLOEXEC` are closed.
    Exec {
        /// When.
        at_ns: u64,
        /// Process.
        pid: Pid,
        /// Thread that called execve; it becomes the leader.
        tid: Tid,
        /// The program's file.
        file: Option<RawFile>,
    },
    /// A thread ended.
    Exit {
        /// When.
        at_ns: u64,
        /// Process.
        pid: Pid,
        /// Thread.
        tid: Tid,
        /// Whether it was the process's last one.
        last: bool,
        /// Wait status.
        code: i32,
    },
    /// A page fault on a mapped file.
    Fault {
        /// When.
        at_ns: u64,
        /// Nanoseconds it took, where known.
        latency_ns: Option<u64>,
        /// Process.
        pid: Pid,
        /// Thread.
        tid: Tid,
        /// The mapped file.
        file: RawFile,
        /// Page index in the file.
        page: u64,
        /// Whether it was for writing.
        write: bool,
        /// Pages that were not in the page cache.
        pages_missed: u32,
        /// Pages read beyond the one that faulted.
        pages_ahead: u32,
    },
    /// An io_uring request was completed: a read, write, open, close or fsync. Others on files are told as calls.
    Uring {
        /// Submission, ns of `CLOCK_MONOTONIC`.
        start_ns: u64,
        /// Nanoseconds from submission to completion.
        latency_ns: u64,
        /// Submitter's process.
        pid: Pid,
        /// Submitter's thread.
        tid: Tid,
        /// `IORING_OP_*`.
        opcode: u8,
        /// Result.
        result: i32,
        /// The file.
        file: Option<RawFile>,
        /// The descriptor; `None` for a file that was registered with the ring, whose number is an index
        /// into what is registered, and for an open.
        fd: Option<i32>,
        /// Offset in bytes, all ones for the file's position; the directory's descriptor of an
        /// open, the descriptor of a close.
        offset: u64,
        /// Length in bytes (of vectors: number of buffers; an open: its mode).
        length: u64,
        /// Flags of the request (open flags, `IORING_FSYNC_DATASYNC`).
        flags: u32,
        /// The path of an open.
        path: Option<Vec<u8>>,
    },
    /// A watched thread ended the sleep of another one.
    Wake {
        /// When.
        at_ns: u64,
        /// Who.
        tid: Tid,
        /// Whose.
        woken: Tid,
    },
    /// A thread was on no processor; told when it is back, and only where `Wake` is.
    Away {
        /// From when, ns of `CLOCK_MONOTONIC`.
        from_ns: u64,
        /// Until when.
        back_ns: u64,
        /// When its sleep ended; `None` where it did not sleep and others ran. A processor that was idle runs
        /// a thread as soon as it can: then this is when it was back.
        woken_ns: Option<u64>,
        /// Whether a watched thread ended the sleep; when that was, its `Wake` tells.
        by_watched: bool,
        /// Who.
        tid: Tid,
    },
    /// Somebody who is not watched renamed something: a directory of which a name is known may have another.
    Moved,
    /// Events were lost here.
    Lost {
        /// How many there was no room for.
        count: u64,
        /// How many calls of 32-bit programs were seen; their arguments are not understood.
        of_32_bit: u64,
    },
}

/// The request of ioctl that maps a file's blocks; told where it is asked to write the data before.
pub const FIEMAP: u32 = 0xc020_660b;

/// Opcodes of io_uring(7) that are told as [`RawEvent::Uring`].
#[allow(missing_docs, reason = "the names are the kernel's")]
pub mod uring {
    pub const READV: u8 = 1;
    pub const WRITEV: u8 = 2;
    pub const FSYNC: u8 = 3;
    pub const READ_FIXED: u8 = 4;
    pub const WRITE_FIXED: u8 = 5;
    pub const OPENAT: u8 = 18;
    pub const CLOSE: u8 = 19;
    pub const READ: u8 = 22;
    pub const WRITE: u8 = 23;
    pub const OPENAT2: u8 = 28;
    pub const READV_FIXED: u8 = 60;
    pub const WRITEV_FIXED: u8 = 61;
}

/// Calls that were kept from returning so that nothing is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldBack {
    /// How many.
    pub calls: u64,
    /// Sum of the times after their ends, ns.
    pub total_ns: u64,
}

/// A running capture: yields raw events until what it watches has ended or it is told to stop.
pub trait Backend {
    /// What the capture is called in traces (`ebpf`, `ptrace`).
    fn method(&self) -> &'static str;

    /// Hands every event that is ready to `take`, waiting a bounded time (about 20 ms) if none is.
    /// Returns `false` once nothing more will come.
    fn poll(&mut self, take: &mut dyn FnMut(RawEvent)) -> Result<bool, crate::CaptureError>;

    /// Ends the capture: detaches from whatever still runs, unharmed. Events that are already
    /// there are still yielded by [`Backend::poll`].
    fn stop(&mut self);

    /// What this way of watching cannot see here, as phrases that complete "not seen: …".
    fn unseen(&self) -> Vec<&'static str>;

    /// Whether [`RawEvent::Wake`] and [`RawEvent::Away`] are told.
    fn tells_waits(&self) -> bool {
        false
    }

    /// What this way of watching takes itself of each call.
    fn own(&self) -> OwnTime {
        OwnTime::default()
    }

    /// Calls held back so far.
    fn held_back(&self) -> HeldBack {
        HeldBack::default()
    }

    /// Sends a signal to a process if it is watched; whether it was.
    fn signal(&self, pid: Pid, signal: Signal) -> bool;

    /// Processes that were asked for by descent and may not be watched.
    fn refused(&self) -> &[Pid] {
        &[]
    }
}

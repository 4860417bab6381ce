//! One capture from its start to its end.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fsage_core::{OpSink, Pid};
use rustix::time::{ClockId, clock_gettime};

use crate::CaptureError;
use crate::assemble::Assembler;
use crate::drain::Drain;
use crate::raw::HeldBack;
use crate::start::{self, Running, Started};

/// How to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// eBPF where it is allowed, ptrace otherwise.
    #[default]
    Auto,
    /// eBPF or nothing.
    Ebpf,
    /// ptrace with a seccomp filter; needs no privileges.
    Ptrace,
}

/// What to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A command that the capture starts, and all that it starts.
    Command {
        /// The program (looked up in `PATH`) and its arguments.
        argv: Vec<OsString>,
        /// Where it runs; `None` for the caller's directory.
        cwd: Option<PathBuf>,
        /// Added to the caller's environment.
        env: Vec<(OsString, OsString)>,
    },
    /// Running processes with all their threads and descendants.
    Pids(Vec<Pid>),
}

/// A capture to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureRequest {
    /// How.
    pub method: Method,
    /// Only operations on files below one of these directories; all if empty.
    pub under: Vec<PathBuf>,
    /// Of what.
    pub what: What,
    /// Ends the capture after this time.
    pub limit: Option<Duration>,
    /// Room for what was seen and is not yet an operation (eBPF).
    pub buffers: Buffers,
    /// How long a command that was asked to stop gets to do so; its last operations and its status
    /// are recorded then. The caller passes the signal on.
    pub patience: Duration,
    /// A command whose capture fails runs on; otherwise it is ended with all that it started.
    pub keep_running: bool,
    /// The command writes to standard error what it would write to standard output.
    pub output_to_stderr: bool,
    /// Open descriptors to which the command writes what it would write to standard output and error.
    pub output_to: Option<(RawFd, RawFd)>,
}

/// How much may wait between kernel, tracer and sink, and what happens when it is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffers {
    /// Size of the ring between kernel and tracer in MiB, rounded up to a power of two.
    pub ring_mib: u32,
    /// Memory for what was taken out of the ring, MiB.
    pub spool_mib: u32,
    /// Calls are kept from returning while the ring is more than half full, instead of being lost
    /// when it is full.
    pub throttle: bool,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            ring_mib: Self::DEFAULT_RING_MIB,
            spool_mib: Self::DEFAULT_SPOOL_MIB,
            throttle: true,
        }
    }
}

impl Buffers {
    /// Enough for what comes while the thread that empties it waits for a processor.
    pub const DEFAULT_RING_MIB: u32 = 16;
    /// Little enough for any machine.
    pub const DEFAULT_SPOOL_MIB: u32 = 64;

    pub(crate) fn ring_bytes(&self) -> u32 {
        self.ring_mib.clamp(1, 1024).next_power_of_two() << 20
    }

    pub(crate) fn spool_bytes(&self) -> u64 {
        u64::from(self.spool_mib) << 20
    }
}

impl CaptureRequest {
    /// A capture of everything that `what` does, by whatever method is allowed.
    pub fn new(what: What) -> Self {
        Self {
            method: Method::Auto,
            under: Vec::new(),
            what,
            limit: None,
            buffers: Buffers::default(),
            patience: Duration::ZERO,
            keep_running: false,
            output_to_stderr: false,
            output_to: None,
        }
    }

    /// What stands for the command's standard output and error.
    pub(crate) fn output(&self) -> (RawFd, RawFd) {
        let (output, error) = (libc::STDOUT_FILENO, libc::STDERR_FILENO);
        match self.output_to {
            Some(both) => both,
            None if self.output_to_stderr => (error, error),
            None => (output, error),
        }
    }
}

/// What is known once a capture runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureStart {
    /// `ebpf` or `ptrace`.
    pub method: &'static str,
    /// Why that one, as a phrase for the user.
    pub method_reason: String,
    /// Wall-clock time at which the operations' clock is 0, ns since the epoch.
    pub start_unix_ns: u64,
    /// The command's process, or the first of the processes attached to.
    pub pid: Pid,
    /// What this method cannot see here, as phrases that complete "not seen: …".
    pub unseen: Vec<&'static str>,
    /// Descendants of the processes attached to that may not be watched.
    pub refused: Vec<Pid>,
    /// What the tracer takes itself of each call.
    pub own: OwnTime,
    /// Whether operations tell for how long and how often their threads waited and slept.
    pub tells_waits: bool,
}

/// What a way of watching takes itself of each call, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnTime {
    /// Between the two stamps: it is subtracted from every latency.
    pub within_ns: u64,
    /// All of it, of a call on a file: as it is in no latency, it is in the pauses between calls.
    pub all_ns: u64,
}

/// What a capture tells while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The command is there and waits to run its program; the first of all.
    Waiting {
        /// Its process.
        pid: Pid,
    },
    /// It begins.
    Started(&'a CaptureStart),
    /// The command has ended, and the capture goes on with these, which it started.
    CommandEnded {
        /// Processes that run on.
        running_on: &'a [Pid],
    },
    /// Events were lost.
    Lost {
        /// All that were lost so far.
        so_far: u64,
    },
    /// The capture cannot go on; its error follows.
    Broken {
        /// Why, as a phrase that completes "failed to …".
        why: &'a str,
        /// The command is being ended; otherwise it runs on untraced.
        ends: bool,
    },
    /// A command whose capture could not go on has ended untraced.
    EndedUntraced {
        /// Its exit status (128 + signal).
        exit_status: Option<i32>,
    },
}

/// What came of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureSummary {
    /// `ebpf` or `ptrace`.
    pub method: &'static str,
    /// Why that one; where another was not possible, with the error.
    pub method_reason: String,
    /// Operations handed to the sink.
    pub operations: u64,
    /// Events that are missing: there was no room in the ring, a 32-bit program made them, or they
    /// are among those left out.
    pub lost: u64,
    /// Of these, calls of 32-bit programs.
    pub lost_32_bit: u64,
    /// Of these, operations on files whose opening was lost, so that nobody knows whether they
    /// belong to the directories asked for.
    pub left_out: u64,
    /// Of these, what was seen and had not become an operation when a signal ended the capture.
    pub cut_short: u64,
    /// Operations handed on without the name of their file or directory, because it was lost.
    pub nameless: u64,
    /// How often a directory was mounted at a second place, or moved, by what was traced: names there lead to files that
    /// have others, and are not known to be below the directories asked for.
    pub mounted_again: u64,
    /// How often a directory that others renamed was not found by its new name: names relative to it are told with the old
    /// one.
    pub strayed: u64,
    /// Calls that were kept from returning, so that nothing is lost. Their latencies do not hold
    /// it; the pauses between operations do.
    pub held_back: HeldBack,
    /// Operations handed on out of the order of their start.
    pub late: u64,
    /// The command's exit status (128 + signal); `None` for an attach, or if it still runs.
    pub exit_status: Option<i32>,
    /// Wall-clock time at which the operations' clock is 0, ns since the epoch.
    pub start_unix_ns: u64,
    /// From the start to the last event, ns.
    pub elapsed_ns: u64,
    /// Whether pages missed and read ahead were seen (not under ptrace).
    pub pages_known: bool,
    /// Processes that were watched and run on.
    pub running_on: Vec<Pid>,
    /// The programs that processes ran, by their number.
    pub programs: std::collections::BTreeMap<u32, String>,
}

/// Runs a capture and hands every operation to `sink`, in the order of their start.
///
/// It ends when the command (or the last of the processes attached to) has ended, when the limit is
/// reached, or when `stop` becomes true and the request's patience is over; what was seen until then
/// is kept, and what still runs is left unharmed. What then waits to become operations has a bounded time to do so: the rest
/// is counted as lost. A command that ptrace filters cannot be left: that
/// capture goes on until its last descendant has ended, and one that is stopped ends them. When it
/// fails, the command is ended unless the request says otherwise.
/// `notice` is called before the first operation, and when something happens that a user should know.
///
/// Errors: the method is not possible here, the command cannot be run, or the sink failed.
pub fn capture(
    request: &CaptureRequest,
    stop: &AtomicBool,
    sink: &mut dyn OpSink,
    notice: &mut dyn FnMut(&Notice<'_>),
) -> Result<CaptureSummary, CaptureError> {
    let Started {
        mut running,
        reason,
        processes,
        pid,
    } = start::start(request)?;
    let (base_ns, start_unix_ns) = now();
    let mut assembler = Assembler::new(base_ns, &request.under)?;
    prepare(&mut assembler, &running, processes);
    let method = running.method();
    let is_command = matches!(request.what, What::Command { .. });
    if is_command {
        notice(&Notice::Waiting { pid });
    }
    // A command that cannot be run has no capture; what the others do first waits in the ring.
    running.go()?;
    notice(&Notice::Started(&CaptureStart {
        method,
        method_reason: reason.said,
        start_unix_ns,
        pid,
        unseen: running.backend().unseen(),
        refused: running.backend().refused().to_vec(),
        own: running.backend().own(),
        tells_waits: running.backend().tells_waits(),
    }));
    let driven = drive(
        request,
        stop,
        &mut running,
        &mut assembler,
        base_ns,
        sink,
        notice,
    );
    let cut_short = match driven {
        Ok(cut_short) => cut_short,
        Err(error) => {
            broken(request, &error, &mut running, &mut assembler, notice);
            return Err(error);
        }
    };
    let (exit_status, pages_known) = (running.exit_status(), running.pages_known());
    let held_back = running.backend().held_back();
    // What cannot run on without its tracer ends here.
    drop(running);
    Ok(CaptureSummary {
        method,
        method_reason: reason.whole,
        operations: assembler.operations(),
        lost: assembler.lost(),
        lost_32_bit: assembler.lost_32_bit(),
        left_out: assembler.left_out(),
        cut_short,
        nameless: assembler.nameless(),
        mounted_again: assembler.mounted_again(),
        strayed: assembler.strayed(),
        held_back,
        late: assembler.late(),
        exit_status,
        start_unix_ns,
        elapsed_ns: assembler.end_ns(),
        pages_known,
        running_on: assembler.running_on(),
        programs: assembler.take_program_names(),
    })
}

/// A capture cannot go on: says so, and ends what it watches or leaves it to run on, as it was asked to.
fn broken(
    request: &CaptureRequest,
    error: &CaptureError,
    running: &mut Running,
    assembler: &mut Assembler,
    notice: &mut dyn FnMut(&Notice<'_>),
) {
    let is_command = matches!(request.what, What::Command { .. });
    let ends = is_command && !request.keep_running;
    let why = &error.to_string();
    notice(&Notice::Broken { why, ends });
    if ends {
        crate::end::tree(running, assembler, request.patience);
        return;
    }
    // What was to be left in the end is left now; otherwise whoever waits for fsage waits for it.
    let wait = is_command && request.limit.is_none();
    crate::end::leave(running, assembler, wait);
    if wait {
        let exit_status = running.exit_status();
        notice(&Notice::EndedUntraced { exit_status });
    }
}

/// Tells the assembler what will be told, and of the processes that run already.
fn prepare(assembler: &mut Assembler, running: &Running, processes: Vec<Pid>) {
    assembler.expect_waits(running.backend().tells_waits());
    for process in processes {
        assembler.adopt(process);
    }
}

/// Hands on what is seen until the end.
fn drive(
    request: &CaptureRequest,
    stop: &AtomicBool,
    running: &mut Running,
    assembler: &mut Assembler,
    base_ns: u64,
    sink: &mut dyn OpSink,
    notice: &mut dyn FnMut(&Notice<'_>),
) -> Result<u64, CaptureError> {
    let limit_ns = request
        .limit
        .map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let patience = match request.what {
        What::Command { .. } => request.patience,
        What::Pids(_) => Duration::ZERO,
    };
    let mut drain = Drain::new(stop, patience);
    let (mut stopped, mut reported) = (false, false);
    let mut lost = 0;
    while drain.poll(running, assembler)? {
        assembler.flush(sink, false)?;
        if assembler.lost() > lost {
            lost = assembler.lost();
            notice(&Notice::Lost { so_far: lost });
        }
        if !reported && running.outlives_command() {
            reported = true;
            let running_on = &assembler.running_on();
            notice(&Notice::CommandEnded { running_on });
        }
        let now_ns = now().0;
        let over = limit_ns.is_some_and(|limit| now_ns.saturating_sub(base_ns) >= limit);
        if !stopped && (over || drain.is_due(now_ns)) {
            running.stop();
            stopped = true;
        }
    }
    assembler.flush(sink, true)?;
    Ok(drain.left())
}

/// `CLOCK_MONOTONIC`, and the wall clock's time since the epoch, in ns.
pub(crate) fn now() -> (u64, u64) {
    let ns = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    (ns(ClockId::Monotonic), ns(ClockId::Realtime))
}

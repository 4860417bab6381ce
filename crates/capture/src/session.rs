//! One capture from its start to its end.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fsage_core::{OpSink, Pid};
use rustix::time::{ClockId, clock_gettime};

use crate::CaptureError;
use crate::assemble::Assembler;
use crate::start::{self, Started};

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
    /// Size of the ring between kernel and tracer in MiB, rounded up to a power of two (eBPF).
    pub ring_mib: u32,
    /// How long a command that was asked to stop gets to do so; its last operations and its status
    /// are recorded then. The caller passes the signal on.
    pub patience: Duration,
}

impl CaptureRequest {
    /// The size of the ring that lost nothing in any measurement.
    pub const DEFAULT_RING_MIB: u32 = 8;

    /// A capture of everything that `what` does, by whatever method is allowed.
    pub fn new(what: What) -> Self {
        Self {
            method: Method::Auto,
            under: Vec::new(),
            what,
            limit: None,
            ring_mib: Self::DEFAULT_RING_MIB,
            patience: Duration::ZERO,
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
}

/// What a capture tells while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// It begins; the first of all.
    Started(&'a CaptureStart),
    /// The command has ended, and the capture goes on with these, which it started.
    CommandEnded {
        /// Processes that run on.
        running_on: &'a [Pid],
    },
}

/// What came of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureSummary {
    /// `ebpf` or `ptrace`.
    pub method: &'static str,
    /// Why that one.
    pub method_reason: String,
    /// Operations handed to the sink.
    pub operations: u64,
    /// Events that are missing: there was no room in the ring, or a 32-bit program made them.
    pub lost: u64,
    /// Of these, calls of 32-bit programs.
    pub lost_32_bit: u64,
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
/// is kept, and what still runs is left unharmed. A command that ptrace filters cannot be left: that
/// capture goes on until its last descendant has ended, and one that is stopped ends them.
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
    for process in processes {
        assembler.adopt(process);
    }
    let method = running.method();
    // A command that cannot be run has no capture; what the others do first waits in the ring.
    running.go()?;
    notice(&Notice::Started(&CaptureStart {
        method,
        method_reason: reason.clone(),
        start_unix_ns,
        pid,
        unseen: running.backend().unseen(),
        refused: running.backend().refused().to_vec(),
    }));
    let limit_ns = request
        .limit
        .map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let patience_ns = match request.what {
        What::Command { .. } => request.patience.as_nanos(),
        What::Pids(_) => 0,
    };
    let mut asked_ns = None;
    let (mut stopped, mut told) = (false, false);
    while running.poll(&mut assembler)? {
        assembler.flush(sink, false)?;
        if !told && running.outlives_command() {
            told = true;
            let running_on = &assembler.running_on();
            notice(&Notice::CommandEnded { running_on });
        }
        let now_ns = now().0;
        let over = limit_ns.is_some_and(|limit| now_ns.saturating_sub(base_ns) >= limit);
        let asked = stop.load(Ordering::Relaxed) && {
            let since = *asked_ns.get_or_insert(now_ns);
            u128::from(now_ns.saturating_sub(since)) >= patience_ns
        };
        if !stopped && (over || asked) {
            running.stop();
            stopped = true;
        }
    }
    assembler.flush(sink, true)?;
    let (exit_status, pages_known) = (running.exit_status(), running.pages_known());
    // What cannot run on without its tracer ends here.
    drop(running);
    Ok(CaptureSummary {
        method,
        method_reason: reason,
        operations: assembler.operations(),
        lost: assembler.lost(),
        lost_32_bit: assembler.lost_32_bit(),
        late: assembler.late(),
        exit_status,
        start_unix_ns,
        elapsed_ns: assembler.end_ns(),
        pages_known,
        running_on: assembler.running_on(),
        programs: assembler.take_program_names(),
    })
}

/// `CLOCK_MONOTONIC`, and the wall clock's time since the epoch, in ns.
fn now() -> (u64, u64) {
    let ns = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    (ns(ClockId::Monotonic), ns(ClockId::Realtime))
}

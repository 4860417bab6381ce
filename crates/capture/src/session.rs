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
    /// Events that the kernel could not hand over because the ring was full.
    pub lost: u64,
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
}

/// Runs a capture and hands every operation to `sink`, in the order of their start.
///
/// It ends when the command (or the last of the processes attached to) has ended, when the limit is
/// reached, or when `stop` becomes true; what was seen until then is kept, and what still runs is
/// left unharmed. `on_start` is called once, before the first operation.
///
/// Errors: the method is not possible here, the command cannot be run, or the sink failed.
pub fn capture(
    request: &CaptureRequest,
    stop: &AtomicBool,
    sink: &mut dyn OpSink,
    on_start: &mut dyn FnMut(&CaptureStart),
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
    on_start(&CaptureStart {
        method,
        method_reason: reason.clone(),
        start_unix_ns,
        pid,
    });
    running.go()?;
    let limit_ns = request
        .limit
        .map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let mut stopped = false;
    while running.poll(&mut assembler)? {
        assembler.flush(sink, false)?;
        let over = limit_ns.is_some_and(|limit| now().0.saturating_sub(base_ns) >= limit);
        if !stopped && (over || stop.load(Ordering::Relaxed)) {
            running.stop();
            stopped = true;
        }
    }
    assembler.flush(sink, true)?;
    Ok(CaptureSummary {
        method,
        method_reason: reason,
        operations: assembler.operations(),
        lost: assembler.lost(),
        late: assembler.late(),
        exit_status: running.exit_status(),
        start_unix_ns,
        elapsed_ns: assembler.end_ns(),
        pages_known: running.pages_known(),
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

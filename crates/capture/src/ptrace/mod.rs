//! Capture without privileges: ptrace(2), and a seccomp filter that stops a program only at the
//! file system calls.
//!
//! What always holds:
//! * A launched command under the filter is killed if its tracer dies (`PTRACE_O_EXITKILL`): the
//!   filter cannot be taken back, and without a tracer every captured call fails with ENOSYS. For
//!   the same reason it cannot be detached from: after [`stop`](crate::raw::Backend::stop) it goes
//!   on unrecorded, as long as the [`Ptrace`] lives. [`Launch::detachable`] avoids both.
//! * An attached process has no filter, stops at every call, and goes on unharmed when the capture
//!   is stopped, dropped or killed.
//! * All tracees stand still from the return of [`Ptrace::launch`] or [`Ptrace::attach`] to the
//!   first [`poll`](crate::raw::Backend::poll), so that their descriptors can be looked at.
//! * A call's latency is the time between its two stops less the least that two stops have cost
//!   so far ([`Ptrace::stop_cost_ns`]; the first estimate comes from a child that does nothing).
//!   What stops cost beyond the least, microseconds at times, stays in it.
//! * No event is lost: when the reader is slow, the tracees wait.
//!
//! One thread does all the tracing (`tracer`), as the kernel demands; `calls` is the table of what
//! is captured, `filter` the same as a BPF program, `launch` and `attach` how it begins and ends,
//! `files` and `memory` what is read of a stopped tracee, `shared` the way of the events.

mod attach;
mod calls;
mod files;
mod filter;
mod launch;
mod memory;
mod shared;
mod sys;
mod tracer;

use std::os::fd::AsFd as _;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_core::Pid;
use rustix::process::{PidfdFlags, Signal, pidfd_open};

pub use launch::Launch;

use crate::CaptureError;
use crate::raw::{Backend, RawEvent};
use shared::{Order, Shared};
use tracer::Tracer;

/// What this backend cannot see, as phrases that complete "not seen: …".
const LIMITATIONS: &[&str] = &[
    "pages missed and read ahead",
    "page faults on mapped files",
    "requests of io_uring and libaio",
    "inode generations",
    "what threads wait for",
    "calls of 32-bit programs (counted)",
];

/// A capture by ptrace.
pub struct Ptrace {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    waiter: sys::Waiter,
    command: Option<Pid>,
    detachable: bool,
    processes: Vec<Pid>,
    refused: Vec<Pid>,
}

/// What the tracing thread answers once it has begun.
struct Begun {
    waiter: sys::Waiter,
    command: Option<Pid>,
    processes: Vec<Pid>,
    refused: Vec<Pid>,
}

impl Ptrace {
    /// Starts a command, which stands still at its first instruction until the first poll.
    ///
    /// # Errors
    /// [`CaptureError::Command`] if it cannot be run (with the kernel's reason, such as not found
    /// or permission denied), [`CaptureError::Unsupported`] without seccomp filters,
    /// [`CaptureError::Io`] for a directory that cannot be entered.
    pub fn launch(launch: Launch) -> Result<Self, CaptureError> {
        let detachable = launch.detachable;
        Self::begin(detachable, move |tracer, waiter| {
            let pid = tracer.launch(&launch)?;
            let processes = vec![pid];
            Ok(Begun {
                waiter,
                command: Some(pid),
                processes,
                refused: Vec::new(),
            })
        })
    }

    /// Attaches to running processes, all their threads and descendants; they stand still until
    /// the first poll.
    ///
    /// # Errors
    /// [`CaptureError::Unsupported`] if one of `pids` may not be traced, [`CaptureError::Io`] if
    /// there is no such process. Nothing stays attached then.
    pub fn attach(pids: &[Pid]) -> Result<Self, CaptureError> {
        let pids = pids.to_vec();
        Self::begin(true, move |tracer, waiter| {
            let (processes, refused) = tracer.attach(&pids)?;
            Ok(Begun {
                waiter,
                command: None,
                processes,
                refused,
            })
        })
    }

    fn begin(
        detachable: bool,
        setup: impl FnOnce(&mut Tracer, sys::Waiter) -> Result<Begun, CaptureError> + Send + 'static,
    ) -> Result<Self, CaptureError> {
        let shared = Arc::new(Shared::new());
        let (answer, begun) = mpsc::channel();
        let theirs = Arc::clone(&shared);
        let body = move || {
            let mut tracer = Tracer::new(theirs, !detachable);
            let prepare = || {
                let waiter =
                    sys::become_waiter().map_err(|e| CaptureError::io("handle a signal", e))?;
                tracer.measure_stop_cost()?;
                setup(&mut tracer, waiter)
            };
            let begun = prepare();
            let go_on = begun.is_ok();
            if answer.send(begun).is_err() || !go_on {
                return;
            }
            let error = tracer.run().err();
            tracer.shared.finish(error);
        };
        let thread = std::thread::Builder::new()
            .name("ptrace".into())
            .spawn(body)
            .map_err(|e| CaptureError::io("start a thread", e))?;
        let begun = begun.recv().unwrap_or_else(|_| {
            Err(CaptureError::io(
                "trace",
                std::io::Error::other("the tracing thread ended"),
            ))
        });
        let Begun {
            waiter,
            command,
            processes,
            refused,
        } = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let _ = thread.join();
                return Err(error);
            }
        };
        let thread = Some(thread);
        Ok(Self {
            shared,
            thread,
            waiter,
            command,
            detachable,
            processes,
            refused,
        })
    }

    /// The processes that the capture began with.
    pub fn processes(&self) -> &[Pid] {
        &self.processes
    }

    /// The least that the two stops of a call have cost so far, in nanoseconds; it is not in the
    /// latencies.
    pub fn stop_cost_ns(&self) -> u64 {
        self.shared.stop_cost_ns(u64::MAX)
    }

    /// The launched command's process.
    pub fn command(&self) -> Option<Pid> {
        self.command
    }

    /// The launched command's exit status once it has ended: its code, or 128 and the number of
    /// the signal that killed it.
    pub fn exit_status(&self) -> Option<i32> {
        self.shared.exit_status()
    }

    /// Whether the tracees can go on without their tracer.
    pub(crate) fn is_detachable(&self) -> bool {
        self.detachable
    }

    /// Waits until the launched command has ended; `None` if there is none. Poll to the end or
    /// [`stop`](Backend::stop) first: a command whose events nobody reads does not go on for ever.
    pub fn wait_for_exit(&self) -> Option<i32> {
        self.command.and_then(|_| self.shared.wait_for_exit())
    }

    /// Wakes the tracing thread until `done`.
    fn kick_until(&self, done: impl Fn() -> bool) {
        while !done() {
            sys::kick(self.waiter);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Backend for Ptrace {
    fn method(&self) -> &'static str {
        "ptrace"
    }

    fn poll(&mut self, take: &mut dyn FnMut(RawEvent)) -> Result<bool, CaptureError> {
        self.shared.advance(Order::Run);
        let (events, more) = self.shared.take()?;
        events.into_iter().for_each(take);
        Ok(more)
    }

    fn stop(&mut self) {
        self.shared.advance(Order::Stop);
        if self.detachable {
            self.kick_until(|| self.shared.is_detached());
        }
    }

    fn signal(&self, pid: Pid, signal: Signal) -> bool {
        let Some(number) = rustix::process::Pid::from_raw(pid.0 as i32) else {
            return false;
        };
        let Ok(pidfd) = pidfd_open(number, PidfdFlags::empty()) else {
            return false;
        };
        // A number that another process has by now does no harm.
        is_tracee(pid) && crate::end::signal(pidfd.as_fd(), signal)
    }

    fn unseen(&self) -> Vec<&'static str> {
        LIMITATIONS.to_vec()
    }

    fn refused(&self) -> &[Pid] {
        &self.refused
    }
}

/// Whether a thread of this process traces it.
fn is_tracee(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.0)).unwrap_or_default();
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tid| {
        let tid = tid.trim();
        tid != "0" && std::path::Path::new(&format!("/proc/self/task/{tid}")).exists()
    })
}

impl Drop for Ptrace {
    fn drop(&mut self) {
        self.shared.advance(Order::End);
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.kick_until(|| thread.is_finished());
        let _ = thread.join();
    }
}

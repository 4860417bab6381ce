//! Attaching to running processes and leaving them as they were.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use fsage_core::{Pid, Tid};

use super::files;
use super::shared::Order;
use super::sys::{self, Resume, Waited};
use super::tracer::{CALL_STOP, EVENT_STOP, OPTIONS, Tracer, exit_status, stopped};
use crate::CaptureError;

/// How long threads get to stop; one in an uninterruptible wait stops when that ends.
const STOP_DEADLINE_NS: u64 = 1_000_000_000;
const STOP_POLL: Duration = Duration::from_micros(200);

impl Tracer {
    /// Seizes the processes with all their threads and descendants, and stops them. Returns the
    /// processes, and those descendants that may not be traced.
    pub fn attach(&mut self, pids: &[Pid]) -> Result<(Vec<Pid>, Vec<Pid>), CaptureError> {
        let mut refused = BTreeSet::new();
        // Whatever a seized thread makes is traced by itself; whatever others made meanwhile is
        // found by looking again.
        loop {
            let mut found = false;
            for pid in family(pids) {
                match self.seize_threads(pid) {
                    Ok(new) => found |= new,
                    Err(source) if pids.contains(&pid) => return Err(refusal(pid, source)),
                    Err(_) => {
                        refused.insert(pid);
                    }
                }
            }
            if !found {
                break;
            }
        }
        self.interrupt_all();
        self.collect_stops();
        let processes: BTreeSet<Pid> = self.threads.values().map(|thread| thread.pid).collect();
        Ok((
            processes.into_iter().collect(),
            refused.into_iter().collect(),
        ))
    }

    /// Whether a thread was found that had not been seized.
    fn seize_threads(&mut self, pid: Pid) -> io::Result<bool> {
        let mut found = false;
        let mut refusal = None;
        for tid in files::threads(pid.0) {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match sys::seize(tid, OPTIONS) {
                Ok(()) => {
                    self.add(tid, pid);
                    found = true;
                }
                // Traced since it was made by a seized thread, ended meanwhile, or a leader that
                // ended before its threads: the process is refused only if no thread can be had.
                Err(error) => refusal = Some(error),
            }
        }
        let seized = self.threads.values().any(|thread| thread.pid == pid);
        match refusal {
            Some(error) if !seized => Err(error),
            None if !seized => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Ok(found),
        }
    }

    fn interrupt_all(&mut self) {
        for (&tid, thread) in &mut self.threads {
            thread.interrupted = sys::interrupt(tid).is_ok();
        }
    }

    /// Gathers stops, unhandled, until every thread has made one.
    fn collect_stops(&mut self) {
        let deadline = sys::now_ns() + STOP_DEADLINE_NS;
        let mut moving: BTreeSet<Tid> = self.threads.keys().copied().collect();
        while !moving.is_empty() && sys::now_ns() < deadline {
            match sys::wait(false) {
                Ok(Waited::Status(tid, status)) => {
                    moving.remove(&tid);
                    self.held.push((tid, status, sys::now_ns()));
                }
                Ok(Waited::Nothing) => std::thread::sleep(STOP_POLL),
                Ok(Waited::NoneLeft) | Err(_) => return,
            }
        }
    }

    /// Detaches from everything. A thread that does not stop in time is let go by the kernel when
    /// the tracing thread ends.
    pub fn leave(&mut self) -> Result<(), CaptureError> {
        for (tid, status, _) in std::mem::take(&mut self.held) {
            self.detach(tid, status);
        }
        for (tid, waiting) in std::mem::take(&mut self.unannounced) {
            self.detach(tid, waiting.status);
        }
        self.interrupt_all();
        let deadline = sys::now_ns() + STOP_DEADLINE_NS;
        while !self.threads.is_empty() && sys::now_ns() < deadline {
            match sys::wait(false) {
                Ok(Waited::Status(tid, status)) => self.detach(tid, status),
                Ok(Waited::Nothing) => std::thread::sleep(STOP_POLL),
                Ok(Waited::NoneLeft) | Err(_) => break,
            }
        }
        self.shared.set_detached();
        self.await_command()
    }

    /// A command that was launched to be detachable is still this thread's child.
    fn await_command(&mut self) -> Result<(), CaptureError> {
        while self.root.is_some()
            && self.shared.exit_status().is_none()
            && self.shared.order() < Order::End
        {
            match sys::wait(true).map_err(|e| CaptureError::io("wait for the command", e))? {
                Waited::Status(tid, status) if stopped(status).is_some() => {
                    self.detach(tid, status);
                }
                Waited::Status(tid, status) if self.root == Some(Pid(tid.0)) => {
                    self.shared.set_exit_status(exit_status(status));
                }
                Waited::Status(..) | Waited::Nothing => {}
                Waited::NoneLeft => break,
            }
        }
        Ok(())
    }

    /// Lets go of a thread at a stop, with whatever signal was on its way to it.
    fn detach(&mut self, tid: Tid, status: i32) {
        let Some((signal, event)) = stopped(status) else {
            self.handle(tid, status);
            return;
        };
        let mut deliver = 0;
        match event {
            0 if signal != CALL_STOP => deliver = signal,
            // Running to its next call, it stops at the end of the one that was interrupted.
            0 => repair_interrupted_call(tid),
            EVENT_STOP if signal == libc::SIGTRAP => repair_interrupted_call(tid),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Ok(child) = sys::event_message(tid) {
                    // It stops before its first instruction, and is let go there.
                    self.add(Tid(child as u32), Pid(child as u32));
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                if let Ok(former) = sys::event_message(tid) {
                    self.threads.remove(&Tid(former as u32));
                }
            }
            _ => {}
        }
        let _ = sys::resume(tid, Resume::Detach, deliver);
        self.threads.remove(&tid);
    }
}

/// The processes and all that descend from them.
fn family(pids: &[Pid]) -> Vec<Pid> {
    let processes = files::processes();
    let mut family: Vec<Pid> = pids.to_vec();
    let mut next = 0;
    while let Some(&Pid(maker)) = family.get(next) {
        for &(pid, parent) in &processes {
            if parent == maker && !family.contains(&Pid(pid)) {
                family.push(Pid(pid));
            }
        }
        next += 1;
    }
    family
}

fn refusal(pid: Pid, source: io::Error) -> CaptureError {
    let what = format!("attach to process {}", pid.0);
    match source.raw_os_error() {
        Some(libc::EPERM) => CaptureError::Unsupported {
            what: format!("{what}: not permitted, or another program traces it already"),
            hint: "a process can be traced by its own user if /proc/sys/kernel/yama/ptrace_scope \
                   is 0 or absent and no debugger has it; otherwise run as root"
                .into(),
        },
        _ => CaptureError::io(what, source),
    }
}

/// Calls that an interruption ends with EINTR even when no signal has come, which their callers
/// do not expect (signal(7), "Interruption of system calls … by stop signals").
const NOT_RESTARTED: &[libc::c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_io_getevents,
];

/// Starts a call again that failed only because the tracer stopped its thread.
pub(super) fn repair_interrupted_call(tid: Tid) {
    let Ok(mut registers) = sys::registers(tid) else {
        return;
    };
    let number = registers.orig_rax as i64;
    let interrupted = registers.rax as i64 == -i64::from(libc::EINTR);
    if !interrupted || !NOT_RESTARTED.contains(&number) {
        return;
    }
    // With a signal to deliver, EINTR is what the program would have seen without a tracer.
    if files::status(tid).is_none_or(|status| status.signal_pending) {
        return;
    }
    registers.rax = registers.orig_rax;
    // The `syscall` instruction is two bytes.
    registers.rip = registers.rip.wrapping_sub(2);
    let _ = sys::set_registers(tid, &registers);
}

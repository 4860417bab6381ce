//! Ending a command whose capture failed.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use fsage_core::{Op, OpSink, PathTable, Pid, SinkError};
use rustix::process::{Signal, pidfd_send_signal};
use rustix::time::{ClockId, clock_gettime};

use crate::assemble::Assembler;
use crate::start::Running;

/// How long a killed process gets to be gone.
const KILL_PATIENCE: Duration = Duration::from_secs(2);

struct Nowhere;

impl OpSink for Nowhere {
    fn push(&mut self, _: &Op, _: &PathTable) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Sends a signal; whether the process was there.
pub(crate) fn signal(pidfd: BorrowedFd<'_>, signal: Signal) -> bool {
    pidfd_send_signal(pidfd, signal).is_ok()
}

/// Asks the command and all that it started to end, and kills what has not after `patience`.
/// Only what is watched is meant. Returns what runs all the same.
pub(crate) fn tree(
    running: &mut Running,
    assembler: &mut Assembler,
    patience: Duration,
) -> Vec<Pid> {
    let begun = now();
    send(running, &assembler.running_on(), Signal::TERM);
    loop {
        // What they start meanwhile must be known, and under ptrace they wait for their tracer.
        let more = running
            .poll(&mut |event| assembler.take(event))
            .unwrap_or(false);
        let _ = assembler.flush(&mut Nowhere, true);
        let left = assembler.running_on();
        // Leaves no zombie of its own.
        running.exit_status();
        let waited = now().saturating_sub(begun);
        if left.is_empty() || waited >= patience + KILL_PATIENCE {
            return left;
        }
        if waited >= patience {
            send(running, &left, Signal::KILL);
        }
        if !more {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Lets a command whose capture failed go on; to its end with `wait`, and where it cannot live without its tracer.
pub(crate) fn leave(running: &mut Running, assembler: &mut Assembler, wait: bool) {
    if running.can_be_left() {
        if !wait {
            return;
        }
        // Nothing keeps it from its calls any more.
        running.stop();
    }
    while running
        .poll(&mut |event| assembler.take(event))
        .unwrap_or(false)
    {
        let _ = assembler.flush(&mut Nowhere, true);
    }
    while wait && running.exit_status().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(running: &Running, pids: &[Pid], signal: Signal) {
    for &pid in pids {
        running.backend().signal(pid, signal);
    }
}

fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

//! The system calls of a tracer, each behind a safe function. All of them but [`kick`] must be
//! called by the one thread that attached.

#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};

use fsage_core::Tid;

/// What wait4(2) said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// A tracee stopped or ended, with its wait status.
    Status(Tid, i32),
    /// Nothing is ready (only without blocking), or a signal came.
    Nothing,
    /// There is no tracee and no child left.
    NoneLeft,
}

/// A system call of a stopped tracee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// It is about to start.
    Entry {
        /// Number.
        nr: u64,
        /// Arguments.
        args: [u64; 6],
    },
    /// It has returned this.
    Exit(i64),
    /// A call of a 32-bit program is about to start; its number there.
    Entry32(u64),
    /// None, or the end of a 32-bit one.
    Other,
}

/// How a tracee goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    /// To the next event of the seccomp filter.
    Free,
    /// To the next start or end of a system call.
    ToCall,
    /// It stays in its group stop until a SIGCONT comes.
    Listen,
    /// Untraced.
    Detach,
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn plain(request: libc::c_uint, tid: Tid, data: u64) -> io::Result<()> {
    // SAFETY: the requests of this module's callers take no address; `data` is a plain word.
    check(unsafe { libc::ptrace(request, tid.0 as libc::pid_t, 0usize, data as usize) }).map(drop)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Starts tracing a thread without stopping it.
pub(super) fn seize(tid: Tid, options: i32) -> io::Result<()> {
    plain(libc::PTRACE_SEIZE, tid, options as u64)
}

/// Makes a tracee stop; it does so soon after.
pub(super) fn interrupt(tid: Tid) -> io::Result<()> {
    plain(libc::PTRACE_INTERRUPT, tid, 0)
}

/// Lets a stopped tracee go on, delivering `signal` unless it is 0.
pub(super) fn resume(tid: Tid, how: Resume, signal: i32) -> io::Result<()> {
    let request = match how {
        Resume::Free => libc::PTRACE_CONT,
        Resume::ToCall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
        Resume::Detach => libc::PTRACE_DETACH,
    };
    plain(request, tid, signal as u64)
}

/// The word that belongs to the event of a stop.
pub(super) fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let request = libc::PTRACE_GETEVENTMSG;
    // SAFETY: PTRACE_GETEVENTMSG writes one unsigned long to the address in `data`.
    check(unsafe { libc::ptrace(request, tid.0 as libc::pid_t, 0usize, &raw mut message) })?;
    Ok(message)
}

/// The system call that a tracee stopped at (Linux 5.3).
pub(super) fn syscall_stop(tid: Tid) -> io::Result<Stop> {
    // SAFETY: the structure holds integers only, for which zero is a value.
    let mut info: libc::ptrace_syscall_info = unsafe { zeroed() };
    let size = size_of::<libc::ptrace_syscall_info>();
    let request = libc::PTRACE_GET_SYSCALL_INFO;
    // SAFETY: the kernel writes at most `size` bytes to the structure.
    check(unsafe { libc::ptrace(request, tid.0 as libc::pid_t, size, &raw mut info) })?;
    let foreign = info.arch != super::filter::ARCH_X86_64;
    // SAFETY: `op` says which member of the union the kernel filled; all are integers.
    Ok(unsafe {
        match info.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY if foreign => Stop::Entry32(info.u.entry.nr),
            libc::PTRACE_SYSCALL_INFO_SECCOMP if foreign => Stop::Entry32(info.u.seccomp.nr),
            _ if foreign => Stop::Other,
            libc::PTRACE_SYSCALL_INFO_ENTRY => Stop::Entry {
                nr: info.u.entry.nr,
                args: info.u.entry.args,
            },
            libc::PTRACE_SYSCALL_INFO_SECCOMP => Stop::Entry {
                nr: info.u.seccomp.nr,
                args: info.u.seccomp.args,
            },
            libc::PTRACE_SYSCALL_INFO_EXIT => Stop::Exit(info.u.exit.sval),
            _ => Stop::Other,
        }
    })
}

/// The registers of a stopped tracee.
pub(super) fn registers(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: the structure holds integers only.
    let mut regs: libc::user_regs_struct = unsafe { zeroed() };
    let request = libc::PTRACE_GETREGS;
    // SAFETY: PTRACE_GETREGS fills exactly this structure.
    check(unsafe { libc::ptrace(request, tid.0 as libc::pid_t, 0usize, &raw mut regs) })?;
    Ok(regs)
}

/// Changes the registers of a stopped tracee.
pub(super) fn set_registers(tid: Tid, regs: &libc::user_regs_struct) -> io::Result<()> {
    let request = libc::PTRACE_SETREGS;
    // SAFETY: PTRACE_SETREGS reads exactly this structure.
    check(unsafe { libc::ptrace(request, tid.0 as libc::pid_t, 0usize, &raw const *regs) })
        .map(drop)
}

/// Waits for a tracee of this thread (and no other thread's child) to stop or end.
pub(super) fn wait(block: bool) -> io::Result<Waited> {
    let flags = libc::__WALL | libc::__WNOTHREAD | if block { 0 } else { libc::WNOHANG };
    let mut status = 0;
    // SAFETY: `status` is a valid place for an int and no usage is asked for.
    let tid = unsafe { libc::wait4(-1, &raw mut status, flags, std::ptr::null_mut()) };
    if tid > 0 {
        return Ok(Waited::Status(Tid(tid as u32), status));
    }
    if tid == 0 {
        return Ok(Waited::Nothing);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ECHILD) => Ok(Waited::NoneLeft),
        Some(libc::EINTR) => Ok(Waited::Nothing),
        _ => Err(error),
    }
}

/// Copies `buffer.len()` bytes or fewer of a tracee's memory; returns how many were there.
pub(super) fn read_memory(tid: Tid, address: u64, buffer: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: buffer.len(),
    };
    // SAFETY: `local` is the caller's buffer; the remote address is checked by the kernel.
    let got = unsafe {
        libc::process_vm_readv(
            tid.0 as libc::pid_t,
            &raw const local,
            1,
            &raw const remote,
            1,
            0,
        )
    };
    usize::try_from(got).unwrap_or(0)
}

/// The signal that wakes a tracer out of its wait. Nobody else sends it but the kernel for
/// out-of-band socket data, and it is ignored by default.
const WAKE: i32 = libc::SIGURG;

extern "C" fn woken(_signal: i32) {}

/// Names a thread for [`kick`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    tid: libc::pid_t,
}

/// Makes the calling thread one that [`kick`] wakes and that no other signal disturbs.
pub(super) fn become_waiter() -> io::Result<Waiter> {
    // SAFETY: the handler does nothing, so it is safe at any point; without SA_RESTART the wait
    // ends with EINTR. The masks are local.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = woken as extern "C" fn(i32) as usize;
        check(libc::sigaction(WAKE, &raw const action, std::ptr::null_mut()).into())?;
        let mut mask: libc::sigset_t = zeroed();
        libc::sigfillset(&raw mut mask);
        libc::sigdelset(&raw mut mask, WAKE);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut());
        Ok(Waiter {
            tid: libc::gettid(),
        })
    }
}

/// Wakes a waiter out of [`wait`]; it may just not have begun to wait, so repeat until it answers.
pub(super) fn kick(waiter: Waiter) {
    // SAFETY: tgkill only takes numbers; a thread of this process that is gone gives ESRCH.
    unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), waiter.tid, WAKE);
    }
}

/// Ends a process.
pub(super) fn kill(pid: fsage_core::Pid) {
    // SAFETY: kill only takes numbers.
    unsafe {
        libc::kill(pid.0 as libc::pid_t, libc::SIGKILL);
    }
}

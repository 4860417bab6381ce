//! What a measuring thread asks of the scheduler.

#![allow(unsafe_code)]

use std::fs::File;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::HostError;

/// Guards restore the thread that made them, so they stay on it.
type OnThisThread = PhantomData<*const ()>;

/// The CPUs that the calling thread may run on, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => members(&set),
        Err(_) => vec![current_cpu()],
    }
}

pub(crate) fn members(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

pub(crate) fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

/// The CPU that the calling thread runs on at this moment.
pub fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

/// Keeps the calling thread, and the threads that it starts from now on, to those CPUs. Fails if none
/// of them is on line and allowed.
pub fn keep_to(cpus: &[usize]) -> Result<(), HostError> {
    sched_setaffinity(None, &cpu_set(cpus))
        .map_err(|e| HostError::io(format!("keep the thread to CPUs {cpus:?}"), e))
}

/// Keeps the thread on one CPU until dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    _thread: OnThisThread,
}

/// Pins the calling thread. Fails if the CPU is off line or not allowed.
pub fn pin(cpu: usize) -> Result<Pinned, HostError> {
    let failed = |e: rustix::io::Errno| HostError::io(format!("pin the thread to CPU {cpu}"), e);
    let before = sched_getaffinity(None).map_err(failed)?;
    sched_setaffinity(None, &cpu_set(&[cpu])).map_err(failed)?;
    Ok(Pinned {
        before,
        _thread: PhantomData,
    })
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The set was the thread's own; the kernel refuses it only if its CPUs went off line.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Runs the thread at a real-time priority until dropped.
#[derive(Debug)]
pub struct RealTime {
    policy: libc::c_int,
    priority: libc::c_int,
    _thread: OnThisThread,
}

/// Gives the calling thread `SCHED_FIFO` at `priority` (1 to 99). Its children start with the
/// default policy. Fails without `CAP_SYS_NICE`. Note that fsync measured so is slower than
/// ordinary processes see it: the journal's thread cannot run on the same CPU meanwhile.
pub fn real_time(priority: i32) -> Result<RealTime, HostError> {
    // SAFETY: plain data, valid when zeroed.
    let mut before: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread; `before` is writable.
    let policy = unsafe {
        libc::sched_getparam(0, &raw mut before);
        libc::sched_getscheduler(0)
    };
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
        .map_err(|e| HostError::io(format!("set SCHED_FIFO priority {priority}"), e))?;
    Ok(RealTime {
        policy: policy.max(libc::SCHED_OTHER),
        priority: before.sched_priority,
        _thread: PhantomData,
    })
}

fn set_policy(policy: libc::c_int, priority: libc::c_int) -> std::io::Result<()> {
    // SAFETY: plain data, valid when zeroed.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = priority;
    // SAFETY: 0 is the calling thread; `param` is readable.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const param) } == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // Lowering oneself needs no privilege.
        let _ = set_policy(self.policy, self.priority);
    }
}

/// What the scheduler did with a thread since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedStat {
    /// Time on a CPU in nanoseconds.
    pub run_ns: u64,
    /// Time ready to run but waiting for a CPU, in nanoseconds.
    pub delay_ns: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
}

/// Reads the scheduler's account of the thread that opened it.
#[derive(Debug)]
pub struct RunDelay(File);

impl RunDelay {
    /// Opens the calling thread's account. Fails on kernels without `CONFIG_SCHED_INFO`.
    pub fn open() -> Result<Self, HostError> {
        let path = "/proc/thread-self/schedstat";
        File::open(path)
            .map(Self)
            .map_err(|e| HostError::io(format!("open {path}"), e))
    }

    /// The account of now: one system call. `None` if the thread is gone.
    pub fn read(&self) -> Option<SchedStat> {
        let mut buffer = [0u8; 96];
        let length = self.0.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(buffer.get(..length)?).ok()?;
        let mut fields = text.split_ascii_whitespace().map(|f| f.parse().ok());
        Some(SchedStat {
            run_ns: fields.next()??,
            delay_ns: fields.next()??,
            slices: fields.next()??,
        })
    }
}

/// CPU time of the calling thread in nanoseconds (`CLOCK_THREAD_CPUTIME_ID`).
pub fn cpu_time_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_holds_and_is_undone() {
        let before = allowed_cpus();
        let cpu = before[before.len() - 1];
        let pinned = pin(cpu).unwrap();
        assert_eq!(allowed_cpus(), [cpu]);
        assert_eq!(current_cpu(), cpu);
        drop(pinned);
        assert_eq!(allowed_cpus(), before);
        assert!(pin(1 << 20).is_err());
    }

    #[test]
    fn real_time_is_undone() {
        // SAFETY: 0 is the calling thread.
        let policy = || unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let before = policy();
        match real_time(1) {
            Ok(guard) => {
                assert_eq!(policy(), libc::SCHED_FIFO);
                drop(guard);
            }
            Err(e) => fsage_testing::not_run(format_args!("needs CAP_SYS_NICE: {e}")),
        }
        assert_eq!(policy(), before);
    }

    #[test]
    fn the_account_grows() {
        let account = RunDelay::open().unwrap();
        let before = account.read().unwrap();
        let cpu_before = cpu_time_ns();
        while cpu_time_ns() < cpu_before + 2_000_000 {
            std::hint::spin_loop();
        }
        let after = account.read().unwrap();
        assert!(after.run_ns > before.run_ns);
        assert!(after.delay_ns >= before.delay_ns && after.slices >= before.slices);
    }
}

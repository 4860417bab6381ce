//! What the kernel says about the calling thread.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Processor time and time spent waiting for a processor, in nanoseconds since the thread began.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Processor time.
    pub cpu_ns: u64,
    /// Time runnable but not running; `None` where the kernel keeps no count of it.
    pub run_delay_ns: Option<u64>,
    /// How the processor time divides, and what interrupted it.
    pub thread: ThreadUsage,
}

/// What threads used of processors (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ThreadUsage {
    /// Processor time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times that a processor was given up.
    pub voluntary_switches: u64,
    /// Times that it was taken away.
    pub involuntary_switches: u64,
}

impl ThreadUsage {
    /// Of the calling thread, up to now.
    fn now() -> Self {
        let usage = rusage(libc::RUSAGE_THREAD);
        Self {
            user_ns: timeval_ns(usage.ru_utime),
            system_ns: timeval_ns(usage.ru_stime),
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// What was used since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            minor_faults: self.minor_faults + other.minor_faults,
            major_faults: self.major_faults + other.major_faults,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
        }
    }
}

#[allow(unsafe_code)]
fn rusage(who: libc::c_int) -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a rusage that outlives the call. It cannot fail with the arguments that
    // are used here; zeros would stay.
    unsafe { libc::getrusage(who, &raw mut usage) };
    usage
}

fn timeval_ns(t: libc::timeval) -> u64 {
    t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1000
}

/// Reads both for the calling thread.
pub fn now() -> Usage {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    Usage {
        cpu_ns: (cpu.tv_sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(cpu.tv_nsec as u64),
        run_delay_ns: run_delay_ns(),
        thread: ThreadUsage::now(),
    }
}

/// The second field of schedstat (kernel documentation, scheduler/sched-stats).
fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What the children of this process that have ended, and theirs, used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildUsage {
    /// Processor time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Largest resident size of one process so far, bytes.
    pub max_resident_bytes: u64,
    /// Bytes read from devices.
    pub device_read_bytes: u64,
    /// Bytes written to devices.
    pub device_written_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Times that a processor was given up.
    pub voluntary_switches: u64,
    /// Times that it was taken away.
    pub involuntary_switches: u64,
}

impl ChildUsage {
    /// Up to now.
    pub fn now() -> Self {
        let usage = rusage(libc::RUSAGE_CHILDREN);
        let ns = timeval_ns;
        // ru_maxrss is in KiB, blocks have 512 bytes (getrusage(2)).
        Self {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
            max_resident_bytes: usage.ru_maxrss as u64 * 1024,
            device_read_bytes: usage.ru_inblock as u64 * 512,
            device_written_bytes: usage.ru_oublock as u64 * 512,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }

    /// What was used since `before`; the largest resident size is the largest of all.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            max_resident_bytes: self.max_resident_bytes,
            device_read_bytes: self
                .device_read_bytes
                .saturating_sub(before.device_read_bytes),
            device_written_bytes: self
                .device_written_bytes
                .saturating_sub(before.device_written_bytes),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self
                .voluntary_switches
                .saturating_sub(before.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(before.involuntary_switches),
        }
    }
}

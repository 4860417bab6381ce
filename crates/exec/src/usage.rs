//! What the kernel says about the calling thread.

use fsage_host::observe::{Usage, Whose};
use rustix::time::{ClockId, clock_gettime};

/// Processor time and time spent waiting for a processor, in nanoseconds since the thread began.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadTimes {
    /// Processor time.
    pub cpu_ns: u64,
    /// Time runnable but not running; `None` where the kernel keeps no count of it.
    pub run_delay_ns: Option<u64>,
    /// How the processor time divides, and what interrupted it.
    pub usage: Usage,
}

/// Reads all for the calling thread.
pub fn now() -> ThreadTimes {
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    ThreadTimes {
        cpu_ns: (cpu.tv_sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(cpu.tv_nsec as u64),
        run_delay_ns: run_delay_ns(),
        usage: Usage::of(Whose::Thread),
    }
}

/// The second field of schedstat (kernel documentation, scheduler/sched-stats).
fn run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

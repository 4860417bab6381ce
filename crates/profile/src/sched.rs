//! How the measuring thread is scheduled.

use std::cell::Cell;

use fsage_host::thread::{Pinned, RealTime, RunDelay};

/// The thread's waiting time, and real-time scheduling where it is allowed.
pub(crate) struct Sched {
    run_delay: Option<RunDelay>,
    /// What it had waited when that was last looked at.
    seen_ns: Cell<u64>,
    /// Whether real-time priority was granted at least once.
    pub real_time: bool,
    /// Whether time is computed: how this thread is scheduled makes no difference.
    computed: bool,
}

/// The lowest real-time priority is above every ordinary thread.
const PRIORITY: i32 = 1;

/// Pinned and at real-time priority until dropped.
#[derive(Default)]
pub(crate) struct Quiet {
    _real_time: Option<RealTime>,
    _pinned: Option<Pinned>,
}

impl Sched {
    pub(crate) fn new(computed: bool) -> Self {
        Self {
            run_delay: if computed {
                None
            } else {
                RunDelay::open().ok()
            },
            seen_ns: Cell::new(0),
            real_time: false,
            computed,
        }
    }

    /// What the profile says of it.
    pub(crate) fn describe(&self) -> &'static str {
        if self.computed {
            "virtual time"
        } else if self.real_time {
            "pinned and SCHED_FIFO for cached calls that change nothing, SCHED_OTHER otherwise"
        } else {
            "SCHED_OTHER; pinned for cached calls that change nothing"
        }
    }

    /// Time this thread waited for a CPU while it could have run, in nanoseconds; 0 where the
    /// kernel does not say.
    pub(crate) fn run_delay_ns(&self) -> u64 {
        let read = self.run_delay.as_ref().and_then(RunDelay::read);
        self.seen_ns.set(read.map_or(0, |s| s.delay_ns));
        self.seen_ns.get()
    }

    /// What of that came since anybody last asked: a batch asks when it begins, so that waits before it are
    /// nobody's.
    pub(crate) fn waited_ns(&self) -> u64 {
        let seen = self.seen_ns.get();
        self.run_delay_ns().saturating_sub(seen)
    }

    /// For calls that neither change anything nor wait: pinned, and at real-time priority where
    /// that is allowed. Never for calls that leave work to kernel threads, which could not run on
    /// this CPU meanwhile.
    pub(crate) fn quiet(&mut self) -> Quiet {
        if self.computed {
            return Quiet::default();
        }
        // Where the thread is already: which CPU it shares with the kernel's workers stays the
        // scheduler's choice.
        let pinned = fsage_host::thread::pin(fsage_host::thread::current_cpu()).ok();
        let real_time = fsage_host::thread::real_time(PRIORITY).ok();
        self.real_time |= real_time.is_some();
        Quiet {
            _real_time: real_time,
            _pinned: pinned,
        }
    }
}

//! Time as an argument.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of monotonic time; real in `host`, virtual in a simulation.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an arbitrary start; never decreases.
    fn now_ns(&self) -> u64;
}

/// A clock that is set by hand.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! What happens when, in the order of predicted time.

use super::fair::{Then, Who};
use super::locks::Place;

/// What happens to a thread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum What {
    /// The thread begins or wakes.
    Ready(usize),
    /// The thread gives its processor up.
    Free(usize, Then),
    /// The thread's request reaches who works for a device in memory, and takes so long there; whether it sleeps until it
    /// has that.
    Asks(usize, u64, bool),
    /// A thread of the kernel has done what it was asked for.
    Done(Who),
    /// The thread's request reaches the device.
    Arrives(usize),
    /// The device may be free for one of those that wait.
    Serves,
    /// The thread, which keeps its processor, does something to locks.
    Locks(usize),
    /// Who waits for locks there asks again.
    Freed(Place),
    Gone(usize),
}

/// When it happens; of those at one time the one that was planned first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    pub at: u64,
    pub number: u64,
    pub what: What,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at.cmp(&other.at)).then(self.number.cmp(&other.number))
    }
}

//! What a thread did not do itself between two of its operations.

use crate::Tid;

/// How a thread's pause before an operation passed while it was on no processor, and what of the operation did; what is
/// left of the pause the thread worked. Told where [`OpFlags::WAITS`](crate::OpFlags::WAITS) is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Pause {
    /// Ready to go on, behind others on the processors, in nanoseconds.
    pub ready_ns: u64,
    /// Asleep until a timer, a device or somebody outside of the trace ended it, in nanoseconds.
    pub asleep_ns: u64,
    /// Asleep until another thread of the trace ended it, in nanoseconds.
    pub waited_ns: u64,
    /// Within the operation itself: ready to go on, behind others on the processors, in nanoseconds. A part of its
    /// latency.
    pub queued_ns: u64,
    /// Within the operation itself: asleep, in nanoseconds. A part of its latency.
    pub blocked_ns: u64,
    /// How often the thread fell asleep before the operation; 0 where nobody counted.
    pub sleeps: u32,
    /// What the last of these waits ended with; `None` where no thread of the trace ended one.
    pub after: Option<After>,
}

/// The point in the course of a thread at which another one's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct After {
    /// The thread whose operation it goes back to: the waker, or whom the waker itself had waited for.
    pub tid: Tid,
    /// How many operations that thread had completed.
    pub ops: u32,
    /// How long after the last of these the wait ended, in nanoseconds.
    pub lag_ns: u64,
    /// For how long the thread then worked or slept before its operation, in nanoseconds.
    pub rest_ns: u64,
}

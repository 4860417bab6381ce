//! What the tracing thread and the reader of its events share.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::CaptureError;
use crate::raw::RawEvent;

/// Events that wait for the reader before the tracees have to; about 20 MB. None is ever lost.
const QUEUE_LIMIT: usize = 1 << 16;
/// Events at which the reader is woken early. Waking it for each would cost more than the event.
const WAKE_AT: usize = 1 << 13;
/// How long the reader waits for a first event.
const PATIENCE: Duration = Duration::from_millis(20);

/// What the tracing thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Order {
    /// Keep everything stopped: nobody reads yet.
    Hold,
    /// Trace.
    Run,
    /// Record no more: detach, or let the command go on unrecorded.
    Stop,
    /// End: detach, or kill what cannot live without its tracer.
    End,
}

#[derive(Default)]
struct State {
    queue: Vec<RawEvent>,
    /// No event will be queued any more.
    finished: bool,
    /// Nothing is traced any more.
    detached: bool,
    /// The tracing thread has ended.
    ended: bool,
    error: Option<CaptureError>,
    exit_status: Option<i32>,
}

pub(super) struct Shared {
    order: AtomicU8,
    stop_cost_ns: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    pub fn new() -> Self {
        Self {
            order: AtomicU8::new(Order::Hold as u8),
            stop_cost_ns: AtomicU64::new(u64::MAX),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Hold,
            1 => Order::Run,
            2 => Order::Stop,
            _ => Order::End,
        }
    }

    /// Gives an order; orders only ever go forward.
    pub fn advance(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8 {
            let mut state = self.lock();
            if order >= Order::Stop {
                state.finished = true;
            }
            self.changed.notify_all();
        }
    }

    /// Queues an event; waits while the queue is full. Drops it once the capture has ended.
    pub fn push(&self, event: RawEvent) {
        let mut state = self.lock();
        while state.queue.len() >= QUEUE_LIMIT && !state.finished {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.finished {
            return;
        }
        state.queue.push(event);
        if state.queue.len() == WAKE_AT {
            self.changed.notify_all();
        }
    }

    /// Blocks the tracing thread while the order is to hold.
    pub fn wait_for_reader(&self) {
        let mut state = self.lock();
        while self.order() == Order::Hold {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Everything queued, and whether more may come.
    pub fn take(&self) -> Result<(Vec<RawEvent>, bool), CaptureError> {
        let mut state = self.lock();
        if state.queue.is_empty() && !state.finished {
            let waited = self.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let queue = std::mem::take(&mut state.queue);
        self.changed.notify_all();
        match state.error.take() {
            Some(error) if queue.is_empty() => Err(error),
            error => {
                let more = !state.finished || error.is_some();
                state.error = error;
                Ok((queue, more))
            }
        }
    }

    /// The tracing thread is done with everything.
    pub fn finish(&self, error: Option<CaptureError>) {
        let mut state = self.lock();
        state.finished = true;
        state.detached = true;
        state.ended = true;
        state.error = error;
        self.changed.notify_all();
    }

    /// What the two stops of a call cost at least: the shortest time seen between any two, this
    /// one included. A mean would be wrong by microseconds whenever the load of the machine
    /// changes; this never takes more from a latency than its stops cost (but the call's own time,
    /// of the shortest call: about 100 ns).
    pub fn stop_cost_ns(&self, latency_ns: u64) -> u64 {
        self.stop_cost_ns
            .fetch_min(latency_ns, Ordering::Relaxed)
            .min(latency_ns)
    }

    pub fn set_exit_status(&self, status: i32) {
        self.lock().exit_status = Some(status);
        self.changed.notify_all();
    }

    pub fn exit_status(&self) -> Option<i32> {
        self.lock().exit_status
    }

    /// Waits until the command has ended (its status) or the tracing thread has (`None`).
    pub fn wait_for_exit(&self) -> Option<i32> {
        let mut state = self.lock();
        while state.exit_status.is_none() && !state.ended {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.exit_status
    }

    /// Says that nothing is traced any more, though the thread may wait for the command's end.
    pub fn set_detached(&self) {
        self.lock().detached = true;
    }

    pub fn is_detached(&self) -> bool {
        self.lock().detached
    }
}

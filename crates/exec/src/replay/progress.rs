//! How far an operation is, and waiting for it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

/// How far an operation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Its call was made.
    Started = 1,
    /// Its call has returned.
    Done = 2,
}

/// One operation's state.
#[derive(Debug)]
pub struct Progress {
    lane: u64,
    level: AtomicU8,
    waiters: Mutex<Vec<Thread>>,
}

/// What an operation waits for.
#[derive(Debug, Clone)]
pub struct Dependency {
    /// The operation.
    pub on: Arc<Progress>,
    /// How far it has to be.
    pub level: Level,
}

impl Progress {
    /// Of an operation of that lane.
    pub fn new(lane: u64) -> Self {
        Self {
            lane,
            level: AtomicU8::new(0),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// The lane that carries it out, one after the other.
    pub fn lane(&self) -> u64 {
        self.lane
    }

    /// Whether it is that far.
    pub fn reached(&self, level: Level) -> bool {
        self.level.load(Ordering::Acquire) >= level as u8
    }

    /// Says that it is that far.
    pub fn reach(&self, level: Level) {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        self.level.fetch_max(level as u8, Ordering::Release);
        for waiter in waiters.drain(..) {
            waiter.unpark();
        }
    }

    /// Waits until it is that far.
    pub fn wait(&self, level: Level) {
        while !self.reached(level) {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            if self.reached(level) {
                return;
            }
            waiters.push(thread::current());
            drop(waiters);
            thread::park();
        }
    }
}

//! A thread in predicted time: what it is to do, where it is, what it has done.

use std::collections::VecDeque;

use fsage_core::OpKind;

use super::ahead::Ahead;
use super::device::Asked;
use super::follow::{Awaits, Wake};
use super::locks::Deed;
use super::pieces::Pieces;
use crate::arm::Asks;
use crate::caches::Requested;
use crate::cost::ledger::Latency;
use crate::drive::Request;

/// Ends of a thread's operations that are kept at least.
const KEPT_ENDS: usize = 16;

/// What the kernel asked for ahead of a thread in memory, one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Coming {
    pub asked: u64,
    came: u64,
    /// How many have to be there before the thread goes on, and since when it sleeps.
    pub awaited: Option<(u64, u64)>,
}

impl Coming {
    /// Whether something is under way.
    pub fn is_awaited(self) -> bool {
        self.came < self.asked
    }

    /// One is there; since when the thread slept, if it was for that.
    pub fn comes(&mut self) -> Option<u64> {
        self.came += 1;
        let (_, since) = self.awaited.take_if(|(number, _)| self.came >= *number)?;
        Some(since)
    }
}

/// One operation of a thread and what comes before it.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub kind: OpKind,
    /// Its directory or file.
    pub place: u32,
    /// Whether it makes or removes a name there.
    pub changes_names: bool,
    pub sleep_ns: u64,
    pub think_ns: u64,
    /// What it takes alone.
    pub latency: Latency,
    /// What of it is a read from a drive.
    pub request: Option<Request>,
    /// How the kernel's requests bring it.
    pub requested: Requested,
    /// The same one by one.
    pub asks: Option<Box<Asks>>,
    /// Whether its processor goes to others that wait for one before it ends.
    pub gives_way: bool,
    /// Whether its waits are of interest.
    pub charged: bool,
    /// What comes before all that.
    pub awaits: Option<Box<Awaits>>,
    pub spawns: Option<usize>,
    pub ends: bool,
    /// The thread that it is handed to when its own comes to it.
    pub served_by: Option<usize>,
    /// Whether it was asked for before the last one had its answer.
    pub answered_with_last: bool,
    /// Whose it counts as too.
    pub company: Option<usize>,
    /// What it does to locks of files: takes them after its own work, gives them up at its end.
    pub locks: Option<Box<Deed>>,
    pub asked_at: Option<u64>,
}

impl Item {
    /// Whether a drive is asked for what the kernel asks for ahead.
    pub fn is_ahead(&self) -> bool {
        self.request.is_some_and(|request| request.ahead)
    }
}

/// Nanoseconds in whole numbers, such that what is rounded off is not lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rest(f64);

impl Rest {
    /// So much, and what is left from before.
    pub fn whole(&mut self, ns: f64) -> u64 {
        let sum = ns.max(0.0) + self.0;
        // A conversion of what is too large gives the largest.
        let whole = (sum + 1e-6) as u64;
        self.0 = (sum - whole as f64).clamp(0.0, 1.0);
        whole
    }

    /// So many times as long.
    pub fn scaled(&mut self, ns: u64, factor: f64) -> u64 {
        if (factor - 1.0).abs() < f64::EPSILON {
            ns
        } else {
            self.whole(ns as f64 * factor)
        }
    }
}

/// What a thread does next when it has a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// Takes its next operation up.
    #[default]
    Next,
    /// Works until it has to wait for others.
    Before,
    Think,
    Memory,
    /// Comes back from the device.
    Finish,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum State {
    /// Begins when the operation that starts it ends.
    #[default]
    Unborn,
    /// Wants a processor, sleeps or is at the device.
    Waiting,
    /// On a processor until this moment, where nothing more is known to do; the slice ends later.
    Starved {
        at: u64,
    },
    /// Nothing to do since this moment.
    Idle {
        since: u64,
    },
    /// Until others are as far, at `from` at the earliest, and then asleep for so long.
    Awaiting {
        left: usize,
        from: u64,
        sleep_ns: u64,
    },
    Gone {
        at: u64,
    },
}

#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub queue: VecDeque<Item>,
    pub state: State,
    pub stage: Stage,
    /// Whether it works for others.
    pub serves: bool,
    pub now: Option<Item>,
    /// What it asked of the device, and requests that it is yet to wait for, where they are followed one by one.
    pub asked: Asked,
    pub awaits: VecDeque<u64>,
    /// Processor time that is left of the stage, and pieces of the same length that follow.
    pub left_ns: u64,
    pub pieces: Option<(Pieces, u64)>,
    /// What the operation takes of it in calls, and how much of that because others are in calls too.
    pub memory_ns: u64,
    pub stretched_ns: f64,
    /// When the operation began.
    pub began: u64,
    /// What was rounded off so far.
    pub rest: Rest,
    /// How long it waited for a processor after the device had served it.
    pub queued_ns: u64,
    /// The kind of the call in which its slice ended, and when.
    pub cut: Option<(OpKind, u64)>,
    /// Who waits until it ends.
    pub joiners: Vec<usize>,
    /// Who waits for operations of it: as they wait, but for the thread, which is the one that waits.
    pub awaited: Vec<Wake>,
    pub completed: u64,
    /// When the last of its operations ended.
    pub ends: VecDeque<u64>,
    /// How it reads on.
    pub ahead: Ahead,
    pub coming: Coming,
    /// What it was asked for at once and did itself, and when: the answers come together, after the last.
    pub unanswered: Vec<(OpKind, u64)>,
}

impl Thread {
    /// An operation ends at `at`; those that others, who are at `now`, cannot wait for any more are forgotten.
    #[inline]
    pub fn completes(&mut self, at: u64, now: u64) {
        self.completed += 1;
        self.ends.push_back(at);
        while self.ends.len() > KEPT_ENDS && self.ends.front().is_some_and(|&end| end <= now) {
            self.ends.pop_front();
        }
    }

    /// When it had completed so many operations; 0 where that was long ago.
    pub fn completed_at(&self, ops: u64) -> u64 {
        let later = self.completed.saturating_sub(ops) as usize;
        let place = self.ends.len().checked_sub(later + 1);
        place
            .and_then(|place| self.ends.get(place))
            .copied()
            .unwrap_or(0)
    }
}

//! Threads that wait for one another: until others have ended, or completed an operation.

use std::collections::VecDeque;

use super::due::What;
use super::fair::Then;
use super::follow::{Awaits, Wake};
use super::schedule::Schedule;
use super::thread::{Stage, State};

impl Schedule {
    /// Threads that wait for ends that the trace does not tell go on.
    pub(super) fn release_waiting(&mut self) -> bool {
        let now = self.now;
        let mut any = false;
        for slot in 0..self.threads.len() {
            if let Some(thread) = self.threads.get(slot)
                && let State::Awaiting { sleep_ns, .. } = thread.state
            {
                any = true;
                self.wake(slot, now.saturating_add(sleep_ns));
            }
        }
        any
    }

    /// When all of these had come, `since` at the earliest; now, where one has not.
    pub(super) fn awaited_at(&self, awaits: Option<&Awaits>, since: u64) -> u64 {
        let Some(awaits) = awaits else {
            return since;
        };
        let end = |&slot: &usize| match self.threads.get(slot).map(|t| t.state) {
            Some(State::Gone { at }) => at,
            Some(_) => self.now,
            None => since,
        };
        let wake = awaits.wake.and_then(|wake| {
            let thread = self.threads.get(wake.slot)?;
            if thread.completed < wake.ops {
                return Some(self.now);
            }
            Some(thread.completed_at(wake.ops).saturating_add(wake.lag_ns))
        });
        let ends = awaits.joins.iter().map(end).chain(wake);
        ends.fold(since, u64::max)
    }

    pub(super) fn gone(&mut self, slot: usize, at: u64) {
        let Some(thread) = self.threads.get_mut(slot) else {
            return;
        };
        thread.state = State::Gone { at };
        thread.queue = VecDeque::new();
        // Traces have many threads: of one that ended, its last end is what others wait for.
        thread.ends = thread.ends.back().copied().into_iter().collect();
        for joiner in std::mem::take(&mut thread.joiners) {
            self.came(joiner, at);
        }
    }

    /// One of those that a thread waits for is where it is awaited, as of `at`.
    pub(super) fn came(&mut self, waiter: usize, at: u64) {
        let Some(thread) = self.threads.get_mut(waiter) else {
            return;
        };
        let State::Awaiting {
            left,
            from,
            sleep_ns,
        } = &mut thread.state
        else {
            return;
        };
        *from = at.max(*from);
        *left = left.saturating_sub(1);
        if *left == 0 {
            let begins = from.saturating_add(*sleep_ns);
            self.wake(waiter, begins);
        }
    }

    /// Whether all are there that a thread is to wait for once it has done its work; not so where it waits for nobody.
    fn has_come(&self, slot: usize) -> bool {
        let thread = self.threads.get(slot);
        let item = thread.and_then(|t| t.now.as_ref());
        let Some(awaits) = item.and_then(|item| item.awaits.as_ref()) else {
            return false;
        };
        let gone = |slot: &usize| {
            let state = self.threads.get(*slot).map(|t| t.state);
            matches!(state, Some(State::Gone { .. }))
        };
        let came = |wake: &Wake| {
            let other = self.threads.get(wake.slot);
            other.is_some_and(|t| t.completed >= wake.ops)
        };
        let nobody = awaits.joins.is_empty() && awaits.wake.is_none();
        !nobody && awaits.joins.iter().all(gone) && awaits.wake.as_ref().is_none_or(came)
    }

    /// Goes on with the next piece of work before a wait, if there is one; whether the thread keeps its processor.
    fn next_piece(&mut self, slot: usize, at: u64) -> Option<bool> {
        let thread = self.threads.get_mut(slot)?;
        let (mut pieces, piece_ns) = thread.pieces.take()?;
        if !pieces.go_on() {
            return None;
        }
        thread.pieces = Some((pieces, piece_ns));
        thread.left_ns = piece_ns;
        let rests = pieces.rest_ns > 0 && !self.has_come(slot);
        let next = if rests {
            at.saturating_add(pieces.rest_ns)
        } else {
            at
        };
        let Some(along) = pieces.along else {
            if rests {
                self.wake(slot, next);
            }
            let then = if rests { Then::Sleeps } else { Then::Wakes };
            self.plan(at, What::Free(slot, then));
            return Some(false);
        };
        let wake = Wake {
            slot: along.slot,
            ops: along.from,
            lag_ns: 0,
        };
        self.grow(along.slot);
        let (left, from) = self.register_wake(slot, wake, next);
        if left == 0 && from <= at {
            return Some(true);
        }
        if left == 0 {
            self.wake(slot, from);
        } else if let Some(thread) = self.threads.get_mut(slot) {
            thread.state = State::Awaiting {
                left,
                from,
                sleep_ns: 0,
            };
        }
        self.plan(at, What::Free(slot, Then::Sleeps));
        Some(false)
    }

    /// A piece of work before a wait is done: the next one, or the wait; whether the thread keeps its processor.
    pub(super) fn worked(&mut self, slot: usize, at: u64) -> bool {
        self.next_piece(slot, at)
            .unwrap_or_else(|| self.wait(slot, at))
    }

    /// Waits for whom the operation at hand awaits; whether the thread keeps its processor.
    pub(super) fn wait(&mut self, slot: usize, at: u64) -> bool {
        let Some(item) = self.threads.get_mut(slot).and_then(|t| t.now.as_mut()) else {
            return false;
        };
        let (think_ns, sleep_ns) = (item.think_ns, std::mem::take(&mut item.sleep_ns));
        let awaits = item.awaits.take();
        let (left, from) = awaits.map_or((0, at), |awaits| self.register(slot, &awaits, at));
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        thread.left_ns = think_ns;
        thread.stage = Stage::Think;
        if left > 0 {
            thread.state = State::Awaiting {
                left,
                from,
                sleep_ns,
            };
        } else if from > at || sleep_ns > 0 {
            self.wake(slot, from.saturating_add(sleep_ns));
        } else {
            return true;
        }
        self.plan(at, What::Free(slot, Then::Sleeps));
        false
    }

    /// Notes who waits for whom; returns how many are not there yet, and when the others were.
    pub(super) fn register(&mut self, slot: usize, awaits: &Awaits, at: u64) -> (usize, u64) {
        let (mut left, mut from) = (0, at);
        for &other in &awaits.joins {
            if let Some(other) = self.threads.get_mut(other)
                && !matches!(other.state, State::Gone { .. })
            {
                other.joiners.push(slot);
                left += 1;
            }
        }
        if let Some(wake) = awaits.wake {
            let (more, since) = self.register_wake(slot, wake, from);
            (left, from) = (left + more, since);
        }
        (left, from)
    }

    /// The same of one point in another thread's course.
    fn register_wake(&mut self, slot: usize, wake: Wake, at: u64) -> (usize, u64) {
        let Some(other) = self.threads.get_mut(wake.slot) else {
            return (0, at);
        };
        if other.completed < wake.ops {
            other.awaited.push(Wake { slot, ..wake });
            return (1, at);
        }
        let ended = other.completed_at(wake.ops);
        (0, at.max(ended.saturating_add(wake.lag_ns)))
    }
}

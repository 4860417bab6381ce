//! Threads of the kernel that serve who asks a device in memory, on the processors of those who ask.
//!
//! A request of a loop device over memory is copied by a worker of the kernel (`loop_workfn`), and whoever asked is woken by
//! another one (`ksoftirqd`, since the worker is no interrupt). Where others want the processor, both wait for it as they do.

use std::collections::VecDeque;

use super::due::What;
use super::fair::{Then, Who};
use super::schedule::Schedule;
use super::thread::Stage;
use crate::caches::Requested;
use crate::cost::ledger::Latency;

/// How many they are: in [`super::fair`] they are the first ones.
pub(super) const KERNEL: usize = 2;

/// The one that does what is asked for.
const WORKER: Who = 0;

/// What the one that wakes takes for it: 5 to 13 us.
const WAKING_NS: u64 = 7_000;

/// What a thread asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    slot: usize,
    /// Whether it sleeps until it has that.
    waits: bool,
    /// How long all of it takes.
    ns: u64,
    asked_at: u64,
}

/// What each of them is yet to do.
pub(super) type Work = [VecDeque<Request>; KERNEL];

/// How long what a read asks for ahead takes: as long for each page as what it reads took.
fn asked_ahead_ns(latency: Latency, requested: Requested) -> u64 {
    (latency.ahead_ns * requested.asks as f64 / requested.ahead.max(1) as f64) as u64
}

impl Schedule {
    /// A thread asks at `at` for what takes `ns`, and sleeps until it has it.
    pub(super) fn asks_memory(&mut self, slot: usize, at: u64, ns: u64) {
        self.plan(at, What::Asks(slot, ns, true));
        self.plan(at, What::Free(slot, Then::Sleeps));
    }

    /// Its request is there.
    pub(super) fn asked(&mut self, (slot, waits): (usize, bool), ns: u64, asked_at: u64) {
        let request = Request {
            slot,
            waits,
            ns,
            asked_at,
        };
        self.hand_on(WORKER, request);
    }

    /// What a read asks for ahead at `at`, and whether it sleeps until what it comes to is there.
    pub(super) fn reads_ahead(&mut self, slot: usize, at: u64) -> bool {
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        let Some(item) = &thread.now else {
            return false;
        };
        let ns = asked_ahead_ns(item.latency, item.requested);
        let coming = thread.coming;
        let waits = item.requested.came_to > 0 && coming.is_awaited();
        if ns > 0 {
            thread.coming.asked += 1;
        }
        if waits {
            thread.coming.awaited = Some((coming.asked, at));
            thread.stage = Stage::Finish;
        }
        if ns > 0 {
            self.plan(at, What::Asks(slot, ns, false));
        }
        if waits {
            self.plan(at, What::Free(slot, Then::Sleeps));
        }
        waits
    }

    fn hand_on(&mut self, who: Who, request: Request) {
        let Some(work) = self.work.get_mut(who) else {
            return self.has_done(request);
        };
        work.push_back(request);
        if work.len() == 1 {
            self.fair.wakes(who, self.now);
        }
    }

    /// All is done, and whoever asked goes on. What the kernel's threads waited for processors, it has waited.
    fn has_done(&mut self, request: Request) {
        let took_ns = self.now.saturating_sub(request.asked_at);
        if let Some(thread) = self.threads.get_mut(request.slot) {
            if request.waits {
                thread.queued_ns = took_ns.saturating_sub(request.ns);
            } else if let Some(since) = thread.coming.comes() {
                thread.queued_ns = self.now.saturating_sub(since);
            } else {
                return;
            }
        }
        self.fair.wakes(request.slot + KERNEL, self.now);
    }

    /// One of them has a processor from `at` on.
    pub(super) fn works(&mut self, who: Who, at: u64) {
        let next = self.work.get(who).and_then(VecDeque::front);
        if let Some(request) = next {
            let waking_ns = request.ns.min(WAKING_NS);
            let own_ns = match who {
                WORKER => request.ns - waking_ns,
                _ => waking_ns,
            };
            self.plan(at.saturating_add(own_ns), What::Done(who));
        }
    }

    /// One of them has done at `at` what it was asked for first.
    pub(super) fn worked_for(&mut self, who: Who, at: u64) {
        let Some(work) = self.work.get_mut(who) else {
            return;
        };
        let done = work.pop_front();
        let more = !work.is_empty();
        if let Some(request) = done {
            self.hand_on(who + 1, request);
        }
        if more && at < self.fair.until(who) {
            return self.works(who, at);
        }
        let then = if more { Then::WouldGoOn } else { Then::Sleeps };
        self.free = self.free.saturating_add(1);
        self.fair.leaves(who, at, then);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "of what was put there")]
mod tests {
    use super::*;
    use crate::cost::{Machine, SystemVector};

    /// One processor, and nobody on it.
    fn machine() -> Schedule {
        let mut vector = SystemVector::new("s", []);
        vector.machine = Machine {
            cpus: Some(1),
            in_memory: true,
            ..Machine::default()
        };
        Schedule::new(&vector)
    }

    #[test]
    fn one_after_the_other_is_served_and_woken() {
        let mut machine = machine();
        machine.grow(1);
        machine.plan(0, What::Asks(0, 10_000, true));
        machine.plan(0, What::Asks(1, 10_000, true));
        machine.finish();
        let waited = |slot: usize| machine.threads.get(slot).unwrap().queued_ns;
        // The worker does both, 3 us each, before anybody is woken: it has its processor.
        assert_eq!(waited(0), 3_000);
        assert_eq!(waited(1), 3_000 + WAKING_NS);
    }

    #[test]
    fn what_is_shorter_than_waking_takes_no_longer_than_it_takes() {
        let mut machine = machine();
        machine.grow(0);
        machine.plan(0, What::Asks(0, 100, true));
        machine.finish();
        assert_eq!(machine.threads.first().unwrap().queued_ns, 0);
        assert!(machine.work.iter().all(VecDeque::is_empty));
    }
}

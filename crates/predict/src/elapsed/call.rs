//! One call: how it begins, whom it waits for, how it ends.

use fsage_core::{KindClass, OpKind};

use super::device::Asked;
use super::due::What;
use super::fair::Then;
use super::locks::{Deed, Place, WOKEN_NS};
use super::schedule::{Schedule, add};
use super::thread::{Item, Stage, State};
use super::waiting::Waiting;
use crate::arm::Asks;

/// Entries of a ring, 32,768 at most.
const MOST_AT_ONCE: usize = 1 << 15;

impl Schedule {
    /// Its own work is done at `at`: asks the device, or waits for who makes the same file stable; whether it does, and its
    /// processor goes to others.
    pub(super) fn waits_in_call(&mut self, slot: usize, at: u64) -> bool {
        let several = self.threads.len() > 1;
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        let Some(item) = &mut thread.now else {
            return false;
        };
        if let Some(&Deed::Take(lock)) = item.locks.as_deref() {
            let has_it = self.locks.take(slot, lock);
            // What a program does until it asks again is no time of the call's.
            item.charged &= has_it || lock.waits;
            item.locks = None;
            self.locked(at);
            if !has_it {
                self.waits_for_lock(slot, at);
            }
            return !has_it;
        }
        if several && item.requested.ahead > 0 && self.device.kernel_works() {
            return self.reads_ahead(slot, at);
        }
        if !self.machine.in_memory && !self.directories.enter(slot, item) {
            // It has worked, and comes here again once it has the directory.
            thread.left_ns = 0;
            self.plan(at, What::Free(slot, Then::Sleeps));
            return true;
        }
        let asks = item.asks.as_deref();
        let one_by_one = !syncs(item.kind) || asks.is_some_and(Asks::syncs);
        if let Some(arm) = self.device.arm.as_mut().filter(|_| one_by_one) {
            thread.awaits = arm.begin(asks, item.latency.device_ns, at);
            thread.asked.device_ns = thread.rest.whole(item.latency.device_ns);
            if thread.awaits.is_empty() {
                return false;
            }
        } else if self.device.needs_arm(item) {
            // What it asks for is known when its turn comes.
            thread.asked = Asked::default();
        } else {
            let asked = self.device.ask(slot, (item.latency, item.request), at);
            thread.asked = asked;
            if asked.device_ns > 0 {
                let done = at.saturating_add(asked.device_ns);
                self.syncing.note((item.kind, item.place), at, done);
                if self.machine.in_memory {
                    thread.stage = Stage::Finish;
                    self.asks_memory(slot, at, asked.device_ns);
                    return true;
                }
            } else if self.syncing.until(item, at) <= at {
                return false;
            }
        }
        thread.stage = Stage::Finish;
        self.plan(at, What::Arrives(slot));
        self.plan(at, What::Free(slot, Then::Sleeps));
        true
    }

    /// Its processor goes to others that wait for one before the call ends; whether it does.
    pub(super) fn gives_way(&mut self, slot: usize, at: u64) -> bool {
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        let gives_way = thread.now.as_ref().is_some_and(|item| item.gives_way);
        if gives_way {
            thread.stage = Stage::Finish;
            self.plan(at, What::Free(slot, Then::WouldGoOn));
        }
        gives_way
    }

    /// The thread gives its processor up until it has a lock.
    fn waits_for_lock(&mut self, slot: usize, at: u64) {
        if let Some(thread) = self.threads.get_mut(slot) {
            thread.stage = Stage::Finish;
        }
        self.plan(at, What::Free(slot, Then::Sleeps));
    }

    /// Those that wait for locks of which one was given up ask again later, and those that have theirs go on.
    pub(super) fn locked(&mut self, at: u64) {
        for place in self.locks.freed() {
            self.plan(at.saturating_add(WOKEN_NS), What::Freed(place));
        }
        for slot in self.locks.woken() {
            self.plan(at, What::Ready(slot));
        }
    }

    /// A lock that the trace shows to be given up, and not by whom.
    pub(super) fn is_stale(&mut self, place: Place, number: u64) {
        self.locks.is_stale(place, number);
        self.locked(self.now);
    }

    /// An operation gives locks up at its end.
    fn unlock(&mut self, deed: &Deed, at: u64) {
        match deed {
            Deed::Take(_) => {}
            Deed::Release(lock) => self.locks.release(lock),
            Deed::Drop(all) => {
                for &(file, owner) in all {
                    self.locks.drop_of(file, owner);
                }
            }
        }
        self.locked(at);
    }

    /// A request of a thread that has reached a device on which requests are followed one by one; whether it had one.
    pub(super) fn next_of_many(&mut self, slot: usize, at: u64) -> bool {
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        let Some(number) = thread.awaits.pop_front() else {
            return false;
        };
        let done = self.device.serve_one(number, at);
        let what = if thread.awaits.is_empty() {
            What::Ready(slot)
        } else {
            What::Arrives(slot)
        };
        self.plan(done, what);
        true
    }

    /// A thread's request has reached the device, or its call waits for another.
    pub(super) fn arrives(&mut self, slot: usize, at: u64) {
        let Some(thread) = self.threads.get(slot) else {
            return;
        };
        let Some(item) = thread.now.as_ref() else {
            return;
        };
        // Who serves others has what they asked for meanwhile.
        let behind = if thread.serves { thread.queue.len() } else { 0 };
        if self.device.needs_arm(item) {
            let waiting = Waiting {
                slot,
                kind: item.kind,
                latency: item.latency,
                request: item.request,
                behind,
                since: at,
            };
            // It is planned once, for as long as anybody waits.
            let planned = self.device.free_for_next().is_some();
            if !self.device.waits(waiting) {
                self.serve(&waiting, (0, 0.0), at);
            } else if let Some(at) = self.device.free_for_next().filter(|_| !planned) {
                self.plan(at, What::Serves);
            }
            return;
        }
        let (what, asked) = ((item.kind, item.place), thread.asked);
        let others = self.syncing.until(item, at);
        let mut done = at;
        if asked.device_ns > 0 {
            done = self.device.serve(slot, what.0, (asked, behind), at);
            self.syncing.note(what, at, done);
        }
        self.plan(done.max(others), What::Ready(slot));
    }

    /// The device serves a request from `at` on.
    fn serve(&mut self, waiting: &Waiting, among: (usize, f64), at: u64) {
        let mut asked = (self.device).ask(waiting.slot, (waiting.latency, waiting.request), at);
        asked.among = among;
        let done = (self.device).serve(waiting.slot, waiting.kind, (asked, waiting.behind), at);
        if let Some(thread) = self.threads.get_mut(waiting.slot) {
            thread.asked = asked;
        }
        self.plan(done, What::Ready(waiting.slot));
    }

    /// The device may be free at `at`: who waits and is nearest is next.
    pub(super) fn serves(&mut self, at: u64) {
        while let Some(free_at) = self.device.free_for_next() {
            if free_at > at {
                return self.plan(free_at, What::Serves);
            }
            if let Some((waiting, among)) = self.device.next(at) {
                self.serve(&waiting, among, at);
            }
        }
    }

    /// Hands what the thread only asks for to who serves it; whether it goes on at once.
    fn hand_over(&mut self, slot: usize, at: u64) -> bool {
        let thread = self.threads.get_mut(slot);
        let Some(item) = thread.and_then(|t| t.now.as_mut()) else {
            return false;
        };
        // What needs no device is done at once, and drives take writes while they are elsewhere.
        let queues = self.machine.in_memory || item.kind == OpKind::Read;
        if !queues || item.latency.device_ns <= 0.0 {
            return false;
        }
        let Some(server) = item.served_by.take() else {
            return false;
        };
        let mut request = Item {
            think_ns: 0,
            asked_at: Some(at),
            // It counts when its thread has asked.
            company: None,
            ..item.clone()
        };
        // A device in memory works on the server's processor.
        if self.machine.in_memory {
            request.latency.device_ns = 0.0;
        }
        item.charged = false;
        self.pending += 1;
        self.grow(server);
        if let Some(thread) = self.threads.get_mut(server) {
            let behind = thread.now.is_some() || !thread.queue.is_empty();
            if self.machine.in_memory && behind {
                request.latency.total_ns *= self.device.behind_others(request.kind);
            }
            thread.serves = true;
            thread.queue.push_back(request);
            match thread.state {
                State::Unborn => self.wake(server, at),
                State::Idle { since } => self.wake(server, at.max(since)),
                _ => {}
            }
        }
        true
    }

    /// The call begins.
    pub(super) fn begin(&mut self, slot: usize, at: u64) {
        if self.hand_over(slot, at) {
            // Whoever only asks neither ends nor starts anybody with it.
            self.complete(slot, at);
            return;
        }
        let several = self.threads.len() > 1;
        let Some(thread) = self.threads.get_mut(slot) else {
            return;
        };
        thread.stage = Stage::Memory;
        let Some(item) = &mut thread.now else { return };
        thread.began = item.asked_at.unwrap_or(at);
        if several {
            item.latency = self.device.in_requests(item.latency, item.requested);
        }
        let came_ns = thread.ahead.came_ns(item, at, &self.device);
        item.latency.total_ns -= came_ns;
        item.latency.device_ns -= came_ns;
        if item.charged && came_ns > 0.0 {
            add(&mut self.waits, item.kind, -came_ns);
        }
        let stretch = match &mut self.contention {
            Some(contention) if several => {
                let alone_ns = item.latency.memory_ns();
                contention.stretch(slot, item.kind, item.place, at as f64, alone_ns)
            }
            _ => 1.0,
        };
        thread.memory_ns = thread.rest.whole(item.latency.memory_ns() * stretch);
        thread.stretched_ns = item.latency.memory_ns() * (stretch - 1.0);
        thread.left_ns = thread.memory_ns;
    }

    /// The call ends; whether its thread ends with it and its processor is free.
    pub(super) fn complete(&mut self, slot: usize, at: u64) -> bool {
        let Some(thread) = self.threads.get_mut(slot) else {
            return true;
        };
        let asked = std::mem::take(&mut thread.asked);
        let queued_ns = std::mem::take(&mut thread.queued_ns);
        let own = thread.memory_ns.saturating_add(asked.device_ns);
        let own = own.saturating_add(queued_ns);
        // Where time has ended nothing is known of waiting any more.
        let waited = if at < u64::MAX {
            at.saturating_sub(thread.began) as f64 - own as f64 + thread.stretched_ns
        } else {
            0.0
        };
        thread.stage = Stage::Next;
        let Some(item) = thread.now.take() else {
            return false;
        };
        self.end_ns = self.end_ns.max(at);
        if item.is_ahead() {
            thread.ahead.ends(at, self.device.worked_ns);
        }
        if item.charged {
            // Less than nothing where the device was faster.
            let least = if self.device.gains(item.kind) {
                -(asked.device_ns as f64)
            } else {
                0.0
            };
            add(&mut self.waits, item.kind, waited.max(least));
            add(&mut self.queued, item.kind, queued_ns as f64);
            let own = item.served_by.is_some() && item.latency.device_ns <= 0.0;
            if own && thread.unanswered.len() < MOST_AT_ONCE {
                thread.unanswered.push((item.kind, at));
            }
        }
        if let Some(deed) = &item.locks {
            self.unlock(deed, at);
        }
        if let Some(next) = self.directories.leave(slot, &item) {
            self.plan(at, What::Ready(next));
        }
        self.done(slot, at);
        // It counts as theirs, whether they had anything to do so far or not.
        for other in item.served_by.into_iter().chain(item.company) {
            self.grow(other);
            self.done(other, at);
        }
        if let Some(child) = item.spawns {
            self.grow(child);
            self.wake(child, at);
        }
        if item.ends {
            self.plan(at, What::Gone(slot));
            self.plan(at, What::Free(slot, Then::Sleeps));
        }
        item.ends
    }

    /// An operation of a thread is done at `at`: who waits for it goes on.
    fn done(&mut self, slot: usize, at: u64) {
        let Some(thread) = self.threads.get_mut(slot) else {
            return;
        };
        thread.completes(at, self.now);
        let completed = thread.completed;
        let came = thread.awaited.extract_if(.., |wake| wake.ops <= completed);
        for wake in came.collect::<Vec<_>>() {
            self.came(wake.slot, at.saturating_add(wake.lag_ns));
        }
    }
}

/// Whether a call waits for what is made stable, which several share.
fn syncs(kind: OpKind) -> bool {
    kind.class() == KindClass::Sync
}

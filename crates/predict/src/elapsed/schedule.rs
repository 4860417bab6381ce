//! A machine in predicted time: threads that share processors and queue at one device.
//!
//! Who gets a processor is for `fair` to say. A thread gives its processor up when it waits for the device and
//! when its slice is over. A kernel that does not preempt itself switches inside a
//! call only where the call offers it, and else when the call has ended. What a device in memory is asked for, threads of the
//! kernel do on the same processors; any other device serves one request at a time, in the order of their arrival.
//!
//! Operations come in the order of the trace, and may not come in that of predicted time. So the
//! machine stands still while a thread has nothing to do that is not known to have ended, until so
//! many operations of others wait that the thread is taken to sleep.
//!
//! Time is in whole nanoseconds, so that it goes on however far it has come, and ends where a `u64`
//! does, after 584 years: nothing that a profile says makes a prediction run for ever.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fsage_core::OpKind;

use super::contention::Contention;
use super::device::Device;
use super::directories::Directories;
use super::due::{Due, What};
use super::fair::{Fair, Then};
use super::kernel::{KERNEL, Work};
use super::locks::Locks;
use super::syncing::Syncing;
use super::thread::{Item, Stage, State, Thread};
use crate::cost::{Machine, SystemVector};

/// Work that takes many slices is done in about so many: years of it end too.
const MOST_SLICES: u64 = 512;

/// A slice of Linux: 0.7 ms, and as much again each time the processors double, up to eight (`se.slice` in
/// `/proc/PID/sched`).
const SLICE_NS: u64 = 700_000;
const MOST_FOR_SLICE: usize = 8;

fn slice_ns(machine: &Machine) -> u64 {
    let processors = machine.processors.or(machine.cpus).unwrap_or(1);
    let doubled = processors.clamp(1, MOST_FOR_SLICE).ilog2();
    SLICE_NS * u64::from(1 + doubled)
}

/// The share of waits at the end of a slice that fall into the call: after each page that is written or freed Linux
/// looks whether to switch, in a read before it copies, while it looks names up never.
fn share_in_call(kind: OpKind) -> f64 {
    use OpKind as K;
    match kind {
        K::Write | K::CopyOut | K::SpliceOut | K::Unlink | K::Truncate | K::Ftruncate => 1.0,
        K::Read | K::CopyIn | K::SpliceIn => 0.25,
        _ => 0.0,
    }
}

/// What is done at once by who asked takes no longer: towards the end of time nothing is known.
const MOST_ANSWERED_NS: u64 = 1 << 32;

/// Operations that wait before a thread without any is taken to sleep.
const MOST_PENDING: usize = 1 << 16;

/// Operations at the beginning of a trace among which those of all threads are taken to be that begin with it.
const FIRST_HELD: usize = 64;

/// Time that operations of a kind waited in.
pub(super) type Waits = [f64; OpKind::ALL.len()];

#[derive(Debug, Clone)]
pub(super) struct Schedule {
    pub(super) machine: Machine,
    pub(super) free: usize,
    pub(super) threads: Vec<Thread>,
    /// Who gets a processor.
    pub(super) fair: Fair,
    /// What is to be done for a device in memory.
    pub(super) work: Work,
    due: BinaryHeap<Reverse<Due>>,
    numbers: u64,
    pub(super) now: u64,
    pub(super) pending: usize,
    /// Operations that are yet to come before anything happens: who begins with the trace is known then.
    held: usize,
    /// Threads on a processor without anything to do.
    starved: Vec<usize>,
    pub(super) contention: Option<Contention>,
    pub(super) device: Device,
    pub(super) syncing: Syncing,
    pub(super) directories: Directories,
    pub(super) locks: Locks,
    /// For the device, for locks, and because others were in calls of the kind.
    pub waits: Waits,
    /// For a processor.
    pub queued: Waits,
    pub end_ns: u64,
}

impl Schedule {
    pub fn new(vector: &SystemVector) -> Self {
        let machine = vector.machine;
        Self {
            machine,
            free: machine.cpus.unwrap_or(usize::MAX).max(1),
            threads: Vec::new(),
            fair: Fair::new(slice_ns(&machine)),
            work: Work::default(),
            due: BinaryHeap::new(),
            numbers: 0,
            now: 0,
            pending: 0,
            held: FIRST_HELD,
            starved: Vec::new(),
            contention: Contention::of(vector),
            device: Device::of(vector),
            syncing: Syncing::default(),
            directories: Directories::default(),
            locks: Locks::default(),
            waits: [0.0; OpKind::ALL.len()],
            queued: [0.0; OpKind::ALL.len()],
            end_ns: 0,
        }
    }

    /// The next operation of a thread. A thread that nothing started begins with the trace.
    #[inline]
    pub fn push(&mut self, slot: usize, mut item: Item, born: bool) {
        self.grow(slot);
        if self.held > 0 {
            self.held -= 1;
        } else if self.alone(slot, &item) {
            return;
        }
        let now = self.now;
        let unborn = |t: &Thread| t.state == State::Unborn;
        if !born && self.threads.get(slot).is_some_and(unborn) {
            item.sleep_ns = item.sleep_ns.saturating_sub(now);
            self.wake(slot, now);
        }
        if let (Some(arm), Some(asks)) = (&mut self.device.arm, &mut item.asks) {
            arm.expect(asks);
        }
        self.pending += 1;
        let Some(thread) = self.threads.get_mut(slot) else {
            return;
        };
        thread.queue.push_back(item);
        match thread.state {
            State::Starved { at } => {
                thread.state = State::Waiting;
                self.starved.retain(|&s| s != slot);
                self.run(slot, at);
            }
            // It was taken to sleep, and did until now or later.
            State::Idle { since } => {
                let awaits = thread.queue.front().and_then(|item| item.awaits.clone());
                let from = self.awaited_at(awaits.as_deref(), since);
                let queue = self.threads.get_mut(slot).map(|t| &mut t.queue);
                if let Some(item) = queue.and_then(VecDeque::front_mut) {
                    if let Some(awaits) = &mut item.awaits {
                        (awaits.sleep_ns, awaits.think_ns) = (0.0, 0.0);
                        awaits.pieces = None;
                    }
                    let pause = item.sleep_ns.saturating_add(item.think_ns);
                    item.sleep_ns = pause.saturating_sub(now.saturating_sub(from));
                    item.think_ns = 0;
                }
                self.wake(slot, now.max(since));
            }
            _ => {}
        }
        if self.held == 0 {
            self.advance(false);
        }
    }

    /// Makes room for a thread.
    #[inline]
    pub(super) fn grow(&mut self, slot: usize) {
        if self.threads.len() <= slot {
            self.threads.resize_with(slot + 1, Thread::default);
        }
    }

    /// One thread, and nobody else to do anything: no queue is needed.
    #[inline]
    fn alone(&mut self, slot: usize, item: &Item) -> bool {
        if self.starved != [slot] || !self.due.is_empty() || self.fair.waits() {
            return false;
        }
        // It waits for what was read ahead for itself, and its requests are as far apart as they lie.
        if self.device.arm.is_some() {
            return false;
        }
        let waited_for = |slot: usize| {
            self.threads
                .get(slot)
                .is_some_and(|t| !t.awaited.is_empty())
        };
        let simple = item.awaits.is_none()
            && !waited_for(slot)
            && !item.company.is_some_and(waited_for)
            && item.spawns.is_none()
            && item.served_by.is_none()
            && item.locks.is_none()
            && !item.ends;
        let Some(thread) = self.threads.get_mut(slot).filter(|_| simple) else {
            return false;
        };
        let State::Starved { at, .. } = &mut thread.state else {
            return false;
        };
        let pause = item.sleep_ns.saturating_add(item.think_ns);
        let begins = at.saturating_add(pause);
        let came_ns = thread.ahead.came_ns(item, begins, &self.device);
        let call = thread.rest.whole(item.latency.total_ns - came_ns);
        *at = begins.saturating_add(call);
        let at = *at;
        thread.completes(at, at);
        self.now = at;
        self.end_ns = self.end_ns.max(at);
        self.device.alone(item, (begins, at));
        if item.is_ahead() {
            self.device.worked_ns -= came_ns;
            thread.ahead.ends(at, self.device.worked_ns);
            if item.charged {
                add(&mut self.waits, item.kind, -came_ns);
            }
        }
        if let Some(company) = item.company.and_then(|c| self.threads.get_mut(c)) {
            company.completes(at, at);
        }
        true
    }

    /// Operations that wait to be done.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.pending
    }

    /// Operations that were pushed and did not end.
    #[cfg(test)]
    pub fn unfinished(&self) -> usize {
        let busy = self.threads.iter().filter(|t| t.now.is_some()).count();
        self.pending + busy
    }

    /// What was planned so far, which is what the work grows with.
    #[cfg(test)]
    pub fn steps(&self) -> u64 {
        self.numbers
    }

    /// Nothing more comes: all that waits is done.
    pub fn finish(&mut self) {
        self.advance(true);
        // What never came together to an access takes its time all the same.
        self.end_ns = self.end_ns.saturating_add(self.device.rest_of_owed());
        for slot in 0..self.threads.len() {
            self.answer(slot);
        }
    }

    /// What a thread was asked for at once and has done is answered when it has done all.
    fn answer(&mut self, slot: usize) {
        let thread = self.threads.get_mut(slot);
        let done = thread.map_or_else(Vec::new, |t| std::mem::take(&mut t.unanswered));
        let until = done.last().map_or(0, |last| last.1);
        for (kind, at) in done {
            let waited = until.saturating_sub(at);
            if waited < MOST_ANSWERED_NS {
                add(&mut self.waits, kind, waited as f64);
            }
        }
    }

    pub(super) fn wake(&mut self, slot: usize, at: u64) {
        if let Some(thread) = self.threads.get_mut(slot) {
            thread.state = State::Waiting;
        }
        self.plan(at, What::Ready(slot));
    }

    pub(super) fn plan(&mut self, at: u64, what: What) {
        self.numbers += 1;
        if let What::Ready(_) | What::Asks(..) | What::Done(_) = what {
            self.fair.will_wake(at);
        }
        let number = self.numbers;
        self.due.push(Reverse(Due { at, number, what }));
    }

    /// Goes on as far as is known.
    fn advance(&mut self, all: bool) {
        loop {
            let known = self.starved.iter().map(|&s| match self.threads.get(s) {
                Some(Thread {
                    state: State::Starved { at, .. },
                    ..
                }) => *at,
                _ => u64::MAX,
            });
            let known = known.min().unwrap_or(u64::MAX);
            let forced = all || self.pending > MOST_PENDING;
            let due = self.due.peek().map(|&Reverse(due)| due);
            match due {
                Some(due) if due.at <= known => {
                    self.due.pop();
                    self.happen(due);
                }
                _ if forced && self.held_up() => self.put_to_sleep(),
                None if forced && !self.fair.waits() && self.locks.force() => {
                    self.locked(self.now);
                }
                _ if all && self.release_waiting() => {}
                _ => return,
            }
        }
    }

    /// Whether something waits that threads without anything to do may hold up.
    fn held_up(&self) -> bool {
        let waits = !self.due.is_empty() || self.fair.waits();
        waits && !self.starved.is_empty()
    }

    /// Threads without anything to do leave their processors.
    fn put_to_sleep(&mut self) {
        for slot in std::mem::take(&mut self.starved) {
            let Some(thread) = self.threads.get_mut(slot) else {
                continue;
            };
            if let State::Starved { at, .. } = thread.state {
                thread.state = State::Idle { since: at };
                self.plan(at, What::Free(slot, Then::Sleeps));
            }
        }
    }

    fn happen(&mut self, due: Due) {
        self.now = self.now.max(due.at);
        if let What::Ready(_) | What::Asks(..) | What::Done(_) = due.what {
            self.fair.woke();
        }
        match due.what {
            What::Ready(slot) => self.fair.wakes(slot + KERNEL, self.now),
            What::Free(slot, then) => {
                self.free = self.free.saturating_add(1);
                self.fair.leaves(slot + KERNEL, due.at, then);
            }
            What::Asks(slot, ns, waits) => self.asked((slot, waits), ns, due.at),
            What::Done(who) => self.worked_for(who, due.at),
            What::Arrives(slot) => {
                if !self.next_of_many(slot, due.at) {
                    self.arrives(slot, due.at);
                }
            }
            What::Serves => self.serves(due.at),
            What::Freed(place) => {
                self.locks.settle(place);
                self.locked(due.at);
            }
            What::Locks(slot) => self.run(slot, due.at),
            What::Gone(slot) => {
                self.device.ended(slot);
                self.gone(slot, due.at);
            }
        }
        while self.free > 0
            && let Some((who, since)) = self.fair.next(self.now)
        {
            self.free -= 1;
            let at = self.now;
            let Some(slot) = who.checked_sub(KERNEL) else {
                self.works(who, at);
                continue;
            };
            if let Some(thread) = self.threads.get_mut(slot) {
                if thread.stage == Stage::Finish {
                    thread.queued_ns += at.saturating_sub(since);
                }
                if let Some((kind, since)) = thread.cut.take() {
                    let ns = at.saturating_sub(since) as f64 * share_in_call(kind);
                    add(&mut self.queued, kind, ns);
                }
            }
            self.run(slot, at);
        }
    }

    /// Runs a thread on a processor from `at` on, until it gives it up.
    fn run(&mut self, slot: usize, mut at: u64) {
        loop {
            let slice_end = self.fair.until(slot + KERNEL);
            let Some(thread) = self.threads.get_mut(slot) else {
                return;
            };
            match thread.stage {
                Stage::Next => {
                    let Some(item) = thread.queue.pop_front() else {
                        return self.nothing_left(slot, at);
                    };
                    self.pending -= 1;
                    if !self.take(slot, item, at) {
                        return;
                    }
                }
                Stage::Before | Stage::Think => {
                    let waits = thread.stage == Stage::Before;
                    let slice_end = slice_end.max(at.saturating_add(thread.left_ns / MOST_SLICES));
                    let ran = thread.left_ns.min(slice_end.saturating_sub(at));
                    at = at.saturating_add(ran);
                    thread.left_ns -= ran;
                    // At the end of time no slice is long enough for anything.
                    if thread.left_ns > 0 && at < u64::MAX {
                        return self.plan(at, What::Free(slot, Then::WouldGoOn));
                    }
                    if !waits {
                        self.begin(slot, at);
                    } else if !self.worked(slot, at) {
                        return;
                    }
                }
                Stage::Memory => {
                    at = at.saturating_add(thread.left_ns);
                    // Threads go ahead of one another; locks are taken and given up in the order of time.
                    if at > self.now && thread.now.as_ref().is_some_and(|i| i.locks.is_some()) {
                        thread.left_ns = 0;
                        return self.plan(at, What::Locks(slot));
                    }
                    let kind = thread.now.as_ref().filter(|i| i.charged).map(|i| i.kind);
                    if self.waits_in_call(slot, at) || self.gives_way(slot, at) {
                        return;
                    }
                    if self.complete(slot, at) {
                        return;
                    }
                    let thread = self.threads.get_mut(slot);
                    // Whoever gets an answer of a server comes before what that serves next.
                    if let Some(thread) = thread.filter(|t| t.serves || at >= slice_end) {
                        thread.cut = kind.filter(|_| at >= slice_end).map(|kind| (kind, at));
                        return self.plan(at, What::Free(slot, Then::WouldGoOn));
                    }
                }
                Stage::Finish => {
                    let asked = thread.now.as_ref().filter(|item| !item.gives_way);
                    let kind = asked.map(|item| item.kind);
                    if let Some(kind) = kind.filter(|_| !self.machine.in_memory) {
                        self.device.done(kind);
                    }
                    if self.complete(slot, at) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes an operation up; whether the thread keeps its processor.
    fn take(&mut self, slot: usize, item: Item, at: u64) -> bool {
        if !item.answered_with_last {
            self.answer(slot);
        }
        let Some(thread) = self.threads.get_mut(slot) else {
            return false;
        };
        let before = item.awaits.as_ref();
        let pieces = before.and_then(|a| a.pieces);
        let before = before.map_or((0, 0), |a| (a.sleep_ns as u64, a.think_ns as u64));
        thread.now = Some(item);
        if before == (0, 0) {
            return self.wait(slot, at);
        }
        let (sleep_ns, think_ns) = before;
        thread.stage = Stage::Before;
        let count = pieces.map_or(1, |p| p.count.max(1));
        thread.pieces = pieces.map(|p| (p, think_ns / count));
        thread.left_ns = think_ns - think_ns / count * (count - 1);
        if sleep_ns == 0 {
            return true;
        }
        self.wake(slot, at.saturating_add(sleep_ns));
        self.plan(at, What::Free(slot, Then::Sleeps));
        false
    }

    /// A thread on a processor has done all that it is known to do.
    fn nothing_left(&mut self, slot: usize, at: u64) {
        let Some(thread) = self.threads.get_mut(slot) else {
            return;
        };
        if thread.serves {
            thread.state = State::Idle { since: at };
            return self.plan(at, What::Free(slot, Then::Sleeps));
        }
        thread.state = State::Starved { at };
        self.starved.push(slot);
    }
}

pub(super) fn add(waits: &mut Waits, kind: OpKind, ns: f64) {
    if let Some(sum) = waits.get_mut(kind as usize) {
        *sum += ns;
    }
}

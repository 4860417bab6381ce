//! What the trace itself says of threads: who started whom, who waited for whom, and how long each was
//! busy between its operations. The same for every system.
//!
//! Where the trace tells how a pause between two operations of a thread passed ([`fsage_core::Pause`]), the
//! thread worked for what is left of it, and a wait for another thread ends when that one is as far as it was
//! in the trace. Elsewhere the pause is its own work and, where more threads run than there
//! are processors, waiting for one. What other threads are seen to use of the processors in the pause
//! cannot have been the thread's: that much is taken off, and what the tracer held the thread back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fsage_core::{LockCall, Op, OpFlags, OpKind, Pid, Tid};
use rustc_hash::FxHashMap;

use super::locking::Locking;
use super::locks::Deed;
use super::pieces::{Along, Pieces, Starts, take_apart};

/// A call of the trace that took longer has waited for something: it tells nothing of the processor.
const LONGEST_BUSY_NS: u64 = 1_000_000;

/// A pause that is longer after all that is not the thread's own work: it slept, where the trace does not tell.
const LONGEST_THINK_NS: f64 = 100e6;

/// What comes before an operation, and what it means for other threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    /// The thread, counted from 0 as they appear.
    pub slot: usize,
    /// How long the thread slept before it, beginning at the end of its last operation or of what it awaited.
    pub sleep_ns: f64,
    /// How long it then worked.
    pub think_ns: f64,
    /// What comes before that.
    pub awaits: Option<Box<Awaits>>,
    /// The thread that begins when the operation ends.
    pub spawns: Option<usize>,
    /// Whether the thread ends with it.
    pub ends: bool,
    /// Whoever serves it, where the thread only asks for it and goes on.
    pub served_by: Option<usize>,
    /// Whether the one asked for before had no answer yet.
    pub answered_with_last: bool,
    /// All threads of its process, as one that does what each of them does; none, where it has only one.
    pub company: Option<usize>,
    /// What it does to locks of files.
    pub locks: Option<Box<Locking>>,
}

impl Event {
    /// Whether the operation's time in the trace may have been a wait for a lock of a file.
    pub fn may_wait(&self) -> bool {
        let deed = self.locks.as_ref().and_then(|locks| locks.deed.as_ref());
        matches!(deed, Some(Deed::Take(_)))
    }

    /// The operation cannot begin before another thread is so far, whatever the pause before it was.
    pub fn follows(&mut self, wake: Wake) {
        let awaits = self.awaits.get_or_insert_with(|| {
            Box::new(Awaits {
                sleep_ns: std::mem::take(&mut self.sleep_ns),
                think_ns: std::mem::take(&mut self.think_ns),
                ..Awaits::default()
            })
        });
        // What the trace saw it wait for came later.
        awaits.wake.get_or_insert(wake);
    }
}

/// What a thread waits for in a pause.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Awaits {
    /// How long it slept before it waited, beginning at the end of its last operation.
    pub sleep_ns: f64,
    /// How long it then worked.
    pub think_ns: f64,
    /// Threads that have to end first.
    pub joins: Vec<usize>,
    /// Who has to come to wake it.
    pub wake: Option<Wake>,
    /// Whether it did that work piece by piece.
    pub pieces: Option<Pieces>,
}

/// A point in the course of a thread: so long after the end of so many operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The thread.
    pub slot: usize,
    /// How many operations it has completed.
    pub ops: u64,
    /// How long it then goes on.
    pub lag_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Exit {
    slot: usize,
    /// In the trace, from its first operation on.
    at_ns: u64,
    /// The processors' clock at that moment.
    used_ns: f64,
}

#[derive(Debug, Clone, Default)]
struct Thread {
    /// End of its last operation, from the trace's first one on.
    end_ns: u64,
    /// The processors' clock at that moment.
    used_ns: f64,
    /// Its operations so far, and when they began.
    ops: u64,
    starts: Starts,
    /// Whether nothing is known of what it did until now.
    unknown: bool,
    /// Who started it, where that is a thread of the same process.
    creator: Option<usize>,
    /// Threads that it started and that ended.
    exits: Vec<Exit>,
    asked: Asked,
}

/// What a thread only asked for and is not known to have had.
#[derive(Debug, Clone, Default)]
struct Asked {
    /// Ends of what is still to come in the trace.
    ends: BinaryHeap<Reverse<u64>>,
    /// Numbers among all that the server did, of these and of what came.
    numbers: VecDeque<u64>,
    /// What came and nothing was taken to have waited for yet.
    came: usize,
    /// When the last of all had ended.
    until: u64,
}

/// Every thread of a trace.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Processors of the traced machine that the threads shared; `None`: one for each.
    cpus: Option<usize>,
    threads: Vec<Thread>,
    /// Threads by their numbers, each for the last that had it.
    index: FxHashMap<Tid, usize>,
    gone: FxHashMap<Tid, usize>,
    last: Option<(Tid, usize)>,
    /// All threads of a process as one, where it has several.
    companies: FxHashMap<Pid, usize>,
    parents: FxHashMap<Pid, Pid>,
    exits: FxHashMap<Pid, Vec<Exit>>,
    first_ns: Option<u64>,
    /// Processor time that all threads were seen to use.
    used_ns: f64,
    /// The thread of the kernel that serves what others only ask for.
    server: Option<usize>,
    /// Ends of operations that are still to come.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
    /// What the tracer took of a thread after each operation, in nanoseconds.
    tracer_ns: u64,
}

impl Follow {
    /// For a trace of threads that shared so many processors.
    pub fn on(cpus: Option<usize>) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// Of whose threads the tracer took so much after each operation.
    #[must_use]
    pub fn beside(mut self, tracer_ns: u64) -> Self {
        self.tracer_ns = tracer_ns;
        self
    }

    /// What comes before `op`; operations come in the order of their starts.
    #[inline]
    pub fn push(&mut self, op: &Op) -> Event {
        let first = *self.first_ns.get_or_insert(op.start_ns);
        let start = op.start_ns.saturating_sub(first);
        let slot = self.slot(op.tid);
        let asked = op.record.contains(OpFlags::URING);
        let latency = op.latency_ns.filter(|_| !asked).unwrap_or(0);
        let end = start.saturating_add(latency);
        while let Some(&Reverse((at, whose))) = self.ends.peek()
            && at <= start
        {
            self.ends.pop();
            if let Some(thread) = self.threads.get_mut(whose) {
                thread.used_ns = self.used_ns;
            }
        }
        let mut event = Event {
            slot,
            ..Event::default()
        };
        self.pause(op, start, &mut event);
        self.answers(op, start, &mut event);
        if asked {
            let end = start.saturating_add(op.latency_ns.unwrap_or(0));
            self.asks(slot, (start, end), &mut event);
        }
        // Who waits for a lock uses none.
        let locks = op.kind == OpKind::Lock && LockCall::of(op.flags).is_some();
        if latency < LONGEST_BUSY_NS && !locks {
            self.used_ns += latency as f64;
        }
        let several = self.threads.len() > 1;
        if let Some(thread) = self.threads.get_mut(slot) {
            // The time of a copy stands at the first of its two sides; the other one does not end before it.
            let end = end.saturating_add(self.tracer_ns);
            (thread.end_ns, thread.used_ns) = (thread.end_ns.max(end), self.used_ns);
            thread.ops += 1;
            if several {
                thread.starts.push(start, thread.ops);
            }
        }
        if several {
            self.ends.push(Reverse((end, slot)));
        }
        event.company = self.companies.get(&op.pid).copied();
        if let Some(company) = event.company.and_then(|c| self.threads.get_mut(c)) {
            company.ops += 1;
            company.starts.push(start, company.ops);
        }
        self.family(op, end, &mut event);
        event
    }

    /// How many operations of a thread came so far.
    pub fn completed(&self, slot: usize) -> u64 {
        self.threads.get(slot).map_or(0, |thread| thread.ops)
    }

    fn slot(&mut self, tid: Tid) -> usize {
        if let Some((last, slot)) = self.last
            && last == tid
        {
            return slot;
        }
        let fresh = self.threads.len();
        let slot = *self.index.entry(tid).or_insert(fresh);
        if slot == fresh {
            self.threads.push(Thread {
                unknown: fresh > 0,
                ..Thread::default()
            });
        }
        self.last = Some((tid, slot));
        slot
    }

    /// A thread asks at `start` for what has ended at `end`.
    fn asks(&mut self, slot: usize, (start, end): (u64, u64), event: &mut Event) {
        let server = *self.server.get_or_insert_with(|| {
            self.threads.push(Thread::default());
            self.threads.len() - 1
        });
        event.served_by = Some(server);
        let Some(server) = self.threads.get_mut(server) else {
            return;
        };
        server.ops += 1;
        let number = server.ops;
        if let Some(thread) = self.threads.get_mut(slot) {
            event.answered_with_last = start < thread.asked.until;
            thread.asked.until = thread.asked.until.max(end);
            thread.asked.ends.push(Reverse(end));
            thread.asked.numbers.push_back(number);
        }
    }

    /// A thread that goes on at `start` has had an answer for each request that it makes beyond those that it keeps there at
    /// once. It slept for those that came while it is known to have slept; whatever came besides was there when it looked,
    /// and is not where answers take longer: of those it waits for one at a time.
    fn answers(&mut self, op: &Op, start: u64, event: &mut Event) {
        let Some((slot, thread)) = self.server.zip(self.threads.get_mut(event.slot)) else {
            return;
        };
        let slept_until = if op.record.contains(OpFlags::WAITS) {
            thread.end_ns.saturating_add(op.pause.asleep_ns)
        } else {
            start
        };
        let (asked, mut awaited, mut last) = (&mut thread.asked, 0, start);
        while let Some(&Reverse(end)) = asked.ends.peek().filter(|end| end.0 <= start) {
            asked.ends.pop();
            asked.came += 1;
            awaited += usize::from(end <= slept_until);
            last = end;
        }
        let awaited = awaited.max(1).min(asked.came);
        asked.came -= awaited;
        if let Some(ops) = asked.numbers.drain(..awaited).next_back() {
            event.sleep_ns = event.sleep_ns.min(start.saturating_sub(last) as f64);
            event.follows(Wake {
                slot,
                ops,
                lag_ns: 0,
            });
        }
    }

    /// The pause before an operation that begins at `start`.
    fn pause(&mut self, op: &Op, start: u64, event: &mut Event) {
        let is_known = op.record.contains(OpFlags::WAITS);
        let wake = self.wake(op);
        let Some(thread) = self.threads.get_mut(event.slot) else {
            return;
        };
        let ended = thread.end_ns;
        // What the tracer held it back is no work of its own.
        let (mut from, mut used) = (
            ended.saturating_add(op.record.held_back_ns()),
            thread.used_ns,
        );
        let pause = start.saturating_sub(from) as f64;
        if std::mem::take(&mut thread.unknown) {
            event.sleep_ns = start as f64;
            return;
        }
        let mut joins = Vec::new();
        let own = Some(&mut thread.exits).filter(|e| !e.is_empty());
        let children = if self.exits.is_empty() {
            None
        } else {
            self.exits.get_mut(&op.pid)
        };
        for exits in own.into_iter().chain(children) {
            exits.retain(|exit| {
                let seen = exit.at_ns <= start;
                // One that ended before the pause was not waited for in it.
                if seen && exit.at_ns >= ended {
                    joins.push(exit.slot);
                    if exit.at_ns >= from {
                        (from, used) = (exit.at_ns, exit.used_ns);
                    }
                }
                !seen
            });
        }
        let rest = start.saturating_sub(from) as f64;
        if is_known {
            known_pause(op, pause, rest, joins, wake, event);
            self.piece_by_piece(op, ended, event);
            self.used_ns += event.think_ns + event.awaits.as_ref().map_or(0.0, |a| a.think_ns);
            return;
        }
        if !joins.is_empty() {
            event.awaits = Some(Box::new(Awaits {
                joins,
                ..Awaits::default()
            }));
        }
        let own = match self.cpus {
            Some(cpus) => {
                let others = self.used_ns - used;
                let beside = (cpus.max(1) - 1) as f64 * rest;
                rest - (others - beside).clamp(0.0, rest)
            }
            None => rest,
        };
        if own > LONGEST_THINK_NS {
            event.sleep_ns = own;
        } else {
            event.think_ns = own;
            self.used_ns += own;
        }
    }

    /// What the wait before `op` goes back to. Only what came earlier in the trace can be waited for: nobody
    /// waits for ever.
    fn wake(&self, op: &Op) -> Option<Wake> {
        let after = op.pause.after?;
        let slot = (self.index.get(&after.tid)).or_else(|| self.gone.get(&after.tid));
        let wake = Wake {
            slot: *slot?,
            ops: after.ops.into(),
            lag_ns: after.lag_ns,
        };
        (self.threads.get(wake.slot)?.ops >= wake.ops).then_some(wake)
    }

    /// Takes the work in the pause before `op`, which began when the last one had `ended`, into pieces.
    fn piece_by_piece(&self, op: &Op, ended: u64, event: &mut Event) {
        let since = |slot: usize, ops: u64| {
            let from = self.threads.get(slot)?.starts.before(ended);
            let ops = ops.saturating_sub(from);
            Some(Along { slot, from, ops })
        };
        let wake = event.awaits.as_ref().and_then(|awaits| awaits.wake);
        let wake = wake.filter(|wake| wake.slot != event.slot);
        let ended_it = wake.and_then(|wake| since(wake.slot, wake.ops));
        let company = self.companies.get(&op.pid);
        let company = company.and_then(|&slot| since(slot, self.threads.get(slot)?.ops));
        take_apart(op, (ended_it, company), event);
    }

    /// Who begins and who ends with an operation that ended at `end`.
    fn family(&mut self, op: &Op, end: u64, event: &mut Event) {
        match op.kind {
            OpKind::Fork => {
                let id = |v: u64| u32::try_from(v).ok();
                let child = op.result.value().and_then(|v| u32::try_from(v).ok());
                let Some(child) = child.map(Tid).filter(|&c| c != op.tid && c.0 != 0) else {
                    return;
                };
                let pid = op.length.and_then(id).map_or(op.pid, Pid);
                let creator = (pid == op.pid).then_some(event.slot);
                if creator.is_none() {
                    self.parents.insert(pid, op.pid);
                }
                let thread = Thread {
                    end_ns: end,
                    used_ns: self.used_ns,
                    creator,
                    ..Thread::default()
                };
                // A number that is used again is another thread.
                event.spawns = Some(self.threads.len());
                self.index.insert(child, self.threads.len());
                self.threads.push(thread);
                self.last = None;
                if creator.is_some() && !self.companies.contains_key(&op.pid) {
                    self.companies.insert(op.pid, self.threads.len());
                    self.threads.push(Thread::default());
                }
            }
            OpKind::Exit => {
                event.ends = true;
                let exit = Exit {
                    slot: event.slot,
                    at_ns: end,
                    used_ns: self.used_ns,
                };
                let creator = self.threads.get(event.slot).and_then(|t| t.creator);
                if op.length == Some(1)
                    && let Some(parent) = self.parents.remove(&op.pid)
                {
                    self.exits.entry(parent).or_default().push(exit);
                } else if let Some(thread) = creator.and_then(|c| self.threads.get_mut(c)) {
                    thread.exits.push(exit);
                }
                if let Some(slot) = self.index.remove(&op.tid) {
                    self.gone.insert(op.tid, slot);
                    self.last = None;
                }
            }
            _ => {}
        }
    }
}

/// A pause of which the trace tells how it passed; `rest` is what is left of it after the last of `joins`.
fn known_pause(
    op: &Op,
    pause: f64,
    rest: f64,
    joins: Vec<usize>,
    wake: Option<Wake>,
    event: &mut Event,
) {
    let parts = &op.pause;
    let ready = (parts.ready_ns as f64).min(pause);
    let waited = (parts.waited_ns as f64).min(pause - ready);
    let asleep = (parts.asleep_ns as f64).min(pause - ready - waited);
    let worked = pause - ready - waited - asleep;
    // Nobody is there to end it: it takes as long as it did.
    if wake.is_none() && joins.is_empty() {
        (event.sleep_ns, event.think_ns) = (asleep + waited, worked);
        return;
    }
    let after = wake.and(parts.after).map_or(rest, |a| a.rest_ns as f64);
    // Of what came after the wait, no more was sleep than cannot have been work.
    let after = after.min(asleep + worked);
    event.sleep_ns = (after - worked).max(0.0);
    event.think_ns = after - event.sleep_ns;
    event.awaits = Some(Box::new(Awaits {
        sleep_ns: asleep - event.sleep_ns,
        think_ns: worked - event.think_ns,
        joins,
        wake,
        pieces: None,
    }));
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    clippy::unwrap_used,
    reason = "exact by construction"
)]
mod tests {
    use super::*;
    use fsage_core::{OpFlags, Outcome};

    fn op(kind: OpKind, tid: u32, start: u64, took: u64) -> Op {
        let mut op = Op::new(kind, Pid(1), Tid(tid), start);
        op.latency_ns = Some(took);
        op
    }

    fn thread(tid: u32, child: u32, start: u64) -> Op {
        let mut fork = op(OpKind::Fork, tid, start, 0);
        (fork.result, fork.length) = (Outcome::ok(u64::from(child)), Some(1));
        fork
    }

    #[test]
    fn what_others_use_of_one_processor_is_not_a_threads_own() {
        let run = |cpus| {
            let mut follow = Follow::on(cpus);
            follow.push(&op(OpKind::Read, 1, 0, 10));
            follow.push(&thread(1, 2, 10));
            // The other thread works for 30 of the first one's pause of 100.
            follow.push(&op(OpKind::Read, 2, 30, 10));
            follow.push(&op(OpKind::Read, 1, 110, 10)).think_ns
        };
        assert_eq!(run(Some(1)), 70.0);
        assert_eq!(run(Some(2)), 100.0);
        assert_eq!(run(None), 100.0);
    }

    #[test]
    fn what_the_tracer_held_back_is_no_work() {
        let mut follow = Follow::on(None);
        follow.push(&op(OpKind::Read, 1, 0, 10));
        let mut held = op(OpKind::Read, 1, 10_010, 10);
        held.record = OpFlags::held_back(&mut 8_900);
        assert_eq!(follow.push(&held).think_ns, 2_000.0);
        // Never less than nothing.
        let mut held = op(OpKind::Read, 1, 10_030, 10);
        held.record = OpFlags::held_back(&mut { u64::MAX });
        let event = follow.push(&held);
        assert_eq!((event.think_ns, event.sleep_ns), (0.0, 0.0));
    }

    #[test]
    fn what_the_tracer_took_is_no_pause_and_the_sides_of_a_copy_are_one_call() {
        let mut follow = Follow::on(Some(1)).beside(400);
        follow.push(&op(OpKind::Read, 1, 0, 100));
        assert_eq!(
            follow.push(&op(OpKind::Read, 1, 1500, 100)).think_ns,
            1000.0
        );
        assert_eq!(follow.push(&op(OpKind::Read, 1, 1900, 100)).think_ns, 0.0);
        follow.push(&op(OpKind::CopyIn, 1, 2400, 90_000));
        follow.push(&op(OpKind::CopyOut, 1, 2400, 0));
        assert_eq!(follow.push(&op(OpKind::Read, 1, 93_000, 1)).think_ns, 200.0);
    }

    #[test]
    fn what_happens_while_a_thread_is_in_a_call_is_not_in_its_pause() {
        let mut follow = Follow::on(Some(1));
        follow.push(&thread(1, 2, 0));
        follow.push(&op(OpKind::Read, 1, 0, 100));
        follow.push(&op(OpKind::Read, 2, 10, 10));
        follow.push(&op(OpKind::Read, 2, 30, 10));
        assert_eq!(follow.push(&op(OpKind::Read, 1, 105, 5)).think_ns, 5.0);
    }

    #[test]
    fn threads_that_ended_in_a_pause_were_waited_for() {
        let mut follow = Follow::on(Some(1));
        let spawned = follow.push(&thread(1, 2, 0));
        assert_eq!(spawned.spawns, Some(1));
        follow.push(&op(OpKind::Read, 2, 10, 10));
        assert!(follow.push(&op(OpKind::Exit, 2, 40, 0)).ends);
        let after = follow.push(&op(OpKind::Read, 1, 45, 5));
        assert_eq!(after.awaits.map(|a| a.joins), Some(vec![1]));
        assert_eq!(after.think_ns, 5.0);
        // The number is free: another thread of the same one is another.
        assert_eq!(follow.push(&op(OpKind::Read, 2, 60, 5)).slot, 3);
    }

    #[test]
    fn a_long_pause_is_sleep() {
        let mut follow = Follow::on(None);
        follow.push(&op(OpKind::Read, 1, 0, 10));
        let event = follow.push(&op(OpKind::Read, 1, 10 + 200_000_000, 10));
        assert_eq!((event.sleep_ns, event.think_ns), (200e6, 0.0));
    }

    /// The pieces of so much work before a wait for so many operations of another thread, where the trace tells that the thread
    /// slept so often.
    fn pieces(ops: u64, work: u64, sleeps: u32) -> Option<Pieces> {
        let mut follow = Follow::on(Some(1));
        follow.push(&op(OpKind::Read, 1, 0, 10));
        follow.push(&thread(1, 2, 10));
        for turn in 0..ops {
            follow.push(&op(OpKind::Read, 1, 100 + 10 * turn, 5));
        }
        let end = 10_000_000;
        let mut exit = op(OpKind::Exit, 2, end, 0);
        exit.record = OpFlags::WAITS;
        exit.pause.waited_ns = end - 10 - work;
        exit.pause.sleeps = sleeps;
        exit.pause.after = Some(fsage_core::After {
            tid: Tid(1),
            ops: 2 + ops as u32,
            lag_ns: 0,
            rest_ns: 0,
        });
        let awaits = follow.push(&exit).awaits.unwrap();
        assert_eq!(awaits.think_ns, work as f64);
        awaits.pieces
    }

    fn along(ops: u64, count: u64) -> Pieces {
        let (slot, from) = (0, 2);
        Pieces {
            count,
            along: Some(Along { slot, from, ops }),
            rest_ns: 0,
        }
    }

    #[test]
    fn work_is_in_as_many_pieces_as_there_were_operations_and_none_is_short() {
        assert_eq!(pieces(10, 1_000_000, 0), Some(along(10, 10)));
        assert_eq!(pieces(400, 1_000_000, 0), Some(along(400, 50)));
        assert_eq!(pieces(10, 30_000, 0), None);
        assert_eq!(pieces(1, 1_000_000, 0), None);
        let mut some = along(10, 4);
        let next = std::iter::from_fn(|| some.go_on().then_some(some.along?.from));
        let next: Vec<_> = next.collect();
        assert_eq!(next, [4, 6, 9], "after the first, which waits for nobody");
    }

    #[test]
    fn who_slept_more_often_than_the_other_did_anything_goes_along_with_its_process() {
        assert_eq!(pieces(10, 1_000_000, 4), Some(along(10, 4)));
        assert_eq!(pieces(10, 1_000_000, 10), Some(along(10, 10)));
        // All of the process come after the first thread, of what it did since there was another.
        let all = pieces(10, 1_000_000, 11).unwrap();
        let (slot, from, ops) = (2, 0, 10);
        let company = Some(Along { slot, from, ops });
        assert_eq!((all.count, all.along, all.rest_ns), (10, company, 0));
        // One operation tells nothing: it rests as long each time.
        let alone = |count, slept_ns: u64| {
            let rest_ns = slept_ns / count;
            let along = None;
            Some(Pieces {
                count,
                along,
                rest_ns,
            })
        };
        assert_eq!(pieces(1, 1_000_000, 9000), alone(50, 8_999_990));
        assert_eq!(pieces(1, 1_000_000, 1), None);
    }

    #[test]
    fn work_between_sleeps_that_nobody_ended_is_in_pieces_too() {
        let mut follow = Follow::on(Some(1));
        follow.push(&op(OpKind::Read, 1, 0, 10));
        let mut next = op(OpKind::Read, 1, 1_000_010, 10);
        next.record = OpFlags::WAITS;
        (next.pause.asleep_ns, next.pause.sleeps) = (600_000, 3);
        let event = follow.push(&next);
        let awaits = event.awaits.unwrap();
        assert_eq!((event.sleep_ns, event.think_ns), (0.0, 0.0));
        assert_eq!((awaits.sleep_ns, awaits.think_ns), (150e3, 400e3));
        let pieces = awaits.pieces.unwrap();
        assert_eq!((pieces.count, pieces.along), (4, None));
        assert_eq!(pieces.rest_ns, 150_000, "three times");
    }

    #[test]
    fn a_pause_that_is_told_is_split_where_the_wait_ended() {
        let split = |pause: u64, asleep_ns, waited_ns, rest_ns| {
            let mut follow = Follow::on(Some(1));
            follow.push(&op(OpKind::Read, 1, 0, 10));
            let mut next = op(OpKind::Read, 1, 10 + pause, 10);
            next.record = OpFlags::WAITS;
            next.pause = fsage_core::Pause {
                ready_ns: 10,
                asleep_ns,
                waited_ns,
                after: Some(fsage_core::After {
                    tid: Tid(1),
                    ops: 1,
                    lag_ns: 3,
                    rest_ns,
                }),
                ..fsage_core::Pause::default()
            };
            let event = follow.push(&next);
            let awaits = event.awaits.unwrap();
            let wake = Wake {
                slot: 0,
                ops: 1,
                lag_ns: 3,
            };
            assert_eq!(awaits.wake, Some(wake));
            let before = (awaits.sleep_ns, awaits.think_ns);
            [before.0, before.1, event.sleep_ns, event.think_ns]
        };
        // 20 asleep and 40 of work, 30 of it after the wait.
        assert_eq!(split(100, 20, 30, 30), [20.0, 10.0, 0.0, 30.0]);
        assert_eq!(split(100, 20, 30, 50), [10.0, 0.0, 10.0, 40.0]);
        // What cannot be is bounded by the pause.
        assert_eq!(split(100, 900, 30, 900), [0.0, 0.0, 60.0, 0.0]);
    }
}

//! What the trace itself says of threads: who started whom, who waited for whom, and how long each was
//! busy between its operations. The same for every system.
//!
//! A pause between two operations of a thread is its own work and, where more threads run than there
//! are processors, waiting for one. What other threads are seen to use of the processors in the pause
//! cannot have been the thread's: that much is taken off, and what the tracer held the thread back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_core::{Op, OpKind, Pid, Tid};
use rustc_hash::FxHashMap;

/// A call of the trace that took longer has waited for something: it tells nothing of the processor.
const LONGEST_BUSY_NS: u64 = 1_000_000;

/// A pause that is longer after all that is not the thread's own work: it slept.
const LONGEST_THINK_NS: f64 = 100e6;

/// What comes before an operation, and what it means for other threads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    /// The thread, counted from 0 as they appear.
    pub slot: usize,
    /// How long the thread slept before it, beginning at the end of its last operation.
    pub sleep_ns: f64,
    /// How long it then worked.
    pub think_ns: f64,
    /// Threads that it waited for first: the rest of the pause counts from the last one's end.
    pub joins: Option<Box<[usize]>>,
    /// The thread that begins when the operation ends.
    pub spawns: Option<usize>,
    /// Whether the thread ends with it.
    pub ends: bool,
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
    /// Whether nothing is known of what it did until now.
    unknown: bool,
    /// Who started it, where that is a thread of the same process.
    creator: Option<usize>,
    /// Threads that it started and that ended.
    exits: Vec<Exit>,
}

/// Every thread of a trace.
#[derive(Debug, Clone, Default)]
pub struct Follow {
    /// Processors of the traced machine that the threads shared; `None`: one for each.
    cpus: Option<usize>,
    threads: Vec<Thread>,
    index: FxHashMap<Tid, usize>,
    last: Option<(Tid, usize)>,
    parents: FxHashMap<Pid, Pid>,
    exits: FxHashMap<Pid, Vec<Exit>>,
    first_ns: Option<u64>,
    /// Processor time that all threads were seen to use.
    used_ns: f64,
    /// Ends of operations that are still to come.
    ends: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Follow {
    /// For a trace of threads that shared so many processors.
    pub fn on(cpus: Option<usize>) -> Self {
        Self {
            cpus,
            ..Self::default()
        }
    }

    /// What comes before `op`; operations come in the order of their starts.
    #[inline]
    pub fn push(&mut self, op: &Op) -> Event {
        let first = *self.first_ns.get_or_insert(op.start_ns);
        let start = op.start_ns.saturating_sub(first);
        let end = op.end_ns().saturating_sub(first);
        let slot = self.slot(op.tid);
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
        let latency = op.latency_ns.unwrap_or(0);
        if latency < LONGEST_BUSY_NS {
            self.used_ns += latency as f64;
        }
        if let Some(thread) = self.threads.get_mut(slot) {
            (thread.end_ns, thread.used_ns) = (end, self.used_ns);
        }
        if self.threads.len() > 1 {
            self.ends.push(Reverse((end, slot)));
        }
        self.family(op, end, &mut event);
        event
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

    /// The pause before an operation that begins at `start`.
    fn pause(&mut self, op: &Op, start: u64, event: &mut Event) {
        let Some(thread) = self.threads.get_mut(event.slot) else {
            return;
        };
        // What the tracer held it back is no work of its own.
        let free = thread.end_ns.saturating_add(op.record.held_back_ns());
        let (mut from, mut used) = (free, thread.used_ns);
        if std::mem::take(&mut thread.unknown) {
            event.sleep_ns = start as f64;
            return;
        }
        let mut joined = Vec::new();
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
                if seen && exit.at_ns >= thread.end_ns {
                    joined.push(exit.slot);
                    if exit.at_ns >= from {
                        (from, used) = (exit.at_ns, exit.used_ns);
                    }
                }
                !seen
            });
        }
        if !joined.is_empty() {
            event.joins = Some(joined.into_boxed_slice());
        }
        let pause = start.saturating_sub(from) as f64;
        let own = match self.cpus {
            Some(cpus) => {
                let others = self.used_ns - used;
                let beside = (cpus.max(1) - 1) as f64 * pause;
                pause - (others - beside).clamp(0.0, pause)
            }
            None => pause,
        };
        if own > LONGEST_THINK_NS {
            event.sleep_ns = own;
        } else {
            event.think_ns = own;
            self.used_ns += own;
        }
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
                if let Some((&tid, _)) = self.index.get_key_value(&op.tid) {
                    self.index.remove(&tid);
                    self.last = None;
                }
            }
            _ => {}
        }
    }
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
        assert_eq!(after.joins.as_deref(), Some(&[1][..]));
        assert_eq!(after.think_ns, 5.0);
        // The number is free: another thread of the same one is another.
        assert_eq!(follow.push(&op(OpKind::Read, 2, 60, 5)).slot, 2);
    }

    #[test]
    fn a_long_pause_is_sleep() {
        let mut follow = Follow::on(None);
        follow.push(&op(OpKind::Read, 1, 0, 10));
        let event = follow.push(&op(OpKind::Read, 1, 10 + 200_000_000, 10));
        assert_eq!((event.sleep_ns, event.think_ns), (200e6, 0.0));
    }
}

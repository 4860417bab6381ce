//! Elapsed time: the trace's think times replayed against predicted service times.
//!
//! Each thread has a clock. Before an operation it thinks as long as it did in the trace, then the
//! operation takes its predicted time; the part that waits for the device queues at the one device
//! behind the other threads, and the rest is longer while others are in calls of the kind, as far as
//! the profile says how those scale. A child begins when its parent's fork ends. A parent whose pause saw a
//! child exit is taken to have waited for it. The thesis gives latency only and leaves this out
//! (Smith 2001, 4.4.5.6).

use std::collections::VecDeque;

use fsage_core::{Op, OpKind, Pid, Tid};
use rustc_hash::FxHashMap;

use crate::contention::Contention;
use crate::cost::ledger::Latency;

/// Idle stretches of the device that are remembered, so that a request that comes late in the trace
/// and early in predicted time finds its place.
const IDLE_KEPT: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: Pid,
    /// End of its last operation in the trace.
    traced_ns: f64,
    /// The same moment in predicted time.
    clock_ns: f64,
}

#[derive(Debug, Clone, Copy)]
struct Exit {
    traced_ns: f64,
    clock_ns: f64,
}

/// One device with a queue.
#[derive(Debug, Clone, Default)]
struct Device {
    free_at: f64,
    idle: VecDeque<(f64, f64)>,
}

impl Device {
    /// Serves a request that arrives at `at` for `need` nanoseconds; returns when it is done.
    fn serve(&mut self, at: f64, need: f64) -> f64 {
        for stretch in &mut self.idle {
            let begin = stretch.0.max(at);
            if begin + need <= stretch.1 {
                let done = begin + need;
                // What lies before the request is given up: it is shorter than the queue is exact.
                stretch.0 = done;
                return done;
            }
        }
        let begin = self.free_at.max(at);
        if begin > self.free_at {
            if self.idle.len() == IDLE_KEPT {
                self.idle.pop_front();
            }
            self.idle.push_back((self.free_at, begin));
        }
        self.free_at = begin + need;
        self.free_at
    }
}

/// The replay of one target.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    threads: Vec<Thread>,
    index: FxHashMap<Tid, usize>,
    last: Option<(Tid, usize)>,
    device: Device,
    contention: Option<Contention>,
    parents: FxHashMap<Pid, Pid>,
    exits: FxHashMap<Pid, Vec<Exit>>,
    first_ns: Option<f64>,
    end_ns: f64,
}

impl Replay {
    /// The replay on a system with this scaling of calls at once.
    pub fn with(contention: Option<Contention>) -> Self {
        Self {
            contention,
            ..Self::default()
        }
    }

    /// Replays one operation in the directory or file `place` that is predicted to take `latency`.
    #[inline]
    pub fn push(&mut self, op: &Op, place: u32, latency: Latency) {
        let start = op.start_ns as f64;
        let first = *self.first_ns.get_or_insert(start);
        let slot = self.slot(op, start - first);
        let Some(thread) = self.threads.get(slot).copied() else {
            return;
        };
        let think = (start - first - thread.traced_ns).max(0.0);
        let mut begin = thread.clock_ns + think;
        if !self.exits.is_empty() && self.exits.contains_key(&op.pid) {
            begin = self.after_children(op.pid, &thread, start - first, begin);
        }
        let memory = latency.total_ns - latency.device_ns;
        let memory = memory.max(0.0);
        let stretch = match &mut self.contention {
            Some(contention) if self.threads.len() > 1 => {
                contention.stretch(op, place, begin, memory)
            }
            _ => 1.0,
        };
        let mut end = begin + memory * stretch;
        if latency.device_ns > 0.0 {
            end = self.device.serve(end, latency.device_ns);
        }
        let traced_ns = op.end_ns() as f64 - first;
        if let Some(thread) = self.threads.get_mut(slot) {
            (thread.traced_ns, thread.clock_ns) = (traced_ns, end);
        }
        self.end_ns = self.end_ns.max(end);
        self.family(op, traced_ns, end);
    }

    fn slot(&mut self, op: &Op, since_ns: f64) -> usize {
        if let Some((tid, slot)) = self.last
            && tid == op.tid
        {
            return slot;
        }
        let fresh = self.threads.len();
        let slot = *self.index.entry(op.tid).or_insert(fresh);
        if slot == fresh {
            // Nothing is known of how it began: it thinks from the start of the trace on.
            let _ = since_ns;
            self.threads.push(Thread {
                pid: op.pid,
                traced_ns: 0.0,
                clock_ns: 0.0,
            });
        }
        self.last = Some((op.tid, slot));
        slot
    }

    /// The start of an operation whose pause saw children exit: as long after each of them as it was
    /// in the trace, whichever comes last.
    fn after_children(&mut self, pid: Pid, thread: &Thread, start: f64, think_end: f64) -> f64 {
        let Some(exits) = self.exits.get_mut(&pid) else {
            return think_end;
        };
        let mut begin = None::<f64>;
        exits.retain(|exit| {
            if exit.traced_ns > start {
                return true;
            }
            if exit.traced_ns >= thread.traced_ns {
                let after = exit.clock_ns + (start - exit.traced_ns);
                begin = Some(begin.map_or(after, |b| b.max(after)));
            }
            false
        });
        if exits.is_empty() {
            self.exits.remove(&pid);
        }
        begin.map_or(think_end, |b| b.max(thread.clock_ns))
    }

    fn family(&mut self, op: &Op, traced_ns: f64, clock_ns: f64) {
        match op.kind {
            OpKind::Fork => {
                let child = op
                    .result
                    .value()
                    .and_then(|v| u32::try_from(v).ok())
                    .map(Tid);
                let pid = op
                    .length
                    .and_then(|v| u32::try_from(v).ok())
                    .map_or(op.pid, Pid);
                let Some(child) = child.filter(|&c| c != op.tid && c.0 != 0) else {
                    return;
                };
                if pid != op.pid {
                    self.parents.insert(pid, op.pid);
                }
                let thread = Thread {
                    pid,
                    traced_ns,
                    clock_ns,
                };
                let fresh = self.threads.len();
                let slot = *self.index.entry(child).or_insert(fresh);
                match self.threads.get_mut(slot) {
                    Some(place) => *place = thread,
                    None => self.threads.push(thread),
                }
            }
            OpKind::Exit if op.length == Some(1) => {
                if let Some(parent) = self.parents.remove(&op.pid) {
                    self.exits.entry(parent).or_default().push(Exit {
                        traced_ns,
                        clock_ns,
                    });
                }
            }
            _ => {}
        }
    }

    /// From the first operation's start to the last one's predicted end, in nanoseconds.
    pub fn elapsed_ns(&self) -> f64 {
        self.end_ns
    }

    /// The process of a thread that was seen.
    pub fn process_of(&self, tid: Tid) -> Option<Pid> {
        self.index
            .get(&tid)
            .and_then(|&i| self.threads.get(i))
            .map(|t| t.pid)
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;
    use fsage_core::Outcome;

    fn op(tid: u32, start: u64, took: u64) -> Op {
        let mut op = Op::new(OpKind::Read, Pid(tid), Tid(tid), start);
        op.latency_ns = Some(took);
        op
    }

    fn latency(total: f64, device: f64) -> Latency {
        Latency {
            total_ns: total,
            device_ns: device,
        }
    }

    #[test]
    fn one_process_thinks_and_works() {
        let mut replay = Replay::default();
        replay.push(&op(1, 100, 10), 0, latency(50.0, 0.0));
        replay.push(&op(1, 200, 10), 0, latency(50.0, 50.0));
        // 50, think 90, 50.
        assert_eq!(replay.elapsed_ns(), 190.0);
    }

    #[test]
    fn two_processes_queue_at_the_device_and_nowhere_else() {
        let run = |device| {
            let mut replay = Replay::default();
            replay.push(&op(1, 0, 1), 0, latency(100.0, device));
            replay.push(&op(2, 0, 1), 0, latency(100.0, device));
            replay.elapsed_ns()
        };
        assert_eq!(run(0.0), 100.0);
        assert_eq!(run(100.0), 200.0);
    }

    #[test]
    fn a_parent_waits_for_its_child() {
        let mut replay = Replay::default();
        let mut fork = Op::new(OpKind::Fork, Pid(1), Tid(1), 0);
        (fork.result, fork.length) = (Outcome::ok(2), Some(2));
        replay.push(&fork, 0, latency(0.0, 0.0));
        replay.push(&op(2, 10, 10), 0, latency(1000.0, 1000.0));
        let mut exit = Op::new(OpKind::Exit, Pid(2), Tid(2), 30);
        exit.length = Some(1);
        replay.push(&exit, 0, latency(0.0, 0.0));
        replay.push(&op(1, 35, 5), 0, latency(5.0, 0.0));
        // 10 to the child's read, 1000, 10 to its exit, 5 until the parent goes on, 5.
        assert_eq!(replay.elapsed_ns(), 1030.0);
    }

    #[test]
    fn a_request_early_in_predicted_time_is_not_queued_behind_later_ones() {
        let mut device = Device::default();
        assert_eq!(device.serve(1000.0, 10.0), 1010.0);
        assert_eq!(device.serve(5.0, 10.0), 15.0);
        assert_eq!(device.serve(5.0, 10.0), 25.0);
    }
}

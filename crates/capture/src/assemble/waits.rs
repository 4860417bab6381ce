//! What threads wait for: how their pauses passed, and the points in others' courses at which they ended.
//!
//! A thread's place is told by the last operation that it, or who woke it since, has completed. So a wait
//! goes back to an operation of the trace however many that have none pass it on.

use std::collections::VecDeque;

use fsage_core::{After, Op, OpFlags, Pause, Tid};
use rustc_hash::FxHashMap;

/// Absences of a thread that are kept apart; more become one.
const MOST_APART: usize = 256;

/// Threads that ended and are still known: what they woke last may be told after their end.
const MOST_GONE: usize = 4096;

/// Where a thread is: for so long, at `at_ns`, behind an operation. Waiting for a processor does not count.
#[derive(Debug, Clone, Copy)]
struct Place {
    tid: Tid,
    ops: u32,
    lag_ns: u64,
    at_ns: u64,
}

impl Place {
    fn at(self, at_ns: u64) -> Self {
        let lag_ns = self.lag_ns.saturating_add(at_ns.saturating_sub(self.at_ns));
        Self {
            lag_ns,
            at_ns,
            ..self
        }
    }
}

/// Times on no processor, the first from `from_ns` on.
#[derive(Debug, Clone, Copy)]
struct Away {
    from_ns: u64,
    ready_ns: u64,
    asleep_ns: u64,
    waited_ns: u64,
    sleeps: u32,
    /// Where the last of them that another thread ended did.
    woken: Option<Place>,
    /// Of `ready_ns`, what came after that.
    ready_since_ns: u64,
}

impl Away {
    fn and(&mut self, next: &Self) {
        self.ready_ns += next.ready_ns;
        self.asleep_ns += next.asleep_ns;
        self.waited_ns += next.waited_ns;
        self.sleeps = self.sleeps.saturating_add(next.sleeps);
        if next.woken.is_some() {
            (self.woken, self.ready_since_ns) = (next.woken, 0);
        }
        self.ready_since_ns += next.ready_since_ns;
    }
}

#[derive(Debug, Default)]
struct Thread {
    ops: u32,
    place: Option<Place>,
    away: Vec<Away>,
}

/// Every thread that is watched. Times are in nanoseconds since the capture's start.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Whether the backend tells.
    pub known: bool,
    threads: FxHashMap<Tid, Thread>,
    gone: VecDeque<Tid>,
}

impl Waits {
    /// One ended the sleep of another.
    pub(super) fn wake(&mut self, at_ns: u64, waker: Tid, woken: Tid) {
        let place = self.threads.get(&waker).and_then(|t| t.place);
        self.threads.entry(woken).or_default().place = place.map(|place| place.at(at_ns));
    }

    /// A thread is back after it was on no processor.
    pub(super) fn away(
        &mut self,
        tid: Tid,
        from_ns: u64,
        woken_ns: Option<u64>,
        back_ns: u64,
        by_watched: bool,
    ) {
        let thread = self.threads.entry(tid).or_default();
        let ready_ns = back_ns.saturating_sub(woken_ns.unwrap_or(from_ns));
        let slept_ns = woken_ns.map_or(0, |woken| woken.saturating_sub(from_ns));
        let place = thread.place.filter(|_| by_watched);
        let away = Away {
            from_ns,
            ready_ns,
            asleep_ns: if by_watched { 0 } else { slept_ns },
            waited_ns: if by_watched { slept_ns } else { 0 },
            sleeps: woken_ns.is_some().into(),
            woken: place.zip(woken_ns).map(|(place, at)| place.at(at)),
            ready_since_ns: ready_ns,
        };
        if let Some(place) = &mut thread.place {
            place.at_ns = place.at_ns.saturating_add(ready_ns);
        }
        let full = thread.away.len() >= MOST_APART;
        match thread.away.last_mut().filter(|_| full) {
            Some(last) => last.and(&away),
            None => thread.away.push(away),
        }
    }

    /// Tells how the pause before an operation passed; the operation is its thread's next.
    pub(super) fn tell(&mut self, op: &mut Op) {
        if !self.known {
            return;
        }
        let thread = self.threads.entry(op.tid).or_default();
        let (start, end) = (op.start_ns, op.end_ns());
        let requested = op.record.contains(OpFlags::URING);
        let mut pause: Option<Away> = None;
        let (mut queued_ns, mut blocked_ns) = (0, 0);
        thread.away.retain(|away| {
            if away.from_ns < start {
                pause.get_or_insert(NOTHING).and(away);
                return false;
            }
            // What lies in the call is the call's; who only made a request goes on meanwhile.
            if requested || away.from_ns >= end {
                return true;
            }
            queued_ns += away.ready_ns;
            blocked_ns += away.asleep_ns + away.waited_ns;
            false
        });
        let latency_ns = end.saturating_sub(start);
        op.pause.queued_ns = queued_ns.min(latency_ns);
        op.pause.blocked_ns = blocked_ns.min(latency_ns - op.pause.queued_ns);
        op.record |= OpFlags::WAITS;
        if let Some(away) = pause {
            op.pause = Pause {
                ready_ns: away.ready_ns,
                asleep_ns: away.asleep_ns,
                waited_ns: away.waited_ns,
                queued_ns: op.pause.queued_ns,
                blocked_ns: op.pause.blocked_ns,
                sleeps: away.sleeps,
                after: away.woken.map(|place| After {
                    tid: place.tid,
                    ops: place.ops,
                    lag_ns: place.lag_ns,
                    rest_ns: start
                        .saturating_sub(place.at_ns)
                        .saturating_sub(away.ready_since_ns),
                }),
            };
        }
        thread.ops = thread.ops.saturating_add(1);
        thread.place = Some(Place {
            tid: op.tid,
            ops: thread.ops,
            lag_ns: 0,
            // Who only made a request goes on at once.
            at_ns: if requested { start } else { end },
        });
    }

    /// A thread began another one.
    pub(super) fn fork(&mut self, tid: Tid, child: Tid) {
        let place = self.threads.get(&tid).and_then(|t| t.place);
        let thread = Thread {
            place,
            ..Thread::default()
        };
        self.threads.insert(child, thread);
        self.gone.retain(|&gone| gone != child);
    }

    /// A thread ended.
    pub(super) fn exit(&mut self, tid: Tid) {
        if !self.known {
            return;
        }
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.away = Vec::new();
        }
        self.gone.push_back(tid);
        if self.gone.len() > MOST_GONE
            && let Some(tid) = self.gone.pop_front()
        {
            self.threads.remove(&tid);
        }
    }
}

const NOTHING: Away = Away {
    from_ns: 0,
    ready_ns: 0,
    asleep_ns: 0,
    waited_ns: 0,
    sleeps: 0,
    woken: None,
    ready_since_ns: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::{OpKind, Pid};

    fn tell(waits: &mut Waits, tid: u32, start: u64, took: u64) -> Op {
        let mut op = Op::new(OpKind::Read, Pid(tid), Tid(tid), start);
        op.latency_ns = Some(took);
        waits.tell(&mut op);
        assert!(op.record.contains(OpFlags::WAITS));
        op
    }

    fn known() -> Waits {
        Waits {
            known: true,
            ..Waits::default()
        }
    }

    #[test]
    fn a_wait_goes_back_to_an_operation_through_who_has_none() {
        let mut waits = known();
        tell(&mut waits, 1, 0, 100);
        tell(&mut waits, 3, 0, 10);
        // 1 wakes 2 at 150, which wakes 3 at 170.
        waits.wake(150, Tid(1), Tid(2));
        waits.away(Tid(2), 5, Some(150), 160, true);
        waits.wake(170, Tid(2), Tid(3));
        waits.away(Tid(3), 20, Some(170), 175, true);
        let pause = tell(&mut waits, 3, 200, 5).pause;
        assert_eq!(
            (pause.ready_ns, pause.asleep_ns, pause.waited_ns),
            (5, 0, 150)
        );
        let after = After {
            tid: Tid(1),
            ops: 1,
            lag_ns: 60,
            rest_ns: 25,
        };
        assert_eq!(pause.after, Some(after));
    }

    #[test]
    fn timers_end_no_waits_and_what_lies_in_a_call_is_the_calls() {
        let mut waits = known();
        waits.away(Tid(1), 10, Some(60), 60, false);
        waits.away(Tid(1), 70, None, 75, false);
        waits.away(Tid(1), 110, Some(140), 141, false);
        waits.away(Tid(1), 160, Some(170), 171, false);
        let first = tell(&mut waits, 1, 100, 50).pause;
        let expected = Pause {
            ready_ns: 5,
            asleep_ns: 50,
            queued_ns: 1,
            blocked_ns: 30,
            sleeps: 1,
            ..Pause::default()
        };
        assert_eq!(first, expected);
        let next = tell(&mut waits, 1, 200, 1).pause;
        assert_eq!((next.asleep_ns, next.after, next.sleeps), (10, None, 1));
    }

    #[test]
    fn a_child_goes_back_to_the_operation_that_began_it() {
        let mut waits = known();
        tell(&mut waits, 1, 10, 0);
        waits.fork(Tid(1), Tid(2));
        waits.wake(50, Tid(2), Tid(1));
        waits.exit(Tid(2));
        waits.away(Tid(1), 20, Some(50), 50, true);
        let after = tell(&mut waits, 1, 60, 1).pause.after;
        assert_eq!(
            after.map(|a| (a.tid, a.ops, a.lag_ns)),
            Some((Tid(1), 1, 40))
        );
    }

    #[test]
    fn however_many_absences_their_sum_is_kept() {
        let mut waits = known();
        for i in 0..10 * MOST_APART as u64 {
            waits.away(Tid(1), 10 * i, Some(10 * i + 3), 10 * i + 4, false);
        }
        assert!(waits.threads.values().all(|t| t.away.len() <= MOST_APART));
        let pause = tell(&mut waits, 1, 1 << 20, 1).pause;
        let all = 10 * MOST_APART as u64;
        assert_eq!((pause.asleep_ns, pause.ready_ns), (3 * all, all));
        assert_eq!(u64::from(pause.sleeps), all);
    }
}

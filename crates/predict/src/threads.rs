//! Pauses between a thread's calls of one kind, from the trace's own times.

use fsage_core::{KindClass, Op, OpKind, Tid};
use rustc_hash::FxHashMap;

use crate::cost::{Gap, GapTable};

const KINDS: usize = OpKind::ALL.len();
const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone)]
struct Thread {
    /// By kind: when its last call ended, on the thread's own clock.
    ends: [u64; KINDS],
    /// Time in which the thread slept in a call, or was held back by the tracer: it wears no cache out.
    asleep_ns: u64,
}

/// Every thread of the trace.
#[derive(Debug, Clone, Default)]
pub struct Threads {
    table: GapTable,
    index: FxHashMap<Tid, usize>,
    all: Vec<Thread>,
    last: Option<(Tid, usize)>,
}

impl Threads {
    /// The pause before `op`: from the end of the same thread's last call of the kind to the start of
    /// this one, without the time that the thread slept in other calls. A thread's first call of a
    /// kind is as cold as can be.
    #[inline]
    pub fn gap(&mut self, op: &Op) -> Gap {
        let slot = match self.last {
            Some((tid, slot)) if tid == op.tid => slot,
            _ => {
                let fresh = self.all.len();
                let slot = *self.index.entry(op.tid).or_insert(fresh);
                if slot == fresh {
                    self.all.push(Thread {
                        ends: [NEVER; KINDS],
                        asleep_ns: 0,
                    });
                }
                self.last = Some((op.tid, slot));
                slot
            }
        };
        let Some(thread) = self.all.get_mut(slot) else {
            return Gap::LONGEST;
        };
        let held = op.record.held_back_ns();
        thread.asleep_ns = thread.asleep_ns.saturating_add(held);
        let start = op.start_ns.saturating_sub(thread.asleep_ns);
        if sleeps(op) {
            thread.asleep_ns = thread.asleep_ns.saturating_add(op.latency_ns.unwrap_or(0));
        }
        let end = op.end_ns().saturating_sub(thread.asleep_ns).min(NEVER - 1);
        match thread.ends.get_mut(op.kind as usize) {
            Some(last) => match std::mem::replace(last, end) {
                NEVER => Gap::LONGEST,
                before => self.table.at(start.saturating_sub(before)),
            },
            None => Gap::LONGEST,
        }
    }
}

/// Whether the thread waited for the device.
#[inline]
fn sleeps(op: &Op) -> bool {
    op.kind.class() == KindClass::Sync || op.pages_missed.is_some_and(|pages| pages > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::Pid;

    fn op(kind: OpKind, start_ns: u64, latency_ns: u64) -> Op {
        let mut op = Op::new(kind, Pid(1), Tid(1), start_ns);
        op.latency_ns = Some(latency_ns);
        op
    }

    #[test]
    fn sleep_is_no_pause() {
        let mut threads = Threads::default();
        assert_eq!(threads.gap(&op(OpKind::Fstat, 0, 100)), Gap::LONGEST);
        assert_eq!(threads.gap(&op(OpKind::Fstat, 100, 100)), Gap::NONE);
        threads.gap(&op(OpKind::Fsync, 200, 1_000_000));
        assert_eq!(threads.gap(&op(OpKind::Fstat, 1_000_200, 100)), Gap::NONE);
        assert_eq!(
            threads.gap(&op(OpKind::Fstat, 9_000_000, 100)),
            Gap::LONGEST
        );
    }
}

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
    /// The same of any kind.
    end: u64,
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
    /// kind is as cold as can be. Calls of other kinds keep warm what all have in common (the way into the kernel, its
    /// files and names, the file system's inodes): one that moves no data counts as after the geometric mean of that
    /// pause and the one since the thread's last call of any kind.
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
                        end: NEVER,
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
        let any = thread.end;
        // The other side of a copy does not end before the first.
        thread.end = if any == NEVER { end } else { any.max(end) };
        let Some(last) = thread.ends.get_mut(op.kind as usize) else {
            return Gap::LONGEST;
        };
        let pause_ns = match std::mem::replace(last, end) {
            NEVER => LONGEST_NS,
            before => start.saturating_sub(before).min(LONGEST_NS),
        };
        let any_ns = start.saturating_sub(any).clamp(1, pause_ns.max(1));
        self.table
            .at(if any != NEVER && op.kind.class() != KindClass::Data {
                (pause_ns as f64 * any_ns as f64).sqrt() as u64
            } else {
                pause_ns
            })
    }
}

/// From here on the processor's caches are as cold as can be.
const LONGEST_NS: u64 = 1 << 21;

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
    fn calls_of_other_kinds_keep_warm_what_all_have_in_common() {
        let mut threads = Threads::default();
        threads.gap(&op(OpKind::Fstat, 0, 0));
        threads.gap(&op(OpKind::Read, 999_000, 0));
        let table = GapTable::default();
        let at = |ns| table.at(ns);
        // A millisecond after the last fstat, a microsecond after the read: 31.6 us.
        assert_eq!(threads.gap(&op(OpKind::Fstat, 1_000_000, 0)), at(31_622));
        assert_eq!(threads.gap(&op(OpKind::Seek, 1_002_000, 0)), at(64_763));
        // The first of its kind, 2.1 ms, and a microsecond after another.
        assert_eq!(threads.gap(&op(OpKind::Rename, 1_003_000, 0)), at(45_793));
        // What moves data finds that as cold as it is.
        assert_eq!(threads.gap(&op(OpKind::Read, 1_004_000, 0)), at(5_000));
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

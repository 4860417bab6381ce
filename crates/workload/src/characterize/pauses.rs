//! What threads did between their operations: from the end of one to the start of the thread's next, or from the fork of a
//! thread on.

use fsage_core::{Op, OpFlags, OpKind, Tid};
use rustc_hash::FxHashMap;

use super::Pauses;

/// Threads beyond it are not followed.
const MAX_THREADS: usize = 65_536;

/// Sums over all threads; nothing where the stream does not tell.
#[derive(Debug, Default)]
pub(super) struct PauseSums {
    sums: Option<Pauses>,
    /// When the last operation of each running thread ended.
    ends: FxHashMap<Tid, u64>,
}

impl PauseSums {
    pub(super) fn take(&mut self, op: &Op) {
        if !op.record.contains(OpFlags::WAITS) {
            return;
        }
        let before = self.ends.get(&op.tid).copied();
        if op.kind == OpKind::Exit {
            self.ends.remove(&op.tid);
        } else if before.is_some() || self.ends.len() < MAX_THREADS {
            let end = before.map_or(op.end_ns(), |before| before.max(op.end_ns()));
            self.ends.insert(op.tid, end);
        }
        let child = op.result.value().and_then(|v| u32::try_from(v).ok());
        if let Some(child) = child.filter(|_| op.kind == OpKind::Fork)
            && self.ends.len() < MAX_THREADS
        {
            self.ends.insert(Tid(child), op.end_ns());
        }
        let sums = self.sums.get_or_insert_default();
        // What a thread did before its first operation began before the stream, or nobody knows when.
        let Some(before) = before else {
            return;
        };
        let pause = &op.pause;
        let mut left = op.start_ns.saturating_sub(before);
        let mut part = |ns: u64| {
            let part = ns.min(left);
            left -= part;
            part
        };
        part(op.record.held_back_ns());
        for (sum, ns) in [
            (&mut sums.ready_ns, pause.ready_ns),
            (&mut sums.asleep_ns, pause.asleep_ns),
            (&mut sums.waited_ns, pause.waited_ns),
        ] {
            *sum = sum.saturating_add(part(ns));
        }
        sums.worked_ns = sums.worked_ns.saturating_add(left);
    }

    pub(super) fn finish(self) -> Option<Pauses> {
        self.sums
    }
}

//! What threads did between their operations.

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
            self.ends.insert(op.tid, op.end_ns());
        }
        let child = op.result.value().and_then(|v| u32::try_from(v).ok());
        if let Some(child) = child.filter(|_| op.kind == OpKind::Fork)
            && self.ends.len() < MAX_THREADS
        {
            self.ends.insert(Tid(child), op.end_ns());
        }
        let sums = self.sums.get_or_insert_default();
        let pause = &op.pause;
        sums.ready_ns = sums.ready_ns.saturating_add(pause.ready_ns);
        sums.asleep_ns = sums.asleep_ns.saturating_add(pause.asleep_ns);
        sums.waited_ns = sums.waited_ns.saturating_add(pause.waited_ns);
        let away = [
            pause.ready_ns,
            pause.asleep_ns,
            pause.waited_ns,
            op.record.held_back_ns(),
        ];
        let away = away.into_iter().fold(0, u64::saturating_add);
        let whole = before.map_or(0, |end| op.start_ns.saturating_sub(end));
        sums.worked_ns = sums.worked_ns.saturating_add(whole.saturating_sub(away));
    }

    pub(super) fn finish(self) -> Option<Pauses> {
        self.sums
    }
}

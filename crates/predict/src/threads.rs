//! Pauses between a thread's calls of one kind, from the trace's own times.

use fsage_core::{KindClass, Op, OpKind, Tid};
use rustc_hash::FxHashMap;

use crate::cost::{Gap, GapTable};

/// How long a thread has not made a call of this kind, and not resolved a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pauses {
    /// Since its last call of the kind.
    pub call: Gap,
    /// Since its last call with a path.
    pub lookup: Gap,
}

/// Place of "any call with a path" after the kinds.
const LOOKUP: usize = OpKind::ALL.len();
const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone)]
struct Thread {
    ends: [u64; LOOKUP + 1],
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
    /// The pauses before `op`: from the end of the same thread's last call of the kind to the start
    /// of this one. A thread's first call is as cold as can be.
    #[inline]
    pub fn pauses(&mut self, op: &Op) -> Pauses {
        let slot = match self.last {
            Some((tid, slot)) if tid == op.tid => slot,
            _ => {
                let fresh = self.all.len();
                let slot = *self.index.entry(op.tid).or_insert(fresh);
                if slot == fresh {
                    self.all.push(Thread {
                        ends: [NEVER; LOOKUP + 1],
                    });
                }
                self.last = Some((op.tid, slot));
                slot
            }
        };
        let Some(thread) = self.all.get_mut(slot) else {
            return Pauses {
                call: Gap::LONGEST,
                lookup: Gap::LONGEST,
            };
        };
        let table = &self.table;
        let gap = |end: u64| match end {
            NEVER => Gap::LONGEST,
            end => table.at(op.start_ns.saturating_sub(end)),
        };
        let end = op.end_ns().min(NEVER - 1);
        let call = thread
            .ends
            .get_mut(op.kind as usize)
            .map_or(Gap::LONGEST, |last| gap(std::mem::replace(last, end)));
        let named = op.kind.class() == KindClass::Name;
        let lookup = match thread.ends.get_mut(LOOKUP) {
            Some(last) if named => gap(std::mem::replace(last, end)),
            _ => Gap::NONE,
        };
        Pauses { call, lookup }
    }
}

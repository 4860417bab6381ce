//! Calls that end late are put back where they started.

use std::collections::BTreeMap;

use fsage_core::Op;

/// More operations than this never wait for a call in flight; it then comes out of order.
const MAX_WAITING: usize = 1 << 16;

/// Operations by start, then by the order in which they were pushed.
#[derive(Debug, Default)]
pub(super) struct Reorder {
    waiting: BTreeMap<(u64, u64), Op>,
    pushed: u64,
    last_line_ns: u64,
}

impl Reorder {
    /// A line of that time was read.
    pub fn line(&mut self, time_ns: u64) {
        self.last_line_ns = self.last_line_ns.max(time_ns);
    }

    pub fn last_line_ns(&self) -> u64 {
        self.last_line_ns
    }

    pub fn push(&mut self, op: Op) {
        self.waiting.insert((op.start_ns, self.pushed), op);
        self.pushed += 1;
    }

    /// Moves out what starts before `floor` (`None`: everything).
    pub fn take_until(&mut self, floor: Option<u64>, batch: &mut Vec<Op>) {
        while let Some(entry) = self.waiting.first_entry() {
            let early = floor.is_none_or(|floor| entry.key().0 < floor);
            if !early && self.waiting.len() <= MAX_WAITING {
                break;
            }
            if let Some((_, op)) = self.waiting.pop_first() {
                batch.push(op);
            }
        }
    }
}

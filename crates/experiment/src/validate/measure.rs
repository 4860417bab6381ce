//! What a traced run took: its latencies, summed by kind.

use std::collections::BTreeMap;

use fsage_core::{Op, OpKind};
use fsage_format::result::validation::Distribution;
use serde::{Deserialize, Serialize};

/// What operations of one kind took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindTotal {
    /// How many.
    pub count: u64,
    /// Their latencies, nanoseconds.
    pub latency_ns: u64,
    /// How the latencies are distributed.
    pub distribution: Distribution,
}

/// What one run took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// By name of the kind. Processes' starts and ends are no cost of a file system and left out.
    pub kinds: BTreeMap<String, KindTotal>,
}

impl Measured {
    /// The latencies of all kinds, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.kinds.values().map(|k| k.latency_ns).sum()
    }

    /// Operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.kinds.values().map(|k| k.count).sum()
    }

    /// Counts an operation, if it is a file system's.
    pub(crate) fn charge(&mut self, op: &Op) {
        if let (true, Some(latency_ns)) = (op.in_file_system(), op.latency_ns) {
            self.add(op.kind, latency_ns);
        }
    }

    /// Counts one latency.
    pub fn add(&mut self, kind: OpKind, latency_ns: u64) {
        // A lookup by `&str` first: the name is allocated once per kind, not once per operation.
        let name = kind.name();
        if !self.kinds.contains_key(name) {
            self.kinds.insert(name.to_string(), KindTotal::default());
        }
        if let Some(total) = self.kinds.get_mut(name) {
            total.count += 1;
            total.latency_ns = total.latency_ns.saturating_add(latency_ns);
            total.distribution.add(latency_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::{Pid, Tid};

    #[test]
    fn what_is_no_cost_of_a_file_system_is_left_out() {
        let mut measured = Measured::default();
        for (kind, latency) in [(OpKind::Read, 5), (OpKind::Read, 7), (OpKind::Fork, 100)] {
            let mut op = Op::new(kind, Pid(1), Tid(1), 0);
            op.latency_ns = Some(latency);
            measured.charge(&op);
        }
        assert_eq!(measured.total_ns(), 12);
        assert_eq!(measured.operations(), 2);
        assert_eq!(measured.kinds["read"].count, 2);
    }
}

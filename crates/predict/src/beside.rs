//! Names that several threads change in one directory at once: they wait for one another, which no cost tells.

use fsage_core::{Op, Tid};

/// Calls of other threads that are remembered.
const REMEMBERED: usize = 8;
/// So many, and this share of the traced time in the file system, are worth a word.
const LEAST: u64 = 100;
const LEAST_SHARE: f64 = 0.05;

/// What was seen of it in the trace's own time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    /// Thread, directory, and the end of the call in nanoseconds.
    recent: [Option<(Tid, u32, u64)>; REMEMBERED],
    next: usize,
    operations: u64,
    latency_ns: u64,
}

impl Beside {
    /// A call changes names in a directory.
    pub fn push(&mut self, op: &Op, dir: u32) {
        let waits = |&(tid, place, end_ns): &(Tid, u32, u64)| {
            tid != op.tid && place == dir && end_ns > op.start_ns
        };
        if self.recent.iter().flatten().any(waits) {
            self.operations += 1;
            let ns = op.latency_ns.unwrap_or(0);
            self.latency_ns = self.latency_ns.saturating_add(ns);
        }
        if let Some(slot) = self.recent.get_mut(self.next) {
            *slot = Some((op.tid, dir, op.end_ns()));
        }
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// What makes a prediction less sure, of a trace that was so long in the file system.
    pub fn warning(&self, latency_ns: u64) -> Option<String> {
        let share = self.latency_ns as f64 / latency_ns.max(1) as f64;
        let worth = self.operations >= LEAST && share >= LEAST_SHARE;
        worth.then(|| {
            format!(
                "{} operations change names in a directory in which another thread does so at the same time ({:.0} % of the \
                 traced time in the file system): what they wait for each other is not predicted",
                self.operations,
                100.0 * share
            )
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use fsage_core::{OpKind, Pid};

    use super::*;

    #[test]
    fn threads_that_change_one_directory_at_once_are_told() {
        let of = |threads: u32, dirs: u32| {
            let mut beside = Beside::default();
            for number in 0..300 {
                let start_ns = u64::from(number) * 100;
                let mut op = Op::new(OpKind::Unlink, Pid(1), Tid(number % threads), start_ns);
                op.latency_ns = Some(150);
                beside.push(&op, number % dirs);
            }
            beside
        };
        let warning = of(2, 1).warning(90_000).unwrap();
        assert!(warning.starts_with("299 operations"), "{warning}");
        assert!(warning.contains("(50 % of"), "{warning}");
        // Of little weight, of one thread, in a directory each.
        assert_eq!(of(2, 1).warning(10_000_000), None);
        assert_eq!(of(1, 1).warning(90_000), None);
        assert_eq!(of(2, 2).warning(90_000), None);
    }
}

//! How an operation is made slower, and what that has amounted to.

use std::sync::atomic::{AtomicU64, Ordering};

use fsage_core::Clock;
use fsage_format::result::slowfs::{SlowedOperation, SlowfsStatistics};
use fsage_host::MonotonicClock;

use crate::slowing::{Operation, Slowing};

/// Slows operations and counts them; shared by the mounts that serve one directory after another.
#[derive(Debug)]
pub struct Slower {
    slowing: Slowing,
    counts: Vec<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicU64,
    own_ns: AtomicU64,
    added_ns: AtomicU64,
    late_ns: AtomicU64,
}

impl Slower {
    /// Slows by these factors.
    pub fn new(slowing: Slowing) -> Self {
        let counts = Operation::ALL.iter().map(|_| Counts::default()).collect();
        Self { slowing, counts }
    }

    /// Does an operation and takes as much longer as it should: the rule of the study's 12.1, with the
    /// processor kept busy and yielded.
    pub fn apply<T>(&self, operation: Operation, work: impl FnOnce() -> T) -> T {
        let start_ns = MonotonicClock.now_ns();
        let result = work();
        let now_ns = MonotonicClock.now_ns();
        let own_ns = now_ns.saturating_sub(start_ns);
        let longer_ns = own_ns as f64 * (self.slowing.factor(operation) - 1.0);
        let goal_ns = now_ns.saturating_add(longer_ns as u64);
        let mut end_ns = now_ns;
        while end_ns < goal_ns {
            rustix::thread::sched_yield();
            end_ns = MonotonicClock.now_ns();
        }
        if let Some(counts) = self.counts.get(operation as usize) {
            counts.calls.fetch_add(1, Ordering::Relaxed);
            counts.own_ns.fetch_add(own_ns, Ordering::Relaxed);
            let added_ns = end_ns.saturating_sub(now_ns);
            counts.added_ns.fetch_add(added_ns, Ordering::Relaxed);
            let late_ns = end_ns.saturating_sub(goal_ns);
            counts.late_ns.fetch_add(late_ns, Ordering::Relaxed);
        }
        result
    }

    /// What was done so far.
    pub fn statistics(&self) -> SlowfsStatistics {
        let operations = Operation::ALL.iter().zip(&self.counts);
        SlowfsStatistics {
            slow: self.slowing.to_string(),
            operations: operations
                .map(|(operation, counts)| SlowedOperation {
                    operation: operation.name().to_owned(),
                    factor: self.slowing.factor(*operation),
                    calls: counts.calls.load(Ordering::Relaxed),
                    own_ns: counts.own_ns.load(Ordering::Relaxed),
                    added_ns: counts.added_ns.load(Ordering::Relaxed),
                    late_ns: counts.late_ns.load(Ordering::Relaxed),
                })
                .filter(|o| o.calls > 0)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slowed_call_takes_its_multiple_and_is_counted() {
        let slower = Slower::new("read=8".parse().unwrap());
        let work = || {
            let until = MonotonicClock.now_ns() + 200_000;
            while MonotonicClock.now_ns() < until {}
            MonotonicClock.now_ns()
        };
        let start_ns = MonotonicClock.now_ns();
        let worked_ns = slower.apply(Operation::Read, work) - start_ns;
        // Other load only makes both longer: the whole is at least eight times the work.
        let whole_ns = MonotonicClock.now_ns() - start_ns;
        assert!(
            whole_ns as f64 >= 7.9 * worked_ns as f64,
            "{whole_ns} {worked_ns}"
        );
        slower.apply(Operation::Open, || ());
        let found = slower.statistics();
        assert_eq!(found.slow, "read=8");
        let [read, open] = &found.operations[..] else {
            panic!("{found:?}")
        };
        assert_eq!((read.operation.as_str(), read.calls), ("read", 1));
        assert!(read.own_ns >= 200_000 && read.added_ns >= 7 * read.own_ns - 7);
        assert_eq!((open.operation.as_str(), open.added_ns), ("open", 0));
        // However busy the machine is: what was asked for is told apart from what came late.
        let asked_ns = read.added_ns - read.late_ns;
        assert!(asked_ns.abs_diff(7 * read.own_ns) <= 7, "{read:?}");
        assert_eq!(open.late_ns, 0);
    }
}

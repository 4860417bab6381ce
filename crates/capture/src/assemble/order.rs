//! Bringing operations, which become known as they end, into the order of their start.

use std::collections::VecDeque;

use fsage_core::{ColdLevel, Op};

/// Operations held at most, and how long: a longer call is handed on late.
const HELD: usize = 1 << 15;
const WINDOW_NS: u64 = 200_000_000;

/// A bounded window of operations, sorted by start.
#[derive(Debug, Default)]
pub(super) struct Order {
    held: VecDeque<Op>,
    /// The latest end seen.
    now_ns: u64,
    /// Start of the last operation handed on.
    passed_ns: u64,
    /// When caches were made cold, as far as no operation has told it.
    cold_ns: VecDeque<u64>,
    /// Operations handed on after one that started later.
    pub late: u64,
}

impl Order {
    /// Takes an operation. Most belong at the back.
    pub(super) fn push(&mut self, op: Op) {
        self.now_ns = self.now_ns.max(op.end_ns());
        let mut at = self.held.len();
        while at > 0
            && self
                .held
                .get(at - 1)
                .is_some_and(|held| held.start_ns > op.start_ns)
        {
            at -= 1;
        }
        self.held.insert(at, op);
    }

    /// Caches were made cold then: the first operation that began later says so.
    pub(super) fn made_cold(&mut self, at_ns: u64) {
        self.cold_ns.push_back(at_ns);
    }

    /// The operations held.
    pub(super) fn held(&mut self) -> impl Iterator<Item = &mut Op> {
        self.held.iter_mut()
    }

    /// The next operation that nothing earlier is expected before; all, if `end`.
    pub(super) fn pop(&mut self, end: bool) -> Option<Op> {
        let first = self.held.front()?;
        let old = first.start_ns.saturating_add(WINDOW_NS) < self.now_ns;
        if !(end || old || self.held.len() > HELD) {
            return None;
        }
        let mut op = self.held.pop_front()?;
        while self.cold_ns.pop_front_if(|at| *at <= op.start_ns).is_some() {
            op.record |= ColdLevel::Everything.record();
        }
        if op.start_ns < self.passed_ns {
            self.late += 1;
        }
        self.passed_ns = self.passed_ns.max(op.start_ns);
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::{OpKind, Pid, Tid};

    fn op(start_ns: u64, latency_ns: u64) -> Op {
        let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), start_ns);
        op.latency_ns = Some(latency_ns);
        op
    }

    #[test]
    fn operations_leave_in_the_order_of_their_start() {
        let mut order = Order::default();
        for (start, latency) in [(50, 1), (10, 60), (30, 50), (90, 2)] {
            order.push(op(start, latency));
        }
        assert!(order.pop(false).is_none(), "an earlier one may still come");
        let starts: Vec<_> = std::iter::from_fn(|| order.pop(true))
            .map(|op| op.start_ns)
            .collect();
        assert_eq!(starts, [10, 30, 50, 90]);
        assert_eq!(order.late, 0);
    }

    #[test]
    fn a_call_longer_than_the_window_is_let_through_and_counted() {
        let mut order = Order::default();
        order.push(op(0, 1));
        order.push(op(1000, 2 * WINDOW_NS));
        order.push(op(2000, 1));
        assert_eq!(order.pop(false).map(|op| op.start_ns), Some(0));
        assert_eq!(order.pop(false).map(|op| op.start_ns), Some(1000));
        assert_eq!(order.pop(false).map(|op| op.start_ns), Some(2000));
        order.push(op(500, 3 * WINDOW_NS));
        assert_eq!(order.pop(false).map(|op| op.start_ns), Some(500));
        assert_eq!(order.late, 1);
    }

    #[test]
    fn the_first_operation_that_began_after_caches_were_dropped_says_so() {
        let mut order = Order::default();
        order.push(op(10, 100));
        order.made_cold(50);
        for (start, latency) in [(60, 9), (49, 2), (70, 1)] {
            order.push(op(start, latency));
        }
        let ops = std::iter::from_fn(|| order.pop(true));
        let cold: Vec<bool> = ops.map(|op| op.record.0 != 0).collect();
        assert_eq!(cold, [false, false, true, false]);
    }
}

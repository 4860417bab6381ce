//! Operations that wait until a drive's arm is free, of which it goes to the nearest.

use fsage_core::OpKind;

use crate::cost::ledger::Latency;
use crate::drive::Request;

/// Who has waited so long is next, whatever lies nearer: when a read is due by Linux's deadline scheduler.
const PATIENCE_NS: u64 = 500_000_000;

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub slot: usize,
    pub kind: OpKind,
    pub latency: Latency,
    pub request: Option<Request>,
    /// How many more of what its thread serves are there.
    pub behind: usize,
    pub since: u64,
}

/// All of them, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Line(Vec<Waiting>);

impl Line {
    pub fn push(&mut self, waiting: Waiting) {
        self.0.push(waiting);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes who is next at `at`: the nearest, by how long the arm takes to it, of several the first; or who came first,
    /// where it has waited for long.
    pub fn next(&mut self, at: u64, mut reach_ns: impl FnMut(&Waiting) -> f64) -> Option<Waiting> {
        let first = self.0.first()?;
        if at.saturating_sub(first.since) > PATIENCE_NS {
            return Some(self.0.remove(0));
        }
        let reach = self.0.iter().enumerate().map(|(i, w)| (i, reach_ns(w)));
        let (nearest, _) = reach.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(self.0.remove(nearest))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "of what was put there")]
mod tests {
    use super::*;

    fn waiting(slot: usize, since: u64) -> Waiting {
        Waiting {
            slot,
            kind: OpKind::Read,
            latency: Latency::default(),
            request: None,
            behind: 0,
            since,
        }
    }

    #[test]
    fn the_nearest_is_next() {
        let mut line = Line::default();
        let came = [0, 10, 20, 30];
        for (slot, since) in came.into_iter().enumerate() {
            line.push(waiting(slot, since));
        }
        let ways = [9.0, 5.0, 2.0, 2.0];
        let mut next = |at| line.next(at, |w| ways[w.slot]).map(|w| w.slot);
        assert_eq!(next(40), Some(2), "of several as near who came first");
        assert_eq!(next(40), Some(3));
        assert_eq!(next(PATIENCE_NS), Some(1));
        assert_eq!(next(PATIENCE_NS), Some(0));
        assert_eq!(next(PATIENCE_NS), None);
    }

    #[test]
    fn who_has_waited_for_long_is_next_however_far() {
        let mut line = Line::default();
        line.push(waiting(0, 0));
        line.push(waiting(1, 10));
        let far_first = |w: &Waiting| if w.slot == 0 { 9.0 } else { 1.0 };
        assert_eq!(line.next(PATIENCE_NS + 1, far_first).unwrap().slot, 0);
        assert_eq!(line.len(), 1);
    }
}

//! Correlation, and orders that agree.

use serde::{Deserialize, Serialize};

use crate::describe::mean;

/// Through two points there is always a line: a correlation of fewer than these tells nothing.
const LEAST_PAIRS: usize = 3;

/// Pearson's correlation coefficient of `(x, y)` pairs. `None` for fewer than three pairs or where
/// one side does not vary.
pub fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < LEAST_PAIRS {
        return None;
    }
    let mx = mean(&pairs.iter().map(|p| p.0).collect::<Vec<_>>());
    let my = mean(&pairs.iter().map(|p| p.1).collect::<Vec<_>>());
    let (mut sxy, mut sxx, mut syy) = (0.0, 0.0, 0.0);
    for &(x, y) in pairs {
        sxy += (x - mx) * (y - my);
        sxx += (x - mx) * (x - mx);
        syy += (y - my) * (y - my);
    }
    let r = sxy / (sxx.sqrt() * syy.sqrt());
    r.is_finite().then(|| r.clamp(-1.0, 1.0))
}

/// The rank of each value from 1, ties at their mean rank.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for run in order.chunk_by(|a, b| a.1 == b.1) {
        let rank = first as f64 + (run.len() + 1) as f64 / 2.0;
        for &(index, _) in run {
            if let Some(slot) = ranks.get_mut(index) {
                *slot = rank;
            }
        }
        first += run.len();
    }
    ranks
}

/// How many pairs of systems a prediction puts in the measured order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RanksRight {
    /// Pairs in the right order.
    pub right: usize,
    /// Pairs compared.
    pub total: usize,
}

/// Compares every two systems of one workload by `(measured, predicted)` (Smith 2001, 4.5.4.5).
/// Pairs whose measured values differ by at most `tolerance` of the smaller one are left out: there
/// is no order to get right. A predicted tie is wrong.
pub fn ranks_right(systems: &[(f64, f64)], tolerance: f64) -> RanksRight {
    let mut count = RanksRight::default();
    for (i, a) in systems.iter().enumerate() {
        for b in systems.iter().skip(i + 1) {
            let differ = (a.0 - b.0).abs();
            if differ.is_nan() || differ == 0.0 || differ <= tolerance * a.0.min(b.0) {
                continue;
            }
            count.total += 1;
            if (a.0 < b.0 && a.1 < b.1) || (a.0 > b.0 && a.1 > b.1) {
                count.right += 1;
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn two_points_are_no_correlation() {
        let pairs = [(1.0, 2.0), (2.0, 3.5), (3.0, 5.0), (1.0, 7.0)];
        assert_eq!(pearson(&pairs[..1]), None);
        assert_eq!(pearson(&pairs[..2]), None);
        assert!((pearson(&pairs[..3]).unwrap() - 1.0).abs() < 1e-12);
        let upright = [(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)];
        assert_eq!(pearson(&upright), None);
    }

    #[test]
    fn close_pairs_are_not_judged() {
        let systems = [(1.0, 2.0), (1.04, 1.0), (2.0, 3.0), (4.0, 2.5)];
        assert_eq!(
            ranks_right(&systems, 0.05),
            RanksRight { right: 4, total: 5 }
        );
        assert_eq!(
            ranks_right(&systems, 0.0),
            RanksRight { right: 4, total: 6 }
        );
    }
}

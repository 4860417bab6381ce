//! Where the level of a series changes, and from where on it is steady.

use serde::{Deserialize, Serialize};

use crate::describe::{mean, median};

/// A normal deviate's median absolute value.
const MEDIAN_ABSOLUTE_DEVIATE: f64 = 0.674_489_750_196_081_7;

/// The share of a series, at its end, that must be at one level for it to count as steady.
const STEADY_SHARE: f64 = 0.25;

/// The places at which the mean changes: each begins a segment. PELT (Killick 2012) with squared
/// error, a penalty of `3 ln n` times the variance of the noise for each change (the modified BIC's
/// leading term, Zhang and Siegmund 2007) and segments of at least `shortest` samples. The noise is
/// told from differences of neighbours (von Neumann 1941, by their median), which a change of level
/// hardly touches.
pub fn changes(series: &[f64], shortest: usize) -> Vec<usize> {
    let n = series.len();
    let shortest = shortest.max(1);
    if n < 2 * shortest || series.iter().any(|x| !x.is_finite()) {
        return Vec::new();
    }
    let penalty = 3.0 * noise_variance(series) * (n as f64).ln();
    let cost = Costs::new(series);
    // best[t]: the least cost of the first t samples; last[t]: where its last segment begins.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -penalty;
    let mut candidates = vec![0];
    for t in shortest..=n {
        let total = |s: usize| best[s] + cost.of(s, t) + penalty;
        let Some(&s) = candidates
            .iter()
            .min_by(|&&a, &&b| total(a).total_cmp(&total(b)))
        else {
            continue;
        };
        best[t] = total(s);
        last[t] = s;
        // A segment that begins at s can never again be the best once one that begins at the end u of
        // its first part is (their theorem 3.1); that one takes part from u + shortest on.
        let u = (t + 1).saturating_sub(shortest);
        candidates.retain(|&s| u < s + shortest || best[s] + cost.of(s, u) <= best[u]);
        let next = t + 1;
        if next >= 2 * shortest {
            candidates.push(next - shortest);
        }
    }
    let mut places = Vec::new();
    let mut t = n;
    while let Some(&s) = last.get(t)
        && s > 0
    {
        places.push(s);
        t = s;
    }
    places.reverse();
    places
}

/// How a series settles (after Barrett et al. 2017, who classify repeated runs the same way).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Steady {
    /// From that sample on its level stays within the tolerance; 0 for all of it.
    From {
        /// The first sample of the steady part.
        sample: usize,
    },
    /// Its level is still changing in its last quarter.
    Never,
}

/// From where on the segments' means stay within `tolerance`, a share of the last segment's mean. A
/// series that holds its last level for less than a quarter of its length is not steady.
pub fn steady(series: &[f64], shortest: usize, tolerance: f64) -> Steady {
    let mut bounds = changes(series, shortest);
    bounds.insert(0, 0);
    bounds.push(series.len());
    let level = |w: &[usize]| series.get(w[0]..w[1]).map_or(f64::NAN, mean);
    let segments: Vec<(usize, f64)> = bounds.windows(2).map(|w| (w[0], level(w))).collect();
    let Some(&(_, settled)) = segments.last() else {
        return Steady::Never;
    };
    let near = |mean: f64| (mean - settled).abs() <= tolerance * settled.abs();
    let sample = segments
        .iter()
        .rev()
        .take_while(|(_, mean)| near(*mean))
        .last()
        .map_or(series.len(), |s| s.0);
    if series.is_empty() || (series.len() - sample) as f64 >= STEADY_SHARE * series.len() as f64 {
        Steady::From { sample }
    } else {
        Steady::Never
    }
}

/// The variance of what is not a change of level.
fn noise_variance(series: &[f64]) -> f64 {
    let steps: Vec<f64> = series.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let deviation = median(&steps) / MEDIAN_ABSOLUTE_DEVIATE / std::f64::consts::SQRT_2;
    if deviation > 0.0 {
        return deviation * deviation;
    }
    // More than half of the steps are none: the mean square says what there is.
    steps.iter().map(|s| s * s).sum::<f64>() / steps.len().max(1) as f64 / 2.0
}

/// Squared errors of segments about their means, from running sums.
struct Costs {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Costs {
    fn new(series: &[f64]) -> Self {
        // About the mean, so that large levels do not eat the digits of small differences.
        let centre = mean(series);
        let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
        let (mut sum, mut square) = (0.0, 0.0);
        for x in series {
            sum += x - centre;
            square += (x - centre).powi(2);
            sums.push(sum);
            squares.push(square);
        }
        Self { sums, squares }
    }

    /// Of the samples from `from` up to and without `to`.
    fn of(&self, from: usize, to: usize) -> f64 {
        let sum = self.sums[to] - self.sums[from];
        let square = self.squares[to] - self.squares[from];
        (square - sum * sum / (to - from).max(1) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost over all ways to cut, by trying each last segment without dropping any.
    fn by_trying(series: &[f64], shortest: usize) -> f64 {
        let penalty = 3.0 * noise_variance(series) * (series.len() as f64).ln();
        let cost = Costs::new(series);
        let mut best = vec![f64::INFINITY; series.len() + 1];
        best[0] = -penalty;
        for t in shortest..=series.len() {
            for s in (0..=t - shortest).filter(|&s| s == 0 || s >= shortest) {
                best[t] = best[t].min(best[s] + cost.of(s, t) + penalty);
            }
        }
        best[series.len()]
    }

    fn cost_of(series: &[f64], places: &[usize]) -> f64 {
        let penalty = 3.0 * noise_variance(series) * (series.len() as f64).ln();
        let cost = Costs::new(series);
        let mut bounds = vec![0];
        bounds.extend(places);
        bounds.push(series.len());
        bounds
            .windows(2)
            .map(|w| cost.of(w[0], w[1]) + penalty)
            .sum::<f64>()
            - penalty
    }

    proptest::proptest! {
        #[test]
        fn the_cut_is_the_best_of_all(
            levels in proptest::collection::vec((0_i32..50, 1_usize..12), 1..6),
            noise in proptest::collection::vec(-10_i32..10, 72),
            shortest in 1_usize..4,
        ) {
            let series: Vec<f64> = levels
                .iter()
                .flat_map(|&(level, length)| std::iter::repeat_n(f64::from(level), length))
                .zip(&noise)
                .map(|(level, &n)| level + f64::from(n) / 7.0)
                .collect();
            let places = changes(&series, shortest);
            if series.len() >= 2 * shortest {
                let (mine, best) = (cost_of(&series, &places), by_trying(&series, shortest));
                proptest::prop_assert!((mine - best).abs() <= 1e-6 * best.abs().max(1.0));
            }
        }
    }

    #[test]
    fn a_warm_up_is_told_from_the_steady_part() {
        let wobble = |i: usize| f64::from((i * 7919 % 13) as u8) / 13.0;
        let series: Vec<f64> = (0..200)
            .map(|i| if i < 30 { 50.0 } else { 100.0 } + wobble(i))
            .collect();
        assert_eq!(changes(&series, 2), [30]);
        assert_eq!(steady(&series, 2, 0.05), Steady::From { sample: 30 });
        let flat: Vec<f64> = (0..200).map(wobble).map(|w| 70.0 + w).collect();
        assert_eq!(steady(&flat, 2, 0.05), Steady::From { sample: 0 });
        let late: Vec<f64> = series.iter().rev().copied().collect();
        assert_eq!(steady(&late, 2, 0.05), Steady::Never);
        assert_eq!(steady(&[], 2, 0.05), Steady::From { sample: 0 });
    }
}

//! Confidence intervals.

use serde::{Deserialize, Serialize};

use crate::describe::{mean, sorted, stddev};
use crate::special::incomplete_beta;
use crate::student;

/// A confidence interval, in the unit of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The point estimate.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The probability with which such an interval covers the truth; for an interval made of order
    /// statistics the one achieved, at least the one asked for.
    pub confidence: f64,
}

impl Interval {
    /// Half the width over the estimate; `None` where the estimate is 0.
    pub fn half_width_relative(&self) -> Option<f64> {
        let relative = (self.high - self.low) / 2.0 / self.estimate.abs();
        relative.is_finite().then_some(relative)
    }

    /// Whether the two intervals share a value.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// Student's t interval of the mean (Student 1908; Jain 1991, 13.2). `None` for fewer than two
/// samples or a confidence outside (0, 1).
pub fn mean_interval(samples: &[f64], confidence: f64) -> Option<Interval> {
    if samples.len() < 2 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let n = samples.len() as f64;
    let estimate = mean(samples);
    let t = student::quantile(0.5 + confidence / 2.0, n - 1.0);
    let half = t * stddev(samples) / n.sqrt();
    Some(Interval {
        estimate,
        low: estimate - half,
        high: estimate + half,
        confidence,
    })
}

/// The distribution-free interval of the median: the narrowest symmetric pair of order statistics
/// whose binomial coverage reaches `confidence` (Le Boudec 2010, 2.2.2; Conover 1999, 3.2). `None`
/// where there are too few samples for that (fewer than 6 for 95 %).
pub fn median_interval(samples: &[f64], confidence: f64) -> Option<Interval> {
    let n = samples.len();
    if n == 0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    // The largest rank k (from 1) with P(Binomial(n, 1/2) <= k - 1) <= (1 - confidence) / 2.
    let tail = (1.0 - confidence) / 2.0;
    let (mut fits, mut fails) = (0, n.div_ceil(2) + 1);
    while fits + 1 < fails {
        let k = usize::midpoint(fits, fails);
        if binomial_half_cdf(n, k - 1) <= tail {
            fits = k;
        } else {
            fails = k;
        }
    }
    if fits == 0 {
        return None;
    }
    let sorted = sorted(samples);
    Some(Interval {
        estimate: crate::describe::quantile_sorted(&sorted, 0.5),
        low: *sorted.get(fits - 1)?,
        high: *sorted.get(n - fits)?,
        confidence: 1.0 - 2.0 * binomial_half_cdf(n, fits - 1),
    })
}

/// P(Binomial(n, 1/2) <= k), by the incomplete beta function (DLMF 8.17.5).
fn binomial_half_cdf(n: usize, k: usize) -> f64 {
    if k >= n {
        1.0
    } else {
        incomplete_beta((n - k) as f64, k as f64 + 1.0, 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_needs_six_samples() {
        let samples: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(median_interval(&samples[..5], 0.95), None);
        let six = median_interval(&samples[..6], 0.95).unwrap();
        assert_eq!((six.low, six.high), (1.0, 6.0));
        assert!((six.confidence - (1.0 - 2.0 / 64.0)).abs() < 1e-12);
        // The tables give ranks 2 and 9 of 10.
        let ten = median_interval(&samples, 0.95).unwrap();
        assert_eq!((ten.low, ten.high), (2.0, 9.0));
    }
}

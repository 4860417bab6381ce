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

/// Beyond this half-width over the mean, Student's interval of a positive quantity is too symmetric to be true.
pub(crate) const SYMMETRIC: f64 = 0.25;

/// An interval whose ends are further apart than this factor says no more than the samples: the one rule
/// for means, ratios and predictions alike.
const USABLE_FACTOR: f64 = 16.0;

/// Whose interval of a mean one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntervalKind {
    /// Student's, symmetric around the mean.
    Student,
    /// Student's, cut at 0.
    StudentFromZero,
    /// That of a log-normal mean, by a factor to each side.
    LogNormal,
}

/// The interval of the mean of quantities that cannot be negative (times, counts, rates): Student's where it is
/// narrow; where it is wide, that of a log-normal mean, as wide on the scale of logarithms as by Cox's method with
/// Student's t (Olsson 2005, 2.4), around the mean of the samples: asymmetric and never negative. With a
/// zero among the samples Student's, from 0 on. `None` for fewer than two samples, for a negative one, or a
/// confidence outside (0, 1).
pub fn positive_mean_interval(samples: &[f64], confidence: f64) -> Option<Interval> {
    positive_mean_interval_kind(samples, confidence).map(|(interval, _)| interval)
}

/// [`positive_mean_interval`], and which of them it is.
pub fn positive_mean_interval_kind(
    samples: &[f64],
    confidence: f64,
) -> Option<(Interval, IntervalKind)> {
    let plain = mean_interval(samples, confidence)?;
    if samples.iter().any(|&x| x < 0.0) {
        return None;
    }
    let half = plain.high - plain.estimate;
    if half <= SYMMETRIC * plain.estimate {
        return Some((plain, IntervalKind::Student));
    }
    if samples.contains(&0.0) {
        let from_zero = Interval {
            low: plain.low.max(0.0),
            ..plain
        };
        return Some((from_zero, IntervalKind::StudentFromZero));
    }
    let t = student::quantile(0.5 + confidence / 2.0, samples.len() as f64 - 1.0);
    let factor = (t * log_mean_variance(samples).sqrt()).exp();
    let by_factor = Interval {
        low: plain.estimate / factor,
        high: plain.estimate * factor,
        ..plain
    };
    Some((by_factor, IntervalKind::LogNormal))
}

/// The variance of the logarithm of the mean of log-normal quantities, by Cox's method (Olsson 2005, 2.4). For two
/// or more samples, all positive.
pub(crate) fn log_mean_variance(samples: &[f64]) -> f64 {
    let logs: Vec<f64> = samples.iter().map(|x| x.ln()).collect();
    let n = samples.len() as f64;
    let variance = stddev(&logs).powi(2);
    variance / n + variance * variance / (2.0 * (n - 1.0))
}

/// Whether an interval of a positive quantity says more than that it is positive: its ends lie within a factor
/// of sixteen.
pub fn usable(low: f64, high: f64) -> bool {
    low == high || (low > 0.0 && high <= USABLE_FACTOR * low)
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
    fn a_positive_mean_has_no_negative_end() {
        let narrow = [10.0, 10.1, 9.9, 10.05];
        assert_eq!(
            positive_mean_interval(&narrow, 0.95),
            mean_interval(&narrow, 0.95)
        );
        let skewed = [1.2, 2.0, 1.4, 30.0, 8.65];
        let plain = mean_interval(&skewed, 0.95).unwrap();
        assert!(plain.low < 0.0, "{plain:?}");
        let found = positive_mean_interval(&skewed, 0.95).unwrap();
        assert!(found.low > 0.0 && found.low < found.estimate, "{found:?}");
        assert!(found.high > found.estimate && !usable(found.low, found.high));
        // Around the mean by a factor: neither end is the mean itself.
        for samples in [
            &[1.5, 2.0, 8.0][..],
            &[6.8, 7.3, 1.9, 12.1, 6.9, 7.1],
            &skewed,
        ] {
            let found = positive_mean_interval(samples, 0.95).unwrap();
            let (below, above) = (found.estimate / found.low, found.high / found.estimate);
            assert!(
                below > 1.2 && (below / above - 1.0).abs() < 1e-9,
                "{found:?}"
            );
        }
        let zero = positive_mean_interval(&[0.0, 0.0, 5.0], 0.95).unwrap();
        assert!(zero.low == 0.0 && !usable(zero.low, zero.high));
        assert_eq!(positive_mean_interval(&[1.0], 0.95), None);
        assert_eq!(positive_mean_interval(&[-1.0, 1.0], 0.95), None);
        assert!(usable(2.0, 2.0) && usable(0.0, 0.0) && usable(2.0, 31.9) && !usable(2.0, 32.1));
    }

    #[test]
    fn a_log_normal_mean_is_covered_as_often_as_said() {
        // Normal quantiles in an order of no trend, scaled: samples with the mean exp(0.5 * 0.8^2).
        let truth = (0.5_f64 * 0.64).exp();
        let mut state = 12_345_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut covered = 0;
        for _ in 0..1000 {
            let samples: Vec<f64> = (0..8)
                .map(|_| {
                    let (u, v) = (uniform(), uniform());
                    let z = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                    (0.8 * z).exp()
                })
                .collect();
            let found = positive_mean_interval(&samples, 0.95).unwrap();
            covered += u32::from(found.low <= truth && truth <= found.high);
        }
        assert!((900..=995).contains(&covered), "{covered} of 1000");
    }

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

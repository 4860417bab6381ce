//! What a set of samples looks like.

use serde::{Deserialize, Serialize};

use crate::interval::mean_interval;

/// The arithmetic mean; NaN for no samples.
pub fn mean(samples: &[f64]) -> f64 {
    if samples.is_empty() {
        return f64::NAN;
    }
    // Around the first sample, so that a large offset costs no digits.
    let base = samples.first().copied().unwrap_or(0.0);
    base + samples.iter().map(|x| x - base).sum::<f64>() / samples.len() as f64
}

/// The sample standard deviation (divisor n - 1), in two passes; NaN for fewer than two samples.
pub fn stddev(samples: &[f64]) -> f64 {
    variance(samples).sqrt()
}

pub(crate) fn variance(samples: &[f64]) -> f64 {
    if samples.len() < 2 {
        return f64::NAN;
    }
    let centre = mean(samples);
    samples
        .iter()
        .map(|x| (x - centre) * (x - centre))
        .sum::<f64>()
        / (samples.len() - 1) as f64
}

/// The median; NaN for no samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The `p` quantile, `0 <= p <= 1`, by linear interpolation of the order statistics: type 7 of
/// Hyndman and Fan 1996 (the default of R and NumPy). NaN for no samples.
pub fn quantile(samples: &[f64], p: f64) -> f64 {
    quantile_sorted(&sorted(samples), p)
}

/// [`quantile`] of samples that are in ascending order already.
pub fn quantile_sorted(sorted: &[f64], p: f64) -> f64 {
    if sorted.is_empty() || p.is_nan() {
        return f64::NAN;
    }
    let position = p.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    if below + 1 >= sorted.len() {
        return at(sorted.len() - 1);
    }
    at(below) + (position - below as f64) * (at(below + 1) - at(below))
}

/// The samples in ascending order.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut copy = samples.to_vec();
    copy.sort_by(f64::total_cmp);
    copy
}

/// One set of samples in numbers, all in the unit of the samples. Where there are too few samples
/// for a number it is NaN: everything for none, `stddev`, `low` and `high` for one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// Sample standard deviation.
    pub stddev: f64,
    /// Lower end of the 95 % Student-t interval of the mean.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Smallest sample.
    pub min: f64,
    /// 5 % quantile.
    pub p5: f64,
    /// 25 % quantile.
    pub p25: f64,
    /// 75 % quantile.
    pub p75: f64,
    /// 95 % quantile.
    pub p95: f64,
    /// 99 % quantile.
    pub p99: f64,
    /// Largest sample.
    pub max: f64,
}

impl Summary {
    /// Half the width of the interval of the mean over the mean; `None` where there is no interval
    /// or the mean is 0.
    pub fn half_width_relative(&self) -> Option<f64> {
        let relative = (self.high - self.low) / 2.0 / self.mean.abs();
        relative.is_finite().then_some(relative)
    }
}

/// Describes samples.
pub fn summary(samples: &[f64]) -> Summary {
    let sorted = sorted(samples);
    let q = |p| quantile_sorted(&sorted, p);
    let interval = mean_interval(samples, 0.95);
    Summary {
        n: samples.len(),
        mean: mean(samples),
        median: q(0.5),
        stddev: stddev(samples),
        low: interval.map_or(f64::NAN, |i| i.low),
        high: interval.map_or(f64::NAN, |i| i.high),
        min: q(0.0),
        p5: q(0.05),
        p25: q(0.25),
        p75: q(0.75),
        p95: q(0.95),
        p99: q(0.99),
        max: q(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_give_what_there_is() {
        assert!(summary(&[]).mean.is_nan());
        let one = summary(&[3.0]);
        assert_eq!((one.n, one.mean, one.median, one.max), (1, 3.0, 3.0, 3.0));
        assert!(one.low.is_nan() && one.half_width_relative().is_none());
        assert!((median(&[4.0, 1.0, 3.0, 2.0]) - 2.5).abs() < 1e-15);
    }

    #[test]
    fn a_large_offset_keeps_the_spread() {
        let shifted: Vec<f64> = [1.0, 2.0, 3.0].iter().map(|x| x + 1e12).collect();
        assert!((stddev(&shifted) - 1.0).abs() < 1e-9);
    }
}

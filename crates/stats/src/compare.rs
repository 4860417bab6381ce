//! Two sets of samples.

use serde::{Deserialize, Serialize};

use crate::describe::{mean, variance};
use crate::interval::{Interval, SYMMETRIC, log_mean_variance};
use crate::student;

/// The outcome of Welch's test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Welch {
    /// Mean of the first set minus mean of the second.
    pub difference: f64,
    /// Lower end of the 95 % interval of the difference.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// The statistic.
    pub t: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    pub df: f64,
    /// Two-sided probability of such a difference between equal means.
    pub p: f64,
}

/// Welch's test of two means with unequal variances (Welch 1947; Satterthwaite 1946). `None` for
/// fewer than two samples in a set, or where neither set varies.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let (va, vb) = (variance(a) / na, variance(b) / nb);
    let error = (va + vb).sqrt();
    let difference = mean(a) - mean(b);
    let t = difference / error;
    let df = degrees((va, na), (vb, nb));
    if !t.is_finite() || !df.is_finite() {
        return None;
    }
    let half = student::quantile(0.975, df) * error;
    let p = 2.0 * student::upper_tail(t.abs(), df);
    Some(Welch {
        difference,
        low: difference - half,
        high: difference + half,
        t,
        df,
        p,
    })
}

/// Degrees of freedom of a sum of two variances of means, each of so many samples (Welch 1947; Satterthwaite 1946).
fn degrees((va, na): (f64, f64), (vb, nb): (f64, f64)) -> f64 {
    (va + vb).powi(2) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0))
}

/// The ratio of the first mean to the second with its 95 % interval: Fieller's theorem (1954) with the
/// variances and degrees of freedom of Welch's test, the latter at the estimated ratio. `None` for fewer
/// than two samples in a set, or where the second mean is not told from 0, so that the ratio has no
/// bounds.
pub fn ratio(a: &[f64], b: &[f64]) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let (ma, mb) = (mean(a), mean(b));
    let (va, vb) = (variance(a) / na, variance(b) / nb);
    let estimate = ma / mb;
    let scaled = estimate * estimate * vb;
    let (low, high) = if va + scaled > 0.0 {
        let df = degrees((va, na), (scaled, nb));
        let t = student::quantile(0.975, df);
        // The ratios r with (ma - r mb)^2 <= t^2 (va + r^2 vb).
        let spread = mb * mb - t * t * vb;
        if spread <= 0.0 {
            return None;
        }
        let root = ((ma * mb).powi(2) - spread * (ma * ma - t * t * va))
            .max(0.0)
            .sqrt();
        ((ma * mb - root) / spread, (ma * mb + root) / spread)
    } else {
        (estimate, estimate)
    };
    (estimate.is_finite() && low.is_finite() && high.is_finite()).then_some(Interval {
        estimate,
        low,
        high,
        confidence: 0.95,
    })
}

/// [`ratio`] of quantities that cannot be negative (times, counts, rates): Fieller's interval where it is narrow;
/// where it is wide or has no bounds, by a factor to each side, as wide on the scale of logarithms as Welch's test
/// with the variances of [`crate::positive_mean_interval`]. With a zero among the samples Fieller's, from 0 on. `None`
/// for fewer than two samples in a set, for a negative one, or where only Fieller's would do and has no bounds.
pub fn positive_ratio(a: &[f64], b: &[f64]) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 || a.iter().chain(b).any(|&x| x < 0.0) {
        return None;
    }
    let plain = ratio(a, b).map(|r| Interval {
        low: r.low.max(0.0),
        ..r
    });
    let narrow = plain.is_some_and(|r| r.high - r.estimate <= SYMMETRIC * r.estimate);
    if narrow || a.contains(&0.0) || b.contains(&0.0) {
        return plain;
    }
    let (va, vb) = (log_mean_variance(a), log_mean_variance(b));
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let df = degrees((va, na), (vb, nb));
    let factor = (student::quantile(0.975, df) * (va + vb).sqrt()).exp();
    let estimate = mean(a) / mean(b);
    Some(Interval {
        estimate,
        low: estimate / factor,
        high: estimate * factor,
        confidence: 0.95,
    })
}

/// How large a difference is beside the variation of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The difference of the means in pooled standard deviations, corrected for small samples (Hedges
    /// 1981, with the usual approximation of his factor).
    pub hedges_g: f64,
    /// The probability that a sample of the first set exceeds one of the second, ties counted half
    /// (Vargha and Delaney 2000); 0.5 for no effect.
    pub a12: f64,
}

/// The effect size of two sets. `None` for fewer than two samples in a set, or where neither varies.
pub fn effect(a: &[f64], b: &[f64]) -> Option<Effect> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let df = na + nb - 2.0;
    let pooled = (((na - 1.0) * variance(a) + (nb - 1.0) * variance(b)) / df).sqrt();
    let hedges_g = (mean(a) - mean(b)) / pooled * (1.0 - 3.0 / (4.0 * df - 1.0));
    let wins: f64 = a
        .iter()
        .flat_map(|x| b.iter().map(move |y| (x, y)))
        .map(|(x, y)| {
            if x > y {
                1.0
            } else {
                0.5 * f64::from(u8::from(x == y))
            }
        })
        .sum();
    hedges_g.is_finite().then_some(Effect {
        hedges_g,
        a12: wins / (na * nb),
    })
}

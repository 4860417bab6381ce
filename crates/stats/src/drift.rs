//! Whether samples drift over the time in which they were taken.

use serde::{Deserialize, Serialize};

use crate::describe::median;
use crate::normal;

/// A trend over the order of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Kendall's tau-b of order and value, -1 to 1.
    pub tau: f64,
    /// The probability of so strong a trend where there is none.
    pub p: f64,
    /// The median of the slopes between all pairs (Theil 1950; Sen 1968), per sample.
    pub slope: f64,
}

/// The test of Mann (1945) and Kendall (1975) with correction for ties, and the slope of Theil and Sen.
/// `None` for fewer than 3 samples or where they do not vary.
pub fn drift(samples: &[f64]) -> Option<Drift> {
    let n = samples.len();
    if n < 3 || samples.iter().any(|x| x.is_nan()) {
        return None;
    }
    let mut score = 0.0;
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in samples.iter().enumerate() {
        for (j, b) in samples.iter().enumerate().skip(i + 1) {
            score += match b.total_cmp(a) {
                _ if a == b => 0.0,
                std::cmp::Ordering::Less => -1.0,
                _ => 1.0,
            };
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    let size = n as f64;
    let pairs = size * (size - 1.0) / 2.0;
    let ties = tie_counts(samples);
    let tied: f64 = ties.iter().map(|t| t * (t - 1.0) / 2.0).sum();
    let of = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let variance = (of(size) - ties.iter().copied().map(of).sum::<f64>()) / 18.0;
    let z = score / variance.sqrt();
    let tau = score / (pairs * (pairs - tied)).sqrt();
    (z.is_finite() && tau.is_finite()).then(|| Drift {
        tau,
        p: (2.0 * normal::upper_tail(z.abs())).min(1.0),
        slope: median(&slopes),
    })
}

/// How often each value occurs that occurs more than once.
fn tie_counts(samples: &[f64]) -> Vec<f64> {
    let sorted = crate::describe::sorted(samples);
    sorted
        .chunk_by(|a, b| a == b)
        .map(|equal| equal.len() as f64)
        .filter(|&count| count > 1.0)
        .collect()
}

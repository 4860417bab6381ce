//! Two sets of samples.

use serde::{Deserialize, Serialize};

use crate::describe::{mean, variance};
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
    let df = (va + vb).powi(2) / (va * va / (na - 1.0) + vb * vb / (nb - 1.0));
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

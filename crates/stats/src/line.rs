//! A straight line through points.

use serde::{Deserialize, Serialize};

use crate::describe::mean;
use crate::student;

/// A least squares line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Rise per unit of x.
    pub slope: f64,
    /// Value at x = 0.
    pub intercept: f64,
    /// Share of the variance explained.
    pub r_squared: f64,
    /// Half-width of the slope's 95 % interval; NaN for two points.
    pub slope_half_width: f64,
}

impl Line {
    /// The line's value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.slope * x + self.intercept
    }
}

/// Ordinary least squares (Jain 1991, 14). `None` for fewer than two points or where all x are
/// equal.
pub fn fit(points: &[(f64, f64)]) -> Option<Line> {
    if points.len() < 2 {
        return None;
    }
    let mx = mean(&points.iter().map(|p| p.0).collect::<Vec<_>>());
    let my = mean(&points.iter().map(|p| p.1).collect::<Vec<_>>());
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let syy: f64 = points.iter().map(|p| (p.1 - my).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = sxy / sxx;
    if !slope.is_finite() {
        return None;
    }
    let intercept = my - slope * mx;
    let residual: f64 = points
        .iter()
        .map(|p| (p.1 - slope * p.0 - intercept).powi(2))
        .sum();
    let df = points.len() as f64 - 2.0;
    let slope_half_width = if df > 0.0 {
        student::quantile(0.975, df) * (residual / df / sxx).sqrt()
    } else {
        f64::NAN
    };
    let r_squared = if syy > 0.0 { 1.0 - residual / syy } else { 1.0 };
    Some(Line {
        slope,
        intercept,
        r_squared,
        slope_half_width,
    })
}

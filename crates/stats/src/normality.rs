//! Whether samples may come from a normal distribution.

#![allow(
    clippy::unreadable_literal,
    reason = "coefficients stand as they are printed in the source"
)]

use serde::{Deserialize, Serialize};

use crate::describe::{mean, sorted};
use crate::normal;

/// The outcome of a test of normality.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Normality {
    /// The statistic W, 1 for samples that lie as normal ones would.
    pub w: f64,
    /// The probability of so low a W from a normal distribution.
    pub p: f64,
}

/// The largest number of samples for which the test's approximation was made.
const MOST_SAMPLES: usize = 5000;

/// The test of Shapiro and Wilk (1965) in Royston's approximation (1995, AS R94). `None` for fewer than
/// 3 or more than 5000 samples, or where they do not vary.
pub fn shapiro_wilk(samples: &[f64]) -> Option<Normality> {
    let n = samples.len();
    if !(3..=MOST_SAMPLES).contains(&n) {
        return None;
    }
    let x = sorted(samples);
    let centre = mean(&x);
    let squares: f64 = x.iter().map(|v| (v - centre).powi(2)).sum();
    let weights = weights(n);
    let weighted: f64 = weights
        .iter()
        .zip(x.iter().rev().zip(&x))
        .map(|(a, (high, low))| a * (high - low))
        .sum();
    let w = weighted * weighted / squares;
    w.is_finite().then(|| Normality {
        w: w.min(1.0),
        p: probability(w.min(1.0), n),
    })
}

/// The weights of the outermost pair of order statistics, of the next, and so on.
fn weights(n: usize) -> Vec<f64> {
    if n == 3 {
        return vec![std::f64::consts::FRAC_1_SQRT_2];
    }
    let size = n as f64;
    let scores: Vec<f64> = (1..=n / 2)
        .map(|i| -normal::quantile((i as f64 - 0.375) / (size + 0.25)))
        .collect();
    let score = |i: usize| scores.get(i).copied().unwrap_or(0.0);
    let total = 2.0 * scores.iter().map(|m| m * m).sum::<f64>();
    let root = 1.0 / size.sqrt();
    let first = score(0) / total.sqrt()
        + polynomial(
            &[0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056],
            root,
        );
    let mut weights = vec![first];
    let mut left = total - 2.0 * score(0).powi(2);
    let mut share = 1.0 - 2.0 * first * first;
    if n > 5 {
        let second = score(1) / total.sqrt()
            + polynomial(
                &[0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633],
                root,
            );
        weights.push(second);
        left -= 2.0 * score(1).powi(2);
        share -= 2.0 * second * second;
    }
    let scale = (left / share).sqrt();
    let done = weights.len();
    weights.extend(scores.iter().skip(done).map(|m| m / scale));
    weights
}

fn probability(w: f64, n: usize) -> f64 {
    let size = n as f64;
    if n == 3 {
        let p = 6.0 / std::f64::consts::PI * (w.sqrt().asin() - 0.75_f64.sqrt().asin());
        return p.clamp(0.0, 1.0);
    }
    let distance = (1.0 - w).ln();
    let (y, centre, spread) = if n <= 11 {
        let gamma = polynomial(&[-2.273, 0.459], size);
        if distance >= gamma {
            return 0.0;
        }
        (
            -(gamma - distance).ln(),
            polynomial(&[0.544, -0.39978, 0.025054, -6.714e-4], size),
            polynomial(&[1.3822, -0.77857, 0.062767, -0.0020322], size).exp(),
        )
    } else {
        let log = size.ln();
        (
            distance,
            polynomial(&[-1.5861, -0.31082, -0.083751, 0.0038915], log),
            polynomial(&[-0.4803, -0.082676, 0.0030302], log).exp(),
        )
    };
    normal::upper_tail((y - centre) / spread)
}

/// Coefficients by rising powers.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

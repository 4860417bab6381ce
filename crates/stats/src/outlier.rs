//! Samples that lie far from the others: flagged, never dropped.

use crate::describe::{quantile_sorted, sorted};

/// The places of samples beyond Tukey's fences (1977, 2D): more than 1.5 interquartile ranges below the
/// lower or above the upper quartile. Empty for fewer than 4 samples.
pub fn outliers(samples: &[f64]) -> Vec<usize> {
    if samples.len() < 4 {
        return Vec::new();
    }
    let sorted = sorted(samples);
    let (low, high) = (
        quantile_sorted(&sorted, 0.25),
        quantile_sorted(&sorted, 0.75),
    );
    let reach = 1.5 * (high - low);
    let far = |x: f64| x < low - reach || x > high + reach;
    (0..samples.len()).filter(|&i| far(samples[i])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_far_is_flagged() {
        assert_eq!(outliers(&[1.0, 2.0, 90.0]), [0_usize; 0]);
        assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 5.0, 90.0, -80.0]), [5, 6]);
        assert_eq!(outliers(&[7.0; 9]), [0_usize; 0]);
    }
}

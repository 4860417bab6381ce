//! Samples that depend on each other.

use crate::describe::{mean, variance};
use crate::interval::{Interval, mean_interval};

/// The autocorrelation of a series at a lag (Box and Jenkins 1976, 2.1.5). `None` where the series
/// is not longer than the lag or does not vary.
pub fn autocorrelation(series: &[f64], lag: usize) -> Option<f64> {
    if lag >= series.len() {
        return None;
    }
    let centre = mean(series);
    let total: f64 = series.iter().map(|x| (x - centre).powi(2)).sum();
    let lagged: f64 = series
        .iter()
        .zip(series.iter().skip(lag))
        .map(|(a, b)| (a - centre) * (b - centre))
        .sum();
    let r = lagged / total;
    r.is_finite().then_some(r)
}

/// The interval of the mean of a series and how it was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchMeans {
    /// The interval of the mean.
    pub interval: Interval,
    /// Samples in a batch; 1 where neighbours did not depend on each other.
    pub batch: usize,
    /// Batches.
    pub batches: usize,
    /// Whether the batches were independent in the end; if not, the interval is too narrow.
    pub independent: bool,
}

/// Batch means (Law and Kelton 1991, 9.5.3): the batch doubles until the autocorrelation of the
/// means at lag 1 is under two standard errors of white noise, `2 / sqrt(n)`, while at least ten
/// batches are left. A last batch that is not full is dropped from the interval, not from the
/// estimate. `None` for fewer than two samples.
pub fn batch_means(series: &[f64], confidence: f64) -> Option<BatchMeans> {
    let mut batch = 1;
    loop {
        let means: Vec<f64> = series.chunks_exact(batch).map(mean).collect();
        let limit = 2.0 / (means.len() as f64).sqrt();
        let independent = autocorrelation(&means, 1).is_none_or(|r| r < limit);
        let last = series.len() / (batch * 2) < 10;
        if independent || last {
            let mut interval = mean_interval(&means, confidence)?;
            let shift = mean(series) - interval.estimate;
            interval.estimate += shift;
            interval.low += shift;
            interval.high += shift;
            return Some(BatchMeans {
                interval,
                batch,
                batches: means.len(),
                independent,
            });
        }
        batch *= 2;
    }
}

/// The number of independent samples that a series is worth for its mean: `n / (1 + 2 sum r_k)`,
/// summed up to the first pair of lags whose sum is not positive (Geyer 1992, 3.3). At least 1, at
/// most n.
pub fn effective_samples(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    if series.len() < 2 || variance(series) == 0.0 {
        return n;
    }
    let mut sum = 0.0;
    let mut lag = 1;
    while let (Some(a), Some(b)) = (
        autocorrelation(series, lag),
        autocorrelation(series, lag + 1),
    ) {
        if a + b <= 0.0 {
            break;
        }
        sum += a + b;
        lag += 2;
    }
    (n / (1.0 + 2.0 * sum)).clamp(1.0, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence without visible dependence (Weyl's, of the golden ratio's bits, mixed).
    fn noise(n: u64) -> Vec<f64> {
        (0..n)
            .map(|i| {
                let mut z = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
                (z ^ (z >> 31)) as f64 / u64::MAX as f64
            })
            .collect()
    }

    #[test]
    fn dependence_widens_the_interval() {
        let white = noise(2000);
        // First-order autoregression with coefficient 0.9: an exact factor of (1 + 0.9)/(1 - 0.9).
        let mut state = 0.0;
        let red: Vec<f64> = white
            .iter()
            .map(|x| {
                state = 0.9 * state + (x - 0.5);
                state
            })
            .collect();
        assert_eq!(batch_means(&white, 0.95).unwrap().batch, 1);
        let batches = batch_means(&red, 0.95).unwrap();
        assert!(batches.batch >= 8, "{batches:?}");
        let naive = mean_interval(&red, 0.95).unwrap();
        let ratio = (batches.interval.high - batches.interval.low) / (naive.high - naive.low);
        assert!(ratio > 2.0 && ratio < 8.0, "{ratio}");
        assert!(effective_samples(&white) > 1000.0);
        let worth = effective_samples(&red);
        assert!(
            worth > 2000.0 / 19.0 / 2.5 && worth < 2000.0 / 19.0 * 2.5,
            "{worth}"
        );
    }

    #[test]
    fn short_and_constant_series() {
        assert!(batch_means(&[1.0], 0.95).is_none());
        assert_eq!(batch_means(&[2.0; 50], 0.95).unwrap().interval.low, 2.0);
        assert_eq!(autocorrelation(&[1.0, 1.0], 1), None);
    }
}

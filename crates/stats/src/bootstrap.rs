//! Bootstrap intervals of any statistic.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::describe::{quantile_sorted, sorted};
use crate::interval::Interval;

/// The percentile bootstrap (Efron and Tibshirani 1993, 13.3): `resamples` sets drawn with
/// replacement, the interval between the outer quantiles of their `statistic`. The same `seed`
/// gives the same interval. `None` for fewer than two samples, no resamples, or a confidence
/// outside (0, 1).
pub fn interval(
    samples: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    confidence: f64,
    resamples: usize,
    seed: u64,
) -> Option<Interval> {
    if samples.len() < 2 || resamples == 0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut drawn = samples.to_vec();
    let mut values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        for slot in &mut drawn {
            *slot = *samples.get(below(&mut rng, samples.len()))?;
        }
        values.push(statistic(&drawn));
    }
    let values = sorted(&values);
    let tail = (1.0 - confidence) / 2.0;
    Some(Interval {
        estimate: statistic(samples),
        low: quantile_sorted(&values, tail),
        high: quantile_sorted(&values, 1.0 - tail),
        confidence,
    })
}

/// A random index below `n`, by multiplication (Lemire 2019); its bias under n / 2^64 is of no
/// account.
fn below(rng: &mut Pcg64Mcg, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::{mean, median};

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let samples: Vec<f64> = (0..40).map(|i| f64::from(i * i % 17)).collect();
        let a = interval(&samples, median, 0.95, 500, 7).unwrap();
        assert_eq!(a, interval(&samples, median, 0.95, 500, 7).unwrap());
        assert!(a.low <= a.estimate && a.estimate <= a.high);
    }

    #[test]
    fn of_the_mean_it_is_close_to_the_t_interval() {
        let samples: Vec<f64> = (0..60).map(|i| f64::from(i * 7919 % 101)).collect();
        let boot = interval(&samples, mean, 0.95, 4000, 1).unwrap();
        let t = crate::mean_interval(&samples, 0.95).unwrap();
        let width = t.high - t.low;
        assert!((boot.low - t.low).abs() < 0.1 * width && (boot.high - t.high).abs() < 0.1 * width);
    }
}

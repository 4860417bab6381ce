//! Histograms of whole numbers, and the distance between two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts in sixteen bins a power of two: values below 16 each have one of their own, others share it with what
/// differs from them by at most a sixteenth.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(u16, u64)>", into = "Vec<(u16, u64)>")]
pub struct FineHistogram {
    /// By bin; those that hold nothing are left out.
    bins: BTreeMap<u16, u64>,
}

impl From<Vec<(u16, u64)>> for FineHistogram {
    fn from(bins: Vec<(u16, u64)>) -> Self {
        Self {
            bins: bins.into_iter().filter(|(bin, _)| *bin < 976).collect(),
        }
    }
}

impl From<FineHistogram> for Vec<(u16, u64)> {
    fn from(histogram: FineHistogram) -> Self {
        histogram.bins.into_iter().collect()
    }
}

impl FineHistogram {
    /// The bin of a value, 0 to 975.
    pub fn bin(value: u64) -> u16 {
        let Some(octave) = value.checked_ilog2().filter(|&octave| octave >= 4) else {
            return value as u16;
        };
        // The four bits behind the first.
        let part = (value >> (octave - 4)) & 15;
        ((octave - 3) * 16) as u16 + part as u16
    }

    /// Adds an occurrence of `value`.
    pub fn add(&mut self, value: u64) {
        *self.bins.entry(Self::bin(value)).or_default() += 1;
    }

    /// Adds all of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (&bin, count) in &other.bins {
            *self.bins.entry(bin).or_default() += count;
        }
    }

    /// Counts by bin, up to the last one that is not 0.
    pub fn counts(&self) -> Vec<u64> {
        let mut counts = vec![
            0;
            self.bins
                .keys()
                .next_back()
                .map_or(0, |&bin| usize::from(bin) + 1)
        ];
        for (&bin, &count) in &self.bins {
            if let Some(slot) = counts.get_mut(usize::from(bin)) {
                *slot = count;
            }
        }
        counts
    }
}

/// The median of `count` whole numbers of which something else tells ranks: `at` gives, for a share of them, the smallest
/// number that so many do not exceed. Of an even count the mean of the two in the middle.
pub fn median_of_ranks(count: u64, at: impl Fn(f64) -> u64) -> u64 {
    let lower = at(0.5);
    if count == 0 || count % 2 == 1 {
        return lower;
    }
    // Half a rank beyond the middle, so that rounding finds the one above it.
    u64::midpoint(lower, at(0.5 + 0.5 / count as f64))
}

/// The root mean square distance of two series, the shorter one continued with zeros (Farhat 2017,
/// Figure 33, after Tarasov 2012). `None` for two empty ones.
pub fn rms_distance(a: &[f64], b: &[f64]) -> Option<f64> {
    let n = a.len().max(b.len());
    let at = |s: &[f64], i| s.get(i).copied().unwrap_or(0.0);
    let sum: f64 = (0..n).map(|i| (at(a, i) - at(b, i)).powi(2)).sum();
    (n > 0).then(|| (sum / n as f64).sqrt())
}

/// Each count as a share of all; empty where there is none.
pub fn shares(counts: &[u64]) -> Vec<f64> {
    let total: f64 = counts.iter().map(|&c| c as f64).sum();
    if total == 0.0 {
        Vec::new()
    } else {
        counts.iter().map(|&c| c as f64 / total).collect()
    }
}

/// The largest vertical distance of two distribution functions given as counts in the same bins
/// (the statistic of Kolmogorov and Smirnov). `None` where either holds nothing.
pub fn ks_distance(a: &[u64], b: &[u64]) -> Option<f64> {
    let (a, b) = (shares(a), shares(b));
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut ca, mut cb, mut largest) = (0.0, 0.0, 0.0_f64);
    for i in 0..a.len().max(b.len()) {
        ca += a.get(i).copied().unwrap_or(0.0);
        cb += b.get(i).copied().unwrap_or(0.0);
        largest = largest.max((ca - cb).abs());
    }
    Some(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fine_bins_follow_one_another_and_tell_a_sixteenth_apart() {
        let mut last = 0;
        for value in 0..5000 {
            let bin = FineHistogram::bin(value);
            assert!(bin == last || bin == last + 1, "{value}");
            last = bin;
        }
        assert_eq!(FineHistogram::bin(u64::MAX), 975);
        for value in [16, 100, 4096, 1 << 40] {
            assert_ne!(
                FineHistogram::bin(value),
                FineHistogram::bin(value + value / 15 + 1)
            );
        }
        let (mut a, mut b) = (FineHistogram::default(), FineHistogram::default());
        a.add(3);
        b.add(3);
        b.add(5);
        a.merge(&b);
        assert_eq!(a.counts(), [0, 0, 0, 2, 0, 1]);
        assert!(FineHistogram::default().counts().is_empty());
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        let of = |all: &[u64]| {
            let rank = |share: f64| (share * all.len() as f64).ceil() as usize;
            median_of_ranks(all.len() as u64, |share| all[rank(share).max(1) - 1])
        };
        assert_eq!(of(&[4000, 82_200]), 43_100);
        assert_eq!(of(&[1, 2, 100]), 2);
        for count in 1..2000_u64 {
            let all: Vec<u64> = (0..count).map(|n| n * 10).collect();
            assert_eq!(of(&all), (count - 1) * 5, "{count}");
        }
    }

    #[test]
    fn distances() {
        assert_eq!(
            rms_distance(&[1.0, 2.0], &[1.0, 4.0, 0.0, 2.0]),
            Some(2f64.sqrt())
        );
        assert_eq!(ks_distance(&[1, 1], &[0, 0, 4]), Some(1.0));
        assert_eq!(ks_distance(&[3, 1], &[1, 1]), Some(0.25));
        assert_eq!(rms_distance(&[], &[]), None);
    }
}

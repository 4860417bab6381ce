//! Histograms of whole numbers, and the distance between two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts by power of two: bin 0 holds 0, bin `i` holds `2^(i-1)` to `2^i - 1`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Log2Histogram {
    counts: Vec<u64>,
}

impl Log2Histogram {
    /// The bin of a value, 0 to 64.
    pub fn bin(value: u64) -> usize {
        (u64::BITS - value.leading_zeros()) as usize
    }

    /// The smallest and largest value of a bin; of the last one for bins past it.
    pub fn bounds(bin: usize) -> (u64, u64) {
        match bin {
            0 => (0, 0),
            1..=63 => (1 << (bin - 1), (1 << bin) - 1),
            _ => (1 << 63, u64::MAX),
        }
    }

    /// Adds `count` occurrences of `value`.
    pub fn add(&mut self, value: u64, count: u64) {
        let bin = Self::bin(value);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        if let Some(slot) = self.counts.get_mut(bin) {
            *slot = slot.saturating_add(count);
        }
    }

    /// Adds all of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Counts by bin, up to the last one that is not 0.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// All occurrences.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &c| sum.saturating_add(c))
    }
}

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

/// Counts in bins of equal width from 0; what lies past the last bin is counted apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinearHistogram {
    width: u64,
    counts: Vec<u64>,
    above: u64,
}

impl LinearHistogram {
    /// `bins` bins of `width` each; a width of 0 is taken as 1.
    pub fn new(width: u64, bins: usize) -> Self {
        Self {
            width: width.max(1),
            counts: vec![0; bins],
            above: 0,
        }
    }

    /// Adds `count` occurrences of `value`.
    pub fn add(&mut self, value: u64, count: u64) {
        let bin = usize::try_from(value / self.width).ok();
        let slot = match bin.and_then(|bin| self.counts.get_mut(bin)) {
            Some(slot) => slot,
            None => &mut self.above,
        };
        *slot = slot.saturating_add(count);
    }

    /// The width of a bin.
    pub fn width(&self) -> u64 {
        self.width
    }

    /// Counts by bin.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Occurrences past the last bin.
    pub fn above(&self) -> u64 {
        self.above
    }
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
    fn bins_are_powers_of_two() {
        for value in [0, 1, 2, 3, 4, 4095, 4096, u64::MAX] {
            let (low, high) = Log2Histogram::bounds(Log2Histogram::bin(value));
            assert!(low <= value && value <= high);
        }
        let mut h = Log2Histogram::default();
        h.add(4096, 2);
        h.add(0, 1);
        assert_eq!((h.counts()[13], h.counts()[0], h.total()), (2, 1, 3));
        let mut other = Log2Histogram::default();
        other.add(u64::MAX, 5);
        h.merge(&other);
        assert_eq!((h.counts().len(), h.total()), (65, 8));
    }

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
    fn what_lies_above_is_counted() {
        let mut h = LinearHistogram::new(10, 3);
        for value in [0, 9, 10, 29, 30, u64::MAX] {
            h.add(value, 1);
        }
        assert_eq!((h.counts(), h.above()), (&[2, 1, 1][..], 2));
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

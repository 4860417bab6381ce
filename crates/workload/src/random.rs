//! The random sequence of a generator.

use fsage_core::Seed;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// A random sequence that is the same for the same seed on every machine and in every release: it
/// rests on PCG XSL 128/64 (O'Neill 2014) alone and not on a library's way to draw from a range.
#[derive(Debug, Clone)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The sequence of that seed.
    pub fn new(seed: Seed) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed.0))
    }

    /// A uniform number under `n`, 0 for `n` = 0; by multiplication (Lemire 2019), whose bias stays
    /// under n / 2^64.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// An exponentially distributed number of that mean, by comparisons of uniform numbers alone
    /// (von Neumann 1951), so that no machine's logarithm has a part in it.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0_u64;
        loop {
            let first = self.0.next_u64();
            let (mut last, mut run) = (first, 1_u32);
            loop {
                let next = self.0.next_u64();
                if next > last {
                    break;
                }
                last = next;
                run += 1;
            }
            if run % 2 == 1 {
                let part = (u128::from(first) * u128::from(mean)) >> 64;
                return whole.saturating_mul(mean).saturating_add(part as u64);
            }
            whole += 1;
        }
    }
}

/// The numbers under `n`, at most 2^32, in a random order (Fisher and Yates).
pub fn permutation(n: u64, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n).map(|i| i as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    order
}

/// The seed of one of several streams that run at once: unrelated sequences, the first one's from the
/// seed itself (the mixing is SplitMix64's, Steele 2014).
pub fn stream_seed(seed: Seed, stream: u64) -> Seed {
    if stream == 0 {
        return seed;
    }
    let mut z = seed
        .0
        .wrapping_add(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Seed(z ^ (z >> 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_never_changes() {
        let mut random = Random::new(Seed(42));
        let drawn: Vec<u64> = (0..6).map(|_| random.below(1000)).collect();
        assert_eq!(drawn, GOLDEN);
        assert_eq!(random.below(0), 0);
    }

    const GOLDEN: [u64; 6] = [573, 133, 355, 225, 117, 355];

    #[test]
    fn a_permutation_holds_every_number_once() {
        let mut order = permutation(1000, &mut Random::new(Seed(3)));
        assert_ne!(order, permutation(1000, &mut Random::new(Seed(4))));
        assert!((1..1000).any(|i| order[i] != order[i - 1] + 1));
        order.sort_unstable();
        assert!(order.iter().zip(0..).all(|(&a, b)| a == b) && order.len() == 1000);
        assert!(permutation(0, &mut Random::new(Seed(1))).is_empty());
    }

    #[test]
    fn an_exponential_number_has_its_mean_and_deviation() {
        let mut random = Random::new(Seed(5));
        let drawn: Vec<f64> = (0..100_000)
            .map(|_| random.exponential(10_000) as f64)
            .collect();
        let mean = drawn.iter().sum::<f64>() / 1e5;
        let deviation = (drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5).sqrt();
        // Four standard errors are 126 and, of the deviation, 180.
        assert!((mean - 10_000.0).abs() < 126.0, "{mean}");
        assert!((deviation - 10_000.0).abs() < 180.0, "{deviation}");
        let beyond = drawn.iter().filter(|&&x| x > 30_000.0).count();
        // exp(-3) of them are 4979.
        assert!((4700..5260).contains(&beyond), "{beyond}");
    }

    #[test]
    fn draws_fill_the_range_evenly() {
        let mut random = Random::new(Seed(1));
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(
            counts.iter().all(|c| (9_500..10_500).contains(c)),
            "{counts:?}"
        );
    }
}

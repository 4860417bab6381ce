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

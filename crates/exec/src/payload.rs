//! What is written: bytes that no file system can compress.

use std::sync::Arc;

use fsage_core::Seed;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The largest piece of one transfer; a longer operation is several calls.
pub const PIECE_BYTES: usize = 1 << 20;

/// The pool holds this much more than a piece, so that each piece starts somewhere else.
const SLACK_BYTES: usize = 1 << 20;

/// Zeros come in runs of at most this length: shorter than a block, longer than what a compressor
/// needs to see.
const GRAIN_BYTES: usize = 1024;

/// A pool of random bytes made once from a seed; pieces of it start at offsets that are aligned to
/// nothing, so that neither compression nor the sharing of equal blocks makes a write cheaper.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Clones share it; each goes its own way through it.
    pool: Arc<[u8]>,
    next: usize,
}

impl Payload {
    /// The pool of that seed. Of each [`GRAIN_BYTES`], `compressible_percent` hundredths are zeros.
    pub fn new(seed: Seed, compressible_percent: u8) -> Self {
        let mut pool = vec![0; PIECE_BYTES + SLACK_BYTES];
        Pcg64Mcg::seed_from_u64(seed.0).fill_bytes(&mut pool);
        let zeros = GRAIN_BYTES * usize::from(compressible_percent.min(100)) / 100;
        for grain in pool.chunks_mut(GRAIN_BYTES) {
            grain.iter_mut().take(zeros).for_each(|byte| *byte = 0);
        }
        Self {
            pool: pool.into(),
            next: 0,
        }
    }

    /// The same pool, begun elsewhere.
    pub fn begun_at(&self, number: u64) -> Self {
        Self {
            pool: Arc::clone(&self.pool),
            next: (number.wrapping_mul(7919) % SLACK_BYTES as u64) as usize,
        }
    }

    /// The next `length` bytes, at most [`PIECE_BYTES`].
    pub fn piece(&mut self, length: usize) -> &[u8] {
        // A step that is prime to the range visits all of its offsets before any again.
        self.next = (self.next + 411_641) % (SLACK_BYTES - 1);
        self.pool
            .get(self.next..self.next + length.min(PIECE_BYTES))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_differ_and_follow_from_the_seed() {
        let mut a = Payload::new(Seed(1), 0);
        let first = a.piece(4096).to_vec();
        assert_ne!(a.piece(4096), first);
        assert_eq!(Payload::new(Seed(1), 0).piece(4096), first);
        assert_ne!(Payload::new(Seed(2), 0).piece(4096), first);
        assert_eq!(a.piece(usize::MAX).len(), PIECE_BYTES);
    }

    #[test]
    fn compressible_bytes_are_as_many_as_asked() {
        for percent in [0, 25, 100] {
            let mut payload = Payload::new(Seed(4), percent);
            let zeros = payload.piece(PIECE_BYTES).iter().filter(|&&b| b == 0);
            let share = zeros.count() as f64 / PIECE_BYTES as f64;
            let expected = f64::from(percent) / 100.0;
            assert!((share - expected).abs() < 0.006, "{percent} % gave {share}");
        }
    }

    #[test]
    fn bytes_are_evenly_spread() {
        let mut counts = [0_u32; 256];
        let mut payload = Payload::new(Seed(3), 0);
        for &byte in payload.piece(PIECE_BYTES) {
            counts[byte as usize] += 1;
        }
        // 4096 of each are expected; eight standard deviations are 512.
        assert!(counts.iter().all(|c| c.abs_diff(4096) < 512));
    }
}

//! What is written: bytes that no file system can compress.

use fsage_core::Seed;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The largest piece of one transfer; a longer operation is several calls.
pub const PIECE_BYTES: usize = 1 << 20;

/// The pool holds this much more than a piece, so that each piece starts somewhere else.
const SLACK_BYTES: usize = 1 << 20;

/// A pool of random bytes made once from a seed; pieces of it start at offsets that are aligned to
/// nothing, so that neither compression nor the sharing of equal blocks makes a write cheaper.
#[derive(Debug, Clone)]
pub struct Payload {
    pool: Vec<u8>,
    next: usize,
}

impl Payload {
    /// The pool of that seed.
    pub fn new(seed: Seed) -> Self {
        let mut pool = vec![0; PIECE_BYTES + SLACK_BYTES];
        Pcg64Mcg::seed_from_u64(seed.0).fill_bytes(&mut pool);
        Self { pool, next: 0 }
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
        let mut a = Payload::new(Seed(1));
        let first = a.piece(4096).to_vec();
        assert_ne!(a.piece(4096), first);
        assert_eq!(Payload::new(Seed(1)).piece(4096), first);
        assert_ne!(Payload::new(Seed(2)).piece(4096), first);
        assert_eq!(a.piece(usize::MAX).len(), PIECE_BYTES);
    }

    #[test]
    fn bytes_are_evenly_spread() {
        let mut counts = [0_u32; 256];
        let mut payload = Payload::new(Seed(3));
        for &byte in payload.piece(PIECE_BYTES) {
            counts[byte as usize] += 1;
        }
        // 4096 of each are expected; eight standard deviations are 512.
        assert!(counts.iter().all(|c| c.abs_diff(4096) < 512));
    }
}

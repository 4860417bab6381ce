//! Where a file has blocks: programs leave holes.

use std::ops::Range;

use super::super::BLOCK_BYTES;

/// Blocks by number, in pieces that neither touch nor overlap, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Held(Vec<Range<u64>>);

impl Held {
    /// What they take.
    pub fn bytes(&self) -> u64 {
        let blocks = self.0.iter().map(|piece| piece.end - piece.start);
        blocks
            .fold(0, u64::saturating_add)
            .saturating_mul(BLOCK_BYTES)
    }

    /// Bytes are written there: how many more it takes then.
    pub fn add(&mut self, bytes: &Range<u64>) -> u64 {
        if bytes.is_empty() {
            return 0;
        }
        let before = self.bytes();
        let mut new = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        let from = self.0.partition_point(|piece| piece.end < new.start);
        let to = self.0.partition_point(|piece| piece.start <= new.end);
        for piece in self.0.get(from..to).unwrap_or_default() {
            new = new.start.min(piece.start)..new.end.max(piece.end);
        }
        self.0.splice(from..to.max(from), [new]);
        self.bytes() - before
    }

    /// It is cut to so many bytes: how many fewer it takes then.
    pub fn cut(&mut self, size: u64) -> u64 {
        let before = self.bytes();
        let end = size.div_ceil(BLOCK_BYTES);
        self.0.retain(|piece| piece.start < end);
        if let Some(last) = self.0.last_mut() {
            last.end = last.end.min(end);
        }
        before - self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn a_hole_takes_nothing_and_is_filled_once() {
        let mut held = Held::default();
        assert_eq!(held.add(&(512 * KIB..576 * KIB)), 64 * KIB);
        assert_eq!(held.cut(600 * KIB), 0, "behind its last block");
        assert_eq!(held.add(&(510 * KIB..514 * KIB)), 4 * KIB);
        assert_eq!(held.add(&(1..2)), 4 * KIB);
        assert_eq!(held.add(&(0..600 * KIB)), 528 * KIB);
        assert_eq!(held.0.len(), 1);
        assert_eq!(held.cut(10 * KIB), 588 * KIB);
        assert_eq!((held.bytes(), held.cut(0)), (12 * KIB, 12 * KIB));
    }

    #[test]
    fn pieces_that_touch_are_one() {
        let mut held = Held::default();
        for at in [8, 0, 16, 4] {
            assert_eq!(held.add(&(at * KIB..(at + 4) * KIB)), 4 * KIB);
        }
        assert_eq!(held.0, [0..3, 4..5]);
        assert_eq!(held.add(&(0..0)), 0);
    }
}

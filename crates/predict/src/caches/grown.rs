//! Where files lie that the trace makes: one after another as they are first written, in each of the places among which
//! directories take turns.

use rustc_hash::FxHashMap;

use crate::namespace::tree::Ino;

/// Beyond all places that are told by the order of creation alone.
const BEYOND: u64 = 1 << 62;
/// How far those places lie apart.
const TURN_BITS: u32 = 48;

/// A file that was begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Its place in the order of creation, by which it is known again.
    order: u64,
    first: u64,
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Grown {
    by_file: FxHashMap<u32, Begun>,
    /// By turn: the file that was begun last, and where it ends.
    last: FxHashMap<u64, (Ino, u64)>,
}

impl Grown {
    /// A file, of such a place in the order of creation, is written up to byte `end`.
    pub fn writes(&mut self, (ino, order): (Ino, u64), turn: u64, end: u64) {
        let start = BEYOND.saturating_add(turn.min(1 << 12) << TURN_BITS);
        let last = self.last.entry(turn).or_insert((ino, start));
        let known = self.by_file.get(&ino.0).filter(|b| b.order == order);
        let first = known.map_or(last.1, |begun| begun.first);
        if known.is_none() {
            self.by_file.insert(ino.0, Begun { order, first });
            last.0 = ino;
        }
        if last.0 == ino {
            let bytes = end.checked_next_multiple_of(fsage_cache::PAGE_BYTES);
            last.1 = last.1.max(first.saturating_add(bytes.unwrap_or(end)));
        }
    }

    /// Where a file begins, if it was made and written in the trace.
    #[inline]
    pub fn first(&self, (ino, order): (Ino, u64)) -> Option<u64> {
        let begun = self.by_file.get(&ino.0)?;
        (begun.order == order).then_some(begun.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_one_after_another_as_they_are_begun() {
        let mut grown = Grown::default();
        grown.writes((Ino(1), 10), 0, 5000);
        grown.writes((Ino(2), 11), 0, 100);
        grown.writes((Ino(3), 12), 1, 100);
        // It grows behind what came between.
        grown.writes((Ino(1), 10), 0, 20_000);
        grown.writes((Ino(4), 13), 0, 100);
        let first = |ino, order| grown.first((Ino(ino), order)).map(|first| first - BEYOND);
        assert_eq!(first(1, 10), Some(0));
        assert_eq!(first(2, 11), Some(8192));
        assert_eq!(first(4, 13), Some(12_288));
        assert_eq!(first(3, 12), Some(1 << TURN_BITS));
        assert_eq!((first(1, 99), first(5, 14)), (None, None));
        // Another file of that number lies behind all.
        grown.writes((Ino(1), 14), 0, 1);
        assert_eq!(grown.first((Ino(1), 14)), Some(BEYOND + 16_384));
    }
}

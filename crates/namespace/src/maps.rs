//! The mapped ranges of one address space.

use std::collections::BTreeMap;

/// A mapped range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping<F> {
    /// Bytes.
    pub length: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file.
    pub file: F,
}

impl<F: Copy> Mapping<F> {
    /// What of it, mapped at `start`, lies in `from..to`.
    fn within(self, start: u64, from: u64, to: u64) -> (u64, Self) {
        let at = start.max(from);
        let end = start.saturating_add(self.length).min(to);
        let piece = Self {
            length: end.saturating_sub(at),
            offset: self.offset.saturating_add(at - start),
            ..self
        };
        (at, piece)
    }
}

/// The mapped ranges, by address.
#[derive(Debug, Clone)]
pub struct Maps<F>(BTreeMap<u64, Mapping<F>>);

impl<F> Default for Maps<F> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<F: Copy> Maps<F> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Maps a range; what it covers is unmapped first.
    pub fn map(&mut self, address: u64, mapping: Mapping<F>) {
        self.unmap(address, mapping.length);
        self.0.insert(address, mapping);
    }

    /// The pieces of mappings within a range, in order.
    pub fn mapped(&self, address: u64, length: u64) -> Vec<Mapping<F>> {
        let end = address.saturating_add(length);
        let whole = self.overlapping(address, end);
        let piece = |(start, whole): (u64, Mapping<F>)| whole.within(start, address, end).1;
        whole.into_iter().map(piece).collect()
    }

    /// Unmaps a range; returns the pieces that it held, in order.
    pub fn unmap(&mut self, address: u64, length: u64) -> Vec<Mapping<F>> {
        let end = address.saturating_add(length);
        let pieces = self.mapped(address, length);
        for (start, whole) in self.overlapping(address, end) {
            self.0.remove(&start);
            for (from, to) in [(0, address), (end, u64::MAX)] {
                let (at, rest) = whole.within(start, from, to);
                if rest.length > 0 {
                    self.0.insert(at, rest);
                }
            }
        }
        pieces
    }

    fn overlapping(&self, address: u64, end: u64) -> Vec<(u64, Mapping<F>)> {
        let before = self.0.range(..end).rev();
        let mut found: Vec<_> = before
            .take_while(|(start, mapping)| start.saturating_add(mapping.length) > address)
            .map(|(&start, &mapping)| (start, mapping))
            .collect();
        found.reverse();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unmapping_the_middle_leaves_both_ends() {
        let mut maps = Maps::default();
        let mapping = |length, offset| Mapping {
            length,
            offset,
            file: 7,
        };
        maps.map(0x10000, mapping(0x5000, 0x1000));
        assert_eq!(maps.unmap(0x12000, 0x1000), [mapping(0x1000, 0x3000)]);
        let ends = [mapping(0x2000, 0x1000), mapping(0x2000, 0x4000)];
        assert_eq!(maps.mapped(0, u64::MAX), ends);
        assert_eq!(maps.unmap(u64::MAX - 1, u64::MAX), []);
    }

    proptest! {
        /// Byte by byte: which file and offset is mapped there.
        #[test]
        fn each_byte_is_what_was_mapped_there_last(
            steps in proptest::collection::vec((0..3u8, 0..60u64, 1..20u64), 1..60)
        ) {
            let (mut maps, mut bytes) = (Maps::default(), [None; 100]);
            for (number, (what, at, length)) in (0..).zip(steps) {
                let offset = number * 1000;
                let covered: Vec<Option<(u64, u64)>> = bytes[at as usize..][..length as usize].to_vec();
                let pieces = if what == 0 {
                    maps.unmap(at, length)
                } else {
                    let pieces = maps.mapped(at, length);
                    maps.map(at, Mapping { length, offset, file: number });
                    pieces
                };
                let reported: Vec<(u64, u64)> = pieces
                    .iter()
                    .flat_map(|m| (0..m.length).map(|n| (m.file, m.offset + n)))
                    .collect();
                prop_assert_eq!(reported, covered.into_iter().flatten().collect::<Vec<_>>());
                for n in 0..length {
                    bytes[(at + n) as usize] = (what != 0).then_some((number, offset + n));
                }
            }
        }
    }
}

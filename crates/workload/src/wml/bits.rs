//! Sets of small numbers with a next element in constant time.

/// A set of numbers under a bound: a bit for each, and above each 64 bits one that says whether any
/// of them is set. Four levels hold 16 million numbers, so that every question costs at most four
/// words.
#[derive(Debug, Clone)]
pub(super) struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// The empty set of numbers under `bound`.
    pub(super) fn new(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut length = bound;
        loop {
            length = length.div_ceil(64).max(1);
            levels.push(vec![0; length]);
            if length == 1 {
                return Self { levels };
            }
        }
    }

    pub(super) fn insert(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            if let Some(word) = level.get_mut(at / 64) {
                *word |= 1 << (at % 64);
            }
            at /= 64;
        }
    }

    pub(super) fn remove(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else {
                return;
            };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.levels
            .first()
            .and_then(|level| level.get(number / 64))
            .is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The first element from `from` on; behind the last one the search begins again at 0.
    pub(super) fn next(&self, from: usize) -> Option<usize> {
        self.at_or_after(from).or_else(|| self.at_or_after(0))
    }

    fn at_or_after(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let rest = level
                .get(at / 64)
                .map_or(0, |word| word & (u64::MAX << (at % 64)));
            if rest != 0 {
                let mut found = at / 64 * 64 + rest.trailing_zeros() as usize;
                for below in self.levels.iter().take(height).rev() {
                    let word = below.get(found)?;
                    found = found * 64 + word.trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = at / 64 + 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_an_ordered_set(
            bound in 1_usize..9000,
            steps in proptest::collection::vec((0_usize..9000, any::<bool>()), 0..200),
        ) {
            let mut bits = Bits::new(bound);
            let mut set = BTreeSet::new();
            for (number, insert) in steps {
                let number = number % bound;
                if insert {
                    bits.insert(number);
                    set.insert(number);
                } else {
                    bits.remove(number);
                    set.remove(&number);
                }
                let next = set.range(number..).next().or(set.first()).copied();
                prop_assert_eq!(bits.next(number), next);
                prop_assert_eq!(bits.contains(number), set.contains(&number));
                prop_assert_eq!(bits.next(bound + 70), set.first().copied());
            }
        }
    }
}

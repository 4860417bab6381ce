//! Seeded choices: xorshift64* (Vigna 2016), enough for orders and payloads.

/// A generator; equal seeds give equal sequences.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // A state of zero would stay zero.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        // The high bits of a product are uniform enough for bounds far below 2^64.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// One of the items.
    pub(crate) fn pick<T: Copy>(&mut self, items: &[T], otherwise: T) -> T {
        items
            .get(self.below(items.len()))
            .copied()
            .unwrap_or(otherwise)
    }

    /// Brings the items into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    /// The numbers below `count` in random order.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }

    /// Bytes that do not compress.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_a_permutation_and_depends_on_the_seed_alone() {
        let mut order = Random::new(7).order(1000);
        assert_eq!(order, Random::new(7).order(1000));
        assert_ne!(order, Random::new(8).order(1000));
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}

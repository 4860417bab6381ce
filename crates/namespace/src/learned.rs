//! How much a stream may teach of what was there before it.

/// Names that may be learned whatever the number of operations, and from each of them: a hostile trace
/// names thousands by a few bytes.
const AT_LEAST: u64 = 1 << 18;
const BY_EACH: u64 = 16;

/// Names that were learned, and operations that they were learned from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Learned {
    names: u64,
    operations: u64,
}

impl Learned {
    /// One more operation.
    #[inline]
    pub fn operation(&mut self) {
        self.operations = self.operations.saturating_add(1);
    }

    /// Counts one more name; `false` once there are more than any program's operations tell of.
    pub fn name(&mut self) -> bool {
        let most = self.operations.saturating_mul(BY_EACH);
        let may = self.names < most.saturating_add(AT_LEAST);
        self.names += u64::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_operations_teach_few_names() {
        let mut learned = Learned::default();
        let names = |learned: &mut Learned| (0..1 << 20).filter(|_| learned.name()).count() as u64;
        assert_eq!(names(&mut learned), AT_LEAST);
        learned.operation();
        assert_eq!(names(&mut learned), BY_EACH);
    }
}

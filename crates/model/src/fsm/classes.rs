//! Some of the classes of a model.

/// Classes beyond this are in none.
const MOST: u32 = u128::BITS;

/// A set of classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u128);

impl Classes {
    /// All that there can be.
    pub const ALL: Self = Self(u128::MAX);

    /// One alone.
    pub fn of(class: u32) -> Self {
        Self(if class < MOST { 1 << class } else { 0 })
    }

    /// Those that are here or there.
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are here and there.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are here and not there.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        // Asked for each line that may come next: most sets are empty or of one.
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let class = rest.trailing_zeros();
            rest &= rest.checked_sub(1)?;
            Some(class)
        })
    }
}

//! What samples are added to, and what a call's path costs beside the call.

use fsage_core::metric::{FamilyId, MetricId};

use crate::lab::GAPS;

/// A metric to which samples are added, at every gap; prepared before anything is timed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe([Option<MetricId>; GAPS]);

impl Probe {
    /// A scalar family.
    pub(crate) fn of(stem: &str) -> Probe {
        Self::from(fsage_core::metric::family(stem).map(FamilyId::scalar))
    }

    /// A point of a series; what the table has no point for is not kept.
    pub(crate) fn at(stem: &str, point: u32) -> Probe {
        Self::from(fsage_core::metric::family(stem).and_then(|f| f.at(point)))
    }

    fn from(id: Option<MetricId>) -> Probe {
        Probe(std::array::from_fn(|gap| {
            id.and_then(|i| i.with_gap(gap as u8))
        }))
    }

    /// The metric at a gap.
    pub(crate) fn id(self, gap: usize) -> Option<MetricId> {
        self.0.get(gap).copied().flatten()
    }
}

/// The cached components that a call resolves on its way, as predictions charge them: those of a
/// directory other than the last call's are its last component and the name in it, the ones above
/// are the same as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Components {
    /// Components looked up before: `LUS_BC`.
    pub same: u32,
    /// Components of another directory than the last: `LUR_BC`.
    pub other: u32,
}

impl Components {
    /// A path of so many components in another directory than the last call's.
    pub(crate) const fn elsewhere(count: u32) -> Components {
        let other = if count < 2 { count } else { 2 };
        Components {
            same: count - other,
            other,
        }
    }

    /// And a second path, in the directory of the first.
    pub(crate) const fn and_beside(self, count: u32) -> Components {
        Components {
            same: self.same + count,
            other: self.other,
        }
    }

    /// And components above that never change.
    pub(crate) const fn below(self, count: u32) -> Components {
        Components {
            same: self.same + count,
            other: self.other,
        }
    }
}

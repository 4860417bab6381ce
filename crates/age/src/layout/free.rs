//! Free space by the size of its extents.

use std::collections::BTreeMap;

use fsage_format::result::layout::{FreeClass, FreeSpace};
use fsage_host::snapshot::FreeExtent;

/// Sums free extents up by powers of two of bytes.
pub fn free_space(extents: &[FreeExtent]) -> FreeSpace {
    let mut classes: BTreeMap<u32, FreeClass> = BTreeMap::new();
    let mut space = FreeSpace::default();
    for extent in extents {
        let Some(power) = extent.length_bytes.checked_ilog2() else {
            continue;
        };
        let class = classes.entry(power).or_insert_with(|| FreeClass {
            from_bytes: 1 << power,
            ..FreeClass::default()
        });
        class.extents += 1;
        class.bytes += extent.length_bytes;
        space.extents += 1;
        space.bytes += extent.length_bytes;
        space.largest_bytes = space.largest_bytes.max(extent.length_bytes);
    }
    space.by_size = classes.into_values().collect();
    space
}

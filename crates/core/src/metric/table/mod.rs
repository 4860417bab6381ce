//! The rows. `fsage profile --list`, the reference page, the suite and the tests all read them here.

mod calls;
mod cold;
mod data;
mod lookup;
mod mmap;
mod parameters;
mod scaling;
mod sync;
mod truncate;
mod writeback;

use std::sync::LazyLock;

use super::{Family, Group, Points, Unit};

const POW12: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
const POW16: &[u32] = &[
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536,
];

/// Every family, in the order in which groups are measured.
pub static FAMILIES: LazyLock<Vec<Family>> = LazyLock::new(|| {
    [
        parameters::ROWS,
        lookup::ROWS,
        calls::ROWS,
        data::ROWS,
        mmap::ROWS,
        truncate::ROWS,
        sync::ROWS,
        cold::ROWS,
        scaling::ROWS,
        writeback::ROWS,
    ]
    .concat()
});

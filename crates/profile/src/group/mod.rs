//! The procedures, a module for what is measured together.

pub(crate) mod caches;
pub(crate) mod calls;
pub(crate) mod changes;
pub(crate) mod cold;
pub(crate) mod copies;
pub(crate) mod data;
mod elsewhere;
pub(crate) mod files;
pub(crate) mod host_calls;
pub(crate) mod lookup;
pub(crate) mod lookup_cold;
pub(crate) mod mmap;
pub(crate) mod names;
pub(crate) mod parameters;
pub(crate) mod recent;
pub(crate) mod scaling;
pub(crate) mod scaling_cold;
pub(crate) mod scattered;
pub(crate) mod sockets;
pub(crate) mod stream;
pub(crate) mod sync;
pub(crate) mod sync_all;
pub(crate) mod sync_rows;
pub(crate) mod throttle;
pub(crate) mod truncate;
pub(crate) mod writeback;

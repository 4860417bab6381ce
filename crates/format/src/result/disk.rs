//! What `disk list` and `disk show` tell, and what an emulated disk has served.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// The disk models there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskList {
    /// Each model.
    pub models: Vec<DiskSummary>,
}

/// A disk model and what its figures amount to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSummary {
    /// Its name, as in `scratch:ext4,on=disk:NAME`.
    pub name: String,
    /// What it is.
    pub description: String,
    /// `hdd` or `ssd`.
    pub kind: String,
    /// Capacity of the real disk in bytes.
    pub capacity_bytes: u64,
    /// A read of 4 KiB at a random place of the whole disk, one at a time, milliseconds.
    pub random_read_ms: f64,
    /// Reading in sequence at the start of the disk, units of 10^6 bytes a second.
    pub start_mb_s: f64,
    /// Reading in sequence at its end, units of 10^6 bytes a second.
    pub end_mb_s: f64,
    /// Where the figures come from, by section or field.
    pub sources: BTreeMap<String, String>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRequests {
    /// How many.
    pub requests: u64,
    /// Their lengths together, bytes.
    pub bytes: u64,
}

/// How much later than the model said requests ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskLateness {
    /// Requests that were delayed at all.
    pub requests: u64,
    /// On average, microseconds.
    pub mean_us: f64,
    /// Half of them were later, microseconds.
    pub p50_us: f64,
    /// One in a hundred was later, microseconds.
    pub p99_us: f64,
    /// The latest, microseconds.
    pub max_us: f64,
}

/// What a daemon has served since its start or the last reset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskStatistics {
    /// The disk's model.
    pub model: String,
    /// The host's scheduler.
    pub scheduler: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether requests are delayed at this moment.
    pub delays: bool,
    /// Reads.
    pub reads: DiskRequests,
    /// Writes.
    pub writes: DiskRequests,
    /// Flushes.
    pub flushes: DiskRequests,
    /// Most requests under way at once.
    pub deepest_queue: u64,
    /// How late requests ended.
    pub lateness: DiskLateness,
}

document! {
    DiskList, "fsage disk list", 1;
    DiskSummary, "fsage disk", 1;
    DiskStatistics, "fsage disk statistics", 1;
}

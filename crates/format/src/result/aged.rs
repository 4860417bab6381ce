//! What applying an aging workload gave: plain data, stored and printed by others.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;
use super::layout::SizeClass;
use crate::image::Aged;

/// What the field `format` says.
pub const AGED_FORMAT: &str = "fsage age apply";

/// The version of [`AgedRun`] that this release writes.
pub const AGED_VERSION: u32 = 1;

/// The outcome of `fsage age apply`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgedRun {
    /// Always `fsage age apply`.
    pub format: String,
    /// Version of this structure.
    pub version: u32,
    /// The workload's file.
    pub workload: String,
    /// Its SHA-256, hexadecimal.
    pub workload_sha256: String,
    /// What made the workload, as it says itself; null where it does not.
    pub made: serde_json::Value,
    /// The target, as it was asked for.
    pub target: String,
    /// Its type, as `ext4`.
    pub file_system: Option<String>,
    /// The size of its blocks in bytes, in which the layout scores count; absent where it is not told, and in results of
    /// earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    /// Whether space was allocated and no data written.
    pub fast: bool,
    /// Where the bytes that were written come from.
    pub seed: u64,
    /// What was done in all.
    pub tally: AgedTally,
    /// Each day that had operations; [simulated](AgedRun::simulated_days) are also those without.
    pub days: Vec<AgedDay>,
    /// The layout score at the end of the last day; null where it was not taken.
    pub layout_score: Option<f64>,
    /// The same by size of file, then; empty where it was not taken, and in results of earlier releases.
    #[serde(default)]
    pub by_size: Vec<SizeClass>,
    /// How long the target took, without the looks at it, nanoseconds.
    pub elapsed_ns: u64,
    /// Files and directories made and removed, a second of that.
    pub changes_per_second: f64,
    /// Bytes written, or allocated, a second of that.
    pub bytes_per_second: f64,
    /// Operations that an earlier run had done; 0 for one that began at the beginning.
    pub resumed_after: u64,
    /// The image that the target was kept in.
    pub kept: Option<String>,
    /// Whether it was stopped before the workload ended.
    pub interrupted: bool,
}

impl AgedRun {
    /// How many days have gone by for the target.
    pub fn simulated_days(&self) -> u64 {
        simulated_days(&self.days, &self.made, !self.interrupted)
    }
}

/// The days up to the last that had operations, or all of a workload that was carried out to its end, as what made it
/// says.
pub fn simulated_days(days: &[AgedDay], made: &serde_json::Value, whole: bool) -> u64 {
    let worked = days.last().map_or(0, |day| day.day.saturating_add(1));
    let made = made.get("days").and_then(serde_json::Value::as_u64);
    worked.max(made.filter(|_| whole).unwrap_or(0))
}

/// What was done of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgedTally {
    /// Operations of the workload.
    pub operations: u64,
    /// Files, directories, links that were made (also opens that would have made one that was there).
    pub created: u64,
    /// Files and directories that were removed.
    pub removed: u64,
    /// Bytes that were written, or allocated.
    pub written_bytes: u64,
    /// Operations that met a full disk.
    pub no_space: u64,
    /// Those that would have made a file larger than the limit of file sizes (`ulimit -f`), or than the file system
    /// can hold one.
    pub too_large: u64,
    /// Those passed over because what they name is not there, or something else is, as after a full disk.
    pub absent: u64,
    /// Those that lead out of the target, or that its names cannot hold.
    pub refused: u64,
    /// Those that change nothing of what lies where, as reads.
    pub left_out: u64,
}

/// The target at the end of a simulated day, after all of it was written back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgedDay {
    /// The day, from 0 at the workload's beginning.
    pub day: u64,
    /// Operations of the day.
    pub operations: u64,
    /// Bytes that were written, or allocated, in it.
    pub written_bytes: u64,
    /// Operations of the day that met a full disk.
    pub no_space: u64,
    /// The size of the file system, bytes.
    pub total_bytes: u64,
    /// Of that available, bytes.
    pub available_bytes: u64,
    /// The share in use, from 0 to 1; what is kept for root is not available and not in use (in results of earlier
    /// releases it counts).
    pub utilisation: f64,
    /// Inodes in use on the whole file system, by files, directories, links and the file system itself (what the text calls
    /// inodes), and so more than the workload has files; 0 where the file system does not count them.
    pub files: u64,
    /// Blocks that the layout score counts; null where it was not taken.
    pub counted_blocks: Option<u64>,
    /// Those of them that lie right after the one before.
    pub optimal_blocks: Option<u64>,
    /// The layout score; null where it was not taken, or no block counts.
    pub layout_score: Option<f64>,
    /// How long the target had taken until then, nanoseconds.
    pub elapsed_ns: u64,
    /// What had been done until then.
    pub so_far: AgedTally,
}

/// What `fsage age keep --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgeKept {
    /// The image.
    pub file: PathBuf,
    /// Its size, bytes.
    pub file_bytes: u64,
    /// Data of the file system in it, bytes.
    pub data_bytes: u64,
    /// How the file system was aged; null where nothing tells it.
    pub aged: Option<Aged>,
}

document! {
    AgeKept, "fsage age keep", 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_without_operations_go_by_too() {
        let day = |day| AgedDay {
            day,
            ..AgedDay::default()
        };
        let made = serde_json::json!({ "days": 14 });
        let days = [day(0), day(3), day(9)];
        assert_eq!(simulated_days(&days, &made, true), 14);
        assert_eq!(simulated_days(&days, &made, false), 10, "up to there");
        assert_eq!(simulated_days(&days, &serde_json::Value::Null, true), 10);
        assert_eq!(simulated_days(&[], &made, false), 0);
    }
}

//! What verbs that make or change a file print with `--json`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// What `fsage trace --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSummary {
    /// The trace.
    pub file: PathBuf,
    /// Its size, bytes.
    pub file_bytes: u64,
    /// `ebpf` or `ptrace`.
    pub method: String,
    /// Why that one.
    pub method_reason: String,
    /// What this method cannot see here.
    pub not_seen: Vec<String>,
    /// Descendants of the processes attached to that could not be watched.
    pub refused_pids: Vec<u32>,
    /// Operations in the trace.
    pub operations: u64,
    /// Operations that happened and are not in it.
    #[serde(rename = "operations_lost")]
    pub lost: u64,
    /// Of these, calls of 32-bit programs.
    #[serde(rename = "operations_lost_32_bit")]
    pub lost_32_bit: u64,
    /// Of these, operations on files whose opening was lost, so that nobody knows whether they
    /// belong below `--under`.
    pub operations_left_out: u64,
    /// Operations in the trace without the name of their file or directory, because it was lost.
    pub operations_nameless: u64,
    /// How often what was traced mounted a directory at a second place, or moved it: with `--under`, files that are
    /// named by way of it may be missing.
    pub mounted_again: u64,
    /// How often a directory that was renamed by others, while processes were in it or had it open, could not be found by its
    /// new name: relative names from there are told with the old one.
    #[serde(default)]
    pub directories_strayed: u64,
    /// For how long calls were kept from returning so that nothing is lost, summed over all
    /// threads, ns; it is in the pauses between operations.
    pub throttled_ns: u64,
    /// How many calls were.
    pub throttled_calls: u64,
    /// Operations that stand after one that started later.
    pub late: u64,
    /// From the start of the first operation to the end of the last, ns.
    pub elapsed_ns: u64,
    /// What file systems took, ns: the sum of latencies without those of processes and pipes.
    pub latency_total_ns: u64,
    /// The command's exit status (128 + signal); absent for an attach, or if it still runs.
    pub exit_status: Option<i32>,
    /// Watched processes that run on.
    pub running_on_pids: Vec<u32>,
}

/// What was made of another tool's file, or written for one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A trace; what is counted are operations.
    #[default]
    Trace,
    /// A snapshot; names.
    Snapshot,
    /// A system profile; metrics.
    Profile,
    /// A model; operations that it stands for.
    Model,
}

impl Content {
    /// What is counted in it, in the plural.
    pub fn items(self) -> &'static str {
        match self {
            Self::Trace | Self::Model => "operations",
            Self::Snapshot => "names",
            Self::Profile => "metrics",
        }
    }
}

/// What `fsage import --json` and `fsage export --json` print.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversionSummary {
    /// The file written.
    pub file: PathBuf,
    /// What was converted.
    pub content: Content,
    /// Operations, names or metrics written.
    pub written: u64,
    /// What the source holds and the file written does not, by name.
    pub left_out: BTreeMap<String, u64>,
    /// How what was written is run; absent for what is not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_by: Option<String>,
    /// What is made before it runs; absent for what is not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<MadeBefore>,
}

/// What an exported model makes before it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MadeBefore {
    /// Files and directories that what was written makes.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Files and directories that are there before a run of the model itself.
    pub model_files: u64,
    /// Bytes in these.
    pub model_bytes: u64,
}

/// What `fsage snapshot --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotSummary {
    /// The snapshot.
    pub file: PathBuf,
    /// Names in it.
    pub entries: u64,
    /// Of these, regular files, each counted once.
    pub files: u64,
    /// Of these, directories.
    pub directories: u64,
    /// Of these, symbolic links.
    pub symlinks: u64,
    /// Names after the first of files that have several.
    pub further_links: u64,
    /// Extents of the files of which it is known where they lie: runs of blocks that are contiguous on the device, as
    /// `fsage layout` counts them.
    pub extents: u64,
    /// Files with data that had no place yet (delayed allocation): where they lie is unknown.
    #[serde(default)]
    pub not_written: u64,
    /// Files and directories unchanged since `--previous`, which told the rest of them.
    #[serde(default)]
    pub unchanged: u64,
    /// Whether the file system tells extents.
    pub has_extents: bool,
    /// Files that vanished while they were recorded.
    pub vanished: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Mount points of other file systems, and other subvolumes, which were left out.
    pub other_mounts: u64,
    /// How long it took, ns.
    pub elapsed_ns: u64,
    /// Whether the snapshot was written: one that was interrupted does not replace another.
    pub kept: bool,
}

/// What `fsage anonymize --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnonymizeSummary {
    /// The file written.
    pub file: PathBuf,
    /// What it is.
    pub content: Content,
    /// Operations, names or metrics of it.
    pub rows: u64,
    /// The parts of it that were replaced, as `operations.path`.
    pub hidden: Vec<String>,
    /// The parts of it that stayed as they were.
    pub kept: Vec<String>,
    /// The parts of it that are not in the file written, since they may hold names; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

document! {
    TraceSummary, "fsage trace", 1;
    ConversionSummary, "fsage conversion", 1;
    SnapshotSummary, "fsage snapshot", 1;
    AnonymizeSummary, "fsage anonymize", 1;
}

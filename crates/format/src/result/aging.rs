//! What an aging workload says about how it was made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// The entry of a trace's extra metadata that holds [`Made`].
pub const AGING_ENTRY: &str = "aging";

/// What an aging workload was made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgingKind {
    /// A named usage profile.
    #[default]
    Profile,
    /// Snapshots of a file system, one after the other.
    Snapshots,
    /// The history of a git repository.
    Git,
    /// A model of a workload, each day once.
    Model,
}

/// How an aging workload was made and what it amounts to; kept in its trace's metadata, entry `aging`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// Version of these fields.
    pub version: u32,
    /// The release that made it.
    pub generator: String,
    /// What from.
    pub kind: AgingKind,
    /// The profile's name, the directory of snapshots, the repository or the model's file.
    pub source: String,
    /// Where random choices began.
    pub seed: u64,
    /// Simulated days; day k is from k times 86,400 s on.
    pub days: u32,
    /// Size of the file system it is for, bytes.
    pub size_bytes: u64,
    /// Files are counted in blocks of so many bytes.
    pub block_bytes: u64,
    /// The utilisation asked for, 0 to 1; absent where it is the source's own.
    pub fill: Option<f64>,
    /// How many times the source's activity.
    pub scale: f64,
    /// How deletions were given their times: `uniform` or `learnt`; absent where the source tells them.
    pub deletes: Option<String>,
    /// Where short-lived files came from; absent without.
    pub short_lived: Option<String>,
    /// Changes: creations, deletions, modifications, renames and directories made or removed.
    pub operations: u64,
    /// Operations of the trace, which `fsage show` counts: each open, write, close and sync that the changes take. 0
    /// where an older release made it.
    #[serde(default)]
    pub trace_operations: u64,
    /// Files made.
    pub creates: u64,
    /// Files removed.
    pub removes: u64,
    /// Files written again or added to.
    pub modifies: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// The most that its files and directories take at once, bytes in whole blocks.
    pub peak_bytes: u64,
    /// The block size of the file system whose life it repeats, bytes; absent where the source has none or does not
    /// tell, and where an older release made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_block_bytes: Option<u64>,
    /// What share of `size_bytes` files and directories take at each day's end.
    pub utilisation: Vec<f64>,
    /// What the source holds and the workload does not, by name.
    pub left_out: BTreeMap<String, u64>,
    /// The snapshots that it was made from; absent for other sources, and where an older release made it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nights: Vec<MadeNight>,
}

/// A snapshot and the day that ends with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MadeNight {
    /// The simulated day, from 0: the first snapshot's is the day on which its files are made.
    pub day: u64,
    /// When the snapshot was taken, nanoseconds since 1970.
    pub taken_unix_ns: u64,
}

/// What `fsage age generate --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgeGenerated {
    /// The workload, a trace.
    pub file: PathBuf,
    /// Its size, bytes.
    pub file_bytes: u64,
    /// How it was made and what it amounts to.
    pub made: Made,
}

/// What `fsage age short-lived --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgeShortLived {
    /// The file written.
    pub file: PathBuf,
    /// Profiles: one directory's short-lived files on one day each.
    pub profiles: u64,
    /// Files of all of them.
    pub files: u64,
    /// Deletions that follow another one in the same directory within ten seconds, 0 to 1.
    pub together: f64,
    /// Of the others, those that follow another operation there within ten seconds, 0 to 1.
    pub near: f64,
    /// Mean of what lies between within these ten seconds, s.
    pub gap_s: f64,
}

document! {
    AgeShortLived, "fsage age short-lived", 1;
    AgeGenerated, "fsage age generate", 1;
}

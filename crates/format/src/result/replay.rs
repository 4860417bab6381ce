//! What a replay gave: plain data, stored and printed by others.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const REPLAY_FORMAT: &str = "fsage replay";

/// The version of [`Replay`] that this release writes.
pub const REPLAY_VERSION: u32 = 2;

/// The outcome of `fsage replay`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// Always `fsage replay`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "replay_version")]
    pub replay_version: u32,
    /// The trace's file.
    pub trace: String,
    /// What the trace says of the command that it is of.
    pub command: Vec<String>,
    /// The target, as it was asked for.
    pub target: String,
    /// The directory that was kept; absent where it was removed.
    pub kept: Option<String>,
    /// The snapshot of the tree of the start; absent where the trace alone told of it.
    pub snapshot: Option<String>,
    /// Which directories of the traced machine lie where below the target.
    pub mapped: Vec<Mapping>,
    /// When operations started: `afap`, `original`, `x2`, ….
    pub speed: String,
    /// What waited for what: `process`, `file` or `strict`.
    pub order: String,
    /// Where the bytes that were written come from.
    pub seed: u64,
    /// The tree of the start.
    pub built: BuiltTree,
    /// The caches before the first operation: `warm` (as the making of the tree left them: what was
    /// written is still cached) or `cold`; empty in results of releases that did not tell.
    #[serde(default)]
    pub caches: String,
    /// How they were made cold, and what that covers; absent for warm ones.
    #[serde(default)]
    pub made_cold: Option<String>,
    /// Operations of the trace.
    pub operations: u64,
    /// Those that ran on the target.
    pub replayed: u64,
    /// Operations without a call on the target, by reason: `free` (they cost a file system nothing),
    /// `outside` (of what is replayed), `not_a_file`, `unreadable_path`, `unknown_descriptor`,
    /// `program_error` (they failed in the program), `failed_then` (they failed for a reason that the target
    /// need not have, and would change something), `no_call` (no call stands for the kind), `impossible`
    /// (no file system can have done it), `no_thread` (the machine allows no more threads).
    pub skipped: BTreeMap<String, u64>,
    /// The same by kind of operation, then by reason.
    pub skipped_kinds: BTreeMap<String, BTreeMap<String, u64>>,
    /// What these took in the trace, nanoseconds; 0 in results of releases that did not tell.
    #[serde(default)]
    pub skipped_traced_ns: u64,
    /// Operations whose result was not the trace's: another error, or of a transfer another length.
    pub differ: u64,
    /// The first of them in the order of the trace.
    pub differences: Vec<ReplayDifference>,
    /// By kind, only kinds that ran.
    pub kinds: Vec<ReplayKind>,
    /// Times against the trace's.
    pub timing: ReplayTiming,
    /// Threads that ran at once, at most.
    pub threads: u64,
    /// The tree of the end held against the trace's; absent where it was not asked for.
    pub verified: Option<ReplayVerified>,
    /// Whether it was stopped before the trace ended.
    pub interrupted: bool,
    /// What must be known of all of it.
    pub warnings: Vec<String>,
}

impl Replay {
    /// Operations that change files and were left out, as the trace does not tell of their descriptors: what they did is
    /// in no tree that was compared.
    pub fn changes_untold(&self) -> u64 {
        let kinds = ["write", "copy_out", "splice_out", "ftruncate", "fallocate"].into_iter();
        let reasons = kinds.filter_map(|kind| self.skipped_kinds.get(kind));
        reasons
            .filter_map(|reasons| reasons.get("unknown_descriptor"))
            .sum()
    }
}

/// Where a directory lies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mapping {
    /// Absolute, on the traced machine.
    pub from: String,
    /// Below the target; empty for its root.
    pub to: String,
}

/// What was made before the first operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BuiltTree {
    /// Regular files.
    pub files: u64,
    /// Further names of files.
    pub links: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Files and directories among them that the trace links or renames from outside of what is replayed.
    #[serde(default)]
    pub incoming: u64,
}

/// One operation whose result was not the trace's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayDifference {
    /// Which operation of the trace, from 0, as `fsage show --ops` counts.
    pub row: u64,
    /// Its thread.
    pub tid: u32,
    /// Its kind.
    pub kind: String,
    /// Its name on the target, not UTF-8 replaced; empty for a call on an open file.
    pub name: String,
    /// The trace's result: a value, or an error number below 0.
    pub expected: i64,
    /// The target's, likewise.
    pub actual: i64,
}

/// Quantiles of times in nanoseconds, to three digits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayTimes {
    /// How many.
    #[serde(rename = "operations", alias = "count")]
    pub count: u64,
    /// Their sum.
    #[serde(rename = "latency_total_ns", alias = "total_ns")]
    pub total_ns: u64,
    /// Median.
    #[serde(rename = "latency_p50_ns", alias = "p50_ns")]
    pub p50_ns: u64,
    /// 99 % quantile.
    #[serde(rename = "latency_p99_ns", alias = "p99_ns")]
    pub p99_ns: u64,
    /// The longest.
    #[serde(rename = "latency_max_ns", alias = "max_ns")]
    pub max_ns: u64,
}

/// One kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayKind {
    /// Its name.
    pub kind: String,
    /// Operations that ran.
    pub operations: u64,
    /// Those whose result was not the trace's.
    pub differ: u64,
    /// Failures on the target by error number, expected ones included.
    pub errors: BTreeMap<i32, u64>,
    /// Latencies in the trace.
    pub traced: ReplayTimes,
    /// Latencies on the target.
    pub replayed: ReplayTimes,
}

/// Times of a replay against those of its trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayTiming {
    /// From the first start to the last end of what ran, in the trace, nanoseconds.
    pub traced_elapsed_ns: u64,
    /// What it should be at the speed asked for; absent as fast as possible.
    pub due_elapsed_ns: Option<u64>,
    /// What it was, nanoseconds.
    pub replayed_elapsed_ns: u64,
    /// What it was over what it should be (over the traced one as fast as possible); absent for a trace
    /// without duration.
    pub ratio: Option<f64>,
    /// How far starts were from when they were due; absent as fast as possible.
    pub start_error: Option<ReplayTimes>,
}

/// The tree of the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayVerified {
    /// Names that the trace leads to.
    pub names: u64,
    /// Names that are missing, unexpected or of another type, size or target.
    pub wrong: u64,
    /// The first of them in the order of their names.
    pub first: Vec<WrongName>,
    /// Operations that changed names or sizes in the trace and have no call on a target, or none for all of it, by kind: what
    /// they did is in neither of the trees that were compared.
    #[serde(default)]
    pub not_verified: BTreeMap<String, u64>,
}

/// A name that is not as the trace leads to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongName {
    /// Below the target, not UTF-8 replaced.
    pub name: String,
    /// What is wrong.
    pub problem: String,
}

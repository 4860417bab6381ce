//! What the model knows of a trace, for a person; and how far two traces are apart.

use std::path::PathBuf;

use fsage_core::OpKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::characterization::Characterization;
use super::document;

/// What `fsage show TRACE --characterise --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Characterised {
    /// The trace.
    pub trace: PathBuf,
    /// Operations on files below the directories that were asked for: what all but the next fields count.
    pub operations_on_files: u64,
    /// Times in which the mix of operations is the same, one after the other.
    pub phases: Vec<PhaseStats>,
    /// Processes and threads that behave alike, most operations first.
    pub groups: Vec<GroupStats>,
    /// How soon pages are used again.
    pub reuse: Reuse,
    /// How operations spread over files.
    pub popularity: Popularity,
    /// What ran at once.
    pub concurrency: Concurrency,
    /// What happened in equal pieces of time.
    pub timeline: Timeline,
    /// What `fsage show TRACE --json` says of all operations.
    #[serde(flatten)]
    pub found: Characterization,
}

/// A time in which the mix of operations is the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStats {
    /// When it starts, nanoseconds since the first operation.
    pub start_ns: u64,
    /// Until the next one starts, or the last operation.
    pub span_ns: u64,
    /// Operations.
    pub operations: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// The mix, most operations first.
    pub kinds: Vec<KindCount>,
}

/// Operations of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KindCount {
    /// The kind.
    #[schemars(with = "String")]
    pub kind: OpKind,
    /// How many.
    pub operations: u64,
}

/// Processes and threads that behave alike: what they do to a file in one go, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStats {
    /// Processes and threads.
    pub processes: u64,
    /// The most of them at once.
    pub at_once: u64,
    /// The processes that they are or belong to, by their numbers: the first sixteen.
    pub pids: Vec<u32>,
    /// Operations.
    pub operations: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of their latencies.
    pub latency_total_ns: u64,
    /// The mix, most operations first.
    pub kinds: Vec<KindCount>,
}

/// How soon pages are used again. A page has 4096 bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reuse {
    /// Page accesses by reads, writes and faults.
    pub page_accesses: u64,
    /// Distinct pages, in bytes.
    pub footprint_bytes: u64,
    /// Share of the pages that were followed; 100 as long as there are not more than half a million, chosen by a hash
    /// from then on (Waldspurger 2015).
    pub sampled_percent: f64,
    /// What caches would have, that go by the last use and are empty at first: from 64 KiB in powers of two to
    /// the first that has room for all.
    pub hits: Vec<CacheHits>,
}

/// What a cache has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheHits {
    /// Its size.
    pub cache_bytes: u64,
    /// Share of the page accesses that it has.
    pub hit_percent: f64,
}

/// How operations spread over files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Popularity {
    /// Names of files that an operation was on.
    pub files: u64,
    /// Operations on them.
    pub operations: u64,
    /// What share of the operations the most used files have.
    pub shares: Vec<PopularityShare>,
}

/// The most used files.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PopularityShare {
    /// So many of the files, percent; at least one.
    pub files_percent: f64,
    /// Have so many of the operations, percent.
    pub operations_percent: f64,
}

/// What ran at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Concurrency {
    /// Threads that did something to a file.
    pub threads: u64,
    /// The most of them at once, each from its first operation to its last.
    pub threads_at_once: u64,
    /// Operations by how many others were under way when they began: element N counts N others, the last one
    /// everything from 63 on.
    pub others_under_way: Vec<u64>,
}

/// What happened in equal pieces of time; operations count where they began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Length of a piece.
    pub piece_ns: u64,
    /// Operations.
    pub operations: Vec<u64>,
    /// Bytes read.
    pub bytes_read: Vec<u64>,
    /// Bytes written.
    pub bytes_written: Vec<u64>,
    /// Distinct pages used in the piece (Denning's working set), in bytes.
    pub working_set_bytes: Vec<u64>,
    /// Distinct pages used until its end, in bytes.
    pub footprint_bytes: Vec<u64>,
    /// Threads that did something.
    pub threads: Vec<u64>,
}

/// What `fsage show A --against B --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Likeness {
    /// Whether they are the same workload, by what two runs of one workload differ by.
    pub verdict: Verdict,
    /// The mean of the distances of all measures, 0 to 1.
    pub distance: f64,
    /// The worst of them.
    pub distance_worst: f64,
    /// By each measure.
    pub measures: Vec<MeasureDistance>,
    /// What the verdict goes by.
    pub reference: LikenessReference,
    /// One trace.
    pub a: Characterised,
    /// The other.
    pub b: Characterised,
}

/// Whether two traces are of the same workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They are no further apart than two runs of one workload with different seeds.
    Same,
    /// Further, but nearer than any two different workloads of the reference.
    Alike,
    /// As far apart as different workloads.
    Different,
}

/// How far two traces are apart by one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureDistance {
    /// The measure.
    pub name: String,
    /// 0: the same; 1: nothing in common. Absent where neither trace has any of it, or one does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// What it is.
    pub what: String,
    /// The trace that does not tell it, where the other does: then it counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_told_by: Option<PathBuf>,
}

/// Distances that were measured on workloads of fsage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LikenessReference {
    /// Two seeds of one workload have at most this distance.
    pub seeds_distance: f64,
    /// And this by their worst measure.
    pub seeds_distance_worst: f64,
    /// Two different workloads have at least this distance.
    pub others_distance: f64,
}

document! {
    Characterised, "fsage characterised trace", 1;
    Likeness, "fsage likeness of traces", 1;
}

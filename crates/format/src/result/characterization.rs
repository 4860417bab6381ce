//! What a stream of operations is like: its mix, sizes, locality and footprint.

use std::collections::BTreeSet;

use fsage_core::OpKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a stream of operations is like. Units stand in the names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Characterization {
    /// Operations taken.
    pub operations: u64,
    /// Operations that the capture lost.
    #[serde(rename = "operations_lost", alias = "lost")]
    pub lost: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Bytes read from files.
    pub bytes_read: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
    /// Bytes moved through descriptors that are not files.
    pub bytes_not_files: u64,
    /// From the first start to the last end, in nanoseconds.
    pub span_ns: u64,
    /// Sum of the latencies of all operations in nanoseconds.
    pub latency_total_ns: u64,
    /// Operations without a latency.
    pub latency_unknown: u64,
    /// The mix, most time first.
    pub kinds: Vec<KindStats>,
    /// Requested sizes of reads.
    pub read_sizes: Vec<SizeBucket>,
    /// Requested sizes of writes.
    pub write_sizes: Vec<SizeBucket>,
    /// Sizes of the regular files touched, as last seen.
    pub file_sizes: Vec<SizeBucket>,
    /// Where reads start.
    pub reads: AccessPattern,
    /// Where writes start.
    pub writes: AccessPattern,
    /// Open files and operations over time.
    pub over_time: TimeSeries,
    /// The most descriptors open at once, of those opened in the stream.
    pub open_files_max: u64,
    /// Processes, most operations first.
    pub processes: Vec<ProcessStats>,
    /// Operations of processes beyond those listed.
    pub processes_other_operations: u64,
    /// The files with most time, most first.
    #[serde(default)]
    pub files_hottest: Vec<NameStats>,
    /// The directories in which most time went to files and names, most first.
    #[serde(default)]
    pub directories_hottest: Vec<NameStats>,
    /// What threads did between their operations; absent if the capture cannot know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<Pauses>,
    /// How the page cache did as captured; `None` if the capture cannot know.
    pub page_cache: Option<PageCache>,
    /// Distinct files by identity; directories, pipes and the like are none.
    pub distinct_files: u64,
    /// Distinct directories that were used, or in which names were.
    pub distinct_directories: u64,
    /// Whether the distinct counts and file sizes stopped at a limit and are lower bounds.
    pub distinct_capped: bool,
    /// How deep names lie.
    pub depth: Depth,
}

impl Characterization {
    /// Numbers that several processes had, one after the other.
    pub fn shared_numbers(&self) -> BTreeSet<u32> {
        let mut seen = BTreeSet::new();
        let numbers = self.processes.iter().map(|process| process.pid);
        numbers.filter(|&pid| !seen.insert(pid)).collect()
    }
}

/// What threads did between their operations, summed over all, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pauses {
    /// They worked.
    pub worked_ns: u64,
    /// They were ready to, behind others on the processors.
    pub ready_ns: u64,
    /// They waited for other threads of the trace.
    pub waited_ns: u64,
    /// They slept until a timer, a device or somebody outside of the trace ended it.
    pub asleep_ns: u64,
}

/// One kind's share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindStats {
    /// The kind's name.
    #[schemars(with = "String")]
    pub kind: OpKind,
    /// Operations.
    #[serde(rename = "operations", alias = "count")]
    pub count: u64,
    /// Of them failed.
    pub errors: u64,
    /// Sum of latencies in nanoseconds.
    pub latency_total_ns: u64,
    /// Share of the total latency, in percent.
    pub latency_percent: f64,
    /// Median latency in nanoseconds, of an even number the mean of the two in the middle; quantiles are exact to 1 %, and each
    /// is the smallest latency that so many do not exceed. `None` without any latency.
    pub latency_p50_ns: Option<u64>,
    /// 90th percentile.
    pub latency_p90_ns: Option<u64>,
    /// 99th percentile.
    pub latency_p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub latency_p999_ns: Option<u64>,
    /// The largest, exact.
    pub latency_max_ns: Option<u64>,
}

/// Sizes from `low_bytes` to under twice of it (the first bucket: exactly 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeBucket {
    /// The smallest size of the bucket.
    pub low_bytes: u64,
    /// The largest size of the bucket.
    pub high_bytes: u64,
    /// How many fell into it.
    pub count: u64,
    /// Their sizes summed, in bytes.
    pub total_bytes: u64,
}

/// How accesses follow each other in open files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccessPattern {
    /// Started where the last one ended.
    pub sequential: u64,
    /// Started elsewhere.
    pub random: u64,
    /// Offset or file unknown.
    pub unknown: u64,
    /// Sequential share of those known, in percent; `None` without any.
    pub sequential_percent: Option<f64>,
    /// Bytes moved by the sequential ones.
    pub sequential_bytes: u64,
    /// Bytes moved by the others.
    pub random_bytes: u64,
}

/// What happened in equal pieces of time; the last piece may be cut short.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSeries {
    /// Length of a piece in nanoseconds: the smallest power of two of microseconds that needs no
    /// more than 512 pieces.
    pub piece_ns: u64,
    /// The most descriptors open at once in each piece.
    pub open_files_max: Vec<u64>,
    /// Operations started in each piece.
    pub operations: Vec<u64>,
}

/// One process's share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessStats {
    /// Its number; after a process has ended another one may have it.
    pub pid: u32,
    /// The program that it ran, the last if several; absent where that is unknown.
    #[serde(default)]
    pub name: Option<String>,
    /// The process that began it; absent where that is unknown.
    #[serde(default)]
    pub parent_pid: Option<u32>,
    /// Its operations.
    pub operations: u64,
    /// Bytes that it read from files.
    pub bytes_read: u64,
    /// Bytes that it wrote to files.
    pub bytes_written: u64,
    /// Sum of its latencies in nanoseconds.
    pub latency_total_ns: u64,
}

/// One file's or directory's share. A file is told by its name: one that was made anew under the same name is
/// the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NameStats {
    /// Its path by the spelling of programs; bytes that are not UTF-8 are escaped as `\\xNN`.
    pub path: String,
    /// Operations on it; of a directory, on what lies directly in it.
    pub operations: u64,
    /// Bytes read from it.
    pub bytes_read: u64,
    /// Bytes written to it.
    pub bytes_written: u64,
    /// Sum of their latencies in nanoseconds.
    pub latency_total_ns: u64,
}

/// Pages of reads whose misses the capture knows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageCache {
    /// Pages requested.
    pub pages_requested: u64,
    /// Of them missed.
    pub pages_missed: u64,
    /// Pages read beyond the requests.
    pub pages_ahead: u64,
    /// Share of the requested pages that was cached, in percent.
    pub hit_percent: f64,
}

/// Components of the names used, from the root where the directory is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Depth {
    /// Mean over operations; `None` without any.
    pub mean: Option<f64>,
    /// The deepest.
    pub max: u64,
    /// Operations by depth: element N counts depth N, the last one everything from 63 on.
    pub operations: Vec<u64>,
}

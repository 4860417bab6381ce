//! What `fsage run` found: plain data, stored and printed by others.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;
use super::environment::Environment;
use super::layout::Layout;
use crate::profile::older;

/// What the field `format` says.
pub const RUN_FORMAT: &str = "fsage run";

/// The version of [`WorkloadRun`] that this release writes.
pub const RUN_VERSION: u32 = 3;

/// One run of a workload on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadRun {
    /// Always `fsage run`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "run_version")]
    pub run_version: u32,
    /// The workload with every parameter: this text alone repeats the run.
    pub workload: String,
    /// Where its random sequence started; absent for a workload without one.
    pub seed: Option<u64>,
    /// The target as it was asked for.
    pub target: String,
    /// The machine and the target.
    #[serde(deserialize_with = "older::environment")]
    pub environment: Environment,
    /// Wall clock at the start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// How long all of it took, nanoseconds; absent in results of version 1.
    #[serde(default)]
    pub elapsed_ns: Option<u64>,
    /// How long run phases were to last, nanoseconds; absent where the parameters say how much.
    pub run_for_ns: Option<u64>,
    /// After how many operations each stream of a run phase was to end; absent likewise.
    pub operations_per_stream: Option<u64>,
    /// How much of what was written a compressor takes away, in hundredths.
    pub compressible_percent: u8,
    /// The phases that ran, in their order; empty for a command.
    pub phases: Vec<PhaseRun>,
    /// What a command took; absent for a generated workload.
    pub command: Option<CommandRun>,
    /// The operation whose error ended the run, where one did.
    pub failed: Option<Unexpected>,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// What disturbed it: other processes, the hypervisor, waiting for a processor. Absent in results of older
    /// releases, which did not look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// What must be known of all of it.
    pub warnings: Vec<String>,
}

/// One phase. Its streams ran at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRun {
    /// `setup`, `run` or `teardown`.
    pub role: String,
    /// What it does.
    pub name: String,
    /// What each of the streams did that ran at once, in their order.
    pub streams: Vec<StreamRun>,
    /// How caches were made cold before it; absent where the phase did not ask for it, or it could
    /// not be done (then a warning says so).
    pub cold: Option<String>,
    /// From the first stream's start to the last one's end, nanoseconds.
    pub elapsed_ns: u64,
    /// Operations that ran.
    pub operations: u64,
    /// Operations for each second of `elapsed_ns`.
    pub operations_per_s: f64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Sum of the latencies of all operations, nanoseconds.
    pub latency_total_ns: u64,
    /// Processor time of the streams' threads, nanoseconds.
    pub cpu_ns: u64,
    /// Time that these threads were runnable and did not run, nanoseconds; absent where the kernel
    /// does not say.
    pub run_delay_ns: Option<u64>,
    /// By kind of operation, those that ran.
    pub kinds: Vec<KindRun>,
    /// Operations that have no call on a target, by kind.
    pub skipped: BTreeMap<String, u64>,
    /// Operations that did not end as the workload expected.
    pub unexpected: u64,
    /// The first of them.
    pub mismatches: Vec<Unexpected>,
    /// Width of a point of `series`, nanoseconds.
    pub series_interval_ns: u64,
    /// What ended in each interval since the phase's start.
    pub series: Vec<RunPoint>,
    /// How the files that it is about lay after it, of a workload whose result says nothing without that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Box<Layout>>,
}

/// One stream of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamRun {
    /// From its start to its end, nanoseconds.
    pub elapsed_ns: u64,
    /// Operations that ran.
    pub operations: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// One kind of operation. Quantiles to three digits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindRun {
    /// Name of the kind.
    pub kind: String,
    /// Operations that ran, failed ones included.
    #[serde(rename = "operations", alias = "count")]
    pub count: u64,
    /// Sum of their latencies, nanoseconds.
    pub latency_total_ns: u64,
    /// Mean latency, nanoseconds.
    #[serde(rename = "latency_mean_ns", alias = "mean_ns")]
    pub mean_ns: f64,
    /// Shortest latency, nanoseconds.
    #[serde(rename = "latency_min_ns", alias = "min_ns")]
    pub min_ns: u64,
    /// Median, nanoseconds.
    #[serde(rename = "latency_p50_ns", alias = "p50_ns")]
    pub p50_ns: u64,
    /// 90 % quantile, nanoseconds.
    #[serde(rename = "latency_p90_ns", alias = "p90_ns")]
    pub p90_ns: u64,
    /// 95 % quantile, nanoseconds.
    #[serde(rename = "latency_p95_ns", alias = "p95_ns")]
    pub p95_ns: u64,
    /// 99 % quantile, nanoseconds.
    #[serde(rename = "latency_p99_ns", alias = "p99_ns")]
    pub p99_ns: u64,
    /// 99.9 % quantile, nanoseconds.
    #[serde(rename = "latency_p999_ns", alias = "p999_ns")]
    pub p999_ns: u64,
    /// Longest latency, nanoseconds.
    #[serde(rename = "latency_max_ns", alias = "max_ns")]
    pub max_ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failures by the error's symbol (`ENOENT`), expected ones included.
    pub errors: BTreeMap<String, u64>,
    /// Operations that did not end as the workload expected.
    pub unexpected: u64,
    /// The distribution: pairs of latency in nanoseconds and operations.
    pub distribution: Vec<(u64, u64)>,
}

/// One operation that did not end as the workload expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unexpected {
    /// The phase.
    pub phase: String,
    /// Which stream, from 0.
    pub stream: u64,
    /// Which operation of it, from 0.
    pub index: u64,
    /// What it was.
    pub kind: String,
    /// Its path; empty for one on a descriptor.
    pub path: String,
    /// What the workload expected: a value, or an error's symbol.
    pub expected: String,
    /// What the target gave, likewise.
    pub actual: String,
}

impl Unexpected {
    /// What it was and how it ended, in words.
    pub fn in_words(&self) -> String {
        let path = match self.path.as_str() {
            "" => String::new(),
            path => format!(" of {path}"),
        };
        let (kind, actual, expected) = (&self.kind, &self.actual, &self.expected);
        format!("{kind}{path} gave {actual} instead of {expected}")
    }
}

/// What ended in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunPoint {
    /// Operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Sum of latencies, nanoseconds.
    #[serde(rename = "latency_total_ns", alias = "latency_ns")]
    pub latency_ns: u64,
}

/// What a command and all of its children took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRun {
    /// What sh ran.
    pub command: String,
    /// Its exit status; absent where a signal ended it.
    pub exit_status: Option<i32>,
    /// That signal.
    pub exit_signal: Option<i32>,
    /// Wall clock, nanoseconds.
    pub elapsed_ns: u64,
    /// Processor time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Processor time in the kernel, nanoseconds.
    pub system_ns: u64,
    /// Time that its threads were ready to run and did not, all together, of those that ended before it
    /// did, nanoseconds; absent where the kernel does not tell the ends of threads (it tells root).
    pub run_delay_ns: Option<u64>,
    /// How many threads that is.
    pub threads: Option<u64>,
    /// Largest resident size of one process, bytes; absent where the kernel tells no more than that of whoever began it.
    pub max_resident_bytes: Option<u64>,
    /// Bytes read from devices on the command's behalf.
    pub device_read_bytes: u64,
    /// Bytes written to devices on the command's behalf.
    pub device_written_bytes: u64,
    /// Page faults that needed no I/O.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times that a process gave the processor up.
    pub voluntary_switches: u64,
    /// Times that it was taken away.
    pub involuntary_switches: u64,
    /// A process of its own that still ran when it had ended, in words; absent where none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_running: Option<String>,
}

/// One workload that can be run, as `fsage workloads` tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub what: String,
    /// What its results tell, and what they do not.
    pub good_for: String,
    /// Where it is described.
    pub source: String,
    /// Its parameters.
    pub parameters: Vec<ParameterInfo>,
    /// Its configurations, chosen with `config=NAME`.
    pub configs: Vec<ConfigInfo>,
}

/// A parameter of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParameterInfo {
    /// Its name.
    pub name: String,
    /// Its value where the workload does not say.
    pub default: String,
    /// What can be written, with its range.
    pub expected: String,
    /// What it means.
    pub what: String,
}

/// Values of parameters that belong together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigInfo {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub what: String,
    /// What it sets, as it would be written.
    pub values: String,
}

/// The workloads there are: what `fsage workloads --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadList {
    /// Each workload.
    pub workloads: Vec<WorkloadInfo>,
}

document! {
    WorkloadList, "fsage workloads", 1;
}

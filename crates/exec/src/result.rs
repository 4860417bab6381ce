//! What a run gave.

use std::collections::BTreeMap;

use fsage_core::OpKind;
use fsage_host::observe::Usage;
use serde::{Deserialize, Serialize};

/// What a run of one or more streams gave. Times are the target's clock's, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunResult {
    /// Operations that ran.
    pub operations: u64,
    /// From the first stream's start to the last one's end.
    pub elapsed_ns: u64,
    /// Sum of the latencies of all operations.
    pub latency_total_ns: u64,
    /// Processor time of all streams' threads.
    pub cpu_ns: u64,
    /// Time that these threads were runnable and did not run; `None` where the kernel does not say.
    pub run_delay_ns: Option<u64>,
    /// How their processor time divides, and what interrupted it.
    #[serde(default)]
    pub usage: Usage,
    /// Bytes read and written.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// What each stream did, in their order.
    pub streams: Vec<StreamResult>,
    /// Results by kind, only kinds that ran.
    pub kinds: BTreeMap<OpKind, KindResult>,
    /// Operations without a call on a target, by kind.
    pub skipped: BTreeMap<OpKind, u64>,
    /// Operations whose result was not the one that the stream expected.
    pub unexpected: u64,
    /// The first of them.
    pub mismatches: Vec<Mismatch>,
    /// The operation whose error ended the run, where one did.
    pub broken: Option<Mismatch>,
    /// Width of a point of the series; 0 where none was kept.
    pub series_interval_ns: u64,
    /// What ended in each interval since the start.
    pub series: Vec<SeriesPoint>,
    /// Whether the run was stopped, or broke off, before its streams ended or its time was over.
    pub interrupted: bool,
}

/// What one stream did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StreamResult {
    /// From its start to its end.
    pub elapsed_ns: u64,
    /// Operations that ran.
    pub operations: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// Results of one kind of operation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct KindResult {
    /// Operations that ran, failed ones included.
    pub count: u64,
    /// Sum of their latencies.
    pub latency_total_ns: u64,
    /// Shortest latency.
    pub min_ns: u64,
    /// Median latency; this and the following to three digits.
    pub p50_ns: u64,
    /// 90 % quantile.
    pub p90_ns: u64,
    /// 95 % quantile.
    pub p95_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// 99.9 % quantile.
    pub p999_ns: u64,
    /// Longest latency.
    pub max_ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Failures by error number, expected ones included.
    pub errors: BTreeMap<i32, u64>,
    /// Operations whose result was not the one that the stream expected.
    pub unexpected: u64,
    /// The distribution: (latency in nanoseconds, operations), three digits.
    pub distribution: Vec<(u64, u64)>,
}

/// One operation whose result was not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// Which stream, from 0.
    pub stream: usize,
    /// Which operation of it, from 0.
    pub index: u64,
    /// What it was.
    pub kind: OpKind,
    /// Its path, not UTF-8 replaced; empty for none.
    pub path: String,
    /// What the stream expected: a value, or an error number below 0.
    pub expected: i64,
    /// What the target gave, likewise.
    pub actual: i64,
}

/// What ended in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Operations.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Sum of latencies.
    pub latency_ns: u64,
}

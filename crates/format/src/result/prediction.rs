//! What a prediction says: plain data, stored and printed by others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const PREDICTION_FORMAT: &str = "fsage prediction";

/// The version of [`Prediction`] that this release writes.
pub const PREDICTION_VERSION: u32 = 2;

/// The outcome of `fsage predict`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Always `fsage prediction`.
    pub format: String,
    /// Version of this structure.
    pub prediction_version: u32,
    /// Operations in the trace.
    pub operations: u64,
    /// Operations on the traced file system; only these are charged.
    pub operations_charged: u64,
    /// From the first operation's start to the last one's end in the trace, nanoseconds.
    pub traced_run_ns: u64,
    /// Latency of the charged operations as traced, nanoseconds; 0 where the trace has none.
    pub traced_latency_ns: u64,
    /// Replacement policy of the page cache: `linux` or `lru`.
    pub cache: String,
    /// State of the caches at the start: `cold` or `warm`.
    pub start: String,
    /// What-if changes that were applied to the second column, as they were written.
    pub what_if: Vec<String>,
    /// One for each system, in the order given.
    pub targets: Vec<TargetPrediction>,
    /// The systems from the fastest to the slowest, by predicted latency.
    pub ranking: Vec<Ranked>,
    /// How sure the order of each pair is.
    pub pairs: Vec<PairRank>,
    /// What must be known of all of it.
    pub warnings: Vec<String>,
}

/// The prediction for one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPrediction {
    /// The system.
    pub name: String,
    /// Sum of the predicted latencies of all charged operations, nanoseconds.
    pub latency_total_ns: f64,
    /// Its 95 % interval, from the intervals of the profile.
    pub latency_interval_ns: (f64, f64),
    /// The part of it that the device works, nanoseconds.
    pub device_ns: f64,
    /// The part of it that operations wait because of other threads: for a processor, or for the
    /// device while that works for others, nanoseconds; an estimate without an interval.
    #[serde(default)]
    pub waiting_ns: f64,
    /// Predicted elapsed time: the trace's think times with these latencies, threads sharing the
    /// machine's processors and queueing at one device, nanoseconds. Without `writeback_ns`.
    pub elapsed_ns: f64,
    /// Predicted overhead of what is written behind (Smith 2001, eq. 4), nanoseconds; beside
    /// `latency_total_ns`, not in it.
    pub writeback_ns: f64,
    /// The slowdown in it: 0.1 is 10 % longer.
    pub writeback_slowdown: f64,
    /// Share of the traced run in which the file system is active, at most 1.
    pub utilization: f64,
    /// KiB written for each second of the traced run.
    pub write_kib_per_s: f64,
    /// By kind of operation, those that occur.
    pub kinds: Vec<KindPrediction>,
    /// Page, name and attribute cache.
    pub caches: Caches,
    /// Where the time goes: every metric that was used, the largest first.
    pub metrics: Vec<MetricShare>,
    /// The same with the what-if changes; absent without any.
    pub what_if: Option<Changed>,
    /// Substitutes and other things that make this system's numbers less sure.
    pub warnings: Vec<String>,
}

/// One kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindPrediction {
    /// Name of the kind.
    pub kind: String,
    /// Charged operations.
    pub count: u64,
    /// Sum of their predicted latencies, nanoseconds.
    pub latency_ns: f64,
    /// The part of it that they wait because of other threads, nanoseconds.
    #[serde(default)]
    pub waiting_ns: f64,
    /// Its 95 % interval.
    pub interval_ns: (f64, f64),
    /// Share of the total.
    pub share: f64,
}

/// Accesses and hits of the caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Caches {
    /// Pages.
    pub page: CacheUse,
    /// Names.
    pub name: CacheUse,
    /// Attributes.
    pub attribute: CacheUse,
}

/// One cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheUse {
    /// Accesses.
    pub accesses: u64,
    /// Those that hit.
    pub hits: u64,
    /// hits / accesses; absent without accesses.
    pub hit_rate: Option<f64>,
}

impl CacheUse {
    /// From counts.
    pub fn new(accesses: u64, hits: u64) -> Self {
        let hit_rate = (accesses > 0).then(|| hits as f64 / accesses as f64);
        Self {
            accesses,
            hits,
            hit_rate,
        }
    }
}

/// What one metric contributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricShare {
    /// Its name.
    pub name: String,
    /// Its weight in the summed request vector: KiB for rates, a count otherwise.
    pub weight: f64,
    /// The time it stands for, nanoseconds.
    pub time_ns: f64,
    /// Share of the total.
    pub share: f64,
}

/// The column of what-if.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Total latency with the changes, nanoseconds.
    pub latency_total_ns: f64,
    /// Its 95 % interval.
    pub latency_interval_ns: (f64, f64),
    /// It minus the total without them.
    pub difference_ns: f64,
    /// Overhead of writing behind with the changes, nanoseconds.
    pub writeback_ns: f64,
    /// Predicted elapsed time with the changes, nanoseconds; absent where it was not followed.
    #[serde(default)]
    pub elapsed_ns: Option<f64>,
    /// By kind, in the order of [`TargetPrediction::kinds`].
    pub kinds: Vec<ChangedKind>,
}

/// A kind in the column of what-if.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedKind {
    /// Name of the kind.
    pub kind: String,
    /// Latency with the changes, nanoseconds.
    pub latency_ns: f64,
    /// It minus the latency without them.
    pub difference_ns: f64,
}

/// A system's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranked {
    /// 1 is the fastest.
    pub place: u32,
    /// The system.
    pub name: String,
    /// Its total latency, nanoseconds.
    pub latency_total_ns: f64,
    /// Its total over that of the fastest.
    pub ratio: f64,
}

/// How sure an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The intervals are apart, and so are the totals by more than the model is ever wrong by.
    Sure,
    /// More likely than not.
    Likely,
    /// The intervals or the model's own error are as large as the difference.
    NotDistinguishable,
}

/// The order of two systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRank {
    /// The faster one.
    pub faster: String,
    /// The slower one.
    pub slower: String,
    /// The slower one's total over the faster one's.
    pub ratio: f64,
    /// How sure it is.
    pub confidence: Confidence,
    /// Difference of the totals over its standard error, from the profiles alone.
    pub z: f64,
}

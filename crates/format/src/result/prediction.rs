//! What a prediction says: plain data, stored and printed by others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const PREDICTION_FORMAT: &str = "fsage prediction";

/// The version of [`Prediction`] that this release writes.
pub const PREDICTION_VERSION: u32 = 4;

/// The outcome of `fsage predict`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Always `fsage prediction`.
    pub format: String,
    /// Version of this structure.
    #[serde(alias = "prediction_version")]
    pub version: u32,
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
    /// The systems from the fastest to the slowest, by predicted elapsed time; those alone whose totals
    /// are whole.
    pub ranking: Vec<Ranked>,
    /// How sure the order of each pair of them is.
    pub pairs: Vec<PairRank>,
    /// What the trace's own latencies told of the costs, where the profile of the system it was made on is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextRecord>,
    /// What must be known of all of it.
    pub warnings: Vec<String>,
}

/// By what costs were corrected: calls in the trace, beside what the profile of the system it was made on says of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextRecord {
    /// The system that the trace was made on.
    pub system: String,
    /// Kinds of calls.
    pub classes: Vec<ContextClass>,
}

/// Calls of one kind on the system that the trace was made on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContextClass {
    /// The kind of operation.
    pub kind: String,
    /// How many there were.
    pub operations: u64,
    /// What they took in the trace, nanoseconds.
    pub measured_ns: f64,
    /// What they are predicted to take there, waiting included, nanoseconds.
    pub predicted_ns: f64,
    /// By what the part of their cost is multiplied, on every system, that is not larger than on this one; nearer to 1
    /// than measured by predicted, the more so of few calls.
    pub factor: f64,
}

/// The prediction for one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPrediction {
    /// The system.
    pub name: String,
    /// What the totals lack; null where they are whole. Then there are no totals, and it has no place.
    #[serde(default)]
    pub incomplete: Option<Incomplete>,
    /// Sum of the predicted latencies of all charged operations, nanoseconds; null where costs are
    /// missing.
    pub latency_total_ns: Option<f64>,
    /// Its 95 % interval, from the intervals of the profile and the error that the model had where it
    /// was measured; null where that is too wide to be of use.
    pub latency_interval_ns: Option<(f64, f64)>,
    /// The part of it that the device works, nanoseconds.
    pub device_ns: f64,
    /// The part of it that operations wait because of other threads: for the device while that works
    /// for others, for locks of files, or for others in calls of the kind, nanoseconds; an estimate without an interval.
    #[serde(default)]
    pub waiting_ns: f64,
    /// What they wait for a processor before they can end, nanoseconds: beside `latency_total_ns`, not in
    /// it, but in the elapsed time and in what a tracer measures; version 3 of earlier releases had it in
    /// `waiting_ns`.
    #[serde(default)]
    pub processor_wait_ns: f64,
    /// Predicted elapsed time: the trace's think times with these latencies, threads sharing the
    /// machine's processors and queueing at one device, nanoseconds. Without `writeback_ns`; null
    /// where costs are missing.
    pub elapsed_ns: Option<f64>,
    /// Its 95 % interval; null where that is too wide to be of use.
    #[serde(default)]
    pub elapsed_interval_ns: Option<(f64, f64)>,
    /// What the intervals are made of.
    #[serde(default)]
    pub uncertainty: Uncertainty,
    /// Predicted overhead of what is written behind (Smith 2001, eq. 4), nanoseconds; beside
    /// `latency_total_ns`, not in it.
    pub writeback_ns: f64,
    /// The slowdown in it: 0.1 is 10 % longer.
    pub writeback_slowdown: f64,
    /// Share of the traced run in which the file system is active, at most 1.
    pub utilization: f64,
    /// KiB written for each second of the traced run.
    pub write_kib_per_s: f64,
    /// How fast the machine is taken to be: what its reference work takes, nanoseconds; null where the profile does
    /// not say.
    #[serde(default)]
    pub reference_ns: Option<u64>,
    /// By kind of operation, those that occur.
    pub kinds: Vec<KindPrediction>,
    /// Page, name and attribute cache.
    pub caches: Caches,
    /// Where the time goes: every metric that was used, the largest first.
    pub metrics: Vec<MetricShare>,
    /// The same by family of metrics; the shares add up to 1.
    #[serde(default)]
    pub families: Vec<FamilyShare>,
    /// What would help most, the largest first: what-if changes, each alone.
    #[serde(default)]
    pub helps: Vec<Help>,
    /// The same with the what-if changes; absent without any.
    pub what_if: Option<Changed>,
    /// Substitutes and other things that make this system's numbers less sure.
    pub warnings: Vec<String>,
}

/// Costs that are missing from a system's totals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incomplete {
    /// The same in one line.
    pub reason: String,
    /// Families of metrics that the workload needs, were not measured and have no reasonable
    /// substitute; the most used first.
    pub missing: Vec<MissingCost>,
    /// What could be added up, nanoseconds: no total, and less than it by an unknown amount.
    pub partial_latency_ns: f64,
}

/// A cost that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingCost {
    /// The family of metrics.
    pub family: String,
    /// What it measures.
    pub what: String,
    /// How often the workload needs it.
    pub uses: u64,
    /// What would have stood in for it, without costing what it costs; null for nothing.
    pub stand_in: Option<String>,
}

/// What the intervals of a system's totals are made of. Errors are standard errors of the natural
/// logarithm: 0.1 is about 10 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Uncertainty {
    /// Of the total latency, from the intervals of the profile's metrics.
    pub profile: f64,
    /// Of the total latency, from what the model was off where it was measured: the scale of Student's
    /// t with 3 degrees of freedom.
    pub model: f64,
    /// Half of the 95 % interval of the total latency, as a logarithm: its ends are the total times
    /// and over exp of this.
    pub log_half_width: f64,
    /// What that is made of; their squares add up to its square.
    #[serde(default)]
    pub parts: Vec<IntervalPart>,
    /// Share of the time that stands on metrics whose interval is unknown.
    pub unknown_share: f64,
    /// These metrics, those of the most time first, as far as they hold 1 % of it.
    pub unknown: Vec<String>,
    /// Share of the time that stands on metrics that the profile marks as disturbed or doubtful.
    #[serde(default)]
    pub marked_share: f64,
    /// These metrics, those of the most time first, as far as they hold 1 % of it.
    #[serde(default)]
    pub marked: Vec<String>,
    /// How many of all metrics hold 1 % of the time.
    #[serde(default)]
    pub carrying: usize,
    /// Share of the time that hangs on where files lie to each other, where no snapshot tells it.
    #[serde(default)]
    pub unplaced_share: f64,
    /// What makes the interval doubtful or unusable, in one line; null for nothing.
    pub trouble: Option<String>,
}

/// A part of an interval's width.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalPart {
    /// Where it comes from.
    pub what: String,
    /// Half of the 95 % interval that there were if nothing else was uncertain, as a logarithm.
    pub log_half_width: f64,
}

/// One kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindPrediction {
    /// Name of the kind.
    pub kind: String,
    /// Charged operations.
    #[serde(rename = "operations", alias = "count")]
    pub count: u64,
    /// Sum of their predicted latencies, nanoseconds.
    #[serde(rename = "latency_total_ns", alias = "latency_ns")]
    pub latency_ns: f64,
    /// The part of it that they wait because of other threads, nanoseconds; a little below 0 where what they ask for comes
    /// sooner than it would alone.
    #[serde(default)]
    pub waiting_ns: f64,
    /// What they wait for a processor, nanoseconds; not in it.
    #[serde(default)]
    pub processor_wait_ns: f64,
    /// Its 95 % interval, as that of the total.
    #[serde(rename = "latency_interval_ns", alias = "interval_ns")]
    pub interval_ns: Option<(f64, f64)>,
    /// Share of the total latency, 0 to 1.
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
    /// What it measures, in words.
    #[serde(default)]
    pub what: String,
    /// Its weight in the summed request vector: KiB for rates, a count otherwise. Below 0 where a line
    /// through it is extended to larger sizes.
    pub weight: f64,
    /// The time it stands for, nanoseconds.
    pub time_ns: f64,
    /// Its part of the times above 0, 0 to 1.
    pub share: f64,
}

/// What a family of metrics contributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FamilyShare {
    /// Its name.
    pub family: String,
    /// What it measures, in words.
    pub what: String,
    /// The time it stands for, nanoseconds.
    pub time_ns: f64,
    /// Share of the latency without what is waited because of other threads, 0 to 1.
    pub share: f64,
}

/// With more of its time on metrics that the profile marks as disturbed a system has no place that is known.
pub const MARKED_MOST: f64 = 0.5;

/// What saves less than this share of the time is not said to help.
pub const HELP_SAID: f64 = 0.01;

/// A change and what it would save.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Help {
    /// As `--what-if` takes it.
    pub change: String,
    /// The same in words.
    pub what: String,
    /// Latency that it saves, nanoseconds: what its what-if says, or without its effect on what is waited where
    /// `elapsed_saved_ns` is null.
    pub saves_ns: f64,
    /// The same as a share of the total latency.
    pub share: f64,
    /// Elapsed time that its what-if saves, nanoseconds; null where it was not predicted.
    #[serde(default)]
    pub elapsed_saved_ns: Option<f64>,
}

/// The column of what-if: the prediction for the system as changed, in a pass of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Total latency with the changes, nanoseconds.
    pub latency_total_ns: f64,
    /// Its 95 % interval; null where that is too wide to be of use.
    pub latency_interval_ns: Option<(f64, f64)>,
    /// It minus the total without them.
    pub difference_ns: f64,
    /// Overhead of writing behind with the changes, nanoseconds.
    pub writeback_ns: f64,
    /// Predicted elapsed time with the changes, nanoseconds.
    #[serde(default)]
    pub elapsed_ns: f64,
    /// It minus the elapsed time without them.
    #[serde(default)]
    pub elapsed_difference_ns: f64,
    /// By kind, in the order of [`TargetPrediction::kinds`].
    pub kinds: Vec<ChangedKind>,
    /// Each change, as it was understood and what it did on this system.
    #[serde(default)]
    pub effects: Vec<ChangeEffect>,
}

/// What one change did on a system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEffect {
    /// The change as it was written.
    pub change: String,
    /// What was changed, in words.
    pub meaning: String,
    /// Why it changes nothing; null where it changes something.
    pub nothing: Option<String>,
}

/// A kind in the column of what-if.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedKind {
    /// Name of the kind.
    pub kind: String,
    /// Latency with the changes, nanoseconds.
    #[serde(rename = "latency_total_ns", alias = "latency_ns")]
    pub latency_ns: f64,
    /// It minus the latency without them.
    pub difference_ns: f64,
}

/// A system's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ranked {
    /// 1 is the fastest; not known where it is `disturbed`.
    pub place: u32,
    /// The system.
    pub name: String,
    /// Its elapsed time, nanoseconds.
    #[serde(default)]
    pub elapsed_ns: f64,
    /// Its total latency, nanoseconds.
    pub latency_total_ns: f64,
    /// Its elapsed time over that of the fastest.
    pub ratio: f64,
    /// Whether more than [`MARKED_MOST`] of its time stands on metrics that were disturbed when they were measured: its
    /// place is then not known.
    #[serde(default)]
    pub disturbed: bool,
    /// Its place in the order that the text tells, which is that of those that are not disturbed; absent for one that is,
    /// and where fewer than two others are left, of which no order is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place_told: Option<u32>,
}

/// How sure an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The order is right with a probability of 95 % or more.
    #[serde(alias = "sure")]
    Apart,
    /// With 75 % or more.
    Likely,
    /// With less; or both are profiles of one target.
    NotDistinguishable,
}

/// The order of two systems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairRank {
    /// The faster one.
    pub faster: String,
    /// The slower one.
    pub slower: String,
    /// The slower one's elapsed time over the faster one's.
    pub ratio: f64,
    /// That the faster one would be measured to be faster, 0.5 to 1: from the intervals of the
    /// profiles and the error of the model.
    #[serde(default)]
    pub probability: f64,
    /// How sure it is.
    pub confidence: Confidence,
    /// The slower one's total latency over the faster one's.
    #[serde(default)]
    pub latency_ratio: f64,
    /// That the faster one's total latency would be measured to be smaller, 0 to 1.
    #[serde(default)]
    pub latency_probability: f64,
    /// Whether both are profiles of one target, so that no difference is expected.
    #[serde(default)]
    pub same_target: bool,
}

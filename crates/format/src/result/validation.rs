//! Predictions held against measurement (Smith 2001, 4.5): its Tables 4.7 to 4.9 and Figure 4.8,
//! with what they leave out, the variation of the measurement itself.

mod judgement;

pub use judgement::{Cause, Figures, GroupFigures, Judgement, KindCause, NamedError, WrongRank};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const VALIDATION_FORMAT: &str = "fsage validation";

/// The file in a validation's directory.
pub const VALIDATION_FILE: &str = "validation.json";

/// The version of [`Validation`] that this release writes.
pub const VALIDATION_VERSION: u32 = 2;

/// The outcome of one `fsage validate`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Always `fsage validation`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "validation_version")]
    pub validation_version: u32,
    /// The release that wrote it.
    #[serde(rename = "fsage", alias = "fsage_version")]
    pub fsage_version: String,
    /// Start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// How long all of it took, nanoseconds; where every target's time is virtual, by their clocks.
    pub elapsed_ns: u64,
    /// Where the random order of runs started.
    pub seed: u64,
    /// Measured runs of each workload on each target.
    pub runs: u32,
    /// The target whose trace the predictions use; of the first target, where groups have others.
    pub trace_on: String,
    /// The CPU on which profiles and workloads were kept; `None` for any.
    pub cpu: Option<usize>,
    /// What the caches held when a workload began: `cold` or `warm`.
    #[serde(default)]
    pub cache: String,
    /// Tells one plan from another: a digest of everything that decides what a step measures.
    #[serde(default)]
    pub plan: String,
    /// Which half of the plan's workloads it is of, `open` or `sealed`; `None` where the plan seals none.
    #[serde(default)]
    pub half: Option<String>,
    /// Whether it was stopped before all runs were made.
    pub interrupted: bool,
    /// What the names of workloads stand for.
    pub workloads: Vec<NamedSpec>,
    /// What the names of targets stand for.
    #[serde(default)]
    pub targets: Vec<NamedTarget>,
    /// One for each workload and target (Table 4.7) that was measured and predicted.
    pub pairs: Vec<Pair>,
    /// What was measured and could not be predicted.
    #[serde(default)]
    pub not_predicted: Vec<NotPredicted>,
    /// What is said of the pairs: raw, and under `equal_speed` the same at equal speed of the machine.
    #[serde(flatten)]
    pub judgement: Judgement,
    /// Steps that failed and were passed over.
    #[serde(default)]
    pub failed: Vec<FailedStep>,
    /// Profiles and runs beside which other things went on: a line each, nothing where all was quiet.
    #[serde(default)]
    pub disturbed: Vec<String>,
    /// What went wrong or must be known: lossy traces, substitutes.
    pub notes: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// One workload on one target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The workload as it was asked for.
    pub workload: String,
    /// The target as it was asked for.
    pub target: String,
    /// The target's group; `None` for none.
    #[serde(default)]
    pub group: Option<String>,
    /// The target whose trace was predicted from.
    #[serde(default)]
    pub trace_on: String,
    /// Measured total latency of all operations on the target, mean of the runs, nanoseconds.
    pub measured_ns: f64,
    /// Each run's total.
    pub measured_runs_ns: Vec<u64>,
    /// How many of these, from the first on, are in nothing else that was measured here: what they took corrected the
    /// prediction, which the others judge. Absent for none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub traced_runs: u64,
    /// The 95 % interval of the mean (Student's; where that is wide, of a log-normal mean); absent for a single run, and
    /// where it says no more than that the mean is positive, as of two runs that differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_interval_ns: Option<(f64, f64)>,
    /// Standard deviation of the runs over their mean; `None` for a single run. No prediction can be
    /// expected to come closer.
    pub measured_variation: Option<f64>,
    /// Predicted total latency, nanoseconds: raw, for the speed that the machine had when the target was profiled, as all
    /// of the pair but `equal_speed`.
    pub predicted_ns: f64,
    /// The same corrected by the run that it is judged by, for the order of targets alone: the others are corrected by
    /// that one, too. `None` where it is no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranked_ns: Option<f64>,
    /// The raw prediction's 95 % interval, from the intervals of the profile and the error that the model had before;
    /// until version 0.1.0 from the profile alone. Absent where it says no more than that the latency is positive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted_interval_ns: Option<(f64, f64)>,
    /// (predicted - measured) / measured of the raw prediction; at equal speed it is `equal_speed.error`.
    pub error: f64,
    /// Measured elapsed time of the workload, mean of the runs, nanoseconds.
    pub measured_elapsed_ns: f64,
    /// Predicted elapsed time, raw, nanoseconds.
    pub predicted_elapsed_ns: f64,
    /// (predicted - measured) / measured elapsed time of the raw prediction; `None` where either is missing.
    #[serde(default)]
    pub elapsed_error: Option<f64>,
    /// Prediction and errors for the speed that the machine had in the runs, which are what `validate` says first;
    /// `None` where either speed is unknown.
    #[serde(default)]
    pub equal_speed: Option<EqualSpeed>,
    /// Predicted overhead of writing behind (eq. 4), nanoseconds; not part of `predicted_ns`.
    pub predicted_writeback_ns: f64,
    /// By kind of operation (Figure 4.8), raw.
    pub kinds: Vec<PairKind>,
    /// Substitutes and other warnings of the prediction.
    pub warnings: Vec<String>,
}

/// One workload on one target without a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotPredicted {
    /// The workload as it was asked for.
    pub workload: String,
    /// The target as it was asked for.
    pub target: String,
    /// Measured total latency, as a pair's.
    pub measured_ns: f64,
    /// Each run's total.
    pub measured_runs_ns: Vec<u64>,
    /// Standard deviation of the runs over their mean; `None` for a single run.
    pub measured_variation: Option<f64>,
    /// Measured elapsed time, mean of the runs, nanoseconds.
    pub measured_elapsed_ns: f64,
    /// What the prediction lacks.
    pub reason: String,
}

/// A pair's prediction for the speed that the machine had in the measured runs: what slows all of a moment alike is
/// no error of a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EqualSpeed {
    /// What the machine's reference work took beside the runs, mean, nanoseconds.
    pub reference_ns: u64,
    /// What it took when the target was profiled, nanoseconds.
    pub profile_reference_ns: u64,
    /// Predicted total latency, nanoseconds.
    pub predicted_ns: f64,
    /// (predicted - measured) / measured.
    pub error: f64,
    /// Predicted elapsed time, nanoseconds.
    pub predicted_elapsed_ns: f64,
    /// (predicted - measured) / measured elapsed time; `None` where either is missing.
    pub elapsed_error: Option<f64>,
}

impl Pair {
    /// How many runs the prediction is judged by.
    pub fn judged_by(&self) -> u64 {
        (self.measured_runs_ns.len() as u64).saturating_sub(self.traced_runs)
    }
}

/// One kind of operation of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairKind {
    /// Name of the kind.
    pub kind: String,
    /// Operations in the trace that was predicted from.
    #[serde(rename = "operations", alias = "count")]
    pub count: u64,
    /// Mean operations of the measured runs.
    #[serde(rename = "measured_operations", alias = "measured_count")]
    pub measured_count: f64,
    /// Measured latency, mean of the runs, nanoseconds.
    pub measured_ns: f64,
    /// Predicted latency, nanoseconds.
    pub predicted_ns: f64,
    /// Distribution of the measured latencies of all runs (Figures 4.9 to 4.19).
    pub measured_distribution: Distribution,
    /// Distribution of the predicted latencies.
    pub predicted_distribution: Distribution,
}

/// A distribution of latencies over powers of two.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// `counts[i]` operations took at least 2^(i-1) and less than 2^i nanoseconds (`counts[0]`: 0).
    pub counts: Vec<u64>,
}

impl Distribution {
    /// Counts one latency.
    pub fn add(&mut self, latency_ns: u64) {
        let bucket = (u64::BITS - latency_ns.leading_zeros()) as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Distribution) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }
}

/// A workload's name and its whole specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedSpec {
    /// The name in every table.
    pub name: String,
    /// The specification, with every parameter and seed.
    pub spec: String,
    /// The shell command that prepared the directory of each run; `None` for none.
    #[serde(default)]
    pub setup: Option<String>,
}

/// A target's name, its whole specification, and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedTarget {
    /// The name in every table.
    pub name: String,
    /// The specification.
    pub spec: String,
    /// The group that it is averaged with; `None` for none.
    pub group: Option<String>,
    /// The target whose trace is predicted from.
    pub trace_on: String,
    /// Whether its time is computed from stated costs, so that none of it is the machine's.
    #[serde(default)]
    pub virtual_time: bool,
}

/// A step that failed where the plan goes on after failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedStep {
    /// The target.
    pub target: String,
    /// The workload; `None` for a profile.
    pub workload: Option<String>,
    /// Which run or profile, from 0.
    pub run: u32,
    /// Why.
    pub error: String,
}

#[cfg(test)]
mod tests {
    use super::Distribution;

    #[test]
    fn latencies_fall_into_powers_of_two() {
        let mut a = Distribution::default();
        for ns in [0, 1, 2, 3, 4, 1023, 1024] {
            a.add(ns);
        }
        assert_eq!(a.counts, [1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        let mut b = Distribution::default();
        b.merge(&a);
        b.merge(&a);
        assert_eq!(b.counts[2], 4);
    }
}

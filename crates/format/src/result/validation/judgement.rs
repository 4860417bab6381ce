//! What is said of pairs of measured and predicted latencies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Everything that is said of a validation's pairs. At the top of a validation it is raw: of predictions for the speed
/// that the machine had when the targets were profiled. Under `equal_speed` it is for the speed that it had in the runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// Mean absolute error by target (Table 4.8), in the order of first appearance.
    pub by_target: Vec<NamedError>,
    /// Mean absolute error by workload (Table 4.9), in the order of first appearance.
    pub by_workload: Vec<NamedError>,
    /// Over all pairs.
    #[serde(flatten)]
    pub figures: Figures,
    /// The pairs of targets put in the wrong order.
    pub ranks_wrong: Vec<WrongRank>,
    /// By group of targets; empty where the plan has none.
    #[serde(default)]
    pub groups: Vec<GroupFigures>,
    /// What the error consists of, by pair and kind of operation, largest first.
    #[serde(default)]
    pub causes: Vec<Cause>,
    /// What the error consists of, by group and kind of operation, largest first.
    #[serde(default)]
    pub causes_by_kind: Vec<KindCause>,
    /// The same for the speed that the machine had in the runs, which is what `validate` says first: its average is
    /// `equal_speed.average_error`. Null where that speed is unknown for any pair.
    #[serde(default)]
    pub equal_speed: Option<Box<Judgement>>,
}

/// Errors and ranks over some pairs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Mean of the absolute errors, a fraction of the measured latency; null where nothing is predicted. Raw where it
    /// does not stand under `equal_speed`, as all figures.
    pub average_error: Option<f64>,
    /// Median of the absolute errors, a fraction.
    pub median_error: Option<f64>,
    /// Root of the mean squared error, a fraction.
    pub rms_error: Option<f64>,
    /// Pearson correlation of predicted and measured latency; `None` below three pairs or without
    /// spread.
    pub correlation: Option<f64>,
    /// Mean of the absolute errors of elapsed times, a fraction of the measured ones; `None` without
    /// any.
    #[serde(default)]
    pub average_elapsed_error: Option<f64>,
    /// Mean of the pairs' run-to-run variations, a fraction; `None` where none ran twice. No
    /// prediction can be expected to come closer.
    #[serde(default)]
    pub average_variation: Option<f64>,
    /// Pairs of targets put in the right order, over all workloads.
    pub ranks_right: u32,
    /// Pairs of targets compared.
    pub ranks_total: u32,
    /// Of those whose measured intervals do not overlap: put in the right order.
    #[serde(default)]
    pub ranks_apart_right: u32,
    /// Of those compared: whose measured intervals do not overlap.
    #[serde(default)]
    pub ranks_apart_total: u32,
}

/// The same of one group of targets; ranks are those within the group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupFigures {
    /// The group.
    pub name: String,
    /// Over its pairs.
    #[serde(flatten)]
    pub figures: Figures,
    /// Mean absolute error by workload.
    pub by_workload: Vec<NamedError>,
}

/// An error under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedError {
    /// The target or the workload.
    pub name: String,
    /// Mean absolute error, a fraction.
    pub average_error: f64,
}

/// A pair of targets that the prediction puts in the wrong order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongRank {
    /// The workload.
    pub workload: String,
    /// The target that was measured as the faster one.
    pub faster: String,
    /// The target that was measured as the slower one.
    pub slower: String,
    /// Measured slower over measured faster, at least 1.
    pub measured_ratio: f64,
    /// Whether the measured intervals of the two do not overlap.
    #[serde(default)]
    pub apart: bool,
    /// Whether the measured intervals of the two do not overlap and they differ by more than 15 %.
    pub significant: bool,
}

/// One kind of operation of one pair, as a part of all error.
///
/// Its weight is |predicted - measured| over the measured latency of its pair, so that every pair
/// counts alike, as in the average error. Kinds that are wrong in opposite directions cancel in a
/// pair's error, not here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The target's group; `None` for none.
    pub group: Option<String>,
    /// The workload.
    pub workload: String,
    /// The target.
    pub target: String,
    /// The kind of operation.
    pub kind: String,
    /// Mean operations of the measured runs.
    #[serde(rename = "operations", alias = "count")]
    pub count: f64,
    /// Measured latency, mean of the runs, nanoseconds.
    pub measured_ns: f64,
    /// Predicted latency, nanoseconds.
    pub predicted_ns: f64,
    /// (predicted - measured) over the measured latency of the pair.
    pub of_pair: f64,
    /// Its part of the weights of all causes.
    pub share: f64,
}

/// One kind of operation in all pairs of a group, as a part of all error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KindCause {
    /// The group; `None` for none.
    pub group: Option<String>,
    /// The kind of operation.
    pub kind: String,
    /// Its part of the weights of all causes.
    pub share: f64,
    /// The part of it that was predicted too high.
    pub share_high: f64,
    /// The part of it that was predicted too low.
    pub share_low: f64,
    /// The pair where it weighs most, as `workload on target`.
    pub most_in: String,
}

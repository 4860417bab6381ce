//! A model held against what it stands for.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// What `fsage model evaluate --json` prints.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// The original: a trace, or a workload.
    pub original: String,
    /// The model's file.
    pub model: String,
    /// The model as a workload.
    pub model_spec: String,
    /// When operations start: `afap` or `own`.
    pub pace: String,
    /// What the caches hold when a run begins: `cold` or `warm`.
    pub cache: String,
    /// Runs of each side on each target; one where time is computed.
    pub runs: u32,
    /// Where the order of the runs and what they write start.
    pub seed: u64,
    /// Whether the strict limits were asked for.
    pub strict: bool,
    /// Whether every figure that has a limit is within it on every target.
    pub stands: bool,
    /// Figures that have a limit, over all targets.
    pub judged: u64,
    /// Those that are not within it.
    pub missed: u64,
    /// The figure that is farthest off beside its limit.
    pub worst: Option<WorstFigure>,
    /// In which order the targets come; absent for one target.
    pub ranking: Option<EvaluatedRanking>,
    /// What was found on each target.
    pub targets: Vec<EvaluatedTarget>,
    /// Runs that failed.
    pub failed: Vec<FailedSide>,
    /// Whether it was stopped before all runs were made.
    pub interrupted: bool,
    /// What a command did that no run of a model does, by kind: it is in no figure.
    #[serde(default)]
    pub left_out: BTreeMap<String, u64>,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

/// A figure that is farther off than any other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstFigure {
    /// The target.
    pub target: String,
    /// The figure's name.
    pub figure: String,
    /// How far the model is off, as in the figure.
    pub error: f64,
    /// The limit.
    pub limit: f64,
}

/// Targets from the fastest to the slowest, as each side has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluatedRanking {
    /// Of the original.
    pub original: Vec<String>,
    /// Of the model.
    pub model: Vec<String>,
    /// Whether both are the same.
    pub same: bool,
    /// How likely the same order is, as far as the runs tell: the product over all pairs of targets.
    pub probability: f64,
}

/// What was found on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluatedTarget {
    /// What it is called.
    pub name: String,
    /// What it is.
    pub spec: String,
    /// How caches were made cold; absent where they were left warm.
    pub made_cold: Option<String>,
    /// Figures of both sides.
    pub figures: Vec<EvaluatedFigure>,
    /// How far distributions lie apart, by what operations do.
    pub distances: Vec<ActDistance>,
    /// The root mean square distance of the shares of the operations that have started after each hundredth of the
    /// time; absent where a side has none.
    pub progress_rms_distance: Option<f64>,
}

/// One figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluatedFigure {
    /// Its name: `operations:KIND`, `bytes_read`, `bytes_written`, `cached`, `throughput`, `bytes_throughput`,
    /// `elapsed`, `latency:ACT`, `sequential`, `cache_hits:half`, `cache_hits:twice`, `device_reads` and the like.
    pub name: String,
    /// Its unit: `count`, `B`, `share`, `operations/s`, `B/s`, `ns`.
    pub unit: String,
    /// Of the original.
    pub original: SideFigure,
    /// Of the model.
    pub model: SideFigure,
    /// How much more the model has, as a share of the original's; of shares the difference. Absent where the
    /// original has none.
    pub error: Option<f64>,
    /// Its 95 % interval; absent where time is computed, or for fewer than two runs of a side.
    pub error_interval: Option<(f64, f64)>,
    /// How far it may be off; absent for what is not judged.
    pub limit: Option<f64>,
    /// Whether it is within that.
    pub within: Option<bool>,
}

/// A figure of one side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SideFigure {
    /// The mean over the runs.
    pub mean: f64,
    /// The lower end of its 95 % interval; absent for fewer than two runs.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

/// How far the distributions of both sides lie apart: the largest distance of two distribution functions (the
/// statistic of Kolmogorov and Smirnov), from 0 to 1, of all runs together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActDistance {
    /// What the operations do: `create`, `open`, `read`, `write`, `delete`, `stat`, `fsync`, or their kind.
    pub act: String,
    /// Operations of the original in a run.
    pub operations: u64,
    /// Of latencies.
    pub latency: f64,
    /// Of sizes; absent for what moves no data.
    pub size: Option<f64>,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedSide {
    /// The target.
    pub target: String,
    /// `original` or `model`.
    pub side: String,
    /// Which run, from 0.
    pub run: u32,
    /// Why.
    pub reason: String,
}

document! {
    Evaluation, "fsage model evaluate", 1;
}

//! What `fsage compare` found: two configurations of one experiment or of two, metric by metric.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const COMPARISON_FORMAT: &str = "fsage comparison";

/// The version of [`Comparison`] that this release writes.
pub const COMPARISON_VERSION: u32 = 2;

/// Configurations held against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Always `fsage comparison`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "comparison_version")]
    pub comparison_version: u32,
    /// The experiments: one, or two.
    pub experiments: Vec<ComparedExperiment>,
    /// The pairs that were compared.
    pub pairs: Vec<ComparedPair>,
    /// The tests that were corrected together, so that of all of them at most 5 % of such comparisons
    /// find a difference where there is none.
    pub families: Vec<Family>,
    /// What was not compared, and why.
    pub not_compared: Vec<NotCompared>,
    /// What a reader must know of all of it.
    pub warnings: Vec<String>,
}

/// An experiment of which configurations were compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedExperiment {
    /// The file or directory it was read from.
    pub path: String,
    /// The digest of its plan.
    pub plan_digest: String,
    /// Wall clock at its start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// The machine's name; absent where it is unknown.
    pub host: Option<String>,
    /// The seed of its order.
    pub seed: u64,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// Tests that were corrected together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Family {
    /// Which metrics: `required` or `others`.
    pub name: String,
    /// How many tests.
    pub tests: u32,
    /// How p values were corrected: `Holm`, or `none` for a single test.
    pub correction: String,
}

/// One configuration of a pair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedSide {
    /// Which of the experiments, from 0.
    pub experiment: u32,
    /// The configuration's name.
    pub configuration: String,
    /// Its target.
    pub target: String,
    /// Its workload with every parameter.
    pub workload: String,
    /// Runs that ended well.
    pub runs: u32,
    /// Whether the target's time is computed from stated costs, so that none of it is the machine's.
    #[serde(default)]
    pub virtual_time: bool,
}

/// Two configurations. Differences and ratios are of `b` to `a`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedPair {
    /// What is compared with.
    pub a: ComparedSide,
    /// What is compared.
    pub b: ComparedSide,
    /// Metric by metric, required ones first.
    pub metrics: Vec<ComparedMetric>,
    /// What differs between their configurations and environments: one of these, or what nobody recorded,
    /// may be the cause of a difference.
    pub differences: Vec<Difference>,
    /// What a reader must know of this pair.
    pub warnings: Vec<String>,
}

/// Something that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What, as `machine.kernel.release`.
    pub what: String,
    /// What it is for `a`; absent where it is unknown or not there.
    pub a: Option<String>,
    /// What it is for `b`.
    pub b: Option<String>,
}

/// A metric of both configurations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedMetric {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Whether one of the experiments measured until it was precise.
    pub required: bool,
    /// The samples of `a`.
    pub a: SampleSummary,
    /// The samples of `b`.
    pub b: SampleSummary,
    /// Mean of `b` less mean of `a`, with Welch's interval; in the metric's unit.
    pub difference: Estimate,
    /// Mean of `b` over mean of `a`, with Fieller's interval; absent where the mean of `a` is not told
    /// from 0.
    pub ratio: Option<Estimate>,
    /// Welch's test; absent where a side has fewer than two samples or neither varies.
    pub test: Option<WelchTest>,
    /// How large the difference is beside the variation; absent likewise.
    pub effect: Option<EffectSize>,
    /// What follows.
    pub verdict: Verdict,
    /// The same in words.
    pub text: String,
    /// What makes the test doubtful: outliers, distributions that are not normal, a rank test that
    /// disagrees.
    pub warnings: Vec<String>,
}

/// Samples of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampleSummary {
    /// How many.
    pub n: u32,
    /// Their mean.
    pub mean: f64,
    /// Lower end of the mean's 95 % interval (Student's; where that is wide, of a log-normal mean); absent for
    /// fewer than two samples.
    #[serde(rename = "low", alias = "lower")]
    pub lower: Option<f64>,
    /// Upper end of it.
    #[serde(rename = "high", alias = "upper")]
    pub upper: Option<f64>,
    /// Their median.
    pub median: f64,
    /// Their standard deviation; absent for fewer than two.
    pub sd: Option<f64>,
    /// How many lie far from the others. They are counted like all.
    pub outliers: u32,
    /// The probability that normal samples would look like this (Shapiro and Wilk); absent for too few
    /// or equal ones.
    pub normal_p: Option<f64>,
}

/// A value and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end; absent where there is no interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Welch's test of two means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WelchTest {
    /// The statistic, positive where `b` has the larger mean.
    pub t: f64,
    /// Degrees of freedom.
    pub df: f64,
    /// The probability of such a difference between equal means.
    pub p: f64,
    /// The same, corrected for the family of tests.
    pub p_corrected: f64,
    /// The probability by the rank sum (Mann and Whitney), which no outlier decides; not corrected.
    /// Absent where all samples are equal.
    pub rank_p: Option<f64>,
}

/// How large a difference is beside the variation of the samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectSize {
    /// The difference in pooled standard deviations (Hedges 1981), positive where `b` is larger.
    pub hedges_g: f64,
    /// The probability that a sample of `b` exceeds one of `a` (Vargha and Delaney 2000); 0.5 for none.
    pub a12: f64,
}

/// What follows from a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// `b` is larger: p, corrected, is under 5 %.
    Larger,
    /// `b` is smaller.
    Smaller,
    /// No significant difference.
    NoSignificantDifference,
    /// All samples of both are the same value.
    Equal,
    /// There are too few samples, or none of them varies, so that nothing can be tested.
    Untestable,
}

/// Something that was not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotCompared {
    /// A configuration, a pair, or a metric of a pair.
    pub what: String,
    /// Why.
    #[serde(rename = "reason", alias = "why")]
    pub why: String,
}

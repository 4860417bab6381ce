//! `.fsp`: the system profile, JSON.
//!
//! [`SystemProfile::load`] refuses what it cannot vouch for: another format, a newer version, a
//! value that no measurement gives (`check`). Version 2 tells an interval that is unknown from one
//! of no width, a profile that is not whole, and what disturbed the measurement; version 3 has the
//! machine and the target in the records that results have. Older ones are read as far as they tell
//! these (`older`).

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{FormatError, Version};
pub use crate::result::environment::Environment;

mod check;
pub(crate) mod older;

/// What the field `format` says.
pub const PROFILE_FORMAT: &str = "fsage system profile";

/// The version that is written; every version up to it is read.
pub const PROFILE_VERSION: Version = Version(3);

/// What one file system on one machine costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemProfile {
    /// Always `fsage system profile`.
    pub format: String,
    /// Version of the format.
    pub version: Version,
    /// What it is called in reports.
    pub name: String,
    /// What was measured.
    pub environment: Environment,
    /// How it was measured.
    #[serde(default)]
    pub measurement: Measurement,
    /// What was measured, in the order of the table of metrics.
    pub metrics: Vec<MetricValue>,
    /// What was not measured, and why.
    #[serde(default)]
    pub absent: Vec<Absent>,
    /// Why the profile is not whole: the measurement was interrupted. Absent where it ran to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
    /// What disturbed the measurement: the whole of it, and procedures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<Disturbance>,
}

/// What disturbed a measurement or one of its procedures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Disturbance {
    /// The procedure, by its name in the list of times; empty for the whole measurement.
    pub procedure: String,
    /// How often the procedure was repeated for this.
    pub repeated: u32,
    /// Processor time that other processes used, as a share of the time it took.
    pub others_share: Option<f64>,
    /// Processor time that the hypervisor took, as a share of the time it took.
    pub stolen_share: Option<f64>,
    /// Time in which the measuring thread waited for a processor, as a share of the time it took.
    pub waited_share: Option<f64>,
    /// What the reference work took before and after it on average, in nanoseconds: how fast the machine was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_ns: Option<u64>,
    /// The same in words, one line each.
    pub marks: Vec<String>,
}

/// How a profile was measured. Empty or absent where it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Measurement {
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the short suite was measured.
    pub quick: bool,
    /// The seed of every random choice.
    pub seed: u64,
    /// How cold states were reached: `remount`, `drop`, `evict`; `None` where none could be.
    pub cold_method: Option<String>,
    /// Scheduling and pinning of the measuring thread, e.g. `SCHED_FIFO, CPU 1`.
    pub scheduling: String,
    /// The CPU that everything was kept on, and whether the kernel's workqueues were; absent where nothing was.
    pub one_cpu: Option<String>,
    /// How many instances of the target were measured, where several are in one profile.
    pub instances: Option<u32>,
    /// How much of the time went into write-backs, cold states and removals, in nanoseconds.
    pub prepared_ns: Option<u64>,
    /// What the reference work took between procedures, median, in nanoseconds: the speed of the machine that the
    /// profile speaks for. Absent where time is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_ns: Option<u64>,
    /// How long each procedure took, in their order.
    pub procedures: Vec<ProcedureTime>,
}

/// How long a procedure took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProcedureTime {
    /// Its name.
    pub name: String,
    /// What it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Its share of the time that there was, in nanoseconds.
    pub share_ns: u64,
}

/// One metric's result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricValue {
    /// The name, e.g. `RD64` or `STAT_G10`.
    pub name: String,
    /// Unit of every value here, e.g. `ns`.
    pub unit: String,
    /// The estimate that predictions use.
    pub estimate: f64,
    /// Lower end of the estimate's 95 % interval; null where the interval is unknown.
    pub low: Option<f64>,
    /// Upper end of the estimate's 95 % interval; null where the interval is unknown.
    pub high: Option<f64>,
    /// Whether the true value is at least the estimate: the search for it was cut short.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
    /// Mean of the samples.
    pub mean: f64,
    /// Median of the samples.
    pub median: f64,
    /// Quantiles of the samples, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// Number of runs (samples).
    pub runs: u32,
    /// Samples that were repeated because the thread had been preempted.
    #[serde(default)]
    pub preempted: u32,
    /// Why sampling ended: `precise` or the name of the cap: `runs`, `time`.
    #[serde(default)]
    pub stop: String,
    /// The raw samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// What a reader should know: how it was reached here, what it stands on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What makes the estimate suspect: a disturbed measurement, a disagreement with the device's
    /// counters or with neighbours of the series. Empty where nothing does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
    /// What the reference work took beside this metric's measurement, in nanoseconds; absent where time is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns: Option<u64>,
}

/// One quantile of a metric's samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// Its probability, 0 to 1.
    pub p: f64,
    /// Its value, in the metric's unit.
    pub value: f64,
}

/// What the reason of a metric begins with whose call the target refuses.
pub const NOT_OFFERED: &str = "not offered here";

/// A metric that was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Absent {
    /// The name.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl SystemProfile {
    /// A profile without metrics.
    pub fn new(name: impl Into<String>, environment: Environment) -> Self {
        Self {
            format: PROFILE_FORMAT.to_owned(),
            version: PROFILE_VERSION,
            name: name.into(),
            environment,
            measurement: Measurement::default(),
            metrics: Vec::new(),
            absent: Vec::new(),
            incomplete: None,
            disturbances: Vec::new(),
        }
    }

    /// The metric of that name.
    pub fn get(&self, name: &str) -> Option<&MetricValue> {
        self.metrics.iter().find(|m| m.name == name)
    }

    /// Why the metric of that name was not measured, where the profile says so.
    pub fn why_absent(&self, name: &str) -> Option<&str> {
        self.absent
            .iter()
            .find(|a| a.name == name)
            .map(|a| a.reason.as_str())
    }

    /// Whether the measurement ran to its end: metrics may be absent, each with its reason, but none
    /// because the measurement was broken off.
    pub fn is_whole(&self) -> bool {
        self.incomplete.is_none()
    }

    /// Why the profile is not whole; `None` where it is.
    pub fn incomplete_reason(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Reads and checks a profile.
    pub fn load(path: &Path) -> Result<Self, FormatError> {
        let bytes = crate::bounded::read_document(path, check::EXPECTED)?;
        Self::parse(path, &bytes)
    }

    /// Reads and checks a profile from its bytes; errors name `path`.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FormatError> {
        let version = check::head(path, bytes)?;
        let read = if version < PROFILE_VERSION {
            older::profile(version, bytes)
        } else {
            serde_json::from_slice(bytes)
        };
        let profile = read.map_err(|e| check::at_line(path, &e))?;
        profile.check(path)?;
        Ok(profile)
    }

    /// Writes the profile, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), FormatError> {
        self.check(path).map_err(|e| match e {
            FormatError::Corrupt {
                path,
                place,
                problem,
            } => FormatError::Unwritable {
                path,
                problem: format!("{place}: {problem}"),
            },
            other => other,
        })?;
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| FormatError::unwritable(path, e.to_string()))?;
        text.push(b'\n');
        crate::record::write_whole(path, &text)
    }
}

impl MetricValue {
    /// The 95 % interval of the estimate, (low, high); `None` where it is unknown: too few samples, or
    /// a spread that was not measured.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

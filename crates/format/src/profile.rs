//! `.fsp`: the system profile, JSON.
//!
//! [`SystemProfile::load`] refuses what it cannot vouch for: another format, a newer version, a
//! value that no measurement gives (`check`). Version 2 tells an interval that is unknown from one
//! of no width, a profile that is not whole, and what disturbed the measurement; version 1 is read
//! as far as it tells these (`older`).

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{FormatError, Version};

mod check;
mod older;

/// What the field `format` says.
pub const PROFILE_FORMAT: &str = "fsage system profile";

/// The version that is written; every version up to it is read.
pub const PROFILE_VERSION: Version = Version(2);

/// What one file system on one machine costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemProfile {
    /// Always `fsage system profile`.
    pub format: String,
    /// Version of the format.
    pub version: Version,
    /// What it is called in reports.
    pub name: String,
    /// What was measured, and how.
    pub environment: Environment,
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
    /// The same in words, one line each.
    pub marks: Vec<String>,
}

/// The entry of a profile's environment, and of a trace's extra metadata, that says that everything
/// was kept on one CPU.
pub const ONE_CPU: &str = "one_cpu";

/// The entry of a trace's extra metadata with the number of CPUs that the traced processes shared.
pub const CPUS: &str = "cpus";

/// The entry of [`Environment::extra`] of a target that lies in memory alone, so that nothing of it is ever
/// cold.
pub const IN_MEMORY: &str = "in_memory";

/// What was measured, on which machine and how. Empty or absent where it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Environment {
    /// The fsage that measured.
    pub fsage: String,
    /// The machine's name.
    pub host: String,
    /// The kernel's release and build.
    pub kernel: String,
    /// The processor's model.
    pub cpu: String,
    /// Processors on line.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The target as it was given, e.g. `scratch:ext4`.
    pub target: String,
    /// The file system's type.
    pub file_system: String,
    /// Its mount options.
    pub mount_options: String,
    /// The options with which it was made, where they are known.
    pub mkfs_options: Option<String>,
    /// The device beneath it: path, model, what lies beneath a loop device.
    pub device: String,
    /// Whether the device rotates, where it says so.
    pub rotational: Option<bool>,
    /// The device's size in bytes.
    pub device_bytes: Option<u64>,
    /// Size of the file system in bytes.
    pub total_bytes: u64,
    /// Free space when the measurement began, in bytes.
    pub free_bytes: u64,
    /// Whether the file system was aged: the aging workload's name; `None` for an empty one.
    pub aged: Option<String>,
    /// When the measurement began, in nanoseconds since the epoch.
    pub start_unix_ns: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
    /// Whether the short suite was measured.
    pub quick: bool,
    /// How cold states were reached: `remount`, `drop`, `evict`; `None` where none could be.
    pub cold_method: Option<String>,
    /// Scheduling and pinning of the measuring thread, e.g. `SCHED_FIFO, CPU 1`.
    pub scheduling: String,
    /// Whether fsage had root's privileges.
    pub privileged: bool,
    /// The seed of every random choice.
    pub seed: u64,
    /// Anything else worth keeping, by name.
    pub extra: BTreeMap<String, String>,
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
}

/// One quantile of a metric's samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// Its probability, 0 to 1.
    pub p: f64,
    /// Its value, in the metric's unit.
    pub value: f64,
}

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
        let bytes = crate::bounded::read_document(path)?;
        Self::parse(path, &bytes)
    }

    /// Reads and checks a profile from its bytes; errors name `path`.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, FormatError> {
        let version = check::head(path, bytes)?;
        let mut profile: Self =
            serde_json::from_slice(bytes).map_err(|e| check::at_line(path, &e))?;
        if version < PROFILE_VERSION {
            older::bring_up(&mut profile);
        }
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

//! What `fsage bench` found: every run, what was measured in it, and what is said of all of them.
//!
//! Made from the record of the runs (`runs.jsonl`) alone, and made again from it at any time.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::FormatError;
use crate::result::environment::{MachineRecord, TargetRecord};
use crate::result::run::{CommandRun, PhaseRun};

/// What the field `format` says.
pub const EXPERIMENT_FORMAT: &str = "fsage bench";

/// The version of [`Experiment`] that this release writes.
pub const EXPERIMENT_VERSION: u32 = 2;

/// The file in an experiment's directory.
pub const EXPERIMENT_FILE: &str = "experiment.json";

/// An experiment: several configurations, each measured several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Always `fsage bench`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "experiment_version")]
    pub experiment_version: u32,
    /// The plan's text; for a command without a plan, the plan that says the same.
    pub plan: String,
    /// Tells plans apart by what they measure.
    pub plan_digest: String,
    /// Where the order of the runs starts.
    pub seed: u64,
    /// When measuring was to stop.
    pub rule: StoppingRule,
    /// Wall clock at the start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// Wall clock at each continuation, nanoseconds since 1970.
    pub resumed_unix_ns: Vec<u64>,
    /// How long all runs took with all that belongs to them, nanoseconds.
    pub elapsed_ns: u64,
    /// The machine at the start.
    pub machine: Option<MachineRecord>,
    /// What was compared, in the plan's order.
    pub configurations: Vec<Configuration>,
    /// Runs that failed.
    pub failed: Vec<FailedRun>,
    /// Whether the required metrics moved over the experiment, all configurations together.
    pub drift: Vec<ExperimentDrift>,
    /// What a reader must know.
    pub warnings: Vec<String>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl Experiment {
    /// Reads an experiment's result: the file, or the directory that holds it.
    pub fn load(path: &Path) -> Result<Self, FormatError> {
        let file = path.join(EXPERIMENT_FILE);
        let file = if path.is_dir() { &file } else { path };
        super::load(file)
    }
}

/// When measuring a configuration ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoppingRule {
    /// Fewest runs.
    pub min_runs: u32,
    /// Most runs.
    pub max_runs: u32,
    /// The half-width of the 95 % interval that is to be reached, as a share of the mean.
    pub half_width_relative: f64,
    /// The metrics that are to reach it.
    pub required: Vec<String>,
    /// The longest that all runs together may take, nanoseconds; absent for no bound.
    pub budget_ns: Option<u64>,
    /// Over how many rounds the fewest runs were spread; 1 for one after the other.
    #[serde(default = "one")]
    pub rounds: u32,
    /// How long nothing was measured before each round but the first, nanoseconds.
    #[serde(default)]
    pub round_pause_ns: u64,
}

fn one() -> u32 {
    1
}

/// One thing that was measured: a workload on a target in a state of the caches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// What it is called, unlike any other of the experiment.
    pub name: String,
    /// The target's name.
    pub target: String,
    /// The target as it was asked for.
    pub target_spec: String,
    /// Whether each run has a file system of its own (`fresh`) or takes what is there (`as found`).
    pub state: String,
    /// The workload's name.
    pub workload: String,
    /// The workload with every parameter: this text alone repeats a run.
    pub workload_spec: String,
    /// The command that prepares the directory of each run, unmeasured.
    pub setup: Option<String>,
    /// What the caches hold when a run begins: `cold`, `warm N`, `as found`.
    pub cache: String,
    /// The parameters that the plan varies, with their values here.
    pub parameters: BTreeMap<String, String>,
    /// The target in full, when its first run was made.
    pub target_record: Option<TargetRecord>,
    /// Runs that ended well, in their order.
    pub runs: Vec<BenchRun>,
    /// What is said of them.
    pub metrics: Vec<MetricSummary>,
    /// Why measuring it ended.
    pub stop: StopReason,
    /// The same in words, with figures.
    pub stop_text: String,
}

impl Configuration {
    /// The samples of a metric, of the runs that have it, in their order.
    pub fn samples(&self, metric: &str) -> Vec<f64> {
        let of = |run: &BenchRun| run.metrics.get(metric).copied();
        self.runs.iter().filter_map(of).collect()
    }

    /// What is said of a metric.
    pub fn metric(&self, metric: &str) -> Option<&MetricSummary> {
        self.metrics.iter().find(|m| m.metric == metric)
    }
}

/// Why measuring a configuration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Every required metric is as precise as asked.
    Precise,
    /// The most runs allowed were made before that.
    MaxRuns,
    /// The time for the experiment was used up before that.
    TimeBudget,
    /// Too many of its runs failed.
    Failing,
    /// A run of the experiment failed, and the plan says to stop then.
    AfterFailure,
    /// It was interrupted.
    Interrupted,
}

/// One run. Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchRun {
    /// Which run of its configuration, from 0, failed ones counted.
    pub run: u32,
    /// Which run of the experiment, from 0, failed ones counted.
    pub order: u64,
    /// Which round it belongs to, from 0; where there are several, intervals are made of their means.
    #[serde(default)]
    pub round: u32,
    /// Wall clock at its start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// What was done, in this order, and how long it took.
    pub steps: Vec<StepTime>,
    /// How the caches were brought into their state, and what shows that they were; absent where
    /// nothing was done.
    pub cache_evidence: Option<String>,
    /// Whether caches were shown to be cold; absent where that was not asked or could not be told.
    pub cold_verified: Option<bool>,
    /// How long the workload took: the sum of its run phases, or the command.
    pub elapsed_ns: u64,
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Time that no processor was used: elapsed less user and system (Traeger 2007, section 6); 0 where
    /// several threads used more than one processor.
    pub wait_ns: u64,
    /// Time that threads were ready to run and did not, all together; absent for a command where the
    /// kernel does not tell the ends of its threads. `others.cpu_pressure_ns` is then all that is known.
    pub run_delay_ns: Option<u64>,
    /// User and system over elapsed (Traeger 2007, 12.2): 0 to 1 and more for several processors.
    pub cpu_share: f64,
    /// What the target's device did meanwhile; absent where it has none.
    pub device: Option<DeviceActivity>,
    /// What was still to be written when the workload had ended; absent where it could not be told.
    pub flush: Option<Flush>,
    /// What was read from files, and how much of it came from devices; absent where the kernel does not
    /// count it.
    pub page_cache: Option<PageCache>,
    /// Times that a thread gave its processor up.
    pub voluntary_switches: u64,
    /// Times that it was taken away.
    pub involuntary_switches: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// Page faults that did not.
    pub minor_faults: u64,
    /// The run phases of a generated workload: latencies by kind, throughput over time.
    pub phases: Vec<BenchPhase>,
    /// What a command took.
    pub command: Option<CommandRun>,
    /// Dirty pages, write-back and device over time.
    pub series: Vec<SystemPoint>,
    /// Whose dirty pages and write-back the series has: `device 7:0`, the target's, where the kernel
    /// counts them apart, else `machine`, all of it. Empty in results of earlier releases: `machine`.
    #[serde(default)]
    pub dirty_of: String,
    /// The CPU to which the run was kept, with what of the kernel's work for it; absent where it was free.
    pub one_cpu: Option<String>,
    /// What else the machine did meanwhile.
    pub others: Others,
    /// What an emulated disk served and how late it was, by name; empty without one.
    pub disk: BTreeMap<String, String>,
    /// What distinguishes this run from a good one: the clock was set, others used the machine. The run
    /// counts all the same.
    pub marks: Vec<String>,
    /// Every figure by its name, for statistics. The units are in [`MetricSummary`].
    pub metrics: BTreeMap<String, f64>,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepTime {
    /// What was done.
    pub name: String,
    /// How long it took, nanoseconds.
    pub elapsed_ns: u64,
}

/// What a device did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceActivity {
    /// Read requests.
    pub reads: u64,
    /// Sectors of 512 bytes read.
    pub sectors_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Sectors of 512 bytes written.
    pub sectors_written: u64,
}

/// What was written after a workload had ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flush {
    /// How long a sync of the target took, nanoseconds.
    pub elapsed_ns: u64,
    /// What the device did meanwhile; absent where it has none.
    pub device: Option<DeviceActivity>,
}

/// Reads and what of them was not in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageCache {
    /// Bytes that calls read; of a command also from pipes.
    pub requested_bytes: u64,
    /// Bytes that were fetched from devices for the workload's processes: file data, mapped files,
    /// metadata, and what the kernel read ahead.
    pub fetched_bytes: u64,
    /// Pages of the workload's directory that were in the page cache when it had ended; absent where
    /// the kernel cannot tell (cachestat, Linux 6.5).
    pub cached_pages: Option<u64>,
}

impl PageCache {
    /// Share of what was read that needed no device, at least 0; `None` where nothing was read.
    pub fn hit_share(&self) -> Option<f64> {
        let requested = self.requested_bytes as f64;
        (requested > 0.0).then(|| (1.0 - self.fetched_bytes as f64 / requested).max(0.0))
    }
}

/// A run phase and where it was steady.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchPhase {
    /// What was measured.
    pub result: PhaseRun,
    /// Whether its throughput settled; absent for a phase too short to tell.
    pub steady: Option<SteadyPart>,
}

/// How a phase's throughput settles, by its change points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyPart {
    /// Whether it does: its level stays within 5 % for at least the last quarter.
    pub steady: bool,
    /// How long it took to, nanoseconds; all of the phase where it does not.
    pub warm_up_ns: u64,
    /// Throughput until then, operations/s; absent without a warm-up.
    pub warm_up_operations_per_s: Option<f64>,
    /// Throughput from then on, operations/s; absent where it never settles.
    pub steady_operations_per_s: Option<f64>,
}

/// The machine and the device at one moment of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemPoint {
    /// When, nanoseconds since the start of what was measured.
    pub at_ns: u64,
    /// Dirty pages of what `dirty_of` of the run names, bytes.
    pub dirty_bytes: u64,
    /// Pages of the same that are being written, bytes.
    pub write_back_bytes: u64,
    /// Sectors of 512 bytes that the target's device read since the start.
    pub sectors_read: u64,
    /// Sectors of 512 bytes that it wrote since the start.
    pub sectors_written: u64,
}

/// What else the machine did during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Others {
    /// Processor time in user mode of everything but the workload, nanoseconds, to 10 ms.
    pub user_ns: Option<u64>,
    /// Time that a hypervisor gave to others, nanoseconds, to 10 ms.
    pub stolen_ns: Option<u64>,
    /// Time in which something on the machine waited for a processor, nanoseconds; the workload's own
    /// threads are something too.
    pub cpu_pressure_ns: Option<u64>,
    /// How far the wall clock went away from the monotonic one, nanoseconds.
    pub clock_step_ns: i64,
    /// How often fsage was stopped (SIGSTOP, Ctrl-Z) and continued.
    #[serde(default)]
    pub stops: u64,
}

/// All samples of one metric of one configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricSummary {
    /// Its name.
    pub metric: String,
    /// Its unit: `ns`, `share` (of 1), `count`, `B`, `B/s`, `operations/s`, `sectors` (of 512 bytes).
    pub unit: String,
    /// Whether measuring went on until it was precise.
    pub required: bool,
    /// Runs that have it.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// How far `low` and `high` lie from the mean, where that is the same: `interval` is `student`; else, and for fewer than
    /// two runs, absent. (Files without `interval` have `half_width_student` here.)
    pub half_width: Option<f64>,
    /// Half the width of Student's interval, whichever `low` and `high` are: what the stopping rule is about.
    #[serde(default)]
    pub half_width_student: Option<f64>,
    /// Whose interval `low` and `high` are; absent without one, and in files of before.
    #[serde(default)]
    pub interval: Option<MeanInterval>,
    /// Lower end of the mean's 95 % interval: Student's; where that is wider than a quarter of the mean to
    /// each side, of a log-normal mean (Olsson 2005): by a factor to each side, never negative.
    #[serde(rename = "low", alias = "lower")]
    pub lower: Option<f64>,
    /// Upper end of the interval.
    #[serde(rename = "high", alias = "upper")]
    pub upper: Option<f64>,
    /// Median.
    pub median: f64,
    /// Standard deviation; absent for fewer than two runs.
    pub sd: Option<f64>,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Whether the samples may come from a normal distribution; absent for too few or equal ones.
    pub normal: Option<NormalityTest>,
    /// Runs (by their number) that lie far from the others; they are counted like all.
    pub outliers: Vec<u32>,
    /// Whether it moves from run to run; absent for too few or equal samples.
    pub trend: Option<Trend>,
}

impl MetricSummary {
    /// Half the width of Student's interval over the mean; `None` without an interval or for a mean of 0.
    pub fn half_width_relative(&self) -> Option<f64> {
        let half = self.half_width_student.or(self.half_width)?;
        let relative = half / self.mean.abs();
        relative.is_finite().then_some(relative)
    }
}

/// Whose interval of a mean one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MeanInterval {
    /// Student's t: symmetric around the mean.
    Student,
    /// The same, from 0 on.
    StudentFromZero,
    /// Of a log-normal mean: by a factor to each side.
    LogNormal,
}

/// The test of Shapiro and Wilk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NormalityTest {
    /// The statistic W.
    pub w: f64,
    /// The probability of so low a W from a normal distribution.
    pub p: f64,
    /// Whether the samples pass at 5 %.
    pub normal: bool,
}

/// The trend of Mann and Kendall, the slope of Theil and Sen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// Kendall's tau-b of order and value.
    pub tau: f64,
    /// The probability of so strong a trend where there is none.
    pub p: f64,
    /// Change from run to run, in the unit of the samples.
    pub slope: f64,
    /// Whether there is one at 5 %.
    pub drifts: bool,
}

/// The trend of a metric over all runs of the experiment, each over its configuration's mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentDrift {
    /// The metric.
    pub metric: String,
    /// Runs that have it.
    pub n: u64,
    /// The trend; the slope is a share of the mean. Absent for too few runs.
    pub trend: Option<Trend>,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRun {
    /// The configuration's name.
    pub configuration: String,
    /// Which run of it, from 0.
    pub run: u32,
    /// Which run of the experiment, from 0.
    pub order: u64,
    /// Wall clock at its start, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// What was done until then.
    pub steps: Vec<StepTime>,
    /// Why; completes “failed to …”.
    pub error: String,
}

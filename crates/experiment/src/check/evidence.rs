//! What any result tells of how it was measured, in one form.

use fsage_format::profile::SystemProfile;
use fsage_format::result::environment::{MachineRecord, TargetRecord};
use fsage_format::result::experiment::Experiment;
use fsage_format::result::run::WorkloadRun;
use fsage_format::result::validation::Validation;

use super::stored;
use crate::target::was_temporary;

/// Everything that the guidelines look at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// What was checked: the field `format` of the result.
    pub kind: &'static str,
    /// The plan as it was written.
    pub plan: Option<String>,
    /// Where random choices start.
    pub seed: Option<u64>,
    /// The machine.
    pub machine: Option<MachineRecord>,
    /// The targets, each once.
    pub targets: Vec<TargetEvidence>,
    /// The workloads, each once.
    pub workloads: Vec<WorkloadEvidence>,
    /// What was measured: a workload on a target.
    pub cells: Vec<Cell>,
    /// Whether the runs of different cells were interleaved in random order.
    pub interleaved: bool,
    /// Runs that failed, in words.
    pub failed: Vec<String>,
    /// Required metrics that moved over the experiment.
    pub drifting: Vec<String>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// A target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetEvidence {
    /// Its name.
    pub name: String,
    /// As it was asked for.
    pub spec: String,
    /// What is known of it.
    pub record: Option<TargetRecord>,
}

impl TargetEvidence {
    /// Whether it was made for the occasion: as its record says, and where none was kept as its specification does.
    pub fn was_temporary(&self) -> bool {
        let record = self.record.as_ref();
        record.map_or_else(|| was_temporary(&self.spec), |record| record.scratch)
    }
}

/// A workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkloadEvidence {
    /// Its name.
    pub name: String,
    /// The text that repeats it.
    pub spec: String,
    /// Whether it is a shell command.
    pub command: bool,
    /// Whether it exercises few operations, one after the other.
    pub micro: bool,
    /// The most streams that ran at once; `None` where that is unknown.
    pub streams: Option<usize>,
}

/// A workload on a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    /// What it is called.
    pub name: String,
    /// The workload's name.
    pub workload: String,
    /// The target's name.
    pub target: String,
    /// What the caches held at the start, as it was asked for.
    pub cache: Option<String>,
    /// Of the runs for which cold caches were asked: those that were shown to be cold, and all.
    pub cold: Option<(usize, usize)>,
    /// Whether each run had a file system of its own.
    pub fresh: Option<bool>,
    /// Runs that ended well.
    pub runs: usize,
    /// Their mean length, nanoseconds.
    pub elapsed_ns: Option<f64>,
    /// Metrics that the result stands on.
    pub metrics: Vec<Measured>,
    /// Processor time over elapsed time, mean of the runs.
    pub cpu_share: Option<f64>,
    /// Whether time is told by kind of operation.
    pub by_kind: bool,
    /// Whether time is told as user, system and waiting.
    pub by_mode: bool,
    /// Runs that were steady for most of their time, and those for which that is known.
    pub steady: Option<(usize, usize)>,
    /// Whether the samples are kept.
    pub raw: bool,
    /// What disturbed runs, and how many it did.
    pub marked: usize,
    /// The marks, each once.
    pub marks: Vec<String>,
    /// Why measuring it ended, in words.
    pub stop: Option<String>,
}

/// A metric of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// Samples.
    pub n: usize,
    /// Half the width of the 95 % interval over the mean.
    pub half_width_relative: Option<f64>,
    /// Whether the samples pass for normal.
    pub normal: Option<bool>,
    /// Samples that lie far from the others.
    pub outliers: usize,
    /// Whether it moves from run to run.
    pub drifts: Option<bool>,
}

impl Evidence {
    /// Of an experiment.
    pub fn of_experiment(experiment: &Experiment) -> Self {
        stored::experiment(experiment)
    }

    /// Of a single run.
    pub fn of_run(run: &WorkloadRun) -> Self {
        stored::run(run)
    }

    /// Of a validation, with the profiles of its targets in their order: the machine is told there.
    pub fn of_validation(validation: &Validation, profiles: &[SystemProfile]) -> Self {
        stored::validation(validation, profiles)
    }
}

//! What an experiment keeps as its runs end, and what a continued one finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fsage_format::FormatError;
use fsage_format::result::environment::{MachineRecord, TargetRecord};
use fsage_format::result::experiment::{BenchRun, FailedRun};
use serde::{Deserialize, Serialize};

use super::BenchError;
use super::schedule::{Measured, NOTHING};
use crate::engine::record::kept;
use crate::plan::BenchPlan;

/// What the first line of the record says that it is of.
pub(super) const KIND: &str = "bench";

/// One line of `runs.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// The experiment begins.
    Begin(Box<Begin>),
    /// It goes on after it was stopped.
    Resumed {
        /// When, nanoseconds since 1970.
        unix_ns: u64,
        /// Where: its load, and whatever has changed.
        machine: Option<Box<MachineRecord>>,
    },
    /// A configuration's target, before its first run.
    Target {
        /// The configuration's name.
        configuration: String,
        /// The target.
        record: Box<TargetRecord>,
    },
    /// A run that ended well.
    Run {
        /// The configuration's name.
        configuration: String,
        /// What was measured.
        run: Box<BenchRun>,
    },
    /// One that did not.
    Failed(FailedRun),
}

/// What decides everything that follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// The plan's text.
    pub plan: String,
    /// The directory below which it names files.
    #[serde(default)]
    pub base: PathBuf,
    /// What options changed of it.
    pub options: Options,
    /// Tells plans apart.
    pub digest: String,
    /// When, nanoseconds since 1970.
    #[serde(rename = "start_unix_ns", alias = "started_unix_ns")]
    pub started_unix_ns: u64,
    /// Where.
    pub machine: Option<MachineRecord>,
}

/// What options change of a plan; `None` where they do not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Options {
    /// Exactly so many runs.
    pub runs: Option<u32>,
    /// Fewest runs.
    pub min_runs: Option<u32>,
    /// Most runs.
    pub max_runs: Option<u32>,
    /// The half-width to reach, as a share of the mean.
    pub precision: Option<f64>,
    /// The longest that all runs together may take, nanoseconds.
    pub budget_ns: Option<u64>,
    /// Over how many rounds runs are spread.
    pub rounds: Option<u32>,
    /// How long nothing is measured between them, nanoseconds.
    pub round_pause_ns: Option<u64>,
    /// Where the order of runs starts.
    pub seed: Option<u64>,
    /// The metrics that are to become precise.
    pub required: Option<Vec<String>>,
    /// Whether runs that fail are passed over.
    pub keep_going: bool,
    /// Whether what is measured is kept to one CPU.
    pub one_cpu: bool,
}

impl Options {
    /// Changes a plan. Says what does not go together.
    pub fn apply(&self, plan: &mut BenchPlan) -> Result<(), String> {
        let rule = &mut plan.rule;
        if let Some(runs) = self.runs {
            rule.fix(runs);
        }
        rule.bound(self.min_runs, self.max_runs)?;
        rule.half_width_relative = self.precision.unwrap_or(rule.half_width_relative);
        if let Some(ns) = self.budget_ns {
            rule.budget = std::time::Duration::from_nanos(ns);
        }
        rule.rounds = self.rounds.unwrap_or(rule.rounds);
        if let Some(ns) = self.round_pause_ns {
            rule.round_pause = std::time::Duration::from_nanos(ns);
        }
        if let Some(required) = &self.required {
            for name in required {
                for subject in &plan.subjects {
                    super::metrics::check(name, subject.workload.spec.command().is_some())?;
                }
            }
            rule.required.clone_from(required);
        }
        plan.seed = self.seed.unwrap_or(plan.seed);
        plan.keep_going |= self.keep_going;
        plan.one_cpu |= self.one_cpu;
        Ok(())
    }
}

/// Everything that a directory holds of an experiment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// How it began; `None` if it has not.
    pub begin: Option<Begin>,
    /// When it went on, nanoseconds since 1970.
    pub resumed_unix_ns: Vec<u64>,
    /// Targets, by configuration.
    pub targets: BTreeMap<String, TargetRecord>,
    /// What was measured, by configuration.
    pub measured: BTreeMap<String, Measured>,
}

impl Found {
    /// What was measured of a configuration.
    pub fn of(&self, configuration: &str) -> &Measured {
        self.measured.get(configuration).unwrap_or(&NOTHING)
    }

    /// How long all runs took with all that belongs to them, nanoseconds.
    pub fn used_ns(&self) -> u64 {
        self.measured.values().map(Measured::used_ns).sum()
    }

    /// Takes a line of the record.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begin(begin) => {
                self.begin.get_or_insert(*begin);
            }
            Entry::Resumed { unix_ns, .. } => self.resumed_unix_ns.push(unix_ns),
            Entry::Target {
                configuration,
                record,
            } => {
                self.targets.entry(configuration).or_insert(*record);
            }
            Entry::Run { configuration, run } => {
                // One that stands there twice was made once.
                let runs = &mut self.measured.entry(configuration).or_default().runs;
                if runs.iter().all(|known| known.run != run.run) {
                    runs.push(*run);
                }
            }
            Entry::Failed(failed) => {
                let of = self.measured.entry(failed.configuration.clone());
                let known = &mut of.or_default().failed;
                if known.iter().all(|known| known.run != failed.run) {
                    known.push(failed);
                }
            }
        }
    }
}

/// What a directory holds; nothing where there is no record.
pub fn found(dir: &Path) -> Result<Found, FormatError> {
    let mut found = Found::default();
    for entry in kept(dir, KIND)? {
        found.take(entry);
    }
    Ok(found)
}

/// The plan that a directory's experiment began with, options applied.
pub fn plan_of(dir: &Path, begin: &Begin) -> Result<BenchPlan, BenchError> {
    let mut plan = BenchPlan::parse(&dir.join("plan.toml"), &begin.plan, &begin.base)?;
    begin.options.apply(&mut plan).map_err(BenchError::Plan)?;
    Ok(plan)
}

//! What an evaluation does, checked before anything happens.

use std::path::PathBuf;

use fsage_core::{FsOptions, OpSink, OpSource, SinkError};
use fsage_exec::replay::Pace;
use fsage_format::trace::TraceReader;
use fsage_model::fsm::Measures;
use serde::{Deserialize, Serialize};

use crate::engine::ExperimentError;
use crate::plan::{CacheState, NamedTarget, NamedWorkload, digest};
use crate::target::check_commands;

/// Pages of a mebibyte.
const MIB_PAGES: u64 = 256;

/// One of the two that are held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// What the model stands for.
    Original,
    /// The model.
    Model,
}

impl Side {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Original, Self::Model];

    /// As results have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Model => "model",
        }
    }
}

/// What a model stands for.
#[derive(Debug, Clone)]
pub enum Original {
    /// A trace, which is replayed.
    Trace {
        /// The trace.
        path: PathBuf,
        /// The tree before it.
        snapshot: Option<PathBuf>,
    },
    /// A workload that is run: a command, or a generated one.
    Workload(NamedWorkload),
}

impl Original {
    /// What it is called.
    pub fn name(&self) -> String {
        match self {
            Self::Trace { path, .. } => path.display().to_string(),
            Self::Workload(workload) => workload.spec.to_string(),
        }
    }

    /// Whether it is a command.
    pub(super) fn is_command(&self) -> bool {
        matches!(self, Self::Workload(workload) if workload.spec.command().is_some())
    }
}

/// What one evaluation does.
#[derive(Debug, Clone)]
pub struct EvaluatePlan {
    /// What the model stands for.
    pub original: Original,
    /// Whether of a workload what sets it up and takes it down is measured, too, as the model is of that.
    pub whole: bool,
    /// The model as a workload.
    pub model: NamedWorkload,
    /// Where both run.
    pub targets: Vec<NamedTarget>,
    /// Runs of each side on each target; one where time is computed.
    pub runs: u32,
    /// What the caches hold when a run begins.
    pub cache: CacheState,
    /// When the operations of a trace start.
    pub pace: Pace,
    /// Whether figures are held to the strict limits.
    pub strict: bool,
    /// Where the order of runs starts, and what is written.
    pub seed: u64,
    /// Whether a run that fails is recorded and passed over.
    pub keep_going: bool,
    /// Whether runs that the directory holds already are not repeated.
    pub resume: bool,
    /// Where everything is kept.
    pub dir: PathBuf,
    /// The program and its first arguments that run a workload in a child, to be traced beside a command.
    pub child: Vec<std::ffi::OsString>,
    /// What tells the contents of the files apart that are read.
    pub contents: String,
}

impl EvaluatePlan {
    /// Tells plans apart by everything that decides what a run measures.
    pub(super) fn digest(&self) -> String {
        let mut text = format!(
            "evaluate {} {:?} {:?} {:?} {} {}\n",
            self.original.name(),
            self.model.spec.to_string(),
            self.cache,
            self.pace,
            self.seed,
            self.contents,
        );
        if self.whole {
            text.push_str("whole\n");
        }
        for target in &self.targets {
            text.push_str(&format!("{:?}\n", target.spec.to_string()));
        }
        digest(&text)
    }

    /// Refuses what cannot be carried out, by name.
    pub fn check(&self) -> Result<(), ExperimentError> {
        let refuse = |what: String| Err(ExperimentError::Plan(what));
        if self.targets.is_empty() || self.runs == 0 {
            return refuse("expected at least one target and one run".into());
        }
        for (place, target) in self.targets.iter().enumerate() {
            let spec = target.spec.to_string();
            let mut before = self.targets.iter().take(place);
            if before.any(|t| t.name == target.name || t.spec.to_string() == spec) {
                return refuse(format!("target {target} stands twice"));
            }
            if self.original.is_command() {
                check_commands(&*target.spec, "run the original, a command,")?;
            }
        }
        match &self.original {
            Original::Workload(workload) if workload.spec.in_target().is_some() => refuse(format!(
                "`{workload}` works on the files of the target itself, and each run gets a directory of its own; \
                 expected another"
            )),
            _ => Ok(()),
        }
    }

    /// Runs of a side on a target.
    pub(super) fn wanted(&self, target: usize) -> u32 {
        if self.is_virtual(target) {
            1
        } else {
            self.runs
        }
    }

    /// Whether a target's time is computed.
    pub(super) fn is_virtual(&self, target: usize) -> bool {
        let target = self.targets.get(target);
        target.is_some_and(|target| target.spec.has_virtual_time())
    }

    /// How the caches of each target are held against one another.
    pub(super) fn caches(&self) -> Result<Vec<TargetCaches>, ExperimentError> {
        let touched = match &self.original {
            Original::Trace { path, .. } => Some(touched(path)?),
            Original::Workload(_) => None,
        };
        let memory = |target: &NamedTarget| {
            let open = target.spec.open()?;
            let stated = open.describe().parameters.get("caches.pages_mib").cloned();
            let stated = stated.and_then(|mib| mib.parse::<u64>().ok());
            let can_be_cold = self.cache == CacheState::Cold && {
                let fs = open.file_system(FsOptions::TRUSTED)?;
                fs.platform().make_cold().is_ok()
            };
            let in_memory = open.describe().in_memory;
            open.close()?;
            // Of a machine's memory, what is free changes from minute to minute.
            let free = || fsage_host::environment::available_bytes().unwrap_or(0) >> 20;
            let mib = stated.unwrap_or_else(|| (free() / 2 + 1).next_power_of_two());
            let pages = mib.saturating_mul(MIB_PAGES);
            let pages = touched.map_or(pages, |touched| pages.min(touched)).max(2);
            Ok(TargetCaches {
                pages: [pages / 2, pages.saturating_mul(2)],
                cold: can_be_cold,
                lacks_cold: self.cache == CacheState::Cold && !can_be_cold && !in_memory,
            })
        };
        self.targets.iter().map(memory).collect()
    }
}

/// Caches on a target.
#[derive(Debug, Clone, Copy)]
pub(super) struct TargetCaches {
    /// Pages of half and of twice its memory, or of what the original touches where that is less.
    pub pages: [u64; 2],
    /// Whether they are cold when a run begins.
    pub cold: bool,
    /// Whether they should be and cannot; where nothing lies but in memory there is nothing to be cold.
    pub lacks_cold: bool,
}

/// How many pages a trace touches.
fn touched(path: &std::path::Path) -> Result<u64, ExperimentError> {
    let mut reader = TraceReader::open(path)?;
    let under = reader.meta().roots();
    // Traces that nothing was measured of count too.
    let mut sink = Measures::new(&under);
    gather(&mut reader, &mut sink)?;
    Ok(sink.footprint() as u64)
}

/// Puts a trace into a sink.
pub(super) fn gather(
    reader: &mut TraceReader,
    sink: &mut dyn OpSink,
) -> Result<(), ExperimentError> {
    reader.forget_paths();
    let mut batch = Vec::new();
    let failed = |why: String| ExperimentError::Failed(format!("read the trace: {why}"));
    while reader
        .next_batch(&mut batch)
        .map_err(|e| failed(e.to_string()))?
        > 0
    {
        for op in batch.drain(..) {
            let pushed: Result<(), SinkError> = sink.push(&op, reader.paths());
            pushed.map_err(|e| failed(e.to_string()))?;
        }
    }
    Ok(())
}

//! How a model was fitted to a trace.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fsage_core::OpKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// What `fsage model fit --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFit {
    /// The trace.
    pub trace: PathBuf,
    /// The model.
    pub file: PathBuf,
    /// The model's size, bytes.
    pub file_bytes: u64,
    /// How far the model may be from the trace, percent.
    pub within_percent: f64,
    /// Whether what was searched for is within that.
    pub reached: bool,
    /// Numbers of time chunks that were tried, coarse to fine; the last was taken.
    pub chunks: Vec<ChunkTry>,
    /// I/O chunk sizes that were tried, coarse to fine; the last was taken.
    pub io_chunks: Vec<IoTry>,
    /// Operations of the trace.
    pub operations: u64,
    /// Those in the model, by what they are.
    pub modelled: Vec<ModelledOperation>,
    /// Those that are not.
    pub left_out: Vec<LeftOut>,
    /// Bytes read.
    pub read: ModelBytes,
    /// Bytes written.
    pub written: ModelBytes,
    /// Writes for each file that is written.
    pub repeat_write: f64,
    /// Reads for each file that is read.
    pub repeat_read: f64,
    /// Levels of directories.
    pub depths: u32,
    /// Processes of the trace.
    pub processes: u64,
    /// Threads that run the model.
    pub threads: u64,
    /// Files that are made before it runs.
    pub setup_files: u64,
}

/// A number of time chunks that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChunkTry {
    /// The number.
    pub chunks: u32,
    /// Of the operations that are run, the largest share of one that is done more than 1/500 of the whole time
    /// earlier or later than in the trace, percent: the greatest distance between the cumulated shares.
    pub distance_percent: f64,
}

/// An I/O chunk size that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoTry {
    /// The size, bytes.
    pub io_chunk_bytes: u64,
    /// Bytes read against the trace's, percent.
    pub read_percent: f64,
    /// Bytes written against the trace's, percent.
    pub written_percent: f64,
}

/// An operation of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelledOperation {
    /// Its number in the model.
    pub number: u8,
    /// Its name.
    pub name: String,
    /// How often it occurs.
    pub count: u64,
    /// Of these, cached ones; reads alone are.
    pub cached: u64,
    /// Whether it is run as such; others are only told.
    pub run: bool,
}

/// Operations that are not in the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// Why.
    pub reason: String,
    /// How many.
    pub count: u64,
}

/// Bytes of the trace and of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelBytes {
    /// Of the trace.
    pub trace_bytes: u64,
    /// Of the model.
    pub model_bytes: u64,
}

/// What `fsage model fit -o M.fsm --json` prints: the model held against the trace, without running either.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FsmFit {
    /// The trace.
    pub trace: PathBuf,
    /// The model.
    pub file: PathBuf,
    /// The model's size, bytes.
    pub file_bytes: u64,
    /// Operations that the model stands for.
    pub operations: u64,
    /// Operations that it leaves out.
    pub left_out: u64,
    /// The same by kind: calls on files outside of what it is of, on descriptors of which nothing is known, and calls that no
    /// model has.
    #[serde(default)]
    pub left_out_by_kind: BTreeMap<String, u64>,
    /// Phases.
    pub phases: u64,
    /// Groups of like processes.
    pub groups: u64,
    /// Processes and threads.
    pub processes: u64,
    /// Classes of files that are used alike.
    pub file_classes: u64,
    /// What is done to a file in one go, so many ways.
    pub visits: u64,
    /// How far counts and bytes may be off, percent.
    pub within_percent: f64,
    /// Whether none is off by more; five operations of a kind may be.
    pub reached: bool,
    /// Operations by kind.
    pub counts: Vec<FsmCount>,
    /// Bytes read.
    pub read_bytes: ModelBytes,
    /// Bytes written.
    pub written_bytes: ModelBytes,
    /// Hits in caches of a quarter, half and all of the pages that the trace touches, as they go by the last use.
    pub hits: Vec<FsmHits>,
    /// What a run of the model does as another operation, or not at all.
    #[serde(default)]
    pub otherwise: Vec<FsmOtherwise>,
    /// From the first operation to the last.
    #[serde(default)]
    pub elapsed: FsmElapsed,
}

/// How long a trace and its model take, where operations take as long as they were traced to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FsmElapsed {
    /// The trace, nanoseconds.
    pub trace_ns: u64,
    /// What was played, nanoseconds.
    pub model_ns: u64,
}

impl FsmElapsed {
    /// How far what was played is from the trace, as a share; `None` of a trace that took no time.
    pub fn off(&self) -> Option<f64> {
        (self.trace_ns > 0).then(|| self.model_ns as f64 / self.trace_ns as f64 - 1.0)
    }
}

/// Operations of the model that its runs carry out otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FsmOtherwise {
    /// What they are.
    #[schemars(with = "String")]
    pub kind: OpKind,
    /// How many.
    pub operations: u64,
    /// What is done instead; null where nothing is.
    #[schemars(with = "Option<String>")]
    pub run_as: Option<OpKind>,
}

/// Operations of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FsmCount {
    /// The kind.
    #[schemars(with = "String")]
    pub kind: OpKind,
    /// In the trace.
    pub trace: u64,
    /// In what the model does.
    pub model: u64,
}

impl FsmFit {
    /// Operations of a kind that may be more or fewer, however few there are.
    const FEW: u64 = 5;

    /// What the model does more or less often than the trace did than it may, with both numbers.
    pub fn off(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
        let counts = self.counts.iter();
        let counts = counts.map(|of| (of.kind.name(), of.trace, of.model, Self::FEW));
        let bytes = |what, of: ModelBytes| (what, of.trace_bytes, of.model_bytes, 0);
        let bytes = [
            bytes("bytes read", self.read_bytes),
            bytes("bytes written", self.written_bytes),
        ];
        let within = self.within_percent / 100.0;
        counts
            .chain(bytes)
            .filter_map(move |(what, trace, model, few)| {
                let off = trace.abs_diff(model);
                let is_off = off > few && off as f64 > within * trace as f64;
                is_off.then_some((what, trace, model))
            })
    }
}

/// Hits in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FsmHits {
    /// The cache's size, bytes.
    pub cache_bytes: u64,
    /// Of the trace, percent.
    pub trace_percent: f64,
    /// Of what the model does, percent.
    pub model_percent: f64,
}

impl From<(u64, u64)> for ModelBytes {
    fn from((trace_bytes, model_bytes): (u64, u64)) -> Self {
        Self {
            trace_bytes,
            model_bytes,
        }
    }
}

/// What `fsage show MODEL --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownModel {
    /// The model.
    pub file: PathBuf,
    /// What it is, `fsm` or `filerunner`.
    pub kind: String,
    /// Phases of an `fsm`, time chunks of FileRunner.
    pub phases: u64,
    /// Groups of like processes; 0 of FileRunner.
    pub groups: u64,
    /// Processes and threads that it stands for.
    pub processes: u64,
    /// Of them those that run at once at the most.
    pub at_once: u64,
    /// Classes of files that are used alike; 0 of FileRunner.
    pub file_classes: u64,
    /// What is done to a file in one go, so many ways; 0 of FileRunner.
    pub visits: u64,
    /// Files that are made before it runs.
    pub files_before: u64,
    /// Files that it makes first where nothing is.
    pub files_later: u64,
    /// Operations that it does, by kind, the most first.
    pub counts: Vec<ShownCount>,
    /// Bytes that it reads.
    pub bytes_read: u64,
    /// Bytes that it writes.
    pub bytes_written: u64,
    /// How long the trace was, nanoseconds; null where the model does not say.
    pub span_ns: Option<u64>,
    /// Operations of the trace that it leaves out.
    pub left_out: u64,
    /// Whether it goes on beyond what is counted here.
    pub is_longer: bool,
    /// Its phases, the first of many.
    pub by_phase: Vec<ShownPhase>,
}

/// How often a model does something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownCount {
    /// The kind of operation.
    pub kind: String,
    /// How often.
    pub operations: u64,
}

/// A phase of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownPhase {
    /// When it starts, nanoseconds; null where the model does not say.
    pub start_ns: Option<u64>,
    /// Groups or processes that do something in it.
    pub parts: u64,
    /// Lines of their scripts, or definitions.
    pub lines: u64,
}

document! {
    ShownModel, "fsage shown model", 1;
    ModelFit, "fsage model fit", 1;
    FsmFit, "fsage model fit fsm", 1;
}

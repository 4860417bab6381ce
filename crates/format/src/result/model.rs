//! How a model was fitted to a trace.

use std::path::PathBuf;

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
    pub why: String,
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

document! {
    ModelFit, "fsage model fit", 1;
}

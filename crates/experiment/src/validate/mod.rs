//! Predictions held against measurement: `fsage validate`.
//!
//! * [`plan`]: what is done, in which order. [`run`]: all of it. [`step`]: one measured run;
//!   [`measure`]: what it took. [`merge`]: several profiles of a target as one.
//! * [`judge`]: what is said of it, a pure function of what was kept.

pub mod judge;
pub mod measure;
pub mod merge;
mod outcome;
pub mod plan;
pub mod run;
pub mod step;
pub mod workload;

use std::path::Path;

use fsage_format::FormatError;
use fsage_format::result::validation::Validation;
use fsage_host::HostError;

use crate::predicting::PredictingError;
use crate::profiling::ProfilingError;
use crate::tracing::TracingError;
use crate::tree::TreeError;

/// Why a validation could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// The plan cannot be carried out.
    #[error("plan the validation: {0}")]
    Plan(String),
    /// A target could not be made or used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A capture failed.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// A profile failed.
    #[error(transparent)]
    Profiling(#[from] ProfilingError),
    /// A prediction failed.
    #[error(transparent)]
    Predicting(#[from] PredictingError),
    /// A snapshot failed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The setup command failed.
    #[error("run the setup command `{command}`: {why}")]
    Setup {
        /// The command.
        command: String,
        /// How it ended and what it said last.
        why: String,
    },
    /// The workload failed.
    #[error("run workload `{workload}` on {target}: {status}, expected 0")]
    Workload {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// How it ended.
        status: String,
    },
    /// It was stopped.
    #[error("finish: interrupted")]
    Interrupted,
}

/// Writes a result, whole or not at all.
fn save(validation: &Validation, path: &Path) -> Result<(), FormatError> {
    let mut text = serde_json::to_vec_pretty(validation)
        .map_err(|e| FormatError::unwritable(path, e.to_string()))?;
    text.push(b'\n');
    fsage_format::record::write_whole(path, &text)
}

//! Why an experiment could not be carried out.

use std::path::PathBuf;

use fsage_core::TargetError;
use fsage_format::FormatError;
use fsage_host::HostError;

use crate::plan::PlanError;
use crate::predicting::PredictingError;
use crate::profiling::ProfilingError;
use crate::restoring::RestoreError;
use crate::running::RunningError;
use crate::tracing::TracingError;
use crate::tree::TreeError;

/// Why an experiment could not be carried out; completes “failed to …”.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The plan cannot be read.
    #[error(transparent)]
    Read(#[from] PlanError),
    /// The plan cannot be carried out.
    #[error("plan the experiment: {0}")]
    Plan(String),
    /// A target could not be made or used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The machine refused something else.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A file that is restored before runs cannot be used.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A capture failed.
    #[error(transparent)]
    Tracing(#[from] TracingError),
    /// A profile failed.
    #[error("profile {target}: {source}")]
    Profiling {
        /// The target.
        target: String,
        /// Why.
        source: ProfilingError,
    },
    /// A prediction failed.
    #[error(transparent)]
    Predicting(#[from] PredictingError),
    /// A snapshot failed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A workload could not be built or run.
    #[error("{doing}: {source}")]
    Running {
        /// What could not be done.
        doing: String,
        /// Why.
        source: Box<RunningError>,
    },
    /// A workload or its setup did not end as it should, or its trace says nothing of it.
    #[error("{0}")]
    Failed(String),
    /// There is nothing to predict from again.
    #[error(
        "predict again: {} or the snapshot beside it is not there; a validation with `--keep-traces none` keeps \
         none, and has to be measured again",
        .0.display()
    )]
    NoTraces(PathBuf),
    /// It was stopped.
    #[error("finish: interrupted")]
    Interrupted,
}

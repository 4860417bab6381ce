//! Predictions held against measurement: `fsage validate`.
//!
//! * [`plan`]: what is done, in which order. [`run`]: all of it. [`step`]: one measured run,
//!   after `prepare`; `own`: one where no tracer sees it;
//!   [`measure`]: what it took. [`merge`]: several profiles of a target as one. [`kept`]: what is on
//!   disk when a step has ended, and what a continued validation finds there. `eta`: how long the rest
//!   takes.
//! * [`again`]: predictions and judgement from what was kept.
//! * [`judge`]: what is said of it, a pure function of what was kept. `causes`: what the error
//!   consists of.

pub mod again;
mod causes;
mod eta;
pub mod judge;
pub mod kept;
pub mod measure;
pub mod merge;
mod outcome;
mod own;
pub mod plan;
pub(crate) mod prepare;
pub mod run;
pub mod step;

use fsage_core::TargetError;
use fsage_format::FormatError;
use fsage_host::HostError;

use crate::predicting::PredictingError;
use crate::profiling::ProfilingError;
use crate::running::RunningError;
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
    Target(#[from] TargetError),
    /// The machine refused something else.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
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
    /// The setup failed.
    #[error("run the setup of `{workload}` on {target}: {why}")]
    Setup {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// How it ended and what it said last.
        why: String,
    },
    /// The workload failed.
    #[error("run workload `{workload}` on {target}: {status}")]
    Workload {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// How it ended, and what was expected.
        status: String,
    },
    /// The workload could not be run by fsage itself.
    #[error("run workload `{workload}` on {target}: {source}")]
    Running {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// Why.
        source: Box<RunningError>,
    },
    /// The tracer did not keep up with the workload.
    #[error(
        "trace workload `{workload}` on {target}: {lost} of its operations were lost, expected at most \
         one in a thousand; a smaller workload, fewer threads or a quieter machine loses less"
    )]
    Lost {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// Operations.
        lost: u64,
    },
    /// The capture made the run so much slower that neither its times nor a prediction from its trace say
    /// anything.
    #[error(
        "trace workload `{workload}` on {target}: so that nothing was lost its calls were held back by {percent} % \
         of its time, expected at most 2 %; fewer threads or a quieter machine need less"
    )]
    HeldBack {
        /// The workload.
        workload: String,
        /// The target.
        target: String,
        /// Of the run's time.
        percent: u64,
    },
    /// It was stopped.
    #[error("finish: interrupted")]
    Interrupted,
}

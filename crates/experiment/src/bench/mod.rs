//! Experiments that can be trusted: `fsage bench`, by the rules of the nine year study (Traeger, Zadok,
//! Joukov, Wright 2007, sections 3, 4, 6).
//!
//! * [`run`]: an experiment from its plan to its result. [`schedule`]: which run is next and when there are
//!   enough. [`kept`]: what is on disk when a run has ended, and what a continued experiment finds there.
//! * [`step`]: one run; `ended`: how it ended; `probe`: whether cold caches are; `measure`, `sampler`: what
//!   is read before, while and after it; `steady`: where its throughput settles; `marks`: what makes it
//!   suspect.
//! * [`metrics`]: the figures of a run. [`judge`]: what is said of all of them, a pure function of what was
//!   kept.

mod ended;
mod flush;
pub mod judge;
pub mod kept;
pub(crate) mod marks;
mod measure;
pub mod metrics;
mod probe;
pub mod run;
mod sampler;
pub mod schedule;
mod steady;
pub mod step;

use fsage_core::TargetError;
use fsage_format::FormatError;
use fsage_host::HostError;

use crate::plan::PlanError;
use crate::restoring::RestoreError;
use crate::running::RunningError;

/// Why an experiment could not be carried out; completes “failed to …”.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The plan cannot be read.
    #[error(transparent)]
    Read(#[from] PlanError),
    /// The plan cannot be carried out.
    #[error("plan the experiment: {0}")]
    Plan(String),
    /// A workload cannot be built.
    #[error("build workload `{workload}`: {source}")]
    Workload {
        /// Its name.
        workload: String,
        /// Why.
        source: RunningError,
    },
    /// A target cannot be used so.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The directory could not be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A file that is restored before runs cannot be used.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The record could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
}

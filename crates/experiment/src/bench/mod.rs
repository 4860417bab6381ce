//! Experiments that can be trusted: `fsage bench`, by the rules of the nine year study (Traeger, Zadok,
//! Joukov, Wright 2007, sections 3, 4, 6).
//!
//! * [`run`]: an experiment from its plan to its result. [`schedule`]: when there are runs enough. [`kept`]:
//!   what is on disk when a run has ended, and what a continued experiment finds there.
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
pub(crate) mod measure;
pub mod metrics;
mod probe;
pub mod run;
mod sampler;
pub mod schedule;
mod steady;
pub mod step;

pub use crate::engine::ExperimentError as BenchError;

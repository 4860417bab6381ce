//! Predictions held against measurement: `fsage validate`.
//!
//! * [`plan`]: what is done, in which order. [`run`]: all of it. [`step`]: one measured run,
//!   after `prepare`; `own`: its workload where no tracer sees it;
//!   [`measure`]: what it took. [`merge`]: several profiles of a target as one. [`kept`]: what is on
//!   disk when a step has ended, and what a continued validation finds there.
//! * [`again`]: predictions and judgement from what was kept.
//! * [`judge`]: what is said of it, a pure function of what was kept. `causes`: what the error
//!   consists of.

pub mod again;
mod causes;
pub mod judge;
pub mod kept;
pub mod measure;
pub mod merge;
mod outcome;
pub(crate) mod own;
pub mod plan;
pub(crate) mod prepare;
pub mod run;
pub mod step;

pub use crate::engine::ExperimentError as ValidateError;

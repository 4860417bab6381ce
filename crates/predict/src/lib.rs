//! A trace and system profiles become a prediction: what every operation would cost on each system.
//!
//! Always true in this crate: no I/O, no clock, no randomness, no global state, so that any number of
//! predictions can run at once; memory grows with the files and names of the trace and not with its
//! length; nothing that a trace or a profile says makes it panic; nothing is silently zero: what was
//! not measured has a substitute, named in the result, or is named as missing.
//!
//! One pass, four stages (Smith 2001, 4.4.5), each usable alone:
//!
//! 1. [`namespace`]: which files, names, offsets and sizes an operation is about;
//! 2. [`caches`]: what is cached, what is dirty, and so what the operation needs;
//! 3. [`pattern`]: how a disk-bound request lies to the one before, read-ahead;
//! 4. [`cost`]: needs to request vectors, request vectors to time.
//!
//! Beside them [`threads`] (pauses between calls), [`elapsed`] (think times, and waiting for processors and the
//! device),
//! [`writeback`] (eq. 4), [`certainty`], [`rank`] and [`whatif`]. Begin at [`Predictor`]; [`result`] is what comes
//! out.

mod arm;
mod beside;
pub mod caches;
pub mod certainty;
mod context;
pub mod cost;
mod drive;
pub mod elapsed;
mod finish;
mod intake;
mod lacking;
pub mod namespace;
mod paces;
pub mod pattern;
pub mod rank;
pub use fsage_format::result::prediction as result;
mod run;
mod shares;
mod sizes;
pub mod threads;
pub mod whatif;
pub mod writeback;

pub use context::Context;
pub use cost::{Machine, SystemVector};
pub use fsage_cache::{Policy, Start, WriteBack};
pub use namespace::{FileRecord, Scope};
pub use pattern::Relation;
pub use result::Prediction;
pub use run::{Annotation, AnnotationSink, Options, Predictor};
pub use whatif::{Change, elapsed_after};

//! Drives a [`FileSystem`](fsage_core::FileSystem) with streams of operations and measures it.
//!
//! Always true in this crate:
//! * one thread per stream; operations run as fast as the target answers, in the stream's order;
//! * between the two readings of the target's clock around an operation stands that operation's call
//!   alone: names, payloads and handles are ready before the first, counting follows the second;
//! * every operation is accounted for: run, or skipped with its kind; every error is counted by its
//!   number and held against the one that the stream expected;
//! * what a stream leaves open is closed in the end.
//!
//! [`run`] measures, [`run_direct`] only does (for a process that is traced from outside).
//! [`NullFs`] is the engine that does nothing: what it costs is the harness's own.

mod dispatch;
mod handles;
mod null;
mod payload;
mod record;
mod result;
mod run;
mod usage;

pub use null::NullFs;
pub use payload::Payload;
pub use result::{KindResult, Mismatch, RunResult, SeriesPoint};
pub use run::{DirectResult, ExecError, Options, run, run_direct};

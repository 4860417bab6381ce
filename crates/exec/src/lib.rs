//! Drives a [`FileSystem`](fsage_core::FileSystem) with streams of operations and measures it.
//!
//! Always true in this crate:
//! * one thread per stream; operations run in the stream's order, as fast as the target answers and
//!   the stream's own waits allow; streams of one process share its open files;
//! * between the two readings of the target's clock around an operation stands that operation's call
//!   alone: names, payloads and handles are ready before the first, counting follows the second;
//! * every operation is accounted for: run, or skipped with its kind; every error is counted by its
//!   number and held against the one that the stream expected;
//! * what streams leave open is closed in the end; no stream waits for ever;
//! * over a target in virtual time one thread drives all streams in the order of that time: nothing
//!   sleeps or reads another clock, and two runs are the same.
//!
//! [`run()`] measures, [`run_direct`] only does (for a process that is traced from outside).
//! [`NullFs`] is the engine that does nothing: what it costs is the harness's own.

mod agenda;
mod buffer;
mod dispatch;
mod handles;
mod measured;
mod null;
mod pace;
mod packed;
mod payload;
mod record;
pub mod replay;
mod result;
mod run;
mod timer;
mod usage;
mod virtual_run;

pub use dispatch::{open_flags, place};
pub use measured::{Door, Measuring, Origin, SinkSummary};
pub use null::NullFs;
pub use payload::Payload;
pub use result::{KindResult, Mismatch, RunResult, SeriesPoint, StreamResult};
pub use run::{DirectResult, ExecError, Options, is_fatal, run, run_direct};

//! The formats of HBench-FS (Smith 2001, appendix A): the binary trace (A.1), the text snapshot
//! (A.3), the text system profile (A.4).
//!
//! * [`record`]: one `fsop_t` and its strings, byte by byte.
//! * [`HbenchSource`] and [`HbenchSink`]: traces as streams of operations; chains are collapsed on
//!   the way in and made on the way out.
//! * [`snapshot`], [`profile`]: the two text formats.
//!
//! What was decided where the appendix is silent stands in `docs/decisions/0010-hbench-fs-trace.md`.

pub mod profile;
pub mod record;
pub mod snapshot;

mod read;
mod write;

pub use read::{HbenchReport, HbenchSource};
pub use write::HbenchSink;

//! `.fst`: the trace, one row per operation.
//!
//! A [`TraceWriter`] is an [`OpSink`](fsage_core::OpSink), a [`TraceReader`] an
//! [`OpSource`](fsage_core::OpSource); both hold one piece (at most [`PIECE_ROWS`] operations) and
//! the distinct paths, never the whole trace. The columns stand in [`columns::COLUMNS`].

mod annotate;
pub mod columns;
mod meta;
mod reader;
mod writer;

pub use annotate::{AnnotationColumn, AnnotationKind, AnnotationValue, Annotations};
pub use columns::path_text;
pub use meta::{Loss, TraceEnd, TraceMeta};
pub use reader::TraceReader;
pub use writer::{PIECE_ROWS, TraceWriter};

use crate::error::{FormatError, Version};

/// Why a trace cannot be read or written.
pub type TraceError = FormatError;

/// The version that is written; every version up to it is read.
pub const TRACE_VERSION: Version = Version(6);

/// How the file is told from others.
pub(crate) const FORMAT: crate::piece::Format = crate::piece::Format {
    name: "trace",
    expected: "a trace (.fst)",
    version: TRACE_VERSION,
};

/// The entry of a trace's extra metadata with the number of CPUs that the traced processes shared.
pub const CPUS: &str = "cpus";

/// The entry of a trace's metadata that says what the machine's reference work took before it began, nanoseconds.
pub const REFERENCE_NS: &str = "reference_ns";

/// The entry that says what the tracer itself takes of each call, nanoseconds; every latency is without it.
pub const TRACER_NS: &str = "tracer_ns";

/// The entry that says what the tracer takes of a thread for each call on a file, [`TRACER_NS`] and what is before and after
/// it, nanoseconds: it is in the pauses between calls.
pub const TRACER_ALL_NS: &str = "tracer_all_ns";

/// The entry that says that operations tell how long they slept within themselves and how often before, which versions
/// before 6 could not: a trace that is written anew from one of those does not have it.
pub const TELLS_SLEEP: &str = "tells_sleep";

/// How a trace was made that nobody traced ([`TraceMeta::method`]): a workload says what it does.
pub const GENERATED: &str = "generated";

/// The entry that says on which file system it was made: one of what
/// [`TargetRecord::systems`](crate::result::environment::TargetRecord::systems) says of it.
pub const SYSTEM: &str = "system";

/// The entry that says that everything was kept on one CPU.
pub const ONE_CPU: &str = "one_cpu";

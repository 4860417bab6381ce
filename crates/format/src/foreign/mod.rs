//! The formats of other tools, each as a source or a sink of the stream of operations.
//!
//! * [`strace`]: text of `strace -f -ttt -T -y`, both ways.
//! * [`hbench`]: the binary trace, the snapshot and the system profile of HBench-FS (Smith 2001,
//!   appendix A), both ways.
//! * [`iolog`]: fio's iologs, versions 2 and 3, read.
//! * [`classic`]: snapshots as the thesis's aging workloads were made from, read.
//! * [`csv`]: traces as comma-separated values, one way.
//! * [`wml`]: filebench's Workload Model Language, read.
//!
//! Always true: a reader streams, so that memory grows with distinct names and not with length; its
//! errors are [`FormatError`]s that name the file, the line or the record and byte, and what was
//! expected.

pub mod classic;
pub mod csv;
pub mod hbench;
pub mod iolog;
pub mod strace;
pub mod wml;

use fsage_core::{SinkError, SourceError};

use crate::FormatError;

/// The most bytes that a call moves (`MAX_RW_COUNT`).
const MOST_MOVED: u64 = 0x7fff_f000;

pub(crate) fn source_error(error: FormatError) -> SourceError {
    SourceError {
        message: error.to_string(),
        source: Some(Box::new(error)),
    }
}

pub(crate) fn sink_error(error: FormatError) -> SinkError {
    SinkError {
        message: error.to_string(),
        source: Some(Box::new(error)),
    }
}

//! What fsage measured of its own calls, as a trace.

use std::path::Path;

use fsage_core::{FileSystem, Root, SinkError};
use fsage_exec::{Door, Measuring, Origin};
use fsage_format::profile::CPUS;
use fsage_format::trace::{TraceEnd, TraceError, TraceMeta, TraceWriter};
use fsage_host::machine;

/// How such a trace says that it was captured.
pub const METHOD: &str = "measured";

/// What the root of a target is called in a trace that has no directory on this machine.
const NO_DIRECTORY: &str = "/target";

/// The directory below which a trace of what is done there lies.
pub fn trace_root(root: &(impl Root + ?Sized)) -> &Path {
    root.host_dir().unwrap_or(Path::new(NO_DIRECTORY))
}

/// Why the trace could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    /// The file failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An operation could not be written.
    #[error("write what was measured")]
    Sink(#[from] SinkError),
    /// No thread could be started to write it.
    #[error("start a thread that writes what is measured")]
    Thread(#[from] std::io::Error),
}

/// A trace that is being written; without [`MeasuredTrace::finish`] there is none.
pub struct MeasuredTrace(Measuring<TraceWriter>);

impl MeasuredTrace {
    /// Begins the trace of what is done on `fs`, whose root is `directory`, absolute. `command`, `seed`
    /// and what else there is to tell come from `meta`.
    pub fn begin(
        path: &Path,
        fs: &dyn FileSystem,
        directory: &Path,
        mut meta: TraceMeta,
    ) -> Result<Self, MeasuredError> {
        let machine = machine::identity();
        let is_virtual = fs.virtual_time().is_some();
        let text = directory.to_string_lossy().into_owned();
        if !is_virtual {
            let cpus = fsage_host::thread::allowed_cpus().len();
            meta.extra.insert(CPUS.into(), cpus.to_string());
        }
        let clock = if is_virtual {
            "virtual"
        } else {
            "CLOCK_MONOTONIC"
        };
        let meta = TraceMeta {
            fsage: env!("CARGO_PKG_VERSION").into(),
            host: machine.host,
            kernel: machine.kernel,
            directory: text.clone(),
            start_unix_ns: machine::unix_time_ns(),
            clock: clock.into(),
            method: METHOD.into(),
            under: vec![text],
            ..meta
        };
        let origin = Origin {
            start_ns: fs.clock().now_ns(),
            directory: directory.as_os_str().as_encoded_bytes().to_vec(),
            is_virtual,
        };
        let writer = TraceWriter::create_whole(path, meta)?;
        Ok(Self(Measuring::begin(writer, origin)?))
    }

    /// Where executors hand over what they measure.
    pub fn door(&self) -> &Door {
        self.0.door()
    }

    /// Seals the trace once everything has arrived; `stopped` says why it ends before its time.
    pub fn finish(self, stopped: Option<&str>) -> Result<Sealed, MeasuredError> {
        let (writer, told) = self.0.finish();
        let told = told?;
        let bytes = writer.finish(TraceEnd {
            late: told.late,
            elapsed_ns: told.end_ns,
            throttled_ns: told.held_back_ns,
            stopped: stopped.map(str::to_owned),
            ..TraceEnd::default()
        })?;
        Ok(Sealed {
            operations: told.operations,
            bytes,
        })
    }
}

/// A trace that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// Its operations.
    pub operations: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

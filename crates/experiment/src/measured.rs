//! What fsage measured of its own calls, as a trace.

use std::path::Path;

use fsage_core::{DeviceCounters, FileSystem, Op, OpSink, PathTable, Root, SinkError};
use fsage_exec::{Door, Measuring, Origin};
use fsage_format::result::experiment::DeviceActivity;
use fsage_format::trace::{CPUS, TraceEnd, TraceError, TraceMeta, TraceWriter, path_text};
use fsage_host::machine;
use fsage_model::figures::{FigureSink, Figures};
use fsage_workload::Role;

use crate::bench::measure::between;
use crate::validate::measure::Measured;

/// How such a trace says that it was captured.
pub const METHOD: &str = "measured";

/// Empty calls whose median is what one takes.
const EMPTY_CALLS: usize = 2001;

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
pub struct MeasuredTrace(Measuring<Sink>);

/// How many operations of a trace come before a workload and after it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around {
    setup: u64,
    teardown: u64,
    seen: u64,
}

impl Around {
    /// A phase has ended, well or not: there are so many operations by now.
    pub fn ended(&mut self, role: Role, operations: u64) {
        let own = operations.saturating_sub(self.seen);
        self.seen = operations;
        match role {
            Role::Setup => self.setup += own,
            Role::Run => {}
            Role::Teardown => self.teardown += own,
        }
    }

    /// What a trace's end says of it.
    pub fn end(self) -> TraceEnd {
        TraceEnd {
            setup_operations: self.setup,
            teardown_operations: self.teardown,
            ..TraceEnd::default()
        }
    }
}

/// What is to be made of the operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// The trace.
    pub path: Option<&'a Path>,
    /// What they took, by kind.
    pub sums: bool,
    /// All figures by which runs are held against each other, with caches of so many pages.
    pub figures: Option<&'a [u64]>,
}

impl<'a> Wanted<'a> {
    /// A trace.
    pub fn trace(path: &'a Path) -> Self {
        Self {
            path: Some(path),
            ..Self::default()
        }
    }
}

/// Where the operations go.
struct Sink {
    writer: Option<TraceWriter>,
    /// What they took by kind, where that is asked for.
    sums: Option<Measured>,
    figures: Option<FigureSink>,
}

impl OpSink for Sink {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        if let Some(sums) = &mut self.sums {
            sums.charge(op);
        }
        if let Some(figures) = &mut self.figures {
            figures.push(op, paths)?;
        }
        match &mut self.writer {
            Some(writer) => writer.push(op, paths),
            None => Ok(()),
        }
    }
}

impl MeasuredTrace {
    /// Begins the trace of what is done on `fs`, whose root is `directory`, absolute. `command`, `seed` and what
    /// else there is to tell come from `meta`.
    pub fn begin(
        wanted: Wanted<'_>,
        fs: &dyn FileSystem,
        directory: &Path,
        meta: TraceMeta,
    ) -> Result<Self, MeasuredError> {
        let sums = wanted.sums.then(Measured::default);
        let is_virtual = fs.virtual_time().is_some();
        let under = [directory.as_os_str().as_encoded_bytes().to_vec()];
        let figures = wanted.figures;
        let figures = figures.map(|caches| FigureSink::new(&under, is_virtual, caches));
        let empty_call_ns = empty_call_ns(fs);
        let create =
            |path| TraceWriter::create_whole(path, written(fs, directory, (meta, empty_call_ns)));
        let writer = wanted.path.map(create).transpose()?;
        let origin = Origin {
            start_ns: fs.clock().now_ns(),
            directory: directory.as_os_str().as_encoded_bytes().to_vec(),
            is_virtual,
            empty_call_ns,
        };
        let sink = Sink {
            writer,
            sums,
            figures,
        };
        Ok(Self(Measuring::begin(sink, origin)?))
    }

    /// Where executors hand over what they measure.
    pub fn door(&self) -> &Door {
        self.0.door()
    }

    /// Seals the trace once everything has arrived; `stopped` says why it ends before its time.
    pub fn finish(self, stopped: Option<&str>) -> Result<Sealed, MeasuredError> {
        self.finish_around(stopped, Around::default())
    }

    /// The same of a workload with what comes before its run and after it.
    pub(crate) fn finish_around(
        self,
        stopped: Option<&str>,
        around: Around,
    ) -> Result<Sealed, MeasuredError> {
        let (sink, reported) = self.0.finish();
        let reported = reported?;
        let end = TraceEnd {
            late: reported.late,
            elapsed_ns: reported.end_ns,
            throttled_ns: reported.held_back_ns,
            stopped: stopped.map(str::to_owned),
            ..around.end()
        };
        let bytes = sink.writer.map(|writer| writer.finish(end)).transpose()?;
        Ok(Sealed {
            operations: reported.operations,
            bytes: bytes.unwrap_or_default(),
            elapsed_ns: reported.end_ns,
            held_back_ns: reported.held_back_ns,
            sums: sink.sums.unwrap_or_default(),
            figures: sink.figures.map(FigureSink::finish),
            device: None,
        })
    }
}

/// What entering and leaving the target takes: the median of the empty call.
fn empty_call_ns(fs: &dyn FileSystem) -> u64 {
    let mut samples: Vec<u64> = (0..EMPTY_CALLS)
        .map(|_| {
            let before_ns = fs.clock().now_ns();
            fs.empty_call();
            fs.clock().now_ns().saturating_sub(before_ns)
        })
        .collect();
    let (_, median, _) = samples.select_nth_unstable(EMPTY_CALLS / 2);
    *median
}

/// What such a trace says of itself.
fn written(
    fs: &dyn FileSystem,
    directory: &Path,
    (mut meta, empty_call_ns): (TraceMeta, u64),
) -> TraceMeta {
    let is_virtual = fs.virtual_time().is_some();
    // Nothing of the machine decides what is measured in virtual time.
    let machine = (!is_virtual).then(machine::identity).unwrap_or_default();
    if !is_virtual {
        let cpus = fsage_host::thread::allowed_cpus().len();
        meta.extra.insert(CPUS.into(), cpus.to_string());
    }
    let taken = ("empty_call_ns".to_owned(), empty_call_ns.to_string());
    meta.extra.extend([taken]);
    let clock = if is_virtual {
        "virtual"
    } else {
        "CLOCK_MONOTONIC"
    };
    let directory = path_text(directory);
    TraceMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        host: machine.host,
        kernel: machine.kernel,
        directory: directory.clone(),
        start_unix_ns: machine::unix_time_ns(),
        clock: clock.into(),
        method: METHOD.into(),
        under: vec![directory],
        ..meta
    }
}

/// A trace that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Its operations.
    pub operations: u64,
    /// Its size in bytes; 0 where none was written.
    pub bytes: u64,
    /// From its beginning to the end of its last operation, nanoseconds.
    pub(crate) elapsed_ns: u64,
    /// How long in all it was held back until they were written, nanoseconds.
    pub(crate) held_back_ns: u64,
    /// What the operations took, where that was asked for.
    pub(crate) sums: Measured,
    /// What they come to, likewise.
    pub(crate) figures: Option<Figures>,
    /// What the device did until all of it was written back, where that was asked for and the target counts it.
    pub(crate) device: Option<DeviceActivity>,
}

/// What the device of a target does.
pub(crate) struct DeviceWatch<'a> {
    fs: &'a dyn FileSystem,
    before: Option<DeviceCounters>,
}

impl<'a> DeviceWatch<'a> {
    /// From now on.
    pub fn begin(fs: &'a dyn FileSystem) -> Self {
        Self {
            fs,
            before: fs.platform().device_counters(),
        }
    }

    /// Until what was written so far is on it.
    pub fn finish(self) -> Option<DeviceActivity> {
        let before = self.before?;
        // What cannot be written back is told by the target's own check.
        let _ = self.fs.sync();
        Some(between(&before, &self.fs.platform().device_counters()?))
    }
}

//! A capture that ends up in a trace file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fsage_capture::{
    CaptureError, CaptureRequest, CaptureStart, CaptureSummary, Notice, What, capture,
};
use fsage_core::{Op, OpSink, PathTable, SinkError};
use fsage_format::result::environment::TargetRecord;
use fsage_format::trace::{
    CPUS, REFERENCE_NS, SYSTEM, TELLS_SLEEP, TRACER_ALL_NS, TRACER_NS, TraceEnd, TraceError,
    TraceMeta, TraceWriter, path_text,
};
use fsage_host::speed::Reference;
use fsage_host::{machine, mounts};
use rustix::fs::OFlags;

use crate::validate::measure::Measured;

/// A kill loses at most what was seen in this long.
const PIECE_EVERY: Duration = Duration::from_secs(5);
/// A file that is gone is noticed after this long.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The clock is asked once in so many operations.
const OPERATIONS_BETWEEN_CLOCKS: u32 = 1024;

/// Why a trace could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// The capture failed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The file failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file is not where it was made any more.
    #[error("keep {}: {what}", path.display())]
    Gone {
        /// Where it was made.
        path: PathBuf,
        /// What became of it.
        what: &'static str,
    },
}

/// What a trace says beside what was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// The snapshot of the tree before it.
    pub snapshot: Option<String>,
    /// Anything else, by name.
    pub extra: BTreeMap<String, String>,
    /// The CPU that what is traced is kept on, whose speed is told; any if none.
    pub cpu: Option<usize>,
}

/// A capture and the file it became.
#[derive(Debug, Clone)]
pub struct Traced {
    /// What came of the capture.
    pub summary: CaptureSummary,
    /// What the operations took.
    pub measured: Measured,
    /// What the machine's reference work took before and after it on average, ns.
    pub reference_ns: Option<u64>,
    /// From the start of the first operation to the end of the last, ns.
    pub span_ns: u64,
    /// What file systems took, ns: without what processes and pipes did.
    pub in_file_system_ns: u64,
    /// Size of the finished file, bytes; 0 if none was asked for.
    pub file_bytes: u64,
}

/// What a capture may hold in memory, MiB: an eighth of what this process can have, 1 GiB at most.
pub fn default_spool_mib() -> u32 {
    let eighth = fsage_host::environment::available_bytes().unwrap_or(0) >> 23;
    eighth.clamp(16, 1024) as u32
}

/// Captures, sums, and writes to `path` if there is one. `notice` is told how the capture is made
/// once it runs, and what a user should know of it later. The file is readable whatever happens to this process.
#[allow(clippy::disallowed_methods, reason = "pieces are written by time")]
pub fn trace_to(
    path: Option<&Path>,
    request: &CaptureRequest,
    beside: &Beside,
    stop: &AtomicBool,
    notice: &mut dyn FnMut(&Notice<'_>),
) -> Result<Traced, TracingError> {
    // The file begins when the capture has: only then is it known how it is made.
    let file: RefCell<Option<Result<Output, TracingError>>> = RefCell::new(None);
    let mut sink = FileSink {
        file: &file,
        pushed: 0,
        piece_began: Instant::now(),
        looked: Instant::now(),
        spanned: None,
        measured: Measured::default(),
    };
    let mut beside = beside.clone();
    let mut reference = Reference::new();
    let mut speed = |cpu| {
        reference
            .as_mut()
            .map(|reference| reference.take_on_ns(cpu))
    };
    let speed_before = speed(beside.cpu);
    let entry = speed_before.map(|ns| (REFERENCE_NS.to_owned(), ns.to_string()));
    beside.extra.extend(entry);
    let meta = |start: &CaptureStart| trace_meta(request, start, &beside);
    let summary = capture(request, stop, &mut sink, &mut |reported| {
        match (path, reported) {
            (Some(path), Notice::Started(start)) => {
                *file.borrow_mut() = Some(Output::create(path, meta(start)));
            }
            (_, Notice::Lost { so_far }) => {
                if let Some(Ok(output)) = file.borrow_mut().as_mut() {
                    output.writer.set_lost_so_far(*so_far);
                }
            }
            _ => {}
        }
        notice(reported);
    });
    let reference_ns = speed_before.zip(speed(beside.cpu));
    let measured = sink.measured;
    let span_ns = sink.spanned.map_or(0, |(first, last)| last - first);
    let output = file.into_inner().transpose();
    // An error of the file is the cause of the sink's, so it is told first.
    let (output, summary) = (output?, summary?);
    let file_bytes = match output {
        Some(output) => output.finish(trace_end(&summary, stop))?,
        None => 0,
    };
    Ok(Traced {
        summary,
        in_file_system_ns: measured.total_ns(),
        measured,
        reference_ns: reference_ns.map(|(a, b)| u64::midpoint(a, b)),
        span_ns,
        file_bytes,
    })
}

fn trace_meta(request: &CaptureRequest, start: &CaptureStart, beside: &Beside) -> TraceMeta {
    let machine = machine::identity();
    let (command, directory, attached) = match &request.what {
        What::Command { argv, cwd, .. } => (
            argv.iter()
                .map(|a| a.to_string_lossy().into_owned())
                .collect(),
            cwd.clone()
                .or_else(|| std::env::current_dir().ok())
                .unwrap_or_default(),
            Vec::new(),
        ),
        What::Pids(pids) => (
            Vec::new(),
            std::path::PathBuf::new(),
            pids.iter().map(|p| p.0).collect(),
        ),
    };
    let cpus = fsage_host::thread::allowed_cpus().len();
    let mut extra = beside.extra.clone();
    extra.entry(CPUS.into()).or_insert_with(|| cpus.to_string());
    let system = extra
        .get(SYSTEM)
        .cloned()
        .or_else(|| system(&request.under));
    extra.extend(system.map(|system| (SYSTEM.to_owned(), system)));
    for (entry, ns) in [
        (TRACER_NS, start.own.within_ns),
        (TRACER_ALL_NS, start.own.all_ns),
    ] {
        if ns > 0 {
            extra.insert(entry.into(), ns.to_string());
        }
    }
    if start.tells_waits {
        extra.insert(TELLS_SLEEP.into(), "yes".into());
    }
    TraceMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        host: machine.host,
        kernel: machine.kernel,
        command,
        directory: path_text(&directory),
        start_unix_ns: start.start_unix_ns,
        clock: "CLOCK_MONOTONIC".into(),
        method: start.method.into(),
        under: request.under.iter().map(|dir| path_text(dir)).collect(),
        attached,
        snapshot: beside.snapshot.clone(),
        extra,
        ..TraceMeta::default()
    }
}

/// The file system that holds these directories, if it is one.
fn system(dirs: &[PathBuf]) -> Option<String> {
    let mounts = mounts::all();
    let holds = |dir: &PathBuf| {
        let over = mounts.iter().filter(|mount| dir.starts_with(&mount.dir));
        // Of those that are mounted over one another the last is seen.
        over.max_by_key(|mount| mount.dir.as_os_str().len())
    };
    let mut held = dirs.iter().map(holds);
    let first = held.next()??;
    let source = first.source.display().to_string();
    let is_one = held.all(|mount| mount.is_some_and(|mount| mount.dev == first.dev));
    TargetRecord::mounted(&first.kind, &source).filter(|_| is_one)
}

fn trace_end(summary: &CaptureSummary, stop: &AtomicBool) -> TraceEnd {
    let status = summary.exit_status;
    let stopped = if stop.load(std::sync::atomic::Ordering::Relaxed) {
        Some("interrupted".to_string())
    } else {
        summary.exit_status.is_none().then(|| "time".to_string())
    };
    TraceEnd {
        operations_lost: summary.lost,
        operations_left_out: summary.left_out,
        operations_nameless: summary.nameless,
        throttled_ns: summary.held_back.total_ns,
        late: summary.late,
        elapsed_ns: summary.elapsed_ns,
        exit_status: status.filter(|&s| s <= 128),
        exit_signal: status.filter(|&s| s > 128).map(|s| s - 128),
        stopped,
        programs: summary.programs.clone(),
        ..TraceEnd::default()
    }
}

/// The trace's file.
struct Output {
    writer: TraceWriter,
    place: Place,
}

impl Output {
    fn create(path: &Path, meta: TraceMeta) -> Result<Self, TracingError> {
        let writer = TraceWriter::create(path, meta)?;
        let place = Place {
            path: path.to_owned(),
            // Only to be looked at: of a pipe this must not be its reader.
            handle: OpenOptions::new()
                .read(true)
                .custom_flags(OFlags::PATH.bits() as i32)
                .open(path)
                .ok(),
        };
        Ok(Self { writer, place })
    }

    /// Ends the trace, and makes sure that it is where it should be.
    fn finish(self, end: TraceEnd) -> Result<u64, TracingError> {
        let bytes = self.writer.finish(end)?;
        self.place.is_kept(true)?;
        Ok(bytes)
    }
}

/// Where the file was made, and the file.
struct Place {
    path: PathBuf,
    handle: Option<File>,
}

impl Place {
    /// Whether the file still has a name; with `there`, whether it is the one that was asked for.
    fn is_kept(&self, there: bool) -> Result<(), TracingError> {
        let Some(own) = self.handle.as_ref().and_then(|file| file.metadata().ok()) else {
            return Ok(());
        };
        let named = std::fs::metadata(&self.path).ok();
        if named.is_some_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            return Ok(());
        }
        let what = match own.nlink() {
            0 => "the file was removed while it was written",
            _ if there => "the file was moved while it was written, and is whole where it is now",
            _ => return Ok(()),
        };
        Err(TracingError::Gone {
            path: self.path.clone(),
            what,
        })
    }
}

struct FileSink<'a> {
    file: &'a RefCell<Option<Result<Output, TracingError>>>,
    pushed: u32,
    piece_began: Instant,
    looked: Instant,
    /// The first start and the last end.
    spanned: Option<(u64, u64)>,
    measured: Measured,
}

impl FileSink<'_> {
    fn sum(&mut self, op: &Op) {
        let (first, last) = self.spanned.unwrap_or((op.start_ns, 0));
        self.spanned = Some((first, last.max(op.end_ns())));
        self.measured.charge(op);
    }
}

impl OpSink for FileSink<'_> {
    #[allow(clippy::disallowed_methods, reason = "pieces are written by time")]
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.sum(op);
        let mut file = self.file.borrow_mut();
        let output = match file.as_mut() {
            None => return Ok(()),
            Some(Ok(output)) => output,
            Some(Err(why)) => return Err(SinkError::new(why.to_string())),
        };
        output.writer.push(op, paths)?;
        self.pushed = self.pushed.wrapping_add(1);
        if self.pushed.is_multiple_of(OPERATIONS_BETWEEN_CLOCKS)
            && self.looked.elapsed() >= LOOK_EVERY
        {
            self.looked = Instant::now();
            output.place.is_kept(false).map_err(sink_error)?;
            if self.piece_began.elapsed() >= PIECE_EVERY {
                self.piece_began = Instant::now();
                output.writer.flush_piece().map_err(sink_error)?;
            }
        }
        Ok(())
    }
}

fn sink_error(error: impl std::error::Error + Send + Sync + 'static) -> SinkError {
    SinkError {
        message: error.to_string(),
        source: Some(Box::new(error)),
    }
}

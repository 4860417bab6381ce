//! A capture that ends up in a trace file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use fsage_capture::{
    CaptureError, CaptureRequest, CaptureStart, CaptureSummary, Notice, What, capture,
};
use fsage_core::{Op, OpSink, PathTable, SinkError};
use fsage_format::profile::CPUS;
use fsage_format::trace::{TraceEnd, TraceError, TraceMeta, TraceWriter};
use fsage_host::machine;

use crate::validate::measure::{Measured, Meter};

/// A kill loses at most what was seen in this long.
const PIECE_EVERY: Duration = Duration::from_secs(5);
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
}

/// What a trace says beside what was captured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    /// The snapshot of the tree before it.
    pub snapshot: Option<String>,
    /// Anything else, by name.
    pub extra: BTreeMap<String, String>,
}

/// A capture and the file it became.
#[derive(Debug, Clone)]
pub struct Traced {
    /// What came of the capture.
    pub summary: CaptureSummary,
    /// What the operations took.
    pub measured: Measured,
    /// Size of the finished file, bytes; 0 if none was asked for.
    pub file_bytes: u64,
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
    let file: RefCell<Option<Result<TraceWriter, TraceError>>> = RefCell::new(None);
    let mut sink = FileSink {
        file: &file,
        pushed: 0,
        piece_began: Instant::now(),
    };
    let mut meter = Meter::new(Some(&mut sink));
    let meta = |start: &CaptureStart| trace_meta(request, start, beside);
    let summary = capture(request, stop, &mut meter, &mut |told| {
        if let (Some(path), Notice::Started(start)) = (path, told) {
            *file.borrow_mut() = Some(TraceWriter::create(path, meta(start)));
        }
        notice(told);
    });
    let measured = std::mem::take(&mut meter.measured);
    let writer = file.into_inner().transpose();
    // An error of the file is the cause of the sink's, so it is told first.
    let (writer, summary) = (writer?, summary?);
    let file_bytes = match writer {
        Some(writer) => writer.finish(trace_end(&summary, stop))?,
        None => 0,
    };
    Ok(Traced {
        summary,
        measured,
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
    TraceMeta {
        fsage: env!("CARGO_PKG_VERSION").into(),
        host: machine.host,
        kernel: machine.kernel,
        command,
        directory: directory.to_string_lossy().into_owned(),
        start_unix_ns: start.start_unix_ns,
        clock: "CLOCK_MONOTONIC".into(),
        method: start.method.into(),
        under: request
            .under
            .iter()
            .map(|d| d.to_string_lossy().into_owned())
            .collect(),
        attached,
        snapshot: beside.snapshot.clone(),
        extra,
        ..TraceMeta::default()
    }
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
        late: summary.late,
        elapsed_ns: summary.elapsed_ns,
        exit_status: status.filter(|&s| s <= 128),
        exit_signal: status.filter(|&s| s > 128).map(|s| s - 128),
        stopped,
        programs: summary.programs.clone(),
    }
}

struct FileSink<'a> {
    file: &'a RefCell<Option<Result<TraceWriter, TraceError>>>,
    pushed: u32,
    piece_began: Instant,
}

impl OpSink for FileSink<'_> {
    #[allow(clippy::disallowed_methods, reason = "pieces are written by time")]
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        let mut file = self.file.borrow_mut();
        let writer = match file.as_mut() {
            None => return Ok(()),
            Some(Ok(writer)) => writer,
            Some(Err(_)) => return Err(SinkError::new("write the trace")),
        };
        writer.push(op, paths)?;
        self.pushed = self.pushed.wrapping_add(1);
        if self.pushed.is_multiple_of(OPERATIONS_BETWEEN_CLOCKS)
            && self.piece_began.elapsed() >= PIECE_EVERY
        {
            self.piece_began = Instant::now();
            writer.flush_piece().map_err(|e| SinkError {
                message: e.to_string(),
                source: Some(Box::new(e)),
            })?;
        }
        Ok(())
    }
}

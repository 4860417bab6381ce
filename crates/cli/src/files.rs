//! Traces and snapshots as the verbs use them.

use std::fs::OpenOptions;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fsage_core::{OpSink, OpSource};
use fsage_format::trace::{TraceEnd, TraceReader};

use crate::ui;

/// Pushes everything of `source` into `sink`. Returns how many operations there were.
pub fn copy(source: &mut dyn OpSource, sink: &mut dyn OpSink) -> Result<u64> {
    let mut batch = Vec::new();
    let mut count = 0;
    loop {
        batch.clear();
        if source.next_batch(&mut batch)? == 0 {
            return Ok(count);
        }
        for op in &batch {
            sink.push(op, source.paths())?;
        }
        count += batch.len() as u64;
    }
}

/// Opens a trace for a use that needs all of it: one that lacks something is refused, unless it was
/// asked for all the same.
pub fn open_whole_trace(path: &Path, allow_lossy: bool) -> Result<TraceReader> {
    let reader = TraceReader::open(path)?;
    if reader.loss().is_none() {
        return Ok(reader);
    }
    if !allow_lossy {
        bail!(
            "use {}: {}; with --allow-lossy it is used all the same",
            path.display(),
            reader.loss()
        );
    }
    ui::line(&format!("{}: {}", path.display(), reader.loss()));
    Ok(reader)
}

/// Opens a trace to look at; what it lacks is said.
pub fn open_trace(path: &Path) -> Result<TraceReader> {
    let reader = TraceReader::open(path)?;
    if !reader.loss().is_none() {
        ui::line(&format!("{}: {}", path.display(), reader.loss()));
    }
    Ok(reader)
}

/// A result that cannot be kept should be known before anything runs. Changes nothing.
pub fn writable(output: &Path) -> Result<()> {
    let failed = || format!("write {}", output.display());
    if output.exists() {
        return OpenOptions::new()
            .write(true)
            .open(output)
            .map(drop)
            .with_context(failed);
    }
    let dir = output
        .parent()
        .filter(|d| !d.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    tempfile::tempfile_in(dir).map(drop).with_context(failed)
}

/// Says what a user of a trace should know beside what it lacks.
pub fn remark(path: &Path, reader: &TraceReader) {
    for remark in reader.end().map(TraceEnd::remarks).unwrap_or_default() {
        ui::line(&format!("{}: {remark}", path.display()));
    }
}

//! Traces and snapshots as the verbs use them.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fsage_core::{OpSink, OpSource};
use fsage_experiment::measured::Sealed;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::{TraceEnd, TraceReader};
use fsage_report::units;

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
    let loss = reader.loss();
    accept(path, loss.is_none(), loss, allow_lossy)?;
    Ok(reader)
}

/// The same for a snapshot.
pub fn open_whole_snapshot(path: &Path, allow_lossy: bool) -> Result<SnapshotReader> {
    let reader = SnapshotReader::open(path)?;
    let loss = reader.loss();
    accept(path, loss.is_none(), loss, allow_lossy)?;
    Ok(reader)
}

fn accept(path: &Path, whole: bool, loss: &dyn Display, allow_lossy: bool) -> Result<()> {
    let path = path.display();
    if !whole && !allow_lossy {
        bail!("use {path}: {loss}; with --allow-lossy it is used all the same");
    }
    if !whole {
        ui::line(&format!("{path}: {loss}"));
    }
    Ok(())
}

/// Opens a trace to look at; what it lacks is said.
pub fn open_trace(path: &Path) -> Result<TraceReader> {
    open_whole_trace(path, true)
}

/// Opens a snapshot to look at; what it lacks is said.
pub fn open_snapshot(path: &Path) -> Result<SnapshotReader> {
    open_whole_snapshot(path, true)
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

/// Says what was written of the operations that were measured.
pub fn sealed_note(path: Option<&Path>, sealed: Option<Sealed>) {
    if let (Some(path), Some(sealed)) = (path, sealed) {
        ui::note(&format!(
            "{}: {} operations, {}",
            path.display(),
            units::count(sealed.operations),
            units::bytes(sealed.bytes)
        ));
    }
}

/// Says what a user of a trace should know beside what it lacks.
pub fn remark(path: &Path, reader: &TraceReader) {
    for remark in reader.end().map(TraceEnd::remarks).unwrap_or_default() {
        ui::line(&format!("{}: {remark}", path.display()));
    }
}

//! Traces and snapshots as the verbs use them.

use std::fmt::Display;
use std::fs::{Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fsage_core::{OpSink, OpSource};
use fsage_experiment::engine::record_path;
use fsage_experiment::measured::Sealed;
use fsage_format::FileKind;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::{TraceEnd, TraceReader};
use fsage_format::whole;
use fsage_report::units;
use rustix::fs::Access;

use crate::exit::UsageError;
use crate::made::{Made, may_replace};
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

/// The files of one run, each its own and writable: of two results in one file the first would be lost.
/// `option` is what the other one is asked for by, `kinds` what they are.
pub fn outputs(
    result: Option<&Path>,
    option: &str,
    other: Option<&Path>,
    kinds: [FileKind; 2],
) -> Result<()> {
    no_stream(option, other)?;
    if let (Some(result), Some(other)) = (result, other)
        && place(result) == place(other)
    {
        let both = format!(
            "-o and {option} both name {}: expected two files",
            result.display()
        );
        bail!(UsageError(both));
    }
    let both = [result, other].into_iter().zip(kinds);
    let mut both = both.filter_map(|(path, kind)| Some((path?, kind)));
    both.try_for_each(|(path, kind)| writable(path, Made::Own(kind)))
}

/// What goes beside a result is a file: stdout may have only one of them.
pub fn no_stream(option: &str, path: Option<&Path>) -> Result<(), UsageError> {
    match path {
        Some(path) if path == Path::new("-") => Err(UsageError(format!(
            "{option} is a file here, and - none: expected a path"
        ))),
        _ => Ok(()),
    }
}

/// No result may take the place of what it is made from. What a target is made from,
/// [`fsage_core::TargetSpec::uses`] tells.
pub fn apart<'a>(
    reads: impl IntoIterator<Item = &'a Path>,
    writes: impl IntoIterator<Item = &'a Path>,
) -> Result<(), UsageError> {
    let file = |path: &Path| {
        let about = std::fs::metadata(path).ok().filter(Metadata::is_file);
        about.map(|about| (about.dev(), about.ino()))
    };
    let reads: Vec<_> = reads.into_iter().filter_map(file).collect();
    for output in writes {
        if file(output).is_some_and(|id| reads.contains(&id)) {
            return Err(UsageError(format!(
                "{} would be read and written over: expected another file for the output",
                output.display()
            )));
        }
    }
    Ok(())
}

/// The same for the results in a directory: the runs, and what is made of them under the name `result`.
pub fn apart_from_results(
    reads: impl IntoIterator<Item = PathBuf>,
    dir: Option<&Path>,
    result: &str,
) -> Result<(), UsageError> {
    let Some(dir) = dir else {
        return Ok(());
    };
    let reads: Vec<_> = reads.into_iter().collect();
    let writes = [dir.join(result), record_path(dir)];
    apart(
        reads.iter().map(PathBuf::as_path),
        writes.iter().map(PathBuf::as_path),
    )
}

/// Where a file is or will be, by whatever name.
fn place(path: &Path) -> PathBuf {
    let path = &whole::end_of(path).unwrap_or_else(|_| path.to_owned());
    let absolute = path.canonicalize().or_else(|_| {
        let name = path.file_name().unwrap_or_default();
        Ok::<_, std::io::Error>(directory(path).canonicalize()?.join(name))
    });
    absolute.unwrap_or_else(|_| path.to_owned())
}

fn directory(path: &Path) -> &Path {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// A result that cannot be kept, or that would take the place of what fsage did not make, should be known before anything
/// runs. Changes nothing.
pub fn writable(output: &Path, made: Made) -> Result<()> {
    may_replace(output, made)?;
    let failed = || format!("write {}", output.display());
    // An open for a moment would be the end of the file to a pipe's reader.
    if std::fs::metadata(output).is_ok_and(|about| about.file_type().is_fifo()) {
        return rustix::fs::access(output, Access::WRITE_OK).with_context(failed);
    }
    if output.exists() {
        return OpenOptions::new()
            .write(true)
            .open(output)
            .map(drop)
            .with_context(failed);
    }
    let end = whole::end_of(output).with_context(failed)?;
    tempfile::tempfile_in(directory(&end))
        .map(drop)
        .with_context(failed)
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

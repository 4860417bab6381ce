//! A directory tree that ends up in a snapshot file.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{FsOptions, TargetError};
use fsage_format::FormatError;
use fsage_format::snapshot::{SnapshotEnd, SnapshotMeta, SnapshotWriter};
use fsage_host::snapshot::{SnapshotSummary, walk};
use fsage_host::{HostError, machine};

use crate::target::directory;

/// Why a snapshot could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The tree could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The directory cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The file could not be written.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Writes the tree below `dir` to `path`, whole or not at all. Ends early once `stop` is set: what it
/// has says then that it is a part, and is kept unless another file stands there. Tells whether it
/// was kept.
pub fn write_snapshot(
    dir: &Path,
    path: &Path,
    stop: &AtomicBool,
) -> Result<(SnapshotSummary, bool), TreeError> {
    let mut writer = SnapshotWriter::create(path, meta(dir)?)?;
    let mut failed = None;
    let mut summary = walk(dir, &mut |entry| {
        failed = writer.push(&entry).err();
        if failed.is_some() || stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    summary.stopped |= stop.load(Ordering::Relaxed);
    if summary.stopped && path.symlink_metadata().is_ok() {
        return Ok((summary, false));
    }
    writer.finish(SnapshotEnd {
        stopped: summary.stopped.then(|| "interrupted".to_owned()),
        ..summary.end()
    })?;
    Ok((summary, true))
}

fn meta(dir: &Path) -> Result<SnapshotMeta, TargetError> {
    let target = directory::open(dir)?;
    let machine = fsage_host::target::describe(&*target, &dir.to_string_lossy())?;
    let fs = target.file_system(FsOptions::default())?;
    let root = target.host_dir().unwrap_or(dir);
    let space = fs.statfs().unwrap_or_default();
    Ok(SnapshotMeta {
        fsage: machine.fsage,
        host: machine.host,
        kernel: machine.kernel,
        root: root.to_string_lossy().into_owned(),
        dev: fs.stat(b"").map(|attr| attr.id.dev.0).unwrap_or_default(),
        file_system: machine.file_system,
        mount_options: machine.mount_options,
        block_bytes: space.block_bytes.into(),
        total_bytes: space.total_bytes,
        free_bytes: space.available_bytes,
        taken_unix_ns: machine::unix_time_ns(),
        ..SnapshotMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use fsage_format::snapshot::SnapshotReader;

    use super::*;

    #[test]
    fn an_interrupted_snapshot_says_so_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.fss");
        let (now, later) = (AtomicBool::new(true), AtomicBool::new(false));
        let (summary, kept) = write_snapshot(dir.path(), &file, &now).unwrap();
        assert!(summary.stopped && kept);
        let reader = SnapshotReader::open(&file).unwrap();
        let loss = reader.loss();
        assert!(!loss.is_none() && !loss.unfinished, "{loss}");
        assert_eq!(loss.stopped.as_deref(), Some("interrupted"));
        let (summary, kept) = write_snapshot(dir.path(), &file, &later).unwrap();
        assert!(!summary.stopped && kept);
        assert!(SnapshotReader::open(&file).unwrap().loss().is_none());
        let before = std::fs::read(&file).unwrap();
        let (summary, kept) = write_snapshot(dir.path(), &file, &now).unwrap();
        assert!(summary.stopped && !kept);
        assert_eq!(std::fs::read(&file).unwrap(), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

//! A directory tree that ends up in a snapshot file.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};

use fsage_core::target::list_dir;
use fsage_core::{Attr, FileSystem, FileType, FsOptions, Piece, Root, TargetError};
use fsage_format::FormatError;
use fsage_format::snapshot::{
    Extent, SnapshotEnd, SnapshotEntry, SnapshotMeta, SnapshotReader, SnapshotWriter, extent_flags,
};
use fsage_format::trace::path_text;
use fsage_host::snapshot::{self, Previous, SnapshotSummary, walk_since};
use fsage_host::{HostError, HostFs, machine, mounts::Mount};

use crate::measured::trace_root;
use crate::target::directory;

/// How many entries go to the thread that writes them together, and how many such parcels wait for it.
const PARCEL: usize = 1024;
const WAITING: usize = 8;

/// Why a snapshot could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The tree could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The directory cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// What writes beside the walk could not be started.
    #[error("start a thread that writes the snapshot")]
    Thread(#[source] std::io::Error),
    /// The previous snapshot was cut before it told anything.
    #[error(
        "use {} as the previous snapshot: it is incomplete ({loss}) and tells nothing of {tree}; expected a whole snapshot \
         of {}, or none",
        path.display(), dir.display()
    )]
    Cut {
        /// The snapshot.
        path: PathBuf,
        /// What it lacks.
        loss: String,
        /// What it is of.
        tree: String,
        /// What is to be recorded.
        dir: PathBuf,
    },
    /// The previous snapshot is of something else.
    #[error(
        "use {} as the previous snapshot: it is of another tree ({tree}), expected one of {}",
        path.display(), dir.display()
    )]
    OtherTree {
        /// The snapshot.
        path: PathBuf,
        /// What it is of.
        tree: String,
        /// What is to be recorded.
        dir: PathBuf,
    },
}

/// Writes the tree below `dir` to `path`, whole or not at all. Ends early once `stop` is set: what it
/// has says then that it is a part, and is kept unless another file stands there. Tells whether it
/// was kept. What `previous`, an earlier snapshot of the tree, tells of files that have not changed since is
/// taken from it.
pub fn write_snapshot(
    dir: &Path,
    path: &Path,
    previous: Option<&Path>,
    stop: &AtomicBool,
) -> Result<(SnapshotSummary, bool), TreeError> {
    let target = directory::open(dir)?;
    let previous = previous
        .map(|file| read_previous(file, dir, stop))
        .transpose()?;
    write(&*target, path, previous.as_ref(), stop)
}

/// An earlier snapshot of a directory.
fn read_previous(path: &Path, dir: &Path, stop: &AtomicBool) -> Result<Previous, TreeError> {
    let mut reader = SnapshotReader::open(path)?;
    let (previous, was) = Previous::read(&mut reader, stop)?;
    let is = snapshot::entry(dir)?;
    let same = |was: &SnapshotEntry| {
        (was.ino, was.generation, was.btime_ns) == (is.ino, is.generation, is.btime_ns)
    };
    if stop.load(Ordering::Relaxed) {
        return Ok(previous);
    }
    let tree = reader.meta().root.clone();
    let (path, dir) = (path.to_owned(), dir.to_owned());
    match was {
        Some(was) if same(&was) => Ok(previous),
        // Without the root it ended before its first whole piece.
        None if !reader.loss().is_none() => Err(TreeError::Cut {
            path,
            loss: reader.loss().to_string(),
            tree,
            dir,
        }),
        _ => Err(TreeError::OtherTree { path, tree, dir }),
    }
}

/// The same of any target's directory. One without a directory on this machine is listed by its own calls,
/// which tell neither owners, times nor where data lies.
pub(crate) fn write_target_snapshot(
    root: &dyn Root,
    path: &Path,
    stop: &AtomicBool,
) -> Result<(SnapshotSummary, bool), TreeError> {
    write(root, path, None, stop)
}

fn write(
    root: &dyn Root,
    path: &Path,
    previous: Option<&Previous>,
    stop: &AtomicBool,
) -> Result<(SnapshotSummary, bool), TreeError> {
    let writer = SnapshotWriter::create(path, meta(root)?)?;
    let (mut summary, writer) = std::thread::scope(|scope| {
        let (parcels, queue) = sync_channel(WAITING);
        let writing = std::thread::Builder::new()
            .spawn_scoped(scope, move || write_all(writer, &queue))
            .map_err(TreeError::Thread)?;
        let mut parcel = Vec::with_capacity(PARCEL);
        let mut sink = |entry| {
            parcel.push(entry);
            let whole = parcel.len() == PARCEL;
            // A writer that failed takes no more.
            if whole && parcels.send(std::mem::take(&mut parcel)).is_err()
                || stop.load(Ordering::Relaxed)
            {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let summary = match root.host_dir() {
            Some(dir) => walk_since(dir, previous, &mut sink).map_err(TreeError::from),
            None => walk_calls(root, &mut sink).map_err(TreeError::from),
        };
        let _ = parcels.send(parcel);
        drop(parcels);
        let writer = writing.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok::<_, TreeError>((summary?, writer?))
    })?;
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

fn write_all(
    mut writer: SnapshotWriter,
    parcels: &Receiver<Vec<SnapshotEntry>>,
) -> Result<SnapshotWriter, FormatError> {
    for entry in parcels.iter().flatten() {
        writer.push(&entry)?;
    }
    Ok(writer)
}

/// Walks a directory by its file system's calls, parents before what they hold.
fn walk_calls(
    root: &dyn Root,
    sink: &mut dyn FnMut(SnapshotEntry) -> ControlFlow<()>,
) -> Result<SnapshotSummary, TargetError> {
    let fs = root.file_system(FsOptions::TRUSTED)?;
    let mut summary = SnapshotSummary::default();
    let mut pending = vec![Vec::new()];
    while let Some(path) = pending.pop() {
        let failed = |errno| {
            let what = format!("list {} of {}", path.escape_ascii(), fs.name());
            TargetError::refused(what, errno)
        };
        let attr = fs.lstat(&path).map_err(failed)?;
        let is_dir = attr.file_type == FileType::Directory;
        let link = attr.file_type == FileType::Symlink;
        let link = link.then(|| fs.readlink(&path)).transpose();
        summary.entries += 1;
        let (ino, size_bytes) = (attr.id.ino, attr.size_bytes);
        let entry = SnapshotEntry {
            extents: extents(&*fs, &attr),
            generation: attr.id.generation,
            allocated_bytes: attr.allocated_bytes,
            links: attr.links,
            link_target: link.map_err(failed)?,
            mode: attr.mode,
            ..SnapshotEntry::of(path.clone(), ino, attr.file_type, size_bytes)
        };
        if sink(entry).is_break() {
            summary.stopped = true;
            break;
        }
        if is_dir {
            let mut entries = list_dir(&*fs, &path).map_err(failed)?;
            // The last is taken first.
            entries.sort_unstable_by(|a, b| b.name.cmp(&a.name));
            let below = |name: Vec<u8>| match path.as_slice() {
                [] => name,
                dir => [dir, b"/", &name].concat(),
            };
            pending.extend(entries.into_iter().map(|entry| below(entry.name)));
        }
    }
    Ok(summary)
}

/// Where a file's data lies, if the target can tell.
fn extents(fs: &dyn FileSystem, attr: &Attr) -> Vec<Extent> {
    if attr.file_type != FileType::Regular {
        return Vec::new();
    }
    let pieces = fs.platform().pieces(attr.id.ino).unwrap_or_default();
    let extent = |piece: Piece| Extent {
        logical_bytes: piece.offset_bytes,
        physical_bytes: piece.device_bytes,
        length_bytes: piece.length_bytes,
        flags: if piece.written {
            0
        } else {
            extent_flags::UNWRITTEN
        },
    };
    pieces.into_iter().map(extent).collect()
}

fn meta(root: &dyn Root) -> Result<SnapshotMeta, TargetError> {
    let fs = root.file_system(FsOptions::default())?;
    let place = path_text(trace_root(root));
    let machine = match fs.virtual_time() {
        Some(_) => machine::Identity::default(),
        None => machine::identity(),
    };
    let host = HostFs::of(root).transpose().map_err(TargetError::from)?;
    let mount = host.as_ref().and_then(HostFs::mount);
    let space = fs.statfs().unwrap_or_default();
    let groups = host
        .as_ref()
        .and_then(|host| snapshot::block_groups(host).ok()?);
    let mut meta = SnapshotMeta {
        fsage: env!("CARGO_PKG_VERSION").to_owned(),
        host: machine.host,
        kernel: machine.kernel,
        root: place,
        dev: fs.stat(b"").map(|attr| attr.id.dev.0).unwrap_or_default(),
        file_system: match mount {
            Some(mount) => mount.kind.clone(),
            None if fs.virtual_time().is_some() => "mem".to_owned(),
            None => String::new(),
        },
        mount_options: mount.map(Mount::options).unwrap_or_default(),
        block_bytes: space.block_bytes.into(),
        total_bytes: space.total_bytes,
        free_bytes: space.available_bytes,
        taken_unix_ns: machine::unix_time_ns(),
        ..SnapshotMeta::default()
    };
    if let Some(groups) = groups {
        meta.set_groups(&groups);
    }
    Ok(meta)
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
        let (summary, kept) = write_snapshot(dir.path(), &file, None, &now).unwrap();
        assert!(summary.stopped && kept);
        let reader = SnapshotReader::open(&file).unwrap();
        let loss = reader.loss();
        assert!(!loss.is_none() && !loss.unfinished, "{loss}");
        assert_eq!(loss.stopped.as_deref(), Some("interrupted"));
        let (summary, kept) = write_snapshot(dir.path(), &file, None, &later).unwrap();
        assert!(!summary.stopped && kept);
        assert!(SnapshotReader::open(&file).unwrap().loss().is_none());
        let before = std::fs::read(&file).unwrap();
        let (summary, kept) = write_snapshot(dir.path(), &file, None, &now).unwrap();
        assert!(summary.stopped && !kept);
        assert_eq!(std::fs::read(&file).unwrap(), before);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

//! How the files and the free space of a tree lie: layout score, extents, split files (the thesis, 3.2.3 and
//! Table 3.3), of a directory as it is or of a snapshot.
//!
//! What the definition leaves open: a block is compared with the block before it that the file has, so that a hole
//! between two blocks that lie side by side costs nothing; blocks that are allocated and never written count as
//! others; blocks behind the end of the file do not count. Directories, links and devices are no files here, and neither
//! is what fsage itself puts into the root of a target.

mod count;
mod days;
mod free;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{FileSystem, FsOptions};
use fsage_format::FormatError;
use fsage_format::snapshot::{SnapshotEntry, SnapshotMeta, SnapshotReader};
use fsage_host::scratch::is_own;
use fsage_host::snapshot::{block_groups, entry, free_extents, walk};
use fsage_host::{HostError, HostFs, machine};

pub use fsage_format::result::layout::{
    ExtentsClass, FileLayout, FreeClass, FreeSpace, Layout, Layouts, NotComparable, Score,
    SizeClass, SplitFiles, UnknownFiles,
};

use count::Counter;
pub use days::{AppliedDays, of_days};
pub use free::free_space;

/// What is wanted beside the score.
#[derive(Debug, Clone, Copy, Default)]
pub struct LayoutOptions {
    /// The free space of the whole file system.
    pub free: bool,
    /// Write out first what the file system holds back, so that every file has its place.
    pub sync: bool,
    /// So many of the files with most extents.
    pub worst: usize,
}

/// Why nothing can be said; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The tree could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The snapshot could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Snapshots do not fit together.
    #[error("{0}")]
    Order(String),
    /// It was asked to end.
    #[error("finish: interrupted")]
    Interrupted,
}

/// Looks at every file below `dir`, or at the one file that it is. Nothing is changed, and nothing written unless
/// `options.sync`.
pub fn of_tree(
    dir: &Path,
    options: &LayoutOptions,
    stop: &AtomicBool,
) -> Result<Layout, LayoutError> {
    of_part(dir, &|_| true, options, stop)
}

/// The same of the files alone whose path below `dir` is wanted.
pub fn of_part(
    dir: &Path,
    wanted: &dyn Fn(&[u8]) -> bool,
    options: &LayoutOptions,
    stop: &AtomicBool,
) -> Result<Layout, LayoutError> {
    let is_dir = dir.is_dir();
    let holder = if is_dir {
        dir
    } else {
        dir.parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    };
    let fs = HostFs::open(holder, FsOptions::default())?;
    if options.sync {
        fs.sync()
            .map_err(|e| HostError::at("sync", holder, std::io::Error::from_raw_os_error(e.0)))?;
    }
    let space = fs.statfs().unwrap_or_default();
    let groups = block_groups(&fs);
    let mut counter = Counter::new(space.block_bytes.into(), options.worst);
    counter.groups = groups.as_ref().ok().copied().flatten();
    let mut sink = |entry: SnapshotEntry| {
        if !(is_dir && is_own(&entry.path)) && wanted(&entry.path) {
            counter.add(&entry);
        }
        if stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let unreadable = if is_dir {
        walk(dir, &mut sink)?.unreadable
    } else {
        let _ = sink(entry(dir)?);
        0
    };
    if stop.load(Ordering::Relaxed) {
        return Err(LayoutError::Interrupted);
    }
    let kind = fs.mount().map(|m| m.kind.clone()).unwrap_or_default();
    let mut layout = counter.finish(&kind);
    layout.target = dir.display().to_string();
    layout.taken_unix_ns = machine::unix_time_ns();
    layout.unreadable = unreadable;
    if let Err(error) = groups {
        layout.split_unknown = Some(format!("failed to {error}"));
    }
    if options.free {
        match free_extents(&fs) {
            Ok(extents) => layout.free = Some(free_space(&extents)),
            Err(error) => layout.free_unknown = Some(error.to_string()),
        }
    }
    Ok(layout)
}

/// The same of what a snapshot holds.
pub fn of_snapshot(
    reader: &mut SnapshotReader,
    path: &Path,
    options: &LayoutOptions,
    stop: &AtomicBool,
) -> Result<Layout, LayoutError> {
    let meta: SnapshotMeta = reader.meta().clone();
    let mut counter = Counter::new(meta.block_bytes, options.worst);
    counter.groups = meta.groups();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            if !is_own(&entry.path) {
                counter.add(&entry);
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(LayoutError::Interrupted);
        }
    }
    let mut layout = counter.finish(&meta.file_system);
    layout.target = path.display().to_string();
    layout.taken_unix_ns = meta.taken_unix_ns;
    layout.unreadable = reader.end().map_or(0, |end| end.unreadable);
    if options.free {
        layout.free_unknown = Some("a snapshot does not hold the free space".to_owned());
    }
    Ok(layout)
}

/// Refuses snapshots that are no course of one file system's days: of several file systems, or not in the order in
/// which they were taken.
pub fn check_order<'a>(
    metas: impl IntoIterator<Item = (&'a Path, &'a SnapshotMeta)>,
) -> Result<(), LayoutError> {
    let mut before: Option<(&Path, &SnapshotMeta)> = None;
    for (path, meta) in metas {
        if let Some((earlier, other)) = before {
            let (this, that) = (path.display(), earlier.display());
            if (&meta.host, &meta.root, &meta.file_system)
                != (&other.host, &other.root, &other.file_system)
            {
                return Err(LayoutError::Order(format!(
                    "use {this}: it is of {} ({}) on {}, and {that} of {} ({}) on {}; expected snapshots of one \
                     file system, or --against",
                    meta.root,
                    meta.file_system,
                    meta.host,
                    other.root,
                    other.file_system,
                    other.host
                )));
            }
            if meta.taken_unix_ns < other.taken_unix_ns {
                return Err(LayoutError::Order(format!(
                    "use {this}: it was taken before {that}, which stands before it; expected the order of time"
                )));
            }
        }
        before = Some((path, meta));
    }
    Ok(())
}

/// What of two sides counts blocks of different sizes; `None` where all can be compared.
pub fn not_comparable(layouts: &[Layout], against: &[Layout]) -> Option<NotComparable> {
    let mut apart = layouts
        .iter()
        .zip(against)
        .filter(|(a, b)| !a.is_comparable(b));
    let (first, beside) = apart.next()?;
    Some(NotComparable {
        block_bytes: first.block_bytes,
        against_block_bytes: beside.block_bytes,
        pairs: 1 + apart.count() as u64,
        reason: format!(
            "scores of blocks of {} and of {} bytes count different things; expected file systems with blocks of \
             one size, as by mkfs=-b {} of a scratch target",
            first.block_bytes, beside.block_bytes, first.block_bytes
        ),
    })
}

/// The root mean square of the differences of scores, target by target; `None` without a pair, and where one pair cannot
/// be compared.
pub fn rms_distance(layouts: &[Layout], against: &[Layout]) -> Option<f64> {
    if not_comparable(layouts, against).is_some() {
        return None;
    }
    let pairs = layouts.iter().zip(against);
    let scores = pairs.filter_map(|(a, b)| Some((a.score?.value(), b.score?.value())));
    let (a, b): (Vec<f64>, Vec<f64>) = scores.unzip();
    fsage_stats::histogram::rms_distance(&a, &b)
}

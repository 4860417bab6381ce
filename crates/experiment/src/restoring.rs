//! A state of a file system that is restored before every run: the tree of a snapshot, or an image.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::target::list_dir;
use fsage_core::{
    DevId, Errno, FileId, FileSystem, FileType, FsOptions, Seed, SetAttr, Target, TargetError,
    TargetSpec,
};
use fsage_exec::replay::{self, BuildError, Entry, Ino, NodeKind, Placement, Range, ReplayTree};
use fsage_format::FormatError;
use fsage_format::result::environment::RestoredRecord;
use fsage_format::snapshot::{Extent, SnapshotEntry, SnapshotReader, extent_flags};
use fsage_format::trace::columns::escape;
use fsage_host::{HostError, HostFs};
use sha2::{Digest, Sha256};

use crate::plan::{State, hex};
use crate::replaying::problem;
use crate::running::files::OWN;

/// Where the bytes of restored files come from: the same in every run.
const CONTENTS: Seed = Seed(1);

/// What is read at once of a file whose digest is made.
const PIECE_BYTES: usize = 1 << 20;

/// A file with holes of at least this much must have some of them.
const HOLES_BYTES: u64 = 1 << 20;

/// Why nothing could be restored; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The file could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The target or the image could not be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The file could not be used.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The snapshot is no tree that can be made.
    #[error(transparent)]
    Snapshot(#[from] AddError),
    /// The tree could not be made.
    #[error("restore {file}: {source}")]
    Build {
        /// The snapshot.
        file: String,
        /// Why.
        #[source]
        source: BuildError,
    },
    /// The file cannot be what is restored.
    #[error("restore {file}: {why}")]
    Unfit {
        /// The file.
        file: String,
        /// Why, and what was expected.
        why: String,
    },
}

/// Why a snapshot is no tree; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// It could not be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It names something that is no name of a tree.
    #[error(
        "use snapshot {snapshot}: row {row} names `{name}`, expected a new name in a directory of an earlier row"
    )]
    Name {
        /// The snapshot.
        snapshot: String,
        /// Which row, from 0.
        row: u64,
        /// The name, not UTF-8 replaced.
        name: String,
    },
    /// It was stopped.
    #[error(transparent)]
    Stopped(BuildError),
}

/// Adds the names of a snapshot for which `wanted` says so, below the directory `root` of `tree`.
pub(crate) fn add_snapshot(
    path: &Path,
    mut snapshot: SnapshotReader,
    (tree, root): (&mut ReplayTree, Ino),
    stop: &AtomicBool,
    wanted: &mut dyn FnMut(&SnapshotEntry) -> bool,
) -> Result<(), AddError> {
    let dev = snapshot.dev();
    let mut batch = Vec::new();
    let mut row = 0;
    while snapshot.next_batch(&mut batch)? > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(AddError::Stopped(BuildError::Interrupted));
        }
        for entry in batch.drain(..) {
            if wanted(&entry) && !tree.add(root, &tree_entry(dev, &entry)) {
                return Err(AddError::Name {
                    snapshot: path.display().to_string(),
                    row,
                    name: escape(&entry.path),
                });
            }
            row += 1;
        }
    }
    Ok(())
}

fn tree_entry(dev: DevId, entry: &SnapshotEntry) -> Entry<'_> {
    let ranges = has_ranges(entry).then(|| ranges(entry));
    Entry {
        path: &entry.path,
        id: FileId {
            dev,
            ino: entry.ino,
            generation: entry.generation,
        },
        kind: entry.file_type.into(),
        size: entry.size_bytes,
        target: entry.link_target.as_deref(),
        ranges,
    }
}

/// Whether blocks of a file are told one by one.
fn has_ranges(entry: &SnapshotEntry) -> bool {
    // Inline data and compressed files take less space than their size without having holes.
    let holes = entry.allocated_bytes.saturating_add(4096) < entry.size_bytes
        && (entry.extents.is_empty() || covered(entry) < entry.size_bytes);
    let unwritten = |e: &Extent| e.flags & extent_flags::UNWRITTEN != 0;
    holes || entry.extents.iter().any(unwritten)
}

/// Bytes of the file that extents cover, rounded up to their blocks.
fn covered(entry: &SnapshotEntry) -> u64 {
    let lengths = entry.extents.iter().map(|e| e.length_bytes);
    lengths.fold(0, u64::saturating_add)
}

fn ranges(entry: &SnapshotEntry) -> Vec<Range> {
    if entry.extents.is_empty() {
        // No map of the file: its space is taken to lie at its start.
        return vec![Range {
            offset: 0,
            length: entry.allocated_bytes.min(entry.size_bytes),
            unwritten: false,
        }];
    }
    let extents = entry.extents.iter();
    extents
        .map(|e| Range {
            offset: e.logical_bytes,
            length: e.length_bytes,
            unwritten: e.flags & extent_flags::UNWRITTEN != 0,
        })
        .collect()
}

/// The file of a state that is restored, as it was when the experiment began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    path: PathBuf,
    /// Device, inode, size and time of its last change, nanoseconds: whether it is still the same.
    identity: (u64, u64, u64, i128),
    digest: [u8; 32],
    sha256: String,
}

impl Source {
    /// Reads the file through for its digest.
    pub fn read(path: &Path, stop: &AtomicBool) -> Result<Self, RestoreError> {
        let failed = |e: std::io::Error| HostError::at("read", path, e);
        let mut file = File::open(path).map_err(failed)?;
        let identity = identity(&file).map_err(failed)?;
        let mut digest = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(unfit(path, "interrupted"));
            }
            let read = file.read(&mut piece).map_err(failed)?;
            if read == 0 {
                break;
            }
            digest.update(piece.get(..read).unwrap_or_default());
        }
        let digest = digest.finalize().into();
        Ok(Self {
            path: path.to_owned(),
            identity,
            digest,
            sha256: hex(&digest),
        })
    }

    /// Its SHA-256.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Its SHA-256, in hexadecimal digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Fails if the file is not the one that was read.
    pub fn check(&self) -> Result<(), RestoreError> {
        let failed = |e: std::io::Error| HostError::at("open", &self.path, e);
        let now = File::open(&self.path).and_then(|f| identity(&f));
        if now.map_err(failed)? == self.identity {
            return Ok(());
        }
        let why = "it has changed since the experiment began; its runs would not be alike";
        Err(unfit(&self.path, why))
    }

    fn record(&self, kind: &str, names: Option<u64>, data_bytes: u64) -> RestoredRecord {
        RestoredRecord {
            kind: kind.to_owned(),
            file: self.path.display().to_string(),
            bytes: self.identity.2,
            sha256: self.sha256.clone(),
            names,
            data_bytes,
        }
    }

    /// What an image that was copied leaves in the record.
    pub fn of_image(&self, copied_bytes: u64) -> RestoredRecord {
        self.record("image", None, copied_bytes)
    }

    /// Makes the tree of the snapshot in the root of an empty file system, writes it back and looks whether it
    /// is there.
    pub fn restore_tree(
        &self,
        target: &dyn Target,
        stop: &AtomicBool,
    ) -> Result<RestoredRecord, RestoreError> {
        let mut wanted = Wanted::default();
        let (tree, placement) = tree_of(&self.path, stop, &mut wanted)?;
        // Every name is a stranger's.
        let fs = target.file_system(FsOptions::default())?;
        let failed = |source| RestoreError::Build {
            file: self.path.display().to_string(),
            source,
        };
        let refused =
            |what: &str, errno| TargetError::refused(format!("{what} {}", fs.name()), errno);
        let own = names_of_root(&*fs).map_err(|e| refused("list", e))?;
        let before = fs.statfs().unwrap_or_default().available_bytes;
        let built = replay::build(&*fs, &tree, &placement, CONTENTS, stop).map_err(failed)?;
        for (name, modified_ns) in &wanted.modified {
            let times = SetAttr::Times(*modified_ns, *modified_ns);
            fs.set_attr(name, times)
                .map_err(|e| refused("set the times of files of", e))?;
        }
        fs.sync().map_err(|e| refused("write back", e))?;
        let after = fs.statfs().unwrap_or_default().available_bytes;
        self.verify(&*fs, tree, (&placement, &own), stop)?;
        let used = before.saturating_sub(after);
        // Small files may lie in their inodes, and btrfs keeps and counts in its own way.
        let host = HostFs::of(target).transpose()?;
        let mount = host.as_ref().and_then(HostFs::mount);
        let counts = mount.is_some_and(|m| m.kind != "btrfs");
        if counts && used < built.bytes / 2 {
            let why = format!("{} bytes were written and {used} are in use", built.bytes);
            return Err(unfit(&self.path, &why));
        }
        for (name, size_bytes) in &wanted.with_holes {
            let attr = fs.lstat(name);
            if attr.is_ok_and(|a| a.allocated_bytes >= *size_bytes) {
                let name = escape(name);
                let why = format!("`{name}` has no holes, expected some in its {size_bytes} bytes");
                return Err(unfit(&self.path, &why));
            }
        }
        let names = built.files + built.links + built.directories + built.symlinks;
        Ok(self.record("snapshot", Some(names), built.bytes))
    }

    /// Whether names, types, sizes and texts of links are those of the tree; `own` names were there before.
    fn verify(
        &self,
        fs: &dyn FileSystem,
        mut tree: ReplayTree,
        (placement, own): (&Placement, &[Vec<u8>]),
        stop: &AtomicBool,
    ) -> Result<(), RestoreError> {
        let root = placement.rules().first().map(|(from, _)| from.clone());
        let root = tree.directory(&root.unwrap_or_default());
        for name in own {
            if tree.child_of(root, name).is_none() {
                tree.create(root, name, NodeKind::Unknown);
            }
        }
        let Some(found) = replay::verify(fs, &tree, placement, stop) else {
            return Err(unfit(&self.path, "interrupted"));
        };
        let Some(first) = found.first.first() else {
            return Ok(());
        };
        let name = escape(&first.name);
        let why = format!(
            "{} of {} names are not as they should be: `{name}` is {}",
            found.wrong,
            found.names,
            problem(&first.fault)
        );
        Err(unfit(&self.path, &why))
    }
}

fn unfit(path: &Path, why: &str) -> RestoreError {
    RestoreError::Unfit {
        file: path.display().to_string(),
        why: why.to_owned(),
    }
}

fn identity(file: &File) -> std::io::Result<(u64, u64, u64, i128)> {
    let about = file.metadata()?;
    let changed_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
    Ok((about.dev(), about.ino(), about.len(), changed_ns))
}

fn names_of_root(fs: &dyn FileSystem) -> Result<Vec<Vec<u8>>, Errno> {
    let entries = list_dir(fs, b"")?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

/// Which names of a snapshot are made, and what is known of them.
#[derive(Debug, Default)]
struct Wanted {
    /// Files of several names whose bytes are counted.
    counted: HashSet<u64>,
    data_bytes: u64,
    /// When files were modified, nanoseconds since 1970.
    modified: Vec<(Vec<u8>, u64)>,
    /// Names of files with large holes, and their sizes.
    with_holes: Vec<(Vec<u8>, u64)>,
}

impl Wanted {
    /// All but what is fsage's own: the mark of another scratch file system, or of how it was aged.
    fn take(&mut self, entry: &SnapshotEntry) -> bool {
        if entry.path.starts_with(OWN) {
            return false;
        }
        if entry.file_type == FileType::Regular {
            if let Some(modified_ns) = u64::try_from(entry.mtime_ns).ok().filter(|&ns| ns > 0) {
                self.modified.push((entry.path.clone(), modified_ns));
            }
            let data = if has_ranges(entry) {
                let lengths = ranges(entry).into_iter().map(|r| r.length);
                lengths.fold(0, u64::saturating_add)
            } else {
                entry.size_bytes
            };
            if self.counted.insert(entry.ino) {
                self.data_bytes = self.data_bytes.saturating_add(data);
            }
            if data.saturating_add(HOLES_BYTES) < entry.size_bytes {
                self.with_holes.push((entry.path.clone(), entry.size_bytes));
            }
        }
        true
    }
}

/// The tree of a whole snapshot, and where its root lies.
fn tree_of(
    path: &Path,
    stop: &AtomicBool,
    wanted: &mut Wanted,
) -> Result<(ReplayTree, Placement), RestoreError> {
    let snapshot = SnapshotReader::open(path)?;
    if !snapshot.loss().is_none() {
        let why = format!("{}, expected a whole snapshot", snapshot.loss());
        return Err(unfit(path, &why));
    }
    let from = snapshot.meta().root.clone();
    if !from.starts_with('/') {
        let why = format!("it is of `{from}`, expected an absolute directory");
        return Err(unfit(path, &why));
    }
    let root_path = snapshot.meta().root_path();
    let mut tree = ReplayTree::new(true);
    let root = tree.directory(&root_path);
    add_snapshot(path, snapshot, (&mut tree, root), stop, &mut |e| {
        wanted.take(e)
    })?;
    let mut placement = Placement::default();
    placement.add(&root_path, b"");
    Ok((tree.start(), placement))
}

/// Whether what a state restores can be used on a target that is made for each run, as far as the file tells;
/// nothing is changed.
pub(crate) fn check(state: &State, spec: &dyn TargetSpec) -> Result<(), RestoreError> {
    match state {
        State::Fresh | State::AsFound => Ok(()),
        State::Image(path) => match spec.images() {
            Some(images) => Ok(images.check(path)?),
            None => Err(unfit(path, &format!("{spec} cannot be made of an image"))),
        },
        State::Snapshot(path) => {
            let mut wanted = Wanted::default();
            tree_of(path, &AtomicBool::new(false), &mut wanted)?;
            match spec.size_bytes() {
                Some(size) if wanted.data_bytes > size => {
                    let why = format!(
                        "its files hold {} bytes, more than the {size} of {spec}; expected a larger \
                         size=",
                        wanted.data_bytes
                    );
                    Err(unfit(path, &why))
                }
                _ => Ok(()),
            }
        }
    }
}

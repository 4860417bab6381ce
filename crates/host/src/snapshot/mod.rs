//! A whole tree, name by name, for a snapshot.
//!
//! Parents come before what they hold; within a directory names come in the order of their inodes,
//! which is the order of the disk on most file systems. Other mounts and other btrfs subvolumes
//! (which number their inodes anew) are left out and counted.

mod layout;
mod previous;
mod space;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fsage_core::{Clock, Errno, FileType};
use fsage_format::snapshot::{SnapshotEnd, SnapshotEntry, extent_flags};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Statx, StatxFlags};

use crate::fs::file_type;
use crate::{HostError, MonotonicClock};
use layout::Layout;

pub use previous::Previous;
pub use space::{FreeExtent, block_groups, free_extents};

/// Errors, and mounts that are left out, beyond this many are counted but not kept.
const ERRORS_KEPT: usize = 1000;
const DIRENT_BUFFER: usize = 64 * 1024;

/// What a walk met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Names given to the sink.
    pub entries: u64,
    /// Of these, regular files, each counted once.
    pub files: u64,
    /// Of these, directories.
    pub directories: u64,
    /// Of these, symbolic links.
    pub symlinks: u64,
    /// Names after the first of files that have several.
    pub further_links: u64,
    /// Pieces of the files whose places are known: runs of blocks that are contiguous on the device.
    pub extents: u64,
    /// Files with data that had no place yet (delayed allocation).
    pub not_written: u64,
    /// Files that vanished between the listing of their directory and their turn.
    pub vanished: u64,
    /// Files and directories that could not be read.
    pub unreadable: u64,
    /// Mount points of other file systems, and other subvolumes, which were left out.
    pub other_mounts: u64,
    /// The first 1000 of these.
    pub mounts: Vec<PathBuf>,
    /// The first 1000 of what could not be read, and why.
    pub errors: Vec<(PathBuf, Errno)>,
    /// Files and directories that had not changed since the previous snapshot, which tells the rest of them.
    pub unchanged: u64,
    /// Whether the file system says where files lie (FIEMAP).
    pub has_extents: bool,
    /// Whether it was asked and does not.
    pub hides_extents: bool,
    /// Whether the sink ended the walk.
    pub stopped: bool,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: u64,
}

impl SnapshotSummary {
    /// What the end of a snapshot file says.
    pub fn end(&self) -> SnapshotEnd {
        SnapshotEnd {
            vanished: self.vanished,
            unreadable: self.unreadable,
            other_mounts: self.other_mounts,
            elapsed_ns: self.elapsed_ns,
            stopped: None,
        }
    }
}

/// Walks the tree below `dir` and gives every name to `sink`, the root first under the empty path;
/// the sink may end the walk. Fails if `dir` is no directory that can be opened; everything below
/// that cannot be read is counted.
pub fn walk(
    dir: &Path,
    sink: &mut dyn FnMut(SnapshotEntry) -> ControlFlow<()>,
) -> Result<SnapshotSummary, HostError> {
    walk_since(dir, None, sink)
}

/// The same; of files that are in `previous` and have not changed since, generation and extents come from there.
/// What a defragmenter moved is no change of the file and goes unseen.
pub fn walk_since(
    dir: &Path,
    previous: Option<&Previous>,
    sink: &mut dyn FnMut(SnapshotEntry) -> ControlFlow<()>,
) -> Result<SnapshotSummary, HostError> {
    let start_ns = MonotonicClock.now_ns();
    let root = crate::fs::open_root(dir)?;
    let statx = statx(root.as_fd(), b"").map_err(|e| HostError::at("look at", dir, e))?;
    let mut walker = Walker {
        mounted: mounted_below(root.as_fd(), dir),
        previous,
        ..Walker::new(&statx, sink)
    };
    let parent = Rc::new(root);
    let _ = walker.run(&parent, &statx);
    let mut summary = walker.summary;
    let tells_extents = walker.layout.tells_extents();
    summary.has_extents |= tells_extents == Some(true);
    summary.hides_extents = tells_extents == Some(false);
    summary.elapsed_ns = MonotonicClock.now_ns() - start_ns;
    Ok(summary)
}

/// The entry of one file or directory, under the path as it is given; a link at its end is followed.
pub fn entry(path: &Path) -> Result<SnapshotEntry, HostError> {
    let looking = |e: std::io::Error| HostError::at("look at", path, e);
    let place = path.canonicalize().map_err(looking)?;
    let name = place.as_os_str().as_bytes();
    let statx = statx(rustix::fs::CWD, name).map_err(|e| looking(e.into()))?;
    let mut sink = |_| ControlFlow::Continue(());
    let mut walker = Walker::new(&statx, &mut sink);
    let given = path.as_os_str().as_bytes().to_vec();
    let entry = walker.entry(rustix::fs::CWD, None, name, given, &statx);
    match walker.summary.errors.pop() {
        Some((_, errno)) => Err(looking(std::io::Error::from_raw_os_error(errno.0))),
        None => Ok(entry),
    }
}

/// A directory that is still to be listed. Its parent stays open until then, so that a path of any
/// length is reached and a name that becomes a link is not followed.
struct Pending {
    parent: Rc<OwnedFd>,
    name: Vec<u8>,
    path: Vec<u8>,
}

struct Walker<'s> {
    /// Where something else is mounted, relative to the root. To look at such a place asks the file
    /// system mounted there, and one whose server is dead never answers.
    mounted: HashSet<Vec<u8>>,
    mount: Option<u64>,
    dev: (u32, u32),
    layout: Layout,
    previous: Option<&'s Previous>,
    /// Inodes of files with several names that were given already.
    linked: HashSet<u64>,
    summary: SnapshotSummary,
    sink: &'s mut dyn FnMut(SnapshotEntry) -> ControlFlow<()>,
}

impl<'s> Walker<'s> {
    fn new(root: &Statx, sink: &'s mut dyn FnMut(SnapshotEntry) -> ControlFlow<()>) -> Self {
        Self {
            mounted: HashSet::new(),
            mount: mount_of(root),
            dev: dev_of(root),
            layout: Layout::new(),
            previous: None,
            linked: HashSet::new(),
            summary: SnapshotSummary::default(),
            sink,
        }
    }

    fn run(&mut self, root: &Rc<OwnedFd>, statx: &Statx) -> ControlFlow<()> {
        let entry = self.entry(root.as_fd(), Some(root.as_fd()), b".", Vec::new(), statx);
        self.give(entry)?;
        let mut pending = Vec::new();
        self.list(root, b"", &mut pending)?;
        while let Some(next) = pending.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let name = next.name.as_slice();
            match rustix::fs::openat(&next.parent, name, flags, Mode::empty()) {
                Ok(fd) => self.list(&Rc::new(fd), &next.path, &mut pending)?,
                Err(e) => self.failed(&next.path, e),
            }
        }
        ControlFlow::Continue(())
    }

    /// Gives what a directory holds and notes its directories.
    fn list(
        &mut self,
        dir: &Rc<OwnedFd>,
        path: &[u8],
        pending: &mut Vec<Pending>,
    ) -> ControlFlow<()> {
        let names = match names(dir.as_fd()) {
            Ok(names) => names,
            Err(e) => {
                self.failed(path, e);
                return ControlFlow::Continue(());
            }
        };
        let first = pending.len();
        for (_, name) in names {
            let mut below = path.to_vec();
            if !below.is_empty() {
                below.push(b'/');
            }
            below.extend_from_slice(&name);
            if self.mounted.contains(&below) {
                self.other_mount(&below);
                continue;
            }
            let statx = match statx(dir.as_fd(), &name) {
                Ok(statx) => statx,
                Err(e) => {
                    self.failed(&below, e);
                    continue;
                }
            };
            if mount_of(&statx) != self.mount || dev_of(&statx) != self.dev {
                self.other_mount(&below);
                continue;
            }
            let entry = self.entry(dir.as_fd(), None, &name, below.clone(), &statx);
            let is_dir = entry.file_type == FileType::Directory;
            self.give(entry)?;
            if is_dir {
                pending.push(Pending {
                    parent: Rc::clone(dir),
                    name,
                    path: below,
                });
            }
        }
        // The last noted is listed first.
        if let Some(noted) = pending.get_mut(first..) {
            noted.reverse();
        }
        ControlFlow::Continue(())
    }

    fn give(&mut self, entry: SnapshotEntry) -> ControlFlow<()> {
        let summary = &mut self.summary;
        summary.entries += 1;
        // Of what has no place yet nobody knows how many there will be.
        summary.extents += entry.runs().unwrap_or(0);
        let delayed = entry
            .extents
            .iter()
            .any(|e| e.flags & extent_flags::DELALLOC != 0);
        summary.not_written += u64::from(delayed);
        match entry.file_type {
            FileType::Directory => summary.directories += 1,
            FileType::Symlink => summary.symlinks += 1,
            // Of those with several names the first was counted when it was looked at.
            FileType::Regular | FileType::Other => {}
        }
        let flow = (self.sink)(entry);
        summary.stopped = flow.is_break();
        flow
    }

    /// Something else is mounted here, or it is another subvolume.
    fn other_mount(&mut self, path: &[u8]) {
        self.summary.other_mounts += 1;
        if self.summary.mounts.len() < ERRORS_KEPT {
            self.summary.mounts.push(path_of(path));
        }
    }

    fn failed(&mut self, path: &[u8], error: rustix::io::Errno) {
        if error == rustix::io::Errno::NOENT {
            self.summary.vanished += 1;
            return;
        }
        self.summary.unreadable += 1;
        if self.summary.errors.len() < ERRORS_KEPT {
            let errno = Errno(error.raw_os_error());
            self.summary.errors.push((path_of(path), errno));
        }
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        open: Option<BorrowedFd<'_>>,
        name: &[u8],
        path: Vec<u8>,
        statx: &Statx,
    ) -> SnapshotEntry {
        let kind = file_type(u32::from(statx.stx_mode));
        let again = kind != FileType::Directory
            && statx.stx_nlink > 1
            && !self.linked.insert(statx.stx_ino);
        self.summary.further_links += u64::from(again);
        self.summary.files += u64::from(!again && kind == FileType::Regular);
        let born = statx.stx_mask & StatxFlags::BTIME.bits() != 0;
        let mut entry = SnapshotEntry {
            path,
            ino: statx.stx_ino,
            generation: 0,
            file_type: kind,
            size_bytes: statx.stx_size,
            allocated_bytes: statx.stx_blocks.saturating_mul(512),
            links: statx.stx_nlink,
            link_target: None,
            mode: u32::from(statx.stx_mode) & 0o7777,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            atime_ns: time_ns(&statx.stx_atime),
            mtime_ns: time_ns(&statx.stx_mtime),
            ctime_ns: time_ns(&statx.stx_ctime),
            btime_ns: born.then(|| time_ns(&statx.stx_btime)),
            extents: Vec::new(),
        };
        match kind {
            FileType::Symlink => match rustix::fs::readlinkat(dir, name, Vec::new()) {
                Ok(target) => entry.link_target = Some(target.into_bytes()),
                Err(e) => self.failed(&entry.path, e),
            },
            FileType::Regular | FileType::Directory => {
                let want_extents = kind == FileType::Regular && !again && statx.stx_blocks > 0;
                let previous = self.previous;
                if previous.is_some_and(|p| p.fill(&mut entry, want_extents)) {
                    self.summary.unchanged += 1;
                    self.summary.has_extents |= want_extents;
                } else if let Err(e) = self.layout.fill(dir, open, name, want_extents, &mut entry) {
                    // A directory is opened again for what is in it, and tells it then.
                    if kind == FileType::Regular {
                        self.failed(&entry.path, e);
                    }
                }
            }
            FileType::Other => {}
        }
        entry
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Paths of what is mounted below an open directory, relative to it.
fn mounted_below(root: BorrowedFd<'_>, dir: &Path) -> HashSet<Vec<u8>> {
    let own = format!("/proc/thread-self/fd/{}", root.as_raw_fd());
    let root = std::fs::read_link(own).unwrap_or_else(|_| dir.to_owned());
    let mounts = crate::mounts::all().into_iter();
    mounts
        .filter_map(|mount| {
            let below = mount.dir.strip_prefix(&root).ok()?;
            Some(below.as_os_str().as_bytes().to_vec())
        })
        .filter(|below| !below.is_empty())
        .collect()
}

fn statx(dir: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Statx> {
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    let want = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    rustix::fs::statx(dir, name, flags, want)
}

fn mount_of(statx: &Statx) -> Option<u64> {
    (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(statx.stx_mnt_id)
}

fn dev_of(statx: &Statx) -> (u32, u32) {
    (statx.stx_dev_major, statx.stx_dev_minor)
}

fn time_ns(time: &rustix::fs::StatxTimestamp) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(time.tv_nsec))
}

/// The names in a directory and their inodes, in the order of the inodes.
fn names(dir: BorrowedFd<'_>) -> rustix::io::Result<Vec<(u64, Vec<u8>)>> {
    let mut buffer = Vec::with_capacity(DIRENT_BUFFER);
    let mut names = Vec::new();
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push((entry.ino(), name.to_vec()));
        }
    }
    names.sort_unstable();
    Ok(names)
}

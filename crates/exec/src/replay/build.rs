//! Making the tree of the start on the target.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Errno, FileSystem, Handle, OpenFlags, Seed};
use fsage_namespace::path::PATH_BYTES;
use fsage_namespace::{Ino, NodeKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::place::{Placement, link_text};
use super::tree::{Inode, Range, ReplayTree};
use crate::payload::{PIECE_BYTES, Payload};

/// Why the tree could not be made; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// It does not fit.
    #[error(
        "make the initial tree: its files hold {needed_bytes} bytes, the target has {available_bytes} available"
    )]
    Space {
        /// Bytes of its files.
        needed_bytes: u64,
        /// Bytes that the target has.
        available_bytes: u64,
    },
    /// It has too many files.
    #[error(
        "make the initial tree: it has {needed_files} files and directories, the target has room for {free_files}"
    )]
    Files {
        /// Its files and directories.
        needed_files: u64,
        /// How many more the target can have.
        free_files: u64,
    },
    /// What is written after it does not fit.
    #[error(
        "replay on this target: the initial tree and what the trace adds to it hold {needed_bytes} bytes, the target has \
         {available_bytes} available"
    )]
    Room {
        /// Bytes of both.
        needed_bytes: u64,
        /// Bytes that the target has.
        available_bytes: u64,
    },
    /// The target refused something.
    #[error("make `{name}` of the initial tree: {errno}")]
    Refused {
        /// The name, what is not UTF-8 replaced.
        name: String,
        /// What the target said.
        errno: Errno,
    },
    /// It was stopped.
    #[error("make the initial tree: interrupted")]
    Interrupted,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Built {
    /// Regular files.
    pub files: u64,
    /// Further names of files.
    pub links: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A name of a tree on the target.
pub(super) struct Placed {
    /// Relative to the target's root.
    pub(super) name: Vec<u8>,
    /// The file; `None` for a directory that only leads to where a rule points.
    pub(super) node: Option<Ino>,
}

/// Every name of `tree` that lies on the target, directories before what they hold. The target's root
/// itself is left out.
pub(super) fn placed(
    tree: &ReplayTree,
    placement: &Placement,
    each: &mut dyn FnMut(Placed) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    for (_, to) in placement.rules() {
        let ends = to
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(i, _)| i);
        for end in ends.chain([to.len()]).filter(|&end| end > 0) {
            let name = to.get(..end).unwrap_or_default().to_vec();
            each(Placed { name, node: None })?;
        }
    }
    let mut pending: Vec<(Vec<u8>, Ino)> = vec![(Vec::new(), Ino::ROOT)];
    while let Some((path, node)) = pending.pop() {
        for (name, child) in tree.entries(node) {
            let mut path = path.clone();
            path.push(b'/');
            path.extend_from_slice(name);
            if path.len() >= PATH_BYTES {
                // No call can name it.
                continue;
            }
            if let Some(name) = placement.map(&path).filter(|name| !name.is_empty()) {
                let node = Some(child);
                each(Placed { name, node })?;
            }
            if tree.kind(child) == NodeKind::Directory {
                pending.push((path, child));
            }
        }
    }
    Ok(())
}

/// Makes `tree` on `fs`, below the empty root of the target; [`check_room`] first. Files hold bytes from `seed`.
pub fn build(
    fs: &dyn FileSystem,
    tree: &ReplayTree,
    placement: &Placement,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<Built, BuildError> {
    let mut builder = Builder {
        fs,
        tree,
        placement,
        stop,
        payload: Payload::new(seed, 0),
        made: FxHashMap::default(),
        built: Built::default(),
    };
    placed(tree, placement, &mut |placed| builder.make(&placed))?;
    Ok(builder.built)
}

/// Whether `fs` has room for `tree` and for so many bytes that are added to it, in whole blocks and files. Where a file
/// system limits no files, small ones may lie in their inodes, and bytes alone count.
pub fn check_room(
    fs: &dyn FileSystem,
    tree: &ReplayTree,
    placement: &Placement,
    added_bytes: u64,
) -> Result<(), BuildError> {
    let Ok(space) = fs.statfs() else {
        return Ok(());
    };
    let limited = space.files > 0;
    let block_bytes = match space.fragment_bytes {
        bytes if limited => u64::from(bytes).max(1),
        _ => 1,
    };
    let (bytes, needed_files) = needed(tree, placement, block_bytes)?;
    if limited && needed_files > space.free_files {
        return Err(BuildError::Files {
            needed_files,
            free_files: space.free_files,
        });
    }
    let (needed_bytes, available_bytes) =
        (bytes.saturating_add(added_bytes), space.available_bytes);
    if space.total_bytes == 0 || needed_bytes <= available_bytes {
        return Ok(());
    }
    Err(if bytes > available_bytes {
        BuildError::Space {
            needed_bytes: bytes,
            available_bytes,
        }
    } else {
        BuildError::Room {
            needed_bytes,
            available_bytes,
        }
    })
}

/// Bytes of what is placed, each file's in whole blocks, and how many files and directories it is.
fn needed(
    tree: &ReplayTree,
    placement: &Placement,
    block_bytes: u64,
) -> Result<(u64, u64), BuildError> {
    let (mut bytes, mut files) = (0u64, 0);
    let mut counted: FxHashSet<Ino> = FxHashSet::default();
    placed(tree, placement, &mut |placed| {
        let inode = placed.node.filter(|n| counted.insert(*n));
        if let Some(inode) = inode.and_then(|n| tree.inode(n)) {
            let blocks = data_bytes(inode).div_ceil(block_bytes);
            bytes = bytes.saturating_add(blocks.saturating_mul(block_bytes));
            files += 1;
        }
        Ok(())
    })?;
    Ok((bytes, files))
}

fn data_bytes(inode: &Inode) -> u64 {
    match (inode.kind, &inode.ranges) {
        (NodeKind::Directory | NodeKind::Symlink | NodeKind::Other, _) => 0,
        (_, None) => inode.size,
        (_, Some(ranges)) => ranges.iter().map(|r| r.length).fold(0, u64::saturating_add),
    }
}

struct Builder<'a> {
    fs: &'a dyn FileSystem,
    tree: &'a ReplayTree,
    placement: &'a Placement,
    stop: &'a AtomicBool,
    payload: Payload,
    made: FxHashMap<Ino, Vec<u8>>,
    built: Built,
}

impl Builder<'_> {
    fn make(&mut self, placed: &Placed) -> Result<(), BuildError> {
        self.go_on()?;
        let result = self.make_one(placed);
        result.map_err(|errno| match errno {
            Errno::EINTR if self.stop.load(Ordering::Relaxed) => BuildError::Interrupted,
            errno => BuildError::Refused {
                name: fsage_core::text::of_path(&placed.name),
                errno,
            },
        })
    }

    fn go_on(&self) -> Result<(), BuildError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        Ok(())
    }

    fn make_one(&mut self, placed: &Placed) -> Result<(), Errno> {
        let name = &placed.name;
        let Some((node, inode)) = placed.node.and_then(|n| Some((n, self.tree.inode(n)?))) else {
            return match self.fs.mkdir(name, 0o755) {
                Err(errno) if errno != Errno::EEXIST => Err(errno),
                _ => Ok(()),
            };
        };
        if let Some(first) = self.made.get(&node) {
            self.built.links += 1;
            return self.fs.link(first, name);
        }
        match inode.kind {
            NodeKind::Directory => {
                self.built.directories += 1;
                return match self.fs.mkdir(name, 0o755) {
                    // A rule has led here before.
                    Err(errno) if errno != Errno::EEXIST => Err(errno),
                    _ => Ok(()),
                };
            }
            NodeKind::Symlink => {
                self.built.symlinks += 1;
                let text = match self.tree.target(node) {
                    Some(text) => link_text(Some(self.placement), name, text),
                    // Of an unknown target its length is all that can be kept.
                    None => vec![b'x'; inode.size.clamp(1, 4095) as usize].into(),
                };
                self.fs.symlink(&text, name)?;
            }
            NodeKind::Regular | NodeKind::Unknown | NodeKind::Other => {
                self.built.files += 1;
                self.make_file(name, inode)?;
            }
        }
        self.made.insert(node, name.clone());
        Ok(())
    }

    fn make_file(&mut self, name: &[u8], inode: &Inode) -> Result<(), Errno> {
        let handle = self.fs.open(name, OpenFlags::CREATE_NEW, 0o644)?;
        let filled = self.fill(handle, inode);
        let closed = self.fs.close(handle);
        filled.and(closed)
    }

    fn fill(&mut self, handle: Handle, inode: &Inode) -> Result<(), Errno> {
        let whole = [Range {
            offset: 0,
            length: inode.size,
            unwritten: false,
        }];
        let ranges = inode.ranges.as_deref().unwrap_or(&whole);
        for range in ranges.iter().filter(|r| r.offset < inode.size) {
            let length = range.length.min(inode.size - range.offset);
            if range.unwritten {
                // Where nothing can be allocated ahead, a hole reads the same.
                match self.fs.fallocate(handle, range.offset, length) {
                    Err(Errno::EOPNOTSUPP) | Ok(()) => {}
                    Err(errno) => return Err(errno),
                }
            } else {
                self.write(handle, range.offset, length)?;
            }
        }
        if inode.ranges.is_some() {
            self.fs.ftruncate(handle, inode.size)?;
        }
        Ok(())
    }

    fn write(&mut self, handle: Handle, offset: u64, length: u64) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset.saturating_add(length));
        while at < end {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Errno::EINTR);
            }
            let piece = self
                .payload
                .piece((end - at).min(PIECE_BYTES as u64) as usize);
            let put = self.fs.pwrite(handle, piece, at)? as u64;
            if put == 0 {
                return Err(Errno::ENOSPC);
            }
            self.built.bytes += put;
            at += put;
        }
        Ok(())
    }
}

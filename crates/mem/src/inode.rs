//! Inodes, directories and open files.

use std::collections::BTreeSet;

use fsage_core::{Attr, DevId, Errno, FileId, FileType, OpenFlags};
use rustc_hash::FxHashMap;

use crate::body::{Body, PAGE};
use crate::read_ahead::Stream;

/// The number of the root; 0 is the file that blocks of inodes are cached as.
pub(crate) const ROOT: u32 = 1;
/// Entries of a block of a directory.
pub(crate) const ENTRIES_OF_BLOCK: u32 = 64;

/// A name of a directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub ino: u32,
    /// What the name cache knows it by.
    pub name_id: u32,
    /// Its place in the directory.
    pub slot: u32,
}

/// Names of a directory.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub parent: u32,
    pub entries: FxHashMap<Box<[u8]>, Entry>,
    /// Names that were searched for and are missing, as the name cache knows them.
    pub missing: FxHashMap<Box<[u8]>, u32>,
    free_slots: Vec<u32>,
    pub slots: u32,
}

impl Directory {
    /// An empty one.
    pub(crate) fn below(parent: u32) -> Self {
        Self {
            parent,
            ..Self::default()
        }
    }

    pub(crate) fn take_slot(&mut self) -> u32 {
        self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    pub(crate) fn give_slot(&mut self, slot: u32) {
        self.free_slots.push(slot);
    }

    /// Blocks that a listing reads.
    pub(crate) fn blocks(&self) -> u64 {
        u64::from(self.slots.div_ceil(ENTRIES_OF_BLOCK).max(1))
    }
}

/// What an inode is.
#[derive(Debug)]
pub(crate) enum Node {
    File(Body),
    Dir(Directory),
    Link(Box<[u8]>),
}

/// One inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub node: Node,
    pub links: u32,
    pub mode: u32,
    pub generation: u32,
    pub open: u32,
    /// The transactions that changed it last: in any way, and so that its data cannot be found without.
    pub changed_in: u64,
    pub needed_in: u64,
    /// Since when it is dirty, and from which page on, where it is.
    pub dirty_since_ns: u64,
    pub dirty_from: u64,
    /// The request that was last started for its data without a wait.
    pub writing: Option<u64>,
}

impl Inode {
    pub(crate) fn file_type(&self) -> FileType {
        match self.node {
            Node::File(_) => FileType::Regular,
            Node::Dir(_) => FileType::Directory,
            Node::Link(_) => FileType::Symlink,
        }
    }

    pub(crate) fn dir(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.node {
            Node::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(crate) fn body(&mut self) -> Result<&mut Body, Errno> {
        match &mut self.node {
            Node::File(body) => Ok(body),
            Node::Dir(_) => Err(Errno::EISDIR),
            Node::Link(_) => Err(Errno::EINVAL),
        }
    }

    /// The next data from a byte on, or the next `hole`: a file is data up to its end.
    pub(crate) fn next(&mut self, offset: u64, hole: bool) -> Result<u64, Errno> {
        let end = self.body()?.size_bytes;
        if offset >= end {
            return Err(Errno::ENXIO);
        }
        Ok(if hole { end } else { offset })
    }

    pub(crate) fn attr(&self, ino: u32) -> Attr {
        let (size_bytes, blocks) = match &self.node {
            Node::File(body) => (body.size_bytes, body.blocks()),
            Node::Dir(dir) => (dir.blocks() * PAGE, dir.blocks()),
            Node::Link(target) => (target.len() as u64, 0),
        };
        Attr {
            id: FileId {
                dev: DevId(0),
                ino: u64::from(ino),
                generation: self.generation,
            },
            file_type: self.file_type(),
            size_bytes,
            allocated_bytes: blocks * PAGE,
            links: self.links,
            mode: self.mode,
        }
    }
}

/// Inodes of a block.
pub(crate) const INODES_OF_BLOCK: u32 = 16;

/// Every inode by its number. Numbers are given out block by block; one is used again once no inode of
/// its block is in use, so that making an inode reads no block but the one that is being filled.
#[derive(Debug)]
pub(crate) struct Inodes {
    all: Vec<Option<Inode>>,
    /// Inodes in use of each block, and the blocks beside `filling` that have none.
    used: Vec<u32>,
    free_blocks: BTreeSet<u32>,
    /// The next number, unless it begins a block.
    filling: u32,
    generation: u32,
    pub count: u64,
}

impl Inodes {
    pub(crate) fn new() -> Self {
        let mut inodes = Self {
            all: vec![None],
            // The number 0 is no inode's.
            used: vec![1],
            free_blocks: BTreeSet::new(),
            filling: ROOT,
            generation: 0,
            count: 0,
        };
        inodes.make(Node::Dir(Directory::below(ROOT)), 0o755);
        inodes
    }

    pub(crate) fn get(&mut self, ino: u32) -> Result<&mut Inode, Errno> {
        let inode = self.all.get_mut(ino as usize);
        inode.and_then(Option::as_mut).ok_or(Errno::ESTALE)
    }

    /// Whether no other inode of its block is in use.
    pub(crate) fn alone(&self, ino: u32) -> bool {
        let used = self.used.get((ino / INODES_OF_BLOCK) as usize);
        used.is_some_and(|&used| used <= 1)
    }

    fn next(&mut self) -> u32 {
        if self.filling.is_multiple_of(INODES_OF_BLOCK) {
            let block = self.free_blocks.pop_first().unwrap_or_else(|| {
                self.used.push(0);
                self.used.len() as u32 - 1
            });
            self.filling = block * INODES_OF_BLOCK;
        }
        let ino = self.filling;
        self.filling += 1;
        ino
    }

    pub(crate) fn make(&mut self, node: Node, mode: u32) -> u32 {
        self.generation += 1;
        self.count += 1;
        let inode = Inode {
            links: if matches!(node, Node::Dir(_)) { 2 } else { 1 },
            node,
            mode: mode & 0o7777,
            generation: self.generation,
            open: 0,
            changed_in: 0,
            needed_in: 0,
            dirty_since_ns: 0,
            dirty_from: 0,
            writing: None,
        };
        let ino = self.next();
        if ino as usize >= self.all.len() {
            self.all.resize_with(ino as usize + 1, || None);
        }
        if let Some(place) = self.all.get_mut(ino as usize) {
            *place = Some(inode);
        }
        if let Some(used) = self.used.get_mut((ino / INODES_OF_BLOCK) as usize) {
            *used += 1;
        }
        ino
    }

    /// Takes every name that is known to be missing.
    pub(crate) fn forget_missing(&mut self) -> Vec<u32> {
        let dirs = self.all.iter_mut().flatten().filter_map(|i| i.dir().ok());
        dirs.flat_map(|dir| dir.missing.drain().map(|(_, id)| id).collect::<Vec<_>>())
            .collect()
    }

    pub(crate) fn remove(&mut self, ino: u32) {
        if let Some(place) = self.all.get_mut(ino as usize)
            && place.take().is_some()
        {
            self.count -= 1;
            let block = ino / INODES_OF_BLOCK;
            if let Some(used) = self.used.get_mut(block as usize) {
                *used -= 1;
                let filling = !self.filling.is_multiple_of(INODES_OF_BLOCK)
                    && self.filling / INODES_OF_BLOCK == block;
                if *used == 0 && !filling {
                    self.free_blocks.insert(block);
                }
            }
        }
    }
}

/// An open file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub ino: u32,
    pub flags: OpenFlags,
    pub position: u64,
    pub stream: Stream,
}

/// Open files by their handles; a handle is never given out twice.
#[derive(Debug, Default)]
pub(crate) struct Handles {
    open: FxHashMap<u64, Open>,
    given: u64,
}

impl Handles {
    pub(crate) fn add(&mut self, open: Open) -> u64 {
        self.given += 1;
        self.open.insert(self.given, open);
        self.given
    }

    pub(crate) fn get(&mut self, handle: u64) -> Result<&mut Open, Errno> {
        self.open.get_mut(&handle).ok_or(Errno::EBADF)
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Result<Open, Errno> {
        self.open.remove(&handle).ok_or(Errno::EBADF)
    }
}

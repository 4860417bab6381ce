//! Files and names as prediction keeps them: what of them is in memory, and what has space on the device.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use fsage_core::FileId;
use rustc_hash::FxHashMap;

pub use fsage_namespace::{DentryId, Ino, NodeKind};

/// A file.
pub type Inode = fsage_namespace::Inode<Predicted>;

/// What prediction keeps of a file.
#[derive(Debug, Clone, Default)]
pub struct Predicted {
    /// Whether it belongs to the traced file system.
    pub in_scope: bool,
    /// Whether nothing tells what it is called, and with that whether it belongs there.
    pub untold: bool,
    /// Whether every name in this directory is known (from a snapshot, or made in the trace).
    pub complete: bool,
    /// Whether it was created in the trace, since names were made cold last.
    pub born: bool,
    /// Whether its space has holes; then [`PredictedTree::allocated`] knows more than `dense_to`.
    pub sparse: bool,
    /// Everything before this offset is allocated.
    pub dense_to: u64,
    /// Place in creation order: the inode number where one is known, else the order of appearance.
    pub order: u64,
    /// Where its first extent lies on the device in bytes, where known.
    pub physical: Option<u64>,
    /// Where its pieces begin in the file and on the device in bytes, where it is known to lie in more than one.
    pub pieces: Option<Box<[(u64, u64)]>>,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Its size in bytes.
    pub size: u64,
    /// How many of them have space on the device.
    pub space: u64,
}

/// The tree. It forgets no name: one that was missed is in the kernel's cache.
#[derive(Debug, Clone)]
pub struct PredictedTree {
    files: fsage_namespace::Tree<Predicted>,
    holes: FxHashMap<Ino, BTreeMap<u64, u64>>,
    next_order: u64,
}

impl Default for PredictedTree {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Deref for PredictedTree {
    type Target = fsage_namespace::Tree<Predicted>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl DerefMut for PredictedTree {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.files
    }
}

impl PredictedTree {
    /// A tree with nothing but its root.
    pub fn new(in_scope: bool) -> Self {
        let root = Predicted {
            in_scope,
            ..Predicted::default()
        };
        Self {
            files: fsage_namespace::Tree::new(root),
            holes: FxHashMap::default(),
            next_order: 1 << 62,
        }
    }

    /// Makes a directory on the way of a path that the trace shows to be there; `None` once there are
    /// more than any program's operations tell of.
    pub fn learn_directory(&mut self, id: DentryId) -> Option<Ino> {
        let may = self.learned.name();
        may.then(|| self.create(id, NodeKind::Directory, false))
    }

    /// Makes a file of `kind` with the name.
    pub fn create(&mut self, id: DentryId, kind: NodeKind, born: bool) -> Ino {
        self.next_order += 1;
        let dir = self.dentry(id).and_then(|d| self.inode(d.dir));
        let state = Predicted {
            born,
            complete: born && kind == NodeKind::Directory,
            in_scope: dir.is_some_and(|d| d.in_scope),
            order: self.next_order,
            ..Predicted::default()
        };
        self.files.create(id, kind, state)
    }

    /// Everything is on the device: nothing is known to be in memory because it was made in the trace.
    pub fn made_cold(&mut self) {
        let inodes = self.inodes_mut().iter_mut();
        inodes.for_each(|inode| inode.born = false);
    }

    /// Forgets a file that is gone; its number is given again unless it is a directory.
    pub fn forget(&mut self, ino: Ino) {
        self.holes.remove(&ino);
        let directory = self.kind(ino) == NodeKind::Directory;
        self.files.forget(ino, !directory);
    }

    /// Notes a file's identity on the traced system.
    pub fn identify(&mut self, ino: Ino, id: FileId) {
        if self.files.identify(ino, id)
            && let Some(inode) = self.inode_mut(ino)
        {
            inode.order = id.ino;
        }
    }

    /// A file that no name is known for, or that has none where it is `born` without.
    pub fn nameless(&mut self, kind: NodeKind, in_scope: bool, born: bool) -> Ino {
        self.next_order += 1;
        let state = Predicted {
            born,
            in_scope,
            order: self.next_order,
            ..Predicted::default()
        };
        let ino = self.files.unnamed(kind, state);
        if let Some(inode) = self.inode_mut(ino) {
            // The name that it was opened by.
            inode.links = u32::from(!born);
        }
        ino
    }

    /// Sets the size, everything before it allocated (a file learned from outside).
    pub fn set_dense(&mut self, ino: Ino, size: u64) {
        if let Some(node) = self.inode_mut(ino) {
            node.size = size;
            if !node.sparse {
                node.dense_to = node.dense_to.max(size);
            }
        }
    }

    /// Whether any byte of `from..to` has space on the device.
    #[inline]
    pub fn allocated(&self, ino: Ino, from: u64, to: u64) -> bool {
        let Some(node) = self.inode(ino) else {
            return false;
        };
        if from < node.dense_to {
            return true;
        }
        node.sparse
            && self
                .holes
                .get(&ino)
                .and_then(|m| m.range(..to).next_back())
                .is_some_and(|(_, &end)| end > from)
    }

    /// A file's size and space.
    pub fn held(&self, ino: Ino) -> Held {
        let size = self.size(ino);
        let space = self.space(ino, 0, size);
        Held { size, space }
    }

    /// How many bytes of `from..to` have space on the device.
    pub fn space(&self, ino: Ino, from: u64, to: u64) -> u64 {
        let Some(node) = self.inode(ino) else {
            return 0;
        };
        let dense = node.dense_to.min(to).saturating_sub(from);
        let holes = self.holes.get(&ino).filter(|_| node.sparse);
        let pieces = holes.into_iter().flat_map(|map| {
            let first = map.range(..=from).next_back().map_or(from, |(&a, _)| a);
            map.range(first..to.max(first))
        });
        let within = pieces.map(|(&a, &b)| b.min(to).saturating_sub(a.max(from)));
        dense.saturating_add(within.fold(0, u64::saturating_add))
    }

    /// Gives `from..to` space on the device (both are rounded to blocks by the caller).
    #[inline]
    pub fn allocate(&mut self, ino: Ino, from: u64, to: u64) {
        let Some(node) = self.files.inode_mut(ino) else {
            return;
        };
        if !node.sparse && from <= node.dense_to {
            node.dense_to = node.dense_to.max(to);
            return;
        }
        node.sparse = true;
        let map = self.holes.entry(ino).or_default();
        let (mut from, mut to) = (from, to);
        while let Some((&a, &b)) = map.range(..=to).next_back() {
            if b < from {
                break;
            }
            map.remove(&a);
            (from, to) = (from.min(a), to.max(b));
        }
        map.insert(from, to);
        while let Some((&a, &b)) = map.range(..=node.dense_to).next() {
            map.remove(&a);
            node.dense_to = node.dense_to.max(b);
        }
    }

    /// Takes the space of everything from `from` on, or up to `to` (a punched hole).
    pub fn deallocate(&mut self, ino: Ino, from: u64, to: u64) {
        let Some(node) = self.files.inode_mut(ino) else {
            return;
        };
        let end = node.dense_to;
        node.dense_to = node.dense_to.min(from);
        let mut rest = Vec::new();
        if end > to {
            rest.push((to, end));
        }
        if let Some(map) = self.holes.get_mut(&ino) {
            let first = map.range(..=from).next_back().map_or(from, |(&a, _)| a);
            let cut: Vec<(u64, u64)> = map
                .range(first..to.max(first))
                .map(|(&a, &b)| (a, b))
                .filter(|&(_, b)| b > from)
                .collect();
            for (a, b) in cut {
                map.remove(&a);
                if a < from {
                    map.insert(a, from);
                }
                if b > to {
                    rest.push((to, b));
                }
            }
        }
        if !rest.is_empty() {
            node.sparse = true;
            self.holes.entry(ino).or_default().extend(rest);
        }
    }
}

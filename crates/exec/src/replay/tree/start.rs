//! The tree of the start: from a snapshot, and as it is made.

use fsage_core::FileId;
use fsage_namespace::{Ino, NodeKind};
use rustc_hash::FxHashMap;

use super::{Range, ReplayTree, Replayed};

/// One name of a snapshot.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Path relative to the snapshot's root, empty for the root.
    pub path: &'a [u8],
    /// Identity.
    pub id: FileId,
    /// What it is.
    pub kind: NodeKind,
    /// Size in bytes.
    pub size: u64,
    /// The target of a symbolic link.
    pub target: Option<&'a [u8]>,
    /// Ranges with blocks of a file with holes; `None` where the file has none.
    pub ranges: Option<Vec<Range>>,
}

impl ReplayTree {
    /// The tree of the start.
    pub fn start(&self) -> ReplayTree {
        let mut made: FxHashMap<Ino, Ino> = FxHashMap::default();
        let mut tree = ReplayTree::new(false);
        made.insert(Ino::ROOT, Ino::ROOT);
        let mut met = vec![false; self.inodes().len()];
        for index in 0..self.inodes().len() {
            self.start_of(Ino(index as u32), &mut tree, &mut made, &mut met);
        }
        tree
    }

    /// Puts a file of the start into `tree`, its directories before it; those that were `met` already
    /// are made, or lie in themselves.
    fn start_of(
        &self,
        node: Ino,
        tree: &mut ReplayTree,
        made: &mut FxHashMap<Ino, Ino>,
        met: &mut [bool],
    ) {
        let mut chain = vec![node];
        while let Some(&next) = chain.last() {
            if let Some(met) = met.get_mut(next.0 as usize) {
                *met = true;
            }
            let Some(inode) = self.inode(next).filter(|i| !i.start.names.is_empty()) else {
                chain.pop();
                continue;
            };
            let missing = inode
                .start
                .names
                .iter()
                .find(|(dir, _)| met.get(dir.0 as usize) == Some(&false));
            if let Some((dir, _)) = missing.filter(|(dir, _)| !made.contains_key(dir)) {
                chain.push(*dir);
                continue;
            }
            chain.pop();
            if made.contains_key(&next) {
                continue;
            }
            let copy = tree.unnamed(inode.kind, Replayed::default());
            let directory = inode.kind == NodeKind::Directory;
            for (dir, name) in &inode.start.names {
                if let Some(&dir) = made.get(dir)
                    && tree.attach(dir, name, copy)
                    && directory
                {
                    // It has no second name.
                    break;
                }
            }
            if let Some(slot) = tree.inode_mut(copy) {
                slot.size = if inode.kind == NodeKind::Directory {
                    0
                } else {
                    inode.start.size
                };
                slot.ranges.clone_from(&inode.ranges);
            }
            if let Some(text) = self.target(next) {
                tree.set_target(copy, text);
            }
            made.insert(next, copy);
        }
    }

    /// The tree at the start of a second pass: this one, with its files of the start.
    pub fn restart(&self) -> ReplayTree {
        let mut tree = self.clone();
        tree.learning = false;
        for inode in tree.inodes_mut() {
            inode.start.exact = true;
            inode.start.size = inode.size;
        }
        tree
    }

    /// Lets a file be of the start by that name too, before any other, as it is now if it was made since. A directory
    /// has no second one. Whether that can be.
    pub fn begin_at(&mut self, node: Ino, name: (Ino, Box<[u8]>)) -> bool {
        let Some(inode) = self.inode_mut(node) else {
            return false;
        };
        let (directory, dir) = (inode.kind == NodeKind::Directory, name.0);
        let names = &mut inode.start.names;
        let again = names.iter().any(|(at, _)| *at == dir);
        if again && directory {
            return false;
        }
        let was_there = !names.is_empty();
        names.insert(if again { names.len() } else { 0 }, name);
        let mut made = if was_there { Vec::new() } else { vec![node] };
        while let Some(node) = made.pop() {
            let entries = self.entries(node).into_iter();
            let below: Vec<(Box<[u8]>, Ino)> = entries.map(|(n, i)| (Box::from(n), i)).collect();
            if let Some(inode) = self.inode_mut(node) {
                (inode.start.size, inode.start.exact) = (inode.size, true);
            }
            for (name, child) in below {
                let inode = self.inode_mut(child);
                let inode = inode.filter(|inode| inode.start.names.is_empty());
                if let Some(inode) = inode {
                    inode.start.names.push((node, name));
                    made.push(child);
                }
            }
        }
        true
    }

    /// The directory of that absolute path, of the start.
    pub fn directory(&mut self, path: &[u8]) -> Ino {
        let walk = self.walk(Ino::ROOT, path, false, true);
        match (walk.node, walk.last) {
            (None, Some((dir, name))) => self
                .learn(dir, &name, NodeKind::Directory, None)
                .unwrap_or(Ino::ROOT),
            (node, _) => node.unwrap_or(Ino::ROOT),
        }
    }

    /// Adds a name of a snapshot; parents come before what they hold. Whether it could be: its path
    /// must lie beneath the root, in directories that the snapshot has.
    pub fn add(&mut self, root: Ino, entry: &Entry<'_>) -> bool {
        let mut at = root;
        let mut parts = entry.path.split(|&b| b == b'/').peekable();
        if entry.path.is_empty() {
            return true;
        }
        while let Some(part) = parts.next() {
            if matches!(part, b"" | b"." | b"..") || self.kind(at) != NodeKind::Directory {
                return false;
            }
            if parts.peek().is_some() {
                let Some(child) = self.child_of(at, part) else {
                    return false;
                };
                at = child;
                continue;
            }
            if self.child_of(at, part).is_some() {
                return false;
            }
            let id = (entry.kind == NodeKind::Regular).then_some(entry.id);
            let known = id.and_then(|id| self.identified(id)).is_some();
            // A snapshot's rows are what they are learned from.
            self.learned.operation();
            let Some(node) = self.learn(at, part, entry.kind, id) else {
                return false;
            };
            self.identify(node, entry.id);
            if !known && let Some(inode) = self.inode_mut(node) {
                inode.size = if entry.kind == NodeKind::Directory {
                    0
                } else {
                    entry.size
                };
                inode.start.size = inode.size;
                inode.start.exact = true;
                inode.ranges.clone_from(&entry.ranges);
            }
            if let Some(text) = entry.target.filter(|_| !known) {
                self.set_target(node, text);
            }
        }
        true
    }
}

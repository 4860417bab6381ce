//! The tree of the start: from a snapshot, and as it is made.

use fsage_core::FileId;
use rustc_hash::FxHashMap;

use super::{Kind, Node, Range, Tree};

/// One name of a snapshot.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// Path relative to the snapshot's root, empty for the root.
    pub path: &'a [u8],
    /// Identity.
    pub id: FileId,
    /// What it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// The target of a symbolic link.
    pub target: Option<&'a [u8]>,
    /// Ranges with blocks of a file with holes; `None` where the file has none.
    pub ranges: Option<Vec<Range>>,
}

impl Tree {
    /// The tree of the start.
    pub fn start(&self) -> Tree {
        let mut made: FxHashMap<Node, Node> = FxHashMap::default();
        let mut tree = Tree::new(false);
        made.insert(Node::ROOT, Node::ROOT);
        let mut met = vec![false; self.nodes.len()];
        for index in 0..self.nodes.len() {
            self.start_of(Node(index as u32), &mut tree, &mut made, &mut met);
        }
        tree
    }

    /// Puts a file of the start into `tree`, its directories before it; those that were `met` already
    /// are made, or lie in themselves.
    fn start_of(
        &self,
        node: Node,
        tree: &mut Tree,
        made: &mut FxHashMap<Node, Node>,
        met: &mut [bool],
    ) {
        let mut chain = vec![node];
        while let Some(&next) = chain.last() {
            if let Some(met) = met.get_mut(next.0 as usize) {
                *met = true;
            }
            let Some(inode) = self.get(next).filter(|i| !i.start.names.is_empty()) else {
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
            let copy = tree.make(inode.kind);
            let directory = inode.kind == Kind::Directory;
            for (dir, name) in &inode.start.names {
                if let Some(&dir) = made.get(dir)
                    && tree.attach(dir, name, copy)
                    && directory
                {
                    // It has no second name.
                    break;
                }
            }
            if let Some(slot) = tree.get_mut(copy) {
                slot.size = if inode.kind == Kind::Directory {
                    0
                } else {
                    inode.start.size
                };
                slot.target.clone_from(&inode.target);
                slot.ranges.clone_from(&inode.ranges);
            }
            made.insert(next, copy);
        }
    }

    /// The tree at the start of a second pass: this one, with its files of the start.
    pub fn restart(&self) -> Tree {
        let mut tree = self.clone();
        tree.learning = false;
        for inode in &mut tree.nodes {
            inode.start.exact = true;
            inode.start.size = inode.size;
        }
        tree
    }

    /// The directory of that absolute path, of the start.
    pub fn directory(&mut self, path: &[u8]) -> Node {
        let walk = self.walk(Node::ROOT, path, false, true);
        match (walk.node, walk.last) {
            (None, Some((dir, name))) => self
                .learn(dir, &name, Kind::Directory, None)
                .unwrap_or(Node::ROOT),
            (node, _) => node.unwrap_or(Node::ROOT),
        }
    }

    /// Adds a name of a snapshot; parents come before what they hold. Whether it could be: its path
    /// must lie beneath the root, in directories that the snapshot has.
    pub fn add(&mut self, root: Node, entry: &Entry<'_>) -> bool {
        let mut at = root;
        let mut parts = entry.path.split(|&b| b == b'/').peekable();
        if entry.path.is_empty() {
            return true;
        }
        while let Some(part) = parts.next() {
            if matches!(part, b"" | b"." | b"..") || self.kind(at) != Kind::Directory {
                return false;
            }
            if parts.peek().is_some() {
                let Some(child) = self.child(at, part) else {
                    return false;
                };
                at = child;
                continue;
            }
            if self.child(at, part).is_some() {
                return false;
            }
            let id = (entry.kind == Kind::File).then_some(entry.id);
            let known = id.and_then(|id| self.identified(id)).is_some();
            // A snapshot's rows are what they are learned from.
            self.learned.operation();
            let Some(node) = self.learn(at, part, entry.kind, id) else {
                return false;
            };
            self.identify(node, entry.id);
            if !known && let Some(inode) = self.get_mut(node) {
                inode.size = if entry.kind == Kind::Directory {
                    0
                } else {
                    entry.size
                };
                inode.start.size = inode.size;
                inode.start.exact = true;
                inode.target = entry.target.map(Into::into);
                inode.ranges.clone_from(&entry.ranges);
            }
        }
        true
    }
}

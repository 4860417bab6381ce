//! Files and names as the trace changes them, and what of them was there before it.
//!
//! Paths are the traced machine's, absolute. What the trace shows to exist without the tree having it
//! is learned: it was there at the start, under the name that its directory had then.
//!
//! Always true, whatever a trace says: what has names in it has one name at most and lies nowhere in
//! itself, so that every way up and every way down ends. What would break that is impossible and is
//! refused ([`shape`]).

mod room;
mod shape;
mod start;

use fsage_core::FileId;
use fsage_namespace::path::PATH_BYTES;
use fsage_namespace::{Ino, NodeKind, Way};
use rustc_hash::FxHashSet;
use std::ops::{Deref, DerefMut};

/// A range of a file that has blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Where it begins, bytes.
    pub offset: u64,
    /// How long it is, bytes.
    pub length: u64,
    /// Whether it is allocated and not written.
    pub unwritten: bool,
}

/// What the file was at the start.
#[derive(Debug, Clone, Default)]
struct Start {
    /// Its names then: directory and name.
    names: Vec<(Ino, Box<[u8]>)>,
    size: u64,
    /// The size is known, not only a bound from below.
    exact: bool,
    /// The trace has changed the size since.
    changed: bool,
}

/// One file.
pub type Inode = fsage_namespace::Inode<Replayed>;

/// What replay keeps of a file.
#[derive(Debug, Clone, Default)]
pub struct Replayed {
    /// Ranges with blocks, where the snapshot has a file with holes; `None` for one without.
    pub ranges: Option<Vec<Range>>,
    /// The name that it got or was found by last.
    name: Box<[u8]>,
    start: Start,
    /// Up to where it has data, as far as is known.
    filled_to: u64,
    /// Its number may be given again.
    freed: bool,
}

/// Where a path leads.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// The directory of the last component and its name; `None` for `/`, `.` and `..` at the end and
    /// where a directory on the way is missing.
    pub last: Option<(Ino, Box<[u8]>)>,
    /// The file.
    pub node: Option<Ino>,
    /// Directories that were passed.
    pub dirs: Vec<Ino>,
    /// Names that were looked up on the way: of symbolic links, and the first one that is missing.
    pub names: Vec<(Ino, Box<[u8]>)>,
}

/// The tree. It forgets a name with its file, so that it does not grow with the trace.
#[derive(Debug, Clone)]
pub struct ReplayTree {
    files: fsage_namespace::Tree<Replayed>,
    /// Names of the start that the trace used up or showed to be absent.
    spent: FxHashSet<(Ino, Box<[u8]>)>,
    /// Whether what was at the start is remembered.
    learning: bool,
    /// Names that exist though neither the start nor the trace made them.
    pub unexplained: u64,
    room: room::Room,
}

impl Deref for ReplayTree {
    type Target = fsage_namespace::Tree<Replayed>;

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl DerefMut for ReplayTree {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.files
    }
}

impl ReplayTree {
    /// An empty tree; with `learning`, what was there at the start is remembered.
    pub fn new(learning: bool) -> Self {
        Self {
            files: fsage_namespace::Tree::new(Replayed::default()),
            spent: FxHashSet::default(),
            learning,
            unexplained: 0,
            room: room::Room::default(),
        }
    }

    /// Its absolute path by the name that it got or was found by last; `None` once it has none, and
    /// where it lies so deep that no call can name it.
    pub fn path(&self, node: Ino) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let (mut at, mut bytes) = (node, 0);
        while at != Ino::ROOT {
            let inode = self.inode(at)?;
            names.push(&inode.name);
            bytes += inode.name.len() + 1;
            if bytes >= PATH_BYTES {
                return None;
            }
            at = Some(Ino(inode.parent)).filter(|p| p.is_some())?;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Some(path)
    }

    /// Follows `path` from `base`. With `learn`, directories on the way that are missing are learned.
    pub fn walk(&mut self, base: Ino, path: &[u8], follow: bool, learn: bool) -> Walk {
        let mut walk = Walk::default();
        let mut way = Way::new(base, path, 0);
        while let Some(name) = way.next() {
            let at = way.at;
            self.expect(at, NodeKind::Directory);
            walk.dirs.push(at);
            if &*name == b".." {
                way.at = self.above(at);
                continue;
            }
            let is_last = way.is_done();
            let mut child = self.child_of(at, &name);
            if child.is_none() && !is_last {
                walk.names.push((at, name.clone()));
                if learn {
                    child = self.learn(at, &name, NodeKind::Directory, None);
                }
            }
            if let Some(child) = child {
                self.found(child, at, &name);
            }
            if let Some(link) = child.filter(|_| follow || !is_last)
                && self.is_link(link, learn)
            {
                walk.names.push((at, name));
                let text = self.target(link);
                if !text.is_some_and(|text| way.follow(text)) {
                    return walk;
                }
            } else if is_last {
                walk.last = Some((at, name));
                walk.node = child;
                return walk;
            } else if let Some(child) = child {
                way.at = child;
            } else {
                return walk;
            }
        }
        walk.node = Some(way.at);
        walk
    }

    /// Whether it is a symbolic link, which the way goes through.
    fn is_link(&mut self, node: Ino, learn: bool) -> bool {
        let link = self.kind(node) == NodeKind::Symlink;
        if link && learn && self.target(node).is_none() {
            // The trace does not say where it leads: what was found there stands here.
            if let Some(inode) = self.inode_mut(node) {
                inode.kind = NodeKind::Unknown;
            }
            return false;
        }
        link
    }

    /// A file of which something is known now.
    pub fn expect(&mut self, node: Ino, kind: NodeKind) {
        if let Some(inode) = self.inode_mut(node) {
            let replaces = inode.kind == NodeKind::Unknown
                // What has names in it is a directory, whatever it looked like.
                || kind == NodeKind::Directory && inode.kind == NodeKind::Regular && inode.start.exact;
            if replaces && kind != NodeKind::Unknown {
                inode.kind = kind;
                if kind == NodeKind::Directory {
                    inode.size = 0;
                }
            }
        }
    }

    /// A name that was there at the start, as the trace shows.
    /// `None` where it cannot have been.
    pub fn learn(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: NodeKind,
        id: Option<FileId>,
    ) -> Option<Ino> {
        if !self.may_hold(dir) || !self.learned.name() {
            return None;
        }
        let key = (dir, Box::from(name));
        let from_start = dir == Ino::ROOT
            || self
                .inode(dir)
                .is_some_and(|inode| !inode.start.names.is_empty());
        let explained = from_start && !self.spent.contains(&key);
        if !explained {
            self.unexplained += 1;
        }
        // Another name of a file that is known by its number.
        if let Some(known) = id.and_then(|id| self.identified(id))
            && kind != NodeKind::Directory
            && known != dir
            && self.inode(known).is_some_and(|inode| {
                inode.links > 0
                    && matches!(inode.kind, NodeKind::Regular | NodeKind::Unknown)
                    && inode.entries == 0
                    && (!inode.start.names.is_empty() || !explained)
            })
        {
            self.attach(dir, name, known);
            if explained && self.learning {
                self.remember_name(known, key);
            }
            return Some(known);
        }
        let node = self.unnamed(kind, Replayed::default());
        self.put(dir, name, node);
        if explained && self.learning {
            self.remember_name(node, key);
        }
        if let Some(id) = id {
            self.identify(node, id);
        }
        Some(node)
    }

    fn remember_name(&mut self, node: Ino, name: (Ino, Box<[u8]>)) {
        if let Some(inode) = self.inode_mut(node) {
            inode.start.names.push(name);
        }
    }

    /// A name that the trace showed to be absent.
    pub fn absent(&mut self, dir: Ino, name: &[u8]) {
        self.spend(dir, name);
    }

    fn spend(&mut self, dir: Ino, name: &[u8]) {
        let from_start =
            dir == Ino::ROOT || self.inode(dir).is_some_and(|i| !i.start.names.is_empty());
        if self.learning && from_start {
            self.spent.insert((dir, name.into()));
        }
    }

    /// A file that the trace makes; `None` where none can be.
    pub fn create(&mut self, dir: Ino, name: &[u8], kind: NodeKind) -> Option<Ino> {
        if !self.may_hold(dir) {
            return None;
        }
        let node = self.unnamed(kind, Replayed::default());
        self.attach(dir, name, node);
        Some(node)
    }

    /// Counts an open file of it, or one less.
    pub fn hold(&mut self, node: Ino, more: bool) {
        if let Some(inode) = self.inode_mut(node) {
            inode.opens = if more {
                inode.opens + 1
            } else {
                inode.opens.saturating_sub(1)
            };
        }
        if !more {
            self.release(node);
        }
    }

    /// The size was seen.
    pub fn saw_size(&mut self, node: Ino, size: u64) {
        if let Some(inode) = self.inode_mut(node)
            && matches!(inode.kind, NodeKind::Regular | NodeKind::Unknown)
        {
            inode.size = size;
            if !inode.start.changed && !inode.start.exact {
                inode.start.size = size;
                inode.start.exact = true;
            }
        }
    }

    /// Bytes up to `end` were read; with `whole`, there were no more.
    pub fn saw_bytes(&mut self, node: Ino, end: u64, whole: bool) {
        self.expect(node, NodeKind::Regular);
        if let Some(inode) = self.inode_mut(node) {
            inode.size = inode.size.max(end);
            if !inode.start.changed && !inode.start.exact {
                inode.start.size = inode.start.size.max(end);
                inode.start.exact = whole;
            }
        }
    }

    /// The trace set the size.
    pub fn set_size(&mut self, node: Ino, size: u64) {
        self.expect(node, NodeKind::Regular);
        self.empty_from(node, size);
        if let Some(inode) = self.inode_mut(node) {
            inode.size = size;
            inode.start.changed = true;
        }
    }

    /// The trace wrote up to `end`.
    pub fn extend(&mut self, node: Ino, end: u64) {
        if end > self.size(node) {
            self.set_size(node, end);
        } else {
            self.expect(node, NodeKind::Regular);
        }
    }
}

pub use start::Entry;

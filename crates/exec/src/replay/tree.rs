//! Files and names as the trace changes them, and what of them was there before it.
//!
//! Paths are the traced machine's, absolute. What the trace shows to exist without the tree having it
//! is learned: it was there at the start, under the name that its directory had then.
//!
//! Always true, whatever a trace says: what has names in it has one name at most and lies nowhere in
//! itself, so that every way up and every way down ends. What would break that is impossible and is
//! refused ([`shape`]).

mod shape;
mod start;

use fsage_core::FileId;
use fsage_namespace::Learned;
use fsage_namespace::path::{LINKS_FOLLOWED, PATH_BYTES, components};
use rustc_hash::{FxHashMap, FxHashSet};

/// A file, by number; numbers of files that are gone are given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);

impl Node {
    /// The directory `/`.
    pub const ROOT: Node = Node(0);
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// It exists; nothing else is known.
    #[default]
    Unknown,
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Something else.
    Other,
}

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
    names: Vec<(Node, Box<[u8]>)>,
    size: u64,
    /// The size is known, not only a bound from below.
    exact: bool,
    /// The trace has changed the size since.
    changed: bool,
}

/// One file.
#[derive(Debug, Clone, Default)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Size in bytes.
    pub size: u64,
    /// Open files of it.
    pub opens: u32,
    /// The target of a symbolic link, where it is known.
    pub target: Option<Box<[u8]>>,
    /// Ranges with blocks, where the snapshot has a file with holes; `None` for one without.
    pub ranges: Option<Vec<Range>>,
    links: u32,
    children: FxHashMap<Box<[u8]>, Node>,
    parent: Option<Node>,
    name: Box<[u8]>,
    id: Option<FileId>,
    start: Start,
    /// Its number may be given again.
    freed: bool,
}

/// Where a path leads.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// The directory of the last component and its name; `None` for `/`, `.` and `..` at the end and
    /// where a directory on the way is missing.
    pub last: Option<(Node, Box<[u8]>)>,
    /// The file.
    pub node: Option<Node>,
    /// Directories that were passed.
    pub dirs: Vec<Node>,
    /// Names that were looked up on the way: of symbolic links, and the first one that is missing.
    pub names: Vec<(Node, Box<[u8]>)>,
}

/// The tree.
#[derive(Debug, Clone)]
pub struct Tree {
    nodes: Vec<Inode>,
    free: Vec<Node>,
    by_id: FxHashMap<FileId, Node>,
    /// Names of the start that the trace used up or showed to be absent.
    spent: FxHashSet<(Node, Box<[u8]>)>,
    /// Whether what was at the start is remembered.
    learning: bool,
    /// Names that exist though neither the start nor the trace made them.
    pub unexplained: u64,
    pub(super) learned: Learned,
}

/// What a component of a path is as a symbolic link.
enum Link {
    /// None.
    No,
    /// One with that text.
    To(Box<[u8]>),
    /// One that is not followed.
    Nowhere,
}

/// Puts the components of a path before those that are still to be walked.
fn push(rest: &mut Vec<Box<[u8]>>, path: &[u8]) {
    rest.extend(components(path).rev().map(Into::into));
}

impl Tree {
    /// An empty tree; with `learning`, what was there at the start is remembered.
    pub fn new(learning: bool) -> Self {
        let root = Inode {
            kind: Kind::Directory,
            links: 1,
            ..Inode::default()
        };
        Self {
            nodes: vec![root],
            free: Vec::new(),
            by_id: FxHashMap::default(),
            spent: FxHashSet::default(),
            learning,
            unexplained: 0,
            learned: Learned::default(),
        }
    }

    /// A file.
    pub fn get(&self, node: Node) -> Option<&Inode> {
        self.nodes.get(node.0 as usize)
    }

    /// The same to change it.
    pub fn get_mut(&mut self, node: Node) -> Option<&mut Inode> {
        self.nodes.get_mut(node.0 as usize)
    }

    /// What it is.
    pub fn kind(&self, node: Node) -> Kind {
        self.get(node).map_or(Kind::Unknown, |inode| inode.kind)
    }

    /// The entries of a directory, sorted by name.
    pub fn entries(&self, node: Node) -> Vec<(&[u8], Node)> {
        let mut entries: Vec<(&[u8], Node)> = self
            .get(node)
            .into_iter()
            .flat_map(|inode| inode.children.iter().map(|(name, &child)| (&**name, child)))
            .collect();
        entries.sort_unstable();
        entries
    }

    /// Its absolute path by the name that it got or was found by last; `None` once it has none, and
    /// where it lies so deep that no call can name it.
    pub fn path(&self, node: Node) -> Option<Vec<u8>> {
        let mut names: Vec<&[u8]> = Vec::new();
        let (mut at, mut bytes) = (node, 0);
        while at != Node::ROOT {
            let inode = self.get(at)?;
            names.push(&inode.name);
            bytes += inode.name.len() + 1;
            if bytes >= PATH_BYTES {
                return None;
            }
            at = inode.parent?;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Some(path)
    }

    /// Follows `path` from `base`. With `learn`, directories on the way that are missing are learned.
    pub fn walk(&mut self, base: Node, path: &[u8], follow: bool, learn: bool) -> Walk {
        let mut walk = Walk::default();
        let mut links = 0;
        self.step(base, path, follow, learn, &mut links, &mut walk);
        walk
    }

    fn step(
        &mut self,
        base: Node,
        path: &[u8],
        follow: bool,
        learn: bool,
        links: &mut u32,
        walk: &mut Walk,
    ) {
        // What is still to be walked, the next component last.
        let mut rest: Vec<Box<[u8]>> = Vec::new();
        push(&mut rest, path);
        let mut at = if path.first() == Some(&b'/') {
            Node::ROOT
        } else {
            base
        };
        walk.node = Some(at);
        while let Some(name) = rest.pop() {
            self.expect(at, Kind::Directory);
            walk.dirs.push(at);
            walk.last = None;
            if &*name == b".." {
                at = self
                    .get(at)
                    .and_then(|inode| inode.parent)
                    .unwrap_or(Node::ROOT);
                walk.node = Some(at);
                continue;
            }
            let is_last = rest.is_empty();
            let mut child = self.child(at, &name);
            if child.is_none() && !is_last {
                walk.names.push((at, name.clone()));
                if learn {
                    child = self.learn(at, &name, Kind::Directory, None);
                }
            }
            if let Some(child) = child {
                self.found(child, at, &name);
            }
            match self.link(child.filter(|_| follow || !is_last), learn, links) {
                Link::No => {}
                Link::To(target) => {
                    walk.names.push((at, name));
                    if target.first() == Some(&b'/') {
                        at = Node::ROOT;
                    }
                    push(&mut rest, &target);
                    walk.node = Some(at);
                    continue;
                }
                Link::Nowhere => {
                    walk.names.push((at, name));
                    walk.node = None;
                    return;
                }
            }
            if is_last {
                walk.last = Some((at, name));
                walk.node = child;
                return;
            }
            let Some(child) = child else {
                walk.node = None;
                return;
            };
            at = child;
            walk.node = Some(at);
        }
    }

    /// Where a symbolic link leads.
    fn link(&mut self, node: Option<Node>, learn: bool, links: &mut u32) -> Link {
        let Some(inode) = node.and_then(|n| self.get_mut(n)) else {
            return Link::No;
        };
        if inode.kind != Kind::Symlink {
            return Link::No;
        }
        *links += 1;
        match &inode.target {
            Some(target) if *links <= LINKS_FOLLOWED => Link::To(target.clone()),
            None if learn => {
                // The trace does not tell where it leads: what was found there stands here.
                inode.kind = Kind::Unknown;
                Link::No
            }
            _ => Link::Nowhere,
        }
    }

    /// The file of a name.
    pub fn child(&self, dir: Node, name: &[u8]) -> Option<Node> {
        self.get(dir)?.children.get(name).copied()
    }

    /// Whether a directory holds nothing that is known.
    pub fn is_empty(&self, dir: Node) -> bool {
        self.get(dir).is_none_or(|inode| inode.children.is_empty())
    }

    /// A file of which something is known now.
    pub fn expect(&mut self, node: Node, kind: Kind) {
        if let Some(inode) = self.get_mut(node) {
            let replaces = inode.kind == Kind::Unknown
                // What has names in it is a directory, whatever it looked like.
                || kind == Kind::Directory && inode.kind == Kind::File && inode.start.exact;
            if replaces && kind != Kind::Unknown {
                inode.kind = kind;
                if kind == Kind::Directory {
                    inode.size = 0;
                }
            }
        }
    }

    /// A name that was there at the start, as the trace shows.
    /// `None` where it cannot have been.
    pub fn learn(
        &mut self,
        dir: Node,
        name: &[u8],
        kind: Kind,
        id: Option<FileId>,
    ) -> Option<Node> {
        if !self.may_hold(dir) || !self.learned.name() {
            return None;
        }
        let key = (dir, Box::from(name));
        let from_start = dir == Node::ROOT
            || self
                .get(dir)
                .is_some_and(|inode| !inode.start.names.is_empty());
        let explained = from_start && !self.spent.contains(&key);
        if !explained {
            self.unexplained += 1;
        }
        // Another name of a file that is known by its number.
        if let Some(known) = id.and_then(|id| self.by_id.get(&id).copied())
            && kind != Kind::Directory
            && known != dir
            && self.get(known).is_some_and(|inode| {
                inode.links > 0
                    && matches!(inode.kind, Kind::File | Kind::Unknown)
                    && inode.children.is_empty()
                    && (!inode.start.names.is_empty() || !explained)
            })
        {
            self.attach(dir, name, known);
            if explained && self.learning {
                self.remember_name(known, key);
            }
            return Some(known);
        }
        let node = self.make(kind);
        self.put(dir, name, node);
        if explained && self.learning {
            self.remember_name(node, key);
        }
        if let Some(id) = id {
            self.identify(node, id);
        }
        Some(node)
    }

    fn remember_name(&mut self, node: Node, name: (Node, Box<[u8]>)) {
        if let Some(inode) = self.get_mut(node) {
            inode.start.names.push(name);
        }
    }

    /// A name that the trace showed to be absent.
    pub fn absent(&mut self, dir: Node, name: &[u8]) {
        self.spend(dir, name);
    }

    fn spend(&mut self, dir: Node, name: &[u8]) {
        let from_start =
            dir == Node::ROOT || self.get(dir).is_some_and(|i| !i.start.names.is_empty());
        if self.learning && from_start {
            self.spent.insert((dir, name.into()));
        }
    }

    fn make(&mut self, kind: Kind) -> Node {
        let inode = Inode {
            kind,
            ..Inode::default()
        };
        if let Some(node) = self.free.pop() {
            if let Some(slot) = self.get_mut(node) {
                *slot = inode;
            }
            return node;
        }
        let node = Node(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(inode);
        node
    }

    /// A file that the trace makes; `None` where none can be.
    pub fn create(&mut self, dir: Node, name: &[u8], kind: Kind) -> Option<Node> {
        if !self.may_hold(dir) {
            return None;
        }
        let node = self.make(kind);
        self.attach(dir, name, node);
        Some(node)
    }

    /// A file without a name.
    pub fn create_unnamed(&mut self) -> Node {
        self.make(Kind::File)
    }

    /// Counts an open file of it, or one less.
    pub fn hold(&mut self, node: Node, more: bool) {
        if let Some(inode) = self.get_mut(node) {
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

    /// The file's number on the traced system.
    pub fn identify(&mut self, node: Node, id: FileId) {
        if let Some(inode) = self.get_mut(node)
            && inode.id != Some(id)
        {
            let old = inode.id.replace(id);
            if let Some(old) = old.filter(|old| self.by_id.get(old) == Some(&node)) {
                self.by_id.remove(&old);
            }
            self.by_id.insert(id, node);
        }
    }

    /// The file of that number.
    pub fn identified(&self, id: FileId) -> Option<Node> {
        self.by_id.get(&id).copied()
    }

    /// The size was seen.
    pub fn saw_size(&mut self, node: Node, size: u64) {
        if let Some(inode) = self.get_mut(node)
            && matches!(inode.kind, Kind::File | Kind::Unknown)
        {
            inode.size = size;
            if !inode.start.changed && !inode.start.exact {
                inode.start.size = size;
                inode.start.exact = true;
            }
        }
    }

    /// Bytes up to `end` were read; with `whole`, there were no more.
    pub fn saw_bytes(&mut self, node: Node, end: u64, whole: bool) {
        self.expect(node, Kind::File);
        if let Some(inode) = self.get_mut(node) {
            inode.size = inode.size.max(end);
            if !inode.start.changed && !inode.start.exact {
                inode.start.size = inode.start.size.max(end);
                inode.start.exact = whole;
            }
        }
    }

    /// The trace set the size.
    pub fn set_size(&mut self, node: Node, size: u64) {
        self.expect(node, Kind::File);
        if let Some(inode) = self.get_mut(node) {
            inode.size = size;
            inode.start.changed = true;
        }
    }

    /// The trace wrote up to `end`.
    pub fn extend(&mut self, node: Node, end: u64) {
        let size = self.get(node).map_or(0, |inode| inode.size);
        if end > size {
            self.set_size(node, end);
        } else {
            self.expect(node, Kind::File);
        }
    }
}

pub use start::Entry;

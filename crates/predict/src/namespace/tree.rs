//! Files, names and what is known of them.

use std::collections::BTreeMap;

use fsage_core::FileId;
use fsage_namespace::Learned;
use fsage_namespace::path::PATH_BYTES;
use rustc_hash::FxHashMap;

/// A file of the tree: a dense number, given again once the file is gone (a directory's never is,
/// unless its own name comes back).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u32);

impl Ino {
    /// No file.
    pub const NONE: Ino = Ino(u32::MAX);
    /// The root directory.
    pub const ROOT: Ino = Ino(0);

    /// Whether it names a file.
    pub fn is_some(self) -> bool {
        self != Ino::NONE
    }
}

/// A name in a directory, whether a file has it or not: a dense number that never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DentryId(pub u32);

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Seen only as a name so far.
    #[default]
    Unknown,
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, socket or fifo.
    Other,
}

/// A file.
#[derive(Debug, Clone, Default)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Whether it belongs to the traced file system.
    pub in_scope: bool,
    /// Whether every name in this directory is known (from a snapshot, or made in the trace).
    pub complete: bool,
    /// Whether it was created in the trace, since names were made cold last.
    pub born: bool,
    /// Whether its space has holes; then [`Tree::allocated`] knows more than `dense_to`.
    pub sparse: bool,
    /// The directory in which it was last found.
    pub parent: u32,
    /// Names.
    pub links: u32,
    /// Open file descriptions.
    pub opens: u32,
    /// Names in this directory.
    pub entries: u32,
    /// The most names that this directory held.
    pub most_entries: u32,
    /// Names that went from this directory: the kernel remembers them as missing.
    pub gone_entries: u32,
    /// Size in bytes.
    pub size: u64,
    /// Everything before this offset is allocated.
    pub dense_to: u64,
    /// Place in creation order: the inode number where one is known, else the order of appearance.
    pub order: u64,
    /// Where its first extent lies on the device in bytes, where known.
    pub physical: Option<u64>,
    /// Of a directory: where the first of its files lies on the device in bytes, where known.
    pub files_from: Option<u64>,
    /// Its identity on the traced system.
    pub id: Option<FileId>,
}

/// A name.
#[derive(Debug, Clone, Copy)]
pub struct Dentry {
    /// The directory.
    pub dir: Ino,
    /// The file that has it; that had it last if it is gone (only directories are remembered).
    pub ino: Ino,
    /// Whether a file has it.
    pub positive: bool,
    /// Whether it was found missing, so that asking again is answered from the name cache.
    pub negative: bool,
}

/// The tree.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    names: FxHashMap<Box<[u8]>, u32>,
    children: FxHashMap<(u32, u32), DentryId>,
    dentries: Vec<Dentry>,
    inodes: Vec<Inode>,
    free: Vec<u32>,
    targets: FxHashMap<u32, Box<[u8]>>,
    holes: FxHashMap<u32, BTreeMap<u64, u64>>,
    ids: FxHashMap<FileId, Ino>,
    next_order: u64,
    learned: Learned,
    /// Grows when a resolved prefix may have become wrong.
    pub(super) generation: u32,
}

impl Tree {
    /// A tree with nothing but its root.
    pub fn new(in_scope: bool) -> Self {
        let root = Inode {
            kind: Kind::Directory,
            in_scope,
            links: 1,
            parent: Ino::ROOT.0,
            ..Inode::default()
        };
        Self {
            inodes: vec![root],
            next_order: 1 << 62,
            ..Self::default()
        }
    }

    /// A file.
    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(ino.0 as usize)
    }

    /// A file, to change it.
    pub fn inode_mut(&mut self, ino: Ino) -> Option<&mut Inode> {
        self.inodes.get_mut(ino.0 as usize)
    }

    /// A name.
    #[inline]
    pub fn dentry(&self, id: DentryId) -> Option<Dentry> {
        self.dentries.get(id.0 as usize).copied()
    }

    /// Files and names known.
    pub fn len(&self) -> (usize, usize) {
        (self.inodes.len() - self.free.len(), self.dentries.len())
    }

    /// Whether it holds only the root.
    pub fn is_empty(&self) -> bool {
        self.inodes.len() <= 1
    }

    /// The name `name` in `dir`, known from now on; whether a file has it stands in the dentry.
    pub fn name(&mut self, dir: Ino, name: &[u8]) -> DentryId {
        let number = if let Some(&n) = self.names.get(name) {
            n
        } else {
            let n = self.names.len() as u32;
            self.names.insert(name.into(), n);
            n
        };
        let fresh = DentryId(self.dentries.len() as u32);
        let id = *self.children.entry((dir.0, number)).or_insert(fresh);
        if id == fresh {
            let dentry = Dentry {
                dir,
                ino: Ino::NONE,
                positive: false,
                negative: false,
            };
            self.dentries.push(dentry);
        }
        id
    }

    /// The file that has the name.
    #[inline]
    pub fn child(&self, id: DentryId) -> Option<Ino> {
        self.dentry(id).filter(|d| d.positive).map(|d| d.ino)
    }

    /// One more operation, from which files may be learned.
    pub fn operation(&mut self) {
        self.learned.operation();
    }

    /// Makes a directory on the way of a path that the trace shows to be there; `None` once there are
    /// more than any program's operations tell of.
    pub fn learn_directory(&mut self, id: DentryId) -> Option<Ino> {
        let may = self.learned.name();
        may.then(|| self.create(id, Kind::Directory, false))
    }

    /// Makes a file of `kind` with the name.
    pub fn create(&mut self, id: DentryId, kind: Kind, born: bool) -> Ino {
        let Some(dentry) = self.dentry(id) else {
            return Ino::NONE;
        };
        self.next_order += 1;
        let inode = Inode {
            kind,
            born,
            complete: born && kind == Kind::Directory,
            in_scope: self.inode(dentry.dir).is_some_and(|d| d.in_scope),
            order: self.next_order,
            parent: dentry.dir.0,
            ..Inode::default()
        };
        let revived = (kind == Kind::Directory && dentry.ino.is_some() && !dentry.positive)
            .then_some(dentry.ino.0)
            .filter(|&i| {
                self.inodes
                    .get(i as usize)
                    .is_some_and(|n| n.links == 0 && n.entries == 0)
            });
        let index = revived
            .or_else(|| self.free.pop())
            .unwrap_or(self.inodes.len() as u32);
        match self.inodes.get_mut(index as usize) {
            Some(place) => *place = inode,
            None => self.inodes.push(inode),
        }
        self.attach(id, Ino(index));
        Ino(index)
    }

    /// Everything is on the device: nothing is known to be in memory because it was made in the trace.
    pub fn made_cold(&mut self) {
        self.inodes.iter_mut().for_each(|inode| inode.born = false);
    }

    /// Gives the name to a file that exists.
    pub fn attach(&mut self, id: DentryId, ino: Ino) {
        let Some(dentry) = self.dentries.get_mut(id.0 as usize) else {
            return;
        };
        let was = dentry.positive;
        let dir = dentry.dir;
        (dentry.ino, dentry.positive, dentry.negative) = (ino, true, false);
        if let Some(node) = self.inode_mut(ino) {
            node.links += 1;
            node.parent = dir.0;
        }
        if !was && let Some(dir) = self.inode_mut(dir) {
            dir.entries += 1;
            dir.most_entries = dir.most_entries.max(dir.entries);
        }
    }

    /// Takes the name from the file that has it; returns the file.
    pub fn detach(&mut self, id: DentryId) -> Option<Ino> {
        let dentry = self
            .dentries
            .get_mut(id.0 as usize)
            .filter(|d| d.positive)?;
        let (ino, dir) = (dentry.ino, dentry.dir);
        (dentry.positive, dentry.negative) = (false, true);
        let directory = match self.inode_mut(ino) {
            Some(node) => {
                node.links = node.links.saturating_sub(1);
                node.kind == Kind::Directory || node.kind == Kind::Symlink
            }
            None => false,
        };
        if directory {
            self.generation = self.generation.wrapping_add(1);
        }
        if self
            .inode(ino)
            .is_none_or(|n| n.kind != Kind::Directory || n.links > 0)
            && let Some(dentry) = self.dentries.get_mut(id.0 as usize)
        {
            dentry.ino = Ino::NONE;
        }
        if let Some(dir) = self.inode_mut(dir) {
            dir.entries = dir.entries.saturating_sub(1);
            dir.gone_entries = dir.gone_entries.saturating_add(1);
        }
        Some(ino)
    }

    /// Notes that nothing has the name.
    pub fn missed(&mut self, id: DentryId) {
        if let Some(dentry) = self.dentries.get_mut(id.0 as usize) {
            dentry.negative = true;
        }
    }

    /// Forgets a file without a name that nobody has open; its number is given again unless it is a
    /// directory.
    pub fn forget(&mut self, ino: Ino) {
        let Some(node) = self.inodes.get_mut(ino.0 as usize) else {
            return;
        };
        let (id, directory) = (node.id.take(), node.kind == Kind::Directory);
        if let Some(id) = id
            && self.ids.get(&id) == Some(&ino)
        {
            self.ids.remove(&id);
        }
        self.targets.remove(&ino.0);
        self.holes.remove(&ino.0);
        if !directory && ino != Ino::ROOT {
            self.free.push(ino.0);
        }
    }

    /// The text of a symbolic link.
    pub fn target(&self, ino: Ino) -> Option<&[u8]> {
        self.targets.get(&ino.0).map(|t| &**t)
    }

    /// Sets the text of a symbolic link.
    pub fn set_target(&mut self, ino: Ino, text: &[u8]) {
        if text.len() >= PATH_BYTES {
            return;
        }
        self.targets.insert(ino.0, text.into());
        self.generation = self.generation.wrapping_add(1);
    }

    /// Notes a file's identity on the traced system.
    pub fn identify(&mut self, ino: Ino, id: FileId) {
        let Some(node) = self.inodes.get_mut(ino.0 as usize) else {
            return;
        };
        if node.id == Some(id) {
            return;
        }
        let before = node.id.replace(id);
        node.order = id.ino;
        if let Some(before) = before {
            self.ids.remove(&before);
        }
        self.ids.insert(id, ino);
    }

    /// The file of that identity.
    pub fn identified(&self, id: FileId) -> Option<Ino> {
        self.ids.get(&id).copied()
    }

    /// A file that no name is known for.
    pub fn nameless(&mut self, kind: Kind, in_scope: bool) -> Ino {
        self.next_order += 1;
        let order = self.next_order;
        let parent = Ino::NONE.0;
        let inode = Inode {
            kind,
            in_scope,
            order,
            parent,
            links: 1,
            ..Inode::default()
        };
        let index = self.free.pop().unwrap_or(self.inodes.len() as u32);
        match self.inodes.get_mut(index as usize) {
            Some(place) => *place = inode,
            None => self.inodes.push(inode),
        }
        Ino(index)
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
                .get(&ino.0)
                .and_then(|m| m.range(..to).next_back())
                .is_some_and(|(_, &end)| end > from)
    }

    /// Gives `from..to` space on the device (both are rounded to blocks by the caller).
    #[inline]
    pub fn allocate(&mut self, ino: Ino, from: u64, to: u64) {
        let Some(node) = self.inodes.get_mut(ino.0 as usize) else {
            return;
        };
        if !node.sparse && from <= node.dense_to {
            node.dense_to = node.dense_to.max(to);
            return;
        }
        node.sparse = true;
        let map = self.holes.entry(ino.0).or_default();
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
        let Some(node) = self.inodes.get_mut(ino.0 as usize) else {
            return;
        };
        let end = node.dense_to;
        node.dense_to = node.dense_to.min(from);
        let mut rest = Vec::new();
        if end > to {
            rest.push((to, end));
        }
        if let Some(map) = self.holes.get_mut(&ino.0) {
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
            self.holes.entry(ino.0).or_default().extend(rest);
        }
    }
}

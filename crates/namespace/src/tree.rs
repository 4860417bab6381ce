//! Files and their names, as a stream of operations makes, moves and removes them.
//!
//! What is kept of a file beyond that is its user's own and a parameter. Files and names have dense
//! numbers. A name may be known without a file that has it; it stays until it is
//! [forgotten](Tree::forget_name), and so does a file.

use std::ops::{Deref, DerefMut};

use fsage_core::{FileId, FileType};
use rustc_hash::FxHashMap;

use crate::Learned;
use crate::path::PATH_BYTES;

/// A file: a dense number, given again once the file is [forgotten](Tree::forget).
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

/// A name in a directory, whether a file has it or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DentryId(pub u32);

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NodeKind {
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

impl From<FileType> for NodeKind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::Regular => Self::Regular,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::Other => Self::Other,
        }
    }
}

/// A file; what its user keeps of it is read through it.
#[derive(Debug, Clone, Default)]
pub struct Inode<X> {
    /// What it is.
    pub kind: NodeKind,
    /// The directory in which it was last found, by its number; that of no file if there is none.
    pub parent: u32,
    /// Names.
    pub links: u32,
    /// Open file descriptions.
    pub opens: u32,
    /// Names in this directory that files have.
    pub entries: u32,
    /// The most names that this directory held.
    pub most_entries: u32,
    /// Names that went from this directory: the kernel remembers them as missing.
    pub gone_entries: u32,
    /// Size in bytes.
    pub size: u64,
    /// Its identity on the traced system.
    pub id: Option<FileId>,
    own: X,
    #[allow(clippy::box_collection, reason = "most files are no directories")]
    names: Option<Box<FxHashMap<Box<[u8]>, DentryId>>>,
}

impl<X> Deref for Inode<X> {
    type Target = X;

    #[inline]
    fn deref(&self) -> &X {
        &self.own
    }
}

impl<X> DerefMut for Inode<X> {
    #[inline]
    fn deref_mut(&mut self) -> &mut X {
        &mut self.own
    }
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
    /// Whether it was found missing.
    pub negative: bool,
}

/// The tree.
#[derive(Debug, Clone)]
pub struct Tree<X> {
    dentries: Vec<Dentry>,
    inodes: Vec<Inode<X>>,
    free_dentries: Vec<DentryId>,
    free_inodes: Vec<Ino>,
    targets: FxHashMap<Ino, Box<[u8]>>,
    ids: FxHashMap<FileId, Ino>,
    /// How many names a stream may teach.
    pub learned: Learned,
    generation: u32,
}

impl<X: Default> Tree<X> {
    /// A tree with nothing but its root.
    pub fn new(root: X) -> Self {
        let mut tree = Self {
            dentries: Vec::new(),
            inodes: Vec::new(),
            free_dentries: Vec::new(),
            free_inodes: Vec::new(),
            targets: FxHashMap::default(),
            ids: FxHashMap::default(),
            learned: Learned::default(),
            generation: 0,
        };
        let root = tree.unnamed(NodeKind::Directory, root);
        if let Some(inode) = tree.inode_mut(root) {
            (inode.links, inode.parent) = (1, root.0);
        }
        tree
    }

    /// A file.
    #[inline]
    pub fn inode(&self, ino: Ino) -> Option<&Inode<X>> {
        self.inodes.get(ino.0 as usize)
    }

    /// A file, to change it.
    #[inline]
    pub fn inode_mut(&mut self, ino: Ino) -> Option<&mut Inode<X>> {
        self.inodes.get_mut(ino.0 as usize)
    }

    /// Every file by its number, those among them whose numbers are free.
    pub fn inodes(&self) -> &[Inode<X>] {
        &self.inodes
    }

    /// The same, to change them.
    pub fn inodes_mut(&mut self) -> &mut [Inode<X>] {
        &mut self.inodes
    }

    /// What it is.
    #[inline]
    pub fn kind(&self, ino: Ino) -> NodeKind {
        self.inode(ino)
            .map_or(NodeKind::Unknown, |inode| inode.kind)
    }

    /// Its size in bytes.
    #[inline]
    pub fn size(&self, ino: Ino) -> u64 {
        self.inode(ino).map_or(0, |inode| inode.size)
    }

    /// The directory above; of one that is known by a descriptor alone, the root.
    pub fn above(&self, dir: Ino) -> Ino {
        let parent = self.inode(dir).map(|inode| Ino(inode.parent));
        parent.filter(|p| p.is_some()).unwrap_or(Ino::ROOT)
    }

    /// Whether nothing holds it: neither a name nor an open file.
    pub fn is_gone(&self, ino: Ino) -> bool {
        let held = |inode: &Inode<X>| inode.links > 0 || inode.opens > 0;
        ino != Ino::ROOT && self.inode(ino).is_some_and(|inode| !held(inode))
    }

    /// A name.
    #[inline]
    pub fn dentry(&self, id: DentryId) -> Option<Dentry> {
        self.dentries.get(id.0 as usize).copied()
    }

    /// Files and names known.
    pub fn len(&self) -> (usize, usize) {
        (
            self.inodes.len() - self.free_inodes.len(),
            self.dentries.len() - self.free_dentries.len(),
        )
    }

    /// The name `name` in `dir`, if it is known.
    pub fn find(&self, dir: Ino, name: &[u8]) -> Option<DentryId> {
        self.inode(dir)?.names.as_ref()?.get(name).copied()
    }

    /// The name `name` in `dir`, known from now on.
    pub fn name(&mut self, dir: Ino, name: &[u8]) -> DentryId {
        if let Some(id) = self.find(dir, name) {
            return id;
        }
        let dentry = Dentry {
            dir,
            ino: Ino::NONE,
            positive: false,
            negative: false,
        };
        let fresh = DentryId(self.dentries.len() as u32);
        let id = self.free_dentries.pop().unwrap_or(fresh);
        match self.dentries.get_mut(id.0 as usize) {
            Some(place) => *place = dentry,
            None => self.dentries.push(dentry),
        }
        if let Some(inode) = self.inode_mut(dir) {
            inode.names.get_or_insert_default().insert(name.into(), id);
        }
        id
    }

    /// The file that has the name.
    #[inline]
    pub fn child(&self, id: DentryId) -> Option<Ino> {
        self.dentry(id).filter(|d| d.positive).map(|d| d.ino)
    }

    /// The file of that name.
    pub fn child_of(&self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.child(self.find(dir, name)?)
    }

    /// Bytes of the names in a directory, with so many for each beside them.
    pub fn name_bytes(&self, dir: Ino, each: usize) -> usize {
        let names = self.inode(dir).and_then(|inode| inode.names.as_ref());
        let names = names.into_iter().flat_map(|names| names.iter());
        let there = names.filter(|&(_, &id)| self.child(id).is_some());
        there.map(|(name, _)| name.len() + each).sum()
    }

    /// The entries of a directory, sorted by name.
    pub fn entries(&self, dir: Ino) -> Vec<(&[u8], Ino)> {
        let names = self.inode(dir).and_then(|inode| inode.names.as_ref());
        let names = names.into_iter().flat_map(|names| names.iter());
        let mut entries: Vec<(&[u8], Ino)> = names
            .filter_map(|(name, &id)| Some((&**name, self.child(id)?)))
            .collect();
        entries.sort_unstable();
        entries
    }

    /// A file without a name.
    pub fn unnamed(&mut self, kind: NodeKind, own: X) -> Ino {
        let ino = self.free_inodes.pop();
        self.unnamed_as(ino.unwrap_or(Ino(self.inodes.len() as u32)), kind, own)
    }

    fn unnamed_as(&mut self, ino: Ino, kind: NodeKind, own: X) -> Ino {
        let inode = Inode {
            kind,
            parent: Ino::NONE.0,
            own,
            ..Inode::default()
        };
        match self.inode_mut(ino) {
            Some(place) => {
                let names = place.names.take();
                *place = Inode { names, ..inode };
            }
            None => self.inodes.push(inode),
        }
        ino
    }

    /// Makes a file with the name. A directory whose name this was has its number again.
    pub fn create(&mut self, id: DentryId, kind: NodeKind, own: X) -> Ino {
        let Some(dentry) = self.dentry(id) else {
            return Ino::NONE;
        };
        let again = kind == NodeKind::Directory
            && !dentry.positive
            && self.is_gone(dentry.ino)
            && self.inode(dentry.ino).is_some_and(|d| d.entries == 0);
        let ino = if again {
            self.unnamed_as(dentry.ino, kind, own)
        } else {
            self.unnamed(kind, own)
        };
        self.attach(id, ino);
        ino
    }

    /// Gives the name, which no file has, to a file.
    pub fn attach(&mut self, id: DentryId, ino: Ino) {
        let Some(dentry) = self.dentries.get_mut(id.0 as usize) else {
            return;
        };
        let (was, dir) = (dentry.positive, dentry.dir);
        (dentry.ino, dentry.positive, dentry.negative) = (ino, true, false);
        if let Some(inode) = self.inode_mut(ino) {
            inode.links += 1;
            inode.parent = dir.0;
        }
        if !was && let Some(dir) = self.inode_mut(dir) {
            dir.entries += 1;
            dir.most_entries = dir.most_entries.max(dir.entries);
        }
    }

    /// Takes the name from the file that has it; returns the file.
    pub fn detach(&mut self, id: DentryId) -> Option<Ino> {
        let dentry = self.dentries.get_mut(id.0 as usize)?;
        if !dentry.positive {
            return None;
        }
        let (ino, dir) = (dentry.ino, dentry.dir);
        (dentry.positive, dentry.negative) = (false, true);
        let mut remembered = false;
        if let Some(inode) = self.inodes.get_mut(ino.0 as usize) {
            inode.links = inode.links.saturating_sub(1);
            remembered = inode.kind == NodeKind::Directory && inode.links == 0;
            let moves = matches!(inode.kind, NodeKind::Directory | NodeKind::Symlink);
            self.generation = self.generation.wrapping_add(u32::from(moves));
        }
        if !remembered {
            dentry.ino = Ino::NONE;
        }
        if let Some(dir) = self.inode_mut(dir) {
            dir.entries = dir.entries.saturating_sub(1);
            dir.gone_entries = dir.gone_entries.saturating_add(1);
        }
        Some(ino)
    }

    /// Moves the file of a name to another name, or, with `exchange`, each file to the other's.
    /// Returns the file that had the second one, if it was another.
    pub fn rename(&mut self, from: DentryId, to: DentryId, exchange: bool) -> Option<Ino> {
        let (moved, other) = (self.child(from)?, self.child(to));
        if from == to || other == Some(moved) {
            return None;
        }
        self.detach(from);
        self.detach(to);
        if let Some(other) = other.filter(|_| exchange) {
            self.attach(from, other);
        }
        self.attach(to, moved);
        if !matches!(self.kind(moved), NodeKind::Regular | NodeKind::Other) {
            self.generation = self.generation.wrapping_add(1);
        }
        other
    }

    /// Notes that nothing has the name.
    pub fn missed(&mut self, id: DentryId) {
        if let Some(dentry) = self.dentries.get_mut(id.0 as usize) {
            dentry.negative = true;
        }
    }

    /// Forgets a name that no file has.
    pub fn forget_name(&mut self, dir: Ino, name: &[u8]) {
        if let Some(id) = self.find(dir, name)
            && self.child(id).is_none()
        {
            if let Some(names) = self.inode_mut(dir).and_then(|inode| inode.names.as_mut()) {
                names.remove(name);
            }
            self.free_dentries.push(id);
        }
    }

    /// Takes every name of a directory away and forgets it; returns the files that had one.
    pub fn empty(&mut self, dir: Ino) -> Vec<Ino> {
        let names = self.inode_mut(dir).and_then(|inode| inode.names.take());
        let ids = names.into_iter().flat_map(|names| names.into_values());
        ids.filter_map(|id| {
            self.free_dentries.push(id);
            self.detach(id)
        })
        .collect()
    }

    /// Forgets a file without a name that nobody has open; with `again`, its number is another's next.
    /// A directory's waits for its name to come back, unless that is [forgotten](Self::forget_name).
    pub fn forget(&mut self, ino: Ino, again: bool) {
        let Some(inode) = self.inode_mut(ino) else {
            return;
        };
        let id = inode.id.take();
        if let Some(id) = id.filter(|id| self.ids.get(id) == Some(&ino)) {
            self.ids.remove(&id);
        }
        if again && ino != Ino::ROOT {
            self.targets.remove(&ino);
            self.free_inodes.push(ino);
        }
    }

    /// The text of a symbolic link.
    pub fn target(&self, ino: Ino) -> Option<&[u8]> {
        self.targets.get(&ino).map(|t| &**t)
    }

    /// Sets the text of a symbolic link.
    pub fn set_target(&mut self, ino: Ino, text: &[u8]) {
        if text.len() < PATH_BYTES {
            self.targets.insert(ino, text.into());
            self.generation = self.generation.wrapping_add(1);
        }
    }

    /// Notes a file's identity on the traced system; whether it is another than before.
    pub fn identify(&mut self, ino: Ino, id: FileId) -> bool {
        let Some(inode) = self.inode_mut(ino).filter(|inode| inode.id != Some(id)) else {
            return false;
        };
        let before = inode.id.replace(id);
        if let Some(before) = before.filter(|before| self.ids.get(before) == Some(&ino)) {
            self.ids.remove(&before);
        }
        self.ids.insert(id, ino);
        true
    }

    /// The file of that identity.
    pub fn identified(&self, id: FileId) -> Option<Ino> {
        self.ids.get(&id).copied()
    }

    /// Grows when the way along a path may have become another.
    #[inline]
    pub fn generation(&self) -> u32 {
        self.generation
    }
}

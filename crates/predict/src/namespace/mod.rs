//! Stage 1: which files, names and ranges an operation is about (Smith 2001, 4.4.5.1).
//!
//! An in-memory tree, from a snapshot where there is one, is kept up to date by the trace. What the
//! trace shows to exist without the snapshot having it is learned; where the two disagree the trace
//! is right. Each operation comes out [`Resolved`]: the lookups of its paths, what it did to the tree,
//! offsets and sizes.
//!
//! [`tree`] holds files and names, [`resolve`] takes paths apart, [`process`] knows descriptors,
//! `apply` and `apply_open` have one rule for each kind of operation.

mod apply;
mod apply_open;
pub mod family;
pub mod process;
pub mod resolve;
pub mod tree;

use std::hint::black_box;

use fsage_core::{DevId, FileId, Op, OpFlags, OpKind, PathId, PathTable, Pid};

use family::Family;
use fsage_namespace::Registered;
use process::{OpenFile, OpenId, Processes};
use resolve::{Resolver, Walk};
use tree::{DentryId, Held, Ino, NodeKind, PredictedTree};

use crate::cost::FileSystemName;

/// Which files belong to the traced file system; operations on others are not charged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Absolute paths; what lies beneath them belongs. With `devices` empty too: everything does.
    pub roots: Vec<Vec<u8>>,
    /// Devices; a file whose device is known belongs if it is one of them.
    pub devices: Vec<DevId>,
}

/// One name of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct FileRecord<'a> {
    /// Path relative to the snapshot's root, without a leading slash; empty for the root.
    pub path: &'a [u8],
    /// Identity.
    pub id: FileId,
    /// Type.
    pub kind: NodeKind,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in bytes.
    pub allocated: u64,
    /// The target of a symbolic link.
    pub target: Option<&'a [u8]>,
    /// Where its data lies: (offset in the file, offset on the device, length) in bytes, in the
    /// order of the file; empty where unknown.
    pub extents: &'a [(u64, u64, u64)],
}

/// What an operation did, beside its lookups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(
    missing_docs,
    reason = "each variant's comment tells of its fields; sizes, offsets, lengths in bytes"
)]
pub enum Action {
    /// Nothing with a cost, or nothing that is understood.
    #[default]
    None,
    /// The name was looked up and the rest did not happen.
    Failed,
    /// The call's own cost and no effect on the tree.
    Plain,
    /// A file was opened. `truncated`: what `O_TRUNC` cut off.
    Open {
        created: bool,
        first_in_dir: bool,
        truncated: Option<Held>,
        asked_create: bool,
        directory: bool,
    },
    /// A descriptor was closed. `last`: of its open file; `unlinked`: the file is gone with it, which
    /// held this.
    Close {
        last: bool,
        unlinked: Option<Held>,
        created: bool,
        truncated: bool,
        written: bool,
    },
    /// Bytes were read.
    Read { offset: u64, length: u64, eof: bool },
    /// Bytes were written to a file of this size before.
    Write {
        offset: u64,
        length: u64,
        old_size: u64,
        first: bool,
    },
    /// The size was changed; between the two so many bytes had space.
    Truncate { old: u64, new: u64, space: u64 },
    /// Space was allocated, of `length` bytes that had none, up to `end`: what has some is taken to come first.
    Allocate { length: u64, end: u64 },
    /// What `from..to` held is no longer, `space` bytes of it: a hole is there, or zeros where space is `reserved` for them.
    Empty {
        from: u64,
        to: u64,
        space: u64,
        reserved: bool,
    },
    /// A name was removed of a file that holds this; `freed`: it was the file's last one and nobody has it open.
    Unlink { freed: bool, held: Held },
    /// A directory was removed from which so many names had gone before.
    Rmdir { held: u32 },
    /// A name was changed; `replaced` a file that holds this, freed or not.
    Rename { replaced: Option<(Ino, bool, Held)> },
    /// A directory was read: this many entries came.
    Readdir { entries: u32 },
}

/// One operation after stage 1.
#[derive(Debug, Clone, Default)]
pub struct Resolved {
    /// Whether it belongs to the traced file system.
    pub charged: bool,
    /// The lookups of its first and second path.
    pub walks: [Option<Walk>; 2],
    /// What it did.
    pub action: Action,
    /// The file; [`Ino::NONE`] if there is none.
    pub node: Option<Ino>,
    /// The open file of its descriptor.
    pub open: Option<OpenId>,
    /// Files that are gone after it: their numbers will name others.
    pub freed: Vec<Ino>,
    /// Files whose last open ended with it, by a close or by what closes descriptors besides, that was truncated to
    /// nothing and written.
    pub rewritten: Vec<Ino>,
    /// Descriptors that were closed by it: of which file and which open ([`process::OpenFile::serial`]), and whether that is
    /// closed by that.
    pub closed: Vec<(Ino, u32, bool)>,
}

impl Resolved {
    /// Whether the directory of its first path is held for it, as for all that makes or removes a name there, be it in vain.
    pub(crate) fn changes_names(&self, kind: OpKind) -> bool {
        use OpKind::{Link, Mkdir, Mknod, Open, Rename, Rmdir, Symlink, Unlink};
        match kind {
            Open => matches!(self.action, Action::Open { created: true, .. }),
            Link | Mkdir | Mknod | Rename | Rmdir | Symlink | Unlink => true,
            _ => false,
        }
    }
}

/// What the stage could not make sense of; told to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unexplained {
    /// Operations on descriptors whose file the trace does not tell.
    pub unknown_descriptors: u64,
    /// Operations outside of the traced file system.
    pub out_of_scope: u64,
    /// Operations on pipes, sockets and devices.
    pub not_files: u64,
    /// Operations whose path could not be read.
    pub unreadable_paths: u64,
}

/// The stage.
#[derive(Debug, Clone, Default)]
pub struct Namespace {
    /// Files and names.
    pub tree: PredictedTree,
    /// Processes and open files.
    pub processes: Processes,
    /// Which of them work together.
    pub family: Family,
    /// The file system that put the files of the snapshot where it tells that they lie.
    pub laid_out_by: FileSystemName,
    resolver: Resolver,
    scope: Scope,
    block: u64,
    unexplained: Unexplained,
    /// Opens so far.
    serials: u32,
    registered: Registered<Ino>,
    unplaced_share: f64,
}

impl Namespace {
    /// An empty tree. `block_bytes`: unit of allocation.
    pub fn new(scope: Scope, block_bytes: u64) -> Self {
        let everything = scope.roots.is_empty() && scope.devices.is_empty();
        let mut namespace = Self {
            tree: PredictedTree::new(everything),
            block: if block_bytes.is_power_of_two() {
                block_bytes.max(512)
            } else {
                4096
            },
            unplaced_share: 1.0,
            ..Self::default()
        };
        for root in &scope.roots {
            let node = namespace.directory(root);
            if let Some(node) = namespace.tree.inode_mut(node) {
                node.in_scope = true;
            }
        }
        namespace.scope = scope;
        namespace
    }

    /// The directory of that absolute path, learned if it is new.
    pub fn directory(&mut self, path: &[u8]) -> Ino {
        let walk = self
            .resolver
            .resolve_text(&mut self.tree, path, Ino::ROOT, true, true, None);
        match (walk.node, walk.last) {
            (Ino::NONE, Some(last)) => self.tree.create(last, NodeKind::Directory, false),
            (node, _) => node,
        }
    }

    /// Adds one name of a snapshot whose root is the directory `root`. Call in the order of the
    /// snapshot, before the first operation.
    pub fn add(&mut self, root: Ino, record: &FileRecord<'_>) {
        self.tree.learned.operation();
        let walk = self
            .resolver
            .resolve_text(&mut self.tree, record.path, root, false, true, None);
        let known = self
            .tree
            .identified(record.id)
            .filter(|_| record.kind != NodeKind::Directory);
        let node = match (walk.node, walk.last, known) {
            (Ino::NONE, Some(last), Some(node)) => {
                self.tree.attach(last, node);
                return;
            }
            (Ino::NONE, Some(last), None) => self.tree.create(last, record.kind, false),
            (node, _, _) => node,
        };
        self.tree.identify(node, record.id);
        let holes = record.kind == NodeKind::Regular
            && record.allocated.saturating_add(self.block) < record.size;
        let physical = record.extents.first().map(|e| e.1);
        if let Some(inode) = self.tree.inode_mut(node) {
            inode.kind = record.kind;
            inode.size = record.size;
            inode.complete = record.kind == NodeKind::Directory;
            inode.physical = physical;
            inode.pieces = pieces(record.extents);
            inode.dense_to = if holes { 0 } else { record.size };
        }
        if holes {
            for &(from, _, length) in record.extents {
                self.tree.allocate(node, from, from.saturating_add(length));
            }
            if record.extents.is_empty() {
                // No map of the file: its space is taken to lie at its start.
                self.tree.allocate(node, 0, record.allocated);
            }
        }
        if let Some(target) = record.target {
            self.tree.set_target(node, target);
        }
    }

    /// What share of the data in files before the trace lies nobody knows where; all of it without a snapshot.
    pub fn unplaced_share(&self) -> f64 {
        self.unplaced_share
    }

    /// Where a snapshot tells of no file where it lies (it was made before they were written back, or its file system
    /// does not tell), its files are taken to lie one after another in the order in which they were created. Call after the last
    /// of [`Self::add`].
    pub fn lay_out(&mut self) {
        let block = self.block;
        let files = self.tree.inodes().iter().zip(0..);
        let files = files.filter(|(inode, _)| inode.in_scope && inode.kind == NodeKind::Regular);
        let mut files: Vec<(u64, u32, u64)> = files
            .filter(|(inode, _)| inode.links > 0)
            .map(|(inode, ino)| (inode.order, ino, inode.size))
            .collect();
        let (mut all, mut unknown, mut any_placed) = (0.0, 0.0, false);
        for &(_, ino, size) in &files {
            let inode = self.tree.inode(Ino(ino));
            let placed = inode.is_some_and(|inode| inode.physical.is_some());
            all += size as f64;
            unknown += if placed { 0.0 } else { size as f64 };
            any_placed |= placed;
        }
        self.unplaced_share = if all > 0.0 { unknown / all } else { 0.0 };
        if any_placed {
            return;
        }
        files.sort_unstable();
        let mut end = 0u64;
        for (_, ino, size) in files {
            if let Some(inode) = self.tree.inode_mut(Ino(ino)) {
                inode.physical = Some(end);
            }
            end = end.saturating_add(size.div_ceil(block).saturating_mul(block));
        }
    }

    /// The lookups of a walk's leading directories.
    pub fn steps(&self, walk: &Walk) -> &[DentryId] {
        self.resolver.steps(walk)
    }

    /// Grows when prefixes are numbered anew.
    pub fn epoch(&self) -> u32 {
        self.resolver.epoch
    }

    /// The name at the end of an operation's path, where that was resolved before; else none that is known.
    #[inline]
    pub fn name_ahead(&self, op: &Op) -> DentryId {
        let name = op.path.and_then(|path| self.resolver.ahead(path));
        name.unwrap_or(DentryId(u32::MAX))
    }

    /// Touches what is known of a file that will be asked for.
    #[inline]
    pub fn touch_ahead(&self, ino: Ino) {
        let inode = self.tree.inode(ino);
        black_box(inode.map(|inode| (inode.links, inode.order)));
    }

    /// Touches what is known of the identity of a file that an operation removes or makes.
    #[inline]
    pub fn touch_identity(&self, op: &Op, ino: Ino) {
        let id = match self.tree.inode(ino) {
            Some(inode) => inode.id.filter(|_| op.kind == OpKind::Unlink),
            None => op.file,
        };
        if let Some(id) = id {
            black_box(self.tree.identified(id));
        }
    }

    /// What could not be made sense of so far.
    pub fn unexplained(&self) -> Unexplained {
        self.unexplained
    }

    /// Unit of allocation in bytes.
    pub fn block_bytes(&self) -> u64 {
        self.block
    }

    /// Applies one operation.
    #[inline]
    pub fn apply(&mut self, op: &Op, paths: &PathTable, out: &mut Resolved) {
        self.tree.learned.operation();
        for ino in out.freed.drain(..) {
            self.tree.forget(ino);
        }
        out.rewritten.clear();
        out.closed.clear();
        out.charged = false;
        out.walks = [None, None];
        out.action = Action::None;
        out.node = None;
        out.open = None;
        if op.record.contains(OpFlags::COLD_NAMES) {
            self.tree.made_cold();
        }
        let task = self.processes.task_of(op.pid.0, op.tid.0);
        if task == op.pid.0 {
            self.apply_kind(op, paths, out);
        } else {
            let pid = Pid(task);
            self.apply_kind(&Op { pid, ..*op }, paths, out);
        }
        out.node = out.node.filter(|n| n.is_some());
    }

    /// The directory from which a path of the operation is resolved.
    #[inline]
    fn base(&mut self, op: &Op, paths: &PathTable, dir: Option<PathId>) -> Ino {
        if let Some(dir) = dir.filter(|&dir| self.resolver.is_absolute(paths, dir)) {
            let walk = self
                .resolver
                .resolve(&mut self.tree, paths, dir, Ino::ROOT, true, true);
            return match (walk.node, walk.last) {
                (Ino::NONE, Some(last)) => self.tree.create(last, NodeKind::Directory, false),
                (node, _) => node,
            };
        }
        if let Some(fd) = op.fd
            && let Some(open) = self.processes.open_of(op.pid.0, fd)
            && let Some(open) = self.processes.open(open)
        {
            return open.ino;
        }
        let cwd = self.processes.directory(op.pid.0).copied().flatten();
        cwd.unwrap_or(Ino::ROOT)
    }

    /// An open of a file, not yet behind a descriptor.
    fn make_open(&mut self, op: &Op, ino: Ino, created: bool, truncated: bool) -> OpenId {
        // Of one that was open before, the flags are not known.
        let flags = if op.kind == OpKind::Open { op.flags } else { 0 };
        self.serials = self.serials.checked_add(1).unwrap_or(1);
        if let Some(node) = self.tree.inode_mut(ino) {
            node.opens += 1;
        }
        self.processes.add(OpenFile {
            ino,
            file: op.file,
            position: 0,
            serial: self.serials,
            flags,
            created,
            truncated,
            written: false,
        })
    }
}
/// Where a file's pieces begin, in the file and on the device, if it has more than one and no holes; what is next to the
/// one before on the device too goes on in it.
fn pieces(extents: &[(u64, u64, u64)]) -> Option<Box<[(u64, u64)]>> {
    // What is not on the device yet is told to lie at 0.
    if extents.iter().any(|&(_, at, _)| at == 0) {
        return None;
    }
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let mut end = None;
    for &(from, at, length) in extents {
        // Behind a hole, of which nothing is read, it may go on.
        if end.is_some_and(|(to, _)| to != from) {
            return None;
        }
        if end != Some((from, at)) {
            pieces.push((from, at));
        }
        end = from.checked_add(length).zip(at.checked_add(length));
    }
    (pieces.len() > 1).then(|| pieces.into())
}

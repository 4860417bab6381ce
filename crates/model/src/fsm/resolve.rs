//! What each operation of a trace does to which file. Names are kept here, while a trace is read, and nowhere else.

mod change;
mod files;

use fsage_core::{Errno, FileId, KindClass, Op, OpFlags, OpKind, PathId, PathTable};
use fsage_namespace::descriptors::{Descriptors, follow, gone, settle};
use fsage_namespace::flags::{
    AT_SYMLINK_NOFOLLOW, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_TMPFILE, O_TRUNC,
    follows_last,
};
use fsage_namespace::path::{beneath, is_beneath, join, normal};
use rustc_hash::FxHashMap;

use super::model::{Pick, Stage, Type};
use super::recency::Recency;
use super::step::{Form, LARGEST, is_xattr};
use change::fewer;
use files::is_usual;

/// No file.
pub const NONE: u32 = u32::MAX;

/// The flags of open(2) that matter to a file system.
pub const OPEN_FLAGS: u32 =
    3 | O_CREAT | O_EXCL | O_TRUNC | O_APPEND | O_DIRECTORY | O_NOFOLLOW | 0o40_000 | 0o4_010_000;

/// The flag of a close after which a mapping still has the file open: it costs nothing and is counted nowhere.
pub const KEPT: u32 = 1;

/// More links than this on the way to a file are not followed.
const LINKS: usize = 8;

/// Names of more bytes are nobody's: all directories above a name are kept.
const LONGEST: usize = 1 << 14;

/// A name, and what is there.
#[derive(Debug, Clone)]
pub struct Node {
    /// The node of the directory above, [`NONE`] of the root.
    pub above: u32,
    /// What it is, where the trace told.
    pub kind: Option<Type>,
    /// Whether something is there.
    pub exists: bool,
    /// Whether something was there when it was met first; `None` if it never was.
    pub first: Option<bool>,
    /// Its size when it was met first.
    pub size: Option<u64>,
    /// The largest that it had.
    pub largest: u64,
    file: u32,
}

#[derive(Debug, Clone, Default)]
struct File {
    node: u32,
    size: u64,
    stage: Stage,
    /// Where it was used at random; most files never are.
    places: Option<Box<Recency<u64>>>,
}

#[derive(Debug, Clone, Copy)]
struct Opened {
    file: u32,
    pid: u32,
    append: bool,
    /// Whether a mapping keeps the file open beyond its close.
    mapped: bool,
    cursor: Cursor,
}

/// Where the last transfer started and ended.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    start: u64,
    end: u64,
    gap: i64,
    /// Whether it came there from a place in the middle.
    placed: bool,
}

/// What an operation does.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// The name that it is about.
    pub node: u32,
    /// The other name of a rename or a link.
    pub to: u32,
    /// Which file that is for who does it, before it does.
    pub pick: Pick,
    /// The same of the other.
    pub to_pick: Pick,
    /// The step.
    pub form: Form,
    /// What it is about, in bytes.
    pub bytes: Option<u64>,
    /// Of a transfer at random: 0 for a place not used before, N + 1 for one since which N others were.
    pub place: u64,
    /// Where a transfer starts.
    pub offset: u64,
    /// How many bytes it moved.
    pub moved: u64,
    /// Whether it ended at the file's end, by going on from the start.
    pub at_end: bool,
    /// The content, [`NONE`] for none.
    pub file: u32,
    /// What had been moved of it.
    pub stage: Stage,
}

impl Done {
    /// Whether it is an operation of its own: who closes what is still mapped asks nothing of a file system.
    pub fn counts(&self) -> bool {
        self.form.kind != OpKind::Close || self.form.flags & KEPT == 0
    }
}

/// What is there under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Whether the process has it open.
    pub held: bool,
    /// Whether some process has.
    pub held_by_any: bool,
    /// Whether something is there.
    pub exists: bool,
}

/// Why an operation is none of the model's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Out {
    /// It is of no file system, or free of cost: it is not missed.
    Aside,
    /// It is left out.
    Left,
}

/// Files and processes of a trace.
#[derive(Debug, Default)]
pub struct Resolver {
    descriptors: Descriptors<Opened>,
    names: FxHashMap<Box<[u8]>, u32>,
    links: FxHashMap<u32, Box<[u8]>>,
    /// Of what was renamed before anything told what it is: the name that it had.
    renamed: FxHashMap<u32, u32>,
    /// The names.
    pub nodes: Vec<Node>,
    files: Vec<File>,
    ids: FxHashMap<FileId, u32>,
    mapped: FxHashMap<(u32, u32), Cursor>,
    /// What each process has closed and still has mapped.
    kept: FxHashMap<u32, Vec<Opened>>,
    held: FxHashMap<(u32, u32), u32>,
    held_by_any: FxHashMap<u32, u32>,
    under: Vec<Vec<u8>>,
}

impl Resolver {
    /// Of files below these directories alone; of all but the kernel's own where none is named.
    pub fn new(under: &[Vec<u8>]) -> Self {
        let under = under.iter().map(|dir| normal(dir)).collect();
        Self {
            under,
            ..Self::default()
        }
    }

    /// Every name with its node.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.names.iter().map(|(name, &node)| (&**name, node))
    }

    /// The directory that holds all that the trace was kept to, where it was met.
    pub fn kept_to(&self) -> Option<u32> {
        let mut shared = self.under.first().map(Vec::as_slice)?;
        while !self.under.iter().all(|dir| is_beneath(dir, shared)) {
            let cut = shared.iter().rposition(|&b| b == b'/')?;
            shared = shared.get(..cut)?;
        }
        self.names.get(shared).copied()
    }

    /// Tells what was there before the trace.
    pub fn there(&mut self, path: &[u8], kind: Type, size_bytes: u64) {
        if let Some(node) = self.node(&normal(path))
            && let Some(known) = self.nodes.get_mut(node as usize)
        {
            (known.exists, known.kind, known.size) = (true, Some(kind), Some(size_bytes));
            let file = known.file;
            self.set_size(file, size_bytes);
        }
    }

    /// What is there now under a name, for a process.
    pub fn state(&self, pid: u32, node: u32) -> State {
        let Some(known) = self.nodes.get(node as usize) else {
            return State::default();
        };
        State {
            held: self.held.contains_key(&(pid, known.file)),
            held_by_any: self.held_by_any.contains_key(&known.file),
            exists: known.exists,
        }
    }

    fn within(&self, path: &[u8]) -> bool {
        if self.under.is_empty() {
            let own = |dir: &&[u8]| is_beneath(path, dir);
            return ![&b"/proc"[..], b"/sys", b"/dev"].iter().any(own);
        }
        self.under.iter().any(|dir| beneath(path, dir).is_some())
    }

    /// The node of a normal path, with all directories above it.
    fn node(&mut self, path: &[u8]) -> Option<u32> {
        if let Some(&node) = self.names.get(path) {
            return Some(node);
        }
        if path.len() > LONGEST {
            return None;
        }
        let above = match path.iter().rposition(|&b| b == b'/') {
            _ if path == b"/" => NONE,
            Some(0) | None => self.node(b"/")?,
            Some(slash) => self.node(path.get(..slash)?)?,
        };
        self.is_of(above, Type::Directory);
        let node = u32::try_from(self.nodes.len()).ok().filter(|&n| n < NONE)?;
        let file = self.content(node);
        self.nodes.push(Node {
            above,
            kind: None,
            exists: false,
            first: None,
            size: None,
            largest: 0,
            file,
        });
        self.names.insert(path.into(), node);
        Some(node)
    }

    fn content(&mut self, node: u32) -> u32 {
        self.files.push(File {
            node,
            ..File::default()
        });
        self.files.len() as u32 - 1
    }

    fn set_size(&mut self, file: u32, size: u64) {
        if let Some(file) = self.files.get_mut(file as usize) {
            file.size = size;
            if let Some(node) = self.nodes.get_mut(file.node as usize) {
                node.largest = node.largest.max(size);
            }
        }
    }

    fn size(&self, file: u32) -> u64 {
        self.files.get(file as usize).map_or(0, |f| f.size)
    }

    fn stage(&self, file: u32) -> Stage {
        let file = self.files.get(file as usize);
        file.map_or(Stage::default(), |f| f.stage)
    }

    /// Whether a content is that of a directory.
    pub fn is_directory(&self, file: u32) -> bool {
        let file = self.files.get(file as usize);
        let node = file.and_then(|f| self.nodes.get(f.node as usize));
        node.is_some_and(|n| n.kind == Some(Type::Directory))
    }

    /// The content under a name, [`NONE`] of none.
    pub fn file_of(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).map_or(NONE, |n| n.file)
    }

    fn path(
        &mut self,
        op: &Op,
        path: PathId,
        dir: Option<PathId>,
        paths: &PathTable,
    ) -> Option<u32> {
        let dir = dir.map_or(&b"/"[..], |d| paths.get(d));
        let text = paths.get(path);
        let mut full = normal(&join(dir, text));
        if !self.within(&full) {
            return None;
        }
        let mut node = self.node(&full)?;
        let no_follow = match op.kind {
            OpKind::Open => {
                op.flags & O_NOFOLLOW != 0 || op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL
            }
            OpKind::Access | OpKind::Truncate | OpKind::Chmod | OpKind::Statfs => false,
            _ => !follows_last(op).unwrap_or(false),
        };
        for _ in 0..LINKS {
            let Some(target) = self.links.get(&node).filter(|_| !no_follow) else {
                break;
            };
            let cut = full.iter().rposition(|&b| b == b'/').unwrap_or(0);
            full = normal(&join(full.get(..cut).unwrap_or_default(), target));
            node = self.node(&full)?;
        }
        Some(node)
    }

    /// Applies an operation. Who goes to a directory looks it up: that is a stat, as a replay makes it.
    pub fn apply(&mut self, op: &Op, paths: &PathTable) -> Result<Done, Out> {
        if op.kind == OpKind::Chdir && op.path.is_some() {
            let (kind, flags) = (OpKind::Stat, 0);
            let done = self.one(&Op { kind, flags, ..*op }, paths)?;
            if op.result.is_ok() && done.node != NONE {
                self.made(done.node, Type::Directory);
            }
            return Ok(done);
        }
        self.one(op, paths)
    }

    fn one(&mut self, op: &Op, paths: &PathTable) -> Result<Done, Out> {
        for open in gone(settle(&mut self.descriptors, op)) {
            self.let_go(open);
        }
        match op.kind {
            OpKind::Fork
            | OpKind::Exec
            | OpKind::Exit
            | OpKind::Dup
            | OpKind::Chdir
            | OpKind::Fchdir => {
                for open in gone(follow(&mut self.descriptors, op)) {
                    self.let_go(open);
                }
                let leaves = op.kind == OpKind::Exec || op.length == Some(1);
                if leaves && matches!(op.kind, OpKind::Exec | OpKind::Exit) && op.result.is_ok() {
                    let kept = self.kept.remove(&op.pid.0).unwrap_or_default();
                    for open in kept {
                        self.let_go(open);
                    }
                }
                return Err(Out::Aside);
            }
            OpKind::Close => return self.close(op),
            _ if op.record.contains(OpFlags::NOT_A_FILE) => return Err(Out::Aside),
            _ => {}
        }
        let unreadable = [OpFlags::PATH_UNREADABLE, OpFlags::PATH_TRUNCATED];
        if unreadable.into_iter().any(|f| op.record.contains(f)) {
            return Err(Out::Left);
        }
        let error = op.result.errno().map_or(0, |e| e.0);
        match op.kind {
            OpKind::Sync | OpKind::Syncfs | OpKind::Statfs | OpKind::Fstatfs => {
                return if error == 0 {
                    Ok(nothing(op, 0))
                } else {
                    Err(Out::Left)
                };
            }
            _ => {}
        }
        if op.kind.class() == KindClass::Name && op.path.is_some() {
            self.named(op, paths, error)
        } else if error == 0 {
            self.on_file(op)
        } else {
            Err(Out::Left)
        }
    }

    fn let_go(&mut self, open: Opened) {
        fewer(&mut self.held, &(open.pid, open.file));
        fewer(&mut self.held_by_any, &open.file);
    }

    /// An operation on the open file of `file`.
    fn done(&mut self, op: &Op, file: u32, form: Form) -> Done {
        let node = self.files.get(file as usize).map_or(NONE, |f| f.node);
        let pick = if self.held.contains_key(&(op.pid.0, file)) {
            Pick::Open
        } else if self.held_by_any.contains_key(&file) {
            Pick::Shared
        } else {
            self.pick(node)
        };
        Done {
            node,
            pick,
            form,
            file,
            stage: self.stage(file),
            ..nothing(op, 0)
        }
    }

    /// By its name.
    fn pick(&mut self, node: u32) -> Pick {
        let Some(known) = self.nodes.get_mut(node as usize) else {
            return Pick::None;
        };
        let first = known.first.is_none();
        known.first.get_or_insert(known.exists);
        match (first, known.exists) {
            (true, true) => Pick::Fresh,
            (true, false) => Pick::New,
            (false, true) => Pick::Known,
            (false, false) => Pick::Gone,
        }
    }

    fn learn(&mut self, node: u32, exists: bool, size: Option<u64>) {
        let Some(known) = self.nodes.get_mut(node as usize) else {
            return;
        };
        let fresh = known.first.is_none();
        if fresh || known.exists != exists {
            known.exists = exists;
        }
        let file = known.file;
        if fresh && exists {
            known.size = known.size.or(size);
        }
        if let Some(size) = size.filter(|_| exists) {
            self.set_size(file, size);
        }
    }

    fn named(&mut self, op: &Op, paths: &PathTable, error: i32) -> Result<Done, Out> {
        if op.kind == OpKind::Open && op.flags & O_TMPFILE == O_TMPFILE {
            return Err(Out::Left);
        }
        if matches!(error, 20 | 21 | 36 | 39 | 40) {
            let inside = op.path.is_some_and(|p| {
                self.within(&normal(&join(
                    op.dir.map_or(b"/", |d| paths.get(d)),
                    paths.get(p),
                )))
            });
            return if inside {
                Ok(nothing(op, error))
            } else {
                Err(Out::Aside)
            };
        }
        let xattr = is_xattr(op.kind);
        // Whoever asks whether each directory of a path is a link.
        let no_link = op.kind == OpKind::Readlink && error == 22;
        if !matches!(error, 0 | 2 | 17) && !xattr && !no_link {
            return Err(Out::Left);
        }
        let path = op.path.ok_or(Out::Left)?;
        let two = matches!(op.kind, OpKind::Rename | OpKind::Link);
        let node = self.path(op, path, op.dir, paths);
        let node = node.ok_or_else(|| self.outside(op, two, paths))?;
        let to = match op.path2.filter(|_| two) {
            Some(to) => self
                .path(op, to, op.dir2.or(op.dir), paths)
                .ok_or(Out::Left)?,
            None => NONE,
        };
        self.learn_before(op, error, node, to);
        let pick = self.pick(node);
        let to_pick = self.pick(to);
        let mut form = Form::plain(op.kind, flags(op), error);
        let bytes = matches!(op.kind, OpKind::Truncate | OpKind::Setxattr)
            .then(|| op.length.unwrap_or(0).min(LARGEST));
        form.bytes = bytes.filter(|b| is_usual(*b));
        let file = self.file_of(node);
        let done = Done {
            node,
            to,
            pick,
            to_pick,
            form,
            bytes,
            file,
            stage: self.stage(file),
            ..nothing(op, error)
        };
        if error == 0 {
            self.change(op, node, to, paths);
        }
        Ok(done)
    }

    /// What the result says of the time before the call.
    fn learn_before(&mut self, op: &Op, error: i32, node: u32, to: u32) {
        let unmet = self
            .nodes
            .get(node as usize)
            .is_some_and(|n| n.first.is_none());
        let makes = matches!(op.kind, OpKind::Mkdir | OpKind::Symlink | OpKind::Mknod)
            || op.kind == OpKind::Open && op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        let exists = match error {
            2 if op.kind == OpKind::Symlink => return,
            2 => false,
            17 if op.kind == OpKind::Link => {
                self.learn(to, true, None);
                true
            }
            17 => true,
            _ if makes => false,
            // Whether it made the file cannot be told where the name was not met before; a file that has content is old.
            _ if op.kind == OpKind::Open && op.flags & O_CREAT != 0 && unmet => {
                let known = self.nodes.get(node as usize).is_some_and(|n| n.exists);
                known || op.flags & O_TRUNC == 0 && op.size_bytes.is_some_and(|s| s > 0)
            }
            _ if op.kind == OpKind::Open && op.flags & O_CREAT != 0 => return,
            _ => true,
        };
        let stable = op.kind != OpKind::Open || op.flags & O_TRUNC == 0;
        let size = op
            .size_bytes
            .filter(|_| stable && matches!(op.kind, OpKind::Open | OpKind::Stat));
        self.learn(node, exists, size.filter(|_| exists && error == 0));
        if error == 0 && op.kind == OpKind::Link {
            self.learn(to, false, None);
        }
    }
}

/// Whether data goes into the file.
pub fn is_write(op: &Op) -> bool {
    match op.kind {
        OpKind::Fault => op.flags & 1 != 0,
        kind => matches!(kind, OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut),
    }
}

/// An operation on no file.
fn nothing(op: &Op, error: i32) -> Done {
    Done {
        node: NONE,
        to: NONE,
        pick: Pick::None,
        to_pick: Pick::None,
        form: Form::plain(op.kind, flags(op), error),
        bytes: None,
        place: 0,
        offset: 0,
        moved: 0,
        at_end: false,
        file: NONE,
        stage: Stage::default(),
    }
}

/// The flags that matter.
fn flags(op: &Op) -> u32 {
    match op.kind {
        OpKind::Open => op.flags & OPEN_FLAGS,
        OpKind::Stat => op.flags & AT_SYMLINK_NOFOLLOW,
        OpKind::Fault => op.flags & 1,
        // Whether the list had ended.
        OpKind::Readdir => u32::from(op.result.value() == Some(0)),
        OpKind::Access
        | OpKind::Mkdir
        | OpKind::Chmod
        | OpKind::Fchmod
        | OpKind::SyncFileRange
        | OpKind::Lock
        | OpKind::Fallocate
        | OpKind::Mmap
        | OpKind::Msync
        | OpKind::Advise => op.flags,
        _ => 0,
    }
}

/// The error that an operation on a name meets, as the state of the name has it.
pub fn errno_of(kind: OpKind, flags: u32, exists: bool) -> Option<Errno> {
    let makes = match kind {
        OpKind::Open => flags & O_CREAT != 0,
        OpKind::Mkdir | OpKind::Symlink | OpKind::Mknod => true,
        _ => false,
    };
    let alone = kind != OpKind::Open || flags & O_EXCL != 0;
    match (exists, makes) {
        (true, true) if alone => Some(Errno::EEXIST),
        (false, false) => Some(Errno::ENOENT),
        _ => None,
    }
}

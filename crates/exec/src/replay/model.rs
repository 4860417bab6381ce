//! What each operation means: the file behind its names and descriptors, and the call that stands
//! for it on the target. Operations come in the order of the trace.

mod held;
mod incoming;
mod names;
mod process;

use std::sync::Arc;

use fsage_core::{Errno, Fd, FileId, Op, OpFlags, OpKind, PathId, PathTable, Pid, Tid};
use fsage_namespace::flags::{
    O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_PATH, O_TMPFILE, O_TRUNC,
};
use fsage_namespace::path::{NAME_BYTES, PATH_BYTES, beneath, normal};
use fsage_namespace::{Ino, NodeKind, Processes, Registered, SharedId};
pub use incoming::{INCOMING, Incoming};
use rustc_hash::FxHashMap;

use super::call::{Call, Slot};
use super::order::{Key, Mode, Use};
use super::place::{Placement, common};
use super::tree::{ReplayTree, Replayed, Walk};

/// Why an operation has no call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Skip {
    /// It costs a file system nothing: a duplicate, a fork, a close of a descriptor that has others,
    /// a mapping whose page faults are in the trace.
    Free,
    /// Its name lies outside of what is replayed.
    Outside,
    /// A pipe, socket or device.
    NotAFile,
    /// Its path could not be read.
    UnreadablePath,
    /// The trace does not tell what its descriptor stands for.
    UnknownDescriptor,
    /// It failed for a reason that lies in the program (a bad address, an interruption).
    ProgramError,
    /// It failed for a reason that the target need not have (no space, no permission, the other file of a
    /// copy), and would change a file or a position where it did not.
    FailedThen,
    /// No call of a target stands for its kind.
    NoCall,
    /// No file system can have done it: a directory moved into itself or linked, a name in what is no
    /// directory.
    Impossible,
    /// The machine allows no more threads.
    NoThread,
}

impl Skip {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Outside => "outside",
            Self::NotAFile => "not_a_file",
            Self::UnreadablePath => "unreadable_path",
            Self::UnknownDescriptor => "unknown_descriptor",
            Self::ProgramError => "program_error",
            Self::FailedThen => "failed_then",
            Self::NoCall => "no_call",
            Self::Impossible => "impossible",
            Self::NoThread => "no_thread",
        }
    }
}

/// What is to be done for one operation.
#[derive(Debug, Clone)]
pub struct ReplayStep {
    /// The operation; its offset and length may have been made explicit.
    pub op: Op,
    /// Its call.
    pub call: Call,
    /// Why it has none.
    pub skip: Option<Skip>,
    /// What it uses.
    pub uses: Vec<Use>,
    /// Open files that it lets go without having asked for it.
    pub closes: Vec<Arc<Slot>>,
    /// An open file that the trace found open, to be opened before it.
    pub inherited: Option<(Box<[u8]>, Arc<Slot>)>,
    /// The thread that it starts.
    pub starts: Option<Tid>,
    /// Whether its thread ends with it.
    pub ends: bool,
}

#[derive(Debug)]
pub(super) struct OpenFile {
    /// No other open file has it.
    pub(super) key: u64,
    pub(super) slot: Arc<Slot>,
    pub(super) node: Option<Ino>,
    /// Which file the trace says that it is.
    pub(super) file: Option<FileId>,
    pub(super) position: u64,
    pub(super) writable: bool,
    pub(super) direct: bool,
    /// Its position on the target is not the trace's.
    pub(super) inherited: bool,
    /// It was opened to append.
    pub(super) append: bool,
    /// What is written to it needs room on the target.
    pub(super) placed: bool,
}

/// A mapped file's open file.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    open: SharedId,
    write: bool,
}

/// Mapped files that are kept open.
const MAPPED: usize = 512;

/// The traced machine's files, processes and open files.
#[derive(Debug)]
pub struct Model {
    /// The files.
    pub tree: ReplayTree,
    /// Their open files and working directories.
    pub(super) processes: Processes<OpenFile, Option<Vec<u8>>>,
    next_open: u64,
    mapped: FxHashMap<Ino, Mapped>,
    registered: Registered<Ino>,
    /// `None` while it is not known yet.
    placement: Option<Placement>,
    directory: Vec<u8>,
    /// Whether page faults of mapped files are in the trace.
    pub faults: bool,
    /// The directory that holds every name that was found; `None` before the first.
    pub common: Option<Vec<u8>>,
    common_node: Option<Ino>,
    /// Open files that the operation at hand let go.
    released: Vec<u64>,
    /// What comes from outside.
    pub incoming: Incoming,
    /// Directories that are asked after, while no name was found to lie there.
    pub unmet: Vec<Vec<u8>>,
}

const ENODATA: i32 = 61;

/// A name of an operation, found.
pub(super) struct Found {
    pub(super) walk: Walk,
    /// On the target.
    pub(super) name: Box<[u8]>,
}

impl Found {
    /// Adds what the name uses; the last component in `mode`.
    fn uses(&self, mode: Mode, uses: &mut Vec<Use>) {
        uses.extend(
            self.walk
                .dirs
                .iter()
                .map(|&d| Use(Key::Directory(d), Mode::Shared)),
        );
        let names = self.walk.names.iter();
        uses.extend(names.map(|(d, n)| Use(Key::name(*d, n), Mode::Shared)));
        if let Some((dir, name)) = &self.walk.last {
            uses.push(Use(Key::name(*dir, name), mode));
            if mode == Mode::Exclusive {
                uses.push(Use(Key::Entries(*dir), Mode::Shared));
            }
        }
    }
}

type Verdict = Result<Call, Skip>;

impl Model {
    /// Of files `tree`, processes begin in `directory`; without a placement names of the target stay empty.
    pub fn new(tree: ReplayTree, directory: &[u8], placement: Option<Placement>) -> Self {
        Self {
            tree,
            processes: Processes::default(),
            next_open: 0,
            mapped: FxHashMap::default(),
            registered: Registered::default(),
            placement,
            directory: directory.to_vec(),
            faults: false,
            common: None,
            common_node: None,
            released: Vec::new(),
            incoming: Incoming::default(),
            unmet: Vec::new(),
        }
    }

    /// Applies one operation.
    pub fn apply(&mut self, op: &Op, paths: &PathTable) -> ReplayStep {
        let mut step = ReplayStep {
            op: Op {
                pid: Pid(self.processes.task_of(op.pid.0, op.tid.0)),
                ..*op
            },
            call: Call::None,
            skip: None,
            uses: Vec::new(),
            closes: Vec::new(),
            inherited: None,
            starts: None,
            ends: false,
        };
        self.tree.learned.operation();
        let gone = self.processes.settle(&step.op, |open| open.file);
        self.let_go(gone, &mut step.closes);
        match self.verdict(&mut step, paths) {
            Ok(_) if names::fails_elsewhere(op) => step.skip = Some(Skip::FailedThen),
            Ok(call) => step.call = call,
            Err(skip) => step.skip = Some(skip),
        }
        step.op.pid = op.pid;
        // An open file goes when all who had it are done with it, whoever had it last.
        for open in self.released.drain(..) {
            step.uses.push(Use(Key::Open(open), Mode::Exclusive));
        }
        step
    }

    fn verdict(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let failed_in_program = op
            .result
            .errno()
            .is_some_and(|e| matches!(e.0, 4 | 14 | 38 | 125 | 512..));
        match op.kind {
            OpKind::Fork | OpKind::Exit | OpKind::Dup | OpKind::Close | OpKind::Exec => {
                self.process(step, paths)
            }
            _ if failed_in_program => Err(Skip::ProgramError),
            OpKind::Open => self.open(step, paths),
            OpKind::Rename | OpKind::Link | OpKind::Symlink => self.two_names(step, paths),
            OpKind::Sync => Ok(Call::Name(Box::default())),
            OpKind::Fault => self.fault(step),
            OpKind::Stat
            | OpKind::Access
            | OpKind::Unlink
            | OpKind::Mkdir
            | OpKind::Rmdir
            | OpKind::Readlink
            | OpKind::Truncate
            | OpKind::Chmod
            | OpKind::Chown
            | OpKind::Utimens
            | OpKind::Statfs
            | OpKind::Chdir
            | OpKind::Mknod => self.named(step, paths),
            OpKind::Setxattr | OpKind::Getxattr | OpKind::Listxattr | OpKind::Removexattr => {
                if op.path.is_some() && op.fd.is_none() {
                    self.named(step, paths)?;
                }
                Err(Skip::NoCall)
            }
            _ => self.on_descriptor(step, paths),
        }
    }

    /// The file of a path of an operation; with `found` it exists, and is learned as that kind where it is not known.
    fn find(
        &mut self,
        op: &Op,
        paths: &PathTable,
        path: Option<PathId>,
        dir: Option<PathId>,
        follow: bool,
        found: Option<NodeKind>,
    ) -> Result<Found, Skip> {
        let bad = OpFlags::PATH_UNREADABLE;
        let cut = OpFlags::PATH_TRUNCATED;
        if op.record.contains(bad) || op.record.contains(cut) {
            return Err(Skip::UnreadablePath);
        }
        let path = path.ok_or(Skip::UnreadablePath)?;
        if paths.get(path).is_empty() && op.result.errno() == Some(Errno::ENOENT) {
            // No file system is asked for what has no name.
            return Err(Skip::Free);
        }
        let text = self.absolute(op.pid, paths.get(path), dir.map(|d| paths.get(d)))?;
        self.find_text(&text, follow, found, op)
    }

    fn absolute(&self, pid: Pid, path: &[u8], dir: Option<&[u8]>) -> Result<Vec<u8>, Skip> {
        if path.first() == Some(&b'/') {
            return Ok(path.to_vec());
        }
        let own = self.processes.directory(pid.0);
        let own = own.and_then(Option::as_deref);
        let dir = dir.or(own).unwrap_or(&self.directory);
        if dir.first() != Some(&b'/') {
            return Err(Skip::UnreadablePath);
        }
        let mut text = dir.to_vec();
        text.push(b'/');
        text.extend_from_slice(path);
        Ok(text)
    }

    fn find_text(
        &mut self,
        text: &[u8],
        follow: bool,
        found: Option<NodeKind>,
        op: &Op,
    ) -> Result<Found, Skip> {
        // No call names as much; a longer one is made up.
        let long = |part: &[u8]| part.len() > NAME_BYTES;
        if text.len() >= PATH_BYTES || text.split(|&b| b == b'/').any(long) {
            return Err(Skip::UnreadablePath);
        }
        let (ok, errno) = (op.result.is_ok(), op.result.errno());
        let learn = ok || found.is_some();
        let mut walk = self.tree.walk(Ino::ROOT, text, follow, learn);
        if let (Some((dir, name)), None) = (&walk.last, walk.node) {
            if let Some(kind) = found {
                let id = op.file.filter(|_| ok && op.kind != OpKind::Rename);
                walk.node = self.tree.learn(*dir, name, kind, id);
                if walk.node.is_none() {
                    return Err(Skip::Impossible);
                }
            } else if errno == Some(Errno::ENOENT) {
                self.tree.absent(*dir, name);
            }
        } else if let (Some(node), Some(kind)) = (walk.node, found) {
            self.tree.expect(node, kind);
        }
        if ok {
            self.widen(&walk);
        }
        self.meet(text, &walk);
        let name = self.target_name(text, &walk).ok_or(Skip::Outside)?;
        Ok(Found {
            walk,
            name: name.into(),
        })
    }

    /// Keeps the directory that holds every name that was found.
    fn widen(&mut self, walk: &Walk) {
        if self.placement.is_some() {
            return;
        }
        let own = walk
            .node
            .filter(|&n| self.tree.kind(n) == NodeKind::Directory);
        let Some(dir) = own.or(walk.last.as_ref().map(|l| l.0)) else {
            return;
        };
        if self.common_node == Some(dir) {
            return;
        }
        self.common_node = Some(dir);
        let mut everything = Placement::default();
        everything.add(b"/", b"");
        let Some(path) = self
            .tree
            .path(dir)
            .filter(|p| everything.map(&normal(p)).is_some())
        else {
            return;
        };
        let path = normal(&path);
        self.common = Some(match self.common.take() {
            Some(before) => common(&before, &path),
            None => path,
        });
    }

    /// Looks whether a name lies where names are asked after.
    fn meet(&mut self, text: &[u8], walk: &Walk) {
        if self.unmet.is_empty() {
            return;
        }
        if let Some(path) = self.true_path(text, walk) {
            self.unmet.retain(|dir| beneath(&path, dir).is_none());
        }
    }

    /// Where a name leads on the traced machine.
    fn true_path(&self, text: &[u8], walk: &Walk) -> Option<Vec<u8>> {
        Some(match (&walk.last, walk.node) {
            (Some((dir, name)), _) => {
                let mut path = self.tree.path(*dir)?;
                path.push(b'/');
                path.extend_from_slice(name);
                path
            }
            (None, Some(node)) => normal(&self.tree.path(node)?),
            (None, None) => normal(text),
        })
    }

    /// The name on the target; `None` outside.
    fn target_name(&self, text: &[u8], walk: &Walk) -> Option<Vec<u8>> {
        let Some(placement) = &self.placement else {
            return Some(Vec::new());
        };
        let true_path = self.true_path(text, walk)?;
        let mapped = placement.map(&true_path)?;
        // The name as it was given looks up what the program looked up, unless `..` is in it, which
        // might lead out of the target.
        let plain = !text.split(|&b| b == b'/').any(|part| part == b"..");
        let given = plain.then(|| placement.map(&normal(text))).flatten();
        let mut name = given.unwrap_or(mapped);
        if text.last() == Some(&b'/') && !name.is_empty() {
            name.push(b'/');
        }
        Some(name)
    }

    fn note_file(&mut self, op: &Op, node: Option<Ino>) {
        let Some(node) = node else { return };
        let directory = op.record.contains(OpFlags::DIRECTORY);
        if directory {
            self.tree.expect(node, NodeKind::Directory);
        }
        if let Some(id) = op.file.filter(|_| op.result.is_ok()) {
            self.tree.identify(node, id);
        }
        if let Some(size) = op.size_bytes.filter(|_| !directory && op.result.is_ok()) {
            self.tree.saw_size(node, size);
        }
    }

    fn open(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let fd = op
            .result
            .value()
            .and_then(|v| i32::try_from(v).ok())
            .map(Fd);
        let asked = |bits: u32| op.flags & bits == bits;
        let verdict = if op.record.contains(OpFlags::NOT_A_FILE) {
            Err(Skip::NotAFile)
        } else if asked(O_TMPFILE | O_DIRECTORY) {
            self.open_unnamed(step, paths, fd)
        } else {
            self.open_named(step, paths, fd)
        };
        if let Some(fd) = fd.filter(|_| verdict.is_err()) {
            // The number was free, whether its close was seen or not.
            let gone = self.processes.give(&op, fd, None, false);
            self.let_go(gone, &mut step.closes);
        }
        verdict
    }

    fn open_named(&mut self, step: &mut ReplayStep, paths: &PathTable, fd: Option<Fd>) -> Verdict {
        let op = step.op;
        let asked = |bits: u32| op.flags & bits == bits;
        let follow = !asked(O_NOFOLLOW) && !asked(O_CREAT | O_EXCL);
        let errno = op.result.errno();
        let kind = match errno {
            None if asked(O_CREAT | O_EXCL) => None,
            None if asked(O_CREAT) && (asked(O_TRUNC) || op.size_bytes.is_none_or(|s| s == 0)) => {
                None
            }
            None if asked(O_DIRECTORY) || op.record.contains(OpFlags::DIRECTORY) => {
                Some(NodeKind::Directory)
            }
            // Of a symbolic link too.
            None if asked(O_PATH | O_NOFOLLOW) => Some(NodeKind::Unknown),
            None => Some(NodeKind::Regular),
            Some(Errno::EEXIST) => Some(NodeKind::Unknown),
            Some(Errno::EISDIR) => Some(NodeKind::Directory),
            Some(_) => None,
        };
        let mut found = match self.by_identity(&op) {
            Some(path) => self.find_text(&path, false, kind, &op)?,
            None => self.find(&op, paths, op.path, op.dir, follow, kind)?,
        };
        let mut mode = Mode::Shared;
        let mut file_mode = Mode::Shared;
        if op.result.is_ok() {
            if found.walk.node.is_none()
                && let Some((dir, name)) = found.walk.last.clone()
            {
                let made = self.tree.create(dir, &name, NodeKind::Regular);
                found.walk.node = Some(made.ok_or(Skip::Impossible)?);
                (mode, file_mode) = (Mode::Exclusive, Mode::Exclusive);
            }
            if let Some(node) = found.walk.node.filter(|_| asked(O_TRUNC)) {
                self.tree.set_size(node, 0);
                file_mode = Mode::Exclusive;
            }
            self.note_file(&op, found.walk.node);
        }
        found.uses(mode, &mut step.uses);
        if let Some(node) = found.walk.node {
            step.uses.push(Use(Key::File(node), file_mode));
        }
        let slot = fd.map(|fd| self.opened(step, fd, found.walk.node));
        Ok(Call::Open(found.name, slot))
    }

    fn open_unnamed(
        &mut self,
        step: &mut ReplayStep,
        paths: &PathTable,
        fd: Option<Fd>,
    ) -> Verdict {
        let op = step.op;
        let kind = op.result.is_ok().then_some(NodeKind::Directory);
        let walked = Op { file: None, ..op };
        let found = self.find(&walked, paths, op.path, op.dir, true, kind)?;
        let Some(fd) = fd else {
            return Err(Skip::NoCall);
        };
        found.uses(Mode::Shared, &mut step.uses);
        let node = self.tree.unnamed(NodeKind::Regular, Replayed::default());
        Ok(Call::Unnamed(found.name, self.opened(step, fd, Some(node))))
    }

    fn fault(&mut self, step: &mut ReplayStep) -> Verdict {
        self.faults = true;
        let op = step.op;
        let node = op.file.and_then(|id| self.tree.identified(id));
        let node = node.ok_or(Skip::UnknownDescriptor)?;
        self.note_file(&op, Some(node));
        let mapped = self.mapped.get(&node).ok_or(Skip::UnknownDescriptor)?;
        let open = self.processes.open(mapped.open);
        let open = open.ok_or(Skip::UnknownDescriptor)?;
        let write = mapped.write && op.flags & 1 != 0;
        step.uses.push(Use(Key::Open(open.key), Mode::Shared));
        step.uses.push(Use(Key::File(node), Mode::Shared));
        Ok(Call::Touch {
            slot: Arc::clone(&open.slot),
            write,
        })
    }

    pub(super) fn note(&mut self, op: &Op, node: Option<Ino>) {
        self.note_file(op, node);
    }

    pub(super) fn set_directory(&mut self, pid: Pid, node: Option<Ino>) {
        if let Some(path) = node.and_then(|n| self.tree.path(n)) {
            self.processes.set_directory(pid.0, Some(normal(&path)));
        }
    }
}

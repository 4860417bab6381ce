//! Open files: of descriptors, and those that something else holds: mappings, and rings of io_uring to which they
//! were registered.

use std::sync::Arc;

use fsage_core::{Errno, Fd, FileId, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::flags::{O_APPEND, O_CLOEXEC, O_DIRECT};
use fsage_namespace::path::normal;
use fsage_namespace::pending::is_another;
use fsage_namespace::registered::is_of_registered;
use fsage_namespace::{Ino, NodeKind, SharedId};

use super::{MAPPED, Mapped, Model, OpenFile, ReplayStep, Skip};
use crate::replay::call::Slot;
use crate::replay::order::{Key, Mode, Use};

impl Model {
    /// A descriptor has a new open file.
    pub(super) fn opened(&mut self, step: &mut ReplayStep, fd: Fd, node: Option<Ino>) -> Arc<Slot> {
        let op = &step.op;
        let slot = Arc::new(Slot::default());
        let key = self.next_open;
        self.next_open += 1;
        if let Some(node) = node {
            self.tree.hold(node, true);
        }
        let asked = |flag| op.kind == OpKind::Open && op.flags & flag != 0;
        let (direct, append) = (asked(O_DIRECT), asked(O_APPEND));
        let on_exec = asked(O_CLOEXEC);
        let open = self.processes.add(OpenFile {
            key,
            slot: Arc::clone(&slot),
            node,
            file: op.file,
            position: 0,
            writable: op.flags & 3 != 0 || op.kind != OpKind::Open,
            direct,
            inherited: op.kind != OpKind::Open,
            append,
            placed: node.is_some_and(|node| self.needs_room(node)),
        });
        let gone = if op.kind == OpKind::Open {
            self.processes.give(op, fd, Some(open), on_exec)
        } else {
            let gone = self.processes.install(op.pid.0, fd, open, on_exec);
            gone.into_iter().collect()
        };
        step.uses.push(Use(Key::Open(key), Mode::Exclusive));
        self.let_go(gone, &mut step.closes);
        slot
    }

    /// The path of the file that is opened, where the operation tells which it is and no name: by a handle.
    pub(super) fn by_identity(&self, op: &Op) -> Option<Vec<u8>> {
        let unreadable = op.record.contains(OpFlags::PATH_UNREADABLE);
        let id = op.file.filter(|_| op.path.is_none() && !unreadable)?;
        self.tree.path(self.tree.identified(id)?)
    }

    /// The open file of a descriptor; one that the trace found open is told by its path.
    pub(in crate::replay) fn open_of(
        &mut self,
        step: &mut ReplayStep,
        paths: &PathTable,
    ) -> Result<SharedId, Skip> {
        let op = step.op;
        if op.record.contains(OpFlags::NOT_A_FILE) {
            return Err(Skip::NotAFile);
        }
        if is_of_registered(&op) {
            return self.open_of_registered(step);
        }
        let fd = op.fd.ok_or(Skip::UnknownDescriptor)?;
        if let Some(open) = self.processes.open_of(op.pid.0, fd)
            && !self.is_of_another(&op, open)
        {
            return Ok(open);
        }
        let path = op.path.filter(|&p| paths.get(p).first() == Some(&b'/'));
        if path.is_none() && op.result.errno() == Some(Errno::EBADF) {
            return Err(Skip::ProgramError);
        }
        if path.is_none() {
            return self.open_of_identity(step, fd);
        }
        let directory = op.record.contains(OpFlags::DIRECTORY);
        let kind = if directory {
            NodeKind::Directory
        } else {
            NodeKind::Regular
        };
        let found = self.find(&op, paths, path, None, true, Some(kind))?;
        found.uses(Mode::Shared, &mut step.uses);
        let slot = self.opened(step, fd, found.walk.node);
        step.inherited = Some((found.name, slot));
        let open = self.processes.open_of(op.pid.0, fd);
        open.ok_or(Skip::UnknownDescriptor)
    }

    /// Whether the trace says that an operation is on another file than its descriptor stands for, and knows that one.
    pub(super) fn is_of_another(&self, op: &Op, open: SharedId) -> bool {
        let open = self.processes.open(open);
        let another = open.filter(|open| is_another(open.file, op.file));
        another.is_some_and(|open| {
            let other = op.file.and_then(|id| self.tree.identified(id));
            other.is_some() && other != open.node
        })
    }

    /// The open file of a descriptor that came by no call of the trace (over a socket, say), by which file it is: that is
    /// opened by its name, or, without one, shared with who has it open.
    fn open_of_identity(&mut self, step: &mut ReplayStep, fd: Fd) -> Result<SharedId, Skip> {
        let op = step.op;
        let node = op.file.and_then(|id| self.tree.identified(id));
        let node = node.ok_or(Skip::UnknownDescriptor)?;
        if let Some(path) = self.tree.path(node) {
            let found = self.find_text(&path, false, None, &op)?;
            found.uses(Mode::Shared, &mut step.uses);
            let slot = self.opened(step, fd, Some(node));
            step.inherited = Some((found.name, slot));
        } else {
            let shared = self.processes.find_open(|file| file.node == Some(node));
            let shared = shared.filter(|&open| self.processes.share(open));
            let shared = shared.ok_or(Skip::UnknownDescriptor)?;
            if let Some(file) = self.processes.open_mut(shared) {
                file.inherited = true;
            }
            let gone = self.processes.install(op.pid.0, fd, shared, false);
            self.let_go(gone, &mut step.closes);
        }
        let open = self.processes.open_of(op.pid.0, fd);
        open.ok_or(Skip::UnknownDescriptor)
    }

    /// What a file is called on the target now; `None` without a name there.
    pub(in crate::replay) fn name_of(&self, node: Option<Ino>) -> Option<Box<[u8]>> {
        let path = self.tree.path(node?)?;
        let placement = self.placement.as_ref()?;
        let name = placement.map(&normal(&path))?;
        (!name.is_empty()).then(|| name.into())
    }

    /// Whether what is written to a file takes room on the target, as far as is known when the trace is first read.
    fn needs_room(&self, node: Ino) -> bool {
        let inside = self.incoming.inside();
        self.placement.is_none()
            && self.tree.path(node).is_some_and(|path| {
                inside.is_none_or(|inside| inside.map(&normal(&path)).is_some())
            })
    }

    /// The open file of a request that names none: one that the process has open of that file, else one that
    /// is opened by the file's name.
    pub(super) fn open_of_registered(&mut self, step: &mut ReplayStep) -> Result<SharedId, Skip> {
        let op = step.op;
        let node = op.file.and_then(|id| self.tree.identified(id));
        let node = node.ok_or(Skip::UnknownDescriptor)?;
        let direct = op.record.contains(OpFlags::DIRECT);
        let process = op.pid.0;
        let writes = op.kind == OpKind::Write;
        let hint = self.registered.last(process, node, direct);
        let found = self.processes.open_where(process, hint, |file| {
            file.node == Some(node)
                && (file.direct == direct || file.inherited)
                && (file.writable || !writes)
        });
        if let Some((fd, open)) = found {
            self.registered.set(process, node, direct, fd);
            return Ok(open);
        }
        let path = self.tree.path(node).ok_or(Skip::UnknownDescriptor)?;
        let found = self.find_text(&path, false, Some(NodeKind::Regular), &op)?;
        found.uses(Mode::Shared, &mut step.uses);
        let (fd, old) = self.registered.make(process);
        if let Some((process, fd)) = old {
            let gone = self.processes.close(process, fd);
            self.let_go(gone, &mut step.closes);
        }
        let slot = self.opened(step, fd, Some(node));
        self.registered.set(process, node, direct, fd);
        step.inherited = Some((found.name, slot));
        let open = self.processes.open_of(process, fd);
        open.ok_or(Skip::UnknownDescriptor)
    }

    /// Keeps a mapped file open for its page faults.
    pub(in crate::replay) fn map(
        &mut self,
        node: Ino,
        open: SharedId,
        write: bool,
        closes: &mut Vec<Arc<Slot>>,
    ) {
        let old = self.mapped.get(&node).copied();
        if old.is_some_and(|old| old.open == open || old.write && !write) {
            return;
        }
        if self.mapped.len() >= MAPPED && old.is_none() {
            // Files are seldom mapped again after so many others.
            let some = self.mapped.keys().next().copied();
            if let Some(gone) = some.and_then(|some| self.mapped.remove(&some)) {
                self.release(gone.open, closes);
            }
        }
        if self.processes.share(open) {
            self.mapped.insert(node, Mapped { open, write });
            if let Some(old) = old {
                self.release(old.open, closes);
            }
        }
    }

    pub(in crate::replay) fn mapped_open(&self, id: Option<FileId>) -> Option<SharedId> {
        let node = self.tree.identified(id?)?;
        self.mapped.get(&node).map(|mapped| mapped.open)
    }
}

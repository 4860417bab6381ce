//! Open files that something beside descriptors holds: mappings, and rings of io_uring to which they were
//! registered.

use std::sync::Arc;

use fsage_core::{FileId, OpFlags, OpKind};
use fsage_namespace::{Ino, NodeKind, SharedId};

use super::{MAPPED, Mapped, Model, ReplayStep, Skip};
use crate::replay::call::Slot;

impl Model {
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
        found.uses(super::Mode::Shared, &mut step.uses);
        let (fd, old) = self.registered.make(process);
        if let Some((process, fd)) = old {
            let gone = self.processes.close(process, fd);
            self.let_go(gone, &mut step.closes);
        }
        let slot = self.opened(step, fd, Some(node), &found.name);
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

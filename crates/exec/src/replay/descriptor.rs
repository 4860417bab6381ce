//! Operations on open files.

use std::sync::Arc;

use fsage_core::{Errno, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::flags::MS_SYNC;
use fsage_namespace::{Ino, NodeKind, SharedId};

use super::call::Call;
use super::model::{Model, ReplayStep, Skip};
use super::order::{Key, Mode, Use};

const MAP_SHARED: u32 = 1;
const MAP_SHARED_VALIDATE: u32 = 3;
const PROT_WRITE: u32 = 2;
const PAGE: u64 = 4096;

fn descriptor_uses(step: &mut ReplayStep, key: u64, node: Option<Ino>, directory: bool) {
    let op = &step.op;
    let at_position = op.record.contains(OpFlags::IMPLICIT_OFFSET)
        || op.offset.is_none()
        || matches!(op.kind, OpKind::Seek | OpKind::Readdir);
    let moves = matches!(
        op.kind,
        OpKind::Read
            | OpKind::Write
            | OpKind::Seek
            | OpKind::Readdir
            | OpKind::CopyIn
            | OpKind::CopyOut
            | OpKind::Sendfile
            | OpKind::SpliceIn
            | OpKind::SpliceOut
    );
    let own = if moves && at_position || step.inherited.is_some() {
        Mode::Exclusive
    } else {
        Mode::Shared
    };
    step.uses.push(Use(Key::Open(key), own));
    let Some(node) = node else { return };
    let changes = matches!(
        op.kind,
        OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut | OpKind::Ftruncate | OpKind::Fallocate
    );
    let mode = if changes {
        Mode::Exclusive
    } else {
        Mode::Shared
    };
    step.uses.push(Use(Key::File(node), mode));
    if directory && op.kind == OpKind::Readdir {
        step.uses.push(Use(Key::Entries(node), Mode::Exclusive));
    }
}

/// Whether bytes or a position would move that did not: the call failed, and how its file was opened is not
/// why. One call that copies has two files, either of which may be.
fn fails_elsewhere(op: &Op, writable: bool) -> bool {
    let Some(errno) = op.result.errno() else {
        return false;
    };
    match op.kind {
        OpKind::Read => !matches!(errno, Errno::EISDIR | Errno::EBADF),
        OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => true,
        OpKind::Write
        | OpKind::CopyOut
        | OpKind::SpliceOut
        | OpKind::Ftruncate
        | OpKind::Fallocate => writable,
        _ => false,
    }
}

/// Programs ask the kernel to copy "all there is"; what there was is the result. So it is of a write that stopped short,
/// at memory that could not be read.
fn moved_only(step: &mut ReplayStep) {
    let op = &mut step.op;
    if let Some(moved) = op.result.value().filter(|_| op.kind != OpKind::Read) {
        let reads = matches!(
            op.kind,
            OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn
        );
        // Nothing was read because nothing was left: one page is asked for to see that.
        let least = if reads { PAGE } else { 0 };
        op.length = Some(if moved == 0 { least } else { moved });
    }
}

impl Model {
    /// One operation on a descriptor.
    pub(super) fn on_descriptor(
        &mut self,
        step: &mut ReplayStep,
        paths: &PathTable,
    ) -> Result<Call, Skip> {
        let op = step.op;
        let open = match op.kind {
            OpKind::Msync | OpKind::Munmap if op.fd.is_none() => {
                self.mapped_open(op.file).ok_or(Skip::UnknownDescriptor)?
            }
            _ => self.open_of(step, paths)?,
        };
        let file = self.processes.open(open).ok_or(Skip::UnknownDescriptor)?;
        let (slot, node, key) = (Arc::clone(&file.slot), file.node, file.key);
        let (inherited, writable) = (file.inherited, file.writable);
        self.append_where_told(&mut step.op, open);
        if inherited {
            // Its position on the target is another: the trace's own is told.
            step.op.record.0 &= !OpFlags::IMPLICIT_OFFSET.0;
        }
        let directory = node.is_some_and(|n| self.tree.kind(n) == NodeKind::Directory);
        let call = match op.kind {
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => {
                self.moved(&op, open, node, false);
                moved_only(step);
                Ok(Call::File(slot))
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => {
                self.moved(&op, open, node, true);
                moved_only(step);
                Ok(Call::File(slot))
            }
            OpKind::Seek => self.sought(&op, open, directory, slot),
            OpKind::Fstat | OpKind::Fsync | OpKind::Fdatasync => {
                self.note(&op, node);
                Ok(Call::File(slot))
            }
            OpKind::Ftruncate => {
                self.note(&op, node);
                if let (true, Some(node)) = (op.result.is_ok(), node) {
                    self.tree.set_size(node, op.length.unwrap_or(0));
                }
                Ok(Call::File(slot))
            }
            OpKind::Fallocate if op.flags == 0 => {
                self.allocated(&op, open, node);
                Ok(Call::File(slot))
            }
            OpKind::Readdir if op.result.value() == Some(0) => Err(Skip::Free),
            OpKind::Readdir | OpKind::SyncFileRange => Ok(Call::File(slot)),
            OpKind::Fchmod | OpKind::Fchown | OpKind::Futimens => {
                let name = self.name_of(node);
                name.map(Call::Attribute).ok_or(Skip::NoCall)
            }
            OpKind::Fstatfs | OpKind::Syncfs => Ok(Call::Name(Box::default())),
            OpKind::Fchdir => {
                self.set_directory(op.pid, node.filter(|_| op.result.is_ok()));
                Err(Skip::Free)
            }
            OpKind::Mmap => self.mmap(step, open, node),
            OpKind::Munmap => Err(Skip::Free),
            OpKind::Msync if op.flags & MS_SYNC != 0 => Ok(Call::File(slot)),
            _ => Err(Skip::NoCall),
        }?;
        if fails_elsewhere(&op, writable) {
            return Err(Skip::FailedThen);
        }
        descriptor_uses(step, key, node, directory);
        Ok(call)
    }

    /// What is written at the file's end, though it was opened for another place (`fcntl` with `F_SETFL`), is told where
    /// that was; from there on the open file's position on the target is another.
    fn append_where_told(&mut self, op: &mut Op, open: SharedId) {
        let writes = matches!(op.kind, OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut);
        if !writes || !op.record.contains(OpFlags::APPEND) {
            return;
        }
        if let Some(file) = self.processes.open_mut(open)
            && !file.append
        {
            file.inherited = true;
            op.offset = op.offset.or_else(|| Some(self.tree.size(file.node?)));
            op.record.0 &= !OpFlags::IMPLICIT_OFFSET.0;
        }
    }

    fn allocated(&mut self, op: &Op, open: SharedId, node: Option<Ino>) {
        self.note(op, node);
        if let (true, Some(node)) = (op.result.is_ok(), node) {
            let offset = op.offset.unwrap_or(0);
            let end = offset.saturating_add(op.length.unwrap_or(0));
            if self.processes.open(open).is_some_and(|file| file.placed) {
                self.tree.fill(node, offset, end);
            }
            self.tree.extend(node, end);
        }
    }

    /// Bytes went from or to a file.
    fn moved(&mut self, op: &Op, open: SharedId, node: Option<Ino>, write: bool) {
        let Some(file) = self.processes.open_mut(open) else {
            return;
        };
        let implicit = op.record.contains(OpFlags::IMPLICIT_OFFSET) || op.offset.is_none();
        let offset = op.offset.unwrap_or(file.position);
        let placed = file.placed;
        let value = op.result.value().unwrap_or(0);
        let end = offset.saturating_add(value);
        if implicit && op.result.is_ok() {
            file.position = end;
        }
        self.note(op, node);
        let Some(node) = node.filter(|_| op.result.is_ok()) else {
            return;
        };
        if write {
            let appends = op.record.contains(OpFlags::APPEND) && op.offset.is_none();
            let start = if appends {
                self.tree.size(node)
            } else {
                offset
            };
            if value > 0 {
                let end = start.saturating_add(value);
                if placed {
                    self.tree.fill(node, start, end);
                }
                self.tree.extend(node, end);
            }
        } else {
            let whole = value > 0 && value < op.length.unwrap_or(0);
            let end = if value == 0 { 0 } else { end };
            self.tree.saw_bytes(node, end, whole);
        }
    }

    fn sought(
        &mut self,
        op: &Op,
        open: SharedId,
        directory: bool,
        slot: Arc<super::call::Slot>,
    ) -> Result<Call, Skip> {
        let Some(to) = op.result.value() else {
            return Err(Skip::ProgramError);
        };
        if let Some(file) = self.processes.open_mut(open) {
            file.position = to;
        }
        if directory && to != 0 {
            // A place in a directory is the file system's own.
            return Err(Skip::Free);
        }
        Ok(Call::File(slot))
    }

    fn mmap(
        &mut self,
        step: &mut ReplayStep,
        open: SharedId,
        node: Option<Ino>,
    ) -> Result<Call, Skip> {
        let op = step.op;
        let (Some(node), true) = (node, op.result.errno().is_none()) else {
            return Err(Skip::NoCall);
        };
        self.note(&op, Some(node));
        self.tree.expect(node, NodeKind::Regular);
        let shared = matches!((op.flags >> 8) & 3, MAP_SHARED | MAP_SHARED_VALIDATE);
        let writable = self.processes.open(open).is_some_and(|f| f.writable);
        let write = shared && writable && op.flags & PROT_WRITE != 0;
        self.map(node, open, write, &mut step.closes);
        if self.faults {
            return Err(Skip::Free);
        }
        // Which pages were touched is not known: all that the file has there.
        let size = self.tree.size(node);
        let offset = op.offset.unwrap_or(0) / PAGE * PAGE;
        let left = size
            .div_ceil(PAGE)
            .saturating_mul(PAGE)
            .saturating_sub(offset);
        let length = op.length.unwrap_or(0).min(left);
        if length == 0 {
            return Err(Skip::Free);
        }
        (step.op.offset, step.op.length) = (Some(offset), Some(length));
        let slot = self.processes.open(open).map(|f| Arc::clone(&f.slot));
        let slot = slot.ok_or(Skip::UnknownDescriptor)?;
        Ok(Call::Touch { slot, write: false })
    }
}

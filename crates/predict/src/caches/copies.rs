//! Copies that share the blocks of what they are copies of.
//!
//! Such a copy moves no data: it waits until what was written of its source is on the device, and it is in no cache
//! afterwards, so that whoever reads it first reads it where its source lies.

use fsage_core::{COPY_SHARES, COPY_WHOLE_BLOCKS, OpKind, Tid};
use rustc_hash::FxHashMap;

use super::{Passing, View};
use crate::cost::{Charge, Stem};
use crate::namespace::tree::Ino;

/// A file, and its place in the order of creation, by which it is known again.
type Source = (Ino, u64);

/// Whose blocks files share.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    by_copy: FxHashMap<u32, Source>,
    /// The source of the copy whose other side comes next.
    begun: Option<(Tid, Source)>,
    /// Who made the first side of a copy last, whatever it shares.
    read_by: Option<Tid>,
}

impl Copies {
    /// Whether the thread's last operation was the first side of a copy.
    fn begun_by(&self, tid: Tid) -> bool {
        self.begun.is_some_and(|(begun, _)| begun == tid)
    }

    /// It has blocks of its own from now on, or is gone.
    #[inline]
    pub fn forget(&mut self, ino: Ino) {
        if !self.by_copy.is_empty() {
            self.by_copy.remove(&ino.0);
        }
    }
}

impl View {
    /// Whether the operation is a side of a copy that shares blocks on this system. A copy of a file that the trace does
    /// not have lies elsewhere, on another file system as far as is known.
    #[inline]
    pub(super) fn shares_blocks(&self, step: &Passing<'_>) -> bool {
        let on_one = match step.op.kind {
            OpKind::CopyIn => step.resolved.node.is_some(),
            OpKind::CopyOut => self.copies.begun_by(step.op.tid),
            _ => false,
        };
        self.sizes.shares_blocks
            && on_one
            && step.op.flags & (COPY_SHARES | COPY_WHOLE_BLOCKS) != 0
            && step.op.result.value().is_some_and(|bytes| bytes > 0)
    }

    /// A side of a copy. The kernel reads the source in the same call, also one that the trace has not: where that lies
    /// nobody knows, and so it is taken to be cached.
    pub(super) fn copied(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        match step.op.kind {
            OpKind::CopyIn => self.copies.read_by = Some(step.op.tid),
            OpKind::CopyOut if self.copies.read_by.take() != Some(step.op.tid) => {
                let bytes = step.op.result.value().unwrap_or(0);
                if bytes > 0 {
                    charges.push(Charge::sized(Stem::Rc, step.gap, bytes as f64 / 1024.0));
                }
            }
            _ => {}
        }
    }

    pub(super) fn share(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        match step.op.kind {
            OpKind::CopyIn => self.share_from(step, charges),
            _ => self.share_to(step),
        }
    }

    /// The source's side: what was written of it is written back.
    fn share_from(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let (pages, _) = self.pages.clean_range(ino.0, 0, u64::MAX);
        if pages > 0 {
            self.written(ino, pages);
            self.changing(ino).started = true;
            charges.push(Charge::once(Stem::CpsD, step.gap));
            let file = self.file(step, ino);
            if let (Some(drive), Some(file)) = (&mut self.drive, file) {
                let (of, first) = file.place(0);
                drive.hold(of, (first, first.saturating_add(file.inode.size)));
            }
        } else {
            charges.push(Charge::once(Stem::Cps, step.gap));
        }
        // Of which file the program finds the blocks, where the system lists names in another order.
        let ino = self.placed(step, ino);
        let order = step.ns.tree.inode(ino).map(|inode| inode.order);
        self.copies.begun = order.map(|order| (step.op.tid, (ino, order)));
    }

    /// The copy's side: it has its source's blocks, and nothing of it is in memory.
    fn share_to(&mut self, step: &Passing<'_>) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        self.cut_to(ino, 0);
        self.changing(ino).extends(step.ns.tree.size(ino));
        let begun = self.copies.begun.take();
        match begun.filter(|(tid, _)| *tid == step.op.tid) {
            Some((_, source)) => self.copies.by_copy.insert(ino.0, source),
            None => self.copies.by_copy.remove(&ino.0),
        };
    }

    /// The file whose blocks this one shares.
    #[inline]
    pub(super) fn shared(&self, step: &Passing<'_>, ino: Ino) -> Option<Ino> {
        if self.copies.by_copy.is_empty() {
            return None;
        }
        let &(source, order) = self.copies.by_copy.get(&ino.0)?;
        let same = step.ns.tree.inode(source)?.order == order;
        same.then_some(source)
    }
}

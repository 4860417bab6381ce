//! Copies that share the blocks of what they are copies of.
//!
//! Such a copy moves no data: it waits until what was written of its source is on the device, and it is in no cache
//! afterwards, so that whoever reads it first reads it where its source lies.

use fsage_cache::PAGE_BYTES;
use fsage_core::{COPY_SHARES, COPY_WHOLE_BLOCKS, OpKind, Tid};
use rustc_hash::FxHashMap;

use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Stem};
use crate::drive::Found;
use crate::namespace::tree::Ino;
use crate::pattern::Relation;

/// A file, and its place in the order of creation, by which it is known again.
type Source = (Ino, u64);

/// Whose blocks files share.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    by_copy: FxHashMap<u32, Source>,
    /// Where the blocks lie that a program came to as a directory lists its files, by copy; and where the last ones end in
    /// each of the places among which directories take turns.
    firsts: FxHashMap<u32, u64>,
    ends: FxHashMap<u64, u64>,
    /// The source of the copy whose other side comes next, and its first block where that is in `firsts`.
    begun: Option<(Tid, Source, Option<u64>)>,
}

impl Copies {
    /// It has blocks of its own from now on, or is gone.
    #[inline]
    pub fn forget(&mut self, ino: Ino) {
        if !self.by_copy.is_empty() {
            self.by_copy.remove(&ino.0);
            self.firsts.remove(&ino.0);
        }
    }
}

impl View {
    /// Whether the operation is a side of a copy that shares blocks on this system.
    #[inline]
    pub(super) fn shares_blocks(&self, step: &Passing<'_>) -> bool {
        self.sizes.shares_blocks
            && matches!(step.op.kind, OpKind::CopyIn | OpKind::CopyOut)
            && step.op.flags & (COPY_SHARES | COPY_WHOLE_BLOCKS) != 0
            && step.op.result.value().is_some_and(|bytes| bytes > 0)
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
            let kib = pages as f64 * PAGE_KIB;
            self.dirty.less(kib);
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
        let source = self.placed(step, ino);
        let order = step.ns.tree.inode(source).map(|inode| inode.order);
        let first = self.first_listed(step, (ino, source));
        self.copies.begun = order.map(|order| (step.op.tid, (source, order), first));
    }

    /// Where the blocks lie of a file that a program copies as its directory lists it, on a system that lists in the order of
    /// creation: after those that it copied last.
    fn first_listed(&mut self, step: &Passing<'_>, (ino, source): (Ino, Ino)) -> Option<u64> {
        if !self.goes_as_listed(step, ino) {
            return None;
        }
        let turn = self.turn_of(step, ino).unwrap_or(0);
        let file = self.file(step, source)?;
        let end = self.copies.ends.get(&turn).copied();
        let first = end.or(file.first)?;
        let bytes = file.inode.size.checked_next_multiple_of(PAGE_BYTES)?;
        self.copies.ends.insert(turn, first.saturating_add(bytes));
        Some(first)
    }

    /// Where a byte of a copy lies whose source was copied so.
    pub(super) fn copied_to(&self, ino: Ino, offset: u64) -> Option<u64> {
        let first = self.copies.firsts.get(&ino.0)?;
        Some(first.saturating_add(offset))
    }

    /// The copy's side: it has its source's blocks, and nothing of it is in memory.
    fn share_to(&mut self, step: &Passing<'_>) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        self.pages.cut(ino.0, 0);
        self.changing(ino).extended = true;
        self.copies.forget(ino);
        let begun = self.copies.begun.take();
        if let Some((_, source, first)) = begun.filter(|begun| begun.0 == step.op.tid) {
            self.copies.by_copy.insert(ino.0, source);
            if let Some(first) = first {
                self.copies.firsts.insert(ino.0, first);
            }
        }
    }

    /// What a write reads of blocks that it replaces in part: elsewhere on the device, but for a copy of what the drive
    /// still holds.
    pub(super) fn read_before_write(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        offset: u64,
        blocks: u64,
    ) -> Charge {
        let offset = offset - offset % PAGE_BYTES;
        let source = self.shared(step, ino);
        let found = source.and_then(|source| {
            self.ask_data(step, source, (offset, PAGE_BYTES), Relation::Other, None)
        });
        if found == Some(Found::Held) {
            return Charge {
                times: blocks as f64,
                ..Charge::sized(Stem::Rd, step.gap, PAGE_KIB)
            };
        }
        Charge::many(Stem::Wp, step.gap, blocks as f64)
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

//! Copies that share the blocks of what they are copies of.
//!
//! Such a copy moves no data: it waits until what was written of its source is on the device, and it is in no cache
//! afterwards, so that whoever reads it first reads it where its source lies.

use fsage_core::{COPY_SHARES, COPY_WHOLE_BLOCKS, OpKind, Tid};
use rustc_hash::FxHashMap;

use super::removal::kib_of;
use super::{Passing, View};
use crate::cost::{Charge, Stem};
use crate::namespace::tree::Ino;

/// A file whose blocks others share.
#[derive(Debug, Clone, Copy)]
struct Source {
    ino: Ino,
    /// Its place in the order of creation, by which it is known again.
    order: u64,
    /// Where its blocks lie, which stay there when it is gone: on the device, or among those that the trace makes.
    first: Option<u64>,
    after: Option<u64>,
}

/// Whose blocks files share.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies {
    by_copy: FxHashMap<u32, Source>,
    /// The first side of a copy, if that was the last operation: the other side follows it at once.
    begun: Option<Begun>,
}

#[derive(Debug, Clone, Copy)]
struct Begun {
    tid: Tid,
    /// Whose blocks the copy shares, if it does.
    source: Option<Source>,
}

impl Copies {
    /// It has blocks of its own from now on, or is gone.
    #[inline]
    pub fn forget(&mut self, ino: Ino) {
        if !self.by_copy.is_empty() {
            self.by_copy.remove(&ino.0);
        }
    }

    /// Where the blocks lie that a file shares with one that may be gone: on the device, or among those that the trace makes.
    #[inline]
    pub fn place(&self, ino: Ino) -> Option<(Option<u64>, Option<u64>)> {
        let source = self.by_copy.get(&ino.0)?;
        Some((source.first, source.after))
    }
}

impl View {
    /// Whether the operation is a side of a copy that shares blocks on this system. A copy of a file that the trace does
    /// not have lies elsewhere, on another file system as far as is known.
    #[inline]
    pub(super) fn shares_blocks(&self, step: &Passing<'_>) -> bool {
        let on_one = match step.op.kind {
            OpKind::CopyIn => step.resolved.node.is_some(),
            OpKind::CopyOut => self
                .copies
                .begun
                .is_some_and(|begun| begun.source.is_some()),
            _ => false,
        };
        self.sizes.shares_blocks
            && on_one
            && step.op.flags & (COPY_SHARES | COPY_WHOLE_BLOCKS) != 0
            && step.op.result.value().is_some_and(|bytes| bytes > 0)
    }

    /// Follows which operations are sides of one copy. The kernel reads the source in the same call, also one that the trace
    /// has not: where that lies nobody knows, and so it is taken to be cached.
    #[inline]
    pub(super) fn copied(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let tid = step.op.tid;
        let begun = self.copies.begun.take();
        match step.op.kind {
            OpKind::CopyIn => self.copies.begun = Some(Begun { tid, source: None }),
            OpKind::CopyOut if begun.is_some_and(|begun| begun.tid == tid) => {
                self.copies.begun = begun;
            }
            OpKind::CopyOut => {
                let bytes = step.op.result.value().unwrap_or(0);
                if bytes > 0 {
                    charges.push(Charge::sized(Stem::Rc, step.gap, kib_of(bytes)));
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
            self.drive_takes(step, ino, (0, step.ns.tree.size(ino)));
        } else {
            charges.push(Charge::once(Stem::Cps, step.gap));
        }
        // Of which file the program finds the blocks, where the system lists names in another order.
        let ino = self.placed(step, ino);
        let source = self.file(step, ino).map(|file| Source {
            ino,
            order: file.inode.order,
            first: file.first,
            after: file.after,
        });
        if let Some(begun) = &mut self.copies.begun {
            begun.source = source;
        }
    }

    /// The copy's side: it has its source's blocks, and nothing of it is in memory.
    fn share_to(&mut self, step: &Passing<'_>) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        self.cut_to(ino, 0);
        self.changing(ino).extends(step.ns.tree.size(ino));
        if let Some(source) = self.copies.begun.take().and_then(|begun| begun.source) {
            self.copies.by_copy.insert(ino.0, source);
        }
    }

    /// The file whose blocks this one shares.
    #[inline]
    pub(super) fn shared(&self, step: &Passing<'_>, ino: Ino) -> Option<Ino> {
        if self.copies.by_copy.is_empty() {
            return None;
        }
        let source = self.copies.by_copy.get(&ino.0)?;
        let same = step.ns.tree.inode(source.ino)?.order == source.order;
        same.then_some(source.ino)
    }
}

//! Copies that share the blocks of their source: nothing is read and nothing is written, and the copy's
//! pages are not cached.

use fsage_cache::PAGE_BYTES;
use fsage_core::OpKind;

use super::{Step, View};
use crate::cost::{Gap, Need, Stem};
use crate::namespace::Action;

impl View {
    /// Follows either side of a copy. Says whether it shares blocks; if not, it moves data as a read and
    /// a write do.
    pub(super) fn clones(&mut self, step: &Step<'_>, needs: &mut Vec<Need>) -> bool {
        match (step.op.kind, step.resolved.action) {
            (
                OpKind::CopyIn,
                Action::Read {
                    offset,
                    length,
                    eof: false,
                },
            ) => self.clone_from(step, (offset, length), needs),
            (
                OpKind::CopyOut,
                Action::Write {
                    offset,
                    length,
                    old_size,
                    ..
                },
            ) => self.clone_to(step, (offset, length), old_size),
            _ => false,
        }
    }

    /// The side of a copy that reads. Says whether its blocks are shared: whole ones, the last may end
    /// with the file.
    fn clone_from(
        &mut self,
        step: &Step<'_>,
        (offset, length): (u64, u64),
        needs: &mut Vec<Need>,
    ) -> bool {
        let size = step
            .resolved
            .node
            .and_then(|ino| step.ns.tree.inode(ino))
            .map_or(0, |n| n.size);
        let shared = self.sizes.clones && whole_blocks(offset, length, size);
        if shared {
            let kib = length as f64 / 1024.0;
            needs.push(Need::sized(Stem::Clone, Gap::NONE, kib));
            self.cloning.insert(step.op.tid);
        } else {
            self.cloning.remove(&step.op.tid);
        }
        shared
    }

    /// The side that writes. Says whether it shares what its thread's last copy read.
    fn clone_to(&mut self, step: &Step<'_>, (offset, length): (u64, u64), old_size: u64) -> bool {
        let Some(ino) = step.resolved.node else {
            return false;
        };
        let shared = self.cloning.remove(&step.op.tid) && whole_blocks(offset, length, old_size);
        if shared {
            let end = offset.saturating_add(length);
            let state = self.state(ino);
            state.extended |= end > old_size;
            state.overwritten |= offset < old_size;
            if end >= old_size {
                self.pages.cut(ino.0, offset / PAGE_BYTES);
            }
        }
        shared
    }
}

fn whole_blocks(offset: u64, length: u64, size: u64) -> bool {
    offset.is_multiple_of(PAGE_BYTES)
        && (length.is_multiple_of(PAGE_BYTES) || offset.saturating_add(length) >= size)
}

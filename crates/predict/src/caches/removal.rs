//! Truncation and removal by size and state (Smith 2001, 4.4.3.2.3 and 6.1.3.6).

use fsage_cache::{PAGE_BYTES, PageState};

use super::{Step, View};
use crate::cost::{Charge, Stem};
use crate::namespace::tree::Ino;

impl View {
    /// Whether a file's indirect blocks (or its extent tree) are taken to be cached: its first and
    /// last data blocks are (4.4.5.2).
    fn map_cached(&self, ino: Ino, size: u64) -> bool {
        let held = |page| self.pages.peek(ino.0, page) != PageState::Absent;
        held(0) && held(size.saturating_sub(1) / PAGE_BYTES)
    }

    /// The family of a removal: never written back, cached, or not cached.
    fn removal(&self, ino: Ino, size: u64) -> Stem {
        let dirty = self.pages.dirty_pages(ino.0);
        if dirty > 0 && dirty.saturating_mul(2) >= size.div_ceil(PAGE_BYTES) {
            Stem::RmD
        } else if self.map_cached(ino, size) {
            Stem::RmF
        } else {
            Stem::RmFC
        }
    }

    pub(super) fn unlink(
        &mut self,
        step: &Step<'_>,
        freed: bool,
        size: u64,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let kib = size as f64 / 1024.0;
        if freed {
            self.dirty.less(self.pages.dirty_pages(ino.0) as f64 * 4.0);
        }
        // The file stays while it has another name or is open: only the name goes.
        if !freed || size == 0 {
            charges.push(Charge::once(Stem::Rm, step.gap));
        } else {
            charges.push(Charge::sized(self.removal(ino, size), step.gap, kib));
        }
        self.changed_dir(step, true);
    }

    /// Cutting a file; `old` and `new` are its sizes.
    pub(super) fn truncate(
        &mut self,
        step: &Step<'_>,
        old: u64,
        new: u64,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let charge = if new >= old {
            Charge::once(Stem::TrX, step.gap)
        } else if new > 0 {
            Charge::sized(Stem::TrP, step.gap, old as f64 / 1024.0)
        } else {
            let stem = if self.map_cached(ino, old) {
                Stem::Tr
            } else {
                Stem::TrC
            };
            Charge::sized(stem, step.gap, old as f64 / 1024.0)
        };
        charges.push(charge);
        self.pages.cut(ino.0, new.div_ceil(PAGE_BYTES));
        self.changing(ino).extended = true;
    }

    pub(super) fn rename(
        &mut self,
        step: &Step<'_>,
        replaced: Option<(Ino, bool, u64)>,
        charges: &mut Vec<Charge>,
    ) {
        let stem = if replaced.is_some() {
            Stem::RenameR
        } else {
            Stem::Rename
        };
        charges.push(Charge::once(stem, step.gap));
        if let Some((other, true, size)) = replaced
            && size > 64 << 10
        {
            // RENAMER replaces small files.
            let stem = if self.map_cached(other, size) {
                Stem::Tr
            } else {
                Stem::TrC
            };
            charges.push(Charge::sized(stem, step.gap, size as f64 / 1024.0));
        }
        if let Some(ino) = step.resolved.node {
            self.changing(ino).renamed = true;
        }
        self.changed_dir(step, true);
    }

    /// Notes that a directory has changed, for its next fsync.
    pub(super) fn changed_dir(&mut self, step: &Step<'_>, removed: bool) {
        for walk in step.resolved.walks.iter().flatten() {
            let state = self.state(walk.dir);
            if removed {
                state.removed_in = true;
            }
            state.made_in = true;
        }
    }
}

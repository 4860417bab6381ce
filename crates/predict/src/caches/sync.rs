//! fsync and its kin, by what the transaction holds.

use fsage_core::OpKind;

use super::{FileState, LastSync, Step, View};
use crate::cost::{Charge, Stem};
use crate::namespace::tree::{Ino, Kind};

/// Synchronisations of one thread that follow each other within this time are a sequence: the
/// journal's thread is still awake.
const SEQUENCE_NS: u64 = 5_000_000;
const PAGE_KIB: f64 = 4.0;
const MS_SYNC: u32 = 4;

impl View {
    pub(super) fn synchronise(&mut self, step: &Step<'_>, charges: &mut Vec<Charge>) {
        let Some(ino) = step.resolved.node else {
            charges.push(Charge::once(Stem::FsyQ, step.gap));
            return;
        };
        if step.op.kind == OpKind::Msync && step.op.flags & MS_SYNC == 0 {
            charges.push(Charge::once(Stem::FsyQ, step.gap));
            return;
        }
        let directory = step
            .ns
            .tree
            .inode(ino)
            .is_some_and(|n| n.kind == Kind::Directory);
        let parent = step.ns.tree.inode(ino).map_or(Ino::NONE.0, |n| n.parent);
        let state = *self.state(ino);
        let dirty_kib = self.pages.dirty_pages(ino.0) as f64 * PAGE_KIB;
        let last = self
            .last_sync
            .get(&step.op.tid)
            .copied()
            .filter(|l| step.op.start_ns.saturating_sub(l.end_ns) < SEQUENCE_NS);
        let data_only = matches!(step.op.kind, OpKind::Fdatasync);
        let charge = if directory {
            directory_sync(step, ino, state, last)
        } else if state.created {
            new_file_sync(step, dirty_kib, last)
        } else {
            self.old_file_sync(step, ino, state, dirty_kib, last, data_only)
        };
        charges.push(charge);
        let entry = LastSync {
            ino,
            dir: parent,
            end_ns: step.op.end_ns(),
            created: state.created,
            appended: state.extended,
        };
        self.last_sync.insert(step.op.tid, entry);
        let cleaned = self.pages.clean(ino.0);
        self.dirty.less(cleaned as f64 * PAGE_KIB);
        let seen = state.seen;
        *self.state(ino) = FileState {
            seen,
            ..FileState::default()
        };
    }

    fn old_file_sync(
        &mut self,
        step: &Step<'_>,
        ino: Ino,
        state: FileState,
        dirty_kib: f64,
        last: Option<LastSync>,
        data_only: bool,
    ) -> Charge {
        let gap = step.gap;
        let by = |data: Stem, all: Stem| if data_only { data } else { all };
        if state.extended && (dirty_kib > 0.0 || !data_only) {
            let again = last.is_some_and(|l| l.ino == ino && l.appended);
            if data_only && again && dirty_kib <= 16.0 {
                return Charge::once(Stem::FdsS, gap);
            }
            return Charge::sized(by(Stem::Fds, Stem::Fsy), gap, dirty_kib);
        }
        if dirty_kib > 0.0 {
            return if dirty_kib <= 4.0 * PAGE_KIB {
                Charge::once(by(Stem::FdsO, Stem::FsyO), gap)
            } else {
                Charge::sized(by(Stem::Fds, Stem::Fsy), gap, dirty_kib)
            };
        }
        if state.renamed {
            return Charge::once(Stem::FsyRn, gap);
        }
        if state.changed && !data_only {
            return Charge::sized(Stem::Fsy, gap, 0.0);
        }
        let parent = step.ns.tree.inode(ino).map_or(Ino::NONE, |n| Ino(n.parent));
        let removed = parent.is_some() && std::mem::take(&mut self.state(parent).removed_in);
        Charge::once(
            if removed && !data_only {
                Stem::FsyRm
            } else {
                Stem::FsyQ
            },
            gap,
        )
    }

    /// `sync` and `syncfs`: SYNC holds 1 MiB of dirty data; what is beyond it is charged as data.
    pub(super) fn synchronise_all(&mut self, step: &Step<'_>, charges: &mut Vec<Charge>) {
        let states = &mut self.files;
        let pages = self.pages.clean_all(|file| {
            if let Some(state) = states.get_mut(file as usize + 1) {
                *state = FileState {
                    seen: state.seen,
                    ..FileState::default()
                };
            }
        });
        let kib = pages as f64 * PAGE_KIB;
        self.dirty.less(kib);
        charges.push(Charge::once(Stem::Sync, step.gap));
        if kib > 1024.0 {
            charges.push(Charge::sized(Stem::Fsy, step.gap, kib - 1024.0));
        }
    }

    pub(super) fn synchronise_range(&mut self, step: &Step<'_>, charges: &mut Vec<Charge>) {
        let dirty = step.resolved.node.map_or(0, |ino| self.pages.clean(ino.0));
        if dirty == 0 {
            charges.push(Charge::once(Stem::FsyQ, step.gap));
        } else {
            // SFR writes 1 MiB.
            let times = (dirty as f64 * PAGE_KIB / 1024.0).max(0.25);
            charges.push(Charge::many(Stem::Sfr, step.gap, times));
        }
    }
}

fn directory_sync(step: &Step<'_>, ino: Ino, state: FileState, last: Option<LastSync>) -> Charge {
    let stem = match last {
        // The file's fsync has committed the directory with it.
        Some(l) if l.dir == ino.0 && l.created => Stem::FsyDF,
        _ if state.made_in || state.created || state.removed_in => Stem::FsyD,
        _ => Stem::FsyQ,
    };
    Charge::once(stem, step.gap)
}

fn new_file_sync(step: &Step<'_>, dirty_kib: f64, last: Option<LastSync>) -> Charge {
    if dirty_kib == 0.0 {
        Charge::once(Stem::FsyC, step.gap)
    } else if last.is_some_and(|l| l.created) && dirty_kib <= 64.0 {
        Charge::once(Stem::FsyS, step.gap)
    } else {
        Charge::sized(Stem::FsyN, step.gap, dirty_kib)
    }
}

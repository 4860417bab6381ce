//! Truncation and removal by size and state (Smith 2001, 4.4.3.2.3 and 6.1.3.6).

use fsage_cache::{PAGE_BYTES, PageState};
use fsage_core::{CLOSE_BY_DUP, OpKind, Tid};
use rustc_hash::FxHashMap;

use super::sync::stream;
use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::{Held, Ino};

/// What a close started to write is written by then.
const WRITTEN_NS: u64 = 100_000_000;
/// Removals that are nearer to each other are a row; of more than so many left behind each waits
/// (XFS_INODEGC_MAX_BACKLOG), and a little more than that never are. Each takes about so long.
const IN_A_ROW_NS: u64 = 50_000;
const REMOVED: Row = Row {
    most: 256,
    never_more: 320,
    each_ns: 12_000,
};
/// btrfs lets a worker bring names and inodes into its trees from 128 on (BTRFS_DELAYED_BACKGROUND); CRQ is of files far
/// behind those. Files that stay empty do not pay for it: 17.5 us each instead of 14 to 17, and 50 instead of 20 with
/// 4 KiB in each.
const DIRTIED: Row = Row {
    most: 128,
    never_more: 512,
    each_ns: 30_000,
};
/// Calls of a kind in a row, of which each leaves something to be done behind the caller's back.
struct Row {
    /// More that is left than of so many is waited for.
    most: u64,
    /// A little more than that never is.
    never_more: u64,
    /// What takes about so long.
    each_ns: u64,
}

/// When a thread's last call of a row ended, and of how many calls something is left to be done.
type Behind = (u64, u64);

/// Rows as they are now.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// By thread, of removals and of files that became dirty.
    removed: FxHashMap<Tid, Behind>,
    dirtied: FxHashMap<Tid, Behind>,
    /// Whose last hard link it was, from and to which directories, after how many commits.
    pub last_link: Option<(Tid, [Option<Ino>; 2], u32)>,
    /// After how many commits something was renamed last.
    pub renamed_after: Option<u32>,
}

impl Row {
    /// One more call: whether so many came one right after the other that what they leave behind has to be waited for.
    /// What the thread does between them is time in which it is done.
    fn holds_up(&self, (end_ns, behind): &mut Behind, step: &Passing<'_>) -> bool {
        let between_ns = step.op.start_ns.saturating_sub(*end_ns);
        let done = between_ns.saturating_sub(IN_A_ROW_NS) / self.each_ns;
        *behind = behind.saturating_sub(done).min(self.never_more) + 1;
        *end_ns = step.op.end_ns();
        *behind > self.most
    }
}

/// Files of TRF and TRP are no larger, nearly.
const SMALL_KIB: f64 = 64.0;
/// What goes from the files of TRPD.
const CUT_KIB: f64 = 16.0;
/// What CLOSEU was measured with.
const CLOSED_KIB: f64 = 4.0;

pub(super) fn kib_of(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}

impl View {
    /// Whether a file's indirect blocks (or its extent tree) are taken to be cached: its first and
    /// last data blocks are (4.4.5.2), of which there may be no last one, or none at all, where not all was
    /// `written`.
    fn map_cached(&self, ino: Ino, size: u64, written: u64) -> bool {
        let held = |page| self.pages.peek(ino.0, page) != PageState::Absent;
        let last = || written < size || held(size.saturating_sub(1) / PAGE_BYTES);
        written == 0 || held(0) && last()
    }

    /// Whether half of it and more was never written back.
    fn mostly_dirty(&self, ino: Ino, size: u64) -> bool {
        let dirty = self.pages.dirty_pages(ino.0);
        dirty > 0 && dirty.saturating_mul(2) >= size.div_ceil(PAGE_BYTES)
    }

    /// The family of a cut of what was written back: cached, or not cached.
    fn cutting(&self, ino: Ino, size: u64, written: u64) -> Stem {
        if self.map_cached(ino, size, written) {
            Stem::Tr
        } else {
            Stem::TrC
        }
    }

    /// The family of a removal: never written back, cached, or not cached.
    fn removal(&self, ino: Ino, size: u64, written: u64) -> Stem {
        if self.mostly_dirty(ino, written) {
            Stem::RmD
        } else if self.map_cached(ino, size, written) {
            Stem::RmF
        } else {
            Stem::RmFC
        }
    }

    pub(super) fn unlink(
        &mut self,
        step: &Passing<'_>,
        freed: bool,
        held: Held,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let written = self.filled(ino, held);
        // The file stays while it has another name or is open: only the name goes.
        let has_another = step.ns.tree.inode(ino).is_some_and(|i| i.links > 0);
        if !freed && has_another {
            charges.push(Charge::once(Stem::RmL, step.gap));
        } else if !freed || held.size == 0 {
            charges.push(Charge::once(Stem::Rm, step.gap));
        } else {
            let stem = self.removal(ino, held.size, written);
            charges.push(Charge::sized(stem, step.gap, kib_of(written)));
        }
        let behind = self.rows.removed.entry(step.op.tid).or_default();
        if freed && REMOVED.holds_up(behind, step) {
            charges.push(Charge::once(Stem::RmQ, Gap::NONE));
        }
        self.changed_dir(step, true);
    }

    /// The last close of a file without a name: of a longer one than was measured its blocks cost what they do where the
    /// name goes last.
    pub(super) fn closes_nameless(
        &mut self,
        step: &Passing<'_>,
        held: Held,
        charges: &mut Vec<Charge>,
    ) {
        let of = |ino| (ino, self.filled(ino, held));
        let long = step.resolved.node.map(of);
        let Some((ino, written)) = long.filter(|&(_, bytes)| kib_of(bytes) > CLOSED_KIB) else {
            return charges.push(Charge::once(Stem::CloseU, step.gap));
        };
        let stem = self.removal(ino, held.size, written);
        charges.push(Charge::once(Stem::Close, step.gap));
        charges.push(Charge::sized(stem, step.gap, kib_of(written)));
    }

    /// A file became dirty: whether what those before it left to be done is in the way.
    pub(super) fn dirtied(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let behind = self.rows.dirtied.entry(step.op.tid).or_default();
        if DIRTIED.holds_up(behind, step) {
            charges.push(Charge::once(Stem::CrQ, Gap::NONE));
        }
    }

    /// Cutting a file; `old` and `new` are its sizes.
    pub(super) fn truncate(
        &mut self,
        step: &Passing<'_>,
        (old, new): (u64, u64),
        space: u64,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let written = self.filled_within(ino, space, (new, old));
        let kib = kib_of(written);
        let dirty_kib = self.pages.dirty_pages(ino.0) as f64 * PAGE_KIB;
        let state = self.changing(ino);
        // What was added and never written back: some file systems write it before they set the size, up to the new one.
        let unwritten = dirty_kib > 0.0 && state.extended;
        let added = old.min(new).saturating_sub(state.disk_size);
        // The page that holds the end is made to end with zeros, and written as well.
        let ends = old % PAGE_BYTES > 0 && (new >= old || self.sizes.file_system.writes_new_end());
        let writes = unwritten && (added > 0 || ends) && !self.lies_with_inode(old);
        let added_kib = kib_of(added).max(PAGE_KIB).min(dirty_kib);
        let charge = if new >= old && writes {
            Charge::sized(Stem::TrXD, step.gap, added_kib)
        } else if new >= old {
            Charge::once(Stem::TrX, step.gap)
        } else if new > 0 && writes {
            if kib > SMALL_KIB {
                // It is of a file from which no more than CUT_KIB go.
                let stem = if self.mostly_dirty(ino, old) {
                    Stem::TrD
                } else {
                    self.cutting(ino, old, written)
                };
                charges.push(Charge::sized(stem, step.gap, kib));
                charges.push(Charge {
                    times: -1.0,
                    ..Charge::sized(stem, step.gap, CUT_KIB)
                });
            }
            Charge::sized(Stem::TrPD, step.gap, added_kib)
        } else if new > 0 && kib <= SMALL_KIB {
            Charge::once(Stem::TrP, step.gap)
        } else if let Some(gap) = self.since_close(step, ino).filter(|_| kib <= SMALL_KIB) {
            Charge::once(Stem::TrF, gap)
        } else if unwritten && self.mostly_dirty(ino, written) {
            Charge::sized(Stem::TrD, step.gap, kib)
        } else {
            Charge::sized(self.cutting(ino, old, written), step.gap, kib)
        };
        charges.push(charge);
        if new == 0 {
            self.copies.forget(ino);
        }
        self.cut_to(ino, new.div_ceil(PAGE_BYTES));
        self.cut_reserved(ino, new);
        let file_system = self.sizes.file_system;
        let state = self.changing(ino);
        if new != old || file_system.commits_a_size_set_again() {
            (state.extended, state.disk_size) = (true, new);
        } else {
            // Its times are new, and where all is in one tree fdatasync commits them too.
            state.changed = true;
            state.renamed |= file_system.commits_every_change();
        }
    }

    /// Data goes out of the middle of a file, which is cut there; space that is `reserved` for zeros is allocated anew.
    pub(super) fn empty(
        &mut self,
        step: &Passing<'_>,
        (from, to): (u64, u64),
        (space, reserved): (u64, bool),
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let written = self.filled_within(ino, space, (from, to));
        let (dirty, _) = self
            .pages
            .clean_range(ino.0, from / PAGE_BYTES, to.div_ceil(PAGE_BYTES));
        if dirty > 0 {
            self.written(ino, dirty);
        }
        let kib = kib_of(written);
        charges.push(if dirty > 0 {
            Charge::sized(Stem::TrPD, step.gap, dirty as f64 * PAGE_KIB)
        } else if kib <= SMALL_KIB {
            Charge::once(Stem::TrP, step.gap)
        } else {
            let size = step.ns.tree.size(ino);
            Charge::sized(self.cutting(ino, size, written), step.gap, kib)
        });
        if reserved {
            charges.push(Charge::sized(Stem::Falloc, step.gap, kib_of(to - from)));
            self.reserve(ino, from, to - from);
        }
        self.changing(ino);
    }

    /// A file that was truncated and written again is closed, which on many file systems starts its writing.
    pub(super) fn close_truncated(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        charges: &mut Vec<Charge>,
    ) {
        let pages = self.pages.dirty_pages(ino.0);
        if !self.sizes.writes_closed || pages == 0 {
            return;
        }
        // What starting costs is the close's, as far as it is measured: of a small file. Where the device is memory nothing is left to
        // wait for when it is started.
        self.start_writing(step, ino, (0, u64::MAX), &mut Vec::new());
        let kib = pages as f64 * PAGE_KIB;
        let at_once = step.op.kind == OpKind::Close && step.op.flags & CLOSE_BY_DUP == 0;
        if kib > SMALL_KIB && at_once && step.resolved.charged && !self.sizes.seeks {
            charges.push(stream(kib));
            self.flying.0 = 0.0;
        }
        let end_ns = step.op.end_ns();
        self.state(ino).closed_ns = end_ns;
        // What is kept with the inode asks nobody for anything.
        let asks = !self.lies_with_inode(step.ns.tree.size(ino));
        self.gives_way = asks && self.sizes.file_system.gives_way_as_it_writes();
        self.drive_writes(step);
    }

    /// The pause since a close started to write the file, where it may still be written.
    fn since_close(&mut self, step: &Passing<'_>, ino: Ino) -> Option<Gap> {
        let closed_ns = std::mem::take(&mut self.state(ino).closed_ns);
        let since_ns = step.op.start_ns.saturating_sub(closed_ns);
        (closed_ns > 0 && since_ns < WRITTEN_NS).then(|| self.gaps.at(since_ns))
    }

    pub(super) fn rename(
        &mut self,
        step: &Passing<'_>,
        replaced: Option<(Ino, bool, Held)>,
        charges: &mut Vec<Charge>,
    ) {
        let dirty = |ino: Ino| self.pages.dirty_pages(ino.0);
        let new_data = step.resolved.node.map_or(0, dirty);
        charges.push(match replaced {
            Some(_) if new_data > 0 => {
                Charge::sized(Stem::RenameD, step.gap, new_data as f64 * PAGE_KIB)
            }
            Some(_) => Charge::once(Stem::RenameR, step.gap),
            None => Charge::once(Stem::Rename, step.gap),
        });
        if let (Some(_), Some(ino)) = (replaced, step.resolved.node) {
            // Its writing is begun where that of what was truncated and closed is, at a cost that is the rename's.
            self.close_truncated(step, ino, &mut Vec::new());
        }
        if let Some((other, true, held)) = replaced
            && held.size > 64 << 10
        {
            // RENAMER replaces small files.
            let written = self.filled(other, held);
            let stem = self.cutting(other, held.size, written);
            charges.push(Charge::sized(stem, step.gap, kib_of(written)));
        }
        if let Some(ino) = step.resolved.node {
            self.changing(ino).renamed = true;
        }
        self.rows.renamed_after = Some(self.commits);
        self.changed_dir(step, true);
    }

    /// Notes that a directory has changed, for its next fsync.
    pub(super) fn changed_dir(&mut self, step: &Passing<'_>, removed: bool) {
        let turn = self.turn;
        for walk in step.resolved.walks.iter().flatten() {
            self.name_changes(walk.dir, step.resolved.node);
            let state = self.changing(walk.dir);
            let first = std::mem::replace(&mut state.in_turn, turn) != turn;
            if removed {
                state.removed_in = true;
            }
            state.made_in = true;
            self.old_directories += u32::from(first);
        }
    }
}

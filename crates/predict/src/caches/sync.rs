//! fsync and the like, by what the transaction holds.

use fsage_cache::PAGE_BYTES;
use fsage_core::{OpKind, RangeSync};
use fsage_namespace::flags::MS_SYNC;

use super::commits::{ToCommit, commits_data};
use super::{FileState, PAGE_KIB, Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::{Held, Ino, NodeKind};

/// Synchronisations of one thread that follow each other within this time are a sequence: the
/// journal's thread is still awake.
const SEQUENCE_NS: u64 = 5_000_000;
/// Files of FDSA.
const SMALL_BYTES: u64 = 64 << 10;
pub(crate) const MIB_KIB: f64 = 1024.0;
/// The longest write of FDS.
pub(crate) const LONG_KIB: f64 = 16384.0;
/// Of each file of SYNF.
pub(crate) const SYNCED_KIB: f64 = 10.0;
/// What begins at most so far from where the last write ended goes on with it.
const NEAR_BYTES: u64 = 64 << 10;
/// What a file begins with is written in place by FDSB: the blocks that an inode of ext2 holds by themselves.
pub(super) const FIRST_BYTES: u64 = 12 * PAGE_BYTES;
/// Blocks of FDSR, and how far apart they are.
pub(crate) const SCATTERED: f64 = 16.0;
const APART_KIB: f64 = 1024.0;
/// What getting to a place takes of SFR, where data is awaited.
const LEAST_AWAITED: f64 = 0.25;
/// Of a file at most so many ranges of reserved blocks are known.
const RANGES: usize = 64;

/// What a thread synchronised last.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastSync {
    ino: Ino,
    dir: u32,
    end_ns: u64,
    created: bool,
    appended: bool,
}

/// What is dirty of a file.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    kib: f64,
    runs: f64,
    /// Runs beside the first that lie where they did, each as a part of one of FDSR.
    apart: f64,
    /// Runs beside the first for which space has to be found.
    new: f64,
}

impl FileState {
    /// It grows, or is given space; its size until then, in bytes, is the one that it has on the device.
    pub(super) fn extends(&mut self, size: u64) {
        if !self.extended {
            self.disk_size = size;
        }
        self.extended = true;
    }

    /// Bytes from `from` to `to` are written; whether that is apart from what was written last.
    fn lands(&mut self, from: u64, to: u64) -> bool {
        let distance = from.abs_diff(self.end_at);
        let apart = distance > NEAR_BYTES;
        if apart {
            self.elsewhere = self.elsewhere.max(distance);
        }
        self.end_at = to;
        let (first, last) = self.within.unwrap_or((from, to));
        self.within = Some((first.min(from), last.max(to)));
        apart
    }
}

impl View {
    pub(super) fn synchronise(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        if step.op.kind == OpKind::Msync && step.op.flags & MS_SYNC == 0 {
            // Linux only looks whether such a mapping is there.
            charges.push(Charge::once(Stem::Seek, step.gap));
            return;
        }
        let Some(ino) = step.resolved.node else {
            charges.push(Charge::once(Stem::FsyQ, step.gap));
            return;
        };
        self.make_stable(step, ino, step.op.kind != OpKind::Fsync, charges);
    }

    /// Waits until a file is stable; `data_only`: its times need not be.
    pub(super) fn make_stable(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        data_only: bool,
        charges: &mut Vec<Charge>,
    ) {
        let inode = step.ns.tree.inode(ino);
        let directory = inode.is_some_and(|n| n.kind == NodeKind::Directory);
        let parent = inode.map_or(Ino::NONE.0, |n| n.parent);
        let state = *self.state(ino);
        let dirty = self.waiting(ino, state);
        let last = self
            .last_sync
            .get(&step.op.tid)
            .copied()
            .filter(|l| step.op.start_ns.saturating_sub(l.end_ns) < SEQUENCE_NS);
        let metadata = !leaves_attributes(state) || state.changed && !data_only;
        let committed = self.has_committed(state);
        if directory {
            charges.push(directory_sync(step, ino, (state, committed), last));
        } else {
            self.await_started(step, charges);
            if dirty.kib > 0.0 || state.started {
                self.await_drive(step, dirty.kib == 0.0, charges);
            }
            let before = charges.len();
            if dirty.kib == 0.0 && metadata && committed {
                // FSYT is of files among which each is renamed.
                let renamed = self.rows.renamed_after == Some(self.commits);
                let stem = if renamed { Stem::FsyT } else { Stem::FsyTN };
                charges.push(Charge::once(stem, step.gap));
            } else if state.created {
                charges.push(new_file_sync(step, dirty.kib, state, last));
                more_places(dirty, step.gap, charges);
            } else {
                self.old_file_sync(step, ino, (state, dirty, last), data_only, charges);
            }
            if charges.iter().skip(before).any(commits_data) {
                self.commit_elsewhere(step, ino, charges);
                self.arm_commits = true;
            }
        }
        let commits_before = self.commits;
        let commits = metadata || state.made_in || dirty.kib > 0.0 && !data_only;
        let nothing_new = committed && leaves_attributes(state) && !state.made_in;
        self.commits += u32::from(commits && !nothing_new);
        let entry = LastSync {
            ino,
            dir: parent,
            end_ns: step.op.end_ns(),
            created: state.created,
            appended: state.extended,
        };
        self.last_sync.insert(step.op.tid, entry);
        let cleaned = self.pages.clean_range(ino.0, 0, u64::MAX);
        let needs = if directory {
            state.made_in || state.created
        } else {
            metadata
        };
        let to_commit = ToCommit {
            open: !committed && (needs || dirty.kib > 0.0 && !data_only),
            wrote: dirty.kib > 0.0 || state.started,
            last: state.changed_after.saturating_add(1) == commits_before,
        };
        self.ask_stable(step, ino, cleaned, to_commit);
        self.written(ino, cleaned.0);
        *self.state(ino) = FileState {
            // A commit that something else needs holds attributes too.
            changed: state.changed && data_only && leaves_attributes(state),
            changed_after: state.changed_after,
            ..state.stable()
        };
    }

    /// Whether what changed of a file was committed with what another needed.
    fn has_committed(&self, state: FileState) -> bool {
        state.changed_after < self.commits
    }

    /// What is dirty of a file, and how it lies.
    fn waiting(&self, ino: Ino, state: FileState) -> Waiting {
        let kib = self.pages.dirty_pages(ino.0) as f64 * PAGE_KIB;
        let runs = self.pages.dirty_runs(ino.0) as f64;
        let others = (runs - 1.0).max(0.0);
        let new = f64::from(state.places).min(others);
        let mut waiting = Waiting {
            kib,
            runs,
            apart: others - new,
            new,
        };
        if self.sizes.seeks {
            // What lies between two runs is passed over: that takes as much less as it is less.
            if let Some((from, to)) = state.within.filter(|_| others > 0.0) {
                let between = (to.saturating_sub(from) as f64 / 1024.0 - kib).max(0.0) / others;
                waiting.apart *= (between / APART_KIB).min(1.0);
            }
            // A run that does not go on where the last one ended is one apart from it.
            if state.elsewhere > 0 && (kib > 0.0 || self.held_places.0 == 0.0) {
                waiting.runs += 1.0;
                waiting.apart += (state.elsewhere as f64 / 1024.0 / APART_KIB).min(1.0);
            }
        }
        waiting
    }

    fn old_file_sync(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (state, dirty, last): (FileState, Waiting, Option<LastSync>),
        data_only: bool,
        charges: &mut Vec<Charge>,
    ) {
        let gap = step.gap;
        let by = |data: Stem, all: Stem| if data_only { data } else { all };
        let written = dirty.kib > 0.0 || state.started;
        let few = dirty.kib <= 4.0 * PAGE_KIB;
        // Where the device seeks, places count and not what is written there.
        let small = step.ns.tree.size(ino) <= SMALL_BYTES && (self.sizes.seeks || !state.grown);
        if written && (state.extended || state.reserved) {
            let again = last.is_some_and(|l| l.ino == ino && l.appended);
            let charge = match state {
                _ if !few => Charge::sized(by(Stem::Fds, Stem::Fsy), gap, dirty.kib),
                FileState {
                    reserved: false, ..
                } if small => Charge::once(Stem::FdsA, gap),
                FileState { grown: true, .. } if again => Charge::once(Stem::FdsS, gap),
                FileState { grown: true, .. } => {
                    Charge::sized(by(Stem::Fds, Stem::Fsy), gap, dirty.kib.max(PAGE_KIB))
                }
                FileState { reserved: true, .. } => Charge::once(Stem::FdsU, gap),
                _ => Charge::once(Stem::FdsL, gap),
            };
            charges.push(charge);
            return apart(dirty, gap, charges);
        }
        // What is more than a page of each run.
        let more = dirty.kib - PAGE_KIB * dirty.runs;
        if written && more >= MIB_KIB {
            charges.push(Charge::sized(by(Stem::Fds, Stem::Fsy), gap, dirty.kib));
            return apart(dirty, gap, charges);
        }
        if written {
            // Its times were committed with what another needed: only its data is left.
            let only_data = data_only || self.has_committed(state);
            let first = state.within.is_some_and(|(_, to)| to <= FIRST_BYTES);
            let stem = match (only_data, first) {
                (true, true) => Stem::FdsB,
                (true, false) => Stem::FdsO,
                (false, true) => Stem::FsyB,
                (false, false) => Stem::FsyO,
            };
            charges.push(Charge::once(stem, gap));
            charges.extend(streamed(more));
            return apart(dirty, gap, charges);
        }
        // A change of metadata alone: as of a rename.
        if state.renamed || state.extended || state.changed && !data_only {
            charges.push(Charge::once(Stem::FsyRn, gap));
            return;
        }
        let parent = step.ns.tree.inode(ino).map_or(Ino::NONE, |n| Ino(n.parent));
        let removed = parent.is_some() && std::mem::take(&mut self.state(parent).removed_in);
        let stem = if removed && !data_only {
            Stem::FsyRm
        } else {
            Stem::FsyQ
        };
        charges.push(Charge::once(stem, gap));
    }

    /// Notes what a write changes, for the next fsync; whether it is apart from the file's last one.
    pub(super) fn note_write(&mut self, ino: Ino, offset: u64, length: u64, old_size: u64) -> bool {
        let end = offset.saturating_add(length);
        let reserved = self.takes_reserved(ino, offset, end);
        let state = self.changing(ino);
        let apart = state.lands(offset, end);
        state.reserved |= reserved;
        if end > old_size {
            state.extends(old_size);
        }
        state.grown |= !reserved && end.div_ceil(PAGE_BYTES) > old_size.div_ceil(PAGE_BYTES);
        apart
    }

    /// Where a call found something to make stable, by what itself is charged, the arm goes there at once; what it only starts
    /// to write, or waits to be handed over, stays in the drive's memory.
    pub(super) fn arm_syncs(&mut self, step: &Passing<'_>, charges: &[Charge]) {
        if charges
            .iter()
            .all(|c| matches!(c.stem, Stem::FsyQ | Stem::Seek))
        {
            return;
        }
        if step.op.kind == OpKind::SyncFileRange {
            self.drive_writes(step);
            return;
        }
        if let Some(drive) = &mut self.drive {
            drive.each(|drive| drive.leave(step.op.start_ns));
        }
        self.leaves_inodes();
    }

    /// What is handed to a drive now it goes to once nobody asks: it reads on no longer.
    pub(super) fn drive_writes(&mut self, step: &Passing<'_>) {
        if let Some(drive) = &mut self.drive {
            drive.each(|drive| drive.writes(step.op.end_ns()));
        }
    }

    /// A direct write to a file waits in the drive's own cache, at a place of its own where it is `apart` from the
    /// file's last one or another file was written since.
    pub(super) fn drive_holds(&mut self, step: &Passing<'_>, ino: Ino, apart: bool) {
        if !self.sizes.seeks {
            return;
        }
        let another = std::mem::replace(&mut self.last_direct, ino) != ino;
        let held = self.held_by_drive(step);
        let more = f64::from(u8::from(apart || another));
        self.held_places = (held + more, step.op.start_ns);
    }

    /// Places that wait in the drive's cache. It goes to them while nobody asks for anything.
    fn held_by_drive(&self, step: &Passing<'_>) -> f64 {
        let (places, since_ns) = self.held_places;
        let passed_ns = step.op.start_ns.saturating_sub(since_ns) as f64;
        (places - passed_ns / self.sizes.place_ns.max(1) as f64).max(0.0)
    }

    /// A flush waits for all that the drive holds, whoever wrote it; `one` place is paid for.
    fn await_drive(&mut self, step: &Passing<'_>, one: bool, charges: &mut Vec<Charge>) {
        let places = self.held_by_drive(step) - f64::from(u8::from(one));
        self.held_places.0 = 0.0;
        if places > 0.0 {
            charges.push(Charge::many(Stem::FdsR, step.gap, places / SCATTERED));
        }
    }

    /// Notes that a page of a mapping is written.
    pub(super) fn note_fault(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        page: u64,
        charges: &mut Vec<Charge>,
    ) {
        let from = page.saturating_mul(PAGE_BYTES);
        let to = from.saturating_add(PAGE_BYTES);
        let apart = self.state(ino).lands(from, from);
        let hole = !step.ns.tree.allocated(ino, from, to);
        let reserved = self.takes_reserved(ino, from, to);
        self.state(ino).reserved |= reserved || hole;
        if hole {
            self.finds_space(false, charges);
            self.takes_place(ino, !apart);
        }
    }

    /// Whether a page of a file has space, and data in it.
    pub(super) fn holds_data(&self, step: &Passing<'_>, ino: Ino, page: u64) -> bool {
        let from = page.saturating_mul(PAGE_BYTES);
        let to = from.saturating_add(PAGE_BYTES);
        let space = step.ns.tree.space(ino, from, to);
        self.filled_within(ino, space, (from, to)) > 0
    }

    /// Notes that space has to be found for what was written, in a place of its own unless it `goes_on` from the last.
    pub(super) fn takes_place(&mut self, ino: Ino, goes_on: bool) {
        let places = &mut self.state(ino).places;
        *places = places.saturating_add(u32::from(!goes_on));
    }

    /// Notes that a range of a file has room that holds no data.
    pub(super) fn reserve(&mut self, ino: Ino, offset: u64, length: u64) {
        let ranges = self.reserved.entry(ino.0).or_default();
        ranges.truncate(RANGES - 1);
        ranges.push((offset, offset.saturating_add(length)));
    }

    /// How much of what a file holds was written.
    pub(super) fn filled(&self, ino: Ino, held: Held) -> u64 {
        self.filled_within(ino, held.space, (0, held.size))
    }

    /// Of so many bytes with space from `from` to `to`, how many were written: those that were but reserved hold nothing.
    pub(super) fn filled_within(&self, ino: Ino, space: u64, (from, to): (u64, u64)) -> u64 {
        let ranges = self.reserved.get(&ino.0).into_iter().flatten();
        let within = ranges.map(|r| r.1.min(to).saturating_sub(r.0.max(from)));
        space.saturating_sub(within.fold(0, u64::saturating_add))
    }

    /// What was reserved beyond a file's new end is no longer.
    pub(super) fn cut_reserved(&mut self, ino: Ino, end: u64) {
        if let Some(ranges) = self.reserved.get_mut(&ino.0) {
            ranges.retain_mut(|range| {
                range.1 = range.1.min(end);
                range.0 < range.1
            });
            if ranges.is_empty() {
                self.reserved.remove(&ino.0);
            }
        }
    }

    /// Whether a write goes to blocks that were reserved, which hold data from now on.
    fn takes_reserved(&mut self, ino: Ino, from: u64, to: u64) -> bool {
        let Some(ranges) = self.reserved.get_mut(&ino.0) else {
            return false;
        };
        let (from, to) = (
            from - from % PAGE_BYTES,
            to.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX),
        );
        let Some(place) = ranges.iter().position(|r| r.0 < to && from < r.1) else {
            return false;
        };
        let (start, end) = ranges.swap_remove(place);
        let rest = [(start, from), (to, end)];
        ranges.extend(rest.into_iter().filter(|r| r.0 < r.1));
        ranges.truncate(RANGES);
        if ranges.is_empty() {
            self.reserved.remove(&ino.0);
        }
        true
    }

    /// `sync` and `syncfs`: SYNC is of one file of 1 MiB, each other file is one SYNF, each new directory one SYND, each
    /// other one whose names changed one SYNO. What is beyond is charged as data.
    pub(super) fn synchronise_all(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let (files, pages) = if self.sizes.arm_alone {
            self.ask_all_stable(step)
        } else {
            self.clean_all()
        };
        let kib = pages as f64 * PAGE_KIB;
        self.dirty.less(kib);
        self.dirty.settled();
        self.turn += 1;
        let new = std::mem::take(&mut self.new_directories);
        // SYNC and SYNF are of files in one directory.
        let old = std::mem::take(&mut self.old_directories).saturating_sub(1);
        charges.push(Charge::once(Stem::Sync, step.gap));
        for (stem, directories) in [(Stem::SynD, new), (Stem::SynO, old)] {
            if directories > 0 {
                charges.push(Charge::many(stem, step.gap, f64::from(directories)));
            }
        }
        if files > 1.0 {
            charges.push(Charge::many(Stem::SynF, step.gap, files - 1.0));
            // Less than nothing where files are smaller, and never less than what was measured holds.
            let (first, other) = self.sizes.synced_kib;
            let most = f64::from(first) + (files - 1.0) * f64::from(other);
            let more = kib - MIB_KIB - (files - 1.0) * SYNCED_KIB;
            charges.push(stream(more.max(-most)));
        } else if kib > MIB_KIB {
            charges.push(Charge::sized(Stem::Fsy, step.gap, kib - MIB_KIB));
        }
    }

    pub(super) fn synchronise_range(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let what = RangeSync(step.op.flags);
        let before = charges.len();
        if let Some(ino) = step.resolved.node {
            if what.waits_before() {
                self.await_started(step, charges);
            }
            if what.writes() {
                let from = step.op.offset.unwrap_or(0);
                let length = step.op.length.filter(|&l| l > 0).unwrap_or(u64::MAX);
                self.start_writing(step, ino, (from, length), charges);
            }
            if what.waits_after()
                && let Some(start) = charges.iter_mut().find(|c| c.stem == Stem::SfrW)
            {
                *start = started_and_awaited(start.size, step.gap);
                self.flying.0 = 0.0;
            }
        }
        if charges.len() == before {
            charges.push(Charge::once(Stem::FsyQ, step.gap));
        }
    }

    /// Starts writing what is dirty of a range.
    pub(super) fn start_writing(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (from, length): (u64, u64),
        charges: &mut Vec<Charge>,
    ) {
        let end = from.saturating_add(length).div_ceil(PAGE_BYTES);
        let (pages, _) = self.pages.clean_range(ino.0, from / PAGE_BYTES, end);
        if pages == 0 {
            return;
        }
        let kib = pages as f64 * PAGE_KIB;
        self.written(ino, pages);
        charges.push(Charge::sized(Stem::SfrW, step.gap, kib));
        self.flying = (self.in_flight(step) + kib, step.op.start_ns);
        // Blocks are found for what is written.
        self.changing(ino).started = true;
    }

    /// KiB whose writing was started and that the device has not written by now.
    fn in_flight(&self, step: &Passing<'_>) -> f64 {
        let (kib, since_ns) = self.flying;
        let passed_s = step.op.start_ns.saturating_sub(since_ns) as f64 / 1e9;
        let rate = self.sizes.write_kib_per_s as f64;
        if rate > 0.0 {
            (kib - rate * passed_s).max(0.0)
        } else {
            0.0
        }
    }

    /// Waits for what was started, of any file: the device writes one after the other.
    fn await_started(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        charges.extend(streamed(self.in_flight(step)));
        self.flying.0 = 0.0;
    }
}

/// Starting to write so many KiB, and waiting for them: SFR is of 1 MiB, and a little takes most of that.
pub(super) fn started_and_awaited(kib: f64, gap: Gap) -> Charge {
    Charge::many(Stem::Sfr, gap, (kib / MIB_KIB).max(LEAST_AWAITED))
}

/// The share of a long write that so many KiB are.
fn streamed(kib: f64) -> Option<Charge> {
    (kib > 0.0).then(|| stream(kib))
}

/// Data in so many KiB of a long write.
pub(super) fn stream(kib: f64) -> Charge {
    Charge {
        times: kib / LONG_KIB,
        ..Charge::sized(Stem::Fds, Gap::NONE, LONG_KIB)
    }
}

/// Whether fdatasync leaves a file's attributes to a later fsync.
fn leaves_attributes(state: FileState) -> bool {
    !(state.created || state.extended || state.reserved || state.renamed)
}

/// Charges what finding space for more than one run takes.
fn more_places(dirty: Waiting, gap: Gap, charges: &mut Vec<Charge>) {
    if dirty.new > 0.0 {
        charges.push(Charge::many(Stem::FsyNR, gap, dirty.new));
    }
}

/// Charges runs that lie apart from the first.
fn apart(dirty: Waiting, gap: Gap, charges: &mut Vec<Charge>) {
    more_places(dirty, gap, charges);
    if dirty.apart > 0.0 {
        // FDSR is of one run and others, of which the first is paid for.
        let times = dirty.apart / (SCATTERED - 1.0);
        charges.push(Charge::many(Stem::FdsR, gap, times));
        charges.push(Charge::many(Stem::FdsO, Gap::NONE, -times));
    }
}

fn directory_sync(
    step: &Passing<'_>,
    ino: Ino,
    (state, committed): (FileState, bool),
    last: Option<LastSync>,
) -> Charge {
    let changed = state.made_in || state.created || state.removed_in;
    let stem = match last {
        // The file's fsync has committed the directory with it, unless its name changed after that.
        Some(l) if l.dir == ino.0 && l.created && committed => Stem::FsyDF,
        _ if changed && committed => Stem::FsyT,
        _ if changed => Stem::FsyD,
        _ => Stem::FsyQ,
    };
    Charge::once(stem, step.gap)
}

fn new_file_sync(
    step: &Passing<'_>,
    dirty_kib: f64,
    state: FileState,
    last: Option<LastSync>,
) -> Charge {
    if dirty_kib == 0.0 && state.started {
        Charge::once(Stem::FsyW, step.gap)
    } else if dirty_kib == 0.0 {
        Charge::once(Stem::FsyC, step.gap)
    } else if last.is_some_and(|l| l.created) && dirty_kib <= 64.0 {
        Charge::once(Stem::FsyS, step.gap)
    } else {
        Charge::sized(Stem::FsyN, step.gap, dirty_kib)
    }
}

//! Where requests go on the device, and what reads there are charged as.

use fsage_cache::PAGE_BYTES;
use fsage_core::Op;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

use super::lookup::INODES_TOGETHER;
use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Stem};
use crate::drive::{Found, Of, Request};
use crate::namespace::tree::{Ino, Inode, NodeKind};
use crate::pattern::{NEAR_BYTES, NEXT_BYTES, Placed, Relation};

/// Inodes that come together where directories take turns: a cluster of XFS, of inodes of 512 bytes.
const INODES_READ: u64 = 32;

/// A request that took less was answered by a device in memory.
const QUICK_NS: u64 = 200_000;

/// How long the traced device took for requests: where most took next to nothing, one that took long waited for a
/// processor, and not the device with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answers {
    quick: u32,
    all: u32,
}

impl Answers {
    /// Until when the traced device was busy with an operation.
    fn until_ns(&mut self, op: &Op) -> u64 {
        let took_ns = op.latency_ns.unwrap_or(0);
        self.all = self.all.saturating_add(1);
        self.quick = self.quick.saturating_add(u32::from(took_ns < QUICK_NS));
        let most_ns = if self.quick > self.all / 2 {
            QUICK_NS
        } else {
            u64::MAX
        };
        op.start_ns.saturating_add(took_ns.min(most_ns))
    }
}

impl View {
    /// A file where this system would have put it.
    pub(super) fn file<'a>(&mut self, step: &Passing<'a>, ino: Ino) -> Option<Placed<'a>> {
        let mut file = Placed::traced(ino, step.ns.tree.inode(ino)?);
        let own = self.sizes.file_system.is(step.ns.laid_out_by);
        let turns = self.sizes.directories_in_turn.filter(|_| !own);
        if let (Some((apart, places)), Some(_)) = (turns, file.first) {
            if self.laid_out.is_empty() {
                self.lay_out(step, (apart, places));
            }
            file.first = self.laid_out.get(&ino.0).copied();
            file.pieces = &[];
        }
        if let Some((first, after)) = self.copies.place(ino) {
            (file.first, file.after, file.pieces) = (first, after, &[]);
        } else if file.first.is_none() {
            file.after = self.grown.first((ino, file.inode.order));
        }
        // Into which pieces a file is cut is the file system's own.
        if !own {
            file.pieces = &[];
        }
        Some(file)
    }

    /// In which of the places among which directories take turns a file lies.
    pub(super) fn turn_of(&mut self, step: &Passing<'_>, ino: Ino) -> Option<u64> {
        let (_, places) = self.sizes.directories_in_turn?;
        let dir = step.ns.tree.inode(ino)?.parent;
        Some(self.directory_rank(step, dir) % places)
    }

    /// A drive is given so many bytes of a file, and holds them until it goes there to write them.
    pub(super) fn drive_takes(&mut self, step: &Passing<'_>, ino: Ino, (from, bytes): (u64, u64)) {
        let file = self.file(step, ino);
        if let (Some(drive), Some(file)) = (&mut self.drive, file) {
            let (of, first) = file.place(from);
            let end = first.saturating_add(bytes);
            drive.each(|drive| drive.takes(of, (first, end), step.op.start_ns));
        }
    }

    /// A file that the trace makes is written up to byte `end`.
    pub(super) fn grows(&mut self, step: &Passing<'_>, ino: Ino, end: u64) {
        let inode = step.ns.tree.inode(ino);
        let made = inode.filter(|inode| inode.born && inode.physical.is_none());
        if let Some(inode) = made.filter(|_| self.drive.is_some()) {
            let turn = self.turn_of(step, ino).unwrap_or(0);
            self.grown.writes((ino, inode.order), turn, end);
        }
    }

    /// Where the first block of a directory lies among those of all: beside that of the one created before it, or of the
    /// one before it in its place where directories take turns.
    pub(super) fn directory_place(&mut self, step: &Passing<'_>, dir: Ino) -> u64 {
        let rank = self.directory_rank(step, dir.0);
        let (apart, places) = self.sizes.directories_in_turn.unwrap_or((0, 1));
        let first = (rank / places).saturating_mul(PAGE_BYTES);
        (rank % places).saturating_mul(apart).saturating_add(first)
    }

    /// Lays the files of directories that take turns among places one after another in each, in the order in which they
    /// lie where they were traced.
    fn lay_out(&mut self, step: &Passing<'_>, (apart, places): (u64, u64)) {
        let all = step.ns.tree.inodes().iter().zip(0..);
        let mut files: Vec<_> = all
            .filter_map(|(inode, ino)| Some((inode.physical?, ino, inode.parent, inode.size)))
            .collect();
        files.sort_unstable();
        let mut ends: FxHashMap<u64, u64> = FxHashMap::default();
        for (_, ino, parent, size) in files {
            let turn = self.directory_rank(step, parent) % places;
            let end = ends.entry(turn).or_insert(turn.saturating_mul(apart));
            self.laid_out.insert(ino, *end);
            let bytes = size.checked_next_multiple_of(PAGE_BYTES);
            *end = end.saturating_add(bytes.unwrap_or(u64::MAX));
        }
    }

    /// In which block of inodes that of a file lies. Where directories take turns, those of their files lie one after
    /// another in each place, in the order of creation.
    pub(super) fn stretch_of(&mut self, step: &Passing<'_>, ino: Ino) -> u64 {
        let Some(inode) = step.ns.tree.inode(ino) else {
            return u64::MAX;
        };
        let own = self.sizes.file_system.is(step.ns.laid_out_by);
        let Some((apart, places)) = self.sizes.directories_in_turn.filter(|_| !own) else {
            return inode.order / INODES_TOGETHER;
        };
        if self.inodes_laid_out.is_empty() {
            self.lay_out_inodes(step, (apart, places));
        }
        let place = self.inodes_laid_out.get(&ino.0).copied();
        // One that came later lies behind all.
        place.unwrap_or(u64::MAX) / PAGE_BYTES
    }

    fn lay_out_inodes(&mut self, step: &Passing<'_>, (apart, places): (u64, u64)) {
        let all = step.ns.tree.inodes().iter().zip(0..);
        let old = all.filter(|(inode, _)| inode.in_scope && !inode.born);
        let mut old: Vec<(u64, u32, u32)> = old
            .map(|(inode, ino)| match inode.kind {
                // A directory's own lies with those of its files.
                NodeKind::Directory => (inode.order, ino, ino),
                _ => (inode.order, ino, inode.parent),
            })
            .collect();
        old.sort_unstable();
        let mut counts: FxHashMap<u64, u64> = FxHashMap::default();
        for (_, ino, dir) in old {
            let turn = self.directory_rank(step, dir) % places;
            let count = counts.entry(turn).or_default();
            let place = turn.saturating_mul(apart);
            let place = place.saturating_add(*count / INODES_READ * PAGE_BYTES);
            self.inodes_laid_out.insert(ino, place);
            *count += 1;
        }
    }

    /// A directory's place among all in the order of creation: of their inodes' numbers, but that none is older than the
    /// one it lies in, whose inode may have been put elsewhere.
    pub(super) fn directory_rank(&mut self, step: &Passing<'_>, dir: u32) -> u64 {
        if self.directories.is_empty() {
            let tree = &step.ns.tree;
            let counts = |inode: &Inode| inode.kind == NodeKind::Directory && inode.in_scope;
            let all = tree.inodes().iter().zip(0..);
            let mut all: Vec<(u64, u32)> = all
                .filter(|(inode, _)| counts(inode))
                .map(|(inode, ino)| (inode.order, ino))
                .collect();
            all.sort_unstable();
            let (mut above, mut count) = (Vec::new(), 0u64);
            for (_, ino) in all {
                let mut next = ino;
                while let Entry::Vacant(place) = self.directories.entry(next) {
                    place.insert(0);
                    above.push(next);
                    let parent = tree.inode(Ino(next)).map_or(Ino::NONE, |i| Ino(i.parent));
                    if !tree.inode(parent).is_some_and(counts) {
                        break;
                    }
                    next = parent.0;
                }
                for ino in above.drain(..).rev() {
                    self.directories.insert(ino, count);
                    count += 1;
                }
            }
        }
        // One that came later lies behind all.
        let behind = self.directories.len() as u64;
        *self.directories.entry(dir).or_insert(behind)
    }

    /// Where the data of a request is, on a device whose arm has to move; a neighbour of the last request is on its
    /// way, unless the arm has left. `next`: where it is taken to lie instead.
    pub(super) fn ask_data(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        relation: Relation,
        next: Option<u64>,
    ) -> Option<[Found; 2]> {
        let file = self.file(step, ino)?;
        let drive = self.drive.as_mut()?;
        let now_ns = step.op.start_ns;
        let until_ns = self.answers.until_ns(step.op);
        let (of, first) = next.map_or_else(|| file.place(offset), |first| (Of::Data, first));
        // Where places are known, so is whether it lies before what was asked for last: nothing brings that.
        let near_bytes = match relation {
            _ if next.is_none() && self.last_data.passed(file, offset) => None,
            Relation::Next => Some(NEXT_BYTES),
            Relation::Near => Some(NEAR_BYTES),
            _ => None,
        };
        let place = (first, first.saturating_add(length.max(1)));
        self.request = Some(Request {
            of,
            first: place.0,
            end: place.1,
            waits: false,
            near: false,
            ahead: false,
        });
        // What follows within a file came with what was asked for before it; others' requests come while one waits.
        let goes_on = matches!(relation, Relation::Sequential | Relation::Same);
        let alone = self.last_reader == Some(step.op.tid);
        Some(drive.find(|drive| {
            let beside = near_bytes.is_some_and(|bytes| drive.reaches(of, bytes, now_ns));
            let found = drive.ask(of, place, now_ns, until_ns);
            if found == Found::Held && !goes_on && alone && next.is_none() {
                drive.answers(until_ns.saturating_sub(now_ns));
            }
            match found {
                Found::Elsewhere if beside => Found::Coming(0),
                Found::Coming(_) if relation != Relation::Far && relation != Relation::Other => {
                    Found::Coming(0)
                }
                found => found,
            }
        }))
    }

    /// How far from the last request a read of another file lies that was read before, where an arm moves and both places
    /// are known: so far between two files is as far as in one.
    pub(super) fn far_in_kib(&self, file: Placed<'_>, offset: u64, fresh: bool) -> Option<u64> {
        let bytes = self.last_data.bytes_to(file, offset)?;
        (!fresh && self.drive.is_some() && bytes > NEAR_BYTES).then_some(bytes / 1024)
    }

    /// Notes a request of so many bytes, for the next one; `next`: where it was taken to lie.
    pub(super) fn note_data(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        next: Option<u64>,
    ) {
        if self.waits_for_files() {
            let last = offset.saturating_add(length.max(1) - 1) / PAGE_BYTES;
            self.rooms.reads(step.ns, ino, last);
        }
        if let Some(file) = self.file(step, ino) {
            self.last_data.note(file, offset.saturating_add(length));
            self.last_reader = Some(step.op.tid);
        }
        if let Some(first) = next {
            self.last_data.ends_at(first.saturating_add(length));
        }
        if let Some(end) = self.last_data.end() {
            self.data_ends(step, ino, end);
        }
    }

    /// Pages of a file in pieces that do not lie behind the one before are asked for by themselves; so many at the beginning
    /// of a read are in its own charge.
    pub(super) fn charge_jumps(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        charged: u64,
        charges: &mut Vec<Charge>,
    ) {
        let Some(file) = self.file(step, ino) else {
            return;
        };
        let last = offset.saturating_add(length.max(1) - 1) / PAGE_BYTES;
        for bytes in file.jumps(offset / PAGE_BYTES + charged..=last) {
            let distance = self.sizes.off_kib(bytes / 1024);
            charges.push(Charge::sized(Stem::Rx, step.gap, distance));
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::Rd, step.gap, PAGE_KIB)
            });
        }
    }
}

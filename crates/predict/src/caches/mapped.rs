//! Mapped files: what a fault maps, and what a store through a mapping makes dirty.
//!
//! Since pages of a file may lie together in one piece of memory (a folio), a fault maps all of it and a store makes all of it
//! dirty, where the file system has such pieces. How long they are is decided by what brought the pages: a write as long as
//! itself, reading ahead its window, a fault its page alone. So one trace tells another number of faults than another system
//! has: touches that a system with long pieces never sees, or faults that it does not have.

use std::ops::Range;

use fsage_cache::{PAGE_BYTES, PageState};
use fsage_core::{Op, OpKind, Pid};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::Ino;

/// Pages that a fault maps where each lies alone: Linux's `fault_around_bytes`, 64 KiB.
const AROUND_PAGES: u64 = 16;
/// The longest piece, 2 MiB: what one entry of a page table's second level maps.
const LONGEST_PAGES: u64 = 512;
/// So many faults a piece, of all, say that the traced system has no long ones: where it has them there is one.
const AGAIN_SHARE: u32 = 4;

/// How many pages a fault maps at most, one that reads (MFRK) and one that writes (MFWK), and how many become dirty (MFWD).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FaultPages {
    /// Where it reads.
    pub read: u64,
    /// Where it writes.
    pub store: u64,
    /// What one store makes dirty.
    pub dirty: u64,
}

/// What faults there were in a file, since it was unmapped.
#[derive(Debug, Clone, Default)]
pub(super) struct Mapped {
    /// Who made the last ones: another process's mapping knows nothing of them.
    pid: Option<Pid>,
    reads: Faults,
    stores: Faults,
    /// Pages that they mapped.
    pages: u64,
}

/// Faults of one kind.
#[derive(Debug, Clone, Default)]
struct Faults {
    /// The page of the first in each piece.
    pieces: FxHashMap<u64, u64>,
    /// What reads mapped beside those: all around them.
    around: FxHashSet<u64>,
    last: u64,
    /// How far the last one was from the one before it.
    step: u64,
}

impl Faults {
    /// How many pages on a program went since the fault before that goes from page to page, where a fault is told of each
    /// piece only: two steps of a length that pieces have, from where they begin.
    fn goes_on(&mut self, page: u64) -> u64 {
        let step = page.wrapping_sub(self.last);
        let even = step == self.step && step.is_power_of_two() && page.is_multiple_of(step);
        (self.last, self.step) = (page, step);
        if even && step <= LONGEST_PAGES {
            step
        } else {
            1
        }
    }
}

/// Faults that the traced system had: in pieces where one was before, and in others.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FaultsSeen {
    again: u32,
    first: u32,
}

impl FaultsSeen {
    /// Whether it told faults of single pages of a piece.
    fn by_page(self) -> bool {
        self.again > self.first / AGAIN_SHARE
    }
}

/// How a fault's touches are found.
struct Touch {
    /// The piece.
    piece: Range<u64>,
    /// There was a fault in it before, whose mapping is there.
    again: bool,
    /// A page that was read before is stored to: its mapping alone is changed, on any system.
    mapped: bool,
    /// Pages since the last one, if the program goes from one to the next.
    step: u64,
    /// Pieces with a fault until now.
    pieces: u64,
}

/// Whether the trace saw nothing come with what a fault asked for.
pub(super) fn comes_alone(op: &Op) -> bool {
    op.kind == OpKind::Fault && op.pages_missed > Some(0) && op.pages_ahead == Some(0)
}

impl View {
    /// Notes how long the pieces are in which pages of a file came now.
    pub(super) fn came_together(&mut self, ino: Ino, first: u64, pages: u64) {
        let longest = pages.clamp(1, LONGEST_PAGES).ilog2();
        let aligned = if first == 0 {
            longest
        } else {
            first.trailing_zeros()
        };
        self.state(ino).together = longest.min(aligned) as u8;
    }

    /// Unmapping takes as long as what was touched is long.
    pub(super) fn unmap(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let mapped = step
            .resolved
            .node
            .and_then(|ino| self.mapped.remove(&ino.0));
        let kib = step.op.length.unwrap_or(0).div_ceil(1024) as f64;
        let touched = mapped.map_or(0.0, |mapped| mapped.pages as f64 * PAGE_KIB);
        charges.push(Charge::sized(Stem::Munmap, step.gap, kib.min(touched)));
    }

    /// A fault on a mapped page. One that is not there comes with half a window on either side, and costs as a read of
    /// what has come. One that finds its page is the program's own time where the trace has no latency of it.
    pub(super) fn fault(
        &mut self,
        step: &Passing<'_>,
        (offset, length): (u64, u64),
        write: bool,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let first = offset / PAGE_BYTES;
        let last = offset.saturating_add(length.clamp(1, 1 << 21) - 1) / PAGE_BYTES;
        let (mut brought, mut holes, dirty) = (0u64, 0u64, self.pages.dirty());
        let runs = self.pages.dirty_runs(ino.0);
        let (mut absent, mut was_dirty) = (false, true);
        let touch = self.touch(step, ino, first, write);
        for page in first..=last {
            let held = self.holds_data(step, ino, page);
            let before = if write {
                self.note_fault(step, ino, page, charges);
                self.pages.write(ino.0, page, 0, step.op.start_ns)
            } else {
                self.pages.read(ino.0, page, false)
            };
            absent |= before == PageState::Absent;
            let dirty = matches!(before, PageState::Dirty(_));
            was_dirty &= dirty;
            holes += u64::from(!held && !dirty && (write || before == PageState::Absent));
            brought += u64::from(before == PageState::Absent && held);
        }
        if absent {
            self.came_together(ino, first, touch.step);
        }
        if brought > 0 {
            self.brings(step, ino, first, brought, charges);
        }
        let pages = if holes > 0 {
            let brings = absent && brought == 0;
            let onward = if write { touch.step } else { 1 };
            let pages = self.fills(step, ino, (first, holes, onward), brings, charges);
            // On a disk what lies so near is found under the arm: FSYNR is of blocks a mebibyte apart.
            if write && !self.sizes.seeks {
                self.takes_place(ino, self.pages.dirty_runs(ino.0) <= runs);
            }
            pages
        } else if write && was_dirty && step.op.latency_ns.is_none() {
            // No tracer sees the end of a store to what is dirty already: it is the program's own time.
            last - first + 1
        } else if write {
            let pages = self.stores(step, ino, first, &touch, charges);
            self.make_room(step, charges);
            pages
        } else if brought == 0 && step.op.latency_ns.is_some() {
            self.maps(step, ino, &touch, charges)
        } else {
            AROUND_PAGES
        };
        self.mapped.entry(ino.0).or_default().pages += pages;
        if write {
            self.scatters(ino, (false, dirty), charges);
        }
    }

    /// Faults on so many pages from one on that have no space; how many pages are mapped then. Each is given some by itself,
    /// unless the program goes from page to page and was told of a whole piece: windows that are read ahead grow, and with
    /// them the pieces. What is not in memory comes as zeros, with what is around it.
    fn fills(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (first, holes, onward): (u64, u64, u64),
        brings: bool,
        charges: &mut Vec<Charge>,
    ) -> u64 {
        let size = pages_of(step, ino);
        if brings {
            let half = self.sizes.read_ahead / 2;
            let around = first.saturating_sub(half)..first.saturating_add(half).min(size);
            let came = around.filter(|&page| self.pages.prefetch(ino.0, page));
            let kib = (came.count() + 1) as f64 * PAGE_KIB;
            charges.push(Charge::sized(Stem::MfRH, step.gap, kib));
        }
        let mut more = 0;
        for page in first + holes..first.saturating_add(onward).min(size) {
            if !self.holds_data(step, ino, page) {
                self.note_fault(step, ino, page, charges);
                self.pages.write(ino.0, page, 0, step.op.start_ns);
                more += 1;
            }
        }
        let mut found = holes - u64::from(brings);
        let store = self.sizes.fault_pages.store;
        if store > 1 && more > 0 {
            let share = (more as f64 / (store - 1) as f64).min(1.0);
            for (stem, times) in [(Stem::MfWB, share), (Stem::MfW, -share)] {
                charges.push(Charge::many(stem, step.gap, times));
            }
        } else {
            found += more;
        }
        if found > 0 {
            charges.push(Charge::many(Stem::MfWH, step.gap, found as f64));
        }
        self.make_room(step, charges);
        holes + more
    }

    /// What a fault brings beside its page.
    fn brings(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        first: u64,
        mut brought: u64,
        charges: &mut Vec<Charge>,
    ) {
        // Who said that it goes anywhere (madvise) gets what it asks for: the trace saw nothing else come.
        let alone = comes_alone(step.op);
        let half = if alone { 0 } else { self.sizes.read_ahead / 2 };
        let size = pages_of(step, ino);
        let mut from = first;
        for page in first.saturating_sub(half)..first.saturating_add(half).min(size) {
            if self.holds_data(step, ino, page) && self.pages.prefetch(ino.0, page) {
                from = from.min(page);
                brought += 1;
            }
        }
        let (from, bytes) = (from * PAGE_BYTES, brought * PAGE_BYTES);
        let kib = bytes as f64 / 1024.0;
        self.disk_read(step, ino, from, bytes, kib, true, charges);
    }

    /// Where a fault lies to those before it.
    fn touch(&mut self, step: &Passing<'_>, ino: Ino, page: u64, write: bool) -> Touch {
        // What it brings itself comes alone.
        let there = self.pages.peek(ino.0, page) != PageState::Absent;
        let order = if there {
            u32::from(self.state(ino).together)
        } else {
            0
        };
        let start = page >> order << order;
        let piece = start..start.saturating_add(1 << order);
        let mapped = self.mapped.entry(ino.0).or_default();
        if mapped.pid.replace(step.op.pid) != Some(step.op.pid) {
            (mapped.reads, mapped.stores) = Default::default();
        }
        let read = mapped.reads.around.contains(&(page / AROUND_PAGES))
            || !self.faults_seen.by_page() && mapped.reads.pieces.contains_key(&start);
        let faults = if write {
            &mut mapped.stores
        } else {
            &mut mapped.reads
        };
        let before = faults.pieces.get(&start).copied();
        // What was made stable since is mapped no more, for stores.
        let pages = &self.pages;
        let still = |&page: &u64| !write || matches!(pages.peek(ino.0, page), PageState::Dirty(_));
        let again = before.as_ref().is_some_and(still);
        if !again {
            faults.pieces.insert(start, page);
        }
        let step = faults.goes_on(page);
        let pieces = faults.pieces.len() as u64;
        if !write {
            faults.around.insert(page / AROUND_PAGES);
        }
        let mapped = write && read;
        // A read fault maps what is around it in either case.
        if !mapped && order > 0 && (write || piece.end - piece.start > AROUND_PAGES) {
            let count = if again {
                &mut self.faults_seen.again
            } else {
                &mut self.faults_seen.first
            };
            *count = count.saturating_add(1);
        }
        Touch {
            piece,
            again,
            mapped,
            step: if mapped { 1 } else { step },
            pieces,
        }
    }

    /// How many of such steps were touched since the last fault that the traced system told: the program's own where it goes
    /// from page to page. One that goes anywhere meets a piece for the first time ever more seldom, as more of them are mapped.
    fn touches(&self, touch: &Touch, pages: u64, each: u64) -> u64 {
        if touch.step > 1 {
            return (touch.step / each).max(1);
        }
        let together = touch.piece.end - touch.piece.start;
        if touch.again || touch.mapped || self.faults_seen.by_page() || together <= each {
            return 1;
        }
        let all = pages.div_ceil(together).max(touch.pieces);
        let left = all - touch.pieces + 1;
        (all / left).clamp(1, pages.div_ceil(each).max(1))
    }

    /// A store to a page that was not mapped to be written; how many pages are then.
    fn stores(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        page: u64,
        touch: &Touch,
        charges: &mut Vec<Charge>,
    ) -> u64 {
        let (now_ns, size) = (step.op.start_ns, pages_of(step, ino));
        let FaultPages { store, dirty, .. } = self.sizes.fault_pages;
        let onward = page..page.saturating_add(touch.step).min(size);
        let piece = if touch.step > 1 {
            onward
        } else {
            touch.piece.clone()
        };
        if dirty > 1 {
            for other in piece.clone() {
                let there = self.pages.peek(ino.0, other) != PageState::Absent;
                if other != page && other < size && (there || touch.step > 1) {
                    self.pages.write(ino.0, other, 0, now_ns);
                }
            }
        }
        if store > 1 {
            if !touch.again {
                let each = (piece.end - piece.start).clamp(1, store);
                charge_fault((Stem::MfW, Stem::MfWB), (each, 1, store), step.gap, charges);
                return each;
            }
            if !touch.mapped && self.faults_seen.by_page() {
                return 0;
            }
            charges.push(Charge::once(Stem::MfW, step.gap));
            return 1;
        }
        let touches = self.touches(touch, size, 1);
        for number in 1..touches {
            // From page to page, or anywhere: as far from one another as they can be.
            let other = if touch.step > 1 {
                page + number
            } else {
                (page + number * (size / touches).max(1)) % size.max(1)
            };
            if other < size {
                self.pages.write(ino.0, other, 0, now_ns);
            }
        }
        charges.push(Charge::many(Stem::MfW, step.gap, touches as f64));
        touches
    }

    /// A read of a page that is there and was not mapped; how many pages are then.
    fn maps(&self, step: &Passing<'_>, ino: Ino, touch: &Touch, charges: &mut Vec<Charge>) -> u64 {
        let most = self.sizes.fault_pages.read;
        // Of a file's last piece Linux maps what is around.
        let size = pages_of(step, ino);
        let long = touch.piece.end - touch.piece.start;
        if most <= AROUND_PAGES || touch.piece.end >= size {
            let touches = self.touches(touch, size, AROUND_PAGES);
            charges.push(Charge::many(Stem::MfR, step.gap, touches as f64));
            return touches * AROUND_PAGES;
        }
        if touch.again && self.faults_seen.by_page() && long > AROUND_PAGES {
            return 0;
        }
        let each = long.max(touch.step).clamp(AROUND_PAGES, most);
        let stems = (Stem::MfR, Stem::MfRB);
        charge_fault(stems, (each, AROUND_PAGES, most), step.gap, charges);
        each
    }
}

/// How long a file is, in pages.
pub(super) fn pages_of(step: &Passing<'_>, ino: Ino) -> u64 {
    let inode = step.ns.tree.inode(ino);
    inode.map_or(0, |n| n.size).div_ceil(PAGE_BYTES)
}

/// A fault on so many pages costs between what one costs on the least and on the most.
fn charge_fault(
    (small, large): (Stem, Stem),
    (pages, least, most): (u64, u64, u64),
    gap: Gap,
    charges: &mut Vec<Charge>,
) {
    let share = (pages - least) as f64 / most.saturating_sub(least).max(1) as f64;
    for (stem, share) in [(small, 1.0 - share), (large, share)] {
        if share > 0.0 {
            charges.push(Charge::many(stem, gap, share));
        }
    }
}

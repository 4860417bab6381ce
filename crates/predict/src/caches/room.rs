//! Where what is written lies, and what writers wait for who have to make room for it in memory themselves.
//!
//! Where nothing is written meanwhile (`DTB` is all of `DTH`), a writer beyond `DTH` waits until the file that has been
//! dirty for longest is written, and for the next one if that is not enough. An arm that has to move goes from where it
//! is to where the file's first dirty page lies, which is where there was room when it was written.

use fsage_cache::PAGE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PAGE_KIB, Passing, Sizes, View};
use crate::arm::snapped_kib;
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::Namespace;
use crate::namespace::tree::Ino;
use crate::pattern::Placed;

/// Pages that lie one behind the other, in the file and on the device.
#[derive(Debug, Clone, Copy)]
struct Run {
    page: u64,
    block: u64,
    pages: u64,
}

/// Room on the device that was given since the start, in pages.
#[derive(Debug, Clone, Default)]
pub(super) struct Rooms {
    runs: FxHashMap<u32, Vec<Run>>,
    /// Where the next is, once it was asked for.
    next: Option<u64>,
    /// Where the last request ended, where that is known.
    arm: Option<u64>,
    /// Blocks of metadata that changed since the last commit.
    changed: FxHashSet<(u32, u32)>,
}

impl Rooms {
    /// Behind all that is there.
    fn next(&mut self, ns: &Namespace) -> u64 {
        *self.next.get_or_insert_with(|| {
            let files = ns.tree.inodes().iter();
            let ends = files.filter_map(|inode| {
                let pieces = inode.pieces.iter().flatten().map(|piece| piece.1);
                let last = pieces.chain(inode.physical).max()?;
                last.checked_add(inode.size)
            });
            ends.max().unwrap_or(0).div_ceil(PAGE_BYTES)
        })
    }

    /// Gives room to a page that had none.
    pub fn give(&mut self, ns: &Namespace, ino: Ino, page: u64) {
        let block = self.next(ns);
        self.next = Some(block + 1);
        let runs = self.runs.entry(ino.0).or_default();
        match runs.last_mut() {
            Some(run) if run.page + run.pages == page && run.block + run.pages == block => {
                run.pages += 1;
            }
            _ => runs.push(Run {
                page,
                block,
                pages: 1,
            }),
        }
    }

    /// A file has no room from a page on.
    pub fn cut(&mut self, ino: Ino, page: u64) {
        if page == 0 {
            self.runs.remove(&ino.0);
        } else if let Some(runs) = self.runs.get_mut(&ino.0) {
            runs.retain_mut(|run| {
                run.pages = run.pages.min(page.saturating_sub(run.page));
                run.pages > 0
            });
        }
    }

    /// Where a page was given room since the start.
    pub fn given(&self, ino: Ino, page: u64) -> Option<u64> {
        let runs = self.runs.get(&ino.0).into_iter().flatten();
        let mut holding = runs.filter(|run| (run.page..run.page + run.pages).contains(&page));
        holding.next().map(|run| run.block + (page - run.page))
    }

    /// Where a page lies.
    pub fn block(&self, ns: &Namespace, ino: Ino, page: u64) -> Option<u64> {
        if let Some(block) = self.given(ino, page) {
            return Some(block);
        }
        let file = Placed::traced(ino, ns.tree.inode(ino)?);
        Some(file.byte(page.saturating_mul(PAGE_BYTES))? / PAGE_BYTES)
    }

    /// A file was read to the end of a page.
    pub fn reads(&mut self, ns: &Namespace, ino: Ino, page: u64) {
        self.arm = self.block(ns, ino, page).map(|block| block + 1);
    }

    /// The arm was taken elsewhere.
    pub fn leaves(&mut self) {
        self.arm = None;
    }

    /// A block of metadata changes.
    pub fn changes(&mut self, block: (u32, u32)) {
        self.changed.insert(block);
    }

    /// All that changed is committed; how many blocks those are.
    pub fn commits(&mut self) -> u64 {
        let blocks = self.changed.len() as u64;
        self.changed.clear();
        blocks
    }

    /// So many pages are written; how far the arm goes to them, where that is known.
    pub fn writes(&mut self, block: Option<u64>, pages: u64) -> Option<u64> {
        let distance = self.arm.zip(block).map(|(at, to)| at.abs_diff(to));
        self.arm = block.map(|block| block + pages);
        distance
    }
}

impl Sizes {
    /// A distance as the series RX tells what it costs.
    pub(super) fn off_kib(self, kib: u64) -> f64 {
        let measured = self.near_kib.map_or(kib, |near| snapped_kib(kib, near));
        measured.min(self.far_kib) as f64
    }
}

impl View {
    /// Whether a writer waits for whole files where too much is dirty, and an arm has to move.
    pub(super) fn waits_for_files(&self) -> bool {
        self.sizes.throttle.is_some_and(|limit| limit.by_file) && self.sizes.arm_alone
    }

    /// Gives a page room that had none, where that is done as it is written.
    pub(super) fn give_room(&mut self, step: &Passing<'_>, ino: Ino, page: u64) {
        if self.waits_for_files() && self.sizes.file_system.gives_room_at_once() {
            self.rooms.give(step.ns, ino, page);
        }
    }

    /// Charges what a writer waits for the files that have been dirty for longest.
    pub(super) fn make_room(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let Some(limit) = self.sizes.throttle.filter(|limit| limit.by_file) else {
            return;
        };
        let most = limit.kib * 1024 / PAGE_BYTES;
        while self.pages.dirty() > most
            && let Some((file, pages, first)) = self.pages.clean_oldest()
        {
            let ino = Ino(file);
            let state = self.state(ino);
            *state = state.stable();
            self.written(ino, pages);
            charges.push(Charge::once(Stem::Dtf, Gap::NONE));
            if pages > 1 {
                let more = (pages - 1) as f64 * PAGE_KIB;
                charges.push(Charge::sized(Stem::Dtr, Gap::NONE, more));
            }
            if self.sizes.arm_alone {
                self.move_to_write(step, ino, (first, pages), charges);
            }
        }
    }

    /// The arm goes to what is written.
    fn move_to_write(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (first, pages): (u64, u64),
        charges: &mut Vec<Charge>,
    ) {
        let block = if self.sizes.file_system.gives_room_at_once() {
            self.rooms.block(step.ns, ino, first)
        } else {
            let block = self.rooms.next(step.ns);
            self.rooms.next = Some(block + pages);
            Some(block)
        };
        self.ask_write(ino, block, (first, pages));
        let distance = self.rooms.writes(block, pages);
        if distance == Some(0) {
            return;
        }
        let kib = distance.map_or(u64::MAX, |pages| pages.saturating_mul(PAGE_BYTES / 1024));
        let kib = self.sizes.off_kib(kib);
        charges.push(Charge::sized(Stem::Rx, Gap::NONE, kib));
        charges.push(Charge {
            times: -1.0,
            ..Charge::sized(Stem::RfN, Gap::NONE, PAGE_KIB)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::Scope;

    #[test]
    fn room_is_given_page_by_page_and_the_arm_goes_from_where_it_is() {
        let (mut rooms, ns) = (Rooms::default(), Namespace::new(Scope::default(), 4096));
        let (one, two) = (Ino(7), Ino(9));
        for (ino, page) in [(one, 0), (two, 0), (one, 1), (one, 2), (two, 1)] {
            rooms.give(&ns, ino, page);
        }
        let at = |rooms: &Rooms, ino, page| rooms.block(&ns, ino, page);
        assert_eq!([0, 1, 2].map(|p| at(&rooms, one, p)), [0, 2, 3].map(Some));
        assert_eq!([0, 1].map(|p| at(&rooms, two, p)), [1, 4].map(Some));
        assert_eq!(rooms.writes(Some(2), 2), None, "nobody knows where it was");
        assert_eq!(rooms.writes(Some(4), 1), Some(0));
        rooms.reads(&ns, one, 0);
        assert_eq!(rooms.writes(Some(4), 1), Some(3));
        rooms.leaves();
        assert_eq!(rooms.writes(Some(5), 1), None);
        rooms.cut(one, 2);
        assert_eq!([1, 2].map(|p| at(&rooms, one, p)), [Some(2), None]);
        rooms.give(&ns, one, 2);
        assert_eq!(at(&rooms, one, 2), Some(5), "room is not used again");
    }
}

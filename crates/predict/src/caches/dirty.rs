//! How much is dirty, as far as it decides when writers have to wait.
//!
//! Below half of the threshold nothing is written back in the time that matters here (expiry takes
//! tens of seconds); above it the device works on it at the rate at which throttled writers proceed;
//! from the threshold on a writer goes no faster than that.
//!
//! Changes of names are kept in memory as well, until everything is made stable. Where there is little room for what
//! they become on the device, each waits for some from a number of them on; it is made as fast all the time,
//! and what is removed before it was stable gives its own back. A file system that keeps where each scattered block will be
//! writes all of them where there is no room for one more. In memory what is written back for want of room takes its time from
//! the calls beside it: from a number of dirty files on each one more costs more.

use std::collections::{HashMap, HashSet};

use fsage_cache::PAGE_BYTES;
use fsage_core::OpKind;

use super::{PAGE_KIB, Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::Action;
use crate::namespace::tree::Ino;

/// How writers are throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// KiB of dirty data (DTH).
    pub kib: u64,
    /// KiB per second from there on (DTR).
    pub kib_per_s: u64,
    /// Whether nothing is written meanwhile: then whoever writes more waits for whole files (DTB, DTF).
    pub by_file: bool,
}

/// Dirty data in KiB at a moment of the trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Dirty {
    kib: f64,
    at_ns: u64,
    /// Changes of names for which room is yet to be made, and since when it is.
    changes: f64,
    changed_ns: u64,
    /// Runs of dirty blocks that lie apart from each other, by file, and all of them.
    apart: HashMap<Ino, u64>,
    all_apart: u64,
    /// Files with dirty data, where their number matters, when the last became dirty, and how long it lately was from
    /// one to the next.
    files: HashSet<Ino>,
    file_ns: u64,
    apart_ns: f64,
}

/// What is written back in one go: so many files, over which it does not matter when each became dirty.
const TOGETHER: f64 = 64.0;
/// A longer rest writes no more.
const LONG_REST_NS: u64 = 10_000_000;

impl Dirty {
    /// So many KiB become dirty at `now_ns`; returns those that have to wait for the device.
    pub fn add(&mut self, kib: f64, now_ns: u64, limit: Throttle) -> f64 {
        let (most, rate) = (limit.kib as f64, limit.kib_per_s as f64);
        let passed_s = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        self.at_ns = now_ns.max(self.at_ns);
        let background = most / 2.0;
        if self.kib > background {
            self.kib = (self.kib - rate * passed_s).max(background);
        }
        self.kib += kib;
        let over = (self.kib - most).clamp(0.0, kib);
        // What a writer waited for is written by then.
        self.kib -= over;
        over
    }

    /// All of it, or so much, is written or not needed any more.
    pub fn less(&mut self, kib: f64) {
        self.kib = (self.kib - kib).max(0.0);
    }

    /// So many of a file's pages are, of which others are left in so many `runs`.
    pub fn less_of(&mut self, ino: Ino, pages: u64, runs: u64) {
        self.less(pages as f64 * PAGE_KIB);
        if runs == 0 {
            self.files.remove(&ino);
        }
        if let Some(apart) = self.apart.get_mut(&ino) {
            self.all_apart = self.all_apart - *apart + runs;
            *apart = runs;
            if runs == 0 {
                self.apart.remove(&ino);
            }
        }
    }

    /// Everything is stable.
    pub fn settled(&mut self) {
        self.changes = 0.0;
        self.apart.clear();
        self.all_apart = 0;
        self.files.clear();
    }

    /// A file becomes dirty at `now_ns`: how much of its cost one more has where `most` have room. What is written back
    /// meanwhile takes that time from whoever goes on at once, and less where others rest.
    fn file(&mut self, ino: Ino, now_ns: u64, (most, each_ns): (u64, u64)) -> f64 {
        if !self.files.insert(ino) {
            return 0.0;
        }
        let passed = now_ns.saturating_sub(self.file_ns).min(LONG_REST_NS) as f64;
        self.file_ns = now_ns.max(self.file_ns);
        self.apart_ns += (passed - self.apart_ns) / TOGETHER;
        if self.files.len() as u64 <= most {
            return 0.0;
        }
        let each = each_ns as f64;
        (2.0 * each / (each + self.apart_ns)).min(1.0)
    }

    /// Blocks of a file become dirty that do not go on behind its last, all in so many `runs`; whether all files' are
    /// more than `most`.
    fn scatters(&mut self, ino: Ino, runs: u64, most: u64) -> bool {
        let before = self.apart.insert(ino, runs).unwrap_or(0);
        self.all_apart = self.all_apart - before + runs;
        self.all_apart > most
    }

    /// What was made since everything was stable is removed.
    fn undo(&mut self) {
        self.changes = (self.changes - 1.0).max(0.0);
    }

    /// A name is changed at `now_ns`: how much of a wait it has where `most` changes have room, and room for one more is
    /// made in so many nanoseconds.
    fn change(&mut self, now_ns: u64, (most, each_ns): (u64, u64)) -> f64 {
        let passed = now_ns.saturating_sub(self.changed_ns) as f64;
        self.changed_ns = now_ns.max(self.changed_ns);
        self.changes = (self.changes - passed / each_ns as f64).max(0.0) + 1.0;
        let over = (self.changes - most as f64).clamp(0.0, 1.0);
        self.changes -= over;
        over
    }
}

/// Whether a call changes names.
fn changes_names(kind: OpKind, action: Action) -> bool {
    match action {
        Action::Open { created, .. } => created,
        Action::Unlink { .. } | Action::Rmdir { .. } | Action::Rename { .. } => true,
        Action::Plain => matches!(
            kind,
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink | OpKind::Link
        ),
        _ => false,
    }
}

impl View {
    /// Charges what so many pages that become dirty have to wait for the device, and what a file that was `clean` costs
    /// more among others.
    pub(super) fn throttle(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (clean, fresh): (bool, u64),
        charges: &mut Vec<Charge>,
    ) {
        if let Some(limit) = self.sizes.room_files {
            // What is written back for want of room is in what many files took when that was measured: no CRQ.
            if fresh > 0 {
                let more = self.dirty.file(ino, step.op.start_ns, limit);
                if more > 0.0 {
                    charges.push(Charge::many(Stem::Dfw, step.gap, more));
                }
            }
        } else if clean {
            self.dirtied(step, charges);
        }
        let Some(limit) = self.sizes.throttle.filter(|limit| !limit.by_file) else {
            return;
        };
        let kib = (fresh * PAGE_BYTES / 1024) as f64;
        let waits = self.dirty.add(kib, step.op.start_ns, limit);
        if waits > 0.0 {
            charges.push(Charge::sized(Stem::Dtr, step.gap, waits));
        }
    }

    /// A write is done, before which so much was dirty: where it dirtied blocks that do not go on behind the file's last, and
    /// there is no room for them, all are written first.
    pub(super) fn scatters(
        &mut self,
        ino: Ino,
        (goes_on, dirty): (bool, u64),
        charges: &mut Vec<Charge>,
    ) {
        let room = self.sizes.room_blocks;
        let Some(most) = room.filter(|_| !goes_on && self.pages.dirty() > dirty) else {
            return;
        };
        if !self.dirty.scatters(ino, self.pages.dirty_runs(ino.0), most) {
            return;
        }
        charges.push(Charge::many(Stem::Btw, Gap::NONE, most as f64));
        while let Some((file, pages, _)) = self.pages.clean_oldest() {
            self.written(Ino(file), pages);
        }
    }

    /// So many of a file's dirty pages are none any more.
    pub(super) fn written(&mut self, ino: Ino, pages: u64) {
        let runs = self.pages.dirty_runs(ino.0);
        self.dirty.less_of(ino, pages, runs);
    }

    /// A file is cut to so many pages.
    pub(super) fn cut_to(&mut self, ino: Ino, pages: u64) {
        let dirty = self.pages.dirty_pages(ino.0);
        self.pages.cut(ino.0, pages);
        self.rooms.cut(ino, pages);
        let gone = dirty.saturating_sub(self.pages.dirty_pages(ino.0));
        if gone > 0 {
            self.written(ino, gone);
        }
    }

    /// Charges what a change of names waits for room.
    #[inline]
    pub(super) fn wait_for_room(&mut self, step: &Passing<'_>, charges: &mut Vec<Charge>) {
        let Some(limit) = self.sizes.room_changes else {
            return;
        };
        let action = step.resolved.action;
        let removes = matches!(
            action,
            Action::Unlink { freed: true, .. } | Action::Rmdir { .. }
        );
        let of = step.resolved.node.filter(|_| removes);
        if of.is_some_and(|ino| self.state(ino).created) {
            self.dirty.undo();
        } else if changes_names(step.op.kind, action) {
            let waits = self.dirty.change(step.op.start_ns, limit);
            if waits > 0.0 {
                charges.push(Charge::many(Stem::Mtw, step.gap, waits));
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn writers_wait_from_the_threshold_on() {
        let limit = Throttle {
            kib: 1000,
            kib_per_s: 100,
            by_file: false,
        };
        let mut dirty = Dirty::default();
        assert_eq!(dirty.add(900.0, 0, limit), 0.0);
        assert_eq!(dirty.add(300.0, 0, limit), 200.0);
        assert_eq!(dirty.add(50.0, 0, limit), 50.0);
        // Two seconds drain 200 KiB.
        assert_eq!(dirty.add(250.0, 2_000_000_000, limit), 50.0);
        dirty.less(700.0);
        assert_eq!(dirty.add(600.0, 2_000_000_000, limit), 0.0);
        // Below half of it nothing drains.
        let mut dirty = Dirty::default();
        dirty.add(500.0, 0, limit);
        assert_eq!(dirty.add(600.0, 3_000_000_000_000, limit), 100.0);
    }

    #[test]
    fn one_more_dirty_file_costs_more_where_others_are_written_back() {
        let (limit, mut dirty) = ((2, 100), Dirty::default());
        let mut at = |ino, ns| dirty.file(Ino(ino), ns, limit);
        // The same file again is none more.
        assert_eq!(
            [at(1, 0), at(2, 10), at(3, 20), at(3, 30)],
            [0.0, 0.0, 1.0, 0.0]
        );
        dirty.less_of(Ino(1), 1, 0);
        dirty.less_of(Ino(2), 1, 0);
        dirty.less_of(Ino(3), 1, 0);
        let mut at = |ino, ns| dirty.file(Ino(ino), ns, limit);
        assert_eq!([at(5, 340), at(6, 350), at(7, 360)], [0.0, 0.0, 1.0]);
        // Where it is 300 from one to the next on average half of it is done meanwhile, be they in pairs or not.
        let apart: Vec<f64> = (0..2000)
            .map(|n| at(10 + n, 1000 + 300 * u64::from(n)))
            .collect();
        assert!((apart[1999] - 0.5).abs() < 0.01, "{}", apart[1999]);
        let pairs: Vec<f64> = (0..2000)
            .map(|n| at(3000 + n, 1_000_000 + 600 * u64::from(n / 2)))
            .collect();
        assert!((pairs[1999] - 0.5).abs() < 0.01, "{}", pairs[1999]);
        dirty.settled();
        assert_eq!(dirty.file(Ino(9000), 9_000_000, limit), 0.0);
    }

    #[test]
    fn more_scattered_blocks_than_fit_are_written() {
        let mut dirty = Dirty::default();
        let runs = [1, 2, 3, 2, 3, 4];
        let waits = runs.map(|runs| dirty.scatters(Ino(1), runs, 3));
        assert_eq!(waits, [false, false, false, false, false, true]);
        // Two pages of that file are made stable, and many of another.
        dirty.less_of(Ino(1), 2, 2);
        dirty.less_of(Ino(2), 200, 0);
        assert_eq!(
            [1, 2].map(|runs| dirty.scatters(Ino(2), runs, 3)),
            [false, true]
        );
        dirty.settled();
        assert!(!dirty.scatters(Ino(1), 1, 3));
        dirty.less_of(Ino(1), 1, 0);
        assert!(!dirty.scatters(Ino(2), 3, 3));
    }

    #[test]
    fn changes_wait_as_far_as_they_come_faster_than_room_is_made() {
        let (limit, mut dirty) = ((2, 1000), Dirty::default());
        let mut at = |ns| dirty.change(ns, limit);
        assert_eq!([at(0), at(0), at(0), at(500)], [0.0, 0.0, 1.0, 0.5]);
        // Room for one is made between each two.
        assert_eq!([at(1500), at(2500)], [0.0, 0.0]);
        dirty.undo();
        assert_eq!(dirty.change(2500, limit), 0.0);
        dirty.settled();
        assert_eq!([0, 1].map(|_| dirty.change(2500, limit)), [0.0, 0.0]);
    }
}

//! Writes that replace a part of a block that is not cached: the rest of it must be read first (Smith 2001, 6.1.3.1).

use fsage_cache::PAGE_BYTES;

use super::{PAGE_KIB, Passing, View};
use crate::arm::Own;
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::Ino;
use crate::pattern::Relation;

/// Where the blocks begin that a write replaces in part, at its beginning and at its end, and bytes of it in them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartialPages([Option<(u64, u64)>; 2]);

impl PartialPages {
    pub(super) fn add(&mut self, begin: u64, bytes: u64) {
        let free = self.0.iter_mut().find(|page| page.is_none());
        if let Some(page) = free {
            *page = Some((begin, bytes));
        }
    }

    pub(super) fn count(self) -> u64 {
        self.begins().count() as u64
    }

    /// KiB of the write in them.
    pub(super) fn kib(self) -> f64 {
        self.0.iter().flatten().map(|page| page.1).sum::<u64>() as f64 / 1024.0
    }

    fn begins(self) -> impl Iterator<Item = u64> {
        self.0.into_iter().flatten().map(|page| page.0)
    }
}

impl View {
    /// Charges what a write reads of blocks that it replaces in part: where an arm moves as any read of a page there, of which
    /// the drive may hold what was read a while ago.
    pub(super) fn read_before_write(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        pages: PartialPages,
        charges: &mut Vec<Charge>,
    ) {
        if pages.count() == 0 {
            return;
        }
        if self.sizes.arm_alone {
            return self.read_parts(step, ino, pages, charges);
        }
        if self.drive.is_none() {
            charges.push(Charge::many(Stem::Wp, step.gap, pages.count() as f64));
            self.relation = Relation::Same;
            return;
        }
        for begin in pages.begins() {
            if self.is_held(step, ino, begin) {
                charges.push(Charge::sized(Stem::Rd, step.gap, PAGE_KIB));
                self.relation = Relation::Same;
            } else {
                charges.push(Charge::sized(Stem::Wk, step.gap, PAGE_KIB));
                self.disk_read(step, ino, begin, PAGE_BYTES, PAGE_KIB, true, charges);
            }
        }
    }

    /// Each is a read by itself, from where the arm is; what of it is no waiting is in the write's own charge.
    fn read_parts(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        pages: PartialPages,
        charges: &mut Vec<Charge>,
    ) {
        for begin in pages.begins() {
            let page = begin / PAGE_BYTES;
            self.comes_to(ino, page..=page);
            self.misses(page);
            self.ask_missed(step, ino, true);
            self.disk_read(step, ino, begin, PAGE_BYTES, PAGE_KIB, true, charges);
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::RHo, Gap::NONE, PAGE_KIB)
            });
        }
        self.asks.own = Some(Own {
            parts: pages.count(),
            ..Own::default()
        });
    }

    /// Whether the drive holds a page of a file.
    fn is_held(&mut self, step: &Passing<'_>, ino: Ino, begin: u64) -> bool {
        let ino = self.placed(step, ino);
        let Some((file, drive)) = self.file(step, ino).zip(self.drive.as_mut()) else {
            return false;
        };
        let (of, first) = file.place(begin);
        drive.usual().holds(
            of,
            (first, first.saturating_add(PAGE_BYTES)),
            step.op.start_ns,
        )
    }
}

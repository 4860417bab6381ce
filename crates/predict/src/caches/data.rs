//! Reads and writes, page by page (Smith 2001, 4.4.3.2.2, 6.1.3.1, 6.1.3.2, 6.1.3.5).

use std::ops::Range;

use fsage_cache::{PAGE_BYTES, PageState};
use fsage_core::{Op, OpFlags, OpKind, RWF_DSYNC, RWF_SYNC};

use super::partial::PartialPages;
use super::sync::{FIRST_BYTES, started_and_awaited};
use super::{PAGE_KIB, Passing, View};
use crate::arm::Own;
use crate::cost::{Charge, Gap, Stem};
use crate::drive::Found;
use crate::namespace::tree::Ino;
use crate::pattern::{Relation, Untouched};

/// The most bytes that one call of Linux moves (`MAX_RW_COUNT`); what a trace says beyond is not
/// followed page by page.
const MOST_BYTES: u64 = 1 << 31;
const O_DSYNC: u32 = 0o10_000;
const O_SYNC: u32 = 0o4_010_000;

/// What pages of a write may be.
const STATES: [Stem; 8] = [
    Stem::Wn,
    Stem::Wh,
    Stem::Wu,
    Stem::Wa,
    Stem::Wo,
    Stem::Wk,
    Stem::We,
    Stem::Wd,
];

/// A larger read drives what it copies out of a core's caches itself.
const HOT_BYTES: u64 = 32 << 10;

#[derive(Default)]
struct ReadPages {
    /// What processors' caches hold of them at the first read of a file after its open.
    untouched: Untouched,
    /// Whether they hold what is read of an open file: it was moved a moment ago.
    hot: bool,
    hits: u64,
    ahead: u64,
    missed: u64,
    holes: u64,
}

impl ReadPages {
    /// What some pages are, all of the read's are.
    fn stand_for(&mut self, all: u64, followed: u64) {
        if followed < all {
            for count in [
                &mut self.hits,
                &mut self.ahead,
                &mut self.missed,
                &mut self.holes,
            ] {
                *count = *count * all / followed;
            }
        }
    }
}

const AF_UNIX: u32 = 1;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

/// What a write of its own asks for beside what its file was opened with, as flags of an open.
fn stable_at_once(op: &Op) -> u32 {
    match op.flags {
        _ if op.kind != OpKind::Write => 0,
        flags if flags & RWF_SYNC != 0 => O_SYNC,
        flags if flags & RWF_DSYNC != 0 => O_DSYNC,
        _ => 0,
    }
}

/// The family of a `sendfile`, by the socket that it goes to.
fn sent_to(op: &Op) -> Option<Stem> {
    match op.flags {
        _ if op.kind != OpKind::Sendfile => None,
        AF_UNIX => Some(Stem::SndU),
        AF_INET | AF_INET6 => Some(Stem::Snd),
        _ => None,
    }
}

/// Charges a write of so many pages and KiB as what most of its pages are. New pages are paid for whole, and what is
/// written of them is copied; an append that begins in an old page also pays for its state. It is one call all the same:
/// to copy alone is what a write over dirty pages costs (WD). Beside `parts` of blocks, which WU1 is of, a block is whole. What a file that was opened again costs more (WO) was paid by
/// the open's first write.
fn charge_states(
    gap: Gap,
    counts: &[(Stem, u64)],
    (pages, kib, parts): (u64, f64, bool),
    (new_file, first): (bool, bool),
    charges: &mut Vec<Charge>,
) {
    let mut push = |(stem, kib), gap, times| {
        charges.push(Charge {
            times,
            ..Charge::sized(stem, gap, kib)
        });
    };
    let most = counts.iter().rev().max_by_key(|c| c.1);
    let most = most.map_or(Stem::Wn, |c| c.0);
    let old_end = counts
        .iter()
        .find(|c| most == Stem::Wn && c.1 > 0 && matches!(c.0, Stem::Wa | Stem::Wo | Stem::We));
    let stem = if new_file && most == Stem::Wn {
        Stem::Wf
    } else {
        most
    };
    let new = pages - old_end.map_or(0, |c| c.1);
    let whole = new as f64 * PAGE_KIB;
    let begins = match stem {
        Stem::Wf | Stem::Wn | Stem::Wh | Stem::Wu | Stem::Wk
            if old_end.is_some() || kib < whole && (new > 1 || parts && stem == Stem::Wu) =>
        {
            push((stem, whole), gap, 1.0);
            instead(&mut push, (Stem::Wd, whole), (Stem::Wd, kib));
            whole
        }
        // Its larger ones go on in new pages.
        Stem::Wa if pages == 1 && kib > 1.0 => {
            push((stem, 1.0), gap, 1.0);
            instead(&mut push, (Stem::Wd, 1.0), (Stem::Wd, kib));
            1.0
        }
        _ => {
            push((stem, kib), gap, 1.0);
            kib
        }
    };
    if !first && matches!(stem, Stem::Wk | Stem::Wa) {
        instead(&mut push, (Stem::Wo, begins), (Stem::Wd, begins));
    }
    if let Some(&(state, _)) = old_end {
        push((state, 1.0), gap, 1.0);
        push((Stem::Wd, 1.0), gap, -1.0);
    }
}

/// One in place of another: what they differ by is the same after any pause, and a pause may have been measured of one only.
fn instead(push: &mut impl FnMut((Stem, f64), Gap, f64), other: (Stem, f64), one: (Stem, f64)) {
    push(other, Gap::NONE, -1.0);
    push(one, Gap::NONE, 1.0);
}

impl View {
    /// Before a call goes past the page cache, what is dirty of its range there is written, and waited for; of what it
    /// `writes` nothing is left there (`kiocb_write_and_wait`, `kiocb_invalidate_pages`).
    fn past_cache(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        writes: bool,
        charges: &mut Vec<Charge>,
    ) {
        let end = offset.saturating_add(length).div_ceil(PAGE_BYTES);
        let range = (offset / PAGE_BYTES, end);
        let (dirty, _) = self.pages.clean_range(ino.0, range.0, range.1);
        if dirty > 0 {
            self.written(ino, dirty);
            self.changing(ino).started = true;
            charges.push(started_and_awaited(dirty as f64 * PAGE_KIB, step.gap));
            self.drive_takes(step, ino, (offset, length));
        }
        if writes {
            self.pages.drop_clean(ino.0, range);
        }
    }

    pub(super) fn read(
        &mut self,
        step: &Passing<'_>,
        offset: u64,
        length: u64,
        eof: bool,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        if eof {
            charges.push(Charge::once(Stem::REof, step.gap));
            return;
        }
        let kib = length as f64 / 1024.0;
        if step.op.record.contains(OpFlags::DIRECT) {
            self.past_cache(step, ino, (offset, length), false, charges);
            self.disk_read(step, ino, offset, length, kib, false, charges);
            let last = offset.saturating_add(length.min(MOST_BYTES) - 1) / PAGE_BYTES;
            (offset / PAGE_BYTES..=last).for_each(|page| self.misses(page));
            self.ask_missed(step, ino, true);
            return;
        }
        let length = length.min(MOST_BYTES);
        let first = offset / PAGE_BYTES;
        let last = offset.saturating_add(length - 1) / PAGE_BYTES;
        let (all, followed) = (last - first + 1, self.followed(last - first + 1));
        let open = step
            .resolved
            .open
            .and_then(|id| Some((id, step.ns.processes.open(id)?.serial)));
        let (next_page, fresh, untouched) =
            match open.and_then(|(id, serial)| self.stream(id, serial)) {
                Some(stream) => {
                    let fresh = stream.is_fresh();
                    let untouched = if fresh {
                        stream.untouched
                    } else {
                        Untouched::No
                    };
                    (stream.next_page, fresh, untouched)
                }
                None => (u64::MAX, true, Untouched::No),
            };
        let pages = first..first + followed;
        let hot = self.moved.touch(ino, first..=last, length);
        let mut pages = self.touch_pages(step, ino, pages, (next_page, untouched));
        pages.hot = hot && length <= HOT_BYTES && sent_to(step.op).is_none();
        self.comes_to(ino, first..=last);
        let waits = pages.missed > 0;
        pages.stand_for(all, followed);
        if let Some((id, serial)) = open {
            self.read_ahead(step, ino, (id, serial), first, last, waits);
        }
        self.ask_missed(step, ino, waits);
        self.charge_read(step, ino, offset, length, fresh, &pages, charges);
        if let Some(stem) = sent_to(step.op) {
            // The socket's side takes the place of the copy to the program.
            charges.push(Charge::sized(stem, step.gap, kib));
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::Rc, step.gap, kib)
            });
        }
    }

    /// What the pages of a read are, which are there after this; `next_page` is where the last read of the same open file
    /// went on.
    fn touch_pages(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        numbers: Range<u64>,
        (next_page, untouched): (u64, Untouched),
    ) -> ReadPages {
        let first = numbers.start;
        let mut pages = ReadPages {
            untouched,
            ..ReadPages::default()
        };
        for page in numbers {
            let again = page + 1 == next_page && page == first;
            match self.pages.read(ino.0, page, again) {
                PageState::Clean | PageState::Dirty(_) => pages.hits += 1,
                PageState::Ahead => pages.ahead += 1,
                PageState::Absent => {
                    if self.holds_data(step, ino, page) {
                        pages.missed += 1;
                        self.misses(page);
                    } else {
                        pages.holes += 1;
                    }
                }
            }
        }
        pages
    }

    /// Charges what a read found: all of it cached, in part a hole, in part on the device.
    #[allow(
        clippy::too_many_arguments,
        reason = "one call site; the arguments are the read"
    )]
    fn charge_read(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        offset: u64,
        length: u64,
        fresh: bool,
        pages: &ReadPages,
        charges: &mut Vec<Charge>,
    ) {
        let kib = length as f64 / 1024.0;
        let disk = pages.missed + pages.ahead;
        if disk == 0 {
            let stem = match pages.untouched {
                _ if pages.holes > pages.hits => Stem::RHo,
                Untouched::No if pages.hot => Stem::RcH,
                Untouched::No => Stem::Rc,
                Untouched::AWhileAgo => Stem::RcR,
                Untouched::Beside | Untouched::Far => Stem::RcF,
            };
            charges.push(Charge::sized(stem, step.gap, kib));
            return;
        }
        let all = disk + pages.hits + pages.holes;
        let share = disk as f64 / all as f64;
        // The device moves whole pages.
        let disk_kib = (kib * share)
            .max((disk * PAGE_BYTES / 1024) as f64)
            .min(kib.max(4.0 * disk as f64));
        let cached_kib = if disk < all { kib * (1.0 - share) } else { 0.0 };
        if disk < all {
            charges.push(Charge::sized(Stem::Rc, step.gap, cached_kib));
        }
        self.asks.own = Some(Own {
            kib,
            cached_kib,
            missed: pages.missed,
            parts: 0,
        });
        if pages.missed == 0 {
            self.relation = Relation::Sequential;
            charges.push(Charge::sized(Stem::Rd, step.gap, disk_kib));
            let next = self.next_listed(step, ino, offset);
            let ino = self.placed(step, ino);
            let found = self.ask_data(step, ino, (offset, length), Relation::Sequential, next);
            self.requested.ahead = all;
            if let Some(request) = &mut self.request {
                request.ahead = true;
                request.waits = self.requested.came_to > 0;
            }
            self.note_data(step, ino, (offset, length), next);
            if found.is_none_or(|[found, _]| found != Found::Held) {
                self.charge_jumps(step, ino, (offset, length), 0, charges);
            }
        } else {
            self.disk_read(step, ino, offset, length, disk_kib, fresh, charges);
        }
    }

    pub(super) fn write(
        &mut self,
        step: &Passing<'_>,
        offset: u64,
        length: u64,
        old_size: u64,
        first: bool,
        charges: &mut Vec<Charge>,
    ) {
        let Some(ino) = step.resolved.node else {
            return;
        };
        let open = step
            .resolved
            .open
            .and_then(|id| step.ns.processes.open(id))
            .copied();
        let before = (self.state(ino).end_at == offset, self.pages.dirty());
        let apart = self.note_write(ino, offset, length, old_size);
        if offset.saturating_add(length) > old_size {
            self.grows(step, ino, offset.saturating_add(length));
        }
        let kib = length as f64 / 1024.0;
        if length == 0 {
            charges.push(Charge::sized(Stem::Wd, step.gap, 0.0));
            return;
        }
        let asked = open.map_or(0, |open| open.flags) | stable_at_once(step.op);
        if step.op.record.contains(OpFlags::DIRECT) {
            let stem = match asked & O_DSYNC != 0 {
                true if offset.saturating_add(length) <= FIRST_BYTES.min(old_size) => Stem::FdsB,
                true if offset < old_size => Stem::FdsO,
                true => Stem::Fds,
                false => Stem::Dwo,
            };
            self.past_cache(step, ino, (offset, length), true, charges);
            self.drive_writes(step);
            if stem == Stem::Dwo {
                self.drive_holds(step, ino, apart);
            }
            // Where its blocks are is still to be made stable.
            self.state(ino).started |= stem == Stem::Dwo;
            charges.push(Charge::sized(stem, step.gap, kib));
            return;
        }
        let serial = open.map_or(0, |o| o.serial);
        let new_file = open.is_some_and(|o| o.created || o.truncated) && first && old_size == 0;
        let placed = self.write_pages(
            step,
            ino,
            (offset, length.min(MOST_BYTES)),
            old_size,
            serial,
            (new_file, first),
            charges,
        );
        if placed {
            self.finds_space(false, charges);
            self.takes_place(ino, before.0);
        }
        self.scatters(ino, before, charges);
        self.copies.forget(ino);
        if asked & O_DSYNC != 0 {
            self.make_stable(step, ino, asked & O_SYNC != O_SYNC, charges);
        }
    }

    /// Finds the state of each page that a write touches; the write is charged as what most of its
    /// pages are, and each part of a block that must be read first in addition. Whether one had no space yet.
    #[allow(
        clippy::too_many_arguments,
        reason = "one call site; the arguments are the write"
    )]
    fn write_pages(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        old_size: u64,
        serial: u32,
        begins: (bool, bool),
        charges: &mut Vec<Charge>,
    ) -> bool {
        let end = offset.saturating_add(length);
        let (first, last) = (offset / PAGE_BYTES, (end - 1) / PAGE_BYTES);
        self.moved.touch(ino, first..=last, end - offset);
        let mut counts = STATES.map(|stem| (stem, 0u64));
        let (mut partial, mut fresh, mut came) = (PartialPages::default(), 0u64, 0u64);
        let (all, followed) = (last - first + 1, self.followed(last - first + 1));
        let clean = self.pages.dirty_pages(ino.0) == 0;
        for page in first..first + followed {
            let begin = page.saturating_mul(PAGE_BYTES);
            let limit = begin.saturating_add(PAGE_BYTES);
            let inside = begin < old_size;
            let grows = inside && end > old_size && old_size < limit;
            let before = self.pages.write(ino.0, page, serial, step.op.start_ns);
            came += u64::from(before == PageState::Absent);
            let stem = match before {
                PageState::Absent if !inside => Stem::Wn,
                PageState::Absent if !step.ns.tree.allocated(ino, begin, limit) => Stem::Wh,
                // Data of the block that the write does not replace must be read (6.1.3.1).
                PageState::Absent if offset > begin || end < old_size.min(limit) => {
                    partial.add(begin, end.min(limit) - offset.max(begin));
                    continue;
                }
                PageState::Absent => Stem::Wu,
                PageState::Clean | PageState::Ahead if grows => Stem::Wa,
                PageState::Clean | PageState::Ahead if !inside => Stem::Wn,
                PageState::Clean | PageState::Ahead => Stem::Wk,
                PageState::Dirty(by) if by == serial && grows => Stem::We,
                PageState::Dirty(by) if by == serial => Stem::Wd,
                PageState::Dirty(_) => Stem::Wo,
            };
            if !inside || stem == Stem::Wh {
                self.give_room(step, ino, page);
            }
            fresh += u64::from(matches!(stem, Stem::Wn | Stem::Wh | Stem::Wu | Stem::Wk));
            if let Some(count) = counts.iter_mut().find(|c| c.0 == stem) {
                count.1 += 1;
            }
        }
        if came > 0 {
            self.came_together(ino, first, all);
        }
        let some = |stem: Stem| counts.iter().any(|&(of, pages)| of == stem && pages > 0);
        let filled = some(Stem::Wh);
        let placed = filled || some(Stem::Wn);
        self.state(ino).reserved |= filled;
        // What some pages are, all of the write's are.
        fresh = fresh * all / followed;
        counts = counts.map(|(stem, pages)| (stem, pages * all / followed));
        self.throttle(step, ino, (clean, fresh), charges);
        let kib = length as f64 / 1024.0;
        let (mut rest, mut rest_kib) = (all - partial.count(), kib - partial.kib());
        self.read_before_write(step, ino, partial, charges);
        if self.sizes.arm_alone && partial.count() > 0 {
            // What they wait for is charged by itself; else they are whole.
            if let Some(whole) = counts.iter_mut().find(|c| c.0 == Stem::Wu) {
                whole.1 += partial.count();
            }
            (rest, rest_kib) = (all, kib);
        }
        if rest > 0 {
            let of = (rest, rest_kib, partial.count() > 0);
            charge_states(step.gap, &counts, of, begins, charges);
        }
        self.make_room(step, charges);
        placed
    }
}

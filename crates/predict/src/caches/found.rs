//! Reads that reach the device, charged by where they are found.

use super::mapped::comes_alone;
use super::{Passing, Sizes, View};
use crate::cost::{Charge, Gap, Stem};
use crate::drive::Found;
use crate::namespace::tree::Ino;
use crate::pattern::{Advice, Relation};

/// The largest file whose data btrfs keeps with its inode (`max_inline`).
const INLINE_BYTES: u64 = 2048;
/// Largest request for which the distance of a random read is looked at; beyond, transfer dominates.
const SMALL_KIB: f64 = 64.0;

/// What is no farther on comes by in less than a turn; what is as near on the other side takes one.
const PASSED_KIB: u64 = 1024;

/// A read that reaches the device, and what is known of it before the device is asked.
#[derive(Debug, Clone, Copy)]
struct DiskRead {
    at: (Ino, u64, u64),
    kib: f64,
    fresh: bool,
    relation: Relation,
    distance: Option<u64>,
    between: Option<u64>,
    /// It lies a little before the end of the last.
    back: bool,
    away: bool,
    /// Nothing came with it that was not asked for.
    alone: bool,
    /// Whether the arm comes from what was committed.
    commits: bool,
}

impl DiskRead {
    fn stem(&self, found: Option<Found>) -> Stem {
        read_stem(self.relation, found, self.fresh, self.away, self.between)
    }
}

/// What a read that reaches the device is charged as. `away`: the arm has left to metadata; `between`: so many bytes lie
/// between two files where nothing is read ahead.
fn read_stem(
    relation: Relation,
    found: Option<Found>,
    fresh: bool,
    away: bool,
    between: Option<u64>,
) -> Stem {
    match (relation, found) {
        (Relation::Next | Relation::Near, _) if away && fresh => Stem::RfF,
        (Relation::Next, _) if between.is_some_and(|bytes| bytes > 0) => Stem::RfS,
        (Relation::Near, _) if between.is_some() => Stem::Rx,
        (Relation::Sequential, _) | (Relation::Same, Some(Found::Held)) => Stem::Rd,
        (Relation::Same, _) => Stem::RRd,
        _ if !fresh => match found {
            Some(Found::Held | Found::Coming(_)) => Stem::Rd,
            _ => Stem::RRd,
        },
        (Relation::Next | Relation::Near, Some(Found::Elsewhere)) => Stem::RfF,
        (Relation::Next, _) | (_, Some(Found::Held | Found::Coming(_))) => Stem::RfN,
        (Relation::Near, _) => Stem::RfS,
        (Relation::Far, _) => Stem::RfF,
        _ => Stem::RfO,
    }
}

impl View {
    /// A read that reaches the device, by its relation to the last one that did.
    #[allow(clippy::too_many_arguments, reason = "the arguments are the read")]
    pub(super) fn disk_read(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        offset: u64,
        length: u64,
        kib: f64,
        fresh: bool,
        charges: &mut Vec<Charge>,
    ) {
        let Some(inode) = step.ns.tree.inode(ino) else {
            return;
        };
        if fresh && self.lies_with_inode(inode.size) {
            charges.push(Charge::sized(Stem::Rf, step.gap, 1.0));
            self.requested.with_inode = true;
            return;
        }
        let next = self.next_listed(step, ino, offset);
        let ino = self.placed(step, ino);
        let Some(file) = self.file(step, ino) else {
            return;
        };
        let relation = self
            .last_data
            .relation(file, offset)
            .or_next(next.is_some());
        let distance = self
            .last_data
            .distance(file, offset)
            .map(|bytes| bytes / 1024);
        // Where nothing is read ahead, so many bytes are as far in one file as between two.
        let between = self.last_data.bytes_to(file, offset);
        let between = between.filter(|_| fresh && self.sizes.arm_alone);
        let back = distance.is_some_and(|kib| kib <= PASSED_KIB);
        let back = back && self.last_data.goes_back(file, offset);
        let distance = distance.or_else(|| self.far_in_kib(file, offset, fresh));
        self.relation = relation;
        let founds = self.ask_data(step, ino, (offset, length), relation, next);
        let away = std::mem::take(&mut self.arm_away) && self.sizes.arm_alone;
        self.leaves_inodes();
        let read = DiskRead {
            at: (ino, offset, length),
            kib,
            fresh,
            relation,
            distance,
            between,
            back,
            away,
            alone: comes_alone(step.op),
            commits: self.arm_commits,
        };
        let begin = charges.len();
        let usual = founds.map(|[usual, _]| usual);
        self.charge_found(step, &read, usual, charges);
        if let Some([_, slower]) = founds.filter(|[usual, slower]| usual != slower) {
            self.charge_found(step, &read, Some(slower), charges);
            for charge in charges.iter_mut().skip(begin) {
                charge.times /= 2.0;
            }
        }
        if let Some(request) = &mut self.request {
            let stem = self.sizes.reached(read.stem(usual));
            request.waits = true;
            request.near = matches!(stem, Stem::RfN | Stem::RfS | Stem::Rd);
        }
        if founds.is_none_or(|founds| founds.contains(&Found::Elsewhere)) {
            self.arm_commits = false;
        }
        self.note_data(step, ino, (offset, length), next);
    }

    /// Whether the data of a file of that size is kept with its inode.
    pub(super) fn lies_with_inode(&self, bytes: u64) -> bool {
        self.sizes.inline && bytes <= INLINE_BYTES
    }

    /// Whether the program said so of what it reads (fadvise).
    fn goes_anywhere(&mut self, step: &Passing<'_>) -> bool {
        let stream = self.stream_of(step);
        stream.is_some_and(|stream| stream.advice == Advice::Anywhere)
    }

    /// Charges a read that reaches the device by where it is found.
    fn charge_found(
        &mut self,
        step: &Passing<'_>,
        read: &DiskRead,
        found: Option<Found>,
        charges: &mut Vec<Charge>,
    ) {
        let DiskRead { kib, relation, .. } = *read;
        let (ino, offset, length) = read.at;
        let anywhere = self.goes_anywhere(step);
        let mut stem = self.sizes.reached(read.stem(found));
        // In sequence too each of its requests is there by itself.
        let one_by_one = stem == Stem::Rd && (read.alone || anywhere);
        // Who goes anywhere has each request alone, where none reads on by itself; where one does it has each answer.
        if !self.sizes.seeks && (anywhere || one_by_one) {
            return charges.push(Charge::sized(Stem::RRd, step.gap, kib));
        }
        if one_by_one && self.sizes.beside_is_held {
            stem = Stem::RfN;
        }
        if let Some(Found::Coming(bytes)) = found
            && !matches!(relation, Relation::Sequential | Relation::Same)
        {
            charges.push(Charge::sized(Stem::Rd, step.gap, bytes as f64 / 1024.0));
        }
        match read.distance.or(read.between.map(|bytes| bytes / 1024)) {
            // It comes by after a turn, as far as anything else.
            Some(_) if read.back && self.sizes.seeks && matches!(stem, Stem::Rx | Stem::RRd) => {
                charges.push(Charge::sized(Stem::RRd, step.gap, kib));
            }
            Some(distance) if stem == Stem::Rx || stem == Stem::RRd && kib <= SMALL_KIB => {
                let distance = self.sizes.off_kib(distance);
                charges.push(Charge::sized(Stem::Rx, step.gap, distance));
                if kib > 4.0 {
                    let rest = (kib - 4.0) / kib;
                    charges.push(Charge {
                        times: rest,
                        ..Charge::sized(Stem::Rd, step.gap, kib)
                    });
                }
            }
            // What lies beside another thread's request is there because of that.
            _ => charges.push(Charge {
                beside: matches!(stem, Stem::RfN | Stem::RfS)
                    && found != Some(Found::Held)
                    && self.last_reader == Some(step.op.tid),
                ..Charge::sized(stem, step.gap, kib)
            }),
        }
        if found.is_none_or(|found| found == Found::Elsewhere) {
            self.moves_to_read(read.commits, relation, charges);
        }
        // After other work the way to a device that is memory is cold. RFF has it in its own.
        if self.sizes.reads_paused && stem != Stem::RfF {
            charges.push(Charge::once(Stem::RfF, step.gap));
            charges.push(Charge::many(Stem::RfF, Gap::NONE, -1.0));
        }
        if found != Some(Found::Held) {
            self.charge_jumps(step, ino, (offset, length), 1, charges);
        }
    }

    /// The arm moves to a read: from what was committed it takes longer than from another file.
    fn moves_to_read(&self, commits: bool, relation: Relation, charges: &mut Vec<Charge>) {
        let goes_on = matches!(relation, Relation::Sequential | Relation::Same);
        if commits && self.sizes.seeks && !goes_on {
            charges.push(Charge::sized(Stem::RdSy, Gap::NONE, 4.0));
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::RfF, Gap::NONE, 4.0)
            });
        }
    }
}

impl Sizes {
    /// Nothing is near to anything in memory: in a loop over neighbours the code is warm, in no program is it.
    fn reached(self, stem: Stem) -> Stem {
        match stem {
            Stem::RfN | Stem::RfS if !self.seeks => Stem::RfF,
            stem => stem,
        }
    }
}

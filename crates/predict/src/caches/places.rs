//! Where requests go on the device, and what reads there are charged as.

use super::{Passing, View};
use crate::cost::Stem;
use crate::drive::{Found, Of, Request};
use crate::namespace::tree::Ino;
use crate::pattern::{NEAR_BYTES, NEXT_BYTES, Relation, place};

impl View {
    /// Where the data of a request is, on a device whose arm has to move; a neighbour of the last request is on its
    /// way, unless the arm has left. `next`: where it is taken to lie instead.
    pub(super) fn ask_data(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        relation: Relation,
        next: Option<u64>,
    ) -> Option<Found> {
        let (drive, inode) = (self.drive.as_mut()?, step.ns.tree.inode(ino)?);
        let (now_ns, until_ns) = (step.op.start_ns, step.op.end_ns());
        let (of, first) = next.map_or_else(|| place(inode, offset), |first| (Of::Data, first));
        // Where places are known, so is whether it lies before what was asked for last: nothing brings that.
        let beside = match relation {
            _ if next.is_none() && self.last_data.passed(inode, offset) => false,
            Relation::Next => drive.reaches(of, NEXT_BYTES, now_ns),
            Relation::Near => drive.reaches(of, NEAR_BYTES, now_ns),
            _ => false,
        };
        let place = (first, first.saturating_add(length.max(1)));
        self.request = Some(Request {
            of,
            first: place.0,
            end: place.1,
            near: false,
        });
        Some(match drive.ask(of, place, now_ns, until_ns) {
            Found::Elsewhere if beside => Found::Coming(0),
            Found::Coming(_) if relation != Relation::Far && relation != Relation::Other => {
                Found::Coming(0)
            }
            found => found,
        })
    }

    /// Notes a request of so many bytes, for the next one; `next`: where it was taken to lie.
    pub(super) fn note_data(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (offset, length): (u64, u64),
        next: Option<u64>,
    ) {
        if let Some(inode) = step.ns.tree.inode(ino) {
            self.last_data
                .note(ino, inode, offset.saturating_add(length));
            self.last_reader = Some(step.op.tid);
        }
        if let Some(first) = next {
            self.last_data.ends_at(first.saturating_add(length));
        }
    }
}

/// What a read that reaches the device is charged as. `away`: the arm has left to metadata; `between`: so many bytes lie
/// between two files where nothing is read ahead.
pub(super) fn read_stem(
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

//! What the steps of a visit draw their numbers from.

use fsage_core::OpKind;

use super::super::dist::{Deck, Dist, Random};
use super::super::names::{Name, Opened};
use super::super::step::{At, LARGEST, VisitStep};
use super::PAGE_BYTES;

#[derive(Debug, Clone, Default)]
pub(super) struct Decks {
    pub(super) times: Deck,
    pub(super) bytes: Deck,
    pub(super) place: Deck,
    pub(super) reads: Deck,
    /// How far the steps go on that start from where this one ends, bytes.
    pub(super) ahead_bytes: u64,
    /// What the visit at hand should read until the file's end, bytes.
    pub(super) wanted: Option<u64>,
    /// Calls of reads until the ends of files, fewer than there should have been or more.
    pub(super) calls_lack: i64,
    /// How many calls more the visit at hand is to be split into, or fewer.
    pub(super) split: i64,
}

impl Decks {
    /// What a read until the end asks for instead of `bytes`, with so much left.
    pub(super) fn asks(&mut self, bytes: u64, rest: u64) -> u64 {
        if self.split < 0 && bytes > 0 && rest > bytes {
            let fewer = self.split.unsigned_abs().min(rest.div_ceil(bytes) - 1);
            self.split = self.split.saturating_add_unsigned(fewer);
            return bytes.saturating_mul(fewer + 1).min(LARGEST);
        }
        if self.split > 0 && bytes.min(rest) > 1 {
            self.split -= 1;
            return bytes.min(rest) / 2;
        }
        bytes
    }
}

/// From where a transfer is told: the descriptor, where the last one started and ended, and the size of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct From {
    pub(super) open: Opened,
    pub(super) last: (u64, u64),
    pub(super) size: u64,
}

impl From {
    /// Where the next of so many bytes starts.
    pub(super) fn starts(
        self,
        known: &mut Name,
        step: &VisitStep,
        bytes: u64,
        decks: &mut Decks,
        random: &mut Random,
    ) -> u64 {
        let Self { open, last, size } = self;
        let write = step.form.is_write() && step.form.kind != OpKind::Fault;
        let offset = match step.form.at {
            _ if write && open.append => size,
            At::None | At::Next => last.1,
            At::Again => last.0,
            At::Start => 0,
            At::End if step.place.is_empty() => size,
            At::End => size.saturating_add(decks.place.draw(&step.place, random)),
            At::Skip(by) => last.1.saturating_add_signed(by),
            At::From => decks.place.draw(&step.place, random).min(size),
            At::Back => size.saturating_sub(decks.place.draw(&step.place, random)),
            At::Random => {
                // A seek goes where there is something.
                let own = bytes.max(step.unit).saturating_add(decks.ahead_bytes);
                let room = size.saturating_sub(own);
                anywhere(known, step, room, decks, random)
            }
        };
        offset.min(LARGEST)
    }
}

/// Of each step how far the steps behind it go on that are told by where the one before ended.
pub(super) fn of_steps(steps: &[VisitStep]) -> Vec<Decks> {
    let mut ahead_bytes: u64 = 0;
    let mut decks: Vec<Decks> = steps
        .iter()
        .rev()
        .map(|step| {
            let found = Decks {
                ahead_bytes,
                ..Decks::default()
            };
            let by_one = match step.form.at {
                At::Next if step.form.to_end.is_none() => Some(0),
                At::Skip(by) => Some(by),
                _ => None,
            };
            ahead_bytes = by_one.map_or(0, |by| {
                let each = mean(&step.bytes).saturating_add_signed(by);
                ahead_bytes.saturating_add(each.saturating_mul(mean(&step.times)))
            });
            found
        })
        .collect();
    decks.reverse();
    decks
}

fn mean(of: &Dist) -> u64 {
    let mean = of.sum().checked_div(u128::from(of.count()));
    mean.map_or(0, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
}

/// Where a transfer at random starts, in a file with so much room before it.
fn anywhere(
    known: &mut Name,
    step: &VisitStep,
    room_bytes: u64,
    decks: &mut Decks,
    random: &mut Random,
) -> u64 {
    let places = known.places.get_or_insert_default();
    let known_place = decks.place.draw(&step.place, random);
    let found = known_place
        .checked_sub(1)
        .and_then(|d| places.nth(d as usize))
        .map(|p| p * PAGE_BYTES);
    let unit = step.unit.max(1);
    let mut new = || random.below(room_bytes / unit + 1) * unit;
    let mut offset = found.unwrap_or_else(&mut new);
    for _ in 0..8 {
        if found.is_some() || places.distance(&(offset / PAGE_BYTES)).is_none() {
            break;
        }
        offset = new();
    }
    places.touch(offset / PAGE_BYTES);
    offset
}

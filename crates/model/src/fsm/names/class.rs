//! The files of a class, by what was done to them.

use super::super::dist::{Deck, Random};
use super::super::model::{Class, Order};
use super::super::recency::Recency;
use super::NEAR;

/// The files of a class.
#[derive(Debug, Default)]
pub(super) struct ClassState {
    pub(super) fresh: Vec<u32>,
    pub(super) there: Recency<u32>,
    pub(super) gone: Recency<u32>,
    pub(super) shared: Recency<u32>,
    pub(super) directory: Deck,
    pub(super) new_directory: Deck,
}

impl ClassState {
    /// In which directories `n` files lie, the last one first.
    pub(super) fn places(&mut self, class: &Class, n: u64, random: &mut Random) -> Vec<u32> {
        let mut all: Vec<u32> = (0..n)
            .map(|_| self.directory.draw(&class.directory, random) as u32)
            .collect();
        if class.order != Order::Any {
            all.sort_unstable();
        }
        all.reverse();
        all
    }

    /// The next that was not used yet; one that suits comes before its turn.
    pub(super) fn next(&mut self, suits: impl Fn(&u32) -> bool) -> Option<u32> {
        let from = self.fresh.len().saturating_sub(NEAR);
        let near = self.fresh.get(from..)?;
        match near.iter().rposition(suits) {
            Some(at) => Some(self.fresh.remove(from + at)),
            None => self.fresh.pop(),
        }
    }

    /// A file was used.
    pub(super) fn used(&mut self, name: u32, exists: bool) {
        let (to, from) = if exists {
            (&mut self.there, &mut self.gone)
        } else {
            (&mut self.gone, &mut self.there)
        };
        from.remove(&name);
        to.touch(name);
    }
}

/// Puts those that were not used yet, of which the last is the next, in that order; `above` tells where one lies.
pub(super) fn in_order(
    order: Order,
    fresh: &mut [u32],
    above: impl Fn(u32) -> u32,
    random: &mut Random,
) {
    let mut shuffle = |some: &mut [u32]| {
        for last in (1..some.len()).rev() {
            some.swap(last, random.below(last as u64 + 1) as usize);
        }
    };
    match order {
        Order::Any => shuffle(fresh),
        Order::Directory => {
            fresh.reverse();
            let same = |a: &u32, b: &u32| above(*a) == above(*b);
            fresh.chunk_by_mut(same).for_each(shuffle);
        }
        Order::Name => fresh.reverse(),
    }
}

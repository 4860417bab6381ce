//! Reads that go on until the end of a file: how many, and what is left.

use super::super::dist::Random;
use super::super::step::VisitStep;
use super::decks::Decks;
use super::{About, LAST, Player};

impl Player {
    /// Reads until the end are as many as the trace had: where the sizes of the files do not come to that, the last of
    /// a kind are split or put together.
    pub(super) fn plan(
        &self,
        step: &VisitStep,
        decks: &mut Decks,
        about: About,
        more: u64,
        random: &mut Random,
    ) {
        let wanted = decks.times.draw(&step.times, random);
        decks.calls_lack = decks.calls_lack.saturating_add_unsigned(wanted);
        let each = step.bytes.most().max(1);
        let calls = self.rest(about).div_ceil(each).max(1) + more;
        let lacks = decks.calls_lack.saturating_sub_unsigned(calls);
        let last = decks.times.left() <= lacks.unsigned_abs().saturating_add(LAST);
        decks.split = if last { lacks } else { 0 };
    }

    /// How much is left of the file at hand, bytes.
    fn rest(&self, about: About) -> u64 {
        let name = about.name.and_then(|n| self.names.get(n));
        name.map_or(0, |n| {
            let open = n.opened.iter().rfind(|o| o.tid == about.who.tid);
            let open = open.or(n.opened.last());
            open.map_or(n.size, |o| n.size_of(o).saturating_sub(o.last.1))
        })
    }

    /// Whether the next transfer finds nothing.
    pub(super) fn at_end(&self, about: About) -> bool {
        let name = about.name.and_then(|n| self.names.get(n));
        name.is_none_or(|n| {
            let open = n
                .opened
                .iter()
                .rfind(|o| o.tid == about.who.tid)
                .or(n.opened.last());
            open.map_or(n.size == 0, |o| o.last.1 >= n.size_of(o))
        })
    }
}

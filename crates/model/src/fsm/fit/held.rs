//! What each thread has open while it does something: what it goes on with hangs on that.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::gather::Visited;
use super::super::model::Pick;

/// Threads that have more open than this are all alike.
const MOST: usize = 3;

/// What threads have open.
#[derive(Debug, Default)]
pub(super) struct Held {
    of_thread: FxHashMap<u32, Vec<u32>>,
    numbers: FxHashMap<Vec<u32>, u32>,
}

impl Held {
    /// A number for the classes of the files that a thread has open, the same for the same classes.
    pub(super) fn number(&mut self, thread: u32, class: impl Fn(u32) -> u32) -> u32 {
        let open = self.of_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        if open.is_empty() || open.len() > MOST {
            return u32::from(!open.is_empty());
        }
        let mut classes: Vec<u32> = open.iter().map(|&node| class(node)).collect();
        classes.sort_unstable();
        let next = self.numbers.len() as u32 + 2;
        *self.numbers.entry(classes).or_insert(next)
    }

    /// A visit is over.
    pub(super) fn after(&mut self, visit: &Visited) {
        let open = self.of_thread.entry(visit.thread).or_default();
        let node = visit.node;
        match open.iter().position(|&n| n == node) {
            Some(at) if !visit.state.held => {
                open.swap_remove(at);
            }
            None if visit.state.held => open.push(node),
            _ => {}
        }
    }
}

/// What is done to which file, whatever is open.
pub(super) type Base = (u32, (u32, Pick), Option<(u32, Pick)>);

/// A line by what is done and by what is open.
pub(super) type OpenLine = (Base, u32);

/// What follows a line, and how often; `None` is the end.
pub(super) type Next = Vec<(Option<OpenLine>, u64)>;

/// Rounds in which what lines tell of one another goes on.
const ROUNDS: usize = 8;

/// Which lines are to be told apart by what is open: those of which it hangs on that what follows, more than chance would
/// have it (Schwarz 1978). `lines` are all of them, told apart.
pub(super) fn telling(lines: &[(OpenLine, Next)]) -> FxHashSet<Base> {
    let visits: u64 = lines.iter().flat_map(|l| &l.1).map(|next| next.1).sum();
    let cost = (visits.max(2) as f64).ln() / 2.0;
    let mut of: FxHashMap<Base, Vec<&Next>> = FxHashMap::default();
    for ((base, _), next) in lines {
        of.entry(*base).or_default().push(next);
    }
    let mut telling: FxHashSet<Base> = FxHashSet::default();
    for _ in 0..ROUNDS {
        let seen = |next: &Option<OpenLine>| {
            next.map(|(base, open)| (base, if telling.contains(&base) { open } else { 0 }))
        };
        let is_telling = |variants: &Vec<&Next>| {
            let mut all: FxHashMap<Option<OpenLine>, u64> = FxHashMap::default();
            let mut apart = 0.0;
            for next in variants {
                let mut own: FxHashMap<Option<OpenLine>, u64> = FxHashMap::default();
                for (next, n) in *next {
                    *own.entry(seen(next)).or_default() += n;
                    *all.entry(seen(next)).or_default() += n;
                }
                apart += likelihood(&own);
            }
            let more = (variants.len() - 1) * (all.len() - 1);
            apart - likelihood(&all) > cost * more as f64
        };
        let new = of.iter().filter(|(base, variants)| {
            !telling.contains(*base) && variants.len() > 1 && is_telling(variants)
        });
        let new: Vec<Base> = new.map(|(base, _)| *base).collect();
        if new.is_empty() {
            break;
        }
        telling.extend(new);
    }
    telling
}

/// How likely those are that follow, in logarithms.
fn likelihood(next: &FxHashMap<Option<OpenLine>, u64>) -> f64 {
    let total: u64 = next.values().sum();
    let term = |&n: &u64| n as f64 * (n as f64 / total as f64).ln();
    next.values().map(term).sum()
}

//! The lines of a part as they are counted.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::dist::{Counter, Dist};
use super::super::model::{OLDEST, Stage, Took};
use super::held::{Base, telling};

/// What is done to which file, and what was open where that is told.
pub(super) type Key = (Base, u32);

#[derive(Debug, Default)]
pub(super) struct LineFit {
    pub(super) key: Option<Key>,
    pub(super) distance: Far,
    pub(super) to_distance: Far,
    pub(super) think: Counter,
    pub(super) took: [(u64, u64); Stage::COUNT],
    pub(super) repeat: Counter,
    /// For how many it did not wait, and one more; 0 where it did not wait.
    pub(super) waits: Counter,
    pub(super) next: FxHashMap<u32, u64>,
}

/// What comes with a visit of a line: how far its file is, for how many it did not wait and one more, and its times.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Came {
    pub(super) distance: u64,
    pub(super) waits: u64,
    pub(super) think_ns: u64,
    pub(super) took_ns: u64,
}

/// A value of a distribution is worth so many bits.
const VALUE_BITS: f64 = 2.0;

impl LineFit {
    /// How often it is done in a row, where that is not as chance would have it: where it takes less to tell the rows than
    /// after each visit whether there is another (Rissanen 1978).
    pub(super) fn rows(&self) -> Option<&Counter> {
        let entropy = |all: &[u64]| {
            let total: u64 = all.iter().sum();
            let term = |&n: &u64| n as f64 * (total as f64 / n as f64).log2();
            all.iter().filter(|n| **n > 0).map(term).sum::<f64>()
        };
        let lengths = self.repeat.dist(usize::MAX).0;
        let rows: Vec<u64> = lengths.iter().map(|row| row.1).collect();
        let chance = entropy(&[rows.iter().sum(), self.again()]);
        let coded = entropy(&rows) + VALUE_BITS * rows.len() as f64;
        (coded < 0.8 * chance).then_some(&self.repeat)
    }

    /// How often it followed itself.
    fn again(&self) -> u64 {
        let rows = self.repeat.dist(usize::MAX).0;
        rows.iter().map(|(times, n)| (times - 1) * n).sum()
    }

    /// What follows, where `line` is its number and rows are told or not.
    pub(super) fn next(&self, line: u32, rows: bool) -> FxHashMap<u32, u64> {
        let mut next = self.next.clone();
        let again = if rows { 0 } else { self.again() };
        if again > 0 {
            *next.entry(line).or_default() += again;
        }
        next
    }

    /// A visit to a file at a stage, with another so far away.
    pub(super) fn came(&mut self, stage: Stage, came: Came, other: u64) {
        self.distance.add(came.distance);
        self.to_distance.add(other);
        self.waits.add(came.waits);
        self.think.add(came.think_ns);
        self.took(stage, came.took_ns);
    }

    /// A visit to a file at a stage took so long.
    fn took(&mut self, stage: Stage, ns: u64) {
        if let Some((n, sum)) = self.took.get_mut(stage.number()) {
            (*n, *sum) = (*n + 1, sum.saturating_add(ns));
        }
    }

    /// The means; of stages that did not come that of all.
    pub(super) fn took_ns(&self) -> Took {
        let all = self.took.iter().fold((0, 0_u64), |(n, sum), of| {
            (n + of.0, sum.saturating_add(of.1))
        });
        let mean = |(n, sum): (u64, u64)| sum.checked_div(n);
        Took(self.took.map(|of| mean(of).or(mean(all)).unwrap_or(0)))
    }
}

/// Where a thread is: its phase, the line that it did last, and how often in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) phase: u32,
    pub(super) line: u32,
    pub(super) times: u64,
}

/// Distances from the latest, and from the one used longest ago where that is nearer.
#[derive(Debug, Default)]
pub(super) struct Far(Counter, Counter);

impl Far {
    pub(super) fn add(&mut self, distance: u64) {
        match distance.checked_sub(OLDEST) {
            Some(old) => self.1.add(old),
            None => self.0.add(distance),
        }
    }

    pub(super) fn dist(&self, bins: usize) -> Dist {
        let mut all = self.0.dist(bins);
        all.0.extend(
            self.1
                .dist(bins)
                .0
                .into_iter()
                .map(|(old, n)| (OLDEST + old, n)),
        );
        all.shares()
    }
}

#[derive(Debug, Default)]
pub(super) struct PartFit {
    pub(super) ids: FxHashMap<Key, u32>,
    pub(super) lines: Vec<LineFit>,
    pub(super) first: FxHashMap<u32, u64>,
    pub(super) going_on: FxHashMap<u32, u64>,
}

/// By phase and group.
pub(super) type Parts = FxHashMap<(u32, u32), PartFit>;

pub(super) fn ends(parts: &mut Parts, group: u32, last: At) {
    if let Some(part) = parts.get_mut(&(last.phase, group)) {
        part.follows(last, 0);
    }
}

impl PartFit {
    pub(super) fn line(&mut self, key: Key) -> u32 {
        let lines = &mut self.lines;
        *self.ids.entry(key).or_insert_with(|| {
            lines.push(LineFit {
                key: Some(key),
                ..LineFit::default()
            });
            lines.len() as u32
        })
    }

    /// Of which it hangs on what is open what follows.
    pub(super) fn telling(&self) -> FxHashSet<Base> {
        let key = |line: u32| {
            let line = self.lines.get((line as usize).checked_sub(1)?)?;
            line.key
        };
        let lines = self.lines.iter().zip(1..).filter_map(|(line, number)| {
            let next = line.next(number, false).into_iter();
            Some((line.key?, next.map(|(next, n)| (key(next), n)).collect()))
        });
        telling(&lines.collect::<Vec<_>>())
    }

    /// A line comes after the last one, or is what is begun with, by who `goes_on` from an earlier phase or by another.
    pub(super) fn comes(&mut self, last: Option<At>, line: u32, goes_on: bool) {
        match last {
            Some(before) => self.follows(before, line),
            None => *self.first.entry(line).or_default() += 1,
        }
        if goes_on && last.is_none() {
            *self.going_on.entry(line).or_default() += 1;
        }
    }

    fn follows(&mut self, before: At, line: u32) {
        if let Some(known) = self.lines.get_mut(before.line as usize - 1) {
            known.repeat.add(before.times);
            *known.next.entry(line).or_default() += 1;
        }
    }
}

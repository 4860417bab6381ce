//! A model of a part of the trace's time, or of several times it: as many processes, visits and repetitions as come of that.
//!
//! What follows what stays a walk that can be walked: of each line as many visits are left as are begun. Where a visit
//! cannot be done in part it is what it repeats that becomes less.

use std::collections::BTreeMap;

use fsage_core::OpKind;

use super::dist::Dist;
use super::flow::scaled;
use super::model::{Group, Line, Model, Part, Visit};
use super::step::VisitStep;

/// How far the number of a kind of operations may be from what the time asks for without a word, beside the one that
/// rounding takes.
const OFF: f64 = 0.02;

/// What a kind of operations comes to, and should.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OffByTime {
    /// The kind.
    pub kind: OpKind,
    /// How often it would be done.
    pub wanted: f64,
    /// How often it is.
    pub done: f64,
}

impl Model {
    /// The same for so many times the trace's time.
    #[must_use]
    pub fn for_time(&self, time: f64) -> Self {
        let mut scaled = self.clone();
        if (time - 1.0).abs() < f64::EPSILON {
            return scaled;
        }
        for group in &mut scaled.groups {
            group.for_time(time);
        }
        // Of each visit how many there were, and how many there are.
        let mut visits = vec![(0.0, 0.0); self.visits.len()];
        let parts = self.phases.iter().flat_map(|phase| &phase.parts);
        let new = scaled.phases.iter_mut().flat_map(|phase| &mut phase.parts);
        for (part, new) in parts.zip(new) {
            part.for_time(self, time, new);
            for (line, new) in part.script.iter().zip(&new.script) {
                let place = (line.visit as usize).wrapping_sub(1);
                if let Some((before, after)) = visits.get_mut(place) {
                    *before += line.visits() as f64;
                    *after += new.visits() as f64;
                }
            }
        }
        for (visit, counts) in scaled.visits.iter_mut().zip(visits) {
            visit.for_time(time, counts);
        }
        scaled
    }

    /// Which kinds of operations `scaled`, this for so many times its time, has more or fewer of than it should: what was
    /// done once cannot be done in part.
    pub fn off_by_time(&self, scaled: &Self, time: f64) -> Vec<OffByTime> {
        let (before, after) = (self.steps(), scaled.steps());
        let of = |(&kind, n): (&OpKind, &f64)| OffByTime {
            kind,
            wanted: n * time,
            done: after.get(&kind).copied().unwrap_or(0.0),
        };
        let all = before.iter().map(of);
        all.filter(|of| (of.done - of.wanted).abs() > 1.0 + OFF * of.wanted)
            .collect()
    }

    /// Operations of each kind, of what goes on to the end of a file one.
    fn steps(&self) -> BTreeMap<OpKind, f64> {
        let mut counts = BTreeMap::new();
        let parts = self.phases.iter().flat_map(|phase| &phase.parts);
        for line in parts.flat_map(|part| &part.script) {
            for step in self.visit(line).map_or(&[][..], |visit| &visit.steps) {
                let n = line.visits() as f64
                    * if step.repeats() {
                        step.times.mean()
                    } else {
                        1.0
                    };
                *counts.entry(step.form.kind).or_default() += n;
            }
        }
        counts
    }
}

/// So many times a number of what there is, one at the least.
fn some(n: u64, time: f64) -> u64 {
    ((n as f64 * time).round() as u64).max(n.min(1))
}

impl VisitStep {
    /// Whether it is done several times in a row, as often as the model says.
    fn repeats(&self) -> bool {
        self.form.to_end.is_none() && !self.times.is_only(1)
    }
}

impl Group {
    fn for_time(&mut self, time: f64) {
        let roots = some(self.roots(), time);
        self.started = some(self.started, time);
        self.processes = roots + self.started;
    }
}

impl Visit {
    fn for_time(&mut self, time: f64, (before, after): (f64, f64)) {
        if before < 0.5 || after < 0.5 {
            return;
        }
        let visits = after.round() as u64;
        for step in &mut self.steps {
            let calls = before * step.times.mean().max(1.0);
            if step.repeats() {
                step.times = step.times.stretched(visits, time * before / after, 1);
            } else if step.form.to_end.is_some() {
                step.times = of_as_many(&step.times, visits);
                step.reads = of_as_many(&step.reads, visits);
            }
            let now = after * step.times.mean().max(1.0);
            let drawn = step.bytes.count() as f64 * now / calls;
            step.bytes = of_as_many(&step.bytes, drawn.round().max(1.0) as u64);
        }
    }
}

/// The same as so many values; one that is the only one is drawn as often as it is asked for.
fn of_as_many(dist: &Dist, count: u64) -> Dist {
    match dist.0.as_slice() {
        [] | [_] => dist.clone(),
        _ => dist.stretched(count, 1.0, 0),
    }
}

impl Part {
    fn for_time(&self, model: &Model, time: f64, new: &mut Self) {
        let (first, next) = scaled(model, self, time);
        let of_line = |first: &Dist, line: u64| {
            let of_line = first.0.iter().filter(|f| f.0 == line);
            of_line.fold(0, |n: u64, f| n.saturating_add(f.1))
        };
        // Of those that begin so as many go on as did.
        for entry in &mut new.going_on.0 {
            let before = of_line(&self.first, entry.0).max(1);
            let share = entry.1 as f64 / before as f64;
            entry.1 = (of_line(&first, entry.0) as f64 * share).round() as u64;
        }
        new.going_on.0.retain(|entry| entry.1 > 0);
        new.first = first;
        for ((line, next), new) in self.script.iter().zip(next).zip(&mut new.script) {
            new.next = next;
            line.for_time(time, new);
        }
    }
}

impl Line {
    /// What is done in rows is done in as many as lead there, which are longer or shorter instead.
    fn for_time(&self, time: f64, new: &mut Self) {
        let (before, rows) = (self.next.count(), new.next.count());
        if rows == 0 {
            return;
        }
        if !self.repeat.is_only(1) {
            let factor = time * before as f64 / rows as f64;
            new.repeat = self.repeat.stretched(rows, factor, 1);
        }
        new.think_ns = of_as_many(&self.think_ns, new.visits());
    }
}

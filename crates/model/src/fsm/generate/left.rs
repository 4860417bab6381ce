//! What is left to be done of a part of a model, and what of it comes next.

use std::collections::VecDeque;

use super::super::classes::Classes;
use super::super::dist::{Deck, Random};
use super::super::model::{Model, Part, Pick};
use super::super::names::Has;
use super::needs::needs;

/// What is left to be done of a part.
#[derive(Debug, Clone, Default)]
pub(super) struct Left {
    /// What is begun with by those that begin.
    pub(super) first: Vec<(u64, u64)>,
    /// What by those that go on from an earlier phase.
    pub(super) going_on: Vec<(u64, u64)>,
    pub(super) next: Vec<Vec<(u64, u64)>>,
    /// Of each line the follower that is kept for last: the next on the shortest way to the end. So nothing is left
    /// over (the last exits of an Eulerian trail; van Aardenne-Ehrenfest and de Bruijn 1951).
    pub(super) exits: Vec<u64>,
    /// Of each line, from 0, the end, on: whether nothing but the end can come of it.
    pub(super) ends: Vec<bool>,
    /// Of each line the classes of which one must be open.
    pub(super) needs: Vec<Classes>,
    /// How many one that begins does, on average.
    pub(super) each: u64,
    pub(super) think: Vec<Deck>,
    pub(super) waits: Vec<Deck>,
    pub(super) repeat: Vec<Deck>,
    pub(super) distance: Vec<(Deck, Deck)>,
}

/// Whether the end is to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// As often as it comes.
    Free,
    /// Not if there is anything else.
    Later,
    /// If it can be.
    Now,
}

/// Which follower is drawn.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    /// Only when nothing else is left.
    pub(super) kept: u64,
    /// Whether it is to be the end.
    pub(super) end: End,
    /// By line: whether it leads to the end alone.
    pub(super) ends: &'a [bool],
    /// What can be done at all. Where nothing can as it should, what can otherwise is drawn, or anything.
    pub(super) can: &'a dyn Fn(u64) -> Has,
}

/// Draws one and takes it away. 0 where there is none.
pub(super) fn draw(left: &mut [(u64, u64)], how: How<'_>, random: &mut Random) -> u64 {
    let total: u64 = left.iter().map(|l| l.1).sum();
    let is_kept = |l: &(u64, u64)| l.0 == how.kept && l.1 > 0;
    let held = u64::from(total > 1 && left.iter().any(is_kept));
    let leads_out = |line: u64| line == 0 || how.ends.get(line as usize) == Some(&true);
    let weight = |entry: &(u64, u64), end: End, has: Has| {
        let held = if entry.0 == how.kept { held } else { 0 };
        let times = entry.1.saturating_sub(held);
        let barred = match end {
            End::Free => false,
            End::Later => leads_out(entry.0),
            End::Now => !leads_out(entry.0),
        };
        if times == 0 || barred || has != Has::None && (how.can)(entry.0) < has {
            0
        } else {
            times
        }
    };
    let sum = |end: End, has: Has| left.iter().map(|l| weight(l, end, has)).sum::<u64>();
    let of = |end: End| [Has::Fitting, Has::Another, Has::None].map(|has| (end, has));
    let ways = of(how.end).into_iter().chain(of(End::Free));
    let mut ways = ways.map(|(end, has)| (end, has, sum(end, has)));
    let Some((end, has, sum)) = ways.find(|way| way.2 > 0) else {
        return 0;
    };
    let mut at = random.below(sum);
    for entry in left.iter_mut() {
        let times = weight(entry, end, has);
        if at < times {
            entry.1 -= 1;
            return entry.0;
        }
        at -= times;
    }
    0
}

impl Left {
    /// Whether there is something to begin with.
    pub(super) fn begins(&self) -> bool {
        let mut left = self.first.iter().chain(&self.going_on);
        left.any(|first| first.1 > 0)
    }

    pub(super) fn new(model: &Model, part: &Part) -> Self {
        let all = part
            .script
            .iter()
            .fold(0, |n: u64, line| n.saturating_add(line.visits()));
        let lines = part.script.len();
        let mut new = part.first.0.clone();
        for &(line, n) in &part.going_on.0 {
            let mut of_line = new.iter_mut().filter(|first| first.0 == line);
            if let Some(first) = of_line.next() {
                first.1 = first.1.saturating_sub(n);
            }
        }
        Self {
            first: new,
            going_on: part.going_on.0.clone(),
            next: part.script.iter().map(|l| l.next.0.clone()).collect(),
            exits: exits(part, model.groups.iter().any(|g| g.started > 0)),
            ends: ends(part),
            needs: needs(model, part),
            each: all.checked_div(part.first.count()).unwrap_or(0),
            think: vec![Deck::default(); lines],
            waits: vec![Deck::default(); lines],
            repeat: vec![Deck::default(); lines],
            distance: vec![Default::default(); lines],
        }
    }
}

/// For each line, from 0, the end, on, whether nothing but the end can come of it: the last thing that a process did, which
/// it did nowhere else. Who still has much to do must not come there by chance.
fn ends(part: &Part) -> Vec<bool> {
    let mut ends = vec![false; part.script.len() + 1];
    if let Some(end) = ends.first_mut() {
        *end = true;
    }
    loop {
        let mut more = false;
        for (i, line) in part.script.iter().enumerate() {
            let out = |next: &(u64, u64)| ends.get(next.0 as usize) == Some(&true);
            let all = line.next.0.iter().all(out);
            if let Some(own) = ends.get_mut(i + 1).filter(|own| all && !**own) {
                (*own, more) = (true, true);
            }
        }
        if !more {
            return ends;
        }
    }
}

/// For each line the follower that is nearest to the end. Where processes begin others it is, of several, one that is no first
/// use of a file, which may have to come before the others, and that comes most often.
fn exits(part: &Part, by_lines: bool) -> Vec<u64> {
    let mut far: Vec<Option<u64>> = vec![None; part.script.len() + 1];
    let mut exits = vec![0; part.script.len()];
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); part.script.len() + 1];
    for (i, line) in part.script.iter().enumerate() {
        for (next, _) in &line.next.0 {
            if let Some(before) = before.get_mut(*next as usize) {
                before.push(i + 1);
            }
        }
    }
    let mut queue = VecDeque::from([0_usize]);
    if let Some(end) = far.first_mut() {
        *end = Some(0);
    }
    while let Some(line) = queue.pop_front() {
        let distance = far.get(line).copied().flatten().unwrap_or(0);
        for &earlier in before.get(line).into_iter().flatten() {
            let Some(place) = far.get_mut(earlier).filter(|p| p.is_none()) else {
                continue;
            };
            *place = Some(distance + 1);
            if let Some(exit) = exits.get_mut(earlier - 1) {
                *exit = line as u64;
            }
            queue.push_back(earlier);
        }
    }
    if !by_lines {
        return exits;
    }
    let distance = |line: u64| far.get(line as usize).copied().flatten();
    let is_first = |line: u64| {
        let line = (line as usize).checked_sub(1);
        let line = line.and_then(|at| part.script.get(at));
        line.is_some_and(|line| matches!(line.file.pick, Pick::New | Pick::Fresh))
    };
    let nearest = |next: &Vec<(u64, u64)>| {
        let near = next.iter().filter_map(|n| Some((distance(n.0)?, n)));
        let exit = near.min_by_key(|(far, n)| (*far, is_first(n.0), std::cmp::Reverse(n.1)));
        exit.map_or(0, |(_, n)| n.0)
    };
    part.script.iter().map(|l| nearest(&l.next.0)).collect()
}

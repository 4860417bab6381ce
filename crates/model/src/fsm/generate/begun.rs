//! Processes that lines begin, and who waits until those have ended.

use std::cmp::Reverse;
use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::super::model::Model;
use super::left::Left;
use super::{Batch, Generator, Who, is_started};

/// One that is to begin: behind which visit, and by which thread it was begun.
#[derive(Debug, Clone, Copy)]
struct Start {
    behind: (u32, u64),
    parent: u32,
}

/// As which visit a lane does something, what it comes behind, and behind what of that it thinks.
pub(super) struct Comes {
    pub(super) who: Who,
    pub(super) behind: Vec<(u32, u64)>,
    pub(super) thinks_after: Vec<(u32, u64)>,
}

/// What threads have begun.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// By group: those that are to begin once there is a place.
    starts: Vec<VecDeque<Start>>,
    /// By group: places on which nobody is, and since when.
    idle: Vec<Vec<(u64, u32)>>,
    /// By group: how many are left that nobody begins.
    roots: Vec<u64>,
    /// Of each thread how many that it began have not ended, and the last visits of the others.
    living: FxHashMap<u32, u64>,
    ended: FxHashMap<u32, Vec<(u32, u64)>>,
    /// Who waits until so many are left.
    waiting: FxHashMap<u32, (u32, u64)>,
}

impl Begun {
    pub(super) fn new(groups: usize) -> Self {
        Self {
            starts: vec![VecDeque::new(); groups],
            idle: vec![Vec::new(); groups],
            roots: vec![0; groups],
            ..Self::default()
        }
    }

    /// Whether there are any left of a group that nobody begins.
    pub(super) fn has_roots(&self, group: u32) -> bool {
        self.roots.get(group as usize - 1).is_some_and(|n| *n > 0)
    }

    /// All places on which nobody is, which none are then.
    pub(super) fn none_idle(&mut self) -> Vec<(u64, u32)> {
        self.idle.iter_mut().flat_map(std::mem::take).collect()
    }
}

impl Generator {
    /// As many as nobody begins are to come.
    pub(super) fn roots(&mut self) {
        for (roots, group) in self.begun.roots.iter_mut().zip(&self.model.groups) {
            *roots = group.roots();
        }
    }

    /// Whether nobody begins on a place of a group whose processes others begin.
    pub(super) fn idles(&mut self, model: &Model, index: u32) -> bool {
        let Some(lane) = self.lanes.get_mut(index as usize) else {
            return false;
        };
        if !lane.new || lane.started || !is_started(model, lane.group) {
            return false;
        }
        let group = lane.group as usize - 1;
        let starts = self.begun.starts.get_mut(group);
        if let Some(start) = starts.and_then(VecDeque::pop_front) {
            (lane.started, lane.behind, lane.parent) =
                (true, Some(start.behind), Some(start.parent));
            return false;
        }
        if let Some(roots) = self.begun.roots.get_mut(group).filter(|n| **n > 0) {
            *roots -= 1;
            lane.started = true;
            return false;
        }
        lane.idle = true;
        if let Some(idle) = self.begun.idle.get_mut(group) {
            idle.push((self.now_ns, index));
        }
        true
    }

    /// Whether a lane waits for those that its process began, before it does its line.
    pub(super) fn waits_for(
        &mut self,
        model: &Model,
        index: u32,
        (phase, part, number): (usize, usize, u32),
    ) -> bool {
        let at = number as usize - 1;
        let parts = model.phases.get(phase).map_or(&[][..], |p| &p.parts);
        let line = parts.get(part).and_then(|part| part.script.get(at));
        let Some(line) = line.filter(|line| !line.waits.is_empty()) else {
            return false;
        };
        let left = self.left.get_mut(phase).and_then(|left| left.get_mut(part));
        let (Some(lane), Some(deck)) = (
            self.lanes.get_mut(index as usize),
            left.and_then(|left| left.waits.get_mut(at)),
        ) else {
            return false;
        };
        if lane.waits.is_some() {
            return false;
        }
        let left = deck.draw(&line.waits, &mut self.random);
        lane.waits = Some(left > 0);
        let tid = lane.who.tid;
        let living = self.begun.living.get(&tid).copied().unwrap_or(0);
        let waits = left > 0 && living > left - 1;
        if waits {
            self.begun.waiting.insert(tid, (index, left - 1));
        }
        waits
    }

    /// What a lane has waited for, if it has before this visit. Where nobody thinks nobody waits for that, either: a replay
    /// does not.
    pub(super) fn waited(&mut self, index: u32) -> Vec<(u32, u64)> {
        let Some(lane) = self.lanes.get_mut(index as usize) else {
            return Vec::new();
        };
        if lane.waits.take() != Some(true) {
            return Vec::new();
        }
        let ended = self.begun.ended.remove(&lane.who.tid);
        ended
            .filter(|_| self.options.streams == 0)
            .unwrap_or_default()
    }

    /// A lane does something: which visit that is, and what it comes behind.
    pub(super) fn comes(&mut self, model: &Model, index: u32) -> Option<Comes> {
        let mut behind: Vec<(u32, u64)> = self.begun(model, index).into_iter().collect();
        let lane = self.lanes.get_mut(index as usize)?;
        (lane.did, lane.new) = (true, false);
        lane.who.visit = self.streams.visit(lane.who.visit.0);
        let (who, group) = (lane.who, lane.group);
        lane.last = who.visit;
        // Who no line begins is late by how long its place was empty, and does not think behind who began it.
        let mut thinks_after = behind.clone();
        thinks_after.retain(|_| is_started(model, group));
        let waited = self.waited(index);
        thinks_after.extend(&waited);
        behind.extend(waited);
        thinks_after.retain(|other| other.0 != who.visit.0);
        Some(Comes {
            who,
            behind,
            thinks_after,
        })
    }

    /// A lane begins a process of the group that its line tells.
    pub(super) fn begin(
        &mut self,
        model: &Model,
        (now_ns, think_ns): (u64, u64),
        index: u32,
        (phase, part, at): (usize, usize, usize),
    ) -> Option<u64> {
        let line = model.phases.get(phase)?.parts.get(part)?.script.get(at)?;
        let Comes {
            who,
            thinks_after,
            behind: mut after,
        } = self.comes(model, index)?;
        after.retain(|other| other.0 != who.visit.0);
        let batch = Batch {
            think_ns,
            after,
            thinks_after,
            calls: Vec::new(),
            span_ns: (now_ns, now_ns),
            tid: who.tid,
            place: (phase, part, at),
        };
        self.streams.give(who.visit.0, batch);
        *self.begun.living.entry(who.tid).or_default() += 1;
        let group = line.begins as usize - 1;
        self.begun.starts.get_mut(group)?.push_back(Start {
            behind: who.visit,
            parent: who.tid,
        });
        if let Some((_, lane)) = self.begun.idle.get_mut(group)?.pop() {
            self.lanes.get_mut(lane as usize)?.idle = false;
            self.next.push(Reverse((now_ns, lane)));
        }
        self.lanes.get_mut(index as usize)?.walked += 1;
        self.follows(model, index, (phase, part, at))?;
        Some(now_ns)
    }

    /// The process of a lane has ended: who waited for it goes on.
    pub(super) fn has_ended(&mut self, index: u32) {
        let Some(lane) = self.lanes.get_mut(index as usize) else {
            return;
        };
        (lane.started, lane.waits) = (false, None);
        let begun = &mut self.begun;
        begun.living.remove(&lane.who.tid);
        begun.ended.remove(&lane.who.tid);
        let Some(parent) = lane.parent.take() else {
            return;
        };
        let Some(living) = begun.living.get_mut(&parent) else {
            return;
        };
        *living = living.saturating_sub(1);
        begun.ended.entry(parent).or_default().push(lane.last);
        let is_over = |&(_, left): &(u32, u64)| *living <= left;
        if begun.waiting.get(&parent).is_some_and(is_over)
            && let Some((waiting, _)) = begun.waiting.remove(&parent)
        {
            self.next.push(Reverse((self.now_ns, waiting)));
        }
    }

    /// Where nothing else comes who waits goes on, and what nobody began begins, so that all is done that a phase tells.
    pub(super) fn goes_on_alone(&mut self, model: &Model) -> bool {
        let now_ns = self.now_ns;
        let waiting = self.begun.waiting.values().map(|w| w.0).min();
        if let Some(first) = waiting {
            self.begun.waiting.retain(|_, waiting| waiting.0 != first);
            self.next.push(Reverse((now_ns, first)));
            return true;
        }
        for idle in 0..self.begun.idle.len() {
            let place = self.begun.idle.get(idle).and_then(|idle| idle.last());
            let lane = place.and_then(|&(_, lane)| self.lanes.get_mut(lane as usize));
            let Some(lane) = lane else { continue };
            let parts = model.phases.get(lane.phase).map_or(&[][..], |p| &p.parts);
            let part = parts.iter().position(|part| part.group == lane.group);
            let left = self.left.get(lane.phase);
            let left = part.and_then(|part| left?.get(part));
            if !left.is_some_and(Left::begins) {
                continue;
            }
            (lane.started, lane.idle) = (true, false);
            let idle = self.begun.idle.get_mut(idle);
            if let Some((_, place)) = idle.and_then(Vec::pop) {
                self.next.push(Reverse((now_ns, place)));
                return true;
            }
        }
        false
    }

    /// Whether nothing comes from a place until others have gone on.
    pub(super) fn is_idle(&self, place: u32) -> bool {
        let idle = self.lanes.get(place as usize).is_some_and(|l| l.idle);
        idle && self.lanes.iter().any(|lane| !lane.ended && !lane.idle)
    }
}

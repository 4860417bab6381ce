//! Which line of its part a lane is at, and whether its process goes on when a phase ends.

use super::super::model::Model;
use super::super::names::Has;
use super::left::{End, How, Left, draw};
use super::{Generator, Lane, goes_on, has};

/// Visits from which on processes of a group are taken to do equally much.
const LONG: u64 = 32;

/// What is begun with is drawn as often as it comes.
const FREE: How<'static> = How {
    kept: 0,
    end: End::Free,
    ends: &[],
    can: &|_| Has::Fitting,
};

impl Generator {
    /// Which part a lane is in, and which line of it is next; `None` where there is nothing more for it in the phase.
    pub(super) fn line(&mut self, model: &Model, index: u32) -> Option<(usize, usize, u32)> {
        let lane = self.lanes.get(index as usize)?;
        let (phase, group, line) = (lane.phase, lane.group, lane.line);
        let parts = &model.phases.get(phase)?.parts;
        let part = parts.iter().position(|p| p.group == group)?;
        let left = self.left.get(phase)?.get(part)?;
        if line == 0 && !left.begins() {
            return None;
        }
        let line = match line {
            0 => self.begins(model, index, (phase, part))?,
            line => line,
        };
        self.lanes.get_mut(index as usize)?.line = line;
        (line > 0).then_some((phase, part, line))
    }

    /// What a lane begins with: what is left for the process that it has from an earlier phase, else what another does.
    fn begins(&mut self, model: &Model, index: u32, at: (usize, usize)) -> Option<u32> {
        let lane = self.lanes.get_mut(index as usize)?;
        let group = lane.group;
        if std::mem::take(&mut lane.goes_on) {
            let left = self.left.get_mut(at.0)?.get_mut(at.1)?;
            let line = draw(&mut left.going_on, FREE, &mut self.random);
            if line > 0 {
                return Some(line as u32);
            }
            self.end(model, index);
        }
        let left = self.left.get_mut(at.0)?.get_mut(at.1)?;
        let line = draw(&mut left.first, FREE, &mut self.random);
        // What others are to go on with is theirs.
        let others = self.lanes.iter().any(|l| l.group == group && l.goes_on);
        if line > 0 || others {
            return Some(line as u32);
        }
        Some(draw(&mut left.going_on, FREE, &mut self.random) as u32)
    }

    /// What a lane does after a visit of line `at`, from 0: that once more, another, or nothing in this phase.
    pub(super) fn follows(
        &mut self,
        model: &Model,
        index: u32,
        (phase, part, at): (usize, usize, usize),
    ) -> Option<()> {
        let script = &model.phases.get(phase)?.parts.get(part)?.script;
        let left = self.left.get_mut(phase)?.get_mut(part)?;
        let lane = self.lanes.get_mut(index as usize)?;
        let row = left.repeat.get_mut(at)?;
        if goes_on(lane, script.get(at)?, row, &mut self.random) {
            return Some(());
        }
        let exit = left.exits.get(at).copied().unwrap_or(0);
        // Those that do long things do as much each.
        let end = match left.each {
            0..LONG => End::Free,
            each if lane.walked < each => End::Later,
            _ => End::Now,
        };
        // What needs an open file comes when there is one: else it would have to be opened once more.
        let (names, pid) = (&self.player.names, lane.who.pid);
        let needs = &left.needs;
        let can = |next: u64| {
            let Some(at) = (next as usize).checked_sub(1) else {
                return Has::Fitting;
            };
            let needs = needs.get(at).copied().unwrap_or_default();
            match script.get(at).filter(|_| names.open(needs, pid)) {
                Some(line) => has(names, model, line, pid),
                None => Has::None,
            }
        };
        let how = How {
            kept: exit,
            end,
            ends: &left.ends,
            can: &can,
        };
        lane.line = draw(left.next.get_mut(at)?, how, &mut self.random) as u32;
        if lane.line == 0 {
            self.leaves(model, index, (phase, part));
        }
        Some(())
    }

    /// A lane has come to the end of its part: its process goes on in a later phase, or ends.
    pub(super) fn leaves(&mut self, model: &Model, index: u32, at: (usize, usize)) {
        let stays = self.stays(model, index, at);
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            (lane.walked, lane.goes_on) = (0, stays);
        }
        if !stays {
            self.end(model, index);
        }
    }

    /// Whether one that has done its part of a phase goes on in the next that its group has a part of: those that are the last on
    /// their places do, as many as the model tells.
    fn stays(&self, model: &Model, index: u32, (phase, part): (usize, usize)) -> bool {
        let group = self.lanes.get(index as usize).map_or(0, |l| l.group);
        let left = self.left.get(phase).and_then(|left| left.get(part));
        if left.is_none_or(Left::begins) {
            return false;
        }
        let later = model.phases.iter().skip(phase + 1);
        let mut parts = later.flat_map(|phase| &phase.parts);
        let next = parts.find(|part| part.group == group);
        let staying = |lane: &&Lane| lane.group == group && lane.goes_on;
        let staying = self.lanes.iter().filter(staying).count() as u64;
        next.is_some_and(|part| staying < part.going_on.count())
    }
}

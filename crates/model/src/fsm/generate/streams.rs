//! In which streams the processes of a model go on: those that follow one another on a place in one, or each in its own.

use std::collections::VecDeque;

use super::super::model::{Group, Model};
use super::{Batch, Generator, is_started};

/// Processes of a place that go on at once are at most so many.
const APART: u32 = 16;

/// What a stream does next.
#[derive(Debug)]
pub enum Next {
    /// This.
    Batch(Batch),
    /// Others begin before it is its turn.
    Later,
    /// Nothing any more.
    End,
}

/// The streams of all places.
#[derive(Debug, Default)]
pub(super) struct Streams {
    all: Vec<Stream>,
    /// Of each place: its first stream, how many it has, and how many processes have begun there.
    places: Vec<(u32, u32, u32)>,
    /// Which was given something last.
    latest: Option<u32>,
}

#[derive(Debug, Default)]
struct Stream {
    place: u32,
    batches: u64,
    queue: VecDeque<Batch>,
}

impl Streams {
    /// One more place of a group, of so many streams at the most.
    pub(super) fn add(&mut self, group: &Group, most: u32) {
        let each = group.processes.div_ceil(group.at_once.max(1).into());
        let of = match group.threads_of {
            0 => each.min(most.min(APART).into()).max(1) as u32,
            _ => 1,
        };
        let place = self.places.len() as u32;
        self.places.push((self.all.len() as u32, of, 0));
        self.all.extend((0..of).map(|_| Stream {
            place,
            ..Stream::default()
        }));
    }

    /// The stream of the process that begins on a place.
    pub(super) fn next(&mut self, place: u32) -> u32 {
        let Some((first, of, begun)) = self.places.get_mut(place as usize) else {
            return 0;
        };
        let stream = *first + *begun % *of;
        *begun = begun.wrapping_add(1);
        stream
    }

    /// A visit of a stream begins: its number.
    pub(super) fn visit(&mut self, stream: u32) -> (u32, u64) {
        let batches = self.all.get_mut(stream as usize).map(|s| &mut s.batches);
        let number = batches.map_or(0, |batches| {
            *batches += 1;
            *batches
        });
        (stream, number)
    }

    /// What a stream is to do next.
    pub(super) fn give(&mut self, stream: u32, batch: Batch) {
        if let Some(known) = self.all.get_mut(stream as usize) {
            known.queue.push_back(batch);
            self.latest = Some(stream);
        }
    }

    /// The last that a stream is to do, while it has not been taken.
    pub(super) fn last(&mut self, stream: u32) -> Option<&mut Batch> {
        self.all.get_mut(stream as usize)?.queue.back_mut()
    }

    fn take(&mut self, stream: u32) -> Option<Batch> {
        self.all.get_mut(stream as usize)?.queue.pop_front()
    }
}

impl Generator {
    /// How many streams there are.
    pub fn lanes(&self) -> usize {
        self.streams.all.len()
    }

    /// What a stream does next.
    pub fn batch(&mut self, stream: u32) -> Next {
        loop {
            if let Some(batch) = self.streams.take(stream) {
                return Next::Batch(batch);
            }
            let known = self.streams.all.get(stream as usize);
            let lane = known.and_then(|s| self.lanes.get(s.place as usize));
            match lane {
                Some(lane) if lane.ended => return Next::End,
                Some(_) if known.is_some_and(|s| self.is_idle(s.place)) => return Next::Later,
                Some(lane) if lane.who.visit.0 == stream => {}
                Some(_) => return Next::Later,
                None => return Next::End,
            }
            self.step();
        }
    }

    /// The same for who cannot wait for others.
    pub fn at_once(&mut self, stream: u32) -> Option<Batch> {
        loop {
            match self.batch(stream) {
                Next::Batch(batch) => return Some(batch),
                Next::Later => self.step()?,
                Next::End => return None,
            };
        }
    }

    /// The next batch of all, in the order of their times, with its stream.
    pub fn any(&mut self) -> Option<(u32, Batch)> {
        loop {
            self.streams.latest = None;
            self.step()?;
            let latest = self.streams.latest;
            if let Some(found) = latest.and_then(|s| Some((s, self.streams.take(s)?))) {
                return Some(found);
            }
        }
    }

    /// Behind which visit a process begins, where it has done nothing yet: the latest of one of those that begin such.
    pub(super) fn begun(&mut self, model: &Model, index: u32) -> Option<(u32, u64)> {
        let lane = self.lanes.get(index as usize).filter(|lane| lane.new)?;
        if is_started(model, lane.group) {
            return self.lanes.get_mut(index as usize)?.behind.take();
        }
        let group = lane.group as usize - 1;
        let begun_by = &model.groups.get(group)?.begun_by;
        let deck = self.begun_by.get_mut(group)?;
        let by = deck.draw(begun_by, &mut self.parents) as u32;
        // Who has something left to do rather than one that has ended.
        let could = |at: &usize| {
            let other = self.lanes.get(*at).filter(|other| other.group == by);
            other.is_some_and(|other| other.did && *at != index as usize)
        };
        let could: Vec<usize> = (0..self.lanes.len()).filter(could).collect();
        let is_at_it = |at: &&usize| self.lanes.get(**at).is_some_and(|l| !l.new && !l.ended);
        let at_it: Vec<usize> = could.iter().filter(is_at_it).copied().collect();
        let among = if at_it.is_empty() { could } else { at_it };
        let chosen = among.get(self.parents.below(among.len() as u64) as usize)?;
        Some(self.lanes.get(*chosen)?.last)
    }
}

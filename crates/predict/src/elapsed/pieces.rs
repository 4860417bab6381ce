//! Work of a thread that slept meanwhile, taken into pieces: nobody knows when it did which part of it, and what it did all
//! at once would hold up others as it did not.

use fsage_core::Op;

use super::follow::{Awaits, Event};

/// Starts of a thread's operations that are kept: of more, every other one.
const KEPT_STARTS: usize = 512;

/// A piece of work is at least so long.
const LEAST_PIECE_NS: f64 = 20e3;

/// Work between sleeps of which nobody knows what ended them is in so many pieces at the most: each is a step of the replay,
/// and of a trace of hours there are many.
const MOST_ALONE: u64 = 512;

/// Work before a wait, in pieces, the first of which waits for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// How many.
    pub count: u64,
    /// What each further one waits for; nothing: it only gives its processor up.
    pub along: Option<Along>,
    /// Then it sleeps so long before each, unless whom it waits for after the last one has come.
    pub rest_ns: u64,
}

/// Operations of a thread that another one's work goes along with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Along {
    /// The thread.
    pub slot: usize,
    /// How many operations it had completed before.
    pub from: u64,
    /// How many it completed meanwhile.
    pub ops: u64,
}

impl Pieces {
    /// Goes on to the next one; whether there is one. [`Along::from`] is then what the other has to have completed before that.
    pub fn go_on(&mut self) -> bool {
        let Some(count) = self.count.checked_sub(1) else {
            return false;
        };
        if let Some(Along { from, ops, .. }) = &mut self.along {
            let step = *ops / self.count.max(1);
            (*from, *ops) = (from.saturating_add(step), *ops - step);
        }
        self.count = count;
        count > 0
    }
}

/// When a thread's operations began, of many of them every so many.
#[derive(Debug, Clone, Default)]
pub(super) struct Starts {
    /// Numbers, counted from 1, and starts.
    some: Vec<(u64, u64)>,
    /// Only those whose number is a multiple of two to the power of this are kept.
    every: u32,
    /// Those that came before anybody could wait for them.
    before: u64,
}

impl Starts {
    #[inline]
    pub fn push(&mut self, start: u64, number: u64) {
        if self.some.is_empty() && self.every == 0 {
            self.before = number.saturating_sub(1);
        }
        if number.trailing_zeros() < self.every {
            return;
        }
        if self.some.len() >= KEPT_STARTS {
            self.every += 1;
            let every = self.every;
            self.some.retain(|at| at.0.trailing_zeros() >= every);
        }
        self.some.push((number, start));
    }

    /// How many are known to have begun before `time`.
    pub fn before(&self, time: u64) -> u64 {
        let place = self.some.partition_point(|at| at.1 < time);
        let last = place.checked_sub(1).and_then(|place| self.some.get(place));
        last.map_or(self.before, |at| at.0)
    }
}

/// Takes work in a pause before `op` into pieces. Where another thread's operations `ended_it`, of which there were several
/// since the pause began, it is taken to be on what those brought, one after the other: what reads a pipe has nothing to do
/// before something was written. Where the trace tells that the thread slept more often than that, it is on what its
/// `company`, all threads of its process, did meanwhile; else it rests as long before each piece.
pub(super) fn take_apart(
    op: &Op,
    (ended_it, company): (Option<Along>, Option<Along>),
    event: &mut Event,
) {
    let sleeps = u64::from(op.pause.sleeps);
    let company = company.filter(|along| sleeps > 0 && along.ops > 1);
    let along = ended_it.filter(|along| sleeps <= along.ops).or(company);
    let count = match along {
        Some(along) if sleeps > 0 => sleeps.min(along.ops),
        Some(along) => along.ops,
        None => sleeps.min(MOST_ALONE),
    };
    if event.awaits.is_none() && sleeps > 0 {
        return alternate(count, along, event);
    }
    let Some(awaits) = &mut event.awaits else {
        return;
    };
    let count = count.min(most_pieces(awaits.think_ns));
    let rest_ns = match along {
        Some(_) => 0,
        None => op.pause.waited_ns / count.max(1),
    };
    awaits.pieces = (count > 1).then_some(Pieces {
        count,
        along,
        rest_ns,
    });
}

/// Into how many pieces work is taken apart at the most.
fn most_pieces(think_ns: f64) -> u64 {
    (think_ns / LEAST_PIECE_NS) as u64
}

/// Work between so many sleeps that nobody of the trace ended.
fn alternate(sleeps: u64, along: Option<Along>, event: &mut Event) {
    let most = most_pieces(event.think_ns).min(MOST_ALONE);
    let count = (sleeps + 1).min(most);
    if count > 1 {
        let slept_ns = std::mem::take(&mut event.sleep_ns);
        let rest_ns = (slept_ns / count as f64) as u64;
        event.awaits = Some(Box::new(Awaits {
            sleep_ns: slept_ns - (rest_ns * (count - 1)) as f64,
            think_ns: std::mem::take(&mut event.think_ns),
            pieces: Some(Pieces {
                count,
                along,
                rest_ns,
            }),
            ..Awaits::default()
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_known_about_however_many_there_are() {
        for many in [3u64, 500, 511, 512, 5_000, 1 << 16] {
            let mut starts = Starts::default();
            for number in 1..=many {
                starts.push(10 * number, number);
            }
            assert!(starts.some.len() <= KEPT_STARTS);
            let apart = (4 * many / KEPT_STARTS as u64).max(1);
            for time in [0, 10, 11, 5 * many, 10 * many, 10 * many + 1] {
                let known = starts.before(time);
                let all = time.saturating_sub(1) / 10;
                assert!(
                    known <= all && all - known <= apart,
                    "{many} {time} {known}"
                );
            }
        }
    }
}

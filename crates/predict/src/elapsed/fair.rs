//! Who gets a processor next: Linux's fair scheduler since 6.6 (EEVDF), among threads of equal weight.
//!
//! Each has a virtual time, which goes on as it runs, and a deadline, a slice behind it. Of those that had no more than
//! their share, whose time is not beyond the mean of all, the one with the earliest deadline is next. It keeps its
//! processor until that has passed, whoever wakes up, and then for whoever is next at a tick or when somebody wakes up. Who
//! goes to sleep and is owed time has it when it wakes up; who had too much is counted until it has worked that off.
//! As `kernel/sched/fair.c` of 6.18 has it; the names in brackets are its own.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Linux looks whether a slice is over this often (`CONFIG_HZ` is 250 nearly everywhere).
const TICK_NS: u64 = 4_000_000;

/// Of those with the earliest deadlines so many are looked at. Where none of them is to have its turn, that one is that had
/// least: traces of strangers are gone through in bounded time.
const MOST_LOOKED_AT: usize = 64;

/// Who gets processors: a thread of the kernel or of the trace, by its number among both.
pub(super) type Who = usize;

/// What a thread that gives its processor up does then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It sleeps until it is woken.
    Sleeps,
    /// It has slept, and is awake again at once.
    Wakes,
    /// It would have gone on.
    WouldGoOn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// It had no processor yet.
    #[default]
    New,
    /// It wants one since then. One that is `delayed` sleeps, and is still counted until it has worked off what it had too
    /// much (`sched_delayed`).
    Ready { since: u64, delayed: bool },
    /// It has one since then. One that is `woken` meanwhile, since threads go ahead of one another, will not sleep.
    Running { from: u64, woken: bool },
    /// It sleeps, and is owed so much (`vlag`).
    Asleep { owed: i128 },
}

/// Times in nanoseconds of virtual time.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// When it got its processor, where it has one (`vruntime`).
    time: i128,
    deadline: i128,
    /// Of those that came to the same the first comes first.
    turn: u64,
    state: State,
}

#[derive(Debug, Clone)]
pub(super) struct Fair {
    slice_ns: u64,
    shares: Vec<Share>,
    /// Those that want a processor, by their deadlines and by their times.
    by_deadline: BTreeSet<(i128, u64, Who)>,
    by_time: BTreeSet<(i128, u64, Who)>,
    /// How many have one.
    running: usize,
    /// The sum of all times: what it is at the moment 0 for those that run.
    sum: i128,
    turns: u64,
    /// The mean when somebody was last there.
    mean: i128,
    /// When somebody is to wake up.
    wakes: BinaryHeap<Reverse<u64>>,
}

impl Fair {
    /// With slices of so many nanoseconds.
    pub fn new(slice_ns: u64) -> Self {
        Self {
            slice_ns,
            shares: Vec::new(),
            by_deadline: BTreeSet::new(),
            by_time: BTreeSet::new(),
            running: 0,
            sum: 0,
            turns: 0,
            mean: 0,
            wakes: BinaryHeap::new(),
        }
    }

    /// Somebody will wake up then.
    pub fn will_wake(&mut self, at: u64) {
        self.wakes.push(Reverse(at));
    }

    /// The first of them does.
    pub fn woke(&mut self) {
        self.wakes.pop();
    }

    /// Whether somebody wants a processor.
    pub fn waits(&self) -> bool {
        !self.by_time.is_empty()
    }

    /// One wakes up, or begins (`place_entity`).
    pub fn wakes(&mut self, who: Who, now: u64) {
        let mean = self.mean(now);
        let slice = i128::from(self.slice_ns);
        let mut share = self.share(who);
        match share.state {
            State::New => (share.time, share.deadline) = (mean, mean + slice / 2),
            State::Asleep { owed } => {
                // What it is owed once it is one of them.
                let others = (self.running + self.by_time.len()) as i128;
                let owed = if others > 0 { owed + owed / others } else { 0 };
                (share.time, share.deadline) = (mean - owed, mean - owed + slice);
            }
            State::Ready { delayed: true, .. } => {
                self.take_out(who);
                if share.time < mean {
                    (share.time, share.deadline) = (mean, mean + slice);
                }
            }
            State::Running { from, .. } => {
                let woken = true;
                share.state = State::Running { from, woken };
                return self.put(who, share);
            }
            State::Ready { .. } => return,
        }
        self.wants(who, share, (now, false));
    }

    /// One gives its processor up.
    pub fn leaves(&mut self, who: Who, now: u64, then: Then) {
        let mean = self.mean(now);
        let mut share = self.share(who);
        let State::Running { from, woken } = share.state else {
            return;
        };
        self.running -= 1;
        self.sum -= share.time - i128::from(from);
        let slice = i128::from(self.slice_ns);
        share.time += i128::from(now.saturating_sub(from));
        if share.time >= share.deadline {
            share.deadline = share.time + slice;
        }
        if then == Then::WouldGoOn {
            return self.wants(who, share, (now, false));
        }
        if share.time > mean {
            self.wants(who, share, (now, true));
        } else {
            let most = (2 * slice).max(i128::from(TICK_NS));
            let owed = (mean - share.time).min(most);
            share.state = State::Asleep { owed };
            self.put(who, share);
        }
        if woken || then == Then::Wakes {
            self.wakes(who, now);
        }
    }

    /// Who gets a free processor at `now`, and since when it wanted one.
    pub fn next(&mut self, now: u64) -> Option<(Who, u64)> {
        loop {
            let who = self.first(now)?;
            let mut share = self.take_out(who);
            let State::Ready { since, delayed } = share.state else {
                return None;
            };
            if delayed {
                // It has worked it off, and is owed nothing (`DELAY_ZERO`).
                share.state = State::Asleep { owed: 0 };
                self.put(who, share);
                continue;
            }
            let (from, woken) = (now, false);
            share.state = State::Running { from, woken };
            self.put(who, share);
            self.running += 1;
            self.sum += share.time - i128::from(now);
            return Some((who, since));
        }
    }

    /// Until when who has a processor keeps it, if it does not give it up.
    pub fn until(&self, who: Who) -> u64 {
        let share = self.share(who);
        let State::Running { from, .. } = share.state else {
            return u64::MAX;
        };
        let left = u64::try_from(share.deadline - share.time).unwrap_or(0);
        let kept = from.saturating_add(left);
        let wake = self.wakes.peek().map_or(u64::MAX, |&Reverse(at)| at);
        let tick = if self.waits() {
            (kept / TICK_NS).saturating_add(1).saturating_mul(TICK_NS)
        } else {
            u64::MAX
        };
        kept.max(wake).min(tick)
    }

    /// Who is first of those that want a processor (`pick_eevdf`).
    fn first(&mut self, now: u64) -> Option<Who> {
        let mean = self.mean(now);
        let may = |who: Who| self.share(who).time <= mean;
        let looked_at = self.by_deadline.iter().take(MOST_LOOKED_AT);
        let first = looked_at.map(|&(.., who)| who).find(|&who| may(who));
        first.or_else(|| self.by_time.first().map(|&(.., who)| who))
    }

    fn share(&self, who: Who) -> Share {
        self.shares.get(who).copied().unwrap_or_default()
    }

    fn put(&mut self, who: Who, share: Share) {
        if self.shares.len() <= who {
            self.shares.resize_with(who + 1, Share::default);
        }
        if let Some(place) = self.shares.get_mut(who) {
            *place = share;
        }
    }

    /// The mean of the virtual times of all that run or want to (`avg_vruntime`).
    fn mean(&mut self, now: u64) -> i128 {
        let running = self.running as i128;
        let count = running + self.by_time.len() as i128;
        if count > 0 {
            self.mean = (self.sum + running * i128::from(now)).div_euclid(count);
        }
        self.mean
    }

    fn wants(&mut self, who: Who, mut share: Share, (since, delayed): (u64, bool)) {
        self.turns += 1;
        share.turn = self.turns;
        share.state = State::Ready { since, delayed };
        self.put(who, share);
        self.sum += share.time;
        self.by_deadline.insert((share.deadline, share.turn, who));
        self.by_time.insert((share.time, share.turn, who));
    }

    /// One is not among those any more that want a processor.
    fn take_out(&mut self, who: Who) -> Share {
        let share = self.share(who);
        self.sum -= share.time;
        self.by_deadline.remove(&(share.deadline, share.turn, who));
        self.by_time.remove(&(share.time, share.turn, who));
        share
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "of what was put there")]
mod tests {
    use super::*;

    const SLICE: u64 = 1_400_000;

    /// One processor, for which all of these came at the beginning.
    fn all_of(count: usize) -> Fair {
        let mut fair = Fair::new(SLICE);
        for who in 0..count {
            fair.wakes(who, 0);
        }
        fair
    }

    /// Who has the processor, one after another, where nobody gives it up before it has to.
    fn turns(fair: &mut Fair, count: usize) -> Vec<(Who, u64)> {
        let mut now = 0;
        let mut all = Vec::new();
        for _ in 0..count {
            let (who, _) = fair.next(now).unwrap();
            now = fair.until(who).max(now);
            all.push((who, now));
            fair.leaves(who, now, Then::WouldGoOn);
        }
        all
    }

    #[test]
    fn who_only_computes_has_it_in_turn_until_a_tick() {
        let ticks = |n: u64| n * TICK_NS;
        let all = turns(&mut all_of(3), 6);
        let in_turn = (0..6).map(|n| (n as usize % 3, ticks(n + 1)));
        assert_eq!(all, in_turn.collect::<Vec<_>>());
    }

    #[test]
    fn nobody_is_put_off_before_its_deadline_and_then_when_somebody_wakes() {
        let mut fair = all_of(1);
        assert_eq!(fair.next(0), Some((0, 0)));
        // A new one has half a slice, and nobody wants its processor.
        assert_eq!(fair.until(0), u64::MAX);
        fair.will_wake(100);
        assert_eq!(fair.until(0), SLICE / 2, "who wakes up waits for that");
        fair.woke();
        fair.will_wake(SLICE);
        assert_eq!(fair.until(0), SLICE);
        fair.wakes(1, 100);
        assert_eq!(fair.until(0), SLICE, "before the tick");
    }

    #[test]
    fn who_is_new_comes_before_who_woke_up_at_the_same_time() {
        let mut fair = all_of(2);
        assert_eq!(fair.next(0), Some((0, 0)));
        fair.leaves(0, 1000, Then::Sleeps);
        assert_eq!(fair.next(1000), Some((1, 0)));
        // What the first one had too much it has worked off by then.
        let now = 1000 + SLICE;
        fair.wakes(0, now);
        fair.wakes(2, now);
        fair.leaves(1, now, Then::Sleeps);
        assert_eq!(fair.next(now), Some((2, now)));
    }

    #[test]
    fn who_had_too_much_waits_until_the_others_had_as_much() {
        let mut fair = all_of(3);
        let (first, _) = fair.next(0).unwrap();
        let long = 10 * SLICE;
        fair.leaves(first, long, Then::Wakes);
        let mut now = long;
        let mut had = 0;
        // The two others come one after the other, until they have had what it had, less a turn of each.
        while let Some((who, _)) = fair.next(now).filter(|&(who, _)| who != first) {
            let end = fair.until(who);
            had += end - now;
            now = end;
            fair.leaves(who, now, Then::WouldGoOn);
        }
        assert!(had > 2 * (long - 2 * TICK_NS), "{had}");
        assert!(had < 2 * (long + TICK_NS), "{had}");
    }

    #[test]
    fn who_waited_is_owed_that_when_it_wakes_up_again() {
        let mut fair = all_of(3);
        let mut now = 0;
        for _ in 0..2 {
            let (who, _) = fair.next(now).unwrap();
            now = fair.until(who);
            fair.leaves(who, now, Then::WouldGoOn);
        }
        // The third one waited for two turns, and needs next to nothing.
        assert_eq!(fair.next(now), Some((2, 0)));
        fair.leaves(2, now + 1000, Then::Sleeps);
        let (running, _) = fair.next(now + 1000).unwrap();
        let wakes = now + 2000;
        fair.wakes(2, wakes);
        fair.wakes(9, wakes);
        fair.leaves(running, wakes, Then::WouldGoOn);
        assert_eq!(fair.next(wakes), Some((2, wakes)), "before one that is new");
    }

    #[test]
    fn who_is_woken_before_it_sleeps_does_not_sleep() {
        let mut fair = all_of(1);
        assert_eq!(fair.next(0), Some((0, 0)));
        fair.wakes(0, 10);
        fair.leaves(0, 20, Then::Sleeps);
        assert_eq!(fair.next(30), Some((0, 20)));
        fair.leaves(0, 40, Then::Sleeps);
        assert_eq!(fair.next(40), None, "that was once");
    }

    #[test]
    fn any_order_gives_everybody_a_turn_and_as_much_as_the_others() {
        let mut random = 7u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let count = 20;
        let mut fair = all_of(count);
        let (mut now, mut had) = (0, vec![0; count]);
        for _ in 0..20_000 {
            let (who, since) = fair.next(now).unwrap();
            assert!(since <= now);
            let then = [Then::WouldGoOn, Then::Wakes][next(2) as usize];
            let ran = next(2 * SLICE).max(1);
            now += ran;
            had[who] += ran;
            fair.leaves(who, now, then);
        }
        let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
        assert!(most - least < 20 * SLICE, "{had:?}");
        assert!(*least > 0);
    }

    #[test]
    fn the_end_of_time_is_no_end_of_turns() {
        let mut fair = all_of(2);
        let (who, _) = fair.next(u64::MAX - 5).unwrap();
        fair.leaves(who, u64::MAX, Then::WouldGoOn);
        assert!(fair.next(u64::MAX).is_some());
        let end = fair.until(0).min(fair.until(1));
        assert_eq!(end, u64::MAX);
    }
}

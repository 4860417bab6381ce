//! Locks of files in predicted time: who holds what, and who waits for it.
//!
//! As Linux keeps them: whoever asks is held up by what others hold, not by who waits already. Where something is given up,
//! those that wait are woken and ask again, in the order in which they came: who gave a lock up and wants it again at once has
//! it before they are there.

use rustc_hash::{FxHashMap, FxHashSet};

/// How long a thread takes until it asks again after it is woken: 3 to 25 us on an idle machine.
pub(super) const WOKEN_NS: u64 = 20_000;

/// Whose a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// An open file.
    Open(u32),
    Process(u32),
}

/// Which locks are in one another's way: those of one file by flock(2), or by fcntl(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub file: u32,
    pub by_flock: bool,
}

impl Place {
    /// Those of a file.
    pub fn both(file: u32) -> [Self; 2] {
        [false, true].map(|by_flock| Self { file, by_flock })
    }
}

/// A lock of `from..to` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lock {
    pub place: Place,
    pub owner: Owner,
    pub exclusive: bool,
    pub from: u64,
    pub to: u64,
    /// Which of all in the trace.
    pub number: u64,
    /// Whether the call waits for it; otherwise it fails, and the program asks again later.
    pub waits: bool,
}

impl Lock {
    /// Whether they cannot be held both.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.owner != other.owner
            && (self.exclusive || other.exclusive)
            && self.from < other.to
            && other.from < self.to
    }

    /// Whether who asks for it has to wait while the other one is held. A program that asks without waiting asks again, or
    /// for something else: what was held later in the trace it did not find.
    pub fn held_up_by(&self, held: &Self) -> bool {
        self.conflicts(held) && (self.waits || held.number < self.number)
    }

    /// Whether `gone`, which its owner gives up, is a part of it.
    pub fn loses(&self, gone: &Self) -> bool {
        self.owner == gone.owner && self.from < gone.to && gone.from < self.to
    }

    /// What is left of it without that.
    pub fn without(self, gone: &Self) -> impl Iterator<Item = Self> {
        let loses = self.loses(gone);
        let before = Self {
            to: if loses { gone.from } else { self.to },
            ..self
        };
        let after = Self {
            from: if loses { gone.to } else { self.to },
            ..self
        };
        [before, after]
            .into_iter()
            .filter(|left| left.from < left.to)
    }
}

/// What an operation does to locks.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// Takes one, in place of what its owner held there.
    Take(Lock),
    /// Gives up what the owner holds there.
    Release(Lock),
    /// Gives up all that these hold of these files.
    Drop(Vec<(u32, Owner)>),
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    slot: usize,
    lock: Lock,
    turn: u64,
}

/// Locks of one place.
#[derive(Debug, Clone, Default)]
struct Kept {
    held: Vec<Lock>,
    waiting: Vec<Waiting>,
}

impl Kept {
    fn give_up(&mut self, gone: &Lock) {
        if self.held.iter().any(|lock| lock.loses(gone)) {
            let held = std::mem::take(&mut self.held).into_iter();
            self.held = held.flat_map(|lock| lock.without(gone)).collect();
        }
    }
}

/// Those of all files.
#[derive(Debug, Clone, Default)]
pub(super) struct Locks {
    places: FxHashMap<Place, Kept>,
    turns: u64,
    /// Those that are yet to be taken and that nobody gives up.
    stale: FxHashSet<u64>,
    /// Where something was given up and somebody waits.
    freed: Vec<Place>,
    /// Threads that have what they waited for.
    woken: Vec<usize>,
}

impl Locks {
    /// A thread asks for a lock; whether it has it at once.
    pub fn take(&mut self, slot: usize, lock: Lock) -> bool {
        let place = lock.place;
        if place.by_flock {
            let held = self.places.get_mut(&place).into_iter();
            let mut held = held.flat_map(|kept| &mut kept.held);
            let same =
                |held: &&mut Lock| held.owner == lock.owner && held.exclusive == lock.exclusive;
            if let Some(held) = held.find(same) {
                held.number = lock.number;
                return true;
            }
            // What it had of another kind is given up first.
            self.release(&lock);
        }
        let kept = self.places.entry(place).or_default();
        if kept.held.iter().any(|held| lock.held_up_by(held)) {
            self.turns += 1;
            let turn = self.turns;
            kept.waiting.push(Waiting { slot, lock, turn });
            return false;
        }
        self.hold(lock);
        // It may be less than what it replaces.
        self.free(place);
        true
    }

    /// An owner gives up what it holds there.
    pub fn release(&mut self, lock: &Lock) {
        if let Some(kept) = self.places.get_mut(&lock.place) {
            kept.give_up(lock);
            self.free(lock.place);
        }
    }

    /// An owner gives up all that it holds of a file.
    pub fn drop_of(&mut self, file: u32, owner: Owner) {
        for place in Place::both(file) {
            if let Some(kept) = self.places.get_mut(&place) {
                kept.held.retain(|lock| lock.owner != owner);
                self.free(place);
            }
        }
    }

    /// Nobody gives this one up, though others had it later: it is in nobody's way.
    pub fn is_stale(&mut self, place: Place, number: u64) {
        let kept = self.places.get_mut(&place);
        let is_held = kept.is_some_and(|kept| {
            let count = kept.held.len();
            kept.held.retain(|lock| lock.number != number);
            kept.held.len() < count
        });
        if is_held {
            self.settle(place);
        } else {
            self.stale.insert(number);
        }
    }

    /// Whoever has waited longest has its lock, whoever holds it; whether somebody waited.
    pub fn force(&mut self) -> bool {
        let first = |kept: &Kept| kept.waiting.first().map(|waiting| waiting.turn);
        let places = self
            .places
            .iter()
            .filter_map(|(p, k)| Some((first(k)?, *p)));
        let Some((_, place)) = places.min_by_key(|&(turn, _)| turn) else {
            return false;
        };
        if let Some(kept) = self.places.get_mut(&place)
            && let Some(&Waiting { lock, .. }) = kept.waiting.first()
        {
            kept.held.retain(|held| !held.conflicts(&lock));
        }
        self.settle(place);
        true
    }

    /// Where something was given up and somebody waits, since this was asked for last.
    pub fn freed(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.freed)
    }

    /// Threads that have what they waited for, since this was asked for last.
    pub fn woken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.woken)
    }

    fn hold(&mut self, lock: Lock) {
        let kept = self.places.entry(lock.place).or_default();
        kept.give_up(&lock);
        if !self.stale.remove(&lock.number) {
            kept.held.push(lock);
        }
    }

    /// Something is held no more.
    fn free(&mut self, place: Place) {
        if let Some(kept) = self.places.get(&place) {
            if !kept.waiting.is_empty() {
                self.freed.push(place);
            } else if kept.held.is_empty() {
                self.places.remove(&place);
            }
        }
    }

    /// Those that wait ask again.
    pub fn settle(&mut self, place: Place) {
        let mut next = 0;
        while let Some(kept) = self.places.get_mut(&place) {
            let Some(&Waiting { slot, lock, .. }) = kept.waiting.get(next) else {
                if kept.held.is_empty() && kept.waiting.is_empty() {
                    self.places.remove(&place);
                }
                return;
            };
            if kept.held.iter().any(|held| lock.held_up_by(held)) {
                next += 1;
                continue;
            }
            kept.waiting.remove(next);
            self.hold(lock);
            self.woken.push(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Place = Place {
        file: 1,
        by_flock: false,
    };

    fn lock(process: u32, exclusive: bool, (from, to): (u64, u64)) -> Lock {
        Lock {
            place: FILE,
            owner: Owner::Process(process),
            exclusive,
            from,
            to,
            number: u64::from(process),
            waits: true,
        }
    }

    /// Those that have what they waited for once all that can has asked again.
    fn woken(locks: &mut Locks) -> Vec<usize> {
        for place in locks.freed() {
            locks.settle(place);
        }
        locks.woken()
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let mut locks = Locks::default();
        let all = (0, u64::MAX);
        assert!(locks.take(1, lock(1, false, all)));
        assert!(locks.take(2, lock(2, false, all)));
        assert!(!locks.take(3, lock(3, true, all)));
        // Who waits holds nobody up.
        assert!(locks.take(4, lock(4, false, all)));
        for reader in [1, 2, 4] {
            assert!(woken(&mut locks).is_empty());
            locks.release(&lock(reader, false, all));
        }
        assert_eq!(woken(&mut locks), [3]);
        for waits in [5, 6, 7] {
            assert!(!locks.take(waits, lock(waits as u32, waits == 7, all)));
        }
        locks.drop_of(1, Owner::Process(3));
        assert_eq!(
            woken(&mut locks),
            [5, 6],
            "in their order, as far as they go together"
        );
    }

    #[test]
    fn who_only_tries_is_held_up_by_what_came_before_it_in_the_trace() {
        let tries = |number| Lock {
            number,
            waits: false,
            ..lock(2, true, (0, 10))
        };
        let mut locks = Locks::default();
        // Of the trace's locks the fifth.
        assert!(locks.take(1, lock(5, true, (0, 10))));
        assert!(!locks.take(2, tries(6)), "its program asked again");
        assert!(locks.take(3, tries(4)), "its program found nobody there");
        let waits = Lock {
            number: 4,
            ..lock(3, true, (0, 10))
        };
        assert!(!locks.take(4, waits));
    }

    #[test]
    fn ranges_are_taken_and_given_up_in_part() {
        let mut locks = Locks::default();
        assert!(locks.take(1, lock(1, true, (0, 100))));
        assert!(locks.take(2, lock(2, true, (100, 200))));
        assert!(!locks.take(3, lock(3, true, (40, 60))));
        locks.release(&lock(1, true, (50, 70)));
        assert!(woken(&mut locks).is_empty());
        locks.release(&lock(1, true, (30, 50)));
        assert_eq!(woken(&mut locks), [3]);
        assert!(locks.take(4, lock(4, false, (60, 70))));
        assert!(!locks.take(5, lock(5, false, (90, 95))));
        // What becomes shared lets readers in.
        assert!(locks.take(1, lock(1, false, (70, 100))));
        assert_eq!(woken(&mut locks), [5]);
        assert!(!locks.take(6, lock(6, true, (0, 10))));
    }

    #[test]
    fn who_asks_again_at_once_has_it_before_who_waits() {
        let mut locks = Locks::default();
        let all = (0, u64::MAX);
        assert!(locks.take(1, lock(1, true, all)));
        assert!(!locks.take(2, lock(2, true, all)));
        locks.release(&lock(1, true, all));
        assert!(locks.take(1, lock(1, true, all)));
        assert!(woken(&mut locks).is_empty());
        locks.release(&lock(1, true, all));
        assert_eq!(woken(&mut locks), [2]);
    }

    #[test]
    fn flock_gives_up_what_it_changes_and_keeps_what_it_has() {
        let mut locks = Locks::default();
        let of = |open, exclusive| Lock {
            place: Place {
                file: 1,
                by_flock: true,
            },
            owner: Owner::Open(open),
            ..lock(open, exclusive, (0, u64::MAX))
        };
        assert!(locks.take(1, of(1, true)));
        assert!(!locks.take(2, of(2, true)));
        assert!(locks.take(1, of(1, true)));
        assert!(woken(&mut locks).is_empty());
        assert!(locks.take(1, of(1, false)));
        assert!(woken(&mut locks).is_empty());
        assert!(locks.take(3, of(3, false)));
        assert!(!locks.take(3, of(3, true)), "the first has it still");
        locks.drop_of(1, Owner::Open(1));
        assert_eq!(woken(&mut locks), [2]);
        assert!(
            locks.take(3, lock(3, true, (0, 1))),
            "by fcntl it is another"
        );
    }

    #[test]
    fn locks_that_nobody_gives_up_are_in_nobodys_way() {
        let mut locks = Locks::default();
        let all = (0, u64::MAX);
        locks.is_stale(FILE, 1);
        assert!(locks.take(1, lock(1, true, all)));
        assert!(locks.take(2, lock(2, true, all)));
        assert!(!locks.take(3, lock(3, true, all)));
        assert!(!locks.take(4, lock(4, true, all)));
        assert!(locks.force());
        assert_eq!(woken(&mut locks), [3]);
        locks.is_stale(FILE, 3);
        assert_eq!(woken(&mut locks), [4]);
        assert!(!locks.force());
    }
}

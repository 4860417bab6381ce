//! What the operations of a trace do to locks of files: flock(2) and fcntl(2).
//!
//! Locks go with an unlock, with a close (those of fcntl(2) with any close of the file by the process, those of open files with
//! the last one) and with their process. Whose release the trace does not show is found out by who had the lock after it:
//! such a lock keeps nobody waiting.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_core::{LockAsks, LockBy, LockCall, LockFrom, Op, OpKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::follow::Event;
use super::locks::{Deed, Lock, Owner, Place};
use crate::namespace::tree::Ino;
use crate::namespace::{Namespace, Resolved};

/// A release is told by as much too late at the most, by what its tracer did meanwhile.
const LATE_NS: u64 = 1_000_000;

/// Locks of one file that are known at once, and files that have some: of more, nobody waits for what comes on top. Traces
/// of strangers are gone through in bounded time.
const MOST_OF_ONE: usize = 1 << 12;
const MOST_FILES: usize = 1 << 14;

/// Locks that one operation does something to, and what.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Locking {
    /// Locks that nobody gave up by then.
    pub stale: Vec<(Place, u64)>,
    /// What it does.
    pub deed: Option<Deed>,
}

/// A lock by the trace.
#[derive(Debug, Clone, Copy)]
struct Held {
    lock: Lock,
    /// When the call that took it ended.
    since_ns: u64,
    /// When somebody else had it, at the earliest that is known: before that it was given up.
    until_ns: u64,
}

/// Locks that are held, in the order of the trace.
#[derive(Debug, Clone, Default)]
pub struct Lockers {
    held: FxHashMap<Place, Vec<Held>>,
    /// When those are to be out of whose way, of which that is known.
    until: BinaryHeap<Reverse<(u64, u64, Lock)>>,
    numbers: u64,
    /// Processes that had any of their own.
    processes: FxHashSet<u32>,
}

impl Lockers {
    /// Says of an operation what it does to locks.
    #[inline]
    pub fn push(&mut self, op: &Op, resolved: &Resolved, tree: &Namespace, event: &mut Event) {
        if self.held.is_empty() && op.kind != OpKind::Lock {
            return;
        }
        self.note(op, resolved, tree, event);
    }

    fn note(&mut self, op: &Op, resolved: &Resolved, tree: &Namespace, event: &mut Event) {
        let stale = self.stale(op.start_ns);
        let deed = if op.kind == OpKind::Lock {
            self.asked(op, resolved, tree)
        } else {
            self.closed(op, resolved)
        };
        if deed.is_some() || !stale.is_empty() {
            event.locks = Some(Box::new(Locking { stale, deed }));
        }
    }

    /// What is held though somebody else had it before `now_ns`.
    fn stale(&mut self, now_ns: u64) -> Vec<(Place, u64)> {
        let mut all = Vec::new();
        while let Some(&Reverse((until_ns, number, later))) = self.until.peek()
            && until_ns.saturating_add(LATE_NS) < now_ns
        {
            self.until.pop();
            let place = later.place;
            let held = self.held.get(&place).into_iter().flatten();
            let mut there = held.filter(|held| held.lock.number == number);
            if there.any(|held| held.lock.conflicts(&later)) {
                self.retain(place, |held| held.lock.number != number);
                all.push((place, number));
            }
        }
        all
    }

    fn retain(&mut self, place: Place, keep: impl Fn(&Held) -> bool) {
        if let Some(all) = self.held.get_mut(&place) {
            all.retain(keep);
            if all.is_empty() {
                self.held.remove(&place);
            }
        }
    }

    /// A call on a lock. One that failed does nothing, and waited for nothing that it got.
    fn asked(&mut self, op: &Op, resolved: &Resolved, tree: &Namespace) -> Option<Deed> {
        let call = LockCall::of(op.flags).filter(|_| op.result.is_ok())?;
        let open = tree.processes.open(resolved.open?)?;
        let (from, to) = match call.by {
            LockBy::Flock => (0, u64::MAX),
            LockBy::Process | LockBy::OpenFile => range(
                op,
                match call.from {
                    LockFrom::Start => 0,
                    LockFrom::Position => open.position,
                    LockFrom::End => tree.tree.inode(open.ino).map_or(0, |inode| inode.size),
                },
            ),
        };
        self.numbers += 1;
        let lock = Lock {
            place: Place {
                file: open.ino.0,
                by_flock: call.by == LockBy::Flock,
            },
            owner: match call.by {
                LockBy::Process => Owner::Process(op.pid.0),
                LockBy::Flock | LockBy::OpenFile => Owner::Open(open.serial),
            },
            exclusive: call.asks == LockAsks::Exclusive,
            from,
            to,
            number: self.numbers,
            waits: call.waits,
        };
        self.give_up(&lock);
        let there = self.held.get(&lock.place).map_or(0, Vec::len);
        let is_much = there >= MOST_OF_ONE || (there == 0 && self.held.len() >= MOST_FILES);
        if call.asks == LockAsks::Release || is_much {
            return Some(Deed::Release(lock));
        }
        if call.by == LockBy::Process {
            self.processes.insert(op.pid.0);
        }
        self.keep(lock, op.end_ns());
        Some(Deed::Take(lock))
    }

    fn give_up(&mut self, lock: &Lock) {
        let Some(all) = self.held.get_mut(&lock.place) else {
            return;
        };
        if all.iter().any(|held| held.lock.loses(lock)) {
            let left = |held: Held| {
                held.lock
                    .without(lock)
                    .map(move |lock| Held { lock, ..held })
            };
            *all = std::mem::take(all).into_iter().flat_map(left).collect();
        }
        if all.is_empty() {
            self.held.remove(&lock.place);
        }
    }

    /// A lock that was had at `since_ns`. Of two that cannot be held both the one that was had first was given up by then.
    fn keep(&mut self, lock: Lock, since_ns: u64) {
        let mut new = Held {
            lock,
            since_ns,
            until_ns: u64::MAX,
        };
        let all = self.held.entry(lock.place).or_default();
        for held in all.iter_mut().filter(|held| held.lock.conflicts(&lock)) {
            let (first, until_ns, later) = if held.since_ns <= since_ns {
                (held, since_ns, lock)
            } else {
                (&mut new, held.since_ns, held.lock)
            };
            if until_ns < first.until_ns {
                first.until_ns = until_ns;
                let until = (until_ns, first.lock.number, later);
                self.until.push(Reverse(until));
            }
        }
        all.push(new);
    }

    /// What goes with descriptors and with a process.
    fn closed(&mut self, op: &Op, resolved: &Resolved) -> Option<Deed> {
        let mut gone = Vec::new();
        let child = op.length.and_then(|pid| u32::try_from(pid).ok());
        let process = match op.kind {
            // One of the new one's number ended unseen.
            OpKind::Fork => child.unwrap_or(op.pid.0),
            _ => op.pid.0,
        };
        for &(Ino(file), serial, last) in &resolved.closed {
            let owners = [
                Some(Owner::Process(process)),
                last.then_some(Owner::Open(serial)),
            ];
            gone.extend(owners.into_iter().flatten().map(|owner| (file, owner)));
        }
        let ends = op.kind == OpKind::Exit && op.length == Some(1);
        if ends && self.processes.remove(&process) {
            let owner = Owner::Process(process);
            gone.extend(self.held.keys().map(|place| (place.file, owner)));
        }
        gone.retain(|&(file, owner)| {
            Place::both(file).iter().any(|place| {
                let all = self.held.get(place);
                all.is_some_and(|all| all.iter().any(|held| held.lock.owner == owner))
            })
        });
        for &(file, owner) in &gone {
            for place in Place::both(file) {
                self.retain(place, |held| held.lock.owner != owner);
            }
        }
        (!gone.is_empty()).then_some(Deed::Drop(gone))
    }
}

/// The range of a lock of fcntl(2) whose offset counts from `base`; a length below 0 is one before it.
fn range(op: &Op, base: u64) -> (u64, u64) {
    let [offset, length] = [op.offset, op.length].map(|value| value.unwrap_or(0) as i64);
    let at = base.saturating_add_signed(offset);
    match length {
        0 => (at, u64::MAX),
        1.. => (at, at.saturating_add_signed(length)),
        _ => (at.saturating_add_signed(length), at),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use fsage_core::lock::{fcntl_lock_flags, flock_flags};
    use fsage_core::{DevId, Errno, Fd, FileId, Outcome, PathTable, Pid, Tid};
    use proptest::prelude::*;

    use super::*;
    use crate::cost::SystemVector;
    use crate::cost::ledger::Latency;
    use crate::elapsed::follow::Follow;
    use crate::elapsed::locks::WOKEN_NS;
    use crate::elapsed::{Replay, Wanted};
    use crate::namespace::Scope;

    const SH: u32 = 1;
    const EX: u32 = 2;
    const NB: u32 = 4;
    const UN: u32 = 8;
    const SETLKW: u32 = 7;
    const OFD_SETLKW: u32 = 38;
    const WOKEN: f64 = WOKEN_NS as f64;
    /// Longer than any trace of these tests.
    const WHOLE: u64 = 1 << 40;

    /// Processes that have the files 1, 2, … open as the descriptors of these numbers, on a machine that has enough of
    /// everything but locks.
    struct Case {
        namespace: Namespace,
        resolved: Resolved,
        lockers: Lockers,
        follow: Follow,
        replay: Replay,
        keeps_locks: bool,
    }

    impl Case {
        /// So many processes, 1, 2, …, begin at once.
        fn of(processes: u32) -> Self {
            let mut case = Self {
                namespace: Namespace::new(Scope::default(), 4096),
                resolved: Resolved::default(),
                lockers: Lockers::default(),
                follow: Follow::default(),
                replay: Replay::new(&SystemVector::new("s", [])),
                keeps_locks: true,
            };
            for child in 1..=processes {
                let mut fork = Op::new(OpKind::Fork, Pid(99), Tid(99), 0);
                fork.result = Outcome::ok(child.into());
                fork.length = Some(child.into());
                case.push(&fork, 0.0);
            }
            let mut exit = Op::new(OpKind::Exit, Pid(99), Tid(99), 0);
            exit.length = Some(1);
            case.push(&exit, 0.0);
            case
        }

        fn without_locks(mut self) -> Self {
            self.keeps_locks = false;
            self
        }

        fn push(&mut self, op: &Op, own_ns: f64) {
            let mut event = self.follow.push(op);
            let (paths, resolved) = (PathTable::new(), &mut self.resolved);
            self.namespace.apply(op, &paths, resolved);
            (self.lockers).push(op, resolved, &self.namespace, &mut event);
            if !self.keeps_locks {
                event.locks = None;
            }
            let latency = Latency {
                total_ns: own_ns,
                ..Latency::default()
            };
            let wanted = (latency, Wanted::default());
            self.replay.push(op, &event, (0, false), wanted, true);
        }

        /// An operation of a process on a descriptor, in the trace from `start` to `end`.
        fn op(kind: OpKind, (process, fd): (u32, i32), (start, end): (u64, u64)) -> Op {
            let mut op = Op::new(kind, Pid(process), Tid(process), start);
            op.latency_ns = Some(end - start);
            op.fd = Some(Fd(fd));
            op.size_bytes = Some(1000);
            op.file = Some(FileId {
                dev: DevId::new(8, 1),
                ino: fd as u64,
                generation: 0,
            });
            op
        }

        fn flock(&mut self, whose: (u32, i32), operation: u32, at: (u64, u64)) {
            let mut op = Self::op(OpKind::Lock, whose, at);
            op.flags = flock_flags(operation);
            self.push(&op, 0.0);
        }

        fn fcntl(&mut self, whose: (u32, i32), lock: (u32, u16), range: (i64, i64), at: u64) {
            let mut op = Self::op(OpKind::Lock, whose, (at, at + 1));
            op.flags = fcntl_lock_flags(lock.0, Some((lock.1, 0)));
            (op.offset, op.length) = (Some(range.0 as u64), Some(range.1 as u64));
            self.push(&op, 0.0);
        }

        /// It does something for `own_ns`.
        fn works(&mut self, process: u32, at: u64, own_ns: f64) {
            let op = Self::op(OpKind::Fsync, (process, 9), (at, at + 1));
            self.push(&op, own_ns);
        }

        fn gone(&mut self, process: u32, at: u64) {
            let mut exit = Op::new(OpKind::Exit, Pid(process), Tid(process), at);
            exit.length = Some(1);
            self.push(&exit, 0.0);
        }

        /// Elapsed, and waited for locks.
        fn ends(mut self) -> (f64, f64) {
            self.replay.finish();
            assert_eq!(self.replay.schedule.unfinished(), 0);
            let waited = self.replay.waited_ns(OpKind::Lock);
            (self.replay.elapsed_ns(), waited)
        }
    }

    /// Two processes lock, work for 1000 (1 in the trace), and `release`; the second one waits from 1 to 4 there.
    fn two(ask: u32, release: impl Fn(&mut Case, u32, u64)) -> (f64, f64) {
        let mut case = Case::of(2);
        case.flock((1, 3), ask, (0, 1));
        case.flock((2, 3), ask, (1, 4));
        case.works(1, 1, 1000.0);
        release(&mut case, 1, 2);
        case.works(2, 4, 1000.0);
        release(&mut case, 2, 5);
        case.ends()
    }

    #[test]
    fn who_locks_alone_waits_for_whoever_has_it() {
        let unlocks = |case: &mut Case, process, at| case.flock((process, 3), UN, (at, at + 1));
        // The pause before the second's lock is kept, so it waits 1 less.
        assert_eq!(two(EX, unlocks), (2000.0 + WOKEN, 999.0 + WOKEN));
        assert_eq!(two(SH, unlocks), (1001.0, 0.0));
    }

    #[test]
    fn what_does_not_wait_takes_no_time_until_its_program_asks_again() {
        let unlocks = |case: &mut Case, process, at| case.flock((process, 3), UN, (at, at + 1));
        assert_eq!(two(EX | NB, unlocks), (2000.0 + WOKEN, 0.0));
    }

    /// The first one has it, gives it up, and `pause` later wants it again; each holds it for 50 us.
    fn again(pause: u64) -> (f64, f64) {
        let mut case = Case::of(2);
        case.flock((1, 3), EX, (0, 1));
        case.flock((2, 3), EX, (1, 2 * WHOLE));
        case.works(1, 1, 50_000.0);
        case.flock((1, 3), UN, (2, 3));
        case.flock((1, 3), EX, (3 + pause, WHOLE + 3));
        case.works(1, WHOLE + 3, 50_000.0);
        case.flock((1, 3), UN, (WHOLE + 4, WHOLE + 5));
        case.works(2, 2 * WHOLE, 50_000.0);
        case.flock((2, 3), UN, (2 * WHOLE + 1, 2 * WHOLE + 2));
        case.ends()
    }

    #[test]
    fn who_wants_it_again_at_once_has_it_before_who_waits() {
        assert_eq!(again(10), (150_010.0 + WOKEN, 100_009.0 + WOKEN));
        let waits = (49_999.0 + WOKEN) + (49_500.0 + WOKEN);
        assert_eq!(again(WOKEN_NS + 500), (150_000.0 + 2.0 * WOKEN, waits));
    }

    #[test]
    fn locks_go_with_descriptors_and_processes() {
        let closes = |case: &mut Case, process, at| {
            let op = Case::op(OpKind::Close, (process, 3), (at, at + 1));
            case.push(&op, 0.0);
        };
        assert_eq!(two(EX, closes), (2000.0 + WOKEN, 999.0 + WOKEN));
        let ends = |case: &mut Case, process, at| case.gone(process, at);
        assert_eq!(two(EX, ends), (2000.0 + WOKEN, 999.0 + WOKEN));
        // Of one that was duplicated, with the last.
        let closes_one = |case: &mut Case, process, at| {
            if process == 1 {
                let mut dup = Case::op(OpKind::Dup, (1, 3), (at, at));
                dup.result = Outcome::ok(20);
                case.push(&dup, 0.0);
            }
            closes(case, process, at);
            if process == 1 {
                case.works(1, at + 1, 500.0);
                let op = Case::op(OpKind::Close, (1, 20), (at + 1, at + 2));
                case.push(&op, 0.0);
            }
        };
        assert_eq!(two(EX, closes_one), (2500.0 + WOKEN, 1499.0 + WOKEN));
    }

    #[test]
    fn ranges_apart_go_together_and_any_close_ends_a_processs_locks() {
        let run = |ranges: [(i64, i64); 2], command, closes: bool| {
            let mut case = Case::of(2);
            for process in [1, 2] {
                let range = ranges[process as usize - 1];
                let at = u64::from(process) - 1;
                case.fcntl((process, 3), (command, 1), range, at);
            }
            case.works(1, 1, 1000.0);
            if closes {
                // Another open of the same file.
                let mut again = Case::op(OpKind::Close, (1, 4), (2, 3));
                again.file = Case::op(OpKind::Close, (1, 3), (2, 3)).file;
                let mut opens = Op {
                    kind: OpKind::Lock,
                    ..again
                };
                opens.flags = fcntl_lock_flags(5, None);
                case.push(&opens, 0.0);
                case.push(&again, 0.0);
                case.works(1, 3, 500.0);
            }
            case.fcntl((1, 3), (command, 2), (0, 0), 4);
            case.works(2, 4, 1000.0);
            case.ends().0
        };
        assert_eq!(run([(0, 10), (10, 10)], SETLKW, false), 1003.0);
        assert_eq!(run([(0, 10), (9, 10)], SETLKW, false), 2004.0 + WOKEN);
        assert_eq!(run([(0, 10), (20, -11)], SETLKW, false), 2004.0 + WOKEN);
        assert_eq!(run([(0, 10), (0, 0)], SETLKW, true), 2002.0 + WOKEN);
        assert_eq!(run([(0, 10), (0, 0)], OFD_SETLKW, true), 2502.0 + WOKEN);
    }

    #[test]
    fn who_only_tries_and_fails_goes_on_and_who_gets_it_waits() {
        let run = |result: Outcome| {
            let mut case = Case::of(2);
            case.flock((1, 3), EX, (0, 1));
            let mut tries = Case::op(OpKind::Lock, (2, 3), (1, 2));
            tries.flags = flock_flags(EX | 4);
            tries.result = result;
            case.push(&tries, 0.0);
            case.works(1, 1, 1000.0);
            case.flock((1, 3), UN, (2, 3));
            case.works(2, 2, 1000.0);
            case.ends().0
        };
        assert_eq!(run(Outcome::err(Errno::EAGAIN)), 1001.0);
        assert_eq!(run(Outcome::ok(0)), 2000.0 + WOKEN);
    }

    #[test]
    fn a_lock_that_nobody_gives_up_delays_nobody() {
        let cut_off = |case: &mut Case, process, at| case.works(process, at, 0.0);
        let (elapsed, waited) = two(EX, cut_off);
        assert!(elapsed <= 2001.0 && waited <= 1000.0, "{elapsed} {waited}");
        // The second one had it after 10; what another does takes very long, and who had it first long sleeps.
        let mut case = Case::of(3);
        case.flock((1, 3), EX, (0, 1));
        case.flock((2, 3), EX, (1, 10));
        for at in 0..1000 {
            case.works(3, 100 + 10_000 * at, 9_990.0);
        }
        case.works(2, 20_000_000, 10.0);
        case.works(1, WHOLE, 0.0);
        let waited = case.ends().1;
        assert!(waited < 3e6, "{waited}");
    }

    #[test]
    fn locks_in_one_anothers_way_come_to_an_end() {
        let mut case = Case::of(2);
        for (process, first, second) in [(1, 3, 4), (2, 4, 3)] {
            let at = 10 * u64::from(process);
            case.flock((process, first), EX, (at, at + 1));
            case.works(process, at + 1, 1000.0);
            case.flock((process, second), EX, (at + 2, at + 3));
            case.works(process, at + 3, 1000.0);
            case.flock((process, second), UN, (at + 4, at + 5));
            case.flock((process, first), UN, (at + 6, at + 7));
        }
        let elapsed = case.ends().0;
        assert!(
            (2000.0..4100.0 + 2.0 * WOKEN).contains(&elapsed),
            "{elapsed}"
        );
    }

    #[test]
    fn parts_that_are_left_of_a_range_are_not_stale() {
        let mut case = Case::of(3);
        case.fcntl((1, 3), (SETLKW, 1), (0, 100), 0);
        case.fcntl((1, 3), (SETLKW, 2), (0, 10), 5);
        case.fcntl((2, 3), (SETLKW, 1), (0, 10), 6);
        case.works(2, 3 * LATE_NS, 0.0);
        case.works(1, 3 * LATE_NS, 1000.0);
        case.fcntl((3, 3), (SETLKW, 1), (50, 10), 3 * LATE_NS);
        case.fcntl((1, 3), (SETLKW, 2), (0, 0), 3 * LATE_NS + 2);
        assert!(case.ends().1 > 990.0);
    }

    fn any_step() -> impl Strategy<Value = (u32, u8, i32, u64, u64)> {
        (1u32..5, 0u8..9, 3i32..5, 0u64..50, 0u64..2000)
    }

    proptest! {
        #[test]
        fn with_locks_it_takes_no_less_and_everything_ends(
            steps in proptest::collection::vec(any_step(), 0..120),
        ) {
            let run = |mut case: Case| {
                let mut now = 0;
                for &(process, what, fd, pause, own) in &steps {
                    now += pause;
                    let whose = (process, fd);
                    match what {
                        0 => case.flock(whose, SH, (now, now + own)),
                        1 => case.flock(whose, EX, (now, now + own)),
                        2 | 3 => case.flock(whose, UN, (now, now + 1)),
                        4 => case.fcntl(whose, (SETLKW, (pause % 3) as u16), (own as i64 % 9, 4), now),
                        5 => case.fcntl(whose, (OFD_SETLKW, 2), (0, own as i64 % 9), now),
                        6 => {
                            let op = Case::op(OpKind::Close, whose, (now, now + 1));
                            case.push(&op, own as f64);
                        }
                        _ => case.works(process, now, own as f64),
                    }
                }
                case.ends()
            };
            let (with, waited) = run(Case::of(4));
            let (without, none) = run(Case::of(4).without_locks());
            prop_assert!(with >= without, "{} {}", with, without);
            prop_assert!(waited >= 0.0 && none == 0.0);
        }
    }
}

//! Which operations wait for which.
//!
//! As ARTC orders by resources (Weiss et al., "ROOT: Replaying Multithreaded Traces with
//! Resource-Oriented Ordering", 2013): an operation waits for those before it in the trace that used
//! the same name, file, directory or open file, if one of the two changed it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use fsage_core::Tid;
use fsage_namespace::Ino;
use rustc_hash::{FxHashMap, FxHasher};

use super::progress::{Dependency, Level, Progress};

/// How much of the trace's order is kept across threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Each thread's own order, that a thread begins after what started it, and of each open file.
    Process,
    /// That, and the order on every name, file and directory.
    #[default]
    File,
    /// That, and no operation starts before the one before it in the trace has started.
    Strict,
}

/// Something that operations share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A name in a directory, by the number of its text; two that collide only wait more.
    Name(Ino, u64),
    /// A directory as a step of a path.
    Directory(Ino),
    /// What a directory holds: listed or removed by some, changed by others.
    Entries(Ino),
    /// A file's content and size.
    File(Ino),
    /// An open file and its position.
    Open(u64),
}

impl Key {
    /// A name.
    pub fn name(dir: Ino, name: &[u8]) -> Self {
        let mut hasher = FxHasher::default();
        name.hash(&mut hasher);
        Self::Name(dir, hasher.finish())
    }
}

/// Whether others may use it at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All who share it may.
    Shared,
    /// Nobody.
    Exclusive,
}

/// One use of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use(pub Key, pub Mode);

#[derive(Debug, Default)]
struct State {
    exclusive: Option<Arc<Progress>>,
    shared: Vec<Arc<Progress>>,
}

/// Keys that are kept before those are looked for that nobody waits for any more.
const KEYS_BEFORE_SWEEP: usize = 8192;

/// Finds what each operation waits for. Operations are given in the order of the trace; memory grows
/// with those in flight.
#[derive(Debug)]
pub struct Orderer {
    order: Order,
    states: FxHashMap<Key, State>,
    sweep_at: usize,
    last: Option<Arc<Progress>>,
    starters: FxHashMap<Tid, Arc<Progress>>,
}

impl Orderer {
    /// With nothing in flight.
    pub fn new(order: Order) -> Self {
        Self {
            order,
            states: FxHashMap::default(),
            sweep_at: KEYS_BEFORE_SWEEP,
            last: None,
            starters: FxHashMap::default(),
        }
    }

    /// The next operation of the trace, of thread `tid`, which starts the thread `starts`. Those of one
    /// `lane` follow each other anyway.
    pub fn next(
        &mut self,
        lane: u64,
        tid: Tid,
        uses: &[Use],
        starts: Option<Tid>,
    ) -> (Arc<Progress>, Vec<Dependency>) {
        let progress = Arc::new(Progress::new(lane));
        let mut waits: Vec<Dependency> = Vec::new();
        let mut wait_for = |on: &Arc<Progress>, level| {
            let known = waits
                .iter()
                .any(|w| w.level == level && Arc::ptr_eq(&w.on, on));
            if on.lane() != lane && !on.reached(level) && !known {
                waits.push(Dependency {
                    on: Arc::clone(on),
                    level,
                });
            }
        };
        if let Some(starter) = self.starters.remove(&tid) {
            wait_for(&starter, Level::Done);
        }
        if self.order == Order::Strict
            && let Some(last) = self.last.replace(Arc::clone(&progress))
        {
            wait_for(&last, Level::Started);
        }
        for Use(key, mode) in uses {
            if self.order == Order::Process && !matches!(key, Key::Open(_)) {
                continue;
            }
            let state = self.states.entry(*key).or_default();
            if let Some(before) = &state.exclusive {
                wait_for(before, Level::Done);
            }
            if *mode == Mode::Exclusive {
                for before in &state.shared {
                    wait_for(before, Level::Done);
                }
                state.shared.clear();
                state.exclusive = Some(Arc::clone(&progress));
            } else {
                share(&mut state.shared, &progress);
            }
        }
        if let Some(started) = starts {
            self.starters.insert(started, Arc::clone(&progress));
        }
        if self.states.len() > self.sweep_at {
            self.sweep();
        }
        (progress, waits)
    }

    /// Forgets what is over.
    fn sweep(&mut self) {
        self.states.retain(|_, state| {
            state.shared.retain(|p| !p.reached(Level::Done));
            let over = state
                .exclusive
                .as_ref()
                .is_none_or(|p| p.reached(Level::Done));
            if over {
                state.exclusive = None;
            }
            !over || !state.shared.is_empty()
        });
        self.starters.retain(|_, p| !p.reached(Level::Done));
        self.sweep_at = (self.states.len() * 2).max(KEYS_BEFORE_SWEEP);
    }
}

/// Adds one that shares; of each thread the last one is enough.
fn share(shared: &mut Vec<Arc<Progress>>, progress: &Arc<Progress>) {
    let own = shared.iter().position(|p| p.lane() == progress.lane());
    if let Some(slot) = own.and_then(|at| shared.get_mut(at)) {
        *slot = Arc::clone(progress);
        return;
    }
    if shared.len() >= 16 && shared.len().is_power_of_two() {
        shared.retain(|p| !p.reached(Level::Done));
    }
    shared.push(Arc::clone(progress));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tree::ReplayTree;
    use proptest::prelude::*;

    /// Of each operation, those that are sure to be over before it starts: what it waits for, the one
    /// before it in its lane, and all that those were sure of.
    fn sure(order: Order, ops: &[(u64, Vec<Use>)]) -> Vec<Vec<bool>> {
        let mut orderer = Orderer::new(order);
        let mut all: Vec<Arc<Progress>> = Vec::new();
        let mut sure: Vec<Vec<bool>> = Vec::new();
        for (index, (lane, uses)) in ops.iter().enumerate() {
            let (progress, waits) = orderer.next(*lane, Tid(*lane as u32), uses, None);
            let mut before = vec![false; ops.len()];
            let mut direct: Vec<usize> = waits
                .iter()
                .filter(|w| w.level == Level::Done)
                .map(|w| all.iter().position(|p| Arc::ptr_eq(p, &w.on)).unwrap())
                .collect();
            direct.extend(ops[..index].iter().rposition(|(other, _)| other == lane));
            for earlier in direct {
                assert!(earlier < index, "waits go backwards");
                before[earlier] = true;
                for (mine, theirs) in before.iter_mut().zip(&sure[earlier]) {
                    *mine |= theirs;
                }
            }
            all.push(progress);
            sure.push(before);
        }
        sure
    }

    fn any_ops() -> impl Strategy<Value = Vec<(u64, Vec<Use>)>> {
        let node = ReplayTree::new(false).directory(b"/");
        let key = prop_oneof![
            (0..3u64).prop_map(move |n| Key::Name(node, n)),
            Just(Key::Directory(node)),
            Just(Key::Entries(node)),
            Just(Key::File(node)),
            (0..2u64).prop_map(Key::Open),
        ];
        let mode = prop_oneof![3 => Just(Mode::Shared), 1 => Just(Mode::Exclusive)];
        let uses = prop::collection::vec((key, mode).prop_map(|(k, m)| Use(k, m)), 0..4);
        prop::collection::vec((0..5u64, uses), 0..60)
    }

    /// Two operations that use the same thing, one of them alone, by looking at every pair.
    fn conflict(a: &[Use], b: &[Use], order: Order) -> bool {
        let counts = |key: &Key| order != Order::Process || matches!(key, Key::Open(_));
        a.iter().any(|Use(key, mode)| {
            counts(key)
                && b.iter().any(|Use(other, other_mode)| {
                    key == other && (*mode == Mode::Exclusive || *other_mode == Mode::Exclusive)
                })
        })
    }

    proptest! {
        #[test]
        fn what_conflicts_keeps_its_order(ops in any_ops()) {
            for order in [Order::Process, Order::File, Order::Strict] {
                let sure = sure(order, &ops);
                for j in 0..ops.len() {
                    for i in 0..j {
                        if conflict(&ops[i].1, &ops[j].1, order) {
                            prop_assert!(sure[j][i], "{i} before {j} with {order:?}");
                        }
                    }
                }
            }
        }

        #[test]
        fn what_shares_does_not_wait(lanes in prop::collection::vec(0..5u64, 0..40)) {
            let ops: Vec<_> = lanes
                .iter()
                .map(|&lane| (lane, vec![Use(Key::Open(0), Mode::Shared)]))
                .collect();
            let sure = sure(Order::File, &ops);
            for j in 0..ops.len() {
                for i in 0..j {
                    prop_assert_eq!(sure[j][i], lanes[i] == lanes[j]);
                }
            }
        }
    }

    #[test]
    fn strict_starts_in_the_order_of_the_trace() {
        let mut orderer = Orderer::new(Order::Strict);
        let (first, _) = orderer.next(1, Tid(1), &[], None);
        let (_, waits) = orderer.next(2, Tid(2), &[], None);
        assert!(Arc::ptr_eq(&waits[0].on, &first) && waits[0].level == Level::Started);
    }

    #[test]
    fn a_thread_begins_after_what_started_it() {
        let mut orderer = Orderer::new(Order::Process);
        let (fork, _) = orderer.next(1, Tid(1), &[], Some(Tid(2)));
        let (_, waits) = orderer.next(2, Tid(2), &[], None);
        assert!(Arc::ptr_eq(&waits[0].on, &fork));
    }
}

//! Which operations wait for which.
//!
//! As ARTC orders by resources (Weiss et al., "ROOT: Replaying Multithreaded Traces with
//! Resource-Oriented Ordering", 2013): an operation waits for those before it in the trace that used
//! the same name, file, directory or open file, if one of the two changed it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use fsage_core::Tid;
use rustc_hash::{FxHashMap, FxHasher};

use super::progress::{Dependency, Level, Progress};
use super::tree::Node;

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
    Name(Node, u64),
    /// A directory as a step of a path.
    Directory(Node),
    /// What a directory holds: listed or removed by some, changed by others.
    Entries(Node),
    /// A file's content and size.
    File(Node),
    /// An open file and its position.
    Open(u64),
}

impl Key {
    /// A name.
    pub fn name(dir: Node, name: &[u8]) -> Self {
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

//! Measured operations on their way to a sink: streams fill batches, one thread puts them in order.
//!
//! A stream pays for a copy of each operation, and for a hand-over once in a batch. Batches that wait
//! are bounded; who is faster than the sink waits between two operations, and for how long is told.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use fsage_core::{
    Clock, ColdLevel, Errno, KindClass, Op, OpFlags, OpKind, OpSink, Outcome, PathId, PathTable,
    SinkError,
};
use fsage_host::MonotonicClock;
use rustc_hash::FxHashMap;

use crate::packed::{Answered, PackedOps};
use crate::timer::Called;

/// Operations of a batch: a hand-over costs microseconds, and few batches stay in a cache.
const BATCH: usize = 512;

/// A batch is handed over when its first operation is that old, so that it is not late.
const BATCH_NS: u64 = 20_000_000;

/// Batches between streams and sink.
const WAITING: usize = 64;

/// Operations that are held to be put in order. What comes later than so many others is out of order.
const WINDOW: usize = 1 << 17;

/// The descriptor of a file that the stream did not expect to get: no kernel gives it.
const UNEXPECTED_FD: u64 = 1 << 20;

/// Where the operations of a run happen.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The target's clock when the trace begins.
    pub start_ns: u64,
    /// The absolute directory below which names are told.
    pub directory: Vec<u8>,
    /// Whether time is virtual: then nobody asks the machine how long something took.
    pub is_virtual: bool,
    /// What an empty call takes: a trace has calls without the way in and out, as kernels see them.
    pub empty_call_ns: u64,
}

/// What came of the operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkSummary {
    /// How many the sink took.
    pub operations: u64,
    /// Those after one that started later.
    pub late: u64,
    /// The end of the last one.
    pub end_ns: u64,
    /// For how long streams waited for the sink, summed over all, nanoseconds.
    pub held_back_ns: u64,
}

#[derive(Debug, Default)]
struct Batch {
    lane: u64,
    /// Whether nothing more comes from the lane.
    last: bool,
    ops: PackedOps,
    /// Whether the lane's table began anew.
    anew: bool,
    /// Texts that the lane's table got since the last batch.
    texts: Vec<u8>,
    ends: Vec<usize>,
}

/// Where streams hand over what they measured.
#[derive(Debug)]
pub struct Door {
    batches: SyncSender<Batch>,
    origin: Origin,
    lanes: Arc<AtomicU64>,
    /// Where the trace's time is 0 for who runs now: what made caches cold takes none of it.
    zero_ns: AtomicU64,
    held_back_ns: AtomicU64,
    handed: AtomicU64,
    spent: Arc<Mutex<Vec<Batch>>>,
    cold: Arc<Mutex<Colds>>,
}

/// When caches were made cold, and what the first operation from then on says of it.
type Colds = VecDeque<(u64, OpFlags)>;

/// A sink that takes what streams measure, on a thread of its own.
#[derive(Debug)]
pub struct Measuring<S> {
    door: Door,
    taking: JoinHandle<(S, Result<SinkSummary, SinkError>)>,
}

impl<S: OpSink + Send + 'static> Measuring<S> {
    /// Operations go to `sink` in the order of their start.
    pub fn begin(mut sink: S, origin: Origin) -> std::io::Result<Self> {
        let (batches, queue) = sync_channel::<Batch>(WAITING);
        let spent: Arc<Mutex<Vec<Batch>>> = Arc::default();
        let lanes: Arc<AtomicU64> = Arc::default();
        let cold: Arc<Mutex<Colds>> = Arc::default();
        let mut order = InOrder::new(&origin, Arc::clone(&cold));
        let used = Arc::clone(&spent);
        let begun = Arc::clone(&lanes);
        // The queue ends with the first error, by which streams see it.
        let take = move || {
            let taken = queue.into_iter().try_for_each(|mut batch| {
                let goes_on = u64::from(!batch.last);
                order.take(&mut batch)?;
                // Nobody else holds anything older back.
                let alone = begun.load(Ordering::Acquire) <= order.ended + goes_on;
                order.give(if alone { 0 } else { WINDOW }, &mut sink)?;
                lock(&used).push(batch);
                Ok(())
            });
            let taken = taken.and_then(|()| order.give(0, &mut sink));
            (sink, taken.map(|()| order.reported))
        };
        let taking = std::thread::Builder::new()
            .name("fsage-measured".into())
            .spawn(take)?;
        let door = Door {
            batches,
            zero_ns: AtomicU64::new(origin.start_ns),
            origin,
            lanes,
            held_back_ns: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            spent,
            cold,
        };
        Ok(Self { door, taking })
    }

    /// What streams are given.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Waits until the sink has all; it, and what it took.
    pub fn finish(self) -> (S, Result<SinkSummary, SinkError>) {
        let held_back_ns = self.door.held_back_ns.load(Ordering::Relaxed);
        drop(self.door);
        let (sink, reported) = self.taking.join().unwrap_or_else(|e| resume_unwind(e));
        let reported = reported.map(|reported| SinkSummary {
            held_back_ns,
            ..reported
        });
        (sink, reported)
    }
}

impl Door {
    /// How many operations were handed over so far: all that ran, while no stream runs.
    pub fn handed(&self) -> u64 {
        self.handed.load(Ordering::Relaxed)
    }

    /// Caches were made cold from `from_ns` to `to_ns` of the target's clock, while no stream ran: the next operation
    /// says so, and starts as if that had taken no time. Without a level that failed.
    pub fn made_cold(&self, level: Option<ColdLevel>, (from_ns, to_ns): (u64, u64)) {
        let zero_ns = self.zero_ns.load(Ordering::Relaxed);
        let took_ns = to_ns.saturating_sub(from_ns);
        // A nanosecond tells what comes then from what ended before.
        let apart_ns = took_ns.min(1);
        self.zero_ns.store(
            zero_ns.saturating_add(took_ns - apart_ns),
            Ordering::Relaxed,
        );
        if let Some(level) = level {
            let at_ns = from_ns.saturating_add(apart_ns).saturating_sub(zero_ns);
            lock(&self.cold).push_back((at_ns, level.record()));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One stream's side of the door. What it holds is handed over when it is dropped.
#[derive(Debug)]
pub struct Lane<'d> {
    door: &'d Door,
    number: u64,
    batch: Batch,
    /// How much of the stream's table is known on the other side.
    known: (u32, usize),
    /// For how long it waited that no operation tells yet, in nanoseconds.
    held_back_ns: u64,
}

impl<'d> Lane<'d> {
    /// For one more stream.
    pub fn new(door: &'d Door) -> Self {
        let number = door.lanes.fetch_add(1, Ordering::AcqRel);
        Self {
            door,
            number,
            batch: Batch::default(),
            known: (0, 0),
            held_back_ns: 0,
        }
    }

    /// An operation that ran. `false` once the sink takes no more.
    #[must_use]
    pub fn ran(&mut self, op: &Op, paths: &PathTable, called: &Called) -> bool {
        let mut record = op.record;
        if called.device {
            record |= OpFlags::DEVICE;
        }
        let inside_ns = called.latency_ns();
        let inside_ns = inside_ns.saturating_sub(self.door.origin.empty_call_ns);
        let answered = Answered {
            start_ns: called.start_ns,
            latency_ns: Some(inside_ns),
            result: result(op, called.result),
            record,
        };
        self.push(op, paths, answered)
    }

    /// An operation that changed descriptors only, at that time.
    #[must_use]
    pub fn free(&mut self, op: &Op, paths: &PathTable, at_ns: u64) -> bool {
        let answered = Answered {
            start_ns: at_ns,
            latency_ns: None,
            result: op.result,
            record: op.record,
        };
        self.push(op, paths, answered)
    }

    #[inline]
    fn push(&mut self, op: &Op, paths: &PathTable, mut answered: Answered) -> bool {
        let known = (paths.epoch(), paths.len());
        if known != self.known && !self.learn(paths, known) {
            return false;
        }
        let zero_ns = self.door.zero_ns.load(Ordering::Relaxed);
        answered.start_ns = answered.start_ns.saturating_sub(zero_ns);
        answered.record |= OpFlags::held_back(&mut self.held_back_ns);
        self.batch.ops.push(op, &answered);
        let end_ns = answered
            .start_ns
            .saturating_add(answered.latency_ns.unwrap_or(0));
        let first_ns = self.batch.ops.first_ns().unwrap_or(end_ns);
        if self.batch.ops.len() >= BATCH || end_ns.saturating_sub(first_ns) >= BATCH_NS {
            return self.hand_over();
        }
        true
    }

    /// Takes over what the stream's table has got.
    fn learn(&mut self, paths: &PathTable, (epoch, len): (u32, usize)) -> bool {
        if epoch != self.known.0 {
            if !self.hand_over() {
                return false;
            }
            self.batch.anew = true;
            self.known.1 = 0;
        }
        for id in (self.known.1..len).filter_map(PathId::from_index) {
            self.batch.texts.extend_from_slice(paths.get(id));
            self.batch.ends.push(self.batch.texts.len());
        }
        self.known = (epoch, len);
        true
    }

    /// Hands over what there is: before the stream rests. `false` once the sink takes no more.
    pub fn hand_over(&mut self) -> bool {
        if self.batch.ops.is_empty() && self.batch.ends.is_empty() && !self.batch.last {
            return true;
        }
        let next = lock(&self.door.spent).pop().unwrap_or_default();
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.lane = self.number;
        let handed = batch.ops.len() as u64;
        self.door.handed.fetch_add(handed, Ordering::Relaxed);
        match self.door.batches.try_send(batch) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(batch)) if self.door.origin.is_virtual => {
                self.door.batches.send(batch).is_ok()
            }
            Err(TrySendError::Full(batch)) => {
                let began_ns = MonotonicClock.now_ns();
                let sent = self.door.batches.send(batch).is_ok();
                let waited_ns = MonotonicClock.now_ns().saturating_sub(began_ns);
                self.door
                    .held_back_ns
                    .fetch_add(waited_ns, Ordering::Relaxed);
                self.held_back_ns = self.held_back_ns.saturating_add(waited_ns);
                sent
            }
        }
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        self.batch.last = true;
        // Who ends the sink tells what went wrong with it.
        self.hand_over();
    }
}

/// What the target said, and where a call of the target says nothing more than that it succeeded, what
/// the stream expected.
fn result(op: &Op, result: Result<u64, Errno>) -> Outcome {
    let value = match result {
        Err(errno) => return Outcome::err(errno),
        Ok(value) => value,
    };
    let is_reported = match op.kind {
        OpKind::Fault => false,
        OpKind::Seek | OpKind::Readlink => true,
        kind => kind.class() == KindClass::Data,
    };
    match op.result.value() {
        Some(expected) if !is_reported => Outcome::ok(expected),
        None if op.kind == OpKind::Open => Outcome::ok(UNEXPECTED_FD),
        _ => Outcome::ok(value),
    }
}

/// The paths of one lane, as its stream names them.
#[derive(Debug, Default)]
struct LanePaths {
    texts: Vec<u8>,
    ends: Vec<usize>,
    /// What they are in the sink's table, as far as they were met.
    ids: Vec<Option<PathId>>,
    directories: FxHashMap<PathId, PathId>,
}

impl LanePaths {
    fn take(&mut self, batch: &mut Batch) {
        if std::mem::take(&mut batch.anew) {
            *self = Self::default();
        }
        let before = self.texts.len();
        self.texts.append(&mut batch.texts);
        self.ends
            .extend(batch.ends.drain(..).map(|end| before + end));
        self.ids.resize(self.ends.len(), None);
    }

    fn text(&self, id: PathId) -> &[u8] {
        let start = id.index().checked_sub(1).and_then(|i| self.ends.get(i));
        let end = self.ends.get(id.index()).copied().unwrap_or(0);
        self.texts
            .get(start.copied().unwrap_or(0)..end)
            .unwrap_or_default()
    }
}

/// Puts batches in order and gives them to a sink.
struct InOrder {
    held: Vec<Op>,
    /// Room for what stays held.
    spare: Vec<Op>,
    /// Lanes that have ended.
    ended: u64,
    order: Vec<(u64, u32)>,
    lanes: Vec<LanePaths>,
    paths: PathTable,
    root: Vec<u8>,
    root_id: Option<PathId>,
    newest_ns: u64,
    reported: SinkSummary,
    /// As it is told, and what is left of it to tell.
    made_cold: Arc<Mutex<Colds>>,
    cold: Colds,
}

fn full() -> SinkError {
    SinkError::new("the run has more than 2^32 names")
}

impl InOrder {
    fn new(origin: &Origin, made_cold: Arc<Mutex<Colds>>) -> Self {
        let root = &origin.directory;
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let mut paths = PathTable::new();
        Self {
            held: Vec::new(),
            spare: Vec::new(),
            ended: 0,
            order: Vec::new(),
            lanes: Vec::new(),
            root_id: paths.intern(if root.is_empty() { b"/" } else { root }),
            paths,
            root: root.to_vec(),
            newest_ns: 0,
            reported: SinkSummary::default(),
            made_cold,
            cold: Colds::new(),
        }
    }

    fn take(&mut self, batch: &mut Batch) -> Result<(), SinkError> {
        let number = batch.lane as usize;
        if self.lanes.len() <= number {
            self.lanes.resize_with(number + 1, LanePaths::default);
        }
        let mut lane = self
            .lanes
            .get_mut(number)
            .map_or_else(LanePaths::default, std::mem::take);
        lane.take(batch);
        // What the stream will write to again is not written to here.
        let before = self.held.len();
        self.held.extend(batch.ops.iter());
        batch.ops.clear();
        let mut held = std::mem::take(&mut self.held);
        let mut new = held.iter_mut().skip(before);
        let named = new.try_for_each(|op| self.name(op, &mut lane));
        self.held = held;
        if let Some(place) = self.lanes.get_mut(number) {
            *place = lane;
        }
        self.ended += u64::from(std::mem::take(&mut batch.last));
        named
    }

    /// Names are told below the directory; a relative one says what it is relative to.
    fn name(&mut self, op: &mut Op, lane: &mut LanePaths) -> Result<(), SinkError> {
        let Some(path) = op.path else { return Ok(()) };
        op.path = Some(self.path(path, lane)?);
        if let Some(path2) = op.path2 {
            op.path2 = Some(if op.kind == OpKind::Symlink {
                // The text of a link is nothing but text.
                self.paths.intern(lane.text(path2)).ok_or_else(full)?
            } else {
                self.path(path2, lane)?
            });
        }
        op.dir = Some(match op.dir {
            Some(dir) => self.directory(dir, lane)?,
            None => self.root_id.ok_or_else(full)?,
        });
        if let Some(dir2) = op.dir2 {
            op.dir2 = Some(self.directory(dir2, lane)?);
        }
        Ok(())
    }

    fn path(&mut self, id: PathId, lane: &mut LanePaths) -> Result<PathId, SinkError> {
        if let Some(&Some(known)) = lane.ids.get(id.index()) {
            return Ok(known);
        }
        let text = lane.text(id);
        let named = if text.first() == Some(&b'/') {
            self.below(text)
        } else {
            self.paths.intern(text)
        };
        if let Some(slot) = lane.ids.get_mut(id.index()) {
            *slot = named;
        }
        named.ok_or_else(full)
    }

    fn directory(&mut self, id: PathId, lane: &mut LanePaths) -> Result<PathId, SinkError> {
        if let Some(&known) = lane.directories.get(&id) {
            return Ok(known);
        }
        let named = self.below(lane.text(id)).ok_or_else(full)?;
        lane.directories.insert(id, named);
        Ok(named)
    }

    /// A name of the target as an absolute one.
    fn below(&mut self, name: &[u8]) -> Option<PathId> {
        let first = name.iter().position(|&b| b != b'/');
        let Some(rest) = first.and_then(|first| name.get(first..)) else {
            return self.root_id;
        };
        self.paths.intern(&[&self.root, rest].join(&b'/'))
    }

    /// Gives all but the `keep` latest, once those are at most a half.
    fn give(&mut self, keep: usize, sink: &mut dyn OpSink) -> Result<(), SinkError> {
        if self.held.len() < 2 * keep {
            return Ok(());
        }
        self.cold.append(&mut lock(&self.made_cold));
        self.order.clear();
        let starts = self.held.iter().map(|op| op.start_ns);
        self.order.extend(starts.zip(0..));
        self.order.sort_unstable();
        let count = self.held.len().saturating_sub(keep);
        let (now, later) = self.order.split_at(count);
        for op in now.iter().filter_map(|&(_, at)| self.held.get(at as usize)) {
            let mut cold = None;
            while let Some((_, record)) = self.cold.pop_front_if(|(at, _)| *at <= op.start_ns) {
                cold.get_or_insert(*op).record |= record;
            }
            sink.push(cold.as_ref().unwrap_or(op), &self.paths)?;
            self.reported.late += u64::from(op.start_ns < self.newest_ns);
            self.newest_ns = self.newest_ns.max(op.start_ns);
            self.reported.end_ns = self.reported.end_ns.max(op.end_ns());
        }
        self.reported.operations += now.len() as u64;
        let kept = later
            .iter()
            .filter_map(|&(_, at)| self.held.get(at as usize).copied());
        self.spare.clear();
        self.spare.extend(kept);
        std::mem::swap(&mut self.held, &mut self.spare);
        Ok(())
    }
}

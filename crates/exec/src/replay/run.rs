//! Replaying: one thread that reads the trace and says what waits for what, one for each thread of
//! the trace that makes its calls.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use fsage_core::{FileSystem, Op, OpKind, OpSource, Seed, SourceError, Tid};
use rustc_hash::FxHashMap;

use super::call::{Call, Performer, Slot};
use super::model::{Model, Skip, Step};
use super::order::{Order, Orderer};
use super::progress::{Dependency, Level, Progress};
use super::tally::{Difference, KindReplay, Ran, Tally, Times};
use crate::payload::Payload;

/// Operations between the reading of the trace and their end: memory is bounded by them.
pub const WINDOW: usize = 16_384;

/// Threads of the trace that run at once; one that has nothing to do gives way to another.
pub const THREADS: usize = 1024;

/// Time for the first threads to start before the first operation is due.
const HEAD_START_NS: u64 = 20_000_000;

/// A sleeping thread sees this late that it is to stop.
const NAP: Duration = Duration::from_millis(50);

const STACK_BYTES: usize = 256 << 10;

/// When operations start.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Pace {
    /// As soon as what they wait for is done.
    #[default]
    AsFastAsPossible,
    /// Not before their time in the trace, divided by this.
    Times(f64),
}

/// How to replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions<'a> {
    /// When operations start.
    pub pace: Pace,
    /// What waits for what.
    pub order: Order,
    /// Where the payload's bytes start.
    pub seed: Seed,
    /// Ends the replay once it is set.
    pub stop: &'a AtomicBool,
}

/// What a replay gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplayRun {
    /// Operations of the trace that were read.
    pub operations: u64,
    /// Those that ran.
    pub replayed: u64,
    /// By kind, only those that ran.
    pub kinds: Vec<KindReplay>,
    /// Operations without a call, by kind and reason.
    pub skipped: BTreeMap<(OpKind, Skip), u64>,
    /// Operations whose result was not the trace's.
    pub differ: u64,
    /// The first of them.
    pub differences: Vec<Difference>,
    /// From the first start to the last end of what ran, in the trace, nanoseconds.
    pub traced_elapsed_ns: u64,
    /// The same on the target.
    pub replayed_elapsed_ns: u64,
    /// How far starts were from when they were due; `None` as fast as possible.
    pub start_error: Option<Times>,
    /// Threads that ran at once, at most.
    pub threads: usize,
    /// Whether it was stopped.
    pub interrupted: bool,
}

struct Job {
    row: u64,
    op: Op,
    call: Call,
    closes: Vec<Arc<Slot>>,
    inherited: Option<(Box<[u8]>, Arc<Slot>)>,
    waits: Vec<Dependency>,
    progress: Arc<Progress>,
    window: Arc<Window>,
    /// Of its own thread, how many are not over.
    own: Arc<AtomicUsize>,
}

impl Drop for Job {
    /// Whatever becomes of it, nobody waits for it in vain.
    fn drop(&mut self) {
        self.progress.reach(Level::Done);
        self.own.fetch_sub(1, Ordering::AcqRel);
        self.window.leave();
    }
}

#[derive(Default)]
struct Window {
    inside: Mutex<usize>,
    left: Condvar,
}

impl Window {
    fn enter(&self, most: usize) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = self
            .left
            .wait_while(inside, |inside| *inside >= most)
            .unwrap_or_else(PoisonError::into_inner);
        *inside += 1;
    }

    fn leave(&self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        *inside = inside.saturating_sub(1);
        if *inside == WINDOW * 3 / 4 || *inside < 2 {
            self.left.notify_all();
        }
    }

    /// Waits for some job to end, a little at most.
    fn rest(&self) {
        let inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.left.wait_timeout(inside, Duration::from_millis(1)));
    }
}

/// What the threads share.
struct Shared<'a> {
    fs: &'a dyn FileSystem,
    options: ReplayOptions<'a>,
    tally: Tally,
    payload: Payload,
    /// The trace's first start, and when it is due on the target's clock.
    origin_ns: (AtomicU64, AtomicU64),
}

struct Worker {
    jobs: Sender<Job>,
    own: Arc<AtomicUsize>,
    used: u64,
    lane: u64,
}

/// Replays `source` on `fs`, where the tree of the start has been made. `model` knows that tree.
pub fn replay(
    fs: &dyn FileSystem,
    source: &mut dyn OpSource,
    model: &mut Model,
    options: &ReplayOptions<'_>,
) -> Result<ReplayRun, SourceError> {
    let shared = Shared {
        fs,
        options: *options,
        tally: Tally::default(),
        payload: Payload::new(options.seed, 0),
        origin_ns: (AtomicU64::new(0), AtomicU64::new(0)),
    };
    allow_open_files();
    let mut run = ReplayRun::default();
    let mut planner = Planner {
        orderer: Orderer::new(options.order),
        workers: FxHashMap::default(),
        window: Arc::new(Window::default()),
        begun: 0,
        span: None,
    };
    let read = thread::scope(|scope| planner.plan(scope, &shared, source, model, &mut run));
    run.kinds = shared.tally.kinds();
    run.skipped = shared.tally.skips();
    run.differences = shared.tally.differences();
    run.replayed = run.kinds.iter().map(|k| k.operations).sum();
    run.differ = run.kinds.iter().map(|k| k.differ).sum();
    run.traced_elapsed_ns = planner.span.map_or(0, |(first, last)| last - first);
    run.replayed_elapsed_ns = shared.tally.elapsed_ns();
    run.start_error = match options.pace {
        Pace::AsFastAsPossible => None,
        Pace::Times(_) => Some(shared.tally.start_errors()),
    };
    run.interrupted = options.stop.load(Ordering::Relaxed);
    for file in model.opens.values() {
        // What the trace left open.
        let_go(fs, &Call::None, std::slice::from_ref(&file.slot));
    }
    read.map(|()| run)
}

/// All processes of the trace share this one's descriptors: as many as are allowed.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it is not allowed, opens fail and are counted.
    let _ = setrlimit(Resource::Nofile, most);
}

struct Planner {
    orderer: Orderer,
    workers: FxHashMap<Tid, Worker>,
    window: Arc<Window>,
    begun: u64,
    span: Option<(u64, u64)>,
}

impl Planner {
    fn plan<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        source: &mut dyn OpSource,
        model: &mut Model,
        run: &mut ReplayRun,
    ) -> Result<(), SourceError> {
        let mut batch = Vec::new();
        let read = loop {
            batch.clear();
            match source.next_batch(&mut batch) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
            for op in &batch {
                if shared.options.stop.load(Ordering::Relaxed) {
                    break;
                }
                let step = model.apply(op, source.paths());
                self.take(scope, shared, run.operations, step);
                run.operations += 1;
                run.threads = run.threads.max(self.workers.len());
            }
            if shared.options.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
        };
        // Threads end when nothing more can come.
        self.workers.clear();
        read
    }

    fn take<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        row: u64,
        step: Step,
    ) {
        let tid = step.op.tid;
        if let Some(skip) = step.skip {
            shared.tally.skipped(step.op.kind, skip);
        }
        let silent = matches!(step.call, Call::None)
            && step.closes.is_empty()
            && step.inherited.is_none()
            && step.starts.is_none();
        if !silent {
            self.give(scope, shared, row, step);
        } else if step.ends {
            self.workers.remove(&tid);
        }
    }

    fn give<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        row: u64,
        step: Step,
    ) {
        let op = step.op;
        if !matches!(step.call, Call::None) {
            self.span(shared, &op);
        }
        self.window.enter(WINDOW);
        let Some(lane) = self.lane(scope, shared, op.tid) else {
            self.window.leave();
            if step.skip.is_none() {
                shared.tally.skipped(op.kind, Skip::NoThread);
            }
            let_go(shared.fs, &step.call, &step.closes);
            return;
        };
        let (progress, waits) = self.orderer.next(lane, op.tid, &step.uses, step.starts);
        let Some(worker) = self.workers.get_mut(&op.tid) else {
            progress.reach(Level::Done);
            self.window.leave();
            return;
        };
        worker.own.fetch_add(1, Ordering::AcqRel);
        worker.used = row;
        let job = Job {
            row,
            op,
            call: step.call,
            closes: step.closes,
            inherited: step.inherited,
            waits,
            progress,
            own: Arc::clone(&worker.own),
            window: Arc::clone(&self.window),
        };
        // A job that nobody takes ends with its drop.
        drop(worker.jobs.send(job));
        if step.ends {
            self.workers.remove(&op.tid);
        }
    }

    fn span(&mut self, shared: &Shared<'_>, op: &Op) {
        let end_ns = op.end_ns();
        let Some((first, last)) = self.span else {
            let due_ns = shared.fs.clock().now_ns().saturating_add(HEAD_START_NS);
            shared.origin_ns.0.store(op.start_ns, Ordering::Relaxed);
            shared.origin_ns.1.store(due_ns, Ordering::Release);
            self.span = Some((op.start_ns, end_ns));
            return;
        };
        self.span = Some((first.min(op.start_ns), last.max(end_ns)));
    }

    /// The number of the thread that stands for one of the trace; `None` if none can be started.
    fn lane<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        shared: &'env Shared<'env>,
        tid: Tid,
    ) -> Option<u64> {
        if let Some(worker) = self.workers.get(&tid) {
            return Some(worker.lane);
        }
        while self.workers.len() >= THREADS && !self.retire() {
            self.window.rest();
        }
        let (jobs, queue) = channel();
        self.begun += 1;
        let lane = self.begun;
        thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || work(shared, &queue, lane))
            .ok()?;
        let worker = Worker {
            jobs,
            own: Arc::default(),
            used: 0,
            lane,
        };
        self.workers.insert(tid, worker);
        Some(lane)
    }

    /// Lets the thread go that has had nothing to do for longest; whether there was one.
    fn retire(&mut self) -> bool {
        let idle = self
            .workers
            .iter()
            .filter(|(_, w)| w.own.load(Ordering::Acquire) == 0)
            .min_by_key(|(_, w)| w.used)
            .map(|(tid, _)| *tid);
        idle.is_some_and(|tid| self.workers.remove(&tid).is_some())
    }
}

/// One thread of the trace.
fn work(shared: &Shared<'_>, jobs: &Receiver<Job>, number: u64) {
    // Sleeps end when they are due and not 50 us later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let payload = shared.payload.begun_at(number.wrapping_mul(7919));
    let mut performer = Performer::new(shared.fs, payload, number, shared.options.stop);
    for mut job in jobs {
        carry_out(shared, &mut performer, &mut job);
    }
}

fn carry_out(shared: &Shared<'_>, performer: &mut Performer<'_>, job: &mut Job) {
    let stop = shared.options.stop;
    let has_call = !matches!(job.call, Call::None);
    let due_ns = due_ns(shared, &job.op).filter(|_| has_call);
    if let Some(due_ns) = due_ns {
        sleep_until(performer, due_ns, stop);
    }
    for wait in &job.waits {
        wait.on.wait(wait.level);
    }
    if !stop.load(Ordering::Relaxed) {
        if let Some((name, slot)) = &job.inherited {
            performer.open_inherited(name, slot);
        }
        job.progress.reach(Level::Started);
        let done = performer.perform(&job.op, &job.call);
        // One that was cut short by the stop has no result.
        if let Some(done) = done.filter(|_| !stop.load(Ordering::Relaxed)) {
            shared.tally.ran(&Ran {
                row: job.row,
                op: &job.op,
                name: job.call.name(),
                result: done.result,
                span_ns: (done.start_ns, done.end_ns),
                due_ns,
            });
        }
    }
    let_go(shared.fs, &job.call, &job.closes);
}

/// Closes what a job leaves open to nobody, and what it was to close and, stopped, did not: a file that is
/// open keeps a scratch file system from being unmounted.
fn let_go(fs: &dyn FileSystem, call: &Call, closes: &[Arc<Slot>]) {
    let own = match call {
        Call::Close(slot) => Some(slot),
        _ => None,
    };
    for handle in closes.iter().chain(own).filter_map(|slot| slot.take()) {
        // Nobody asked for the result.
        let _ = fs.close(handle);
    }
}

fn due_ns(shared: &Shared<'_>, op: &Op) -> Option<u64> {
    let Pace::Times(speed) = shared.options.pace else {
        return None;
    };
    let due_ns = shared.origin_ns.1.load(Ordering::Acquire);
    let since_ns = op
        .start_ns
        .saturating_sub(shared.origin_ns.0.load(Ordering::Relaxed));
    Some(due_ns.saturating_add((since_ns as f64 / speed) as u64))
}

fn sleep_until(performer: &Performer<'_>, due_ns: u64, stop: &AtomicBool) {
    let clock = performer.clock();
    loop {
        let left_ns = due_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 || stop.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_nanos(left_ns).min(NAP));
    }
}

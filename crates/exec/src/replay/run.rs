//! Replaying: the trace is read, and what waits for what is said, here; what stands for the trace's
//! threads makes their calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fsage_core::{FileSystem, Handle, Op, OpKind, OpSource, Seed, SourceError, Tid};

use super::call::{Call, Performer, Slot};
use super::model::{Model, ReplayStep, Skip};
use super::order::{Order, Orderer};
use super::progress::{Dependency, Level, Progress};
use super::recorder::Recorder;
use super::tally::{Difference, KindReplay, Ran, Tally, Times};
use super::verify::is_in_no_tree;
use super::virtual_lanes::VirtualLanes;
use super::workers::Threads;
use crate::measured::Door;
use crate::payload::Payload;
use crate::timer::{Called, Collector};

/// Operations between the reading of the trace and their end: memory is bounded by them.
pub const WINDOW: usize = 16_384;

/// Time for the first threads to start before the first operation is due.
const HEAD_START_NS: u64 = 20_000_000;

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
    /// Where measured operations are handed over. Once they are taken no more, the replay ends.
    pub measured: Option<&'a Door>,
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
    /// What these took in the trace, nanoseconds.
    pub skipped_traced_ns: u64,
    /// Operations that changed names or sizes and are in no tree that can be compared, by kind.
    pub in_no_tree: BTreeMap<OpKind, u64>,
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

/// An operation that is to be carried out.
pub(super) struct Job {
    /// Which one of the trace.
    pub row: u64,
    pub op: Op,
    pub call: Call,
    closes: Vec<Arc<Slot>>,
    inherited: Option<(Box<[u8]>, Arc<Slot>)>,
    pub waits: Vec<Dependency>,
    pub progress: Arc<Progress>,
}

impl Job {
    /// Makes its call; `None` for one that has nothing to do.
    pub fn perform(&self, performer: &mut Performer<'_>) -> Option<Called> {
        if let Some((name, slot)) = &self.inherited {
            performer.open_inherited(name, slot);
        }
        self.progress.reach(Level::Started);
        performer.perform(&self.op, &self.call)
    }

    /// Closes what goes with it, and what it was to close itself and, stopped, did not: a file that is open
    /// keeps a scratch file system from being unmounted.
    pub fn let_go(&self, performer: &Performer<'_>) {
        for handle in abandoned(&self.call, &self.closes) {
            performer.close_silently(handle);
        }
    }

    /// The open files that it is about.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        let of_call = match &self.call {
            Call::Open(_, Some(slot))
            | Call::Unnamed(_, slot)
            | Call::LinkOpen(slot, _)
            | Call::File(slot)
            | Call::Close(slot)
            | Call::Touch { slot, .. } => Some(slot),
            _ => None,
        };
        let inherited = self.inherited.as_ref().map(|(_, slot)| slot);
        inherited.into_iter().chain(of_call).map(Arc::as_ref)
    }
}

/// What stands for the threads of the trace and makes their calls.
pub(super) trait Lanes {
    /// The number of what stands for a thread; `None` if nothing can.
    fn lane(&mut self, tid: Tid) -> Option<u64>;
    /// Gives it a job, once there is room for one.
    fn put(&mut self, tid: Tid, job: Job);
    /// Nothing more comes for that thread.
    fn end(&mut self, tid: Tid);
    /// How many there are.
    fn count(&self) -> usize;
    /// Nothing more comes.
    fn finish(&mut self);
}

/// What the threads share.
pub(super) struct Shared<'a> {
    pub fs: &'a dyn FileSystem,
    pub options: ReplayOptions<'a>,
    tally: Tally,
    pub payload: Payload,
    /// The trace's first start, and when it is due on the target's clock.
    origin_ns: (AtomicU64, AtomicU64),
    /// Whether what is measured is taken no more.
    refused: AtomicBool,
}

impl Shared<'_> {
    pub fn is_stopped(&self) -> bool {
        self.options.stop.load(Ordering::Relaxed) || self.refused.load(Ordering::Relaxed)
    }

    /// When a job should start; `None` as fast as possible.
    pub fn due_ns(&self, job: &Job) -> Option<u64> {
        let Pace::Times(speed) = self.options.pace else {
            return None;
        };
        if matches!(job.call, Call::None) {
            return None;
        }
        let due_ns = self.origin_ns.1.load(Ordering::Acquire);
        let since_ns = job
            .op
            .start_ns
            .saturating_sub(self.origin_ns.0.load(Ordering::Relaxed));
        Some(due_ns.saturating_add((since_ns as f64 / speed) as u64))
    }

    /// Counts and tells what became of a job.
    pub fn count(
        &self,
        job: &Job,
        called: Option<Called>,
        due_ns: Option<u64>,
        recorder: Option<&mut Recorder<'_>>,
        now_ns: impl FnOnce() -> u64,
    ) {
        // One that was cut short by the stop has no result.
        let called = called.filter(|_| !self.is_stopped());
        if let Some(called) = &called {
            self.tally.ran(&Ran {
                row: job.row,
                op: &job.op,
                name: job.call.name(),
                result: called.result,
                span_ns: (called.start_ns, called.end_ns),
                due_ns,
            });
        }
        let Some(recorder) = recorder else { return };
        let opened = job.inherited.as_ref();
        let opened = opened.map(|(name, slot)| (&**name, &**slot));
        let mut taken = true;
        match &called {
            Some(called) => {
                if opened.is_some() {
                    taken = recorder.free(&job.op, opened, called.start_ns);
                }
                taken &= recorder.ran(&job.op, &job.call, called);
            }
            None if matches!(job.call, Call::None) => {
                taken = recorder.free(&job.op, opened, now_ns());
            }
            None => {}
        }
        if !taken {
            self.refused.store(true, Ordering::Relaxed);
        }
    }
}

/// Replays `source` on `fs`, where the tree of the start has been made. `model` knows that tree. Over a
/// target in virtual time this thread makes all calls, in the order of that time.
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
        refused: AtomicBool::new(false),
    };
    let mut planner = Planner {
        orderer: Orderer::new(options.order),
        span: None,
        slots: 0,
        run: ReplayRun::default(),
    };
    let read = if let Some(time) = fs.virtual_time() {
        let collector = Collector::new(time);
        let mut lanes = VirtualLanes::new(&shared, time, &collector);
        planner.plan(&mut lanes, &shared, source, model)
    } else {
        allow_open_files();
        thread::scope(|scope| {
            planner.plan(&mut Threads::new(scope, &shared), &shared, source, model)
        })
    };
    let Planner { mut run, span, .. } = planner;
    run.kinds = shared.tally.kinds();
    run.skipped = shared.tally.skips();
    run.skipped_traced_ns = shared.tally.skipped_ns();
    run.differences = shared.tally.differences();
    run.replayed = run.kinds.iter().map(|k| k.operations).sum();
    run.differ = run.kinds.iter().map(|k| k.differ).sum();
    run.traced_elapsed_ns = span.map_or(0, |(first, last)| last - first);
    run.replayed_elapsed_ns = shared.tally.elapsed_ns();
    run.start_error = match options.pace {
        Pace::AsFastAsPossible => None,
        Pace::Times(_) => Some(shared.tally.start_errors()),
    };
    run.interrupted = shared.is_stopped();
    for file in model.processes.opens() {
        if let Some(handle) = file.slot.take() {
            // What the trace left open: nobody asks for the result.
            let _ = fs.close(handle);
        }
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
    span: Option<(u64, u64)>,
    /// Open files that have a number.
    slots: i32,
    run: ReplayRun,
}

impl Planner {
    fn plan(
        &mut self,
        lanes: &mut dyn Lanes,
        shared: &Shared<'_>,
        source: &mut dyn OpSource,
        model: &mut Model,
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
                if shared.is_stopped() {
                    break;
                }
                let step = model.apply(op, source.paths());
                self.take(lanes, shared, step);
                self.run.operations += 1;
                self.run.threads = self.run.threads.max(lanes.count());
            }
            if shared.is_stopped() {
                break Ok(());
            }
        };
        lanes.finish();
        read
    }

    fn take(&mut self, lanes: &mut dyn Lanes, shared: &Shared<'_>, step: ReplayStep) {
        let op = step.op;
        if let Some(skip) = step.skip {
            shared.tally.skipped(&op, skip);
        }
        if is_in_no_tree(&op, step.skip) {
            *self.run.in_no_tree.entry(op.kind).or_default() += 1;
        }
        let has_call = !matches!(step.call, Call::None);
        let is_reported =
            shared.options.measured.is_some() && matches!(op.kind, OpKind::Fork | OpKind::Exit);
        let silent = !has_call
            && step.closes.is_empty()
            && step.inherited.is_none()
            && step.starts.is_none()
            && !is_reported;
        if !silent {
            if has_call {
                self.span(shared, &op);
            }
            if let Some(lane) = lanes.lane(op.tid) {
                let (progress, waits) = self.orderer.next(lane, op.tid, &step.uses, step.starts);
                let job = Job {
                    row: self.run.operations,
                    op,
                    call: step.call,
                    closes: step.closes,
                    inherited: step.inherited,
                    waits,
                    progress,
                };
                if shared.options.measured.is_some() {
                    job.slots().for_each(|slot| slot.numbered(&mut self.slots));
                }
                lanes.put(op.tid, job);
            } else {
                if step.skip.is_none() {
                    shared.tally.skipped(&op, Skip::NoThread);
                }
                // A file that is open keeps a scratch file system from being unmounted.
                for handle in abandoned(&step.call, &step.closes) {
                    let _ = shared.fs.close(handle);
                }
            }
        }
        if step.ends {
            lanes.end(op.tid);
        }
    }

    fn span(&mut self, shared: &Shared<'_>, op: &Op) {
        let end_ns = op.end_ns();
        let Some((first, last)) = self.span else {
            let head_start_ns = match shared.fs.virtual_time() {
                Some(_) => 0,
                None => HEAD_START_NS,
            };
            let due_ns = shared.fs.clock().now_ns().saturating_add(head_start_ns);
            shared.origin_ns.0.store(op.start_ns, Ordering::Relaxed);
            shared.origin_ns.1.store(due_ns, Ordering::Release);
            self.span = Some((op.start_ns, end_ns));
            return;
        };
        self.span = Some((first.min(op.start_ns), last.max(end_ns)));
    }
}

/// What a job leaves open to nobody, and what it was to close and, stopped, did not.
fn abandoned<'a>(call: &'a Call, closes: &'a [Arc<Slot>]) -> impl Iterator<Item = Handle> + 'a {
    let own = match call {
        Call::Close(slot) => Some(slot),
        _ => None,
    };
    closes.iter().chain(own).filter_map(|slot| slot.take())
}

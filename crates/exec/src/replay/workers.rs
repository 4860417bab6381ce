//! A thread for each one of the trace, on a target in real time.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use fsage_core::{Clock, Tid};
use rustc_hash::FxHashMap;

use super::call::Performer;
use super::progress::{Level, Progress};
use super::recorder::Recorder;
use super::run::{Job, Lanes, Shared, WINDOW};
use crate::timer::Timer;

/// Threads of the trace that run at once; one that has nothing to do gives way to another.
const THREADS: usize = 1024;

/// A sleeping thread sees this late that it is to stop.
const NAP: Duration = Duration::from_millis(50);

const STACK_BYTES: usize = 256 << 10;

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

/// What goes with a job: whatever becomes of it, nobody waits for it in vain.
struct Ticket {
    progress: Arc<Progress>,
    window: Arc<Window>,
    /// Of its own thread, how many are not over.
    own: Arc<AtomicUsize>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.progress.reach(Level::Done);
        self.own.fetch_sub(1, Ordering::AcqRel);
        self.window.leave();
    }
}

struct Worker {
    jobs: Sender<(Job, Ticket)>,
    own: Arc<AtomicUsize>,
    used: u64,
    lane: u64,
}

/// The threads.
pub struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    workers: FxHashMap<Tid, Worker>,
    window: Arc<Window>,
    begun: u64,
}

impl<'scope, 'env> Threads<'scope, 'env> {
    pub fn new(scope: &'scope Scope<'scope, 'env>, shared: &'env Shared<'env>) -> Self {
        Self {
            scope,
            shared,
            workers: FxHashMap::default(),
            window: Arc::default(),
            begun: 0,
        }
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

impl Lanes for Threads<'_, '_> {
    fn lane(&mut self, tid: Tid) -> Option<u64> {
        if let Some(worker) = self.workers.get(&tid) {
            return Some(worker.lane);
        }
        while self.workers.len() >= THREADS && !self.retire() {
            self.window.rest();
        }
        let (jobs, queue) = channel();
        self.begun += 1;
        let (lane, shared) = (self.begun, self.shared);
        thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(self.scope, move || work(shared, &queue, lane))
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

    fn put(&mut self, tid: Tid, job: Job) {
        self.window.enter(WINDOW);
        let own = self.workers.get(&tid).map(|worker| Arc::clone(&worker.own));
        let own = own.unwrap_or_default();
        own.fetch_add(1, Ordering::AcqRel);
        let ticket = Ticket {
            progress: Arc::clone(&job.progress),
            window: Arc::clone(&self.window),
            own,
        };
        if let Some(worker) = self.workers.get_mut(&tid) {
            worker.used = job.row;
            // A job that nobody takes ends with its ticket.
            drop(worker.jobs.send((job, ticket)));
        }
    }

    fn end(&mut self, tid: Tid) {
        self.workers.remove(&tid);
    }

    fn count(&self) -> usize {
        self.workers.len()
    }

    fn finish(&mut self) {
        self.workers.clear();
    }
}

/// One thread of the trace.
fn work(shared: &Shared<'_>, jobs: &Receiver<(Job, Ticket)>, number: u64) {
    // Sleeps end when they are due and not 50 us later.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let clock = shared.fs.clock();
    let timer = Timer::Clock(clock);
    let payload = shared.payload.begun_at(number);
    let mut performer = Performer::new(shared.fs, timer, payload, number, shared.options.stop);
    let mut recorder = shared.options.measured.map(Recorder::new);
    while let Some((job, _ticket)) = next(jobs, recorder.as_mut()) {
        let due_ns = shared.due_ns(&job);
        if let Some(due_ns) = due_ns {
            sleep_until(shared, clock, due_ns, recorder.as_mut());
        }
        for wait in &job.waits {
            wait.on.wait(wait.level);
        }
        if !shared.is_stopped() {
            let called = job.perform(&mut performer);
            shared.count(&job, called, due_ns, recorder.as_mut(), || clock.now_ns());
        }
        job.let_go(&performer);
    }
}

/// The next job; what was measured is handed over before a wait for it.
fn next(
    jobs: &Receiver<(Job, Ticket)>,
    recorder: Option<&mut Recorder<'_>>,
) -> Option<(Job, Ticket)> {
    if let Ok(job) = jobs.try_recv() {
        return Some(job);
    }
    if let Some(recorder) = recorder {
        recorder.rests();
    }
    jobs.recv().ok()
}

fn sleep_until(
    shared: &Shared<'_>,
    clock: &dyn Clock,
    due_ns: u64,
    mut recorder: Option<&mut Recorder<'_>>,
) {
    loop {
        let left_ns = due_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 || shared.is_stopped() {
            return;
        }
        if let Some(recorder) = recorder.take_if(|_| left_ns > NAP.as_nanos() as u64) {
            recorder.rests();
        }
        thread::sleep(Duration::from_nanos(left_ns).min(NAP));
    }
}

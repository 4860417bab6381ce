//! The threads of the trace over a target in virtual time: one thread drives them all.

use std::collections::VecDeque;
use std::sync::Arc;

use fsage_core::{Tid, VirtualTime};
use rustc_hash::FxHashMap;

use super::call::Performer;
use super::progress::{Level, Progress};
use super::recorder::Recorder;
use super::run::{Job, Lanes, Shared, WINDOW};
use crate::agenda::{Agenda, Flight};
use crate::timer::{Called, Collector, Timer};

#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    /// Whether the first job's call was made and its demands are served, and what became of it.
    made: bool,
    called: Option<Called>,
    flight: Flight,
    /// Whether it is on the agenda or waits for another lane.
    busy: bool,
    /// Whether nothing more can come.
    ended: bool,
}

/// All lanes.
pub struct VirtualLanes<'a> {
    shared: &'a Shared<'a>,
    time: &'a dyn VirtualTime,
    collector: &'a Collector<'a>,
    performer: Performer<'a>,
    recorder: Option<Recorder<'a>>,
    agenda: Agenda,
    by_tid: FxHashMap<Tid, usize>,
    lanes: FxHashMap<usize, Lane>,
    /// Which lanes wait for an operation, by its address: they hold it.
    waiting: FxHashMap<*const Progress, Vec<usize>>,
    begun: usize,
    inside: usize,
    now_ns: u64,
    last_ns: u64,
}

impl<'a> VirtualLanes<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        time: &'a dyn VirtualTime,
        collector: &'a Collector<'a>,
    ) -> Self {
        let (fs, stop) = (shared.fs, shared.options.stop);
        let now_ns = fs.clock().now_ns();
        let timer = Timer::Virtual(collector);
        Self {
            shared,
            time,
            collector,
            performer: Performer::new(fs, timer, shared.payload.clone(), 1, stop),
            recorder: shared.options.measured.map(Recorder::new),
            agenda: Agenda::default(),
            by_tid: FxHashMap::default(),
            lanes: FxHashMap::default(),
            waiting: FxHashMap::default(),
            begun: 0,
            inside: 0,
            now_ns,
            last_ns: now_ns,
        }
    }

    /// Goes on until no more than so many jobs are left.
    fn go_on(&mut self, left: usize) {
        while self.inside > left && !self.shared.is_stopped() {
            let Some((at_ns, number)) = self.agenda.next() else {
                return;
            };
            self.now_ns = at_ns;
            let Some(mut lane) = self.lanes.remove(&number) else {
                continue;
            };
            lane.busy = self.turn(&mut lane, number, at_ns);
            if lane.busy || !lane.ended {
                self.lanes.insert(number, lane);
            }
        }
    }

    /// One lane, as long as nobody comes before it. Whether it goes on later.
    fn turn(&mut self, lane: &mut Lane, number: usize, mut now_ns: u64) -> bool {
        let shared = self.shared;
        while let Some(job) = lane.jobs.front() {
            let due_ns = shared.due_ns(job);
            if !lane.made {
                if due_ns.is_some_and(|due_ns| due_ns > now_ns) {
                    now_ns = due_ns.unwrap_or(now_ns);
                    if !self.agenda.is_next(now_ns, number) {
                        return true;
                    }
                }
                let open = |wait: &&super::progress::Dependency| !wait.on.reached(wait.level);
                if let Some(wait) = job.waits.iter().find(open) {
                    let on = Arc::as_ptr(&wait.on);
                    self.waiting.entry(on).or_default().push(number);
                    return true;
                }
                if shared.is_stopped() {
                    return false;
                }
                self.collector.begin(now_ns);
                let called = job.perform(&mut self.performer);
                job.let_go(&self.performer);
                lane.flight.begin(self.collector);
                (lane.made, lane.called) = (true, called);
                wake(&mut self.waiting, &mut self.agenda, job, now_ns);
            }
            let agenda = &mut self.agenda;
            if !lane.flight.go_on(self.time, agenda, number, &mut now_ns) {
                return true;
            }
            lane.made = false;
            let called = lane.called.take().map(|called| lane.flight.timed(called));
            shared.count(job, called, due_ns, self.recorder.as_mut(), || now_ns);
            self.last_ns = self.last_ns.max(now_ns);
            job.progress.reach(Level::Done);
            wake(&mut self.waiting, &mut self.agenda, job, now_ns);
            lane.jobs.pop_front();
            self.inside -= 1;
        }
        false
    }
}

/// Whoever waits for the job looks again.
fn wake(
    waiting: &mut FxHashMap<*const Progress, Vec<usize>>,
    agenda: &mut Agenda,
    job: &Job,
    now_ns: u64,
) {
    for number in waiting
        .remove(&Arc::as_ptr(&job.progress))
        .unwrap_or_default()
    {
        agenda.add(now_ns, number);
    }
}

impl Lanes for VirtualLanes<'_> {
    fn lane(&mut self, tid: Tid) -> Option<u64> {
        if let Some(&number) = self.by_tid.get(&tid) {
            return Some(number as u64);
        }
        self.begun += 1;
        self.by_tid.insert(tid, self.begun);
        self.lanes.insert(self.begun, Lane::default());
        Some(self.begun as u64)
    }

    fn put(&mut self, tid: Tid, job: Job) {
        if self.inside >= WINDOW {
            self.go_on(WINDOW * 3 / 4);
        }
        let Some(&number) = self.by_tid.get(&tid) else {
            return;
        };
        if let Some(lane) = self.lanes.get_mut(&number) {
            lane.jobs.push_back(job);
            self.inside += 1;
            if !std::mem::replace(&mut lane.busy, true) {
                // What it and others did took until then, although it began when `now_ns` was last told.
                let at_ns = self.now_ns.max(self.last_ns);
                self.agenda.add(at_ns, number);
            }
        }
    }

    fn end(&mut self, tid: Tid) {
        let Some(number) = self.by_tid.remove(&tid) else {
            return;
        };
        match self.lanes.get_mut(&number) {
            Some(lane) if lane.busy => lane.ended = true,
            _ => drop(self.lanes.remove(&number)),
        }
    }

    fn count(&self) -> usize {
        self.by_tid.len()
    }

    fn finish(&mut self) {
        self.go_on(0);
        self.time.rest_until(self.last_ns);
    }
}

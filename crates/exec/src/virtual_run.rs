//! Streams over a target in virtual time: one thread drives them all, in the order of that time.
//!
//! A call is made when its stream's time has come, and its demands are served among those of all
//! streams; nothing sleeps, and no clock but the target's is looked at. Each stream has a processor of
//! its own.

use std::sync::atomic::Ordering;

use fsage_core::{FileSystem, Op, OpSource, VirtualTime, Wait};

use crate::agenda::{Agenda, Flight};
use crate::dispatch::{Executor, Outcome};
use crate::handles::Directory;
use crate::run::{Account, ExecError, Options, payload};
use crate::timer::{Collector, Timer};

/// A stream that has ended.
pub struct Finished<A> {
    pub account: A,
    pub start_ns: u64,
    pub end_ns: u64,
    /// Whether it was stopped before its end and before its time.
    pub interrupted: bool,
}

/// One stream.
struct Lane<'a, A> {
    source: Box<dyn OpSource + Send>,
    executor: Executor<'a>,
    account: A,
    batch: Vec<Op>,
    at: usize,
    /// What became of the operation at hand, while its demands are served.
    outcome: Option<Outcome>,
    flight: Flight,
    operations: u64,
}

/// How a lane's turn ended.
enum Turn {
    /// It is on the agenda again.
    Later,
    /// It waits for another stream.
    Blocked,
    /// It has nothing more to do, as far as it knows.
    Over,
    /// The run's time or count is over for it.
    Cut,
    /// It was stopped.
    Stopped,
}

struct Run<'a, A> {
    time: &'a dyn VirtualTime,
    options: &'a Options<'a>,
    collector: &'a Collector<'a>,
    agenda: Agenda,
    lanes: Vec<Option<Lane<'a, A>>>,
    ends: Vec<Option<Result<Finished<A>, ExecError>>>,
    blocked: Vec<usize>,
    start_ns: u64,
    limit_ns: u64,
    /// Whether an operation has ended the run.
    ended: bool,
    /// Whether a stream was ended by the run's count or time.
    cut: bool,
}

/// Runs all streams; each has what `account` gives for its number and start.
pub fn run<A: Account>(
    (fs, time): (&dyn FileSystem, &dyn VirtualTime),
    sources: Vec<Box<dyn OpSource + Send>>,
    options: &Options<'_>,
    directory: &Directory,
    account: impl Fn(usize, u64) -> A,
) -> Vec<Result<Finished<A>, ExecError>> {
    let collector = Collector::new(time);
    let start_ns = fs.clock().now_ns();
    let mut agenda = Agenda::default();
    let payload = payload(options);
    let lanes = sources.into_iter().enumerate().map(|(stream, source)| {
        agenda.add(start_ns, stream);
        let timer = Timer::Virtual(&collector);
        Some(Lane {
            source,
            executor: Executor::new(fs, directory, payload.begun_at(stream as u64), timer),
            account: account(stream, start_ns),
            batch: Vec::new(),
            at: 0,
            outcome: None,
            flight: Flight::default(),
            operations: 0,
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let mut run = Run {
        time,
        options,
        collector: &collector,
        agenda,
        ends: lanes.iter().map(|_| None).collect(),
        lanes,
        blocked: Vec::new(),
        start_ns,
        limit_ns: options
            .run_for_ns
            .map_or(u64::MAX, |ns| start_ns.saturating_add(ns)),
        ended: false,
        cut: false,
    };
    run.all();
    run.ends.into_iter().flatten().collect()
}

impl<A: Account> Run<'_, A> {
    fn all(&mut self) {
        let mut now_ns = self.start_ns;
        while let Some((at_ns, stream)) = self.agenda.next() {
            now_ns = at_ns;
            let Some(mut lane) = self.lanes.get_mut(stream).and_then(Option::take) else {
                continue;
            };
            let turn = self.turn(&mut lane, stream, &mut now_ns);
            let end = match turn {
                Ok(Turn::Later | Turn::Blocked) => {
                    if matches!(turn, Ok(Turn::Blocked)) {
                        self.blocked.push(stream);
                    }
                    if let Some(place) = self.lanes.get_mut(stream) {
                        *place = Some(lane);
                    }
                    continue;
                }
                Ok(turn) => {
                    self.cut |= matches!(turn, Turn::Cut);
                    Ok(matches!(turn, Turn::Stopped))
                }
                Err(error) => Err(error),
            };
            self.end(stream, lane, now_ns, end);
            self.wake(now_ns);
        }
        self.end_blocked(now_ns);
        let last_ns = self.ends.iter().flatten().flatten().map(|end| end.end_ns);
        self.time.rest_until(last_ns.max().unwrap_or(now_ns));
    }

    fn end(
        &mut self,
        stream: usize,
        lane: Lane<'_, A>,
        end_ns: u64,
        interrupted: Result<bool, ExecError>,
    ) {
        let account = lane.account;
        // What the source does when it goes may let others go on.
        drop(lane.source);
        let end = interrupted.map(|interrupted| Finished {
            account,
            start_ns: self.start_ns,
            end_ns,
            interrupted,
        });
        if let Some(place) = self.ends.get_mut(stream) {
            *place = Some(end);
        }
    }

    /// Whoever waits for another stream asks again now.
    fn wake(&mut self, now_ns: u64) {
        for stream in self.blocked.drain(..) {
            self.agenda.add(now_ns, stream);
        }
    }

    /// Nothing happens any more: those that still wait do so in vain.
    fn end_blocked(&mut self, now_ns: u64) {
        let mut streams = std::mem::take(&mut self.blocked);
        streams.sort_unstable();
        for &stream in &streams {
            let Some(lane) = self.lanes.get_mut(stream).and_then(Option::take) else {
                continue;
            };
            let end = if self.is_stopped() {
                Ok(true)
            } else if self.cut {
                // Whom they wait for has done all that was asked of it.
                Ok(false)
            } else {
                Err(ExecError::Deadlock {
                    streams: streams.clone(),
                    seconds: 0,
                })
            };
            self.end(stream, lane, now_ns, end);
        }
    }

    fn is_stopped(&self) -> bool {
        let stop = self.options.stop;
        self.ended || stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// One lane, as long as nobody comes before it.
    fn turn(
        &mut self,
        lane: &mut Lane<'_, A>,
        stream: usize,
        now_ns: &mut u64,
    ) -> Result<Turn, ExecError> {
        loop {
            if !self.operations(lane, stream, now_ns) {
                return Ok(Turn::Later);
            }
            let most = self.options.most_operations;
            if self.is_stopped() {
                return Ok(Turn::Stopped);
            }
            if !lane.batch.is_empty() && most.is_some_and(|most| lane.operations >= most) {
                return Ok(Turn::Cut);
            }
            if *now_ns >= self.limit_ns {
                return Ok(Turn::Cut);
            }
            lane.source.time(now_ns.saturating_sub(self.start_ns));
            match lane.source.wait() {
                Wait::Ready => {}
                Wait::Blocked => return Ok(Turn::Blocked),
                // A round of computing is about a nanosecond.
                Wait::Pause(ns) | Wait::Compute(ns) => {
                    self.wake(*now_ns);
                    *now_ns = now_ns.saturating_add(ns).min(self.limit_ns);
                    if self.agenda.is_next(*now_ns, stream) {
                        continue;
                    }
                    return Ok(Turn::Later);
                }
            }
            lane.at = 0;
            lane.batch.clear();
            let count =
                lane.source
                    .next_batch(&mut lane.batch)
                    .map_err(|source| ExecError::Source {
                        stream,
                        operations: lane.operations,
                        source,
                    })?;
            if count == 0 {
                return Ok(Turn::Over);
            }
            lane.operations += count as u64;
            self.wake(*now_ns);
        }
    }

    /// What is left of the batch; whether it is done and nobody comes before what follows.
    fn operations(&mut self, lane: &mut Lane<'_, A>, stream: usize, now_ns: &mut u64) -> bool {
        let paths = lane.source.paths();
        while let Some(op) = lane.batch.get(lane.at) {
            let outcome = if let Some(outcome) = lane.outcome.take() {
                outcome
            } else {
                if self.is_stopped() {
                    return true;
                }
                self.collector.begin(*now_ns);
                let outcome = lane.executor.execute(op, paths);
                lane.flight.begin(self.collector);
                outcome
            };
            let agenda = &mut self.agenda;
            if !lane.flight.go_on(self.time, agenda, stream, now_ns) {
                lane.outcome = Some(outcome);
                return false;
            }
            let outcome = match outcome {
                Outcome::Ran(called) => Outcome::Ran(lane.flight.timed(called)),
                other => other,
            };
            lane.at += 1;
            self.ended |= lane.account.count(op, paths, outcome);
        }
        true
    }
}

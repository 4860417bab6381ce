//! When a stream goes on: its own waits, the run's time, and being stopped.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fsage_core::{Clock, OpSource, Wait};

use crate::run::ExecError;

/// How long a stream that waits for another one rests before it asks again.
const RETRY: Duration = Duration::from_micros(100);

/// Once so many of these rests in a row had every stream waiting, they become longer.
const EAGER_RETRIES: u64 = 1000;

/// The longer ones.
const LATE_RETRY: Duration = Duration::from_millis(10);

/// So many rests in a row with every stream waiting, ten seconds of them, are a deadlock.
const RETRIES: u64 = EAGER_RETRIES + 990;

/// What they come to.
const DEADLOCK_S: u64 = 10;

/// Rounds of computing after which a stop is looked for: about a millisecond.
const COMPUTE_ROUNDS: u64 = 1 << 20;

/// Rests are cut into pieces of this length, so that a stop is seen soon.
const NAP_NS: u64 = 20_000_000;

/// What the streams of a run know of each other.
#[derive(Debug)]
pub struct Gate {
    /// Batches begun by all streams.
    progress: AtomicU64,
    live: AtomicUsize,
    waiting: AtomicUsize,
    ended: AtomicBool,
    /// Whether a stream was ended by the run's count or time.
    cut: AtomicBool,
    /// Which streams have not ended.
    streams: Mutex<Vec<usize>>,
}

impl Gate {
    /// For that many streams.
    pub fn new(streams: usize) -> Self {
        Self {
            progress: AtomicU64::new(0),
            live: AtomicUsize::new(streams),
            waiting: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            streams: Mutex::new((0..streams).collect()),
        }
    }

    /// A stream has ended.
    pub fn leave(&self, stream: usize) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|&s| s != stream);
    }

    /// A stream was ended that may have had more to do: those that wait for it are not in a deadlock,
    /// they end as well.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }

    /// Ends all streams at their next operation.
    pub fn end_all(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Whether a stream's next batch may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Yes.
    Go,
    /// The run's time is over, or there is nothing left to wait for.
    TimeIsUp,
    /// The run was stopped.
    Stopped,
}

/// One stream's pace.
pub struct Pace<'a> {
    stream: usize,
    gate: &'a Gate,
    stop: Option<&'a AtomicBool>,
    limit: Option<(&'a dyn Clock, u64)>,
    most: Option<u64>,
    begun: Option<(&'a dyn Clock, u64)>,
    /// Whether the stream has ever rested.
    rests: bool,
    last_end_ns: u64,
}

impl<'a> Pace<'a> {
    /// Without a limit of time.
    pub fn new(stream: usize, gate: &'a Gate, stop: Option<&'a AtomicBool>) -> Self {
        Self {
            stream,
            gate,
            stop,
            limit: None,
            most: None,
            begun: None,
            rests: false,
            last_end_ns: 0,
        }
    }

    /// Ends at `end_ns` of `clock`.
    pub fn until(&mut self, clock: &'a dyn Clock, end_ns: u64) {
        self.limit = Some((clock, end_ns));
    }

    /// Ends after that many operations.
    pub fn up_to(&mut self, most: Option<u64>) {
        self.most = most;
    }

    /// Whether that many operations are all that is wanted.
    pub fn has_done(&self, operations: u64) -> bool {
        self.most.is_some_and(|most| operations >= most)
    }

    /// It ends, though it may have had more to do.
    pub fn cut(&self) {
        self.gate.cut();
    }

    /// All streams end at their next operation.
    pub fn end_all(&self) {
        self.gate.end_all();
    }

    /// Which stream it is.
    pub fn stream(&self) -> usize {
        self.stream
    }

    /// When the last operation ended, where that was measured; 0 says nothing.
    pub fn ended(&mut self, end_ns: u64) {
        self.last_end_ns = self.last_end_ns.max(end_ns);
    }

    /// Whether the stream is to end at once.
    pub fn is_stopped(&self) -> bool {
        self.gate.ended.load(Ordering::Relaxed)
            || self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    fn time_is_up(&self) -> bool {
        // The last operation's end is at hand; the clock is read only after a rest.
        self.limit.is_some_and(|(_, end)| self.last_end_ns >= end)
    }

    /// The clock and its reading at the start, by which streams are told the time.
    pub fn begin(&mut self, clock: &'a dyn Clock, start_ns: u64) {
        self.begun = Some((clock, start_ns));
    }

    /// Tells the stream what time it is: the end of its last operation. Where that is not measured
    /// the clock is read, for streams that rest alone.
    fn tell(&mut self, source: &mut dyn OpSource) {
        if let Some((clock, start_ns)) = self.begun {
            if self.rests {
                self.last_end_ns = clock.now_ns();
            }
            source.time(self.last_end_ns.saturating_sub(start_ns));
        }
    }

    /// Waits as the stream wants to; `rests` is told before it does.
    pub fn turn(
        &mut self,
        source: &mut dyn OpSource,
        rests: &mut dyn FnMut(),
    ) -> Result<Turn, ExecError> {
        let turn = loop {
            self.tell(source);
            let wait = source.wait();
            if wait != Wait::Ready {
                rests();
            }
            let wait = match wait {
                Wait::Ready => break self.state(),
                Wait::Blocked => match self.wait_for_others(source)? {
                    (Turn::Go, Some(wait)) => wait,
                    (turn, _) => break turn,
                },
                wait => wait,
            };
            // What it did before it rests may let others go on.
            self.gate.progress.fetch_add(1, Ordering::Relaxed);
            let turn = match wait {
                Wait::Pause(ns) => self.rest(ns),
                Wait::Compute(rounds) => self.compute(rounds),
                Wait::Ready | Wait::Blocked => Turn::Go,
            };
            match turn {
                Turn::Go => {}
                over => break over,
            }
        };
        self.gate.progress.fetch_add(1, Ordering::Relaxed);
        Ok(turn)
    }

    fn state(&self) -> Turn {
        if self.is_stopped() {
            Turn::Stopped
        } else if self.time_is_up() {
            Turn::TimeIsUp
        } else {
            Turn::Go
        }
    }

    fn read_clock(&mut self) {
        if let Some((clock, _)) = self.limit {
            self.last_end_ns = clock.now_ns();
        }
    }

    fn rest(&mut self, mut left_ns: u64) -> Turn {
        self.rests = true;
        while left_ns > 0 {
            let mut nap_ns = left_ns.min(NAP_NS);
            if let Some((clock, end_ns)) = self.limit {
                nap_ns = nap_ns.min(end_ns.saturating_sub(clock.now_ns()));
            }
            thread::sleep(Duration::from_nanos(nap_ns));
            left_ns -= nap_ns;
            self.read_clock();
            let state = self.state();
            if state != Turn::Go {
                return state;
            }
        }
        self.state()
    }

    /// Keeps the processor busy for so many rounds, whatever time they take.
    fn compute(&mut self, mut rounds: u64) -> Turn {
        self.rests = true;
        while rounds > 0 {
            let now = rounds.min(COMPUTE_ROUNDS);
            for round in 0..now {
                black_box(round);
            }
            rounds -= now;
            self.read_clock();
            let state = self.state();
            if state != Turn::Go {
                return state;
            }
        }
        Turn::Go
    }

    /// Asks until the stream may go on; with what it then wants to do first, if anything.
    fn wait_for_others(
        &mut self,
        source: &mut dyn OpSource,
    ) -> Result<(Turn, Option<Wait>), ExecError> {
        self.gate.waiting.fetch_add(1, Ordering::Relaxed);
        let waited = self.ask_again(source);
        self.gate.waiting.fetch_sub(1, Ordering::Relaxed);
        waited
    }

    fn ask_again(&mut self, source: &mut dyn OpSource) -> Result<(Turn, Option<Wait>), ExecError> {
        let mut seen = self.gate.progress.load(Ordering::Relaxed);
        let mut retries = 0;
        loop {
            thread::sleep(if retries < EAGER_RETRIES {
                RETRY
            } else {
                LATE_RETRY
            });
            self.read_clock();
            let state = self.state();
            if state != Turn::Go {
                return Ok((state, None));
            }
            self.tell(source);
            match source.wait() {
                Wait::Ready => return Ok((Turn::Go, None)),
                Wait::Blocked => {}
                wait => return Ok((Turn::Go, Some(wait))),
            }
            let progress = self.gate.progress.load(Ordering::Relaxed);
            let others_wait =
                self.gate.waiting.load(Ordering::Relaxed) >= self.gate.live.load(Ordering::Relaxed);
            retries = if progress == seen && others_wait {
                retries + 1
            } else {
                0
            };
            seen = progress;
            if retries >= EAGER_RETRIES && self.gate.cut.load(Ordering::Relaxed) {
                // Whom it waits for has done all that was asked of it.
                return Ok((Turn::TimeIsUp, None));
            }
            if retries >= RETRIES {
                return Err(self.deadlock());
            }
        }
    }

    fn deadlock(&self) -> ExecError {
        let streams = self.gate.streams.lock();
        ExecError::Deadlock {
            streams: streams.unwrap_or_else(PoisonError::into_inner).clone(),
            seconds: DEADLOCK_S,
        }
    }
}

//! Running streams on a target.

use std::panic::resume_unwind;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use fsage_core::{Errno, FileSystem, Op, OpSource, PathTable, Seed, SourceError};
use fsage_host::observe::Usage;

use crate::dispatch::{Executor, Outcome};
use crate::handles::Directory;
use crate::measured::{Door, Lane};
use crate::pace::{Gate, Pace, Turn};
use crate::payload::Payload;
use crate::record::Recorder;
use crate::result::RunResult;
use crate::timer::{Called, Timer};
use crate::{usage, virtual_run};

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Where the payload's bytes start.
    pub seed: Seed,
    /// How much of what is written a compressor takes away, in hundredths.
    pub compressible_percent: u8,
    /// Width of a point of the time series in nanoseconds; 0 for no series.
    pub series_interval_ns: u64,
    /// Ends each stream with the batch that it is at after this long.
    pub run_for_ns: Option<u64>,
    /// Ends each stream with the batch in which it reaches this many operations. Streams that then wait
    /// for nobody but such ones end too.
    pub most_operations: Option<u64>,
    /// Whether an unexpected error after which nothing goes well any more ([`is_fatal`]) ends the run.
    pub end_on_fatal: bool,
    /// Ends the run at the next operation once it is set.
    pub stop: Option<&'a AtomicBool>,
    /// Where measured operations are handed over. Once they are taken no more, the run ends.
    pub measured: Option<&'a Door>,
}

impl Default for Options<'_> {
    /// Seed 1, nothing compressible, a series of seconds, no end but the streams'.
    fn default() -> Self {
        Self {
            seed: Seed(1),
            compressible_percent: 0,
            series_interval_ns: 1_000_000_000,
            run_for_ns: None,
            most_operations: None,
            end_on_fatal: false,
            stop: None,
            measured: None,
        }
    }
}

/// Errors of the target as a whole: it is full, broken, read-only, or nobody serves it any more.
pub fn is_fatal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS | Errno::EIO | Errno::ENOTCONN
    )
}

/// Why a run ended without a result; completes "failed to run the workload: …".
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// A stream could not be read on.
    #[error("stream {stream} broke off after {operations} operations")]
    Source {
        /// Which stream, from 0.
        stream: usize,
        /// Operations it had yielded before.
        operations: u64,
        /// What lies beneath.
        #[source]
        source: SourceError,
    },
    /// The machine allows no more threads.
    #[error("{wanted} streams need a thread each, and only {begun} could be started")]
    Threads {
        /// How many there are.
        begun: usize,
        /// How many are needed.
        wanted: usize,
        /// What the machine said.
        #[source]
        source: std::io::Error,
    },
    /// Every stream that has not ended waits for another.
    #[error(
        "{} all wait for one another{}; expected one of them to go on",
        names(streams),
        if *seconds > 0 { format!(" since {seconds} s") } else { String::new() }
    )]
    Deadlock {
        /// Which ones, from 0.
        streams: Vec<usize>,
        /// How long; 0 where nothing else can happen any more.
        seconds: u64,
    },
}

fn names(streams: &[usize]) -> String {
    let numbers: Vec<String> = streams.iter().map(usize::to_string).collect();
    let plural = if streams.len() == 1 { "" } else { "s" };
    format!("stream{plural} {}", numbers.join(", "))
}

/// What [`run_direct`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectResult {
    /// Operations that ran.
    pub operations: u64,
    /// Operations whose error, or its absence, the stream did not expect.
    pub unexpected: u64,
    /// The first such error, of the first stream that had one.
    pub first_error: Option<fsage_core::Errno>,
    /// Operations without a call on a target.
    pub skipped: u64,
    /// Whether it was stopped before the streams ended.
    pub interrupted: bool,
}

/// What is kept of the operations of one stream.
pub(crate) trait Account {
    /// Counts what became of an operation. Returns whether that ends the run.
    fn count(&mut self, op: &Op, paths: &PathTable, outcome: Outcome) -> bool;

    /// The stream rests now.
    fn rests(&mut self) {}
}

/// Counts, latencies and the series; operations go on to the door.
struct Measured<'a> {
    recorder: Recorder,
    end_on_fatal: bool,
    lane: Option<Lane<'a>>,
}

impl<'a> Measured<'a> {
    fn new(stream: usize, start_ns: u64, options: &Options<'a>) -> Self {
        Self {
            recorder: Recorder::new(stream, start_ns, options.series_interval_ns),
            end_on_fatal: options.end_on_fatal,
            lane: options.measured.map(Lane::new),
        }
    }
}

impl Account for Measured<'_> {
    fn count(&mut self, op: &Op, paths: &PathTable, outcome: Outcome) -> bool {
        let lane = self.lane.as_mut();
        let (taken, broke) = match outcome {
            Outcome::Ran(called) => {
                let result = called.result;
                let latency_ns = called.latency_ns();
                let expected = self
                    .recorder
                    .ran(op, paths, result, latency_ns, called.end_ns);
                let broke = !expected && self.end_on_fatal && result.err().is_some_and(is_fatal);
                if broke {
                    self.recorder.broke_off(op, paths, result);
                }
                (lane.is_none_or(|l| l.ran(op, paths, &called)), broke)
            }
            Outcome::Free { at_ns } => {
                self.recorder.skipped(op.kind);
                (lane.is_none_or(|l| l.free(op, paths, at_ns)), false)
            }
            Outcome::Skipped => {
                self.recorder.skipped(op.kind);
                (true, false)
            }
        };
        broke || !taken
    }

    fn rests(&mut self) {
        if let Some(lane) = &mut self.lane {
            // An end is noticed with the next operation.
            lane.hand_over();
        }
    }
}

impl Account for DirectResult {
    fn count(&mut self, op: &Op, _: &PathTable, outcome: Outcome) -> bool {
        let Outcome::Ran(Called { result, .. }) = outcome else {
            self.skipped += 1;
            return false;
        };
        self.operations += 1;
        if result.err() != op.result.errno() {
            self.unexpected += 1;
            self.first_error = self.first_error.or(result.err());
        }
        false
    }
}

/// A stream that has ended.
struct StreamEnd {
    recorder: Recorder,
    start_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
    run_delay_ns: Option<u64>,
    usage: Usage,
    interrupted: bool,
}

/// Runs all streams at once, each on a thread of its own, as fast as the target answers and the
/// streams' own waits allow. All wait for the last one before they start. An error of one stream ends
/// only that one; it is returned when all have ended. What a stopped or broken stream made on the
/// target stays there.
///
/// Over a target in virtual time this thread drives all of them, in the order of that time.
pub fn run(
    fs: &dyn FileSystem,
    sources: Vec<Box<dyn OpSource + Send>>,
    options: &Options<'_>,
) -> Result<RunResult, ExecError> {
    let directory = Directory::default();
    let ends = if let Some(time) = fs.virtual_time() {
        let each = |stream, at_ns| Measured::new(stream, at_ns, options);
        let ends = virtual_run::run((fs, time), sources, options, &directory, each);
        let ends = ends.into_iter();
        ends.map(|end| end.map(StreamEnd::of_virtual)).collect()
    } else {
        let (line, gate) = (StartLine::default(), Gate::new(sources.len()));
        let payload = payload(options);
        let one = |stream, source| {
            let shared = (&directory, &gate, &payload);
            let end = run_stream(fs, stream, source, options, shared, &line);
            gate.leave(stream);
            end
        };
        on_threads(sources, one, |begun, all| line.go(begun, all))
    };
    directory.close_all(fs);
    Ok(together(all_or_first(ends)?))
}

/// The result of all streams.
fn together(ends: Vec<StreamEnd>) -> RunResult {
    let start_ns = ends.iter().map(|e| e.start_ns).min().unwrap_or(0);
    let end_ns = ends.iter().map(|e| e.end_ns).max().unwrap_or(0);
    let cpu_ns = ends.iter().map(|e| e.cpu_ns).sum();
    let run_delay_ns = ends.iter().map(|e| e.run_delay_ns).sum();
    let usage = ends
        .iter()
        .fold(Usage::default(), |sum, e| sum.and(&e.usage));
    let interrupted = ends.iter().any(|e| e.interrupted);
    let streams = ends
        .iter()
        .map(|e| e.recorder.stream(e.end_ns.saturating_sub(e.start_ns)))
        .collect();
    let recorders = ends.into_iter().map(|e| e.recorder).collect();
    RunResult {
        elapsed_ns: end_ns.saturating_sub(start_ns),
        cpu_ns,
        run_delay_ns,
        usage,
        interrupted,
        streams,
        ..Recorder::merge(recorders)
    }
}

impl StreamEnd {
    /// There is no thread whose use of a processor could be told.
    fn of_virtual(end: virtual_run::Finished<Measured<'_>>) -> Self {
        Self {
            recorder: end.account.recorder,
            start_ns: end.start_ns,
            end_ns: end.end_ns,
            cpu_ns: 0,
            run_delay_ns: None,
            usage: Usage::default(),
            interrupted: end.interrupted,
        }
    }
}

/// Where streams wait until all are ready.
#[derive(Default)]
struct StartLine {
    /// How many are ready, and whether they start once that is known.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl StartLine {
    /// Whether the stream is to start.
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        let state = self.changed.wait_while(state, |state| state.1.is_none());
        state.unwrap_or_else(PoisonError::into_inner).1 == Some(true)
    }

    /// Lets them start when `begun` are ready, if those are `all`.
    fn go(&self, begun: usize, all: bool) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |state| state.0 < begun);
        state.unwrap_or_else(PoisonError::into_inner).1 = Some(all);
        self.changed.notify_all();
    }
}

/// Gives each source to `each` on a thread of its own, with its number; `begun` is told how many there
/// are and whether those are all. If not, the error is the last of the ends.
fn on_threads<T: Send>(
    sources: Vec<Box<dyn OpSource + Send>>,
    each: impl Fn(usize, Box<dyn OpSource + Send>) -> Result<T, ExecError> + Sync,
    begun: impl FnOnce(usize, bool),
) -> Vec<Result<T, ExecError>> {
    thread::scope(|scope| {
        let (each, wanted) = (&each, sources.len());
        let mut threads = Vec::new();
        let mut failed = None;
        for (stream, source) in sources.into_iter().enumerate() {
            let thread = thread::Builder::new();
            match thread.spawn_scoped(scope, move || each(stream, source)) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    failed = Some(ExecError::Threads {
                        begun: stream,
                        wanted,
                        source,
                    });
                    break;
                }
            }
        }
        begun(threads.len(), failed.is_none());
        let ends = threads.into_iter();
        let ends = ends.map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.chain(failed.map(Err)).collect()
    })
}

/// Every end, or the error that explains the others: a stream that broke off leaves others waiting.
fn all_or_first<T>(ends: Vec<Result<T, ExecError>>) -> Result<Vec<T>, ExecError> {
    let mut done = Vec::new();
    let mut failed: Option<ExecError> = None;
    for end in ends {
        match end {
            Ok(end) => done.push(end),
            Err(error) if failed.as_ref().is_none_or(|f| explains(&error, f)) => {
                failed = Some(error);
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(done), Err)
}

/// Whether an error says more than another: a break before a deadlock, and of deadlocks the one that
/// was found first, while all that wait were there.
fn explains(error: &ExecError, other: &ExecError) -> bool {
    match (error, other) {
        (ExecError::Threads { .. }, _) | (ExecError::Source { .. }, ExecError::Deadlock { .. }) => {
            true
        }
        (ExecError::Deadlock { streams, .. }, ExecError::Deadlock { streams: fewer, .. }) => {
            streams.len() > fewer.len()
        }
        _ => false,
    }
}

fn run_stream(
    fs: &dyn FileSystem,
    stream: usize,
    mut source: Box<dyn OpSource + Send>,
    options: &Options<'_>,
    (directory, gate, payload): (&Directory, &Gate, &Payload),
    line: &StartLine,
) -> Result<StreamEnd, ExecError> {
    let payload = payload.begun_at(stream as u64);
    let mut executor = Executor::new(fs, directory, payload, Timer::Clock(fs.clock()));
    let starts = line.wait();
    let before = usage::now();
    let start_ns = fs.clock().now_ns();
    let mut account = Measured::new(stream, start_ns, options);
    let mut pace = Pace::new(stream, gate, options.stop);
    pace.begin(fs.clock(), start_ns);
    if let Some(limit) = options.run_for_ns {
        pace.until(fs.clock(), start_ns.saturating_add(limit));
    }
    pace.up_to(options.most_operations);
    let drained = if starts {
        drain(&mut *source, &mut pace, &mut executor, &mut account)
    } else {
        Ok(true)
    };
    let end_ns = fs.clock().now_ns();
    let after = usage::now();
    Ok(StreamEnd {
        recorder: account.recorder,
        start_ns,
        end_ns,
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        run_delay_ns: after
            .run_delay_ns
            .zip(before.run_delay_ns)
            .map(|(after, before)| after.saturating_sub(before)),
        usage: after.usage.since(&before.usage),
        interrupted: drained?,
    })
}

/// Runs all streams at once without measuring anything: no clock is read but by streams that rest,
/// so that a tracer outside sees the streams' calls and as little else as possible. A single stream
/// runs on the calling thread.
pub fn run_direct(
    fs: &dyn FileSystem,
    mut sources: Vec<Box<dyn OpSource + Send>>,
    options: &Options<'_>,
) -> Result<DirectResult, ExecError> {
    let directory = Directory::default();
    let ends = if let Some(time) = fs.virtual_time() {
        let ends = virtual_run::run((fs, time), sources, options, &directory, |_, _| {
            DirectResult::default()
        });
        let reported = |end: virtual_run::Finished<DirectResult>| DirectResult {
            interrupted: end.interrupted,
            ..end.account
        };
        ends.into_iter().map(|end| end.map(reported)).collect()
    } else {
        let gate = Gate::new(sources.len());
        let start_ns = fs.clock().now_ns();
        let payload = payload(options);
        let one = |stream: usize, mut source: Box<dyn OpSource + Send>| {
            let payload = payload.begun_at(stream as u64);
            let mut executor = Executor::new(fs, &directory, payload, Timer::Off);
            let mut done = DirectResult::default();
            let mut pace = Pace::new(stream, &gate, options.stop);
            pace.begin(fs.clock(), start_ns);
            let drained = drain(&mut *source, &mut pace, &mut executor, &mut done);
            gate.leave(stream);
            done.interrupted = drained?;
            Ok(done)
        };
        match sources.pop() {
            Some(only) if sources.is_empty() => vec![one(0, only)],
            last => {
                sources.extend(last);
                on_threads(sources, one, |_, all| {
                    if !all {
                        gate.end_all();
                    }
                })
            }
        }
    };
    directory.close_all(fs);
    let mut total = DirectResult::default();
    for end in all_or_first(ends)? {
        total.operations += end.operations;
        total.unexpected += end.unexpected;
        total.first_error = total.first_error.or(end.first_error);
        total.skipped += end.skipped;
        total.interrupted |= end.interrupted;
    }
    Ok(total)
}

/// Executes every operation of a stream; returns whether the stream was stopped before its end and
/// before its time.
fn drain(
    source: &mut dyn OpSource,
    pace: &mut Pace<'_>,
    executor: &mut Executor<'_>,
    account: &mut impl Account,
) -> Result<bool, ExecError> {
    let mut batch = Vec::new();
    let mut operations = 0;
    loop {
        match pace.turn(source, &mut || account.rests())? {
            Turn::Go => {}
            Turn::TimeIsUp => {
                pace.cut();
                return Ok(false);
            }
            Turn::Stopped => return Ok(true),
        }
        batch.clear();
        let count = source
            .next_batch(&mut batch)
            .map_err(|source| ExecError::Source {
                stream: pace.stream(),
                operations,
                source,
            })?;
        if count == 0 {
            return Ok(false);
        }
        let paths = source.paths();
        for op in &batch {
            if pace.is_stopped() {
                return Ok(true);
            }
            let outcome = executor.execute(op, paths);
            if let Outcome::Ran(called) = &outcome {
                pace.ended(called.end_ns);
            }
            if account.count(op, paths, outcome) {
                pace.end_all();
            }
        }
        operations += count as u64;
        if pace.has_done(operations) {
            pace.cut();
            return Ok(false);
        }
    }
}

/// What they write.
pub(crate) fn payload(options: &Options<'_>) -> Payload {
    Payload::new(options.seed, options.compressible_percent)
}

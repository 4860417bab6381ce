//! Running streams on a target.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fsage_core::{FileSystem, OpSource, Seed, SourceError};

use crate::dispatch::{Executor, Outcome};
use crate::record::Recorder;
use crate::result::RunResult;
use crate::usage;

/// How to run.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Where the payload's bytes start; each stream adds its number.
    pub seed: Seed,
    /// Width of a point of the time series in nanoseconds; 0 for no series.
    pub series_interval_ns: u64,
    /// Ends the run at the next operation once it is set.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for Options<'_> {
    /// Seed 1, a series of seconds, no stop.
    fn default() -> Self {
        Self {
            seed: Seed(1),
            series_interval_ns: 1_000_000_000,
            stop: None,
        }
    }
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
}

/// What [`run_direct`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DirectResult {
    /// Operations that ran.
    pub operations: u64,
    /// Operations whose error, or its absence, the stream did not expect.
    pub unexpected: u64,
    /// The first such error.
    pub first_error: Option<fsage_core::Errno>,
    /// Operations without a call on a target.
    pub skipped: u64,
    /// Whether it was stopped before the stream ended.
    pub interrupted: bool,
}

struct StreamEnd {
    recorder: Recorder,
    start_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
    run_delay_ns: Option<u64>,
    interrupted: bool,
}

/// Runs all streams at once, each on a thread of its own, as fast as the target answers. All wait
/// for the last one before they start. An error of one stream ends only that one; it is returned
/// when all have ended. What a stopped or broken stream made on the target stays there.
pub fn run(
    fs: &dyn FileSystem,
    sources: Vec<Box<dyn OpSource + Send>>,
    options: &Options<'_>,
) -> Result<RunResult, ExecError> {
    let barrier = Barrier::new(sources.len());
    let ends: Vec<Result<StreamEnd, ExecError>> = thread::scope(|scope| {
        let barrier = &barrier;
        let threads: Vec<_> = sources
            .into_iter()
            .enumerate()
            .map(|(stream, source)| {
                scope.spawn(move || run_stream(fs, stream, source, options, barrier))
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let ends = ends.into_iter().collect::<Result<Vec<_>, _>>()?;
    let start_ns = ends.iter().map(|e| e.start_ns).min().unwrap_or(0);
    let end_ns = ends.iter().map(|e| e.end_ns).max().unwrap_or(0);
    let cpu_ns = ends.iter().map(|e| e.cpu_ns).sum();
    let run_delay_ns = ends.iter().map(|e| e.run_delay_ns).sum();
    let interrupted = ends.iter().any(|e| e.interrupted);
    let recorders = ends.into_iter().map(|e| e.recorder).collect();
    Ok(RunResult {
        elapsed_ns: end_ns.saturating_sub(start_ns),
        cpu_ns,
        run_delay_ns,
        interrupted,
        ..Recorder::merge(recorders)
    })
}

fn run_stream(
    fs: &dyn FileSystem,
    stream: usize,
    mut source: Box<dyn OpSource + Send>,
    options: &Options<'_>,
    barrier: &Barrier,
) -> Result<StreamEnd, ExecError> {
    let mut executor = Executor::new(fs, payload_seed(options.seed, stream), true);
    barrier.wait();
    let before = usage::now();
    let start_ns = fs.clock().now_ns();
    let mut recorder = Recorder::new(stream, start_ns, options.series_interval_ns);
    let drained = drain(
        &mut *source,
        stream,
        options.stop,
        |op, paths| match executor.execute(op, paths) {
            Outcome::Ran {
                result,
                latency_ns,
                end_ns,
            } => {
                recorder.ran(op, paths, result, latency_ns, end_ns);
            }
            Outcome::Skipped => recorder.skipped(op.kind),
        },
    );
    let end_ns = fs.clock().now_ns();
    let after = usage::now();
    executor.finish();
    Ok(StreamEnd {
        recorder,
        start_ns,
        end_ns,
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        run_delay_ns: after
            .run_delay_ns
            .zip(before.run_delay_ns)
            .map(|(after, before)| after.saturating_sub(before)),
        interrupted: drained?,
    })
}

/// Runs one stream on the calling thread without measuring anything: no clock is read, so that a
/// tracer outside sees the stream's calls and as little else as possible.
pub fn run_direct(
    fs: &dyn FileSystem,
    source: &mut dyn OpSource,
    options: &Options<'_>,
) -> Result<DirectResult, ExecError> {
    let mut executor = Executor::new(fs, payload_seed(options.seed, 0), false);
    let mut done = DirectResult::default();
    let drained = drain(source, 0, options.stop, |op, paths| {
        match executor.execute(op, paths) {
            Outcome::Ran { result, .. } => {
                done.operations += 1;
                if result.err() != op.result.errno() {
                    done.unexpected += 1;
                    done.first_error = done.first_error.or(result.err());
                }
            }
            Outcome::Skipped => done.skipped += 1,
        }
    });
    executor.finish();
    done.interrupted = drained?;
    Ok(done)
}

/// Gives every operation of a stream to `each`; returns whether it was stopped.
fn drain(
    source: &mut dyn OpSource,
    stream: usize,
    stop: Option<&AtomicBool>,
    mut each: impl FnMut(&fsage_core::Op, &fsage_core::PathTable),
) -> Result<bool, ExecError> {
    let mut batch = Vec::new();
    let mut operations = 0;
    loop {
        batch.clear();
        let count = source
            .next_batch(&mut batch)
            .map_err(|source| ExecError::Source {
                stream,
                operations,
                source,
            })?;
        if count == 0 {
            return Ok(false);
        }
        let paths = source.paths();
        for op in &batch {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(true);
            }
            each(op, paths);
        }
        operations += count as u64;
    }
}

/// Streams write different bytes.
fn payload_seed(seed: Seed, stream: usize) -> Seed {
    Seed(seed.0.wrapping_add(stream as u64))
}

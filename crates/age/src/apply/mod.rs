//! Carrying out an aging workload on a target: in order, as fast as the file system allows, day by day.
//!
//! The workload may be a stranger's: every name stays beneath the target's root, and what cannot be done there is
//! counted and passed over. A full disk is met as a program meets it: the file is shorter, and what would come after
//! in it is left out. Memory holds a piece of the workload and its open files.
//!
//! What was begun is kept in a [`State`] before each change, so that a kill at any moment leaves at most one operation
//! in doubt; that one is done again, and every operation has the same outcome when it is done twice. Who asks for the
//! end leaves none in doubt but a write that he cut short. A day ends with all that is known of it, or not at all.

mod calls;
mod state;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Errno, FileSystem, Op, OpSource, PathTable, Seed, SourceError};
use fsage_exec::Payload;
use fsage_format::result::aged::{AgedDay, AgedTally};
use fsage_format::trace::{TraceMeta, TraceReader};

use crate::made::DAY_NS;
use calls::Calls;
pub use state::{Identity, Kept, State, StateError};

/// Why a workload could not be applied; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The workload could not be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The target failed, other than by being full or by lacking what the workload names.
    #[error("{what} `{name}` on {target} (operation {row} of the workload): {errno}")]
    Target {
        /// What was tried.
        what: &'static str,
        /// On which name, not UTF-8 replaced.
        name: String,
        /// The target.
        target: String,
        /// Which operation, from 0.
        row: u64,
        /// What it said.
        errno: Errno,
    },
    /// What was begun could not be kept.
    #[error(transparent)]
    State(#[from] StateError),
}

/// How a workload is applied.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions<'a> {
    /// Space is allocated and no data written.
    pub fast: bool,
    /// Where the bytes that are written come from.
    pub seed: Seed,
    /// Ends it.
    pub stop: &'a AtomicBool,
}

/// A look at a target that was asked to end before it had seen all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// What watches an aging run.
pub trait Observer {
    /// A day has ended and is on the disk: its layout score, as blocks counted and of these well placed, where that is
    /// wanted and can be told. The day of one that was stopped has not ended: it ends when the run goes on.
    fn score(&mut self) -> Result<Option<(u64, u64)>, Stopped>;
    /// So many operations of the workload are done, in its day of that number.
    fn progress(&mut self, operations: u64, day: u64);
}

/// What became of it.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// What was done in all.
    pub tally: AgedTally,
    /// Each day that had operations.
    pub days: Vec<AgedDay>,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
    /// Operations that an earlier run had done.
    pub resumed_after: u64,
    /// How long the target took, without the looks at it, nanoseconds.
    pub elapsed_ns: u64,
}

/// Operations between two words on how far it is.
const STEP: usize = 1024;

/// Applies a workload to an empty target, or goes on with what `state` says was done.
pub fn apply(
    workload: &mut TraceReader,
    fs: &dyn FileSystem,
    options: ApplyOptions<'_>,
    state: Option<&mut State>,
    observer: &mut dyn Observer,
) -> Result<Applied, ApplyError> {
    workload.forget_paths();
    let mut run = Run::new(workload.meta(), (fs, options), state, observer);
    let mut batch = Vec::new();
    loop {
        batch.clear();
        if workload.next_batch(&mut batch)? == 0 {
            break;
        }
        let paths = workload.paths();
        for (index, op) in batch.iter().enumerate() {
            if index % STEP == 0 {
                run.tell();
            }
            if run.step(op, paths)?.is_break() {
                return run.stopped();
            }
        }
    }
    if run.finish()?.is_break() {
        return run.stopped();
    }
    Ok(run.applied)
}

struct Run<'a> {
    calls: Calls<'a>,
    fs: &'a dyn FileSystem,
    stop: &'a AtomicBool,
    state: Option<&'a mut State>,
    observer: &'a mut dyn Observer,
    applied: Applied,
    day: Option<u64>,
    /// What was done before the day.
    begun: AgedTally,
    /// When the target's own time began to run again.
    at_ns: u64,
    row: u64,
    /// Operations that an earlier run has done are passed over until the first that it has not.
    passing: bool,
    /// Whether the next operation may have been carried out, wholly or in part.
    doubtful: bool,
}

impl<'a> Run<'a> {
    fn new(
        meta: &TraceMeta,
        (fs, options): (&'a dyn FileSystem, ApplyOptions<'a>),
        state: Option<&'a mut State>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let root = meta.roots().into_iter().next();
        let root = root.unwrap_or_else(|| meta.working_directory());
        let payload = Payload::new(options.seed, 0);
        let mut run = Self {
            calls: Calls::new(fs, payload, (&root, meta.start_unix_ns), options),
            fs,
            stop: options.stop,
            state: None,
            observer,
            applied: Applied::default(),
            day: None,
            begun: AgedTally::default(),
            at_ns: fs.clock().now_ns(),
            row: 0,
            passing: false,
            doubtful: false,
        };
        if let Some(state) = state {
            run.go_on(state);
            run.state = Some(state);
        }
        run
    }

    /// Takes up what an earlier run did.
    fn go_on(&mut self, state: &State) {
        self.applied.tally = state.tally().clone();
        self.applied.days = state.days().to_vec();
        self.applied.resumed_after = state.rows();
        if let Some(day) = self.applied.days.last() {
            self.applied.elapsed_ns = day.elapsed_ns;
            self.begun = day.so_far.clone();
        }
        self.passing = state.was_begun();
        self.doubtful = self.passing && state.rested_ns().is_none();
        self.applied.elapsed_ns = state.rested_ns().unwrap_or(self.applied.elapsed_ns);
    }

    fn tell(&mut self) {
        self.observer.progress(self.row, self.day.unwrap_or(0));
    }

    fn is_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The next operation. Breaks off before it, or in the midst of it, if all is to end.
    fn step(&mut self, op: &Op, paths: &PathTable) -> Result<ControlFlow<()>, ApplyError> {
        if self.is_to_stop() {
            return Ok(ControlFlow::Break(()));
        }
        let day = op.start_ns / DAY_NS;
        if self.passing && self.row < self.applied.resumed_after {
            self.calls.pass(op, paths);
            self.day = self.day.max(Some(day));
            self.row += 1;
            return Ok(ControlFlow::Continue(()));
        }
        if std::mem::take(&mut self.passing) {
            let kept = self.state.as_deref().map_or(&[][..], State::open);
            self.calls.reopen(kept);
            self.at_ns = self.fs.clock().now_ns();
        }
        if self.day.is_some_and(|before| day > before)
            && self.is_open()
            && self.end_day()?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        self.day = self.day.max(Some(day));
        let tally = &mut self.applied.tally;
        if let Some(state) = self.state.as_deref_mut()
            && calls::changes(op.kind)
        {
            state.begin(self.row, tally, self.calls.open_files())?;
        }
        let again = std::mem::take(&mut self.doubtful);
        match self.calls.carry_out(op, paths, self.row, tally, again) {
            Err(ApplyError::Target {
                errno: Errno::EINTR,
                ..
            }) => {
                self.doubtful = true;
                return Ok(ControlFlow::Break(()));
            }
            carried => carried?,
        }
        self.row += 1;
        Ok(ControlFlow::Continue(()))
    }

    /// All operations are done: so is the last day.
    fn finish(&mut self) -> Result<ControlFlow<()>, ApplyError> {
        if self.is_to_stop() {
            return Ok(ControlFlow::Break(()));
        }
        if std::mem::take(&mut self.passing) {
            self.at_ns = self.fs.clock().now_ns();
        }
        self.calls.close_all();
        if self.is_open() && self.end_day()?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.tell();
        self.rest();
        Ok(ControlFlow::Continue(()))
    }

    /// What there is of a run that was asked to end. It is kept how far it was.
    fn stopped(mut self) -> Result<Applied, ApplyError> {
        self.applied.interrupted = true;
        // Of what was not reached again nothing new is known.
        if !self.passing {
            self.rest();
            if let Some(state) = self.state.as_deref_mut().filter(|_| !self.doubtful) {
                let (open, elapsed_ns) = (self.calls.open_files(), self.applied.elapsed_ns);
                state.rest(self.row, &self.applied.tally, open, elapsed_ns)?;
            }
        }
        self.calls.close_all();
        Ok(self.applied)
    }

    /// Whether the day has not been ended yet.
    fn is_open(&self) -> bool {
        let last = self.applied.days.last().map(|day| day.day);
        self.day.is_some() && last < self.day
    }

    /// The target's time stops.
    fn rest(&mut self) {
        let now_ns = self.fs.clock().now_ns();
        self.applied.elapsed_ns += now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
    }

    /// Writes the day back and keeps what the target is like then. Breaks off, and leaves the day open, if its layout
    /// could not be looked at to the end: a day that was kept without its score would never have one.
    fn end_day(&mut self) -> Result<ControlFlow<()>, ApplyError> {
        let failed = |what, errno| ApplyError::Target {
            what,
            name: String::new(),
            target: self.fs.name(),
            row: self.row,
            errno,
        };
        self.fs
            .sync()
            .map_err(|e| failed("write back the day before", e))?;
        let space = self
            .fs
            .statfs()
            .map_err(|e| failed("ask for the free space before", e))?;
        self.rest();
        let score = self.observer.score();
        self.at_ns = self.fs.clock().now_ns();
        let Ok(score) = score else {
            return Ok(ControlFlow::Break(()));
        };
        let total = space.total_bytes;
        let so_far = self.applied.tally.clone();
        let day = AgedDay {
            day: self.day.unwrap_or(0),
            operations: so_far.operations - self.begun.operations,
            written_bytes: so_far.written_bytes - self.begun.written_bytes,
            no_space: so_far.no_space - self.begun.no_space,
            total_bytes: total,
            available_bytes: space.available_bytes,
            utilisation: if total == 0 {
                0.0
            } else {
                total.saturating_sub(space.free_bytes) as f64 / total as f64
            },
            files: space.files.saturating_sub(space.free_files),
            counted_blocks: score.map(|s| s.0),
            optimal_blocks: score.map(|s| s.1),
            layout_score: score.filter(|s| s.0 > 0).map(|s| s.1 as f64 / s.0 as f64),
            elapsed_ns: self.applied.elapsed_ns,
            so_far: so_far.clone(),
        };
        self.begun = so_far;
        if let Some(state) = self.state.as_deref_mut() {
            state.end_day(&day)?;
        }
        self.applied.days.push(day);
        Ok(ControlFlow::Continue(()))
    }
}

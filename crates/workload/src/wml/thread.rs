//! One thread of a script as a stream of operations.
//!
//! A batch is one flowop. What it picked stays busy until the next batch is asked for: then its
//! operations have returned, and other threads may pick it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_core::{Op, OpSource, PathId, PathTable, Pid, SourceError, Tid, Wait};
use fsage_format::foreign::wml::QuitMode;
use rustc_hash::FxHashMap;

use crate::random::Random;

use super::code::{Code, Flowop, Instruction};
use super::state::{Shared, Verdict};

/// How long a thread rests that went through all of its flowops, or through so many, and did nothing.
const IDLE_NS: u64 = 1_000_000;
const IDLE_STEPS: u64 = 10_000;

/// What happened to a flowop.
pub(super) enum Done {
    /// It is done; its operations, if any, are in the batch.
    Yes,
    /// It is done after a rest of that many nanoseconds.
    Rest(u64),
    /// It is done after so many rounds of computing.
    Compute(u64),
    /// It cannot go on yet, for this reason.
    Wait(String),
    /// No file of the fileset fits.
    NoFile,
    /// The run is over.
    Stop,
}

/// What is to be undone or noted once the operations of a batch have returned.
#[derive(Debug, Clone, Copy)]
pub(super) enum Release {
    File {
        fileset: usize,
        index: usize,
        exists: bool,
    },
    Leaf {
        fileset: usize,
        index: usize,
        exists: bool,
    },
    /// A write that made it longer.
    Grown { fileset: usize, index: usize },
    /// A read that found its end.
    Read { fileset: usize, index: usize },
    /// A descriptor of it was closed.
    Closed { fileset: usize, index: usize },
}

/// A descriptor of the thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    pub(super) open: bool,
    /// The file that it names or named last: fileset and index.
    pub(super) file: Option<(usize, usize)>,
    pub(super) position: u64,
    /// Whether transfers go past the page cache.
    pub(super) direct: bool,
}

/// What a flowop remembers between its rounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Memory {
    /// Flowops and bytes that it did.
    pub(super) done: u64,
    pub(super) bytes: u64,
    /// Limits: what was counted the last time, and what is left of the taken events.
    pub(super) last: Option<u64>,
    pub(super) bucket: i64,
    /// Gates: which one; posts and blocks: how far this round has come.
    pub(super) gate: usize,
    pub(super) progress: Option<u64>,
}

/// What a thread is made of.
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) file: Arc<str>,
    pub(super) number: usize,
    pub(super) process: u32,
    pub(super) first_descriptor: usize,
    pub(super) code: Arc<Code>,
    pub(super) mode: QuitMode,
    pub(super) iterations: Option<u64>,
    pub(super) random: Random,
}

/// The stream of one thread.
pub(super) struct ThreadStream {
    pub(super) set: Setting,
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) paths: PathTable,
    pub(super) known: FxHashMap<(usize, usize), PathId>,
    pub(super) slots: Vec<Slot>,
    pub(super) memory: Vec<Memory>,
    /// The next descriptor of `opennext`, and where this thread's picks go on.
    pub(super) rotor: usize,
    pub(super) pick_rotor: usize,
    /// Nanoseconds since the run began, as told or as rested.
    pub(super) now_ns: u64,
    reported: bool,
    pub(super) batch: Vec<Op>,
    pub(super) releases: Vec<Release>,
    at: usize,
    /// Loops that are open: the step that began each, and how often it is still gone through.
    loops: Vec<(usize, u64)>,
    rounds: u64,
    /// Whether something was done since the last answer that another thread may wait for.
    pub(super) changed: bool,
    /// Whether anything was done in this round.
    useful: bool,
    ended: bool,
    failed: Option<String>,
}

impl ThreadStream {
    pub(super) fn new(set: Setting, shared: Arc<Mutex<Shared>>) -> Self {
        let mut memory = vec![Memory::default(); set.code.steps.len()];
        {
            let mut held = lock(&shared);
            for (memory, step) in memory.iter_mut().zip(&set.code.steps) {
                if let Some(flowop) = step.flowop().filter(|f| f.gate) {
                    memory.gate = held.add_gate(&flowop.name, flowop.highwater);
                }
            }
        }
        Self {
            slots: vec![Slot::default(); set.code.descriptors],
            memory,
            set,
            shared,
            paths: PathTable::new(),
            known: FxHashMap::default(),
            rotor: 0,
            pick_rotor: 0,
            now_ns: 0,
            reported: false,
            batch: Vec::new(),
            releases: Vec::new(),
            at: 0,
            loops: Vec::new(),
            rounds: 0,
            changed: false,
            useful: false,
            ended: false,
            failed: None,
        }
    }

    /// The path of a file, or what `make` says it is.
    pub(super) fn path(&mut self, text: &str) -> Result<PathId, String> {
        self.paths
            .intern(text.as_bytes())
            .ok_or_else(|| "more than 2^32 names".to_owned())
    }

    pub(super) fn op(&self, kind: fsage_core::OpKind) -> Op {
        let tid = self.set.number as u32 + 1;
        Op::new(kind, Pid(self.set.process), Tid(tid), 0)
    }

    fn release(&mut self) {
        if self.releases.is_empty() {
            return;
        }
        let mut shared = lock(&self.shared);
        shared.release(&self.releases);
        drop(shared);
        self.releases.clear();
        self.changed = true;
    }

    /// Goes on until there are operations, a reason to wait, or the end.
    fn advance(&mut self) -> Wait {
        if !self.batch.is_empty() || self.ended {
            return Wait::Ready;
        }
        self.release();
        let code = Arc::clone(&self.set.code);
        let mut idle_steps = 0;
        loop {
            idle_steps += 1;
            if idle_steps > IDLE_STEPS {
                // A loop that does nothing must leave time to others, and can be stopped.
                return self.rest(Wait::Pause(IDLE_NS));
            }
            let Some(step) = code.steps.get(self.at) else {
                if let Some(wait) = self.round_ends() {
                    return wait;
                }
                continue;
            };
            match step {
                Instruction::Repeat { times, end } => {
                    let times = times.whole(&mut self.set.random);
                    if times == 0 {
                        self.at = *end;
                    } else {
                        self.loops.push((self.at, times));
                        self.at += 1;
                    }
                }
                Instruction::Again { start } => match self.loops.last_mut() {
                    Some((begun, left)) if *begun == *start && *left > 1 => {
                        *left -= 1;
                        self.at = start + 1;
                    }
                    _ => {
                        self.loops.pop();
                        self.at += 1;
                    }
                },
                Instruction::Flowop(flowop) => {
                    if let Some(wait) = self.flowop(flowop) {
                        return wait;
                    }
                }
            }
        }
    }

    /// All flowops were gone through.
    fn round_ends(&mut self) -> Option<Wait> {
        self.at = 0;
        self.rounds += 1;
        if self.set.iterations.is_some_and(|most| self.rounds >= most) {
            return Some(self.end(true));
        }
        if lock(&self.shared).stopped {
            return Some(self.end(true));
        }
        if !std::mem::take(&mut self.useful) {
            return Some(self.rest(Wait::Pause(IDLE_NS)));
        }
        None
    }

    /// Comes to its end; `well` unless it found an error.
    fn end(&mut self, well: bool) -> Wait {
        self.ended = true;
        lock(&self.shared).ended(self.set.number, well);
        Wait::Ready
    }

    fn fail(&mut self, flowop: &Flowop, what: &str) -> Wait {
        let Setting { file, name, .. } = &self.set;
        let Flowop { line, name: op, .. } = flowop;
        self.failed = Some(format!(
            "{file}: line {line}: flowop '{op}' of thread '{name}': {what}"
        ));
        lock(&self.shared).stopped = true;
        self.end(false)
    }

    /// Rests or computes; where no time is told it is taken to be the nanoseconds or rounds.
    fn rest(&mut self, rest: Wait) -> Wait {
        if let (Wait::Pause(ns) | Wait::Compute(ns), false) = (rest, self.reported) {
            self.now_ns = self.now_ns.saturating_add(ns);
        }
        rest
    }

    /// Does the flowop at hand; `None` if the next one may follow at once.
    fn flowop(&mut self, flowop: &Flowop) -> Option<Wait> {
        let shared = Arc::clone(&self.shared);
        let mut held = lock(&shared);
        held.begun = true;
        if held.stopped {
            drop(held);
            return Some(self.end(true));
        }
        let done = self.execute(flowop, &mut held);
        match done {
            Err(what) => {
                drop(held);
                Some(self.fail(flowop, &what))
            }
            // It opened its file and goes on from there.
            Ok(Done::Wait(_)) if !self.batch.is_empty() => {
                held.running(self.set.number);
                Some(Wait::Ready)
            }
            Ok(Done::Wait(what)) => {
                let name = &self.set.name;
                let line = flowop.line;
                let verdict = held.waits(self.set.number, || {
                    format!("thread '{name}' waits in line {line} for {what}")
                });
                drop(held);
                Some(match verdict {
                    Verdict::Wait => Wait::Blocked,
                    Verdict::End => self.end(true),
                    Verdict::Deadlock(all) => {
                        self.fail(flowop, &format!("all threads wait for each other: {all}"))
                    }
                })
            }
            // Threads that were ended from outside put nothing back.
            Ok(Done::NoFile) if held.is_cut() => {
                drop(held);
                Some(self.end(true))
            }
            Ok(Done::NoFile) => {
                held.running(self.set.number);
                drop(held);
                Some(self.no_file(flowop))
            }
            Ok(Done::Stop) => {
                held.stopped = true;
                held.changed();
                drop(held);
                Some(self.end(true))
            }
            Ok(done @ (Done::Yes | Done::Rest(_) | Done::Compute(_))) => {
                held.running(self.set.number);
                self.count(flowop, &mut held);
                drop(held);
                self.at += 1;
                self.useful |= !self.batch.is_empty();
                let rest = match done {
                    Done::Rest(ns) if ns > 0 => Some(Wait::Pause(ns)),
                    Done::Compute(rounds) if rounds > 0 => Some(Wait::Compute(rounds)),
                    _ => None,
                };
                match rest {
                    Some(rest) => {
                        self.useful = true;
                        Some(self.rest(rest))
                    }
                    None if !self.batch.is_empty() => Some(Wait::Ready),
                    None => None,
                }
            }
        }
    }

    /// A fileset has no file that fits: as the script's mode says.
    fn no_file(&mut self, flowop: &Flowop) -> Wait {
        match self.set.mode {
            QuitMode::AllDone => self.end(true),
            QuitMode::FirstDone => {
                let mut held = lock(&self.shared);
                held.stopped = true;
                held.changed();
                drop(held);
                self.end(true)
            }
            QuitMode::Timeout => self.fail(
                flowop,
                "no file or directory of the fileset fits; expected more entries, fewer threads or \
                 'set mode quit firstdone'",
            ),
        }
    }

    fn count(&mut self, flowop: &Flowop, held: &mut Shared) {
        if flowop.kind.limits() {
            return;
        }
        let data = flowop.kind.transfers();
        let moved = if data {
            self.batch
                .iter()
                .map(Op::bytes_moved)
                .fold(0, u64::saturating_add)
        } else {
            0
        };
        held.done += 1;
        held.transfers += u64::from(data);
        held.bytes = held.bytes.saturating_add(moved);
        if let Some(memory) = self.memory.get_mut(self.at) {
            memory.done += 1;
            memory.bytes = memory.bytes.saturating_add(moved);
        }
    }

    /// What the flowop at hand remembers.
    pub(super) fn remembered(&mut self) -> &mut Memory {
        let at = self.at.min(self.memory.len().saturating_sub(1));
        &mut self.memory[at]
    }
}

impl OpSource for ThreadStream {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let mut idle = 0;
        loop {
            match self.advance() {
                Wait::Ready => break,
                // Whoever does not ask how long to wait has no time that passes.
                Wait::Pause(_) | Wait::Compute(_) if idle < 10_000 => idle += 1,
                wait => {
                    let name = &self.set.name;
                    let what = match wait {
                        Wait::Blocked => {
                            "waits for another thread; run it together with the others"
                        }
                        _ => "has no flowop that does anything",
                    };
                    let file = &self.set.file;
                    return Err(SourceError::new(format!("{file}: thread '{name}' {what}")));
                }
            }
        }
        if let Some(failed) = self.failed.take() {
            return Err(SourceError::new(failed));
        }
        let count = self.batch.len();
        batch.append(&mut self.batch);
        Ok(count)
    }

    fn time(&mut self, now_ns: u64) {
        self.reported = true;
        self.now_ns = now_ns;
    }

    fn wait(&mut self) -> Wait {
        let wait = self.advance();
        if std::mem::take(&mut self.changed) && wait == Wait::Blocked {
            // Others may go on now, and after them this one.
            return Wait::Pause(0);
        }
        wait
    }
}

impl Drop for ThreadStream {
    fn drop(&mut self) {
        // Operations that were never handed out did not happen: what they picked stays in use, so that
        // nobody finds what was not made.
        if self.batch.is_empty() {
            self.release();
        }
        lock(&self.shared).dropped(self.set.number);
    }
}

pub(super) fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

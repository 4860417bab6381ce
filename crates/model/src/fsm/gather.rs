//! One pass over a trace: operations become visits.

mod begun;
mod kept;

use std::collections::BTreeMap;

use fsage_core::{KindClass, Op, OpKind, OpSink, PathTable, SinkError};
use rustc_hash::FxHashMap;

use super::dist::Counter;
use super::group::Mix;
use super::model::{Pick, Stage};
use super::resolve::{Done, NONE, Out, Resolver, State, is_write};
use super::step::{At, Form, LARGEST, magnitude};
use begun::Fork;
pub use kept::Visits;

/// Longer visits are cut.
const RUNS: usize = 24;
const CALLS: u64 = 4096;

/// Steps and numbers of visits with the same steps.
#[derive(Debug, Default)]
pub struct Shape {
    /// The steps.
    pub forms: Vec<Form>,
    /// Of each step: how often, how many bytes, which places, and how many low bits of these are zero.
    pub numbers: Vec<Numbers>,
    /// How many visits.
    pub count: u64,
}

/// Numbers of a step.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    /// Repetitions.
    pub times: Counter,
    /// Bytes of each call.
    pub bytes: Counter,
    /// Places at random.
    pub places: Counter,
    /// What offsets at random are a multiple of.
    pub unit_bits: Option<u32>,
    /// Of what goes on to the file's end: how many bytes it moved.
    pub to_end: Counter,
}

/// A visit of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visited {
    /// When it began.
    pub start_ns: u64,
    /// How long its process thought before and in it.
    pub think_ns: u64,
    /// How long its operations took.
    pub took_ns: u64,
    /// Who.
    pub thread: u32,
    /// With which steps.
    pub shape: u32,
    /// The file.
    pub node: u32,
    /// The other.
    pub to: u32,
    /// Which that was.
    pub pick: Pick,
    /// Which the other was.
    pub to_pick: Pick,
    /// What had been moved of the file before.
    pub before: Stage,
    /// What is there afterwards.
    pub state: State,
    /// Of what begins a process, and is no visit: its number among [`Gather::forks`], else [`NONE`].
    pub begins: u32,
    /// Whether its thread waited before until one that it had begun had ended.
    pub waits: bool,
}

/// A thread of the trace.
#[derive(Debug, Default)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// The thread that began it, where the trace tells, by its place among [`Gather::threads`].
    pub begun_by: Option<u32>,
    /// What it did, by shape.
    pub mix: Mix,
    /// When its first visit began and its last one ended.
    pub span_ns: (u64, u64),
    /// By which of [`Gather::forks`] it began.
    pub fork: Option<u32>,
    /// How long after that it did its first operation, once it has.
    pub came_ns: Option<u64>,
    /// When it ended.
    pub exit_ns: Option<u64>,
    /// Whether it or one that it began does anything.
    pub is_active: bool,
    /// Whether it waited for any that it began.
    pub has_waited: bool,
    end_ns: Option<u64>,
    /// When one that it began ended, since its last operation.
    ended_ns: Option<u64>,
    /// When what it waited for then was over.
    waited_ns: Option<u64>,
    visit: Option<Building>,
}

#[derive(Debug)]
struct Building {
    node: u32,
    to: u32,
    to_pick: Pick,
    calls: u64,
    waits: bool,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    form: Form,
    pick: Pick,
    before: Stage,
    start_ns: u64,
    think_ns: u64,
    took_ns: u64,
    state: State,
    times: u64,
    bytes: Vec<u64>,
    places: Vec<(u64, u32)>,
    empty: u64,
    moved: u64,
    at_end: bool,
}

/// Gathers visits.
#[derive(Debug, Default)]
pub struct Gather {
    /// The names and what became of them.
    pub resolver: Resolver,
    ids: FxHashMap<u32, u32>,
    /// Who began the threads that have done nothing yet.
    begun_by: FxHashMap<u32, u32>,
    /// By which fork those begin.
    starts: FxHashMap<u32, u32>,
    /// Processes that were begun.
    pub forks: Vec<Fork>,
    /// The threads, in the order of their first operation.
    pub threads: Vec<Thread>,
    shape_ids: FxHashMap<Vec<Form>, u32>,
    /// The shapes.
    pub shapes: Vec<Shape>,
    /// The visits, in the order in which they began once all have ended.
    pub visits: Visits,
    /// Operations that are modelled.
    pub operations: u64,
    /// Those that are not, by kind.
    pub left_out: BTreeMap<OpKind, u64>,
    /// Bytes read and written.
    pub bytes: (u64, u64),
    /// The first start and the last end.
    pub span_ns: Option<(u64, u64)>,
    /// Visits are counted by their shapes and not kept one by one.
    counts_only: bool,
}

impl Gather {
    /// Of files below these directories.
    pub fn new(under: &[Vec<u8>]) -> Self {
        Self {
            resolver: Resolver::new(under),
            ..Self::default()
        }
    }

    /// The same where the visits themselves are not asked for: memory does not grow with their number.
    pub fn counting(under: &[Vec<u8>]) -> Self {
        Self {
            counts_only: true,
            ..Self::new(under)
        }
    }

    fn thread(&mut self, op: &Op) -> u32 {
        if let Some(&id) = self.ids.get(&op.tid.0) {
            return id;
        }
        let id = self.threads.len() as u32;
        let begun_by = self.begun_by.remove(&op.tid.0);
        self.threads.push(Thread {
            pid: op.pid.0,
            begun_by,
            ..Thread::default()
        });
        self.ids.insert(op.tid.0, id);
        self.begins(op.tid.0, id);
        id
    }

    /// Applies an operation: the thread that did it, by its place among [`Gather::threads`], and what it did.
    pub fn take(&mut self, op: &Op, paths: &PathTable) -> (u32, Option<Done>) {
        let id = self.thread(op);
        let done = self.resolver.apply(op, paths);
        let end_ns = op.end_ns();
        self.waited(id, op);
        if op.kind == OpKind::Fork
            && op.result.is_ok()
            && let Some(child) = op.length.and_then(|child| u32::try_from(child).ok())
        {
            self.begun_by.insert(child, id);
            self.fork(id, op, child);
        }
        match &done {
            Ok(done) => {
                self.operations += u64::from(done.counts());
                if op.kind != OpKind::Fault && op.kind.class() == KindClass::Data {
                    let sum = if is_write(op) {
                        &mut self.bytes.1
                    } else {
                        &mut self.bytes.0
                    };
                    *sum = sum.saturating_add(done.moved);
                }
                let span = self.span_ns.get_or_insert((op.start_ns, end_ns));
                *span = (span.0.min(op.start_ns), span.1.max(end_ns));
                self.place(id, op, done);
            }
            Err(Out::Left) => *self.left_out.entry(op.kind).or_default() += 1,
            Err(Out::Aside) => {}
        }
        if op.kind == OpKind::Exit {
            self.close(id);
            self.ids.remove(&op.tid.0);
            self.ended(id, op.start_ns);
        }
        (id, done.ok())
    }

    fn place(&mut self, id: u32, op: &Op, done: &Done) {
        let (think_ns, waits) = self.pause(id, op);
        if waits {
            self.close(id);
        }
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        // The time of a copy stands at the first of its sides.
        thread.end_ns = thread.end_ns.max(Some(op.end_ns()));
        let fits = |v: &Building| {
            v.node == done.node
                && done.node != NONE
                && done.to == NONE
                && v.to == NONE
                && v.runs.len() < RUNS
                && v.calls < CALLS
        };
        if !thread.visit.as_ref().is_some_and(fits) {
            self.close(id);
        }
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        let visit = thread.visit.get_or_insert_with(|| Building {
            node: done.node,
            to: done.to,
            to_pick: done.to_pick,
            calls: 0,
            waits,
            runs: Vec::new(),
        });
        let about = if done.to == NONE { done.node } else { done.to };
        visit.calls += 1;
        let again = visit.runs.last().is_some_and(|r| r.form == done.form);
        if !again {
            visit.runs.push(Run {
                form: done.form,
                pick: done.pick,
                before: done.stage,
                start_ns: op.start_ns,
                think_ns: 0,
                took_ns: 0,
                state: State::default(),
                times: 0,
                bytes: Vec::new(),
                places: Vec::new(),
                empty: 0,
                moved: 0,
                at_end: false,
            });
        }
        if let Some(run) = visit.runs.last_mut() {
            run.state = self.resolver.state(thread.pid, about);
            run.think_ns = run.think_ns.saturating_add(think_ns);
            run.took_ns = run.took_ns.saturating_add(op.latency_ns.unwrap_or(0));
            run.times += 1;
            run.bytes.extend(done.bytes);
            if matches!(done.form.at, At::From | At::Back | At::End | At::Random) {
                run.places.push((done.place, done.offset.trailing_zeros()));
            }
            run.empty += u64::from(done.moved == 0);
            run.moved = run.moved.saturating_add(done.moved);
            run.at_end = done.at_end;
        }
    }

    /// A thread's visit ends.
    fn close(&mut self, id: u32) {
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        let Some(mut visit) = thread.visit.take() else {
            return;
        };
        visit.runs.iter_mut().for_each(Run::close);
        let round = round(&visit.runs);
        let mut rest = std::mem::take(&mut visit.runs);
        while !rest.is_empty() {
            let starts = |run: &Run| Some(run.form) == round;
            let next = rest.iter().skip(1).position(starts);
            let later = next.map_or_else(Vec::new, |at| rest.split_off(at + 1));
            self.keep(id, &visit, std::mem::replace(&mut rest, later));
            visit.waits = false;
        }
    }

    /// These runs in a row are a visit.
    fn keep(&mut self, id: u32, visit: &Building, mut runs: Vec<Run>) {
        tell_apart(&mut runs);
        let (Some(thread), Some(first), Some(last)) =
            (self.threads.get_mut(id as usize), runs.first(), runs.last())
        else {
            return;
        };
        let forms: Vec<Form> = runs.iter().map(|r| r.form).collect();
        let shape = *self.shape_ids.entry(forms).or_insert_with_key(|forms| {
            let numbers = vec![Numbers::default(); forms.len()];
            self.shapes.push(Shape {
                forms: forms.clone(),
                numbers,
                count: 0,
            });
            self.shapes.len() as u32 - 1
        });
        if let Some(known) = self.shapes.get_mut(shape as usize) {
            known.count += 1;
            for (numbers, run) in known.numbers.iter_mut().zip(&runs) {
                numbers.add(run);
            }
        }
        *thread.mix.entry(shape).or_default() += 1;
        let sum = |of: fn(&Run) -> u64| runs.iter().map(of).fold(0, u64::saturating_add);
        let took_ns = sum(|run| run.took_ns);
        let end_ns = first.start_ns.saturating_add(took_ns);
        if thread.mix.len() == 1 && thread.span_ns == (0, 0) {
            thread.span_ns.0 = first.start_ns;
        }
        thread.span_ns.1 = thread.span_ns.1.max(end_ns).max(thread.end_ns.unwrap_or(0));
        self.acts(id);
        if self.counts_only {
            return;
        }
        self.visits.push(Visited {
            start_ns: first.start_ns,
            think_ns: sum(|run| run.think_ns),
            took_ns,
            thread: id,
            shape,
            node: visit.node,
            to: visit.to,
            pick: first.pick,
            to_pick: visit.to_pick,
            before: first.before,
            state: last.state,
            begins: NONE,
            waits: visit.waits,
        });
    }

    /// All visits end; they come in the order in which they began.
    pub fn end(&mut self) {
        for id in 0..self.threads.len() {
            self.close(id as u32);
        }
        self.fork_alone();
        self.visits.end();
    }
}

impl OpSink for Gather {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.take(op, paths);
        Ok(())
    }
}

/// What is done again so often in one visit is done in rounds, each of which is a visit.
const ROUNDS: usize = 6;

/// With which step the rounds of a visit begin, where it has some: the first that comes so often.
fn round(runs: &[Run]) -> Option<Form> {
    let often = |run: &&Run| {
        let same = |other: &&Run| other.form == run.form;
        runs.iter().filter(same).count() >= ROUNDS
    };
    runs.iter().find(often).map(|run| run.form)
}

/// What moves all of a large file is not done to small ones, and the other way round: that a visit moves much or little is
/// part of what it is. Where one call moves what it always does, that tells it already.
fn tell_apart(runs: &mut [Run]) {
    let in_order = |r: &Run| matches!(r.form.at, At::Next | At::Start);
    let moves = |r: &&mut Run| {
        r.form.kind.class() == KindClass::Data && r.form.kind != OpKind::Fault && in_order(r)
    };
    let most = runs.iter_mut().filter(moves).max_by_key(|r| r.moved);
    if let Some(run) = most.filter(|r| r.moved > 0 && (r.form.bytes.is_none() || r.times > 1)) {
        run.form.magnitude = magnitude(run.moved);
    }
}

impl Run {
    /// A run of reads that came to the end goes on to the end of any file.
    fn close(&mut self) {
        let form = &mut self.form;
        if !form.is_read() || form.at != At::Next || !self.at_end {
            return;
        }
        let one = self.times - self.empty.min(self.times) == 1;
        if form.bytes.is_some() || one {
            form.to_end = Some(self.empty.min(255) as u8);
            if form.bytes.is_none() {
                self.bytes.clear();
            }
        }
    }
}

impl Numbers {
    fn add(&mut self, run: &Run) {
        self.times.add(run.times);
        if run.form.to_end.is_some() {
            // A result that no file can have is one of a damaged trace.
            self.to_end.add(run.moved.min(LARGEST));
        }
        run.bytes.iter().for_each(|&b| self.bytes.add(b));
        for &(place, bits) in &run.places {
            self.places.add(place);
            self.unit_bits = Some(self.unit_bits.map_or(bits, |b| b.min(bits)));
        }
    }

    /// What these and those have in common.
    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.bytes.merge(&other.bytes);
        self.places.merge(&other.places);
        self.to_end.merge(&other.to_end);
        self.unit_bits = match (self.unit_bits, other.unit_bits) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

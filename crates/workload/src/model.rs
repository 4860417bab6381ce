//! A model that was fitted to a trace (`.fsm`) as a workload. What is done to which file is `fsage-model`'s; here its
//! processes become streams that think as long as theirs did, and that wait for what others made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fsage_core::{Op, OpKind, OpSource, PathTable, Pid, Seed, SourceError, Wait};
use fsage_model::fsm::{
    Batch, Call, Generator, Model, ModelError, Next, OffByTime, Options, Scale, Type, carried,
};

use crate::ops::{Ops, SETUP_REQUEST_BYTES};
use crate::params::{SEED, count, file, file_needed, switch};
use crate::program::{BuildError, Inputs, Length, Phase, Program, Role, Stream, check_requests};
use crate::random::stream_seed;
use crate::spec::Values;
use crate::table::{Parameter, Unit, Value, Workload};

const fn factor(name: &'static str, what: &'static str) -> Parameter {
    Parameter {
        name,
        unit: Unit::Text,
        default: Value::text("1"),
        range: (0, 0),
        what,
    }
}

/// The row of models.
pub const WORKLOAD: Workload = Workload {
    name: "model",
    what: "a model that `fsage model fit` made of a trace: its processes with their think times, what follows what, \
           and which files are used again how soon",
    good_for: "a workload as the traced one where the trace cannot be: the same counts, bytes and hits in a cache of \
               any size, more users or more data of it; not the names, the contents and the layout on the disk",
    source: "after Farhat 2017; docs/model-files.md",
    parameters: &[
        file("the model"),
        count(
            "users",
            1,
            (1, 1024),
            "so many times all of its processes at once, each with files of its own",
        ),
        factor(
            "data",
            "so many times its files before the run, larger ones where there are few, 0.5 for half",
        ),
        factor(
            "time",
            "so many times as long, with as many more operations, 0.5 for half",
        ),
        switch(
            "think",
            true,
            "processes think as long as they did; without, they go on at once",
        ),
        SEED,
    ],
    configs: &[],
    needs: file_needed,
    build,
};

fn build(values: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let error = |message: String| BuildError::new(WORKLOAD.name, message);
    let text = inputs.text.as_ref();
    let text = text.ok_or_else(|| error("no file is given, expected model:FILE".to_owned()))?;
    let refused = |e: ModelError| error(format!("{}: {e}", text.name));
    let model = Model::parse(&text.content).map_err(refused)?;
    let number = |name: &str| {
        let text = values.text(name);
        let wrong = || {
            error(format!(
                "'{text}' for parameter '{name}', expected a number more than 0 such as 0.5"
            ))
        };
        text.parse::<f64>()
            .ok()
            .filter(|n| n.is_finite() && *n > 0.0)
            .ok_or_else(wrong)
    };
    let (time, data) = (number("time")?, number("data")?);
    let users = values.number("users").max(1);
    let scale = Scale { users, time, data };
    model.check_scale(scale).map_err(refused)?;
    let scaled = model.for_time(time);
    let notes = notes(&model, &scaled, time);
    let model = Arc::new(scaled);
    let (mut setups, mut streams): (Vec<Stream>, Vec<Stream>) = (Vec::new(), Vec::new());
    for user in 0..users {
        let options = Options {
            seed: stream_seed(Seed(values.number("seed")), user).0,
            data,
            prefix: if users > 1 {
                format!("u{user}/")
            } else {
                String::new()
            },
            endless: inputs.length == Length::Endless,
            most: inputs.operations,
            streams: if values.switch("think") {
                0
            } else {
                STREAMS / u32::try_from(users).unwrap_or(STREAMS)
            },
        };
        let mut generator =
            Generator::new(Arc::clone(&model), options).map_err(|e| error(e.to_string()))?;
        let process = user as u32;
        let files = generator.population();
        let largest = files.iter().map(|file| file.2).max().unwrap_or(0);
        check_requests(WORKLOAD.name, largest, SETUP_REQUEST_BYTES)?;
        setups.push(Box::new(Setup {
            files: files.into_iter(),
            ops: Ops::new(WORKLOAD.name, process),
        }));
        streams.extend(lanes(generator, process, values.switch("think")));
    }
    let phases = vec![
        Phase::parallel(Role::Setup, "make what is there before", setups),
        Phase::parallel(Role::Run, "run", streams),
    ];
    Ok(Program {
        notes,
        ..Program::new(phases)
    })
}

/// Kinds that are named of many that are off.
const NAMED: usize = 4;

/// What a run does otherwise than the model or its parameters say.
fn notes(model: &Model, scaled: &Model, time: f64) -> Vec<String> {
    let mut notes = Vec::new();
    let kinds = model.not_carried();
    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    if !kinds.is_empty() {
        notes.push(format!(
            "no target has a call for {}: the run does none of these",
            kinds.join(", ")
        ));
    }
    let mut off = model.off_by_time(scaled, time);
    off.sort_by(|a, b| {
        let apart = |of: &OffByTime| (of.done - of.wanted).abs();
        apart(b).total_cmp(&apart(a))
    });
    let more = off.len().saturating_sub(NAMED);
    let named = off.iter().take(NAMED);
    let mut named: Vec<String> = named
        .map(|of| format!("{} {:.0} for {:.0}", of.kind.name(), of.done, of.wanted))
        .collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    if !named.is_empty() {
        notes.push(format!(
            "time={time} cannot be had of all: what is done once is done whole ({})",
            named.join(", ")
        ));
    }
    notes
}

/// The streams of a user's model.
fn lanes(generator: Generator, process: u32, think: bool) -> impl Iterator<Item = Stream> {
    let lanes = generator.lanes();
    let shared = Arc::new(Shared {
        generator: Mutex::new(generator),
        done: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
    });
    (0..lanes).map(move |lane| -> Stream {
        Box::new(Lane {
            shared: Arc::clone(&shared),
            number: lane as u32,
            user: process,
            first_pid: 1 + process * PIDS,
            think,
            paths: PathTable::new(),
            pending: None,
            given: 0,
            thought: false,
            others_went: false,
            later: false,
        })
    })
}

/// Where processes go on at once at most so many do, as in a replay; more only where more did in the trace.
const STREAMS: u32 = 1024;

/// More processes than one user's model has numbers for.
const PIDS: u32 = 1 << 22;

/// Makes what is there before.
struct Setup {
    files: std::vec::IntoIter<(Arc<[u8]>, Type, u64)>,
    ops: Ops,
}

impl OpSource for Setup {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let Some((path, kind, bytes)) = self.files.next() else {
            return Ok(0);
        };
        match kind {
            Type::Directory => self.ops.mkdir(&path),
            Type::File => self.ops.write_whole(&path, bytes, SETUP_REQUEST_BYTES),
            // A link that is followed leads nowhere: to itself.
            Type::Link => {
                let own = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
                self.ops.symlink(&path, own);
            }
        }
        self.ops.give(batch)
    }
}

/// What the streams of a user share.
struct Shared {
    generator: Mutex<Generator>,
    /// Batches that each stream has done.
    done: Vec<AtomicU64>,
}

/// One of the processes that run at once.
struct Lane {
    shared: Arc<Shared>,
    number: u32,
    user: u32,
    first_pid: u32,
    think: bool,
    paths: PathTable,
    pending: Option<Batch>,
    given: u64,
    /// Whether it has thought before the pending batch.
    thought: bool,
    /// Whether others were let go on since the batch before it.
    others_went: bool,
    /// Whether others begin before it goes on.
    later: bool,
}

/// Shorter times are worked through: a sleep takes longer than it is asked for.
const COMPUTE_BELOW_NS: u64 = 100_000;

impl Lane {
    /// What was given is done.
    fn done(&self, batches: u64) {
        if let Some(done) = self.shared.done.get(self.number as usize) {
            done.store(batches, Ordering::Release);
        }
    }

    /// The next batch, if it is there `or` becomes so. What was given before is done.
    fn fetch(&mut self, or: fn(&mut Generator, u32) -> Next) {
        self.done(self.given);
        let generator = &self.shared.generator;
        let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
        let next = or(&mut generator, self.number);
        drop(generator);
        self.later = matches!(next, Next::Later);
        if let Next::Batch(mut batch) = next {
            batch.calls.retain_mut(as_carried);
            self.given += 1;
            self.thought = !self.think || batch.think_ns == 0;
            self.pending = Some(batch);
        }
    }

    /// What it does before the pending batch.
    fn before(&mut self, batch: &Batch) -> Wait {
        let is_done = |&(lane, batches): &(u32, u64)| {
            let done = self.shared.done.get(lane as usize);
            done.is_none_or(|done| done.load(Ordering::Acquire) >= batches)
        };
        if !self.thought && !batch.thinks_after.iter().all(is_done) {
            return self.lets_go_on();
        }
        if !std::mem::replace(&mut self.thought, true) {
            return match batch.think_ns {
                ns if ns < COMPUTE_BELOW_NS => Wait::Compute(ns),
                ns => Wait::Pause(ns),
            };
        }
        if batch.after.iter().all(is_done) {
            Wait::Ready
        } else {
            self.lets_go_on()
        }
    }

    /// It waits; others may have waited for what it has done by now.
    fn lets_go_on(&mut self) -> Wait {
        if std::mem::replace(&mut self.others_went, true) {
            Wait::Blocked
        } else {
            Wait::Pause(0)
        }
    }
}

impl OpSource for Lane {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn wait(&mut self) -> Wait {
        loop {
            if self.pending.is_none() {
                self.fetch(Generator::batch);
            }
            let Some(batch) = self.pending.take() else {
                return if self.later {
                    self.lets_go_on()
                } else {
                    Wait::Ready
                };
            };
            let wait = self.before(&batch);
            // Who begins a process calls nothing: that one goes on from here.
            let nothing = wait == Wait::Ready && batch.calls.is_empty();
            self.pending = Some(batch).filter(|_| !nothing);
            if !nothing {
                return wait;
            }
            self.others_went = false;
        }
    }

    /// Users have nothing to do with one another.
    fn company(&self) -> Option<u32> {
        Some(self.user)
    }

    fn next_batch(&mut self, out: &mut Vec<Op>) -> Result<usize, SourceError> {
        let batch = loop {
            if self.pending.is_none() {
                self.fetch(|generator, number| {
                    generator.at_once(number).map_or(Next::End, Next::Batch)
                });
            }
            let Some(batch) = self.pending.take() else {
                self.done(u64::MAX);
                return Ok(0);
            };
            if !batch.calls.is_empty() {
                break batch;
            }
        };
        self.others_went = false;
        let full = || SourceError::new("the model needs more than 2^32 names");
        let given = batch.calls.len();
        for mut call in batch.calls {
            for (path, id) in [
                (&call.path, &mut call.op.path),
                (&call.path2, &mut call.op.path2),
            ] {
                if let Some(path) = path {
                    *id = Some(self.paths.intern(path).ok_or_else(full)?);
                }
            }
            by_name(&mut call.op);
            call.op.pid = Pid(call.op.pid.0.saturating_add(self.first_pid));
            call.op.tid.0 = call.op.tid.0.saturating_add(self.first_pid);
            out.push(call.op);
        }
        Ok(given)
    }
}

/// A call as a target does it, if it does.
fn as_carried(call: &mut Call) -> bool {
    let Some(kind) = carried(&call.op) else {
        return false;
    };
    if kind != call.op.kind {
        (call.op.kind, call.op.flags) = (kind, 0);
        (call.op.offset, call.op.length) = (None, None);
    }
    true
}

/// What targets do by names alone, whatever it was called on.
fn by_name(op: &mut Op) {
    let kind = match op.kind {
        OpKind::Fchmod => OpKind::Chmod,
        OpKind::Fchown => OpKind::Chown,
        OpKind::Futimens => OpKind::Utimens,
        OpKind::Fstatfs => OpKind::Statfs,
        _ => return,
    };
    if op.path.is_some() || kind == OpKind::Statfs {
        (op.kind, op.fd) = (kind, None);
    }
}

impl Drop for Lane {
    /// Whoever waits for a stream that is gone waits no more.
    fn drop(&mut self) {
        self.done(u64::MAX);
    }
}

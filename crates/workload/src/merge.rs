//! A whole program as one stream, in virtual time: how a workload becomes a trace without being run.

use std::collections::VecDeque;

use fsage_core::{
    After, ColdLevel, Op, OpFlags, OpSource, PathId, PathTable, Pause, SourceError, Tid, Wait,
};
use rustc_hash::FxHashMap;

use crate::program::{Phase, Program, Role, Stream};

/// How much virtual time an operation takes: about what a harness adds to one, so that next to
/// nothing but the workload's own waits counts as thinking.
const OPERATION_NS: u64 = 100;

/// Every operation of a program, phase after phase. Streams of a phase take turns by their own virtual
/// clocks, which operations and pauses advance; results are those that the streams expect, latencies
/// are unknown, and pauses say what was sleep and whom it waited for. Relative names are given the directory in which the
/// workload is thought to run.
pub struct Merged {
    phases: VecDeque<Phase>,
    running: Vec<Running>,
    role: Role,
    paths: PathTable,
    directory: Option<PathId>,
    /// Operations after which a stream of the run ends.
    most: Option<u64>,
    /// Whether a stream of the present phase was ended by that.
    cut: bool,
    /// Whether caches are to be cold before the next operation.
    cold: bool,
    /// How many operations each thread has done.
    done: FxHashMap<Tid, u32>,
    /// When the present phase began and the latest time that was reached.
    now_ns: u64,
    /// Whether any stream paused.
    thought: bool,
}

struct Running {
    stream: Stream,
    begun_ns: u64,
    time_ns: u64,
    operations: u64,
    blocked: bool,
    company: Option<u32>,
    /// Whose operation was the last, and what came since then.
    last: Option<Tid>,
    pause: Pause,
    /// The merged ids of the stream's paths, by index.
    ids: Vec<Option<PathId>>,
}

impl Running {
    /// A pause, in which it is asleep or computes.
    fn rests(&mut self, ns: u64, asleep: bool) {
        self.time_ns = self.time_ns.saturating_add(ns);
        if let Some(after) = &mut self.pause.after {
            after.rest_ns = after.rest_ns.saturating_add(ns);
        }
        if asleep {
            self.pause.asleep_ns = self.pause.asleep_ns.saturating_add(ns);
        }
    }

    /// The next operation, which has the pause before it.
    fn begins(&mut self, op: &mut Op) {
        let pause = std::mem::take(&mut self.pause);
        // What a stream of several threads did meanwhile is none of their own pauses.
        if self.last.is_none_or(|last| last == op.tid) {
            op.pause = pause;
            op.record |= OpFlags::WAITS;
        }
        self.last = Some(op.tid);
    }
}

impl Merged {
    /// The stream of a program that runs in `directory`, absolute. With `most`, each stream of the
    /// run ends with the batch in which it reaches that many operations.
    pub fn new(program: Program, directory: &str, most: Option<u64>) -> Self {
        let mut paths = PathTable::new();
        let directory = paths.intern(directory.as_bytes());
        Self {
            phases: program.phases.into(),
            running: Vec::new(),
            role: Role::Setup,
            paths,
            directory,
            most,
            cut: false,
            cold: false,
            done: FxHashMap::default(),
            now_ns: 0,
            thought: false,
        }
    }

    /// The virtual time that was reached, nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Whether any of the streams has done anything but operations so far: slept, or computed.
    pub fn has_thought(&self) -> bool {
        self.thought
    }

    /// What the phase that the last operations belong to is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Begins the next phase once all streams of this one have ended.
    fn begin_phase(&mut self) -> bool {
        while self.running.is_empty() {
            let Some(phase) = self.phases.pop_front() else {
                return false;
            };
            self.role = phase.role;
            self.cut = false;
            self.cold |= phase.cold;
            let time_ns = self.now_ns;
            self.running
                .extend(phase.streams.into_iter().map(|stream| Running {
                    company: stream.company(),
                    stream,
                    begun_ns: time_ns,
                    time_ns,
                    operations: 0,
                    blocked: false,
                    last: None,
                    pause: Pause::default(),
                    ids: Vec::new(),
                }));
        }
        true
    }

    /// The stream that is next by its clock; of equals the one that has done least.
    fn next_stream(&self) -> Option<usize> {
        let order = |(_, r): &(usize, &Running)| (r.time_ns, r.operations);
        let streams = self.running.iter().enumerate();
        streams
            .filter(|(_, r)| !r.blocked)
            .min_by_key(order)
            .map(|(i, _)| i)
    }

    /// One turn: a pause, a batch, or the end of a stream. Returns how many operations it gave.
    fn turn(&mut self, out: &mut Vec<Op>) -> Result<usize, SourceError> {
        let Some(index) = self.next_stream() else {
            if self.cut {
                // Whom they wait for has done all that was asked of it: the phase is over.
                self.running.clear();
                return Ok(0);
            }
            return Err(SourceError::new(format!(
                "all {} streams of the phase wait for one another",
                self.running.len()
            )));
        };
        let is_over = |r: &Running, most: Option<u64>| most.is_some_and(|m| r.operations >= m);
        let most = self.most.filter(|_| self.role == Role::Run);
        let Some(running) = self.running.get_mut(index) else {
            return Ok(0);
        };
        if is_over(running, most) {
            self.cut = true;
            let (time_ns, company) = (running.time_ns, running.company);
            self.end(index);
            self.wake(time_ns, company, None);
            return Ok(0);
        }
        running
            .stream
            .time(running.time_ns.saturating_sub(running.begun_ns));
        match running.stream.wait() {
            Wait::Ready => {}
            wait @ (Wait::Pause(ns) | Wait::Compute(ns)) => {
                let (time_ns, company) = (running.time_ns, running.company);
                running.rests(ns, matches!(wait, Wait::Pause(_)));
                self.thought |= ns > 0;
                self.wake(time_ns, company, None);
                return Ok(0);
            }
            Wait::Blocked => {
                running.blocked = true;
                return Ok(0);
            }
        }
        let first = out.len();
        let count = running.stream.next_batch(out)?;
        for op in out.iter_mut().skip(first) {
            op.start_ns = running.time_ns;
            running.begins(op);
            *self.done.entry(op.tid).or_default() += 1;
            running.time_ns = running.time_ns.saturating_add(OPERATION_NS);
            let from = running.stream.paths();
            let mut known = |id: Option<PathId>| match id {
                Some(id) => same_path(id, from, &mut running.ids, &mut self.paths).map(Some),
                None => Ok(None),
            };
            let needs_directory = op.path.is_some() && op.dir.is_none();
            (op.path, op.path2) = (known(op.path)?, known(op.path2)?);
            (op.dir, op.dir2) = (known(op.dir)?, known(op.dir2)?);
            if needs_directory {
                op.dir = self.directory;
            }
            if std::mem::take(&mut self.cold) {
                op.record |= ColdLevel::Everything.record();
            }
        }
        running.operations += count as u64;
        self.now_ns = self.now_ns.max(running.time_ns);
        let (time_ns, company) = (running.time_ns, running.company);
        let by = (running.last).and_then(|tid| Some((tid, *self.done.get(&tid)?)));
        if count == 0 {
            self.end(index);
        }
        self.wake(time_ns, company, by);
        Ok(count)
    }

    /// Whoever waits may go on now, not before; one that waits for streams of a company alone, when one of those did
    /// something: else each that does anything would have all others asked. `by`: who did an operation, and which.
    fn wake(&mut self, time_ns: u64, company: Option<u32>, by: Option<(Tid, u32)>) {
        let waits_for = |r: &&mut Running| {
            r.blocked && (r.company == company || r.company.is_none() || company.is_none())
        };
        for other in self.running.iter_mut().filter(waits_for) {
            other.blocked = false;
            let waited_ns = time_ns.saturating_sub(other.time_ns);
            other.pause.waited_ns = other.pause.waited_ns.saturating_add(waited_ns);
            other.pause.after = by.map(|(tid, ops)| After {
                tid,
                ops,
                lag_ns: 0,
                rest_ns: 0,
            });
            other.time_ns = other.time_ns.max(time_ns);
        }
    }

    fn end(&mut self, index: usize) {
        self.running.swap_remove(index);
    }
}

/// The id in `to` of a path of `from`.
fn same_path(
    id: PathId,
    from: &PathTable,
    ids: &mut Vec<Option<PathId>>,
    to: &mut PathTable,
) -> Result<PathId, SourceError> {
    if ids.len() <= id.index() {
        ids.resize(id.index() + 1, None);
    }
    let full = || SourceError::new("the workload needs more than 2^32 names");
    let slot = ids.get_mut(id.index()).ok_or_else(full)?;
    if slot.is_none() {
        *slot = to.intern(from.get(id));
    }
    slot.ok_or_else(full)
}

impl OpSource for Merged {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    /// Operations of streams that run at once come in the order of their batches; a start says when
    /// each was.
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        while self.begin_phase() {
            let count = self.turn(batch)?;
            if count > 0 {
                return Ok(count);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use fsage_core::{OpFlags, OpKind, Pid, Tid, VecSource};

    use super::*;

    fn stream(pid: u32, names: &[&str]) -> VecSource {
        let mut paths = PathTable::new();
        let ops = names.iter().map(|name| {
            let mut op = Op::new(OpKind::Stat, Pid(pid), Tid(pid), 0);
            op.path = paths.intern(name.as_bytes());
            op
        });
        let ops = ops.collect();
        VecSource::new(paths, ops)
    }

    /// A stream whose every batch comes after what `wait` says.
    struct Paced<F>(VecSource, F);

    impl<F: FnMut() -> Wait> OpSource for Paced<F> {
        fn paths(&self) -> &PathTable {
            self.0.paths()
        }
        fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
            self.0.next_batch(batch)
        }
        fn wait(&mut self) -> Wait {
            (self.1)()
        }
    }

    fn drain(mut merged: Merged) -> Result<Vec<(u32, String, u64)>, SourceError> {
        let mut ops = Vec::new();
        while merged.next_batch(&mut ops)? > 0 {}
        let path = |id| merged.paths().display(id).into_owned();
        Ok(ops
            .iter()
            .map(|o| {
                assert_eq!(path(o.dir.unwrap()), "/d");
                (o.pid.0, path(o.path.unwrap()), o.start_ns)
            })
            .collect())
    }

    #[test]
    fn phases_follow_one_another_and_names_are_one_tables() {
        let program = Program::new(vec![
            Phase::new(Role::Setup, "a", stream(1, &["x", "y"])),
            Phase::new(Role::Run, "b", stream(2, &["y", "z"])),
        ]);
        let seen = drain(Merged::new(program, "/d", None)).unwrap();
        let expected = [(1, "x", 0), (1, "y", 100), (2, "y", 200), (2, "z", 300)];
        assert_eq!(seen, expected.map(|(p, n, t)| (p, n.to_string(), t)));
    }

    #[test]
    fn the_first_operation_after_caches_are_to_be_cold_says_so() {
        let program = Program::new(vec![
            Phase::new(Role::Setup, "a", stream(1, &["x"])),
            Phase::new(Role::Run, "b", stream(2, &["x", "y"])).cold(),
        ]);
        let (mut merged, mut ops) = (Merged::new(program, "/d", None), Vec::new());
        while merged.next_batch(&mut ops).unwrap() > 0 {}
        let cold = ops.iter().map(|op| op.record != OpFlags::WAITS);
        assert_eq!(cold.collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn waits_move_the_virtual_clock() {
        let mut asked = 0;
        let slow = Paced(stream(1, &["late"]), move || {
            asked += 1;
            match asked {
                1 => Wait::Blocked,
                2 => Wait::Pause(1_000_000),
                _ => Wait::Ready,
            }
        });
        let streams: Vec<Stream> = vec![Box::new(slow), Box::new(stream(2, &["soon", "soon"]))];
        let program = Program::new(vec![Phase::parallel(Role::Run, "r", streams)]);
        let seen = drain(Merged::new(program, "/d", None)).unwrap();
        let times: Vec<(u32, u64)> = seen.iter().map(|s| (s.0, s.2)).collect();
        assert_eq!(times, [(2, 0), (2, 100), (1, 1_000_200)]);
    }

    #[test]
    fn pauses_say_what_was_sleep_and_whom_they_waited_for() {
        let mut asked = 0;
        let late = Paced(stream(1, &["late", "later"]), move || {
            asked += 1;
            match asked {
                1 => Wait::Blocked,
                2 => Wait::Pause(40_000),
                3 => Wait::Compute(5_000),
                _ => Wait::Ready,
            }
        });
        let streams: Vec<Stream> = vec![Box::new(late), Box::new(stream(2, &["soon", "soon"]))];
        let program = Program::new(vec![Phase::parallel(Role::Run, "r", streams)]);
        let (mut merged, mut ops) = (Merged::new(program, "/d", None), Vec::new());
        while merged.next_batch(&mut ops).unwrap() > 0 {}
        assert!(ops.iter().all(|op| op.record.contains(OpFlags::WAITS)));
        let late = ops.iter().find(|op| op.tid == Tid(1)).unwrap();
        let expected = Pause {
            asleep_ns: 40_000,
            waited_ns: 200,
            after: Some(After {
                tid: Tid(2),
                ops: 2,
                lag_ns: 0,
                rest_ns: 45_000,
            }),
            ..Pause::default()
        };
        assert_eq!((late.start_ns, late.pause), (45_200, expected));
        let others = ops.iter().filter(|op| op.start_ns != late.start_ns);
        assert!(others.into_iter().all(|op| op.pause == Pause::default()));
    }

    /// Whom they wait for was ended by the count: the phase is over, and the next one begins.
    #[test]
    fn streams_that_wait_for_one_that_was_ended_end_with_it() {
        let never = Paced(stream(1, &["x"]), || Wait::Blocked);
        // One batch, which is more than was asked for.
        let counted = stream(2, &["y"; 9]);
        let streams: Vec<Stream> = vec![Box::new(never), Box::new(counted)];
        let program = Program::new(vec![
            Phase::parallel(Role::Run, "r", streams),
            Phase::new(Role::Teardown, "t", stream(3, &["z"])),
        ]);
        let seen = drain(Merged::new(program, "/d", Some(4))).unwrap();
        let pids: Vec<u32> = seen.iter().map(|s| s.0).collect();
        assert_eq!(pids, [2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);
    }

    /// What others do is nothing to one that waits for its own company: it is not asked.
    #[test]
    fn who_waits_for_a_company_is_asked_when_that_has_done_something() {
        struct Of(VecSource, u32, Arc<AtomicU64>, u64);
        impl OpSource for Of {
            fn paths(&self) -> &PathTable {
                self.0.paths()
            }
            fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
                self.0.next_batch(batch)
            }
            fn wait(&mut self) -> Wait {
                let asked = self.2.fetch_add(1, Ordering::Relaxed);
                if asked < self.3 {
                    Wait::Blocked
                } else {
                    Wait::Ready
                }
            }
            fn company(&self) -> Option<u32> {
                Some(self.1)
            }
        }
        let asked = Arc::new(AtomicU64::new(0));
        let one = |company, asked: &Arc<AtomicU64>, blocked, names: &[&str]| -> Stream {
            Box::new(Of(
                stream(company, names),
                company,
                Arc::clone(asked),
                blocked,
            ))
        };
        // Batches hold many: a stream for each.
        let mut streams = vec![one(1, &asked, 1, &["late"])];
        streams.extend((0..50).map(|_| one(2, &Arc::default(), 0, &["x"])));
        streams.push(one(1, &Arc::default(), 0, &["mate"]));
        let program = Program::new(vec![Phase::parallel(Role::Run, "r", streams)]);
        let seen = drain(Merged::new(program, "/d", None)).unwrap();
        assert_eq!(seen.len(), 52);
        // Blocked once, then with its operation, then at its end.
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        let of = |name: &str| seen.iter().find(|s| s.1 == name).unwrap().2;
        assert!(of("mate") <= of("late"));
    }

    #[test]
    fn streams_that_wait_for_nobody_are_an_error() {
        let never = Paced(stream(1, &["x"]), || Wait::Blocked);
        let program = Program::new(vec![Phase::new(Role::Run, "r", never)]);
        let error = drain(Merged::new(program, "/d", None)).unwrap_err();
        assert!(error.to_string().contains("wait for one another"));
    }
}

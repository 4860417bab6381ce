//! FileRunner: a configuration fitted to a trace as a workload (Farhat 2017). Which operation gets which file is
//! `fsage-model`'s; here it becomes opens, reads, writes and unlinks of threads.
//!
//! All threads end the creates (writes, reads, deletes) of a time chunk before any goes on.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_core::{Op, OpSource, PathTable, SourceError, Wait};
use fsage_model::filerunner::run::File;
use fsage_model::filerunner::{Operation, Plan, Runner, Task};

use crate::ops::{O_CREAT, O_EXCL, O_RDONLY, O_WRONLY, Ops, SETUP_REQUEST_BYTES};
use crate::params;
use crate::program::{BuildError, Inputs, Phase, Program, Role, Stream};
use crate::spec::Values;
use crate::table::Workload;

/// The row of configurations.
pub const WORKLOAD: Workload = Workload {
    name: "filerunner",
    what: "a FileRunner configuration, as `fsage model fit` makes one of a trace: processes that create, write, read \
           and delete, time chunk by time chunk",
    good_for: "a workload as the traced one without its trace: the same counts, bytes and phases; not its order within \
               a phase, nor its think times",
    source: "Farhat 2017",
    parameters: &[params::file("the configuration")],
    configs: &[],
    needs: params::file_needed,
    build,
};

fn build(_: &Values, inputs: &Inputs) -> Result<Program, BuildError> {
    let error = |message: String| BuildError::new(WORKLOAD.name, message);
    let text = inputs.text.as_ref();
    let text =
        text.ok_or_else(|| error("no file is given, expected filerunner:FILE".to_owned()))?;
    let plan = Plan::parse(&text.name, &text.content);
    let plan = plan.map_err(|e| error(format!("{}: line {}: {}", e.file, e.line, e.message)))?;
    Ok(program(plan))
}

/// The phases of a configuration.
pub fn program(plan: Plan) -> Program {
    let depths = plan.depths();
    let cold = plan.starts_cold();
    let lanes = plan.lanes();
    let warm: Vec<(u32, u64)> = plan.warm().collect();
    let runner = Runner::new(plan);
    let made = runner.files().len();
    let shared = Arc::new(Mutex::new(Shared {
        there: vec![true; made],
        sizes: runner.files().iter().map(|file| file.bytes).collect(),
        runner,
        queues: vec![VecDeque::new(); lanes],
        busy: vec![false; lanes],
        begun: false,
        ended: false,
    }));
    let shared_by = || Arc::clone(&shared);
    let streams = (0..lanes)
        .map(|lane| Box::new(Lane::new(lane, shared_by())) as Stream)
        .collect();
    let run = Phase::parallel(Role::Run, "run", streams);
    let setup = Setup {
        shared: shared_by(),
        ops: ops(1),
        directories: 1..depths,
        files: 0..made,
    };
    let mut phases = vec![Phase::new(Role::Setup, "create files", setup)];
    let run = match (cold, warm.is_empty()) {
        (true, true) => run.cold(),
        (true, false) => {
            let warm = Warm {
                left: warm.into_iter(),
                shared: shared_by(),
                ops: ops(1),
            };
            phases.push(Phase::new(Role::Setup, "fill the cache", warm).cold());
            run
        }
        (false, _) => run,
    };
    phases.push(run);
    phases.push(Phase::new(
        Role::Teardown,
        "remove files",
        Teardown::new(shared, depths),
    ));
    Program::new(phases)
}

fn ops(process: usize) -> Ops {
    Ops::new(WORKLOAD.name, process as u32)
}

/// A stream works so many operations ahead of the target at the least.
const AHEAD: usize = 64;

/// Makes directories and the files that must exist.
struct Setup {
    shared: Arc<Mutex<Shared>>,
    ops: Ops,
    directories: Range<u32>,
    files: Range<usize>,
}

fn directory(depth: u32) -> String {
    ["000"].repeat(depth as usize).join("/")
}

impl OpSource for Setup {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        while self.ops.out.len() < AHEAD {
            if let Some(depth) = self.directories.next() {
                self.ops.mkdir(directory(depth));
            } else if let Some(number) = self.files.next() {
                if let Some((path, file)) = file(&self.shared, number) {
                    self.ops.write_whole(path, file.bytes, SETUP_REQUEST_BYTES);
                }
            } else {
                break;
            }
        }
        self.ops.give(batch)
    }
}

/// Reads the files that are in the cache at the start.
struct Warm {
    left: std::vec::IntoIter<(u32, u64)>,
    shared: Arc<Mutex<Shared>>,
    ops: Ops,
}

impl OpSource for Warm {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        while self.ops.out.len() < AHEAD {
            let Some((number, bytes)) = self.left.next() else {
                break;
            };
            if let Some((path, _)) = file(&self.shared, number as usize) {
                self.ops.read_whole(path, bytes, SETUP_REQUEST_BYTES);
            }
        }
        self.ops.give(batch)
    }
}

/// What the threads of a run share.
struct Shared {
    runner: Runner,
    /// By number of the file: whether it is there, and how large.
    there: Vec<bool>,
    sizes: Vec<u64>,
    /// What is left of the present stage, by thread, and which of them are at it.
    queues: Vec<VecDeque<Task>>,
    busy: Vec<bool>,
    begun: bool,
    ended: bool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of the set, with its path.
fn file(shared: &Mutex<Shared>, number: usize) -> Option<(String, File)> {
    let file = *lock(shared).runner.files().get(number)?;
    Some((file.path(number as u32), file))
}

impl Shared {
    /// Begins the next stage once nobody is at the present one.
    fn go_on(&mut self) -> bool {
        if self.ended || self.busy.iter().any(|&busy| busy) {
            return false;
        }
        self.begun = true;
        let Some(tasks) = self.runner.next_stage() else {
            self.ended = true;
            return true;
        };
        for task in tasks {
            if let (Some(queue), Some(busy)) =
                (self.queues.get_mut(task.lane), self.busy.get_mut(task.lane))
            {
                *busy = true;
                queue.push_back(task);
            }
        }
        let files = self.runner.files().len();
        self.there.resize(files, false);
        self.sizes.resize(files, 0);
        true
    }
}

/// One thread of the run.
struct Lane {
    number: usize,
    shared: Arc<Mutex<Shared>>,
    ops: Ops,
    task: Option<Task>,
    at: usize,
    ended: bool,
}

impl Lane {
    fn new(number: usize, shared: Arc<Mutex<Shared>>) -> Self {
        Self {
            number,
            shared,
            ops: ops(number + 1),
            task: None,
            at: 0,
            ended: false,
        }
    }

    /// Finds the next file of a task, unless it waits or has ended. Nothing is noted as done before it is handed out.
    fn advance(&mut self) -> Wait {
        let left = |task: &Task| self.at < task.files.len();
        if self.ended || self.task.as_ref().is_some_and(left) {
            return Wait::Ready;
        }
        let mut held = lock(&self.shared);
        let mut began = false;
        loop {
            let queue = held.queues.get_mut(self.number);
            self.task = queue.and_then(VecDeque::pop_front);
            self.at = 0;
            if self.task.is_some() {
                return Wait::Ready;
            }
            if let Some(busy) = held.busy.get_mut(self.number) {
                // Others may have waited for this one alone.
                began |= std::mem::take(busy);
            }
            if held.go_on() {
                began = true;
                continue;
            }
            self.ended = held.ended;
            return match (self.ended, began) {
                (true, _) => Wait::Ready,
                (false, true) => Wait::Pause(0),
                (false, false) => Wait::Blocked,
            };
        }
    }

    fn operation(&mut self) {
        let Some(task) = &self.task else { return };
        let Some(&file) = task.files.get(self.at) else {
            return;
        };
        self.at += 1;
        let mut held = lock(&self.shared);
        let held = &mut *held;
        let index = file as usize;
        let path = held.runner.files().get(index).map(|f| f.path(file));
        let (there, size) = (held.there.get_mut(index), held.sizes.get_mut(index));
        let (Some(path), Some(there), Some(size)) = (path, there, size) else {
            return;
        };
        let ops = &mut self.ops;
        match task.operation {
            Operation::CREATE => {
                let made = ops.open(path, O_WRONLY | O_CREAT | O_EXCL, 0);
                ops.close(made);
                *there = true;
            }
            Operation::WRITE => {
                let mut opened = ops.open(path, O_WRONLY, *size);
                ops.write(&mut opened, task.bytes);
                *size = ops.close(opened);
            }
            Operation::READ => {
                let mut opened = ops.open(path, O_RDONLY, *size);
                ops.read(&mut opened, task.bytes);
                ops.close(opened);
            }
            _ => {
                ops.unlink(path);
                *there = false;
            }
        }
    }
}

impl OpSource for Lane {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        loop {
            match self.advance() {
                Wait::Ready => {
                    if !self.ended {
                        self.operation();
                    }
                    return self.ops.give(batch);
                }
                Wait::Pause(_) => {}
                _ => {
                    return Err(SourceError::new(format!(
                        "thread {} of the configuration waits for another; run it together with the others",
                        self.number
                    )));
                }
            }
        }
    }

    fn wait(&mut self) -> Wait {
        self.advance()
    }
}

/// Removes what the run has left; where that ran in another process it is not known, and the directory goes as a whole.
struct Teardown {
    shared: Arc<Mutex<Shared>>,
    ops: Ops,
    file: usize,
    directories: u32,
}

impl Teardown {
    fn new(shared: Arc<Mutex<Shared>>, depths: u32) -> Self {
        Self {
            shared,
            ops: ops(1),
            file: 0,
            directories: depths - 1,
        }
    }
}

impl OpSource for Teardown {
    fn paths(&self) -> &PathTable {
        &self.ops.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let shared = Arc::clone(&self.shared);
        let held = lock(&shared);
        while held.begun && self.ops.out.len() < AHEAD {
            if let Some(&there) = held.there.get(self.file) {
                if let (true, Some(file)) = (there, held.runner.files().get(self.file)) {
                    self.ops.unlink(file.path(self.file as u32));
                }
                self.file += 1;
            } else if self.directories > 0 {
                self.ops.rmdir(directory(self.directories));
                self.directories -= 1;
            } else {
                break;
            }
        }
        drop(held);
        self.ops.give(batch)
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::OpKind;

    use super::*;
    use crate::Merged;

    const TEXT: &str = "IOChunkSize = 2048\nDirDepthIndex = 3\nRepeatWrite = 1\nRepeatRead = 2\n\
        TIndex = 0\n0,19,0,0,0,20\n1,19,1,0,0,10\n0,34,0,1,0,15\n1,34,0,1,0,15\n0,35,0,1,1,20\n2,35,1,3,0,9\n\
        0,44,0,0,0,5\nTIndex = 4\n1,22,0,0,0,12\n";

    fn kinds(role: Role) -> Vec<(OpKind, u32, u64)> {
        let program = program(Plan::parse("m.cfg", TEXT).unwrap());
        let mut merged = Merged::new(program, "/w", None);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while merged.next_batch(&mut batch).unwrap() > 0 {
            let of = batch
                .drain(..)
                .map(|op| (op.kind, op.pid.0, op.bytes_moved()));
            let here = merged.role() == role;
            all.extend(of.filter(|_| here));
        }
        all
    }

    #[test]
    fn the_run_does_what_the_configuration_says_in_its_order() {
        let run = kinds(Role::Run);
        let count = |kind| run.iter().filter(|(k, ..)| *k == kind).count();
        assert_eq!(count(OpKind::Write), 30);
        assert_eq!(count(OpKind::Read), 29);
        assert_eq!(count(OpKind::Unlink), 12);
        assert_eq!(count(OpKind::Open), 30 + 30 + 29);
        assert_eq!(count(OpKind::Close), count(OpKind::Open));
        let last = |kind| run.iter().rposition(|(k, ..)| *k == kind).unwrap();
        let first = |kind| run.iter().position(|(k, ..)| *k == kind).unwrap();
        assert!(last(OpKind::Write) < first(OpKind::Read));
        assert!(last(OpKind::Read) < first(OpKind::Unlink));
        let bytes = |kind| {
            run.iter()
                .filter(|(k, ..)| *k == kind)
                .map(|(_, _, b)| b)
                .sum::<u64>()
        };
        assert_eq!(bytes(OpKind::Write), 30 * 3072);
        assert_eq!(bytes(OpKind::Read), 20 * 3072 + 9 * 7168);
        let threads: std::collections::BTreeSet<u32> = run.iter().map(|(_, pid, _)| *pid).collect();
        assert_eq!(threads.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn what_is_made_is_removed() {
        let all: Vec<_> = Role::ALL.into_iter().flat_map(kinds).collect();
        let made = all.iter().filter(|(k, ..)| *k == OpKind::Unlink).count();
        // 30 created, 9 to read at depth 1.
        assert_eq!(made, 30 + setup_files());
        let directories = |kind| all.iter().filter(|(k, ..)| *k == kind).count();
        assert_eq!(
            (directories(OpKind::Mkdir), directories(OpKind::Rmdir)),
            (1, 1)
        );
    }

    fn setup_files() -> usize {
        Plan::parse("m.cfg", TEXT).unwrap().setup().files() as usize
    }

    #[test]
    fn a_thread_alone_says_for_whom_it_waits() {
        let mut program = program(Plan::parse("m.cfg", TEXT).unwrap());
        let run = program
            .phases
            .iter_mut()
            .find(|p| p.role == Role::Run)
            .unwrap();
        let mut batch = Vec::new();
        let alone = loop {
            match run.streams[2].next_batch(&mut batch) {
                Ok(0) => panic!("it ended"),
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(alone.to_string().contains("waits for another"), "{alone}");
    }
}

//! A workload as phases: what is set up, what is run, what is torn down.
//!
//! A generator whose phases are parts of one history implements [`Staged`]; [`stages`] makes one
//! stream for each of its phases. The state goes from phase to phase with what was consumed; a phase
//! that is run alone (its set-up ran in another process) is brought to its start from parameters and
//! seed.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use fsage_core::{Op, OpSource, PathTable, SourceError, Wait};

/// A stream of a phase; it runs on a thread of its own.
pub type Stream = Box<dyn OpSource + Send>;

/// What a phase is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Makes what the run needs; not part of the result.
    Setup,
    /// What is measured.
    Run,
    /// Removes what the others made.
    Teardown,
}

impl Role {
    /// Every role in the order of a program.
    pub const ALL: [Role; 3] = [Role::Setup, Role::Run, Role::Teardown];

    /// The name used on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Role::Setup => "setup",
            Role::Run => "run",
            Role::Teardown => "teardown",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Streams that run at once.
pub struct Phase {
    /// What it is for.
    pub role: Role,
    /// What it does, a word or a short phrase; unlike those of the program's other phases.
    pub name: Cow<'static, str>,
    /// Whether caches are to be made cold before it, where the target can.
    pub cold: bool,
    /// Files, and directories of files, of which it is told after the phase how they lie on their device.
    pub laid_out: Vec<Vec<u8>>,
    /// The streams; each yields ids of its own table of paths.
    pub streams: Vec<Stream>,
}

impl Phase {
    /// A phase of one stream that takes caches as they are.
    pub fn new(
        role: Role,
        name: impl Into<Cow<'static, str>>,
        source: impl OpSource + Send + 'static,
    ) -> Self {
        Self::parallel(role, name, vec![Box::new(source)])
    }

    /// A phase of several streams that takes caches as they are.
    pub fn parallel(role: Role, name: impl Into<Cow<'static, str>>, streams: Vec<Stream>) -> Self {
        Self {
            role,
            name: name.into(),
            cold: false,
            laid_out: Vec::new(),
            streams,
        }
    }

    /// The same with cold caches before it.
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phase")
            .field("role", &self.role)
            .field("name", &self.name)
            .field("cold", &self.cold)
            .field("laid_out", &self.laid_out.len())
            .field("streams", &self.streams.len())
            .finish()
    }
}

/// Phases that run one after the other: all of role [`Role::Setup`], then of [`Role::Run`], then of
/// [`Role::Teardown`].
#[derive(Debug, Default)]
pub struct Program {
    /// The phases in their order.
    pub phases: Vec<Phase>,
    /// For how long its run is meant to be run, nanoseconds; only of one built with
    /// [`Length::Declared`], whose streams then go on until they are stopped.
    pub run_for_ns: Option<u64>,
    /// What it does otherwise than was asked for, each a sentence.
    pub notes: Vec<String>,
}

impl Program {
    /// A program of these phases.
    pub fn new(phases: Vec<Phase>) -> Self {
        Self {
            phases,
            ..Self::default()
        }
    }

    /// The phases of that role alone.
    #[must_use]
    pub fn only(mut self, role: Role) -> Self {
        self.phases.retain(|phase| phase.role == role);
        self
    }
}

/// How long the streams of [`Role::Run`] go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Length {
    /// As many operations as the parameters say.
    #[default]
    Count,
    /// Until they are stopped: parameters that count what is run have no effect. A workload that
    /// reads a data set through begins again; one that has nothing left to do may end.
    Endless,
    /// For the time that the workload itself names, [`Program::run_for_ns`], which whoever runs it has
    /// to keep; where it names none, as [`Length::Count`].
    Declared,
}

/// What a workload needs from outside; see [`InputPath`].
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// A directory tree of the user's.
    pub tree: Option<SourceTree>,
    /// A file of the user's.
    pub text: Option<Text>,
    /// The files that lie in the target; `None` before it is open, for a program that is not to be run.
    pub files: Option<Vec<TargetFile>>,
    /// How long run phases go on.
    pub length: Length,
    /// How many operations are asked of each stream of them at the most, where that is known.
    pub operations: Option<u64>,
}

/// A regular file that lies in a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFile {
    /// Path below the root, without leading slash; bytes, not text.
    pub path: Vec<u8>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// When it was modified last, nanoseconds since 1970.
    pub modified_unix_ns: u64,
    /// Whether all of it is allocated and none of it written.
    pub unwritten: bool,
}

/// A file of the user's, read whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// What it is called in errors.
    pub name: String,
    /// What it holds.
    pub content: String,
}

/// A directory tree as a workload copies it: names, types and sizes, no data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceTree {
    /// Every file and directory below the root, a directory before what it holds, in the order of
    /// their paths.
    pub entries: Vec<TreeEntry>,
}

/// One file or directory of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Path below the root, without leading slash; bytes, not text.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry of a tree is; others (devices, sockets) are left out of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A file of that many bytes.
    File {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// A symbolic link with that text.
    Symlink {
        /// Its target, as stored.
        target: Vec<u8>,
    },
}

/// What has to be read into [`Inputs`] before a workload can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputPath {
    /// The tree below this directory, into [`Inputs::tree`].
    Tree(PathBuf),
    /// The text of this file, into [`Inputs::text`].
    Text(PathBuf),
    /// The files that lie in the target itself, into [`Inputs::files`]: it has no directory of its own there.
    Target {
        /// Whether it changes them.
        changes: bool,
    },
}

/// Why a workload could not be built; completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("build workload '{workload}': {message}")]
pub struct BuildError {
    /// The workload's name.
    pub workload: String,
    /// A lowercase phrase: what does not fit, where, and what was expected.
    pub message: String,
}

impl BuildError {
    /// An error of that workload.
    pub fn new(workload: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            workload: workload.into(),
            message: message.into(),
        }
    }
}

/// A file is generated at once, and held until it has been run.
const MOST_REQUESTS: u64 = 1 << 20;

/// Refuses files that take more requests than can be held.
pub(crate) fn check_requests(workload: &str, bytes: u64, request: u64) -> Result<(), BuildError> {
    let requests = bytes.div_ceil(request.max(1));
    if requests <= MOST_REQUESTS {
        return Ok(());
    }
    let message = format!(
        "a file of {bytes} bytes takes {requests} requests; expected at most {MOST_REQUESTS}"
    );
    Err(BuildError::new(workload, message))
}

/// A generator whose phases are parts of one history. Stages are numbered from 0 in their order.
pub trait Staged: Send + 'static {
    /// The paths of the operations yielded so far.
    fn paths(&self) -> &PathTable;

    /// Appends the next operations of `stage`; none once it has ended. When a run ends by time, it
    /// ends between batches: what was yielded has happened, and the stages after this one follow on
    /// that.
    fn next_batch(&mut self, stage: usize, batch: &mut Vec<Op>) -> Result<usize, SourceError>;

    /// See [`OpSource::wait`].
    fn wait(&mut self, _stage: usize) -> Wait {
        Wait::Ready
    }

    /// Brings the state from the start of `stage` to its end, as if it had been run. A stage without
    /// an end is an error.
    fn skip(&mut self, stage: usize) -> Result<(), SourceError> {
        let mut batch = Vec::new();
        while self.next_batch(stage, &mut batch)? > 0 {
            batch.clear();
        }
        Ok(())
    }
}

/// The state between the stages: which stage comes next.
type Relay<S> = Arc<Mutex<Option<(S, usize)>>>;

/// One stage of a [`Staged`] generator as a stream. It takes the state over when it is first asked
/// for operations and hands it on when it is dropped.
#[derive(Debug)]
pub struct Stage<S> {
    number: usize,
    relay: Relay<S>,
    state: Option<S>,
    /// Shown before the state is taken over.
    no_paths: PathTable,
}

/// One stream for each of `count` stages.
pub fn stages<S: Staged>(state: S, count: usize) -> Vec<Stage<S>> {
    let relay = Arc::new(Mutex::new(Some((state, 0))));
    (0..count)
        .map(|number| Stage {
            number,
            relay: Arc::clone(&relay),
            state: None,
            no_paths: PathTable::new(),
        })
        .collect()
}

impl<S: Staged> Stage<S> {
    fn state(&mut self) -> Result<&mut S, SourceError> {
        if self.state.is_none() {
            let held = self
                .relay
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let (mut state, next) = held.ok_or_else(|| {
                SourceError::new("a phase was begun while another of the same stream ran")
            })?;
            for earlier in next..self.number {
                state.skip(earlier)?;
            }
            self.state = Some(state);
        }
        self.state
            .as_mut()
            .ok_or_else(|| SourceError::new("the state of a phase is lost"))
    }
}

impl<S: Staged> OpSource for Stage<S> {
    fn paths(&self) -> &PathTable {
        self.state.as_ref().map_or(&self.no_paths, Staged::paths)
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let stage = self.number;
        self.state()?.next_batch(stage, batch)
    }

    fn wait(&mut self) -> Wait {
        let stage = self.number;
        self.state.as_mut().map_or(Wait::Ready, |s| s.wait(stage))
    }
}

impl<S> Drop for Stage<S> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            *self.relay.lock().unwrap_or_else(PoisonError::into_inner) =
                Some((state, self.number + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::{OpKind, Pid, Tid};

    use super::*;

    /// Stage n yields the numbers from 10 n to 10 n + 3 as offsets and remembers the sum.
    struct Counter {
        paths: PathTable,
        given: [u64; 3],
        sum: u64,
    }

    impl Staged for Counter {
        fn paths(&self) -> &PathTable {
            &self.paths
        }

        fn next_batch(&mut self, stage: usize, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
            if self.given[stage] == 4 {
                return Ok(0);
            }
            let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), 0);
            op.offset = Some(10 * stage as u64 + self.given[stage]);
            op.length = Some(self.sum);
            self.sum += op.offset.unwrap();
            self.given[stage] += 1;
            batch.push(op);
            Ok(1)
        }
    }

    fn counter() -> Vec<Stage<Counter>> {
        let state = Counter {
            paths: PathTable::new(),
            given: [0; 3],
            sum: 0,
        };
        stages(state, 3)
    }

    fn drain(stage: &mut Stage<Counter>) -> Vec<(u64, u64)> {
        let mut ops = Vec::new();
        while stage.next_batch(&mut ops).unwrap() > 0 {}
        ops.iter()
            .map(|o| (o.offset.unwrap(), o.length.unwrap()))
            .collect()
    }

    #[test]
    fn a_stage_alone_is_what_it_is_after_the_others() {
        let mut together = Vec::new();
        for mut stage in counter() {
            together.push(drain(&mut stage));
        }
        for (i, expected) in together.iter().enumerate() {
            assert_eq!(drain(&mut counter()[i]), *expected, "stage {i}");
        }
        assert_eq!(together[2][0], (20, 6 + 46));
    }

    #[test]
    fn a_stage_that_was_stopped_is_not_gone_through_again() {
        let mut all = counter().into_iter();
        drop(drain(&mut all.next().unwrap()));
        let mut second = all.next().unwrap();
        second.next_batch(&mut Vec::new()).unwrap();
        drop(second);
        assert_eq!(drain(&mut all.next().unwrap())[0], (20, 6 + 10));
    }

    #[test]
    fn two_stages_at_once_are_an_error() {
        let mut all = counter();
        all[0].next_batch(&mut Vec::new()).unwrap();
        let error = all[1].next_batch(&mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("while another"));
    }
}

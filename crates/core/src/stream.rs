//! Streams of operations: where they come from and where they go.

use crate::{Op, PathTable};

/// Why a stream cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// A lowercase phrase that names the source, the place in it and what was expected.
    pub message: String,
    /// What lies beneath.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Why a sink cannot take more.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// A lowercase phrase that names the sink and what went wrong.
    pub message: String,
    /// What lies beneath.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl SourceError {
    /// An error without a cause beneath it.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }
}

impl SinkError {
    /// An error without a cause beneath it.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }
}

/// Yields operations in the order of their start (a late one may come out of order; its start says
/// so).
pub trait OpSource {
    /// The paths of the operations yielded so far.
    fn paths(&self) -> &PathTable;

    /// Appends the next operations to `batch`, at least one unless the stream has ended. Returns
    /// how many.
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError>;

    /// Tells the time since the run began, before each [`OpSource::wait`]: a stream that holds a rate
    /// or a deadline goes by it. Not told where no time passes.
    fn time(&mut self, _now_ns: u64) {}

    /// What the stream does before its next batch; asked before each [`OpSource::next_batch`] until
    /// the answer is [`Wait::Ready`], after each pause again.
    fn wait(&mut self) -> Wait {
        Wait::Ready
    }

    /// For whom alone it waits where it is [`Wait::Blocked`]: streams with the same number; `None` for any.
    fn company(&self) -> Option<u32> {
        None
    }
}

/// Whether a stream goes on at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// It goes on.
    #[default]
    Ready,
    /// It rests that many nanoseconds (think time, a delay) and is then asked again.
    Pause(u64),
    /// It computes, which keeps a processor busy: so many rounds of a loop that writes to memory, each
    /// about a nanosecond. Then it is asked again.
    Compute(u64),
    /// It waits for another stream (a semaphore, an event) and is to be asked again.
    Blocked,
}

/// Takes operations.
pub trait OpSink {
    /// Takes one operation whose paths are ids in `paths`.
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError>;
}

/// Operations of a batch of [`VecSource`]: few enough that they are still in a near cache when they are used.
const VEC_BATCH: usize = 256;

/// Operations held in memory, as a source.
#[derive(Debug, Clone, Default)]
pub struct VecSource {
    paths: PathTable,
    ops: Vec<Op>,
    next: usize,
}

impl VecSource {
    /// A source that yields `ops`.
    pub fn new(paths: PathTable, ops: Vec<Op>) -> Self {
        Self {
            paths,
            ops,
            next: 0,
        }
    }
}

impl OpSource for VecSource {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let end = (self.next + VEC_BATCH).min(self.ops.len());
        batch.extend_from_slice(&self.ops[self.next..end]);
        let count = end - self.next;
        self.next = end;
        Ok(count)
    }
}

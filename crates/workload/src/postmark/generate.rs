//! The generator: which file, which size, in which order.

use fsage_core::{Op, OpFlags, OpKind, OpSource, PathId, PathTable, Pid, SourceError, Tid};

use super::Config;
use super::calls::{
    O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, close, data, on_fd, op, open, seek_end,
    straight,
};
use super::pool::{File, Pool};
use crate::program::Staged;
use crate::random::Random;
use crate::stdio::{buffered_read, buffered_write};

/// The generator works this many operations ahead of the target at the least.
const AHEAD: usize = 128;

/// Steps in a row without an operation after which the parameters are to blame.
const IDLE: u32 = 1_000_000;

/// What PostMark's own report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Files created, the initial pool included.
    pub created: u64,
    /// Files read.
    pub read: u64,
    /// Files appended to.
    pub appended: u64,
    /// Files deleted.
    pub deleted: u64,
    /// Files deleted after the transactions.
    pub deleted_alone: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Transactions done; fewer than configured where all files were deleted before.
    pub transactions: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    MakeDirectories(u64),
    CreatePool(u64),
    Transactions(u64),
    DeletePool(u64),
    RemoveDirectories(u64),
    Done,
}

/// The generator: an [`OpSource`] of one process that does one thing at a time. Memory grows with
/// the number of files ever created (their names).
#[derive(Debug)]
pub struct PostMark {
    config: Config,
    random: Random,
    pool: Pool,
    paths: PathTable,
    step: Stage,
    tally: Tally,
    pid: u32,
    /// The process's own directory with a slash, or nothing.
    top: String,
    endless: bool,
}

impl PostMark {
    /// The stream of that configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            random: Random::new(config.seed),
            pool: Pool::new(config.files.saturating_mul(2)),
            paths: PathTable::new(),
            step: Stage::MakeDirectories(0),
            tally: Tally::default(),
            pid: 1,
            top: String::new(),
            endless: false,
        }
    }

    /// The same as process `i` of several, in a directory of its own.
    pub fn as_process(mut self, i: u32) -> Self {
        self.pid = 1 + i;
        self.top = format!("p{i}/");
        self
    }

    /// The same with transactions that go on until stopped; where all files were deleted, a file is
    /// created.
    pub fn endless(mut self) -> Self {
        self.endless = true;
        self
    }

    /// What was counted up to now.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many subdirectories there are; PostMark takes one for none.
    fn subdirs(&self) -> u64 {
        if self.config.subdirs > 1 {
            self.config.subdirs
        } else {
            0
        }
    }

    /// Subdirectories and the process's own.
    fn directories(&self) -> u64 {
        self.subdirs() + u64::from(!self.top.is_empty())
    }

    /// The name of directory `i` in the order in which they are made: a process's own comes first.
    fn directory_name(&self, i: u64) -> String {
        match (i, self.top.strip_suffix('/')) {
            (0, Some(top)) => top.to_owned(),
            (i, Some(_)) => format!("{}s{}", self.top, i - 1),
            (i, None) => format!("s{i}"),
        }
    }

    fn advance(&mut self, out: &mut Vec<Op>) -> Result<(), SourceError> {
        self.step = match self.step {
            Stage::MakeDirectories(i) if i < self.directories() => {
                self.directory(OpKind::Mkdir, i, out)?;
                Stage::MakeDirectories(i + 1)
            }
            Stage::MakeDirectories(_) => Stage::CreatePool(0),
            Stage::CreatePool(i) if i < self.config.files => {
                self.create(out)?;
                Stage::CreatePool(i + 1)
            }
            Stage::CreatePool(_) => Stage::Transactions(0),
            Stage::Transactions(i) if self.endless => {
                if self.pool.is_empty() {
                    self.create(out)?;
                } else {
                    self.transaction(out)?;
                }
                Stage::Transactions(i)
            }
            Stage::Transactions(i) if i < self.config.transactions && !self.pool.is_empty() => {
                self.transaction(out)?;
                Stage::Transactions(i + 1)
            }
            Stage::Transactions(_) => Stage::DeletePool(0),
            Stage::DeletePool(slot) if slot < self.pool.slots() => {
                if let Some(file) = self.pool.remove(slot) {
                    self.delete(file, out);
                    self.tally.deleted_alone += 1;
                }
                Stage::DeletePool(slot + 1)
            }
            Stage::DeletePool(_) => Stage::RemoveDirectories(0),
            Stage::RemoveDirectories(i) if i < self.directories() => {
                // In the order in which they were made, the process's own last.
                let own = u64::from(!self.top.is_empty());
                self.directory(OpKind::Rmdir, (i + own) % self.directories(), out)?;
                Stage::RemoveDirectories(i + 1)
            }
            Stage::RemoveDirectories(_) | Stage::Done => Stage::Done,
        };
        Ok(())
    }

    fn transaction(&mut self, out: &mut Vec<Op>) -> Result<(), SourceError> {
        let Config {
            bias_read,
            bias_create,
            ..
        } = self.config;
        if bias_read != -1 {
            let read = (self.random.below(10) as i64) < bias_read;
            if let Some(slot) = self.pool.choose(&mut self.random) {
                if read {
                    self.read(slot, out);
                } else {
                    self.append(slot, out);
                }
            }
        }
        if bias_create != -1 {
            if (self.random.below(10) as i64) < bias_create {
                self.create(out)?;
            } else if let Some(file) = self
                .pool
                .choose(&mut self.random)
                .and_then(|slot| self.pool.remove(slot))
            {
                self.delete(file, out);
            }
        }
        self.tally.transactions += 1;
        Ok(())
    }

    /// Creates a file and fills it; does nothing where twice the initial pool exists already.
    fn create(&mut self, out: &mut Vec<Op>) -> Result<(), SourceError> {
        let Some(slot) = self.pool.free_slot() else {
            return Ok(());
        };
        self.tally.created += 1;
        let number = self.tally.created;
        let name = match self.subdirs() {
            0 => format!("{}{number}", self.top),
            n => format!("{}s{}/{number}", self.top, self.random.below(n)),
        };
        let path = self.intern(&name)?;
        let Config {
            size_low_bytes: low,
            size_high_bytes: high,
            ..
        } = self.config;
        let size_bytes = low + self.random.below(high - low);
        self.pool.insert(slot, File { path, size_bytes });
        match self.config.buffer_bytes {
            Some(_) => open(path, O_WRONLY | O_CREAT | O_TRUNC, 0, out),
            None => open(path, O_RDWR | O_CREAT, 0, out),
        }
        self.stat_buffered(0, out);
        self.write(0, size_bytes, OpFlags::default(), out);
        out.push(close());
        Ok(())
    }

    fn delete(&mut self, file: File, out: &mut Vec<Op>) {
        let mut unlink = op(OpKind::Unlink);
        unlink.path = Some(file.path);
        out.push(unlink);
        self.tally.deleted += 1;
    }

    fn read(&mut self, slot: u64, out: &mut Vec<Op>) {
        let Some(File { path, size_bytes }) = self.pool.get(slot) else {
            return;
        };
        open(path, O_RDONLY, size_bytes, out);
        self.stat_buffered(size_bytes, out);
        let block = self.config.read_bytes;
        match self.config.buffer_bytes {
            Some(buffer) => buffered_read(size_bytes, block, buffer, |offset, request, got| {
                out.push(data(
                    OpKind::Read,
                    offset,
                    request,
                    got,
                    size_bytes,
                    OpFlags::default(),
                ));
            }),
            None => straight(size_bytes, block, |offset, length| {
                out.push(data(
                    OpKind::Read,
                    offset,
                    length,
                    length,
                    size_bytes,
                    OpFlags::default(),
                ));
            }),
        }
        out.push(close());
        self.tally.read += 1;
        self.tally.bytes_read += size_bytes;
    }

    /// Appends up to the largest size; a file that has it already is left alone and not counted.
    fn append(&mut self, slot: u64, out: &mut Vec<Op>) {
        let Some(File { path, size_bytes }) = self.pool.get(slot) else {
            return;
        };
        let high = self.config.size_high_bytes;
        if size_bytes >= high {
            return;
        }
        let length = self.random.below(high - size_bytes) + 1;
        if self.config.buffer_bytes.is_some() {
            open(path, O_WRONLY | O_CREAT | O_APPEND, size_bytes, out);
            out.push(seek_end(size_bytes));
        } else {
            open(path, O_RDWR | O_APPEND, size_bytes, out);
        }
        self.stat_buffered(size_bytes, out);
        self.write(size_bytes, length, OpFlags::APPEND, out);
        out.push(close());
        self.pool.insert(
            slot,
            File {
                path,
                size_bytes: size_bytes + length,
            },
        );
        self.tally.appended += 1;
    }

    /// Writes `length` bytes from `start` on, the file's end.
    fn write(&mut self, start: u64, length: u64, record: OpFlags, out: &mut Vec<Op>) {
        let mut push = |offset: u64, length: u64| {
            let at = start + offset;
            out.push(data(OpKind::Write, at, length, length, at, record));
        };
        match self.config.buffer_bytes {
            Some(buffer) => buffered_write(length, self.config.write_bytes, buffer, push),
            None => straight(length, self.config.write_bytes, &mut push),
        }
        self.tally.bytes_written += length;
    }

    /// The C library asks for the block size before it makes its buffer.
    fn stat_buffered(&self, size_bytes: u64, out: &mut Vec<Op>) {
        if self.config.buffer_bytes.is_some() {
            let mut stat = on_fd(OpKind::Fstat);
            stat.size_bytes = Some(size_bytes);
            out.push(stat);
        }
    }

    fn directory(
        &mut self,
        kind: OpKind,
        index: u64,
        out: &mut Vec<Op>,
    ) -> Result<(), SourceError> {
        let mut made = op(kind);
        made.path = Some(self.intern(&self.directory_name(index))?);
        if kind == OpKind::Mkdir {
            made.flags = 0o700;
        }
        out.push(made);
        Ok(())
    }

    fn intern(&mut self, name: &str) -> Result<PathId, SourceError> {
        self.paths
            .intern(name.as_bytes())
            .ok_or_else(|| SourceError::new("workload 'postmark' needs more than 2^32 names"))
    }
}

impl Stage {
    /// Set-up, run and teardown are stages 0, 1 and 2; 3 is none.
    fn stage(self) -> usize {
        match self {
            Stage::MakeDirectories(_) | Stage::CreatePool(_) => 0,
            Stage::Transactions(_) => 1,
            Stage::DeletePool(_) | Stage::RemoveDirectories(_) => 2,
            Stage::Done => 3,
        }
    }
}

impl PostMark {
    fn fill(
        &mut self,
        batch: &mut Vec<Op>,
        least: usize,
        wanted: impl Fn(Stage) -> bool,
    ) -> Result<usize, SourceError> {
        let before = batch.len();
        let mut idle = 0;
        while batch.len() - before < least && wanted(self.step) {
            let length = batch.len();
            self.advance(batch)?;
            idle = if batch.len() > length { 0 } else { idle + 1 };
            if idle == IDLE {
                return Err(SourceError::new(
                    "workload 'postmark' has found nothing to do in a million transactions; expected \
                     parameters that leave something to read, append to, create or delete",
                ));
            }
        }
        if self.pid > 1 {
            for op in batch.iter_mut().skip(before) {
                op.pid = Pid(self.pid);
                op.tid = Tid(self.pid);
            }
        }
        Ok(batch.len() - before)
    }
}

/// The whole history.
impl OpSource for PostMark {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        self.fill(batch, AHEAD, |step| step != Stage::Done)
    }
}

/// Set-up, run, teardown.
impl Staged for PostMark {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, stage: usize, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        // Each transaction of a run by time is whole.
        let least = if self.endless && stage == 1 { 1 } else { AHEAD };
        // What the run has not reached when it is stopped is not made up for.
        if stage == 2 && self.step.stage() < 2 {
            self.step = Stage::DeletePool(0);
        }
        self.fill(batch, least, |step| step.stage() == stage)
    }

    fn skip(&mut self, stage: usize) -> Result<(), SourceError> {
        if self.endless && stage == 1 {
            return Err(SourceError::new(
                "a run of workload 'postmark' without an end leaves nothing that a teardown of its \
                 own could know; expected run and teardown together",
            ));
        }
        let mut batch = Vec::new();
        while Staged::next_batch(self, stage, &mut batch)? > 0 {
            batch.clear();
        }
        Ok(())
    }
}

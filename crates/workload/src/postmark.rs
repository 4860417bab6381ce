//! PostMark 1.5: short-lived small files of a mail or news server (Katcher 1997; Smith 2001,
//! 4.5.3.3; Traeger 2007, 7.1).
//!
//! What PostMark does, call by call, with another random sequence (its generator is its own; the
//! counts agree within what that explains) and with files chosen in constant time, where the
//! original searches its table (Traeger 2007, 7.1 names it as a fault).

mod pool;

use fsage_core::{
    Fd, Op, OpFlags, OpKind, OpSource, Outcome, PathId, PathTable, Pid, Seed, SourceError, Tid,
};

use crate::random::Random;
use crate::spec::Values;
use crate::table::{Parameter, Unit, Value};
use pool::{File, Pool};

const O_RDONLY: u32 = 0;
const O_WRONLY: u32 = 1;
const O_RDWR: u32 = 2;
const O_CREAT: u32 = 0o100;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
const SEEK_END: u32 = 2;

/// One file is open at a time, on the lowest free descriptor.
const FD: Fd = Fd(3);

/// The generator works this many operations ahead of the target at the least.
const AHEAD: usize = 128;

/// Sizes above this would make a single file fill any target.
const LARGEST_FILE: i64 = 1 << 40;

/// PostMark's parameters and its documented defaults; `buffer` is the C library's.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "files",
        unit: Unit::Count,
        default: Value::Number(500),
        range: (1, 100_000_000),
        what: "files in the initial pool; at most twice as many exist at once",
    },
    Parameter {
        name: "transactions",
        unit: Unit::Count,
        default: Value::Number(500),
        range: (0, 1_000_000_000_000),
        what: "transactions, each a read or append and a create or delete",
    },
    Parameter {
        name: "size",
        unit: Unit::ByteRange,
        default: Value::Range(500, 10_000),
        range: (1, LARGEST_FILE),
        what: "sizes of new files, the upper end excluded, and the most that appends reach",
    },
    Parameter {
        name: "subdirs",
        unit: Unit::Count,
        default: Value::Number(0),
        range: (0, 1_000_000),
        what: "directories s0, s1, … over which files are spread; 0 and 1 use the top directory",
    },
    Parameter {
        name: "read",
        unit: Unit::Bytes,
        default: Value::Number(512),
        range: (1, 1 << 30),
        what: "size of a read request",
    },
    Parameter {
        name: "write",
        unit: Unit::Bytes,
        default: Value::Number(512),
        range: (1, 1 << 30),
        what: "size of a write request",
    },
    Parameter {
        name: "bias-read",
        unit: Unit::Bias,
        default: Value::Bias(5),
        range: (-1, 10),
        what: "chance in tenths of a read instead of an append; -1 for neither",
    },
    Parameter {
        name: "bias-create",
        unit: Unit::Bias,
        default: Value::Bias(5),
        range: (-1, 10),
        what: "chance in tenths of a create instead of a delete; -1 for neither",
    },
    Parameter {
        name: "buffering",
        unit: Unit::Switch,
        default: Value::Switch(true),
        range: (0, 1),
        what: "requests go through the C library's buffer instead of straight to the system",
    },
    Parameter {
        name: "buffer",
        unit: Unit::Bytes,
        default: Value::Number(4096),
        range: (1, 1 << 30),
        what: "size of that buffer; the C library takes st_blksize, 4096 on most file systems",
    },
    Parameter {
        name: "seed",
        unit: Unit::Seed,
        default: Value::Number(42),
        range: (0, i64::MAX),
        what: "where the random sequence starts",
    },
];

/// A configuration of PostMark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Files in the initial pool.
    pub files: u64,
    /// Transactions.
    pub transactions: u64,
    /// Smallest size of a new file, in bytes.
    pub size_low_bytes: u64,
    /// Bound of the sizes, in bytes.
    pub size_high_bytes: u64,
    /// Subdirectories.
    pub subdirs: u64,
    /// Size of a read request in bytes.
    pub read_bytes: u64,
    /// Size of a write request in bytes.
    pub write_bytes: u64,
    /// Tenths of reads; -1 for neither reads nor appends.
    pub bias_read: i64,
    /// Tenths of creates; -1 for neither creates nor deletes.
    pub bias_create: i64,
    /// Size of the C library's buffer in bytes, `None` without one.
    pub buffer_bytes: Option<u64>,
    /// Where the random sequence starts.
    pub seed: Seed,
}

impl Config {
    /// The configuration that the values of [`PARAMETERS`] give.
    pub fn from_values(values: &Values) -> Self {
        let (size_low_bytes, size_high_bytes) = values.range("size");
        Self {
            files: values.number("files"),
            transactions: values.number("transactions"),
            size_low_bytes,
            size_high_bytes,
            subdirs: values.number("subdirs"),
            read_bytes: values.number("read").max(1),
            write_bytes: values.number("write").max(1),
            bias_read: values.bias("bias-read"),
            bias_create: values.bias("bias-create"),
            buffer_bytes: values
                .switch("buffering")
                .then(|| values.number("buffer").max(1)),
            seed: Seed(values.number("seed")),
        }
    }
}

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
enum Phase {
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
    phase: Phase,
    tally: Tally,
}

impl PostMark {
    /// The stream of that configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            config: *config,
            random: Random::new(config.seed),
            pool: Pool::new(config.files.saturating_mul(2)),
            paths: PathTable::new(),
            phase: Phase::MakeDirectories(0),
            tally: Tally::default(),
        }
    }

    /// What was counted up to now.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many directories there are; PostMark takes one for none.
    fn directories(&self) -> u64 {
        if self.config.subdirs > 1 {
            self.config.subdirs
        } else {
            0
        }
    }

    fn step(&mut self, out: &mut Vec<Op>) -> Result<(), SourceError> {
        self.phase = match self.phase {
            Phase::MakeDirectories(i) if i < self.directories() => {
                self.directory(OpKind::Mkdir, i, out)?;
                Phase::MakeDirectories(i + 1)
            }
            Phase::MakeDirectories(_) => Phase::CreatePool(0),
            Phase::CreatePool(i) if i < self.config.files => {
                self.create(out)?;
                Phase::CreatePool(i + 1)
            }
            Phase::CreatePool(_) => Phase::Transactions(0),
            Phase::Transactions(i) if i < self.config.transactions && !self.pool.is_empty() => {
                self.transaction(out)?;
                Phase::Transactions(i + 1)
            }
            Phase::Transactions(_) => Phase::DeletePool(0),
            Phase::DeletePool(slot) if slot < self.pool.slots() => {
                if let Some(file) = self.pool.remove(slot) {
                    self.delete(file, out);
                    self.tally.deleted_alone += 1;
                }
                Phase::DeletePool(slot + 1)
            }
            Phase::DeletePool(_) => Phase::RemoveDirectories(0),
            Phase::RemoveDirectories(i) if i < self.directories() => {
                self.directory(OpKind::Rmdir, i, out)?;
                Phase::RemoveDirectories(i + 1)
            }
            Phase::RemoveDirectories(_) | Phase::Done => Phase::Done,
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
        let directories = self.directories();
        self.tally.created += 1;
        let number = self.tally.created;
        let name = match directories {
            0 => number.to_string(),
            n => format!("s{}/{number}", self.random.below(n)),
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
            // fopen(…, "a") goes to the end at once.
            let mut seek = on_fd(OpKind::Seek);
            seek.offset = Some(0);
            seek.flags = SEEK_END;
            seek.result = Outcome::ok(size_bytes);
            seek.size_bytes = Some(size_bytes);
            out.push(seek);
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
        made.path = Some(self.intern(&format!("s{index}"))?);
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

impl OpSource for PostMark {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        while batch.len() - before < AHEAD && self.phase != Phase::Done {
            self.step(batch)?;
        }
        Ok(batch.len() - before)
    }
}

fn op(kind: OpKind) -> Op {
    Op::new(kind, Pid(1), Tid(1), 0)
}

fn on_fd(kind: OpKind) -> Op {
    let mut op = op(kind);
    op.fd = Some(FD);
    op
}

fn open(path: PathId, flags: u32, size_bytes: u64, out: &mut Vec<Op>) {
    let mut open = op(OpKind::Open);
    open.path = Some(path);
    open.flags = flags;
    open.size_bytes = Some(size_bytes);
    open.result = Outcome::ok(FD.0 as u64);
    out.push(open);
}

fn close() -> Op {
    on_fd(OpKind::Close)
}

/// A transfer at the file's position.
fn data(kind: OpKind, offset: u64, length: u64, got: u64, size: u64, record: OpFlags) -> Op {
    let mut op = on_fd(kind);
    op.offset = Some(offset);
    op.length = Some(length);
    op.result = Outcome::ok(got);
    op.size_bytes = Some(size);
    op.record = record | OpFlags::IMPLICIT_OFFSET;
    op
}

/// Requests of whole blocks and then one of what remains, which may be nothing: PostMark issues it
/// all the same.
fn straight(length: u64, block: u64, mut request: impl FnMut(u64, u64)) {
    for i in 0..length / block {
        request(i * block, block);
    }
    request(length / block * block, length % block);
}

/// What the C library makes of `fwrite` calls of `block` bytes: the buffer is filled and written
/// when more comes; what is at least a buffer long goes straight through in whole buffers.
fn buffered_write(length: u64, block: u64, buffer: u64, mut request: impl FnMut(u64, u64)) {
    let (mut written, mut held, mut left) = (0, 0, length);
    let mut issue = |written: &mut u64, bytes: u64| {
        request(*written, bytes);
        *written += bytes;
    };
    while left > 0 {
        let mut put = block.min(left);
        left -= put;
        if held + put > buffer || (held == 0 && put >= buffer) {
            if held > 0 {
                put -= buffer - held;
                issue(&mut written, buffer);
                held = 0;
            }
            let through = put - put % buffer;
            if through > 0 {
                issue(&mut written, through);
            }
            put -= through;
        }
        held += put;
    }
    if held > 0 {
        issue(&mut written, held);
    }
}

/// What it makes of `fread` calls: `request(offset, asked, got)` for each read. A call that wants at
/// least a buffer reads whole buffers straight through.
fn buffered_read(length: u64, block: u64, buffer: u64, mut request: impl FnMut(u64, u64, u64)) {
    let (mut position, mut held, mut left) = (0, 0, length);
    while left > 0 {
        let mut want = block.min(left);
        left -= want;
        let taken = want.min(held);
        want -= taken;
        held -= taken;
        if want >= buffer {
            let through = want - want % buffer;
            request(position, through, through);
            position += through;
            want -= through;
        }
        if want > 0 {
            let got = buffer.min(length - position);
            request(position, buffer, got);
            position += got;
            held = got - want;
        }
    }
}

#[cfg(test)]
#[path = "postmark/tests.rs"]
mod tests;

//! Bytes per operation, write and read rate and memory of the trace format.
//!
//! `format_throughput [OPERATIONS] [FILE]`: writes a PostMark-like trace of that many operations to FILE
//! (default: in the temporary directory, removed afterwards), reads it back, prints one line of JSON.
//! Run by `benchmarks/format-throughput.sh`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark measures time and prints it"
)]

use std::path::{Path, PathBuf};
use std::time::Instant;

use fsage_core::{
    DevId, Errno, Fd, FileId, Op, OpKind, OpSink, OpSource, Outcome, PathId, PathTable, Pid, Tid,
};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};

/// A linear congruential generator; the trace is the same every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Skewed as latencies are: mostly near `typical`, sometimes far above.
    fn latency(&mut self, typical: u64) -> u64 {
        let tail = if self.below(50) == 0 {
            self.below(20)
        } else {
            0
        };
        typical + self.below(typical) * self.below(typical) / typical + tail * typical
    }
}

/// PostMark: files of 512 to 16384 bytes in 50 subdirectories, each transaction a read of a whole
/// file or an append, and a create or a delete.
struct PostMark {
    random: Random,
    paths: PathTable,
    files: Vec<(PathId, u64, u64)>,
    now_ns: u64,
    next: u64,
}

impl PostMark {
    fn push(&mut self, out: &mut dyn FnMut(&Op, &PathTable), mut op: Op, typical_ns: u64) {
        self.now_ns += 400 + self.random.below(900);
        let latency_ns = self.random.latency(typical_ns);
        op.start_ns = self.now_ns;
        op.latency_ns = Some(latency_ns);
        self.now_ns += latency_ns;
        out(&op, &self.paths);
    }

    fn op(kind: OpKind, file: Option<(u64, u64)>) -> Op {
        let mut op = Op::new(kind, Pid(4711), Tid(4711), 0);
        op.fd = file.map(|_| Fd(3));
        let id = |(ino, _)| FileId {
            dev: DevId::new(7, 1),
            ino,
            generation: ino as u32 ^ 0x5bd1,
        };
        op.file = file.map(id);
        op.size_bytes = file.map(|(_, size)| size);
        op
    }

    fn data(&mut self, out: &mut dyn FnMut(&Op, &PathTable), kind: OpKind, ino: u64, size: u64) {
        let mut offset = 0;
        while offset < size {
            let mut op = Self::op(
                kind,
                Some((ino, if kind == OpKind::Read { size } else { offset })),
            );
            let moved = (size - offset).min(4096);
            op.offset = Some(offset);
            op.length = Some(if kind == OpKind::Read { 4096 } else { moved });
            op.result = Outcome::ok(moved);
            op.pages_missed = (kind == OpKind::Read).then_some(0);
            op.pages_ahead = op.pages_missed;
            self.push(out, op, 700);
            offset += moved;
        }
    }

    fn open(
        &mut self,
        out: &mut dyn FnMut(&Op, &PathTable),
        path: PathId,
        ino: u64,
        size: u64,
        flags: u32,
    ) {
        let dir = self.paths.intern(b"/mnt/scratch");
        let mut op = Self::op(OpKind::Open, Some((ino, size)));
        (op.path, op.dir, op.flags, op.fd) = (Some(path), dir, flags, None);
        op.result = Outcome::ok(3);
        self.push(out, op, if flags == 0 { 1500 } else { 9000 });
    }

    fn close(&mut self, out: &mut dyn FnMut(&Op, &PathTable), ino: u64, size: u64) {
        let op = Self::op(OpKind::Close, Some((ino, size)));
        self.push(out, op, 400);
    }

    fn create(&mut self, out: &mut dyn FnMut(&Op, &PathTable)) {
        self.next += 1;
        let name = format!("s{}/{}", self.random.below(50), self.next);
        let Some(path) = self.paths.intern(name.as_bytes()) else {
            return;
        };
        let (ino, size) = (self.next + 12, 512 + self.random.below(15_873));
        self.open(out, path, ino, 0, 0o102);
        self.data(out, OpKind::Write, ino, size);
        self.close(out, ino, size);
        self.files.push((path, ino, size));
    }

    fn transaction(&mut self, out: &mut dyn FnMut(&Op, &PathTable)) {
        let at = self.random.below(self.files.len() as u64) as usize;
        let (path, ino, size) = self.files[at];
        self.open(out, path, ino, size, 0);
        self.data(out, OpKind::Read, ino, size);
        self.close(out, ino, size);
        if self.random.below(2) == 0 {
            self.create(out);
            return;
        }
        let (path, _, _) = self.files.swap_remove(at);
        let mut op = Self::op(OpKind::Unlink, None);
        op.path = Some(path);
        op.dir = self.paths.intern(b"/mnt/scratch");
        op.result = if self.random.below(1000) == 0 {
            Outcome::err(Errno::ENOENT)
        } else {
            Outcome::ok(0)
        };
        self.push(out, op, 8000);
    }
}

/// Time that this thread has spent on a processor, which other load does not change as it does the
/// wall clock's.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|t| t.parse().ok())
        .unwrap_or(0)
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

/// Wall-clock and processor time that were spent on something.
#[derive(Default, Clone, Copy)]
struct Spent {
    wall_ns: u64,
    cpu_ns: u64,
}

impl Spent {
    fn on<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (wall, cpu) = (Instant::now(), cpu_ns());
        let done = work();
        self.wall_ns += wall.elapsed().as_nanos() as u64;
        self.cpu_ns += cpu_ns() - cpu;
        done
    }

    /// Operations a second of wall-clock and of processor time, as JSON fields.
    fn rates(self, what: &str, operations: u64) -> String {
        let rate = |ns: u64| operations as f64 * 1e9 / ns.max(1) as f64;
        let (wall, cpu) = (rate(self.wall_ns), rate(self.cpu_ns));
        format!("\"{what}_ops_per_s\":{wall:.0},\"{what}_ops_per_cpu_s\":{cpu:.0}")
    }
}

type Failure = Box<dyn std::error::Error>;

/// Writes the trace; returns its operations and bytes.
fn write(path: &Path, wanted: u64, spent: &mut Spent) -> Result<(u64, u64), Failure> {
    let mut postmark = PostMark {
        random: Random(1),
        paths: PathTable::new(),
        files: Vec::new(),
        now_ns: 0,
        next: 0,
    };
    let mut writer = TraceWriter::create(path, TraceMeta::default())?;
    let (mut held, mut written) = (Vec::with_capacity(65_536), 0);
    while written < wanted {
        held.clear();
        while held.len() < 65_000 {
            let mut take = |op: &Op, _: &PathTable| held.push(*op);
            if postmark.files.len() < 20_000 && postmark.next < 20_000 {
                postmark.create(&mut take);
            } else {
                postmark.transaction(&mut take);
            }
        }
        spent.on(|| {
            held.iter()
                .try_for_each(|op| writer.push(op, &postmark.paths))
        })?;
        written += held.len() as u64;
    }
    Ok((written, spent.on(|| writer.finish(TraceEnd::default()))?))
}

/// Reads the trace; returns its operations and a number that depends on all of them.
fn read(path: &Path) -> Result<(u64, u64), Failure> {
    let mut reader = TraceReader::open(path)?;
    let (mut batch, mut read, mut sum) = (Vec::new(), 0, 0u64);
    while reader.next_batch(&mut batch)? > 0 {
        read += batch.len() as u64;
        sum = batch.iter().fold(sum, |s, op| {
            s.wrapping_add(op.start_ns ^ op.length.unwrap_or(0))
        });
        batch.clear();
    }
    Ok((read, sum))
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments
        .next()
        .map_or(Ok(2_000_000), |text| text.parse())?;
    let given = arguments.next().map(PathBuf::from);
    let path = given.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("fsage-throughput-{}.fst", std::process::id()))
    });
    let (mut writing, mut reading) = (Spent::default(), Spent::default());
    let (written, bytes) = write(&path, wanted, &mut writing)?;
    let resident_write = resident_kib();
    let (operations, sum) = reading.on(|| read(&path))?;
    if given.is_none() {
        std::fs::remove_file(&path)?;
    }
    println!(
        "{{\"operations\":{operations},\"bytes\":{bytes},\"bytes_per_op\":{:.2},{},{},\
         \"resident_kib_after_write\":{resident_write},\"resident_kib\":{},\"sum\":{sum}}}",
        bytes as f64 / written as f64,
        writing.rates("write", written),
        reading.rates("read", operations),
        resident_kib(),
    );
    Ok(())
}

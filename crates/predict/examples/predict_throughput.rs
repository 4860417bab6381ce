//! How fast a trace is predicted, and in how much memory: `predict_throughput [OPERATIONS] [FILES]`.
//!
//! The trace is PostMark's, as a capture records it: each transaction opens a file, reads or appends to
//! it and closes it, or creates or deletes one, everything cached. It is predicted twice: from memory,
//! made in batches whose making is not counted, and from a trace file, with its decoding. Then a tree
//! of so many files is held in memory.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "its result goes to stdout")]

use std::path::Path;
use std::time::{Duration, Instant};

use fsage_core::metric::MetricId;
use fsage_core::{
    DevId, Fd, FileId, Op, OpKind, OpSink, OpSource, Outcome, PathId, PathTable, Pid, Tid,
};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};
use fsage_predict::namespace::tree::NodeKind;
use fsage_predict::{FileRecord, Options, Predictor, SystemVector};

struct PostMark {
    paths: PathTable,
    files: Vec<(PathId, u64, bool)>,
    now: u64,
    random: u64,
}

impl PostMark {
    fn new(files: usize) -> Self {
        let mut paths = PathTable::new();
        let files = (0..files)
            .filter_map(|i| {
                let name = format!("/mnt/target/postmark/s{}/{i}", i % 50);
                Some((
                    paths.intern(name.as_bytes())?,
                    512 + (i as u64 * 7919) % 15872,
                    false,
                ))
            })
            .collect();
        Self {
            paths,
            files,
            now: 0,
            random: 1,
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % below.max(1)
    }

    fn op(&mut self, kind: OpKind, batch: &mut Vec<Op>) {
        self.now += 1000 + self.next(1000);
        let mut op = Op::new(kind, Pid(7), Tid(7), self.now);
        op.latency_ns = Some(400 + self.next(400));
        (op.pages_missed, op.pages_ahead) = (Some(0), Some(0));
        batch.push(op);
    }

    /// What the kernel tells of the file behind the last operations, from `from` on.
    fn identify(batch: &mut [Op], from: usize, ino: u64, mut size: u64) {
        let id = FileId {
            dev: DevId::new(7, 1),
            ino,
            generation: ino as u32 ^ 0x5bd1,
        };
        for op in batch
            .iter_mut()
            .skip(from)
            .filter(|op| op.kind != OpKind::Unlink)
        {
            (op.file, op.size_bytes) = (Some(id), Some(size));
            if op.kind == OpKind::Write {
                size = op.offset.unwrap_or(0) + op.length.unwrap_or(0);
            }
        }
    }

    fn data(&mut self, kind: OpKind, offset: u64, length: u64, batch: &mut Vec<Op>) {
        self.op(kind, batch);
        if let Some(op) = batch.last_mut() {
            (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(offset), Some(length));
            op.result = Outcome::ok(length);
        }
    }

    fn name(&mut self, kind: OpKind, path: PathId, flags: u32, batch: &mut Vec<Op>) {
        self.op(kind, batch);
        if let Some(op) = batch.last_mut() {
            (op.path, op.flags) = (Some(path), flags);
            op.result = Outcome::ok(if kind == OpKind::Open { 3 } else { 0 });
        }
    }

    /// Appends one transaction.
    fn transaction(&mut self, batch: &mut Vec<Op>) {
        let index = self.next(self.files.len() as u64) as usize;
        let Some(&(path, size, exists)) = self.files.get(index) else {
            return;
        };
        let mut state = (path, size, exists);
        let from = batch.len();
        if exists && self.next(4) == 0 {
            self.name(OpKind::Unlink, path, 0, batch);
            state.2 = false;
        } else if exists {
            let append = self.next(2) == 0 && size < 1 << 20;
            self.name(OpKind::Open, path, if append { 0o2001 } else { 0 }, batch);
            if append {
                let length = 1 + self.next(4096);
                self.data(OpKind::Write, size, length, batch);
                state.1 += length;
            } else {
                for offset in (0..size).step_by(4096) {
                    self.data(OpKind::Read, offset, (size - offset).min(4096), batch);
                }
            }
            self.op(OpKind::Close, batch);
        } else {
            state.1 = 512 + self.next(15_872);
            self.name(OpKind::Open, path, 0o102, batch);
            for offset in (0..state.1).step_by(4096) {
                self.data(OpKind::Write, offset, (state.1 - offset).min(4096), batch);
            }
            self.op(OpKind::Close, batch);
            state.2 = true;
        }
        if let Some(op) = batch.last_mut().filter(|op| op.kind == OpKind::Close) {
            op.fd = Some(Fd(3));
        }
        Self::identify(
            batch,
            from,
            index as u64 + 12,
            if exists { size } else { 0 },
        );
        if let Some(place) = self.files.get_mut(index) {
            *place = state;
        }
    }

    /// Replaces the batch by the next transactions.
    fn fill(&mut self, batch: &mut Vec<Op>) {
        batch.clear();
        while batch.len() < 65_536 {
            self.transaction(batch);
        }
    }
}

/// A system with every metric, all of them cheap.
fn system() -> SystemVector {
    let limits = ["BC", "DNLC", "MDC"];
    let metrics = MetricId::all()
        .filter(|id| !limits.contains(&id.to_string().as_str()))
        .map(|id| (id, 1000.0, 900.0, 1100.0));
    SystemVector::new("benchmark", metrics)
}

fn resident_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .unwrap_or(0)
        / 1024
}

fn main() {
    let number = |n: usize, default| {
        std::env::args()
            .nth(n)
            .and_then(|a| a.parse().ok())
            .unwrap_or(default)
    };
    let (operations, files): (u64, u64) = (number(1, 10_000_000), number(2, 1_000_000));

    from_memory(operations);
    let path = std::env::temp_dir().join(format!("fsage-throughput-{}.fst", std::process::id()));
    let predicted = from_file(&path, operations);
    let removed = std::fs::remove_file(&path);
    predicted.and_then(|()| Ok(removed?)).unwrap_or_else(|e| {
        println!("not measured from a file: {e}");
    });
    hold(files);
}

/// Predicts the trace while it is made.
fn from_memory(operations: u64) {
    let mut trace = PostMark::new(20_000);
    let mut predictor = Predictor::new(Options::default(), vec![system()]);
    let (mut batch, mut done, mut spent) = (Vec::with_capacity(70_000), 0u64, Duration::ZERO);
    while done < operations {
        trace.fill(&mut batch);
        let start = Instant::now();
        predictor.push_all(&batch, &trace.paths);
        spent += start.elapsed();
        done += batch.len() as u64;
    }
    let start = Instant::now();
    let prediction = predictor.finish();
    let finish = start.elapsed();
    let rate = done as f64 / spent.as_secs_f64();
    println!("operations            {done}");
    println!("operations per second {rate:.0}");
    println!(
        "ns per operation      {:.1}",
        spent.as_nanos() as f64 / done as f64
    );
    println!("finish                {:.2} ms", finish.as_secs_f64() * 1e3);
    println!("resident              {} MiB", resident_mib());
    for target in &prediction.targets {
        println!("page cache hits       {:?}", target.caches.page.hit_rate);
    }
}

/// Writes the same trace to a file and predicts that, all in one thread.
fn from_file(path: &Path, operations: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = PostMark::new(20_000);
    let mut writer = TraceWriter::create(path, TraceMeta::default())?;
    let mut batch = Vec::with_capacity(70_000);
    while writer.operations() < operations {
        trace.fill(&mut batch);
        for op in &batch {
            writer.push(op, &trace.paths)?;
        }
    }
    let bytes = writer.finish(TraceEnd::default())?;
    drop(trace);
    let start = Instant::now();
    let mut reader = TraceReader::open(path)?;
    let mut predictor = Predictor::new(Options::default(), vec![system()]);
    let mut done = 0u64;
    loop {
        batch.clear();
        if reader.next_batch(&mut batch)? == 0 {
            break;
        }
        predictor.push_all(&batch, reader.paths());
        done += batch.len() as u64;
    }
    predictor.finish();
    let spent = start.elapsed();
    println!(
        "from a file           {:.0} operations per second, {:.1} ns each, {:.2} bytes each",
        done as f64 / spent.as_secs_f64(),
        spent.as_nanos() as f64 / done as f64,
        bytes as f64 / done as f64
    );
    Ok(())
}

/// A snapshot of so many files, each of which is then opened, read and closed.
fn hold(files: u64) {
    let before = resident_mib();
    let mut predictor = Predictor::new(Options::default(), vec![system()]);
    let root = predictor.namespace_mut().directory(b"/mnt/target");
    for i in 0..files {
        let path = format!("d{}/s{}/file-{i}.dat", i % 1000, i % 7);
        let record = FileRecord {
            path: path.as_bytes(),
            id: FileId {
                ino: i + 12,
                ..FileId::default()
            },
            kind: NodeKind::Regular,
            size: 9000,
            allocated: 12288,
            target: None,
            extents: &[(0, 4096 * i, 12288)],
        };
        predictor.namespace_mut().add(root, &record);
    }
    let snapshot = resident_mib();
    let mut paths = PathTable::new();
    for i in 0..files {
        let mut op = Op::new(OpKind::Open, Pid(1), Tid(1), i * 1000);
        op.path =
            paths.intern(format!("/mnt/target/d{}/s{}/file-{i}.dat", i % 1000, i % 7).as_bytes());
        op.result = Outcome::ok(3);
        predictor.push(&op, &paths);
        let mut op = Op::new(OpKind::Read, Pid(1), Tid(1), i * 1000 + 300);
        (op.fd, op.offset, op.length, op.result) =
            (Some(Fd(3)), Some(0), Some(9000), Outcome::ok(9000));
        predictor.push(&op, &paths);
        let mut op = Op::new(OpKind::Close, Pid(1), Tid(1), i * 1000 + 600);
        op.fd = Some(Fd(3));
        predictor.push(&op, &paths);
    }
    println!("files                 {files}");
    println!(
        "resident, snapshot    {} MiB",
        snapshot.saturating_sub(before)
    );
    println!(
        "resident, all opened  {} MiB",
        resident_mib().saturating_sub(before)
    );
}

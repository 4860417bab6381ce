//! Calls that make data stable, on a file system whose costs are stated, held against their prediction from a quick
//! profile of it: each state in a sequence as a program makes it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::AtomicBool;

use fsage_core::{
    Fd, FileSystem, Handle, Op, OpKind, OpenFlags, Outcome, PathTable, Pid, RangeSync, SinkError,
    Tid,
};
use fsage_format::profile::Environment;
use fsage_mem::{MemFs, Truth};
use fsage_predict::{Annotation, AnnotationSink, Options, Predictor, Start, SystemVector};
use fsage_profile::ProfileRequest;

/// A program on an oracle, and its trace.
struct Program {
    fs: MemFs,
    paths: PathTable,
    ops: Vec<Op>,
    open: Vec<Handle>,
}

impl Program {
    fn call(&mut self, mut op: Op, call: impl FnOnce(&MemFs) -> u64) -> u64 {
        op.start_ns = self.fs.clock().now_ns();
        let result = call(&self.fs);
        op.latency_ns = Some(self.fs.clock().now_ns() - op.start_ns);
        op.result = Outcome::ok(result);
        self.ops.push(op);
        result
    }

    fn op(kind: OpKind) -> Op {
        Op::new(kind, Pid(1), Tid(1), 0)
    }

    fn open(&mut self, path: &str, new: bool) -> usize {
        let mut op = Self::op(OpKind::Open);
        op.path = self.paths.intern(format!("/{path}").as_bytes());
        op.flags = if new { 0o302 } else { 2 };
        let flags = if new {
            OpenFlags::CREATE_NEW
        } else {
            OpenFlags::READ_WRITE
        };
        let handle = self.fs.open(path.as_bytes(), flags, 0o644).unwrap();
        self.fs.close(handle).unwrap();
        let flags = OpenFlags::READ_WRITE;
        let number = self.open.len();
        let mut opened = None;
        self.call(op, |fs| {
            opened = fs.open(path.as_bytes(), flags, 0o644).ok();
            number as u64
        });
        self.open.push(opened.unwrap());
        number
    }

    fn on(&mut self, kind: OpKind, file: usize, at: u64, bytes: u64) {
        let mut op = Self::op(kind);
        op.fd = Some(Fd(file as i32));
        (op.offset, op.length) = (Some(at), Some(bytes));
        op.flags = u32::from(kind == OpKind::SyncFileRange) * RangeSync::START.0;
        let handle = self.open[file];
        // No page is like another.
        let text: Vec<u8> = (0..bytes)
            .map(|i| (i / 7 + at / 4096 + file as u64) as u8)
            .collect();
        self.call(op, |fs| {
            match kind {
                OpKind::Write => assert_eq!(fs.pwrite(handle, &text, at), Ok(text.len())),
                OpKind::Fallocate => fs.fallocate(handle, at, bytes).unwrap(),
                OpKind::Fsync => fs.fsync(handle).unwrap(),
                OpKind::Fdatasync => fs.fdatasync(handle).unwrap(),
                _ => fs
                    .sync_file_range(handle, at, bytes, RangeSync::START)
                    .unwrap(),
            }
            bytes
        });
    }

    /// A log: bytes written from `start` on, again and again, each made stable.
    fn log(&mut self, file: usize, start: u64, bytes: u64) {
        for turn in 0..60 {
            self.on(OpKind::Write, file, start + turn * bytes, bytes);
            self.on(OpKind::Fdatasync, file, 0, 0);
        }
    }

    /// Writes a file and starts that it is written.
    fn started(&mut self, name: &str) -> usize {
        let file = self.open(name, true);
        self.on(OpKind::Write, file, 0, 16 << 10);
        self.on(OpKind::SyncFileRange, file, 0, 0);
        file
    }
}

#[derive(Default)]
struct Latencies(Vec<f64>);

impl AnnotationSink for Latencies {
    fn annotate(
        &mut self,
        _: usize,
        _: &Op,
        _: &PathTable,
        of: &Annotation<'_>,
    ) -> Result<(), SinkError> {
        self.0.push(of.predicted_latency_ns);
        Ok(())
    }
}

/// By how many percent a program's calls of one kind may be off, and why where that is more than three.
type Row = (&'static str, OpKind, f64, fn(&mut Program));

const ROWS: &[Row] = &[
    (
        "in place, after a sixth of the suite's ways",
        OpKind::Fdatasync,
        30.0,
        |p| {
            let file = p.open("wal", true);
            p.on(OpKind::Write, file, 0, 1 << 20);
            p.on(OpKind::Fsync, file, 0, 0);
            p.log(file, 0, 8192);
        },
    ),
    ("appended in a block", OpKind::Fdatasync, 3.0, |p| {
        let file = p.open("log", true);
        p.log(file, 0, 300);
    }),
    ("appended by blocks", OpKind::Fdatasync, 3.0, |p| {
        let file = p.open("log", true);
        p.log(file, 0, 8192);
    }),
    ("reserved", OpKind::Fdatasync, 3.0, |p| {
        let file = p.open("redo", true);
        p.on(OpKind::Fallocate, file, 0, 1 << 20);
        p.on(OpKind::Fsync, file, 0, 0);
        p.log(file, 0, 4096);
    }),
    ("starts", OpKind::SyncFileRange, 3.0, |p| {
        for name in 0..30 {
            p.started(&format!("{name}"));
        }
    }),
    (
        "started and made stable one by one",
        OpKind::Fsync,
        10.0,
        |p| {
            for name in 0..30 {
                let file = p.started(&format!("{name}"));
                p.on(OpKind::Fsync, file, 0, 0);
            }
        },
    ),
    ("started, then made stable", OpKind::Fsync, 10.0, |p| {
        for name in 0..30 {
            p.started(&format!("{name}"));
        }
        for file in 0..30 {
            p.on(OpKind::Fsync, file, 0, 0);
        }
    }),
];

#[test]
fn each_state_of_a_sync_costs_what_is_to_be_done() {
    let truth = Truth::built_in("disk").unwrap();
    let request = ProfileRequest {
        quick: true,
        seed: 7,
        ..ProfileRequest::default()
    };
    let (fs, stop) = (
        MemFs::new("mem:disk", truth.clone()),
        AtomicBool::new(false),
    );
    let environment = Environment::default();
    let profile = fsage_profile::run(&request, &fs, environment, &mut |_| {}, &stop).unwrap();
    let mut wrong = Vec::new();
    for &(name, kind, bound, body) in ROWS {
        let mut program = Program {
            fs: MemFs::new("mem:disk", truth.clone()),
            paths: PathTable::new(),
            ops: Vec::new(),
            open: Vec::new(),
        };
        body(&mut program);
        let options = Options {
            start: Start::Warm,
            ..Options::default()
        };
        let vector = SystemVector::from_profile(&profile).0;
        let (mut predictor, mut latencies) =
            (Predictor::new(options, vec![vector]), Latencies::default());
        for op in &program.ops {
            predictor
                .push_annotated(op, &program.paths, &mut latencies)
                .unwrap();
        }
        let of_kind = program
            .ops
            .iter()
            .zip(&latencies.0)
            .filter(|(op, _)| op.kind == kind);
        let (measured, predicted) = of_kind.fold((0.0, 0.0), |(m, p), (op, &ns)| {
            (
                m + (op.latency_ns.unwrap() - truth.machine.entry_exit_ns) as f64,
                p + ns,
            )
        });
        let percent = 100.0 * (predicted / measured - 1.0);
        if percent.abs() > bound {
            wrong.push(format!(
                "{name}: {percent:+.1} %, at most {bound}: {measured} ns"
            ));
        }
    }
    assert_eq!(wrong, [] as [String; 0]);
}

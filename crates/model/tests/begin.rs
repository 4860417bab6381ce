//! A server whose files are made while it is traced: its threads begin when the files are there, and read of them as much.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_model::fsm::{Gather, Generator, Model, Options, fit};

const DIRECTORIES: u64 = 30;
const FILES: u64 = 300;
const THREADS: u32 = 8;
const READS: u64 = 400;
const LOG: &[u8] = b"/t/log";
const LOG_BYTES: u64 = 50_000;

/// Puts operations into a model, one after the other.
struct Trace {
    gather: Gather,
    paths: PathTable,
    tid: u32,
    now_ns: u64,
}

impl Trace {
    fn add(&mut self, kind: OpKind, path: Option<&[u8]>, change: &dyn Fn(&mut Op)) {
        let mut op = Op::new(kind, Pid(1), Tid(self.tid), self.now_ns);
        op.path = path.and_then(|path| self.paths.intern(path));
        op.latency_ns = Some(500);
        op.result = Outcome::ok(0);
        change(&mut op);
        self.now_ns += 1000;
        self.gather.take(&op, &self.paths);
    }

    fn open(&mut self, path: &[u8], flags: u32, fd: u64) {
        self.add(OpKind::Open, Some(path), &|op| {
            (op.flags, op.result) = (flags, Outcome::ok(fd));
        });
    }

    fn moves(&mut self, kind: OpKind, fd: i32, offset: u64, (asked, moved): (u64, u64)) {
        self.add(kind, None, &|op| {
            (op.fd, op.offset, op.length) = (Some(Fd(fd)), Some(offset), Some(asked));
            (op.result, op.record) = (Outcome::ok(moved), OpFlags::IMPLICIT_OFFSET);
        });
    }

    fn close(&mut self, fd: i32) {
        self.add(OpKind::Close, None, &|op| op.fd = Some(Fd(fd)));
    }
}

/// A tree of directories, three in each.
fn directory(number: u64) -> String {
    match number {
        0 => "/t/d0".into(),
        n => format!("{}/d{n}", directory((n - 1) / 3)),
    }
}

fn file(number: u64) -> (String, u64) {
    let path = format!("{}/f{number}", directory(number * 7 % DIRECTORIES));
    (path, 1000 + number * number)
}

/// What is read and what the log gets, and the model.
fn served() -> (u64, u64, Model) {
    let mut trace = Trace {
        gather: Gather::new(&[]),
        paths: PathTable::new(),
        tid: 1,
        now_ns: 0,
    };
    for number in 0..DIRECTORIES {
        trace.add(OpKind::Mkdir, Some(directory(number).as_bytes()), &|_| {});
    }
    for number in 0..FILES {
        let (path, bytes) = file(number);
        trace.open(path.as_bytes(), 0o102, 3);
        trace.moves(OpKind::Write, 3, 0, (bytes, bytes));
        trace.close(3);
    }
    trace.open(LOG, 0o102, 3);
    trace.moves(OpKind::Write, 3, 0, (1, 1));
    trace.close(3);
    let (mut read, mut log_bytes) = (0, 1);
    for thread in 0..THREADS {
        trace.tid = 2 + thread;
        trace.open(LOG, 2, u64::from(10 + thread));
    }
    for turn in 0..READS {
        for thread in 0..THREADS {
            trace.tid = 2 + thread;
            // Large files are read more often.
            let any = (turn * u64::from(THREADS) + u64::from(thread)) * 7919 % (FILES * FILES);
            let (path, bytes) = file(any.isqrt());
            trace.open(path.as_bytes(), 0, 30);
            trace.moves(OpKind::Read, 30, 0, (1 << 20, bytes));
            trace.moves(OpKind::Read, 30, bytes, (1 << 20, 0));
            trace.close(30);
            read += bytes;
            if turn % 10 == 0 {
                trace.moves(
                    OpKind::Write,
                    10 + thread as i32,
                    log_bytes,
                    (LOG_BYTES, LOG_BYTES),
                );
                log_bytes += LOG_BYTES;
            }
        }
    }
    (read, log_bytes, fit(trace.gather).unwrap())
}

#[test]
fn threads_begin_when_their_files_are_there_and_read_as_much_of_them() {
    let (read, log_bytes, model) = served();
    let text = model.text().unwrap();
    assert!(
        text.contains("begin_ns") && text.contains("new_directory"),
        "{text}"
    );
    let model = Arc::new(Model::parse(&text).unwrap());
    let mut played = Generator::new(model, Options::default()).unwrap();
    let mut sum = 0;
    let mut open: BTreeMap<(u32, i32), Arc<[u8]>> = BTreeMap::new();
    let mut by_path: BTreeMap<Arc<[u8]>, u64> = BTreeMap::new();
    let mut deepest = 0;
    while let Some((_, batch)) = played.any() {
        for call in batch.calls {
            let at = call.op.fd.map(|fd| (call.op.pid.0, fd.0));
            match call.op.kind {
                OpKind::Open => {
                    let path = call.path.unwrap();
                    deepest = deepest.max(path.split(|b| *b == b'/').count() - 1);
                    open.insert(
                        (call.op.pid.0, call.op.result.value().unwrap() as i32),
                        path,
                    );
                }
                OpKind::Read => sum += call.op.bytes_moved(),
                OpKind::Write => {
                    *by_path.entry(Arc::clone(&open[&at.unwrap()])).or_default() +=
                        call.op.bytes_moved();
                }
                _ => {}
            }
        }
    }
    assert!(sum.abs_diff(read) * 50 < read, "{sum} {read}");
    let most = by_path.values().max().unwrap();
    // But for what it begins with, which is like that of any file.
    assert!(
        most.abs_diff(log_bytes) < 2 * LOG_BYTES,
        "{most} {log_bytes}"
    );
    // A tree of thirty, three in each, is four deep, and its files one more.
    assert!(deepest <= 8, "{deepest}");
}

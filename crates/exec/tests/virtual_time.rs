//! Streams over a target in virtual time.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fifo;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use fifo::{Fifo, Kept};
use fsage_core::{
    Clock, ColdLevel, Errno, Fd, Op, OpFlags, OpKind, OpSource, Outcome, PathTable, Pid,
    SourceError, Tid, VecSource, Wait,
};
use fsage_exec::{ExecError, Measuring, Options, Origin, RunResult, SinkSummary, run, run_direct};
use fsage_workload::postmark::{Config, PostMark};

type Stream = Box<dyn OpSource + Send>;

fn op(stream: u32, kind: OpKind) -> Op {
    let mut op = Op::new(kind, Pid(stream), Tid(stream), 0);
    op.fd = Some(Fd(3));
    op
}

fn pread(stream: u32) -> Op {
    let mut op = op(stream, OpKind::Read);
    (op.offset, op.length, op.result) = (Some(0), Some(10), Outcome::ok(10));
    op
}

/// A stream of one open file on which `ops` are done.
fn stream(number: u32, name: &str, ops: impl IntoIterator<Item = Op>) -> VecSource {
    let mut paths = PathTable::new();
    let mut open = Op::new(OpKind::Open, Pid(number), Tid(number), 0);
    open.path = paths.intern(name.as_bytes());
    open.result = Outcome::ok(3);
    VecSource::new(paths, [open].into_iter().chain(ops).collect())
}

/// A stream that asks a function before each batch.
struct Paced<F>(VecSource, F, Option<Arc<AtomicUsize>>);

impl<F: FnMut(u64) -> Wait> OpSource for Paced<F> {
    fn paths(&self) -> &PathTable {
        self.0.paths()
    }
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        self.0.next_batch(batch)
    }
    fn time(&mut self, now_ns: u64) {
        if let Some(time) = &self.2 {
            time.store(now_ns as usize, Ordering::Relaxed);
        }
    }
    fn wait(&mut self) -> Wait {
        let now_ns = self.2.as_ref().map_or(0, |t| t.load(Ordering::Relaxed));
        (self.1)(now_ns as u64)
    }
}

fn origin() -> Origin {
    Origin {
        start_ns: 0,
        directory: b"/t/dir".to_vec(),
        is_virtual: true,
        empty_call_ns: 0,
    }
}

fn measured(sources: Vec<Stream>, options: &Options<'_>) -> (RunResult, Kept, SinkSummary) {
    let fs = Fifo::default();
    let measuring = Measuring::begin(Kept::default(), origin()).unwrap();
    let options = Options {
        measured: Some(measuring.door()),
        ..*options
    };
    let result = run(&fs, sources, &options).unwrap();
    let (kept, reported) = measuring.finish();
    (result, kept, reported.unwrap())
}

/// Open: 100. First reads: both ask the device at 200, the first is served until 1200, the second until
/// 2200. Second reads: asked at 1300, served from 2200 to 3200; asked at 2300, served until 4200.
#[test]
fn two_streams_queue_at_the_device_as_computed_by_hand() {
    let sources: Vec<Stream> = (0..2)
        .map(|n| Box::new(stream(n, "f", [pread(n), pread(n)])) as Stream)
        .collect();
    let (result, kept, reported) = measured(sources, &Options::default());
    let seen: Vec<_> = kept
        .ops
        .iter()
        .map(|op| (op.kind, op.tid.0, op.start_ns, op.latency_ns.unwrap()))
        .collect();
    assert_eq!(
        seen,
        [
            (OpKind::Open, 0, 0, 100),
            (OpKind::Open, 1, 0, 100),
            (OpKind::Read, 0, 100, 1100),
            (OpKind::Read, 1, 100, 2100),
            (OpKind::Read, 0, 1200, 2000),
            (OpKind::Read, 1, 2200, 2000),
        ]
    );
    let device = |op: &Op| op.record.contains(OpFlags::DEVICE) == (op.kind == OpKind::Read);
    assert!(kept.ops.iter().all(device));
    assert_eq!(
        (
            reported.operations,
            reported.late,
            reported.end_ns,
            reported.held_back_ns
        ),
        (6, 0, 4200, 0)
    );
    let read = &result.kinds[&OpKind::Read];
    assert_eq!((read.count, read.latency_total_ns), (4, 7200));
    let ends: Vec<u64> = result.streams.iter().map(|s| s.elapsed_ns).collect();
    assert_eq!((result.elapsed_ns, ends), (4200, vec![3200, 4200]));
    assert_eq!((result.cpu_ns, result.run_delay_ns), (0, None));
    assert_eq!(kept.text(kept.ops[0].path), "f");
    assert_eq!(kept.text(kept.ops[0].dir), "/t/dir");
}

/// Three runs, before the last two of which caches are made cold for so long: all of their operations, and the end.
fn made_cold_between(cold_ns: u64) -> (Kept, u64) {
    let fs = Fifo::default();
    let measuring = Measuring::begin(Kept::default(), origin()).unwrap();
    let options = Options {
        measured: Some(measuring.door()),
        ..Options::default()
    };
    let sources = || (0..2).map(|n| Box::new(stream(n, "f", [pread(n)])) as Stream);
    for level in [ColdLevel::Everything, ColdLevel::DataOnly] {
        run(&fs, sources().collect(), &options).unwrap();
        let from_ns = fsage_core::FileSystem::clock(&fs).now_ns();
        let to_ns = from_ns + cold_ns;
        let time = fsage_core::FileSystem::virtual_time(&fs).unwrap();
        time.rest_until(to_ns);
        measuring.door().made_cold(Some(level), (from_ns, to_ns));
    }
    run(&fs, sources().collect(), &options).unwrap();
    let (kept, reported) = measuring.finish();
    let reported = reported.unwrap();
    assert_eq!(reported.operations, 12);
    (kept, reported.end_ns)
}

#[test]
fn the_first_operation_after_caches_were_made_cold_says_so() {
    let (kept, end_ns) = made_cold_between(50_000_000);
    // What that took is no time of the operations'.
    assert_eq!(end_ns, made_cold_between(0).1 + 2);
    let mask = OpFlags::COLD_DATA.0 | OpFlags::COLD_NAMES.0;
    let cold: Vec<u16> = kept.ops.iter().map(|op| op.record.0 & mask).collect();
    assert_eq!(cold, [0, 0, 0, 0, 1536, 0, 0, 0, 512, 0, 0, 0]);
}

fn postmarks() -> Vec<Stream> {
    (0..8)
        .map(|n| {
            let spec = format!("postmark:files=40,transactions=300,seed={n},size=100-9000");
            let fsage_workload::WorkloadSpec::Generated { values, .. } = spec.parse().unwrap()
            else {
                panic!("a command")
            };
            Box::new(PostMark::new(&Config::from_values(&values))) as Stream
        })
        .collect()
}

#[test]
fn two_runs_are_the_same() {
    let options = Options {
        series_interval_ns: 1_000,
        ..Options::default()
    };
    let (first, a, reported) = measured(postmarks(), &options);
    let (second, b, _) = measured(postmarks(), &options);
    assert_eq!(first, second);
    assert!(a.ops == b.ops && a.paths.len() == b.paths.len());
    assert_eq!(reported.operations, first.operations);
    assert!(first.series.len() > 100 && first.operations > 5_000);
    let sum: u64 = a.ops.iter().map(|op| op.latency_ns.unwrap()).sum();
    assert_eq!(sum, first.latency_total_ns);
    assert!(a.ops.windows(2).all(|w| w[0].start_ns <= w[1].start_ns));
}

#[test]
fn rests_limits_and_counts_go_by_the_targets_clock() {
    // It rests a second before each batch; there is one batch of open and read.
    let mut rests = [
        Wait::Pause(600_000_000),
        Wait::Compute(400_000_000),
        Wait::Ready,
    ]
    .into_iter()
    .cycle();
    let paced = Paced(
        stream(1, "f", [pread(1)]),
        move |_| rests.next().unwrap(),
        None,
    );
    let (result, kept, _) = measured(vec![Box::new(paced)], &Options::default());
    assert_eq!(kept.ops[0].start_ns, 1_000_000_000);
    // The second batch, which is the end, comes after a second second.
    assert_eq!(result.elapsed_ns, 2_000_001_200);

    let limited = Options {
        run_for_ns: Some(10_500),
        ..Options::default()
    };
    let endless = |n: u32| Box::new(Endless(stream(n, "f", []), n)) as Stream;
    let (result, ..) = measured(vec![endless(0)], &limited);
    // Batches of one read of 1100 after an open of 100: the tenth begins at 10,000 and is the last.
    assert_eq!((result.operations, result.elapsed_ns), (11, 11_100));
    assert!(!result.interrupted);

    let counted = Options {
        most_operations: Some(4),
        ..Options::default()
    };
    let never = Paced(stream(9, "f", []), |_| Wait::Blocked, None);
    let (result, ..) = measured(vec![endless(0), Box::new(never)], &counted);
    assert_eq!((result.operations, result.interrupted), (4, false));
}

/// An open, then reads one by one for ever.
struct Endless(VecSource, u32);

impl OpSource for Endless {
    fn paths(&self) -> &PathTable {
        self.0.paths()
    }
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        if self.0.next_batch(batch)? == 0 {
            batch.push(pread(self.1));
        }
        Ok(1)
    }
}

#[test]
fn who_waits_goes_on_when_another_lets_it_and_in_vain_is_reported_at_once() {
    let posted = Arc::new(AtomicBool::new(false));
    let (post, wait) = (Arc::clone(&posted), posted);
    let mut batches = 0;
    let poster = Paced(
        stream(0, "f", [pread(0)]),
        move |_| {
            batches += 1;
            if batches == 1 {
                return Wait::Pause(5_000);
            }
            post.store(true, Ordering::Relaxed);
            Wait::Ready
        },
        None,
    );
    let waiter = |wait: Arc<AtomicBool>| {
        Paced(
            stream(1, "f", [pread(1)]),
            move |_| {
                if wait.load(Ordering::Relaxed) {
                    Wait::Ready
                } else {
                    Wait::Blocked
                }
            },
            None,
        )
    };
    let sources: Vec<Stream> = vec![Box::new(waiter(Arc::clone(&wait))), Box::new(poster)];
    let (_, kept, _) = measured(sources, &Options::default());
    assert!(kept.ops.iter().all(|op| op.start_ns >= 5_000));
    assert_eq!(kept.ops.len(), 4);

    wait.store(false, Ordering::Relaxed);
    let sources: Vec<Stream> = vec![
        Box::new(waiter(Arc::clone(&wait))),
        Box::new(stream(2, "f", [pread(2)])),
        Box::new(waiter(wait)),
    ];
    let error = run(&Fifo::default(), sources, &Options::default()).unwrap_err();
    assert!(matches!(&error, ExecError::Deadlock { streams, .. } if *streams == [0, 2]));
    let said = "streams 0, 2 all wait for one another; expected one of them to go on";
    assert_eq!(error.to_string(), said);
}

#[test]
fn an_error_that_ends_the_run_ends_it_when_it_comes() {
    let mut write = op(0, OpKind::Write);
    (write.offset, write.length, write.result) = (Some(0), Some(5), Outcome::ok(5));
    // It fails at 2400, as the others' second reads are served.
    let failing = stream(0, "f", [pread(0), write, pread(0)]);
    let others: Vec<Stream> = vec![Box::new(failing), Box::new(Endless(stream(1, "f", []), 1))];
    let options = Options {
        end_on_fatal: true,
        ..Options::default()
    };
    let (result, kept, _) = measured(others, &options);
    let broken = result.broken.unwrap();
    assert_eq!((broken.kind, broken.actual), (OpKind::Write, -28));
    assert!(result.interrupted);
    // Open, read, write of the one; open and the reads that had begun of the other.
    let by = |tid| kept.ops.iter().filter(|op| op.tid == Tid(tid)).count();
    assert_eq!((by(0), by(1)), (3, 2));
    let failed = kept.ops.iter().find(|op| op.kind == OpKind::Write).unwrap();
    assert_eq!(failed.result.errno(), Some(Errno::ENOSPC));
}

#[test]
fn without_measuring_the_clock_goes_on_the_same() {
    let fs = Fifo::default();
    let missing = stream(0, "missing", [pread(0)]);
    let sources: Vec<Stream> = vec![
        Box::new(missing),
        Box::new(stream(1, "f", [pread(1), pread(1)])),
    ];
    let done = run_direct(&fs, sources, &Options::default()).unwrap();
    assert_eq!((done.operations, done.unexpected, done.skipped), (4, 1, 1));
    assert_eq!(done.first_error, Some(Errno::ENOENT));
    // Two reads after an open, and the close of what was left open.
    assert_eq!(fs.now_ns(), 2400);
}

#[test]
fn a_sink_that_takes_no_more_ends_the_run_and_says_why() {
    let kept = Kept {
        most: Some(100),
        ..Kept::default()
    };
    let measuring = Measuring::begin(kept, origin()).unwrap();
    let options = Options {
        measured: Some(measuring.door()),
        ..Options::default()
    };
    let endless: Stream = Box::new(Endless(stream(0, "f", []), 0));
    let result = run(&Fifo::default(), vec![endless], &options).unwrap();
    assert!(result.interrupted);
    let (kept, reported) = measuring.finish();
    assert_eq!(kept.ops.len(), 100);
    assert_eq!(reported.unwrap_err().to_string(), "no space is left");
}

/// Names that a stream gives in any form are told below the directory.
#[test]
fn names_are_reported_below_the_directory() {
    let mut paths = PathTable::new();
    let mut ops = Vec::new();
    let mut add = |kind, path: &str, path2: Option<&str>, dir: Option<&str>| {
        let mut op = Op::new(kind, Pid(1), Tid(1), 0);
        op.path = paths.intern(path.as_bytes());
        op.path2 = path2.and_then(|p| paths.intern(p.as_bytes()));
        op.dir = dir.and_then(|p| paths.intern(p.as_bytes()));
        ops.push(op);
    };
    add(OpKind::Stat, "a/b", None, None);
    add(OpKind::Stat, "/a/b", None, None);
    add(OpKind::Stat, "b", None, Some("/a"));
    add(OpKind::Stat, "b", None, Some("c"));
    add(OpKind::Rename, "a", Some("/b"), None);
    add(OpKind::Symlink, "s", Some("/b"), None);
    let (_, kept, _) = measured(
        vec![Box::new(VecSource::new(paths, ops))],
        &Options::default(),
    );
    let reported: Vec<_> = kept
        .ops
        .iter()
        .map(|op| [op.path, op.path2, op.dir].map(|id| kept.text(id)))
        .collect();
    let expected = [
        ["a/b", "", "/t/dir"],
        ["/t/dir/a/b", "", "/t/dir"],
        ["b", "", "/t/dir/a"],
        ["b", "", "/t/dir/c"],
        ["a", "/t/dir/b", "/t/dir"],
        ["s", "/b", "/t/dir"],
    ];
    assert_eq!(reported, expected.map(|row| row.map(str::to_owned)));
}

/// The time that streams are told, and a stream that comes late to nothing.
#[test]
fn streams_are_reported_the_targets_time() {
    let time = Arc::new(AtomicUsize::new(0));
    let reported = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&reported);
    let paced = Paced(
        stream(1, "f", [pread(1)]),
        move |now_ns| {
            kept.lock().unwrap().push(now_ns);
            Wait::Ready
        },
        Some(time),
    );
    let result = run(&Fifo::default(), vec![Box::new(paced)], &Options::default()).unwrap();
    assert_eq!((*reported.lock().unwrap()).as_slice(), [0, 1200]);
    assert_eq!(result.elapsed_ns, 1200);
}

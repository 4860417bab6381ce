//! The executor on the engine that does nothing and on a real directory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{
    Errno, Fd, FileSystem, Op, OpFlags, OpKind, OpSource, Outcome, PathTable, Pid, Seed,
    SourceError, Tid, VecSource, Wait,
};
use fsage_exec::{
    ExecError, KindResult, NullFs, Options, RunResult, StreamResult, run, run_direct,
};
use fsage_host::{Confinement, HostFs, HostOptions};
use fsage_workload::WorkloadSpec;
use fsage_workload::postmark::{Config, PostMark};

const SPECS: [&str; 3] = [
    "postmark:files=80,transactions=300,size=100-9000,subdirs=4",
    "postmark:files=50,transactions=200,buffering=false,seed=9",
    "postmark:files=20,transactions=50,size=3000000-3100000,write=3000000,read=2500000",
];

fn host(dir: &Path) -> HostFs {
    let options = HostOptions {
        confinement: Confinement::Trusted,
        ..HostOptions::default()
    };
    HostFs::open(dir, options).unwrap()
}

fn config(spec: &str) -> Config {
    match spec.parse().unwrap() {
        WorkloadSpec::Generated { values, .. } => Config::from_values(&values),
        WorkloadSpec::Command(_) => panic!("{spec} is a command"),
    }
}

/// PostMark's whole history as one stream.
fn source(spec: &str) -> Box<dyn OpSource + Send> {
    Box::new(PostMark::new(&config(spec)))
}

fn all_ops(spec: &str) -> (Vec<Op>, PathTable) {
    let mut source = source(spec);
    let mut ops = Vec::new();
    while source.next_batch(&mut ops).unwrap() > 0 {}
    (ops, source.paths().clone())
}

/// A stream written by hand.
#[derive(Default)]
struct Script {
    paths: PathTable,
    ops: Vec<Op>,
}

impl Script {
    fn op(&mut self, kind: OpKind) -> &mut Op {
        self.ops.push(Op::new(kind, Pid(1), Tid(1), 0));
        self.ops.last_mut().unwrap()
    }

    fn named(&mut self, kind: OpKind, path: &str) -> &mut Op {
        let id = self.paths.intern(path.as_bytes());
        let op = self.op(kind);
        op.path = id;
        op
    }

    fn renamed(&mut self, kind: OpKind, path: &str, path2: &str) -> &mut Op {
        let id = self.paths.intern(path2.as_bytes());
        let op = self.named(kind, path);
        op.path2 = id;
        op
    }

    fn open(&mut self, path: &str, flags: u32, fd: i32) -> &mut Op {
        let op = self.named(OpKind::Open, path);
        op.flags = flags;
        op.result = Outcome::ok(fd as u64);
        op
    }

    fn on(&mut self, kind: OpKind, fd: i32) -> &mut Op {
        let op = self.op(kind);
        op.fd = Some(Fd(fd));
        op
    }

    fn transfer(&mut self, kind: OpKind, fd: i32, offset: Option<u64>, length: u64, got: u64) {
        let op = self.on(kind, fd);
        op.offset = offset;
        op.length = Some(length);
        op.result = Outcome::ok(got);
        if offset.is_none() {
            op.record = OpFlags::IMPLICIT_OFFSET;
        }
    }

    fn source(&self) -> Box<dyn OpSource + Send> {
        Box::new(VecSource::new(self.paths.clone(), self.ops.clone()))
    }
}

fn counts(result: &RunResult) -> BTreeMap<OpKind, u64> {
    result
        .kinds
        .iter()
        .map(|(kind, r)| (*kind, r.count))
        .collect()
}

fn check_consistent(result: &RunResult) {
    let streams = &result.streams;
    let sum = |of: fn(&StreamResult) -> u64| streams.iter().map(of).sum::<u64>();
    assert_eq!(sum(|s| s.operations), result.operations);
    assert_eq!(sum(|s| s.bytes_read), result.bytes_read);
    assert_eq!(sum(|s| s.bytes_written), result.bytes_written);
    assert!(streams.iter().all(|s| s.elapsed_ns <= result.elapsed_ns));
    assert_eq!(
        result.kinds.values().map(|k| k.count).sum::<u64>(),
        result.operations
    );
    let latency: u64 = result.kinds.values().map(|k| k.latency_total_ns).sum();
    assert_eq!(latency, result.latency_total_ns);
    assert_eq!(
        result.series.iter().map(|p| p.operations).sum::<u64>(),
        result.operations
    );
    assert_eq!(
        result.series.iter().map(|p| p.latency_ns).sum::<u64>(),
        latency
    );
    for kind in result.kinds.values() {
        let ladder = [
            kind.p50_ns,
            kind.p90_ns,
            kind.p95_ns,
            kind.p99_ns,
            kind.p999_ns,
        ];
        assert!(ladder.windows(2).all(|w| w[0] <= w[1]));
        check_distribution(kind, &ladder);
    }
}

/// The quantiles, the maximum and the total are those of the distribution, within the width of its steps.
fn check_distribution(kind: &KindResult, ladder: &[u64; 5]) {
    let steps = &kind.distribution;
    assert_eq!(steps.iter().map(|d| d.1).sum::<u64>(), kind.count);
    assert!(steps.windows(2).all(|w| w[0].0 < w[1].0), "{steps:?}");
    let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 100 + 1;
    for (quantile, found) in [0.5, 0.9, 0.95, 0.99, 0.999].into_iter().zip(ladder) {
        let rank = (quantile * kind.count as f64).ceil().max(1.0) as u64;
        let at = |rank: u64| {
            let mut below = 0;
            let step = steps.iter().find(|d| {
                below += d.1;
                below >= rank
            });
            step.unwrap().0
        };
        // Of an even number the median lies between the two in the middle.
        let expected = if quantile < 0.6 && kind.count.is_multiple_of(2) {
            u64::midpoint(at(rank), at(rank + 1))
        } else {
            at(rank)
        };
        assert!(
            near(*found, expected),
            "{quantile}: {found}, expected {expected}"
        );
    }
    assert!(near(kind.max_ns, steps.last().unwrap().0), "{kind:?}");
    let total = steps.iter().map(|d| d.0 * d.1).sum::<u64>();
    let apart = total.abs_diff(kind.latency_total_ns);
    assert!(apart <= total / 50 + kind.count, "{total} {kind:?}");
}

#[test]
fn every_operation_is_accounted_for_on_nothing_and_on_a_directory() {
    for spec in SPECS {
        let mut expected: BTreeMap<OpKind, u64> = BTreeMap::new();
        let (ops, _) = all_ops(spec);
        for op in &ops {
            *expected.entry(op.kind).or_default() += 1;
        }
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let real = host(dir.path());
        for fs in [&NullFs as &dyn FileSystem, &real] {
            let result = run(fs, vec![source(spec)], &Options::default()).unwrap();
            check_consistent(&result);
            assert_eq!(counts(&result), expected, "{spec} on {}", fs.name());
            assert!(result.skipped.is_empty() && !result.interrupted);
            let single_thread = result.elapsed_ns >= result.latency_total_ns;
            assert!(single_thread, "operations of one stream do not overlap");
        }
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            0,
            "{spec} deletes its files"
        );
    }
}

#[test]
fn a_real_directory_answers_as_postmark_expects() {
    for spec in SPECS {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let result = run(&host(dir.path()), vec![source(spec)], &Options::default()).unwrap();
        assert_eq!(
            (result.unexpected, &result.mismatches[..]),
            (0, &[][..]),
            "{spec}"
        );
        let mut generator = PostMark::new(&config(spec));
        let mut ops = Vec::new();
        while generator.next_batch(&mut ops).unwrap() > 0 {}
        assert_eq!(result.bytes_read, generator.tally().bytes_read);
        assert_eq!(result.bytes_written, generator.tally().bytes_written);
        let direct =
            run_direct(&host(dir.path()), vec![source(spec)], &Options::default()).unwrap();
        assert_eq!(
            (direct.operations, direct.unexpected),
            (ops.len() as u64, 0)
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn streams_run_side_by_side() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut scripts = Vec::new();
    for i in 0..4 {
        let mut s = Script::default();
        for j in 0..50 {
            // All streams use the same descriptor: processes have tables of their own.
            s.open(&format!("f{i}-{j}"), 0o102, 3);
            s.transfer(OpKind::Write, 3, None, 1000, 1000);
            s.on(OpKind::Close, 3);
        }
        for op in &mut s.ops {
            op.pid = Pid(1 + i);
        }
        scripts.push(s.source());
    }
    let result = run(&host(dir.path()), scripts, &Options::default()).unwrap();
    check_consistent(&result);
    assert_eq!((result.operations, result.unexpected), (600, 0));
    assert_eq!(result.bytes_written, 200_000);
    let contents: Vec<Vec<u8>> = (0..4)
        .map(|i| fs::read(dir.path().join(format!("f{i}-7"))).unwrap())
        .collect();
    assert!(contents.iter().all(|c| c.len() == 1000));
    assert!(
        contents.windows(2).all(|w| w[0] != w[1]),
        "streams write different bytes"
    );
}

#[test]
fn calls_of_every_family_do_what_they_say() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut s = Script::default();
    s.named(OpKind::Mkdir, "d").flags = 0o755;
    s.open("d/a", 0o102, 3);
    s.transfer(OpKind::Write, 3, Some(5000), 3_000_000, 3_000_000);
    s.transfer(OpKind::Read, 3, None, 100, 100);
    s.transfer(OpKind::Read, 3, Some(3_004_900), 4096, 100);
    s.on(OpKind::Dup, 3).result = Outcome::ok(4);
    s.on(OpKind::Close, 3);
    let seek = s.on(OpKind::Seek, 4);
    (seek.flags, seek.offset, seek.result) = (2, Some(0), Outcome::ok(3_005_000));
    s.transfer(OpKind::Write, 4, None, 10, 10);
    s.on(OpKind::Ftruncate, 4).length = Some(3_005_005);
    let fault = s.on(OpKind::Fault, 4);
    (fault.offset, fault.length, fault.flags) = (Some(0), Some(4096), 1);
    for kind in [
        OpKind::Fstat,
        OpKind::Fsync,
        OpKind::Fdatasync,
        OpKind::Fstatfs,
        OpKind::Close,
    ] {
        s.on(kind, 4);
    }
    s.renamed(OpKind::Link, "d/a", "d/b");
    s.renamed(OpKind::Symlink, "d/s", "b");
    s.renamed(OpKind::Rename, "d/b", "c");
    s.named(OpKind::Readlink, "d/s").result = Outcome::ok(1);
    s.named(OpKind::Stat, "d/s").result = Outcome::err(Errno::ENOENT);
    s.named(OpKind::Stat, "d/s").flags = 0x100;
    s.named(OpKind::Access, "c").flags = 4;
    s.named(OpKind::Truncate, "c").length = Some(77);
    s.named(OpKind::Chmod, "c").flags = 0o600;
    s.named(OpKind::Unlink, "d/s");
    s.named(OpKind::Rmdir, "d").result = Outcome::err(Errno::ENOTEMPTY);
    s.open("d", 0o200_000, 5);
    s.on(OpKind::Readdir, 5).result = Outcome::ok(72);
    s.on(OpKind::Readdir, 5);
    s.on(OpKind::Lock, 5);
    let result = run(&host(dir.path()), vec![s.source()], &Options::default()).unwrap();
    assert_eq!((result.unexpected, &result.mismatches[..]), (0, &[][..]));
    let (kept, renamed) = (dir.path().join("d/a"), dir.path().join("c"));
    assert_eq!(fs::read(&renamed).unwrap().len(), 77);
    let (kept, renamed) = (fs::metadata(kept).unwrap(), fs::metadata(renamed).unwrap());
    assert_eq!((kept.ino(), kept.nlink()), (renamed.ino(), 2));
    assert_eq!(kept.mode() & 0o7777, 0o600);
    let names = |path: &str| {
        let entries = fs::read_dir(dir.path().join(path)).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!((names("").len(), names("d")), (2, vec!["a".into()]));
    assert_eq!((result.bytes_read, result.bytes_written), (200, 3_000_010));
    assert_eq!(
        result.kinds[&OpKind::Stat].errors,
        [(Errno::ENOENT.0, 1)].into()
    );
    assert_eq!(
        result.kinds[&OpKind::Rmdir].errors,
        [(Errno::ENOTEMPTY.0, 1)].into()
    );
    let skipped = [
        (OpKind::Close, 1),
        (OpKind::Dup, 1),
        (OpKind::Readdir, 1),
        (OpKind::Lock, 1),
    ];
    assert_eq!(result.skipped, skipped.into());
    assert_eq!(result.operations + 4, s.ops.len() as u64);
}

#[test]
fn what_was_not_expected_is_reported() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::write(dir.path().join("short"), b"12345").unwrap();
    let mut s = Script::default();
    s.open("missing", 0, 3);
    s.transfer(OpKind::Read, 3, None, 10, 10);
    s.open("short", 0, 4);
    s.transfer(OpKind::Read, 4, None, 10, 10);
    s.named(OpKind::Unlink, "short").result = Outcome::err(Errno::EPERM);
    let result = run(&host(dir.path()), vec![s.source()], &Options::default()).unwrap();
    let reported: Vec<_> = result
        .mismatches
        .iter()
        .map(|m| (m.index, m.kind, m.expected, m.actual))
        .collect();
    assert_eq!(
        reported,
        [
            (0, OpKind::Open, 3, -2),
            (3, OpKind::Read, 10, 5),
            (4, OpKind::Unlink, -1, 0),
        ]
    );
    assert_eq!(result.mismatches[0].path, "missing");
    assert_eq!((result.unexpected, result.skipped[&OpKind::Read]), (3, 1));
}

#[test]
fn a_stop_ends_the_run_and_keeps_what_there_is() {
    let stop = AtomicBool::new(true);
    let options = Options {
        stop: Some(&stop),
        ..Options::default()
    };
    let result = run(&NullFs, vec![source(SPECS[0])], &options).unwrap();
    assert!(result.interrupted && result.operations == 0);
    stop.store(false, Ordering::Relaxed);
    let whole = run(&NullFs, vec![source(SPECS[0])], &options).unwrap();
    let operations = all_ops(SPECS[0]).0.len() as u64;
    assert_eq!((whole.interrupted, whole.operations), (false, operations));
}

struct Broken(PathTable, bool);

impl OpSource for Broken {
    fn paths(&self) -> &PathTable {
        &self.0
    }
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        if std::mem::replace(&mut self.1, true) {
            return Err(SourceError::new("row 7 of 'x' is torn"));
        }
        batch.push(Op::new(OpKind::Sync, Pid(1), Tid(1), 0));
        Ok(1)
    }
}

#[test]
fn a_broken_stream_is_an_error_that_names_it() {
    let broken = Box::new(Broken(PathTable::new(), false));
    let error = run(&NullFs, vec![source(SPECS[0]), broken], &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "stream 1 broke off after 1 operations");
    let ExecError::Source { source, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(source.to_string(), "row 7 of 'x' is torn");
}

/// Syncs without end, paced by what `wait` says.
struct Paced<F>(PathTable, F);

impl<F: FnMut() -> Wait> OpSource for Paced<F> {
    fn paths(&self) -> &PathTable {
        &self.0
    }
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        batch.push(Op::new(OpKind::Sync, Pid(1), Tid(1), 0));
        Ok(1)
    }
    fn wait(&mut self) -> Wait {
        (self.1)()
    }
}

fn paced(wait: impl FnMut() -> Wait + Send + 'static) -> Box<dyn OpSource + Send> {
    Box::new(Paced(PathTable::new(), wait))
}

#[test]
fn time_ends_a_run_between_batches_and_during_rests() {
    let options = Options {
        run_for_ns: Some(30_000_000),
        ..Options::default()
    };
    let resting = paced(|| Wait::Pause(3_600_000_000_000));
    let busy = paced(|| Wait::Ready);
    let waiting = paced(|| Wait::Blocked);
    let result = run(&NullFs, vec![resting, busy, waiting], &options).unwrap();
    let done: Vec<u64> = result.streams.iter().map(|s| s.operations).collect();
    assert!(!result.interrupted && done[1] > 0);
    assert_eq!(
        done,
        [0, result.operations, 0],
        "who rests or waits does nothing"
    );
    assert!(result.elapsed_ns >= 30_000_000);
}

#[test]
fn rests_are_kept_and_a_blocked_stream_goes_on_once_it_may() {
    let (done, mut left) = (Arc::new(AtomicBool::new(false)), 4);
    let seen = Arc::clone(&done);
    let mut rested = true;
    let first = paced(move || {
        rested = !rested;
        if rested {
            return Wait::Ready;
        }
        left -= 1;
        if left == 0 {
            done.store(true, Ordering::Release);
        }
        Wait::Pause(if left < 0 { u64::MAX } else { 5_000_000 })
    });
    let second = paced(move || {
        if seen.load(Ordering::Acquire) {
            Wait::Ready
        } else {
            Wait::Blocked
        }
    });
    let options = Options {
        run_for_ns: Some(60_000_000),
        ..Options::default()
    };
    let result = run(&NullFs, vec![first, second], &options).unwrap();
    check_consistent(&result);
    // The first rests before each of its operations, and for good after the last.
    let done: Vec<u64> = result.streams.iter().map(|s| s.operations).collect();
    assert!(done[0] == 4 && done[1] > 0, "{done:?}");
}

#[test]
fn streams_that_all_wait_are_named() {
    let error = run(
        &NullFs,
        vec![
            source(SPECS[1]),
            paced(|| Wait::Blocked),
            paced(|| Wait::Blocked),
        ],
        &Options::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "streams 1, 2 all wait for one another since 10 s; expected one of them to go on"
    );
}

/// Whom the second waits for has done all that was asked of it: the run is over, soon and without error.
#[test]
fn streams_that_wait_for_one_that_reached_its_count_end() {
    let options = Options {
        most_operations: Some(5),
        ..Options::default()
    };
    let sources = vec![paced(|| Wait::Ready), paced(|| Wait::Blocked)];
    let result = run(&NullFs, sources, &options).unwrap();
    assert_eq!((result.operations, result.interrupted), (5, false));
    assert!(result.elapsed_ns < 5_000_000_000, "{}", result.elapsed_ns);
}

/// Computing takes processor time and can be stopped.
#[test]
fn a_stream_that_computes_ends_with_its_time() {
    let options = Options {
        run_for_ns: Some(60_000_000),
        ..Options::default()
    };
    let result = run(&NullFs, vec![paced(|| Wait::Compute(u64::MAX))], &options).unwrap();
    assert!(result.elapsed_ns >= 60_000_000 && result.operations == 0);
    assert!(result.cpu_ns > 5_000_000, "{}", result.cpu_ns);
}

#[test]
fn a_full_target_ends_the_run_and_is_named() {
    // Every write to /dev/full fails with ENOSPC.
    let full = host(Path::new("/dev"));
    let mut writes = Script::default();
    writes.open("full", 1, 3);
    for _ in 0..1000 {
        writes.transfer(OpKind::Write, 3, None, 10, 10);
    }
    let end = Options {
        end_on_fatal: true,
        ..Options::default()
    };
    let result = run(&full, vec![writes.source(), paced(|| Wait::Ready)], &end).unwrap();
    let broken = result.broken.unwrap();
    assert_eq!((broken.stream, broken.index, broken.actual), (0, 1, -28));
    assert!(result.interrupted);
    let on = run(&full, vec![writes.source()], &Options::default()).unwrap();
    assert_eq!((on.broken, on.unexpected), (None, 1000));
    assert_eq!(on.kinds[&OpKind::Write].errors[&Errno::ENOSPC.0], 1000);
}

#[test]
fn streams_of_one_process_share_its_files() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let opened = Arc::new(AtomicBool::new(false));
    let (set, seen) = (Arc::clone(&opened), opened);
    let mut opener = Script::default();
    opener.open("shared", 0o102, 3);
    let mut writer = Script::default();
    writer.transfer(OpKind::Write, 3, Some(0), 100, 100);
    // The first is asked again, after its batch; the second goes on from there.
    let mut asked = 0;
    let first = Gated(opener.source(), move || {
        asked += 1;
        set.store(asked == 2, Ordering::Release);
        Wait::Ready
    });
    let second = Gated(writer.source(), move || {
        if seen.load(Ordering::Acquire) {
            Wait::Ready
        } else {
            Wait::Blocked
        }
    });
    let fs = host(dir.path());
    let sources: Vec<Box<dyn OpSource + Send>> = vec![Box::new(first), Box::new(second)];
    let result = run(&fs, sources, &Options::default()).unwrap();
    assert_eq!((result.unexpected, result.bytes_written), (0, 100));
    assert!(result.skipped.is_empty());
    assert_eq!(fs::read(dir.path().join("shared")).unwrap().len(), 100);
}

/// A stream behind a gate.
struct Gated<F>(Box<dyn OpSource + Send>, F);

impl<F: FnMut() -> Wait> OpSource for Gated<F> {
    fn paths(&self) -> &PathTable {
        self.0.paths()
    }
    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        self.0.next_batch(batch)
    }
    fn wait(&mut self) -> Wait {
        (self.1)()
    }
}

#[test]
fn results_survive_json() {
    let options = Options {
        seed: Seed(5),
        ..Options::default()
    };
    let result = run(&NullFs, vec![source(SPECS[0])], &options).unwrap();
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
}

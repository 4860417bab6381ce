//! Replays over a target in virtual time.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::fifo;

use std::sync::atomic::AtomicBool;

use fifo::{Fifo, Kept};
use fsage_core::{
    DevId, Fd, FileId, Op, OpFlags, OpKind, Outcome, PathTable, Pid, Seed, Tid, VecSource,
};
use fsage_exec::replay::{
    Model, Order, Pace, Placement, ReplayOptions, ReplayRun, ReplayTree, replay, scan,
};
use fsage_exec::{Measuring, Origin};

/// Two threads of two processes, each with a file of its own under the same descriptor, begun at once and
/// going on after 10 us.
fn trace() -> VecSource {
    let mut paths = PathTable::new();
    let mut ops = Vec::new();
    for (start_ns, read) in [(0, false), (100, true), (10_000, true)] {
        for n in 1..=2 {
            let kind = if read { OpKind::Read } else { OpKind::Open };
            let mut op = Op::new(kind, Pid(n), Tid(n), start_ns + u64::from(n));
            op.latency_ns = Some(50);
            if read {
                op.fd = Some(Fd(3));
                (op.offset, op.length, op.result) = (Some(0), Some(10), Outcome::ok(10));
            } else {
                op.path = paths.intern(format!("/d/f{n}").as_bytes());
                op.result = Outcome::ok(3);
            }
            ops.push(op);
        }
    }
    VecSource::new(paths, ops)
}

fn replayed(pace: Pace, order: Order) -> (ReplayRun, Kept) {
    replayed_of(&trace, pace, order)
}

fn replayed_of(trace: &dyn Fn() -> VecSource, pace: Pace, order: Order) -> (ReplayRun, Kept) {
    let stop = AtomicBool::new(false);
    let found = scan(&mut trace(), ReplayTree::new(true), b"/d", None, &stop).unwrap();
    let mut placement = Placement::default();
    placement.add(b"/d", b"");
    let mut model = Model::new(found.start.restart(), b"/d", Some(placement));
    let origin = Origin {
        start_ns: 0,
        directory: b"/t".to_vec(),
        is_virtual: true,
        empty_call_ns: 0,
    };
    let measuring = Measuring::begin(Kept::default(), origin).unwrap();
    let options = ReplayOptions {
        pace,
        order,
        seed: Seed(1),
        stop: &stop,
        measured: Some(measuring.door()),
    };
    let run = replay(&Fifo::default(), &mut trace(), &mut model, &options).unwrap();
    let (kept, reported) = measuring.finish();
    reported.unwrap();
    (run, kept)
}

fn seen(kept: &Kept) -> Vec<(OpKind, u32, u64, u64)> {
    let row = |op: &Op| (op.kind, op.tid.0, op.start_ns, op.latency_ns.unwrap());
    kept.ops.iter().map(row).collect()
}

/// As two streams that queue at the device.
#[test]
fn threads_queue_at_the_device_as_computed_by_hand() {
    let (run, kept) = replayed(Pace::AsFastAsPossible, Order::File);
    assert_eq!(
        seen(&kept),
        [
            (OpKind::Open, 1, 0, 100),
            (OpKind::Open, 2, 0, 100),
            (OpKind::Read, 1, 100, 1100),
            (OpKind::Read, 2, 100, 2100),
            (OpKind::Read, 1, 1200, 2000),
            (OpKind::Read, 2, 2200, 2000),
        ]
    );
    assert_eq!((run.operations, run.replayed, run.differ), (6, 6, 0));
    assert_eq!((run.replayed_elapsed_ns, run.threads), (4200, 2));
    let path = |op: &Op| kept.text(op.path);
    assert_eq!(
        (path(&kept.ops[0]), path(&kept.ops[1])),
        ("f1".into(), "f2".into())
    );
    assert_eq!(kept.text(kept.ops[0].dir), "/t");
    // Each open file has a descriptor of its own.
    let fds: Vec<_> = kept.ops[2..4].iter().map(|op| op.fd.unwrap().0).collect();
    assert_eq!(kept.ops[0].result.value(), Some(fds[0] as u64));
    assert_ne!(fds[0], fds[1]);
    let (again, same) = replayed(Pace::AsFastAsPossible, Order::File);
    assert!(again == run && same.ops == kept.ops);
}

/// The second reads are due at 10,000 after the first open, and two behind one another at the device.
#[test]
fn a_pace_goes_by_the_targets_clock() {
    let (run, kept) = replayed(Pace::Times(1.0), Order::File);
    let starts: Vec<_> = seen(&kept).iter().map(|row| (row.1, row.2)).collect();
    // The first thread's first read is due while it still opens.
    let expected = [(1, 0), (2, 1), (1, 100), (2, 101), (1, 10_000), (2, 10_001)];
    assert_eq!(starts, expected);
    // The quantiles begin at 1.
    assert_eq!(run.start_error.unwrap().total_ns, 0);
    let (run, _) = replayed(Pace::Times(100.0), Order::File);
    // Due after 100, when each still waits for the device.
    assert_eq!(run.start_error.unwrap().total_ns, 99 + 99 + 1100 + 2100);
}

#[test]
fn in_strict_order_starts_follow_one_another() {
    let (run, kept) = replayed(Pace::AsFastAsPossible, Order::Strict);
    let starts: Vec<_> = seen(&kept).iter().map(|row| (row.1, row.2)).collect();
    let expected = [(1, 0), (2, 0), (1, 100), (2, 100), (1, 1200), (2, 2200)];
    assert_eq!(starts, expected);
    assert_eq!(run.differ, 0);
}

/// More than is looked ahead at once: what comes next does not begin before what one thread did has ended.
#[test]
fn a_thread_does_one_thing_after_the_other_however_long_the_trace() {
    let long = || {
        let mut paths = PathTable::new();
        let mut open = Op::new(OpKind::Open, Pid(1), Tid(1), 0);
        open.path = paths.intern(b"/d/f");
        open.result = Outcome::ok(3);
        let seek = |n| {
            let mut op = Op::new(OpKind::Seek, Pid(1), Tid(1), n);
            (op.fd, op.offset, op.result) = (Some(Fd(3)), Some(0), Outcome::ok(0));
            op
        };
        let mut ops = vec![open];
        ops.extend((1..40_000).map(seek));
        VecSource::new(paths, ops)
    };
    let (run, kept) = replayed_of(&long, Pace::AsFastAsPossible, Order::File);
    assert_eq!((run.replayed, kept.ops.len()), (40_000, 40_000));
    let starts = |pair: &[Op]| pair[1].start_ns >= pair[0].end_ns();
    assert!(kept.ops.windows(2).all(starts));
    let all_ns: u64 = kept.ops.iter().filter_map(|op| op.latency_ns).sum();
    assert!(run.replayed_elapsed_ns >= all_ns, "{run:?}");
}

/// Two files are registered, one of them is closed before its request: requests name neither by a descriptor.
#[test]
fn requests_to_registered_files_reach_the_files() {
    let trace = || {
        let mut paths = PathTable::new();
        let file = |ino| FileId {
            dev: DevId(1),
            ino,
            generation: 0,
        };
        let mut ops = Vec::new();
        for n in 1..=2 {
            let mut open = Op::new(OpKind::Open, Pid(1), Tid(1), n);
            (open.path, open.file) = (paths.intern(format!("/d/f{n}").as_bytes()), Some(file(n)));
            open.result = Outcome::ok(n + 2);
            ops.push(open);
        }
        let mut close = Op::new(OpKind::Close, Pid(1), Tid(1), 3);
        close.fd = Some(Fd(4));
        ops.push(close);
        for n in [1, 2, 2, 1] {
            let mut read = Op::new(OpKind::Read, Pid(1), Tid(1), 4 + ops.len() as u64);
            (read.offset, read.length, read.result) = (Some(n), Some(10), Outcome::ok(10));
            (read.record, read.file) = (OpFlags::URING, Some(file(n)));
            ops.push(read);
        }
        VecSource::new(paths, ops)
    };
    let (run, kept) = replayed_of(&trace, Pace::AsFastAsPossible, Order::File);
    assert_eq!((run.operations, run.replayed, run.differ), (7, 7, 0));
    let descriptor = |n: usize| kept.ops[n].result.value().map(|fd| Fd(fd as i32));
    let reads = kept.ops.iter().filter(|op| op.kind == OpKind::Read);
    let reads: Vec<_> = reads.map(|op| (op.offset, op.fd)).collect();
    let (first, again) = (descriptor(0), reads[1].1);
    assert_eq!(
        reads,
        [
            (Some(1), first),
            (Some(2), again),
            (Some(2), again),
            (Some(1), first)
        ]
    );
    assert!(again != first && again != descriptor(1));
}

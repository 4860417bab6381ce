use fsage_core::{
    DevId, Errno, Fd, FileId, Op, OpFlags, OpKind, OpSink, Outcome, PathTable, Pause, Pid, Tid,
};
use proptest::prelude::*;

use super::*;

fn op(kind: OpKind, at_us: u64) -> Op {
    Op {
        latency_ns: Some(1000),
        ..Op::new(kind, Pid(1), Tid(1), at_us * 1000)
    }
}

fn file(ino: u64) -> FileId {
    FileId {
        dev: DevId(1),
        ino,
        generation: 0,
    }
}

fn data(kind: OpKind, at_us: u64, offset: u64, length: u64, moved: u64) -> Op {
    Op {
        fd: Some(Fd(3)),
        file: Some(file(7)),
        offset: Some(offset),
        length: Some(length),
        result: Outcome::ok(moved),
        size_bytes: Some(10_000),
        ..op(kind, at_us)
    }
}

/// An open, a failed one, three reads, a write, a read of a pipe and a close.
fn small_stream() -> Characterizer {
    let mut paths = PathTable::new();
    let mut all = Characterizer::new();
    let mut open = Op {
        result: Outcome::ok(3),
        file: Some(file(7)),
        ..op(OpKind::Open, 0)
    };
    open.path = paths.intern(b"../x/f");
    open.dir = paths.intern(b"/a/b");
    open.size_bytes = Some(10_000);
    let failed = Op {
        result: Outcome::err(Errno::ENOENT),
        ..open
    };
    let pipe = Op {
        record: OpFlags::NOT_A_FILE,
        ..data(OpKind::Read, 6, 0, 99, 50)
    };
    let close = Op {
        fd: Some(Fd(3)),
        latency_ns: None,
        ..op(OpKind::Close, 9)
    };
    let reads = [
        (0, 4096, 4096, 1, 8),
        (4096, 4096, 4096, 0, 0),
        (9000, 4096, 1000, 1, 0),
    ];
    for sent in [open, failed] {
        all.push(&sent, &paths).unwrap();
    }
    for (at, (offset, length, moved, missed, ahead)) in reads.into_iter().enumerate() {
        let read = data(OpKind::Read, at as u64 + 1, offset, length, moved);
        let read = Op {
            pages_missed: Some(missed),
            pages_ahead: Some(ahead),
            ..read
        };
        all.push(&read, &paths).unwrap();
    }
    for sent in [data(OpKind::Write, 5, 10_000, 500, 500), pipe, close] {
        all.push(&sent, &paths).unwrap();
    }
    all
}

/// Direct reads ask nothing of the page cache, and names that are not there are in no directory.
#[test]
fn what_went_past_the_page_cache_and_what_was_never_there_do_not_count() {
    let mut paths = PathTable::new();
    let mut all = Characterizer::default();
    let open = |path, flags, fd| Op {
        path,
        flags,
        result: Outcome::ok(fd),
        file: Some(file(7)),
        ..op(OpKind::Open, 0)
    };
    let name = paths.intern(b"/a/f");
    let dup = Op {
        fd: Some(Fd(4)),
        result: Outcome::ok(5),
        ..op(OpKind::Dup, 1)
    };
    let reads = [3, 4, 5].map(|fd| Op {
        fd: Some(Fd(fd)),
        pages_missed: Some(0),
        pages_ahead: Some(0),
        ..data(OpKind::Read, 2, 0, 8192, 8192)
    });
    for sent in [open(name, 0, 3), open(name, 0o40_000, 4), dup]
        .iter()
        .chain(&reads)
    {
        all.push(sent, &paths).unwrap();
    }
    for (place, errno) in [("/b/f", Errno::ENOENT), ("/c/f", Errno::EACCES)] {
        let missing = Op {
            path: paths.intern(place.as_bytes()),
            result: Outcome::err(errno),
            ..op(OpKind::Stat, 3)
        };
        all.push(&missing, &paths).unwrap();
    }
    let found = all.finish(0);
    assert_eq!(found.bytes_read, 3 * 8192);
    let cache = found.page_cache.unwrap();
    assert_eq!((cache.pages_requested, cache.pages_missed), (2, 0));
    assert_eq!(found.distinct_directories, 2, "/a and /c");
}

#[test]
fn a_small_stream_to_the_last_number() {
    let found = small_stream().finish(4);
    assert_eq!((found.operations, found.lost, found.errors), (8, 4, 1));
    assert_eq!(
        (found.bytes_read, found.bytes_written, found.bytes_not_files),
        (9192, 500, 50)
    );
    assert_eq!(
        (
            found.reads.sequential,
            found.reads.random,
            found.reads.unknown
        ),
        (2, 1, 0)
    );
    assert_eq!((found.writes.sequential, found.writes.random), (0, 1));
    assert_eq!(found.read_sizes.len(), 1);
    assert_eq!(
        (found.read_sizes[0].low_bytes, found.read_sizes[0].count),
        (4096, 3)
    );
    assert_eq!(found.file_sizes[0].total_bytes, 10_500);
    let cache = found.page_cache.unwrap();
    assert_eq!(
        (cache.pages_requested, cache.pages_missed, cache.pages_ahead),
        (3, 2, 8)
    );
    assert_eq!((found.distinct_files, found.distinct_directories), (1, 1));
    assert_eq!((found.depth.max, found.depth.mean), (3, Some(3.0)));
    assert_eq!(
        (found.open_files_max, found.over_time.open_files_max.len()),
        (1, 10)
    );
    assert_eq!((found.span_ns, found.latency_unknown), (9000, 1));
    // Without the pipe's.
    assert_eq!(found.latency_total_ns, 6000);
    assert_eq!(found.kinds[0].kind, OpKind::Read);
    assert_eq!(found.kinds[0].latency_max_ns, Some(1000));
    assert_eq!(found.processes[0].bytes_read, 9192);
}

/// A process of process 1: its fork, and with an exit that too.
fn child(pid: u32, at_us: u64, exits: bool) -> Vec<Op> {
    let fork = Op {
        result: Outcome::ok(pid.into()),
        length: Some(pid.into()),
        ..op(OpKind::Fork, at_us)
    };
    let exit = Op {
        length: Some(1),
        ..Op::new(OpKind::Exit, Pid(pid), Tid(pid), at_us * 1000 + 1)
    };
    std::iter::once(fork).chain(exits.then_some(exit)).collect()
}

#[test]
fn a_number_that_is_begun_again_after_its_exit_is_another_process() {
    let mut all = Characterizer::new();
    let paths = PathTable::new();
    let threads = Op {
        length: Some(1),
        ..op(OpKind::Fork, 50)
    };
    let end = Op {
        length: Some(0),
        ..Op::new(OpKind::Exit, Pid(7), Tid(8), 25_000)
    };
    // Seven ends twice and goes on, with the end of a thread meanwhile; eight is begun twice without an end.
    let rows = [
        child(7, 10, true),
        child(7, 20, false),
        vec![end],
        child(7, 30, true),
        child(8, 40, false),
        child(8, 41, false),
        vec![threads, Op::new(OpKind::Sync, Pid(8), Tid(8), 60_000)],
    ];
    for op in rows.iter().flatten() {
        all.take(op, &paths);
    }
    let mut pids: Vec<u32> = all.finish(0).processes.iter().map(|p| p.pid).collect();
    pids.sort_unstable();
    assert_eq!(pids, [1, 7, 7, 8]);
}

#[test]
fn a_file_named_without_its_generation_is_the_one_opened_with_it() {
    let count = |generations: &[u32]| {
        let mut all = Characterizer::new();
        for (&generation, at_us) in generations.iter().zip(0..) {
            let id = FileId {
                generation,
                ..file(7)
            };
            let stat = Op {
                file: Some(id),
                size_bytes: Some(2),
                result: Outcome::ok(0),
                ..op(OpKind::Stat, at_us)
            };
            all.push(&stat, &PathTable::new()).unwrap();
        }
        let found = all.finish(0);
        let sized: u64 = found.file_sizes.iter().map(|b| b.count).sum();
        (found.distinct_files, sized)
    };
    assert_eq!(count(&[0, 9, 0]), (1, 1));
    assert_eq!(count(&[9, 0]), (1, 1));
    assert_eq!(count(&[0, 9, 10, 0]), (2, 2));
}

#[test]
fn the_contract_of_the_json_is_kept() {
    let json = serde_json::to_value(Characterizer::new().finish(0)).unwrap();
    for field in [
        "operations",
        "operations_lost",
        "bytes_read",
        "bytes_written",
    ] {
        assert_eq!(json[field], 0, "{field}");
    }
    assert!(json["page_cache"].is_null(), "unknown is not zero");
}

#[test]
fn descriptors_follow_fork_exec_and_exit() {
    let paths = PathTable::new();
    let mut all = Characterizer::new();
    let open = |fd, flags| Op {
        result: Outcome::ok(fd),
        flags,
        ..op(OpKind::Open, 0)
    };
    let fork = Op {
        length: Some(2),
        result: Outcome::ok(2),
        ..op(OpKind::Fork, 1)
    };
    let exec = Op {
        pid: Pid(2),
        ..op(OpKind::Exec, 2)
    };
    let exit = |pid| Op {
        pid: Pid(pid),
        length: Some(1),
        ..op(OpKind::Exit, 3)
    };
    for sent in [
        open(3, 0),
        open(4, 0o2_000_000),
        fork,
        exec,
        exit(1),
        open(5, 0),
        exit(2),
    ] {
        all.take(&sent, &paths);
    }
    assert_eq!(all.finish(0).open_files_max, 4);
}

/// What clone(2) makes with `CLONE_FILES` is another process with the same table: what one opens and closes is open and
/// closed for both, until one begins a program of its own.
#[test]
fn processes_can_share_one_table_of_descriptors() {
    let paths = PathTable::new();
    let open = |pid, fd, at_us| Op {
        pid: Pid(pid),
        result: Outcome::ok(fd),
        ..op(OpKind::Open, at_us)
    };
    let close = |pid, fd, at_us| Op {
        pid: Pid(pid),
        fd: Some(Fd(fd)),
        ..op(OpKind::Close, at_us)
    };
    let fork = |flags| Op {
        length: Some(2),
        flags,
        result: Outcome::ok(2),
        ..op(OpKind::Fork, 10)
    };
    let exec = Op {
        pid: Pid(2),
        ..op(OpKind::Exec, 30)
    };
    let most = |ops: &[Op]| {
        let mut all = Characterizer::new();
        for op in ops {
            all.take(op, &paths);
        }
        all.finish(0).open_files_max
    };
    for (flags, once, again) in [(0x400, 2, 2), (0, 3, 4)] {
        let opened = [open(1, 3, 0), fork(flags), open(2, 4, 20)];
        assert_eq!(most(&opened), once);
        // The parent closes what the child opened, if that is its own too.
        let closed = [&opened[..], &[close(1, 4, 22), open(1, 4, 24)]].concat();
        assert_eq!(most(&closed), again);
        let apart = [&opened[..2], &[exec, open(2, 4, 40)]].concat();
        assert_eq!(most(&apart), 3);
    }
}

/// Copies of a descriptor go on in one open file.
#[test]
fn what_one_copy_reads_the_next_goes_on_from() {
    let paths = PathTable::new();
    let mut all = Characterizer::new();
    let open = Op {
        result: Outcome::ok(3),
        ..op(OpKind::Open, 0)
    };
    let dup = Op {
        fd: Some(Fd(3)),
        result: Outcome::ok(4),
        ..op(OpKind::Dup, 10)
    };
    let read = |fd, at_us, offset| Op {
        fd: Some(Fd(fd)),
        ..data(OpKind::Read, at_us, offset, 4096, 4096)
    };
    for sent in [
        open,
        dup,
        read(3, 20, 0),
        read(4, 30, 4096),
        read(3, 40, 8192),
        read(4, 50, 0),
    ] {
        all.take(&sent, &paths);
    }
    let found = all.finish(0);
    assert_eq!((found.reads.sequential, found.reads.random), (3, 1));
    assert_eq!(found.open_files_max, 2);
}

proptest! {
    /// Any operations give sums that agree with themselves.
    #[test]
    fn sums_agree(ops in prop::collection::vec(
        (0usize..54, any::<u64>(), any::<i32>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<i16>()),
        0..200,
    )) {
        let paths = PathTable::new();
        let mut all = Characterizer::new();
        let count = ops.len() as u64;
        for (kind, start, fd, offset, length, result) in ops {
            let mut op = Op::new(OpKind::ALL[kind], Pid(fd as u32 % 5), Tid(1), start);
            op.fd = Some(Fd(fd));
            op.offset = offset;
            op.length = length;
            op.latency_ns = length;
            op.pages_missed = Some(3);
            op.result = Outcome::from_raw(i64::from(result));
            all.take(&op, &paths);
        }
        let found = all.finish(0);
        prop_assert_eq!(found.operations, count);
        prop_assert_eq!(found.kinds.iter().map(|kind| kind.count).sum::<u64>(), count);
        prop_assert_eq!(found.over_time.operations.iter().sum::<u64>(), count);
        prop_assert_eq!(found.processes.iter().map(|p| p.operations).sum::<u64>(), count);
        prop_assert!(found.over_time.operations.len() <= 512);
    }
}

/// What a thread did before its first operation is in no pause between operations: these fit the time of the stream.
#[test]
fn pauses_fit_between_the_operations() {
    let mut all = Characterizer::new();
    let paths = PathTable::new();
    let paused = |tid: u32, at_us: u64, pause: Pause| Op {
        tid: Tid(tid),
        record: OpFlags::WAITS,
        pause,
        ..op(OpKind::Stat, at_us)
    };
    let asleep = |us: u64| Pause {
        asleep_ns: us * 1000,
        ..Pause::default()
    };
    let fork = Op {
        result: Outcome::ok(2),
        ..op(OpKind::Fork, 1_000_020)
    };
    for sent in [
        // It slept for a second before it did anything.
        paused(1, 1_000_000, asleep(1_000_000)),
        Op {
            record: OpFlags::WAITS,
            ..fork
        },
        // Begun by an operation: its pause is known from there on.
        paused(2, 1_000_041, asleep(15)),
        // More than there is room for.
        paused(1, 1_000_031, asleep(500)),
    ] {
        all.push(&sent, &paths).unwrap();
    }
    let found = all.finish(0);
    let pauses = found.pauses.unwrap();
    assert_eq!((pauses.asleep_ns, pauses.worked_ns), (25_000, 24_000));
    assert!(pauses.asleep_ns + pauses.worked_ns <= 2 * found.span_ns);
}

/// Directories are no files, whether their names, only they, or names in them are used; nor are pipes.
#[test]
fn directories_are_counted_apart_from_files() {
    let mut paths = PathTable::new();
    let mut all = Characterizer::new();
    let mut id = |path: &str| paths.intern(path.as_bytes());
    let on = |kind, ino, record| Op {
        file: Some(file(ino)),
        record,
        size_bytes: Some(4096),
        result: Outcome::ok(3),
        ..op(kind, 0)
    };
    let directory = OpFlags::DIRECTORY;
    let (root, below) = (id("/up/t"), id("d"));
    let look = Op {
        path: root,
        ..on(OpKind::Stat, 1, directory)
    };
    let open = Op {
        dir: root,
        path: below,
        ..on(OpKind::Open, 2, directory)
    };
    let list = Op {
        fd: Some(Fd(3)),
        ..on(OpKind::Readdir, 2, directory)
    };
    let inherited = Op {
        fd: Some(Fd(9)),
        ..on(OpKind::Fstat, 5, directory)
    };
    let pipe = Op {
        fd: Some(Fd(1)),
        ..on(OpKind::Write, 6, OpFlags::NOT_A_FILE)
    };
    // Told by nothing but the list that is read of it.
    let bare = Op {
        path: id("/up/t/e"),
        ..on(OpKind::Open, 3, OpFlags::default())
    };
    let bare_list = Op {
        fd: Some(Fd(3)),
        ..on(OpKind::Readdir, 3, OpFlags::default())
    };
    let asked = Op {
        path: root,
        size_bytes: None,
        ..on(OpKind::Access, 1, OpFlags::default())
    };
    for sent in [look, open, list, inherited, pipe, bare, bare_list, asked] {
        all.push(&sent, &paths).unwrap();
    }
    let sized = |found: &Characterization| found.file_sizes.iter().map(|b| b.count).sum::<u64>();
    let found = all.finish(0);
    // The root, two below it and the one that no name was told of; not the one above the root.
    assert_eq!((found.distinct_files, found.distinct_directories), (0, 4));
    assert_eq!(sized(&found), 0);
    assert_eq!(found.bytes_not_files, 3);
}

/// Where no operation tells which file it is, names do; what is made anew under one is another file.
#[test]
fn files_of_one_name_after_the_other_are_several() {
    let mut paths = PathTable::new();
    let [a, b] = ["/w/a", "/w/b"].map(|name| paths.intern(name.as_bytes()));
    let on = |kind, path| Op {
        path,
        result: Outcome::ok(3),
        ..op(kind, 0)
    };
    let rename = Op {
        path2: b,
        ..on(OpKind::Rename, a)
    };
    let failed = Op {
        result: Outcome::err(Errno::ENOENT),
        ..on(OpKind::Unlink, a)
    };
    let steps = [
        (on(OpKind::Open, a), 1),
        (on(OpKind::Open, a), 1),
        (failed, 1),
        (on(OpKind::Unlink, a), 1),
        (on(OpKind::Open, a), 2),
        // It has another name, and then it replaces one that had it.
        (rename, 2),
        (on(OpKind::Open, b), 2),
        (on(OpKind::Open, a), 3),
        (rename, 3),
        (on(OpKind::Unlink, b), 3),
    ];
    for (number, (_, expected)) in steps.iter().enumerate() {
        let mut so_far = Characterizer::new();
        for (sent, _) in &steps[..=number] {
            so_far.push(sent, &paths).unwrap();
        }
        let files = so_far.finish(0).distinct_files;
        assert_eq!(files, *expected, "after step {number}");
    }
}

/// A number that was free is given again: to a directory, or where nobody tells generations, to a file.
#[test]
fn what_has_the_number_of_something_that_was_removed_is_another() {
    let mut paths = PathTable::new();
    let [a, b] = ["/w/a", "/w/b"].map(|name| paths.intern(name.as_bytes()));
    let on = |kind, path, generation| Op {
        path,
        file: Some(FileId {
            generation,
            ..file(7)
        }),
        result: Outcome::ok(0),
        ..op(kind, 0)
    };
    let make = |path, generation| Op {
        flags: 0o101,
        size_bytes: Some(0),
        ..on(OpKind::Open, path, generation)
    };
    let look = Op {
        record: OpFlags::DIRECTORY,
        ..on(OpKind::Stat, b, 0)
    };
    let list = Op {
        record: OpFlags::DIRECTORY,
        ..on(OpKind::Open, b, 9)
    };
    let count = |ops: &[Op]| {
        let mut all = Characterizer::new();
        for op in ops {
            all.push(op, &paths).unwrap();
        }
        let found = all.finish(0);
        let sized: u64 = found.file_sizes.iter().map(|b| b.count).sum();
        (found.distinct_files, found.distinct_directories, sized)
    };
    let unlink = |generation| on(OpKind::Unlink, a, generation);
    let dir = on(OpKind::Mkdir, b, 0);
    // The file, and the directory that both lie in, and the one that came.
    let expected = (1, 2, 1);
    assert_eq!(count(&[make(a, 5), unlink(5), dir, look, list]), expected);
    assert_eq!(count(&[make(a, 0), unlink(0), dir, look, list]), expected);
    let unknown = Op {
        file: list.file.map(|id| FileId {
            generation: 0,
            ..id
        }),
        ..list
    };
    assert_eq!(
        count(&[make(a, 0), unlink(0), dir, look, unknown]),
        expected
    );
    // Made again, twice opened.
    let again = [make(a, 0), unlink(0), make(b, 0), make(b, 0)];
    assert_eq!(count(&again), (2, 1, 2));
    assert_eq!(count(&again[..1]), (1, 1, 1));
}

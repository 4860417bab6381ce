//! What a model must keep of a trace for both to cost the same: how deep its names lie, what is large, which calls fail,
//! who does how much, and that nobody cleans up what others still use.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::{Errno, Fd, Op, OpFlags, OpKind, OpSink, Outcome, PathTable, Pid, Tid};
use fsage_model::figures::FigureSink;
use fsage_model::fsm::{Batch, Gather, Generator, Measures, Model, Options, fit};

/// A trace in the making.
struct Trace {
    gather: Gather,
    measures: Measures,
    paths: PathTable,
    at: u64,
    tid: u32,
}

impl Trace {
    fn new(under: &[Vec<u8>]) -> Self {
        Self {
            gather: Gather::new(under),
            measures: Measures::new(under),
            paths: PathTable::new(),
            at: 0,
            tid: 7,
        }
    }

    fn op(&mut self, kind: OpKind, path: &str, change: impl FnOnce(&mut Op)) {
        let mut op = Op::new(kind, Pid(7), Tid(self.tid), self.at * 1000);
        op.path = (!path.is_empty()).then(|| self.paths.intern(path.as_bytes()).unwrap());
        op.latency_ns = Some(100);
        change(&mut op);
        self.at += 1;
        self.gather.take(&op, &self.paths);
        self.measures.take(&op, &self.paths);
    }

    fn open(&mut self, path: &str, flags: u32) {
        self.op(OpKind::Open, path, |op| {
            (op.flags, op.result) = (flags, Outcome::ok(3));
        });
    }

    fn moves(&mut self, kind: OpKind, offset: u64, asked: u64, moved: u64) {
        self.op(kind, "", |op| {
            (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(offset), Some(asked));
            (op.result, op.record) = (Outcome::ok(moved), OpFlags::IMPLICIT_OFFSET);
        });
    }

    fn close(&mut self) {
        self.op(OpKind::Close, "", |op| op.fd = Some(Fd(3)));
    }

    fn model(self) -> (Model, Measures) {
        let text = fit(self.gather).unwrap().text().unwrap();
        (Model::parse(&text).unwrap(), self.measures)
    }
}

fn played(model: &Model) -> Measures {
    let mut measures = Measures::new(&[]);
    measures.play(&mut Generator::new(Arc::new(model.clone()), Options::default()).unwrap());
    measures
}

fn batches(model: &Model) -> Vec<(u32, Batch)> {
    let mut generator = Generator::new(Arc::new(model.clone()), Options::default()).unwrap();
    std::iter::from_fn(|| generator.any()).collect()
}

#[test]
fn what_is_copied_in_the_kernel_is_as_much_as_the_file_holds_and_counts_as_read_and_written() {
    const ASKED: u64 = 1 << 62;
    let mut trace = Trace::new(&[]);
    for i in 0..200_u64 {
        let bytes = 40 + i * 37;
        trace.op(OpKind::Open, &format!("/w/{i}"), |op| {
            (op.size_bytes, op.result) = (Some(bytes), Outcome::ok(3));
        });
        trace.op(OpKind::Open, "/w/all", |op| {
            (op.flags, op.result) = (0o2101, Outcome::ok(4));
        });
        for (offset, moved) in [(0, bytes), (bytes, 0)] {
            trace.moves(OpKind::CopyIn, offset, ASKED, moved);
            trace.op(OpKind::CopyOut, "", |op| {
                (op.fd, op.length, op.result) = (Some(Fd(4)), Some(ASKED), Outcome::ok(moved));
                op.record = OpFlags::IMPLICIT_OFFSET;
            });
        }
        trace.op(OpKind::Close, "", |op| op.fd = Some(Fd(4)));
        trace.close();
    }
    let (model, trace) = trace.model();
    let off = played(&model).bytes_read.abs_diff(trace.bytes_read);
    assert!(
        off < trace.bytes_read / 200,
        "{off} of {}",
        trace.bytes_read
    );
    let mut figures = FigureSink::new(&[], false, &[]);
    for call in batches(&model).into_iter().flat_map(|(_, b)| b.calls) {
        let mut op = call.op;
        op.latency_ns = Some(100);
        figures.push(&op, &PathTable::new()).unwrap();
    }
    let kinds = figures.finish().kinds;
    let count = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
    assert_eq!(
        ["read", "write", "copy_in", "copy_out"].map(count),
        [400, 400, 0, 0]
    );
}

#[test]
fn names_lie_as_deep_below_the_target_as_a_replay_lays_them() {
    for under in [None, Some("/srv/work"), Some("/srv/work/here")] {
        let under: Vec<Vec<u8>> = under.iter().map(|u| u.as_bytes().to_vec()).collect();
        let mut trace = Trace::new(&under);
        trace.op(OpKind::Stat, "/srv/work/here/a", |_| {});
        trace.op(OpKind::Stat, "/srv/work/here/b", |_| {});
        let (model, _) = trace.model();
        let more = u32::from(under.first().is_some_and(|u| u.ends_with(b"work")));
        assert_eq!(model.directories.len() as u32, 1 + more, "{under:?}");
        let depth = |batch: &Batch| {
            let path = batch.calls[0].path.clone().unwrap();
            path.split(|&b| b == b'/').count() as u32 - 1
        };
        assert!(batches(&model).iter().all(|(_, b)| depth(b) == more));
    }
}

#[test]
fn the_directory_that_a_trace_was_kept_to_is_the_targets_own() {
    let mut trace = Trace::new(&[b"/srv/work".to_vec()]);
    trace.op(OpKind::Stat, "/srv/work", |_| {});
    trace.op(OpKind::Stat, "/srv/work/a", |_| {});
    let (model, _) = trace.model();
    let paths: Vec<Arc<[u8]>> = batches(&model)
        .into_iter()
        .flat_map(|(_, b)| b.calls.into_iter().filter_map(|c| c.path))
        .collect();
    assert!(paths[0].is_empty(), "{paths:?}");
    assert!(!paths[1].is_empty() && !paths[1].contains(&b'/'));
}

#[test]
fn who_asks_of_each_name_whether_it_is_a_link_is_told() {
    let mut trace = Trace::new(&[]);
    for _ in 0..20 {
        trace.op(OpKind::Readlink, "/w/a", |op| {
            op.result = Outcome::err(Errno::EINVAL);
        });
    }
    trace.op(OpKind::Stat, "/w/b", |_| {});
    let (model, _) = trace.model();
    let played = played(&model);
    assert_eq!(played.counts[OpKind::Readlink as usize], 20);
    assert_eq!(played.failed[OpKind::Readlink as usize], 20);
}

/// As the dissertation's own application has it (appendix D): files of quite different sizes, each written by one call
/// and read by a large one and the rest.
#[test]
fn files_of_each_size_are_read_as_files_of_that_size_are() {
    let mut trace = Trace::new(&[]);
    let sizes = [200_000_u64, 100_000, 50_000, 10_000, 1000];
    for i in 0..200 {
        let path = format!("/w/{i}");
        trace.open(&path, 0o1101);
        trace.moves(OpKind::Write, 0, sizes[i % 5], sizes[i % 5]);
        trace.close();
    }
    for i in 0..200 {
        let size = sizes[i % 5];
        let whole = size / 4096 * 4096;
        trace.open(&format!("/w/{i}"), 0);
        if whole > 0 {
            trace.moves(OpKind::Read, 0, whole, whole);
        }
        trace.moves(OpKind::Read, whole, 4096, size - whole);
        trace.close();
    }
    let (model, trace) = trace.model();
    let played = played(&model);
    assert_eq!(played.counts, trace.counts);
    assert_eq!(played.bytes_written, trace.bytes_written);
    assert!(played.bytes_read.abs_diff(trace.bytes_read) < trace.bytes_read / 100);
}

/// Threads that do the same for long and each end with something of their own.
#[test]
fn threads_do_as_much_each_as_they_did() {
    let mut trace = Trace::new(&[]);
    for round in 0..200 {
        for thread in 0..8 {
            trace.tid = 10 + thread;
            trace.op(
                OpKind::Stat,
                &format!("/w/{}", (round + thread) % 40),
                |_| {},
            );
            trace.op(
                OpKind::Access,
                &format!("/w/{}", (round * 3 + thread) % 40),
                |_| {},
            );
        }
    }
    for thread in 0..8 {
        trace.tid = 10 + thread;
        trace.op(OpKind::Chmod, "/w/1", |_| {});
    }
    let (model, _) = trace.model();
    let mut each: BTreeMap<u32, usize> = BTreeMap::new();
    for (lane, batch) in batches(&model) {
        *each.entry(lane).or_default() += batch.calls.len();
    }
    let (least, most) = (each.values().min().unwrap(), each.values().max().unwrap());
    assert_eq!(each.len(), 8);
    assert!(most - least <= most / 5, "{each:?}");
}

/// One begins to remove the files when the others have ended, however long those take of it.
#[test]
fn a_phase_begins_when_all_have_ended_the_one_before() {
    let part = |group: u32, first: &str, script: &str| {
        format!("[[phase.part]]\ngroup = {group}\nfirst = \"{first}\"\nscript = [{script}]\n")
    };
    let text = "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
         [source]\noperations = 1\nbytes_read = 0\nbytes_written = 0\nspan_ns = 0\n\
         [[files]]\ntype = \"file\"\nbefore = 10\nlater = 0\ndirectory = \"0\"\nin_new_directory = 0\n\
         [[visit]]\nsteps = [\"stat\"]\n[[visit]]\nsteps = [\"unlink\"]\n\
         [[group]]\nprocesses = 1\nat_once = 1\n[[group]]\nprocesses = 1\nat_once = 1\n[[phase]]\nstart_ns = 0\n"
        .to_owned()
        + &part(
            1,
            "1",
            "\"1 file=1.fresh took_ns=0 next=1*9,2\", \"1 file=1.known:0 think_ns=5000 took_ns=900 next=2*99,0\"",
        )
        + "[[phase]]\nstart_ns = 10\n"
        + &part(2, "1", "\"2 file=1.known:0 took_ns=1 next=1*9,0\"");
    let batches = batches(&Model::parse(&text).unwrap());
    assert_eq!(batches.len(), 120);
    let removes =
        |(_, batch): &(u32, Batch)| batch.calls.iter().any(|c| c.op.kind == OpKind::Unlink);
    assert!(batches.iter().take(110).all(|b| !removes(b)));
    assert!(batches.iter().skip(110).all(removes));
}

/// One file after the other is copied, piece by piece, to the same place, as `cp` and `tar` do it: how much there is of
/// each decides when it ends, and which one is read further.
#[test]
fn files_are_copied_to_their_ends_and_to_what_was_opened_for_that() {
    let mut trace = Trace::new(&[]);
    let sizes: Vec<u64> = (0..12).map(|i| 1_900 + i * 2_500).collect();
    for (i, size) in sizes.iter().enumerate() {
        trace.open(&format!("/w/{i}"), 0o1101);
        trace.moves(OpKind::Write, 0, *size, *size);
        trace.close();
    }
    let at = |trace: &mut Trace, kind, fd, offset, asked, moved| {
        trace.op(kind, "", |op| {
            (op.fd, op.offset, op.length) = (Some(Fd(fd)), Some(offset), Some(asked));
            (op.result, op.record) = (Outcome::ok(moved), OpFlags::IMPLICIT_OFFSET);
        });
    };
    for i in 0..200_usize {
        let from = i * 7 % 12;
        let to = format!("/w/to{}", i % 3);
        trace.open(&format!("/w/{from}"), 0);
        trace.op(OpKind::Open, &to, |op| {
            (op.flags, op.result) = (0o1101, Outcome::ok(4));
        });
        let mut done = 0;
        loop {
            let moved = 4096.min(sizes[from] - done);
            at(&mut trace, OpKind::Read, 3, done, 4096, moved);
            if moved == 0 {
                break;
            }
            at(&mut trace, OpKind::Write, 4, done, moved, moved);
            done += moved;
        }
        trace.op(OpKind::Close, "", |op| op.fd = Some(Fd(4)));
        trace.close();
        trace.op(OpKind::Unlink, &to, |_| {});
    }
    let (model, trace) = trace.model();
    let played = played(&model);
    let counts = played.counts.iter().zip(&trace.counts);
    let off: u64 = counts.map(|(a, b)| a.abs_diff(*b)).sum();
    assert!(off <= 2, "{:?}, not {:?}", played.counts, trace.counts);
    assert_eq!(played.bytes_written, trace.bytes_written);
    let off = played.bytes_read.abs_diff(trace.bytes_read);
    assert!(
        off < trace.bytes_read / 100,
        "{off} of {}",
        trace.bytes_read
    );
}

/// As the dissertation's application does it in chunks (appendix E): all files are made, then all written, read and
/// removed, and so on. What is read is what was written.
#[test]
fn what_is_done_in_turns_to_all_files_is_done_in_as_many_turns() {
    let mut trace = Trace::new(&[]);
    let sizes = [1_000_u64, 10_000, 50_000, 100_000, 200_000];
    for turn in 0..5 {
        let files: Vec<(String, u64)> = (0..100)
            .map(|i| (format!("/w/{turn}-{i}"), sizes[i % 5]))
            .collect();
        for (path, _) in &files {
            trace.open(path, 0o1101);
            trace.close();
        }
        for (path, size) in &files {
            trace.open(path, 1);
            trace.moves(OpKind::Write, 0, *size, *size);
            trace.close();
        }
        for (path, size) in &files {
            trace.open(path, 0o102);
            trace.moves(OpKind::Read, 0, 1 << 18, *size);
            trace.close();
        }
        for (path, _) in &files {
            trace.op(OpKind::Unlink, path, |_| {});
        }
    }
    let (model, trace) = trace.model();
    let played = played(&model);
    assert_eq!(played.counts, trace.counts);
    assert_eq!(played.bytes_written, trace.bytes_written);
    assert_eq!(played.bytes_read, trace.bytes_read);
}

/// Who reads at places in a large file comes to its end by chance, and does not read on to it from everywhere.
#[test]
fn seeks_in_a_large_file_read_what_they_read_and_are_one_visit_each() {
    let (chunk, chunks) = (8192_u64, 128);
    let mut trace = Trace::new(&[]);
    trace.open("/w/f", 0o1102);
    trace.moves(OpKind::Write, 0, chunks * chunk, chunks * chunk);
    trace.close();
    trace.open("/w/f", 2);
    for i in 0..1000_u64 {
        let at = (i * 37 + i * i * 11) % chunks * chunk;
        let seek = |trace: &mut Trace| {
            trace.op(OpKind::Seek, "", |op| {
                (op.fd, op.result) = (Some(Fd(3)), Outcome::ok(at));
            });
        };
        seek(&mut trace);
        trace.moves(OpKind::Read, at, chunk, chunk);
        if i % 10 == 0 {
            seek(&mut trace);
            trace.moves(OpKind::Write, at, chunk, chunk);
        }
    }
    trace.close();
    let (model, trace) = trace.model();
    let played = played(&model);
    assert_eq!(played.counts, trace.counts);
    assert_eq!(
        (played.bytes_read, played.bytes_written),
        (trace.bytes_read, trace.bytes_written)
    );
    let text = model.text().unwrap();
    assert!(text.len() < 8000, "{}", text.len());
}

/// What is done in rows is done in as long ones: nobody makes half of the directories after the files.
#[test]
fn rows_are_as_long_as_they_were() {
    let mut trace = Trace::new(&[]);
    for (set, directories) in [("a", 59), ("b", 2)] {
        for i in 0..directories {
            trace.op(OpKind::Mkdir, &format!("/w/{set}{i}"), |_| {});
        }
        for i in 0..300 {
            trace.open(&format!("/w/{set}{}/{i}", i % directories), 0o1101);
            trace.close();
        }
    }
    let (model, _) = trace.model();
    let mut rows: Vec<usize> = Vec::new();
    let mut before = None;
    for (_, batch) in batches(&model) {
        for call in batch.calls {
            if call.op.kind == OpKind::Mkdir {
                if before != Some(OpKind::Mkdir) {
                    rows.push(0);
                }
                *rows.last_mut().unwrap() += 1;
            }
            before = Some(call.op.kind);
        }
    }
    rows.sort_unstable();
    assert_eq!(rows, [2, 59]);
}

/// What goes through a tree name by name finds it made in that order.
#[test]
fn a_tree_that_is_read_in_order_lies_in_order() {
    let read = |in_order: bool| {
        let mut trace = Trace::new(&[]);
        for i in 0..400_u64 {
            let n = if in_order { i } else { i * 149 % 400 };
            trace.open(&format!("/w/d{:02}/f{:03}", n / 20, n), 0);
            trace.moves(OpKind::Read, 0, 4096, 100);
            trace.close();
        }
        let (model, _) = trace.model();
        let mut generator = Generator::new(Arc::new(model), Options::default()).unwrap();
        let made: Vec<_> = generator.population().into_iter().map(|f| f.0).collect();
        let place = |path: &Arc<[u8]>| made.iter().position(|p| p == path).unwrap();
        let mut opened = Vec::new();
        while let Some((_, batch)) = generator.any() {
            let opens = batch.calls.iter().filter(|c| c.op.kind == OpKind::Open);
            opened.extend(opens.map(|c| place(c.path.as_ref().unwrap())));
        }
        assert_eq!(opened.len(), 400);
        opened.windows(2).filter(|two| two[0] < two[1]).count()
    };
    let (ordered, any) = (read(true), read(false));
    assert!(ordered > 380 && any < 260, "{ordered} {any}");
}

/// A head and a table of contents are where they were, in files of any size.
#[test]
fn what_is_read_by_its_place_is_told_by_the_start_and_the_end() {
    let mut trace = Trace::new(&[]);
    let size = |i: u64| 3_000_000 + i * 70_000;
    for i in 0..40 {
        trace.open(&format!("/w/{i}"), 0o1101);
        trace.moves(OpKind::Write, 0, size(i), size(i));
        trace.close();
    }
    for i in 0..40 {
        trace.open(&format!("/w/{i}"), 0);
        for (at, bytes) in [(24, 16), (size(i) - 640, 640), (100, 8)] {
            trace.op(OpKind::Read, "", |op| {
                (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(at), Some(bytes));
                op.result = Outcome::ok(bytes);
            });
        }
        trace.close();
    }
    let (model, trace) = trace.model();
    assert_eq!(played(&model).counts, trace.counts);
    assert_eq!(played(&model).bytes_read, trace.bytes_read);
    let text = model.text().unwrap();
    for step in ["read at=from offset=given", "read at=back offset=given"] {
        assert!(text.contains(step), "{step}: {text}");
    }
    assert!(!text.contains("at=random"), "{text}");
}

/// A trace that does not tell how large files are, as one of strace: what is written beyond the end makes a file so large, by a
/// call that names its place and behind a seek, in one that was there and in one that a call made.
#[test]
fn what_is_read_before_a_write_beyond_the_end_is_as_much_as_it_was() {
    const FAR: u64 = 1 << 20;
    for (flags, seeks) in [
        (1, false),
        (0o101, false),
        (0o1102, false),
        (1, true),
        (0o101, true),
    ] {
        let mut trace = Trace::new(&[]);
        trace.open("/w/odd", flags);
        if seeks {
            trace.op(OpKind::Seek, "", |op| {
                (op.fd, op.offset, op.result) = (Some(Fd(3)), Some(FAR), Outcome::ok(FAR));
            });
        }
        trace.op(OpKind::Write, "", |op| {
            (op.fd, op.length, op.result) = (Some(Fd(3)), Some(1), Outcome::ok(1));
            if seeks {
                op.record = OpFlags::IMPLICIT_OFFSET;
            }
            op.offset = Some(FAR);
        });
        trace.close();
        for _ in 0..20 {
            trace.open("/w/odd", 0);
            trace.op(OpKind::Read, "", |op| {
                (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(0), Some(65_536));
                op.result = Outcome::ok(65_536);
            });
            trace.close();
        }
        let (model, trace) = trace.model();
        let played = played(&model);
        assert_eq!(trace.bytes_read, 20 * 65_536);
        assert_eq!(
            (played.bytes_read, played.bytes_written),
            (trace.bytes_read, 1),
            "{flags:o} {seeks}: {}",
            model.text().unwrap()
        );
    }
}

//! A shell that begins programs, hands them what it has open and waits for them.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome};
use fsage_model::fsm::{Batch, Generator, Model, Options};

use crate::common::Trace;

const SHELL: u32 = 1;
const ROUNDS: u32 = 60;

impl Trace {
    fn opens(&mut self, path: &str, flags: u32, fd: u64) {
        let path = self.paths.intern(path.as_bytes());
        self.add(OpKind::Open, &|op| {
            (op.path, op.flags, op.result) = (path, flags, Outcome::ok(fd));
        });
    }

    fn moves(&mut self, kind: OpKind, fd: i32, bytes: u64) {
        self.add(kind, &|op| {
            (op.fd, op.length) = (Some(Fd(fd)), Some(bytes));
            (op.result, op.record) = (Outcome::ok(bytes), OpFlags::IMPLICIT_OFFSET);
        });
    }

    /// The process at hand begins another, which goes on then.
    fn fork(&mut self, child: u32) {
        self.add(OpKind::Fork, &|op| op.length = Some(child.into()));
        self.pid = child;
    }

    /// It ends, and who began it goes on.
    fn exit(&mut self, parent: u32) {
        self.add(OpKind::Exit, &|op| op.length = Some(1));
        self.pid = parent;
    }
}

/// How much is written in a round: now much, now little.
fn bytes(round: u32) -> u64 {
    u64::from(40 + round * 37 % 23)
}

/// `echo > f$i; cat f$i >> all`, where the shell itself opens what its programs write to.
fn shell() -> Model {
    let mut trace = Trace {
        pid: SHELL,
        uneven: true,
        ..Trace::default()
    };
    for round in 0..ROUNDS {
        let (file, bytes) = (format!("/t/f{round}"), bytes(round));
        trace.opens(&file, 0o1101, 3);
        trace.fork(100 + round);
        trace.moves(OpKind::Write, 3, bytes);
        trace.exit(SHELL);
        trace.on(OpKind::Close, 3);
        trace.opens("/t/all", 0o2101, 3);
        trace.fork(1000 + round);
        trace.opens(&file, 0, 4);
        trace.moves(OpKind::Read, 4, bytes);
        trace.moves(OpKind::Write, 3, bytes);
        trace.moves(OpKind::Read, 4, 0);
        trace.on(OpKind::Close, 4);
        trace.exit(SHELL);
        trace.on(OpKind::Close, 3);
    }
    trace.model()
}

/// `head -c … > f$i; cat f$i`, where each file is of another size: more kinds of processes by what they move than a model
/// has groups.
fn of_many_sizes() -> (Model, u64) {
    let mut trace = Trace {
        pid: SHELL,
        uneven: true,
        ..Trace::default()
    };
    trace.opens("/t/list", 0, 3);
    let (mut bytes, mut all) = (60_u64, 0);
    for round in 0..ROUNDS {
        let file = format!("/t/f{round}");
        trace.fork(100 + round);
        trace.opens(&file, 0o1101, 4);
        trace.moves(OpKind::Write, 4, bytes);
        trace.on(OpKind::Close, 4);
        trace.exit(SHELL);
        trace.fork(1000 + round);
        trace.opens(&file, 0, 4);
        trace.moves(OpKind::Read, 4, bytes);
        trace.moves(OpKind::Read, 4, 0);
        trace.on(OpKind::Close, 4);
        trace.exit(SHELL);
        all += bytes;
        bytes += bytes / 5;
    }
    trace.on(OpKind::Close, 3);
    (trace.model(), all)
}

#[test]
fn a_loop_over_files_of_many_sizes_reads_what_it_wrote() {
    let (model, bytes) = of_many_sizes();
    assert_eq!(model.groups.len(), 3, "the shell, who writes, who reads");
    for seed in [42, 1, 2] {
        let all = played(&model, seeded(seed));
        let count = |kind| calls(&all, kind).count() as u32;
        let counts = [OpKind::Open, OpKind::Read, OpKind::Write].map(count);
        assert_eq!(counts, [2 * ROUNDS + 1, 2 * ROUNDS, ROUNDS], "seed {seed}");
        for kind in [OpKind::Write, OpKind::Read] {
            let off = moved(&all, kind) as f64 / bytes as f64 - 1.0;
            assert!(off.abs() < 0.02, "seed {seed}, {kind:?}: {off}");
        }
    }
}

fn played(model: &Model, options: Options) -> Vec<(u32, Batch)> {
    let mut generator = Generator::new(Arc::new(model.clone()), options).unwrap();
    std::iter::from_fn(|| generator.any()).collect()
}

fn seeded(seed: u64) -> Options {
    Options {
        seed,
        ..Options::default()
    }
}

fn calls(all: &[(u32, Batch)], kind: OpKind) -> impl Iterator<Item = &Op> {
    let calls = all.iter().flat_map(|(_, batch)| &batch.calls);
    calls.map(|call| &call.op).filter(move |op| op.kind == kind)
}

fn moved(all: &[(u32, Batch)], kind: OpKind) -> u64 {
    calls(all, kind).map(Op::bytes_moved).sum()
}

#[test]
fn programs_write_to_what_the_shell_opened_and_read_what_was_written() {
    let model = shell();
    let all_bytes: u64 = (0..ROUNDS).map(bytes).sum();
    for seed in [42, 1, 2, 3] {
        let all = played(&model, seeded(seed));
        let count = |kind| calls(&all, kind).count() as u32;
        let counts = [OpKind::Open, OpKind::Close, OpKind::Read, OpKind::Write].map(count);
        // None is opened by who finds it closed.
        assert_eq!(
            counts,
            [3, 3, 2, 2].map(|each| each * ROUNDS),
            "seed {seed}"
        );
        for (kind, of) in [(OpKind::Write, 2 * all_bytes), (OpKind::Read, all_bytes)] {
            let moved = moved(&all, kind);
            // Sizes are told in a few values.
            assert!(
                moved.abs_diff(of) * 100 <= of,
                "seed {seed}: {moved} of {of}"
            );
        }
    }
    let read = moved(&played(&model.for_time(2.0), seeded(42)), OpKind::Read);
    assert!(
        read.abs_diff(2 * all_bytes) * 100 <= 2 * all_bytes,
        "{read}"
    );
}

#[test]
fn who_thinks_waits_for_those_that_it_began_and_who_does_not_waits_for_none() {
    // A shell that does nothing itself: each of its programs makes a file.
    let mut trace = Trace {
        pid: SHELL,
        uneven: true,
        ..Trace::default()
    };
    for round in 0..ROUNDS {
        trace.fork(100 + round);
        trace.opens(&format!("/t/f{round}"), 0o1101, 3);
        trace.on(OpKind::Close, 3);
        trace.exit(SHELL);
    }
    let model = trace.model();
    // By stream how many have been done, and behind how many of the files the last ones come.
    let behind = |options: Options| {
        let all = played(&model, options);
        let mut done: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut most = 0;
        for (stream, batch) in &all {
            let own = done.get(stream).and_then(|own| own.last()).copied();
            let of = |(stream, visit): &(u32, u64)| done[stream][*visit as usize - 1];
            let files = batch.after.iter().map(of).chain(own).max().unwrap_or(0);
            let files = files + u32::from(!batch.calls.is_empty());
            most = most.max(files);
            done.entry(*stream).or_default().push(files);
        }
        (calls(&all, OpKind::Open).count() as u32, most)
    };
    assert_eq!(behind(seeded(42)), (ROUNDS, ROUNDS));
    let at_once = Options {
        streams: 1024,
        ..seeded(42)
    };
    let (opens, most) = behind(at_once);
    assert_eq!(opens, ROUNDS);
    // As many streams as a place has at the most.
    assert_eq!(most, ROUNDS.div_ceil(16));
}

#[test]
fn who_waits_for_one_that_never_comes_goes_on() {
    // The first line begins three, of which there is one; the second waits until all have ended.
    let text = "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
        [source]\noperations = 1\nbytes_read = 0\nbytes_written = 0\nspan_ns = 0\n\
        [[files]]\ntype = \"file\"\nbefore = 4\nlater = 0\nsize_bytes = \"5\"\ndirectory = \"0\"\n\
        [[visit]]\nsteps = [\"stat\"]\n\
        [[group]]\nprocesses = 1\nat_once = 1\n\
        [[group]]\nprocesses = 3\nat_once = 1\nstarted = 3\n\
        [[phase]]\nstart_ns = 0\n\
        [[phase.part]]\ngroup = 1\nfirst = \"1\"\n\
        script = [\"0 begins=2 next=1*2,2\", \"1 waits=1 file=1.known:0 next=0\"]\n\
        [[phase.part]]\ngroup = 2\nfirst = \"1\"\nscript = [\"1 file=1.known:0 next=0\"]\n";
    let all = played(&Model::parse(text).unwrap(), seeded(42));
    assert_eq!(calls(&all, OpKind::Stat).count(), 2);
    for (edit, to) in [
        ("begins=2", "begins=3"),
        ("started = 3", "started = 0"),
        ("0 begins=2", "1 begins=2"),
        ("0 begins=2", "0 file=1.known"),
        ("started = 3", "started = 3\nthreads_of = 1"),
    ] {
        assert!(Model::parse(&text.replace(edit, to)).is_err(), "{to}");
    }
}

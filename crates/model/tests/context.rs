//! What hangs on what went before: on what others wrote, on what is open, on where a file ends.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_model::fsm::{Batch, Gather, Generator, Model, Next, Options, fit};

/// A model of these files, visits, groups and parts of its only phase.
fn model(files: &[&str], visits: &[&str], groups: &[&str], parts: &[&str]) -> Model {
    let all = |head: &str, bodies: &[&str]| {
        let each = bodies.iter().map(|body| format!("{head}\n{body}\n"));
        each.collect::<String>()
    };
    let steps = visits.iter().map(|steps| format!("steps = [{steps}]"));
    let steps: Vec<String> = steps.collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let text = format!(
        "format = \"fsm\"\nversion = 1\ndirectories = [0]\n\
         [source]\noperations = 1\nbytes_read = 0\nbytes_written = 0\nspan_ns = 0\n\
         {}{}{}[[phase]]\nstart_ns = 0\n{}",
        all("[[files]]", files),
        all("[[visit]]", &steps),
        all("[[group]]", groups),
        all("[[phase.part]]", parts),
    );
    Model::parse(&text).unwrap()
}

fn played(model: &Model, seed: u64) -> Vec<(u32, Batch)> {
    let options = Options {
        seed,
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model.clone()), options).unwrap();
    std::iter::from_fn(|| generator.any()).collect()
}

fn count(all: &[(u32, Batch)], kind: OpKind) -> usize {
    let calls = all.iter().flat_map(|(_, batch)| &batch.calls);
    calls.filter(|call| call.op.kind == kind).count()
}

#[test]
fn what_one_process_writes_another_reads_behind_it_and_reads_alone_wait_for_nothing() {
    let file = "type = \"file\"\nbefore = 1\nlater = 0\nsize_bytes = \"65536\"\ndirectory = \"0\"";
    let visit = |kind: &str| {
        format!("\"open flags=0x2\", \"{kind} at=random bytes=4096 place=0 unit=4096\", \"close\"")
    };
    let (writes, reads) = (visit("write"), visit("read"));
    let group = "processes = 2\nat_once = 2";
    let part = "group = 1\nfirst = \"1*2\"\n\
                script = [\"1 file=1.known took_ns=50 next=1*98,0*2\"]";
    let waits = |visit: &str| {
        let all = played(&model(&[file], &[visit], &[group], &[part]), 42);
        let mut last = [0_u64; 2];
        let mut waits = 0;
        for (lane, batch) in &all {
            let other = 1 - *lane as usize;
            last[*lane as usize] += 1;
            // Only for the other's latest, which comes before this one.
            let wanted: Vec<(u32, u64)> = vec![(other as u32, last[other])];
            waits += usize::from(batch.after == wanted);
            assert!(batch.after.is_empty() || batch.after == wanted);
        }
        (all.len(), waits)
    };
    let (batches, waiting) = waits(&writes);
    assert_eq!(batches, 100);
    // Each that comes after one of the other's waits for it.
    assert!(waiting > 30, "{waiting}");
    assert_eq!(waits(&reads), (100, 0));
}

#[test]
fn who_copies_opens_what_he_reads_when_what_he_writes_is_open() {
    // Whoever copies looks at files in between, before he opens what he writes and afterwards.
    let files = [
        "type = \"file\"\nbefore = 30\nlater = 0\nsize_bytes = \"5000\"\ndirectory = \"0*30\"",
        "type = \"file\"\nbefore = 0\nlater = 120\ndirectory = \"0*120\"",
    ];
    let visits = [
        "\"stat\"",
        "\"open flags=0x241\"",
        "\"open\", \"read at=next bytes=4096\"",
        "\"write at=next bytes=4096\"",
        "\"close\"",
    ];
    let script = "script = [\n\
        \"1 file=1.known:0*9,1,2,3 took_ns=5 next=1*60,2*120,3*120,0\",\n\
        \"2 file=2.new took_ns=5 next=1*120\",\n\
        \"3 file=1.known:1,2,3 took_ns=5 next=4*120\",\n\
        \"4 file=2.open:0 took_ns=5 next=5*120\",\n\
        \"5 file=1.open:0 took_ns=5 next=6*120\",\n\
        \"5 file=2.open:0 took_ns=5 next=1*120\",\n]";
    let part = format!("group = 1\nfirst = \"1\"\n{script}");
    let group = "processes = 1\nat_once = 1";
    let model = model(&files, &visits, &[group], &[&part]);
    for seed in [42, 1, 2] {
        let all = played(&model, seed);
        assert_eq!(count(&all, OpKind::Write), 120, "seed {seed}");
        // None is opened because there was none to write to.
        assert_eq!(count(&all, OpKind::Open), 240, "seed {seed}");
    }
}

#[test]
fn a_read_that_finds_nothing_is_at_the_end_wherever_that_is() {
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    let mut now_ns = 0;
    let log = paths.intern(b"/t/log");
    let mut add = |kind: OpKind, change: &dyn Fn(&mut Op)| {
        let mut op = Op::new(kind, Pid(1), Tid(1), now_ns);
        (op.latency_ns, op.result) = (Some(500), Outcome::ok(0));
        change(&mut op);
        now_ns += 1000;
        gather.take(&op, &paths);
    };
    add(OpKind::Open, &|op| {
        (op.path, op.flags, op.result) = (log, 0o102, Outcome::ok(3));
    });
    // Whoever reads looks whether there is more behind the first 13 KiB: there is in the second half.
    for round in 0..100_u64 {
        let moved = if round < 50 { 0 } else { 8 };
        if round % 50 == 0 {
            add(OpKind::Write, &|op| {
                let offset = if round == 0 { 0 } else { 13_312 };
                (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(offset), Some(13_312));
                op.result = Outcome::ok(13_312);
            });
        }
        for (offset, asked, moved) in [(24, 16, 16), (13_312, 8, moved)] {
            add(OpKind::Read, &|op| {
                (op.fd, op.offset, op.length) = (Some(Fd(3)), Some(offset), Some(asked));
                (op.result, op.record) = (Outcome::ok(moved), OpFlags::default());
            });
        }
    }
    let model = fit(gather).unwrap();
    let text = model.text().unwrap();
    let ends = text.matches("read at=end offset=given bytes=8").count();
    assert!(ends > 0, "{text}");
    let all = played(&Model::parse(&text).unwrap(), 42);
    let calls = all.iter().flat_map(|(_, batch)| &batch.calls);
    let reads: Vec<u64> = calls
        .filter(|call| call.op.kind == OpKind::Read && call.op.length == Some(8))
        .map(|call| call.op.bytes_moved())
        .collect();
    assert_eq!(reads.iter().filter(|read| **read == 0).count(), 50);
    assert_eq!(reads.iter().sum::<u64>(), 50 * 8);
}

/// One that begins `children` others, each after one of its own visits, which come and go on a single place.
fn of_children(children: u64, streams: u32) -> Vec<(u32, Batch)> {
    let file = format!(
        "type = \"file\"\nbefore = {n}\nlater = 0\nsize_bytes = \"4096\"\ndirectory = \"0*{n}\"",
        n = 100 + 3 * children
    );
    let groups = [
        "processes = 1\nat_once = 1\nbegin_ns = \"0\"".to_owned(),
        format!(
            "processes = {children}\nat_once = 1\nbegin_ns = \"1500\"\nbegun_by = \"1\"\nidle_ns = \"5000\""
        ),
    ];
    let parts = [
        "group = 1\nfirst = \"1\"\nscript = [\"1 file=1.fresh think_ns=1000 took_ns=500 next=1*99,0\"]"
            .to_owned(),
        format!(
            "group = 2\nfirst = \"1*{children}\"\n\
             script = [\"1 file=1.fresh took_ns=500 repeat=3 next=0*{children}\"]"
        ),
    ];
    let model = model(
        &[&file],
        &["\"stat\""],
        &groups.each_ref().map(String::as_str),
        &parts.each_ref().map(String::as_str),
    );
    let options = Options {
        streams,
        ..Options::default()
    };
    let mut generator = Generator::new(Arc::new(model), options).unwrap();
    let lanes = generator.lanes();
    assert_eq!(
        lanes as u64,
        if streams == 0 {
            2
        } else {
            1 + children.min(16)
        }
    );
    // As it is run: each stream in turn is asked for what it does next, and says when it is not its turn yet.
    let mut found = Vec::new();
    let mut ended = vec![false; lanes];
    while ended.contains(&false) {
        for (stream, ended) in ended.iter_mut().enumerate() {
            match generator.batch(stream as u32) {
                Next::Batch(batch) => found.push((stream as u32, batch)),
                Next::Later => {}
                Next::End => *ended = true,
            }
        }
    }
    found
}

#[test]
fn who_is_begun_by_another_waits_for_that_one_and_not_for_the_one_before_on_his_place() {
    let paths = |all: &[(u32, Batch)]| {
        let calls = all.iter().flat_map(|(_, batch)| &batch.calls);
        let mut paths: Vec<_> = calls.map(|call| call.path.clone()).collect();
        paths.sort();
        paths
    };
    let (together, apart) = (of_children(10, 0), of_children(10, 64));
    // The same is done; only the streams differ.
    assert_eq!((together.len(), apart.len()), (130, 130));
    assert_eq!(paths(&together), paths(&apart));
    let mut begun = Vec::new();
    for child in 1..=10 {
        let own: Vec<&Batch> = apart
            .iter()
            .filter(|(s, _)| *s == child)
            .map(|(_, b)| b)
            .collect();
        assert_eq!(own.len(), 3, "child {child}");
        assert!(own[1].after.is_empty() && own[2].after.is_empty());
        // Behind one visit of who began it, later ones behind later ones.
        assert!(
            matches!(own[0].after.as_slice(), [(0, 1..=99)]),
            "{:?}",
            own[0].after
        );
        begun.push(own[0].after[0].1);
    }
    assert!(
        begun.is_sorted() && begun[0] < 10 && begun[9] > 30,
        "{begun:?}"
    );
    // More than there are streams for follow one another in them.
    let many = of_children(100, 1024);
    assert_eq!(many.iter().filter(|(stream, _)| *stream > 0).count(), 300);
    let of_first = many.iter().filter(|(stream, _)| *stream == 1).count();
    assert_eq!(of_first, 3 * 7);
}

#[test]
fn a_model_tells_who_began_whom_and_no_group_begins_what_there_is_not() {
    let (mut gather, mut paths) = (Gather::new(&[]), PathTable::new());
    let mut now_ns = 0;
    let mut add =
        |gather: &mut Gather, kind: OpKind, tid: u32, path: Option<String>, length: Option<u64>| {
            let mut op = Op::new(kind, Pid(tid), Tid(tid), now_ns);
            (op.latency_ns, op.result) = (Some(500), Outcome::ok(0));
            op.path = path.and_then(|path| paths.intern(path.as_bytes()));
            op.length = length;
            now_ns += 1000;
            gather.take(&op, &paths);
        };
    // A shell makes directories and begins compilers by way of one that does nothing itself.
    for job in 0..20_u32 {
        add(
            &mut gather,
            OpKind::Mkdir,
            1,
            Some(format!("/t/{job}")),
            None,
        );
        let (between, child) = (100 + job, 200 + job);
        add(&mut gather, OpKind::Fork, 1, None, Some(between.into()));
        add(&mut gather, OpKind::Fork, between, None, Some(child.into()));
        add(&mut gather, OpKind::Stat, child, Some("/t".into()), None);
        for tid in [child, between] {
            add(&mut gather, OpKind::Exit, tid, None, Some(1));
        }
    }
    let text = fit(gather).unwrap().text().unwrap();
    assert_eq!(text.matches("started = 20").count(), 2, "{text}");
    for begins in ["begins=2", "begins=3"] {
        assert_eq!(text.matches(begins).count(), 1, "{text}");
    }
    let wrong = Model::parse(&text.replace("begins=3", "begins=7")).unwrap_err();
    let wrong = wrong.to_string();
    assert!(
        wrong.contains("expected a group of which some are started"),
        "{wrong}"
    );
    let begun_by = "started = 20\nbegun_by = \"1,7\"";
    let wrong = Model::parse(&text.replacen("started = 20", begun_by, 1)).unwrap_err();
    let wrong = wrong.to_string();
    assert!(wrong.contains("7, but there are 3 groups"), "{wrong}");
}

#[test]
fn what_is_open_is_used_before_another_is_opened_for_it() {
    // Two kinds of files are made and written; which is open and which is written to comes apart by chance.
    let made = "type = \"file\"\nbefore = 0\nlater = 60\ndirectory = \"0*60\"";
    let visits = [
        "\"open flags=0x241\"",
        "\"write at=next bytes=4096\"",
        "\"close\"",
    ];
    let script = "script = [\n\
        \"1 file=1.new took_ns=5 next=3*30,4*30\",\n\
        \"1 file=2.new took_ns=5 next=3*30,4*30\",\n\
        \"2 file=1.open:0 took_ns=5 next=5*60\",\n\
        \"2 file=2.open:0 took_ns=5 next=6*60\",\n\
        \"3 file=1.open:0 took_ns=5 next=1*29,2*30,0\",\n\
        \"3 file=2.open:0 took_ns=5 next=1*30,2*30\",\n]";
    let part = format!("group = 1\nfirst = \"1\"\n{script}");
    let model = model(
        &[made, made],
        &visits,
        &["processes = 1\nat_once = 1"],
        &[&part],
    );
    for seed in [42, 1, 2] {
        let all = played(&model, seed);
        let counts = [OpKind::Open, OpKind::Write, OpKind::Close].map(|kind| count(&all, kind));
        assert_eq!(counts, [120; 3], "seed {seed}");
    }
}

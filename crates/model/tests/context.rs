//! What hangs on what went before: on what others wrote, on what is open, on where a file ends.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathTable, Pid, Tid};
use fsage_model::fsm::{Batch, Gather, Generator, Model, Options, fit};

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

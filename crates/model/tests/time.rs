//! A model for a part of its trace's time, or several times it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fsage_core::OpKind;
use fsage_model::fsm::{Generator, Model, Options};

use crate::common::model_of;

fn counts(model: &Model) -> BTreeMap<OpKind, u64> {
    let mut generator = Generator::new(Arc::new(model.clone()), Options::default()).unwrap();
    let mut counts = BTreeMap::new();
    while let Some((_, batch)) = generator.any() {
        for call in &batch.calls {
            *counts.entry(call.op.kind).or_default() += 1;
        }
    }
    counts
}

/// How many of the kinds there are for that time; of what is done once as much as it is.
fn holds(model: &Model, time: f64, wanted: &[(OpKind, u64, u64)]) {
    let scaled = model.for_time(time);
    let counts = counts(&scaled);
    for &(kind, n, off) in wanted {
        let found = counts.get(&kind).copied().unwrap_or(0);
        let expected = ((n as f64 * time).round() as u64).max(n.min(1));
        assert!(
            found.abs_diff(expected) <= off,
            "time={time}: {found} {}, expected {expected}",
            kind.name()
        );
    }
}

/// One that writes a file in one visit, then reads and writes it in places, and makes it stable before it closes it: of a
/// part of its time it closes it all the same.
#[test]
fn every_count_is_as_many_times_as_large_and_what_was_opened_is_closed() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 1\ndirectory = \"0\"\n";
    let visits = [
        "\"open flags=0x42\", \"write at=next bytes=8192 times=500\"",
        "\"read at=random offset=given bytes=4096 place=0 unit=4096\", \
         \"write at=random offset=given bytes=4096 place=0 unit=4096\"",
        "\"read at=start offset=given bytes=4096\"",
        "\"fsync\", \"close\"",
    ];
    let script = [
        "1 file=1.new next=2",
        "2 file=1.open:0 next=2*960,3*39,4",
        "3 file=1.open:0 next=2*39",
        "4 file=1.open:0 next=0",
    ];
    let model = Model::parse(&model_of(file, &visits, &script)).unwrap();
    for time in [0.1, 0.5, 0.9, 1.0, 1.5, 2.0, 3.0] {
        let wanted = [
            (OpKind::Open, 1, 0),
            (OpKind::Close, 1, 0),
            (OpKind::Fsync, 1, 0),
            (OpKind::Write, 1500, 3),
            (OpKind::Read, 1039, 3),
        ];
        holds(&model, time, &wanted);
        assert!(model.off_by_time(&model.for_time(time), time).is_empty());
    }
}

#[test]
fn rows_are_as_many_times_as_long_and_processes_as_many_times_as_many() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 400\ndirectory = \"0\"\n";
    let visits = [
        "\"open flags=0x41\", \"write at=next bytes=100*7,5000*3\", \"close\"",
        "\"stat\"",
    ];
    let rows = ["2 file=0.none next=2", "1 file=1.new repeat=199 next=0"];
    let model = Model::parse(&model_of(file, &visits, &rows)).unwrap();
    for time in [0.1, 0.5, 0.9, 2.5] {
        holds(
            &model,
            time,
            &[(OpKind::Open, 199, 2), (OpKind::Close, 199, 2)],
        );
    }
    let many = model_of(file, &visits, &["1 file=1.new next=0*40"])
        .replace("processes = 1", "processes = 40")
        .replace("first = \"1\"", "first = \"1*40\"");
    let model = Model::parse(&many).unwrap();
    for time in [0.1, 0.5, 0.9, 2.5] {
        holds(
            &model,
            time,
            &[(OpKind::Open, 40, 0), (OpKind::Close, 40, 0)],
        );
    }
}

/// The rare is left out, and what there is one of at the least is told to be more than was asked for.
#[test]
fn what_cannot_be_in_part_is_told() {
    let file = "[[files]]\ntype = \"file\"\nbefore = 0\nlater = 9\ndirectory = \"0\"\n";
    let visits = ["\"open flags=0x41\", \"close\""];
    let chain: Vec<String> = (1..=40)
        .map(|line| format!("1 file=1.new next={}", (line + 1) % 41))
        .collect();
    let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
    let model = Model::parse(&model_of(file, &visits, &chain)).unwrap();
    let scaled = model.for_time(0.5);
    assert_eq!(counts(&scaled)[&OpKind::Open], 40);
    let off = model.off_by_time(&scaled, 0.5);
    let opens = off.iter().find(|of| of.kind == OpKind::Open).unwrap();
    assert_eq!((opens.wanted, opens.done), (20.0, 40.0));
    // Rounds to which a part of the time would not lead are led to.
    let rounds = [
        "1 file=1.new next=2*2",
        "1 file=1.new next=3,4",
        "1 file=1.new next=3*100,4",
        "1 file=1.new next=0*2",
    ];
    let model = model_of(file, &visits, &rounds)
        .replace("processes = 1", "processes = 2")
        .replace("first = \"1\"", "first = \"1*2\"");
    let model = Model::parse(&model).unwrap();
    for time in [0.2, 0.4, 0.5, 0.7] {
        let opens = counts(&model.for_time(time))[&OpKind::Open];
        let wanted = 107.0 * time;
        assert!((opens as f64 - wanted).abs() <= 4.0, "{time}: {opens}");
    }
}

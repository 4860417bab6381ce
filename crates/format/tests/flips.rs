//! One flipped bit anywhere in a finished file is found, or changes nothing of what the file says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{Sequence, drain_snapshot, entries, named, operations, write_snapshot, write_trace};
use fsage_core::OpSource;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::{
    AnnotationColumn, AnnotationKind, AnnotationValue, Annotations, TraceEnd, TraceMeta,
    TraceReader, TraceWriter,
};

/// Everything that a trace says; `None` if it is refused or says that it has no end.
fn trace(file: &Path) -> Option<String> {
    let mut reader = TraceReader::open(file).ok()?;
    let mut said = format!("{:?}{:?}{:?}", reader.meta(), reader.end(), reader.loss());
    let (mut ops, mut notes) = (Vec::new(), Annotations::default());
    while reader.next_annotated(&mut ops, &mut notes).ok()? > 0 {
        for (row, op) in ops.drain(..).enumerate() {
            said += &format!("{:?}{:?}", named(&op, reader.paths()), notes.row(row));
        }
    }
    (!reader.loss().unfinished).then_some(said)
}

/// The same of a snapshot.
fn snapshot(file: &Path) -> Option<String> {
    let mut reader = SnapshotReader::open(file).ok()?;
    let said = format!("{:?}{:?}{:?}", reader.meta(), reader.end(), reader.loss());
    let rows = drain_snapshot(&mut reader).ok()?;
    (!reader.loss().unfinished).then(|| format!("{said}{rows:?}"))
}

/// Flips every bit of the file's end and thousands before it.
fn flip(file: &Path, say: fn(&Path) -> Option<String>) {
    let whole = say(file).unwrap();
    let length = std::fs::metadata(file).unwrap().len();
    let end = length.saturating_sub(2048);
    let mut random = Sequence(length);
    let sampled = (0..4000).map(|_| (random.next() % length, random.next() % 8));
    let every = (end..length).flat_map(|at| (0..8).map(move |bit| (at, bit)));
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    let (mut found, mut harmless) = (0, 0);
    for (at, bit) in sampled.chain(every).collect::<Vec<_>>() {
        let mut byte = [0];
        opened.read_exact_at(&mut byte, at).unwrap();
        opened.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
        match say(file) {
            Some(said) => {
                assert!(said == whole, "bit {bit} of byte {at} of {length} unseen");
                harmless += 1;
            }
            None => found += 1,
        }
        opened.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(say(file).as_ref(), Some(&whole));
    assert!(found > 2000, "{found} found, {harmless} without effect");
}

#[test]
fn of_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(60, 3);
    write_trace(&file, &paths, &ops, 40);
    flip(&file, trace);
}

#[test]
fn of_an_annotated_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(40, 4);
    let column = |name: &str, kind| AnnotationColumn {
        name: name.to_owned(),
        kind,
    };
    let columns = [
        column("predicted_latency_ns", AnnotationKind::Number),
        column("request_vector", AnnotationKind::Text),
    ];
    let meta = TraceMeta::default();
    let mut writer = TraceWriter::create_annotated(&file, meta, &columns).unwrap();
    for (i, op) in ops.iter().enumerate() {
        let number = AnnotationValue::Number(i as f64 / 3.0);
        let text = AnnotationValue::Text(format!("{} LUR_BC", i % 4));
        writer.push_annotated(op, &paths, &[number, text]).unwrap();
    }
    writer
        .finish(TraceEnd {
            operations_lost: 9,
            ..TraceEnd::default()
        })
        .unwrap();
    flip(&file, trace);
}

#[test]
fn of_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.fss");
    write_snapshot(&file, &entries(40, 3));
    flip(&file, snapshot);
}

/// What a file of version 1 says of its end stands in a footer without checksum: a key or a field
/// that is not known is refused, and a finished file without its end.
#[test]
fn keys_of_the_end_in_a_file_without_seal() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let dir = tempfile::tempdir().unwrap();
    for (name, say) in [
        ("version-1.fst", trace as fn(&Path) -> Option<String>),
        ("version-1.fss", snapshot),
    ] {
        let bytes = std::fs::read(golden.join(name)).unwrap();
        let file = dir.path().join(name);
        for key in ["fsage.end", "operations_lost", "unreadable", "elapsed_ns"] {
            let Some(at) = bytes.windows(key.len()).rposition(|w| w == key.as_bytes()) else {
                continue;
            };
            for bit in 0..8 * key.len() {
                let mut flipped = bytes.clone();
                flipped[at + bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&file, &flipped).unwrap();
                assert_eq!(say(&file), None, "{name}, {key}, bit {bit}");
            }
        }
    }
}

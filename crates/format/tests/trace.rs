//! The trace: lossless both ways, recovered when it was cut, refused when it is something else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use common::{assert_same, drain, operations, write_trace};
use fsage_core::{Op, OpKind, OpSink, OpSource, PathTable, Pid, Tid};
use fsage_format::trace::{
    AnnotationColumn, AnnotationKind, AnnotationValue, Annotations, PIECE_ROWS, TraceEnd,
    TraceMeta, TraceReader, TraceWriter,
};
use fsage_format::{FileKind, sniff};
use proptest::prelude::*;

#[test]
fn every_field_survives() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(3000, 1);
    write_trace(&file, &paths, &ops, 1000);
    let mut reader = TraceReader::open(&file).unwrap();
    assert_eq!(reader.total_operations(), 3000);
    assert_eq!(reader.meta().host, "here");
    assert_eq!(reader.end().unwrap().operations_lost, 9);
    assert!(!reader.loss().unfinished);
    assert_eq!(reader.loss().operations_lost, 9);
    let found = drain(&mut reader).unwrap();
    assert_same((&paths, &ops), (reader.paths(), &found));
    assert_eq!(sniff(&file).unwrap(), FileKind::Trace);
}

#[test]
fn pieces_end_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let paths = PathTable::new();
    let count = PIECE_ROWS * 2 + 5;
    let ops: Vec<Op> = (0..count)
        .map(|i| Op::new(OpKind::Stat, Pid(1), Tid(1), i as u64))
        .collect();
    write_trace(&file, &paths, &ops, usize::MAX);
    let mut reader = TraceReader::open(&file).unwrap();
    assert_eq!(drain(&mut reader).unwrap(), ops);
    let mut reader = TraceReader::open(&file).unwrap();
    for (skip, next) in [
        (0, 0),
        (10, 10),
        (PIECE_ROWS as u64 + 3, PIECE_ROWS as u64 + 13),
    ] {
        assert_eq!(reader.skip(skip).unwrap(), skip);
        let mut one = Vec::new();
        reader.next_batch(&mut one).unwrap();
        assert_eq!(
            one.first().map(|op| op.start_ns >= next),
            Some(true),
            "after {skip}"
        );
    }
    assert!(reader.skip(u64::MAX).unwrap() < count as u64);
}

#[test]
fn a_trace_without_operations_is_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    write_trace(&file, &PathTable::new(), &[], 1);
    let mut reader = TraceReader::open(&file).unwrap();
    assert_eq!(reader.total_operations(), 0);
    assert_eq!(drain(&mut reader).unwrap(), []);
    let writer = TraceWriter::create(&file, TraceMeta::default()).unwrap();
    drop(writer);
    let mut reader = TraceReader::open(&file).unwrap();
    assert!(reader.loss().unfinished);
    assert_eq!(drain(&mut reader).unwrap(), []);
}

#[test]
fn a_cut_trace_is_read_up_to_its_last_whole_piece() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(500, 2);
    write_trace(&file, &paths, &ops, 100);
    let whole = std::fs::read(&file).unwrap();
    let mut recovered = std::collections::BTreeSet::new();
    for length in (0..whole.len()).rev().step_by(97) {
        std::fs::write(&file, &whole[..length]).unwrap();
        let Ok(mut reader) = TraceReader::open(&file) else {
            // Nothing is whole before the first trailer.
            assert!(recovered.contains(&0) || length < 4096, "{length} bytes");
            continue;
        };
        assert!(reader.loss().unfinished, "{length} bytes");
        assert!(reader.loss().bytes_dropped < length as u64);
        let found = drain(&mut reader).unwrap();
        assert_eq!(found.len() % 100, 0);
        assert_eq!(found.len() as u64, reader.total_operations());
        assert_eq!(
            reader.loss().operations_lost,
            if found.is_empty() { 0 } else { 7 }
        );
        assert_same((&paths, &ops[..found.len()]), (reader.paths(), &found));
        recovered.insert(found.len());
    }
    assert_eq!(
        recovered.into_iter().collect::<Vec<_>>(),
        [0, 100, 200, 300, 400, 500]
    );
}

#[test]
fn an_unfinished_trace_keeps_what_was_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(250, 3);
    let mut writer = TraceWriter::create(&file, TraceMeta::default()).unwrap();
    for op in &ops[..200] {
        writer.push(op, &paths).unwrap();
    }
    writer.flush_piece().unwrap();
    for op in &ops[200..] {
        writer.push(op, &paths).unwrap();
    }
    // As a killed process leaves it: nothing more reaches the file.
    std::mem::forget(writer);
    let mut reader = TraceReader::open(&file).unwrap();
    assert!(reader.end().is_none());
    let found = drain(&mut reader).unwrap();
    assert_same((&paths, &ops[..200]), (reader.paths(), &found));
}

#[test]
fn added_columns_stand_beside_their_operations() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(100, 4);
    let columns = [
        AnnotationColumn {
            name: "predicted_ns".to_owned(),
            kind: AnnotationKind::Integer,
        },
        AnnotationColumn {
            name: "share".to_owned(),
            kind: AnnotationKind::Number,
        },
        AnnotationColumn {
            name: "vector".to_owned(),
            kind: AnnotationKind::Text,
        },
    ];
    let row = |i: usize| {
        let text = AnnotationValue::Text(format!("RDC:{}", i % 3));
        let number = AnnotationValue::Number(i as f64 / 7.0);
        let integer = AnnotationValue::Integer(u64::MAX - i as u64);
        if i.is_multiple_of(5) {
            vec![AnnotationValue::Absent; 3]
        } else {
            vec![integer, number, text]
        }
    };
    let mut writer = TraceWriter::create_annotated(&file, TraceMeta::default(), &columns).unwrap();
    for (i, op) in ops.iter().enumerate() {
        writer.push_annotated(op, &paths, &row(i)).unwrap();
    }
    let wrong = [AnnotationValue::Text("x".to_owned())];
    assert!(writer.push_annotated(&ops[0], &paths, &wrong).is_err());
    drop(writer);
    let mut writer = TraceWriter::create_annotated(&file, TraceMeta::default(), &columns).unwrap();
    for (i, op) in ops.iter().enumerate() {
        writer.push_annotated(op, &paths, &row(i)).unwrap();
    }
    writer.finish(TraceEnd::default()).unwrap();
    let mut reader = TraceReader::open(&file).unwrap();
    assert_eq!(reader.annotation_columns(), columns);
    let (mut found, mut notes) = (Vec::new(), Annotations::default());
    reader.next_annotated(&mut found, &mut notes).unwrap();
    assert_same((&paths, &ops), (reader.paths(), &found));
    for i in 0..ops.len() {
        assert_eq!(notes.row(i), row(i), "row {i}");
    }
    assert!(notes.row(ops.len()).is_empty());
}

#[test]
fn names_of_added_columns_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    for name in ["path", "", "a.b", "a b"] {
        let column = AnnotationColumn {
            name: name.to_owned(),
            kind: AnnotationKind::Text,
        };
        let error = TraceWriter::create_annotated(&file, TraceMeta::default(), &[column]).err();
        assert!(
            error.unwrap().to_string().contains("added column"),
            "{name}"
        );
    }
}

#[test]
fn what_is_no_trace_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let says = |bytes: &[u8], expected: &str| {
        std::fs::write(&file, bytes).unwrap();
        let error = TraceReader::open(&file).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&file.display().to_string()), "{error}");
    };
    says(b"", "an empty file, expected a trace (.fst)");
    says(b"open(\"a\") = 3\n", "a text file, expected a trace (.fst)");
    says(b"\x1f\x8b\x08\x00", "a gzip archive");
    says(b"\x00\x01\x02", "binary data");
    says(b"PAR1", "no whole piece");
    says(b"PAR1PAR1PAR1", "no whole piece");
    let error = TraceReader::open(dir.path()).err().unwrap().to_string();
    assert!(error.contains("a directory"), "{error}");
    let missing = TraceReader::open(&dir.path().join("missing"))
        .err()
        .unwrap()
        .to_string();
    assert!(missing.contains("missing"), "{missing}");
    common::write_snapshot(&file, &common::entries(3, 1));
    let error = TraceReader::open(&file).err().unwrap().to_string();
    assert!(
        error.contains("a snapshot of fsage, expected a trace"),
        "{error}"
    );
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    write_trace(&file, &PathTable::new(), &[], 1);
    let mut bytes = std::fs::read(&file).unwrap();
    common::unsealed(&mut bytes);
    // The value after its key in the footer: one byte of length, then the digit.
    let key = b"fsage.version";
    let at = bytes.windows(key.len()).rposition(|w| w == key).unwrap() + key.len();
    let digit = at + bytes[at..].iter().position(|&b| b == b'6').unwrap();
    bytes[digit] = b'7';
    std::fs::write(&file, &bytes).unwrap();
    let error = TraceReader::open(&file).err().unwrap().to_string();
    assert!(error.contains("version 7 of the trace format"), "{error}");
    assert!(error.contains("reads up to version 6"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_operations_survive(seed in any::<u64>(), count in 0usize..400, piece in 1usize..200) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.fst");
        let (paths, ops) = operations(count, seed);
        write_trace(&file, &paths, &ops, piece);
        let mut reader = TraceReader::open(&file).unwrap();
        let found = drain(&mut reader).unwrap();
        assert_same((&paths, &ops), (reader.paths(), &found));
    }
}

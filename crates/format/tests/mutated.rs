//! Any bytes: a value or an error that names the file; never a panic, never memory beyond the
//! input's own means. The same bodies run under cargo-fuzz, see `fuzz/`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::path::Path;

use common::{
    Sequence, drain, drain_snapshot, entries, mutate, operations, write_snapshot, write_trace,
};
use fsage_format::profile::{Environment, MetricValue, SystemProfile};
use fsage_format::record::parse_records;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::sniff;
use fsage_format::trace::TraceReader;

const CASES: usize = 400;

fn each_mutation(original: &[u8], seed: u64, mut body: impl FnMut(&[u8])) {
    let mut random = Sequence(seed);
    for case in 0..CASES {
        let bytes = mutate(original, &mut random);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&bytes)));
        assert!(outcome.is_ok(), "case {case} of seed {seed} panicked");
    }
}

/// An error must name the file it is about.
fn names_file<T, E: std::fmt::Display>(result: Result<T, E>, path: &Path) -> Option<T> {
    result
        .map_err(|e| {
            let text = e.to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
        })
        .ok()
}

#[test]
fn damaged_traces() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(300, 5);
    write_trace(&file, &paths, &ops, 120);
    let original = std::fs::read(&file).unwrap();
    let (mut read, mut refused) = (0, 0);
    each_mutation(&original, 11, |bytes| {
        std::fs::write(&file, bytes).unwrap();
        let _ = sniff(&file);
        match names_file(TraceReader::open(&file), &file).map(|mut r| drain(&mut r)) {
            Some(Ok(ops)) if ops.len() <= 300 => read += 1,
            Some(Ok(ops)) => panic!("{} operations from 300", ops.len()),
            Some(Err(e)) => {
                assert!(e.contains("t.fst"), "{e}");
                refused += 1;
            }
            None => refused += 1,
        }
    });
    assert!(
        read > 0 && refused > 0,
        "{read} read, {refused} refused: damage of both kinds"
    );
}

/// Damage that keeps the checksums away from the decoder's work: only the footer is trusted.
#[test]
fn damaged_pages_without_checksums() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.fst");
    let (paths, ops) = operations(300, 6);
    write_trace(&file, &paths, &ops, 300);
    let mut original = std::fs::read(&file).unwrap();
    common::unsealed(&mut original);
    std::fs::write(&file, &original).unwrap();
    assert_eq!(
        drain(&mut TraceReader::open(&file).unwrap()).unwrap().len(),
        300
    );
    let pages = original.len() / 2;
    let mut random = Sequence(13);
    for case in 0..2 * CASES {
        let mut bytes = original.clone();
        for _ in 0..=random.below(4) {
            bytes[4 + random.below(pages)] = random.next() as u8;
        }
        std::fs::write(&file, &bytes).unwrap();
        let outcome = std::panic::catch_unwind(|| {
            names_file(TraceReader::open(&file), &file).map(|mut r| drain(&mut r))
        });
        assert!(outcome.is_ok(), "case {case} panicked");
    }
}

#[test]
fn damaged_snapshots() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("s.fss");
    write_snapshot(&file, &entries(200, 5));
    let original = std::fs::read(&file).unwrap();
    each_mutation(&original, 17, |bytes| {
        std::fs::write(&file, bytes).unwrap();
        if let Some(mut reader) = names_file(SnapshotReader::open(&file), &file) {
            let _ = drain_snapshot(&mut reader);
        }
    });
}

#[test]
fn damaged_profiles_and_records() {
    let path = Path::new("damaged file");
    let mut profile = SystemProfile::new("ext4", Environment::default());
    profile.metrics = ["RMD", "STAT"]
        .map(|name| MetricValue {
            name: name.to_owned(),
            unit: "ns".to_owned(),
            estimate: 10.0,
            low: Some(9.0),
            high: Some(11.0),
            ..MetricValue::default()
        })
        .to_vec();
    let original = serde_json::to_vec(&profile).unwrap();
    each_mutation(&original, 19, |bytes| {
        if let Some(profile) = names_file(SystemProfile::parse(path, bytes), path) {
            assert!(
                profile
                    .metrics
                    .iter()
                    .all(|m| m.estimate.is_finite() && m.estimate >= 0.0)
            );
        }
    });
    let original = b"{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"x\"}\n[1]\n[2]\n";
    each_mutation(original, 23, |bytes| {
        let _ = names_file(parse_records::<serde_json::Value>(path, bytes), path);
    });
}

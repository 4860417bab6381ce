//! The seed corpora of `fuzz/`, as they are and damaged in many ways, through the bodies of the fuzz
//! targets: an answer or an error, never a panic. What needs a nightly toolchain there needs none here.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::path::{Path, PathBuf};

use common::{Sequence, mutate};
use fsage_core::OpSource;
use fsage_format::foreign::hbench::{self, HbenchSource};
use fsage_format::foreign::strace::StraceSource;
use fsage_format::foreign::wml;
use fsage_format::profile::SystemProfile;
use fsage_format::record::parse_records;
use fsage_format::result::load;
use fsage_format::result::prediction::Prediction;
use fsage_format::result::validation::Validation;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::TraceReader;

/// Damages of each seed.
const CASES: u64 = 250;

/// Parses bytes; whether they were accepted. `file` is free to be written.
type Body = fn(bytes: &[u8], file: &Path) -> bool;

const NAME: &str = "fuzzed";

const TARGETS: &[(&str, Body)] = &[
    ("hbench", |bytes, _| {
        let mut source = HbenchSource::new(bytes, Path::new(NAME));
        loop {
            match source.read_op() {
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }),
    ("hbench_profile", |bytes, _| {
        std::str::from_utf8(bytes).is_ok_and(|text| {
            hbench::profile::parse(text, Path::new(NAME), NAME)
                .inspect(|profile| profile.check(Path::new(NAME)).unwrap())
                .is_ok()
        })
    }),
    ("hbench_snapshot", |bytes, _| {
        hbench::snapshot::read(bytes, Path::new(NAME), |entry| {
            assert!(!entry.path.starts_with(b"/"));
            Ok(())
        })
        .is_ok()
    }),
    ("profile", |bytes, _| {
        SystemProfile::parse(Path::new(NAME), bytes)
            .inspect(|profile| profile.check(Path::new(NAME)).unwrap())
            .is_ok()
    }),
    ("record", |bytes, _| {
        parse_records::<serde_json::Value>(Path::new(NAME), bytes).is_ok()
    }),
    ("result", |bytes, file| {
        std::fs::write(file, bytes).unwrap();
        let _ = fsage_format::sniff(file);
        load::<Prediction>(file).is_ok() || load::<Validation>(file).is_ok()
    }),
    ("snapshot", |bytes, file| {
        std::fs::write(file, bytes).unwrap();
        let Ok(mut reader) = SnapshotReader::open(file) else {
            return false;
        };
        let mut batch = Vec::new();
        loop {
            batch.clear();
            match reader.next_batch(&mut batch) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }),
    ("strace", |bytes, _| {
        let mut source = StraceSource::new(bytes, Path::new(NAME));
        let mut ops = Vec::new();
        loop {
            match source.read_ops(&mut ops) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }),
    ("trace", |bytes, file| {
        std::fs::write(file, bytes).unwrap();
        let _ = fsage_format::sniff(file);
        let Ok(mut reader) = TraceReader::open(file) else {
            return false;
        };
        let mut batch = Vec::new();
        loop {
            batch.clear();
            match reader.next_batch(&mut batch) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }),
    ("wml", |bytes, _| wml::parse(bytes, Path::new(NAME)).is_ok()),
];

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(dir: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(fuzz_dir().join(dir))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Bodies of parsers of other crates stand in those crates' tests.
#[test]
fn every_fuzz_target_has_a_corpus() {
    let targets: Vec<String> = names("fuzz_targets")
        .iter()
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    for target in &targets {
        assert!(names("corpus").contains(target), "{target} has no corpus");
    }
    for (name, _) in TARGETS {
        assert!(targets.iter().any(|target| target == name), "{name}");
    }
}

#[test]
fn seeds_are_accepted_and_their_damages_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(NAME);
    for (target, body) in TARGETS {
        let (mut accepted, mut refused) = (0, 0);
        for seed in names(&format!("corpus/{target}")) {
            let bytes = std::fs::read(fuzz_dir().join("corpus").join(target).join(&seed)).unwrap();
            accepted += u32::from(body(&bytes, &file));
            for case in 0..CASES {
                let damaged = mutate(&bytes, &mut Sequence(case + 1));
                let outcome = std::panic::catch_unwind(|| body(&damaged, &file));
                let answer =
                    outcome.unwrap_or_else(|_| panic!("{target}/{seed}, seed {}", case + 1));
                refused += u32::from(!answer);
            }
        }
        assert!(accepted > 0, "no seed of {target} is one");
        // The formats of free text skip what they do not know.
        assert!(
            refused > 0 || *target == "strace",
            "{target} takes anything"
        );
    }
}

//! What is done twice in virtual time from one seed leaves the same bytes in every file, but for dates.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{names, run, temp};
use fsage_core::OpSource;
use fsage_format::snapshot::SnapshotReader;
use fsage_format::trace::TraceReader;

const POSTMARK: &str = "postmark:files=60,transactions=200,threads=2,seed=3";

const PLAN: &str = r#"
runs = 2
[[target]]
name = "disk"
spec = "mem:disk"
[[target]]
name = "tiny"
spec = "mem:tiny"
[[workload]]
name = "mail"
spec = "postmark:files=60,transactions=200,seed=3"
"#;

/// Every file that the verbs wrote, without its dates.
fn all_of(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let work = dir.join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("plan.toml"), PLAN).unwrap();
    let verbs: [&[&str]; 5] = [
        &[
            "run", POSTMARK, "mem:disk", "--trace", "run.fst", "-o", "run.json",
        ],
        &[
            "replay",
            "run.fst",
            "mem:tiny",
            "--trace",
            "replay.fst",
            "-o",
            "replay.json",
        ],
        &["profile", "--quick", "mem:tiny", "-o", "tiny.fsp"],
        &["bench", "plan.toml", "-o", "bench"],
        &["validate", "plan.toml", "-o", "validate"],
    ];
    for verb in verbs {
        run(&work, verb.iter().chain(&["-q"])).exits(0);
    }
    let mut files = BTreeMap::new();
    for place in [".", "bench", "validate"] {
        for name in names(&work.join(place)) {
            let path = work.join(place).join(&name);
            if path.is_file() {
                files.insert(format!("{place}/{name}"), undated(&path));
            }
        }
    }
    std::fs::remove_dir_all(&work).unwrap();
    files
}

/// A file's bytes without dates. In traces and snapshots they enter checksums: what is read from those, and
/// how long they are.
fn undated(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    let decoded = match path.extension().and_then(|e| e.to_str()) {
        Some("fst") => {
            let mut reader = TraceReader::open(path).unwrap();
            let mut meta = reader.meta().clone();
            assert!(std::mem::take(&mut meta.start_unix_ns) > 0);
            let mut ops = Vec::new();
            while reader.next_batch(&mut ops).unwrap() > 0 {}
            let paths = reader.paths();
            let names = ops.iter().flat_map(|op| [op.path, op.path2, op.dir]);
            let names: Vec<_> = names.flatten().map(|id| paths.display(id)).collect();
            format!("{} {meta:?} {ops:?} {names:?}", bytes.len())
        }
        Some("fss") => {
            let mut reader = SnapshotReader::open(path).unwrap();
            let mut meta = reader.meta().clone();
            assert!(std::mem::take(&mut meta.taken_unix_ns) > 0);
            let mut entries = Vec::new();
            while reader.next_batch(&mut entries).unwrap() > 0 {}
            format!("{} {meta:?} {entries:?}", bytes.len())
        }
        _ => {
            let text = String::from_utf8(bytes).unwrap();
            let mut parts = text.split("unix_ns\":");
            let mut undated = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let rest = part.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
                undated += "unix_ns\":";
                undated += rest;
            }
            undated
        }
    };
    decoded.into_bytes()
}

#[test]
fn every_file_of_two_runs_in_virtual_time_is_the_same() {
    let dir = temp();
    let (first, second) = (all_of(dir.path()), all_of(dir.path()));
    let kinds = ["fst", "fss", "fsp", "json", "jsonl"];
    for kind in kinds {
        assert!(
            first.keys().any(|name| name.ends_with(&format!(".{kind}"))),
            "{kind}"
        );
    }
    assert_eq!(first.len(), second.len());
    for (name, bytes) in &first {
        let other = &second[name];
        let at = bytes.iter().zip(other).position(|(a, b)| a != b);
        let near = |bytes: &[u8]| {
            let from = at.unwrap_or(bytes.len()).saturating_sub(80);
            String::from_utf8_lossy(bytes.get(from..).unwrap_or_default())
                .chars()
                .take(160)
                .collect::<String>()
        };
        assert!(
            bytes == other,
            "{name}: {:?}, then {:?}",
            near(bytes),
            near(other)
        );
    }
}

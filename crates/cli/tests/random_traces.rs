//! Traces that no program makes, through every verb that follows a trace: whatever the sequence of
//! operations, each ends by itself, in bounded memory and time, without a panic and without a mess.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{Ran, names, profile, run_command, temp_in_memory};
use fsage_core::any_ops::any_ops;
use fsage_core::{Op, OpKind, OpSink, OpSource, Outcome, PathTable, Pid, Tid};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceWriter};

/// Address space in KiB, size of a file in blocks of 512 bytes, seconds.
const LIMITS: &str = "ulimit -v 6000000; ulimit -f 40960; exec timeout 100 \"$@\"";

/// Runs fsage within limits in `dir`; it must end by itself.
fn limited(dir: &Path, args: &[&str]) -> Ran {
    let ran = run_command(
        Command::new("sh")
            .current_dir(dir)
            .args(["-c", LIMITS, "sh", env!("CARGO_BIN_EXE_fsage")])
            .args(args),
    );
    assert!(
        [0, 1, 3].contains(&ran.code()),
        "{args:?} ended with {}: {}",
        ran.code(),
        ran.stderr
    );
    assert!(!ran.stderr.contains("memory allocation"), "{}", ran.stderr);
    ran
}

fn save(file: &Path, source: &mut dyn OpSource) {
    let meta = TraceMeta {
        directory: "/w".into(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(file, meta).unwrap();
    let mut batch = Vec::new();
    while source.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..) {
            writer.push(&op, source.paths()).unwrap();
        }
    }
    writer.finish(TraceEnd::default()).unwrap();
}

/// Seeds that are tried; more where the environment says so.
fn seeds() -> u64 {
    let given = std::env::var("FSAGE_SEEDS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(200)
}

#[test]
fn every_verb_survives_them() {
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("out")).unwrap();
    std::fs::write(dir.join("key"), "0123456789abcdef").unwrap();
    let profile = profile("ext4");
    let mut replayed = 0;
    for seed in 0..seeds() {
        // One half with sizes that a replay can make.
        let most_bytes = if seed % 2 == 0 { u64::MAX } else { 1 << 18 };
        let mut source = any_ops(&[], seed, 100 + seed as usize % 400, most_bytes);
        save(&dir.join("r.fst"), &mut source);
        let order = ["file", "process", "strict"][seed as usize % 3];
        let result = limited(
            dir,
            &[
                "replay", "r.fst", "out", "--map", "/w=", "--json", "--verify", "--order", order,
            ],
        );
        if let Ok(result) = serde_json::from_slice::<serde_json::Value>(&result.stdout) {
            replayed += result["replayed"].as_u64().unwrap();
        }
        assert_eq!(names(&dir.join("out")), Vec::<String>::new(), "seed {seed}");
        limited(
            dir,
            &["predict", "r.fst", "--on", profile.to_str().unwrap()],
        );
        limited(dir, &["show", "r.fst"]).exits(0);
        limited(
            dir,
            &["anonymize", "r.fst", "--key-file", "key", "-o", "a.fst"],
        )
        .exits(0);
        limited(dir, &["export", "a.fst", "--to", "strace", "-o", "a.txt"]).exits(0);
        limited(dir, &["import", "a.txt", "--from", "strace", "-o", "b.fst"]).exits(0);
    }
    assert!(replayed > seeds() * 20, "only {replayed} operations ran");
}

/// Operations on names, one after the other, all of them successes.
struct Script {
    paths: PathTable,
    ops: Vec<Op>,
}

impl Script {
    fn new() -> Self {
        Self {
            paths: PathTable::new(),
            ops: Vec::new(),
        }
    }

    fn op(&mut self, kind: OpKind, path: &str, path2: &str) {
        let mut op = Op::new(kind, Pid(1), Tid(1), 1000 * self.ops.len() as u64);
        op.latency_ns = Some(100);
        op.path = self.paths.intern(path.as_bytes());
        op.path2 = self
            .paths
            .intern(path2.as_bytes())
            .filter(|_| !path2.is_empty());
        op.result = Outcome::ok(0);
        // Whoever replays it may go where it made something.
        op.flags = if kind == OpKind::Mkdir { 0o755 } else { 0 };
        self.ops.push(op);
    }

    fn save(self, file: &Path) {
        save(file, &mut fsage_core::VecSource::new(self.paths, self.ops));
    }
}

#[test]
fn what_cannot_have_been_is_counted_and_skipped() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let profile = profile("ext4");
    for (kind, from, to) in [
        (OpKind::Link, "/w/a", "/w/a/b"),
        (OpKind::Rename, "/w/a", "/w/a/b"),
        (OpKind::Rename, "/w/a", "/w/a/d/b"),
        (OpKind::Link, "/w/a/d", "/w/e"),
    ] {
        let mut script = Script::new();
        script.op(OpKind::Mkdir, "/w/a", "");
        script.op(OpKind::Mkdir, "/w/a/d", "");
        script.op(kind, from, to);
        script.op(OpKind::Stat, "/w/a/d", "");
        script.save(&dir.join("i.fst"));
        let line = ["replay", "i.fst", ".", "--map", "/w=", "--json", "--verify"];
        let result = limited(dir, &line).exits(0).json();
        assert_eq!(result["skipped"]["impossible"], 1, "{from} {to}: {result}");
        assert_eq!(result["replayed"], 3, "{result}");
        limited(
            dir,
            &["predict", "i.fst", "--on", profile.to_str().unwrap()],
        )
        .exits(0);
    }
}

/// A shell that goes into a directory and out of it all day.
#[test]
fn a_working_directory_does_not_grow() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let mut script = Script::new();
    script.op(OpKind::Mkdir, "/w/sub", "");
    for _ in 0..3000 {
        script.op(OpKind::Chdir, "sub", "");
        script.op(OpKind::Chdir, "..", "");
    }
    script.op(OpKind::Mkdir, "last", "");
    script.save(&dir.join("c.fst"));
    let line = ["replay", "c.fst", ".", "--map", "/w=", "--json", "--verify"];
    let result = limited(dir, &line).exits(0).json();
    assert_eq!(result["replayed"], 6002, "{result}");
    assert_eq!(result["verified"]["wrong"], 0, "{result}");
}

#[test]
fn forks_of_many_descriptors_are_bounded() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let profile = profile("ext4");
    let mut script = Script::new();
    for fd in 0..900u64 {
        script.op(OpKind::Open, "/w/f", "");
        script.ops.last_mut().unwrap().result = Outcome::ok(fd + 100);
    }
    for child in 0..100_000u64 {
        script.op(OpKind::Fork, "", "");
        let op = script.ops.last_mut().unwrap();
        (op.length, op.result) = (Some(child + 10), Outcome::ok(child + 10));
    }
    script.save(&dir.join("f.fst"));
    limited(dir, &["replay", "f.fst", ".", "--map", "/w=", "--json"]);
    limited(
        dir,
        &["predict", "f.fst", "--on", profile.to_str().unwrap()],
    )
    .exits(0);
}

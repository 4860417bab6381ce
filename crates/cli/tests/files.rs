//! Bad files: each gets one clear error, or what is whole of it and the loss said.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ran, fsage, profile, root, run, run_command, small_trace, start, temp, until};
use rustix::process::Signal;
use serde_json::Value;

/// Every verb that reads a trace, on `file`.
fn readers(dir: &Path, file: &str) -> Vec<Ran> {
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    let ext4 = profile("ext4").display().to_string();
    let lines: [&[&str]; 6] = [
        &["show", file],
        &["show", file, "--json"],
        &["show", file, "--ops"],
        &["predict", file, "--on", &ext4, "--json"],
        &["export", file, "--to", "csv", "-o", "out.csv"],
        &["anonymize", file, "--key-file", "key", "-o", "out.fst"],
    ];
    lines.iter().map(|line| run(dir, *line)).collect()
}

#[test]
fn data_goes_to_stdout_or_is_refused_and_no_file_is_called_dash() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    std::fs::create_dir(dir.join("here")).unwrap();
    std::fs::write(dir.join("here/file"), "x").unwrap();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    let snapshot = run(dir, ["snapshot", "here", "-o", "-"]).exits(0);
    std::fs::write(dir.join("out.fss"), &snapshot.stdout).unwrap();
    let shown = run(dir, ["show", "out.fss", "--json"]).exits(0).json();
    assert_eq!(shown["files"], 1, "{shown}");
    let line = ["anonymize", "small.fst", "--key-file", "key", "-o", "-"];
    let hidden = run(dir, line).exits(0);
    std::fs::write(dir.join("out.fst"), &hidden.stdout).unwrap();
    run(dir, ["show", "out.fst"]).exits(0);
    let ext4 = profile("ext4").display().to_string();
    let refused: [&[&str]; 5] = [
        &["snapshot", "here", "--json", "-o", "-"],
        &[
            "anonymize",
            "small.fst",
            "--key-file",
            "key",
            "--json",
            "-o",
            "-",
        ],
        &["predict", "small.fst", "--on", &ext4, "--annotate", "-"],
        &["bench", "-o", "-", "--", "true"],
        &[
            "validate",
            "--workload",
            "postmark",
            "--target",
            "here",
            "-o",
            "-",
        ],
    ];
    for line in refused {
        run(dir, line).fails(2, &["-"]);
    }
    assert!(!dir.join("-").exists());
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_and_the_first_signal_ends_that() {
    let dir = temp();
    let dir = dir.path();
    std::fs::create_dir(dir.join("here")).unwrap();
    let made = Command::new("mkfifo").arg(dir.join("fifo")).status();
    assert!(made.unwrap().success());
    let line = ["snapshot", "here", "-o", "fifo"];
    let running = start(fsage().current_dir(dir).args(line));
    // It has asked for signals once it blocks none of its own.
    until("the signal to be caught", || catches_int(running.id()));
    running.signal(Signal::INT);
    let ran = running.wait();
    assert_eq!(ran.code(), 130, "{}", ran.stderr);
    let running = start(fsage().current_dir(dir).args(line));
    let written = std::fs::read(dir.join("fifo")).unwrap();
    running.wait().exits(0);
    std::fs::write(dir.join("out.fss"), written).unwrap();
    run(dir, ["show", "out.fss"]).exits(0);
}

/// Whether a process has a handler of SIGINT.
fn catches_int(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & 2 != 0)
}

#[test]
fn what_is_no_file_of_fsage_is_refused_by_every_reader() {
    let dir = temp();
    std::fs::write(dir.path().join("text"), "just a text\n".repeat(100)).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    std::fs::write(dir.path().join("parquet"), "PAR1 but nothing of it").unwrap();
    std::fs::write(
        dir.path().join("json"),
        "{\"format\": \"other\", \"version\": 1}",
    )
    .unwrap();
    std::fs::create_dir(dir.path().join("directory")).unwrap();
    for file in ["text", "empty", "parquet", "json", "directory", "missing"] {
        for ran in readers(dir.path(), file) {
            ran.fails(1, &[file]);
        }
    }
}

#[test]
fn a_truncated_trace_is_read_as_far_as_it_is_whole() {
    let dir = temp();
    let whole = std::fs::read(small_trace(dir.path())).unwrap();
    let operations = |ran: &Ran| ran.json()["operations"].as_u64().unwrap();
    let all = operations(&run(dir.path(), ["show", "small.fst", "--json"]).exits(0));
    let step = (whole.len() / 24).max(1);
    for length in (1..whole.len()).step_by(step) {
        std::fs::write(dir.path().join("cut.fst"), &whole[..length]).unwrap();
        let ran = run(dir.path(), ["show", "cut.fst", "--json"]);
        match ran.code() {
            3 => {
                assert!(operations(&ran) <= all);
                assert!(
                    ran.stderr.contains("cut.fst"),
                    "the loss is not said: {}",
                    ran.stderr
                );
                let ext4 = profile("ext4");
                let line = [
                    "predict".as_ref(),
                    "cut.fst".as_ref(),
                    "--on".as_ref(),
                    ext4.as_os_str(),
                ];
                run(dir.path(), line).fails(1, &["cut.fst"]);
            }
            _ => drop(ran.fails(1, &["cut.fst"])),
        }
    }
    // All but the ordinary footer: every row is there.
    std::fs::write(dir.path().join("cut.fst"), &whole[..whole.len() - 4]).unwrap();
    let ran = run(dir.path(), ["show", "cut.fst", "--json"]).exits(3);
    assert_eq!(operations(&ran), all);
}

#[test]
fn a_flipped_bit_is_no_panic() {
    let dir = temp();
    let whole = std::fs::read(small_trace(dir.path())).unwrap();
    let step = (whole.len() / 40).max(1);
    for (round, at) in (0..whole.len()).step_by(step).enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (round % 8);
        std::fs::write(dir.path().join("flipped.fst"), &damaged).unwrap();
        let ran = run(dir.path(), ["show", "flipped.fst", "--json"]);
        match ran.code() {
            0 | 3 => drop(ran.json()),
            _ => drop(ran.fails(1, &["flipped.fst"])),
        }
    }
}

/// The profile `ext4`, changed, as a file.
fn changed(dir: &Path, name: &str, change: impl FnOnce(&mut Value)) -> PathBuf {
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    change(&mut value);
    let path = dir.join(name);
    // The field that says what a file is comes first, as fsage writes it.
    let fields = value.as_object_mut().unwrap();
    let format = fields.remove("format").unwrap();
    let rest = value.to_string();
    std::fs::write(&path, format!("{{\"format\":{format},{}", &rest[1..])).unwrap();
    path
}

type Change = fn(&mut Value);

#[test]
fn a_bad_profile_is_refused_by_name() {
    let dir = temp();
    small_trace(dir.path());
    let cases: [(&str, Change, &[&str]); 4] = [
        (
            "unit.fsp",
            |p| drop(p["metrics"][3].as_object_mut().unwrap().remove("unit")),
            &["unit"],
        ),
        (
            "negative.fsp",
            |p| p["metrics"][3]["estimate"] = (-1.0).into(),
            &["-1"],
        ),
        (
            "newer.fsp",
            |p| p["version"] = 1_000_000.into(),
            &["1000000", "newer"],
        ),
        (
            "metrics.fsp",
            |p| p["metrics"] = "none".into(),
            &["metrics"],
        ),
    ];
    for (name, change, words) in cases {
        changed(dir.path(), name, change);
        let words: Vec<&str> = words.iter().copied().chain([name]).collect();
        run(dir.path(), ["show", name]).fails(1, &words);
        run(dir.path(), ["predict", "small.fst", "--on", name]).fails(1, &words);
    }
    run(dir.path(), ["predict", "small.fst", "--on", "small.fst"]).fails(1, &["small.fst"]);
    run(dir.path(), ["predict", "small.fst", "--on", "nowhere.fsp"]).fails(1, &["nowhere.fsp"]);
}

#[test]
fn a_snapshot_of_another_tree_is_refused() {
    let dir = temp();
    small_trace(dir.path());
    std::fs::create_dir(dir.path().join("other")).unwrap();
    run(dir.path(), ["snapshot", "other", "-o", "other.fss"]).exits(0);
    run(dir.path(), ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
    let ext4 = profile("ext4");
    let predict = |snapshot: &str| {
        let mut command = fsage();
        command
            .current_dir(dir.path())
            .args(["predict", "small.fst", "--json"]);
        run_command(command.args(["--snapshot", snapshot, "--on"]).arg(&ext4))
    };
    predict("tree.fss").exits(0).json();
    predict("other.fss").fails(1, &["other.fss", "snapshot"]);
    predict("small.fst").fails(1, &["small.fst"]);
}

#[test]
fn snapshots_say_what_is_in_the_tree() {
    let dir = temp();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    std::fs::write(tree.join("sub/file"), "contents").unwrap();
    std::fs::hard_link(tree.join("sub/file"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("sub/file", tree.join("alias")).unwrap();
    let made = run(dir.path(), ["snapshot", "tree", "-o", "t.fss", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (made["files"].as_u64(), made["symlinks"].as_u64()),
        (Some(2), Some(1)),
        "{made}"
    );
    assert_eq!(made["further_links"], 1, "{made}");
    run(dir.path(), ["show", "t.fss", "--json"]).exits(0).json();
    run(dir.path(), ["snapshot", "nowhere", "-o", "n.fss"]).fails(1, &["nowhere"]);
    run(dir.path(), ["snapshot", "tree/sub/file", "-o", "n.fss"]).fails(1, &["file"]);
    run(dir.path(), ["snapshot", "tree", "-o", "nowhere/n.fss"]).fails(1, &["nowhere/n.fss"]);
    assert!(!dir.path().join("n.fss").exists());
}

#[test]
fn a_truncated_snapshot_is_read_as_far_as_it_is_whole() {
    let dir = temp();
    run(dir.path(), ["snapshot", "/usr/include", "-o", "whole.fss"]);
    let whole = std::fs::read(dir.path().join("whole.fss")).unwrap();
    for length in (1..whole.len()).step_by((whole.len() / 8).max(1)) {
        std::fs::write(dir.path().join("cut.fss"), &whole[..length]).unwrap();
        let ran = run(dir.path(), ["show", "cut.fss", "--json"]);
        match ran.code() {
            3 => drop(ran.json()),
            _ => drop(ran.fails(1, &["cut.fss"])),
        }
    }
}

#[test]
fn a_full_disk_is_one_error() {
    if !root() {
        return;
    }
    let dir = temp();
    small_trace(dir.path());
    for line in [
        &["export", "small.fst", "--to", "csv", "-o", "/dev/full"][..],
        &["export", "small.fst", "--to", "strace", "-o", "/dev/full"],
        &["export", "small.fst", "--to", "hbench", "-o", "/dev/full"],
        &["snapshot", "tree", "-o", "/dev/full"],
        &["trace", "-o", "/dev/full", "--", "true"],
    ] {
        run(dir.path(), line).fails(1, &["/dev/full"]);
    }
}

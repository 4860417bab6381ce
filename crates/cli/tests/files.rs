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

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ran, fsage, names, profile, root, run, run_command, small_trace, start, temp, until};
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

/// What goes on for ever, or waits for a writer, is refused by its first bytes or before it is opened.
#[test]
fn what_is_no_document_is_known_at_once() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    let ext4 = profile("ext4").display().to_string();
    let sparse = std::fs::File::create(dir.join("sparse")).unwrap();
    sparse.set_len(400 << 20).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(dir.join("pipe"))
            .status()
            .unwrap()
            .success()
    );
    for (line, words) in [
        (
            "predict small.fst --on /dev/zero",
            "binary data of another format, expected a system profile",
        ),
        (
            "predict small.fst --on sparse",
            "binary data of another format, expected a system profile",
        ),
        (
            "predict small.fst --on small.fst",
            "it is a trace of fsage, expected a system profile",
        ),
        (
            "predict pipe --on EXT4",
            "it is a pipe, which can be read only once, expected a trace",
        ),
        (
            "show pipe",
            "it is a pipe, which can be read only once, expected a trace, a snapshot",
        ),
        (
            "show /dev/zero",
            "it is not a regular file, expected a trace, a snapshot",
        ),
        (
            "compare sparse EXT4",
            "binary data of another format, expected a result of fsage",
        ),
        (
            "bench /dev/zero",
            "binary data of another format, expected a plan in TOML",
        ),
    ] {
        let line = line.replace("EXT4", &ext4);
        let limited = format!("ulimit -v 400000; exec timeout 60 \"$0\" {line}");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_fsage")]);
        run_command(command.current_dir(dir)).fails(1, &[words]);
    }
    // A profile that comes through a pipe is one.
    let piped = "cat \"$1\" > pipe & exec \"$0\" predict small.fst --on pipe";
    let mut command = Command::new("sh");
    command.args(["-c", piped, env!("CARGO_BIN_EXE_fsage"), &ext4]);
    run_command(command.current_dir(dir)).exits(0);
}

#[test]
fn what_goes_to_stdout_is_called_that() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("file"), "x").unwrap();
    for (line, word) in [
        (&["snapshot", ".", "-o", "-"][..], "stdout: 1 file"),
        (&["trace", "-o", "-", "--", "true"], "\nstdout: "),
    ] {
        let said = run(dir, line).exits(0).stderr;
        assert!(said.contains(word), "{said}");
        assert!(!said.contains("/dev/stdout"), "{said}");
    }
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
    // What stdout was sent to before stays.
    let log = dir.join("log");
    std::fs::write(&log, "kept\n").unwrap();
    for line in [
        &["snapshot", "here", "-o", "-"][..],
        &["trace", "-q", "-o", "-", "--", "true"],
    ] {
        let before = std::fs::read(&log).unwrap();
        let append = std::fs::File::options().append(true).open(&log).unwrap();
        let status = fsage()
            .current_dir(dir)
            .args(line)
            .stdout(append)
            .status()
            .unwrap();
        assert!(status.success(), "{line:?}");
        let after = std::fs::read(&log).unwrap();
        assert!(after.starts_with(&before) && after.len() > before.len() + 4);
        assert_eq!(&after[before.len()..before.len() + 4], b"PAR1");
    }
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

#[test]
fn the_first_signal_ends_the_wait_for_an_input() {
    let dir = temp();
    let dir = dir.path();
    let made = Command::new("mkfifo").arg(dir.join("fifo")).status();
    assert!(made.unwrap().success());
    let running = start(fsage().current_dir(dir).args(["validate", "fifo"]));
    // Where it waits for somebody to write, and not before it: a signal then would be seen by nobody. It stays there.
    let call = format!("/proc/{}/syscall", running.id());
    let at = || std::fs::read_to_string(&call).unwrap_or_default();
    let waits = || {
        let before = at();
        std::thread::sleep(std::time::Duration::from_millis(100));
        // `poll` and `ppoll` of x86-64.
        ["7 ", "271 "].iter().any(|call| before.starts_with(call)) && at() == before
    };
    until("the wait to begin", waits);
    running.signal(Signal::INT);
    assert!(!running.wait().status.success());
}

#[test]
fn every_result_goes_through_a_pipe_whole() {
    let dir = temp();
    let dir = dir.path();
    let trace = small_trace(dir);
    let trace = trace.to_str().unwrap();
    std::fs::create_dir(dir.join("t")).unwrap();
    let made = Command::new("mkfifo").arg(dir.join("fifo")).status();
    assert!(made.unwrap().success());
    let small = "postmark:files=5,transactions=10";
    let lines: [&[&str]; 6] = [
        &["run", small, "t", "-o", "fifo"],
        &["run", small, "t", "--trace", "fifo"],
        &["run", small, "--to-trace", "fifo"],
        &["replay", trace, "t", "-o", "fifo"],
        &["replay", trace, "t", "--trace", "fifo"],
        &["profile", "t", "--quick", "--only", "STAT", "-o", "fifo"],
    ];
    for line in lines {
        // Nobody reads yet, and the first signal ends that.
        let running = start(fsage().current_dir(dir).args(line));
        until("the signal to be caught", || catches_int(running.id()));
        running.ended_by(Signal::INT, || ());
        let running = start(fsage().current_dir(dir).args(line));
        let written = std::fs::read(dir.join("fifo")).unwrap();
        let ran = running.wait();
        assert!(matches!(ran.code(), 0 | 3), "{line:?}: {}", ran.stderr);
        std::fs::write(dir.join("out"), written).unwrap();
        let shown = run(dir, ["show", "out", "--json"]).exits(0).json();
        assert!(shown["format"].is_string(), "{line:?}: {shown}");
        assert!(names(&dir.join("t")).is_empty(), "{line:?}");
    }
}

#[test]
fn a_signal_that_is_caught_is_heeded() {
    let dir = temp();
    let dir = dir.path();
    let made = Command::new("mkfifo").arg(dir.join("fifo")).status();
    assert!(made.unwrap().success());
    let line = ["run", "postmark:files=5", "--to-trace", "fifo"];
    for _ in 0..50 {
        // It comes in the instant in which it no longer ends the process by itself.
        let running = start(fsage().current_dir(dir).args(line));
        while !catches_int(running.id()) {}
        running.ended_by(Signal::INT, || ());
    }
}

#[test]
fn two_results_in_one_file_are_refused() {
    let dir = temp();
    let dir = dir.path();
    let trace = small_trace(dir);
    std::fs::create_dir(dir.join("t")).unwrap();
    std::fs::write(dir.join("former"), "x").unwrap();
    std::os::unix::fs::symlink("former", dir.join("link")).unwrap();
    let lines: [&[&str]; 4] = [
        &["run", "postmark:files=5", "t"],
        &["run", "postmark:files=5", "mem:fast"],
        &["replay", trace.to_str().unwrap(), "t"],
        &["replay", trace.to_str().unwrap(), "mem:fast"],
    ];
    for line in lines {
        for (one, two) in [
            ("new", "./new"),
            ("t/new", "t/../t/new"),
            ("former", "link"),
        ] {
            let both = ["-o", one, "--trace", two];
            run(dir, line.iter().chain(&both)).fails(2, &["-o and --trace", "two files"]);
        }
    }
    assert!(!dir.join("new").exists() && names(&dir.join("t")).is_empty());
    assert_eq!(std::fs::read(dir.join("former")).unwrap(), b"x");
}

#[test]
fn no_result_takes_the_place_of_what_it_is_made_from() {
    let dir = temp();
    let dir = dir.path();
    let trace = std::fs::read(small_trace(dir)).unwrap();
    let profile = std::fs::read(common::profile("ext4")).unwrap();
    let short = b"format = 'fsage short-lived files'\nversion = 1\n";
    let kept: [(&str, &[u8]); 6] = [
        ("s.toml", short),
        ("nights/1.fss", b"x"),
        ("i.fst", &trace),
        ("p.fsp", &profile),
        ("key", b"0123456789abcdef"),
        ("w.wml", b"x"),
    ];
    std::fs::create_dir(dir.join("nights")).unwrap();
    for (name, bytes) in kept {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("i.fst", dir.join("link")).unwrap();
    let ours = ["age", "generate", "--from-snapshots", "nights", "-o"];
    let short = ["s.toml", "--short-lived", "s.toml"];
    let lines: [&[&str]; 16] = [
        &[&ours[..], &["nights/1.fss"]].concat(),
        &[&ours[..], &short].concat(),
        &["predict", "i.fst", "--on", "p.fsp", "--annotate", "p.fsp"],
        &["predict", "i.fst", "--on", "a=p.fsp", "--annotate", "p.fsp"],
        &["predict", "i.fst", "--on", "p.fsp", "--annotate", "link"],
        &["anonymize", "i.fst", "--key-file", "key", "-o", "./key"],
        &["anonymize", "i.fst", "--key-file", "key", "-o", "i.fst"],
        &["anonymize", "i.fst", "--key-file", "key", "-o", "link"],
        &["layout", "w.wml", "--svg", "w.wml"],
        &["replay", "i.fst", "mem:fast", "-o", "i.fst"],
        &["replay", "i.fst", "mem:fast", "--trace", "link"],
        &["export", "i.fst", "--to", "csv", "-o", "i.fst"],
        &["import", "i.fst", "--from", "hbench", "-o", "i.fst"],
        &["run", "wml:w.wml", "mem:fast", "-o", "w.wml"],
        &["run", "wml:w.wml", "mem:fast", "--trace", "w.wml"],
        &["run", "wml:w.wml", "--to-trace", "w.wml"],
    ];
    for line in lines {
        run(dir, line).fails(2, &["would be read and written over"]);
        for (name, bytes) in kept {
            assert!(std::fs::read(dir.join(name)).unwrap() == bytes, "{line:?}");
        }
    }
}

#[test]
fn no_result_takes_the_place_of_what_its_target_is_made_from() {
    let dir = temp();
    let dir = dir.path();
    small_trace(dir);
    let truth = include_str!("../../mem/truths/fast.toml");
    std::fs::write(dir.join("m.toml"), truth).unwrap();
    let model = run(dir, ["disk", "show", "hdd-7200", "--toml"]).exits(0);
    std::fs::write(dir.join("d.toml"), model.stdout).unwrap();
    let aging = "age generate --profile home-2001 --size 64M --fill 50% --days 1 -o w.fst";
    run(dir, aging.split(' ')).exits(0);
    std::os::unix::fs::symlink("m.toml", dir.join("link.toml")).unwrap();
    std::fs::create_dir(dir.join("kept")).unwrap();
    for name in ["validation.json", "evaluation.json", "runs.jsonl"] {
        std::fs::write(dir.join("kept").join(name), truth).unwrap();
    }
    let inputs = |dir: &Path| {
        let names = ["m.toml", "d.toml", "w.fst", "small.fst"];
        names.map(|name| std::fs::read(dir.join(name)).unwrap())
    };
    let before = inputs(dir);
    let on_disk = "scratch:ext4,size=32M,on=disk:d.toml";
    let first_use = "aged:w.fst,on=scratch:ext4,size=64M,on=disk:d.toml";
    let small = "postmark:files=5,transactions=5";
    for (target, written) in [
        ("mem:m.toml", "m.toml"),
        ("mem:m.toml", "link.toml"),
        ("mem:link.toml", "m.toml"),
        ("named=mem:./m.toml", "m.toml"),
        (on_disk, "d.toml"),
        (first_use, "w.fst"),
        (first_use, "d.toml"),
        (&format!("slow:read=2:{on_disk}"), "d.toml"),
        (&format!("slow:none:{first_use}"), "w.fst"),
    ] {
        let mut lines = vec![
            vec!["run", small, target, "-o", written],
            vec!["run", small, target, "--trace", written],
            vec!["profile", target, "--quick", "-o", written],
            vec!["replay", "small.fst", target, "-o", written],
            vec!["replay", "small.fst", target, "--trace", written],
        ];
        if !target.contains("mem:") {
            lines.push(vec!["layout", target, "--svg", written]);
        }
        for line in lines {
            run(dir, &line).fails(2, &[written, "would be read and written over"]);
            assert!(inputs(dir) == before, "{line:?}");
        }
    }
    run(dir, ["model", "fit", "small.fst", "-o", "m.fsm"]).exits(0);
    let validate = "validate --workload postmark -o kept --target";
    let evaluate = "model evaluate m.fsm --workload postmark -o kept --on";
    for (line, own) in [(validate, "validation.json"), (evaluate, "evaluation.json")] {
        for name in [own, "runs.jsonl"] {
            let target = format!("mem:kept/{name}");
            let line = line.split(' ').chain([&*target]);
            run(dir, line).fails(2, &[name, "would be read and written over"]);
        }
    }
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

/// The operations of a trace as they are listed.
fn listed(dir: &Path, file: &str) -> Vec<String> {
    let text = run(dir, ["show", file, "--ops", "--json"]).text();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_truncated_trace_is_read_as_far_as_it_is_whole() {
    let dir = temp();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces/build.fst");
    std::fs::copy(from, dir.path().join("whole.fst")).unwrap();
    let whole = std::fs::read(dir.path().join("whole.fst")).unwrap();
    let operations = |ran: &Ran| ran.json()["operations"].as_u64().unwrap();
    let all = listed(dir.path(), "whole.fst");
    let mut counts = vec![0];
    let step = (whole.len() / 12).max(1);
    for length in (1..whole.len()).step_by(step) {
        std::fs::write(dir.path().join("cut.fst"), &whole[..length]).unwrap();
        let ran = run(dir.path(), ["show", "cut.fst", "--json"]);
        match ran.code() {
            3 => {
                let found = listed(dir.path(), "cut.fst");
                assert_eq!(found.len() as u64, operations(&ran));
                assert!(
                    all.starts_with(&found),
                    "no beginning of it: {}",
                    found.len()
                );
                counts.push(found.len());
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
    assert_eq!(operations(&ran), all.len() as u64);
    assert!(
        counts.is_sorted(),
        "more of the file, fewer operations: {counts:?}"
    );
    counts.dedup();
    assert!(counts.len() > 2 && counts[1] < all.len(), "{counts:?}");
}

#[test]
fn a_flipped_bit_is_no_panic() {
    let dir = temp();
    let whole = std::fs::read(small_trace(dir.path())).unwrap();
    let fields = ["operations", "kinds", "errors", "bytes_written", "files"];
    let figures = |shown: &Value| fields.map(|field| shown[field].clone());
    let expected = figures(&run(dir.path(), ["show", "small.fst", "--json"]).json());
    let step = (whole.len() / 40).max(1);
    for (round, at) in (0..whole.len()).step_by(step).enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (round % 8);
        std::fs::write(dir.path().join("flipped.fst"), &damaged).unwrap();
        let ran = run(dir.path(), ["show", "flipped.fst", "--json"]);
        match ran.code() {
            // What is damaged is refused: what is said is right.
            0 | 3 => assert_eq!(figures(&ran.json()), expected, "bit {} of {at}", round % 8),
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
        (Some(1), Some(1)),
        "{made}"
    );
    assert_eq!(made["further_links"], 1, "{made}");
    let shown = run(dir.path(), ["show", "t.fss", "--json"]).exits(0).json();
    let kinds = ["files", "directories", "symlinks"].map(|kind| shown[kind].as_u64());
    assert_eq!(kinds, [Some(1), Some(2), Some(1)], "{shown}");
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
    let files = |ran: &Ran| ran.json()["files"].as_u64().unwrap();
    let all = files(&run(dir.path(), ["show", "whole.fss", "--json"]).exits(0));
    let mut before = 0;
    for length in (1..whole.len()).step_by((whole.len() / 8).max(1)) {
        std::fs::write(dir.path().join("cut.fss"), &whole[..length]).unwrap();
        let ran = run(dir.path(), ["show", "cut.fss", "--json"]);
        match ran.code() {
            3 => {
                let found = files(&ran);
                assert!((before..=all).contains(&found), "{before} {found} {all}");
                before = found;
            }
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

#[test]
fn show_reads_what_other_verbs_write() {
    let dir = temp();
    small_trace(dir.path());
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let spec = "postmark:files=20,transactions=40";
    run(dir.path(), ["run", spec, "work", "-o", "run.json"]).exits(0);
    let said = run(dir.path(), ["show", "run.json"]).exits(0).text();
    assert!(said.contains("postmark"), "{said}");
    let checked = run(dir.path(), ["check", "run.json", "--json"]);
    std::fs::write(dir.path().join("check.json"), &checked.stdout).unwrap();
    let said = run(dir.path(), ["show", "check.json"]).exits(0).text();
    assert!(said.contains("run.json"), "{said}");
    let ext4 = profile("ext4").display().to_string();
    let args = ["predict", "small.fst", "--json", "--on", &ext4];
    std::fs::write(
        dir.path().join("p.json"),
        run(dir.path(), args).exits(0).stdout,
    )
    .unwrap();
    let short = run(dir.path(), ["show", "p.json"]).exits(0).text();
    let long = run(dir.path(), ["show", "p.json", "--details"])
        .exits(0)
        .text();
    // Only what points to the details is not among them.
    let (answer, pointer) = short.trim_end().rsplit_once('\n').unwrap();
    assert!(pointer.contains("--details"), "{short}");
    assert!(
        long.starts_with(answer) && long.contains("hit rates") && !long.contains(pointer),
        "{long}"
    );
}

#[test]
fn show_explains_metrics_and_names_the_nearest() {
    let dir = temp();
    let reported = run(dir.path(), ["show", "FSYN16", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&reported["version"], &reported["metrics"][0]["name"]),
        (&1.into(), &"FSYN".into())
    );
    run(dir.path(), ["show", "RDD"]).fails(1, &["no file and no metric", "RD"]);
    // What is offered is explained, groups of metrics too.
    let offered = run(dir.path(), ["show", "fsnyc"]).fails(1, &["the nearest are ", "fsync"]);
    let offered = offered.stderr;
    let names = offered.split("the nearest are ").nth(1).unwrap().trim();
    for name in names.split(", ") {
        let said = run(dir.path(), ["show", name]).exits(0).text();
        assert!(said.starts_with(&format!("{name}: ")), "{said}");
    }
    let group = run(dir.path(), ["show", "fsync"]).exits(0).text();
    assert!(group.contains("FSYN: "), "{group}");
    let listed = run(dir.path(), ["show", "fsync", "--json"]).exits(0).json();
    assert!(listed["metrics"].as_array().unwrap().len() > 3);
}

#[test]
fn what_a_profile_lacks_is_grouped_by_why() {
    let dir = temp();
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut cut: Value = serde_json::from_str(&text).unwrap();
    let absent =
        |n: u32| serde_json::json!({"name": format!("RC{n}"), "reason": "no time was left"});
    cut["absent"] = (0..90).map(absent).collect();
    let mut fields = cut.as_object().unwrap().clone();
    let format = fields.remove("format").unwrap();
    let rest = Value::Object(fields).to_string();
    std::fs::write(
        dir.path().join("cut.fsp"),
        format!("{{\"format\":{format},{}", &rest[1..]),
    )
    .unwrap();
    let said = run(dir.path(), ["show", "cut.fsp", "--details"])
        .exits(0)
        .text();
    assert!(
        said.contains("RC0, RC1, RC2, RC3 and 86 more: no time was left"),
        "{said}"
    );
}

//! `fsage validate`: its result, and that nothing is left behind whatever ends it.

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

use std::path::Path;
use std::process::Command;

use common::{
    fsage, in_time, loop_devices, names, run, run_command, schema, scratch, start, temp_in_memory,
    until, until_detached,
};
use rustix::process::{Pid, Signal};
use serde_json::Value;

/// The profile is cut short, these tests are not about its quality: what is predicted needs what is measured first.
fn validate(dir: &Path, line: &[&str]) -> Command {
    with_profile_of("10s", dir, line)
}

/// One that comes to no prediction, or to whichever.
fn hurried(dir: &Path, line: &[&str]) -> Command {
    with_profile_of("1s", dir, line)
}

fn with_profile_of(time: &str, dir: &Path, line: &[&str]) -> Command {
    let mut command = fsage();
    command
        .current_dir(dir)
        .args(["validate", "--profile-time", time])
        .args(line);
    command
}

/// Two empty directories to validate on.
fn two_targets(dir: &Path) {
    for name in ["a", "b"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
}

fn nothing_left(dir: &Path) -> bool {
    ["a", "b"]
        .iter()
        .all(|name| names(&dir.join(name)).is_empty())
}

#[test]
fn the_result_says_what_was_agreed_and_is_kept() {
    let dir = temp_in_memory();
    two_targets(dir.path());
    let line = [
        "--workload",
        "cmd: mkdir d; for i in 1 2 3 4 5 6 7 8; do echo text > d/$i; done; cat d/*; rm -r d",
        "--workload",
        "small=postmark:files=50,transactions=100,size=512-4096,subdirs=5",
        "--target",
        "a",
        "--target",
        "b",
        "--runs",
        "1",
        "--json",
        "-o",
        "kept",
    ];
    let result = run_command(&mut validate(dir.path(), &line))
        .exits(0)
        .json();
    assert!(nothing_left(dir.path()));
    let pairs = result["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 4);
    for pair in pairs {
        assert!(
            pair["workload"].is_string() && pair["target"].is_string(),
            "{pair}"
        );
        let (measured, predicted) = (
            pair["measured_ns"].as_f64().unwrap(),
            pair["predicted_ns"].as_f64().unwrap(),
        );
        assert!(measured > 0.0 && predicted > 0.0, "{pair}");
        let error = pair["error"].as_f64().unwrap();
        assert!(
            (error - (predicted - measured) / measured).abs() < 1e-9,
            "{pair}"
        );
        let run = pair["measured_runs_ns"].as_array().unwrap();
        assert_eq!((run.len(), run[0].as_f64()), (1, Some(measured)), "{pair}");
    }
    summed_up(&result, pairs);
    kept(dir.path(), &result);
    conforms(&result);
}

/// The summary is that of the pairs, computed once more (the thesis, 4.5.3).
fn summed_up(result: &Value, pairs: &[Value]) {
    let column = |name: &str| -> Vec<f64> {
        let values = pairs.iter().map(|p| p[name].as_f64().unwrap());
        values.collect()
    };
    let (measured, predicted) = (column("measured_ns"), column("predicted_ns"));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let products = |a: &[f64], b: &[f64]| -> f64 {
        let (of_a, of_b) = (mean(a), mean(b));
        a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).sum()
    };
    let mut errors: Vec<f64> = column("error").iter().map(|error| error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let squares: Vec<f64> = errors.iter().map(|error| error * error).collect();
    let alike = products(&measured, &predicted)
        / (products(&measured, &measured) * products(&predicted, &predicted)).sqrt();
    for (field, expected) in [
        ("average_error", mean(&errors)),
        ("median_error", f64::midpoint(errors[1], errors[2])),
        ("rms_error", mean(&squares).sqrt()),
        ("correlation", alike),
    ] {
        let found = result[field].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-9,
            "{field}: {found}, expected {expected}"
        );
    }
    // The same at equal speed, which the text says first.
    let equal = pairs.iter().map(|p| p["equal_speed"]["error"].as_f64());
    if let Some(equal) = equal.collect::<Option<Vec<f64>>>() {
        let errors: Vec<f64> = equal.into_iter().map(f64::abs).collect();
        let found = result["equal_speed"]["average_error"].as_f64().unwrap();
        assert!((found - mean(&errors)).abs() < 1e-9, "{found}: {errors:?}");
    } else {
        assert!(result["equal_speed"].is_null(), "{result}");
    }
    // Both targets of a workload, by what was measured and by what was predicted with what the traced run told.
    let ranked = |of: usize| pairs[of]["ranked_ns"].as_f64().unwrap_or(predicted[of]);
    let right = [(0, 1), (2, 3)].into_iter().filter(|&(a, b)| {
        assert_eq!(pairs[a]["workload"], pairs[b]["workload"]);
        (measured[a] < measured[b]) == (ranked(a) < ranked(b))
    });
    assert_eq!(result["ranks_right"], right.count());
    assert_eq!(result["ranks_total"], 2);
}

/// Everything that a later analysis needs is there.
fn kept(dir: &Path, result: &Value) {
    let kept = names(&dir.join("kept"));
    for name in [
        "runs.jsonl",
        "validation.json",
        "target0.fsp",
        "target1.fsp",
    ] {
        assert!(
            kept.contains(&name.to_string()),
            "{name} is missing: {kept:?}"
        );
    }
    let stored = std::fs::read(dir.join("kept/validation.json")).unwrap();
    assert_eq!(&serde_json::from_slice::<Value>(&stored).unwrap(), result);
    for name in kept {
        run(
            dir,
            ["show".to_string(), format!("kept/{name}"), "--json".into()],
        )
        .exits(0)
        .json();
    }
    let runs = run(dir, ["show", "kept/runs.jsonl", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        runs["records"].as_array().unwrap().len(),
        6,
        "four runs and two profiles"
    );
    // Judged again by what was kept it is the same.
    let again = ["validate", "--again", "kept", "--json"];
    let again = run(dir, again).exits(0).json();
    assert_eq!(&again, result);
    // A prediction from what was kept alone.
    let line = [
        "predict",
        "kept/workload1-target0.fst",
        "--on",
        "kept/target1.fsp",
        "--snapshot",
        "kept/workload1-target0.fss",
        // As validate did: what the traced run cost there counts, unless the profile was disturbed.
        "--traced-on",
        "kept/target0.fsp",
        "--json",
    ];
    let again = run(dir, line).exits(0).json();
    let pair = &result["pairs"][3];
    assert_eq!(pair["workload"], "small");
    assert!(pair["target"].as_str().unwrap().ends_with("/b"), "{pair}");
    let target = &again["targets"][0];
    // What is measured has waiting for a processor in it.
    let totals =
        ["latency_total_ns", "processor_wait_ns"].map(|part| target[part].as_f64().unwrap());
    let (now, then) = (
        totals[0] + totals[1],
        pair["predicted_ns"].as_f64().unwrap(),
    );
    assert!((now - then).abs() <= then * 1e-9, "{now}, kept {then}");
}

fn conforms(result: &Value) {
    let validator = jsonschema::validator_for(&schema("validate.schema.json")).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(result)
        .map(|e| e.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn scratch_targets_are_made_and_removed() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    let line = [
        "--workload",
        "cmd: echo text > file; cat file > copy; sync; rm file copy",
        "--target",
        "scratch:ext4,size=64M",
        "--target",
        "scratch:ext2,size=64M",
        "--runs",
        "2",
        "--json",
    ];
    let tmp = dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let validated =
        |time| run_command(with_profile_of(time, dir.path(), &line).env("TMPDIR", &tmp));
    // What a profile has no time for is not predicted.
    let ran = in_time(&["10s", "30s"], validated, |ran| ran.code() == 0);
    let result = ran.exits(0).json();
    let pairs = result["pairs"].as_array().unwrap();
    let targets: Vec<&str> = pairs
        .iter()
        .map(|p| p["target"].as_str().unwrap())
        .collect();
    assert_eq!(targets, ["scratch:ext4,size=64M", "scratch:ext2,size=64M"]);
    // The run whose trace corrects the costs judges none that it corrected.
    let traced = pairs.iter().map(|pair| pair.get("traced_runs"));
    assert_eq!(traced.collect::<Vec<_>>(), [Some(&1.into()), None]);
    let [first, second] = &pairs[0]["measured_runs_ns"].as_array().unwrap()[..] else {
        panic!("{pairs:?}")
    };
    assert_ne!(first, second);
    assert_eq!(pairs[0]["measured_ns"].as_f64(), second.as_f64());
    assert!(pairs.iter().all(|pair| pair.get("ranked_ns").is_none()));
    assert!(
        pairs
            .iter()
            .all(|p| p["measured_ns"].as_f64().unwrap() > 0.0),
        "{pairs:?}"
    );
    // Nothing is kept without -o, and mount points are temporary directories.
    assert!(names(&tmp).is_empty(), "{:?}", names(&tmp));
    assert_eq!(names(dir.path()), ["tmp"]);
}

#[test]
fn a_workload_that_fails_is_one_error() {
    let dir = temp_in_memory();
    two_targets(dir.path());
    let line = [
        "--workload",
        "cmd: echo chatter; echo the reason >&2; exit 9",
        "--target",
        "a",
        "--json",
        "--runs",
        "1",
    ];
    let ran = run_command(&mut hurried(dir.path(), &line));
    // What it says is no progress of fsage's; its last words are the error's.
    assert!(!ran.stderr.contains("\nchatter"), "{}", ran.stderr);
    ran.fails(1, &["exit status 9", "the reason"]);
    let line = [
        "--workload",
        "cmd: true",
        "--setup",
        "echo why >&2; exit 4",
        "--target",
        "a",
        "--runs",
        "1",
    ];
    run_command(&mut hurried(dir.path(), &line)).fails(1, &["setup", "why", "4"]);
    assert!(nothing_left(dir.path()));
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_at_once() {
    let dir = temp_in_memory();
    two_targets(dir.path());
    let cases: [(&[&str], &str); 6] = [
        (&["--workload", "nonsense:x=1", "--target", "a"], "nonsense"),
        (
            &["--workload", "postmark:files=many", "--target", "a"],
            "many",
        ),
        (
            &["--workload", "cmd: true", "--target", "a", "--target", "a"],
            "twice",
        ),
        (
            &[
                "--workload",
                "cmd: true",
                "--workload",
                "cmd: true",
                "--target",
                "a",
            ],
            "cmd: true",
        ),
        (
            &[
                "--workload",
                "cmd: true",
                "--target",
                "a",
                "--trace-on",
                "b",
            ],
            "b",
        ),
        (
            &["--workload", "cmd: true", "--target", "nowhere"],
            "nowhere",
        ),
    ];
    for (line, word) in cases {
        let ran = run_command(&mut validate(dir.path(), line));
        let code = ran.code();
        assert!(code == 1 || code == 2, "{line:?}: {code}");
        ran.fails(code, &[word]);
    }
    assert!(nothing_left(dir.path()));
}

/// Starts a validation whose workload says that it runs, and runs until it is told to stop.
fn long_validation(dir: &Path) -> common::Running {
    two_targets(dir);
    let marker = dir.join("runs");
    let workload = format!("cmd: echo $$ > '{}'; exec sleep 600", marker.display());
    let line = [
        "--workload",
        &workload,
        "--target",
        "a",
        "--runs",
        "1",
        "-o",
        "kept",
    ];
    let running = start(&mut hurried(dir, &line));
    until("the workload to run", || workload_in(&marker).is_some());
    running
}

/// The process that wrote its number to `marker`, once all of it is there.
fn workload_in(marker: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(marker).ok()?;
    Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
}

/// Ends the workload, which outlives fsage, if it still runs.
fn end_workload(marker: &Path) {
    rustix::process::kill_process(workload_in(marker).unwrap(), Signal::KILL).ok();
}

#[test]
fn an_interrupt_cleans_up() {
    let dir = temp_in_memory();
    let running = long_validation(dir.path());
    running.ended_by(Signal::INT, || end_workload(&dir.path().join("runs")));
    until("the directory of the run to go", || {
        nothing_left(dir.path())
    });
}

#[test]
fn a_kill_leaves_no_directory() {
    let dir = temp_in_memory();
    let running = long_validation(dir.path());
    running.ended_by(Signal::KILL, || end_workload(&dir.path().join("runs")));
    until("the directory of the run to go", || {
        nothing_left(dir.path())
    });
}

#[test]
fn a_kill_leaves_no_loop_device() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    let marker = dir.path().join("runs");
    let workload = format!("cmd: echo $$ > '{}'; exec sleep 600", marker.display());
    let line = [
        "--workload",
        &workload,
        "--target",
        "scratch:ext4,size=64M",
        "--runs",
        "1",
    ];
    let tmp = dir.path().join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let running = start(hurried(dir.path(), &line).env("TMPDIR", &tmp));
    until("the workload to run", || workload_in(&marker).is_some());
    let devices = loop_devices(running.id());
    assert!(!devices.is_empty());
    // The workload holds the file system until it ends.
    running.ended_by(Signal::KILL, || end_workload(&marker));
    until_detached(&devices);
    until("temporary directories to go", || names(&tmp).is_empty());
}

/// What a full disk or a kill left of a record that never got a run is no earlier validation.
#[test]
fn a_record_without_a_run_is_begun_anew() {
    let dir = temp_in_memory();
    two_targets(dir.path());
    let line = [
        "--workload",
        "postmark:files=5,transactions=5",
        "--target",
        "a",
        "--runs",
        "1",
        "-o",
        "kept",
    ];
    std::fs::create_dir(dir.path().join("kept")).unwrap();
    for (before, more) in [("", &[][..]), ("{\"format\":\"fsage run", &["--resume"])] {
        let record = dir.path().join("kept/runs.jsonl");
        std::fs::write(&record, before).unwrap();
        let ran = run_command(hurried(dir.path(), &line).args(more));
        assert!(!ran.stderr.contains("runs.jsonl"), "{}", ran.stderr);
        let kept = std::fs::read_to_string(record).unwrap();
        assert_eq!(kept.lines().count(), 3, "{kept}");
    }
}

//! `fsage validate PLAN.toml`: what a plan says, what is wrong with it, going on after failures and
//! after an interruption.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{fsage, fuse, names, run, run_command, scratch, start, temp_in_memory, until};
use rustix::process::Signal;
use serde_json::Value;

/// Two directories in two groups, one command with a setup and one generated workload.
const PLAN: &str = r#"
runs = 1
profile_time = "10s"
trace_on = "first"

[group.other]
trace_on = "second"

[[target]]
name = "first"
spec = "a"
group = "one"

[[target]]
name = "second"
spec = "b"
group = "other"

[[workload]]
name = "reads"
spec = "cmd: cat made >/dev/null && cat made >copy"
setup = "head -c 20000 /dev/zero >made"

[[workload]]
name = "PostMark"
spec = "postmark:files=40,transactions=80,size=512-4096,subdirs=4"
"#;

/// The same in virtual time: for tests of what belongs to a plan and what is judged together.
fn in_virtual_time() -> String {
    let mut plan = PLAN.to_owned();
    for (from, to) in [
        ("spec = \"a\"", "spec = \"mem:fast\""),
        ("spec = \"b\"", "spec = \"mem:tiny\""),
        (
            "spec = \"cmd: cat made >/dev/null && cat made >copy\"\nsetup = \"head -c 20000 /dev/zero >made\"",
            "spec = \"postmark:files=20,transactions=30\"",
        ),
    ] {
        assert!(plan.contains(from), "{from}");
        plan = plan.replace(from, to);
    }
    plan
}

fn prepare(dir: &Path, plan: &str) {
    for name in ["a", "b"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    std::fs::write(dir.join("plan.toml"), plan).unwrap();
}

fn validate(dir: &Path, more: &[&str]) -> Command {
    let mut command = fsage();
    command
        .current_dir(dir)
        .args([
            "validate",
            "plan.toml",
            "--allow-commands",
            "--allow-paths",
            "--json",
        ])
        .args(more);
    command
}

/// Each line of the record after the first, as `step workload target`.
fn steps(dir: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(dir.join("kept/runs.jsonl")).unwrap();
    let word = |record: &Value, key: &str| record[key].as_str().unwrap_or("-").to_string();
    let mut steps: Vec<String> = text
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|r| {
            ["step", "workload", "target"]
                .map(|key| word(&r, key))
                .join(" ")
        })
        .collect();
    steps.sort();
    steps
}

#[test]
fn a_plan_is_carried_out_and_gone_on_with() {
    let dir = temp_in_memory();
    let dir = dir.path();
    prepare(dir, PLAN);
    let keep = ["-o", "kept"];
    let result = run_command(&mut validate(dir, &keep)).exits(0).json();
    let pairs = result["pairs"].as_array().unwrap();
    let reported: Vec<String> = pairs
        .iter()
        .map(|p| {
            ["workload", "target", "group", "trace_on"]
                .map(|k| p[k].as_str().unwrap())
                .join(" ")
        })
        .collect();
    let expected = [
        "reads first one first",
        "reads second other second",
        "PostMark first one first",
        "PostMark second other second",
    ];
    assert_eq!(reported, expected);
    assert_eq!(result["groups"][1]["name"], "other");
    assert!(result["groups"][1]["average_error"].is_number());
    let share: f64 = result["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["share"].as_f64().unwrap())
        .sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    // The setup is not measured: only the copy was written.
    let shown = run(dir, ["show", "kept/workload0-target0.fst", "--json"])
        .exits(0)
        .json();
    assert_eq!(shown["bytes_written"], 20000);
    let first = steps(dir);
    assert_eq!(first.len(), 6, "{first:?}");

    run_command(&mut validate(dir, &keep)).fails(2, &["kept", "--resume"]);
    assert_eq!(steps(dir), first);
    let more = ["-o", "kept", "--resume", "--runs", "2"];
    let again = run_command(&mut validate(dir, &more)).exits(0).json();
    let second = steps(dir);
    assert_eq!(second.len(), 10, "one more run of each: {second:?}");
    let profiles = |steps: &[String]| steps.iter().filter(|s| s.starts_with("profile")).count();
    assert_eq!((profiles(&first), profiles(&second)), (2, 2));
    for (old, new) in pairs.iter().zip(again["pairs"].as_array().unwrap()) {
        assert_eq!(new["measured_runs_ns"][0], old["measured_runs_ns"][0]);
        assert_eq!(new["measured_runs_ns"].as_array().unwrap().len(), 2);
    }
    // Everything is there: nothing is measured, the predictions are made again.
    run_command(&mut validate(dir, &more)).exits(0);
    assert_eq!(steps(dir), second);

    let other = ["-o", "kept", "--resume", "--seed", "9"];
    run_command(&mut validate(dir, &other)).fails(1, &["runs.jsonl", "another plan"]);
    assert_eq!([names(&dir.join("a")), names(&dir.join("b"))], [[""; 0]; 2]);
}

#[test]
fn options_override_the_plan() {
    let dir = temp_in_memory();
    let plan = in_virtual_time();
    prepare(dir.path(), &plan);
    let line = [
        "--target",
        "second",
        "--workload",
        "reads",
        "--trace-on",
        "second",
    ];
    let result = run_command(&mut validate(dir.path(), &line))
        .exits(0)
        .json();
    assert_eq!(result["pairs"].as_array().unwrap().len(), 1);
    assert_eq!(result["pairs"][0]["target"], "second");
    let plan = plan.replace("[group.other]\ntrace_on = \"second\"", "");
    prepare(dir.path(), &plan);
    let line = ["--target", "second"];
    run_command(&mut validate(dir.path(), &line)).fails(2, &["`first`", "--trace-on", "--resume"]);
}

#[test]
fn parts_of_a_plan_are_judged_together() {
    let dir = temp_in_memory();
    let dir = dir.path();
    prepare(dir, &in_virtual_time().replace("trace_on = \"second\"", ""));
    let part = |target: &str, workload: &str| {
        let line = [
            "-o",
            "kept",
            "--resume",
            "--target",
            target,
            "--workload",
            workload,
        ];
        run_command(&mut validate(dir, &line)).exits(0).json()
    };
    let first = part("first", "PostMark");
    assert_eq!(first["pairs"].as_array().unwrap().len(), 1);
    let note = "4 of 6 profiles and runs of the plan are not measured yet";
    assert!(
        first["notes"].as_array().unwrap().contains(&note.into()),
        "{}",
        first["notes"]
    );
    assert_eq!(steps(dir).len(), 2);
    // What it is predicted from is of the part before.
    let second = part("second", "PostMark");
    assert_eq!(second["pairs"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&second["pairs"][0], steps(dir).len()),
        (&first["pairs"][0], 4)
    );
    part("first", "reads");
    let all = run_command(&mut validate(dir, &["-o", "kept", "--resume"]))
        .exits(0)
        .json();
    assert_eq!(
        (all["pairs"].as_array().unwrap().len(), steps(dir).len()),
        (4, 6)
    );
    assert!(
        !all["notes"].to_string().contains("not measured yet"),
        "{}",
        all["notes"]
    );
    // The files are those of the whole plan.
    let line = ["validate", "--again", "kept", "--json"];
    let again = run(dir, line).exits(0).json();
    assert_eq!(again["pairs"], all["pairs"]);
}

#[test]
fn the_sealed_half_runs_only_where_it_is_asked_for() {
    let dir = temp_in_memory();
    let dir = dir.path();
    let plan = in_virtual_time();
    let half = "name = \"reads\"\nsealed = true";
    prepare(dir, &plan.replace("name = \"reads\"", half));
    let names = |result: &Value| -> Vec<String> {
        let pairs = result["pairs"].as_array().unwrap();
        pairs
            .iter()
            .map(|p| p["workload"].as_str().unwrap().to_owned())
            .collect()
    };
    let open = run_command(&mut validate(dir, &["-o", "open"]))
        .exits(0)
        .json();
    assert_eq!(
        (names(&open), &open["half"]),
        (vec!["PostMark".to_owned(); 2], &"open".into())
    );
    let sealed = run_command(&mut validate(dir, &["--sealed", "-o", "sealed"]))
        .exits(0)
        .json();
    assert_eq!(
        (names(&sealed), &sealed["half"]),
        (vec!["reads".to_owned(); 2], &"sealed".into())
    );
    let shown = run(dir, ["validate", "--again", "sealed"]).exits(0).stdout;
    let said = "sealed half: predictions are off by";
    assert!(
        shown.starts_with(said.as_bytes()),
        "{}",
        String::from_utf8_lossy(&shown)
    );
    // Neither is found in the other's directory.
    let mixed = ["--sealed", "-o", "open", "--resume"];
    run_command(&mut validate(dir, &mixed)).fails(1, &["another plan"]);
    let line = ["--workload", "reads"];
    run_command(&mut validate(dir, &line)).fails(2, &["`reads`", "open half", "--sealed"]);
    let line = ["--workload", "PostMark", "--sealed"];
    run_command(&mut validate(dir, &line)).fails(2, &["`PostMark`", "leave --sealed out"]);
    prepare(dir, &plan);
    run_command(&mut validate(dir, &["--sealed"])).fails(2, &["sealed half"]);
}

#[test]
fn a_bad_plan_is_reported_by_file_and_line() {
    let dir = temp_in_memory();
    let cases = [
        (
            "runs = 1",
            "runs = 0",
            "plan.toml:2: runs = 0, expected 1 to 1000",
        ),
        ("runs = 1", "rums = 1", "plan.toml:2: unknown field `rums`"),
        ("\"10s\"", "\"1 moon\"", "plan.toml:3:"),
        (
            "trace_on = \"second\"",
            "trace_on = \"third\"",
            "plan.toml:7:",
        ),
        (
            "spec = \"a\"",
            "spec = \"scratch:ext4,of=x\"",
            "plan.toml:11:",
        ),
        ("files=40", "files=forty", "plan.toml:26: 'forty'"),
    ];
    for (from, to, said) in cases {
        assert!(PLAN.contains(from), "{from}");
        prepare(dir.path(), &PLAN.replacen(from, to, 1));
        run_command(&mut validate(dir.path(), &[])).fails(1, &[said]);
    }
    run(dir.path(), ["validate", "none.toml"]).fails(1, &["none.toml"]);
    run(dir.path(), ["validate", "a"]).fails(1, &["read a", "Is a directory"]);
    run(dir.path(), ["validate"]).exits(2);
}

/// Both are there when the marker is: what runs, and that it runs in its own directory.
fn interrupted(plan: &str, what: &str, begun: impl Fn(&Path) -> bool) {
    let dir = temp_in_memory();
    prepare(dir.path(), plan);
    let running = start(&mut validate(dir.path(), &["-o", "kept"]));
    until(what, || begun(dir.path()));
    let ran = running.ended_by(Signal::INT, || {});
    let said: Value = serde_json::from_slice(&ran.stdout).expect("whole JSON");
    assert_eq!(said["interrupted"], true);
    assert_eq!(said["targets"].as_array().unwrap().len(), 2);
    assert!(!dir.path().join("kept/validation.json").exists());
    until("the directories of the run to go", || {
        names(&dir.path().join("a")).is_empty() && names(&dir.path().join("b")).is_empty()
    });
}

#[test]
fn an_interrupt_during_a_setup_ends_it() {
    let plan = PLAN.replace(
        "head -c 20000 /dev/zero >made",
        "echo $$ > ../../setup; sleep 600; true",
    );
    interrupted(&plan, "the setup to run", |dir| dir.join("setup").exists());
}

#[test]
fn an_interrupt_during_a_profile_ends_it() {
    let plan = PLAN.replace("\"10s\"", "\"10m\"");
    interrupted(&plan, "a profile to run", |dir| {
        ["a", "b"].iter().any(|target| {
            let made = names(&dir.join(target));
            made.iter().any(|name| name.starts_with(".fsage-profile-"))
        })
    });
}

/// Half of the runs need more than the smaller target has.
const FULL: &str = r#"
runs = 1
profile_time = "20s"
keep_going = true

[[target]]
name = "large"
spec = "scratch:ext4,size=128M"

[[target]]
name = "small"
spec = "scratch:ext4,size=16M"

[[workload]]
name = "command"
spec = "cmd: head -c 30000000 /dev/zero >file"

[[workload]]
name = "generated"
spec = "postmark:files=400,transactions=1,size=65536-65536,subdirs=4"
"#;

#[test]
fn a_full_target_fails_its_runs_and_the_rest_goes_on() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    prepare(dir.path(), FULL);
    let ran = run_command(&mut validate(dir.path(), &["-o", "kept"])).exits(3);
    assert!(ran.stderr.contains("not done"), "{}", ran.stderr);
    let result = ran.json();
    let pairs = result["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 2, "{pairs:?}");
    assert!(pairs.iter().all(|p| p["target"] == "large"));
    // A profile that needs more than there is may be among them.
    let failed = result["failed"].as_array().unwrap();
    let runs = failed.iter().filter(|f| f["workload"].is_string());
    assert_eq!(runs.count(), 2, "{failed:?}");
    for failure in failed {
        assert_eq!(failure["target"], "small");
        assert!(failure["error"].as_str().unwrap().starts_with("failed to "));
    }
    let recorded = steps(dir.path());
    let recorded = recorded.iter().filter(|s| s.starts_with("failed"));
    assert_eq!(recorded.count(), failed.len());

    // Without leave to go on the first failure is the end, and nothing is predicted.
    let plan = FULL.replace("keep_going = true", "");
    prepare(dir.path(), &plan.replace("\"20s\"", "\"1s\""));
    let ran = run_command(&mut validate(dir.path(), &[])).exits(1);
    assert!(ran.stderr.contains("on small"), "{}", ran.stderr);
}

/// A disk that dies under a run.
const DISK: &str = r#"
runs = 1
profile_time = "10s"
keep_going = true

[[target]]
name = "memory"
spec = "scratch:ext4,size=64M"

[[target]]
name = "disk"
spec = "scratch:ext4,size=64M,on=disk:hdd-7200"

[[workload]]
name = "commits"
spec = "cmd: i=0; while [ $i -lt $COMMITS ]; do echo text >$i; sync $i || exit 1; i=$((i + 1)); echo $i >$DIR/commits; done; rm $DIR/commits"
"#;

/// The process that serves an emulated disk for process `pid`.
fn disk_daemon(pid: u32) -> Option<rustix::process::Pid> {
    let of = |entry: std::fs::DirEntry| -> Option<rustix::process::Pid> {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?;
        let serves = command.windows(11).any(|w| w == b"disk\0serve\0");
        let number = entry.file_name().to_str()?.parse().ok()?;
        (serves && parent.parse() == Ok(pid)).then(|| rustix::process::Pid::from_raw(number))?
    };
    std::fs::read_dir("/proc").unwrap().flatten().find_map(of)
}

#[test]
fn a_disk_that_dies_fails_its_run_and_the_rest_goes_on() {
    if !scratch() || !fuse() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    prepare(dir, DISK);
    let line = ["--workload", "commits", "-o", "kept"];
    let mut command = validate(dir, &line);
    command.env("DIR", dir).env("COMMITS", "300");
    let running = start(&mut command);
    // Only a run leaves the marker, and there is a daemon only for the disk.
    until("a commit on the disk", || {
        disk_daemon(running.id()).is_some() && dir.join("commits").exists()
    });
    let daemon = disk_daemon(running.id()).unwrap();
    rustix::process::kill_process(daemon, Signal::KILL).unwrap();
    let ran = running.wait().exits(3);
    let result = ran.json();
    let failed = result["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        (&failed[0]["target"], &failed[0]["workload"]),
        (&"disk".into(), &"commits".into())
    );
    let pairs = result["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 1, "{pairs:?}");
    assert_eq!(pairs[0]["target"], "memory");
}

#[test]
fn the_example_runs() {
    if !scratch() {
        return;
    }
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/validate-small.toml");
    let dir = temp_in_memory();
    let mut command = fsage();
    command
        .current_dir(dir.path())
        .arg("validate")
        .arg(plan)
        .args([
            "--allow-commands",
            "--runs",
            "1",
            "--profile-time",
            "10s",
            "--json",
        ]);
    let result = run_command(&mut command).exits(0).json();
    assert_eq!(result["pairs"].as_array().unwrap().len(), 4);
}

#[test]
fn the_matrix_is_a_plan_that_reads() {
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/matrix.toml");
    let dir = temp_in_memory();
    // Everything is understood before the missing target is told.
    let mut command = fsage();
    command
        .current_dir(dir.path())
        .arg("validate")
        .arg(plan)
        .args(["--allow-commands", "--target", "nowhere"]);
    run_command(&mut command).fails(2, &["ext4 ram"]);
    // What is sealed is what was drawn.
    let halves = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/workloads/halves.sh");
    let checked = Command::new("bash")
        .arg(halves)
        .arg("--check")
        .output()
        .unwrap();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

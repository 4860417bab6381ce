//! `fsage bench` when things go wrong: what fails is recorded, the rest goes on or stops as the plan says,
//! nothing is left.

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
use std::process::{Child, Command, Stdio};

use common::{
    bench, configuration, fsage, loop_devices, mounted_below, names, plan, root, run, run_command,
    scratch, start, temp_in_memory, until, until_detached,
};
use rustix::process::Signal;
use serde_json::Value;

fn runs_of(result: &Value, name: &str) -> usize {
    let runs = &configuration(result, name)["runs"];
    runs.as_array().unwrap().len()
}

fn failures(result: &Value) -> Vec<String> {
    let failed = result["failed"].as_array().unwrap();
    let text = |f: &Value| format!("{}: {}", f["configuration"], f["error"]);
    failed.iter().map(text).collect()
}

#[test]
fn a_failing_command_is_recorded_and_the_rest_goes_on_or_stops() {
    let dir = temp_in_memory();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let text = "runs = 4\ncache = 'as found'\n[[target]]\nname = 't'\nspec = 't'\n\
                [[workload]]\nname = 'good'\nspec = 'cmd: true'\n\
                [[workload]]\nname = 'bad'\nspec = 'cmd: echo last words >&2; exit 3'\n";
    plan(dir.path(), &format!("keep_going = true\n{text}"));
    let said = bench(dir.path(), &["plan.toml", "--json"]).exits(3);
    let result = said.json();
    assert_eq!(runs_of(&result, "t / good"), 4);
    assert_eq!(runs_of(&result, "t / bad"), 0);
    let failed = failures(&result);
    assert_eq!(failed.len(), 3, "given up: {failed:?}");
    assert!(
        failed[0].contains("exit status 3, expected 0: last words"),
        "{failed:?}"
    );
    assert_eq!(result["configurations"][1]["stop"], "failing");
    assert!(
        said.stderr.contains("not measured: run 0 of t / bad"),
        "{}",
        said.stderr
    );
    // Without keep_going the first failure ends it, and --resume goes on.
    plan(dir.path(), text);
    let said = bench(dir.path(), &["plan.toml", "-o", "kept", "--json"]).exits(1);
    let result = said.json();
    assert_eq!(failures(&result).len(), 1);
    assert_eq!(result["configurations"][0]["stop"], "after_failure");
    let line = [
        "plan.toml",
        "-o",
        "kept",
        "--resume",
        "--keep-going",
        "--json",
    ];
    let result = bench(dir.path(), &line).exits(3).json();
    assert_eq!(
        (runs_of(&result, "t / good"), failures(&result).len()),
        (4, 3)
    );
    let line = [
        "--resume",
        "--retry-failed",
        "--keep-going",
        "-o",
        "kept",
        "--json",
    ];
    let result = bench(dir.path(), &line).exits(3).json();
    assert_eq!(failures(&result).len(), 6, "three more attempts");
    assert!(names(&dir.path().join("t")).is_empty());
}

#[test]
fn a_full_target_is_recorded_and_the_rest_goes_on() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    plan(
        dir.path(),
        "runs = 2\nkeep_going = true\n[[target]]\nname = 'small'\nspec = 'scratch:ext4,size=8M'\n\
         [[target]]\nname = 'large'\nspec = 'scratch:ext4,size=128M'\n\
         [[workload]]\nname = 'w'\nspec = 'postmark:files=400,transactions=100,size=40000-50000'\n",
    );
    let result = bench(dir.path(), &["plan.toml", "--json"]).exits(3).json();
    assert_eq!(
        (runs_of(&result, "small / w"), runs_of(&result, "large / w")),
        (0, 2)
    );
    for failed in failures(&result) {
        assert!(
            failed.contains("small / w") && failed.contains("ENOSPC"),
            "{failed}"
        );
    }
}

/// Runs a script with `$FSAGE` in a mount namespace of its own.
fn in_namespace(dir: &Path, script: &str) -> common::Ran {
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-ec", script])
        .env("FSAGE", env!("CARGO_BIN_EXE_fsage"))
        .current_dir(dir);
    run_command(&mut command)
}

#[test]
fn a_full_output_directory_loses_nothing_that_ended() {
    if !root() {
        return;
    }
    let dir = temp_in_memory();
    std::fs::create_dir(dir.path().join("out")).unwrap();
    let said = in_namespace(
        dir.path(),
        "mount -t tmpfs -o size=64k none out
         $FSAGE bench --runs 400 -o out/kept -- true >first 2>&1 && exit 9 || test $? = 1
         grep -q 'No space left' first
         cp out/kept/runs.jsonl before
         mount -o remount,size=64M none out
         $FSAGE bench --runs 40 -o out/kept --resume --allow-commands --allow-paths --json >result
         cp out/kept/runs.jsonl after",
    );
    let said = said.exits(0);
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let (before, after) = (read("before"), read("after"));
    let whole = before.rfind('\n').map_or(0, |i| i + 1);
    assert!(after.starts_with(&before[..whole]), "{}", said.stderr);
    let ended = before[..whole].matches("\"entry\":\"run\"").count();
    let result: Value = serde_json::from_str(&read("result")).unwrap();
    let runs = result["configurations"][0]["runs"].as_array().unwrap();
    assert!(
        ended > 0 && runs.len() == ended.max(40),
        "{ended} {}",
        runs.len()
    );
    let numbers: Vec<u64> = runs.iter().map(|r| r["run"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..runs.len() as u64).collect::<Vec<u64>>());
}

#[test]
fn a_target_that_vanishes_is_recorded() {
    let dir = temp_in_memory();
    for name in ["a", "b"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    plan(
        dir.path(),
        &format!(
            "runs = 3\nkeep_going = true\ncache = 'as found'\n[[target]]\nname = 'a'\nspec = 'a'\n\
             [[target]]\nname = 'b'\nspec = 'b'\n\
             [[workload]]\nname = 'w'\nspec = 'cmd: rm -rf {}/a'\n",
            dir.path().display()
        ),
    );
    let result = bench(dir.path(), &["plan.toml", "--json"]).exits(3).json();
    assert_eq!(runs_of(&result, "b / w"), 3);
    let failed = failures(&result);
    assert!(
        failed.len() >= 2
            && failed[0].contains("open directory")
            && failed[1].contains("open target directory"),
        "{failed:?}"
    );
}

#[test]
fn a_file_system_that_was_unmounted_is_not_taken_for_another() {
    if !root() {
        return;
    }
    let dir = temp_in_memory();
    for name in ["a", "b"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    // What runs on `b` takes away the file system of `a` once something has run there.
    plan(
        dir.path(),
        &format!(
            "runs = 3\nkeep_going = true\ncache = 'as found'\n\
             [[target]]\nname = 'a'\nspec = '{0}/a'\n[[target]]\nname = 'b'\nspec = '{0}/b'\n\
             [[workload]]\nname = 'w'\nspec = 'cmd: case $PWD in {0}/a/*) touch {0}/ran;; \
             *) if test -e {0}/ran && mountpoint -q {0}/a; then umount {0}/a; fi;; esac'\n",
            dir.path().display()
        ),
    );
    let said = in_namespace(
        dir.path(),
        "mount -t tmpfs none a; $FSAGE bench plan.toml --allow-commands --allow-paths --json >result || test $? = 3",
    );
    said.exits(0);
    let text = std::fs::read_to_string(dir.path().join("result")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let of_a = runs_of(&result, "a / w");
    assert!((1..=2).contains(&of_a), "{of_a}");
    assert_eq!(runs_of(&result, "b / w"), 3);
    let failed = failures(&result);
    assert!(
        failed[0].contains("another file system than before"),
        "{failed:?}"
    );
}

/// Processes that keep every processor busy.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Self {
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        let spin = |_| {
            Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap()
        };
        Self((0..count).map(spin).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[test]
fn a_machine_under_load_is_reported() {
    let dir = temp_in_memory();
    let load = Load::start();
    let line = ["bench", "--runs", "2", "--json", "--", "sleep 0.5"];
    let result = run(dir.path(), line).exits(0).json();
    drop(load);
    for run in result["configurations"][0]["runs"].as_array().unwrap() {
        let marks = run["marks"].to_string();
        assert!(marks.contains("other processes used"), "{run}");
    }
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("2 of 2 runs are marked"), "{warnings}");
}

#[test]
fn caches_that_cannot_be_cold_are_no_cold_caches() {
    if !root() {
        return;
    }
    let dir = temp_in_memory();
    // What lies in memory alone cannot be dropped.
    let kind = run_command(
        Command::new("stat")
            .args(["-f", "-c", "%T"])
            .arg(dir.path()),
    )
    .text();
    if kind.trim() != "tmpfs" {
        fsage_testing::not_run("needs a tmpfs");
        return;
    }
    let said = run(
        dir.path(),
        ["bench", "--runs", "2", "--target", ".", "--", "true"],
    )
    .exits(1);
    assert!(
        said.stderr.contains("make the caches of"),
        "{}",
        said.stderr
    );
    assert!(said.stderr.contains("as found"), "{}", said.stderr);
}

#[test]
fn an_interrupted_experiment_keeps_what_ended() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    plan(
        dir.path(),
        "runs = 6\n[[target]]\nname = 't'\nspec = 'scratch:ext4,size=64M'\n\
         [[workload]]\nname = 'w'\nspec = 'cmd: sleep 0.2; echo x > file'\n",
    );
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = fsage();
        command.current_dir(dir.path()).args([
            "bench",
            "plan.toml",
            "--allow-commands",
            "--allow-paths",
            "-o",
            "kept",
            "--resume",
            "--json",
        ]);
        let running = start(&mut command);
        let record = dir.path().join("kept/runs.jsonl");
        let count = || {
            let text = std::fs::read_to_string(&record).unwrap_or_default();
            text.matches("\"entry\":\"run\"").count()
        };
        let before = count();
        until("a run to end", || count() > before);
        let mut devices = Vec::new();
        until("the next one to begin", || {
            devices = loop_devices(running.id());
            !devices.is_empty()
        });
        let ran = running.ended_by(signal, || ());
        let result = ran.json();
        assert_eq!(result["interrupted"], true);
        assert_eq!(result["configurations"][0]["stop"], "interrupted");
        assert_eq!(
            result["configurations"][0]["runs"]
                .as_array()
                .unwrap()
                .len(),
            count()
        );
        until_detached(&devices);
    }
    let line = ["plan.toml", "-o", "kept", "--resume", "--json"];
    let result = bench(dir.path(), &line).exits(0).json();
    assert_eq!(
        (&result["interrupted"], runs_of(&result, "t / w")),
        (&false.into(), 6)
    );
    assert_eq!(result["failed"].as_array().unwrap().len(), 0);
}

#[test]
fn two_do_not_share_a_directory() {
    let dir = temp_in_memory();
    let mut command = fsage();
    command
        .current_dir(dir.path())
        .args(["bench", "--runs", "1", "-o", "kept", "--", "sleep 5"]);
    let running = start(&mut command);
    let record = dir.path().join("kept/runs.jsonl");
    until("it to begin", || {
        std::fs::read_to_string(&record)
            .is_ok_and(|text| text.ends_with("}\n") && text.lines().count() > 1)
    });
    bench(dir.path(), &["--resume", "-o", "kept"]).fails(1, &["in use by another"]);
    running.ended_by(Signal::TERM, || ());
}

/// The result took the place of a plan that was called so, and of whatever else lay there.
#[test]
fn what_is_no_result_of_fsage_is_not_written_over() {
    let dir = temp_in_memory();
    let text = "runs = 1\ncache = ['as found']\n[[target]]\nname = 't'\nspec = '.'\n\
                [[workload]]\nname = 'w'\nspec = 'cmd: true'\n";
    let kept = dir.path().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let there = |name: &str| std::fs::read_to_string(kept.join(name)).unwrap();
    for name in ["experiment.json", "runs.jsonl"] {
        let own = format!("kept/{name}");
        std::fs::write(kept.join(name), text).unwrap();
        std::fs::hard_link(kept.join(name), dir.path().join("also")).unwrap();
        for plan in [own.as_str(), "also"] {
            let both = [&format!("{plan} and -o kept"), &*own, "written over"];
            bench(dir.path(), &[plan, "-o", "kept"]).fails(2, &both);
        }
        assert_eq!(there(name), text);
        std::fs::remove_file(dir.path().join("also")).unwrap();
        std::fs::remove_file(kept.join(name)).unwrap();
    }
    plan(dir.path(), text);
    let line = ["plan.toml", "-o", "kept"];
    for others in ["my notes\n", "{\"format\":\"mine\"}", ""] {
        std::fs::write(kept.join("experiment.json"), others).unwrap();
        bench(dir.path(), &line).fails(1, &["kept/experiment.json", "written over"]);
        assert_eq!(there("experiment.json"), others);
        assert_eq!(common::names(&kept), ["experiment.json"], "nothing began");
    }
    std::fs::remove_file(kept.join("experiment.json")).unwrap();
    bench(dir.path(), &line).exits(0);
    // Its own it makes again.
    std::fs::remove_file(kept.join("runs.jsonl")).unwrap();
    bench(dir.path(), &line).exits(0);
}

/// A command that never ends, with a child, a child of that, and one in a session of its own: each writes its
/// number to the file that stands for `$0`.
const FOREVER: &str = "say() { echo $$ >> $0; }; say; \
    sh -c 'echo $$ >> $0; sh -c \"echo \\$\\$ >> $0; while :; do sleep 1; done\" & wait' $0 & \
    setsid sh -c 'echo $$ >> $0; sleep 600' $0 & \
    while :; do sleep 1; done";

/// The processes that said their numbers, once there are four.
fn processes(file: &Path) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    until("four processes", || read().lines().count() == 4);
    read().lines().map(str::to_owned).collect()
}

/// Whether a process is there and not only waited for.
fn lives(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z"))
}

/// Control groups of that process of fsage.
fn control_groups(fsage: u32) -> Vec<String> {
    let prefix = format!("fsage-{fsage}-");
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own.unwrap_or_default();
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .filter_map(|base| std::fs::read_dir(Path::new(base).join(own)).ok())
        .flatten()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

#[test]
fn a_killed_fsage_takes_commands_that_never_end_with_it() {
    if !scratch() {
        return;
    }
    for at in ["spec", "setup"] {
        let dir = temp_in_memory();
        let said = dir.path().join("said");
        std::fs::write(dir.path().join("forever"), FOREVER).unwrap();
        let command = format!(
            "sh -c \"$(cat {}/forever)\" {}",
            dir.path().display(),
            said.display()
        );
        let (spec, setup) = match at {
            "spec" => (command.as_str(), "true"),
            _ => ("true", command.as_str()),
        };
        plan(
            dir.path(),
            &format!(
                "runs = 2\n[[target]]\nname = 't'\nspec = 'scratch:ext4,size=64M'\n\
                 [[workload]]\nname = 'w'\nsetup = '{setup}'\nspec = 'cmd: {spec}'\n"
            ),
        );
        let mut line = fsage();
        line.current_dir(dir.path()).args([
            "bench",
            "plan.toml",
            "--allow-commands",
            "--allow-paths",
        ]);
        let running = start(&mut line);
        let fsage = running.id();
        let processes = processes(&said);
        assert!(processes.iter().all(|p| lives(p)), "{processes:?}");
        let groups = control_groups(fsage);
        let devices = loop_devices(fsage);
        assert!(!devices.is_empty());
        running.ended_by(Signal::KILL, || ());
        for process in &processes {
            // Only a control group reaches what has made a session of its own.
            if !groups.is_empty() || !is_own_session(process) {
                until("the end of a process", || !lives(process));
            } else {
                let number = process
                    .parse()
                    .ok()
                    .and_then(rustix::process::Pid::from_raw);
                rustix::process::kill_process(number.unwrap(), Signal::KILL).unwrap();
            }
        }
        until_detached(&devices);
        until("no control group", || control_groups(fsage).is_empty());
        assert!(!mounted_below(dir.path()));
    }
}

/// Whether a process leads a session.
fn is_own_session(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(3) == Some(process)
}

/// A copied line, or records that were joined, would make intervals narrower than they are.
#[test]
fn a_run_that_is_recorded_twice_was_made_once() {
    let dir = temp_in_memory();
    let dir = dir.path();
    common::plan(
        dir,
        "[[target]]\nname = \"t\"\nspec = \"mem:disk\"\n\
         [[workload]]\nname = \"w\"\nspec = \"postmark:files=20,transactions=20\"\n",
    );
    let line = ["plan.toml", "-o", "kept", "--runs", "2", "--json"];
    common::bench(dir, &line).exits(0);
    let record = dir.join("kept/runs.jsonl");
    let text = std::fs::read_to_string(&record).unwrap();
    let runs: String = text
        .lines()
        .filter(|line| line.contains("\"entry\":\"run\""))
        .map(|line| line.to_owned() + "\n")
        .collect();
    std::fs::write(&record, text + &runs + "\0\0\0\n").unwrap();
    let line = ["-o", "kept", "--resume", "--runs", "3", "--json"];
    let result = common::bench(dir, &line).exits(0).json();
    let runs = result["configurations"][0]["runs"].as_array().unwrap();
    let numbers: Vec<_> = runs
        .iter()
        .map(|run| run["run"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
}

//! `fsage run` and `fsage workloads` from outside: results, refusals, a full target, signals, traces.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::Path;

use common::{
    daemons, fsage, fuse, kill, mix, names, profile, run, scratch, start, temp, temp_in_memory,
    until,
};
use rustix::process::Signal;
use serde_json::Value;

const SMALL: &str = "postmark:files=60,transactions=200,subdirs=3,seed=5";

/// The phase of that role.
fn phase<'v>(result: &'v Value, role: &str) -> &'v Value {
    let phases = result["phases"].as_array().unwrap();
    phases.iter().find(|p| p["role"] == role).unwrap()
}

/// How often a kind ran in all phases.
fn count(result: &Value, kind: &str) -> u64 {
    let phases = result["phases"].as_array().unwrap();
    let kinds = phases.iter().flat_map(|p| p["kinds"].as_array().unwrap());
    kinds
        .filter(|k| k["kind"] == kind)
        .map(|k| k["operations"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_run_in_a_directory_is_reported_and_leaves_nothing() {
    let dir = temp_in_memory();
    std::fs::write(dir.path().join("mine"), b"stays").unwrap();
    let said = run(dir.path(), ["run", SMALL, ".", "--json", "-o", "out.json"]).exits(0);
    let result = said.json();
    assert_eq!(names(dir.path()), ["mine", "out.json"]);
    let text = std::fs::read_to_string(dir.path().join("out.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result);
    assert_eq!(result["seed"], 5);
    let roles: Vec<&Value> = result["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| &p["role"])
        .collect();
    assert_eq!(roles, ["setup", "run", "teardown"]);
    assert_eq!(count(&result, "mkdir"), 3);
    assert_eq!(count(&result, "rmdir"), 3);
    for p in result["phases"].as_array().unwrap() {
        assert_eq!(p["unexpected"], 0);
        assert!(p["elapsed_ns"].as_u64() >= p["latency_total_ns"].as_u64());
    }
    let text = run(dir.path(), ["run", SMALL, "."]).exits(0).text();
    for word in [
        "run: transactions",
        "operations/s",
        "unlink",
        "99 %",
        "written",
    ] {
        assert!(text.contains(word), "`{word}` is missing: {text}");
    }
}

#[test]
fn a_seed_repeats_a_run_and_another_changes_it() {
    let dir = temp_in_memory();
    let written = |seed: &str| {
        let line = ["run", SMALL, ".", "--json", "--seed", seed];
        let result = run(dir.path(), line).exits(0).json();
        assert!(
            result["workload"]
                .as_str()
                .unwrap()
                .ends_with(&format!("seed={seed}"))
        );
        phase(&result, "run")["bytes_written"].as_u64().unwrap()
    };
    assert_eq!(written("1"), written("1"));
    assert_ne!(written("1"), written("2"));
}

#[test]
fn a_run_lasts_as_long_as_it_is_asked_to() {
    let dir = temp_in_memory();
    let timed = run(dir.path(), ["run", SMALL, ".", "--for", "300ms", "--json"])
        .exits(0)
        .json();
    let ran = phase(&timed, "run");
    assert!(ran["elapsed_ns"].as_u64().unwrap() >= 300_000_000);
    assert!(
        ran["operations"].as_u64().unwrap() > 1000,
        "longer than its 200 transactions"
    );
    let torn = phase(&timed, "teardown");
    assert_eq!(
        (&ran["unexpected"], &torn["unexpected"]),
        (&0.into(), &0.into())
    );
    let counted = run(dir.path(), ["run", SMALL, ".", "--ops", "5000", "--json"])
        .exits(0)
        .json();
    let operations = phase(&counted, "run")["operations"].as_u64().unwrap();
    assert!((5000..5200).contains(&operations), "{operations}");
}

#[test]
fn several_processes_run_at_once() {
    let dir = temp_in_memory();
    let spec = "postmark:files=40,transactions=100,threads=4";
    let result = run(dir.path(), ["run", spec, ".", "--json"])
        .exits(0)
        .json();
    let streams = phase(&result, "run")["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 4);
    assert_eq!(count(&result, "mkdir"), 4);
    assert!(
        result["phases"]
            .as_array()
            .unwrap()
            .iter()
            .all(|p| p["unexpected"] == 0)
    );
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let dir = temp();
    let refused: [(&[&str], &[&str]); 13] = [
        (&["postmark:files=0", "."], &["'files'", "from 1 to"]),
        (&["postmark:size=9-3", "."], &["'size'", "a range of bytes"]),
        (&["postmark:bias-read=11", "."], &["from -1 to 10"]),
        (&["postmark:threads=0", "."], &["'threads'", "from 1 to"]),
        (&["postmark:seed=x", "."], &["'seed'"]),
        (&["postmark:config=tiny", "."], &["expected fsl"]),
        (
            &["nothing", "."],
            &["unknown workload 'nothing'", "postmark"],
        ),
        (&["cmd:", "."], &["no command"]),
        (&["cmd:true", ".", "--for", "1s"], &["--for", "shell"]),
        (&["cmd:true", ".", "--seed", "1"], &["no seed"]),
        (&["postmark", ".", "--role", "setup"], &["--keep"]),
        (&["cmd:true", "--to-trace", "x.fst"], &["--to-trace"]),
        (&["cmd:true", ".", "--ops", "3"], &["--ops"]),
    ];
    for (line, words) in refused {
        run(dir.path(), [&["run"], line].concat()).fails(2, words);
    }
    let failed: [(&[&str], &[&str]); 4] = [
        (
            &["postmark:files=2,threads=3", "."],
            &["2 files", "3 threads"],
        ),
        (
            &["postmark:size=1-1G,write=1,buffering=no", "."],
            &["requests"],
        ),
        (&[SMALL, "missing"], &["missing"]),
        (&[SMALL, ".", "--role", "run"], &["--role setup --keep"]),
    ];
    for (line, words) in failed {
        run(dir.path(), [&["run"], line].concat()).fails(1, words);
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn phases_can_run_one_by_one_in_a_kept_directory() {
    let dir = temp_in_memory();
    let base = dir.path();
    std::fs::create_dir(base.join("t")).unwrap();
    let role = |target: &str, spec: &str, role: &str, more: &[&str]| {
        run(
            base,
            [&["run", spec, target, "--role", role, "--json"], more].concat(),
        )
    };
    let setup = role("t", SMALL, "setup", &["--keep"]).exits(0);
    assert!(setup.stderr.contains("kept: "));
    let kept = names(&base.join("t"));
    assert_eq!(kept.len(), 2, "{kept:?}");
    let target = format!("t/{}", kept[0]);
    role(&target, "postmark:files=61", "run", &[]).fails(1, &["was made for postmark:files=60"]);
    for name in ["run", "teardown"] {
        let result = role(&target, SMALL, name, &[]).exits(0).json();
        assert_eq!(phase(&result, name)["unexpected"], 0, "{result}");
    }
    assert_eq!(names(&base.join("t")), Vec::<String>::new());
}

/// mkfs would write for minutes, and in memory take what others need, before it failed.
#[test]
fn a_scratch_that_finds_no_room_is_one_error_before_it_is_made() {
    if !scratch() {
        return;
    }
    let dir = temp();
    for target in [
        "scratch:ext4,size=9000T",
        "scratch:ext2,size=9000T,on=file:.",
    ] {
        let words = [
            target,
            " of inodes for that size",
            "MiB are available",
            "such as size=",
        ];
        run(dir.path(), ["run", "postmark:files=9", target]).fails(1, &words);
    }
    // What mkfs says of anything else is told, with the size.
    let target = "scratch:ext4,size=64M,mkfs=-O nonsense";
    let words = ["mkfs.ext4", "on an image of 67108864 bytes", "nonsense"];
    run(dir.path(), ["run", "postmark:files=9", target]).fails(1, &words);
}

#[test]
fn a_target_before_the_workload_is_told() {
    let dir = temp();
    let words = ["'postmark' is a workload", "fsage run WORKLOAD TARGET"];
    run(dir.path(), ["run", "somewhere", "postmark"]).fails(2, &words);
    // Two that are none are two mistakes, of which the first is told.
    run(dir.path(), ["run", "postmrk", "nowhere"]).fails(2, &["unknown workload 'postmrk'"]);
}

#[test]
fn a_run_that_ended_before_its_first_phase_says_so() {
    let dir = temp();
    let line = [
        "run",
        "postmark:files=9,transactions=9",
        "mem:fast",
        "-o",
        "r.json",
    ];
    run(dir.path(), line).exits(0);
    let file = dir.path().join("r.json");
    let mut result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    result["phases"] = serde_json::json!([]);
    result["interrupted"] = true.into();
    std::fs::write(&file, result.to_string()).unwrap();
    let said = run(dir.path(), ["show", "r.json"]).exits(0).text();
    let first = said.lines().next().unwrap();
    assert_eq!(
        first,
        "postmark on mem:fast: ended before anything of it was run"
    );
}

#[test]
fn a_command_is_run_and_its_use_reported() {
    let dir = temp_in_memory();
    let script = "cmd:i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo made > file; cat file";
    let said = run(dir.path(), ["run", script, ".", "--json"]).exits(0);
    let result = said.json();
    assert!(
        said.stderr.contains("made"),
        "its output is no result: {}",
        said.stderr
    );
    let command = &result["command"];
    assert_eq!(command["exit_status"], 0);
    let used = command["user_ns"].as_u64().unwrap() + command["system_ns"].as_u64().unwrap();
    assert!(used > 0, "{command}");
    // A shell is small, and what began it is not.
    let resident = command["max_resident_bytes"].as_u64();
    assert!(
        resident.is_some() || !rustix::process::geteuid().is_root(),
        "{command}"
    );
    assert!(
        resident.is_none_or(|bytes| (100_000..8 << 20).contains(&bytes)),
        "{command}"
    );
    let failed = run(dir.path(), ["run", "cmd:exit 7", "."]).exits(1);
    assert!(failed.stderr.contains("exit status 7"));
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_trace_without_a_run_can_be_predicted_and_is_the_same_workload() {
    let dir = temp_in_memory();
    let base = dir.path();
    run(base, ["run", SMALL, "--to-trace", "mail.fst"]).exits(0);
    let ran = run(base, ["run", SMALL, ".", "--json"]).exits(0).json();
    for (kind, counted) in mix(&base.join("mail.fst")) {
        assert_eq!(count(&ran, &kind), counted, "{kind}");
    }
    let ext4 = profile("ext4").display().to_string();
    let line = ["predict", "mail.fst", "--on", &ext4, "--json"];
    let predicted = run(base, line).exits(0).json();
    assert_eq!(predicted["operations"], predicted["operations_charged"]);
    let target = &predicted["targets"][0];
    assert!(target["latency_total_ns"].as_f64().unwrap() > 1e6);
    let kinds: u64 = target["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|k| k["operations"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(kinds), predicted["operations"].as_u64());
    // Only the run, of several processes, for a number of operations.
    let spec = "postmark:files=40,threads=2";
    let line = [
        "run",
        spec,
        "--to-trace",
        "two.fst",
        "--role",
        "run",
        "--ops",
        "900",
    ];
    run(base, line).exits(0);
    let total: u64 = mix(&base.join("two.fst")).iter().map(|m| m.1).sum();
    assert!((1800..2200).contains(&total), "{total}");
}

#[test]
fn workloads_are_listed_with_their_parameters() {
    let dir = temp();
    let listed = run(dir.path(), ["workloads"]).exits(0).text();
    let one = run(dir.path(), ["workloads", "postmark"]).exits(0).text();
    for word in ["postmark", "varmail", "cmd", "fsage workloads NAME"] {
        assert!(listed.contains(word), "`{word}` is missing");
    }
    assert!(listed.lines().count() < 60, "{listed}");
    for word in ["transactions", "good for", "config=cvfs-large"] {
        assert!(one.contains(word), "`{word}` is missing");
    }
    let all = run(dir.path(), ["workloads", "--json"]).exits(0).json();
    for workload in all["workloads"].as_array().unwrap() {
        let name = workload["name"].as_str().unwrap();
        assert!(!workload["what"].as_str().unwrap().is_empty(), "{name}");
        assert!(!workload["good_for"].as_str().unwrap().is_empty(), "{name}");
    }
    run(dir.path(), ["workloads", "postmrk"]).fails(2, &["unknown workload", "postmark"]);
}

#[test]
fn a_scratch_file_system_that_fills_up_is_reported() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let spec = "postmark:files=4000,size=20000-30000,transactions=10";
    let said = run(dir.path(), ["run", spec, "scratch:ext4,size=64M", "--json"]).exits(1);
    let result = said.json();
    let failed = &result["failed"];
    assert_eq!(
        (&failed["phase"], &failed["actual"]),
        (&"create the pool".into(), &"ENOSPC".into())
    );
    assert!(said.stderr.contains("ENOSPC"), "{}", said.stderr);
    assert_eq!(
        result["phases"].as_array().unwrap().len(),
        1,
        "nothing runs on a full target"
    );
    let fits = run(
        dir.path(),
        ["run", SMALL, "scratch:ext4,size=64M", "--json"],
    )
    .exits(0)
    .json();
    assert_eq!(fits["environment"]["target"]["file_system"], "ext4");
    run(dir.path(), ["run", SMALL, "scratch:ext4", "--keep"]).fails(1, &["expected a directory"]);
}

/// Starts a run, waits until `ready` of its directory, interrupts it.
fn interrupted(spec: &str, ready: impl Fn(&Path) -> bool) -> (Value, String) {
    let dir = temp_in_memory();
    let running = start(
        fsage()
            .current_dir(dir.path())
            .args(["run", spec, ".", "--for", "1h", "--json"]),
    );
    let inside = || names(dir.path()).first().map(|name| dir.path().join(name));
    until("the workload to be there", || {
        inside().is_some_and(|inside| ready(&inside))
    });
    running.signal(Signal::INT);
    let said = running.wait().exits(130);
    until("the directory to go", || names(dir.path()).is_empty());
    (said.json(), said.stderr)
}

#[test]
fn an_interrupt_ends_set_up_and_run_and_cleans_up() {
    let huge = "postmark:files=100000000,size=100-200";
    let (result, _) = interrupted(huge, |dir| dir.join("100").exists());
    assert_eq!(result["interrupted"], true);
    assert_eq!(result["phases"].as_array().unwrap().len(), 1);
    let (result, _) = interrupted(SMALL, |dir| {
        // Names count up: this one was made by a transaction.
        (0..3).any(|s| dir.join(format!("s{s}")).exists())
            && names(dir)
                .iter()
                .any(|s| names_of(&dir.join(s)).iter().any(|n| n.len() > 3))
    });
    assert_eq!(result["interrupted"], true);
    assert_eq!(phase(&result, "run")["unexpected"], 0);
}

/// Names in a directory that may go at any time.
fn names_of(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Taking the pool down is interrupted too: what is left goes with the directory.
#[test]
fn an_interrupt_ends_the_teardown_and_cleans_up() {
    let dir = temp_in_memory();
    let spec = "postmark:files=150000,size=1-1,transactions=1,subdirs=0";
    let running = start(
        fsage()
            .current_dir(dir.path())
            .args(["run", spec, ".", "--json"]),
    );
    let mut most = 0;
    until("files to go", || {
        let inside = names_of(dir.path()).pop();
        let files = inside.map_or(0, |inside| names_of(&dir.path().join(inside)).len());
        most = most.max(files);
        files > 0 && files + 1000 < most
    });
    running.signal(Signal::INT);
    let said = running.wait().exits(130);
    until("the directory to go", || names(dir.path()).is_empty());
    let result = said.json();
    assert_eq!(result["interrupted"], true);
    let unlinked = phase(&result, "teardown")["operations"].as_u64().unwrap();
    assert!((1000..150_000).contains(&unlinked), "{unlinked}");
}

/// With a count every stream ends, and so do those that wait for it: in a run and in a trace.
#[test]
fn a_count_ends_streams_that_wait_for_each_other() {
    let dir = temp_in_memory();
    let oltp = "oltp:filesize=1M,logfilesize=1M,nshadows=30,ndbwriters=3,usermode=1000";
    for (spec, least) in [
        (oltp, 1),
        ("varmail:nfiles=100", 16),
        ("webproxy:nfiles=200", 100),
    ] {
        for most in ["3", "200"] {
            let result = run(dir.path(), ["run", spec, ".", "--ops", most, "--json"])
                .exits(0)
                .json();
            let ran = phase(&result, "run")["operations"].as_u64().unwrap();
            assert!(ran >= least, "{spec} to {most}: {ran}");
            let phases = result["phases"].as_array().unwrap();
            assert_eq!(phases.len(), 3);
            assert!(phases.iter().all(|p| p["unexpected"] == 0), "{result}");
            run(
                dir.path(),
                ["run", spec, "--to-trace", "t.fst", "--ops", most],
            )
            .exits(0);
            std::fs::remove_file(dir.path().join("t.fst")).unwrap();
        }
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// A script with a thread that reads, and what stands behind it.
fn script(dir: &Path, flowop: &str, last: &str) {
    let text = format!(
        "define fileset name=set,path=/deep/er,entries=3,size=8k,prealloc\n\
         define process name=p {{ thread name=t {{\nflowop {flowop}\n}} }}\n{last}\n"
    );
    std::fs::write(dir.join("mine.f"), text).unwrap();
}

#[test]
fn a_script_runs_for_its_own_time_unless_told_otherwise() {
    let dir = temp_in_memory();
    script(dir.path(), "read name=r,filesetname=set,iosize=4k", "run 1");
    let ran = |line: &[&str]| {
        let result = run(dir.path(), [&["run"], line, &[".", "--json"]].concat())
            .exits(0)
            .json();
        let phase = phase(&result, "run");
        let (time, count) = (phase["elapsed_ns"].as_u64(), phase["operations"].as_u64());
        assert_eq!(count, Some(count_in(phase)));
        (result["run_for_ns"].as_u64(), time.unwrap(), count.unwrap())
    };
    let (asked, time, _) = ran(&["wml:mine.f"]);
    assert_eq!(asked, Some(1_000_000_000));
    assert!((1_000_000_000..5_000_000_000).contains(&time), "{time}");
    let (asked, time, _) = ran(&["wml:mine.f", "--for", "50ms"]);
    assert!(asked == Some(50_000_000) && time < 1_000_000_000, "{time}");
    for (line, most) in [
        (&["wml:mine.f,iterations=7"][..], 12),
        (&["wml:mine.f", "--ops", "20"], 22),
    ] {
        let (asked, _, count) = ran(line);
        assert!(asked.is_none() && count <= most, "{count}");
    }
    run(dir.path(), ["run", "wml:mine.f", "--to-trace", "t.fst"]).exits(0);
    assert_eq!(names(dir.path()), ["mine.f", "t.fst"]);
}

/// The operations of a phase, from its kinds.
fn count_in(phase: &Value) -> u64 {
    let kinds = phase["kinds"].as_array().unwrap();
    kinds
        .iter()
        .map(|k| k["operations"].as_u64().unwrap())
        .sum()
}

/// Set-up, run and teardown of a script, each alone, and what is wrong with one.
#[test]
fn scripts_have_phases_and_errors_with_their_line() {
    let dir = temp_in_memory();
    let base = dir.path();
    script(base, "deletefile name=d,filesetname=set", "");
    let refused = run(base, ["run", "wml:mine.f", "."]).fails(1, &["mine.f: line 3", "'d'"]);
    assert!(
        refused.stderr.contains("no file or directory"),
        "{}",
        refused.stderr
    );
    script(base, "frobnicate name=d,filesetname=set", "");
    run(base, ["run", "wml:mine.f", "."]).fails(1, &["mine.f: line 3", "'frobnicate'"]);
    run(base, ["run", "wml:gone.f", "."]).fails(1, &["gone.f"]);
    script(base, "statfile name=s,filesetname=set", "");
    std::fs::create_dir(base.join("t")).unwrap();
    let role = |target: &str, role: &str, more: &[&str]| {
        let line = [
            "run",
            "wml:mine.f,iterations=5",
            target,
            "--role",
            role,
            "--json",
        ];
        run(base, [&line, more].concat()).exits(0).json()
    };
    assert_eq!(count(&role("t", "setup", &["--keep"]), "mkdir"), 2);
    let kept = format!("t/{}", names(&base.join("t"))[0]);
    assert_eq!(count(&role(&kept, "run", &[]), "stat"), 5);
    role(&kept, "teardown", &[]);
    assert_eq!(names(&base.join("t")), Vec::<String>::new());
    let whole = run(base, ["run", "wml:mine.f", ".", "--json"])
        .exits(0)
        .json();
    assert_eq!(count(&whole, "rmdir"), count(&whole, "mkdir"));
    assert_eq!(count(&whole, "unlink"), 3);
}

/// A target that fills up while a script runs.
#[test]
fn a_target_that_fills_up_in_the_run_is_reported() {
    if !scratch() {
        return;
    }
    let dir = temp();
    script(
        dir.path(),
        "appendfile name=a,filesetname=set,iosize=1m,fd=1",
        "",
    );
    let line = [
        "run",
        "wml:mine.f",
        "scratch:ext4,size=64M",
        "--for",
        "1h",
        "--json",
    ];
    let said = run(dir.path(), line).exits(1);
    let failed = &said.json()["failed"];
    assert_eq!(
        (&failed["phase"], &failed["actual"]),
        (&"run".into(), &"ENOSPC".into())
    );
    assert!(said.stderr.contains("ENOSPC"), "{}", said.stderr);
}

/// A command that is started after fsage was asked to stop, or just before, is asked too.
#[test]
fn a_signal_that_comes_early_ends_the_command() {
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    for delay_ms in [1, 3, 5, 8, 12, 20, 40] {
        for line in [
            &["run", "cmd:sleep 30; echo whole > ../whole", "t"][..],
            &[
                "trace",
                "-o",
                "x.fst",
                "--",
                "sh",
                "-c",
                "sleep 30; echo whole > whole",
            ],
        ] {
            let mut running = start(fsage().current_dir(dir).args(line));
            std::thread::sleep(std::time::Duration::from_millis(delay_ms));
            running.signal(Signal::TERM);
            // Before it has a handler for it, the signal itself ends it.
            until("fsage to end", || running.has_ended());
            let ended = running.code();
            assert!(matches!(ended, Some(143) | None), "{line:?}: {ended:?}");
        }
    }
    assert!(!dir.join("whole").exists());
}

/// What serves the target dies under a command that does not notice.
#[test]
fn a_command_ends_with_what_serves_its_target() {
    if !fuse() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    std::fs::create_dir(dir.join("t")).unwrap();
    let begun = dir.join("begun");
    let command = format!(
        "cmd:echo begun > {}; while :; do sleep 1; done",
        begun.display()
    );
    let line = ["run", &command, "slow:read=2:t"];
    let mut running = start(fsage().current_dir(dir).args(line));
    until("the command to begin", || begun.exists());
    let [server] = daemons(running.id())[..] else {
        panic!("one server");
    };
    kill(server);
    until("fsage to end", || running.has_ended());
    let ran = running.wait();
    assert!(ran.stderr.contains("has ended"), "{}", ran.stderr);
}

/// Nothing is there yet, so that nothing has to be waited for.
#[test]
fn a_signal_ends_the_making_of_a_large_workload() {
    let dir = temp();
    let script = "define fileset name=f,path=/x,size=0,entries=9000000,dirwidth=20,prealloc=100\n\
        define process name=p,instances=1\n{\n thread name=t,instances=1\n {\n\
        flowop statfile name=s,filesetname=f\n }\n}\nrun 1\n";
    std::fs::write(dir.path().join("big.f"), script).unwrap();
    for line in [
        &["run", "wml:big.f", "."][..],
        &["run", "wml:big.f", "--to-trace", "t.fst"],
    ] {
        let running = start(fsage().current_dir(dir.path()).args(line));
        until("signals to be watched for", || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", running.id()));
            let status = status.unwrap_or_default();
            let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
            let caught = caught.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap());
            caught & 1 << (Signal::INT.as_raw() - 1) != 0
        });
        running.signal(Signal::INT);
        let ran = running.wait().exits(130);
        assert_eq!(ran.text(), "", "it has gone on to the run: {}", ran.stderr);
    }
    assert_eq!(common::names(dir.path()), ["big.f"]);
}

#[test]
fn a_trace_beside_the_result_is_a_file() {
    let dir = temp();
    for option in ["--trace", "--to-trace"] {
        let line = ["run", "postmark:files=5,transactions=5", option, "-"];
        let target = (option == "--trace").then_some("mem:fast");
        let ran = run(dir.path(), line.iter().copied().chain(target));
        ran.fails(2, &[&format!("{option} is a file here")]);
        assert_eq!(names(dir.path()), Vec::<String>::new());
    }
}

//! `fsage trace` where it cannot keep up, or cannot keep what it has: nothing is lost in silence,
//! and no command runs on as if it were traced.

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

use common::{Ran, fsage, root, run, run_command, start, temp_in_memory, tool, until};
use rustix::process::Signal;

/// Calls of one round of `hot`.
const CALLS: u64 = 10;

/// Builds `hot` there; `false` where that is not possible.
fn hot(dir: &Path) -> bool {
    if !root() || !tool("cc") {
        return false;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace_loss/hot.c");
    let built = Command::new("cc")
        .args(["-O1", "-o", "hot", source])
        .current_dir(dir)
        .status();
    assert!(built.unwrap().success());
    std::fs::create_dir(dir.join("tree")).unwrap();
    true
}

/// Traces `processes` of `hot` in `tree` for so many rounds.
fn trace_hot(dir: &Path, options: &[&str], processes: u64, rounds: u64) -> Ran {
    let script = format!("cd tree; exec ../hot {processes} {rounds}");
    let mut args = vec!["trace", "--json", "--method", "ebpf", "--under", "tree"];
    args.extend(["-o", "t.fst"]);
    args.extend(options);
    args.extend(["--", "sh", "-c", &script]);
    run(dir, args)
}

/// For how long threads were held back by what operations say.
fn reported_ns(trace: &Path) -> u64 {
    let mut reader = fsage_format::trace::TraceReader::open(trace).unwrap();
    let (mut batch, mut sum) = (Vec::new(), 0);
    while fsage_core::OpSource::next_batch(&mut reader, &mut batch).unwrap() > 0 {
        sum += batch
            .drain(..)
            .map(|op| op.record.held_back_ns())
            .sum::<u64>();
    }
    sum
}

#[test]
fn nothing_is_lost_however_little_room_there_is() {
    let dir = temp_in_memory();
    if !hot(dir.path()) {
        return;
    }
    let (processes, rounds) = (8, 5000);
    let options = ["--ring-mib", "1", "--spool-mib", "1"];
    let ran = trace_hot(dir.path(), &options, processes, rounds).exits(0);
    let summary = ran.json();
    assert_eq!(summary["operations_lost"], 0, "{summary}");
    assert!(
        summary["operations"].as_u64().unwrap() >= processes * rounds * CALLS,
        "{summary}"
    );
    // 8 processes against one that writes a file: they were held back, and that is told.
    assert!(summary["throttled_ns"].as_u64().unwrap() > 0, "{summary}");
    assert!(ran.stderr.contains("held back"), "{}", ran.stderr);
    // Before which operations, too: all but what each thread has left over at its end.
    let (reported, in_all) = (
        reported_ns(&dir.path().join("t.fst")),
        summary["throttled_ns"].as_u64().unwrap(),
    );
    assert!(
        reported <= in_all && reported as f64 >= 0.8 * in_all as f64 - 5e6,
        "{reported} of {in_all} ns"
    );
    let shown = run(dir.path(), ["show", "t.fst"]).exits(0);
    assert!(shown.text().contains("none lost"), "{}", shown.text());
    assert!(shown.stderr.contains("held back"), "{}", shown.stderr);
}

#[test]
fn each_call_is_in_the_trace_or_counted_as_lost() {
    let dir = temp_in_memory();
    if !hot(dir.path()) {
        return;
    }
    let (processes, rounds) = (8, 20_000);
    let options = ["--ring-mib", "1", "--spool-mib", "1", "--no-throttle"];
    let ran = trace_hot(dir.path(), &options, processes, rounds).exits(0);
    let summary = ran.json();
    let number = |name: &str| summary[name].as_u64().unwrap();
    if number("operations_lost") == 0 {
        fsage_testing::not_run("nothing was lost");
        return;
    }
    assert!(
        number("operations") + number("operations_lost") >= processes * rounds * CALLS,
        "{summary}"
    );
    assert_eq!(number("throttled_ns"), 0, "{summary}");
    // Openings are among what was lost, and the reads that hung on them are told.
    assert!(
        number("operations_left_out") + number("operations_nameless") > 0,
        "{summary}"
    );
    assert!(ran.stderr.contains("was lost"), "{}", ran.stderr);
    let shown = run(dir.path(), ["show", "t.fst", "--json"]).exits(3).json();
    assert_eq!(shown["end"]["operations_lost"], summary["operations_lost"]);
    assert_eq!(
        shown["end"]["operations_left_out"],
        summary["operations_left_out"]
    );
    assert_eq!(
        shown["end"]["operations_nameless"],
        summary["operations_nameless"]
    );
}

#[test]
fn what_was_held_back_goes_on_when_the_tracer_is_killed() {
    let dir = temp_in_memory();
    if !hot(dir.path()) {
        return;
    }
    let running = start(fsage().current_dir(dir.path()).args([
        "trace",
        "--method",
        "ebpf",
        "--under",
        "tree",
        "--ring-mib",
        "1",
        "--spool-mib",
        "1",
        "-o",
        "t.fst",
        "--",
        "sh",
        "-c",
        "cd tree; ../hot 4 0; : > ended",
    ]));
    until("a piece", || {
        dir.path().join("t.fst").exists()
            && run(dir.path(), ["show", "t.fst", "--json"]).json()["operations"] != 0
    });
    running.ended_by(Signal::KILL, || {
        // All of them see it, and end.
        std::fs::write(dir.path().join("tree/stop"), "").unwrap();
    });
    until("the command to end", || {
        dir.path().join("tree/ended").exists()
    });
}

/// Runs fsage in a mount namespace of its own, in a file system of 96 KiB that is mounted on `full`.
fn on_a_small_disk(dir: &Path, script: &str) -> Ran {
    std::fs::create_dir(dir.join("full")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=96k none full && {}",
        script.replace("FSAGE", env!("CARGO_BIN_EXE_fsage"))
    );
    run_command(
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .current_dir(dir),
    )
}

/// Makes operations until it is ended, or there is a file `stop`.
const FILLS: &str = "trap '' HUP; i=0; while [ ! -e stop ]; do : > f$((i % 100)); i=$((i+1)); done";

#[test]
fn a_full_disk_ends_the_command_and_is_reported() {
    if !root() || !tool("unshare") {
        return;
    }
    for method in ["auto", "ptrace"] {
        let dir = temp_in_memory();
        // A child in a session of its own is ended as well, and one that heeds no SIGTERM.
        std::fs::write(dir.path().join("child.sh"), FILLS).unwrap();
        std::fs::write(
            dir.path().join("fills.sh"),
            format!("setsid sh child.sh & echo $! > child; echo $$ > own; trap '' TERM; {FILLS}"),
        )
        .unwrap();
        let ran = on_a_small_disk(
            dir.path(),
            &format!("exec FSAGE trace --method {method} -o full/t.fst -- sh fills.sh"),
        );
        let ended = |name: &str| {
            let pid = std::fs::read_to_string(dir.path().join(name)).unwrap();
            !Path::new(&format!("/proc/{}/stat", pid.trim())).exists()
        };
        let both = ended("child") && ended("own");
        std::fs::write(dir.path().join("stop"), "").unwrap();
        assert!(both, "the command runs on: {}", ran.stderr);
        let ran = ran.fails(1, &["t.fst", "No space left", "the command is ended"]);
        assert!(ran.stderr.contains("--keep-running"), "{}", ran.stderr);
    }
}

#[test]
fn a_trace_that_is_gone_is_no_success() {
    for (script, word) in [
        ("rm -r out", "removed"),
        ("mv out elsewhere", "moved"),
        ("rm out/t.fst; echo other > out/t.fst", "removed"),
    ] {
        let dir = temp_in_memory();
        std::fs::create_dir(dir.path().join("out")).unwrap();
        let script = format!("while [ ! -e out/t.fst ]; do sleep 0.01; done; {script}");
        run(
            dir.path(),
            ["trace", "-o", "out/t.fst", "--", "sh", "-c", &script],
        )
        .fails(1, &["out/t.fst", word]);
    }
}

#[test]
fn json_stands_alone_on_stdout() {
    for method in ["auto", "ptrace"] {
        let dir = temp_in_memory();
        let script = "echo '{\"not\": \"ours\"}'; echo more; exit 5";
        let ran = run(
            dir.path(),
            [
                "trace", "--method", method, "--json", "-o", "t.fst", "--", "sh", "-c", script,
            ],
        )
        .exits(5);
        assert_eq!(ran.json()["exit_status"], 5);
        assert!(ran.stderr.contains("\"ours\""), "{}", ran.stderr);
        assert!(ran.stderr.contains("more"), "{}", ran.stderr);
    }
}

//! Who is stopped while he measures says that he was.

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
use std::time::Duration;

use common::{Ran, fsage, run, start, temp};
use rustix::process::Signal;

/// Runs fsage, which is stopped for a moment again and again.
fn halting(dir: &Path, line: &[&str]) -> Ran {
    let mut running = start(fsage().current_dir(dir).args(line));
    while !running.has_ended() {
        std::thread::sleep(Duration::from_millis(150));
        running.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(20));
        running.signal(Signal::CONT);
    }
    running.wait()
}

const STOPPED: &str = "fsage was continued";

#[test]
fn a_run_and_a_replay_say_so() {
    let dir = temp();
    let line = ["run", "postmark:files=60", ".", "--for", "2s"];
    for (ran, stopped) in [
        (halting(dir.path(), &line), true),
        (run(dir.path(), line), false),
    ] {
        let said = ran.exits(0).text();
        assert_eq!(said.contains(STOPPED), stopped, "{said}");
    }
    let script = "echo x >a; sleep 2; echo y >b";
    let line = ["trace", "--under", ".", "-o", "t.fst", "--", "sh", "-c"];
    run(dir.path(), line.into_iter().chain([script])).exits(0);
    let line = ["replay", "t.fst", ".", "--speed", "original"];
    let said = halting(dir.path(), &line).exits(0).text();
    assert!(said.contains(STOPPED), "{said}");
}

#[test]
fn a_bench_marks_the_run() {
    let dir = temp();
    let line = ["bench", "--runs", "3", "-o", "kept", "--", "sleep", "1"];
    halting(dir.path(), &line).exits(0);
    let kept = std::fs::read_to_string(dir.path().join("kept/experiment.json")).unwrap();
    assert!(kept.contains(STOPPED), "{kept}");
}

//! `fsage bench` killed at any moment and continued: the same runs as without, nothing left behind.

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

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use common::{
    bench, fsage, loop_devices, mounted_below, run, scratch, start, temp_in_memory, until,
    until_detached,
};
use rustix::process::Signal;
use serde_json::Value;

const KILLS: usize = 20;

const PLAN: &str = "runs = 40\nseed = 3\n[[target]]\nname = 'ext4'\nspec = 'scratch:ext4,size=64M'\n\
    [[target]]\nname = 'ext2'\nspec = 'scratch:ext2,size=64M'\n\
    [[workload]]\nname = 'w'\nspec = 'postmark:files=50,transactions=200,size=512-4096'\n";

/// Configuration, number and place in the order of every run, in the order of the record, and what does not
/// vary between runs of one seed: operations, bytes read and written.
fn set_of_runs(dir: &Path) -> Vec<(String, [u64; 5])> {
    let text = std::fs::read_to_string(dir.join("runs.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    lines
        .filter(|entry| entry["entry"] == "run")
        .map(|entry| {
            let name = entry["configuration"].as_str().unwrap().to_string();
            let number = |of: &Value, key: &str| of[key].as_u64().unwrap();
            let (run, done) = (&entry["run"], &entry["run"]["phases"][0]["result"]);
            let [operations, read, written] =
                ["operations", "bytes_read", "bytes_written"].map(|key| number(done, key));
            let place = (number(run, "run"), number(run, "order"));
            (name, [place.0, place.1, operations, read, written])
        })
        .collect()
}

/// Delays from a small generator, so that a failure can be repeated.
fn delays(mut state: u64) -> impl Iterator<Item = Duration> {
    std::iter::from_fn(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some(Duration::from_millis(20 + (state >> 33) % 600))
    })
}

#[test]
fn a_killed_experiment_gives_the_same_runs() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    std::fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let whole = [
        "bench",
        "plan.toml",
        "--allow-commands",
        "--allow-paths",
        "-o",
        "whole",
        "--json",
    ];
    let whole = run(dir.path(), whole).exits(0).json();
    let mut killed = 0;
    for delay in delays(11).take(KILLS) {
        let mut command = fsage();
        command.current_dir(dir.path()).args([
            "bench",
            "plan.toml",
            "--allow-commands",
            "--allow-paths",
            "-o",
            "killed",
            "--resume",
        ]);
        let mut running = start(&mut command);
        // There is something to go on with.
        until("the experiment to begin", || {
            let record = std::fs::read_to_string(dir.path().join("killed/runs.jsonl"));
            record.is_ok_and(|text| text.contains("\"entry\":\"run\""))
        });
        std::thread::sleep(delay);
        let devices = loop_devices(running.id());
        assert!(!running.has_ended(), "done after {killed} kills");
        running.ended_by(Signal::KILL, || ());
        killed += 1;
        until_detached(&devices);
    }
    assert_eq!(killed, KILLS);
    let line = ["--resume", "-o", "killed", "--json"];
    let resumed = bench(dir.path(), &line).exits(0).json();
    let expected = set_of_runs(&dir.path().join("whole"));
    assert_eq!(set_of_runs(&dir.path().join("killed")), expected);
    let orders: BTreeSet<u64> = expected.iter().map(|(_, run)| run[1]).collect();
    assert_eq!((expected.len(), orders.len()), (80, 80), "40 of each");
    assert!(
        expected.iter().all(|(_, run)| run[2] > 200 && run[4] > 0),
        "{expected:?}"
    );
    let shape = |result: &Value| -> Vec<(Value, usize)> {
        let of = |c: &Value| {
            let runs = c["runs"].as_array().unwrap().len();
            (c["name"].clone(), runs)
        };
        result["configurations"]
            .as_array()
            .unwrap()
            .iter()
            .map(of)
            .collect()
    };
    assert_eq!(shape(&resumed), shape(&whole));
    assert_eq!(resumed["failed"], whole["failed"]);
    assert_eq!(resumed["plan_digest"], whole["plan_digest"]);
    assert!(!mounted_below(dir.path()));
}

/// Killed between the first two lines, it asked for its plan again.
#[test]
fn an_experiment_goes_on_without_its_plan_as_soon_as_it_has_a_record() {
    let dir = temp_in_memory();
    let (kept, line) = (dir.path().join("kept"), ["bench", "--runs", "2"]);
    let record = kept.join("runs.jsonl");
    let resume = ["--resume", "-o", "kept", "--json"];
    for _ in 0..3 {
        let command = ["--cache", "as found", "-o", "kept", "--", "sleep 0.2"];
        let mut running = start(fsage().current_dir(dir.path()).args(line).args(command));
        // At once: it is not whole for long.
        let first = loop {
            match std::fs::read_to_string(&record) {
                Ok(text) => break text,
                Err(_) => assert!(!running.has_ended()),
            }
        };
        running.ended_by(Signal::KILL, || ());
        assert!(first.contains("\"entry\":\"begin\""), "{first}");
        let result = bench(dir.path(), &resume).exits(0).json();
        let only = &result["configurations"][0];
        assert_eq!(only["runs"].as_array().unwrap().len(), 2, "{only}");
        std::fs::remove_dir_all(&kept).unwrap();
    }
    // What an earlier release left that was killed there, or nothing yet.
    std::fs::create_dir(&kept).unwrap();
    bench(dir.path(), &resume).fails(2, &["kept", "nothing was measured there yet"]);
    let head = "{\"format\":\"fsage run record\",\"version\":1,\"kind\":\"bench\"}\n";
    std::fs::write(&record, head).unwrap();
    bench(dir.path(), &resume).fails(2, &["kept", "nothing was measured there yet"]);
    let command = ["--cache", "as found", "-o", "kept", "--", "true"];
    run(dir.path(), line.iter().chain(&command)).exits(0);
    bench(dir.path(), &resume).exits(0);
}

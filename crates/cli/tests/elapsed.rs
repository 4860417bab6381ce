//! Programs whose processes wait for each other, for timers and for their children: what the trace tells of it,
//! and what their elapsed time is predicted to be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::Path;

use common::{profile, run, temp};
use serde_json::Value;

/// Traces a script of `sh` in `tree`, which holds the files 1 to 20; the operations, or nothing where no
/// tracer tells what threads wait for.
fn traced(dir: &Path, script: &str) -> Option<Vec<Value>> {
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    for n in 1..=20 {
        std::fs::write(tree.join(n.to_string()), vec![b'x'; 20_000]).unwrap();
    }
    let args = ["trace", "--under", ".", "-o", "../t.fst", "--", "sh", "-c"];
    run(&tree, args.into_iter().chain([script])).exits(0);
    let shown = run(dir, ["show", "t.fst", "--json"]).exits(0).json();
    if shown["meta"]["method"] != "ebpf" {
        fsage_testing::not_run("needs eBPF");
        return None;
    }
    assert!(shown["pauses"]["worked_ns"].as_u64().unwrap() > 0);
    let ops = run(dir, ["show", "t.fst", "--ops", "--json"]).exits(0);
    let text = ops.text();
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(rows.collect())
}

/// Predicted elapsed and total latency on ext4, and both with a change.
fn predicted(dir: &Path, change: &str) -> [f64; 4] {
    let on = format!("ext4={}", profile("ext4").display());
    let args = [
        "predict",
        "t.fst",
        "--on",
        &on,
        "--json",
        "--what-if",
        change,
    ];
    let result = run(dir, args).exits(0).json();
    let target = &result["targets"][0];
    let changed = &target["what_if"];
    [
        &target["elapsed_ns"],
        &target["latency_total_ns"],
        &changed["elapsed_ns"],
        &changed["latency_total_ns"],
    ]
    .map(|ns| ns.as_f64().unwrap())
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

#[test]
fn a_pipelines_end_waits_for_its_beginning_and_that_for_its_timers() {
    let dir = temp();
    let script = "(for n in 1 2 3 4 5; do sleep 0.02; cat $n; done) | wc -c > count";
    let Some(ops) = traced(dir.path(), script) else {
        return;
    };
    let slept = |row: &&Value| number(row, "asleep_ns") >= 20_000_000;
    assert!(ops.iter().filter(slept).count() >= 5, "each sleep slept");
    let counts = &ops.iter().find(|row| row["kind"] == "write").unwrap()["tid"];
    let waits = |row: &&Value| row["tid"] == *counts && number(row, "waited_ns") > 0;
    let waited_for = &ops.iter().find(waits).unwrap()["after"][0];
    assert_ne!(waited_for, counts);
    assert!(ops.iter().any(|row| row["tid"] == *waited_for));
    // Reading is in turn with sleeping, and wc and the shell wait for it.
    let [elapsed, latency, changed, slower] = predicted(dir.path(), "read*1000");
    assert!(elapsed >= 100e6, "{elapsed}");
    let (more, longer) = (slower - latency, changed - elapsed);
    assert!(
        more > 0.0 && (longer / more - 1.0).abs() < 0.2,
        "{more} {longer}"
    );
}

#[test]
fn who_asks_a_server_waits_for_its_files() {
    if !fsage_testing::needs(fsage_testing::tool("python3"), "python3") {
        return;
    }
    let dir = temp();
    // Only the server touches files; who asks works a while after each answer.
    let program = "
import os, socket
a, b = socket.socketpair()
if os.fork() == 0:
    b.close()
    while True:
        n = a.recv(9)
        if not n: os._exit(0)
        with open(n) as f: a.send(b'%d' % len(f.read()))
a.close()
for n in range(20):
    b.send(b'%d' % (n + 1)); b.recv(9); sum(range(20000))
b.close(); os.wait()
";
    std::fs::write(dir.path().join("server.py"), program).unwrap();
    if traced(dir.path(), "python3 ../server.py").is_none() {
        return;
    }
    let [elapsed, latency, changed, slower] = predicted(dir.path(), "open*1000");
    let (more, longer) = (slower - latency, changed - elapsed);
    // Where others use the processors, who asks finds some answers there and is not seen to wait for them.
    assert!(
        (0.2 * more..1.2 * more).contains(&longer),
        "{more} {longer}"
    );
}

#[test]
fn programs_that_sleep_side_by_side_take_no_processor() {
    let dir = temp();
    let script = "for p in 1 2 3 4 5 6 7 8; do \
                  (for n in 1 2 3; do sleep 0.06; cat $n; done > /dev/null) & done; wait";
    if traced(dir.path(), script).is_none() {
        return;
    }
    let [elapsed, ..] = predicted(dir.path(), "read*1");
    assert!((180e6..8.0 * 180e6).contains(&elapsed), "{elapsed}");
}

#[test]
fn a_shell_waits_for_the_slower_of_its_children() {
    let dir = temp();
    let script = "cat 1 > a & (for n in 1 2 3 4 5 6 7 8; do cat $n; done > b) & wait; cat 9 > c";
    let Some(ops) = traced(dir.path(), script) else {
        return;
    };
    assert!(
        ops.iter()
            .any(|row| row["after"][0] != row["tid"] && !row["after"].is_null())
    );
    let [elapsed, latency, changed, slower] = predicted(dir.path(), "read*10000");
    let (more, longer) = (slower - latency, changed - elapsed);
    // Eight of ten reads are in turn in the slower child, one before it ends beside it, one after both.
    assert!(longer > 0.7 * more && longer < more, "{more} {longer}");
}

/// Processes that write and make stable what they wrote, each while it has the lock of a file.
const TURNS: &str = "
import fcntl, os, sys
lock = getattr(fcntl, sys.argv[1])
for p in range(4):
    if os.fork() == 0:
        held = os.open('lock', os.O_RDWR | os.O_CREAT)
        mine = os.open('of%d' % p, os.O_RDWR | os.O_CREAT)
        for n in range(8):
            lock(held, fcntl.LOCK_EX)
            os.pwrite(mine, b'x' * 4096, 4096 * n)
            os.fsync(mine)
            lock(held, fcntl.LOCK_UN)
        os._exit(0)
for p in range(4): os.wait()
";

#[test]
fn processes_that_take_turns_by_a_lock_are_predicted_in_turn() {
    if !fsage_testing::needs(fsage_testing::tool("python3"), "python3") {
        return;
    }
    for (call, method) in [("flock", "auto"), ("lockf", "auto"), ("lockf", "ptrace")] {
        let dir = temp();
        std::fs::write(dir.path().join("turns.py"), TURNS).unwrap();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let args = [
            "trace", "--method", method, "--under", ".", "-o", "../t.fst",
        ];
        let command = ["--", "python3", "../turns.py", call];
        run(&tree, args.into_iter().chain(command)).exits(0);
        let on = format!("ext4={}", profile("ext4").display());
        let args = ["predict", "t.fst", "--on", &on, "--json"];
        let change = ["--what-if", "fsync*1000"];
        let result = run(dir.path(), args.into_iter().chain(change))
            .exits(0)
            .json();
        let target = &result["targets"][0];
        let kinds = target["kinds"].as_array().unwrap();
        let kind = |name: &str| kinds.iter().find(|kind| kind["kind"] == name).unwrap();
        let ns = |kind: &Value, key: &str| kind[key].as_f64().unwrap();
        let syncs = kind("fsync");
        let alone = ns(syncs, "latency_total_ns") - ns(syncs, "waiting_ns");
        let in_turn = 1000.0 * alone;
        let longer = ns(&target["what_if"], "elapsed_ns") - ns(target, "elapsed_ns");
        assert!(
            (0.8 * in_turn..1.2 * in_turn).contains(&longer),
            "{call} {method}: {longer} for {in_turn}"
        );
        // Who waits does so in the call that asks for the lock.
        let waits = ns(kind("lock"), "waiting_ns");
        assert!(waits > 0.0 && waits < ns(kind("lock"), "latency_total_ns"));
        let all = ns(&target["what_if"], "latency_total_ns");
        assert!((2.0 * in_turn..4.5 * in_turn).contains(&all), "{all}");
    }
}

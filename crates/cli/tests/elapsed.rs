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

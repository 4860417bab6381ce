//! `fsage bench`: what it measures, keeps and says.

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

use common::{bench, configuration, fsage, names, plan, run, run_command, scratch, temp_in_memory};
use serde_json::Value;

/// Two workloads in two states of the caches on a small scratch file system.
const PLAN: &str = r#"
runs = 3
seed = 5
cache = ["cold", "warm 1"]
[[target]]
name = "ext4"
spec = "scratch:ext4,size=64M"
[[workload]]
name = "PostMark"
spec = "postmark:files=50,transactions=200,size=512-4096,subdirs=5"
[[workload]]
name = "count"
setup = "seq 5000 > numbers"
spec = "cmd: grep -c {digit} numbers"
[workload.sweep]
digit = [7]
"#;

fn step_names(run: &Value) -> Vec<&str> {
    let steps = run["steps"].as_array().unwrap();
    steps.iter().map(|s| s["name"].as_str().unwrap()).collect()
}

#[test]
fn an_experiment_is_measured_and_kept() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    plan(dir.path(), PLAN);
    let line = ["plan.toml", "-o", "kept", "--json"];
    let result = bench(dir.path(), &line).exits(0).json();
    assert_eq!(result["format"], "fsage bench");
    assert_eq!(result["configurations"].as_array().unwrap().len(), 4);
    let cold = configuration(&result, "ext4 / PostMark / cold");
    assert_eq!(
        (&cold["cache"], &cold["state"]),
        (&"cold".into(), &"fresh".into())
    );
    // Three runs may well be precise.
    let stop = cold["stop"].as_str().unwrap();
    assert!(["max_runs", "precise"].contains(&stop), "{stop}");
    assert!(cold["target_record"]["mkfs"]["options"].is_string());
    let runs = cold["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        assert_eq!(
            step_names(run),
            [
                "mkfs and mount",
                "setup",
                "cold caches",
                "settle",
                "run",
                "flush",
                "collect",
                "teardown"
            ]
        );
        assert_eq!(run["cold_verified"], true, "{}", run["cache_evidence"]);
        assert!(run["elapsed_ns"].as_u64().unwrap() > 0);
        let share = run["cpu_share"].as_f64().unwrap();
        assert!((0.0..=1.1).contains(&share), "one thread: {share}");
        assert!(run["device"]["sectors_read"].as_u64().unwrap() > 0, "cold");
        assert!(run["flush"]["elapsed_ns"].as_u64().unwrap() > 0);
        let kinds = run["phases"][0]["result"]["kinds"].as_array().unwrap();
        assert!(
            kinds
                .iter()
                .any(|k| k["kind"] == "write" && k["distribution"][0][1].is_u64())
        );
        assert!(run["series"].as_array().unwrap().len() >= 2);
    }
    let warm = configuration(&result, "ext4 / PostMark / warm 1");
    let sectors_read = |run: &Value| run["device"]["sectors_read"].as_u64().unwrap();
    let read = runs.iter().map(sectors_read).min().unwrap();
    let warm = warm["runs"].as_array().unwrap();
    let warmed = |run: &Value| step_names(run).contains(&"warm-up runs");
    assert!(warm.iter().all(warmed));
    // A run whose directory ext4 lays into a block group that none before used reads that group's bitmaps.
    let warm = warm.iter().map(sectors_read).min().unwrap();
    assert!(warm * 4 < read, "{warm} warm, {read} cold");
    let count = configuration(&result, "ext4 / count / digit=7 / cold");
    assert_eq!(count["parameters"]["digit"], "7");
    assert_eq!(count["workload_spec"], "cmd:grep -c 7 numbers");
    assert_eq!(count["runs"][0]["command"]["exit_status"], 0);
    let elapsed = &cold["metrics"][0];
    assert_eq!(
        (&elapsed["metric"], &elapsed["unit"], &elapsed["n"]),
        (&"elapsed".into(), &"ns".into(), &3.into())
    );
    assert!(elapsed["low"].as_f64().unwrap() < elapsed["mean"].as_f64().unwrap());
    assert!(result["machine"]["kernel"]["release"].is_string());
    orders_are_one_to_n(&result, 12);
    goes_on_only_if_asked(dir.path(), &result);
}

/// Every run of the experiment has a place of its own in its order.
fn orders_are_one_to_n(result: &Value, n: u64) {
    let configurations = result["configurations"].as_array().unwrap();
    let runs = configurations
        .iter()
        .flat_map(|c| c["runs"].as_array().unwrap());
    let mut orders: Vec<u64> = runs.map(|r| r["order"].as_u64().unwrap()).collect();
    assert!(!orders.is_sorted(), "runs are interleaved: {orders:?}");
    orders.sort_unstable();
    assert_eq!(orders, (0..n).collect::<Vec<u64>>());
}

fn goes_on_only_if_asked(dir: &Path, result: &Value) {
    let kept = dir.join("kept");
    assert_eq!(names(&kept), ["experiment.json", "runs.jsonl"]);
    let record = std::fs::read(kept.join("runs.jsonl")).unwrap();
    bench(dir, &["plan.toml", "-o", "kept"]).fails(2, &["--resume"]);
    // One that is over is made again from its record alone, and nothing is measured.
    std::fs::remove_file(kept.join("experiment.json")).unwrap();
    let again = bench(dir, &["--resume", "-o", "kept", "--json"])
        .exits(0)
        .json();
    assert_eq!(again, *result);
    assert_eq!(std::fs::read(kept.join("runs.jsonl")).unwrap(), record);
    let text = std::fs::read_to_string(kept.join("experiment.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), *result);
    plan(dir, &PLAN.replace("transactions=200", "transactions=300"));
    bench(dir, &["plan.toml", "-o", "kept", "--resume"]).fails(1, &["another plan"]);
    // More runs of the same plan are no other plan.
    plan(dir, PLAN);
    let more = [
        "plan.toml",
        "-o",
        "kept",
        "--resume",
        "--runs",
        "4",
        "--json",
    ];
    let more = bench(dir, &more).exits(0).json();
    for (now, before) in more["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .zip(result["configurations"].as_array().unwrap())
    {
        let (now, before) = (
            now["runs"].as_array().unwrap(),
            before["runs"].as_array().unwrap(),
        );
        assert_eq!(now.len(), 4);
        assert_eq!(now[..3], before[..]);
    }
    assert_eq!(more["resumed_unix_ns"].as_array().unwrap().len(), 1);
}

#[test]
fn a_command_runs_where_it_is_called() {
    let dir = temp_in_memory();
    std::fs::write(dir.path().join("here"), "x").unwrap();
    let line = ["bench", "--runs", "3", "--json", "--", "cat", "here"];
    let result = run(dir.path(), line).exits(0).json();
    let only = &result["configurations"][0];
    assert_eq!(
        (&only["cache"], &only["state"]),
        (&"as found".into(), &"as found".into())
    );
    let runs = only["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    for run in runs {
        let delay = &run["command"]["run_delay_ns"];
        assert_eq!(&run["run_delay_ns"], delay);
        // The kernel tells root of the shell and of cat; dash may become it.
        let threads = run["command"]["threads"].as_u64();
        assert!(
            !common::root() || delay.is_u64() && threads >= Some(1),
            "{run}"
        );
    }
    assert_eq!(
        step_names(&only["runs"][0]),
        [
            "open", "setup", "settle", "run", "flush", "collect", "teardown"
        ]
    );
    assert!(result["plan"].as_str().unwrap().contains("in_place = true"));
    assert_eq!(names(dir.path()), ["here"]);
    // With a target it has a directory of its own.
    std::fs::create_dir(dir.path().join("there")).unwrap();
    let line = [
        "bench",
        "--runs",
        "2",
        "--target",
        "there",
        "--cache",
        "warm 2",
        "--setup",
        "echo y > made",
        "--json",
        "--",
        "test -e made && ! test -e ../here/made",
    ];
    let result = run(dir.path(), line).exits(0).json();
    assert_eq!(result["configurations"][0]["cache"], "warm 2");
    assert!(names(&dir.path().join("there")).is_empty());
}

#[test]
fn several_arguments_are_run_without_a_shell() {
    let dir = temp_in_memory();
    // A shell sets PWD for what it starts.
    let copy = ["cp", "/proc/self/environ", "it's $here"];
    let line = ["bench", "--runs", "2", "-o", "kept", "--"];
    run_command(
        fsage()
            .current_dir(dir.path())
            .env_remove("PWD")
            .args(line.iter().chain(&copy)),
    )
    .exits(0);
    let environ = std::fs::read(dir.path().join(copy[2])).unwrap();
    let mut variables = environ.split(|&b| b == 0);
    assert!(!variables.any(|v| v.starts_with(b"PWD=")));
    // What is kept says it too, and goes on so.
    std::fs::remove_file(dir.path().join(copy[2])).unwrap();
    let line = ["-o", "kept", "--resume", "--runs", "3", "--json"];
    let result = bench(dir.path(), &line).exits(0).json();
    let only = &result["configurations"][0];
    let name = only["name"].as_str().unwrap();
    assert!(name.contains("cmd:cp /proc/self/environ"), "{name}");
    assert_eq!(only["runs"].as_array().unwrap().len(), 3);
    assert!(dir.path().join(copy[2]).exists());
    // Nothing of that name: no shell that has a word of its own for it.
    let line = ["bench", "--runs", "1", "--", "ulimit", "-n"];
    let said = run(dir.path(), line).exits(1).stderr;
    assert!(said.contains("failed to start `ulimit -n`: No"), "{said}");
}

#[test]
fn measuring_ends_for_a_reason() {
    let dir = temp_in_memory();
    // Sleeping takes equally long, to a few percent even on a busy machine.
    let line = [
        "bench",
        "--precision",
        "50%",
        "--min-runs",
        "3",
        "--json",
        "--",
        "sleep 0.1",
    ];
    let result = run(dir.path(), line).exits(0).json();
    let only = &result["configurations"][0];
    assert_eq!(only["stop"], "precise", "{}", only["stop_text"]);
    assert!(
        only["stop_text"]
            .as_str()
            .unwrap()
            .starts_with("precise after")
    );
    let script = "n=$(cat ../count 2>/dev/null || echo 0); echo $((n + 1)) > ../count; sleep 0.0$((n % 2 * 8))";
    let line = [
        "bench",
        "--min-runs",
        "2",
        "--max-runs",
        "4",
        "--precision",
        "1%",
        "--target",
        "t",
        "--cache",
        "as found",
        "--json",
        "--",
        script,
    ];
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let result = run(dir.path(), line).exits(0).json();
    let only = &result["configurations"][0];
    assert_eq!(
        (&only["stop"], &only["metrics"][0]["n"]),
        (&"max_runs".into(), &4.into())
    );
    let line = [
        "bench",
        "--budget",
        "200ms",
        "--runs",
        "50",
        "--json",
        "--",
        "sleep 0.15",
    ];
    let result = run(dir.path(), line).exits(0).json();
    let only = &result["configurations"][0];
    assert_eq!(only["stop"], "time_budget");
    assert_eq!(only["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn the_report_says_how_sure_it_is() {
    let dir = temp_in_memory();
    let said = run(
        dir.path(),
        ["bench", "--runs", "3", "--details", "--", "true"],
    )
    .exits(0);
    let text = said.text();
    for word in [
        "1 configuration, 3 runs",
        "elapsed",
        " ± ",
        "why it ended",
        "normal",
        "drift",
    ] {
        assert!(text.contains(word), "`{word}` is missing:\n{text}");
    }
    assert!(
        said.stderr.contains("nothing is kept; -o DIR"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_example_runs() {
    if !scratch() {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bench-small.toml");
    let dir = temp_in_memory();
    let mut command = fsage();
    command
        .current_dir(dir.path())
        .arg("bench")
        .arg(example)
        .args(["--runs", "2", "--json"]);
    let result = run_command(&mut command).exits(0).json();
    assert_eq!(result["configurations"].as_array().unwrap().len(), 4);
    assert_eq!(result["failed"].as_array().unwrap().len(), 0);
}

#[test]
fn what_is_wrong_is_reported_before_anything_runs() {
    let dir = temp_in_memory();
    run(dir.path(), ["bench"]).exits(2);
    plan(dir.path(), &PLAN.replace("runs = 3", "runs = 0"));
    bench(dir.path(), &["plan.toml"]).fails(1, &["plan.toml:2: runs = 0, expected 1 to 1000"]);
    plan(dir.path(), &PLAN.replace("files=50", "files=many"));
    bench(dir.path(), &["plan.toml"]).fails(1, &["plan.toml:10", "'many'"]);
    run(dir.path(), ["bench", "--required", "elapse", "--", "true"])
        .fails(2, &["unknown metric `elapse`"]);
    run(dir.path(), ["bench", "--cache", "tepid", "--", "true"]).exits(2);
    bench(dir.path(), &["--resume", "-o", "none"]).fails(2, &["holds no experiment"]);
    let said = run(
        dir.path(),
        ["bench", "--min-runs", "9", "--max-runs", "3", "--", "true"],
    );
    said.fails(2, &["at most 3 runs"]);
    plan(
        dir.path(),
        "[[target]]\nspec = '.'\n[[workload]]\nspec = 'seqio:nothing=1'\n",
    );
    bench(dir.path(), &["plan.toml"]).fails(1, &["plan.toml:4"]);
}

#[test]
fn runs_are_kept_to_one_cpu_and_dirty_pages_are_the_targets() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    let text = "runs = 2\ncache = 'as found'\none_cpu = true\n[[target]]\nname = 't'\nspec = 'scratch:ext4,size=64M'\n\
                [[target]]\nname = 'here'\nspec = '.'\n\
                [[workload]]\nname = 'c'\nspec = \"cmd: test $(nproc) = 1 && head -c 9000000 /dev/zero > x && sleep 0.2\"\n";
    plan(dir.path(), text);
    let line = ["plan.toml", "-o", "kept", "--json"];
    let result = bench(dir.path(), &line).exits(0).json();
    let debugfs = Path::new("/sys/kernel/debug/bdi").exists();
    for (at, configuration) in result["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
    {
        for run in configuration["runs"].as_array().unwrap() {
            let cpu = run["one_cpu"].as_str().unwrap();
            assert!(cpu.starts_with("CPU "), "{cpu}");
            let of = run["dirty_of"].as_str().unwrap();
            let apart = of.starts_with("device 7:");
            // What lies in memory has no device.
            assert!(
                apart == (debugfs && at == 0) && (apart || of == "machine"),
                "{of}"
            );
            let dirty = |p: &Value| p["dirty_bytes"].as_u64().unwrap();
            let most = run["series"].as_array().unwrap().iter().map(dirty).max();
            assert!(
                !apart || (8_000_000..20_000_000).contains(&most.unwrap()),
                "{most:?}"
            );
        }
    }
    // It is another experiment without.
    plan(dir.path(), &text.replace("one_cpu = true\n", ""));
    bench(dir.path(), &["plan.toml", "-o", "kept", "--resume"]).fails(1, &["another plan"]);
    let line = [
        "bench",
        "--runs",
        "2",
        "--one-cpu",
        "--json",
        "--",
        "test $(nproc) = 1",
    ];
    run(dir.path(), line).exits(0);
}

#[test]
fn what_was_printed_is_shown_again() {
    let dir = temp_in_memory();
    for name in ["a", "b"] {
        let line = ["bench", "--runs", "3", "-o", name, "--", "true"];
        let printed = run(dir.path(), line).exits(0);
        let shown = run(dir.path(), ["show", &format!("{name}/experiment.json")]).exits(0);
        assert_eq!(shown.text(), printed.text());
        assert!(shown.text().contains("every figure"));
    }
    let file = dir.path().join("compared.json");
    let json = run(dir.path(), ["compare", "a", "b", "--json"]).exits(0);
    std::fs::write(&file, json.text()).unwrap();
    let printed = run(dir.path(), ["compare", "a", "b"]).exits(0);
    let shown = run(dir.path(), ["show", "compared.json"]).exits(0);
    assert_eq!(shown.text(), printed.text());
    let shown = run(dir.path(), ["show", "compared.json", "--json"]).exits(0);
    assert_eq!(shown.json(), json.json());
    let newer = json.text().replacen("\"version\": 2", "\"version\": 9", 1);
    std::fs::write(&file, newer.replacen("\"version\":2", "\"version\":9", 1)).unwrap();
    run(dir.path(), ["show", "compared.json"]).fails(1, &["compared.json", "9"]);
}

/// Intervals are of the rounds' means then; a short experiment says what its own do not hold.
#[test]
fn runs_are_spread_over_rounds() {
    let dir = temp_in_memory();
    let all = |more: &[&str]| -> Value {
        let line = ["bench", "--runs", "4", "--json"];
        let line = line.iter().chain(more).chain(&["--", "true"]);
        run(dir.path(), line).exits(0).json()
    };
    let said = |result: &Value| {
        result["warnings"]
            .to_string()
            .contains("all runs lie within")
    };
    assert!(said(&all(&[])));
    let result = all(&["--rounds", "2", "--round-pause", "300ms"]);
    assert!(!said(&result), "{}", result["warnings"]);
    let only = &result["configurations"][0];
    let runs = only["runs"].as_array().unwrap();
    let rounds: Vec<_> = runs
        .iter()
        .map(|run| run["round"].as_u64().unwrap())
        .collect();
    assert_eq!(rounds, [0, 0, 1, 1]);
    let paused = |run: &Value| {
        let first = &run["steps"][0];
        (first["name"] == "pause").then(|| first["elapsed_ns"].as_u64().unwrap())
    };
    assert!(paused(&runs[2]).unwrap() >= 300_000_000);
    assert!([0, 1, 3].iter().all(|&run| paused(&runs[run]).is_none()));
    let elapsed = |run: usize| runs[run]["elapsed_ns"].as_f64().unwrap();
    let apart =
        (f64::midpoint(elapsed(0), elapsed(1)) - f64::midpoint(elapsed(2), elapsed(3))).abs();
    let half = only["metrics"][0]["half_width_student"].as_f64().unwrap();
    // Student's t of two values is 12.706 with one degree of freedom, times half of what they are apart.
    assert!(
        (half - 12.706 * apart / 2.0).abs() < 1e-3 * half + 1.0,
        "{half} {apart}"
    );
}

//! Aged targets in every verb that takes a target, and the benchmarks for them.

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

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{
    Chance, Ran, bench_plan, configuration, fsage, in_time, killed_after, names, run_command,
    scratch, start, temp_in_memory, tool, until,
};
use serde_json::Value;
use tempfile::TempDir;

/// Ten simulated days of home directories, and an ext4 that was aged with them.
const DAYS: u64 = 10;
const POSTMARK: &str = "postmark:files=50,transactions=200";
const FIRST_USE: &str = "aged:w.fst,on=scratch:ext4,size=128M";

/// fsage, whose cache is in `dir` as well.
fn cached(dir: &Path, line: &[&str]) -> Command {
    let mut command = fsage();
    command
        .current_dir(dir)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .args(line);
    command
}

fn run(dir: &Path, line: &[&str]) -> Ran {
    run_command(&mut cached(dir, line))
}

fn generate(dir: &Path) {
    let profile = [
        "age",
        "generate",
        "--profile",
        "home-2001",
        "--size",
        "128M",
        "--fill",
        "60%",
    ];
    let days = DAYS.to_string();
    run(
        dir,
        &[&profile[..], &["--days", &days, "-o", "w.fst"]].concat(),
    )
    .exits(0);
}

fn keep(dir: &Path, more: &[&str]) -> Value {
    let apply = [
        "age",
        "apply",
        "w.fst",
        "scratch:ext4,size=128M",
        "--keep",
        "aged.fsi",
        "--json",
    ];
    run(dir, &[&apply[..], more].concat()).exits(0).json()
}

/// A directory with `w.fst` and the image `aged.fsi` of what it leads to, and what is told of that.
fn aged() -> Option<(TempDir, Value)> {
    if !scratch() {
        return None;
    }
    let temp = temp_in_memory();
    generate(temp.path());
    let applied = keep(temp.path(), &[]);
    Some((temp, applied))
}

/// Images that first uses have left.
fn kept(dir: &Path) -> Vec<String> {
    let cache = dir.join("cache/fsage/aged");
    if cache.exists() {
        names(&cache)
    } else {
        Vec::new()
    }
}

fn in_every_verb(dir: &Path, target: &str) {
    let ran = run(
        dir,
        &["run", POSTMARK, target, "--trace", "t.fst", "--json"],
    )
    .exits(0);
    assert!(
        ran.json()["environment"]["target"]["aged"]
            .as_str()
            .unwrap()
            .contains("10 days of w.fst")
    );
    // Aged once, and kept.
    assert_eq!(kept(dir).len(), 1, "{}", ran.stderr);
    run(dir, &["replay", "t.fst", target]).exits(0);
    let layout = run(dir, &["layout", target, "--json"]).exits(0).json();
    assert!(
        layout["layouts"][0]["files"].as_u64().unwrap() > 100,
        "{layout}"
    );
    let profiled = |time| {
        let line = ["profile", target, "--quick", "-o", "aged.fsp", "--json"];
        let profiled = run(dir, &[&line[..], &["--max-time", time]].concat());
        let predict = ["predict", "t.fst", "--on", "aged.fsp", "--json"];
        (profiled, run(dir, &predict))
    };
    let is_enough = |(_, predicted): &(Ran, Ran)| predicted.status.success();
    let (profiled, predicted) = in_time(&["7s", "20s"], profiled, is_enough);
    let profile = profiled.json();
    assert!(
        profile["environment"]["target"]["aged"].is_string(),
        "{}",
        profiled.stderr
    );
    assert!(
        profile["metrics"].as_array().unwrap().len() > 20,
        "{}",
        profiled.stderr
    );
    assert!(
        predicted.json()["targets"][0]["latency_total_ns"]
            .as_f64()
            .unwrap()
            > 0.0,
        "{}",
        predicted.stderr
    );
    let plan = format!(
        "runs = 2\n[[target]]\nname = 'a'\nspec = '{target}'\n[[workload]]\nspec = '{POSTMARK}'\n"
    );
    common::plan(dir, &plan);
    let bench = ["bench", "plan.toml", "--allow-paths", "--json"];
    let result = run(dir, &bench).exits(0).json();
    assert_eq!(result["configurations"].as_array().unwrap().len(), 1);
}

#[test]
fn aged_targets_are_run_profiled_predicted_replayed_and_validated() {
    let Some((temp, applied)) = aged() else {
        return;
    };
    let dir = temp.path();
    for target in [FIRST_USE, "aged:aged.fsi"] {
        in_every_verb(dir, target);
    }
    // An image is looked into, not at.
    let layout = run(dir, &["layout", "aged.fsi", "--json"]).exits(0).json();
    let score = layout["layouts"][0]["score"]["value"].as_f64().unwrap();
    let at_the_end = applied["layout_score"].as_f64().unwrap();
    assert!((score - at_the_end).abs() < 0.02, "{score} {at_the_end}");
    let validate = [
        "validate",
        "--target",
        "aged:aged.fsi",
        "--workload",
        POSTMARK,
        "--runs",
        "1",
        "--profile-time",
        "2s",
        "--json",
    ];
    let validated = run(dir, &validate);
    let judged = validated.json();
    assert_eq!(
        judged["targets"].as_array().unwrap().len(),
        1,
        "{}",
        validated.stderr
    );
    let said = run(dir, &["cleanup"]).exits(0);
    assert!(
        said.stderr.contains("1 image of aged file systems"),
        "{}",
        said.stderr
    );
    assert_eq!(kept(dir).len(), 1);
}

#[test]
fn no_result_takes_the_place_of_the_image_of_its_target() {
    let Some((temp, _)) = aged() else {
        return;
    };
    let dir = temp.path();
    run(dir, &["run", POSTMARK, "mem:fast", "--trace", "t.fst"]).exits(0);
    std::os::unix::fs::symlink("aged.fsi", dir.join("link")).unwrap();
    let image = std::fs::read(dir.join("aged.fsi")).unwrap();
    let slowed = "slow:read=2:aged:aged.fsi";
    let lines: [&[&str]; 8] = [
        &["run", POSTMARK, "aged:aged.fsi", "-o", "aged.fsi"],
        &["run", POSTMARK, "aged:link", "--trace", "aged.fsi"],
        &["profile", "aged:aged.fsi", "--quick", "-o", "link"],
        &["profile", slowed, "--quick", "-o", "aged.fsi"],
        &["replay", "t.fst", "aged:aged.fsi", "-o", "aged.fsi"],
        &["replay", "t.fst", slowed, "--trace", "aged.fsi"],
        &["layout", "aged:aged.fsi", "--svg", "aged.fsi"],
        &["layout", "aged.fsi", "--svg", "link"],
    ];
    for line in lines {
        run(dir, line).fails(2, &["would be read and written over"]);
        assert!(
            std::fs::read(dir.join("aged.fsi")).unwrap() == image,
            "{line:?}"
        );
    }
}

#[test]
fn files_have_the_times_of_the_workload_and_hot_ones_are_found_by_them() {
    let Some((temp, _)) = aged() else {
        return;
    };
    let dir = temp.path();
    let hot = |spec: &str| {
        run(dir, &["run", spec, "aged:aged.fsi", "--json"])
            .exits(0)
            .json()
    };
    let files = |result: &Value, phase: usize| {
        let phase = &result["phases"][phase];
        (
            phase["layout"]["files"].as_u64().unwrap(),
            phase["layout"]["score"]["value"].as_f64().unwrap(),
        )
    };
    let (two_days, all) = (hot("hot-files:days=2"), hot("hot-files"));
    for result in [&two_days, &all] {
        let phases = result["phases"].as_array().unwrap();
        let phase = |at: usize, key: &str| phases[at][key].as_u64().unwrap();
        assert_eq!(
            (phases[0]["name"].as_str(), phases[1]["name"].as_str()),
            (Some("read"), Some("overwrite"))
        );
        assert_eq!(phase(0, "bytes_read"), phase(1, "bytes_written"));
        assert!(
            phases
                .iter()
                .take(2)
                .all(|p| p["cold"].is_string() && p["unexpected"] == 0)
        );
        // ext4 overwrites where the data lies.
        assert_eq!(files(result, 0), files(result, 1));
    }
    let (few, many) = (files(&two_days, 0).0, files(&all, 0).0);
    assert!(0 < few && few < many, "{few} of {many}");
    let command = "cmd: find .. -type f -not -name '.fsage*' -size +0 -newermt 1970-01-09 | wc -l >&2; find .. -newermt 1970-01-12 -type f -not -name '.fsage*' | wc -l >&2";
    let found = run(dir, &["run", command, "aged:aged.fsi"]).exits(0).stderr;
    let counts: Vec<u64> = found
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    assert!(counts[0] > 0 && counts[1] == 0, "{found}");
}

#[test]
fn hot_files_of_a_user_are_not_overwritten_and_ones_without_data_not_read() {
    let temp = temp_in_memory();
    let dir = temp.path();
    std::fs::write(dir.join("mine"), "precious").unwrap();
    let hot = |spec: &str| run(dir, &["run", spec, ".", "--json"]);
    hot("hot-files").fails(1, &["would overwrite", "overwrite=false"]);
    let read = hot("hot-files:overwrite=false").exits(0).json();
    assert_eq!(read["phases"][0]["bytes_read"], 8);
    assert_eq!(std::fs::read(dir.join("mine")).unwrap(), b"precious");
    run(dir, &["run", "hot-files", "--to-trace", "t.fst"]).fails(2, &["--trace"]);
    run(dir, &["run", "hot-files:overwrite=false", ".", "--keep"]).fails(1, &["--keep"]);
    run(dir, &["run", "hot-files", "mem:fast"]).fails(1, &["no directory on this machine"]);
    run(
        dir,
        &["validate", "--target", ".", "--workload", "hot-files"],
    )
    .fails(1, &["a directory of its own"]);
    if !scratch() {
        return;
    }
    generate(dir);
    keep(dir, &["--fast"]);
    run(dir, &["run", "hot-files", "aged:aged.fsi"]).fails(1, &["only allocated", "--fast"]);
}

#[test]
fn a_restored_tree_has_the_same_hot_files_and_the_sequential_benchmark_tells_how_files_lie() {
    let Some((temp, _)) = aged() else {
        return;
    };
    let dir = temp.path();
    let exe = env!("CARGO_BIN_EXE_fsage");
    let snapshot = format!(
        "cmd:{exe} -q snapshot .. -o {}",
        dir.join("tree.fss").display()
    );
    run(dir, &["run", &snapshot, "aged:aged.fsi"]).exits(0);
    let plan = "runs = 2\n[[target]]\nname = 'aged'\nspec = 'aged:aged.fsi'\n\
                [[target]]\nname = 'tree'\nspec = 'scratch:ext4,size=128M'\nstate = 'snapshot:tree.fss'\n\
                [[workload]]\nname = 'hot'\nspec = 'hot-files'\n\
                [[workload]]\nname = 'seq'\nspec = 'seqio:size=16k-64k,total=2M'\n";
    let result = bench_plan(dir, plan);
    let phases = |c: &Value| -> Vec<Value> {
        let all = c["runs"][0]["phases"].as_array().unwrap().iter();
        all.map(|phase| phase["result"].clone()).collect()
    };
    let of = |name: &str| configuration(&result, name);
    let (aged, tree) = (of("aged / hot"), of("tree / hot"));
    for (a, b) in phases(aged).iter().zip(phases(tree)) {
        assert_eq!(
            (&a["bytes_read"], &a["layout"]["files"]),
            (&b["bytes_read"], &b["layout"]["files"])
        );
    }
    let metric = |c: &Value, name: &str| {
        let mut all = c["metrics"].as_array().unwrap().iter();
        all.find(|m| m["metric"] == name)
            .unwrap_or_else(|| panic!("{name}"))["mean"]
            .as_f64()
            .unwrap()
    };
    // So few days leave ext4 nearly as it was.
    assert!(metric(aged, "layout_score:read") > 0.5);
    assert!(metric(tree, "layout_score:read") > 0.95, "laid out anew");
    let seq = of("aged / seq");
    for size in ["16 KiB", "64 KiB"] {
        let bytes_per_s = metric(seq, &format!("bytes_per_s:read {size}"));
        let elapsed = metric(seq, &format!("elapsed:read {size}"));
        assert!(bytes_per_s > 0.0 && elapsed > 0.0);
        assert!(metric(seq, &format!("layout_score:create {size}")) > 0.5);
    }
    let first = phases(seq);
    let names: Vec<&str> = first.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(
        names[..3],
        ["create 16 KiB", "read 16 KiB", "remove 16 KiB"]
    );
    assert_eq!(first[0]["layout"]["files"], 128);
    // What is cold before the first phase is the run's.
    assert!(first[1]["cold"].is_string() && first[3]["cold"].is_string());
}

#[test]
fn who_waits_for_a_first_use_sees_the_days_go_by() {
    if !scratch() || !tool("script") {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    generate(dir);
    let line = format!("layout {FIRST_USE}");
    let shown = common::on_a_terminal(dir, 100, &line);
    assert!(
        shown.contains("/10 days, ") && shown.contains("layout score"),
        "{shown}"
    );
}

#[test]
fn a_kill_at_a_first_use_leaves_nothing_and_the_next_one_ages_anew() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    generate(dir);
    let line = ["layout", FIRST_USE, "--json"];
    let mut chance = Chance(u64::from(std::process::id()));
    let mut kills = 0;
    for _ in 0..6 {
        let delay = Duration::from_millis(50 + chance.below(1200));
        if !killed_after(delay, &mut cached(dir, &line)) {
            assert_eq!(kept(dir).len(), 1);
            std::fs::remove_dir_all(dir.join("cache")).unwrap();
            continue;
        }
        kills += 1;
        // Nothing of the image, or, killed behind it, all.
        let images = kept(dir);
        let is_image = |name: &String| Path::new(name).extension().is_some_and(|e| e == "fsi");
        assert!(
            images.len() <= 1 && images.iter().all(is_image),
            "{images:?}"
        );
        let mut left = names(dir);
        left.retain(|name| name != "cache");
        assert_eq!(left, ["w.fst"]);
    }
    assert!(kills > 0);
    run(dir, &line).exits(0);
    assert_eq!(kept(dir).len(), 1);
}

/// It was told as a failure, with exit code 1.
#[test]
fn an_image_that_is_interrupted_is_no_failure_and_leaves_nothing() {
    const DATA_BYTES: usize = 384 << 20;
    if !tool("mkfs.ext4") {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let image = std::fs::File::create(dir.join("raw.img")).unwrap();
    image.set_len(512 << 20).unwrap();
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.arg("-q").arg(dir.join("raw.img"));
    assert!(mkfs.status().unwrap().success());
    // Data, whosever they are, that cannot be compressed.
    let mut state = 1_u64;
    let piece: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    })
    .take(1 << 20)
    .collect();
    for at in (0..DATA_BYTES).step_by(piece.len()) {
        image.write_all_at(&piece, (64 << 20) + at as u64).unwrap();
    }
    let going = start(&mut cached(
        dir,
        &["age", "keep", "raw.img", "-o", "kept.fsi"],
    ));
    let has_read = || -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", going.id())).unwrap_or_default();
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.and_then(|read| read.parse().ok()).unwrap_or(0)
    };
    until("the image is copied", || has_read() > 80 << 20);
    going.signal(rustix::process::Signal::INT);
    going.wait().fails(130, &["interrupted"]);
    assert_eq!(names(dir), ["raw.img"]);
}

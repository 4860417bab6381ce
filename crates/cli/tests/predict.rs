//! `fsage predict`: what it prints, and that every number can be followed to its source.

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

mod common;

use std::path::Path;

use common::{Ran, fsage, profile, run, run_command, small_trace, temp};
use serde_json::Value;

fn predict(dir: &Path, on: &[&str], more: &[&str]) -> Ran {
    let mut command = fsage();
    command.current_dir(dir).args(["predict", "small.fst"]);
    for name in on {
        command.arg("--on").arg(profile(name));
    }
    run_command(command.args(more))
}

#[test]
fn the_json_says_what_was_agreed() {
    let dir = temp();
    small_trace(dir.path());
    let result = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
    let targets = result["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 1);
    let target = &targets[0];
    assert!(target["name"].is_string());
    for field in ["latency_total_ns", "elapsed_ns", "writeback_ns"] {
        assert!(target[field].as_f64().unwrap() >= 0.0, "{field}");
    }
    let kinds = target["kinds"].as_array().unwrap();
    let sum: f64 = kinds
        .iter()
        .map(|kind| {
            assert!(kind["kind"].is_string() && kind["count"].as_u64().unwrap() > 0);
            kind["latency_ns"].as_f64().unwrap()
        })
        .sum();
    let total = target["latency_total_ns"].as_f64().unwrap();
    assert!((sum - total).abs() <= total * 1e-9, "{sum} and {total}");
}

#[test]
fn two_systems_are_ranked() {
    let dir = temp();
    small_trace(dir.path());
    let result = predict(dir.path(), &["ext4", "xfs"], &["--json"])
        .exits(0)
        .json();
    let ranking = result["ranking"].as_array().unwrap();
    assert_eq!(ranking.len(), 2);
    let place = |i: usize| ranking[i]["latency_total_ns"].as_f64().unwrap();
    assert!(place(0) <= place(1));
    assert_eq!(result["pairs"].as_array().unwrap().len(), 1);
    // One profile twice: told apart by their files.
    let same = predict(dir.path(), &["ext4", "ext4"], &["--json"])
        .exits(0)
        .json();
    assert!(
        same["targets"][0]["name"]
            .as_str()
            .unwrap()
            .contains("ext4.fsp")
    );
    let text = predict(dir.path(), &["ext4", "xfs"], &[]).exits(0).text();
    assert!(
        text.contains("scratch:ext4") && text.contains("scratch:xfs"),
        "{text}"
    );
}

#[test]
fn changes_have_a_column_of_their_own() {
    let dir = temp();
    small_trace(dir.path());
    let more = ["--json", "--what-if", "MKDIR*2", "--what-if", "RRD**0.5"];
    let result = predict(dir.path(), &["ext4"], &more).exits(0).json();
    let target = &result["targets"][0];
    let of = |kinds: &Value, name: &str| {
        let kinds = kinds.as_array().unwrap().clone();
        kinds.iter().find(|k| k["kind"] == name).unwrap()["latency_ns"]
            .as_f64()
            .unwrap()
    };
    let (before, after) = (
        of(&target["kinds"], "mkdir"),
        of(&target["what_if"]["kinds"], "mkdir"),
    );
    assert!(after > before, "{before} and {after}");
    let difference = target["what_if"]["difference_ns"].as_f64().unwrap();
    let total = target["latency_total_ns"].as_f64().unwrap();
    let changed = target["what_if"]["latency_total_ns"].as_f64().unwrap();
    assert!((changed - total - difference).abs() <= total * 1e-9);
    predict(dir.path(), &["ext4"], &["--what-if", "MKDIR*2"]).exits(0);
    for bad in ["NOSUCH*2", "MKDIR", "*2", "MKDIR*x", "MKDIR*-1"] {
        let ran = predict(dir.path(), &["ext4"], &["--json", "--what-if", bad]);
        let code = ran.code();
        assert!(code == 1 || code == 2, "{bad}: {code}");
        ran.fails(code, &[bad.trim_end_matches("*2")]);
    }
}

#[test]
fn each_operation_shows_why_it_costs_what_it_costs() {
    let dir = temp();
    small_trace(dir.path());
    let more = ["--json", "--annotate", "why.fst"];
    let result = predict(dir.path(), &["ext4"], &more).exits(0).json();
    let total = result["targets"][0]["latency_total_ns"].as_f64().unwrap();
    let ops = run(dir.path(), ["show", "why.fst", "--ops", "--json"])
        .exits(0)
        .text();
    let (mut sum, mut charged) = (0.0, 0);
    for line in ops.lines() {
        let op: Value = serde_json::from_str(line).unwrap();
        let notes = &op["annotations"];
        if let Some(latency) = notes["predicted_latency_ns"].as_f64() {
            sum += latency;
            charged += 1;
            assert!(notes["relation"].is_string(), "{line}");
            assert!(notes["request_vector"].is_string(), "{line}");
        }
    }
    assert_eq!(result["operations_charged"], charged);
    assert!((sum - total).abs() <= total * 1e-9, "{sum} and {total}");
    let text = run(dir.path(), ["show", "why.fst", "--ops"])
        .exits(0)
        .text();
    assert!(text.contains("MKDIR") && text.contains("RENAME"), "{text}");
    run(
        dir.path(),
        [
            "predict",
            "small.fst",
            "--annotate",
            "nowhere/x.fst",
            "--on",
        ]
        .map(String::from)
        .into_iter()
        .chain([profile("ext4").display().to_string()]),
    )
    .fails(1, &["nowhere/x.fst"]);
}

#[test]
fn a_metric_that_is_missing_has_a_substitute_with_a_name() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut poor: Value = serde_json::from_str(&text).unwrap();
    let metrics = poor["metrics"].as_array_mut().unwrap();
    let before = metrics.len();
    metrics.retain(|m| !m["name"].as_str().unwrap().starts_with("MKDIR"));
    assert!(metrics.len() < before);
    let format = poor.as_object_mut().unwrap().remove("format").unwrap();
    let poor = format!("{{\"format\":{format},{}", &poor.to_string()[1..]);
    std::fs::write(dir.path().join("poor.fsp"), poor).unwrap();
    let result = run(
        dir.path(),
        ["predict", "small.fst", "--json", "--on", "poor.fsp"],
    )
    .exits(0)
    .json();
    let target = &result["targets"][0];
    let warnings = target["warnings"].to_string();
    assert!(warnings.contains("MKDIR"), "{warnings}");
    let mkdir = target["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .find(|k| k["kind"] == "mkdir")
        .unwrap();
    assert!(
        mkdir["latency_ns"].as_f64().unwrap() > 0.0,
        "a missing metric is not free: {mkdir}"
    );
}

#[test]
fn caches_and_starts_are_chosen_by_name() {
    let dir = temp();
    small_trace(dir.path());
    for cache in ["lru", "linux"] {
        for start in ["cold", "warm"] {
            let more = ["--json", "--cache", cache, "--start", start];
            let result = predict(dir.path(), &["ext4"], &more).exits(0).json();
            assert_eq!(
                (&result["cache"], &result["start"]),
                (&cache.into(), &start.into())
            );
        }
    }
}

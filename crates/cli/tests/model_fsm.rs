//! `fsage model fit -o M.fsm` and `model:M.fsm` from outside: a corpus trace becomes a model, and the model runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod common;

use std::path::{Path, PathBuf};

use common::{profile, run, scratch, temp, temp_in_memory};
use serde_json::Value;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../corpus/traces/{name}"))
        .canonicalize()
        .unwrap()
}

/// Fits a model to a trace of the corpus, in `dir`.
fn fit(dir: &Path, name: &str) -> Value {
    let (trace, snapshot) = (
        corpus(&format!("{name}.fst")),
        corpus(&format!("{name}.fss")),
    );
    let args = [
        "model",
        "fit",
        trace.to_str().unwrap(),
        "--snapshot",
        snapshot.to_str().unwrap(),
        "-o",
    ];
    let model = format!("{name}.fsm");
    run(dir, args.into_iter().chain([&*model, "--json"]))
        .exits(0)
        .json()
}

/// Operations of a kind in the phase that is measured, and those that did not end as they should.
fn ran(result: &Value) -> (u64, impl Fn(&str) -> u64) {
    let phases = result["phases"].as_array().unwrap();
    let phase = phases.iter().find(|p| p["role"] == "run").unwrap().clone();
    let unexpected = phase["unexpected"].as_u64().unwrap();
    let count = move |kind: &str| {
        let kinds = phase["kinds"].as_array().unwrap();
        kinds
            .iter()
            .find(|k| k["kind"] == kind)
            .map_or(0, |k| k["operations"].as_u64().unwrap())
    };
    (unexpected, count)
}

/// Runs the model on a target; what was counted is what the trace has.
fn check(dir: &Path, name: &str, target: &str) {
    let fitted = fit(dir, name);
    let model = format!("model:{name}.fsm");
    let result = run(dir, ["run", &model, target, "--seed", "3", "--json"])
        .exits(0)
        .json();
    let (unexpected, count) = ran(&result);
    assert_eq!(unexpected, 0, "{name} on {target}");
    for of in fitted["counts"].as_array().unwrap() {
        let (kind, want) = (of["kind"].as_str().unwrap(), of["trace"].as_u64().unwrap());
        // What a target has no call for is not run.
        if ![
            "open",
            "close",
            "read",
            "write",
            "unlink",
            "rename",
            "mkdir",
            "stat",
            "fsync",
            "fdatasync",
        ]
        .contains(&kind)
        {
            continue;
        }
        let got = count(kind);
        assert!(
            got.abs_diff(want) <= 5 + want / 50,
            "{name} on {target}: {got} of {want} {kind}"
        );
    }
}

#[test]
fn a_model_runs_in_virtual_time_as_the_trace_went() {
    let dir = temp();
    for name in ["mail", "database", "threads", "build", "failing"] {
        check(dir.path(), name, "mem:disk");
    }
}

#[test]
fn a_model_runs_on_a_real_file_system() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    for name in ["mail", "threads"] {
        check(dir.path(), name, "scratch:ext4,size=1G");
    }
}

#[test]
fn more_users_are_more_processes_and_a_model_can_be_predicted() {
    let dir = temp();
    let fitted = fit(dir.path(), "mail");
    let fsyncs = |n: &Value| {
        let counts = n["counts"].as_array().unwrap();
        counts.iter().find(|c| c["kind"] == "fsync").unwrap()["trace"]
            .as_u64()
            .unwrap()
    };
    let args = [
        "run",
        "model:mail.fsm",
        "mem:disk",
        "--scale",
        "users=3",
        "--json",
    ];
    let result = run(dir.path(), args).exits(0).json();
    let (unexpected, count) = ran(&result);
    assert_eq!((unexpected, count("fsync")), (0, 3 * fsyncs(&fitted)));
    run(
        dir.path(),
        ["run", "model:mail.fsm", "--to-trace", "again.fst"],
    )
    .exits(0);
    let on = profile("ext4");
    run(
        dir.path(),
        ["predict", "again.fst", "--on", on.to_str().unwrap()],
    )
    .exits(0);
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = temp();
    fit(dir.path(), "mail");
    let text = std::fs::read_to_string(dir.path().join("mail.fsm")).unwrap();
    std::fs::write(
        dir.path().join("bad.fsm"),
        text.replace("version = 1", "version = 9"),
    )
    .unwrap();
    run(dir.path(), ["run", "model:bad.fsm", "mem:disk"])
        .fails(1, &["bad.fsm", "version 9 is newer"]);
    run(dir.path(), ["run", "model:", "mem:disk"]).fails(1, &["model:FILE"]);
    run(dir.path(), ["run", "model:mail.fsm,time=no", "mem:disk"]).fails(1, &["'no'", "'time'"]);
    run(
        dir.path(),
        ["run", "postmark", "mem:disk", "--scale", "users=2"],
    )
    .fails(2, &["--scale", "models"]);
    std::fs::write(dir.path().join("own.fsm"), text).unwrap();
    run(dir.path(), ["model", "fit", "own.fsm", "-o", "x.fsm"]).fails(1, &["own.fsm"]);
}

//! `fsage compare` and `fsage check`: what is said of stored results.

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

use common::{bench, run, scratch, temp, temp_in_memory};
use serde_json::{Value, json};

const POSTMARK: &str = "postmark:files=100";

/// A configuration whose runs took these times, in nanoseconds.
fn configuration(name: &str, workload: &str, unit: &str, samples: &[f64]) -> Value {
    let runs = samples.iter().enumerate().map(|(i, ns)| {
        json!({
            "run": i, "order": i, "started_unix_ns": 0, "steps": [], "cache_evidence": null,
            "cold_verified": true, "elapsed_ns": *ns as u64, "user_ns": 0, "system_ns": 0,
            "wait_ns": *ns as u64, "run_delay_ns": null, "cpu_share": 0.1, "device": null,
            "flush": null, "page_cache": null, "voluntary_switches": 0, "involuntary_switches": 0,
            "major_faults": 0, "minor_faults": 0, "phases": [], "command": null, "series": [],
            "others": {"user_ns": null, "stolen_ns": null, "cpu_pressure_ns": null,
                       "clock_step_ns": 0},
            "disk": {}, "marks": [], "metrics": {"elapsed": ns},
        })
    });
    json!({
        "name": name, "target": name, "target_spec": "scratch:ext4", "state": "fresh",
        "workload": "w", "workload_spec": workload, "setup": null, "cache": "cold",
        "parameters": {}, "target_record": null, "runs": runs.collect::<Vec<_>>(),
        "metrics": [{
            "metric": "elapsed", "unit": unit, "required": true, "n": samples.len(),
            "mean": 1.0, "half_width": 0.01, "lower": 0.99, "upper": 1.01, "median": 1.0,
            "sd": 0.1, "min": 1.0, "max": 1.0, "normal": null, "outliers": [], "trend": null,
        }],
        "stop": "precise", "stop_text": "precise",
    })
}

fn experiment(configurations: &[Value]) -> Value {
    json!({
        "format": "fsage bench", "experiment_version": 1, "plan": "seed = 1\n",
        "plan_digest": "00", "seed": 1,
        "rule": {"min_runs": 10, "max_runs": 10, "half_width_relative": 0.05,
                 "required": ["elapsed"], "budget_ns": null},
        "started_unix_ns": 0, "resumed_unix_ns": [], "elapsed_ns": 0,
        "machine": {"host": "here", "kernel": {"release": "6.1"}},
        "configurations": configurations, "failed": [], "drift": [], "warnings": [],
        "interrupted": false,
    })
}

fn write(dir: &Path, name: &str, value: &Value) {
    std::fs::write(dir.join(name), value.to_string()).unwrap();
}

const A: [f64; 6] = [1.00e8, 1.02e8, 0.99e8, 1.01e8, 0.98e8, 1.00e8];
const ALIKE: [f64; 6] = [1.01e8, 0.99e8, 1.00e8, 1.02e8, 0.99e8, 1.00e8];
const SLOWER: [f64; 6] = [1.31e8, 1.29e8, 1.30e8, 1.33e8, 1.28e8, 1.30e8];

#[test]
fn a_difference_is_reported_with_its_interval_and_none_as_none() {
    let dir = temp();
    let dir = dir.path();
    let of = |samples: &[f64]| experiment(&[configuration("c", POSTMARK, "ns", samples)]);
    write(dir, "a.json", &of(&A));
    write(dir, "alike.json", &of(&ALIKE));
    let mut slower = of(&SLOWER);
    slower["machine"]["kernel"]["release"] = json!("6.18");
    write(dir, "slower.json", &slower);
    let text = run(dir, ["compare", "a.json", "alike.json", "--details"])
        .exits(0)
        .text()
        .replace("\n  ", " ");
    assert!(
        text.contains("elapsed: no significant difference, p = "),
        "{text}"
    );
    assert!(
        text.contains("recorded environment: no difference"),
        "{text}"
    );
    assert!(text.contains("one after the other"), "{text}");
    let text = run(dir, ["compare", "a.json", "slower.json", "--details"])
        .exits(0)
        .text()
        .replace("\n  ", " ");
    assert!(
        text.contains("'c in B' is longer than 'c in A': 1.302 times as much"),
        "{text}"
    );
    assert!(
        text.contains("machine.kernel.release: a '6.1', b '6.18'"),
        "{text}"
    );
    let found = run(dir, ["compare", "a.json", "slower.json", "--json"])
        .exits(0)
        .json();
    let metric = &found["pairs"][0]["metrics"][0];
    assert_eq!(metric["verdict"], "larger");
    // By SciPy: ttest_ind(b, a, equal_var=False) and its confidence_interval(0.95).
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!(
            (value / expected - 1.0).abs() < 1e-6,
            "{value} is not {expected}"
        );
    };
    close(&metric["test"]["t"], 33.156_634_571_5);
    close(&metric["difference"]["low"], 28_128_997.257_041);
    close(&metric["difference"]["high"], 32_204_336.076_292);
    close(&metric["effect"]["a12"], 1.0);
}

#[test]
fn what_cannot_be_compared_is_one_error_that_names_it() {
    let dir = temp();
    let dir = dir.path();
    let a = configuration("a", POSTMARK, "ns", &A);
    write(dir, "a.json", &experiment(std::slice::from_ref(&a)));
    let two = experiment(&[a, configuration("tree", "cmd:ls", "ns", &ALIKE)]);
    write(dir, "two.json", &two);
    let seconds = experiment(&[configuration("a", POSTMARK, "s", &A)]);
    write(dir, "seconds.json", &seconds);
    write(
        dir,
        "run.json",
        &json!({"format": "fsage run", "run_version": 1}),
    );
    write(dir, "list.json", &json!([1]));
    std::fs::write(dir.join("text"), "hello\n").unwrap();
    let fails = |line: &str, words: &[&str]| {
        run(dir, line.split(' ')).fails(1, words);
    };
    fails("compare a.json", &["compare a.json with itself", "'a'"]);
    fails("compare two.json", &["other workloads", "--any-workload"]);
    fails(
        "compare two.json --config a nothing",
        &["'nothing'", "'tree'"],
    );
    fails(
        "compare a.json seconds.json --metric elapsed",
        &["in ns", "in s", "other units"],
    );
    fails(
        "compare a.json a.json --metric speed",
        &["'speed'", "elapsed"],
    );
    fails("compare run.json", &["'fsage run'", "fsage bench"]);
    fails("compare text", &["text", "expected a result of fsage"]);
    fails("compare nothing.json", &["nothing.json", "No such file"]);
    fails("compare .", &["experiment.json"]);
    fails("check list.json", &["list.json"]);
    fails("check run.json", &["run.json", "workload"]);
    run(dir, ["compare", "two.json", "--any-workload"]).exits(0);
}

#[test]
fn no_number_is_no_sample() {
    let dir = temp();
    let dir = dir.path();
    let a = configuration("a", POSTMARK, "ns", &A);
    let mut nan = experiment(&[a.clone(), a]);
    // What a writer makes of NaN.
    nan["configurations"][1]["runs"][2]["metrics"]["elapsed"] = Value::Null;
    write(dir, "nan.json", &nan);
    let place = "configurations[1].runs[2].metrics.elapsed";
    run(dir, ["compare", "nan.json"]).fails(1, &["nan.json", place, "null"]);
    run(dir, ["check", "nan.json"]).fails(1, &["nan.json", place]);
    let infinite = nan
        .to_string()
        .replace("\"elapsed\":null", "\"elapsed\":1e999");
    std::fs::write(dir.join("inf.json"), infinite).unwrap();
    run(dir, ["compare", "inf.json"]).fails(1, &["inf.json", "out of range"]);
}

#[test]
fn a_check_says_what_it_checks_and_how_that_came_out() {
    let dir = temp();
    let dir = dir.path();
    let result = experiment(&[configuration("a", POSTMARK, "ns", &A)]);
    write(dir, "a.json", &result);
    let said = run(dir, ["check", "a.json"]).exits(0).text();
    let first = said.lines().next().unwrap();
    let json = run(dir, ["check", "a.json", "--json"]).exits(0).json();
    let count = |state: &str| json[state].as_u64().unwrap();
    let all = json["guidelines"].as_array().unwrap().len();
    let expected = format!(
        "a.json (fsage bench): of {all} guidelines {} are met, {} in part, {} missing; ",
        count("met"),
        count("partly"),
        count("missing")
    );
    assert!(first.starts_with(&expected), "{first}\n{expected}");
    assert!(
        said.contains("checked is what it recorded of how it was measured"),
        "{said}"
    );
    // What cannot be checked.
    let whole = result.to_string();
    std::fs::write(dir.join("cut.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(dir.join("text"), "hello").unwrap();
    std::fs::create_dir(dir.join("empty")).unwrap();
    let cut = format!(
        "in the middle of its JSON, after {} bytes: it was cut",
        whole.len() / 2
    );
    for (file, words) in [
        ("cut.json", [&*cut, "line 1"]),
        (
            "text",
            [
                "it is a text file",
                "expected a result of fsage bench, run or validate (JSON)",
            ],
        ),
        (
            "empty",
            [
                "neither experiment.json",
                "expected a directory that fsage bench or validate made",
            ],
        ),
    ] {
        run(dir, ["check", file]).fails(1, &[file, words[0], words[1]]);
    }
}

#[test]
fn what_is_missing_is_named_and_strict_says_so() {
    let dir = temp();
    let dir = dir.path();
    write(
        dir,
        "a.json",
        &experiment(&[configuration("a", POSTMARK, "ns", &A)]),
    );
    let text = run(dir, ["check", "a.json", "--details"]).exits(0).text();
    for words in [
        "MISSING  3.1 baseline",
        "the kernel's command line",
        "author   3 why",
    ] {
        assert!(text.contains(words), "`{words}` is missing: {text}");
    }
    run(dir, ["check", "a.json", "--strict"]).exits(3);
    let paragraph = run(dir, ["check", "a.json", "--paragraph"]).exits(0).text();
    assert_eq!(paragraph.trim(), "It ran Linux 6.1.");
    run(
        dir,
        [
            "run",
            "postmark:files=9,transactions=20",
            ".",
            "-o",
            "run.json",
        ],
    )
    .exits(0);
    let found = run(dir, ["check", "run.json", "--json"]).exits(0).json();
    let state = |name: &str| {
        let all = found["guidelines"].as_array().unwrap();
        all.iter().find(|g| g["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!(
        (state("intervals"), state("raw-data")),
        (json!("missing"), json!("met"))
    );
    assert_eq!(found["checked"], "fsage run");
    assert!(found["paragraph"].as_str().unwrap().contains("Linux"));
}

#[test]
fn each_guideline_stands_in_the_docs() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments.md");
    let page = std::fs::read_to_string(page).unwrap();
    for guideline in fsage_experiment::check::guidelines::GUIDELINES {
        let row = format!("| {} | `{}` |", guideline.section, guideline.name);
        assert!(page.contains(&row), "docs/experiments.md lacks `{row}`");
    }
}

#[test]
fn a_real_experiment_is_compared_and_checked() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    let plan = "runs = 3\nseed = 2\n\
        [[target]]\nname = \"one\"\nspec = \"scratch:ext4,size=64M\"\n\
        [[target]]\nname = \"two\"\nspec = \"scratch:ext4,size=64M,mkfs=-O ^has_journal\"\n\
        [[workload]]\nname = \"PostMark\"\nspec = \"postmark:files=50,transactions=200\"\n";
    std::fs::write(dir.join("plan.toml"), plan).unwrap();
    bench(dir, &["plan.toml", "-o", "r"]).exits(0);
    let found = run(dir, ["compare", "r", "--json"]).exits(0).json();
    let pair = &found["pairs"][0];
    assert_eq!(pair["a"]["runs"], 3);
    let differs: Vec<&str> = pair["differences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["what"].as_str().unwrap())
        .collect();
    assert!(
        differs.contains(&"target_record.mkfs.options"),
        "{differs:?}"
    );
    assert!(
        !differs.iter().any(|d| d.starts_with("machine")),
        "{differs:?}"
    );
    assert!(pair["metrics"].as_array().unwrap().len() > 10);
    let checked = run(dir, ["check", "r", "--json"]).exits(0).json();
    let met = |name: &str| {
        let all = checked["guidelines"].as_array().unwrap();
        all.iter().find(|g| g["name"] == name).unwrap()["state"] == "met"
    };
    for name in [
        "baseline",
        "zcav",
        "aging",
        "identical-runs",
        "testbed",
        "raw-data",
    ] {
        assert!(met(name), "{name}: {checked:#}");
    }
    let paragraph = checked["paragraph"].as_str().unwrap();
    for words in ["mkfs.ext4", "^has_journal", "mke2fs", "scheduler", "Linux"] {
        assert!(paragraph.contains(words), "{paragraph}");
    }
}

//! The corpus: what six kept traces are predicted to cost on four kept profiles, to the nanosecond, and how that
//! is printed.
//!
//! A prediction changes only with a reason, which belongs into the commit that writes it anew by
//! `FSAGE_WRITE=1 cargo xtask test -p fsage --test corpus`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use common::{Ran, fsage, run, run_command, temp};
use serde_json::Value;

/// The traces, each with a kind of operation that it is there for.
const TRACES: [(&str, &str); 6] = [
    ("build", "fork"),
    ("database", "fdatasync"),
    ("mail", "fsync"),
    ("threads", "rename"),
    ("mapped", "fault"),
    ("failing", "link"),
];
const PROFILES: [&str; 4] = ["ext4", "xfs", "btrfs", "ext4-hdd"];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../corpus")
        .canonicalize()
        .unwrap()
}

/// Predicts a trace in `dir` on all profiles.
fn predict(dir: &Path, name: &str, more: &[&str]) -> Ran {
    let mut command = fsage();
    command.current_dir(dir).env("COLUMNS", "80");
    command.args(["predict", "--quiet", "--snapshot"]);
    command.arg(format!("{name}.fss"));
    for profile in PROFILES {
        let file = corpus().join(format!("profiles/{profile}.fsp"));
        command
            .arg("--on")
            .arg(format!("{profile}={}", file.display()));
    }
    run_command(command.arg(format!("{name}.fst")).args(more)).exits(0)
}

/// Whole nanoseconds.
fn ns(value: &Value) -> String {
    match value.as_f64() {
        Some(ns) => format!("{ns:.0}"),
        None => "-".to_owned(),
    }
}

/// What of a prediction is held: a line for each total and for each kind of operation.
fn table(prediction: &Value) -> String {
    let mut text = "profile\twhat\tcount\tns\twaiting ns\n".to_owned();
    for target in prediction["targets"].as_array().unwrap() {
        let name = target["name"].as_str().unwrap();
        let mut row = |what: &str, count: &Value, time: &Value, waiting: &Value| {
            let (time, waiting) = (ns(time), ns(waiting));
            writeln!(text, "{name}\t{what}\t{}\t{time}\t{waiting}", ns(count)).unwrap();
        };
        let (total, waiting) = (&target["latency_total_ns"], &target["waiting_ns"]);
        row("latency", &prediction["operations_charged"], total, waiting);
        for what in ["elapsed", "device", "writeback"] {
            let value = &target[format!("{what}_ns")];
            row(what, &Value::Null, value, &Value::Null);
        }
        for cache in ["page", "name", "attribute"] {
            let found = &target["caches"][cache];
            let what = format!("{cache} cache misses");
            let count = |name: &str| found[name].as_u64().unwrap();
            let misses = (count("accesses") - count("hits")).into();
            row(&what, &misses, &Value::Null, &Value::Null);
        }
        for kind in target["kinds"].as_array().unwrap() {
            let (name, count) = (kind["kind"].as_str().unwrap(), &kind["operations"]);
            row(name, count, &kind["latency_total_ns"], &kind["waiting_ns"]);
        }
    }
    text
}

/// Holds what is said now against what was said.
fn held(name: &str) {
    let traces = corpus().join("traces");
    let figures = table(&predict(&traces, name, &["--json"]).json());
    let printed = predict(&traces, name, &["--details"]).text();
    for (kind, now) in [("tsv", figures), ("txt", printed)] {
        let file = corpus().join(format!("predictions/{name}.{kind}"));
        if std::env::var_os("FSAGE_WRITE").is_some() {
            std::fs::write(&file, &now).unwrap();
        }
        let was = std::fs::read_to_string(&file).unwrap();
        let pairs = was.lines().zip(now.lines());
        let changed: Vec<_> = pairs.filter(|(was, now)| was != now).collect();
        assert!(
            was == now,
            "{name}.{kind}: {} of {} lines changed, {} now: was, now\n{changed:#?}",
            changed.len(),
            was.lines().count(),
            now.lines().count(),
        );
    }
}

/// What is said to help saves what that very change gives, which is never more than there is.
#[test]
fn what_would_help_saves_what_its_what_if_gives() {
    for (name, on) in [("mail", 3), ("mail", 1), ("threads", 3), ("threads", 0)] {
        let traces = corpus().join("traces");
        let reported = predict(&traces, name, &["--json"]).json();
        let target = &reported["targets"][on];
        let helps = target["helps"].as_array().unwrap();
        assert!(helps.iter().any(|h| h["change"] == "disk*2"), "{helps:?}");
        for help in helps {
            let change = help["change"].as_str().unwrap();
            let changed = predict(&traces, name, &["--json", "--what-if", change]).json();
            let then = &changed["targets"][on]["what_if"];
            for (saved, difference) in [
                ("saves_ns", "difference_ns"),
                ("elapsed_saved_ns", "elapsed_difference_ns"),
            ] {
                let [saved, more] =
                    [&help[saved], &then[difference]].map(|ns| ns.as_f64().unwrap());
                assert!(
                    (saved + more).abs() < 1.0,
                    "{name} {change}: {saved} {more}"
                );
            }
            assert!(help["elapsed_saved_ns"].as_f64() < target["elapsed_ns"].as_f64());
            // Of no more than the calls of all threads save, waits with them.
            let kinds = then["kinds"].as_array().unwrap();
            let less = kinds.iter().map(|k| -k["difference_ns"].as_f64().unwrap());
            let gained: f64 = less.map(|ns| ns.max(0.0)).sum();
            let saved = help["elapsed_saved_ns"].as_f64().unwrap();
            let waits = target["waiting_ns"].as_f64().unwrap().abs();
            assert!(
                saved <= gained + waits + 1.0,
                "{name} {change}: {saved} {gained}"
            );
        }
    }
}

/// Waiting for a processor grows when somebody else needs one sooner; it is no cost of the file system.
#[test]
fn a_faster_part_makes_no_time_in_the_file_system_longer() {
    let traces = corpus().join("traces");
    let mut waited = 0.0;
    for name in ["build", "threads", "mail"] {
        for change in ["disk*2", "open*0.5", "read*0.5", "stat*0.5", "fsync*0.5"] {
            let reported = predict(&traces, name, &["--json", "--what-if", change]).json();
            for target in reported["targets"].as_array().unwrap() {
                let difference = target["what_if"]["difference_ns"].as_f64().unwrap();
                let total = target["latency_total_ns"].as_f64().unwrap();
                // Requests of several threads may meet at the device where they did not.
                assert!(
                    difference <= 0.004 * total,
                    "{name} {change} {}: {difference} of {total}",
                    target["name"]
                );
                waited += target["processor_wait_ns"].as_f64().unwrap();
            }
        }
    }
    assert!(waited > 0.0, "nothing waits for a processor");
}

#[test]
fn a_build_costs_what_it_did() {
    held("build");
}

#[test]
fn a_database_costs_what_it_did() {
    held("database");
}

#[test]
fn a_mail_spool_costs_what_it_did() {
    held("mail");
}

#[test]
fn several_threads_cost_what_they_did() {
    held("threads");
}

#[test]
fn mapped_files_and_rings_cost_what_they_did() {
    held("mapped");
}

#[test]
fn failing_calls_cost_what_they_did() {
    held("failing");
}

#[test]
fn traces_hold_what_they_are_there_for() {
    for (name, kind) in TRACES {
        let file = format!("traces/{name}.fst");
        let shown = run(&corpus(), ["show", &file, "--json"]).exits(0).json();
        let operations = shown["operations"].as_u64().unwrap();
        assert!(
            (5_000..=50_000).contains(&operations),
            "{name}: {operations}"
        );
        assert_eq!(shown["operations_lost"], 0, "{name}");
        let kinds = shown["kinds"].as_array().unwrap();
        assert!(
            kinds.iter().any(|k| k["kind"] == kind),
            "{name} has no {kind}"
        );
        let meta = &shown["meta"];
        let place = meta["directory"].as_str().unwrap();
        assert!(place.starts_with("/srv/work/"), "{name}: {place}");
        assert_eq!(meta["host"], "example", "{name}");
    }
}

/// Names are hidden, and nothing that a prediction uses is.
#[test]
fn hidden_names_change_no_prediction() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("key"), "a key of sixteen bytes or more").unwrap();
    for (name, _) in TRACES {
        for kind in ["fst", "fss"] {
            let file = format!("{name}.{kind}");
            let from = corpus().join("traces").join(&file).display().to_string();
            run(dir, ["anonymize", &from, "--key-file", "key", "-o", &file]).exits(0);
        }
        let known = predict(&corpus().join("traces"), name, &["--json"]).json();
        let hidden = predict(dir, name, &["--json"]).json();
        let (known, hidden) = (table(&known), table(&hidden));
        let elapsed = |text: &str| -> Vec<f64> {
            let rows = text.lines().filter(|row| row.contains("\telapsed\t"));
            rows.map(|row| row.split('\t').nth(3).unwrap().parse().unwrap())
                .collect()
        };
        let rest = |text: &str| -> Vec<String> {
            let rows = text.lines().filter(|row| !row.contains("\telapsed\t"));
            rows.map(str::to_owned).collect()
        };
        // On XFS it is by the length of its names whether a directory needs a block, and hidden ones have another.
        let xfs = |rows: Vec<String>| -> (Vec<String>, Vec<String>) {
            rows.into_iter().partition(|row| row.starts_with("xfs\t"))
        };
        let ((known_xfs, known_rest), (hidden_xfs, hidden_rest)) =
            (xfs(rest(&known)), xfs(rest(&hidden)));
        assert_eq!(hidden_rest, known_rest, "{name}");
        for (known, hidden) in known_xfs.iter().zip(&hidden_xfs) {
            let numbers = |row: &str| -> Vec<f64> {
                row.split('\t')
                    .filter_map(|cell| cell.parse().ok())
                    .collect()
            };
            let (known_numbers, hidden_numbers) = (numbers(known), numbers(hidden));
            for (one, other) in known_numbers.iter().zip(&hidden_numbers) {
                let apart = (one - other).abs();
                assert!(
                    apart <= 1.0 || apart < 0.005 * one,
                    "{name}: {known} and {hidden}"
                );
            }
        }
        // Whether files were taken in the order of their names cannot be told of hidden ones, and so not which of several
        // lookups brought what the others find. Who gets a processor when is another then.
        for (known, hidden) in elapsed(&known).into_iter().zip(elapsed(&hidden)) {
            let apart = (hidden / known - 1.0).abs();
            assert!(apart < 0.005, "{name}: {known} and {hidden}");
        }
    }
}

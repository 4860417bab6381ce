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

use crate::common;

use std::path::Path;

use common::{Ran, fsage, mix, profile, run, run_command, small_trace, temp};
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
fn who_names_a_target_is_told_of_its_profile() {
    let dir = temp();
    let dir = dir.path();
    for target in ["mem:fast", "scratch:ext4,size=1G", "."] {
        run(dir, ["predict", "t.fst", "--on", target]).fails(
            2,
            &[
                "--on takes a profile",
                &format!("fsage profile {target} -o"),
            ],
        );
    }
    run(dir, ["predict", "t.fst", "--on", "no.fsp"]).fails(1, &["no.fsp", "No such file"]);
}

#[test]
fn the_json_says_what_was_agreed() {
    let dir = temp();
    small_trace(dir.path());
    let result = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
    let targets = result["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 1);
    let target = &targets[0];
    assert_eq!(target["name"], "scratch:ext4");
    let is_near = |found: &Value, figure: f64, share: f64| {
        let found = found.as_f64().unwrap();
        assert!(
            (found / figure - 1.0).abs() < share,
            "{found}, not {figure}"
        );
    };
    // How long a pause was before a call makes a few percent.
    is_near(&target["latency_total_ns"], 96_100.0, 0.1);
    assert!(target["writeback_ns"].as_f64().unwrap() < 10_000.0);
    let of = |name: &str| {
        let mut kinds = target["kinds"].as_array().unwrap().iter();
        kinds.find(|kind| kind["kind"] == name).unwrap()
    };
    for (kind, operations, latency_ns) in [
        ("mkdir", 1, 19_733.0),
        ("rename", 1, 5142.0),
        ("unlink", 1, 11_007.0),
        ("symlink", 1, 6956.0),
        ("rmdir", 1, 10_079.0),
    ] {
        assert_eq!(of(kind)["operations"], operations, "{kind}");
        is_near(&of(kind)["latency_total_ns"], latency_ns, 0.1);
    }
    let kinds = target["kinds"].as_array().unwrap();
    let sum: f64 = kinds
        .iter()
        .map(|kind| {
            assert!(kind["kind"].is_string() && kind["operations"].as_u64().unwrap() > 0);
            kind["latency_total_ns"].as_f64().unwrap()
        })
        .sum();
    let total = target["latency_total_ns"].as_f64().unwrap();
    assert!((sum - total).abs() <= total * 1e-9, "{sum} and {total}");
}

/// From the command's start to its end. What it waits behind other tests for a processor is in its own time and in no prediction, so
/// that it is held against a run that few disturbed.
#[test]
fn elapsed_time_is_from_the_commands_start_to_its_end() {
    let mut apart = Vec::new();
    for _ in 0..20 {
        let dir = temp();
        small_trace(dir.path());
        let result = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
        let shown = run(dir.path(), ["show", "small.fst", "--json"]).exits(0);
        let traced_ns = shown.json()["end"]["elapsed_ns"].as_f64().unwrap();
        let found_ns = result["targets"][0]["elapsed_ns"].as_f64().unwrap();
        let share = found_ns / traced_ns - 1.0;
        if share.abs() < 0.2 {
            return;
        }
        apart.push(share);
    }
    panic!("never within a fifth: {apart:?}");
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
    let place = |i: usize| ranking[i]["elapsed_ns"].as_f64().unwrap();
    assert!(place(0) <= place(1));
    for ranked in ranking {
        let mut targets = result["targets"].as_array().unwrap().iter();
        let target = targets.find(|t| t["name"] == ranked["name"]).unwrap();
        for field in ["elapsed_ns", "latency_total_ns"] {
            assert_eq!(ranked[field], target[field], "{ranked}");
        }
        let ratio = ranked["elapsed_ns"].as_f64().unwrap() / place(0);
        assert!(
            (ranked["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9,
            "{ranked}"
        );
    }
    let pairs = result["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 1);
    // The calls take 36 us more of some 10 ms, which nobody can tell apart, but 1.38 times as long.
    let pair = &pairs[0];
    let named = ["faster", "slower", "confidence"].map(|field| pair[field].as_str().unwrap());
    assert_eq!(
        named,
        ["scratch:ext4", "scratch:xfs", "not_distinguishable"]
    );
    let figure = |field: &str| pair[field].as_f64().unwrap();
    assert!((1.0..1.02).contains(&figure("ratio")), "{pair}");
    assert!((1.3..1.46).contains(&figure("latency_ratio")), "{pair}");
    assert!((0.5..0.6).contains(&figure("probability")), "{pair}");
    assert!(
        (0.7..0.8).contains(&figure("latency_probability")),
        "{pair}"
    );
    let more = place(1) - place(0);
    assert!((20_000.0..60_000.0).contains(&more), "{more}");
    assert_eq!(result["version"], 4);
    for target in result["targets"].as_array().unwrap() {
        let (low, high) = (
            target["elapsed_interval_ns"][0].as_f64().unwrap(),
            target["elapsed_interval_ns"][1].as_f64().unwrap(),
        );
        let elapsed = target["elapsed_ns"].as_f64().unwrap();
        assert!(
            0.0 < low && low < elapsed && elapsed < high,
            "{low} {elapsed} {high}"
        );
    }
}

#[test]
fn two_profiles_of_one_target_are_not_told_apart() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    // The same target a second time, thirty times as slow in every time.
    let mut slow: Value = serde_json::from_str(&text).unwrap();
    for metric in slow["metrics"].as_array_mut().unwrap() {
        if metric["unit"] == "ns" {
            for field in ["estimate", "low", "high", "mean", "median"] {
                if let Some(value) = metric[field].as_f64() {
                    metric[field] = (value * 30.0).into();
                }
            }
        }
    }
    save(&slow, &dir.path().join("again.fsp"));
    let on = ["--on", "again.fsp", "--on"].map(String::from);
    let more = |last: &[&str]| {
        let args = ["predict", "small.fst"].map(String::from).into_iter();
        let args = args
            .chain(on.clone())
            .chain([profile("ext4").display().to_string()]);
        args.chain(last.iter().map(ToString::to_string))
            .collect::<Vec<_>>()
    };
    let result = run(dir.path(), more(&["--json"])).exits(0).json();
    let pair = &result["pairs"][0];
    assert_eq!(pair["confidence"], "not_distinguishable", "{pair}");
    assert_eq!(pair["same_target"], true);
    // What is not a time (block sizes, caches) is the same, so that it is nearly that.
    let ratio = pair["latency_ratio"].as_f64().unwrap();
    assert!((25.0..=30.1).contains(&ratio), "{pair}");
    let text = run(dir.path(), more(&[])).exits(0).text();
    assert!(!text.contains("surely"), "{text}");
    assert!(text.contains("again") && text.contains("ext4"), "{text}");
}

/// Writes a profile with its format first, as files are told by it.
fn save(profile: &Value, file: &Path) {
    let mut fields = profile.as_object().unwrap().clone();
    let format = fields.remove("format").unwrap();
    let rest = Value::Object(fields).to_string();
    std::fs::write(file, format!("{{\"format\":{format},{}", &rest[1..])).unwrap();
}

#[test]
fn a_profile_that_is_not_whole_has_no_place() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut cut: Value = serde_json::from_str(&text).unwrap();
    cut["metrics"].as_array_mut().unwrap().truncate(88);
    save(&cut, &dir.path().join("cut.fsp"));
    let xfs = profile("xfs").display().to_string();
    let args = ["predict", "small.fst", "--on", "cut.fsp", "--on", &xfs];
    let ran = run(dir.path(), args.iter().copied().chain(["--json"])).exits(3);
    let said = "scratch:ext4 is incomplete: RCH, ";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    let result = ran.json();
    let ranking = result["ranking"].as_array().unwrap();
    assert_eq!(ranking.len(), 1, "{ranking:?}");
    let target = &result["targets"][0];
    for total in ["latency_total_ns", "elapsed_ns", "latency_interval_ns"] {
        assert!(target[total].is_null(), "{total}: {target}");
    }
    assert!(
        !target["incomplete"]["missing"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let text = run(dir.path(), args).exits(3).text();
    let rows: Vec<&str> = text.lines().filter(|l| l.contains("incomplete")).collect();
    assert!(rows.len() == 2 && rows[1].contains("no place"), "{text}");
}

#[test]
fn the_answer_fits_a_screen_and_the_rest_is_in_the_details() {
    let dir = temp();
    small_trace(dir.path());
    let answer = |columns: &str, more: &[&str]| {
        let mut command = fsage();
        command.current_dir(dir.path()).env("COLUMNS", columns);
        command.args(["predict", "small.fst"]);
        for (name, file) in [("a", "ext4"), ("b", "xfs"), ("c", "ext4"), ("d", "xfs")] {
            command
                .arg("--on")
                .arg(format!("{name}={}", profile(file).display()));
        }
        run_command(command.args(more)).exits(0).text()
    };
    let text = answer("80", &[]);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(
        text.contains("elapsed") && text.contains("% other"),
        "{text}"
    );
    let details = answer("80", &["--details"]);
    // All but where the details are.
    let first: Vec<&str> = text.lines().take(8).collect();
    assert!(details.starts_with(&first.join("\n")), "{details}");
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.ends_with(": --details. Caches are cold at the start (--start warm).")
            && !details.contains("--details"),
        "{text}"
    );
    for word in [
        "hit rates",
        "where the time goes, by metric",
        "the order of each two",
    ] {
        assert!(details.contains(word), "{word}: {details}");
    }
}

#[test]
fn a_metric_is_explained_by_its_name() {
    let dir = temp();
    let text = run(dir.path(), ["show", "FSYN16"]).exits(0).text();
    assert!(
        text.starts_with("FSYN16: ") && text.contains("unit: ns"),
        "{text}"
    );
    run(dir.path(), ["show", "NOSUCH16"]).fails(1, &["NOSUCH16"]);
}

#[test]
fn a_smaller_cache_is_what_a_profile_edited_by_hand_says() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut small: Value = serde_json::from_str(&text).unwrap();
    for metric in small["metrics"].as_array_mut().unwrap() {
        if metric["name"] == "BC" {
            metric["estimate"] = 8.0.into();
            metric["lower_bound"] = false.into();
            for field in ["low", "high", "mean", "median"] {
                metric[field] = 8.0.into();
            }
        }
    }
    save(&small, &dir.path().join("small.fsp"));
    let by_hand = run(
        dir.path(),
        ["predict", "small.fst", "--json", "--on", "small.fsp"],
    )
    .exits(0)
    .json();
    let what_if = predict(dir.path(), &["ext4"], &["--json", "--what-if", "cache=8K"])
        .exits(0)
        .json();
    let expected = by_hand["targets"][0]["latency_total_ns"].as_f64().unwrap();
    let found = what_if["targets"][0]["what_if"]["latency_total_ns"]
        .as_f64()
        .unwrap();
    assert!(
        (expected - found).abs() <= expected * 1e-9,
        "{expected} {found}"
    );
    let nothing = predict(
        dir.path(),
        &["ext4"],
        &["--json", "--what-if", "memory=64G"],
    )
    .exits(0)
    .json();
    let effect = &nothing["targets"][0]["what_if"]["effects"][0];
    assert!(
        effect["nothing"].as_str().unwrap().contains("fit"),
        "{effect}"
    );
}

#[test]
fn absurd_changes_end_and_unknown_ones_tell_the_nearest() {
    let dir = temp();
    small_trace(dir.path());
    for change in [
        "RENAME*1e30",
        "MKDIR*1e300",
        "LU**1e-300",
        "fsync=1e25",
        "disk/1e30",
    ] {
        let result = predict(dir.path(), &["ext4"], &["--json", "--what-if", change])
            .exits(0)
            .json();
        let after = &result["targets"][0]["what_if"];
        assert!(
            after["elapsed_ns"].as_f64().unwrap().is_finite(),
            "{change}: {after}"
        );
        predict(dir.path(), &["ext4"], &["--what-if", change]).exits(0);
    }
    predict(dir.path(), &["ext4"], &["--what-if", "memroy=8G"]).fails(2, &["memroy", "memory"]);
    predict(dir.path(), &["ext4"], &["--what-if", "memory=8"]).fails(2, &["8G"]);
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
        kinds.iter().find(|k| k["kind"] == name).unwrap()["latency_total_ns"]
            .as_f64()
            .unwrap()
    };
    let (before, after) = (
        of(&target["kinds"], "mkdir"),
        of(&target["what_if"]["kinds"], "mkdir"),
    );
    // Twice what is charged by that metric, and nothing else: no read comes from the device.
    let metrics = target["metrics"].as_array().unwrap().iter();
    let doubled: f64 = metrics
        .filter(|m| m["name"].as_str().unwrap().starts_with("MKDIR"))
        .map(|m| m["time_ns"].as_f64().unwrap())
        .sum();
    assert!(doubled > 0.0);
    assert!(
        (after - before - doubled).abs() <= doubled * 1e-9,
        "{before} {after} {doubled}"
    );
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
    let mkdir = |target: &Value| {
        let kinds = target["kinds"].as_array().unwrap().clone();
        let mkdir = kinds.iter().find(|k| k["kind"] == "mkdir").unwrap();
        mkdir["latency_total_ns"].as_f64().unwrap()
    };
    let known = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
    let (found, known) = (mkdir(target), mkdir(&known["targets"][0]));
    assert!(
        (known / 5.0..known * 5.0).contains(&found),
        "a substitute costs about what is missing: {found}, {known}"
    );
}

#[test]
fn caches_and_starts_are_chosen_by_name() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces");
    let mut misses = Vec::new();
    for cache in ["lru", "linux"] {
        for start in ["cold", "warm"] {
            let line = ["mapped.fst", "--snapshot", "mapped.fss", "--on"].map(String::from);
            let on = [profile("ext4").display().to_string()];
            let more = ["--json", "--cache", cache, "--start", start].map(String::from);
            let line = ["predict".to_owned()].into_iter().chain(line);
            let result = run(&traces, line.chain(on).chain(more)).exits(0).json();
            assert_eq!(
                (&result["cache"], &result["start"]),
                (&cache.into(), &start.into())
            );
            let page = &result["targets"][0]["caches"]["page"];
            misses.push(page["accesses"].as_u64().unwrap() - page["hits"].as_u64().unwrap());
        }
    }
    // All of 24 MiB fit, so that the policies agree; fio drops the file from the cache before each of its jobs.
    assert_eq!(misses, [2799, 393, 2799, 393]);
}

#[test]
fn a_total_that_stands_on_few_samples_says_so() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut few: Value = serde_json::from_str(&text).unwrap();
    for metric in few["metrics"].as_array_mut().unwrap() {
        metric["samples"] = serde_json::json!([metric["estimate"]]);
        metric["runs"] = 1.into();
        (metric["low"], metric["high"]) = (Value::Null, Value::Null);
    }
    save(&few, &dir.path().join("few.fsp"));
    let args = ["predict", "small.fst", "--on", "few.fsp", "--json"];
    let result = run(dir.path(), args).exits(0).json();
    let uncertainty = &result["targets"][0]["uncertainty"];
    assert!(uncertainty["unknown_share"].as_f64().unwrap() > 0.95);
    let few = "% of it stands on metrics of fewer than 3 samples";
    let said = uncertainty["trouble"].as_str().unwrap();
    assert!(said.contains(few), "{said}");
    let whole = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
    let trouble = whole["targets"][0]["uncertainty"]["trouble"].to_string();
    assert!(!trouble.contains(few), "{trouble}");
}

#[test]
fn a_profile_that_was_disturbed_is_not_believed() {
    let dir = temp();
    small_trace(dir.path());
    let text = std::fs::read_to_string(profile("ext4")).unwrap();
    let mut marked: Value = serde_json::from_str(&text).unwrap();
    for metric in marked["metrics"].as_array_mut().unwrap() {
        metric["marks"] = serde_json::json!(["other processes used 80 % of a processor"]);
    }
    marked["environment"]["extra"] = serde_json::json!({});
    save(&marked, &dir.path().join("marked.fsp"));
    let xfs = profile("xfs").display().to_string();
    let args = ["predict", "small.fst", "--on", "marked.fsp", "--on", &xfs];
    let result = run(dir.path(), args.iter().copied().chain(["--json"]))
        .exits(0)
        .json();
    let of = |name: &str| {
        let targets = result["targets"].as_array().unwrap();
        targets
            .iter()
            .find(|t| t["name"].as_str().unwrap().contains(name))
            .unwrap()
            .clone()
    };
    let (bad, good) = (of("ext4"), of("xfs"));
    for ranked in result["ranking"].as_array().unwrap() {
        let is_bad = ranked["name"] == bad["name"];
        assert_eq!(ranked["disturbed"], is_bad, "{ranked}");
    }
    let uncertainty = &bad["uncertainty"];
    assert!(
        uncertainty["marked_share"].as_f64().unwrap() > 0.99,
        "{uncertainty}"
    );
    assert_eq!(
        uncertainty["marked"].as_array().unwrap().len(),
        uncertainty["carrying"].as_u64().unwrap() as usize
    );
    assert!(
        bad["warnings"][0]
            .as_str()
            .unwrap()
            .contains("were disturbed"),
        "{bad}"
    );
    let half = |t: &Value| t["uncertainty"]["log_half_width"].as_f64().unwrap();
    assert!(half(&bad) > half(&good), "{} {}", half(&bad), half(&good));
    assert_eq!(result["pairs"][0]["probability"], 0.5);
    let said = run(dir.path(), args).exits(0).text();
    assert!(said.contains("x1.00, disturbed"), "{said}");
    assert!(
        said.contains("Caution: of the metrics that carry the total"),
        "{said}"
    );
    assert!(!said.contains("is the fastest"), "{said}");
}

#[test]
fn places_that_nothing_tells_are_said_and_asked_for() {
    let dir = temp();
    let mut strace = String::new();
    for n in 0..300 {
        let at = |more: u32| format!("1 1700000000.{:06}", n * 1000 + more);
        let dir = n % 7;
        strace.push_str(&format!(
            "{} openat(AT_FDCWD, \"/data/d{dir}/f{n}\", O_RDONLY) = 3 <0.000010>\n\
             {} pread64(3, \"\"..., 4096, 0) = 4096 <0.000100>\n{} close(3) = 0 <0.000001>\n",
            at(0),
            at(100),
            at(300)
        ));
    }
    std::fs::write(dir.path().join("reads.txt"), strace).unwrap();
    run(
        dir.path(),
        ["import", "--from", "strace", "reads.txt", "-o", "small.fst"],
    )
    .exits(0);
    let ran = predict(dir.path(), &["ext4"], &["--json"]).exits(0).json();
    let target = &ran["targets"][0];
    let share = target["uncertainty"]["unplaced_share"].as_f64().unwrap();
    assert!(share > 0.2, "{target}");
    assert!(
        target["warnings"].to_string().contains("--snapshot"),
        "{target}"
    );
    let said = predict(dir.path(), &["ext4"], &[]).exits(0).text();
    assert!(said.contains("hangs on where files lie"), "{said}");
    assert!(!said.contains("vary too much"), "{said}");
}

#[test]
fn what_if_means_the_metric_of_that_name_and_no_more_memory_than_there_is() {
    let dir = temp();
    small_trace(dir.path());
    let details = ["--what-if", "OPEN=5us", "--details"];
    let said = predict(dir.path(), &["ext4"], &details).exits(0).text();
    assert!(said.contains("4 metrics such as OPEN"), "{said}");
    for change in ["memory*1e300", "cache=1e30G"] {
        predict(dir.path(), &["ext4"], &["--what-if", change])
            .fails(2, &["no machine has so much memory"]);
    }
}

#[test]
fn a_workload_is_predicted_as_its_trace_is() {
    let dir = temp();
    let dir = dir.path();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces/mail.fst");
    let fit = ["model", "fit", corpus.to_str().unwrap(), "-o", "m.fsm"];
    run(dir, fit).exits(0);
    let ext4 = profile("ext4");
    let on = ["--on", ext4.to_str().unwrap()];
    std::fs::create_dir(dir.join("tmp")).unwrap();
    let predict = |of: &[&str]| {
        let mut command = fsage();
        command.current_dir(dir).env("TMPDIR", dir.join("tmp"));
        run_command(command.arg("predict").args(of).args(on))
    };
    for spec in ["model:m.fsm,time=0.5", "postmark:files=50,transactions=200"] {
        run(dir, ["run", spec, "--to-trace", "w.fst"]).exits(0);
        let traced = predict(&["w.fst", "--json"]).exits(0).json();
        let workload = predict(&["--workload", spec, "--json"]).exits(0).json();
        assert_eq!(workload, traced, "{spec}");
        let kinds = workload["targets"][0]["kinds"].as_array().unwrap().iter();
        let predicted: u64 = kinds.map(|k| k["operations"].as_u64().unwrap()).sum();
        let written: u64 = mix(&dir.join("w.fst")).iter().map(|(_, n)| n).sum();
        assert!(
            predicted > 1000 && predicted <= written,
            "{predicted} of {written}"
        );
        std::fs::remove_file(dir.join("w.fst")).unwrap();
    }
    for (of, code, expected) in [
        (
            &["--workload", "cmd:make"][..],
            2,
            "cannot be cut into operations",
        ),
        (
            &["--workload", "hot-files"],
            2,
            "follows from the files of a target",
        ),
        (
            &["--workload", "knitting"],
            2,
            "unknown workload 'knitting'",
        ),
        (&["--workload", "model:none.fsm"], 1, "none.fsm"),
        (
            &["--workload", "model:m.fsm", "--annotate", "m.fsm"],
            2,
            "read and written over",
        ),
    ] {
        predict(of).fails(code, &[expected]);
    }
    for of in [
        &["--workload", "postmark", "w.fst"][..],
        &["--workload", "postmark", "--snapshot", "s.fss"],
        &[],
    ] {
        predict(of).exits(2);
    }
    assert_eq!(std::fs::read_dir(dir.join("tmp")).unwrap().count(), 0);
}

/// A profile says that everything takes half the time that it takes.
fn halved(file: &Path) {
    let mut profile: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    for metric in profile["metrics"].as_array_mut().unwrap() {
        for field in ["estimate", "low", "high", "mean", "median"] {
            let factor = match metric["unit"].as_str() {
                Some("ns") => 0.5,
                Some("KiB/s") => 2.0,
                _ => 1.0,
            };
            if let Some(value) = metric[field].as_f64() {
                metric[field] = (value * factor).into();
            }
        }
    }
    save(&profile, file);
}

#[test]
fn calls_in_the_trace_correct_costs_where_it_is_known_on_which_system_it_was_made() {
    let dir = temp();
    let dir = dir.path();
    for (target, file) in [("mem:disk", "disk.fsp"), ("mem:fast", "fast.fsp")] {
        run(dir, ["profile", target, "--quick", "-o", file]).exits(0);
    }
    let small = "postmark:files=40,transactions=400";
    run(dir, ["run", small, "mem:disk", "--trace", "t.fst"]).exits(0);
    let predict = |more: &[&str]| {
        let line = [
            "predict", "t.fst", "--on", "disk.fsp", "--on", "fast.fsp", "--json",
        ];
        run(dir, line.iter().chain(more)).exits(0).json()
    };
    let total = |result: &Value, index: usize| {
        let total = &result["targets"][index]["latency_total_ns"];
        total.as_f64().unwrap()
    };
    // The truth that the profile was measured of: there is next to nothing to correct.
    let right = predict(&[]);
    assert_eq!(
        right["context"]["system"], "mem:disk",
        "{}",
        right["context"]
    );
    let plain = predict(&["--traced-on", "none"]);
    assert!(plain.get("context").is_none());
    for index in [0, 1] {
        let ratio = total(&right, index) / total(&plain, index);
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
    }
    halved(&dir.join("disk.fsp"));
    let found = predict(&[]);
    assert_eq!(found["context"]["system"], "mem:disk");
    // Of calls that take longer than half of what they take there only so much is corrected.
    let (found, plain) = (total(&found, 1), total(&plain, 1));
    assert!(
        found > 1.1 * plain && found < 2.0 * plain,
        "{found} and {plain}"
    );
    let given = predict(&["--traced-on", "mem:disk"]);
    assert!((total(&given, 1) - found).abs() < 1e-6 * found);
    let of_a_file = predict(&["--traced-on", "disk.fsp"]);
    assert!((total(&of_a_file, 1) - found).abs() < 1e-6 * found);
    let line = ["predict", "t.fst", "--on", "disk.fsp", "--on", "fast.fsp"];
    let said = run(dir, line).exits(0);
    let said = said.text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("corrected by what the trace's calls took on mem:disk"),
        "{said}"
    );
    let all = run(dir, line.iter().chain(&["--details"])).exits(0);
    assert!(
        all.text()
            .contains("what calls took on mem:disk, where they were traced")
    );
    // Nothing is known of the latencies of a trace that was not measured.
    run(dir, ["run", small, "--to-trace", "made.fst"]).exits(0);
    let line = [
        "predict",
        "made.fst",
        "--on",
        "disk.fsp",
        "--traced-on",
        "mem:disk",
    ];
    run(dir, line).fails(2, &["--traced-on", "latencies"]);
}

/// A predictor needs more than a shell may leave it.
#[test]
fn a_small_stack_is_no_reason_to_abort() {
    let dir = temp();
    small_trace(dir.path());
    let on = profile("ext4");
    let line = format!(
        "ulimit -s 128; exec {} predict small.fst --on {}",
        env!("CARGO_BIN_EXE_fsage"),
        on.display()
    );
    let mut shell = std::process::Command::new("sh");
    run_command(shell.current_dir(dir.path()).args(["-c", &line])).exits(0);
}

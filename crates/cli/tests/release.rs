//! Files that the first release wrote are read for good: `corpus/release-1`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common;

use std::path::{Path, PathBuf};

use common::{run, temp};
use serde_json::Value;

fn files() -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/release-1");
    files.canonicalize().unwrap()
}

/// What a verb says of them.
fn said(line: &[&str]) -> Value {
    run(&files(), line.iter().chain(&["--json"]))
        .exits(0)
        .json()
}

/// What is written in a file.
fn written(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(files().join(name)).unwrap()).unwrap()
}

#[test]
fn a_trace_and_a_snapshot() {
    let trace = said(&["show", "trace.fst"]);
    let figure = |name: &str| trace[name].as_u64().unwrap();
    let figures = ["operations", "errors", "bytes_written", "operations_lost"].map(figure);
    assert_eq!(figures, [76, 10, 21, 0]);
    assert_eq!(trace["meta"]["directory"], "/srv/work/tree");
    let tree = said(&["show", "tree.fss"]);
    let kinds = ["files", "directories", "symlinks"].map(|kind| tree[kind].as_u64().unwrap());
    // Of a file with two names the second counts apart.
    assert_eq!(kinds, [3, 2, 1]);
    assert_eq!(tree["further_links"], 1);
}

#[test]
fn a_profile_and_what_is_predicted_with_it() {
    let (profile, was) = (said(&["show", "profile.fsp"]), written("profile.fsp"));
    assert_eq!(
        (&was["version"], &profile["version"]),
        (&1.into(), &3.into())
    );
    let metrics = |of: &Value| -> Vec<(String, f64)> {
        let all = of["metrics"].as_array().unwrap();
        let of = |m: &Value| (m["name"].to_string(), m["estimate"].as_f64().unwrap());
        all.iter().map(of).collect()
    };
    assert_eq!(metrics(&profile), metrics(&was));
    let line = [
        "predict",
        "trace.fst",
        "--snapshot",
        "tree.fss",
        "--on",
        "profile.fsp",
    ];
    let now = said(&line);
    let then = written("prediction.json");
    assert_eq!(now["operations_charged"], then["operations_charged"]);
    assert_eq!(now["operations"], 76);
}

#[test]
fn a_prediction() {
    let (mut shown, was) = (
        said(&["show", "prediction.json"]),
        written("prediction.json"),
    );
    assert_eq!(was["prediction_version"], 2);
    assert_eq!(shown["version"], 4);
    assert_eq!(
        shown["ranking"],
        serde_json::json!([]),
        "those were by latency"
    );
    let text = run(&files(), ["show", "prediction.json"]).exits(0).text();
    assert!(
        text.contains("predict again") && !text.contains("take 0 ns"),
        "{text}"
    );
    for kind in shown["targets"][0]["kinds"].as_array_mut().unwrap() {
        let kind = kind.as_object_mut().unwrap();
        // What that release did not tell of, and what it called otherwise.
        assert_eq!(kind.remove("processor_wait_ns"), Some(0.0.into()));
        for (now, then) in [
            ("operations", "count"),
            ("latency_total_ns", "latency_ns"),
            ("latency_interval_ns", "interval_ns"),
        ] {
            let value = kind.remove(now).unwrap();
            kind.insert(then.to_owned(), value);
        }
    }
    for field in ["latency_total_ns", "elapsed_ns", "kinds", "name"] {
        assert_eq!(
            shown["targets"][0][field], was["targets"][0][field],
            "{field}"
        );
    }
}

#[test]
fn a_validation_and_its_runs() {
    let shown = said(&["show", "validate/validation.json"]);
    let was = written("validate/validation.json");
    for field in ["average_error", "ranks_right", "ranks_total"] {
        assert_eq!(shown[field], was[field], "{field}");
    }
    let figures = |of: &Value| -> Vec<[f64; 3]> {
        let pairs = of["pairs"].as_array().unwrap();
        let of =
            |p: &Value| ["measured_ns", "predicted_ns", "error"].map(|f| p[f].as_f64().unwrap());
        pairs.iter().map(of).collect()
    };
    assert_eq!(figures(&shown), figures(&was));
    let runs = said(&["show", "validate/runs.jsonl"]);
    assert_eq!(
        runs["records"].as_array().unwrap().len(),
        10,
        "8 runs, 2 profiles"
    );
    assert_eq!(said(&["check", "validate"])["checked"], "fsage validation");
}

#[test]
fn an_experiment_and_its_runs() {
    let shown = said(&["show", "bench/experiment.json"]);
    let was = written("bench/experiment.json");
    assert_eq!(was["experiment_version"], 1);
    assert_eq!(shown["plan_digest"], was["plan_digest"]);
    let elapsed = |of: &Value| -> Vec<Value> {
        let all = of["configurations"].as_array().unwrap();
        let runs = all.iter().flat_map(|c| c["runs"].as_array().unwrap());
        runs.map(|run| run["elapsed_ns"].clone()).collect()
    };
    assert_eq!(elapsed(&shown), elapsed(&was));
    assert_eq!(elapsed(&was).len(), 6);
    let runs = said(&["show", "bench/runs.jsonl"]);
    assert_eq!(runs["records"].as_array().unwrap().len(), 9);
    assert_eq!(said(&["check", "bench"])["checked"], "fsage bench");
    let compared = said(&["compare", "bench"]);
    assert_eq!(
        compared["experiments"][0]["plan_digest"],
        was["plan_digest"]
    );
    let kept = said(&["show", "comparison.json"])["pairs"].to_string();
    // What it did not tell yet is not so.
    let kept = kept.replace(",\"virtual_time\":false", "");
    let then = written("comparison.json")["pairs"].to_string();
    let then = then
        .replace("\"lower\":", "\"low\":")
        .replace("\"upper\":", "\"high\":");
    let pairs = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(pairs(&kept), pairs(&then));
}

#[test]
fn a_run() {
    assert_eq!(written("run.json")["run_version"], 1);
    let checked = said(&["check", "run.json"]);
    assert_eq!(checked["checked"], "fsage run");
    let reported = checked["paragraph"].as_str().unwrap();
    for known in [
        "a virtual machine (KVM) with 2 x Intel(R) Xeon(R) Processor (no SMT), 23.5 GiB of memory",
        "Linux 6.18.44-fc-v669 (#1 SMP PREEMPT_DYNAMIC @0)",
        "spectre_v2: Retpolines; STIBP: disabled; RSB filling; PBRSB-eIBRS: Not affected; BHI: Retpoline.",
        "Dirty pages expired after 30 s",
        "the load average was 4.11",
        "loop0 (512 MiB, not rotating, scheduler none, read-ahead 2.5 MiB, write back)",
    ] {
        assert!(reported.contains(known), "{known}: {reported}");
    }
    let shown = said(&["show", "run.json"]);
    let target = &shown["environment"]["target"];
    assert_eq!(
        (&shown["version"], &target["free_bytes"]),
        (&3.into(), &470_179_840.into())
    );
    assert_eq!(target["kernel_threads"]["jbd2/loop0-8"], 0);
    assert_eq!(target["devices"][0]["backing_file"], "/srv/image");
}

#[test]
fn a_replay() {
    let (mut shown, was) = (said(&["show", "replay.json"]), written("replay.json"));
    assert_eq!(
        (&was["replay_version"], &shown["version"]),
        (&1.into(), &2.into())
    );
    let fields = shown.as_object_mut().unwrap();
    fields.remove("version");
    fields.insert("replay_version".to_owned(), 1.into());
    // What that release did not tell of is not known, not something else.
    for (field, unknown) in [
        ("caches", Value::from("")),
        ("made_cold", Value::Null),
        ("skipped_traced_ns", 0.into()),
    ] {
        assert_eq!(fields.remove(field), Some(unknown), "{field}");
    }
    let built = fields["built"].as_object_mut().unwrap();
    assert_eq!(built.remove("incoming"), Some(0.into()));
    // And what it called otherwise.
    let mut then = was.to_string();
    for (old, new) in [
        ("count", "operations"),
        ("total_ns", "latency_total_ns"),
        ("p50_ns", "latency_p50_ns"),
        ("p99_ns", "latency_p99_ns"),
        ("max_ns", "latency_max_ns"),
    ] {
        then = then.replace(&format!("\"{old}\":"), &format!("\"{new}\":"));
    }
    assert_eq!(shown, serde_json::from_str::<Value>(&then).unwrap());
    let text = run(&files(), ["show", "replay.json"]).exits(0).text();
    for known in [
        "76 operations, 44 replayed on /srv/work/a (afap speed, file order, 2 threads at most), seed 1",
        "made before: 3 files with 21 B, 1 further name, 1 directory, 1 symbolic link",
        "took 6.92 ms; in the trace these operations took 25.2 ms (x0.275)",
        "12 have no call on a target: getxattr 9, advise 3",
    ] {
        assert!(text.contains(known), "{known}: {text}");
    }
}

/// Profiles of older versions, and the device that each is shown with.
const PROFILES: [(&str, u64, &str); 5] = [
    ("release-1/profile.fsp", 1, "/srv/image)"),
    ("profiles/ext4.fsp", 2, "ram, direct I/O)"),
    ("profiles/xfs.fsp", 2, "ram, direct I/O)"),
    ("profiles/btrfs.fsp", 2, "ram, direct I/O)"),
    ("profiles/ext4-hdd.fsp", 2, "disk:hdd-7200, direct I/O)"),
];

fn of_corpus(name: &str) -> String {
    files().join("..").join(name).display().to_string()
}

/// The same in today's form: `now.fsp` in `dir`.
fn in_todays_form(dir: &Path, name: &str) -> Value {
    let now = run(dir, ["show", &of_corpus(name), "--json"]).exits(0);
    std::fs::write(dir.join("now.fsp"), now.text()).unwrap();
    now.json()
}

#[test]
fn older_profiles_are_shown_as_they_were() {
    let dir = temp();
    for (name, version, device) in PROFILES {
        let then: Value = serde_json::from_slice(&std::fs::read(of_corpus(name)).unwrap()).unwrap();
        let now = in_todays_form(dir.path(), name);
        assert_eq!(
            (&then["version"], &now["version"]),
            (&version.into(), &3.into())
        );
        let then = &then["environment"];
        let parameters = &now["environment"]["target"]["parameters"];
        assert_eq!(parameters, &serde_json::json!({}), "{name}: {then}");
        assert_eq!(now["measurement"]["seed"], then["seed"]);
        let one_cpu = then["extra"]["one_cpu"].as_str();
        assert_eq!(now["measurement"]["one_cpu"].as_str(), one_cpu);
        // What to run next names the file.
        let said = ["now.fsp", &of_corpus(name)].map(|file| {
            let shown = run(dir.path(), ["show", file, "--details"]).exits(0);
            shown.text().replace(file, "it.fsp")
        });
        assert_eq!(said[0], said[1], "{name}");
        let kind = then["file_system"].as_str().unwrap();
        let on = format!("{kind} on /dev/loop0 (loop on {device}\n");
        assert!(said[0].contains(&on), "{on}: {}", said[0]);
    }
}

#[test]
fn older_profiles_predict_what_they_do_in_todays_form() {
    let dir = temp();
    let [trace, tree] = ["traces/mail.fst", "traces/mail.fss"].map(of_corpus);
    for (name, ..) in PROFILES {
        in_todays_form(dir.path(), name);
        let on = [of_corpus(name), "now.fsp".to_owned()];
        let predict = |on: &[String]| {
            let mut line = vec!["predict", &trace, "--snapshot", &tree, "--json"];
            for on in on {
                line.extend(["--on", on]);
            }
            run(dir.path(), line).exits(0).json()
        };
        let of = |on: &String| predict(&[format!("it={on}")])["targets"].clone();
        assert_eq!(of(&on[0]), of(&on[1]), "{name}");
        // The two are known to be one target.
        let both = [format!("then={}", on[0]), format!("now={}", on[1])];
        assert_eq!(predict(&both)["pairs"][0]["same_target"], true, "{name}");
    }
}

#[test]
fn a_profile_without_its_names_predicts_what_it_did() {
    let dir = temp();
    std::fs::write(dir.path().join("key"), "a key of sixteen bytes or more").unwrap();
    let profile = files().join("profile.fsp").display().to_string();
    let line = [
        "anonymize",
        &profile,
        "--key-file",
        "key",
        "-o",
        "h.fsp",
        "--json",
    ];
    let reported = run(dir.path(), line).exits(0).json();
    assert_eq!(reported["content"], "profile");
    assert!(
        reported["hidden"]
            .to_string()
            .contains("profile.environment.machine.host")
    );
    let hidden = std::fs::read_to_string(dir.path().join("h.fsp")).unwrap();
    assert!(
        !hidden.contains("/srv") && !hidden.contains("example"),
        "{hidden}"
    );
    let trace = files().join("trace.fst").display().to_string();
    let [then, now] = [profile.as_str(), "h.fsp"].map(|on| {
        let found = run(dir.path(), ["predict", &trace, "--on", on, "--json"])
            .exits(0)
            .json();
        found["targets"][0]["latency_total_ns"].clone()
    });
    assert!(then.as_f64() > Some(0.0));
    assert_eq!(then, now);
}

/// Directories that were kept when each verb had an engine of its own, `corpus/kept`, are gone on with and
/// judged; copied, as that writes to them.
fn kept() -> tempfile::TempDir {
    let dir = common::temp();
    for place in ["", "bench", "validate"] {
        let to = dir.path().join(place);
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(files().join("../kept").join(place)).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
            }
        }
    }
    dir
}

/// What was measured by each run of each configuration or pair.
fn measured(result: &Value) -> Vec<Vec<Value>> {
    let of = |one: &Value| match one["runs"].as_array() {
        Some(runs) => runs.iter().map(|r| r["elapsed_ns"].clone()).collect(),
        None => one["measured_runs_ns"].as_array().unwrap().clone(),
    };
    let all = [&result["configurations"], &result["pairs"]];
    let all = all.into_iter().find_map(Value::as_array).unwrap();
    all.iter().map(of).collect()
}

#[test]
fn what_two_engines_kept_is_gone_on_with_and_judged_by_one() {
    for (verb, result, retold) in [
        (
            "bench",
            "experiment.json",
            &["bench", "--resume", "-o", "bench"][..],
        ),
        (
            "validate",
            "validation.json",
            &["validate", "--again", "validate"],
        ),
    ] {
        let dir = kept();
        let dir = dir.path();
        let record = || std::fs::read(dir.join(verb).join("runs.jsonl")).unwrap();
        let (before, was) = (record(), written(&format!("../kept/{verb}/{result}")));
        let was = measured(&was);
        assert_eq!(was.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        let said = |line: &[&str]| run(dir, line.iter().chain(&["--json"])).exits(0).json();
        assert_eq!(measured(&said(retold)), was, "{verb}");
        let go_on = [verb, "plan.toml", "--resume", "-o", verb];
        assert_eq!(measured(&said(&go_on)), was, "{verb}");
        assert!(record() == before, "{verb}: nothing was to be measured");
        let more = said(&[&go_on[..], &["--runs", "3"]].concat());
        for (now, was) in measured(&more).iter().zip(&was) {
            assert_eq!((now.len(), &now[..2]), (3, &was[..]), "{verb}");
        }
        assert!(record().starts_with(&before), "{verb}");
        said(&["show", &format!("{verb}/{result}")]);
        said(&["check", verb]);
    }
    let dir = kept();
    let compared = run(dir.path(), ["compare", "bench", "--json"])
        .exits(0)
        .json();
    assert_eq!(compared["pairs"].as_array().unwrap().len(), 1);
}

//! What a model knows of a trace, whether two traces are of one workload, and models for other programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{fsage, play, run, run_command, temp, tool};
use serde_json::Value;

fn corpus(name: &str) -> String {
    let at = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/traces");
    at.join(name).display().to_string()
}

/// A trace of what strace's lines say.
fn strace(dir: &Path, lines: &str) -> PathBuf {
    std::fs::write(dir.join("t.strace"), lines).unwrap();
    let line = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    run(dir, line).exits(0);
    dir.join("t.fst")
}

fn characterised(dir: &Path, trace: &str) -> Value {
    run(dir, ["show", trace, "--characterise", "--json"])
        .exits(0)
        .json()
}

/// Process 7 reads three pages twice; process 8 asks for the attributes of a file while one read is under way.
const TWO: &str = "\
7  1.000000 openat(AT_FDCWD, \"/w/a\", O_RDONLY) = 3 <0.000010>
7  1.001000 pread64(3, \"\"..., 4096, 0) = 4096 <0.000010>
7  1.002000 pread64(3, \"\"..., 4096, 4096) = 4096 <0.000010>
7  1.003000 pread64(3, \"\"..., 4096, 8192) = 4096 <0.000010>
7  1.004000 pread64(3, \"\"..., 4096, 0) = 4096 <0.000010>
7  1.005000 pread64(3, \"\"..., 4096, 4096) = 4096 <0.000010>
7  1.006000 pread64(3, \"\"..., 4096, 8192) = 4096 <0.001000>
8  1.006100 access(\"/w/b\", F_OK) = 0 <0.000010>
7  1.007000 close(3) = 0 <0.000010>
";

/// Of two the median lies between them.
#[test]
fn the_median_of_two_is_neither() {
    let dir = temp();
    let dir = dir.path();
    let lines = "\
7  1.000000 access(\"/w/a\", F_OK) = 0 <0.000010>
7  1.001000 access(\"/w/a\", F_OK) = 0 <0.000090>
";
    strace(dir, lines);
    let shown = run(dir, ["show", "t.fst", "--json"]).exits(0).json();
    let median = shown["kinds"][0]["latency_p50_ns"].as_u64().unwrap();
    assert!(median.abs_diff(50_000) < 500, "{median}");
}

#[test]
fn what_is_told_of_a_trace_is_what_is_in_it() {
    let dir = temp();
    let dir = dir.path();
    strace(dir, TWO);
    let found = characterised(dir, "t.fst");
    assert_eq!(found["operations_on_files"], 9, "{found}");
    let reuse = &found["reuse"];
    assert_eq!(reuse["page_accesses"], 6);
    assert_eq!(reuse["footprint_bytes"], 3 * 4096);
    assert_eq!(reuse["sampled_percent"], 100.0);
    assert_eq!(reuse["hits"].as_array().unwrap().len(), 1);
    assert_eq!(reuse["hits"][0]["cache_bytes"], 65_536);
    assert_eq!(reuse["hits"][0]["hit_percent"], 50.0);
    let popularity = &found["popularity"];
    assert_eq!(
        (&popularity["files"], &popularity["operations"]),
        (&2.into(), &9.into())
    );
    let most = popularity["shares"][0]["operations_percent"]
        .as_f64()
        .unwrap();
    assert!((most - 800.0 / 9.0).abs() < 1e-9, "{most}");
    let at_once = &found["concurrency"];
    assert_eq!(
        (&at_once["threads"], &at_once["threads_at_once"]),
        (&2.into(), &2.into())
    );
    assert_eq!(at_once["others_under_way"], serde_json::json!([8, 1]));
    let groups = found["groups"].as_array().unwrap();
    let of = |key: &str| groups.iter().map(|g| g[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("operations"), [8, 1]);
    assert_eq!(of("bytes_read"), [6 * 4096, 0]);
    assert_eq!(found["phases"].as_array().unwrap().len(), 1);
    assert_eq!(found["phases"][0]["operations"], 9);
    let sum = |key: &str| {
        let all = found["timeline"][key].as_array().unwrap();
        all.iter().map(|n| n.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("operations"), sum("bytes_read")), (9, 6 * 4096));
    let last = found["timeline"]["footprint_bytes"]
        .as_array()
        .unwrap()
        .last()
        .cloned();
    assert_eq!(last, Some((3 * 4096).into()));
}

#[test]
fn the_answer_fits_a_terminal_and_the_rest_is_in_the_details() {
    let dir = temp();
    for name in ["build", "database", "failing", "mail", "mapped", "threads"] {
        let trace = corpus(&format!("{name}.fst"));
        let show = |more: &[&str]| {
            let mut command = fsage();
            command.current_dir(dir.path()).env("COLUMNS", "80");
            run_command(command.args(["show", &trace, "--characterise"]).args(more))
                .exits(0)
                .text()
        };
        let text = show(&[]);
        assert!(text.lines().count() <= 24, "{name}:\n{text}");
        let long = text
            .lines()
            .find(|l| l.chars().count() > 80 && !l.starts_with("more: "));
        assert_eq!(long, None, "{name}");
        let details = show(&["--details", "--svg", "t.svg"]);
        for part in [
            "hits of caches",
            "the most used files",
            "over time",
            "by kind of operation",
        ] {
            assert!(details.contains(part), "{name}: {part}\n{details}");
        }
        let svg = std::fs::read_to_string(dir.path().join("t.svg")).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("hits by size of the cache"),
            "{svg}"
        );
        // The model has as many groups.
        let fit = ["model", "fit", &trace, "-o", "m.fsm", "--json"];
        let fit = run(dir.path(), fit).exits(0).json();
        let found = characterised(dir.path(), &trace);
        assert_eq!(
            fit["groups"],
            found["groups"].as_array().unwrap().len(),
            "{name}"
        );
        assert_eq!(fit["operations"], found["operations_on_files"], "{name}");
    }
}

#[test]
fn one_operation_is_told_and_none_is_an_error() {
    let dir = temp();
    let dir = dir.path();
    strace(dir, "7  1.000000 access(\"/w/b\", F_OK) = 0 <0.000010>\n");
    let found = characterised(dir, "t.fst");
    assert_eq!(found["operations_on_files"], 1);
    assert_eq!(found["reuse"]["page_accesses"], 0);
    let fit = run(dir, ["model", "fit", "t.fst", "-o", "m.fsm", "--json"]);
    assert_eq!(fit.exits(0).json()["operations"], 1);
    let same = run(dir, ["show", "t.fst", "--against", "t.fst", "--json"]);
    let same = same.exits(0).json();
    assert_eq!(
        (&same["verdict"], &same["distance"]),
        (&"same".into(), &0.0.into())
    );
    run(
        dir,
        ["show", "t.fst", "--characterise", "--under", "/other"],
    )
    .fails(
        1,
        &[
            "t.fst",
            "has no operation on a file below the directories of --under",
        ],
    );
    // A process that ended, and nothing on a file.
    strace(dir, "7  1.000000 +++ exited with 0 +++\n");
    run(dir, ["show", "t.fst", "--characterise"]).fails(
        1,
        &["t.fst", "no operation on a file", "expected at least one"],
    );
    run(dir, ["model", "fit", "t.fst", "-o", "n.fsm"])
        .fails(1, &["t.fst", "no operation on a file"]);
    run(dir, ["show", "t.fst", "--svg", "x.svg"]).fails(2, &["--svg", "--characterise"]);
    run(dir, ["show", "m.fsm", "--characterise"]).fails(2, &["m.fsm"]);
}

/// Workloads with what makes them short.
const WORKLOADS: [(&str, &str); 5] = [
    ("postmark", "files=300,transactions=3000"),
    ("varmail", "nfiles=300,nthreads=4"),
    ("webserver", "nfiles=300,nthreads=4"),
    ("fileserver", "nfiles=200,nthreads=4,filesize=16k"),
    ("webproxy", "nfiles=300,nthreads=4"),
];

/// The reference that `--against` states is measured here.
#[test]
fn seeds_are_the_same_workload_and_other_workloads_are_not() {
    let dir = temp();
    let dir = dir.path();
    for (name, values) in WORKLOADS {
        for seed in 1..=3 {
            let workload = format!("{name}:{values},seed={seed}");
            let trace = format!("{name}{seed}.fst");
            play(dir, &workload, &trace);
        }
    }
    let apart = |a: String, b: String| {
        let found = run(dir, ["show", &a, "--against", &b, "--json"])
            .exits(0)
            .json();
        let of = |key: &str| found[key].as_f64().unwrap();
        println!(
            "{a} {b}: {:.4}, worst {:.4}",
            of("distance"),
            of("distance_worst")
        );
        (found.clone(), of("distance"), of("distance_worst"))
    };
    for (i, (name, _)) in WORKLOADS.iter().enumerate() {
        for (a, b) in [(1, 2), (1, 3), (2, 3)] {
            let (found, mean, worst) = apart(format!("{name}{a}.fst"), format!("{name}{b}.fst"));
            let limit = |key: &str| found["reference"][key].as_f64().unwrap();
            assert!(mean <= limit("seeds_distance"), "{name} {a} {b}: {mean}");
            assert!(
                worst <= limit("seeds_distance_worst"),
                "{name} {a} {b}: {worst}"
            );
            assert_eq!(found["verdict"], "same");
        }
        for (other, _) in WORKLOADS.iter().skip(i + 1) {
            let (found, mean, _) = apart(format!("{name}1.fst"), format!("{other}1.fst"));
            let limit = found["reference"]["others_distance"].as_f64().unwrap();
            assert!(mean >= limit, "{name} {other}: {mean}");
            assert_eq!(found["verdict"], "different", "{name} {other}");
        }
    }
    let text = run(dir, ["show", "varmail1.fst", "--against", "varmail2.fst"])
        .exits(0)
        .text();
    assert!(
        text.starts_with("the same workload: distance 0.0"),
        "{text}"
    );
}

/// What a model's run makes beforehand is no part of it, and nobody takes a trace without sizes for one of other files.
#[test]
fn a_run_of_a_model_is_the_workload_that_it_was_fitted_to() {
    let dir = temp();
    let dir = dir.path();
    let trace = corpus("mail.fst");
    run(dir, ["model", "fit", &trace, "-o", "m.fsm"]).exits(0);
    run(dir, ["run", "model:m.fsm", "--to-trace", "all.fst"]).exits(0);
    play(dir, "model:m.fsm", "run.fst");
    run(
        dir,
        ["run", "model:m.fsm", "mem:fast", "--trace", "there.fst"],
    );
    let against = |other: &str| run(dir, ["show", &trace, "--against", other, "--json"]).exits(0);
    let of_run = against("run.fst").json();
    for other in ["all.fst", "there.fst"] {
        let said = against(other);
        let expected =
            format!("{other}: left out are the operations that are not the workload's: ");
        assert!(said.stderr.contains(&expected), "{}", said.stderr);
        let found = said.json();
        let operations = |of: &Value| of["b"]["found"]["operations"].clone();
        if other == "all.fst" {
            assert_eq!(operations(&found), operations(&of_run));
            assert_eq!(found["distance"], of_run["distance"]);
        }
        let measures = found["measures"].as_array().unwrap();
        let sizes = measures.iter().find(|m| m["name"] == "file sizes").unwrap();
        assert!(sizes["distance"].is_null(), "{sizes}");
        assert_eq!(sizes["not_told_by"], other);
    }
    let text = run(dir, ["show", &trace, "--against", "run.fst"])
        .exits(0)
        .text();
    assert!(
        text.contains("file sizes counts for nothing: run.fst does not tell it"),
        "{text}"
    );
}

/// A model of a trace of that workload.
fn model(dir: &Path, workload: &str) -> Value {
    play(dir, workload, "o.fst");
    run(dir, ["model", "fit", "o.fst", "-o", "m.fsm", "--json"])
        .exits(0)
        .json()
}

fn near(a: u64, b: u64, share: f64) -> bool {
    (a as f64 - b as f64).abs() <= share * b as f64
}

#[test]
fn an_exported_script_does_about_what_the_model_does() {
    let dir = temp();
    let dir = dir.path();
    for (name, values) in WORKLOADS.iter().take(2) {
        let fit = model(dir, &format!("{name}:{values}"));
        let of_trace = |kind: &str| {
            let all = fit["counts"].as_array().unwrap();
            let of = all.iter().find(|c| c["kind"] == kind);
            of.map_or(0, |c| c["trace"].as_u64().unwrap())
        };
        let export = run(
            dir,
            ["export", "m.fsm", "--to", "wml", "-o", "m.f", "--json"],
        )
        .exits(0);
        assert!(
            export
                .stderr
                .contains("lost: how soon files are used again"),
            "{export:?}"
        );
        let made = &export.json()["made"];
        assert_eq!(export.json()["content"], "model");
        // As many as the model has, and a few that its threads need to find one.
        let [of_script, of_model] = ["files", "model_files"].map(|key| made[key].as_u64().unwrap());
        assert!(of_script <= of_model + 40, "{made}");
        assert!(
            export.stderr.contains("  made before the run: "),
            "{export:?}"
        );
        let text = std::fs::read_to_string(dir.join("m.f")).unwrap();
        let rounds = text.split("iterations=").nth(1).unwrap();
        let rounds: String = rounds.chars().take_while(char::is_ascii_digit).collect();
        let script = format!("wml:m.f,iterations={rounds}");
        play(dir, &script, "s.fst");
        let mix = common::mix(&dir.join("s.fst"));
        for kind in ["open", "write", "unlink", "fsync"] {
            let n = mix.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
            assert!(
                near(n, of_trace(kind), 0.1),
                "{name} {kind}: {n} of {}",
                of_trace(kind)
            );
        }
        // For filebench the same, and for how long.
        run(dir, ["export", "m.fsm", "--to", "filebench", "-o", "b.f"]).exits(0);
        let other = std::fs::read_to_string(dir.join("b.f")).unwrap();
        assert!(
            other.contains("\nrun 1\n") && other.contains("setarch -R filebench"),
            "{other}"
        );
        play(dir, "wml:b.f,iterations=1", "b.fst");
    }
}

#[test]
fn fio_reads_and_writes_as_much_as_the_model() {
    let dir = temp();
    let dir = dir.path();
    let fit = model(dir, "varmail:nfiles=300,nthreads=4");
    let export = run(dir, ["export", "m.fsm", "--to", "fio", "-o", "m.fio"]).exits(0);
    for lost in ["open", "unlink", "what follows what"] {
        assert!(
            export.stderr.contains(&format!("lost: {lost}")),
            "{}",
            export.stderr
        );
    }
    if !tool("fio") {
        return;
    }
    for own in ["data", "own"] {
        std::fs::create_dir(dir.join(own)).unwrap();
    }
    let fio = Command::new("fio")
        .current_dir(dir)
        .args(["--directory=data", "--output-format=json", "m.fio"])
        .output()
        .unwrap();
    assert!(
        fio.status.success(),
        "{}",
        String::from_utf8_lossy(&fio.stderr)
    );
    let found: Value = serde_json::from_slice(&fio.stdout).unwrap();
    let own = run(dir, ["run", "model:m.fsm", "own", "--json"])
        .exits(0)
        .json();
    let jobs = found["jobs"].as_array().unwrap();
    let counts = fit["counts"].as_array().unwrap();
    for (way, key) in [("read", "read_bytes"), ("write", "written_bytes")] {
        let all = |of: &str| {
            jobs.iter()
                .map(|j| j[way][of].as_u64().unwrap())
                .sum::<u64>()
        };
        let model = fit[key]["model_bytes"].as_u64().unwrap();
        let moved = all("io_bytes");
        // Which size is next is drawn.
        assert!(near(moved, model, 0.12), "{way}: {moved} of {model}");
        // Reads that find the end are none of fio's.
        let lost = export
            .stderr
            .lines()
            .find_map(|l| l.strip_prefix(&format!("  lost: {way}: ")));
        let lost: u64 = lost.map_or(0, |n| n.replace(',', "").parse().unwrap());
        let of = counts.iter().find(|c| c["kind"] == way).unwrap();
        let wanted = of["model"].as_u64().unwrap() - lost;
        let calls = all("total_ios");
        assert!(near(calls, wanted, 0.03), "{way}: {calls} of {wanted}");
    }
    println!("model: {} ns in all", own["elapsed_ns"]);
}

#[test]
fn what_is_no_model_is_refused_by_name_and_line() {
    let dir = temp();
    let dir = dir.path();
    std::fs::write(dir.join("bad.fsm"), "format = \"fsm\"\nversion = \n").unwrap();
    run(dir, ["export", "bad.fsm", "--to", "fio", "-o", "x.fio"]).fails(1, &["bad.fsm", "line 2"]);
    run(dir, ["export", "none.fsm", "--to", "wml", "-o", "x.f"]).fails(1, &["none.fsm"]);
    assert!(!dir.join("x.fio").exists() && !dir.join("x.f").exists());
}

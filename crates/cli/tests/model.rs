//! `fsage model fit` and `filerunner:FILE`: from a trace to a workload with the trace's counts and bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fsage, mix, root, run, run_command, temp, temp_in_memory, tool};
use serde_json::Value;

const HEADER: &str = "IOChunkSize = 512\nDirDepthIndex = 2\nRepeatWrite = 1\nRepeatRead = 1\n";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus(name: &str) -> PathBuf {
    repository().join("corpus/traces").join(name)
}

/// The result of a fit with everything within 5 %.
fn fit(dir: &Path, trace: &Path, model: &str) -> Value {
    let trace = trace.to_str().unwrap();
    run(dir, ["model", "fit", trace, "-o", model, "--json"])
        .exits(0)
        .json()
}

/// How many creates, writes, reads and deletes a fit found.
fn counts(fit: &Value) -> [u64; 4] {
    [19, 34, 35, 22].map(|number| {
        let all = fit["modelled"].as_array().unwrap();
        let of = all.iter().find(|o| o["number"] == number);
        of.map_or(0, |o| o["count"].as_u64().unwrap())
    })
}

/// The same of a trace of a run: every create, write and read opens a file of its own.
fn done(trace: &Path) -> [u64; 4] {
    let mix = mix(trace);
    let of = |kind: &str| mix.iter().find(|(k, _)| k == kind).map_or(0, |(_, n)| *n);
    let (write, read) = (of("write"), of("read"));
    [of("open") - write - read, write, read, of("unlink")]
}

/// What a shell did in a directory of its own below `dir`.
fn traced(dir: &Path, script: &str) -> PathBuf {
    let (tree, trace) = (dir.join("tree"), dir.join("t.fst"));
    fs::create_dir(&tree).unwrap();
    let mut command = fsage();
    command
        .current_dir(tree)
        .args(["trace", "--under", ".", "-o"]);
    run_command(command.arg(&trace).args(["--", "sh", "-c", script])).exits(0);
    trace
}

#[test]
fn a_model_does_what_its_trace_did() {
    let dir = temp();
    let dir = dir.path();
    for name in ["build", "mail", "database", "threads"] {
        let fit = fit(dir, &corpus(&format!("{name}.fst")), "m.cfg");
        assert!(fit["reached"].as_bool().unwrap(), "{fit}");
        let args = [
            "run",
            "filerunner:m.cfg",
            "--role",
            "run",
            "--to-trace",
            "o.fst",
        ];
        run(dir, args).exits(0);
        let out = dir.join("o.fst");
        assert_eq!(done(&out), counts(&fit), "{name}");
        let shown = run(dir, ["show", "o.fst", "--json"]).exits(0).json();
        for (way, moved) in [("read", "bytes_read"), ("written", "bytes_written")] {
            let (trace, model) = (&fit[way]["trace_bytes"], &fit[way]["model_bytes"]);
            assert_eq!(shown[moved], *model, "{name}: {fit}");
            let (trace, model) = (trace.as_f64().unwrap(), model.as_f64().unwrap());
            assert!(
                (model - trace).abs() <= 0.05 * trace,
                "{name}: {model} of {trace}"
            );
        }
        // Nothing but numbers: no name, no command.
        let text = fs::read_to_string(dir.join("m.cfg")).unwrap();
        for line in text.lines() {
            let value = line.rsplit(" = ").next().unwrap();
            assert!(
                value
                    .bytes()
                    .all(|b| b.is_ascii_digit() || b",.".contains(&b)),
                "{line}"
            );
        }
        // The model of what the model did says the same of it.
        let again = self::fit(dir, &out, "again.cfg");
        assert_eq!(counts(&again), counts(&fit), "{name}");
        assert_eq!(
            again["written"]["trace_bytes"], fit["written"]["model_bytes"],
            "{name}"
        );
    }
}

#[test]
fn a_program_that_was_traced_runs_as_a_model_on_ext4() {
    let dir = temp_in_memory();
    let script = "i=0; while [ $i -lt 40 ]; do echo one two three > f$i; i=$((i+1)); done; cat f* > /dev/null; \
                  mkdir d; cp f1 f2 d; rm -r d f*";
    let trace = traced(dir.path(), script);
    let fit = fit(dir.path(), &trace, "m.cfg");
    let counts = counts(&fit);
    assert_eq!((counts[0], counts[3]), (42, 42), "{fit}");
    assert!(counts[1] >= 42 && counts[2] >= 40, "{fit}");
    assert!(!fit["left_out"].as_array().unwrap().is_empty(), "{fit}");
    let mut targets = vec!["."];
    if root() && tool("mkfs.ext4") {
        targets.push("scratch:ext4,size=64M");
    }
    for target in targets {
        let args = [
            "run",
            "filerunner:m.cfg",
            target,
            "--trace",
            "ran.fst",
            "--json",
        ];
        // Every result is the expected one.
        let ran = run(dir.path(), args).exits(0).json();
        let measured = ran["phases"].as_array().unwrap();
        let measured = measured.iter().filter(|p| p["role"] == "run");
        let kinds = measured.flat_map(|p| p["kinds"].as_array().unwrap());
        let of = |kind: &str| {
            let mine = kinds.clone().filter(|k| k["kind"] == kind);
            mine.map(|k| k["operations"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(
            [of("write"), of("read"), of("unlink")],
            counts[1..],
            "{target}"
        );
        assert_eq!(of("open"), counts[..3].iter().sum::<u64>(), "{target}");
        fs::remove_file(dir.path().join("ran.fst")).unwrap();
    }
}

#[test]
fn the_dissertations_samples_run_and_run_alike() {
    let dir = temp();
    let dir = dir.path();
    let figures = repository().join("crates/model/src/filerunner/figures");
    for figure in [19, 21, 24, 25, 26, 28] {
        let name = format!("figure-{figure}.cfg");
        fs::copy(figures.join(&name), dir.join(&name)).unwrap();
        let spec = format!("filerunner:{name}");
        let ops = ["a.fst", "b.fst"].map(|out| {
            run(dir, ["run", &spec, "--to-trace", out]).exits(0);
            run(dir, ["show", out, "--ops", "--json"]).exits(0).text()
        });
        let without_head = ops.map(|o| o.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(without_head[0], without_head[1], "{name}");
        // Files of its own time chunks and what they need, all gone afterwards; results as expected.
        run(dir, ["run", &spec, "mem:fast"]).exits(0);
    }
    let args = [
        "run",
        "filerunner:figure-24.cfg",
        "--role",
        "run",
        "--to-trace",
        "o.fst",
    ];
    run(dir, args).exits(0);
    assert_eq!(done(&dir.join("o.fst")), [30, 26, 17, 30]);
}

#[test]
fn processes_are_threads_that_wait_for_one_another() {
    let dir = temp_in_memory();
    let text = format!(
        "{HEADER}TIndex = 0\n0,19,0,0,0,50\n1,34,0,7,0,50\n2,35,0,7,1,50\n3,22,0,0,0,25\nTIndex = 1\n1,22,0,0,0,25\n"
    );
    fs::write(dir.path().join("m.cfg"), text).unwrap();
    let ran = run(
        dir.path(),
        ["run", "filerunner:m.cfg", "mem:fast", "--json"],
    );
    let ran = ran.exits(0).json();
    let phases = ran["phases"].as_array().unwrap();
    let phase = phases.iter().find(|p| p["role"] == "run").unwrap();
    assert_eq!(phase["streams"].as_array().unwrap().len(), 4, "{phase}");
    // One that is cut leaves nothing that its teardown does not know.
    for cut in [["--ops", "7"], ["--for", "1ms"]] {
        let args = ["run", "filerunner:m.cfg", "."].into_iter().chain(cut);
        run(dir.path(), args).exits(0);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_configuration_that_cannot_be_is_refused_with_its_line() {
    let dir = temp();
    let dir = dir.path();
    for (lines, expected) in [
        ("TIndex = 0\n0,35,2,0,0,1\n", "line 6: directory depth 2"),
        ("TIndex = 0\n0,60,0,0,0,1\n", "line 6: operation 60"),
        (
            "TIndex = 0\n0,22,0,3,0,1\n",
            "line 6: unlink with I/O index 3",
        ),
        (
            "TIndex = 0\n0,22,0,0,9999999999\n",
            "line 6: 9999999999 times unlink",
        ),
        ("nonsense\n", "line 5: 'nonsense'"),
    ] {
        fs::write(dir.join("m.cfg"), format!("{HEADER}{lines}")).unwrap();
        let said = run(dir, ["run", "filerunner:m.cfg", "--to-trace", "o.fst"]);
        said.fails(1, &["m.cfg", expected]);
    }
    run(dir, ["run", "filerunner", "--to-trace", "o.fst"]).fails(1, &["filerunner:FILE"]);
}

#[test]
fn traces_that_give_no_model_say_why() {
    let dir = temp();
    let dir = dir.path();
    let traced = |name: &str, lines: &str| {
        fs::write(dir.join("m.cfg"), format!("{HEADER}{lines}")).unwrap();
        run(
            dir,
            [
                "run",
                "filerunner:m.cfg",
                "--role",
                "run",
                "--to-trace",
                name,
            ],
        )
        .exits(0);
    };
    traced("none.fst", "");
    let none = run(dir, ["model", "fit", "none.fst", "-o", "n.cfg"]);
    none.fails(1, &["none.fst", "none of its 0 operations"]);
    assert!(!dir.join("n.cfg").exists());
    traced("one.fst", "TIndex = 0\n0,19,0,0,0,1\n");
    assert_eq!(
        counts(&fit(dir, Path::new("one.fst"), "n.cfg")),
        [1, 0, 0, 0]
    );
    let mut bytes = fs::read(corpus("mail.fst")).unwrap();
    bytes.truncate(bytes.len() - 100);
    fs::write(dir.join("cut.fst"), bytes).unwrap();
    run(dir, ["model", "fit", "cut.fst", "-o", "c.cfg"]).fails(1, &["--allow-lossy"]);
    run(dir, ["model", "fit", "cut.fst", "-o", "cut.fst"]).exits(2);
    for (wrong, why) in [("0%", "0%"), ("x", "5%")] {
        let args = ["model", "fit", "one.fst", "-o", "n.cfg", "--within", wrong];
        assert!(run(dir, args).exits(2).stderr.contains(why));
    }
}

#[test]
fn the_search_goes_from_coarse_to_fine_and_is_printed() {
    let dir = temp();
    let dir = dir.path();
    let trace = corpus("build.fst");
    let found = fit(dir, &trace, "m.cfg");
    let finer = |tries: &str, size: &str, sign: f64| {
        let all: Vec<f64> = found[tries]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| t[size].as_f64().unwrap())
            .collect();
        assert!(
            all.len() > 1 && all.is_sorted_by(|a, b| sign * a < sign * b),
            "{all:?}"
        );
    };
    finer("chunks", "chunks", 1.0);
    finer("io_chunks", "io_chunk_bytes", -1.0);
    let trace = trace.to_str().unwrap();
    let args = [
        "model",
        "fit",
        trace,
        "-o",
        "m.cfg",
        "--chunks",
        "3",
        "--io-chunk",
        "1000",
    ];
    let said = run(dir, args).exits(0);
    assert!(said.text().contains("3 time chunks"), "{}", said.text());
    let text = fs::read_to_string(dir.join("m.cfg")).unwrap();
    assert!(text.starts_with("IOChunkSize = 1000\n"), "{text}");
    assert_eq!(text.matches("TIndex").count(), 3);
}

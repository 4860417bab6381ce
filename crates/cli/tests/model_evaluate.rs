//! `fsage model evaluate`: a model and what it stands for, run side by side.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::fs;
use std::path::Path;

use common::{play, root, run, temp, temp_in_memory, tool};
use serde_json::Value;

/// The head of a configuration of FileRunner.
const HEADER: &str = "IOChunkSize = 512\nDirDepthIndex = 2\nRepeatWrite = 1\nRepeatRead = 1\n";

/// The trace of a mail server, and its model.
fn mail(dir: &Path) {
    for (spec, name) in [
        ("postmark:files=500,transactions=2000", "mail"),
        ("postmark:files=50,transactions=200,read=4096", "other"),
    ] {
        let (trace, model) = (format!("{name}.fst"), format!("{name}.fsm"));
        run(dir, ["run", spec, "--to-trace", &trace]).exits(0);
        run(dir, ["model", "fit", &trace, "-o", &model]).exits(0);
    }
}

fn evaluate(dir: &Path, more: &[&str], code: i32) -> Value {
    let args = ["model", "evaluate"].iter().chain(more).chain(&["--json"]);
    run(dir, args).exits(code).json()
}

fn figure<'a>(result: &'a Value, target: usize, name: &str) -> &'a Value {
    let all = result["targets"][target]["figures"].as_array().unwrap();
    let found = all.iter().find(|f| f["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {result}"))
}

fn error(result: &Value, name: &str) -> f64 {
    figure(result, 0, name)["error"].as_f64().unwrap()
}

#[test]
fn a_trace_and_its_own_fit_are_alike_in_memory() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let result = evaluate(dir, &["mail.fst", "mail.fsm", "--on", "mem:fast"], 0);
    assert_eq!(result["format"], "fsage model evaluate");
    assert_eq!(result["stands"], true);
    for (kind, count) in [
        ("open", 3532.0),
        ("write", 3960.0),
        ("unlink", 1533.0),
        ("fstat", 3532.0),
    ] {
        let of = figure(&result, 0, &format!("operations:{kind}"));
        assert_eq!(of["original"]["mean"], count, "{kind}");
        assert_eq!(of["error"], 0.0, "{kind}");
    }
    for bytes in ["bytes_read", "bytes_written"] {
        assert!(error(&result, bytes).abs() <= 0.01, "{bytes}");
    }
    assert!(error(&result, "throughput").abs() <= 0.05);
    // All that was created was deleted.
    let acts = result["targets"][0]["distances"].as_array().unwrap();
    let act = |name: &str| acts.iter().find(|a| a["act"] == name).unwrap();
    assert_eq!(act("create")["operations"], 1533);
    assert_eq!(act("delete")["operations"], 1533);
    assert!(act("read")["size"].as_f64().unwrap() < 0.1);
    let rms = result["targets"][0]["progress_rms_distance"]
        .as_f64()
        .unwrap();
    assert!(rms < 0.05, "{rms}");
    // Nothing of it is chance.
    assert_eq!(
        evaluate(dir, &["mail.fst", "mail.fsm", "--on", "mem:fast"], 0),
        result
    );
    // But for the model's choices: those of its own seed, or others.
    let seeded = |seed| {
        let args = [
            "mail.fst",
            "mail.fsm",
            "--on",
            "mem:fast",
            "--model-seed",
            seed,
        ];
        let result = evaluate(dir, &args, 0);
        ["write", "read"].map(|act| error(&result, &format!("latency:{act}")).to_bits())
    };
    let own = ["write", "read"].map(|act| error(&result, &format!("latency:{act}")).to_bits());
    assert_eq!(seeded("42"), own);
    assert_ne!(seeded("43"), own);
}

/// A model that thinks is itself: what is run thinks on both sides, if nobody says otherwise.
#[test]
fn what_is_run_goes_at_its_own_pace_on_both_sides() {
    let dir = temp();
    let dir = dir.path();
    let lines: Vec<String> = (0..40_u32)
        .map(|i| {
            format!(
                "7  {i}.000000 openat(AT_FDCWD, \"/w/{i}\", O_WRONLY|O_CREAT, 0644) = 3 <0.000010>\n\
                 7  {i}.400000 write(3, \"\"..., 4096) = 4096 <0.000010>\n\
                 7  {i}.500000 close(3) = 0 <0.000010>\n"
            )
        })
        .collect();
    fs::write(dir.join("t.strace"), lines.concat()).unwrap();
    let import = ["import", "t.strace", "--from", "strace", "-o", "t.fst"];
    run(dir, import).exits(0);
    run(dir, ["model", "fit", "t.fst", "-o", "m.fsm"]).exits(0);
    let args = ["m.fsm", "--workload", "model:m.fsm", "--on", "mem:fast"];
    let own = evaluate(dir, &args, 0);
    assert_eq!(
        (own["stands"].as_bool(), error(&own, "throughput")),
        (Some(true), 0.0)
    );
    // As before for a trace, and for who asks for it.
    evaluate(dir, &["t.fst", "m.fsm", "--on", "mem:fast"], 0);
    let afap = evaluate(dir, &[&args[..], &["--pace", "afap"]].concat(), 3);
    assert!(error(&afap, "throughput") > 10.0);
    let args = [
        "model",
        "evaluate",
        "m.fsm",
        "--command",
        "true",
        "--on",
        "mem:fast",
        "--pace",
        "afap",
    ];
    run(dir, args).fails(2, &["what a command thinks cannot be left out"]);
}

/// As `fsage model evaluate --help` has it: a trace of `--to-trace` has what sets the workload up and takes it down.
#[test]
fn a_workload_is_run_as_its_model_has_it() {
    const WORKLOAD: &str = "postmark:files=500,transactions=2000";
    const SAID: &str = "what sets the workload up and takes it down, too";
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let evaluated = |model: &str| {
        let args = ["--workload", WORKLOAD, "--on", "mem:fast", "--json"];
        run(dir, ["model", "evaluate", model].iter().chain(&args))
    };
    let whole = evaluated("mail.fsm").exits(0);
    assert!(whole.stderr.contains(SAID), "{}", whole.stderr);
    let whole = whole.json();
    assert_eq!(
        (&whole["stands"], &whole["pace"]),
        (&true.into(), &"afap".into())
    );
    assert_eq!(
        figure(&whole, 0, "operations:open")["original"]["mean"],
        3532.0
    );
    // The model of its run alone is of fewer.
    let trace = ["run", WORKLOAD, "--role", "run", "--to-trace", "run.fst"];
    run(dir, trace).exits(0);
    run(dir, ["model", "fit", "run.fst", "-o", "run.fsm"]).exits(0);
    let of_run = evaluated("run.fsm");
    assert!(!of_run.stderr.contains(SAID), "{}", of_run.stderr);
    let of_run = of_run.json();
    let opens = figure(&of_run, 0, "operations:open");
    assert_eq!(opens["original"]["mean"], 3032.0);
    assert_eq!(opens["model"]["mean"], 3032.0);
}

#[test]
fn the_answer_comes_first_and_everything_with_details() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let args = [
        "model", "evaluate", "mail.fst", "mail.fsm", "--on", "mem:fast", "--on", "mem:disk",
    ];
    let ran = run(dir, args);
    assert!([0, 3].contains(&ran.code()));
    let text = ran.text();
    assert!(text.lines().count() <= 24, "{text}");
    for said in [
        "mail.fst",
        "mem:fast",
        "mem:disk",
        "farthest off",
        "both are fastest",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let details = run(dir, args.iter().chain(&["--details"])).text();
    for said in [
        "device",
        "hits, half the cache",
        "sequential",
        "largest distance",
    ] {
        assert!(details.contains(said), "{said}: {details}");
    }
}

#[test]
fn the_model_of_something_else_is_told_from_it() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let result = evaluate(dir, &["mail.fst", "other.fsm", "--on", "mem:fast"], 3);
    assert_eq!(result["stands"], false);
    assert!(result["missed"].as_u64().unwrap() > 5, "{result}");
    assert!(error(&result, "bytes_written") < -0.5);
    assert_eq!(figure(&result, 0, "bytes_written")["within"], false);
}

#[test]
fn a_workload_and_a_configuration_can_be_held_against_each_other() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let spec = "postmark:files=500,transactions=2000";
    let on = ["--workload", spec, "--on", "mem:fast", "-o", "out"];
    let first = evaluate(dir, &[&["mail.fsm"][..], &on].concat(), 0);
    // The trace has the set-up, so that is measured of the workload, too.
    assert!(error(&first, "operations:write").abs() < 1e-9, "{first}");
    let kept = fs::read_to_string(dir.join("out/evaluation.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), first);
    let again = run(dir, ["model", "evaluate", "mail.fsm"].iter().chain(&on));
    again.fails(2, &["--resume"]);
    let lines = || {
        fs::read_to_string(dir.join("out/runs.jsonl"))
            .unwrap()
            .lines()
            .count()
    };
    let before = lines();
    let resumed = evaluate(dir, &[&["mail.fsm"][..], &on, &["--resume"]].concat(), 0);
    assert_eq!((resumed, lines()), (first, before), "nothing is run again");
    run(dir, ["model", "fit", "mail.fst", "-o", "mail.cfg"]).exits(0);
    let result = evaluate(dir, &["mail.fst", "mail.cfg", "--on", "mem:fast"], 3);
    assert!(error(&result, "operations:unlink").abs() < 1e-9, "{result}");
}

#[test]
fn what_cannot_be_evaluated_is_refused() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let bytes = fs::read(dir.join("mail.fst")).unwrap();
    fs::write(dir.join("cut.fst"), &bytes[..bytes.len() - 100]).unwrap();
    let evaluate = |more: &[&str]| run(dir, ["model", "evaluate"].iter().chain(more));
    evaluate(&["cut.fst", "mail.fsm", "--on", "mem:fast"]).fails(1, &["cut.fst", "--allow-lossy"]);
    evaluate(&["mail.fst", "--on", "mem:fast"]).exits(2);
    evaluate(&["mail.fst", "mail.fst", "--on", "mem:fast"]).fails(2, &["mail.fst", ".fsm or .cfg"]);
    evaluate(&["mail.fst", "none.fsm", "--on", "mem:fast"]).fails(1, &["none.fsm"]);
    evaluate(&[
        "mail.fst",
        "mail.cfg",
        "--on",
        "mem:fast",
        "--model-seed",
        "1",
    ])
    .fails(2, &["--model-seed", "mail.cfg", "expected a .fsm"]);
    evaluate(&["mail.fst", "mail.fsm", "--on", "mem:none"]).fails(1, &["mem:none"]);
    evaluate(&[
        "mail.fst", "mail.fsm", "--on", "mem:fast", "--on", "mem:fast",
    ])
    .fails(1, &["stands twice"]);
    evaluate(&["mail.fsm", "--command", "true", "--on", "mem:fast"]).fails(1, &["no directory"]);
    fs::write(
        dir.join("bad.fsm"),
        "format = \"fsm\"\nversion = 1\nnonsense = 3\n",
    )
    .unwrap();
    evaluate(&["mail.fst", "bad.fsm", "--on", "mem:fast"]).fails(1, &["bad.fsm", "line 3"]);
}

#[test]
fn a_trace_of_one_operation_is_evaluated_and_one_of_none_is_refused() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let traced = |name: &str, lines: &str| {
        fs::write(dir.join("m.cfg"), format!("{HEADER}{lines}")).unwrap();
        play(dir, "filerunner:m.cfg", name);
    };
    traced("none.fst", "");
    traced("one.fst", "TIndex = 0\n0,19,0,0,0,1\n");
    run(dir, ["model", "fit", "none.fst", "-o", "none.fsm"])
        .fails(1, &["none.fst", "at least one"]);
    run(dir, ["model", "fit", "one.fst", "-o", "one.fsm"]).exits(0);
    let evaluate = |args: [&str; 2]| {
        let all = ["model", "evaluate", args[0], args[1], "--on", "mem:fast"];
        run(dir, all)
    };
    evaluate(["none.fst", "mail.fsm"]).fails(1, &["the original on mem:fast", "did nothing"]);
    evaluate(["one.fst", "one.fsm"]).exits(0);
}

#[test]
fn a_model_that_cannot_be_is_refused_with_its_line() {
    let dir = temp();
    let dir = dir.path();
    mail(dir);
    let refused = |name: &str, text: String, expected: &str| {
        fs::write(dir.join(name), text).unwrap();
        let args = ["model", "evaluate", "mail.fst", name, "--on", "mem:fast"];
        run(dir, args).fails(1, &[name, expected]);
    };
    for (line, expected) in [
        ("0,35,2,0,0,1", "line 6: directory depth 2, expected 0 to 1"),
        ("0,60,0,0,0,1", "line 6: operation 60, expected 1 to 51"),
        ("0,35,0,99999999,0,1", "line 6: I/O index 99999999 is"),
        ("0,22,0,3,0,1", "line 6: unlink with I/O index 3"),
        (
            "0,22,0,0,0,9999999999",
            "line 6: 9999999999 times unlink takes",
        ),
    ] {
        refused("bad.cfg", format!("{HEADER}TIndex = 0\n{line}\n"), expected);
    }
    let text = fs::read_to_string(dir.join("mail.fsm")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|l| l.contains("next=")).unwrap();
    for (line, expected) in [
        (
            "\"1 file=1.new next=999\",",
            "next=999, expected lines up to",
        ),
        ("\"999 file=1.new next=1\",", "visit 999, expected 1 to"),
        (
            "\"1 file=99.known:0 next=1\",",
            "'99.known:0', expected a class from 1 to",
        ),
    ] {
        let mut lines = lines.clone();
        lines[at] = line;
        let expected = format!("line {}: phase 1, part 1, script 1: ", at + 1) + expected;

        refused("bad.fsm", lines.join("\n"), &expected);
    }
}

#[test]
fn both_sides_run_on_real_file_systems() {
    let dir = temp_in_memory();
    let dir = dir.path();
    mail(dir);
    let mut targets = vec!["."];
    if root() && tool("mkfs.ext4") {
        targets.push("scratch:ext4,size=256M");
    }
    for target in targets {
        let more = [
            "other.fst",
            "other.fsm",
            "--on",
            target,
            "--runs",
            "2",
            "--cache",
            "warm",
        ];
        let args = ["model", "evaluate"].iter().chain(&more).chain(&["--json"]);
        let ran = run(dir, args);
        // How long it takes is chance on a busy machine.
        assert!([0, 3].contains(&ran.code()));
        let result = ran.json();
        assert!(error(&result, "operations:open").abs() < 1e-9, "{result}");
        assert!(error(&result, "bytes_written").abs() < 0.02, "{result}");
        assert!(figure(&result, 0, "elapsed")["original"]["low"].is_number());
        let device = target.starts_with("scratch");
        let all = result["targets"][0]["figures"].as_array().unwrap();
        assert!(
            !device || all.iter().any(|f| f["name"] == "device_writes"),
            "{result}"
        );
    }
}

#[test]
fn a_command_is_held_against_its_model_under_the_tracer() {
    if !root() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    let script = "i=0; while [ $i -lt 40 ]; do echo one two three > f$i; i=$((i+1)); done; cat f* > /dev/null; rm f*";
    fs::create_dir(dir.join("tree")).unwrap();
    let traced = ["trace", "--under", "tree", "-o", "t.fst", "--", "sh", "-c"];
    let inside = format!("cd tree; {script}");
    run(dir, traced.iter().chain(&[inside.as_str()])).exits(0);
    run(dir, ["model", "fit", "t.fst", "-o", "m.fsm"]).exits(0);
    let more = [
        "m.fsm",
        "--command",
        script,
        "--on",
        ".",
        "--runs",
        "1",
        "--cache",
        "warm",
        "--json",
    ];
    let ran = run(dir, ["model", "evaluate"].iter().chain(&more));
    assert!([0, 3].contains(&ran.code()), "{}", ran.text());
    let result = ran.json();
    assert!(error(&result, "operations:unlink").abs() < 1e-9, "{result}");
    assert_eq!(
        figure(&result, 0, "operations:unlink")["original"]["mean"],
        40.0
    );
    // The shell writes by a second name of its descriptor and closes that: no model does, and that is told.
    assert!(error(&result, "operations:close").abs() < 0.02, "{result}");
    let figures = result["targets"][0]["figures"].as_array().unwrap();
    for kind in ["dup", "advise"] {
        let name = format!("operations:{kind}");
        assert!(figures.iter().all(|f| f["name"] != name.as_str()), "{name}");
    }
    for (kind, least) in [("dup", 40), ("close", 40)] {
        let left = result["left_out"][kind].as_u64();
        assert!(left >= Some(least), "{kind}: {}", result["left_out"]);
    }
}

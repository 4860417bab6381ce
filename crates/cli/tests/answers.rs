//! What somebody sees who asks for the first time: the answer first, on one screen, and what to do next.

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

use common::{profile, run, temp};
use serde_json::Value;

fn corpus(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("corpus/traces").join(name).display().to_string()
}

/// The words of what is printed, on one screen of 80 columns.
fn screen(dir: &Path, args: &[&str]) -> String {
    let text = run(dir, args).exits(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines.len() <= 24,
        "{args:?}: {} lines:\n{text}",
        lines.len()
    );
    text
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_profile_is_shown_on_a_screen_and_all_of_it_by_details() {
    let dir = temp();
    for name in ["ext4", "xfs", "btrfs", "ext4-hdd"] {
        let file = corpus(&format!("../profiles/{name}.fsp"));
        let said = words(&screen(dir.path(), &["show", &file]));
        for part in [
            "main costs",
            "fsync a new file",
            "page cache",
            "fsage predict mine.fst --on",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let all = run(dir.path(), ["show", &file, "--details"])
            .exits(0)
            .text();
        assert!(all.lines().count() > 100, "{all}");
    }
}

#[test]
fn models_are_shown_with_what_they_do_and_what_to_do_next() {
    let dir = temp();
    let dir = dir.path();
    let trace = corpus("mail.fst");
    let fit = |output: &str| -> Value {
        run(dir, ["model", "fit", &trace, "-o", output, "--json"])
            .exits(0)
            .json()
    };
    let fsm = fit("m.fsm");
    let json = run(dir, ["show", "m.fsm", "--json"]).exits(0).json();
    for field in ["phases", "groups", "processes", "file_classes", "visits"] {
        assert_eq!(json[field], fsm[field], "{field}");
    }
    assert_eq!(json["bytes_read"], fsm["read_bytes"]["model_bytes"]);
    assert_eq!(json["bytes_written"], fsm["written_bytes"]["model_bytes"]);
    for count in fsm["counts"].as_array().unwrap() {
        let counts = json["counts"].as_array().unwrap();
        let same = counts.iter().find(|c| c["kind"] == count["kind"]);
        let shown = same.map_or(0, |c| c["operations"].as_u64().unwrap());
        // What a run does not do, or as another call, is in the fit beside.
        let otherwise = fsm["otherwise"].as_array().unwrap().iter();
        let apart: u64 = otherwise
            .filter(|other| other["kind"] == count["kind"])
            .map(|other| other["operations"].as_u64().unwrap())
            .sum();
        assert_eq!(count["model"].as_u64().unwrap(), shown + apart, "{count}");
    }
    let said = screen(dir, &["show", "m.fsm"]);
    assert!(said.contains("m.fsm: a model of a workload"), "{said}");
    assert!(
        said.contains("next: fsage run model:m.fsm scratch:ext4"),
        "{said}"
    );
    assert!(words(&said).contains("made beforehand"), "{said}");

    let cfg = fit("m.cfg");
    let json = run(dir, ["show", "m.cfg", "--json"]).exits(0).json();
    assert_eq!(json["bytes_read"], cfg["read"]["model_bytes"]);
    assert_eq!(json["files_before"], cfg["setup_files"]);
    assert_eq!(json["at_once"], cfg["threads"]);
    let said = screen(dir, &["show", "m.cfg"]);
    assert!(said.contains("m.cfg: a FileRunner configuration"), "{said}");
    assert!(
        said.contains("next: fsage run filerunner:m.cfg scratch:ext4"),
        "{said}"
    );
    for (file, title) in [("m.fsm", "phases"), ("m.cfg", "time chunks")] {
        let all = run(dir, ["show", file, "--details"]).exits(0).text();
        assert!(all.lines().any(|line| line == title), "{all}");
    }

    // What is wrong in one is told with its place, by whom it is shown.
    std::fs::write(
        dir.join("bad.fsm"),
        "# mine\nformat = \"fsm\"\nversion = 9\n",
    )
    .unwrap();
    run(dir, ["show", "bad.fsm"]).fails(1, &["bad.fsm", "version 9 is newer"]);
    std::fs::write(dir.join("bad.cfg"), "IOChunkSize = 0\n").unwrap();
    run(dir, ["show", "bad.cfg"]).fails(1, &["bad.cfg: line 1"]);
}

#[test]
fn a_model_is_of_the_form_that_its_name_or_an_option_says() {
    let dir = temp();
    let dir = dir.path();
    let trace = corpus("mail.fst");
    for name in ["m.xyz", "m", "m.FSM", "-"] {
        let args = ["model", "fit", &trace, "-o", name];
        run(dir, args).fails(2, &[".fsm", ".cfg", "--format"]);
        assert!(!dir.join(name).exists());
    }
    for (form, begin) in [("fsm", "format = \"fsm\""), ("cfg", "IOChunkSize = ")] {
        let args = ["model", "fit", &trace, "-o", "m.txt", "--format", form];
        run(dir, args).exits(0);
        let text = std::fs::read_to_string(dir.join("m.txt")).unwrap();
        assert!(text.starts_with(begin), "{text}");
        run(dir, ["show", "m.txt"]).exits(0);
    }
}

#[test]
fn changes_and_operations_of_an_aging_workload_have_a_name_each() {
    let dir = temp();
    let dir = dir.path();
    let args =
        "age generate --profile mail --size 16M --days 3 --fill 60% --scale 0.5 -o w.fst --json";
    let ran = run(dir, args.split(' ')).exits(0);
    let made = &ran.json()["made"];
    let shown = run(dir, ["show", "w.fst", "--json"]).exits(0).json();
    assert_eq!(made["trace_operations"], shown["operations"]);
    let number = |n: &Value| fsage_report::units::count(n.as_u64().unwrap());
    let (changes, all) = (number(&made["operations"]), number(&shown["operations"]));
    assert_ne!(changes, all);
    let note = format!("{changes} changes in {all} operations of the trace");
    assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    let next = "next: fsage age apply w.fst scratch:ext4,size=20M";
    assert!(ran.stderr.contains(next), "{}", ran.stderr);
    let text = screen(dir, &["show", "w.fst"]);
    let said = words(&text);
    assert!(said.contains(&format!("{all} operations in")), "{said}");
    assert!(
        said.contains(&format!("{changes} changes in these operations")),
        "{said}"
    );
    assert!(said.contains(next), "{said}");
    assert!(!said.contains("predict"), "{said}");
}

#[test]
fn computed_time_is_not_told_as_the_machines() {
    let dir = temp();
    let dir = dir.path();
    let args = [
        "run",
        "postmark:files=20,transactions=20",
        "mem:fast",
        "-o",
        "r.json",
    ];
    let said = words(&run(dir, args).exits(0).text());
    assert!(said.contains("its time is virtual"), "{said}");
    let shown = words(&run(dir, ["show", "r.json"]).exits(0).text());
    assert!(shown.contains("its time is virtual"), "{shown}");
    run(dir, ["profile", "mem:fast", "--quick", "-o", "m.fsp"]).exits(0);
    let said = words(&screen(dir, &["show", "m.fsp"]));
    assert!(
        said.contains("its time is virtual") && !said.contains("CPUs"),
        "{said}"
    );
    let args = ["run", "postmark:files=20,transactions=20", "."];
    let said = words(&run(dir, args).text());
    assert!(!said.contains("virtual"), "{said}");
}

#[test]
fn a_run_that_was_disturbed_says_so_first() {
    let dir = temp();
    let dir = dir.path();
    let args = [
        "run",
        "postmark:files=20,transactions=20",
        "mem:fast",
        "-o",
        "r.json",
    ];
    let said = run(dir, args).exits(0).text();
    assert!(
        said.starts_with("postmark on mem:fast: "),
        "computed time is disturbed by nobody: {said}"
    );
    let file = dir.join("r.json");
    let mut kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    kept["marks"] = serde_json::json!(["other processes used 1.5 processors", "and more"]);
    std::fs::write(&file, kept.to_string()).unwrap();
    let said = words(&run(dir, ["show", "r.json"]).exits(0).text());
    let caution =
        "caution: the run was disturbed (other processes used 1.5 processors; 1 more with --json)";
    assert!(said.starts_with(caution), "{said}");
}

#[test]
fn a_what_if_is_answered_first() {
    let dir = temp();
    let (trace, on) = (corpus("mail.fst"), profile("ext4").display().to_string());
    let args = ["predict", &trace, "--on", &on, "--what-if", "fsync*0.5"];
    let said = screen(dir.path(), &args);
    assert!(said.starts_with("What if fsync*0.5: on "), "{said}");
    assert!(said.contains("As profiled: "), "{said}");
}

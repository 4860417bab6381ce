//! What is made from the command line and shipped, and what is on stdout whatever a command prints.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use crate::common;

use std::path::Path;
use std::process::Command;

use common::{Ran, names, run, run_command, temp, temp_in_memory, tool};

/// Every verb that `fsage --help` shows, in its order.
fn verbs() -> Vec<String> {
    let help = run(Path::new("/"), ["-h"]).exits(0).text();
    help.lines()
        .take_while(|line| *line != "Options:")
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

#[test]
fn help_groups_the_verbs_within_80_columns() {
    let help = run_command(common::fsage().arg("--help").env("COLUMNS", "80"))
        .exits(0)
        .text();
    let groups = [
        "Capture:",
        "Measure:",
        "Predict:",
        "Experiment:",
        "Files:",
        "More:",
        "Options:",
        "Exit codes:",
    ];
    let places: Vec<usize> = groups
        .iter()
        .map(|g| help.find(&format!("\n{g}\n")).expect(g))
        .collect();
    assert!(places.is_sorted(), "{help}");
    assert!(help.lines().all(|l| l.chars().count() <= 80), "{help}");
    let verbs = verbs();
    let place = |verb: &str| verbs.iter().position(|v| v == verb).expect(verb);
    assert!(place("trace") < place("profile") && place("profile") < place("predict"));
    assert!(!help.contains("run-child"), "{help}");
}

#[test]
fn completions_parse_and_know_every_verb() {
    let dir = temp();
    run(
        dir.path(),
        ["reference", "--kind", "completions", "completions"],
    )
    .exits(0);
    let made = dir.path().join("completions");
    assert_eq!(names(&made), ["_fsage", "fsage.bash", "fsage.fish"]);
    for (name, shell) in [
        ("fsage.bash", "bash"),
        ("_fsage", "zsh"),
        ("fsage.fish", "fish"),
    ] {
        let text = std::fs::read_to_string(made.join(name)).unwrap();
        for verb in verbs() {
            assert!(text.contains(&verb), "{name} does not know {verb}");
        }
        assert!(!text.contains("run-child"), "{name} shows what is hidden");
        if tool(shell) {
            let checked = Command::new(shell)
                .args(["-n", name])
                .current_dir(&made)
                .output()
                .unwrap();
            Ran::from(checked).exits(0);
        }
    }
}

#[test]
fn bash_completes_a_verb_and_an_option() {
    if !tool("bash") {
        return;
    }
    let dir = temp();
    run(dir.path(), ["reference", "--kind", "completions", "."]).exits(0);
    let script = "source ./fsage.bash; COMP_WORDS=(fsage pre); COMP_CWORD=1; _fsage fsage pre fsage; \
                  echo \"${COMPREPLY[@]}\"; \
                  COMP_WORDS=(fsage predict --what); COMP_CWORD=2; _fsage fsage --what predict; \
                  echo \"${COMPREPLY[@]}\"";
    let said = Command::new("bash")
        .args(["-c", script])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(Ran::from(said).exits(0).text(), "predict\n--what-if\n");
}

#[test]
fn manual_pages_render() {
    let dir = temp();
    run(dir.path(), ["reference", "--kind", "man", "man"]).exits(0);
    let pages = names(&dir.path().join("man"));
    for verb in verbs().iter().filter(|verb| *verb != "help") {
        assert!(
            pages.contains(&format!("fsage-{verb}.1")),
            "{verb}: {pages:?}"
        );
    }
    assert!(pages.contains(&"fsage.1".into()) && pages.contains(&"fsage-disk-serve.1".into()));
    if !tool("man") {
        return;
    }
    for page in pages {
        let shown = Command::new("man")
            .args(["--warnings=w", "-l"])
            .arg(dir.path().join("man").join(&page))
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "80")
            .output()
            .unwrap();
        let shown = Ran::from(shown).exits(0);
        assert!(
            shown.text().contains("SYNOPSIS"),
            "{page}: {}",
            shown.text()
        );
        assert!(shown.stderr.is_empty(), "{page}: {}", shown.stderr);
        // The columns of tables stand beneath each other.
        let text = shown.text();
        assert!(
            text.lines().all(|l| l.chars().count() <= 80),
            "{page}: {text}"
        );
        if page == "fsage-predict.1" {
            assert!(
                text.contains("\n         disk*2                            a device"),
                "{text}"
            );
        }
    }
}

const LOUD: &str = "echo OF THE COMMAND; echo ITS ERROR >&2";

#[test]
fn with_json_nothing_else_is_on_stdout_whatever_a_command_prints() {
    let dir = temp_in_memory();
    let workload = format!("cmd: {LOUD}");
    let lines: [&[&str]; 4] = [
        &["run", "--json", &workload, "."],
        &[
            "bench", "--json", "--runs", "2", "--cache", "as found", "--setup", LOUD, "--target",
            ".", "--", LOUD,
        ],
        &["bench", "--json", "--runs", "2", "--", LOUD],
        &["run", "-o", "-", &workload, "."],
    ];
    for line in lines {
        let ran = run(dir.path(), line).exits(0);
        assert!(ran.json().is_object(), "{line:?}");
    }
    assert_eq!(names(dir.path()), [""; 0], "- is no file");
}

#[test]
fn results_go_to_stdout_that_is_named_by_a_dash() {
    let dir = temp_in_memory();
    common::small_trace(dir.path());
    std::fs::create_dir(dir.path().join("target")).unwrap();
    let before = names(dir.path());
    for line in [
        &[
            "run",
            "postmark:files=5,transactions=10",
            "target",
            "-o",
            "-",
        ][..],
        &["replay", "small.fst", "target", "-o", "-"],
        &["replay", "small.fst", "target", "-o", "-", "--json"],
        &[
            "profile",
            "target",
            "--only",
            "CR",
            "--max-time",
            "5s",
            "-o",
            "-",
        ],
    ] {
        let ran = run(dir.path(), line);
        assert!(matches!(ran.code(), 0 | 3), "{line:?}: {}", ran.stderr);
        assert!(ran.json().is_object(), "{line:?}");
    }
    assert_eq!(names(dir.path()), before);
}

#[test]
fn an_interrupted_command_has_a_whole_result() {
    let dir = temp_in_memory();
    let mut command = common::fsage();
    command.current_dir(dir.path());
    command.args(["run", "--json", "cmd: touch begun; sleep 60", "."]);
    let running = common::start(&mut command);
    common::until("the command to begin", || {
        let below = names(dir.path());
        below
            .iter()
            .any(|name| dir.path().join(name).join("begun").exists())
    });
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait().exits(130);
    assert_eq!(ran.json()["interrupted"], true);
}

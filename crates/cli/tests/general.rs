//! What holds for every verb: help, mistakes, a closed stdout.

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

mod common;

use std::process::Stdio;

use common::{Ran, fsage, profile, run, small_trace, temp};

const VERBS: [&str; 10] = [
    "trace",
    "import",
    "export",
    "show",
    "anonymize",
    "snapshot",
    "profile",
    "predict",
    "validate",
    "demo",
];

#[test]
fn every_verb_explains_itself() {
    let dir = temp();
    let all = run(dir.path(), ["--help"]).exits(0).text();
    for verb in VERBS {
        assert!(all.contains(verb), "{verb} is not named: {all}");
        let help = run(dir.path(), [verb, "--help"]).exits(0).text();
        assert!(help.contains("Usage: fsage"), "{help}");
        if ["trace", "show", "profile", "predict", "validate"].contains(&verb) {
            assert!(
                help.contains("Examples:\n"),
                "{verb} has no examples: {help}"
            );
        }
    }
    assert!(all.contains("Exit codes:"), "{all}");
    assert!(
        run(dir.path(), ["--version"])
            .exits(0)
            .text()
            .starts_with("fsage ")
    );
}

#[test]
fn a_wrong_command_line_is_exit_code_2() {
    let dir = temp();
    for verb in VERBS {
        let ran = run(dir.path(), [verb, "--no-such-flag"]).exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.contains("--no-such-flag"),
            "{}",
            ran.stderr
        );
    }
    for line in [
        &[][..],
        &["nosuchverb"],
        &["trace"],
        &["show"],
        &["predict", "x.fst"],
        &["trace", "--for", "soon", "--", "true"],
        &["trace", "--pid", "1", "--", "true"],
        &["trace", "--ring-mib", "0", "--", "true"],
        &["import", "x", "--from", "elsewhere", "-o", "y.fst"],
        &[
            "validate",
            "--runs",
            "0",
            "--workload",
            "postmark",
            "--target",
            "/tmp",
        ],
    ] {
        let ran = run(dir.path(), line).exits(2);
        assert!(ran.stdout.is_empty(), "{line:?}: {}", ran.text());
    }
    small_trace(dir.path());
    run(dir.path(), ["show", "small.fst", "--ops", "a..b"]).fails(2, &["a..b"]);
    run(dir.path(), ["show", "small.fst", "--ops", "5..3"]).fails(2, &["5..3", "no operation"]);
    let beyond = run(dir.path(), ["show", "small.fst", "--ops", "1000000.."]).exits(0);
    assert!(
        beyond
            .stderr
            .contains("no operation 1000000: small.fst has ")
    );
    let line = [
        "show".to_string(),
        profile("ext4").display().to_string(),
        "--ops".into(),
    ];
    run(dir.path(), line).fails(2, &["--ops", "ext4.fsp"]);
}

#[test]
fn a_closed_stdout_is_no_error() {
    let dir = temp();
    small_trace(dir.path());
    let ext4 = profile("ext4").display().to_string();
    for line in [
        &["profile", "--list"][..],
        &["show", "small.fst"],
        &["show", "small.fst", "--ops"],
        &["show", "small.fst", "--json"],
        &["predict", "small.fst", "--on", &ext4],
        &["show", &ext4],
        &["--help"],
        &["predict", "--help"],
        &["--version"],
    ] {
        let mut child = fsage()
            .current_dir(dir.path())
            .args(line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ran: Ran = child.wait_with_output().unwrap().into();
        assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""), "{line:?}");
    }
}

#[test]
fn a_full_stdout_is_an_error() {
    let dir = temp();
    small_trace(dir.path());
    for line in [&["show", "small.fst", "--json"][..], &["profile", "--list"]] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ran = fsage()
            .current_dir(dir.path())
            .args(line)
            .stdout(full)
            .output()
            .unwrap();
        Ran::from(ran).fails(1, &["stdout"]);
    }
}

#[test]
fn the_reference_pages_can_be_written_and_checked() {
    let dir = temp();
    run(dir.path(), ["reference", "docs"]).exits(0);
    run(dir.path(), ["reference", "docs", "--check"]).exits(0);
    std::fs::write(dir.path().join("docs/cli.md"), "stale").unwrap();
    run(dir.path(), ["reference", "docs", "--check"]).fails(1, &["cli.md"]);
}

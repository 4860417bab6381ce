//! Limits of the system and directories that are not there: an error names which, and what it is.

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

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{Ran, fsage, play, run_command, temp};
use fsage_testing::{root, tool};

/// What the shell does before fsage, and fsage itself, which takes its place.
fn limited(dir: &Path, limit: &str, line: &str) -> Ran {
    let binary = env!("CARGO_BIN_EXE_fsage");
    let mut command = Command::new("sh");
    let script = format!("{limit}; exec {binary} {line}");
    command.args(["-c", &script]).current_dir(dir);
    run_command(command.env("RUST_BACKTRACE", "0"))
}

/// Whatever is missing first: one error that names the limit and its value, and neither an abort nor a panic.
#[test]
fn without_memory_an_error_names_the_limit() {
    let dir = temp();
    play(dir.path(), "postmark:files=500", "t.fst");
    let mut refused = 0;
    let verbs = [
        "replay t.fst . --quiet",
        "profile . --quick --max-time 2s --only RD4 -o a.fsp",
        "bench --runs 1 -- true",
        "trace -o u.fst -- true",
    ];
    for kib in (44_000..64_000).step_by(5_000) {
        for line in verbs {
            let ran = limited(dir.path(), &format!("ulimit -c 0; ulimit -v {kib}"), line);
            // The linker of the system needs more than this.
            if ran.stderr.contains("error while loading shared libraries") {
                continue;
            }
            let said = &ran.stderr;
            assert!(!said.contains("panicked"), "{line} at {kib}: {said}");
            assert!(ran.status.code().is_some(), "{line} at {kib}: {said}");
            if said.contains("of memory: ") {
                let limit = format!("the limit of address space (ulimit -v) is {kib} KiB");
                assert!(said.contains(&limit) && said.contains("\nhint: "), "{said}");
                assert_eq!(ran.code(), 1, "{said}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "memory was to be had everywhere");
}

#[test]
fn too_few_descriptors_are_told_with_their_limit() {
    let dir = temp();
    for files in [8, 12, 16] {
        let line = "bench --runs 1 -- true";
        let limit = format!("the limit of open files (ulimit -n) is {files}: raise it");
        let ran = limited(dir.path(), &format!("ulimit -n {files}"), line);
        let said = ran.exits(1).stderr;
        assert!(
            said.contains("Too many open files") && said.contains(&limit),
            "{said}"
        );
    }
}

/// fsage as a user of its own, of whom there are no other processes.
fn crowded(dir: &Path, processes: u32, line: &str) -> Ran {
    let script = format!("ulimit -u {processes}; exec ./fsage {line}");
    let mut command = Command::new("timeout");
    let ids = ["--reuid=61234", "--regid=61234", "--clear-groups"];
    command.args(["-s", "KILL", "60", "setpriv"]).args(ids);
    // What `-u` is for bash is `-p` for other shells.
    command.args(["bash", "-c", &script]).current_dir(dir);
    run_command(command.env("RUST_BACKTRACE", "0"))
}

#[test]
fn too_few_processes_are_told_with_their_limit() {
    if !root() || !tool("setpriv") || !tool("bash") {
        return;
    }
    let dir = temp();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_fsage"), dir.path().join("fsage")).unwrap();
    for processes in [1, 2, 3] {
        let limit = format!("(ulimit -u) is {processes}");
        let said = crowded(dir.path(), processes, "bench --runs 1 -- true")
            .exits(1)
            .stderr;
        assert!(
            said.contains(
                "
hint: "
            ) && said.contains(&limit),
            "{said}"
        );
    }
    // A watch, the shell that cleans up, and no thread more: streams do not wait for one that never comes.
    let line = "profile . --quick --max-time 9s --only SC_FS_D -o a.fsp";
    for processes in 3..6 {
        let ran = crowded(dir.path(), processes, line);
        let said = &ran.stderr;
        assert!(ran.status.code().is_some(), "{processes}: {said}");
        assert!(!said.contains("panicked"), "{processes}: {said}");
    }
}

#[test]
fn a_directory_for_temporary_files_is_named_with_its_variable() {
    let dir = temp();
    let workload = "postmark:files=20";
    let profile = common::profile("ext4").display().to_string();
    let lines: [&[&str]; 3] = [
        &["bench", "--runs", "1", "--", "true"],
        &["validate", "--target", "mem:fast", "--workload", workload],
        &["predict", "--workload", workload, "--on", &profile],
    ];
    for line in lines {
        let run = |tmpdir: &str| {
            run_command(
                fsage()
                    .current_dir(dir.path())
                    .args(line)
                    .env("TMPDIR", tmpdir),
            )
        };
        run("/nowhere").fails(1, &["/nowhere, which TMPDIR names: No such file"]);
        // POSIX takes an empty one for none.
        run("").exits(0);
    }
}

//! The external commands of `examples/commands`, in a small size.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Ran, fsage, in_time, run_command, scratch, temp_in_memory, tool};
use serde_json::Value;

fn script(name: &str) -> PathBuf {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/commands");
    scripts.join(name).canonicalize().unwrap()
}

/// Every name below a directory, git's own left out, with its size.
fn tree(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if entry.file_name() == ".git" {
                continue;
            }
            if meta.is_dir() {
                left.push(entry.path());
            } else {
                found.push((entry.path(), meta.len()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_commands_run_as_workloads_and_leave_what_they_found() {
    for (program, name, files) in [
        ("cc", "compile.sh", 12),
        ("tar", "tar.sh", 45),
        ("git", "checkout.sh", 45),
    ] {
        if !tool(program) {
            continue;
        }
        let dir = temp_in_memory();
        let script = script(name);
        let setup = Command::new("sh")
            .arg(&script)
            .args(["setup", &files.to_string()])
            .current_dir(dir.path())
            .status();
        assert!(setup.unwrap().success(), "{name}");
        let before = tree(dir.path());
        assert!(before.len() >= files, "{name}");
        for _ in 0..2 {
            let mut command = fsage();
            command
                .arg("run-child")
                .arg(format!("cmd: sh {} run", script.display()))
                .arg(dir.path());
            run_command(&mut command).exits(0);
            assert_eq!(tree(dir.path()), before, "{name}");
        }
    }
}

#[test]
fn the_plan_over_them_runs() {
    if !scratch() || !["cc", "tar", "git"].into_iter().all(tool) {
        return;
    }
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let dir = temp_in_memory();
    let validated = |profile_time: &str| {
        let mut command = fsage();
        command
            .current_dir(dir.path())
            .env("EXAMPLES", script("tar.sh").parent().unwrap())
            .arg("validate")
            .arg(examples.join("validate-commands.toml"))
            .args(["--target", "scratch:ext4,size=512M", "--runs", "1"])
            .args(["--profile-time", profile_time])
            .args(["--allow-commands", "--json"]);
        run_command(&mut command)
    };
    // Beside others a short profile may not come to all that a pair needs, which is then told.
    let lacks = |result: &Value| {
        let lacking = result["not_predicted"].as_array();
        let lacking = lacking.into_iter().flatten();
        let reasons: Vec<String> = lacking.map(|l| l["reason"].to_string()).collect();
        assert!(
            reasons.iter().all(|why| why.contains(" not measured, ")),
            "{reasons:?}"
        );
        !reasons.is_empty()
    };
    let whole = |ran: &Ran| !lacks(&ran.json());
    let result = in_time(&["20s", "50s", "160s"], validated, whole)
        .exits(0)
        .json();
    assert_eq!(result["pairs"].as_array().unwrap().len(), 3);
}

//! `fsage bench` on targets that are restored before every run: from a snapshot of a tree, from an image.

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

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use common::{bench_plan, names, run, scratch, temp_in_memory, tool};
use serde_json::Value;

/// A tree with a file of several names, one with a hole and two links, and its snapshot `tree.fss`.
fn snapshot(dir: &Path) {
    let tree = dir.join("tree");
    std::fs::create_dir_all(tree.join("deep/er")).unwrap();
    std::fs::write(tree.join("deep/er/file"), vec![7; 70_000]).unwrap();
    std::fs::hard_link(tree.join("deep/er/file"), tree.join("again")).unwrap();
    std::os::unix::fs::symlink("deep/er/file", tree.join("link")).unwrap();
    std::os::unix::fs::symlink(tree.join("deep"), tree.join("absolute")).unwrap();
    let sparse = File::create(tree.join("sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    sparse.write_all_at(b"end", (40 << 20) - 3).unwrap();
    // What another scratch file system was marked with.
    std::fs::write(tree.join(".fsage-scratch"), "x").unwrap();
    run(dir, ["snapshot", "tree", "-o", "tree.fss"]).exits(0);
}

/// An image of an ext4 of 32 MiB that holds `old`, which 2000 files made and half of them removed leave.
fn image(dir: &Path) {
    let path = dir.join("aged.img");
    File::create(&path).unwrap().set_len(32 << 20).unwrap();
    std::fs::create_dir(dir.join("seed")).unwrap();
    std::fs::write(dir.join("seed/old"), "as it was\n").unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-d", "seed"])
        .arg(&path)
        .current_dir(dir)
        .status();
    assert!(made.unwrap().success());
}

/// The line of the plan that is at fault, and what is said.
fn refused(dir: &Path, plan: &str, line: usize, words: &[&str]) {
    common::plan(dir, plan);
    let at = format!("plan.toml:{line}: ");
    let words: Vec<&str> = words.iter().copied().chain([at.as_str()]).collect();
    common::bench(dir, &["plan.toml"]).fails(1, &words);
}

fn steps(run: &Value) -> Vec<&str> {
    let steps = run["steps"].as_array().unwrap();
    steps.iter().map(|s| s["name"].as_str().unwrap()).collect()
}

fn sha256(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8_lossy(&out.stdout)[..64].to_owned()
}

#[test]
fn a_tree_is_restored_before_every_run() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    snapshot(dir.path());
    // From elsewhere: the file lies beside the plan.
    std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
    let check = "test $(stat -c %s deep/er/file) = 70000 && test $(stat -c %h again) = 2 && \
                 test deep/er/file -ef again && test $(readlink link) = deep/er/file && \
                 test absolute/er/file -ef again && test $(stat -c %s sparse) = 41943040 && \
                 test $(du -k sparse | cut -f1) -lt 100 && test ! -e left && touch left && rm again";
    let btrfs = if tool("mkfs.btrfs") {
        "[[target]]\nspec = 'scratch:btrfs,size=128M'\nstate = 'snapshot:tree.fss'\n"
    } else {
        ""
    };
    let plan = format!(
        "runs = 3\n[[target]]\nname = 'ext4'\nspec = 'scratch:ext4,size=64M'\n\
         state = 'snapshot:tree.fss'\n[[target]]\nname = 'slow'\n\
         spec = 'slow:read=2:scratch:ext2,size=64M'\nstate = 'snapshot:tree.fss'\n\
         {btrfs}[[workload]]\nname = 'look'\nin_place = true\nspec = \"cmd: {check}\"\n"
    );
    common::plan(dir.path(), &plan);
    let line = ["../plan.toml", "--json", "-o", "../kept"];
    let result = common::bench(&dir.path().join("elsewhere"), &line)
        .exits(0)
        .json();
    for configuration in result["configurations"].as_array().unwrap() {
        let runs = configuration["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3);
        for run in runs {
            assert_eq!(
                steps(run)[..3],
                ["mkfs and mount", "restore", "setup"],
                "{run}"
            );
            assert_eq!(run["cold_verified"], true, "{}", run["cache_evidence"]);
        }
        let state = configuration["state"].as_str().unwrap();
        assert!(state.starts_with("snapshot:/") && state.ends_with("/tree.fss"));
        let record = &configuration["target_record"];
        assert!(record["mkfs"].is_object() && record["aged"].is_null());
        let restored = &record["restored"];
        assert_eq!(restored["kind"], "snapshot");
        assert_eq!(restored["sha256"], sha256(&dir.path().join("tree.fss")));
        assert_eq!(restored["names"], 7, "{restored}");
        let bytes = restored["data_bytes"].as_u64().unwrap();
        assert!((70_003..200_000).contains(&bytes), "{bytes}");
    }
    let said = run(dir.path(), ["check", "kept", "--json"]).exits(0).text();
    assert!(said.contains("restored from the snapshot"), "{said}");
}

#[test]
fn an_image_is_copied_before_every_run_and_never_written() {
    if !scratch() || !tool("sha256sum") {
        return;
    }
    let dir = temp_in_memory();
    image(dir.path());
    let before = sha256(&dir.path().join("aged.img"));
    let targets = |aged: &str| {
        let specs = [
            "scratch:ext4,size=64M",
            "scratch:ext4,size=64M,on=file:.",
            "scratch:ext4,size=64M,on=disk:hdd-7200",
            "slow:read=2:scratch:ext4,size=32M",
        ];
        let target = |(index, spec): (usize, &&str)| {
            format!(
                "[[target]]\nname = 't{index}'\nspec = '{spec}'\nstate = 'image:aged.img'\n{aged}"
            )
        };
        let targets: String = specs.iter().enumerate().map(target).collect();
        format!(
            "runs = 2\n{targets}[[workload]]\nname = 'look'\nin_place = true\n\
             spec = 'cmd: grep -q was old && echo new >> old && sync old && test $(wc -l < old) = 2'\n"
        )
    };
    common::plan(dir.path(), &targets("aged = 'one file, which is no age'\n"));
    let line = ["plan.toml", "--json", "-o", "kept"];
    let result = common::bench(dir.path(), &line).exits(0).json();
    for configuration in result["configurations"].as_array().unwrap() {
        for run in configuration["runs"].as_array().unwrap() {
            assert_eq!(steps(run)[..3], ["restore", "mount", "setup"]);
            assert_eq!(run["cold_verified"], true, "{}", run["cache_evidence"]);
        }
        let record = &configuration["target_record"];
        assert!(record["mkfs"].is_null(), "mkfs was not run: {record}");
        let slow = configuration["target"] == "t3";
        assert!(slow || record["file_system"] == "ext4", "{record}");
        assert!(record["total_bytes"].as_u64().unwrap() < 32 << 20);
        assert_eq!(record["restored"]["sha256"], before.as_str());
        assert_eq!(record["restored"]["bytes"], 32 << 20);
        let copied = record["restored"]["data_bytes"].as_u64().unwrap();
        assert!(copied < 16 << 20, "zeros are left out: {copied}");
    }
    assert_eq!(sha256(&dir.path().join("aged.img")), before);
    let said = run(dir.path(), ["check", "kept", "--json"]).exits(0).text();
    assert!(said.contains("aged by one file, which is no age"), "{said}");
    assert!(said.contains(&before[..16]), "{said}");
    resumed_with_another_file(dir.path(), &targets(""));
    // Without words on its age something is missing.
    let result = bench_plan(dir.path(), &targets(""));
    std::fs::write(dir.path().join("r.json"), result.to_string()).unwrap();
    let said = run(dir.path(), ["check", "r.json", "--json"])
        .exits(0)
        .text();
    assert!(said.contains("how the image was aged"), "{said}");
    // Another image under the same name is another state.
    let compared = |with: &str| {
        let line = ["compare", "r.json", with, "--json"];
        run(dir.path(), line).exits(0).json()["pairs"][0]["differences"].to_string()
    };
    assert!(!compared("kept").contains("target_record.restored"));
    let file = File::options()
        .write(true)
        .open(dir.path().join("aged.img"));
    file.unwrap().write_all_at(b"other", 10).unwrap();
    let result = bench_plan(dir.path(), &targets(""));
    std::fs::write(dir.path().join("other.json"), result.to_string()).unwrap();
    let differ = compared("other.json");
    assert!(differ.contains("target_record.restored.sha256"), "{differ}");
}

fn resumed_with_another_file(dir: &Path, plan: &str) {
    let path = dir.join("aged.img");
    let whole = std::fs::read(&path).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    // In the boot block, which no file system uses.
    file.write_all_at(b"other", 10).unwrap();
    common::plan(dir, plan);
    let line = ["plan.toml", "-o", "kept", "--resume", "--runs", "3"];
    common::bench(dir, &line).fails(
        1,
        &["aged.img is not what the runs in kept were restored from"],
    );
    // Without the plan its files are still found, and one that is over needs none.
    std::fs::remove_file(&path).unwrap();
    let line = ["-o", "../kept", "--resume", "--json"];
    std::fs::create_dir(dir.join("there")).unwrap();
    common::bench(&dir.join("there"), &line).exits(0);
    std::fs::write(&path, whole).unwrap();
    let line = ["-o", "../kept", "--resume", "--runs", "3", "--json"];
    let result = common::bench(&dir.join("there"), &line).exits(0).json();
    assert_eq!(
        result["configurations"][0]["runs"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn xfs_and_btrfs_images_are_restored() {
    if !scratch() {
        return;
    }
    for (kind, bytes) in [("xfs", 300u64 << 20), ("btrfs", 128 << 20)] {
        if !tool(&format!("mkfs.{kind}")) {
            continue;
        }
        let dir = temp_in_memory();
        let path = dir.path().join("i");
        File::create(&path).unwrap().set_len(bytes).unwrap();
        let mkfs = Command::new(format!("mkfs.{kind}"))
            .args(["-q", "-f"])
            .arg(&path)
            .status();
        assert!(mkfs.unwrap().success());
        let plan = format!(
            "runs = 3\n[[target]]\nname = 't'\nspec = 'scratch:{kind},size=400M'\nstate = 'image:i'\n\
             [[workload]]\nname = 'w'\nspec = 'postmark:files=20,transactions=50'\n"
        );
        let result = bench_plan(dir.path(), &plan);
        let only = &result["configurations"][0];
        assert_eq!(only["runs"].as_array().unwrap().len(), 3, "{result}");
        assert_eq!(only["target_record"]["file_system"], kind);
    }
}

#[test]
fn what_cannot_be_restored_is_reported_with_its_line() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    image(dir.path());
    snapshot(dir.path());
    let plan = |spec: &str, state: &str| {
        format!(
            "runs = 2\n[[target]]\nspec = '{spec}'\nstate = '{state}'\n[[workload]]\nspec = 'cmd: true'\n"
        )
    };
    let refuses = |spec: &str, state: &str, words: &[&str]| {
        refused(dir.path(), &plan(spec, state), 4, words);
    };
    refuses("scratch:ext4", "image:none", &["none", "No such file"]);
    refuses("scratch:ext4", "snapshot:none", &["none", "No such file"]);
    refuses(
        "scratch:xfs",
        "image:aged.img",
        &["holds ext4, expected xfs"],
    );
    refuses(
        "scratch:ext4,size=16M",
        "image:aged.img",
        &["33554432", "size="],
    );
    refuses("scratch:ext4", "image:tree.fss", &["no ext4 was found"]);
    refuses("scratch:ext4", "snapshot:aged.img", &["aged.img"]);
    refuses("/tmp", "image:aged.img", &["of a directory"]);
    let cut = |name: &str, bytes: u64| {
        let file = File::options().write(true).open(dir.path().join(name));
        file.unwrap().set_len(bytes).unwrap();
    };
    let whole = std::fs::metadata(dir.path().join("tree.fss")).unwrap();
    cut("aged.img", 20 << 20);
    refuses("scratch:ext4", "image:aged.img", &["truncated"]);
    cut("tree.fss", whole.len() - 5);
    refuses(
        "scratch:ext4",
        "snapshot:tree.fss",
        &["the snapshot has no end"],
    );
    // More data than there is room.
    std::fs::write(dir.path().join("tree/large"), vec![1; 20 << 20]).unwrap();
    run(dir.path(), ["snapshot", "tree", "-o", "large.fss"]).exits(0);
    refuses("scratch:ext4,size=16M", "snapshot:large.fss", &["size="]);
}

#[test]
fn a_file_that_changes_meanwhile_ends_it() {
    if !scratch() {
        return;
    }
    let dir = temp_in_memory();
    image(dir.path());
    let path = dir.path().join("aged.img");
    common::plan(
        dir.path(),
        &format!(
            "runs = 3\nkeep_going = true\n[[target]]\nname = 't'\nspec = 'scratch:ext4'\n\
             state = 'image:aged.img'\n[[workload]]\nname = 'w'\nspec = 'cmd: touch {}'\n",
            path.display()
        ),
    );
    let result = common::bench(dir.path(), &["plan.toml", "--json"])
        .exits(3)
        .json();
    assert_eq!(
        result["configurations"][0]["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    let failed = result["failed"].as_array().unwrap();
    let error = failed[0]["error"].as_str().unwrap();
    assert!(error.contains("has changed since"), "{error}");
    assert_eq!(names(dir.path()), ["aged.img", "plan.toml", "seed"]);
}

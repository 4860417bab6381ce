//! `fsage age apply`, `fsage age keep` and the target `aged:`, on real file systems.

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

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{
    Chance, bench_plan, fsage, killed_after, names, root, run, run_command, scratch, start,
    temp_in_memory, tool, until,
};
use fsage_age::made::DAY_NS;
use fsage_core::{Fd, Op, OpKind, OpSink, Outcome, PathTable, Pid, Tid};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceWriter};
use serde_json::{Value, json};

/// A small aging workload in the making: what lives is known, so that it makes sense.
pub struct Workload {
    ops: Vec<Op>,
    paths: PathTable,
    now_ns: u64,
    next_fd: i32,
}

impl Workload {
    pub fn new() -> Self {
        Self {
            ops: Vec::new(),
            paths: PathTable::new(),
            now_ns: 0,
            next_fd: 3,
        }
    }

    pub fn op(&mut self, kind: OpKind, names: &[&str]) -> &mut Op {
        self.now_ns += 1_000_000;
        let mut op = Op::new(kind, Pid(1), Tid(1), self.now_ns);
        op.path = names
            .first()
            .map(|name| self.paths.intern(name.as_bytes()).unwrap());
        op.path2 = names
            .get(1)
            .map(|name| self.paths.intern(name.as_bytes()).unwrap());
        self.ops.push(op);
        self.ops.last_mut().unwrap()
    }

    pub fn open(&mut self, name: &str, flags: u32) -> i32 {
        // Appended to from one day to the next, and so not used again meanwhile.
        let fd = if flags & 0o2000 == 0 {
            self.next_fd
        } else {
            99
        };
        self.next_fd = 3 + (self.next_fd - 2) % 40;
        let op = self.op(OpKind::Open, &[name]);
        (op.flags, op.result) = (flags, Outcome::ok(fd as u64));
        fd
    }

    pub fn write(&mut self, fd: i32, offset: u64, length: u64) {
        let op = self.op(OpKind::Write, &[]);
        (op.fd, op.offset, op.length, op.result) = (
            Some(Fd(fd)),
            Some(offset),
            Some(length),
            Outcome::ok(length),
        );
    }

    pub fn close(&mut self, fd: i32) {
        self.op(OpKind::Close, &[]).fd = Some(Fd(fd));
    }

    /// A file made of pieces of 8 KiB.
    fn file(&mut self, name: &str, bytes: u64) {
        let fd = self.open(name, 0o301);
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(8192);
            self.write(fd, at, length);
            at += length;
        }
        self.close(fd);
    }

    fn day(&mut self, day: u64) {
        self.now_ns = day * DAY_NS;
    }

    pub fn save(&self, path: &Path, made: &Value) -> PathBuf {
        let meta = TraceMeta {
            method: "test".into(),
            extra: [("aging".to_owned(), made.to_string())].into(),
            ..TraceMeta::default()
        };
        let mut writer = TraceWriter::create(path, meta).unwrap();
        for op in &self.ops {
            writer.push(op, &self.paths).unwrap();
        }
        let end = TraceEnd {
            elapsed_ns: self.now_ns,
            ..TraceEnd::default()
        };
        writer.finish(end).unwrap();
        path.to_owned()
    }

    /// Days of files that come, grow, are renamed, cut and removed in directories that do too.
    fn busy(seed: u64, days: u64, operations: u64) -> Self {
        let mut chance = Chance(seed);
        let mut this = Self::new();
        let mut live: Vec<String> = Vec::new();
        for dir in 0..20 {
            this.op(OpKind::Mkdir, &[&format!("/d{dir}")]).flags = 0o755;
        }
        let mut number = 0;
        for day in 0..days {
            this.day(day);
            // One file is open from each day to the next.
            let log = this.open(&format!("/d0/log{day}"), 0o2101);
            for _ in 0..operations / days {
                number += 1;
                let at = chance.below(live.len() as u64 + 1) as usize;
                match chance.below(10) {
                    0..=4 => {
                        let name = format!("/d{}/f{number}", chance.below(20));
                        this.file(&name, chance.below(40_000));
                        live.push(name);
                    }
                    5..=6 if at < live.len() => {
                        let name = live.swap_remove(at);
                        this.op(OpKind::Unlink, &[&name]);
                    }
                    7 if at < live.len() => {
                        let to = format!("/d{}/r{number}", chance.below(20));
                        this.op(OpKind::Rename, &[&live[at], &to]);
                        live[at] = to;
                    }
                    8 if at < live.len() => {
                        this.op(OpKind::Truncate, &[&live[at]]).length = Some(chance.below(9000));
                    }
                    9 => {
                        let (dir, link) = (format!("/d1/s{number}"), format!("/d2/l{number}"));
                        this.op(OpKind::Mkdir, &[&dir]).flags = 0o755;
                        this.op(OpKind::Symlink, &[&link, "../d1"]);
                        this.op(OpKind::Rmdir, &[&dir]);
                    }
                    _ => this.write(log, number * 100, 100),
                }
            }
            this.close(log);
        }
        this
    }
}

pub fn made(days: u64, peak_bytes: u64) -> Value {
    json!({
        "version": 1, "generator": "test", "kind": "profile", "source": "test", "seed": 1, "days": days,
        "size_bytes": 64 << 20, "block_bytes": 4096, "fill": null, "scale": 1.0, "deletes": null,
        "short_lived": null, "operations": 0, "creates": 0, "removes": 0, "modifies": 0,
        "written_bytes": 0, "peak_bytes": peak_bytes, "utilisation": [], "left_out": {},
    })
}

/// Everything below a directory: type, size, contents or target. fsage's own marks are left out.
fn tree(dir: &Path) -> BTreeMap<PathBuf, (char, u64, Vec<u8>)> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(at) = pending.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_owned();
            if name.to_string_lossy().starts_with(".fsage") || name == Path::new("lost+found") {
                continue;
            }
            let about = path.symlink_metadata().unwrap();
            let what = if about.is_dir() {
                pending.push(path);
                ('d', 0, Vec::new())
            } else if about.is_symlink() {
                (
                    'l',
                    0,
                    std::fs::read_link(&path)
                        .unwrap()
                        .into_os_string()
                        .into_encoded_bytes(),
                )
            } else {
                ('f', about.len(), std::fs::read(&path).unwrap())
            };
            found.insert(name, what);
        }
    }
    found
}

/// A file system of its own on a loop device, mounted until this is dropped.
struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    fn new(at: &Path, kind: &str, mib: u64) -> Self {
        let (image, dir) = (
            at.join(format!("{kind}.img")),
            at.join(format!("mnt-{kind}")),
        );
        let _ = std::fs::remove_file(&image);
        std::fs::File::create(&image)
            .unwrap()
            .set_len(mib << 20)
            .unwrap();
        let force = if kind.starts_with("ext") { "-F" } else { "-f" };
        let made = Command::new(format!("mkfs.{kind}"))
            .args(["-q", force])
            .arg(&image)
            .status()
            .unwrap();
        std::fs::create_dir_all(&dir).unwrap();
        let mounted = Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&dir)
            .status()
            .unwrap();
        assert!(made.success() && mounted.success());
        Self { dir }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(&self.dir).status());
    }
}

fn apply(dir: &Path, more: &[&str]) -> common::Ran {
    run(dir, ["age", "apply"].iter().chain(more))
}

/// Runs something on a file system that is aged at its first use and kept in a cache in `dir`.
fn first_use(dir: &Path, workload: &str) -> common::Ran {
    let target = format!("aged:{workload},on=scratch:ext4,size=64M");
    let line = [
        "run",
        "postmark:files=20,transactions=20",
        &target,
        "--json",
    ];
    run_command(
        fsage()
            .current_dir(dir)
            .env("XDG_CACHE_HOME", dir.join("cache"))
            .args(line),
    )
}

#[test]
fn a_workload_leads_to_the_tree_that_it_tells_of_on_every_file_system() {
    if !root() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let workload = Workload::busy(1, 4, 2000);
    workload.save(&dir.join("w.fst"), &made(4, 0));
    let mut trees = Vec::new();
    for kind in ["ext2", "ext4", "xfs", "btrfs"] {
        if !tool(&format!("mkfs.{kind}")) {
            continue;
        }
        let mounted = Mounted::new(dir, kind, 320);
        let target = mounted.dir.to_str().unwrap();
        let result = apply(dir, &["w.fst", target, "-o", "r.json", "--json"])
            .exits(0)
            .json();
        assert_eq!(result["tally"]["operations"], workload.ops.len(), "{kind}");
        assert_eq!(result["tally"]["absent"], 0, "{kind}: {}", result["tally"]);
        let days = result["days"].as_array().unwrap();
        assert_eq!(
            days.iter()
                .map(|d| d["day"].as_u64().unwrap())
                .collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
        for day in days {
            let score = day["layout_score"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&score) && day["counted_blocks"].as_u64().unwrap() > 100);
            assert!(day["utilisation"].as_f64().unwrap() > 0.0, "{day}");
        }
        assert!(!dir.join("r.json.part").exists(), "the result says it all");
        let left = tree(&mounted.dir);
        for (name, _) in left.iter().filter(|(_, what)| what.0 == 'f') {
            let modified_s = mounted.dir.join(name).metadata().unwrap().mtime();
            assert!((0..4 * 86_400).contains(&modified_s), "{kind}: {name:?}");
        }
        trees.push(left);
        let again = apply(dir, &["w.fst", target]).fails(1, &["aged already", "--resume"]);
        drop(again);
    }
    assert!(trees[0].len() > 500);
    assert!(
        trees.windows(2).all(|pair| pair[0] == pair[1]),
        "each the same"
    );
}

#[test]
fn a_run_that_is_killed_anywhere_goes_on_to_the_same_tree() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(7, 6, 12_000).save(&dir.join("w.fst"), &made(6, 0));
    let mib = 400;
    let (expected, tally, mut whole_ms) = {
        let mounted = Mounted::new(dir, "ext4", mib);
        let target = mounted.dir.to_str().unwrap();
        let start = std::time::Instant::now();
        let result = apply(dir, &["w.fst", target, "-o", "whole.json", "--json"]).json();
        let whole_ms = start.elapsed().as_millis() as u64;
        (tree(&mounted.dir), result["tally"].clone(), whole_ms)
    };
    assert_eq!(tally["absent"], 0, "{tally}");
    let mut chance = Chance(u64::from(std::process::id()));
    let (mut round, mut kills) = (0, 0);
    // A machine that has become faster since is seen by a round without a kill.
    while round < 3 || kills < 4 && round < 10 {
        round += 1;
        let mut here = 0;
        let mounted = Mounted::new(dir, "ext4", mib);
        let target = mounted.dir.to_str().unwrap().to_owned();
        let mut line = vec![
            "age",
            "apply",
            "w.fst",
            &target,
            "-o",
            "r.json",
            "--no-score",
        ];
        loop {
            // Within the time that all of it takes here; later and later, so that it ends also where nothing is fast.
            let eighth = whole_ms / 8 + 1;
            let delay = Duration::from_millis(chance.below(4 * eighth) + here * eighth);
            if !killed_after(delay, fsage().current_dir(dir).args(&line)) {
                whole_ms = if here == 0 { whole_ms / 2 } else { whole_ms };
                break;
            }
            (here, kills) = (here + 1, kills + 1);
            // Killed before it had begun, it is begun again.
            line.retain(|word| *word != "--resume");
            if mounted.dir.join(".fsage-aged").exists() {
                line.push("--resume");
            }
        }
        let result: Value =
            serde_json::from_slice(&std::fs::read(dir.join("r.json")).unwrap()).unwrap();
        let found = tree(&mounted.dir);
        let differ: Vec<_> = expected
            .iter()
            .filter(|(name, what)| found.get(*name) != Some(what))
            .map(|(name, _)| name)
            .collect();
        assert!(
            differ.is_empty() && found.len() == expected.len(),
            "round {round}: {differ:?}"
        );
        assert_eq!(result["days"].as_array().unwrap().len(), 6);
        assert_eq!(result["tally"]["operations"], tally["operations"]);
        std::fs::remove_file(dir.join("r.json")).unwrap();
    }
    assert!(kills > 3, "{kills} kills");
}

/// Days that ended after Ctrl-C, and before fsage did, had no layout score, and never got one.
#[test]
fn a_run_that_is_interrupted_anywhere_goes_on_to_the_same_result() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let days = 80;
    Workload::busy(5, days, 4000).save(&dir.join("w.fst"), &made(days, 0));
    let read = || -> Value {
        serde_json::from_slice(&std::fs::read(dir.join("r.json")).unwrap()).unwrap()
    };
    let start_at = std::time::Instant::now();
    let (expected, whole) = {
        let mounted = Mounted::new(dir, "ext4", 256);
        apply(
            dir,
            &["w.fst", mounted.dir.to_str().unwrap(), "-o", "r.json"],
        )
        .exits(0);
        (tree(&mounted.dir), read())
    };
    let whole_ms = start_at.elapsed().as_millis() as u64;
    let part = dir.join("r.json.part");
    let mut chance = Chance(u64::from(std::process::id()));
    let (mut interrupted, mut rounds) = (0, 0);
    while interrupted < 6 && rounds < 10 {
        rounds += 1;
        std::fs::remove_file(dir.join("r.json")).unwrap();
        let mounted = Mounted::new(dir, "ext4", 256);
        let target = mounted.dir.to_str().unwrap();
        let mut line = vec!["age", "apply", "w.fst", target, "-o", "r.json"];
        loop {
            let mut running = start(fsage().current_dir(dir).args(&line));
            until("it to begin", || part.exists() || running.has_ended());
            std::thread::sleep(Duration::from_millis(20 + chance.below(whole_ms / 3 + 1)));
            if running.has_ended() {
                running.wait().exits(0);
                break;
            }
            running.signal(rustix::process::Signal::INT);
            if running.wait().code() == 0 {
                // It came when all was done.
                break;
            }
            assert!(part.exists() && !dir.join("r.json").exists());
            interrupted += 1;
            line.truncate(6);
            line.push("--resume");
        }
        let result = read();
        assert_eq!(result["tally"], whole["tally"]);
        let days = |result: &Value| result["days"].as_array().unwrap().clone();
        assert_eq!(days(&result).len(), days(&whole).len());
        for (day, expected) in days(&result).iter().zip(days(&whole)) {
            assert!(day["layout_score"].is_f64(), "round {rounds}: {day}");
            assert_eq!(day["so_far"], expected["so_far"]);
        }
        assert!(tree(&mounted.dir) == expected, "round {rounds}");
        assert!(!part.exists());
    }
    assert!(interrupted >= 6, "{interrupted} interruptions");
}

/// With `--resume` a second one went on beside the first, each with what the other did.
#[test]
fn two_do_not_age_one_target_nor_keep_it_in_one_place() {
    let temp = temp_in_memory();
    let dir = temp.path();
    let workload = Workload::busy(3, 4, 20_000);
    workload.save(&dir.join("w.fst"), &made(4, 0));
    for name in ["new", "other"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    let line = ["w.fst", "new", "-o", "r.json"];
    let mut going = start(fsage().current_dir(dir).args(["age", "apply"]).args(line));
    until("it to begin", || names(&dir.join("new")).len() > 1);
    going.signal(rustix::process::Signal::STOP);
    assert!(!going.has_ended());
    let in_use = "new: it is in use by another fsage";
    let resume = [&line[..], &["--resume"]].concat();
    apply(dir, &resume).fails(1, &[in_use]);
    apply(dir, &line).fails(1, &[in_use]);
    let elsewhere = ["w.fst", "other", "-o", "r.json"];
    apply(dir, &elsewhere).fails(1, &["r.json.part: it is in use by another fsage"]);
    assert_eq!(names(&dir.join("other")), [""; 0]);
    going.signal(rustix::process::Signal::CONT);
    going.wait().exits(0);
    let result: Value =
        serde_json::from_slice(&std::fs::read(dir.join("r.json")).unwrap()).unwrap();
    assert_eq!(result["tally"]["operations"], workload.ops.len());
    apply(dir, &elsewhere).exits(0);
    assert!(tree(&dir.join("other")) == tree(&dir.join("new")));
}

#[test]
fn what_a_kill_left_is_not_gone_on_with_once_it_is_damaged() {
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(3, 4, 20_000).save(&dir.join("w.fst"), &made(4, 0));
    let line = ["age", "apply", "w.fst", "new", "-o", "r.json"];
    let part = dir.join("r.json.part");
    let mut delay = Duration::from_millis(400);
    let left = loop {
        let _ = std::fs::remove_dir_all(dir.join("new"));
        let _ = std::fs::remove_file(&part);
        std::fs::create_dir(dir.join("new")).unwrap();
        let killed = killed_after(delay, fsage().current_dir(dir).args(line));
        match std::fs::read(&part) {
            // With a day, and in the midst of the next.
            Ok(left) if killed && left.len() > 1024 => break left,
            _ if killed => delay += delay / 4,
            _ => delay /= 2,
        }
    };
    // The operation that was begun, the tally, how many bytes of days count, and a day.
    for at in [200, 232, 208, 1024 + 20] {
        let mut damaged = left.clone();
        damaged[at] ^= 4;
        std::fs::write(&part, &damaged).unwrap();
        apply(dir, &["w.fst", "new", "-o", "r.json", "--resume"])
            .fails(1, &["r.json.part", "damaged", "new target"]);
    }
    std::fs::write(&part, &left).unwrap();
    apply(dir, &["w.fst", "new", "-o", "r.json", "--resume"]).exits(0);
    assert!(!part.exists());
}

#[test]
fn a_limit_of_file_sizes_is_no_full_disk() {
    let temp = temp_in_memory();
    let dir = temp.path();
    let mut workload = Workload::new();
    for number in 0..4 {
        workload.file(&format!("/f{number}"), 200_000);
    }
    workload.save(&dir.join("w.fst"), &made(1, 0));
    std::fs::create_dir(dir.join("new")).unwrap();
    let limited = |blocks: u32, line: &str| {
        let script = format!("ulimit -f {blocks}; exec \"$FSAGE\" {line}");
        let mut shell = Command::new("/bin/bash");
        shell.current_dir(dir).env("FSAGE", fsage().get_program());
        run_command(shell.args(["-c", &script]))
    };
    let ran = limited(64, "age apply w.fst new --json").exits(3);
    let tally = &ran.json()["tally"];
    assert_eq!(
        (&tally["too_large"], &tally["no_space"]),
        (&4.into(), &0.into()),
        "{tally}"
    );
    let said = &ran.stderr;
    assert!(said.contains("(ulimit -f) is 64 KiB"), "{said}");
    let line = "run postmark:files=5,transactions=10 .";
    let ran = limited(1, line).exits(3);
    assert!(
        ran.stderr.contains("(ulimit -f) is 1 KiB"),
        "{}",
        ran.stderr
    );
    let line = "run postmark:files=5,transactions=10 . -o run.json";
    limited(1, line).fails(1, &["run.json", "(ulimit -f) is 1 KiB"]);
}

#[test]
fn a_full_disk_is_counted_and_ends() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let mut workload = Workload::new();
    for number in 0..30 {
        workload.file(&format!("/f{number}"), 1 << 20);
    }
    workload.op(OpKind::Unlink, &["/f29"]);
    workload.op(OpKind::Unlink, &["/never"]);
    workload.op(OpKind::Unlink, &["../outside"]);
    workload.op(OpKind::Unlink, &["/.fsage-aged"]);
    workload.save(&temp.path().join("w.fst"), &made(1, 0));
    for fast in [&["--json"][..], &["--json", "--fast"]] {
        let line = [&["w.fst", "scratch:ext4,size=16M"], fast].concat();
        let ran = apply(temp.path(), &line).exits(3);
        let tally = &ran.json()["tally"];
        assert!(tally["no_space"].as_u64().unwrap() > 5, "{tally}");
        assert!(
            tally["absent"].as_u64().unwrap() > 1,
            "what comes after in such a file is left out: {tally}"
        );
        assert_eq!(tally["refused"], 2, "{tally}");
        assert!(ran.stderr.contains("met a full disk"));
    }
}

#[test]
fn what_cannot_be_aged_is_said_before_anything_is_done() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let mut workload = Workload::new();
    workload.file("/f", 100);
    workload.save(&dir.join("w.fst"), &made(1, 0));
    workload.save(&dir.join("large.fst"), &made(1, 100 << 20));
    let mut newer = made(1, 0);
    newer["version"] = 9.into();
    workload.save(&dir.join("newer.fst"), &newer);
    let small = "scratch:ext4,size=32M";
    let whole = std::fs::read(dir.join("w.fst")).unwrap();
    std::fs::write(dir.join("cut.fst"), &whole[..whole.len() - 20]).unwrap();
    for (workload, said) in [
        ("large.fst", "104857600"),
        ("newer.fst", "version 9"),
        ("cut.fst", "the trace has no end"),
    ] {
        apply(dir, &[workload, small]).fails(1, &[workload, said]);
        first_use(dir, workload).fails(1, &[workload, said]);
    }
    assert!(
        !dir.join("cache/fsage/aged").exists() || names(&dir.join("cache/fsage/aged")).is_empty()
    );
    apply(dir, &["w.fst", "mem:fast"])
        .fails(1, &["age mem:fast: it has no directory on this machine"]);
    apply(dir, &["w.fst", "scratch:ext2,size=32M", "--fast"]).fails(1, &["leave --fast out"]);
    apply(dir, &["w.fst", small, "-o", "r.json", "--resume"])
        .fails(2, &["--resume needs a directory"]);
    std::fs::create_dir(dir.join("used")).unwrap();
    std::fs::write(dir.join("used/mine"), "mine").unwrap();
    apply(dir, &["w.fst", "used"]).fails(1, &["`mine` lies in it", "empty"]);
    apply(dir, &["w.fst", "used", "-o", "r.json", "--resume"]).fails(1, &["no .fsage-aged in it"]);
    assert_eq!(names(&dir.join("used")), ["mine"]);
    apply(dir, &["w.fst", small, "-o", "same.x", "--keep", "same.x"])
        .fails(2, &["-o and --keep both name same.x"]);
    first_use(dir, "w.fst").exits(0);
    run(dir, ["layout", "aged:w.fst"]).fails(1, &["w.fst is a trace", "w.fst,on=scratch:"]);
    // Another workload's state.
    std::fs::create_dir(dir.join("new")).unwrap();
    apply(dir, &["w.fst", "new", "-o", "r.json"]).exits(0);
    apply(dir, &["w.fst", "new", "-o", "r.json", "--resume"])
        .fails(1, &["r.json: it has finished already"]);
    apply(dir, &["w.fst", "new", "-o", "none.json", "--resume"])
        .fails(1, &["go on with none.json.part: it is not there"]);
    std::fs::write(dir.join("r.json.part"), vec![0; 600]).unwrap();
    apply(dir, &["w.fst", "new", "-o", "r.json", "--resume"])
        .fails(1, &["r.json.part", "no state"]);
}

#[test]
fn space_that_is_only_allocated_lies_otherwise() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    // Two files that grow in turns: written, each gets its space when it is written back.
    let mut workload = Workload::new();
    for pair in 0..40 {
        let (a, b) = (
            workload.open(&format!("/a{pair}"), 0o301),
            workload.open(&format!("/b{pair}"), 0o301),
        );
        for at in 0..12 {
            workload.write(a, at * 8192, 8192);
            workload.write(b, at * 8192, 8192);
        }
        workload.close(a);
        workload.close(b);
    }
    workload.save(&temp.path().join("w.fst"), &made(1, 0));
    let score = |more: &[&str]| {
        let line = [&["w.fst", "scratch:ext4,size=128M", "--json"], more].concat();
        apply(temp.path(), &line).exits(0).json()["layout_score"]
            .as_f64()
            .unwrap()
    };
    let (written, allocated) = (score(&[]), score(&["--fast"]));
    assert!(written > 0.99, "{written}");
    assert!(
        allocated < written,
        "{allocated} is the layout of no delayed allocation"
    );
}

/// One changed bit of an image is found without putting it back.
fn is_checked(dir: &Path, image: &str) {
    let mut damaged = std::fs::read(dir.join(image)).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(dir.join("damaged.fsi"), &damaged).unwrap();
    run(dir, ["show", "damaged.fsi"]).fails(1, &["damaged.fsi", "checksum"]);
}

#[test]
fn an_image_is_put_back_as_it_was_for_every_run() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(3, 3, 1500).save(&dir.join("w.fst"), &made(3, 0));
    let applied = apply(
        dir,
        &[
            "w.fst",
            "scratch:ext4,size=64M",
            "--keep",
            "aged.fsi",
            "--json",
        ],
    )
    .exits(0)
    .json();
    assert!(applied["kept"].as_str().unwrap().ends_with("aged.fsi"));
    assert!(
        dir.join("aged.fsi").metadata().unwrap().len() < 40 << 20,
        "sparse and compressed"
    );
    let shown = run(dir, ["show", "aged.fsi"]).exits(0).text();
    assert!(
        shown.contains("image of ext4 of 64")
            && shown.contains("3 days of w.fst")
            && shown.contains("whole: "),
        "{shown}"
    );
    is_checked(dir, "aged.fsi");
    let layout = |target: &str| {
        let plan = format!(
            "runs = 3\n[[target]]\nname = 'a'\nspec = '{target}'\n[[workload]]\nname = 'w'\nin_place = true\n\
             spec = \"cmd: find . -type f -not -name '.fsage*' | wc -l > /dev/null; test ! -e left && touch left\"\n"
        );
        bench_plan(dir, &plan)
    };
    for target in [
        "aged:aged.fsi",
        "aged:aged.fsi,mount=noatime,on=file:.",
        "slow:read=2:aged:aged.fsi",
    ] {
        let result = layout(target);
        let configuration = &result["configurations"][0];
        assert_eq!(
            configuration["runs"].as_array().unwrap().len(),
            3,
            "{target}"
        );
        let aged = configuration["target_record"]["aged"].as_str().unwrap();
        assert!(
            aged.starts_with("3 days of w.fst (SHA-256 ") && aged.contains("layout score "),
            "{aged}"
        );
    }
    let plan = "runs = 2\n[[target]]\nname = 'a'\nspec = 'scratch:ext4,size=64M'\nstate = 'image:aged.fsi'\n\
                [[workload]]\nname = 'w'\nin_place = true\nspec = 'cmd: test -d d0'\n";
    bench_plan(dir, plan);
    run(
        dir,
        [
            "run",
            "postmark:files=20,transactions=20",
            "aged:aged.fsi",
            "--json",
        ],
    )
    .exits(0);
}

#[test]
fn a_workload_ages_a_target_at_its_first_use_only() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(5, 2, 600).save(&dir.join("w.fst"), &made(2, 0));
    let run = || first_use(dir, "w.fst").exits(0);
    run();
    let kept = names(&dir.join("cache/fsage/aged"));
    assert_eq!(kept.len(), 1);
    let image = dir.join("cache/fsage/aged").join(&kept[0]);
    let first = image.metadata().unwrap().modified().unwrap();
    run();
    assert_eq!(image.metadata().unwrap().modified().unwrap(), first);
    // A damaged one is made anew.
    let whole = std::fs::read(&image).unwrap();
    std::fs::write(&image, &whole[..whole.len() / 2]).unwrap();
    run();
    assert!(image.metadata().unwrap().len() as usize > whole.len() / 2);
    // What is none is somebody's.
    std::fs::write(&image, "no image").unwrap();
    first_use(dir, "w.fst").fails(1, &["no image", "remove it first"]);
    assert_eq!(std::fs::read(&image).unwrap(), b"no image");
    let mine = dir.join("mine");
    std::fs::rename(&image, &mine).unwrap();
    std::os::unix::fs::symlink(&mine, &image).unwrap();
    first_use(dir, "w.fst").fails(1, &["no image"]);
    assert_eq!(std::fs::read(&mine).unwrap(), b"no image");
}

#[test]
fn images_that_cannot_be_used_are_refused() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(5, 1, 100).save(&dir.join("w.fst"), &made(1, 0));
    apply(
        dir,
        &["w.fst", "scratch:ext4,size=32M", "--keep", "aged.fsi"],
    )
    .exits(0);
    let whole = std::fs::read(dir.join("aged.fsi")).unwrap();
    let measure = |target: &str| run(dir, ["run", "postmark:files=2,transactions=2", target]);
    std::fs::write(dir.join("cut.fsi"), &whole[..whole.len() - 100]).unwrap();
    measure("aged:cut.fsi").fails(1, &["cut.fsi", "truncated"]);
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(dir.join("changed.fsi"), &changed).unwrap();
    measure("aged:changed.fsi").fails(1, &["changed.fsi", "checksum"]);
    let mut newer = whole;
    newer[8] = 7;
    std::fs::write(dir.join("newer.fsi"), &newer).unwrap();
    measure("aged:newer.fsi").fails(1, &["version 7 of the image format"]);
    measure("aged:none.fsi").fails(1, &["none.fsi"]);
    measure("aged:aged.fsi,size=1G").fails(1, &["aged:"]);
    run(dir, ["age", "keep", "aged.fsi", "-o", "twice.fsi"]).fails(1, &["kept already"]);
    // Features that no kernel has.
    let raw = dir.join("raw.img");
    std::fs::File::create(&raw)
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    assert!(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-O", "^metadata_csum"])
            .arg(&raw)
            .status()
            .unwrap()
            .success()
    );
    let mut bytes = std::fs::read(&raw).unwrap();
    bytes[1024 + 0x63] |= 0x40;
    std::fs::write(&raw, bytes).unwrap();
    run(dir, ["age", "keep", "raw.img", "-o", "future.fsi"]).exits(0);
    measure("aged:future.fsi").fails(1, &["future.fsi", "the image was written under kernel"]);
}

#[test]
fn a_mounted_file_system_is_kept_while_others_wait() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(9, 2, 800).save(&dir.join("w.fst"), &made(2, 0));
    let mounted = Mounted::new(dir, "ext4", 48);
    let target = mounted.dir.to_str().unwrap();
    apply(dir, &["w.fst", target]).exits(0);
    let before = tree(&mounted.dir);
    // What fsage put there is no file of it, as it lies there and in its image.
    let files = before.values().filter(|(kind, ..)| *kind == 'f').count() as u64;
    let looked_at = |target: &str| {
        let found = run(dir, ["layout", target, "--json"]).exits(0).json();
        assert_eq!(found["layouts"][0]["files"], files, "{target}: {found}");
    };
    looked_at(target);
    let kept = run(dir, ["age", "keep", target, "-o", "aged.fsi", "--json"])
        .exits(0)
        .json();
    assert_eq!(kept["aged"]["days"], 2);
    looked_at("aged.fsi");
    let empty = run(dir, ["layout", "scratch:ext4,size=50M", "--json"])
        .exits(0)
        .json();
    assert_eq!(empty["layouts"][0]["files"], 0, "{empty}");
    run(
        dir,
        ["age", "keep", target, "-o", &format!("{target}/x.fsi")],
    )
    .fails(1, &["would lie in it"]);
    run(dir, ["age", "keep", "/", "-o", "root.fsi"]).fails(1, &["the machine's root"]);
    // It is thawed, and what was kept is what was there. Of the device itself the cache has what the image was made of.
    std::fs::write(mounted.dir.join("after"), vec![7; 300_000]).unwrap();
    run(dir, ["age", "keep", target, "-o", "later.fsi"]).exits(0);
    is_there(dir, "later.fsi");
    let copy = dir.join("copy");
    let line = format!("cmd: cp -a . {}", copy.display());
    std::fs::create_dir(&copy).unwrap();
    let plan = format!(
        "runs = 1\n[[target]]\nname = 'a'\nspec = 'aged:aged.fsi'\n[[workload]]\nname = 'w'\nin_place = true\nspec = '{line}'\n"
    );
    bench_plan(dir, &plan);
    assert_eq!(tree(&copy), before);
}

#[test]
fn a_kill_while_an_image_is_made_leaves_nothing() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(11, 3, 6000).save(&dir.join("w.fst"), &made(3, 0));
    let before = names(dir);
    let line = "age apply w.fst scratch:ext4,size=200M --keep aged.fsi";
    let words = || line.split(' ');
    // How long all of it takes here.
    let start = std::time::Instant::now();
    run(dir, words()).exits(0);
    let whole_ms = start.elapsed().as_millis() as u64;
    std::fs::remove_file(dir.join("aged.fsi")).unwrap();
    let (mut chance, mut kills) = (Chance(u64::from(std::process::id())), 0);
    for _ in 0..4 {
        let delay = Duration::from_millis(whole_ms / 8 + chance.below(whole_ms * 3 / 4));
        let mut command = fsage();
        command.current_dir(dir).args(words());
        kills += u32::from(killed_after(delay, &mut command));
        // Killed behind its end, all of it is there.
        let image = dir.join("aged.fsi");
        if image.exists() {
            run(dir, ["show", "aged.fsi"]).exits(0);
            std::fs::remove_file(image).unwrap();
        }
        assert_eq!(names(dir), before);
    }
    assert!(kills > 0);
}

#[test]
fn a_kill_while_a_file_system_is_kept_thaws_it_and_leaves_nothing() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let mounted = Mounted::new(dir, "ext4", 256);
    let mut chance = Chance(1);
    let piece: Vec<u8> = (0..1 << 20).map(|_| chance.below(256) as u8).collect();
    let mut large = std::fs::File::create(mounted.dir.join("large")).unwrap();
    for _ in 0..160 {
        large.write_all(&piece).unwrap();
    }
    drop(large);
    let before = names(dir);
    let target = mounted.dir.to_str().unwrap();
    let line = ["age", "keep", target, "-o", "aged.fsi"];
    let touch = |name: &str| {
        let mut command = Command::new("touch");
        command.arg(mounted.dir.join(name)).spawn().unwrap()
    };
    let running = start(fsage().current_dir(dir).args(line));
    let mut freezer = Vec::new();
    until("the file system to be frozen", || {
        freezer = common::children(running.id());
        !freezer.is_empty()
    });
    std::thread::sleep(Duration::from_millis(50));
    let mut waits = touch("meanwhile");
    std::thread::sleep(Duration::from_millis(100));
    assert!(waits.try_wait().unwrap().is_none(), "nothing is frozen");
    running.ended_by(rustix::process::Signal::KILL, || ());
    until("what waited to go on", || {
        waits.try_wait().unwrap().is_some()
    });
    assert!(touch("after").wait().unwrap().success());
    for pid in freezer {
        common::until_gone(pid);
    }
    assert_eq!(names(dir), before);
}

#[test]
fn what_strangers_put_in_the_place_of_marks_is_not_followed() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let victim = dir.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let to = victim.to_str().unwrap();
    // In a workload.
    let mut workload = Workload::new();
    workload.op(OpKind::Symlink, &["/d", "."]);
    workload.op(OpKind::Unlink, &["/d/.fsage-aged"]);
    workload.op(OpKind::Symlink, &["/d/.fsage-aged", to]);
    workload.op(OpKind::Symlink, &["/./.fsage-aged", to]);
    workload.save(&dir.join("w.fst"), &made(1, 0));
    let ran = apply(dir, &["w.fst", "scratch:ext4,size=16M", "--json"]).exits(3);
    assert_eq!(ran.json()["tally"]["refused"], 3);
    // In an image, which also asks for a panic on its first error.
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::os::unix::fs::symlink(dir.join("new"), tree.join(".fsage-scratch")).unwrap();
    std::os::unix::fs::symlink(&victim, tree.join(".fsage-aged")).unwrap();
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-e", "panic", "-d"])
        .args([&tree, &dir.join("evil.img")])
        .arg("16M")
        .status();
    assert!(made.unwrap().success());
    run(dir, ["age", "keep", "evil.img", "-o", "evil.fsi"]).exits(0);
    let look =
        "cmd: at=$(df --output=target . | tail -1); grep -F \" $at \" /proc/self/mountinfo >&2";
    let ran = run(dir, ["run", look, "aged:evil.fsi"]).exits(0);
    for expected in ["nosuid,nodev", "errors=continue"] {
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
    }
    apply(dir, &["w.fst", "aged:evil.fsi"]).fails(1, &["it was aged already"]);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(!dir.join("new").exists());
    // A pipe is not waited for.
    let mounted = Mounted::new(dir, "ext4", 16);
    let pipe = Command::new("mkfifo")
        .arg(mounted.dir.join(".fsage-aged"))
        .status();
    assert!(pipe.unwrap().success());
    let target = mounted.dir.to_str().unwrap();
    run(dir, ["age", "keep", target, "-o", "pipe.fsi"]).exits(0);
    // Nor is what was done written through a link.
    std::os::unix::fs::symlink(&victim, dir.join("r.json.part")).unwrap();
    std::fs::create_dir(dir.join("plain")).unwrap();
    apply(dir, &["w.fst", "plain", "-o", "r.json"]).fails(1, &["r.json.part", "no state"]);
    assert!(dir.join("r.json.part").is_symlink());
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
}

/// What is named as the state was removed, whoever had made it, and so was what another target would have gone on with.
#[test]
fn what_is_no_state_of_the_target_is_not_replaced_by_one() {
    let temp = temp_in_memory();
    let dir = temp.path();
    Workload::busy(3, 4, 20_000).save(&dir.join("w.fst"), &made(4, 0));
    for name in ["one", "other"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    let part = dir.join("r.json.part");
    std::fs::write(&part, "mine\n").unwrap();
    let line = |target: &'static str| ["w.fst", target, "--no-score", "-o", "r.json"];
    apply(dir, &line("one")).fails(1, &["r.json.part", "no state", "remove it first"]);
    assert_eq!(std::fs::read(&part).unwrap(), b"mine\n");
    assert_eq!(names(&dir.join("one")), [""; 0]);
    std::fs::write(&part, "").unwrap();
    let going = start(
        fsage()
            .current_dir(dir)
            .args(["age", "apply"])
            .args(line("one")),
    );
    until("it to begin", || names(&dir.join("one")).len() > 1);
    going.signal(rustix::process::Signal::KILL);
    going.wait();
    let left = std::fs::read(&part).unwrap();
    apply(dir, &line("other")).fails(1, &["r.json.part", "another target", "--resume"]);
    assert!(std::fs::read(&part).unwrap() == left);
    assert_eq!(names(&dir.join("other")), [""; 0]);
    let resume = [&line("one")[..], &["--resume"]].concat();
    apply(dir, &resume).exits(0);
    apply(dir, &line("other")).exits(0);
}

/// Fails unless all of a file `after` is in an image.
fn is_there(dir: &Path, image: &str) {
    let out = dir.join("after");
    let line = format!("cmd: cp after {}", out.display());
    let plan = format!(
        "runs = 1\n[[target]]\nname = 'a'\nspec = 'aged:{image}'\n[[workload]]\nname = 'w'\nin_place = true\nspec = '{line}'\n"
    );
    bench_plan(dir, &plan);
    assert!(std::fs::read(out).unwrap() == vec![7; 300_000]);
}

/// Whoever writes to what he has frozen waits for ever, and no signal ends that.
#[test]
fn an_image_that_would_lie_in_what_it_is_of_freezes_nothing() {
    if !scratch() {
        return;
    }
    let temp = temp_in_memory();
    let dir = temp.path();
    let mounted = Mounted::new(dir, "ext4", 24);
    let target = mounted.dir.to_str().unwrap();
    let refused = |target: &str, output: &Path| {
        let output = output.to_str().unwrap();
        run(dir, ["age", "keep", target, "-o", output]).fails(1, &["would lie in it"]);
    };
    let link = dir.join("out.fsi");
    std::os::unix::fs::symlink(mounted.dir.join("x.fsi"), &link).unwrap();
    refused(target, &link);
    std::fs::write(mounted.dir.join("x.fsi"), "").unwrap();
    refused(target, &link);
    let inner = Mounted::new(&mounted.dir, "ext2", 4);
    refused(target, &inner.dir.join("x.fsi"));
    drop(inner);
    for name in ["upper", "work", "lower", "both"] {
        std::fs::create_dir(mounted.dir.join(name)).unwrap();
    }
    let over = format!("lowerdir={target}/lower,upperdir={target}/upper,workdir={target}/work");
    let both = mounted.dir.join("both");
    let mount = ["-t", "overlay", "overlay", "-o", &over];
    let mount = Command::new("mount").args(mount).arg(&both).status();
    if mount.unwrap().success() {
        let overlay = Mounted { dir: both };
        refused(target, &overlay.dir.join("x.fsi"));
    }
    if tool("mkfs.btrfs") && tool("btrfs") {
        let mounted = Mounted::new(dir, "btrfs", 128);
        let sub = mounted.dir.join("sub");
        let make = ["subvolume", "create"];
        let made = Command::new("btrfs").args(make).arg(&sub).output();
        assert!(made.unwrap().status.success());
        refused(mounted.dir.to_str().unwrap(), &sub.join("x.fsi"));
    }
    run(dir, ["age", "keep", target, "-o", "elsewhere.fsi"]).exits(0);
    std::fs::write(mounted.dir.join("after"), "x").unwrap();
}

/// The mark was written through the name of the target, so into what a link in its place led to.
#[test]
fn the_mark_lies_in_what_was_aged_wherever_its_name_leads_meanwhile() {
    let temp = temp_in_memory();
    let dir = temp.path();
    for name in ["target", "victim"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    Workload::busy(3, 20, 20_000).save(&dir.join("w.fst"), &made(20, 0));
    let line = ["age", "apply", "w.fst", "target"];
    let going = start(fsage().current_dir(dir).args(line));
    until("files are made", || names(&dir.join("target")).len() > 1);
    going.signal(rustix::process::Signal::STOP);
    std::fs::rename(dir.join("target"), dir.join("moved")).unwrap();
    std::os::unix::fs::symlink(dir.join("victim"), dir.join("target")).unwrap();
    std::fs::remove_file(dir.join("moved/.fsage-aged")).unwrap();
    going.signal(rustix::process::Signal::CONT);
    going.wait();
    assert_eq!(names(&dir.join("victim")), [""; 0]);
    assert!(dir.join("moved/.fsage-aged").exists());
}

#[test]
fn full_is_what_is_used_and_not_what_is_kept_for_root() {
    if !root() || !scratch() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    let line = "age generate --profile mail --size 64M --days 3 -o w.fst";
    run(dir, line.split(' ')).exits(0);
    let done = apply(dir, &["w.fst", "scratch:ext4,size=128M", "--json"]).exits(0);
    let days = done.json()["days"].clone();
    let day = days.as_array().unwrap().last().unwrap().clone();
    let number = |name: &str| day[name].as_f64().unwrap();
    let kept = 1.0 - number("available_bytes") / number("total_bytes") - number("utilisation");
    // mkfs keeps a twentieth.
    assert!((0.03..0.08).contains(&kept), "{day}");
}

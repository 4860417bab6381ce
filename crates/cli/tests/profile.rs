//! `fsage profile`: what it refuses, and that it leaves nothing behind whatever ends it.

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

use common::{
    Ran, fsage, fuse, in_time, loop_devices, names, root, run, run_command, scratch, start, temp,
    tool, until, until_detached,
};
use rustix::process::Signal;
use serde_json::Value;

/// For one metric to be measured once; the second is what a quick profile has.
const ENOUGH: [&str; 2] = ["4s", "90s"];

/// Whether a profile that is told as JSON has what its test asked for.
fn has_stat(ran: &Ran) -> bool {
    matches!(ran.code(), 0 | 3) && metric_names(&ran.json()).contains(&"STAT".to_string())
}

fn metric_names(profile: &Value) -> Vec<String> {
    let metrics = profile["metrics"].as_array().unwrap();
    metrics
        .iter()
        .map(|m| m["name"].as_str().unwrap().to_string())
        .collect()
}

#[test]
fn the_list_names_every_metric_of_the_thesis() {
    let dir = temp();
    let text = run(dir.path(), ["profile", "--list"]).exits(0).text();
    let line = ["profile", "--list", "--json"];
    let list = run(dir.path(), line).exits(0).json();
    let metrics = list["metrics"].as_array().unwrap();
    for (name, unit) in [
        ("BC", "KiB"),
        ("DNLC", "count"),
        ("LUS_BC", "ns"),
        ("RDC", "KiB/s"),
        ("RRD", "KiB/s"),
        ("WRC", "KiB/s"),
        ("OPEN", "ns"),
        ("CR", "ns"),
        ("RM", "ns"),
        ("STAT", "ns"),
        ("RENAME", "ns"),
        ("TRC", "ns"),
    ] {
        let of: Vec<&Value> = metrics.iter().filter(|m| m["name"] == name).collect();
        assert_eq!(of.len(), 1, "{name}");
        assert_eq!(of[0]["unit"], unit, "{name}");
        let sizes = format!("{name}1..");
        let is_it = |word: &str| word == name || word.starts_with(&sizes);
        assert!(text.split_whitespace().any(is_it), "{name}");
    }
}

#[test]
fn the_list_is_json_where_that_is_asked_for() {
    let dir = temp();
    let list = run(dir.path(), ["profile", "--list", "--json"])
        .exits(0)
        .json();
    assert_eq!(list["format"], "fsage list of metrics");
    assert_eq!(list["version"], 1);
    let metrics = list["metrics"].as_array().unwrap();
    let of = |name: &str| metrics.iter().find(|m| m["name"] == name).unwrap();
    assert_eq!(of("RD")["unit"], "KiB/s");
    assert_eq!(of("RD")["points"].as_array().unwrap().len(), 13);
    assert_eq!(of("STAT")["gaps_us"].as_array().unwrap().len(), 5);
}

#[test]
fn the_help_shows_a_slow_disk() {
    let dir = temp();
    let help = run(dir.path(), ["profile", "--help"]).exits(0).text();
    assert!(help.contains("on=disk:MODEL"), "{help}");
    assert!(help.contains("on=disk:hdd-7200"), "{help}");
}

/// A profile of `target` in so many seconds: what was said, and how many times as long it took, at best of three
/// where others keep the machine busy.
fn hurried(dir: &Path, target: &str, seconds: f64, bound: f64) -> (Ran, f64) {
    let mut best = hurry(dir, target, seconds);
    for _ in 1..3 {
        if best.1 < bound {
            break;
        }
        let again = hurry(dir, target, seconds);
        if again.1 < best.1 {
            best = again;
        }
    }
    best
}

fn hurry(dir: &Path, target: &str, seconds: f64) -> (Ran, f64) {
    let time = format!("{seconds}s");
    let start = std::time::Instant::now();
    let line = [
        "profile",
        target,
        "--quick",
        "--max-time",
        &time,
        "-o",
        "o.fsp",
    ];
    let ran = run(dir, line);
    (ran, start.elapsed().as_secs_f64() / seconds)
}

/// What a short time leaves out is told, the rest is sound, and it is no failure.
fn is_short(dir: &Path, ran: Ran) {
    assert!(
        ran.stderr.contains("there was no time for"),
        "{}",
        ran.stderr
    );
    let ran = ran.exits(0);
    let profile = run(dir, ["show", "o.fsp", "--json"]).exits(0).json();
    assert!(profile["incomplete"].is_null());
    let absent = profile["absent"].as_array().unwrap();
    let late = absent.iter().filter(|a| a["reason"] == "no time left");
    let reported = format!("there was no time for {} of them", late.count());
    assert!(ran.stderr.contains(&reported), "{reported}: {}", ran.stderr);
    // Each is measured or absent, and what is measured is so many samples and lies in its interval.
    let measured = metric_names(&profile);
    assert!(measured.contains(&"EMPTY".to_string()));
    let missing = absent.iter().map(|a| a["name"].as_str().unwrap());
    let all: Vec<&str> = measured.iter().map(String::as_str).chain(missing).collect();
    let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(once.len(), all.len(), "{all:?}");
    assert!(all.len() > 300, "{}", all.len());
    for metric in profile["metrics"].as_array().unwrap() {
        let value = |key: &str| metric[key].as_f64();
        let estimate = value("estimate").unwrap();
        assert!(estimate.is_finite() && estimate >= 0.0, "{metric}");
        assert!(value("runs").unwrap() >= 1.0, "{metric}");
        if let (Some(low), Some(high)) = (value("low"), value("high")) {
            assert!(low <= estimate && estimate <= high, "{metric}");
        }
    }
}

#[test]
fn a_profile_of_a_directory_keeps_to_its_time() {
    let dir = temp();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let (ran, times) = hurried(dir.path(), "t", 4.0, 3.0);
    is_short(dir.path(), ran);
    assert!(names(&dir.path().join("t")).is_empty());
    // A fifth is what it should be; a disk that others write to keeps a single call for longer.
    assert!(times < 3.0, "{times:.1} times as long as asked");
}

#[test]
fn a_profile_of_a_scratch_file_system_keeps_to_its_time() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let (ran, times) = hurried(dir.path(), "scratch:ext4,size=512M", 4.0, 1.8);
    is_short(dir.path(), ran);
    assert!(times < 1.8, "{times:.1} times as long as asked");
}

#[test]
fn what_was_asked_for_and_is_missing_ends_with_3() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        fsage_testing::not_run("needs a file system in memory");
        return;
    }
    let target = tempfile::tempdir_in(shm).unwrap();
    let dir = temp();
    let place = target.path().to_str().unwrap();
    let profile = |more: &[&str]| {
        let mut line = vec!["profile", place, "--quick", "-o", "o.fsp"];
        line.extend(more);
        run(dir.path(), line)
    };
    profile(&["--only", "STAT,RD4", "--max-time", "2s"]).exits(3);
    profile(&["--max-time", "3s"]).exits(0);
    // The cold metrics that memory does not have are told all the same.
    let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
    assert!(!profile["absent"].as_array().unwrap().is_empty());
}

#[test]
fn a_target_that_failed_ends_with_3() {
    if !common::root() {
        return;
    }
    let dir = temp();
    let script =
        "mount -t tmpfs -o size=64k none t && exec \"$0\" profile t --quick --max-time 2s -o o.fsp";
    std::fs::create_dir(dir.path().join("t")).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_fsage")])
        .current_dir(dir.path());
    let ran = common::run_command(&mut command).exits(3);
    assert!(ran.stderr.contains("the target failed"), "{}", ran.stderr);
}

#[test]
fn reads_from_a_disk_are_not_faster_than_the_disk() {
    if !scratch() || !fuse() {
        return;
    }
    let dir = temp();
    let target = "scratch:ext4,size=4G,on=disk:hdd-7200";
    let line = ["profile", target, "--quick", "--only", "RD", "-o", "o.fsp"];
    let measured = |time| -> Vec<(String, f64)> {
        let ran = run(dir.path(), line.iter().chain(&["--max-time", time]));
        assert!(matches!(ran.code(), 0 | 3), "{}", ran.stderr);
        let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
        let metrics = profile["metrics"].as_array().unwrap();
        let rates = metrics.iter().filter(|m| m["unit"] == "KiB/s");
        rates
            .map(|m| (m["name"].as_str().unwrap(), m["estimate"].as_f64().unwrap()))
            .filter(|(name, _)| name.starts_with("RD"))
            .map(|(name, estimate)| (name.to_owned(), estimate))
            .collect()
    };
    let rates = in_time(&["10s", "25s"], measured, |rates| rates.len() > 4);
    assert!(rates.len() > 4, "{rates:?}");
    for (name, kib_per_s) in rates {
        // The model's outermost zone gives 202 MB/s; what the drive reads on while the reader waits for a processor comes on top.
        assert!(kib_per_s < 300_000.0, "{name}: {kib_per_s} KiB/s");
    }
}

#[test]
fn what_cannot_be_profiled_is_refused_before_anything_happens() {
    let dir = temp();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let quick = |target: &str, only: &str, output: &str| {
        run(
            dir.path(),
            ["profile", target, "--quick", "--only", only, "-o", output],
        )
    };
    quick("t", "STATT", "o.fsp").fails(1, &["STATT", "STAT"]);
    quick("nowhere", "STAT", "o.fsp").fails(1, &["nowhere", "No such file"]);
    quick("file", "STAT", "o.fsp").fails(1, &["file", "ot a directory"]);
    quick("t", "STAT", "nowhere/o.fsp").fails(1, &["nowhere/o.fsp"]);
    quick("t", "STAT", "t").fails(1, &["t", "directory"]);
    for spec in [
        "scratch:",
        "scratch:ext4,size=soon",
        "scratch:ext4,colour=red",
    ] {
        quick(spec, "STAT", "o.fsp").fails(1, &[spec, "hint: "]);
    }
    assert_eq!(names(dir.path()), ["file", "t"]);
    assert!(names(&dir.path().join("t")).is_empty());
    run(dir.path(), ["profile", "-o", "o.fsp"]).exits(2);
    run(dir.path(), ["profile", "t"]).exits(2);
}

#[test]
fn a_directory_is_left_as_it_was_found() {
    let dir = temp();
    let target = dir.path().join("t");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("mine"), "stays").unwrap();
    let line = [
        "profile", "t", "--quick", "--only", "STAT", "-o", "o.fsp", "--json",
    ];
    let profiled = |time| run(dir.path(), line.iter().chain(&["--max-time", time]));
    let ran = in_time(&ENOUGH, profiled, has_stat);
    assert!(matches!(ran.code(), 0 | 3), "{}", ran.stderr);
    let profile = ran.json();
    assert!(metric_names(&profile).contains(&"STAT".to_string()));
    assert_eq!(names(&target), ["mine"]);
    let shown = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
    assert_eq!(shown, profile);
    run(dir.path(), ["show", "o.fsp"]).exits(0);
}

#[test]
fn an_ordinary_user_profiles_a_directory() {
    if !root() || !tool("setpriv") {
        return;
    }
    let dir = temp();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_fsage"), dir.path().join("fsage")).unwrap();
    let nobody = |target: &str, time: &str| {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid",
                "65534",
                "--regid",
                "65534",
                "--clear-groups",
                "--",
                "./fsage",
            ])
            .args([
                "profile", target, "--quick", "--only", "STAT,RDC", "-o", "o.fsp",
            ])
            .args(["--json", "--max-time", time])
            .current_dir(dir.path());
        run_command(&mut command)
    };
    std::fs::create_dir(dir.path().join("closed")).unwrap();
    nobody("closed", ENOUGH[0]).fails(1, &["closed", "ermission denied"]);
    nobody("scratch:ext4", ENOUGH[0]).fails(1, &["root", "hint: "]);
    std::fs::create_dir(dir.path().join("open")).unwrap();
    std::fs::set_permissions(
        dir.path().join("open"),
        std::fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    let ran = in_time(&ENOUGH, |time| nobody("open", time), has_stat);
    assert!(matches!(ran.code(), 0 | 3), "{}", ran.stderr);
    let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
    assert!(metric_names(&profile).contains(&"STAT".to_string()));
    assert_eq!(profile["environment"]["machine"]["privileged"], false);
    assert!(names(&dir.path().join("open")).is_empty());
}

/// Starts a profile of `t` in `dir` that takes long enough to be stopped, and waits until it has
/// begun to measure there.
fn long_profile(dir: &Path) -> common::Running {
    let target = dir.join("t");
    std::fs::create_dir(&target).unwrap();
    let running = start(
        fsage()
            .current_dir(dir)
            .args(["profile", "t", "-o", "o.fsp"]),
    );
    until("the profile to begin", || {
        names(&target)
            .first()
            .is_some_and(|name| !names(&target.join(name)).is_empty())
    });
    running
}

#[test]
fn an_interrupted_profile_keeps_what_it_has() {
    let dir = temp();
    let running = long_profile(dir.path());
    let ran = running.ended_by(Signal::INT, || {});
    assert!(names(&dir.path().join("t")).is_empty(), "{}", ran.stderr);
    let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
    let reason = profile["incomplete"].as_str().unwrap();
    assert!(reason.starts_with("interrupted after"), "{reason}");
    assert!(ran.stderr.contains("not whole"), "{}", ran.stderr);
    let shown = run(dir.path(), ["show", "o.fsp"]).exits(0).text();
    assert!(shown.contains("not whole: interrupted"), "{shown}");
    let absent = profile["absent"].as_array().unwrap();
    assert!(!absent.is_empty());
    assert!(
        absent
            .iter()
            .all(|a| !a["reason"].as_str().unwrap().is_empty())
    );
}

/// Minutes of measuring are not lost to a Ctrl-C at the next.
#[test]
fn a_part_does_not_replace_a_whole_profile() {
    let dir = temp();
    let output = dir.path().join("o.fsp");
    let whole = std::fs::read(common::profile("ext4")).unwrap();
    std::fs::write(&output, &whole).unwrap();
    let ran = long_profile(dir.path()).ended_by(Signal::INT, || {});
    assert!(std::fs::read(&output).unwrap() == whole, "{}", ran.stderr);
    let said = "o.fsp holds a whole profile and stays as it was";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    let part = run(dir.path(), ["show", "o.fsp.part", "--json"])
        .exits(0)
        .json();
    assert!(part["incomplete"].is_string());
    // Nor what others have under the name that a part would get.
    std::fs::write(dir.path().join("o.fsp.part"), "mine").unwrap();
    let line = ["profile", "t", "--quick", "--only", "BS", "-o", "o.fsp"];
    run(dir.path(), line).fails(1, &["o.fsp.part", "remove it first"]);
    let theirs = std::fs::read(dir.path().join("o.fsp.part")).unwrap();
    assert_eq!(theirs, b"mine");
}

#[test]
fn a_killed_profile_leaves_the_directory_empty() {
    let dir = temp();
    let running = long_profile(dir.path());
    running.ended_by(Signal::KILL, || {});
    until("the working directory to go", || {
        names(&dir.path().join("t")).is_empty()
    });
    assert!(!dir.path().join("o.fsp").exists());
}

#[test]
fn a_killed_profile_leaves_no_loop_device() {
    if !scratch() {
        return;
    }
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let dir = temp();
        let line = [
            "profile",
            "scratch:ext4,size=256M",
            "--quick",
            "-o",
            "o.fsp",
        ];
        let running = start(fsage().current_dir(dir.path()).args(line));
        let pid = running.id();
        until("the file system to be mounted", || {
            !loop_devices(pid).is_empty()
        });
        let devices = loop_devices(pid);
        running.ended_by(signal, || {});
        until_detached(&devices);
    }
}

#[test]
fn a_profile_kept_on_one_cpu_says_so() {
    let dir = temp();
    std::fs::create_dir(dir.path().join("t")).unwrap();
    for one in [true, false] {
        let mut line = vec!["profile", "t", "--quick", "--only", "STAT", "-o", "o.fsp"];
        line.extend(["--max-time", ENOUGH[0]]);
        line.extend(one.then_some("--one-cpu"));
        let ran = run(dir.path(), line);
        assert!([0, 3].contains(&ran.code()), "{}", ran.stderr);
        let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
        let said = &profile["measurement"]["one_cpu"];
        assert_eq!(said.is_string(), one, "{said}");
        if one {
            assert!(said.as_str().unwrap().starts_with("CPU "), "{said}");
        }
    }
}

#[test]
fn a_full_disk_ends_in_a_profile_or_one_error() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let line = [
        "profile",
        "scratch:ext4,size=8M",
        "--quick",
        "--only",
        "CR,TR1024,WRO",
        "-o",
        "o.fsp",
        "--max-time",
        "15s",
    ];
    let ran = run(dir.path(), line);
    match ran.code() {
        0 | 3 => {
            let profile = run(dir.path(), ["show", "o.fsp", "--json"]).exits(0).json();
            for absent in profile["absent"].as_array().unwrap() {
                assert!(!absent["reason"].as_str().unwrap().is_empty(), "{absent}");
            }
        }
        _ => drop(ran.fails(1, &[])),
    }
}

/// Where administrators' programs are is empty for it.
fn without_tools(dir: &Path, target: &str) -> Ran {
    let hides = "mount -t tmpfs none /usr/sbin && exec \"$0\" \"$@\"";
    let program = fsage().get_program().to_owned();
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "--propagation", "private", "sh", "-c", hides]);
    unshared.arg(program).current_dir(dir);
    run_command(unshared.args([
        "profile", target, "--quick", "--only", "STAT", "-o", "o.fsp",
    ]))
}

#[test]
fn a_missing_mkfs_names_its_package() {
    if !root() {
        return;
    }
    let dir = temp();
    for (kind, package) in [
        ("ext4", "e2fsprogs"),
        ("xfs", "xfsprogs"),
        ("btrfs", "btrfs-progs"),
    ] {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap();
        if known.lines().any(|line| line.trim() == kind) {
            without_tools(dir.path(), &format!("scratch:{kind}"))
                .fails(1, &[&format!("mkfs.{kind}"), package]);
        }
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_kind_that_the_kernel_does_not_know_is_one_error() {
    if !root() {
        return;
    }
    let dir = temp();
    for kind in ["nosuchfs", "minix"] {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap();
        if !known.lines().any(|line| line.trim() == kind) {
            let target = format!("scratch:{kind}");
            let ran = run(
                dir.path(),
                [
                    "profile", &target, "--quick", "--only", "STAT", "-o", "o.fsp",
                ],
            );
            let ran = ran.fails(1, &[kind, "hint: "]);
            assert!(!ran.stderr.contains("install of"), "{}", ran.stderr);
        }
    }
    assert!(names(dir.path()).is_empty());
}

#[test]
fn a_target_is_called_what_its_specification_says() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let target = "scratch:ext4,size=64M,name=fast";
    let line = [
        "profile", target, "--quick", "--only", "STAT", "-o", "x.fsp",
    ];
    let profiled = |time| run(dir.path(), line.iter().chain(&["--max-time", time]));
    in_time(&ENOUGH, profiled, |ran| ran.code() == 0).exits(0);
    let shown = run(dir.path(), ["show", "x.fsp", "--json"]).exits(0).json();
    assert_eq!(shown["name"], "fast");
    // Two that differ in nothing else can be told apart.
    let plan = "runs = 1\ncache = 'as found'\n[[target]]\nspec = 'scratch:ext4,size=64M,name=A'\n\
                [[target]]\nspec = 'scratch:ext4,size=64M,name=B'\n\
                [[workload]]\nname = 'w'\nspec = 'postmark:files=5,transactions=5'\n";
    std::fs::write(dir.path().join("plan.toml"), plan).unwrap();
    let result = run(dir.path(), ["bench", "plan.toml", "--json"])
        .exits(0)
        .json();
    let names: Vec<&str> = result["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["A / w", "B / w"]);
}

/// A procedure that fails or has no time left leaves no file open: what stays open cannot be unmounted.
#[test]
fn a_full_target_is_unmounted_all_the_same() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    for stem in ["WR", "WM"] {
        let line = ["profile", "scratch:ext4,size=12M", "--quick"];
        let ran = fsage()
            .current_dir(dir)
            .args(line)
            .args(["--only", stem, "--max-time", "6s", "-o", stem])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        // A metric may be missing.
        assert!(matches!(ran.status.code(), Some(0 | 3)), "{said}");
        assert!(dir.join(stem).exists(), "{said}");
    }
}

//! Slowed file systems from outside: one served by hand, slowed targets of experiments, and what is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for, and times compared"
)]

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{
    Running, fsage, loop_devices, names, root, run, scratch, start, temp, temp_in_memory, until,
    until_detached,
};
use rustix::fs::Advice;
use rustix::process::Signal;
use serde_json::Value;

/// Whether directories can be served here.
fn fuse() -> bool {
    fsage_testing::fuse() && root()
}

/// `dir/lower` served at `dir/slow`.
fn served(dir: &Path, more: &[&str]) -> Running {
    for name in ["lower", "slow"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    fs::write(dir.join("lower/known"), b"beneath").unwrap();
    let line = ["slowfs", "lower", "slow"];
    let running = start(fsage().current_dir(dir).args(line).args(more));
    until("the mount", || dir.join("slow/known").exists());
    running
}

/// The mounts of this namespace below a directory.
fn mounts(dir: &Path) -> Vec<String> {
    let place = dir.canonicalize().unwrap().display().to_string();
    let all = fs::read_to_string("/proc/self/mounts").unwrap();
    all.lines()
        .filter(|line| line.contains(&place))
        .map(str::to_owned)
        .collect()
}

/// What was done of one operation.
fn done<'a>(statistics: &'a Value, operation: &str) -> &'a Value {
    let all = statistics["operations"].as_array().unwrap();
    all.iter()
        .find(|o| o["operation"] == operation)
        .unwrap_or_else(|| panic!("{operation}: {statistics}"))
}

/// How long a cold read of `slow/file` takes that is in the page cache beneath.
fn read_time(file: &Path) -> Duration {
    let open = fs::File::open(file).unwrap();
    rustix::fs::fadvise(&open, 0, None, Advice::DontNeed).unwrap();
    let mut data = vec![0; 4 << 20];
    let start = Instant::now();
    open.read_exact_at(&mut data, 0).unwrap();
    start.elapsed()
}

#[test]
fn a_factor_holds_for_reads_and_for_nothing_else() {
    if !fuse() {
        return;
    }
    let dir = temp_in_memory();
    let dir = dir.path();
    let measured = |slow: &str| {
        let running = served(dir, &["--slow", slow, "--json"]);
        fs::write(dir.join("lower/data"), vec![7; 4 << 20]).unwrap();
        let shortest = (0..9).map(|_| read_time(&dir.join("slow/data"))).min();
        running.signal(Signal::INT);
        (shortest.unwrap(), running.wait().exits(0).json())
    };
    let (plain, before) = measured("none");
    let (slow, after) = measured("read=16");
    assert_eq!(
        (&before["slow"], &after["slow"]),
        (&"none".into(), &"read=16".into())
    );
    let took = |o: &Value, what: &str| o[what].as_f64().unwrap();
    let (was, is) = (done(&before, "read"), done(&after, "read"));
    assert!(
        took(was, "calls") >= 9.0 && took(was, "added_ns") < 1.0,
        "{was}"
    );
    // Every read took sixteen times its own time, or more where the processor was not to be had.
    let factor = 1.0 + took(is, "added_ns") / took(is, "own_ns");
    assert!(factor > 15.9, "{is}");
    // What was asked for is just that, whoever else had the processor.
    let asked = (took(is, "added_ns") - took(is, "late_ns")) / took(is, "own_ns");
    assert!((asked - 15.0).abs() < 0.001, "{asked} {is}");
    assert!(took(done(&after, "open"), "added_ns") < 1.0, "{after}");
    // What FUSE itself costs is not multiplied, so less of it is seen above; and a busy machine spoils
    // one side or the other.
    assert!(
        slow > plain * 2 && slow < plain * 400,
        "{slow:?} slowed, {plain:?} not"
    );
}

#[test]
fn what_cannot_be_is_one_error() {
    let dir = temp();
    let dir = dir.path();
    for name in ["lower/inner", "full/x"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    let slow = |slow: &str| run(dir, ["slowfs", "lower", "slow", "--slow", slow]);
    let usage = |ran: common::Ran, word: &str| {
        let ran = ran.exits(2);
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    };
    usage(slow("reads=2"), "unknown operation 'reads'");
    usage(slow("read"), "OPERATION=FACTOR");
    usage(slow("read=0.5"), "a factor from 1 to 1000000");
    usage(slow("read=1e9"), "a factor from 1 to 1000000");
    run(dir, ["slowfs", "missing", "full"]).fails(1, &["missing"]);
    run(dir, ["slowfs", "lower", "missing"]).fails(1, &["missing"]);
    run(dir, ["slowfs", "lower", "full"]).fails(1, &["full", "expected an empty directory"]);
    run(dir, ["slowfs", "lower", "lower/inner"]).fails(1, &["inner", "lies within"]);
    let target = |t: &str| run(dir, ["run", "postmark:files=9,transactions=9", t]);
    target("slow:read=32").fails(1, &["slow:read=32", "slow:SLOWING:TARGET"]);
    target("slow:reads=32:lower").fails(1, &["unknown operation 'reads'"]);
    target("slow:read=2:slow:read=2:lower").fails(1, &["not slowed itself"]);
    target("slow:read=2:scratch:ext4,size=much").fails(1, &["much"]);
    if fuse() {
        target("slow:read=2:nowhere").fails(1, &["nowhere"]);
    }
    fs::write(
        dir.join("plan.toml"),
        "runs = 1\n[[target]]\nspec = \"slow:read=2x:scratch:ext4\"\n[[workload]]\nspec = \"postmark\"\n",
    )
    .unwrap();
    run(
        dir,
        ["validate", "plan.toml", "--allow-commands", "--allow-paths"],
    )
    .fails(1, &["plan.toml:3", "'read=2x'"]);
}

#[test]
fn a_signal_and_an_unmount_end_it() {
    if !fuse() {
        return;
    }
    let dir = temp();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let running = served(dir.path(), &[]);
        running.signal(signal);
        let ran = running.wait().exits(0);
        assert!(ran.text().contains("lookup"), "{}", ran.text());
        assert_eq!(mounts(dir.path()), [""; 0]);
    }
    let running = served(dir.path(), &[]);
    fsage_host::scratch::unmount(&dir.path().join("slow"), Duration::from_secs(5)).unwrap();
    running.wait().exits(0);
    assert_eq!(names(&dir.path().join("lower")), ["known"]);
}

#[test]
fn a_kill_answers_with_errors_and_leaves_no_mount() {
    if !fuse() {
        return;
    }
    let dir = temp();
    let mut running = served(dir.path(), &[]);
    let file = fs::File::open(dir.path().join("slow/known")).unwrap();
    running.signal(Signal::KILL);
    assert_eq!(running.code(), None);
    assert!(file.read_at(&mut [0; 8], 0).is_err());
    until("the dead mount to go", || mounts(dir.path()).is_empty());
}

#[test]
fn in_use_is_said_and_who_uses_it_keeps_it() {
    if !fuse() {
        return;
    }
    let dir = temp();
    let slow = dir.path().join("slow");
    let mut running = served(dir.path(), &[]);
    let file = fs::File::create(slow.join("f")).unwrap();
    running.signal(Signal::INT);
    until("the mount to be out of sight", || {
        mounts(dir.path()).is_empty()
    });
    assert!(!running.has_ended());
    file.write_all_at(b"kept", 0).unwrap();
    drop(file);
    let ran = running.wait().exits(0);
    assert!(ran.stderr.contains("is in use"), "{}", ran.stderr);
    assert_eq!(fs::read(dir.path().join("lower/f")).unwrap(), b"kept");
    // A second signal ends it at once.
    let running = served(dir.path(), &[]);
    let file = fs::File::open(slow.join("known")).unwrap();
    running.signal(Signal::INT);
    until("the mount to be out of sight", || {
        mounts(dir.path()).is_empty()
    });
    // Signals at once are one request.
    std::thread::sleep(std::time::Duration::from_millis(150));
    running.signal(Signal::INT);
    running.wait().exits(130);
    assert!(file.read_at(&mut [0; 8], 0).is_err());
}

/// The daemon of a slowed target that a process has started.
fn daemon(pid: u32) -> Option<u32> {
    let children = format!("/proc/{pid}/task/{pid}/children");
    let children = fs::read_to_string(children).unwrap_or_default();
    children
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .find(|child: &u32| {
            let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.windows(6).any(|w| w == b"slowfs")
        })
}

fn until_gone(pid: u32) {
    let path = format!("/proc/{pid}/stat");
    until("the daemon to go", || {
        fs::read_to_string(&path).map_or(true, |s| s.contains(") Z "))
    });
}

#[test]
fn a_slowed_scratch_file_system_is_a_target() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let target = "slow:read=32,lookup=4:scratch:ext4,size=64M";
    let line = [
        "run",
        "postmark:files=50,transactions=200",
        target,
        "--json",
    ];
    let ran = run(dir.path(), line).exits(0).json();
    assert_eq!(ran["target"], target);
    let record = &ran["environment"]["target"];
    assert_eq!(record["file_system"], "fuse.fsage-slowfs");
    assert_eq!(record["parameters"]["slowed"], "read=32,lookup=4");
    assert_eq!(record["parameters"]["lower_file_system"], "ext4");
    // The device is the one beneath.
    assert_eq!(record["devices"][0]["kind"], "loop");
    // A cold state reaches the file system beneath: the suite refuses reads that no device has seen.
    let target = "slow:none:scratch:ext4,size=256M";
    let line = [
        "profile", target, "--quick", "--only", "RD64", "-o", "x.fsp",
    ];
    run(dir.path(), line).exits(0);
    let shown = run(dir.path(), ["show", "x.fsp", "--json"]).exits(0).json();
    assert_eq!(shown["metrics"][0]["name"], "RD64", "{shown}");
    assert_eq!(
        shown["measurement"]["cold_method"], "remount",
        "{}",
        shown["measurement"]
    );
}

#[test]
fn a_slowed_directory_is_a_target_and_keeps_nothing() {
    if !fuse() {
        return;
    }
    let dir = temp_in_memory();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/mine"), b"mine").unwrap();
    let line = ["run", "postmark:files=20,transactions=50", "slow:all=2:d"];
    run(dir.path(), line).exits(0);
    let line = ["run", "cmd:cat ../mine > copy; cat copy", "slow:read=2:d"];
    run(dir.path(), line).exits(0);
    assert_eq!(names(&dir.path().join("d")), ["mine"]);
    assert_eq!(mounts(dir.path()), [""; 0]);
}

/// With too little memory for it nothing is mounted, and the error says why.
#[test]
fn without_memory_for_its_threads_nothing_is_mounted() {
    if !fuse() {
        return;
    }
    let dir = temp_in_memory();
    for name in ["d", "m"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    for kib in [150_000, 300_000, 500_000] {
        let script = format!("ulimit -v {kib}; exec \"$0\" slowfs d m");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_fsage")]);
        let ran = common::run_command(command.current_dir(dir.path()));
        ran.fails(1, &["MiB of memory are not to be had"]);
        assert_eq!(mounts(dir.path()), [""; 0]);
    }
}

/// With too little memory for it the daemon ends, and the error says of what.
#[test]
fn a_daemon_without_memory_says_so() {
    if !fuse() {
        return;
    }
    let dir = temp_in_memory();
    fs::create_dir(dir.path().join("d")).unwrap();
    for kib in [200_000, 300_000, 500_000, 1_000_000] {
        let script = format!("ulimit -v {kib}; exec \"$0\" -q run postmark:files=9 slow:read=2:d");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_fsage")]);
        let ran = common::run_command(command.current_dir(dir.path()));
        if ran.code() != 0 {
            // The least of them has no room for what comes before.
            let said = ["memory allocation of", "not to be had"];
            let said = said.into_iter().find(|said| ran.stderr.contains(said));
            ran.fails(1, &["fsage: failed to", said.unwrap_or("not to be had")]);
        }
    }
    assert_eq!(names(&dir.path().join("d")), [""; 0]);
    assert_eq!(mounts(dir.path()), [""; 0]);
}

/// A run on a slowed ext4 that goes on for long, once its daemon is there.
fn long_run(dir: &Path, command: &str) -> (Running, Vec<(PathBuf, String)>, u32) {
    let target = "slow:read=2:scratch:ext4,size=64M";
    let running = start(fsage().current_dir(dir).args(["run", command, target]));
    let mut found = None;
    until("the command to run", || {
        found = daemon(running.id());
        dir.join("runs").exists() && found.is_some()
    });
    let devices = loop_devices(running.id());
    assert_eq!(devices.len(), 1, "{devices:?}");
    fs::remove_file(dir.join("runs")).unwrap();
    (running, devices, found.unwrap())
}

#[test]
fn however_fsage_ends_nothing_is_left() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let place = dir.path().display();
    let command =
        format!("cmd:touch {place}/runs; while sleep 0.05; do echo x >> f || exit 1; done");
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let (mut running, devices, daemon) = long_run(dir.path(), &command);
        running.signal(signal);
        running.code();
        until_gone(daemon);
        until_detached(&devices);
    }
}

#[test]
fn a_killed_daemon_ends_the_run_with_an_error() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let place = dir.path().display();
    let command =
        format!("cmd:touch {place}/runs; while sleep 0.05; do echo x > f || exit 1; done");
    let (running, devices, daemon) = long_run(dir.path(), &command);
    let pid = rustix::process::Pid::from_raw(daemon as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let ran = running.wait();
    assert_ne!(ran.code(), 0, "{}", ran.stderr);
    until_detached(&devices);
}

#[test]
fn a_killed_daemon_ends_a_generated_workload_too() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let target = "slow:read=2:scratch:ext4,size=64M";
    let line = ["run", "postmark:files=50", target, "--for", "100s"];
    let running = start(fsage().current_dir(dir.path()).args(line));
    let mut found = None;
    until("the daemon", || {
        found = daemon(running.id()).filter(|_| !loop_devices(running.id()).is_empty());
        found.is_some()
    });
    let devices = loop_devices(running.id());
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_raw(found.unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let ran = running.wait();
    assert_ne!(ran.code(), 0, "{}", ran.stderr);
    until_detached(&devices);
}

#[test]
fn what_a_command_leaves_running_is_said() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let pid = dir.path().join("pid");
    let command = format!(
        "cmd:sleep 100 >/dev/null 2>&1 & echo $! > {}",
        pid.display()
    );
    let target = "slow:read=2:scratch:ext4,size=64M";
    let ran = run(dir.path(), ["run", &command, target]);
    let left = fs::read_to_string(pid).unwrap();
    let killed = Command::new("kill")
        .arg(left.trim())
        .stdout(Stdio::null())
        .status();
    // What was found is told all the same.
    let ran = ran.exits(1);
    assert!(ran.text().contains("exit status 0"), "{}", ran.text());
    for word in ["unmount the slowed file system", "files of it are open"] {
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
    assert!(killed.unwrap().success());
}

/// What an ordinary user lacks for it is said, with what would do.
#[test]
fn an_ordinary_user_is_told_what_a_slowed_directory_needs() {
    if !root() || !fsage_testing::tool("setpriv") || !fsage_testing::fuse() {
        return;
    }
    let dir = temp_in_memory();
    let exe = dir.path().join("fsage");
    fs::copy(env!("CARGO_BIN_EXE_fsage"), &exe).unwrap();
    for name in ["d", "m"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    for path in [dir.path(), &dir.path().join("d"), &dir.path().join("m")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let as_nobody = |path: &str, args: &[&str]| {
        let mut command = Command::new("setpriv");
        let ids = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
        let env = ["--", "env", &format!("PATH={path}")];
        command.args(ids).args(env).arg(&exe).args(args);
        common::run_command(command.current_dir(dir.path()).stdin(Stdio::null()))
    };
    let device = fs::metadata("/dev/fuse").unwrap();
    let may = device.permissions().mode() & 0o006 == 0o006;
    let (run, serve) = (
        ["run", "postmark:files=9,transactions=9", "slow:read=2:d"],
        ["slowfs", "d", "m"],
    );
    for args in [&run[..], &serve] {
        if !may {
            let words = [
                "an ordinary user needs fusermount3 and a /dev/fuse",
                "as root",
            ];
            as_nobody(&path, args).fails(1, &words);
        }
        let words = ["fusermount3", "Debian package fuse3", "run as root"];
        as_nobody("/nowhere", args).fails(1, &words);
    }
    assert_eq!(names(&dir.path().join("d")), [""; 0]);
    assert_eq!(mounts(dir.path()), [""; 0]);
}

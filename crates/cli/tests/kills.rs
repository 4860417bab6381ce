//! Kills at any moment, of whatever runs: nothing waits for ever, nothing is left, and nothing that was lost is
//! told as a success.

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

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{
    Chance, Running, daemons, fsage, fuse, kill, loop_devices, mounted_below, names, run, scratch,
    start, temp, tool, until, until_detached, until_gone,
};
use rustix::process::Signal;

/// A disk served by hand in `dir`, and its loop device.
fn served(dir: &Path) -> (Running, PathBuf) {
    let place = dir.join("m");
    fs::create_dir_all(&place).unwrap();
    let line = [
        "disk", "serve", "sata-ssd", "--size", "128M", "--mount", "m",
    ];
    let running = start(fsage().current_dir(dir).args(line));
    let image = place.canonicalize().unwrap().join("disk.img");
    let mut device = None;
    until("the disk to have a loop device", || {
        device = fs::read_dir("/sys/block").unwrap().flatten().find(|entry| {
            fs::read_to_string(entry.path().join("loop/backing_file"))
                .is_ok_and(|text| Path::new(text.trim()) == image)
        });
        device.is_some()
    });
    (running, Path::new("/dev").join(device.unwrap().file_name()))
}

/// What a shell does beside the test, in a process group of its own, until it is dropped.
struct Load(std::process::Child);

impl Load {
    fn start(dir: &Path, script: &str) -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        drop(self.0.wait());
    }
}

#[test]
fn a_served_disk_under_load_is_killed_at_any_moment() {
    if !fuse() || !scratch() {
        return;
    }
    let mut chance = Chance(10);
    for round in 0..10 {
        let dir = temp();
        let dir = dir.path();
        let (mut running, device) = served(dir);
        let [daemon] = daemons(running.id())[..] else {
            panic!("{:?}", daemons(running.id()));
        };
        fs::create_dir(dir.join("mnt")).unwrap();
        let load = Load::start(
            dir,
            &format!(
                "mkfs.ext4 -q -F {0} && mount {0} mnt && touch mnt/ready && while :; do \
                 dd if=/dev/zero of=mnt/$$ bs=256k count=64 conv=fsync; cat m/stats; done",
                device.display()
            ),
        );
        // In some rounds before there is a file system, in others after.
        if round % 3 > 0 {
            until("the load to begin", || dir.join("mnt/ready").exists());
        }
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        if round % 2 == 0 {
            kill(daemon);
            let code = running.code();
            assert_eq!(code, Some(1), "round {round}");
            assert!(running.wait().stderr.contains("has ended"), "round {round}");
        } else {
            running.signal(Signal::KILL);
            assert_eq!(running.code(), None);
        }
        until_gone(daemon);
        drop(load);
        // Errors, but no waiting.
        until("the file system on it to be unmounted", || {
            let mut umount = Command::new("umount");
            drop(
                umount
                    .arg("mnt")
                    .current_dir(dir)
                    .stderr(Stdio::null())
                    .status(),
            );
            !mounted_below(&dir.join("mnt"))
        });
        until("the served mount to go", || !mounted_below(&dir.join("m")));
        let file = Path::new("/sys/block")
            .join(device.file_name().unwrap())
            .join("loop/backing_file");
        until("the loop device to go", || {
            fs::read_to_string(&file).map_or(true, |text| !text.contains(dir.to_str().unwrap()))
        });
    }
}

#[test]
fn a_slowed_directory_that_is_killed_leaves_nothing() {
    if !fuse()
        || !tool(if rustix::process::geteuid().is_root() {
            "umount"
        } else {
            "fusermount3"
        })
    {
        return;
    }
    let mut chance = Chance(11);
    for round in 0..10 {
        let dir = temp();
        let dir = dir.path();
        fs::create_dir(dir.join("t")).unwrap();
        let target = format!("slow:read=4:{}", dir.join("t").display());
        let line = ["run", "postmark:files=500,transactions=900000", &target];
        let mut running = start(fsage().current_dir(dir).args(line));
        until("the run to have a directory", || {
            !names(&dir.join("t")).is_empty()
        });
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        let served = daemons(running.id());
        if round % 2 == 0 {
            running.signal(Signal::KILL);
            assert_eq!(running.code(), None);
        } else {
            served.iter().copied().for_each(kill);
            assert_eq!(running.code(), Some(1), "round {round}");
        }
        served.into_iter().for_each(until_gone);
        until("its directory to go", || names(&dir.join("t")).is_empty());
        assert!(!mounted_below(dir));
    }
}

#[test]
fn a_slowed_mount_of_the_user_goes_with_whoever_serves_it() {
    if !fuse() || !common::root() {
        return;
    }
    let mut chance = Chance(12);
    for _ in 0..10 {
        let dir = temp();
        let dir = dir.path();
        fs::create_dir_all(dir.join("lower")).unwrap();
        fs::create_dir_all(dir.join("m")).unwrap();
        fs::write(dir.join("lower/file"), vec![7; 1 << 20]).unwrap();
        let mut running = start(fsage().current_dir(dir).args(["slowfs", "lower", "m"]));
        until("the mount", || dir.join("m/file").exists());
        let load = Load::start(
            dir,
            "while :; do cat m/file; dd if=m/file of=m/$$ bs=64k; rm m/$$; done",
        );
        std::thread::sleep(Duration::from_millis(chance.below(300)));
        running.signal(Signal::KILL);
        assert_eq!(running.code(), None);
        until("the mount to go", || !mounted_below(&dir.join("m")));
        drop(load);
    }
}

#[test]
fn what_a_command_has_started_ends_when_fsage_is_asked_to_stop() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        ends(signal, fsage());
        if common::root() && tool("setpriv") {
            // An ordinary user, who may make no control groups.
            let mut nobody = Command::new("setpriv");
            nobody
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(env!("CARGO_BIN_EXE_fsage"))
                .stdin(Stdio::null());
            ends(signal, nobody);
        }
    }
}

/// Runs a command whose child leaves it, and signals fsage.
fn ends(signal: Signal, mut fsage: Command) {
    let dir = temp();
    let dir = dir.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    fs::create_dir(dir.join("t")).unwrap();
    fs::set_permissions(dir.join("t"), fs::Permissions::from_mode(0o777)).unwrap();
    let pid = dir.join("pid");
    let command = format!(
        "cmd:setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 300' & sleep 300",
        pid.display()
    );
    let mut running = start(fsage.current_dir(dir).args(["run", &command, "t"]));
    until("the child to run", || pid.exists());
    running.signal(signal);
    running.code();
    let child: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    until_gone(child);
    until("its directory to go", || names(&dir.join("t")).is_empty());
}

/// A process of fsage's on an emulated disk, with the process that serves it, once that is mounted.
fn on_disk(dir: &Path, line: &[&str]) -> (Running, u32, Vec<(PathBuf, String)>) {
    let running = start(fsage().current_dir(dir).args(line));
    let mut devices = Vec::new();
    until("the file system to be mounted", || {
        devices = loop_devices(running.id());
        !devices.is_empty()
    });
    let [daemon] = daemons(running.id())[..] else {
        panic!("{:?}", daemons(running.id()));
    };
    (running, daemon, devices)
}

#[test]
fn nothing_succeeds_on_a_disk_that_has_died() {
    if !fuse() || !scratch() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let target = "scratch:ext4,size=256M,on=disk:nvme-ssd";
    fs::write(
        dir.join("plan.toml"),
        format!(
            "runs = 1\ncache = 'as found'\n[[target]]\nname = 't'\nspec = '{target}'\n[[workload]]\n\
             name = 'w'\nspec = 'cmd: echo x > file; sleep 2'\n"
        ),
    )
    .unwrap();
    let cases: [&[&str]; 4] = [
        &["run", "cmd:echo x > file; sleep 2", target],
        &["bench", "plan.toml", "--allow-commands"],
        &["profile", target, "--only", "STAT", "-o", "x.fsp"],
        &[
            "validate",
            "--workload",
            "cmd:sleep 2",
            "--target",
            target,
            "--profile-time",
            "2s",
        ],
    ];
    for line in cases {
        let (mut running, daemon, devices) = on_disk(dir, line);
        kill(daemon);
        assert_eq!(running.code(), Some(1), "{line:?}");
        let said = running.wait().stderr;
        // What a validation met first may be told instead.
        let explained = said.contains("has ended") && said.contains("nvme-ssd");
        assert!(explained || line.contains(&"validate"), "{line:?}: {said}");
        // What lay on it has gone with it, and is no trouble of its own.
        assert!(!said.contains("failed to remove"), "{line:?}: {said}");
        until_detached(&devices);
    }
    assert!(!dir.join("x.fsp").exists());
}

#[test]
fn a_want_of_descriptors_leaves_no_directory() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("t")).unwrap();
    for most in 4..24 {
        let line = format!("ulimit -n {most}; exec \"$0\" run 'postmark:files=5,transactions=5' t");
        let mut command = Command::new("sh");
        command
            .args(["-c", &line, env!("CARGO_BIN_EXE_fsage")])
            .current_dir(dir);
        drop(common::run_command(&mut command));
        until("its directory to go", || names(&dir.join("t")).is_empty());
    }
}

#[test]
fn cleanup_lists_and_removes_what_is_dead_and_nothing_else() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("t")).unwrap();
    let dead = dir.join("t/.fsage-run-0123456789abcdef");
    fs::create_dir_all(dead.join("sub")).unwrap();
    fs::write(dead.join("sub/file"), "x").unwrap();
    // Nobody needs more descriptors than there are for a deep one.
    fs::create_dir_all(dead.join("d/".repeat(900))).unwrap();
    let others = dir.join("t/fsage-bench-results");
    fs::create_dir(&others).unwrap();
    // One that lives.
    let live = start(fsage().current_dir(dir).args(["run", "cmd:sleep 300", "t"]));
    until("the run to have a directory", || {
        names(&dir.join("t")).len() == 3
    });
    let found = |result: &serde_json::Value| {
        let all = result["found"].as_array().unwrap().clone();
        let here = all.into_iter().filter(|left| {
            let place = left["place"].as_str().unwrap();
            place.contains(dir.to_str().unwrap())
        });
        here.collect::<Vec<_>>()
    };
    let listed = run(dir, ["cleanup", "t", "--json"]).exits(0).json();
    assert_eq!(listed["format"], "fsage cleanup");
    let here = found(&listed);
    assert_eq!(here.len(), 2, "{here:?}");
    assert!(dead.exists());
    assert_eq!(
        here.iter()
            .filter(|left| left.get("in_use").is_some())
            .count(),
        1
    );
    // What others on this machine have left is theirs: only what is below the target is looked at.
    let shown = run(dir, ["cleanup", "t"]).exits(0);
    assert!(
        shown.text().contains(".fsage-run-0123456789abcdef"),
        "{}",
        shown.text()
    );
    assert!(shown.stderr.contains("--yes"), "{}", shown.stderr);
    let mut alone = fsage();
    alone
        .current_dir(dir)
        .args(["cleanup", "t", "--only", "--yes", "--json"]);
    let removed = common::run_command(&mut alone).json();
    let gone: Vec<_> = found(&removed)
        .into_iter()
        .filter(|left| left["removed"] == true)
        .collect();
    assert_eq!(gone.len(), 1, "{removed}");
    assert!(!dead.exists() && others.exists());
    assert_eq!(names(&dir.join("t")).len(), 2, "the living one's stays");
    live.ended_by(Signal::TERM, || ());
    // Where nothing was looked at, nothing is known.
    run(dir, ["cleanup", "nowhere", "--only"]).fails(1, &["look into nowhere: No such file"]);
    until("its directory to go", || {
        names(&dir.join("t")) == ["fsage-bench-results"]
    });
}

#[test]
fn cleanup_takes_a_dead_mount_away_without_touching_it() {
    if !fuse() || !common::root() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    fs::create_dir_all(dir.join("lower")).unwrap();
    fs::create_dir_all(dir.join("m")).unwrap();
    // The shell that would take it away is killed too.
    let mut running = start(fsage().current_dir(dir).args(["slowfs", "lower", "m"]));
    until("the mount", || mounted_below(&dir.join("m")));
    let listed = run(dir, ["cleanup", "m", "--only", "--json"])
        .exits(0)
        .json();
    let place = dir.canonicalize().unwrap().join("m").display().to_string();
    let mount = |result: &serde_json::Value| {
        let all = result["found"].as_array().unwrap();
        all.iter()
            .find(|left| left["place"] == place.as_str())
            .cloned()
    };
    let live = mount(&listed).unwrap();
    assert!(live.get("in_use").is_some(), "{listed}");
    assert!(
        !live["about"].as_str().unwrap().contains("nobody"),
        "{listed}"
    );
    assert_eq!(listed["found"].as_array().unwrap().len(), 1, "{listed}");
    for shell in shells(running.id()) {
        kill(shell);
    }
    running.signal(Signal::KILL);
    assert_eq!(running.code(), None);
    assert!(mounted_below(&dir.join("m")));
    let removed = run(dir, ["cleanup", "m", "--only", "--yes", "--json"]).json();
    assert_eq!(mount(&removed).unwrap()["removed"], true, "{removed}");
    assert!(!mounted_below(&dir.join("m")));
}

/// The shells that wait beside a process.
fn shells(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| {
            let stat = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|s| s.split_whitespace().nth(1));
            parent == Some(&pid.to_string())
        })
        .collect()
}

//! Emulated disks from outside: models, one served, scratch file systems on them, and what is left.

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
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    Running, daemons, fsage, fuse, loop_devices, mounted_below, root, run, run_command, scratch,
    start, temp, until, until_detached, until_gone,
};
use rustix::process::Signal;

/// Whether disks can be served here.
fn disks() -> bool {
    fuse() && scratch()
}

#[test]
fn models_are_listed_and_shown() {
    let dir = temp();
    let list = run(dir.path(), ["disk", "list", "--json"]).exits(0).json();
    let names: Vec<&str> = list["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["name"].as_str().unwrap())
        .collect();
    for name in [
        "st34520n",
        "st39102lw",
        "seagate-32430n",
        "fujitsu-m2694es",
        "hdd-7200",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let text = run(dir.path(), ["disk", "list"]).exits(0).text();
    assert!(text.contains("nvme-ssd") && text.contains("MB/s"), "{text}");
    let shown = run(dir.path(), ["disk", "show", "hdd-7200", "--json"])
        .exits(0)
        .json();
    let random = shown["random_read_ms"].as_f64().unwrap();
    assert!((12.0..13.5).contains(&random), "{random}");
    // What the path adds matters to the fast ones, and is said.
    let text = |model: &str| run(dir.path(), ["disk", "show", model]).exits(0).text();
    assert!(text("nvme-ssd").contains("add 20 to 100 us"));
    assert!(!text("hdd-7200").contains("add 20 to 100 us"));
    // What is printed can be changed and used.
    let toml = run(dir.path(), ["disk", "show", "hdd-7200", "--toml"])
        .exits(0)
        .text();
    fs::write(
        dir.path().join("my.toml"),
        toml.replace("rpm = 7200", "rpm = 5400"),
    )
    .unwrap();
    let mine = run(dir.path(), ["disk", "show", "my.toml", "--json"])
        .exits(0)
        .json();
    assert!(
        mine["random_read_ms"].as_f64().unwrap() > random + 1.0,
        "{mine}"
    );
}

#[test]
fn what_cannot_be_is_one_error() {
    let dir = temp();
    let dir = dir.path();
    run(dir, ["disk", "show", "floppy"]).fails(1, &["floppy", "hdd-7200"]);
    run(dir, ["disk", "show", "missing.toml"]).fails(1, &["missing.toml"]);
    fs::write(dir.join("bad.toml"), "name = \"bad\"\n").unwrap();
    run(dir, ["disk", "show", "bad.toml"]).fails(1, &["bad.toml", "description"]);
    // The line is named, not shown: it may be all of a stranger's file.
    fs::write(
        dir.join("deep.toml"),
        format!("\na = {}", "[".repeat(200_000)),
    )
    .unwrap();
    for line in [
        ["disk", "show", "deep.toml"],
        ["run", "postmark", "mem:deep.toml"],
    ] {
        let said = run(dir, line).fails(1, &["deep.toml:2: "]);
        assert!(said.stderr.len() < 200, "{}", said.stderr);
    }
    let target = |t: &str| run(dir, ["profile", t, "--quick", "-o", "x.fsp"]);
    target("scratch:ext4,on=disk:floppy").fails(1, &["floppy", "hdd-7200"]);
    target("scratch:ext4,on=disk:hdd-7200,scheduler=cfq").fails(1, &["cfq", "n-cscan"]);
    target("scratch:ext4,on=disk:hdd-7200,span=middle").fails(1, &["middle", "scaled"]);
    target("scratch:ext4,on=disk:seagate-32430n,size=4G,span=start").fails(1, &["real disk"]);
    assert!(!dir.join("x.fsp").exists());
    if disks() {
        fs::create_dir_all(dir.join("full/x")).unwrap();
        run(dir, ["disk", "serve", "hdd-7200", "--mount", "full"]).fails(1, &["not empty"]);
        fs::write(dir.join("image"), "short").unwrap();
        let line = ["disk", "serve", "hdd-7200", "--image", "image", "--no-loop"];
        run(dir, line).fails(1, &["image", "5 bytes"]);
    }
}

/// A disk served by hand in `dir`; `None` where it cannot be.
fn served(dir: &Path, more: &[&str]) -> Running {
    fs::create_dir_all(dir.join("m")).unwrap();
    let line = [
        "disk", "serve", "hdd-7200", "--size", "256M", "--mount", "m",
    ];
    let running = start(fsage().current_dir(dir).args(line).args(more));
    // It is there before it is slow.
    until("the disk to be there", || {
        let stats = fs::read_to_string(dir.join("m/stats")).unwrap_or_default();
        stats.replace(' ', "").contains("\"delays\":true")
    });
    running
}

#[test]
fn a_served_disk_keeps_data_and_tells_what_it_did() {
    if !disks() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let running = served(dir, &["--image", "image", "--no-loop", "--json"]);
    let image = fs::File::options()
        .read(true)
        .write(true)
        .open(dir.join("m/disk.img"))
        .unwrap();
    image.write_all_at(&[7; 4096], 1 << 20).unwrap();
    image.sync_all().unwrap();
    let mut block = [0; 4096];
    for i in 0..8u64 {
        image
            .read_exact_at(&mut block, (i * 37 % 255) << 20)
            .unwrap();
    }
    image.read_exact_at(&mut block, 1 << 20).unwrap();
    assert_eq!(block, [7; 4096]);
    let stats = fs::read_to_string(dir.join("m/stats")).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["reads"]["requests"], 9, "{stats}");
    assert_eq!(stats["flushes"]["requests"], 1, "{stats}");
    assert_eq!(stats["lateness"]["requests"], 11, "{stats}");
    fs::write(dir.join("m/control"), "reset").unwrap();
    fs::write(dir.join("m/control"), "delays off").unwrap();
    assert!(fs::write(dir.join("m/control"), "faster").is_err());
    image.read_exact_at(&mut block, 9 << 20).unwrap();
    drop(image);
    running.signal(Signal::INT);
    let ran = running.wait().exits(0);
    let end = ran.json();
    assert_eq!(
        (&end["reads"]["requests"], &end["delays"]),
        (&1.into(), &false.into()),
        "{end}"
    );
    assert!(!dir.join("m/disk.img").exists());
    // The image is a plain file with what was written.
    let kept = fs::File::open(dir.join("image")).unwrap();
    kept.read_exact_at(&mut block, 1 << 20).unwrap();
    assert_eq!(block, [7; 4096]);
}

#[test]
fn two_signals_at_once_are_one_request_and_quiet_says_nothing() {
    if !disks() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let running = served(dir, &["--json", "--quiet"]);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        running.signal(signal);
    }
    let ran = running.wait().exits(0);
    assert_eq!(ran.json()["delays"], true, "{}", ran.stderr);
    assert_eq!(ran.stderr, "");
    assert!(!dir.join("m/disk.img").exists());
}

/// A file system on the loop device of a served disk, mounted.
struct OnLoop(PathBuf);

impl OnLoop {
    fn of(dir: &Path, running: &Running) -> (Self, String) {
        let mut device = String::new();
        until("the loop device", || {
            // It holds the device open.
            let fds = fs::read_dir(format!("/proc/{}/fd", running.id())).unwrap();
            let links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
            let mut links = links.map(|link| link.display().to_string());
            let held =
                links.find(|link| link.starts_with("/dev/loop") && !link.ends_with("control"));
            held.map(|link| device = link).is_some()
        });
        let at = dir.join("at");
        fs::create_dir_all(&at).unwrap();
        let did = |program: &str, args: &[&str]| {
            let status = Command::new(program).args(args).status().unwrap();
            assert!(status.success(), "{program}");
        };
        did("mkfs.ext4", &["-q", &device]);
        did("mount", &[&device, at.to_str().unwrap()]);
        (Self(at), device)
    }

    fn unmount(&self) {
        drop(Command::new("umount").arg(&self.0).status());
    }
}

impl Drop for OnLoop {
    fn drop(&mut self) {
        if mounted_below(&self.0) {
            self.unmount();
        }
    }
}

/// What is written to a disk that is mounted is on it, although its user has asked for its end meanwhile.
#[test]
fn a_disk_in_use_is_served_until_it_is_let_go() {
    if !disks() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let running = served(dir, &["--image", "image", "--json"]);
    let (on, device) = OnLoop::of(dir, &running);
    running.signal(Signal::INT);
    until("the disk to be out of sight", || {
        !mounted_below(&dir.join("m"))
    });
    fs::write(on.0.join("f"), "kept").unwrap();
    on.unmount();
    let ran = running.wait().exits(0);
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = on.0.canonicalize().unwrap();
    let words = format!("{device} is in use (mounted on {})", at.display());
    assert!(said.contains(&words), "{said}");
    assert!(ran.json()["writes"]["requests"].as_u64().unwrap() > 0);
    let image = fs::read(dir.join("image")).unwrap();
    assert!(image.windows(4).any(|four| four == b"kept"));
    // A second signal ends it, and says what that means.
    let running = served(dir, &["--image", "image"]);
    let (on, _) = OnLoop::of(dir, &running);
    running.signal(Signal::INT);
    until("the disk to be out of sight", || {
        !mounted_below(&dir.join("m"))
    });
    // Signals at once are one request.
    std::thread::sleep(std::time::Duration::from_millis(150));
    running.signal(Signal::INT);
    let ran = running.wait().exits(130);
    on.unmount();
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("was still in use: what was not written to it is lost"),
        "{said}"
    );
}

#[test]
fn a_killed_disk_answers_with_errors_and_leaves_no_mount() {
    if !disks() {
        return;
    }
    let dir = temp();
    let mut running = served(dir.path(), &["--no-loop"]);
    let image = fs::File::open(dir.path().join("m/disk.img")).unwrap();
    running.signal(Signal::KILL);
    assert_eq!(running.code(), None);
    let mut block = [0; 512];
    // Whoever outlives it to take the mount away sees its end a moment later.
    until("the dead disk to answer with errors", || {
        image.read_exact_at(&mut block, 0).is_err()
    });
    let place = dir
        .path()
        .canonicalize()
        .unwrap()
        .join("m")
        .display()
        .to_string();
    until("the dead mount to go", || {
        !fs::read_to_string("/proc/self/mounts")
            .unwrap()
            .contains(&place)
    });
}

/// A profile of an emulated disk that goes on for a while, once its file system is mounted.
fn profiling(dir: &Path) -> (Running, Vec<(PathBuf, String)>, u32) {
    let target = "scratch:ext4,size=256M,on=disk:hdd-7200";
    let line = ["profile", target, "--only", "RRD4", "-o", "x.fsp"];
    let running = start(fsage().current_dir(dir).args(line));
    let mut devices = Vec::new();
    until("the file system to be mounted", || {
        devices = loop_devices(running.id());
        !devices.is_empty()
    });
    let [daemon] = daemons(running.id())[..] else {
        panic!("{:?}", daemons(running.id()));
    };
    (running, devices, daemon)
}

#[test]
fn a_kill_leaves_no_mount_no_device_and_no_daemon() {
    if !disks() {
        return;
    }
    let dir = temp();
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let (mut running, devices, daemon) = profiling(dir.path());
        running.signal(signal);
        running.code();
        until_gone(daemon);
        until_detached(&devices);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(
            !mounts.contains("fsage-disk") || !mounts.contains("fsage-scratch-disk"),
            "{mounts}"
        );
    }
}

#[test]
fn a_killed_daemon_ends_the_experiment_with_an_error() {
    if !disks() {
        return;
    }
    let dir = temp();
    let (mut running, devices, daemon) = profiling(dir.path());
    let pid = rustix::process::Pid::from_raw(daemon as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert_ne!(running.code(), Some(0));
    until_detached(&devices);
}

#[test]
fn two_at_once_are_two_disks() {
    if !disks() {
        return;
    }
    let dir = temp();
    let profile = |name: &str, model: &str| {
        let target = format!("scratch:ext4,size=128M,on=disk:{model}");
        let line = ["profile", &target, "--quick", "--only", "STAT", "-o", name];
        start(fsage().current_dir(dir.path()).args(line))
    };
    let (one, two) = (profile("a.fsp", "nvme-ssd"), profile("b.fsp", "sata-ssd"));
    one.wait().exits(0);
    two.wait().exits(0);
    for (file, model) in [("a.fsp", "nvme-ssd"), ("b.fsp", "sata-ssd")] {
        let shown = run(dir.path(), ["show", file, "--json"]).exits(0).json();
        let disk = &shown["environment"]["target"]["emulated"];
        assert_eq!(disk["model"], model);
        assert!(disk["parameters"].as_str().unwrap().contains("ssd"));
        let text = run(dir.path(), ["show", file]).exits(0).text();
        let device = format!(" (loop on disk:{model}, direct I/O)");
        assert!(text.contains(&device), "{text}");
    }
}

#[test]
fn a_flush_takes_the_disks_time() {
    if !disks() {
        return;
    }
    let dir = temp();
    let plan = "runs = 1\nmin_runs = 1\ncache = 'as found'\n[[target]]\nname = 't'\n\
                spec = 'scratch:{kind},size=256M,on=disk:hdd-7200'\n[target.sweep]\n\
                kind = ['ext4', 'ext2']\n[[workload]]\nname = 'w'\n\
                spec = 'cmd: head -c 60000000 /dev/urandom > file'\n";
    fs::write(
        dir.path().join("plan.toml"),
        plan.replace("min_runs = 1\n", ""),
    )
    .unwrap();
    let line = ["bench", "plan.toml", "--allow-commands", "--json"];
    let result = run(dir.path(), line).exits(0).json();
    for configuration in result["configurations"].as_array().unwrap() {
        let flush = &configuration["runs"][0]["flush"];
        let bytes = flush["device"]["sectors_written"].as_u64().unwrap() * 512;
        assert!(bytes > 30_000_000, "{flush}");
        // No zone of the disk takes more than 202 MB/s.
        let least_ns = bytes as f64 / 202e6 * 1e9;
        assert!(flush["elapsed_ns"].as_f64().unwrap() > least_ns, "{flush}");
    }
}

#[test]
fn two_disks_do_not_share_an_image() {
    if !fuse() || !root() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    for mount in ["a", "b"] {
        std::fs::create_dir(dir.join(mount)).unwrap();
    }
    let line = |mount: &str| {
        let mut command = fsage();
        command
            .current_dir(dir)
            .args(["disk", "serve", "nvme-ssd", "--size", "64M"]);
        command.args(["--image", "image", "--mount", mount]);
        command
    };
    let running = start(&mut line("a"));
    until("the disk to be served", || mounted_below(&dir.join("a")));
    let second = run_command(&mut line("b"));
    second.fails(1, &["image", "another process serves it"]);
    running.signal(Signal::TERM);
    running.wait().exits(0);
}

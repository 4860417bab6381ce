//! What is left when the process is told to end, or is killed: nothing.
//!
//! Each test starts its own binary again as a child with one thread, which makes scratch file
//! systems with images in a directory of the test's own, and ends it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests"
)]

use crate::common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::TRUSTED;
use fsage_core::{FileSystem, OpenFlags};
use fsage_host::{HostFs, Scratch, ScratchSpec, signals};
use rustix::process::Signal;

/// Tells a child the directory for its images; its presence makes a process a child.
const IMAGES: &str = "FSAGE_TEST_IMAGES";

fn images_of_child() -> Option<PathBuf> {
    std::env::var_os(IMAGES).map(PathBuf::from)
}

/// Makes a file system and leaves a dirty file open on it.
fn make(images: &Path) -> Scratch {
    let spec = format!("ext4,size=32M,on=file:{}", images.display());
    let scratch = Scratch::create(&spec.parse::<ScratchSpec>().unwrap()).unwrap();
    let fs = scratch.open(TRUSTED).unwrap();
    let file = fs.open(b"dirty", OpenFlags::CREATE_NEW, 0o644).unwrap();
    fs.write(file, &vec![1; 1 << 16]).unwrap();
    scratch
}

fn announce(what: impl std::fmt::Display) {
    println!("\nchild: {what}");
}

fn wait_forever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// A running child and the directory of its images.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    images: tempfile::TempDir,
}

impl Running {
    /// Starts the role of a test; `None` after saying so where it cannot run.
    fn start(test: &str) -> Option<Running> {
        if !fsage_testing::root() {
            return None;
        }
        let images = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("kill::{test}")])
            .args(["--nocapture", "--test-threads=1"])
            .env(IMAGES, images.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Some(Running {
            child,
            stdout,
            images,
        })
    }

    /// What the child says next.
    fn said(&mut self) -> String {
        let mut line = String::new();
        while self.stdout.read_line(&mut line).unwrap() > 0 {
            if let Some(said) = line.trim_end().strip_prefix("child: ") {
                return said.to_owned();
            }
            line.clear();
        }
        panic!("the child ended early");
    }

    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Loop devices that hold an image of the child.
    fn attached(&self) -> usize {
        let dir = self.images.path().to_string_lossy().into_owned();
        let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
        devices
            .filter_map(|d| std::fs::read_to_string(d.path().join("loop/backing_file")).ok())
            .filter(|image| image.contains(&dir))
            .count()
    }

    /// No device is left, at the latest a moment after the last process, and no file.
    fn assert_nothing_left(&self) {
        let mut tries = 0;
        while self.attached() > 0 {
            tries += 1;
            assert!(tries < 2000, "{} devices are attached", self.attached());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(std::fs::read_dir(self.images.path()).unwrap().count(), 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn sigkill_leaves_nothing() {
    if let Some(images) = images_of_child() {
        fsage_host::isolate().unwrap();
        let scratch = make(&images);
        // What the private mounts cover is not taken for a target.
        assert!(HostFs::open(scratch.dir().parent().unwrap(), TRUSTED).is_err());
        announce(scratch.dir().display());
        wait_forever();
    }
    let Some(mut running) = Running::start("sigkill_leaves_nothing") else {
        return;
    };
    let dir = PathBuf::from(running.said());
    assert_eq!(running.attached(), 1);
    // Nobody else sees the mount or its directory.
    assert!(!common::is_mounted(&dir) && !dir.exists());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    running.assert_nothing_left();
    assert!(!dir.exists());
}

/// Between attaching, mkfs, mounting and taking down, again and again.
#[test]
fn sigkill_at_any_moment_leaves_nothing() {
    if let Some(images) = images_of_child() {
        fsage_host::isolate().unwrap();
        announce("ready");
        loop {
            drop(make(&images));
        }
    }
    for delay_ms in [0, 4, 9, 15, 22, 30, 45, 70] {
        let Some(mut running) = Running::start("sigkill_at_any_moment_leaves_nothing") else {
            return;
        };
        assert_eq!(running.said(), "ready");
        std::thread::sleep(Duration::from_millis(delay_ms));
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        running.assert_nothing_left();
    }
}

#[test]
fn sigkill_while_a_command_runs_leaves_nothing_after_it() {
    if let Some(images) = images_of_child() {
        fsage_host::isolate().unwrap();
        let scratch = make(&images);
        let mut command = Command::new("sleep")
            .arg("1")
            .current_dir(scratch.dir())
            .spawn()
            .unwrap();
        announce(command.id());
        command.wait().unwrap();
        wait_forever();
    }
    let test = "sigkill_while_a_command_runs_leaves_nothing_after_it";
    let Some(mut running) = Running::start(test) else {
        return;
    };
    running.said();
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    // The command keeps its working directory until it ends.
    running.assert_nothing_left();
}

#[test]
fn a_signal_lets_it_finish_and_leaves_nothing() {
    if let Some(images) = images_of_child() {
        let stop = signals::install().unwrap();
        let scratch = make(&images);
        announce(scratch.dir().display());
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(scratch);
        announce(signals::exit_code().unwrap());
        return;
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let test = "a_signal_lets_it_finish_and_leaves_nothing";
        let Some(mut running) = Running::start(test) else {
            return;
        };
        let dir = PathBuf::from(running.said());
        assert!(common::is_mounted(&dir));
        running.signal(signal);
        assert_eq!(running.said(), code.to_string());
        assert!(running.child.wait().unwrap().success());
        assert!(!common::is_mounted(&dir) && !dir.exists());
        running.assert_nothing_left();
    }
}

#[test]
fn a_second_signal_cleans_up_at_once() {
    if let Some(images) = images_of_child() {
        let _stop = signals::install().unwrap();
        let scratch = make(&images);
        announce(scratch.dir().display());
        // Deaf to the flag.
        wait_forever();
    }
    let Some(mut running) = Running::start("a_second_signal_cleans_up_at_once") else {
        return;
    };
    let dir = PathBuf::from(running.said());
    assert!(common::is_mounted(&dir));
    running.signal(Signal::TERM);
    // Signals at once are one request.
    std::thread::sleep(Duration::from_millis(250));
    assert!(
        running.child.try_wait().unwrap().is_none(),
        "the first signal ended it"
    );
    running.signal(Signal::INT);
    assert_eq!(running.child.wait().unwrap().code(), Some(130));
    assert!(!common::is_mounted(&dir) && !dir.exists());
    running.assert_nothing_left();
}

#[test]
fn a_child_of_an_isolated_process_does_not_keep_the_scratch_of_others() {
    if let Some(images) = images_of_child() {
        // The parent's scratch is mounted while this namespace is made.
        fsage_host::isolate().unwrap();
        let others = fsage_host::mounts::all();
        let seen = others
            .iter()
            .filter(|m| m.dir.to_string_lossy().contains("fsage-scratch-"));
        announce(seen.count());
        let _own = make(&images);
        wait_forever();
    }
    let Some(scratch) = common::scratch("ext4,size=32M") else {
        return;
    };
    let test = "a_child_of_an_isolated_process_does_not_keep_the_scratch_of_others";
    let Some(mut running) = Running::start(test) else {
        return;
    };
    assert_eq!(running.said(), "0");
    // A remount would be refused if the child's namespace held the file system.
    let remount = fsage_host::ColdPolicy::Only(fsage_core::ColdMethod::Remount);
    let fs = scratch
        .open(fsage_host::HostOptions {
            cold: remount,
            ..TRUSTED
        })
        .unwrap();
    assert!(fsage_core::Platform::make_cold(&fs).is_ok());
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    running.assert_nothing_left();
}

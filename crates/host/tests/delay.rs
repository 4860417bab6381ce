//! How long the processes of a command waited for a processor. By itself: whatever becomes a child of this
//! process meanwhile is taken for the command's.

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

use std::process::{Command, Stdio};

use fsage_core::Clock;
use fsage_host::delay::{Delay, ExitWatch};
use fsage_host::{MonotonicClock, thread};

/// Runs `script` on one CPU; what was measured, and what it wrote.
fn delay_of(script: &str) -> Option<(Delay, String)> {
    let cpu = thread::allowed_cpus().pop()?;
    let _pinned = thread::pin(cpu).unwrap();
    let Some(watch) = ExitWatch::start() else {
        assert!(!rustix::process::geteuid().is_root() || !first_namespace());
        fsage_testing::not_run("needs root and the first namespace of processes");
        return None;
    };
    let child = Command::new("/bin/sh")
        .args(["-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let out = child.wait_with_output().unwrap();
    let delay = watch.finish(id).unwrap();
    Some((delay, String::from_utf8(out.stdout).unwrap()))
}

fn first_namespace() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|l| l.as_os_str() == "pid:[4026531836]")
}

#[test]
fn what_children_of_children_waited_is_counted() {
    // Two that compute on one CPU, one of them without a parent: each tells what it had waited shortly
    // before its end.
    let dir = tempfile::tempdir().unwrap();
    let compute =
        "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; cat /proc/$$/schedstat >> out";
    std::fs::write(dir.path().join("compute"), compute).unwrap();
    let script = format!(
        "cd {}; (sh compute &); sh -c 'sh compute; :'; \
         until test $(wc -l < out) = 2; do sleep 0.02; done; sleep 0.2; cat out",
        dir.path().display()
    );
    let start_ns = MonotonicClock.now_ns();
    let measured = delay_of(&script);
    let elapsed_ns = MonotonicClock.now_ns() - start_ns;
    let Some((delay, out)) = measured else {
        return;
    };
    let own: Vec<u64> = out
        .lines()
        .map(|line| line.split(' ').nth(1).unwrap().parse().unwrap())
        .collect();
    assert_eq!(own.len(), 2, "{out}");
    let reported: u64 = own.iter().sum();
    assert!(reported > 50_000_000, "they ran at once: {out}");
    assert!(delay.threads >= 8, "{delay:?}");
    assert!(delay.ns >= reported, "{delay:?}, {reported}");
    // Of the few that are there at any moment none waits longer than all of it takes.
    assert!(delay.ns < 4 * elapsed_ns, "{delay:?}, {elapsed_ns}");
}

//! Nothing of the user's is touched: what is mounted in a run's directory or put in its place, what somebody else
//! writes to an output; and nothing of a run goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "processes are waited for"
)]

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Ran, fsage, kill, names, root, run, run_command, scratch, start, temp, tool, until};
use rustix::process::Signal;

/// Unmounts what a test's command has mounted.
struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = self.0.canonicalize().unwrap().display().to_string();
        for dir in table.lines().filter_map(|line| line.split(' ').nth(1)) {
            if dir.starts_with(&below) {
                drop(Command::new("umount").arg(dir).status());
            }
        }
    }
}

/// A target, and a directory of the user's with a file.
fn target_and_victim(dir: &Path) {
    fs::create_dir(dir.join("target")).unwrap();
    fs::create_dir(dir.join("victim")).unwrap();
    fs::write(dir.join("victim/f"), "x").unwrap();
}

fn bind(dir: &Path) -> String {
    format!("mkdir m && mount --bind {}/victim m", dir.display())
}

fn reported_and_left(dir: &Path, ran: &Ran) {
    assert!(
        ran.stderr.contains("something is mounted on"),
        "{}",
        ran.stderr
    );
    assert!(dir.join("victim/f").exists());
    assert_eq!(names(&dir.join("target")).len(), 1);
}

#[test]
fn what_a_command_mounts_stays_with_all_that_is_in_it() {
    if !root() || !tool("umount") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    target_and_victim(dir);
    let _unmount = Unmount(dir);
    let command = bind(dir);
    let ran = run(dir, ["run", "-q", &format!("cmd: {command}"), "target"]).exits(3);
    reported_and_left(dir, &ran);
    let listed = run(dir, ["cleanup", "target", "--only", "--yes"]);
    assert!(
        listed.text().contains("something is mounted on"),
        "{}",
        listed.text()
    );
    assert!(dir.join("victim/f").exists());
    drop(Unmount(dir));
    drop(run(dir, ["cleanup", "target", "--only", "--yes"]));
    assert!(names(&dir.join("target")).is_empty());

    let line = [
        "bench", "-q", "--runs", "1", "--target", "target", "--setup", &command, "--", "true",
    ];
    let ran = run(dir, line);
    assert_ne!(ran.code(), 0);
    reported_and_left(dir, &ran);
    drop(Unmount(dir));
    drop(run(dir, ["cleanup", "target", "--only", "--yes"]));
}

#[test]
fn what_a_command_mounts_stays_after_a_signal() {
    if !root() || !tool("umount") {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let dir = temp();
        let dir = dir.path();
        target_and_victim(dir);
        let _unmount = Unmount(dir);
        let command = format!(
            "cmd: {} && touch {}/ready; sleep 99",
            bind(dir),
            dir.display()
        );
        let running = start(
            fsage()
                .current_dir(dir)
                .args(["run", "-q", &command, "target"]),
        );
        until("the mount", || dir.join("ready").exists());
        let ran = running.ended_by(signal, || ());
        if signal == Signal::KILL {
            // What waits beside it has its time.
            std::thread::sleep(Duration::from_secs(2));
            assert!(dir.join("victim/f").exists());
            assert_eq!(names(&dir.join("target")).len(), 1);
        } else {
            reported_and_left(dir, &ran);
        }
    }
}

#[test]
fn what_is_mounted_on_a_scratch_file_system_stays() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    target_and_victim(dir);
    let command = format!("cmd: {}", bind(dir));
    let ran = run(dir, ["run", "-q", &command, "scratch:ext4,size=64M"]);
    assert_ne!(ran.code(), 0, "{}", ran.stderr);
    assert!(dir.join("victim/f").exists());
}

#[test]
fn who_owns_the_target_cannot_lead_a_run_elsewhere() {
    if !root() || !tool("setpriv") {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    target_and_victim(dir);
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(dir.join("target"), Some(65534), Some(65534)).unwrap();
    let rival = format!(
        "while :; do for d in .fsage-run-* fsage-replay-*; do [ -d \"$d\" ] && [ ! -L \"$d\" ] && \
         mv \"$d\" moved-$n && ln -s {}/victim \"$d\"; n=$((n+1)); done; done",
        dir.display()
    );
    let mut rival = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            &rival,
        ])
        .current_dir(dir.join("target"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let trace = common::small_trace(dir);
    let replay = ["replay", trace.to_str().unwrap(), "target"];
    let workload = "postmark:files=50,transactions=200";
    let lines: [&[&str]; 4] = [
        &["run", workload, "target"],
        &replay,
        &[
            "run",
            "cmd: echo x > made; sleep 0.2; echo x > made",
            "target",
        ],
        &[
            "bench",
            "--runs",
            "1",
            "--target",
            "target",
            "--",
            "echo x > made",
        ],
    ];
    for line in lines {
        let ran = run(dir, line);
        assert_eq!(
            names(&dir.join("victim")),
            ["f"],
            "{line:?}: {}",
            ran.stderr
        );
    }
    rival.kill().unwrap();
    rival.wait().unwrap();
}

/// Whether a process runs with these words in its command line.
fn runs(words: &str) -> bool {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).replace('\0', " ").trim() == words)
}

#[test]
fn commands_of_a_validation_end_with_it() {
    for (signal, seconds) in [
        (Signal::INT, 7801),
        (Signal::TERM, 7802),
        (Signal::KILL, 7803),
    ] {
        let dir = temp();
        let dir = dir.path();
        fs::create_dir(dir.join("target")).unwrap();
        let sleep = format!("sleep {seconds}");
        let workload = format!("cmd: setsid {sleep} & {sleep}");
        let line = [
            "validate",
            "-q",
            "--workload",
            &workload,
            "--target",
            "target",
        ];
        let time = ["--profile-time", "1s"];
        let running = start(
            fsage()
                .current_dir(dir)
                .env("TMPDIR", dir)
                .args(line)
                .args(time),
        );
        until("the command to run", || runs(&sleep));
        // Whoever runs on would hold the pipes.
        running.ended_by(signal, || until("the command to end", || !runs(&sleep)));
    }
}

#[test]
fn a_file_is_written_by_one_trace_at_a_time() {
    let dir = temp();
    let dir = dir.path();
    let first = [
        "trace", "--method", "ptrace", "-o", "c.fst", "--", "sh", "-c",
    ];
    let script = "while [ ! -e go ]; do sleep 0.05; done; cat /etc/passwd > copy";
    let running = start(fsage().current_dir(dir).args(first).arg(script));
    until("the trace to begin", || dir.join("c.fst").exists());
    let second = run(dir, first.iter().chain(&["cat /etc/passwd > /dev/null"]));
    second.fails(1, &["create c.fst", "another process is writing it"]);
    fs::write(dir.join("go"), "").unwrap();
    running.wait().exits(0);
    run(dir, ["show", "c.fst"]).exits(0);
}

#[test]
fn a_trace_that_its_command_cuts_is_no_success() {
    for script in [
        ": > c.fst",
        "cat /etc/passwd; truncate -s 100 c.fst",
        "echo >> c.fst",
    ] {
        let dir = temp();
        let begun = format!("until [ -s c.fst ]; do :; done; {script}");
        let line = [
            "trace", "--method", "ptrace", "-o", "c.fst", "--", "sh", "-c", &begun,
        ];
        let ran = run(dir.path(), line);
        assert_eq!(ran.code(), 1, "{script}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("written to it or cut it"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn results_are_kept_without_proc() {
    if !root() || !tool("unshare") {
        return;
    }
    let dir = temp();
    fs::create_dir(dir.path().join("tree")).unwrap();
    let script = format!(
        "umount -l /proc && exec {} snapshot tree -o x.fss",
        env!("CARGO_BIN_EXE_fsage")
    );
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .current_dir(dir.path());
    run_command(&mut command).exits(0);
    assert_eq!(names(dir.path()), ["tree", "x.fss"]);
    run(dir.path(), ["show", "x.fss"]).exits(0);
}

#[test]
fn a_command_that_goes_on_untraced_is_waited_for() {
    if !root() {
        return;
    }
    for method in ["ebpf", "ptrace"] {
        let dir = temp();
        let dir = dir.path();
        // The trace is removed, so that its capture cannot go on; what follows runs untraced.
        let script = "until [ -s c.fst ]; do :; done; rm c.fst; end=$(($(date +%s) + 4)); \
                      while [ $(date +%s) -lt $end ]; do :; done; sleep 2; touch ended; exit 5";
        let line = [
            "trace",
            "--keep-running",
            "--method",
            method,
            "-o",
            "c.fst",
            "--",
            "sh",
            "-c",
            script,
        ];
        let ran = run(dir, line).exits(1);
        assert!(dir.join("ended").exists(), "{method}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("has ended, exit status 5"),
            "{method}: {}",
            ran.stderr
        );
    }
}

/// What heeds no signal is killed after a grace; it does not have to end by itself, and nobody has to ask twice.
#[test]
fn a_command_that_heeds_no_signal_ends_with_fsage() {
    let asked = [
        ("run", Signal::INT, 7811),
        ("run", Signal::TERM, 7812),
        ("bench", Signal::TERM, 7813),
    ];
    for (verb, signal, seconds) in asked {
        let dir = temp();
        let dir = dir.path();
        let sleep = format!("sleep {seconds}");
        let line = format!("trap '' INT TERM; setsid -w {sleep}; {sleep}");
        let mut command = fsage();
        command.current_dir(dir).env("TMPDIR", dir).arg(verb);
        match verb {
            "run" => command.args([&format!("cmd:{line}"), "."]),
            _ => command.args(["--runs", "2", "-q", "--", &line]),
        };
        let running = start(&mut command);
        until("the command to run", || runs(&sleep));
        running.ended_by(signal, || until("the command to end", || !runs(&sleep)));
    }
}

#[test]
fn a_run_directory_that_was_moved_is_named_where_it_is() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("target")).unwrap();
    let away = dir.join("away");
    let command = format!("cmd: mv \"$PWD\" {}", away.display());
    let ran = run(dir, ["run", "-q", &command, "target"]).exits(3);
    let named = away.canonicalize().unwrap().display().to_string();
    assert!(ran.stderr.contains(&named), "{}", ran.stderr);
    assert!(names(&away).is_empty());
    let ran = run(dir, ["run", "-q", "cmd: rmdir \"$PWD\"", "target"]);
    assert!(!ran.stderr.contains("moved"), "{}", ran.stderr);
}

#[test]
fn what_a_process_runs_is_no_leftover() {
    let dir = temp();
    let dir = dir.path();
    let place = dir.join(".fsage-run-b123456789abcdef");
    fs::create_dir(&place).unwrap();
    fs::copy("/bin/sleep", place.join("slp")).unwrap();
    let mut program = Command::new(place.join("slp"));
    let mut program = program.arg("99").current_dir("/").spawn().unwrap();
    let listed = run(dir, ["cleanup", "--only", ".", "--yes"]);
    assert!(listed.text().contains("uses it"), "{}", listed.text());
    assert!(place.join("slp").exists());
    program.kill().unwrap();
    program.wait().unwrap();
    run(dir, ["cleanup", "--only", ".", "--yes"]).exits(0);
    assert!(!place.exists());
}

/// Ends a process that a test's command has left behind.
struct Behind(u32);

impl Drop for Behind {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// What a command leaves running in a directory is its user's; that it was left is said.
#[test]
fn a_process_left_behind_in_a_directory_is_told() {
    let dir = temp();
    let dir = dir.path();
    let pid = dir.join("pid").display().to_string();
    // By its end the one that stays has become what it is.
    let command = format!("sleep 99 >/dev/null 2>&1 & echo $! > {pid}; sleep 0.2");
    let run_it = ["run".to_owned(), format!("cmd: {command}"), ".".into()].to_vec();
    let bench_it = ["bench", "--runs=1", "--", "sh", "-c", &command].map(str::to_owned);
    for line in [run_it, bench_it.to_vec()] {
        let ran = run(dir, line);
        let behind = Behind(fs::read_to_string(&pid).unwrap().trim().parse().unwrap());
        assert_eq!(ran.code(), 0, "{}", ran.stderr);
        let left = format!("left process {} (sleep) running", behind.0);
        let said = format!("{} {}", String::from_utf8_lossy(&ran.stdout), ran.stderr);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&left), "{said}");
    }
}

/// A process that keeps a scratch file system is told whether or not the command succeeded, with the device that stays,
/// and `cleanup` knows that it is used.
#[test]
fn a_process_left_behind_on_a_scratch_file_system_is_told() {
    if !scratch() {
        return;
    }
    let dir = temp();
    let dir = dir.path();
    let pid = dir.join("pid").display().to_string();
    let command = |end: &str| format!("cmd: sleep 99 >/dev/null 2>&1 & echo $! > {pid}; {end}");
    let target = "scratch:ext4,size=64M";
    let validate = |end: &str| {
        let mut line = vec!["validate".to_owned(), "--workload".into(), command(end)];
        line.extend(["--target", target, "--runs=1", "--profile-time=1s"].map(str::to_owned));
        line
    };
    let failing = vec!["run".to_owned(), command("false"), target.into()];
    let lines = [(failing, 1), (validate("false"), 1), (validate("true"), 3)];
    for (line, code) in lines {
        let ran = run(dir, line);
        let behind = Behind(fs::read_to_string(&pid).unwrap().trim().parse().unwrap());
        assert_eq!(ran.code(), code, "{}", ran.stderr);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let uses = format!("process {} (sleep) uses it; /dev/loop", behind.0);
        assert!(said.contains(&uses), "{said}");
        assert!(said.contains("and its image stay until that has ended"));
        let device = said.split(&uses).nth(1).unwrap();
        let device = format!("/dev/loop{}", device.split(' ').next().unwrap());
        let listed = run(dir, ["cleanup", "--json"]).exits(0).json();
        let found = listed["found"].as_array().unwrap();
        let found = found.iter().find(|left| left["place"] == device.as_str());
        let why = found.unwrap()["in_use"].as_str().unwrap();
        assert!(
            why.starts_with(&format!("process {} (sleep) uses", behind.0)),
            "{why}"
        );
    }
}

/// What waits beside fsage needs its own programs, not those that the user's `PATH` names.
#[test]
fn nothing_stays_of_a_killed_fsage_without_a_path() {
    let dir = temp();
    let dir = dir.path();
    fs::create_dir(dir.join("target")).unwrap();
    let mut fsage = fsage();
    fsage.current_dir(dir).env("PATH", "/nonexistent");
    let running = start(fsage.args(["run", "-q", "postmark:files=2000", "target", "--for", "99s"]));
    until("a directory with files", || {
        let made = names(&dir.join("target"));
        made.first()
            .is_some_and(|name| !names(&dir.join("target").join(name)).is_empty())
    });
    let _ = running.ended_by(Signal::KILL, || ());
    until("the directory to go", || {
        names(&dir.join("target")).is_empty()
    });
}

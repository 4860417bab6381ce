//! The ptrace backend on real programs: what it sees, what it leaves as it was, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first surprise and says what it did not run"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fsage_capture::CaptureError;
use fsage_capture::ptrace::{Launch, Ptrace};
use fsage_capture::raw::{Backend as _, RawCall, RawEvent};
use fsage_core::{DevId, Pid};

/// Compiles one of the programs beside this file; `None`, said on stderr, without a compiler.
fn compile(name: &str, directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/ptrace")
        .join(name);
    let program = directory.join(name.trim_end_matches(".c"));
    let source = std::env::var_os("FSAGE_TEST_SOURCES")
        .map_or(source, |directory| Path::new(&directory).join(name));
    let compiler = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .env("TMPDIR", directory)
        .status();
    let Ok(status) = compiler else {
        fsage_testing::not_run("needs cc");
        return None;
    };
    assert!(status.success(), "cc failed on {name}");
    Some(program)
}

fn launch(program: &Path, arguments: &[&str], cwd: &Path) -> Launch {
    let mut argv = vec![program.as_os_str().to_owned()];
    argv.extend(arguments.iter().map(OsString::from));
    Launch {
        argv,
        cwd: Some(cwd.to_owned()),
        ..Launch::default()
    }
}

fn drain(tracer: &mut Ptrace) -> Vec<RawEvent> {
    let mut events = Vec::new();
    while tracer.poll(&mut |event| events.push(event)).unwrap() {}
    events
}

fn calls(events: &[RawEvent]) -> impl Iterator<Item = &RawCall> {
    events.iter().filter_map(|event| match event {
        RawEvent::Call(call) => Some(&**call),
        _ => None,
    })
}

fn named(events: &[RawEvent], nr: libc::c_long) -> Vec<&RawCall> {
    calls(events)
        .filter(|call| libc::c_long::from(call.nr) == nr)
        .collect()
}

fn text(path: Option<&Vec<u8>>) -> &str {
    path.map_or("", |path| std::str::from_utf8(path).unwrap())
}

fn state_of(pid: u32) -> Option<(char, u32)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
    let state = field("State:")?.trim().chars().next()?;
    Some((state, field("TracerPid:")?.trim().parse().ok()?))
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never happened: {what}");
}

/// Ends a child however the test ends.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_call_of_a_program_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile("every.c", directory.path()) else {
        return;
    };
    for detachable in [false, true] {
        let cwd = directory
            .path()
            .join(if detachable { "detachable" } else { "filtered" });
        std::fs::create_dir(&cwd).unwrap();
        let launch = Launch {
            detachable,
            ..launch(&program, &[], &cwd)
        };
        let mut tracer = Ptrace::launch(launch).unwrap();
        let events = drain(&mut tracer);
        assert_eq!(tracer.exit_status(), Some(42));
        check_files(&events, &cwd);
        check_arguments(&events);
        check_processes(&events, tracer.command().unwrap());
        check_times(&events);
    }
}

fn check_files(events: &[RawEvent], cwd: &Path) {
    let expected = cwd.join("file").metadata().unwrap();
    let opened = named(events, libc::SYS_openat)
        .into_iter()
        .find(|call| text(call.path.as_ref()) == "file")
        .unwrap();
    let file = opened.file.unwrap();
    assert_eq!((file.ino, file.size_bytes), (expected.ino(), 0));
    assert_eq!(DevId::from_kernel(file.dev).0, expected.dev());
    assert_eq!(file.mode & libc::S_IFMT, libc::S_IFREG);
    assert_ne!(file.open_flags & libc::O_APPEND as u32, 0);
    let of_file = |nr| {
        let calls = named(events, nr);
        calls
            .into_iter()
            .find(|c| c.file.is_some_and(|f| f.ino == expected.ino()))
            .unwrap()
    };
    let write = of_file(libc::SYS_write);
    assert_eq!((write.result, write.file.unwrap().size_bytes), (4096, 0));
    let read = of_file(libc::SYS_read);
    assert_eq!((read.result, read.file.unwrap().position), (50, 100));
    assert_eq!(read.file.unwrap().size_bytes, 4096);
    let other = cwd.join("other").metadata().unwrap();
    let copy = of_file(libc::SYS_copy_file_range);
    assert_eq!(copy.file2.unwrap().ino, other.ino());
    let send = of_file(libc::SYS_sendfile);
    assert_eq!(send.file2.unwrap().ino, other.ino());
    let close = of_file(libc::SYS_close);
    assert_eq!(close.result, 0);
    let stat = named(events, libc::SYS_stat)
        .into_iter()
        .find(|call| text(call.path.as_ref()) == "a")
        .unwrap();
    let a = cwd.join("a").metadata().unwrap();
    assert_eq!(
        stat.file.map(|file| (file.ino, file.mode)),
        Some((a.ino(), a.mode()))
    );
    assert_eq!(DevId::from_kernel(stat.file.unwrap().dev).0, a.dev());
    let statx = named(events, libc::SYS_statx)
        .into_iter()
        .find(|call| text(call.path.as_ref()) == "a")
        .unwrap();
    assert_eq!(statx.file, stat.file);
}

fn check_arguments(events: &[RawEvent]) {
    let one = |nr| *named(events, nr).first().unwrap();
    let paths = |nr| {
        let call = one(nr);
        (
            text(call.path.as_ref()).to_owned(),
            text(call.path2.as_ref()).to_owned(),
        )
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(paths(libc::SYS_rename), pair("a", "a2"));
    assert_eq!(paths(libc::SYS_renameat), pair("a2", "a3"));
    assert_eq!(paths(libc::SYS_symlink), pair("s", "target"));
    assert_eq!(paths(libc::SYS_symlinkat), pair("s", "target text"));
    assert_eq!(paths(libc::SYS_setxattr), pair("a", "user.x"));
    assert_eq!(paths(libc::SYS_fgetxattr), pair("", "user.fsage"));
    assert_eq!(
        one(libc::SYS_openat2).extra,
        [(libc::O_RDWR | libc::O_CREAT) as u64, 8]
    );
    assert_eq!(one(libc::SYS_readv).extra, [1024, 2]);
    assert_eq!(one(libc::SYS_pwritev2).extra, [1024, 2]);
    assert_eq!(one(libc::SYS_copy_file_range).extra, [16, 32]);
    assert_eq!(one(libc::SYS_sendfile).extra, [8, u64::MAX]);
    assert_eq!(one(libc::SYS_splice).extra, [64, u64::MAX]);
    let lock = |call: &&RawCall| call.args[1] == libc::F_SETLK as u64;
    let locks = named(events, libc::SYS_fcntl);
    let lock = locks.into_iter().find(lock).unwrap();
    assert_eq!(lock.extra, [11, 22]);
    // Its type, and SEEK_SET above that.
    assert_eq!(lock.args[2], libc::F_WRLCK as u64);
    let unreadable: Vec<_> = calls(events).filter(|call| call.path_unreadable).collect();
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert_eq!(unreadable[0].result, -i64::from(libc::EFAULT));
    let missing = one(libc::SYS_faccessat2);
    assert_eq!(
        (text(missing.path.as_ref()), missing.result),
        ("missing", -2)
    );
    assert!(calls(events).all(|call| call.pages_missed.is_none() && call.pages_ahead.is_none()));
    assert!(
        named(events, libc::SYS_mmap)
            .iter()
            .all(|call| call.args[3] & libc::MAP_ANONYMOUS as u64 == 0)
    );
}

fn check_processes(events: &[RawEvent], command: Pid) {
    let mut alive = BTreeMap::from([(command.0, 1)]);
    let (mut threads, mut processes, mut by_other_thread) = (0, 0, 0);
    for event in events {
        match event {
            RawEvent::Fork {
                pid,
                child_pid,
                child_tid,
                clone_flags,
                ..
            } => {
                assert!(alive.contains_key(&pid.0));
                *alive.entry(child_pid.0).or_default() += 1;
                let thread = clone_flags & libc::CLONE_THREAD as u64 != 0;
                assert_eq!(thread, pid == child_pid);
                assert_eq!(!thread, child_pid.0 == child_tid.0);
                *(if thread { &mut threads } else { &mut processes }) += 1;
            }
            RawEvent::Exec { pid, tid, file, .. } => {
                assert!(file.is_some());
                by_other_thread += usize::from(pid.0 != tid.0);
                if pid.0 != tid.0 {
                    alive.insert(pid.0, 1);
                }
            }
            RawEvent::Exit { pid, last, .. } => {
                let left = alive.get_mut(&pid.0).unwrap();
                *left -= 1;
                assert_eq!(*last, *left == 0);
            }
            RawEvent::Call(call) => {
                assert!(alive.get(&call.pid.0).is_some_and(|&n| n > 0), "{call:?}");
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(alive.values().all(|&left| left == 0));
    assert_eq!((threads, processes, by_other_thread), (5, 5, 1));
    let in_threads = calls(events).filter(|call| text(call.path.as_ref()).starts_with('t'));
    let tids: BTreeSet<u32> = in_threads
        .filter(|c| c.args[2] == 0o102)
        .map(|call| call.tid.0)
        .collect();
    assert_eq!(tids.len(), 4);
    let executed: Vec<i64> = named(events, libc::SYS_execve)
        .iter()
        .map(|c| c.result)
        .collect();
    assert_eq!(executed.iter().filter(|&&result| result == 0).count(), 3);
    assert_eq!(executed.iter().filter(|&&result| result == -2).count(), 1);
    assert!(
        named(events, libc::SYS_execve)
            .iter()
            .all(|call| call.path.is_some())
    );
}

#[test]
fn each_of_many_brief_children_is_told_of_once_before_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile("brief.c", directory.path()) else {
        return;
    };
    let mut tracer = Ptrace::launch(launch(&program, &[], directory.path())).unwrap();
    let (mut forks, mut alive) = (0, BTreeSet::new());
    for event in drain(&mut tracer) {
        match event {
            RawEvent::Fork {
                child_tid,
                clone_flags,
                ..
            } => {
                assert_ne!(clone_flags, 0, "as the maker gave them");
                assert!(alive.insert(child_tid), "{child_tid:?} lives");
                forks += 1;
            }
            RawEvent::Exit { tid, .. } => {
                let known =
                    alive.remove(&tid) || tracer.command().is_some_and(|pid| pid.0 == tid.0);
                assert!(known, "{tid:?} was not begun");
            }
            _ => {}
        }
    }
    assert_eq!((forks, tracer.exit_status()), (1500, Some(0)));
}

fn check_times(events: &[RawEvent]) {
    let first = calls(events).map(|call| call.start_ns).min().unwrap();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let elapsed = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 - first;
    let mut last_start = BTreeMap::new();
    for call in calls(events) {
        let start = call.start_ns - first;
        assert!(start + call.latency_ns <= elapsed, "{call:?}");
        let previous = last_start.insert(call.tid, call.start_ns).unwrap_or(0);
        assert!(call.start_ns > previous, "{call:?}");
    }
    // A read that nothing but a timer of 20 ms ends, which may have been set well before.
    let read = named(events, libc::SYS_read)
        .into_iter()
        .find(|call| call.result < -500)
        .unwrap();
    assert!(read.latency_ns > 0);
    assert!(calls(events).filter(|call| call.latency_ns > 0).count() > 10);
}

/// Calls per number, of those that are captured.
fn counts_by_strace(
    program: &Path,
    cwd: &Path,
    wanted: &BTreeSet<u32>,
) -> Option<BTreeMap<u32, usize>> {
    let log = cwd.join("strace.log");
    let status = Command::new("strace")
        .args(["-f", "-n", "-o"])
        .arg(&log)
        .arg(program)
        .current_dir(cwd)
        .status();
    let Ok(status) = status else {
        fsage_testing::not_run("needs strace");
        return None;
    };
    assert_eq!(status.code(), Some(42));
    let mut counts = BTreeMap::new();
    for line in String::from_utf8_lossy(&std::fs::read(&log).unwrap()).lines() {
        let Some((_, rest)) = line.split_once('[') else {
            continue;
        };
        let Some((nr, rest)) = rest.split_once(']') else {
            continue;
        };
        let Ok(nr) = nr.trim().parse() else { continue };
        let uncaptured = ["MAP_ANONYMOUS", "F_GETFD", " resumed>", "--- ", "+++ "];
        let uncaptured = uncaptured.iter().any(|mark| rest.contains(mark));
        if wanted.contains(&nr) && !uncaptured {
            *counts.entry(nr).or_default() += 1;
        }
    }
    Some(counts)
}

#[test]
fn strace_sees_the_same_calls() {
    let directory = tempfile::tempdir().unwrap();
    let Some(program) = compile("every.c", directory.path()) else {
        return;
    };
    let cwd = directory.path().join("cwd");
    let mut counts = BTreeMap::<u32, usize>::new();
    std::fs::create_dir(&cwd).unwrap();
    let mut tracer = Ptrace::launch(launch(&program, &[], &cwd)).unwrap();
    for call in calls(&drain(&mut tracer)) {
        *counts.entry(call.nr).or_default() += 1;
    }
    std::fs::remove_dir_all(&cwd).unwrap();
    std::fs::create_dir(&cwd).unwrap();
    assert!(counts.len() >= 95, "{} kinds of call", counts.len());
    let wanted = counts.keys().copied().collect();
    if let Some(theirs) = counts_by_strace(&program, &cwd, &wanted) {
        assert_eq!(counts, theirs);
    }
}

#[test]
fn an_ordinary_user_may() {
    if !rustix::process::geteuid().is_root() {
        fsage_testing::not_run(
            "needs root to become someone else; every other test shows the same",
        );
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let tests = directory.path().join("tests");
    // Not by this process: a child that another test is just starting would keep it open for
    // writing, and it could not be run.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&tests)
        .status();
    assert!(copied.unwrap().success());
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ptrace");
    for source in ["every.c", "waiter.c"] {
        std::fs::copy(sources.join(source), directory.path().join(source)).unwrap();
    }
    let ran = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(tests)
        .args([
            "--test-threads",
            "1",
            "--nocapture",
            "ptrace::every_call",
            "ptrace::an_attached",
        ])
        .env("TMPDIR", directory.path())
        .env("FSAGE_TEST_SOURCES", directory.path())
        .current_dir(directory.path())
        .output();
    let Ok(ran) = ran else {
        fsage_testing::not_run("needs setpriv");
        return;
    };
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(said.contains("2 passed"), "{said}");
}

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let failure = |launch| match Ptrace::launch(launch) {
        Err(CaptureError::Command { command, source }) => (command, source.raw_os_error()),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it ran"),
    };
    let missing = failure(launch(
        Path::new("fsage-no-such-command"),
        &[],
        directory.path(),
    ));
    assert_eq!(
        missing,
        ("fsage-no-such-command".into(), Some(libc::ENOENT))
    );
    assert_eq!(
        failure(launch(
            &directory.path().join("gone"),
            &[],
            directory.path()
        ))
        .1,
        Some(libc::ENOENT)
    );
    assert_eq!(
        failure(launch(&plain, &[], directory.path())).1,
        Some(libc::EACCES)
    );
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(
        failure(launch(&plain, &[], directory.path())).1,
        Some(libc::ENOEXEC)
    );
    for detachable in [false, true] {
        let nowhere = Launch {
            detachable,
            ..launch(Path::new("true"), &[], Path::new("/nonexistent"))
        };
        match Ptrace::launch(nowhere) {
            Err(CaptureError::Io { what, source }) => {
                assert_eq!(
                    (what.as_str(), source.raw_os_error()),
                    ("enter /nonexistent", Some(libc::ENOENT))
                );
            }
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    assert!(matches!(
        Ptrace::launch(Launch::default()),
        Err(CaptureError::Command { .. })
    ));
}

#[test]
fn the_environment_is_the_callers_and_more() {
    let directory = tempfile::tempdir().unwrap();
    let tool = directory.path().join("fsage-test-tool");
    // A shell writes it, for the reason given at `an_ordinary_user_may`.
    let script = r#"printf '#!/bin/sh\ntest "$FSAGE_TEST_ADDED$1" = yesx' > "$0"; chmod +x "$0""#;
    assert!(
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(&tool)
            .status()
            .unwrap()
            .success()
    );
    let mut path = directory.path().as_os_str().to_owned();
    path.push(":/usr/bin:/bin");
    let env = vec![
        ("PATH".into(), path),
        ("FSAGE_TEST_ADDED".into(), "yes".into()),
    ];
    let launch = Launch {
        env,
        ..launch(Path::new("fsage-test-tool"), &["x"], Path::new("/"))
    };
    let mut tracer = Ptrace::launch(launch).unwrap();
    let events = drain(&mut tracer);
    assert_eq!(tracer.exit_status(), Some(0));
    assert_eq!(
        text(named(&events, libc::SYS_execve)[0].path.as_ref()),
        tool.to_str().unwrap()
    );
}

#[test]
fn exit_statuses_are_the_shells() {
    for (script, expected) in [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let mut tracer =
            Ptrace::launch(launch(Path::new("sh"), &["-c", script], Path::new("/"))).unwrap();
        drain(&mut tracer);
        assert_eq!(tracer.exit_status(), Some(expected), "{script}");
    }
}

fn start_waiter(directory: &Path) -> Option<(Reaped, BufReader<std::process::ChildStdout>)> {
    let program = compile("waiter.c", directory)?;
    let mut child = Command::new(program)
        .arg(directory.join("work"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Some((Reaped(child), said))
}

#[test]
fn an_attached_process_is_left_unharmed() {
    let directory = tempfile::tempdir().unwrap();
    let Some((mut waiter, mut said)) = start_waiter(directory.path()) else {
        return;
    };
    let pid = waiter.0.id();
    let mut input = waiter.0.stdin.take().unwrap();
    let work = directory.path().join("work");
    let mut signals = 0;
    for round in 0..10 {
        let mut tracer = Ptrace::attach(&[Pid(pid)]).unwrap();
        assert_eq!(tracer.processes(), [Pid(pid)]);
        assert_eq!(
            state_of(pid).map(|(state, _)| state),
            Some('t'),
            "it stands still at first"
        );
        let mut events = Vec::new();
        while named(&events, libc::SYS_pwrite64).len() < 20 {
            assert!(tracer.poll(&mut |event| events.push(event)).unwrap());
            if round % 2 == 0 && signals == round / 2 {
                signals += 1;
                Command::new("kill")
                    .args(["-USR1", &pid.to_string()])
                    .status()
                    .unwrap();
            }
        }
        tracer.stop();
        while tracer.poll(&mut |event| events.push(event)).unwrap() {}
        assert_eq!(state_of(pid).map(|(_, tracer)| tracer), Some(0));
        let write = named(&events, libc::SYS_pwrite64)[3];
        assert_eq!(
            write.file.map(|file| file.ino),
            Some(work.metadata().unwrap().ino())
        );
        let open = named(&events, libc::SYS_openat)[3];
        assert_eq!(text(open.path.as_ref()), work.to_str().unwrap());
        if round % 3 == 0 {
            drop(tracer);
        }
        input.write_all(b"x").unwrap();
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), signals.to_string());
    }
    drop(input);
    assert_eq!(waiter.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_stopped_process_stays_stopped() {
    let mut sleeper = Reaped(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = sleeper.0.id();
    let signal = |name: &str| {
        Command::new("kill")
            .args([name, &pid.to_string()])
            .status()
            .unwrap()
    };
    signal("-STOP");
    eventually("stopped", || state_of(pid) == Some(('T', 0)));
    let mut tracer = Ptrace::attach(&[Pid(pid)]).unwrap();
    for _ in 0..5 {
        assert!(tracer.poll(&mut |_| ()).unwrap());
    }
    tracer.stop();
    eventually("still stopped", || state_of(pid) == Some(('T', 0)));
    let mut tracer = Ptrace::attach(&[Pid(pid)]).unwrap();
    assert!(tracer.poll(&mut |_| ()).unwrap());
    signal("-CONT");
    eventually("going on", || {
        state_of(pid).is_some_and(|(state, _)| state == 'S')
    });
    signal("-STOP");
    std::thread::sleep(Duration::from_millis(50));
    tracer.stop();
    drop(tracer);
    eventually("stopped again", || state_of(pid) == Some(('T', 0)));
    signal("-CONT");
    eventually("asleep", || state_of(pid) == Some(('S', 0)));
    assert_eq!(sleeper.0.try_wait().unwrap(), None);
}

#[test]
fn what_cannot_be_attached_is_refused() {
    assert!(matches!(
        Ptrace::attach(&[Pid(u32::MAX >> 2)]),
        Err(CaptureError::Io { .. })
    ));
    assert!(matches!(
        Ptrace::attach(&[Pid(std::process::id())]),
        Err(CaptureError::Unsupported { .. })
    ));
}

const SLOW: &str = "for i in 1 2 3 4 5 6 7 8 9 10; do cat /dev/null; sleep 0.02; done; exit 9";

#[test]
fn a_stopped_capture_lets_the_command_end() {
    for detachable in [false, true] {
        let launch = Launch {
            detachable,
            ..launch(Path::new("sh"), &["-c", SLOW], Path::new("/"))
        };
        let mut tracer = Ptrace::launch(launch).unwrap();
        let mut events = Vec::new();
        while events.is_empty() {
            assert!(tracer.poll(&mut |event| events.push(event)).unwrap());
        }
        tracer.stop();
        while tracer.poll(&mut |event| events.push(event)).unwrap() {}
        let pid = tracer.command().unwrap().0;
        let traced = state_of(pid).is_some_and(|(_, tracer)| tracer != 0);
        assert_eq!(traced, !detachable);
        assert_eq!(tracer.exit_status(), None);
        assert_eq!(tracer.wait_for_exit(), Some(9));
    }
}

#[test]
fn a_dropped_capture_ends_its_command() {
    let mut tracer = Ptrace::launch(launch(Path::new("sleep"), &["1000"], Path::new("/"))).unwrap();
    let pid = tracer.command().unwrap().0;
    assert!(tracer.poll(&mut |_| ()).unwrap());
    drop(tracer);
    assert_eq!(state_of(pid), None);
    let tracer = Ptrace::launch(launch(Path::new("sleep"), &["1000"], Path::new("/"))).unwrap();
    let pid = tracer.command().unwrap().0;
    drop(tracer);
    assert_eq!(state_of(pid), None, "never polled");
}

/// Not a test but the tracer of `a_killed_tracer…`, in a process of its own that can be killed.
#[test]
fn role_of_a_tracer() {
    let Ok(role) = std::env::var("FSAGE_TEST_ROLE") else {
        return;
    };
    let mut tracer = match role.parse() {
        Ok(pid) => Ptrace::attach(&[Pid(pid)]).unwrap(),
        Err(_) => Ptrace::launch(launch(Path::new("sleep"), &["1000"], Path::new("/"))).unwrap(),
    };
    tracer.poll(&mut |_| ()).unwrap();
    println!("tracing {}", tracer.processes()[0].0);
    while tracer.poll(&mut |_| ()).unwrap() {}
}

fn start_tracer(role: &str) -> (Reaped, u32) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ptrace::role_of_a_tracer", "--nocapture"])
        .env("FSAGE_TEST_ROLE", role)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    let pid = said
        .lines()
        .find_map(|line| line.ok()?.split_once("tracing ")?.1.trim().parse().ok())
        .unwrap();
    (Reaped(child), pid)
}

#[test]
fn a_killed_tracer_takes_its_command_along_and_nothing_else() {
    let (tracer, pid) = start_tracer("launch");
    assert!(state_of(pid).is_some_and(|(_, tracer)| tracer != 0));
    drop(tracer);
    eventually("the command is gone", || {
        state_of(pid).is_none_or(|(state, _)| state == 'Z')
    });

    let directory = tempfile::tempdir().unwrap();
    let Some((mut waiter, mut said)) = start_waiter(directory.path()) else {
        return;
    };
    let (tracer, pid) = start_tracer(&waiter.0.id().to_string());
    assert_eq!(pid, waiter.0.id());
    assert!(state_of(pid).is_some_and(|(_, tracer)| tracer != 0));
    std::thread::sleep(Duration::from_millis(100));
    drop(tracer);
    eventually("detached", || {
        state_of(pid).is_some_and(|(_, tracer)| tracer == 0)
    });
    drop(waiter.0.stdin.take());
    assert_eq!(waiter.0.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

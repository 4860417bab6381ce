//! Running fsage as a user does, and looking at what it leaves.

#![allow(dead_code, unused_imports, reason = "no test file uses all of it")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "waiting for processes"
)]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

pub use fsage_testing::{fuse, root, tool};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything that is waited for takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What fsage shows on a terminal of so many columns; it must succeed. `line` goes through a shell. Needs `script`.
pub fn on_a_terminal(dir: &Path, columns: u16, line: &str) -> String {
    let fsage = env!("CARGO_BIN_EXE_fsage");
    let line = format!("stty cols {columns}; {fsage} {line}");
    let mut script = Command::new("script");
    script
        .current_dir(dir)
        .env_remove("COLUMNS")
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .env("TERM", "xterm");
    let output = script.args(["-qec", &line, "/dev/null"]).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{line}: {shown}");
    shown
}

/// What one command said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        Self {
            status: output.status,
            stdout: output.stdout,
            stderr,
        }
    }
}

impl Ran {
    /// Its exit code; a signal has none.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| panic!("ended by {}: {}", self.status, self.stderr))
    }

    /// Requires an exit code.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            code,
            "stderr: {}\nstdout: {}",
            self.stderr,
            self.text()
        );
        self
    }

    /// Requires one error line, with all of `words`, an exit code, and nothing on stdout.
    pub fn fails(self, code: i32, words: &[&str]) -> Self {
        let said = self.exits(code);
        assert!(said.stdout.is_empty(), "data of a failure: {}", said.text());
        let errors: Vec<&str> = said
            .stderr
            .lines()
            .filter(|line| line.starts_with("fsage: "))
            .collect();
        assert_eq!(errors.len(), 1, "expected one error line: {}", said.stderr);
        for word in words {
            assert!(
                said.stderr.contains(word),
                "`{word}` is missing: {}",
                said.stderr
            );
        }
        said
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// All of stdout as one JSON value.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not JSON: {e}\n{}\n{}", self.text(), self.stderr))
    }
}

/// fsage, with the arguments to come.
pub fn fsage() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fsage"));
    // As without a terminal, whoever runs the tests in one.
    command.stdin(Stdio::null()).env("COLUMNS", "100");
    command
}

/// Runs fsage in `dir`.
pub fn run<S: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = S>) -> Ran {
    run_command(fsage().current_dir(dir).args(args))
}

/// Runs `fsage bench` in `dir`, with leave for whatever the plan holds.
pub fn bench(dir: &Path, more: &[&str]) -> Ran {
    let leave = ["bench", "--allow-commands", "--allow-paths"];
    run(dir, leave.iter().chain(more))
}

/// Writes the plan of an experiment, `plan.toml`.
pub fn plan(dir: &Path, text: &str) {
    std::fs::write(dir.join("plan.toml"), text).expect("write a plan");
}

/// Runs an experiment; its result.
pub fn bench_plan(dir: &Path, text: &str) -> Value {
    plan(dir, text);
    bench(dir, &["plan.toml", "--json"]).exits(0).json()
}

/// What an experiment's result says of the configuration of that name.
pub fn configuration<'a>(result: &'a Value, name: &str) -> &'a Value {
    let all = result["configurations"].as_array().expect("configurations");
    let found = all.iter().find(|c| c["name"] == name);
    found.unwrap_or_else(|| panic!("no configuration {name}: {all:?}"))
}

/// The trace of what a model does, made without running it.
pub fn play(dir: &Path, workload: &str, trace: &str) {
    run(dir, ["run", workload, "--role", "run", "--to-trace", trace]).exits(0);
}

pub fn run_command(command: &mut Command) -> Ran {
    command.output().expect("run fsage").into()
}

pub fn temp() -> TempDir {
    tempfile::Builder::new()
        .prefix("fsage-test-")
        .tempdir()
        .expect("a temporary directory")
}

/// A directory in memory where there is one: its file system is quickly made cold, however busy the
/// machine's disk is.
pub fn temp_in_memory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("fsage-test-");
    builder
        .tempdir_in("/dev/shm")
        .or_else(|_| builder.tempdir())
        .expect("a temporary directory")
}

/// A profile of a real file system, without its raw samples: `ext4` or `xfs`.
pub fn profile(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/{name}.fsp"))
}

/// Where the published schemas are.
pub fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/schemas")
}

/// A published schema.
pub fn schema(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(schemas().join(name)).unwrap()).unwrap()
}

/// Whether scratch file systems can be made here.
pub fn scratch() -> bool {
    root() && tool("mkfs.ext4")
}

/// Starts fsage with its outputs kept for later, however long they are; [`Running`] ends it if a test fails.
pub fn start(command: &mut Command) -> Running {
    let outputs = [(); 2].map(|()| tempfile::tempfile().expect("make a file for an output"));
    let [stdout, stderr] = outputs
        .each_ref()
        .map(|file| file.try_clone().expect("a handle"));
    let child = command
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .expect("start fsage");
    Running(Some(child), outputs)
}

/// A process that does not outlive its test, and what it says.
#[derive(Debug)]
pub struct Running(Option<Child>, [File; 2]);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.id() as i32).expect("a process");
        rustix::process::kill_process(pid, signal).expect("signal fsage");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ran {
        let mut child = self.0.take().expect("it runs");
        let status = child.wait().expect("wait for fsage");
        let [stdout, stderr] = self.1.each_mut().map(|file| {
            let mut said = Vec::new();
            file.rewind().expect("go to its begin");
            file.read_to_end(&mut said).expect("read what it said");
            said
        });
        let output = Output {
            status,
            stdout,
            stderr,
        };
        output.into()
    }

    /// Signals fsage, waits for its end, requires that it ended as that signal asks for, and returns
    /// what it said. `free` ends what fsage leaves running, which shares its pipes.
    pub fn ended_by(mut self, signal: rustix::process::Signal, free: impl FnOnce()) -> Ran {
        self.signal(signal);
        let code = self.code();
        free();
        let ran = self.wait();
        // SIGKILL ends it without a code; otherwise 128 and the signal's number.
        let kill = signal == rustix::process::Signal::KILL;
        let expected = (!kill).then(|| 128 + signal.as_raw());
        assert_eq!(code, expected, "{}", ran.stderr);
        ran
    }

    /// Its exit code once it has ended, whoever still holds its pipes.
    pub fn code(&mut self) -> Option<i32> {
        let child = self.0.as_mut().expect("it runs");
        until("fsage to end", || {
            child.try_wait().expect("ask for its end").is_some()
        });
        child.wait().expect("wait for fsage").code()
    }

    pub fn has_ended(&mut self) -> bool {
        self.0
            .as_mut()
            .expect("it runs")
            .try_wait()
            .expect("ask for its end")
            .is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What is tried with ever more time until that was enough: what takes an idle machine a moment takes a busy one long.
pub fn in_time<T>(
    times: &[&'static str],
    mut tried: impl FnMut(&'static str) -> T,
    enough: impl Fn(&T) -> bool,
) -> T {
    let (last, shorter) = times.split_last().expect("a time");
    for time in shorter {
        let got = tried(time);
        if enough(&got) {
            return got;
        }
    }
    tried(last)
}

/// Waits until `ready`; a test that waits in vain fails.
pub fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The loop devices that process `pid` has mounted and this process does not see, each with the file
/// of sysfs that names its image, and the image.
pub fn loop_devices(pid: u32) -> Vec<(PathBuf, String)> {
    let mounts = |path: String| std::fs::read_to_string(path).unwrap_or_default();
    let ours = mounts("/proc/self/mounts".into());
    mounts(format!("/proc/{pid}/mounts"))
        .lines()
        .filter(|line| !ours.lines().any(|our| our == *line) && line.contains("/fsage-scratch-"))
        .filter_map(|line| line.split(' ').next()?.strip_prefix("/dev/loop"))
        .filter_map(|number| {
            let file = PathBuf::from(format!("/sys/block/loop{number}/loop/backing_file"));
            let image = std::fs::read_to_string(&file).ok()?;
            Some((file, image))
        })
        .collect()
}

/// Waits until loop devices are free, or another's.
pub fn until_detached(devices: &[(PathBuf, String)]) {
    until("the loop devices to go", || {
        devices
            .iter()
            .all(|(file, image)| std::fs::read_to_string(file).ok().as_ref() != Some(image))
    });
}

/// Starts fsage and kills it after that long, unless it has ended by then: whether it was killed. What it had mounted
/// is taken down.
pub fn killed_after(delay: Duration, command: &mut Command) -> bool {
    let mut running = start(command);
    std::thread::sleep(delay);
    let devices = loop_devices(running.id());
    if running.has_ended() {
        running.wait();
        return false;
    }
    running.signal(rustix::process::Signal::KILL);
    // It may have ended by itself just before.
    let killed = running.code().is_none();
    let ran = running.wait();
    assert!(killed || ran.code() == 0, "{}", ran.stderr);
    until_detached(&devices);
    killed
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("list a directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// A small trace of a shell that makes, reads, renames and removes files below `dir`.
pub fn small_trace(dir: &Path) -> PathBuf {
    let trace = dir.join("small.fst");
    let tree = dir.join("tree");
    std::fs::create_dir(&tree).expect("a directory");
    let script = "mkdir sub; echo hello > sub/first.txt; cat sub/first.txt > sub/second.txt; \
                  mv sub/second.txt third.txt; ln -s third.txt alias; cat alias >/dev/null; \
                  rm sub/first.txt; rmdir sub";
    run_command(
        fsage()
            .current_dir(&tree)
            .args(["trace", "--under", ".", "-o"])
            .arg(&trace)
            .args(["--", "sh", "-c", script]),
    )
    .exits(0);
    trace
}

/// How many operations of each kind `show --json` tells.
pub fn mix(trace: &Path) -> Vec<(String, u64)> {
    let shown = run(
        Path::new("/"),
        ["show".as_ref(), trace.as_os_str(), "--json".as_ref()],
    );
    let mut mix: Vec<(String, u64)> = shown.json()["kinds"]
        .as_array()
        .expect("kinds")
        .iter()
        .map(|kind| {
            let name = kind["kind"].as_str().expect("a kind").to_string();
            (name, kind["operations"].as_u64().expect("a count"))
        })
        .collect();
    mix.sort();
    mix
}

/// Processes that a process has started and that have not ended.
pub fn children(pid: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|child| {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|s| s.split_whitespace().nth(1));
            parent == Some(&pid.to_string())
        })
        .collect()
}

/// Processes of fsage's that a process has started to serve something.
pub fn daemons(pid: u32) -> Vec<u32> {
    let serves = |child: &u32| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.windows(10).any(|w| w == b"--launched")
    };
    children(pid).into_iter().filter(serves).collect()
}

/// Waits until a process is gone or waits only for its parent to take note.
pub fn until_gone(pid: u32) {
    let path = format!("/proc/{pid}/stat");
    until("a process to go", || {
        std::fs::read_to_string(&path).map_or(true, |s| s.contains(") Z "))
    });
}

/// Kills a process that is no child of this one.
pub fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    // It may have ended just now.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// Random numbers that are the same in every run.
pub struct Chance(pub u64);

impl Chance {
    /// From 0 to below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Whether something is mounted at or below a directory, as this process sees it.
pub fn mounted_below(dir: &Path) -> bool {
    let dir = dir
        .canonicalize()
        .expect("a directory")
        .display()
        .to_string();
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the mounts");
    mounts.lines().any(|line| {
        let place = line.split(' ').nth(1).unwrap_or_default();
        place == dir || place.starts_with(&format!("{dir}/"))
    })
}

//! One run of fsage, and what must hold of every one.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::World;

/// Longer than any case takes that does not hang, on a busy machine.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// How often it is asked whether a process has ended.
const EVERY: Duration = Duration::from_millis(3);

/// What fsage may end with; `fsage --help` says so.
const DOCUMENTED: [i32; 5] = [0, 1, 2, 3, 130];

/// Marks every process of a torture in its environment.
pub const MARK: &str = "FSAGE_TORTURE";

/// Memory that no input of a case needs, KiB.
pub const MEMORY_KIB: u64 = 6 << 20;

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub hung: bool,
}

/// fsage as it is run here: in `place`, with its temporary files below it, and bounded memory. `limits` are
/// further words for `ulimit`.
pub fn fsage(world: &World, place: &Path, limits: &[&str]) -> Command {
    let mut script = format!("ulimit -v {MEMORY_KIB}; ");
    for limit in limits {
        script.push_str(&format!("ulimit {limit}; "));
    }
    script.push_str("exec \"$@\"");
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &script, "bash"]).arg(&world.program);
    command
        .current_dir(place)
        .env("TMPDIR", place)
        .env("XDG_CACHE_HOME", place.join("cache"))
        .env(MARK, seed_mark(world.seed))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .process_group(0);
    command
}

/// The same for a user who has no other process, so that a limit of processes counts those of `command` alone.
pub fn as_nobody(world: &World, command: &Command, place: &Path) -> Result<Command> {
    let user = 61_000 + std::process::id() % 4000;
    let open = |dir: &Path| std::fs::set_permissions(dir, Permissions::from_mode(0o711));
    let copy = world.dir.path().join("fsage");
    open(world.dir.path()).context("open a directory to others")?;
    if !copy.exists() {
        std::fs::copy(&world.program, &copy).context("copy the program")?;
    }
    let own = |dir: &Path| chown(dir, Some(user), Some(user)).context("give a directory away");
    own(place)?;
    for name in super::left::names(place) {
        own(&place.join(name))?;
    }
    let mut other = Command::new("setpriv");
    let user = user.to_string();
    other.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    other.arg(command.get_program());
    for word in command.get_args() {
        let program = word == world.program.as_os_str();
        other.arg(if program { copy.as_os_str() } else { word });
    }
    let environment = command.get_envs();
    other.envs(environment.filter_map(|(name, value)| Some((name, value?))));
    other
        .current_dir(place)
        .stdin(Stdio::null())
        .process_group(0);
    Ok(other)
}

/// What tells this torture's processes from others, in their environment.
pub fn mark(seed: u64) -> String {
    format!("{MARK}={}", seed_mark(seed))
}

pub fn seed_mark(seed: u64) -> String {
    format!("{}-{seed}", std::process::id())
}

/// A run that has begun.
pub struct Going {
    child: Child,
    stdout: tempfile::NamedTempFile,
    stderr: tempfile::NamedTempFile,
}

impl Going {
    /// What it says goes to files: a pipe could fill up, or be held by who outlives it.
    pub fn start(world: &World, command: &mut Command) -> Result<Self> {
        let file = || {
            tempfile::Builder::new()
                .prefix("said-")
                .tempfile_in(world.dir.path())
                .context("make a temporary file")
        };
        let (stdout, stderr) = (file()?, file()?);
        let child = command
            .stdout(stdout.reopen().context("use a temporary file")?)
            .stderr(stderr.reopen().context("use a temporary file")?)
            .spawn()
            .context("start fsage")?;
        Ok(Self {
            child,
            stdout,
            stderr,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// To fsage alone.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits for the end; one that does not come is made.
    pub fn wait(mut self, patience: Duration) -> Result<Ran> {
        let begun = Instant::now();
        let mut hung = false;
        let status = loop {
            if let Some(status) = self.child.try_wait().context("wait for fsage")? {
                break status;
            }
            if begun.elapsed() > patience && !hung {
                hung = true;
                if let Some(group) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
            }
            std::thread::sleep(EVERY);
        };
        Ok(Ran {
            code: status.code(),
            signal: status.signal(),
            stdout: std::fs::read(self.stdout.path()).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&std::fs::read(self.stderr.path()).unwrap_or_default())
                .into_owned(),
            hung,
        })
    }
}

/// Runs `command` to its end.
pub fn run(world: &World, command: &mut Command) -> Result<Ran> {
    Going::start(world, command)?.wait(PATIENCE)
}

impl Ran {
    /// Whether nothing was tried at all: the line does not stand in fsage's help.
    pub fn line_is_wrong(&self) -> bool {
        self.code == Some(2) && self.stderr.contains("try '--help'")
    }

    /// What is wrong with it; `None` if nothing is. `sent` is the signal that it was sent.
    pub fn wrong(&self, sent: Option<Signal>, json: bool) -> Option<String> {
        let said = || {
            let last = self.stderr.lines().rev().find(|l| !l.trim().is_empty());
            last.unwrap_or_default()
                .chars()
                .take(300)
                .collect::<String>()
        };
        if self.hung {
            return Some(format!("did not end: {}", said()));
        }
        for word in ["panicked at", "stack overflow", "memory allocation of"] {
            if let Some(line) = self.stderr.lines().find(|l| l.contains(word)) {
                return Some(line.chars().take(300).collect());
            }
        }
        let number = sent.map(Signal::as_raw);
        match (self.code, self.signal) {
            (Some(code), _) if DOCUMENTED.contains(&code) => {}
            (Some(code), _) if number.is_some_and(|n| code == 128 + n) => {}
            (None, signal) if signal.is_some() && signal == number => return None,
            (code, signal) => {
                return Some(format!(
                    "ended with {code:?}, signal {signal:?}: {}",
                    said()
                ));
            }
        }
        if json && !self.stdout.is_empty() && !is_json(&self.stdout) {
            let text = String::from_utf8_lossy(&self.stdout);
            return Some(format!("stdout is no JSON: {text:.200}"));
        }
        if self
            .stderr
            .chars()
            .any(|c| c.is_control() && !"\n\t\r".contains(c))
        {
            return Some(format!("control characters in what it said: {:?}", said()));
        }
        None
    }
}

/// One value, or one on each line.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::Deserializer::from_slice(bytes)
        .into_iter::<serde::de::IgnoredAny>()
        .all(|value| value.is_ok())
}

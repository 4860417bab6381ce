//! A process beside this one that serves a slowed directory, for targets of experiments.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_format::result::slowfs::SlowfsStatistics;
use fsage_host::HostError;
use fsage_host::guard::GuardedMount;
use fsage_host::scratch::daemon::{Daemon, Program, obey};
use fsage_host::scratch::{Layer, Layered, detach, make_mount_point, may_mount_fuse};

use crate::Unmounted;
use crate::mounted::Mounted;
use crate::slower::Slower;
use crate::slowing::Slowing;

/// What a daemon answers to an order that it has carried out.
const DONE: &str = "done";

/// Serves directories again by starting a program that does.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// `LOWER MOUNT --slow SLOWING --launched` is appended.
    program: Program,
}

impl Launcher {
    /// Starts this program itself, as `slowfs`.
    pub fn this_program() -> Result<Self, HostError> {
        Program::this(&["slowfs"]).map(Self::of)
    }

    /// Starts that program.
    pub fn of(program: Program) -> Self {
        Self { program }
    }

    /// Serves `lower` again, slowed, at a place of its own.
    pub fn launch(&self, lower: &Path, slowing: &Slowing) -> Result<Layered, HostError> {
        may_mount_fuse(|| format!("slow {}", lower.display()))?;
        let dir = make_mount_point("slow")?;
        // In a namespace of fsage's own the kernel takes the mount away; else this does.
        let guard = GuardedMount::of(&dir, true);
        let mut command = self.program.command();
        command
            .arg(lower)
            .arg(&dir)
            .arg(format!("--slow={slowing}"))
            .arg("--launched");
        let daemon = Daemon::start(&mut command, "the daemon of a slowed file system")?;
        let layer = LaunchedSlowfs {
            daemon: Mutex::new(Some(daemon)),
            dir: dir.clone(),
            slowing: slowing.clone(),
            _guard: guard,
        };
        Ok(Layered::new(Arc::new(layer), dir, lower.to_owned()))
    }
}

/// A slowed directory whose daemon this process started.
#[derive(Debug)]
struct LaunchedSlowfs {
    daemon: Mutex<Option<Daemon>>,
    dir: PathBuf,
    slowing: Slowing,
    _guard: GuardedMount,
}

impl LaunchedSlowfs {
    fn daemon(&self) -> MutexGuard<'_, Option<Daemon>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to an order; `None` if the daemon has ended.
    fn ask(&self, order: &str) -> Option<String> {
        self.daemon().as_mut()?.ask(order).ok()
    }

    fn order(&self, order: &str) -> Result<(), HostError> {
        let why = match self.ask(order) {
            Some(answer) if answer == DONE => return Ok(()),
            Some(why) => why,
            None => "its daemon has ended".to_owned(),
        };
        Err(HostError::Refused {
            what: format!("{order} the slowed file system"),
            why,
        })
    }
}

impl Layer for LaunchedSlowfs {
    fn mount(&self) -> Result<(), HostError> {
        self.order("mount")
    }

    fn unmount(&self) -> Result<(), HostError> {
        let ordered = self.order("unmount");
        if ordered.is_err() && self.ask("stats").is_none() {
            // What a daemon that has ended leaves is dead, and nobody else takes it away.
            let _ = detach(&self.dir);
        }
        ordered
    }

    fn describe(&self) -> BTreeMap<String, String> {
        [("slowed".to_owned(), self.slowing.to_string())].into()
    }

    fn statistics(&self) -> BTreeMap<String, String> {
        let said = self.ask("stats");
        let found = said.and_then(|s| serde_json::from_str::<SlowfsStatistics>(&s).ok());
        let mut named = BTreeMap::new();
        for done in found.unwrap_or_default().operations {
            let mut add = |what: &str, value: String| {
                named.insert(format!("slowfs_{}_{what}", done.operation), value)
            };
            add("calls", done.calls.to_string());
            add("own_ms", format!("{:.3}", done.own_ns as f64 / 1e6));
            add("added_ms", format!("{:.3}", done.added_ns as f64 / 1e6));
            add("late_ms", format!("{:.3}", done.late_ns as f64 / 1e6));
        }
        named
    }

    fn check(&self) -> Result<(), HostError> {
        let mut guard = self.daemon();
        let Some(daemon) = guard.as_mut() else {
            return Ok(());
        };
        let why = match daemon.ask("stats") {
            Ok(said) if said.starts_with('{') => return Ok(()),
            // What it lacked.
            Ok(said) => said,
            Err(_) => daemon.end_in_words(),
        };
        Err(HostError::Refused {
            what: format!("use the file system slowed by {}", self.slowing),
            why,
        })
    }

    fn end(&self) {
        let daemon = self.daemon().take();
        drop(daemon);
    }
}

/// The daemon's side: serves `lower` at `dir` and obeys the process that started this one until it is
/// gone or lets go.
pub fn serve(
    lower: &Path,
    dir: &Path,
    slowing: Slowing,
    orders: &mut dyn BufRead,
    answers: &mut dyn Write,
) -> Result<(), HostError> {
    let slower = Arc::new(Slower::new(slowing));
    // Whoever launched this takes a dead mount away: here the bare directory could be taken for it.
    let mount = || Mounted::mount(lower, dir, Arc::clone(&slower), false);
    let mut mounted = Some(mount()?);
    // Why it is not served, or not as it should be.
    let mut lacks: Option<String> = None;
    let obeyed = obey(orders, answers, &mut |order| match order {
        "mount" if mounted.is_none() => match mount() {
            Ok(again) => {
                (mounted, lacks) = (Some(again), None);
                DONE.to_owned()
            }
            Err(error) => error.to_string(),
        },
        "unmount" => match mounted.as_mut().map(Mounted::unmount) {
            Some(Ok(Unmounted::InUse)) => "files of it are open".to_owned(),
            Some(Err(error)) => error.to_string(),
            Some(Ok(Unmounted::Gone)) | None => {
                mounted = None;
                DONE.to_owned()
            }
        },
        "stats" => {
            if let Some(Err(error)) = mounted.as_mut().map(Mounted::check) {
                lacks = Some(error.to_string());
            }
            let said = || serde_json::to_string(&slower.statistics()).unwrap_or_default();
            lacks.clone().unwrap_or_else(said)
        }
        _ => "expected mount, unmount or stats".to_owned(),
    });
    drop(mounted);
    obeyed.map_err(|e| HostError::io("answer the process that launched the slowed file system", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_serves_nothing_is_said() {
        if !fsage_testing::fuse() {
            return;
        }
        let lower = tempfile::tempdir().unwrap();
        let launcher = Launcher::of(Program::of("/bin/false".into(), &[]));
        let error = launcher.launch(lower.path(), &Slowing::default());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("slowed file system: it ended"), "{error}");
    }
}

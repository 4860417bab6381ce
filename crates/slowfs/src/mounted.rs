//! A slowed directory that is mounted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fsage_host::HostError;
use fsage_host::guard::GuardedMount;
use fsage_host::scratch::{FuseMount, Unmounted, detach, may_mount_fuse, unmount};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::io::Errno;

use crate::serve::Served;
use crate::slower::Slower;

/// Calls that are served at once; more wait.
const THREADS: usize = 8;

/// What a thread that serves calls may take of the address space: the longest call, as the library keeps room for it, its
/// stack, and what the allocator sets aside for a thread.
const EACH_BYTES: usize = (16 << 20) + 4096 + (2 << 20) + (64 << 20);

/// How long an unmount is tried while something (udev, an indexer) looks at the file system.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the end of a mount that is gone already is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// How often, and how many times, beginning threads are looked at.
const BEGINNING: Duration = Duration::from_millis(1);
const LOOKS: u32 = 1000;

const SUBTYPE: &str = "fsage-slowfs";

/// A slowed directory, mounted until this is dropped.
#[derive(Debug)]
pub struct Mounted {
    /// Ends with the last use of the mount; `None` once it has.
    session: Option<JoinHandle<std::io::Result<()>>>,
    dir: PathBuf,
    /// The kernel's number of the mount.
    number: Option<u64>,
    guard: Option<GuardedMount>,
}

impl Mounted {
    /// Serves `lower` at the empty directory `dir`. A `guarded` mount goes also if this process is killed;
    /// without, it is then dead, and for somebody else to take away. Fails without `/dev/fuse` or the right
    /// to mount, and where `dir` lies within `lower` or holds something.
    pub fn mount(
        lower: &Path,
        dir: &Path,
        slower: Arc<Slower>,
        guarded: bool,
    ) -> Result<Self, HostError> {
        let (lower, dir) = places(lower, dir)?;
        may_mount_fuse(|| format!("mount a slowed file system on {}", dir.display()))?;
        let served = Served::open(&lower, slower).map_err(|e| HostError::at("serve", &lower, e))?;
        room(&lower)?;
        // Before the mount, so that no moment is left in which a kill leaves it.
        let guard = guarded.then(|| GuardedMount::of(&dir, false));
        let session = match session(served, &lower, &dir) {
            Ok(session) => session,
            Err(error) => {
                // Nothing was mounted that the guard should take away.
                if let Some(guard) = guard {
                    guard.done();
                }
                return Err(error);
            }
        };
        let thread = std::thread::Builder::new().name("fsage-slowfs".into());
        let mut mounted = Self {
            session: None,
            number: uppermost(&dir),
            dir,
            guard,
        };
        match thread.spawn(move || session.run()) {
            Ok(run) => mounted.session = Some(run),
            Err(error) => {
                // Nobody answers on it.
                let _ = mounted.detach();
                return Err(HostError::io("start a thread", error));
            }
        }
        if let Err(error) = mounted.until_all_wait() {
            let _ = mounted.detach();
            return Err(error);
        }
        Ok(mounted)
    }

    /// Waits until all threads wait for calls. Each takes the memory for a call first: what ends for want of it
    /// does so before anybody relies on the mount.
    fn until_all_wait(&mut self) -> Result<(), HostError> {
        for _ in 0..LOOKS {
            if self.is_over() {
                return self.join_session();
            }
            if waiting_threads() >= THREADS {
                break;
            }
            std::thread::sleep(BEGINNING);
        }
        Ok(())
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it has been unmounted, by whomever, and nothing uses it any more.
    pub fn is_over(&self) -> bool {
        self.session.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Fails, once, if what serves it has ended while it is mounted, or not all of it could begin.
    pub fn check(&mut self) -> Result<(), HostError> {
        if self.is_over() && self.is_mounted() {
            return self.join_session();
        }
        Ok(())
    }

    /// Unmounts it, unless that was done from outside. Once it is gone the directory beneath is free.
    pub fn unmount(&mut self) -> Result<Unmounted, HostError> {
        // What somebody else has unmounted ends by itself; something else may lie there now.
        if self.is_mounted() {
            match unmount(&self.dir, PATIENCE) {
                Ok(()) => {}
                Err(Errno::BUSY) => return Ok(Unmounted::InUse),
                Err(e) => return Err(HostError::at("unmount", &self.dir, e)),
            }
        } else if !self.is_over() {
            std::thread::sleep(LOOK);
            if !self.is_over() {
                return Ok(Unmounted::InUse);
            }
        }
        self.join()?;
        Ok(Unmounted::Gone)
    }

    /// Takes it out of sight; it is served until nothing uses it any more, see [`Mounted::is_over`].
    pub fn detach(&mut self) -> Result<(), HostError> {
        if self.is_mounted() {
            detach(&self.dir).map_err(|e| HostError::at("unmount", &self.dir, e))?;
        }
        self.nothing_left();
        Ok(())
    }

    fn is_mounted(&self) -> bool {
        self.number.is_some() && uppermost(&self.dir) == self.number
    }

    fn join(&mut self) -> Result<(), HostError> {
        self.nothing_left();
        self.join_session()
    }

    fn join_session(&mut self) -> Result<(), HostError> {
        let failed = |e| HostError::at("serve", &self.dir, e);
        match self.session.take().map(JoinHandle::join) {
            Some(Ok(ended)) => at_its_end(ended).map_err(failed),
            Some(Err(_)) => Err(failed(std::io::ErrorKind::Other.into())),
            None => Ok(()),
        }
    }

    /// What is mounted there from now on is somebody else's.
    fn nothing_left(&mut self) {
        if let Some(guard) = self.guard.take() {
            guard.done();
        }
    }
}

impl Drop for Mounted {
    /// Files that are open on it fail once this process ends.
    fn drop(&mut self) {
        if self.session.is_some() && !matches!(self.unmount(), Ok(Unmounted::Gone)) {
            let _ = self.detach();
        }
    }
}

/// What the threads that answered say of the end. The kernel ends a connection with `ENODEV` for who waits, and with
/// `ECONNABORTED` for who is just being given a call: the last close of a file is on its way when the last use ends.
fn at_its_end(ended: std::io::Result<()>) -> std::io::Result<()> {
    let aborted = Errno::CONNABORTED.raw_os_error();
    match ended {
        Err(error) if error.raw_os_error() == Some(aborted) => Ok(()),
        ended => ended,
    }
}

/// Whether all threads will find their memory: one that finds none ends the process, and leaves the mount.
fn room(lower: &Path) -> Result<(), HostError> {
    if fsage_host::memory::is_to_be_had(THREADS * EACH_BYTES) {
        return Ok(());
    }
    Err(HostError::Refused {
        what: format!("serve {}", lower.display()),
        why: format!(
            "{} MiB of memory are not to be had, which its {THREADS} threads need (ulimit -v)",
            (THREADS * EACH_BYTES) >> 20
        ),
    })
}

/// Threads of this process that wait for calls.
fn waiting_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task");
    let tasks = tasks.into_iter().flatten().flatten();
    let states = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let waits = |state: &String| state.contains("(fuser-") && state.contains(") S ");
    states.filter(waits).count()
}

/// The number of the mount that is seen at a directory.
fn uppermost(dir: &Path) -> Option<u64> {
    let mounts = fsage_host::mounts::all();
    mounts.iter().rfind(|m| m.dir == dir).map(|m| m.id)
}

/// Both directories, if one can be served at the other.
fn places(lower: &Path, dir: &Path) -> Result<(PathBuf, PathBuf), HostError> {
    let real = |path: &Path| {
        path.canonicalize()
            .map_err(|e| HostError::io(format!("open directory {}", path.display()), e))
    };
    let (lower, dir) = (real(lower)?, real(dir)?);
    let refuse = |why: &str| {
        Err(HostError::Refused {
            what: format!("mount on {}", dir.display()),
            why: why.to_owned(),
        })
    };
    if dir.starts_with(&lower) {
        return refuse("it lies within what is to be served");
    }
    let mut entries = std::fs::read_dir(&dir).map_err(|e| HostError::at("list", &dir, e))?;
    if entries.next().is_some() {
        return refuse("expected an empty directory");
    }
    Ok((lower, dir))
}

/// Mounts; as an ordinary user through fusermount3.
fn session(served: Served, lower: &Path, dir: &Path) -> Result<Session<Served>, HostError> {
    let failed = |e| HostError::at("mount a slowed file system on", dir, e);
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let source = lower.display().to_string();
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
        let mount = FuseMount {
            source: &source,
            subtype: SUBTYPE,
            shared: true,
        };
        let connection = mount.mount(dir)?;
        return Session::from_fd(served, connection, config.acl, config).map_err(|e| {
            let _ = detach(dir);
            failed(e)
        });
    }
    config.mount_options = vec![
        MountOption::FSName(source),
        MountOption::Subtype(SUBTYPE.into()),
        MountOption::DefaultPermissions,
    ];
    Session::new(served, dir, &config).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_connection_is_no_error() {
        let ended = |errno: Errno| at_its_end(Err(errno.into()));
        assert!(at_its_end(Ok(())).is_ok() && ended(Errno::CONNABORTED).is_ok());
        assert!(ended(Errno::NOMEM).is_err());
    }
}

//! Slowfs (Traeger 2007, 12.1): a directory served a second time through FUSE, on which chosen
//! operations take a multiple of their time. It shows what a benchmark hides: how much slower a file
//! system can become before the benchmark says so.
//!
//! Always true in this crate:
//! * nothing but the given directory is served: names arrive one component at a time and are opened
//!   without following links, and another file system mounted below is refused;
//! * an operation is slowed by its own time, `factor - 1` times, spent on the processor and yielding it,
//!   as the study's rule says; the kernel's caches above stay as they are, so `read` slows what is read
//!   into the page cache and `lookup` what is not in the name cache;
//! * the mount goes with the process, however it ends.
//!
//! [`Slowing`] says what is slowed, [`Mounted`] is a mount; `serve` holds the calls, `lower` what they
//! do beneath, `node` the files that the kernel knows.

mod attr;
mod lower;
mod node;
mod serve;
mod slowing;

use std::path::{Path, PathBuf};

use fsage_host::HostError;
use fsage_host::guard::GuardedMount;

pub use slowing::{Operation, Slowing, SlowingError};

/// Calls that are served at once; more wait.
const THREADS: usize = 8;

/// A slowed directory, mounted until this is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Option<fuser::BackgroundSession>,
    dir: PathBuf,
    unmounted: Option<GuardedMount>,
}

impl Mounted {
    /// Serves `lower` at the empty directory `dir`. Fails without `/dev/fuse` or the right to mount, and
    /// where `dir` lies within `lower` or holds something.
    pub fn mount(lower: &Path, dir: &Path, slowing: Slowing) -> Result<Self, HostError> {
        let real = |path: &Path| {
            path.canonicalize()
                .map_err(|e| HostError::io(format!("open directory {}", path.display()), e))
        };
        let (lower, dir) = (real(lower)?, real(dir)?);
        let refuse = |why: &str| {
            let what = format!("mount on {}: {why}", dir.display());
            Err(HostError::io(what, std::io::ErrorKind::InvalidInput))
        };
        if dir.starts_with(&lower) {
            return refuse("it lies within what is to be served");
        }
        let mut entries = std::fs::read_dir(&dir).map_err(|e| HostError::at("list", &dir, e))?;
        if entries.next().is_some() {
            return refuse("expected an empty directory");
        }
        let failed = |e| HostError::at("mount a slowed file system on", &dir, e);
        let served =
            serve::Served::open(&lower, slowing).map_err(|e| HostError::at("serve", &lower, e))?;
        let mut config = fuser::Config::default();
        config.mount_options = vec![
            fuser::MountOption::FSName(lower.display().to_string()),
            fuser::MountOption::Subtype("fsage-slowfs".into()),
            fuser::MountOption::DefaultPermissions,
        ];
        if rustix::process::geteuid().is_root() {
            config.acl = fuser::SessionACL::All;
        }
        config.n_threads = Some(THREADS);
        config.clone_fd = true;
        // Before the mount, so that no moment is left in which a kill leaves it.
        let unmounted = GuardedMount::of(&dir, false);
        let session = fuser::spawn_mount(served, &dir, &config).map_err(failed)?;
        Ok(Self {
            session: Some(session),
            dir,
            unmounted: Some(unmounted),
        })
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether it has been unmounted from outside.
    pub fn is_over(&self) -> bool {
        self.session
            .as_ref()
            .is_none_or(|session| session.guard.is_finished())
    }

    /// Unmounts it. Fails while files of it are open; then it goes with the last.
    pub fn unmount(mut self) -> Result<(), HostError> {
        let over = self.is_over();
        if let Some(session) = self.session.take() {
            let ended = if over {
                session.join()
            } else {
                session.umount_and_join()
            };
            ended.map_err(|e| HostError::at("unmount", &self.dir, e))?;
        }
        if let Some(unmounted) = self.unmounted.take() {
            unmounted.done();
        }
        Ok(())
    }
}

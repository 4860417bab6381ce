//! A file system that a daemon serves over another: a directory that is seen a second time, as a slowed
//! one. What the layer does is decided above this crate.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fsage_core::{ColdEvidence, Errno, Platform};

use super::roots::Roots;
use crate::cleanup::{self, Cleanup};
use crate::device::BlockDevice;
use crate::mounts::Mount;
use crate::{HostError, HostFs, HostOptions};

/// What serves a directory again. It goes when it is dropped, and with this process.
pub trait Layer: fmt::Debug + Send + Sync {
    /// Mounts it again after an unmount.
    fn mount(&self) -> Result<(), HostError>;
    /// Unmounts it and lets go of the directory beneath. Fails while a file of it is open; it is then
    /// mounted as before.
    fn unmount(&self) -> Result<(), HostError>;
    /// What it is, for the record of an experiment, by name.
    fn describe(&self) -> BTreeMap<String, String>;
    /// What it has done so far, by name; empty if it is gone.
    fn statistics(&self) -> BTreeMap<String, String>;
    /// Fails if what serves it has died, with how.
    fn check(&self) -> Result<(), HostError>;
    /// Ends it, as its drop would. What is open on it then fails.
    fn end(&self);
}

/// A layer that is mounted until this is dropped.
#[derive(Debug)]
pub struct Layered {
    mounted: Arc<MountedLayer>,
    _cleanup: Cleanup,
}

impl Layered {
    /// Takes charge of a layer that is mounted on `dir` over the directory `lower`.
    pub fn new(layer: Arc<dyn Layer>, dir: PathBuf, lower: PathBuf) -> Self {
        let mounted = Arc::new(MountedLayer {
            dir,
            lower,
            layer,
            state: Mutex::new(State::default()),
        });
        let mut all = lock(&LAYERS);
        all.retain(|m| m.strong_count() > 0);
        all.push(Arc::downgrade(&mounted));
        drop(all);
        let undo = Arc::clone(&mounted);
        let cleanup = cleanup::register(move || {
            let _ = undo.take_down();
        });
        Self {
            mounted,
            _cleanup: cleanup,
        }
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.mounted.dir
    }

    /// What it has done so far, by name.
    pub fn statistics(&self) -> BTreeMap<String, String> {
        self.mounted.layer.statistics()
    }

    /// Fails if what serves it has died, with how.
    pub fn check(&self) -> Result<(), HostError> {
        self.mounted.layer.check()
    }

    /// Takes it down now; fails if a file of it is still open, whose users then get errors.
    pub fn close(self) -> Result<(), HostError> {
        self.mounted.take_down()
    }
}

/// The directory beneath the layer that holds `dir`, if this process has a layer there.
pub fn beneath(dir: &Path) -> Option<PathBuf> {
    layer_at(dir).map(|layer| layer.lower.clone())
}

/// The layers of this process.
static LAYERS: Mutex<Vec<Weak<MountedLayer>>> = Mutex::new(Vec::new());

/// The layer that holds a directory, if this process has one there.
pub(crate) fn layer_at(dir: &Path) -> Option<Arc<MountedLayer>> {
    let layers = lock(&LAYERS);
    layers
        .iter()
        .filter_map(Weak::upgrade)
        .find(|m| dir.starts_with(&m.dir))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A layer that is mounted. Shared by its owner and the targets open on it.
#[derive(Debug)]
pub(crate) struct MountedLayer {
    dir: PathBuf,
    lower: PathBuf,
    layer: Arc<dyn Layer>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    gone: bool,
    roots: Roots,
}

impl MountedLayer {
    /// Remembers the root of a target, so that it follows a remount.
    pub fn add_root(&self, root: &Arc<OwnedFd>, dir: &Path) {
        lock(&self.state).roots.add(root, dir);
    }

    /// The directory beneath.
    pub fn lower(&self) -> &Path {
        &self.lower
    }

    /// What it is, by name, and what lies beneath.
    pub fn describe(&self) -> BTreeMap<String, String> {
        let mut described = self.layer.describe();
        if let Some(mount) = self.lower_mount() {
            described.insert("lower_file_system".into(), mount.kind.clone());
            described.insert("lower_mount_options".into(), mount.options());
        }
        described
    }

    /// The block device of the file system beneath, where there is one.
    pub fn device(&self) -> Option<BlockDevice> {
        BlockDevice::of_mount(&self.lower_mount()?)
    }

    fn lower_mount(&self) -> Option<Mount> {
        let root = crate::fs::open_root(&self.lower).ok()?;
        Mount::of(root.as_fd(), &self.lower)
    }

    /// Makes both cold: the layer by taking it off, what is beneath by the method asked for. `EBUSY` if a
    /// file is open; everything is then as before.
    pub fn make_cold(&self, options: HostOptions) -> Result<ColdEvidence, Errno> {
        let state = lock(&self.state);
        if state.gone {
            return Err(Errno::ENODEV);
        }
        state.roots.park().map_err(|e| Errno(e.raw_os_error()))?;
        if self.layer.unmount().is_err() {
            state.roots.reopen()?;
            return Err(Errno::EBUSY);
        }
        let lower = HostFs::open(&self.lower, options).map_err(|_| Errno::EIO);
        let cold = lower.and_then(|lower| lower.make_cold());
        // Without the layer the roots stay parked: the bare directory must not be taken for it.
        self.layer.mount().map_err(|_| Errno::EIO)?;
        state.roots.reopen()?;
        cold
    }

    /// The file beneath one that is open above: what the page cache holds of it is held twice.
    pub fn beneath(&self, file: BorrowedFd<'_>) -> Result<File, Errno> {
        let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(name).map_err(errno)?;
        let within = path.strip_prefix(&self.dir).map_err(|_| Errno::ENOENT)?;
        File::open(self.lower.join(within)).map_err(errno)
    }

    /// Takes it down. A second time does nothing.
    fn take_down(&self) -> Result<(), HostError> {
        let mut state = lock(&self.state);
        if state.gone {
            return Ok(());
        }
        state.gone = true;
        let _ = state.roots.park();
        let unmounted = self.layer.unmount();
        self.layer.end();
        let _ = std::fs::remove_dir(&self.dir);
        unmounted
    }
}

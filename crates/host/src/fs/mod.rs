//! A directory of this machine as a target.
//!
//! A handle is the number of a descriptor: no lock and no table lies between a caller and the
//! kernel. Handles must come from the same [`HostFs`].

mod at_once;
mod beneath;
mod held;
mod map;
mod ops;

pub(crate) use ops::{descriptor, file_type};

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fsage_core::{Confinement, FsOptions, Root};
use rustix::fs::{Mode, OFlags};

use crate::device::BlockDevice;
use crate::mounts::Mount;
use crate::scratch::{MountedLayer, MountedScratch};
use crate::{HostError, MonotonicClock};

/// A directory of this machine.
#[derive(Debug)]
pub struct HostFs {
    dir: PathBuf,
    /// `dir` and a slash, for the calls that have no `*at` form.
    prefix: Vec<u8>,
    /// Its number never changes; a remount puts the new root under the same number.
    root: Arc<OwnedFd>,
    options: FsOptions,
    held: held::Directories,
    clock: MonotonicClock,
    mount: Option<Mount>,
    device: Option<BlockDevice>,
    scratch: Option<Arc<MountedScratch>>,
    layer: Option<Arc<MountedLayer>>,
}

impl HostFs {
    /// Opens a directory as a target. Fails if it is not a directory that can be opened.
    pub fn open(dir: &Path, options: FsOptions) -> Result<HostFs, HostError> {
        // One of fsage's own is what was made, whatever has come in its place.
        let dir = if crate::guard::is_made(dir) {
            dir.to_owned()
        } else {
            dir.canonicalize()
                .map_err(|e| HostError::at("open directory", dir, e))?
        };
        if crate::namespace::private_base().is_some_and(|base| base == dir) {
            return Err(HostError::Refused {
                what: format!("open directory {}", dir.display()),
                why: "fsage's own mounts lie over it for as long as it runs".into(),
            });
        }
        let root = Arc::new(crate::guard::open(&dir)?);
        let mount = Mount::of(root.as_fd(), &dir);
        let layer = crate::scratch::layer_at(&dir);
        let device = match &layer {
            Some(layer) => layer.device(),
            None => mount.as_ref().and_then(BlockDevice::of_mount),
        };
        if let Some(layer) = &layer {
            layer.add_root(&root, &dir);
        }
        let scratch = crate::scratch::mounted_at(&dir);
        if let Some(scratch) = &scratch {
            scratch.add_root(&root, &dir);
        }
        let mut prefix = dir.as_os_str().as_bytes().to_vec();
        prefix.push(b'/');
        Ok(HostFs {
            dir,
            prefix,
            root,
            options,
            held: held::Directories::default(),
            clock: MonotonicClock,
            mount,
            device,
            scratch,
            layer,
        })
    }

    /// The directory of this machine that a root is, where it is one.
    pub fn of(root: &dyn Root) -> Option<Result<HostFs, HostError>> {
        Some(Self::open(root.host_dir()?, FsOptions::default()))
    }

    /// The directory, absolute and without symbolic links.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The mount that holds the directory, where it can be told.
    pub fn mount(&self) -> Option<&Mount> {
        self.mount.as_ref()
    }

    /// The block device beneath, where there is one; beneath a layer that of the lower file system.
    pub fn device(&self) -> Option<&BlockDevice> {
        self.device.as_ref()
    }

    /// How it is used.
    pub fn options(&self) -> FsOptions {
        self.options
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(crate) fn scratch(&self) -> Option<&Arc<MountedScratch>> {
        self.scratch.as_ref()
    }

    /// The scratch file system that the directory lies on, also beneath a layer.
    pub(crate) fn made(&self) -> Option<Arc<MountedScratch>> {
        match &self.layer {
            Some(layer) => crate::scratch::mounted_at(layer.lower()),
            None => self.scratch.clone(),
        }
    }

    /// The device whose dirty pages are the target's, as the kernel counts them: of file systems that have
    /// a device to themselves.
    pub fn write_back_device(&self) -> Option<fsage_core::DevId> {
        let mount = self.mount.as_ref()?;
        let device = self.device.as_ref()?;
        // btrfs counts under a name of its own; what lies beneath a layer is the device's.
        let counts = mount.dev.major() != 0 || self.layer.is_some();
        counts.then(|| device.disk())
    }

    /// The layer of fsage's that serves the directory, as a slowed one.
    pub(crate) fn layer(&self) -> Option<&Arc<MountedLayer>> {
        self.layer.as_ref()
    }

    /// The absolute path of a path of the target.
    pub(crate) fn absolute(&self, path: &[u8]) -> PathBuf {
        let mut bytes = self.prefix.clone();
        bytes.extend_from_slice(path);
        PathBuf::from(OsStr::from_bytes(&bytes))
    }
}

impl AsRawFd for HostFs {
    fn as_raw_fd(&self) -> i32 {
        self.root.as_raw_fd()
    }
}

/// The same of a directory that is no link.
pub(crate) fn open_unlinked(dir: &Path) -> Result<OwnedFd, HostError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| HostError::at("open directory", dir, e))
}

/// A descriptor of a directory that `*at` calls and syncfs accept.
pub(crate) fn open_root(dir: &Path) -> Result<OwnedFd, HostError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| HostError::at("open directory", dir, e))
}

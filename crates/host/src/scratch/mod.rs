//! File systems made for one experiment: a nameless image, a loop device, mkfs, a mount.
//!
//! It is taken down on drop (return, error, panic) and by the signal thread; after
//! [`crate::isolate`] the kernel does it when the process is gone, however it ended. Without
//! isolation a kill leaves the mount.

mod dup;
mod image;
mod mkfs;
mod mounted;
mod spec;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use mounted::MountedScratch;
pub(crate) use mounted::mounted_at;
pub use spec::{Backing, ScratchSpec, parse_size};

use crate::cleanup::{self, Cleanup};
use crate::{HostError, HostFs, HostOptions};

/// The file that says that fsage made a file system.
pub const MARKER: &str = ".fsage-scratch";

/// How a scratch file system was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchRecord {
    /// What was asked for.
    pub spec: ScratchSpec,
    /// The options that mkfs was run with, without program and device.
    pub mkfs_options: String,
    /// What mkfs says about its version.
    pub mkfs_version: String,
    /// The loop device, as `/dev/loop3`.
    pub device: PathBuf,
    /// Whether the loop device bypasses the page cache of the file system that holds the image.
    pub direct_io: bool,
}

/// A scratch file system, mounted until this is dropped.
#[derive(Debug)]
pub struct Scratch {
    record: ScratchRecord,
    dir: PathBuf,
    mounted: Arc<MountedScratch>,
    _cleanup: Cleanup,
}

impl Scratch {
    /// Makes and mounts a file system. Fails without root, without the mkfs (the error names the
    /// package), without the kernel's support, and where the image finds no room.
    pub fn create(spec: &ScratchSpec) -> Result<Scratch, HostError> {
        if !rustix::process::geteuid().is_root() {
            return Err(HostError::NotRoot {
                what: format!("make {spec}"),
            });
        }
        let image = image::create_image(&spec.backing, spec.size_bytes)?;
        let device = image::LoopDevice::attach(image)?;
        let made = mkfs::mkfs(spec, device.path())?;
        let record = ScratchRecord {
            spec: spec.clone(),
            mkfs_options: made.options,
            mkfs_version: made.version,
            device: device.path().to_owned(),
            direct_io: device.direct_io,
        };
        let dir = make_mount_point(&spec.kind)?;
        let mounted = MountedScratch::mount(&spec.kind, &spec.mount_options, device, dir.clone())
            .inspect_err(|_| {
            let _ = std::fs::remove_dir(&dir);
        })?;
        let undo = Arc::clone(&mounted);
        let cleanup = cleanup::register(move || {
            let _ = undo.take_down();
        });
        let scratch = Scratch {
            record,
            dir,
            mounted,
            _cleanup: cleanup,
        };
        scratch.mark()?;
        Ok(scratch)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How it was made.
    pub fn record(&self) -> &ScratchRecord {
        &self.record
    }

    /// Its root as a target.
    pub fn open(&self, options: HostOptions) -> Result<HostFs, HostError> {
        HostFs::open(&self.dir, options)
    }

    /// Takes it down now; fails if a file of it is still open, and then it goes with the last.
    pub fn close(self) -> Result<(), HostError> {
        self.mounted.take_down()
    }

    fn mark(&self) -> Result<(), HostError> {
        let path = self.dir.join(MARKER);
        let text = format!("{}\nmkfs {}\n", self.record.spec, self.record.mkfs_options);
        std::fs::write(&path, text).map_err(|e| HostError::at("write", &path, e))
    }
}

fn make_mount_point(kind: &str) -> Result<PathBuf, HostError> {
    let base = crate::namespace::private_base().unwrap_or_else(std::env::temp_dir);
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| HostError::io("choose a name for the mount point", e))?;
    let name = format!("{MOUNT_PREFIX}{kind}-{:016x}", u64::from_ne_bytes(random));
    let dir = base.join(name);
    std::fs::create_dir(&dir).map_err(|e| HostError::at("make the mount point", &dir, e))?;
    dir.canonicalize()
        .map_err(|e| HostError::at("find the mount point", &dir, e))
}

/// What the name of every mount point begins with.
pub(crate) const MOUNT_PREFIX: &str = "fsage-scratch-";

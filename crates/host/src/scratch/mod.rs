//! File systems made for one experiment: a nameless image, a loop device, mkfs, a mount.
//!
//! It is taken down on drop (return, error, panic) and by the signal thread; after
//! [`crate::isolate`] the kernel does it when the process is gone, however it ended. Without
//! isolation a kill leaves the mount.

mod allowed;
mod carrier;
pub mod daemon;
pub mod disk;
mod dup;
mod fuse;
mod image;
mod keep;
mod layer;
mod mkfs;
mod mounted;
mod restore;
mod roots;
mod spec;
pub(crate) mod superblock;
mod unmount;

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use disk::{Disk, DiskProvider, DiskSpec, FullSpeed};
pub use fuse::{FuseMount, may_mount_fuse, needs_fuse};
pub use image::{LoopDevice, create_image, user_of_loop, user_of_mount};
pub(crate) use image::{clear_loop_device, image_device, is_held, is_own_loop_device};
pub use keep::{keep, keep_file};
pub use layer::{Layer, Layered, beneath};
pub(crate) use layer::{MountedLayer, layer_at};
pub(crate) use mkfs::find as find_program;
pub use mounted::MountedScratch;
pub(crate) use mounted::mounted_at;
pub use restore::{Image, ImageAbout, Restored, about_image};
pub use spec::{Backing, ScratchSpec, parse_size};
pub use unmount::{Unmounted, detach, unmount};

use fsage_format::result::environment::EmulatedDisk;

use crate::cleanup::{self, Cleanup};
use crate::{HostError, HostFs, HostOptions, guard};

/// The file that says that fsage made a file system.
pub const MARKER: &str = ".fsage-scratch";

/// The file in the root of a target that says how it was aged.
pub const AGED_MARKER: &str = ".fsage-aged";

/// Whether a path below the root of a target is a file that fsage itself puts there.
pub fn is_own(path: &[u8]) -> bool {
    path == MARKER.as_bytes() || path == AGED_MARKER.as_bytes()
}

/// How a scratch file system was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScratchRecord {
    /// What was asked for.
    pub spec: ScratchSpec,
    /// The options that mkfs was run with, without program and device; empty where it was not run.
    pub mkfs_options: String,
    /// What mkfs says about its version.
    pub mkfs_version: String,
    /// The image that was copied instead of running mkfs.
    pub restored: Option<PathBuf>,
    /// The loop device, as `/dev/loop3`.
    pub device: PathBuf,
    /// Whether the loop device bypasses the page cache of the file system that holds the image.
    pub direct_io: bool,
    /// The emulated disk beneath it.
    pub disk: Option<EmulatedDisk>,
}

/// A scratch file system, mounted until this is dropped.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
    mounted: Arc<MountedScratch>,
    _cleanup: Cleanup,
}

impl Scratch {
    /// Makes and mounts a file system. Fails without root, without the mkfs (the error names the
    /// package), without the kernel's support, and where the image finds no room.
    /// Knows no emulated disks: see [`Scratch::create_with`].
    pub fn create(spec: &ScratchSpec) -> Result<Scratch, HostError> {
        Self::create_with(spec, None)
    }

    /// As [`Scratch::create`], with what provides emulated disks. The disk's delays are off while the
    /// file system is made, which is no part of any experiment, and on when this returns.
    pub fn create_with(
        spec: &ScratchSpec,
        disks: Option<&dyn DiskProvider>,
    ) -> Result<Scratch, HostError> {
        needs_root(spec)?;
        mkfs::check_room(spec, image::room(&spec.backing))?;
        let on = backing(spec, disks)?;
        Self::stand(spec, on, Made::Mkfs)
    }

    /// Makes a file system on its image, unless it is there already, and mounts it. If the disk beneath has
    /// died meanwhile, that is the error.
    fn stand(
        spec: &ScratchSpec,
        (disk, image): (Option<Arc<dyn Disk>>, File),
        made: Made,
    ) -> Result<Scratch, HostError> {
        let below = disk.clone();
        let explained = |error| {
            let died = below.as_ref().and_then(|disk| disk.check().err());
            died.unwrap_or(error)
        };
        let scratch = Self::stand_on(spec, (disk, image), made).map_err(explained)?;
        // Asked while it stands: a disk that was let go has nothing to say.
        scratch.mounted.mark().map_err(explained)?;
        if let Some(disk) = &below {
            disk.set_delays(true)?;
        }
        Ok(scratch)
    }

    fn stand_on(
        spec: &ScratchSpec,
        (disk, image): (Option<Arc<dyn Disk>>, File),
        made: Made,
    ) -> Result<Scratch, HostError> {
        let device = image::LoopDevice::attach(image)?;
        if disk.as_ref().is_some_and(|d| d.rotates()) {
            device.behave_as_rotating();
        }
        let mut record = ScratchRecord {
            spec: spec.clone(),
            mkfs_options: String::new(),
            mkfs_version: String::new(),
            restored: None,
            device: device.path().to_owned(),
            direct_io: device.direct_io,
            disk: disk.as_ref().map(|d| d.describe()),
        };
        match made {
            Made::Mkfs => {
                let made = mkfs::mkfs(spec, device.path())?;
                (record.mkfs_options, record.mkfs_version) = (made.options, made.version);
            }
            Made::Image(path) => {
                if let Some(head) = about_image(&path).ok().and_then(|about| about.head) {
                    (record.mkfs_options, record.mkfs_version) = (head.mkfs_options, head.mkfs);
                }
                record.restored = Some(path);
            }
        }
        let dir = make_mount_point(&spec.kind)?;
        let below = mounted::Below { device, disk };
        let mounted = MountedScratch::mount(record, below, dir.clone()).inspect_err(|_| {
            let _ = std::fs::remove_dir(&dir);
        })?;
        let undo = Arc::clone(&mounted);
        // Whoever closes it is told; of a run that failed, or that nobody closes, the end of the program tells.
        let cleanup = cleanup::register(move || {
            if let Err(error) = undo.take_down() {
                guard::not_removed(&undo.record().device, &error);
            }
        });
        Ok(Scratch {
            dir,
            mounted,
            _cleanup: cleanup,
        })
    }

    /// Lets an emulated disk beneath it work at full speed until the guard is dropped, for what is no
    /// part of an experiment. Does nothing without one.
    pub fn full_speed(&self) -> FullSpeed {
        self.mounted.full_speed()
    }

    /// The emulated disk beneath it.
    pub fn disk(&self) -> Option<Arc<dyn Disk>> {
        self.mounted.disk()
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// How it was made.
    pub fn record(&self) -> &ScratchRecord {
        self.mounted.record()
    }

    /// Its root as a target.
    pub fn open(&self, options: HostOptions) -> Result<HostFs, HostError> {
        HostFs::open(&self.dir, options)
    }

    /// Takes it down now; fails if a file of it is still open, and then it goes with the last.
    pub fn close(self) -> Result<(), HostError> {
        self.mounted.take_down()
    }
}

/// How a scratch file system comes about.
#[derive(Debug)]
enum Made {
    /// It is made by mkfs.
    Mkfs,
    /// It was copied from that image.
    Image(PathBuf),
}

fn needs_root(spec: &ScratchSpec) -> Result<(), HostError> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(HostError::NotRoot {
        what: format!("make {spec}"),
    })
}

/// The emulated disk, if one is wanted, and the empty image.
fn backing(
    spec: &ScratchSpec,
    disks: Option<&dyn DiskProvider>,
) -> Result<(Option<Arc<dyn Disk>>, File), HostError> {
    needs_root(spec)?;
    let disk = provide(spec, disks)?;
    let image = match &disk {
        Some(disk) => disk.open_image()?,
        None => image::create_image(&spec.backing, spec.size_bytes)?,
    };
    Ok((disk, image))
}

/// The emulated disk of a specification that wants one.
fn provide(
    spec: &ScratchSpec,
    disks: Option<&dyn DiskProvider>,
) -> Result<Option<Arc<dyn Disk>>, HostError> {
    match (&spec.backing, disks) {
        (Backing::Disk(wanted), Some(disks)) => disks.provide(wanted, spec.size_bytes).map(Some),
        (Backing::Disk(_), None) => Err(HostError::Refused {
            what: format!("make {spec}"),
            why: "nothing here provides emulated disks".into(),
        }),
        (Backing::Ram | Backing::File(_), _) => Ok(None),
    }
}

/// Makes an empty directory for a mount that goes with this process, where the namespace has a place
/// for it. `kind` becomes part of its name.
pub fn make_mount_point(kind: &str) -> Result<PathBuf, HostError> {
    let base = crate::namespace::private_base().unwrap_or_else(crate::guard::temporary_place);
    let name = crate::guard::own_name(&format!("{MOUNT_PREFIX}{kind}-"))?;
    let dir = base.join(name);
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&dir)
        .map_err(|e| HostError::at("make the mount point", &dir, e))?;
    dir.canonicalize()
        .map_err(|e| HostError::at("find the mount point", &dir, e))
}

/// What the name of every mount point begins with.
pub(crate) const MOUNT_PREFIX: &str = "fsage-scratch-";

//! Whether what is written to a file comes to lie on a certain file system, also through others between: an overlay, the
//! image of a loop device.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use fsage_core::DevId;
use rustix::fs::{Mode, OFlags};

use super::image_device;
use crate::HostFs;
use crate::device::BlockDevice;
use crate::mounts::{self, Mount};

/// No stack is deeper, unless its links run in a circle.
const DEEPEST: u32 = 16;

/// Whether an open file or directory that is reached by `path` lies on the file system of `fs`. Not all that lies between
/// can be seen: a file system that a process serves may store anywhere.
pub(super) fn lies_on(file: BorrowedFd<'_>, path: &Path, fs: &HostFs) -> bool {
    // Subvolumes of btrfs have numbers of their own; the mount table has the file system's.
    let root = rustix::fs::fstat(fs.root()).ok().map(|s| DevId(s.st_dev));
    let wanted = [root, fs.mount().map(|mount| mount.dev)];
    let sought = Sought(wanted.into_iter().flatten().collect());
    sought.by_file(file, path, 0)
}

/// The numbers of a file system.
struct Sought(Vec<DevId>);

impl Sought {
    fn by_file(&self, file: BorrowedFd<'_>, path: &Path, depth: u32) -> bool {
        let own = rustix::fs::fstat(file).ok().map(|s| DevId(s.st_dev));
        own.is_some_and(|dev| self.0.contains(&dev))
            || Mount::of(file, path).is_some_and(|mount| self.by_mount(&mount, depth))
    }

    fn by_mount(&self, mount: &Mount, depth: u32) -> bool {
        let device = || BlockDevice::of_mount(mount);
        self.0.contains(&mount.dev)
            || upper(mount).is_some_and(|dir| self.by_path(&dir, depth + 1))
            || device().is_some_and(|device| self.by_device(&device, depth + 1))
    }

    fn by_path(&self, path: &Path, depth: u32) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        depth <= DEEPEST && opened.is_ok_and(|file| self.by_file(file.as_fd(), path, depth))
    }

    fn by_device(&self, device: &BlockDevice, depth: u32) -> bool {
        if depth > DEEPEST {
            return false;
        }
        let image = device.attribute("loop/backing_file").map(PathBuf::from);
        // The device knows it also where the name leads nowhere.
        let holder = || image_device(&Path::new("/dev").join(&device.name));
        image.is_some_and(|image| {
            self.by_path(&image, depth + 1) || holder().is_some_and(|dev| self.by_dev(dev, depth))
        }) || device
            .beneath()
            .iter()
            .any(|below| self.by_device(below, depth + 1))
    }

    fn by_dev(&self, dev: DevId, depth: u32) -> bool {
        let mount = || mounts::all().into_iter().find(|mount| mount.dev == dev);
        self.0.contains(&dev) || mount().is_some_and(|mount| self.by_mount(&mount, depth + 1))
    }
}

/// Where an overlay puts what is written.
fn upper(mount: &Mount) -> Option<PathBuf> {
    let mut options = mount.super_options.split(',');
    let upper = options.find_map(|option| option.strip_prefix("upperdir="))?;
    (mount.kind == "overlay").then(|| upper.into())
}

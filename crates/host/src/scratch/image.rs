//! An image without a name, attached to a loop device of its own.
//!
//! Nothing here outlives the process: the image never has a name (`O_TMPFILE`, memfd), and the
//! device clears itself on its last close (`LO_FLAGS_AUTOCLEAR`, set by the call that attaches).

#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fsage_core::DevId;
use rustix::fs::{Advice, MemfdFlags, Mode, OFlags};

use super::spec::Backing;
use crate::{HostError, mounts, processes};

// linux/loop.h
const LOOP_CLR_FD: libc::Ioctl = 0x4c01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4c82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// `_IO(0x12, 119)` of linux/fs.h.
const BLKDISCARD: libc::Ioctl = 0x1277;
/// `_IO(0x12, 98)` of linux/fs.h.
const BLKRASET: libc::Ioctl = 0x1262;
/// `_IO(0x12, 97)` of linux/fs.h.
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// What fsage calls the images of its devices; the kernel keeps it.
const OWN_NAME: &[u8] = b"fsage-scratch";

/// What the kernel reads ahead where a device says nothing (`VM_READAHEAD_PAGES`).
const READ_AHEAD_KIB: u64 = 128;

/// Others take free devices too; each try asks for the next free one.
const ATTACH_ATTEMPTS: u32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// Makes a sparse file of `size_bytes` that has no name.
pub fn create_image(backing: &Backing, size_bytes: u64) -> Result<File, HostError> {
    let file = match backing {
        // An emulated disk keeps its data in memory.
        Backing::Ram | Backing::Disk(_) => {
            // The tmpfs of /dev/shm bounds what is used; anonymous memory is bounded by nothing.
            nameless(Path::new("/dev/shm"))
                .or_else(|_| rustix::fs::memfd_create("fsage-scratch", MemfdFlags::CLOEXEC))
                .map_err(|e| HostError::io("make an image in memory", e))?
        }
        Backing::File(dir) => {
            nameless(dir).map_err(|e| HostError::at("make an image without a name in", dir, e))?
        }
    };
    rustix::fs::ftruncate(&file, size_bytes)
        .map_err(|e| HostError::io(format!("make an image of {size_bytes} bytes"), e))?;
    Ok(File::from(file))
}

/// What is available where such an image lies, in bytes; the most there can be where nobody says.
pub(super) fn room(backing: &Backing) -> u64 {
    let of = |dir: &Path| {
        let stat = rustix::fs::statvfs(dir).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    };
    match backing {
        Backing::File(dir) => of(dir).unwrap_or(u64::MAX),
        Backing::Ram | Backing::Disk(_) => {
            let memory = crate::environment::available_bytes();
            let all = [of(Path::new("/dev/shm")), memory];
            all.into_iter().flatten().min().unwrap_or(u64::MAX)
        }
    }
}

fn nameless(dir: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::EXCL;
    rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)
}

/// A loop device that this process attached, and its image.
#[derive(Debug)]
pub struct LoopDevice {
    /// Held open, so that the device lives while nothing is mounted.
    device: Option<File>,
    image: File,
    path: PathBuf,
    /// Device and inode of the image: whether the device is still ours.
    identity: (u64, u64),
    /// Whether the image is read and written past the page cache of its file system.
    pub direct_io: bool,
}

impl LoopDevice {
    /// Attaches an image to a free loop device.
    pub fn attach(image: File) -> Result<Self, HostError> {
        let control = open_device(Path::new("/dev/loop-control"))?;
        let stat = rustix::fs::fstat(&image).map_err(|e| HostError::io("look at the image", e))?;
        let mut last = rustix::io::Errno::BUSY;
        for _ in 0..ATTACH_ATTEMPTS {
            // SAFETY: takes no argument, returns a number.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                let error = std::io::Error::last_os_error();
                return Err(HostError::io("find a free loop device", error));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = open_device(&path)?;
            match configure(&device, &image) {
                Ok(()) => {
                    forget_read_ahead(&device, number);
                    let flags = status(&device).map(|s| s.flags).unwrap_or_default();
                    return Ok(Self {
                        device: Some(device),
                        image,
                        path,
                        identity: (stat.st_dev, stat.st_ino),
                        direct_io: flags & LO_FLAGS_DIRECT_IO != 0,
                    });
                }
                // Taken meanwhile by someone else.
                Err(rustix::io::Errno::BUSY) => last = rustix::io::Errno::BUSY,
                Err(e) => return Err(HostError::at("attach an image to", &path, e)),
            }
        }
        Err(HostError::io("attach an image to a free loop device", last))
    }

    /// Its path, as `/dev/loop3`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, for who reads it while nothing is mounted.
    pub fn image(&self) -> &File {
        &self.image
    }

    /// Whether a mount or anyone else holds it exclusively.
    pub fn in_use(&self) -> bool {
        is_held(&self.path)
    }

    /// Lets the device be one with platters: file systems and the kernel look at that. A disk without
    /// trim says so to the first that is tried, and the loop device then offers none.
    pub fn behave_as_rotating(&self) {
        let name = self.path.file_name().unwrap_or_default();
        // The next attachment to this device sets it anew. Where sysfs is read-only the device stays
        // what loop devices are.
        let attribute = Path::new("/sys/block").join(name).join("queue/rotational");
        let _ = std::fs::write(attribute, "1");
        let Some(device) = &self.device else { return };
        let range: [u64; 2] = [0, 4096];
        // SAFETY: reads two numbers, offset and length; the device is ours and holds nothing yet.
        unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    }

    /// Drops what is cached of the device and, without direct I/O, of its image in a file. The
    /// pages of an image in memory are the device itself.
    pub fn drop_cached(&self) {
        if let Some(device) = &self.device {
            // SAFETY: takes no argument; drops the clean buffers of a device that is not mounted.
            unsafe { libc::ioctl(device.as_raw_fd(), BLKFLSBUF, 0) };
        }
        if !self.direct_io {
            let _ = rustix::fs::fsync(&self.image);
            let _ = rustix::fs::fadvise(self.image.as_fd(), 0, None, Advice::DontNeed);
        }
    }

    /// Whether the device still holds our image; a number that was freed may be anyone's.
    fn is_ours(&self, device: &File) -> bool {
        status(device).is_some_and(|s| (s.device, s.inode) == self.identity)
    }

    /// Lets go of the device without waiting; it clears itself when the last user is gone.
    pub fn abandon(&mut self) {
        self.device = None;
    }

    /// Detaches the image. Fails if something still holds the device; it clears itself when that
    /// ends.
    pub fn detach(&mut self) -> Result<(), HostError> {
        let Some(device) = self.device.take() else {
            return Ok(());
        };
        if self.is_ours(&device) {
            // SAFETY: takes no argument; the device is ours. It is cleared on its last close.
            unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) };
        }
        drop(device);
        // udev may look at the device for a moment.
        for _ in 0..200 {
            let gone = match File::open(&self.path) {
                Ok(device) => !self.is_ours(&device),
                Err(_) => true,
            };
            if gone {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(HostError::at("detach", &self.path, rustix::io::Errno::BUSY))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Nothing can be done about a failure here: the device clears itself.
        let _ = self.detach();
    }
}

fn open_device(path: &Path) -> Result<File, HostError> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(|e| HostError::at("open", path, e))
}

fn configure(device: &File, image: &File) -> rustix::io::Result<()> {
    let attempt = |flags: u32| {
        // SAFETY: plain integers and arrays, valid when zeroed.
        let mut config: LoopConfig = unsafe { std::mem::zeroed() };
        config.fd = image.as_raw_fd() as u32;
        config.info.flags = flags;
        for (to, from) in config.info.file_name.iter_mut().zip(OWN_NAME) {
            *to = *from;
        }
        // SAFETY: reads a loop_config, laid out as in linux/loop.h.
        let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
        if done == 0 {
            Ok(())
        } else {
            let code = std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO);
            Err(rustix::io::Errno::from_raw_os_error(code))
        }
    };
    match attempt(LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO) {
        // Newer kernels refuse direct I/O where older ones ignore the wish.
        Err(rustix::io::Errno::INVAL) => attempt(LO_FLAGS_AUTOCLEAR),
        done => done,
    }
}

/// Gives a device the read-ahead of one that was never used. The kernel raises it for rotating devices (6.18: to twice
/// the largest request) and for those with a best size of requests, and never lowers it again: a device that once held
/// the image of an emulated disk would read 2,560 KiB ahead for one in memory, and its neighbour 128.
fn forget_read_ahead(device: &File, number: libc::c_int) {
    let queue = |what: &str| -> Option<u64> {
        let path = format!("/sys/block/loop{number}/queue/{what}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let unused_kib = || -> Option<u64> {
        let best = queue("optimal_io_size")? >> 10;
        let rotating = queue("rotational")? == 1;
        let request = if best == 0 && rotating {
            queue("max_sectors_kb")?
        } else {
            best
        };
        Some((2 * request).max(READ_AHEAD_KIB))
    };
    if let Some((kib, now)) = unused_kib().zip(queue("read_ahead_kb"))
        && kib < now
    {
        let sectors = libc::c_ulong::try_from(2 * kib).unwrap_or_default();
        // SAFETY: takes a number, in sectors of 512 bytes. Where it fails the device stays as it was found, as the
        // record of the environment says.
        unsafe { libc::ioctl(device.as_raw_fd(), BLKRASET, sectors) };
    }
}

/// The number of the file system that holds the image of a loop device; `None` where it may not be
/// asked.
pub(crate) fn image_device(device: &Path) -> Option<DevId> {
    let device = File::open(device).ok()?;
    status(&device).map(|info| DevId(info.device))
}

/// Whether some fsage has attached a loop device.
pub(crate) fn is_own_loop_device(path: &Path) -> bool {
    let info = File::open(path).ok().and_then(|device| status(&device));
    info.is_some_and(|info| {
        let name = info.file_name.split(|&b| b == 0).next();
        name == Some(OWN_NAME)
    })
}

/// Who uses a loop device, in words that follow its name: where it is mounted, or a process. `None` where that is not
/// seen from here.
pub fn user_of_loop(device: &Path) -> Option<String> {
    let mounted = mounts::all().into_iter().find(|m| m.source == device);
    if let Some(mount) = mounted {
        return Some(format!("mounted on {}", mount.dir.display()));
    }
    let user = processes::user_of(device).or_else(|| processes::user_of_device(device));
    user.map(|pid| format!("used by {}", processes::in_words(pid)))
}

/// The same of what is mounted on a directory.
pub fn user_of_mount(dir: &Path) -> Option<String> {
    processes::user_of(dir).map(|pid| format!("used by {}", processes::in_words(pid)))
}

/// Whether a mount, also one that is out of sight, or anyone else holds a device exclusively.
pub(crate) fn is_held(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(device, flags, Mode::empty()).is_err()
}

/// Lets go of the image of a device that some fsage has attached.
pub(crate) fn clear_loop_device(path: &Path) -> Result<(), HostError> {
    if !is_own_loop_device(path) {
        return Ok(());
    }
    let device = open_device(path)?;
    // SAFETY: takes no argument; the device is fsage's and nobody uses it.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD, 0) };
    if done < 0 {
        let error = std::io::Error::last_os_error();
        return Err(HostError::at("detach", path, error));
    }
    Ok(())
}

fn status(device: &File) -> Option<LoopInfo64> {
    // SAFETY: plain integers and arrays, valid when zeroed.
    let mut info: LoopInfo64 = unsafe { std::mem::zeroed() };
    // SAFETY: writes a loop_info64, laid out as in linux/loop.h.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (done == 0).then_some(info)
}

const _: () = assert!(size_of::<LoopInfo64>() == 232 && size_of::<LoopConfig>() == 304);

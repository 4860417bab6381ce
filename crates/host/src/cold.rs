//! Making a target cold, and its device's counters.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fsage_core::{
    ColdEvidence, ColdLevel, ColdMethod, ColdPolicy, DeviceCounters, Errno, Handle, Platform,
};
use rustix::fs::{Advice, Dir, FileType, Mode, OFlags};

use crate::freeze;
use crate::fs::{HostFs, descriptor};

/// `TMPFS_MAGIC` and `RAMFS_MAGIC`: file systems whose only copy is the page cache.
const MEMORY_ONLY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether the only copy of what lies in a directory is the page cache; nothing of it is ever cold.
pub fn is_memory_only(dir: &std::path::Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|about| MEMORY_ONLY.contains(&about.f_type))
}

impl Platform for HostFs {
    /// `EOPNOTSUPP` on tmpfs and ramfs, and for a remount of what fsage did not mount; `EBUSY` if a
    /// file is still open; `EACCES` or `EPERM` for `drop_caches` without root. What lies beneath a layer is
    /// made cold with it.
    fn make_cold(&self) -> Result<ColdEvidence, Errno> {
        if let Some(layer) = self.layer() {
            return layer.make_cold(self.options());
        }
        let kind = rustix::fs::fstatfs(self.root()).map_err(errno)?.f_type;
        if MEMORY_ONLY.contains(&kind) {
            return Err(Errno::EOPNOTSUPP);
        }
        // What a disk is given to write here belongs to no measurement.
        let _full_speed = match self.options().cold {
            // A remount sees to it itself.
            ColdPolicy::Only(ColdMethod::Remount) => None,
            _ => self.scratch().map(|s| s.full_speed()),
        };
        match self.options().cold {
            ColdPolicy::Only(ColdMethod::Remount) => self.remount(),
            ColdPolicy::Only(ColdMethod::Drop) => self.drop_caches(),
            ColdPolicy::Only(ColdMethod::Evict) => self.evict_all(),
            ColdPolicy::Auto => self
                .remount()
                .or_else(|_| self.drop_caches())
                .or_else(|_| self.evict_all()),
        }
    }

    fn make_anew(&self) -> Result<(), Errno> {
        // What lies above a scratch file system knows nothing of a new one.
        match (self.layer(), self.scratch()) {
            (None, Some(scratch)) => scratch.make_anew(),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    fn evict(&self, handle: Handle) -> Result<(), Errno> {
        let file = descriptor(handle)?;
        evict_file(file)?;
        match self.layer() {
            Some(layer) => evict_file(layer.beneath(file)?.as_fd()),
            None => Ok(()),
        }
    }

    fn dirty_bytes(&self, handle: Handle) -> Option<u64> {
        dirty_bytes(descriptor(handle).ok()?)
    }

    fn device_counters(&self) -> Option<DeviceCounters> {
        self.device()?.counters()
    }
}

impl HostFs {
    fn remount(&self) -> Result<ColdEvidence, Errno> {
        self.scratch().ok_or(Errno::EOPNOTSUPP)?.remount()?;
        Ok(ColdEvidence {
            method: ColdMethod::Remount,
            level: ColdLevel::Everything,
        })
    }

    /// `drop_caches` leaves dirty pages, hence the sync; a freeze also completes the log, without
    /// which xfs reads cold inodes twice.
    fn drop_caches(&self) -> Result<ColdEvidence, Errno> {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open("/proc/sys/vm/drop_caches")
            .map_err(|e| io_errno(&e))?;
        rustix::fs::syncfs(self.root()).map_err(errno)?;
        if !self.holds_machine_root() {
            // What cannot be frozen (ext2 on some kernels, FUSE) is as cold as a sync makes it.
            match freeze::freeze_and_thaw(self.root()) {
                Ok(()) | Err(Errno::EOPNOTSUPP | Errno::EPERM | Errno::EBUSY) => {}
                Err(e) => return Err(e),
            }
        }
        rustix::io::write(&file, b"3").map_err(errno)?;
        Ok(ColdEvidence {
            method: ColdMethod::Drop,
            level: ColdLevel::Everything,
        })
    }

    /// Whether the target lies on the machine's root file system, which is never frozen.
    pub(crate) fn holds_machine_root(&self) -> bool {
        let dev = |stat: rustix::io::Result<rustix::fs::Stat>| stat.ok().map(|s| s.st_dev);
        let own = self.mount().map(|m| &m.source);
        let root = crate::fs::open_root(std::path::Path::new("/")).ok();
        let root_mount = root
            .as_ref()
            .and_then(|fd| crate::mounts::Mount::of(fd.as_fd(), std::path::Path::new("/")));
        own == root_mount.as_ref().map(|m| &m.source)
            || dev(rustix::fs::fstat(self.root())) == dev(rustix::fs::stat("/"))
    }

    /// Data only: the kernel offers no way to drop one file's name and inode.
    fn evict_all(&self) -> Result<ColdEvidence, Errno> {
        rustix::fs::syncfs(self.root()).map_err(errno)?;
        let dev = rustix::fs::fstat(self.root()).map_err(errno)?.st_dev;
        evict_tree(self.root(), dev)?;
        Ok(ColdEvidence {
            method: ColdMethod::Evict,
            level: ColdLevel::DataOnly,
        })
    }
}

/// cachestat(2), which Linux has since 6.5.
#[allow(unsafe_code)]
fn dirty_bytes(file: BorrowedFd<'_>) -> Option<u64> {
    const CACHESTAT: libc::c_long = 451;
    /// `struct cachestat`: pages that are cached, dirty, being written, evicted and lately evicted.
    #[repr(C)]
    #[derive(Default)]
    struct Pages {
        cached: u64,
        dirty: u64,
        written: u64,
        evicted: u64,
        lately: u64,
    }
    // From where on, and how much: to its end.
    let range = [0u64; 2];
    let mut found = Pages::default();
    // SAFETY: both structures live until the call is over and are as long as the kernel has them.
    let done = unsafe {
        let (range, found) = (range.as_ptr(), &raw mut found);
        libc::syscall(CACHESTAT, file.as_raw_fd(), range, found, 0u32)
    };
    (done == 0).then(|| (found.dirty + found.written) * rustix::param::page_size() as u64)
}

/// Evicts every readable regular file below a directory, on one file system. Level by level with
/// paths, so that neither stack nor descriptors grow with the depth.
fn evict_tree(root: BorrowedFd<'_>, dev: u64) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut pending = vec![b".".to_vec()];
    while let Some(path) = pending.pop() {
        // Vanished or forbidden directories hold nothing that could be evicted.
        let open = rustix::fs::openat(
            root,
            path.as_slice(),
            flags | OFlags::DIRECTORY,
            Mode::empty(),
        );
        let Ok(fd) = open else { continue };
        if rustix::fs::fstat(&fd).is_ok_and(|s| s.st_dev != dev) {
            continue;
        }
        for entry in Dir::read_from(&fd).map_err(errno)? {
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            match entry.file_type() {
                FileType::Directory => {
                    let mut below = path.clone();
                    below.push(b'/');
                    below.extend_from_slice(name);
                    pending.push(below);
                }
                FileType::RegularFile | FileType::Unknown => {
                    if let Ok(file) = rustix::fs::openat(&fd, name, flags, Mode::empty()) {
                        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// `POSIX_FADV_DONTNEED` leaves dirty pages, hence the fsync.
fn evict_file(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::fsync(fd).map_err(errno)?;
    rustix::fs::fadvise(fd, 0, None, Advice::DontNeed).map_err(errno)
}

fn errno(e: rustix::io::Errno) -> Errno {
    Errno(e.raw_os_error())
}

fn io_errno(e: &std::io::Error) -> Errno {
    Errno(e.raw_os_error().unwrap_or(libc::EIO))
}

//! Where a file's data lies and which generation its inode is.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fsage_format::snapshot::{Extent, SnapshotEntry};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// linux/fs.h, linux/fiemap.h.
const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
const FS_IOC_GETVERSION: libc::Ioctl = 0x8008_7601_u32 as libc::Ioctl;
const FIEMAP_EXTENT_LAST: u32 = 1;
const EXTENTS_PER_CALL: usize = 128;

#[repr(C)]
#[derive(Clone, Copy)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; EXTENTS_PER_CALL],
}

const _: () = assert!(size_of::<FiemapExtent>() == 56);

/// Asks a file system for layout and generation as long as it answers.
pub(super) struct Layout {
    fiemap: Box<Fiemap>,
    /// `None` until a file was asked.
    extents_supported: Option<bool>,
    generation_supported: bool,
    no_atime: bool,
}

impl Layout {
    pub fn new() -> Self {
        // SAFETY: plain integers and arrays, valid when zeroed.
        let fiemap = Box::new(unsafe { std::mem::zeroed() });
        Self {
            fiemap,
            extents_supported: None,
            generation_supported: true,
            no_atime: true,
        }
    }

    /// Whether a file's extents were told; unknown where no file has data in blocks.
    pub fn tells_extents(&self) -> Option<bool> {
        self.extents_supported
    }

    /// Fills in generation and extents of `name` in `dir`, through `open` where it is open already.
    /// A file that vanished or cannot be opened stays without them.
    pub fn fill(
        &mut self,
        dir: BorrowedFd<'_>,
        open: Option<BorrowedFd<'_>>,
        name: &[u8],
        want_extents: bool,
        entry: &mut SnapshotEntry,
    ) -> Result<(), Errno> {
        let want_extents = want_extents && self.extents_supported != Some(false);
        if !want_extents && !self.generation_supported {
            return Ok(());
        }
        let opened;
        let fd = if let Some(fd) = open {
            fd
        } else {
            opened = self.open(dir, name)?;
            opened.as_fd()
        };
        if self.generation_supported {
            self.read_generation(fd, entry);
        }
        if want_extents {
            match self.read_extents(fd, &mut entry.extents) {
                Ok(()) => self.extents_supported = Some(true),
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                    self.extents_supported.get_or_insert(false);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Opens without blocking on what is no file any more, and without touching the access time
    /// where that is allowed.
    fn open(&mut self, dir: BorrowedFd<'_>, name: &[u8]) -> Result<rustix::fd::OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        if self.no_atime {
            match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
                // Not the owner: reading the layout does not change the access time anyway.
                Err(Errno::PERM) => self.no_atime = false,
                done => return done,
            }
        }
        rustix::fs::openat(dir, name, flags, Mode::empty())
    }

    fn read_generation(&mut self, fd: BorrowedFd<'_>, entry: &mut SnapshotEntry) {
        // The number says long, the kernel writes an int.
        let mut generation: libc::c_long = 0;
        // SAFETY: writes at most a long.
        let done = unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_GETVERSION, &raw mut generation) };
        if done == 0 {
            entry.generation = generation as u32;
        } else if entry.file_type == fsage_core::FileType::Regular {
            self.generation_supported = false;
        }
    }

    fn read_extents(&mut self, fd: BorrowedFd<'_>, extents: &mut Vec<Extent>) -> Result<(), Errno> {
        let map = &mut *self.fiemap;
        let mut start = 0;
        loop {
            (map.start, map.length, map.flags) = (start, u64::MAX - start, 0);
            (map.mapped, map.count) = (0, EXTENTS_PER_CALL as u32);
            // SAFETY: reads and writes a fiemap with room for `count` extents.
            if unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP, &raw mut *map) } != 0 {
                return Err(Errno::from_raw_os_error(crate::error::last_errno().0));
            }
            let found = map.extents.get(..map.mapped as usize).unwrap_or_default();
            for e in found {
                extents.push(Extent {
                    logical_bytes: e.logical,
                    physical_bytes: e.physical,
                    length_bytes: e.length,
                    flags: e.flags,
                });
            }
            let Some(last) = found.last() else {
                return Ok(());
            };
            let next = last.logical.saturating_add(last.length);
            if last.flags & FIEMAP_EXTENT_LAST != 0 || next <= start || next == u64::MAX {
                return Ok(());
            }
            start = next;
        }
    }
}

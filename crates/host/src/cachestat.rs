//! How much of files is in the page cache (cachestat(2), Linux 6.5). Pages on their way from a device
//! count as cached.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use fsage_core::Errno;
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode, OFlags};

/// Its number is the same on every architecture that this crate is built for.
const CACHESTAT: libc::c_long = 451;

/// What is in the page cache of a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CachedPages {
    /// Pages in the cache.
    pub cached: u64,
    /// Of these, dirty ones.
    pub dirty: u64,
    /// Of these, ones that are being written.
    pub write_back: u64,
    /// Pages that were thrown out.
    pub evicted: u64,
    /// Of these, ones thrown out a short while ago.
    pub recently_evicted: u64,
}

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// Of all of a file. `ENOSYS` before Linux 6.5, `EPERM` where a sandbox refuses it.
pub fn of_file(file: BorrowedFd<'_>) -> Result<CachedPages, Errno> {
    let mut range = Range {
        offset: 0,
        length: 0,
    };
    let mut pages = CachedPages::default();
    // SAFETY: both pointers are to what the call reads and writes, and outlive it; the flags are 0 as
    // they must be. A length of 0 means up to the end.
    let result = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw mut range,
            &raw mut pages,
            0,
        )
    };
    if result == 0 {
        Ok(pages)
    } else {
        Err(crate::error::last_errno())
    }
}

/// Of the regular files below a directory, on its file system. Looking reads directories and inodes, so
/// this is for after a measurement. Stops after `most` files; `None` if there were more, or where the
/// kernel cannot tell.
pub fn below(dir: &Path, most: usize) -> Option<CachedPages> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let root = crate::fs::open_root(dir).ok()?;
    let dev = rustix::fs::fstat(&root).ok()?.st_dev;
    let mut sum = CachedPages::default();
    let mut left = most;
    let mut pending = vec![b".".to_vec()];
    while let Some(path) = pending.pop() {
        let open = rustix::fs::openat(&root, path.as_slice(), flags, Mode::empty());
        // What vanished or is forbidden is nobody's to count.
        let Ok(fd) = open else { continue };
        if rustix::fs::fstat(&fd).is_ok_and(|s| s.st_dev != dev) {
            continue;
        }
        for entry in Dir::read_from(&fd).ok()? {
            let Ok(entry) = entry else { break };
            let name = entry.file_name().to_bytes();
            match kind(&fd, &entry) {
                FileType::Directory if name != b"." && name != b".." => {
                    pending.push([path.as_slice(), b"/", name].concat());
                }
                FileType::RegularFile => {
                    left = left.checked_sub(1)?;
                    let file = rustix::fs::openat(&fd, name, flags, Mode::empty());
                    let Ok(file) = file else { continue };
                    let pages = of_file(file.as_fd()).ok()?;
                    sum.cached += pages.cached;
                    sum.dirty += pages.dirty;
                    sum.write_back += pages.write_back;
                    sum.evicted += pages.evicted;
                    sum.recently_evicted += pages.recently_evicted;
                }
                _ => {}
            }
        }
    }
    Some(sum)
}

/// What an entry is; file systems may leave that out of their listings.
fn kind(dir: &OwnedFd, entry: &DirEntry) -> FileType {
    match entry.file_type() {
        FileType::Unknown => {
            let stat = rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            stat.map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode))
        }
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_written_is_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        let mut file = std::fs::File::create(dir.path().join("sub/file")).unwrap();
        file.write_all(&vec![1; 40 << 10]).unwrap();
        match of_file(file.as_fd()) {
            Ok(pages) => assert!(pages.cached >= 1, "{pages:?}"),
            Err(e) => {
                fsage_testing::not_run(format_args!("needs cachestat: {e}"));
                return;
            }
        }
        let all = below(dir.path(), 1).unwrap();
        assert!(all.cached >= 1, "{all:?}");
        assert_eq!(below(dir.path(), 0), None, "more files than asked for");
    }
}

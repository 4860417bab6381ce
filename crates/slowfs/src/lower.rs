//! What the calls do beneath: plain calls on the directory that is served.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use fuser::{RenameFlags, TimeOrNow};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::{Errno, Result};

use crate::attr;

/// A descriptor that names a file and does nothing else.
const NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What the caller of an open may ask of the file beneath. Positions and appending are the kernel's above;
/// what is direct above is read through the cache here.
const PASSED: OFlags = OFlags::ACCMODE
    .union(OFlags::TRUNC)
    .union(OFlags::SYNC)
    .union(OFlags::DSYNC)
    .union(OFlags::NOATIME)
    .union(OFlags::EXCL);

/// The directory that is served.
pub fn root(path: &Path) -> Result<(OwnedFd, Stat)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let file = fs::open(path, flags, Mode::empty())?;
    let stat = stat(&file)?;
    Ok((file, stat))
}

/// One name of a directory.
pub fn lookup(parent: impl AsFd, name: &OsStr) -> Result<(OwnedFd, Stat)> {
    let file = fs::openat(parent, name, NAME, Mode::empty())?;
    let stat = stat(&file)?;
    Ok((file, stat))
}

/// A file's attributes.
pub fn stat(file: impl AsFd) -> Result<Stat> {
    fs::statat(file, "", AtFlags::EMPTY_PATH)
}

/// Opens a known file anew.
pub fn open(file: &impl AsRawFd, flags: i32) -> Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags as u32) & PASSED & !OFlags::EXCL;
    fs::open(magic(file), flags | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a known directory for listing.
pub fn open_dir(file: &impl AsRawFd) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::open(magic(file), flags, Mode::empty())
}

/// Who makes a file.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// Gives a new file to its maker, where this process may: as root. A directory's set-group-id bit
    /// keeps the group that it gave.
    fn own(self, parent: impl AsFd, name: &OsStr) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let inherits = stat(&parent)?.st_mode & 0o2000 != 0;
        let group = (!inherits).then(|| Gid::from_raw(self.gid));
        let user = Some(Uid::from_raw(self.uid));
        fs::chownat(parent, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Makes a file and opens it.
pub fn create(
    parent: impl AsFd,
    name: &OsStr,
    mode: u32,
    flags: i32,
    owner: Owner,
) -> Result<OwnedFd> {
    let flags = OFlags::from_bits_retain(flags as u32) & PASSED;
    let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(&parent, name, flags, Mode::from_raw_mode(mode))?;
    owner.own(parent, name)?;
    Ok(file)
}

/// Makes a file of any type but a directory.
pub fn mknod(parent: impl AsFd, name: &OsStr, mode: u32, device: u64, owner: Owner) -> Result<()> {
    let file_type = FileType::from_raw_mode(mode);
    let bits = Mode::from_raw_mode(mode);
    fs::mknodat(&parent, name, file_type, bits, device)?;
    owner.own(parent, name)
}

/// Makes a directory.
pub fn mkdir(parent: impl AsFd, name: &OsStr, mode: u32, owner: Owner) -> Result<()> {
    fs::mkdirat(&parent, name, Mode::from_raw_mode(mode))?;
    owner.own(parent, name)
}

/// Makes a symbolic link.
pub fn symlink(parent: impl AsFd, name: &OsStr, target: &Path, owner: Owner) -> Result<()> {
    fs::symlinkat(target, &parent, name)?;
    owner.own(parent, name)
}

/// Gives a known file another name.
pub fn link(file: &impl AsRawFd, parent: impl AsFd, name: &OsStr) -> Result<()> {
    fs::linkat(fs::CWD, magic(file), parent, name, AtFlags::SYMLINK_FOLLOW)
}

/// Renames.
pub fn rename(
    from: impl AsFd,
    name: &OsStr,
    to: impl AsFd,
    new_name: &OsStr,
    flags: RenameFlags,
) -> Result<()> {
    let flags = fs::RenameFlags::from_bits_retain(flags.bits());
    fs::renameat_with(from, name, to, new_name, flags)
}

/// What is to be set of a file's attributes.
#[derive(Debug)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The user.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size in bytes.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<TimeOrNow>,
    /// Modification time.
    pub mtime: Option<TimeOrNow>,
}

/// Sets attributes of a known file; `open` is a descriptor of it that can be written, if there is one.
pub fn change(file: &(impl AsRawFd + AsFd), open: Option<&OwnedFd>, what: &Changes) -> Result<()> {
    if let Some(mode) = what.mode {
        let flags = AtFlags::empty();
        fs::chmodat(fs::CWD, magic(file), Mode::from_raw_mode(mode), flags)?;
    }
    if what.uid.is_some() || what.gid.is_some() {
        let (uid, gid) = (what.uid.map(Uid::from_raw), what.gid.map(Gid::from_raw));
        fs::chownat(file, "", uid, gid, AtFlags::EMPTY_PATH)?;
    }
    if let Some(size) = what.size {
        match open {
            Some(open) => fs::ftruncate(open, size)?,
            None => fs::ftruncate(self::open(file, OFlags::WRONLY.bits() as i32)?, size)?,
        }
    }
    if what.atime.is_some() || what.mtime.is_some() {
        let times = attr::timestamps(what.atime, what.mtime);
        if FileType::from_raw_mode(stat(file)?.st_mode) == FileType::Symlink {
            return fs::utimensat(file, "", &times, AtFlags::EMPTY_PATH);
        }
        fs::utimensat(fs::CWD, magic(file), &times, AtFlags::empty())?;
    }
    Ok(())
}

/// Reads an extended attribute into a buffer; its length in bytes, which is all of it that an empty
/// buffer asks for. Extended attributes go through the name in `/proc`, which follows no link of the tree.
pub fn get_xattr(file: &impl AsRawFd, name: &OsStr, value: &mut [u8]) -> Result<usize> {
    if value.is_empty() {
        return fs::getxattr_query(magic(file), name);
    }
    fs::getxattr(magic(file), name, value)
}

/// Reads the names of extended attributes likewise, each ended by a zero.
pub fn list_xattr(file: &impl AsRawFd, names: &mut [u8]) -> Result<usize> {
    if names.is_empty() {
        return fs::listxattr_query(magic(file));
    }
    fs::listxattr(magic(file), names)
}

/// Sets an extended attribute.
pub fn set_xattr(file: &impl AsRawFd, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
    let flags = fs::XattrFlags::from_bits_retain(flags as u32);
    fs::setxattr(magic(file), name, value, flags)
}

/// Removes an extended attribute.
pub fn remove_xattr(file: &impl AsRawFd, name: &OsStr) -> Result<()> {
    fs::removexattr(magic(file), name)
}

/// Reads up to `size` bytes, fewer only at the end of the file.
pub fn read(file: &OwnedFd, offset: u64, size: u32) -> Result<Vec<u8>> {
    let mut data = vec![0; size as usize];
    let mut done = 0;
    while let Some(rest) = data.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    data.truncate(done);
    Ok(data)
}

/// Writes what there is room for; an error only if that is nothing.
pub fn write(file: &OwnedFd, offset: u64, data: &[u8]) -> Result<u32> {
    let mut done = 0;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pwrite(file, rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(done as u32)
}

/// The name under which `/proc` reaches exactly this file.
fn magic(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

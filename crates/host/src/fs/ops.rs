//! The operations, one system call each where the names are trusted.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, RawFd};

use fsage_core::{
    Access, Attr, Clock, DevId, DirEntry, Errno, FileId, FileSystem, FileType, Handle, OpenFlags,
    Platform, RangeSync, SetAttr, StatFs,
};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RawDir, RenameFlags, SeekFrom};

use super::held::Held;
use super::{Confinement, HostFs, at_once, beneath, map};
use crate::error::last_errno;

/// As glibc's readdir(3): one call per 32 KiB of entries.
const DIRENT_BUFFER: usize = 32 * 1024;
/// The longest target of a symbolic link, `PATH_MAX`.
const LINK_MAX: usize = 4096;

pub(super) fn errno(e: rustix::io::Errno) -> Errno {
    Errno(e.raw_os_error())
}

/// The descriptor behind a handle.
pub(crate) fn descriptor(handle: Handle) -> Result<BorrowedFd<'static>, Errno> {
    let fd = RawFd::try_from(handle.0).map_err(|_| Errno::EBADF)?;
    // SAFETY: a non-negative number, only ever passed to system calls, which check it; a handle
    // that was closed gives EBADF. Callers must not close a handle while they use it.
    Ok(unsafe { BorrowedFd::borrow_raw(fd) })
}

fn open_flags(flags: OpenFlags) -> OFlags {
    if flags.name_only {
        let mut o = OFlags::PATH | OFlags::CLOEXEC;
        o.set(OFlags::DIRECTORY, flags.directory);
        o.set(OFlags::NOFOLLOW, flags.no_follow);
        return o;
    }
    let mut o = match (flags.read, flags.write || flags.append) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    for (set, flag) in [
        (flags.append, OFlags::APPEND),
        (flags.create, OFlags::CREATE),
        (flags.exclusive, OFlags::EXCL),
        (flags.truncate, OFlags::TRUNC),
        (flags.directory, OFlags::DIRECTORY),
        (flags.direct, OFlags::DIRECT),
        (flags.no_follow, OFlags::NOFOLLOW),
        (flags.sync, OFlags::SYNC),
    ] {
        if set {
            o |= flag;
        }
    }
    o | OFlags::CLOEXEC
}

pub(crate) fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileType::Regular,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        _ => FileType::Other,
    }
}

fn attr(stat: &rustix::fs::Stat) -> Attr {
    Attr {
        id: FileId {
            dev: DevId(stat.st_dev),
            ino: stat.st_ino,
            generation: 0,
        },
        file_type: file_type(stat.st_mode),
        size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
        allocated_bytes: u64::try_from(stat.st_blocks)
            .unwrap_or(0)
            .saturating_mul(512),
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        mode: stat.st_mode & 0o7777,
    }
}

/// What every name goes through: absolute names are outside, no name is the root itself.
fn relative(path: &[u8]) -> Result<&[u8], Errno> {
    match path.first() {
        None => Ok(b"."),
        Some(b'/') => Err(Errno::EXDEV),
        Some(_) => Ok(path),
    }
}

impl HostFs {
    fn trusted(&self) -> bool {
        self.options.confinement == Confinement::Trusted
    }

    /// Runs a call that takes a directory and a name in it.
    fn at<T>(
        &self,
        path: &[u8],
        call: impl FnOnce(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<T>,
    ) -> Result<T, Errno> {
        if self.trusted() {
            return call(self.root(), relative(path)?).map_err(errno);
        }
        if let Some((dir, name)) = self.held_parent(path)? {
            return call(dir.as_fd(), name).map_err(errno);
        }
        let (dir, name) = beneath::parent(self.root(), path)?;
        call(dir.as_fd(), name).map_err(errno)
    }

    /// The open directory that holds the last component of a path, and that component.
    fn held_parent<'p>(&self, path: &'p [u8]) -> Result<Held<'p>, Errno> {
        match self.options.confinement {
            Confinement::Held => self.held.parent(&self.root, path),
            Confinement::Beneath | Confinement::Trusted => Ok(None),
        }
    }

    /// What is about to be renamed or removed is no longer kept open.
    fn let_go(&self, path: &[u8]) {
        if self.options.confinement == Confinement::Held {
            self.held.forget(path);
        }
    }

    /// The same for calls with two names.
    fn at2(
        &self,
        from: &[u8],
        to: &[u8],
        call: impl FnOnce(BorrowedFd<'_>, &[u8], BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), Errno> {
        if self.trusted() {
            return call(self.root(), relative(from)?, self.root(), relative(to)?).map_err(errno);
        }
        if let (Some((from_dir, from)), Some((to_dir, to))) =
            (self.held_parent(from)?, self.held_parent(to)?)
        {
            return call(from_dir.as_fd(), from, to_dir.as_fd(), to).map_err(errno);
        }
        let (from_dir, from_name) = beneath::parent(self.root(), from)?;
        let (to_dir, to_name) = beneath::parent(self.root(), to)?;
        call(from_dir.as_fd(), from_name, to_dir.as_fd(), to_name).map_err(errno)
    }

    fn stat_with(&self, path: &[u8], flags: AtFlags) -> Result<Attr, Errno> {
        if self.trusted() {
            return rustix::fs::statat(self.root(), relative(path)?, flags)
                .map(|s| attr(&s))
                .map_err(errno);
        }
        let follow = !flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        let fd = beneath::locate(self.root(), path, follow)?;
        rustix::fs::fstat(fd).map(|s| attr(&s)).map_err(errno)
    }
}

impl FileSystem for HostFs {
    fn name(&self) -> String {
        self.dir().display().to_string()
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Handle, Errno> {
        let (flags, mode) = (open_flags(flags), Mode::from_raw_mode(mode & 0o7777));
        let fd = if self.trusted() {
            rustix::fs::openat(self.root(), relative(path)?, flags, mode).map_err(errno)?
        } else if let Some((dir, name)) = self.held_parent(path)? {
            match rustix::fs::openat(&dir, name, flags | OFlags::NOFOLLOW, mode) {
                // A link leads somewhere beneath the root or is refused.
                Err(rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR) => {
                    beneath::open(self.root(), path, flags, mode)?
                }
                opened => opened.map_err(errno)?,
            }
        } else {
            beneath::open(self.root(), path, flags, mode)?
        };
        Ok(Handle(fd.into_raw_fd() as u64))
    }

    fn open_unnamed(&self, dir: &[u8], mode: u32) -> Result<Handle, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let fd = if self.trusted() {
            rustix::fs::openat(self.root(), relative(dir)?, flags, mode).map_err(errno)?
        } else {
            beneath::open(self.root(), dir, flags, mode)?
        };
        Ok(Handle(fd.into_raw_fd() as u64))
    }

    fn close(&self, handle: Handle) -> Result<(), Errno> {
        let fd = RawFd::try_from(handle.0).map_err(|_| Errno::EBADF)?;
        // SAFETY: the number came out of `open` as an owned descriptor and is given back once.
        if unsafe { libc::close(fd) } == 0 {
            Ok(())
        } else {
            Err(last_errno())
        }
    }

    fn read(&self, handle: Handle, buf: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(descriptor(handle)?, buf).map_err(errno)
    }

    fn write(&self, handle: Handle, buf: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(descriptor(handle)?, buf).map_err(errno)
    }

    fn pread(&self, handle: Handle, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pread(descriptor(handle)?, buf, offset).map_err(errno)
    }

    fn pwrite(&self, handle: Handle, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        rustix::io::pwrite(descriptor(handle)?, buf, offset).map_err(errno)
    }

    fn seek(&self, handle: Handle, offset: u64) -> Result<u64, Errno> {
        rustix::fs::seek(descriptor(handle)?, SeekFrom::Start(offset)).map_err(errno)
    }

    fn seek_next(&self, handle: Handle, offset: u64, hole: bool) -> Result<u64, Errno> {
        let to = if hole {
            SeekFrom::Hole(offset)
        } else {
            SeekFrom::Data(offset)
        };
        rustix::fs::seek(descriptor(handle)?, to).map_err(errno)
    }

    fn read_dir(&self, handle: Handle) -> Result<Vec<DirEntry>, Errno> {
        let mut buffer = Vec::with_capacity(DIRENT_BUFFER);
        let mut entries = Vec::new();
        let mut dir = RawDir::new(descriptor(handle)?, buffer.spare_capacity_mut());
        while let Some(entry) = dir.next() {
            let entry = entry.map_err(errno)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let file_type = match entry.file_type() {
                rustix::fs::FileType::Unknown => None,
                known => Some(file_type(known.as_raw_mode())),
            };
            entries.push(DirEntry {
                name: name.to_vec(),
                ino: entry.ino(),
                file_type,
            });
        }
        Ok(entries)
    }

    fn fsync(&self, handle: Handle) -> Result<(), Errno> {
        rustix::fs::fsync(descriptor(handle)?).map_err(errno)
    }

    fn fdatasync(&self, handle: Handle) -> Result<(), Errno> {
        rustix::fs::fdatasync(descriptor(handle)?).map_err(errno)
    }

    fn sync_file_range(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        what: RangeSync,
    ) -> Result<(), Errno> {
        let place = |bytes| i64::try_from(bytes).map_err(|_| Errno::EINVAL);
        let (offset, length) = (place(offset)?, place(length)?);
        let fd = descriptor(handle)?.as_raw_fd();
        // SAFETY: takes numbers alone, which the kernel checks.
        match unsafe { libc::sync_file_range(fd, offset, length, what.0) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }

    fn ftruncate(&self, handle: Handle, size: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(descriptor(handle)?, size).map_err(errno)
    }

    fn fallocate(&self, handle: Handle, offset: u64, length: u64) -> Result<(), Errno> {
        rustix::fs::fallocate(descriptor(handle)?, FallocateFlags::empty(), offset, length)
            .map_err(errno)
    }

    fn share(&self, from: Handle, to: Handle) -> Result<(), Errno> {
        rustix::fs::ioctl_ficlone(descriptor(to)?, descriptor(from)?).map_err(errno)
    }

    fn futimens(&self, handle: Handle, accessed_ns: u64, modified_ns: u64) -> Result<(), Errno> {
        let times = timestamps(accessed_ns, modified_ns);
        rustix::fs::futimens(descriptor(handle)?, &times).map_err(errno)
    }

    fn fstat(&self, handle: Handle) -> Result<Attr, Errno> {
        rustix::fs::fstat(descriptor(handle)?)
            .map(|s| attr(&s))
            .map_err(errno)
    }

    fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.stat_with(path, AtFlags::empty())
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.stat_with(path, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn access(&self, path: &[u8], access: Access) -> Result<(), Errno> {
        let access = match access {
            Access::Exists => rustix::fs::Access::EXISTS,
            Access::Read => rustix::fs::Access::READ_OK,
            Access::Write => rustix::fs::Access::WRITE_OK,
        };
        if self.trusted() {
            return rustix::fs::accessat(self.root(), relative(path)?, access, AtFlags::empty())
                .map_err(errno);
        }
        let fd = beneath::locate(self.root(), path, true)?;
        rustix::fs::accessat(
            proc_fd().map_err(errno)?,
            proc_name(&fd),
            access,
            AtFlags::empty(),
        )
        .map_err(errno)
    }

    fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        self.at(path, |dir, name| {
            rustix::fs::unlinkat(dir, name, AtFlags::empty())
        })
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        self.at(path, |dir, name| rustix::fs::mkdirat(dir, name, mode))
    }

    fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        self.let_go(path);
        self.at(path, |dir, name| {
            rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
        })
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.let_go(from);
        self.let_go(to);
        self.at2(from, to, |a, from, b, to| {
            rustix::fs::renameat(a, from, b, to)
        })
    }

    fn exchange(&self, one: &[u8], two: &[u8]) -> Result<(), Errno> {
        self.let_go(one);
        self.let_go(two);
        self.at2(one, two, |a, one, b, two| {
            rustix::fs::renameat_with(a, one, b, two, RenameFlags::EXCHANGE)
        })
    }

    fn link(&self, existing: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.at2(existing, new, |a, from, b, to| {
            rustix::fs::linkat(a, from, b, to, AtFlags::empty())
        })
    }

    fn link_open(&self, handle: Handle, new: &[u8]) -> Result<(), Errno> {
        let file = proc_name(&descriptor(handle)?);
        self.at(new, |dir, name| {
            // By the descriptor itself (AT_EMPTY_PATH) only a privileged process may.
            rustix::fs::linkat(proc_fd()?, file, dir, name, AtFlags::SYMLINK_FOLLOW)
        })
    }

    fn symlink(&self, target: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.at(new, |dir, name| rustix::fs::symlinkat(target, dir, name))
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut target = vec![0; LINK_MAX];
        let read = |dir: BorrowedFd<'_>, name: &[u8], buf: &mut [u8]| {
            rustix::fs::readlinkat_raw(dir, name, buf).map_err(errno)
        };
        let length = if self.trusted() {
            read(self.root(), relative(path)?, &mut target)?
        } else {
            let fd = beneath::locate(self.root(), path, false)?;
            // An empty name on a descriptor of something else is ENOENT; readlink(2) says EINVAL.
            if attr(&rustix::fs::fstat(&fd).map_err(errno)?).file_type != FileType::Symlink {
                return Err(Errno::EINVAL);
            }
            read(fd.as_fd(), b"", &mut target)?
        };
        target.truncate(length);
        Ok(target)
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<(), Errno> {
        if !self.trusted() {
            let fd = beneath::open(self.root(), path, OFlags::WRONLY, Mode::empty())?;
            return rustix::fs::ftruncate(fd, size).map_err(errno);
        }
        // There is no truncateat: the absolute name costs the lookup of the root's own components,
        // less than a second system call would.
        let absolute = self
            .absolute(relative(path)?)
            .into_os_string()
            .into_encoded_bytes();
        let path = std::ffi::CString::new(absolute).map_err(|_| Errno::EINVAL)?;
        let size = libc::off_t::try_from(size).map_err(|_| Errno::EINVAL)?;
        // SAFETY: a NUL-terminated string that outlives the call.
        if unsafe { libc::truncate(path.as_ptr(), size) } == 0 {
            Ok(())
        } else {
            Err(last_errno())
        }
    }

    fn set_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        if self.trusted() {
            let name = relative(path)?;
            return set_attr(self.root(), name, attr, AtFlags::empty()).map_err(errno);
        }
        // A descriptor of O_PATH names the file for /proc, whatever its path becomes meanwhile.
        let fd = beneath::locate(self.root(), path, true)?;
        set_attr(
            proc_fd().map_err(errno)?.as_fd(),
            proc_name(&fd).as_bytes(),
            attr,
            AtFlags::empty(),
        )
        .map_err(errno)
    }

    fn lset_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        if matches!(attr, SetAttr::Mode(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.trusted() {
            let name = relative(path)?;
            return set_attr(self.root(), name, attr, AtFlags::SYMLINK_NOFOLLOW).map_err(errno);
        }
        let fd = beneath::locate(self.root(), path, false)?;
        set_attr(fd.as_fd(), b"", attr, AtFlags::EMPTY_PATH).map_err(errno)
    }

    fn statfs(&self) -> Result<StatFs, Errno> {
        let s = rustix::fs::fstatfs(self.root()).map_err(errno)?;
        let fragment = u64::try_from(s.f_frsize).ok().filter(|&f| f > 0);
        let unit = fragment.unwrap_or(u64::try_from(s.f_bsize).unwrap_or(0));
        Ok(StatFs {
            block_bytes: u32::try_from(s.f_bsize).unwrap_or(0),
            fragment_bytes: u32::try_from(unit).unwrap_or(0),
            total_bytes: s.f_blocks.saturating_mul(unit),
            free_bytes: s.f_bfree.saturating_mul(unit),
            available_bytes: s.f_bavail.saturating_mul(unit),
            files: s.f_files,
            free_files: s.f_ffree,
        })
    }

    fn read_at_once(
        &self,
        handle: Handle,
        length: usize,
        offsets: &[u64],
        noted: &mut dyn FnMut(),
    ) -> Result<usize, Errno> {
        at_once::read(descriptor(handle)?, length, offsets, noted)
    }

    fn sync(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(self.root()).map_err(errno)
    }

    fn map_touch(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        write: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno> {
        map::touch(
            descriptor(handle)?,
            offset,
            length,
            write,
            &self.clock,
            touched,
        )
    }

    /// getuid: the kernel's entry and exit and nearly nothing between them (17 ns where getppid, which looks for the
    /// parent, takes 60). What a descriptor's lookup costs is part of every call's kernel time, which a tracer sees too,
    /// so it must not be in what is subtracted.
    fn empty_call(&self) {
        std::hint::black_box(rustix::process::getuid());
    }

    fn platform(&self) -> &dyn Platform {
        self
    }
}

fn timestamps(accessed_ns: u64, modified_ns: u64) -> rustix::fs::Timestamps {
    let time = |ns: u64| rustix::fs::Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    rustix::fs::Timestamps {
        last_access: time(accessed_ns),
        last_modification: time(modified_ns),
    }
}

fn set_attr(
    dir: BorrowedFd<'_>,
    name: &[u8],
    attr: SetAttr,
    how: AtFlags,
) -> rustix::io::Result<()> {
    match attr {
        SetAttr::Mode(mode) => {
            rustix::fs::chmodat(dir, name, Mode::from_raw_mode(mode & 0o7777), how)
        }
        SetAttr::Owner(uid, gid) => rustix::fs::chownat(
            dir,
            name,
            // -1 leaves it as it is.
            (uid != u32::MAX).then(|| rustix::fs::Uid::from_raw(uid)),
            (gid != u32::MAX).then(|| rustix::fs::Gid::from_raw(gid)),
            how,
        ),
        SetAttr::Times(accessed, modified) => {
            let times = timestamps(accessed, modified);
            rustix::fs::utimensat(dir, name, &times, how)
        }
    }
}

/// The directory through which a descriptor is named to calls that only take names.
fn proc_fd() -> rustix::io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open("/proc/self/fd", flags, Mode::empty())
}

fn proc_name(fd: &impl std::os::fd::AsRawFd) -> String {
    fd.as_raw_fd().to_string()
}

//! The trait behind every target.

use crate::{Clock, Errno, FileId};

/// An open file of one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle(pub u64);

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags {
    /// Reads are allowed.
    pub read: bool,
    /// Writes are allowed.
    pub write: bool,
    /// Writes go to the end.
    pub append: bool,
    /// Create the file if it is not there.
    pub create: bool,
    /// Fail if it is there.
    pub exclusive: bool,
    /// Cut it to nothing.
    pub truncate: bool,
    /// Open a directory.
    pub directory: bool,
    /// Bypass the page cache where the target can.
    pub direct: bool,
    /// Do not follow a symbolic link in the last component.
    pub no_follow: bool,
    /// Writes return once data is stable.
    pub sync: bool,
    /// Only name the file (`O_PATH`): neither read nor written; of a symbolic link, with `no_follow`, the link.
    pub name_only: bool,
}

impl OpenFlags {
    /// For reading.
    pub const READ: OpenFlags = OpenFlags {
        read: true,
        ..Self::NONE
    };
    /// For writing.
    pub const WRITE: OpenFlags = OpenFlags {
        write: true,
        ..Self::NONE
    };
    /// For both.
    pub const READ_WRITE: OpenFlags = OpenFlags {
        read: true,
        write: true,
        ..Self::NONE
    };
    /// A new file for both; fails if it is there.
    pub const CREATE_NEW: OpenFlags = OpenFlags {
        create: true,
        exclusive: true,
        ..Self::READ_WRITE
    };
    /// A directory for listing.
    pub const DIRECTORY: OpenFlags = OpenFlags {
        directory: true,
        ..Self::READ
    };
    const NONE: OpenFlags = OpenFlags {
        read: false,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
        direct: false,
        no_follow: false,
        sync: false,
        name_only: false,
    };
    /// For nothing but to name the file.
    pub const NAME: OpenFlags = OpenFlags {
        name_only: true,
        ..Self::NONE
    };
}

/// What is asked of `access`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// That the file is there.
    Exists,
    /// That it can be read.
    Read,
    /// That it can be written.
    Write,
}

/// What `sync_file_range` is asked for: its flags, as Linux numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeSync(pub u32);

impl RangeSync {
    /// Starts writing what is dirty and waits for nothing (`SYNC_FILE_RANGE_WRITE`).
    pub const START: Self = Self(2);
    /// The same, and waits for what was being written before and is now.
    pub const AWAIT: Self = Self(7);

    /// Whether it waits for what is being written already.
    pub fn waits_before(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it starts writing what is dirty.
    pub fn writes(self) -> bool {
        self.0 & 2 != 0
    }

    /// Whether it waits for what it started.
    pub fn waits_after(self) -> bool {
        self.0 & 4 != 0
    }
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, socket or fifo.
    Other,
}

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Identity.
    pub id: FileId,
    /// Type.
    pub file_type: FileType,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Allocated space in bytes.
    pub allocated_bytes: u64,
    /// Hard links.
    pub links: u32,
    /// Permission bits.
    pub mode: u32,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// Its inode number.
    pub ino: u64,
    /// Its type, where the directory says it.
    pub file_type: Option<FileType>,
}

/// An attribute to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetAttr {
    /// Permission bits.
    Mode(u32),
    /// Owner and group.
    Owner(u32, u32),
    /// Access and modification time, nanoseconds since the epoch.
    Times(u64, u64),
}

/// Space and files of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatFs {
    /// The fundamental block size in bytes (`f_bsize`).
    pub block_bytes: u32,
    /// The fragment size in bytes (`f_frsize`).
    pub fragment_bytes: u32,
    /// Total space in bytes.
    pub total_bytes: u64,
    /// Space that is not used in bytes, with what is kept for root.
    pub free_bytes: u64,
    /// Space available to the caller in bytes.
    pub available_bytes: u64,
    /// Total inodes, 0 where there is no limit.
    pub files: u64,
    /// Free inodes.
    pub free_files: u64,
}

/// A place to run operations. Paths are relative to its root, without a leading slash, `""` for the
/// root itself; nothing that a path names lies outside of the root.
///
/// Every call is one operation: implementations add no call of their own to it, so that what is
/// measured around it is the target's cost. Latencies are measured by the caller on
/// [`FileSystem::clock`].
#[allow(missing_docs, reason = "the calls are POSIX's")]
pub trait FileSystem: Send + Sync {
    /// What the target is called in reports.
    fn name(&self) -> String;

    /// The clock on which its time passes.
    fn clock(&self) -> &dyn Clock;

    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Handle, Errno>;
    /// Opens a new file that has no name, in a directory, to be read and written (`O_TMPFILE`). A target may have no such
    /// call.
    fn open_unnamed(&self, _dir: &[u8], _mode: u32) -> Result<Handle, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn close(&self, handle: Handle) -> Result<(), Errno>;
    /// Reads at the handle's own position.
    fn read(&self, handle: Handle, buf: &mut [u8]) -> Result<usize, Errno>;
    /// Writes at the handle's own position.
    fn write(&self, handle: Handle, buf: &[u8]) -> Result<usize, Errno>;
    fn pread(&self, handle: Handle, buf: &mut [u8], offset: u64) -> Result<usize, Errno>;
    fn pwrite(&self, handle: Handle, buf: &[u8], offset: u64) -> Result<usize, Errno>;
    /// Reads `length` bytes at each of `offsets` from a file opened `direct`, to where nobody looks, all asked for before one
    /// is waited for. `noted` is called when all are asked for and when all have come: to have a queue made and taken away
    /// can take longer than all of them. How many bytes were read; a target may have no such call.
    fn read_at_once(
        &self,
        _handle: Handle,
        _length: usize,
        _offsets: &[u64],
        _noted: &mut dyn FnMut(),
    ) -> Result<usize, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Moves the handle's position to an absolute offset.
    fn seek(&self, handle: Handle, offset: u64) -> Result<u64, Errno>;
    /// Moves the handle's position to the first byte of data from `offset` on, or of a `hole`, of which a file's end is one
    /// (lseek, SEEK_DATA and SEEK_HOLE). Whoever keeps no holes has data everywhere; a target may have no such call.
    fn seek_next(&self, _handle: Handle, _offset: u64, _hole: bool) -> Result<u64, Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Lists a directory completely: as many calls as the target needs, the last of which is empty.
    fn read_dir(&self, handle: Handle) -> Result<Vec<DirEntry>, Errno>;
    fn fsync(&self, handle: Handle) -> Result<(), Errno>;
    fn fdatasync(&self, handle: Handle) -> Result<(), Errno>;
    /// Writes `length` bytes from `offset`, to the file's end if 0, without making them stable. A target may have no
    /// such call.
    fn sync_file_range(
        &self,
        _handle: Handle,
        _offset: u64,
        _length: u64,
        _what: RangeSync,
    ) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    /// The whole of one file becomes another's data by sharing its blocks. A target may have no such call.
    fn share(&self, _from: Handle, _to: Handle) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn ftruncate(&self, handle: Handle, size: u64) -> Result<(), Errno>;
    fn fallocate(&self, handle: Handle, offset: u64, length: u64) -> Result<(), Errno>;
    /// Times of access and modification, nanoseconds since 1970, of an open file whatever its name is by now.
    fn futimens(&self, _handle: Handle, _accessed_ns: u64, _modified_ns: u64) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn fstat(&self, handle: Handle) -> Result<Attr, Errno>;
    fn stat(&self, path: &[u8]) -> Result<Attr, Errno>;
    fn lstat(&self, path: &[u8]) -> Result<Attr, Errno>;
    fn access(&self, path: &[u8], access: Access) -> Result<(), Errno>;
    fn unlink(&self, path: &[u8]) -> Result<(), Errno>;
    fn mkdir(&self, path: &[u8], mode: u32) -> Result<(), Errno>;
    fn rmdir(&self, path: &[u8]) -> Result<(), Errno>;
    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno>;
    /// Two names change their files, in one step (`RENAME_EXCHANGE`). A target may have no such call; one on Linux whose
    /// file system cannot says `EINVAL`.
    fn exchange(&self, _one: &[u8], _two: &[u8]) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn link(&self, existing: &[u8], new: &[u8]) -> Result<(), Errno>;
    /// Gives an open file a name, be it its first one. A target may have no such call.
    fn link_open(&self, _handle: Handle, _new: &[u8]) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
    fn symlink(&self, target: &[u8], new: &[u8]) -> Result<(), Errno>;
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno>;
    fn truncate(&self, path: &[u8], size: u64) -> Result<(), Errno>;
    fn set_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno>;
    /// As `set_attr`, of a symbolic link at the end itself. Links have no permission bits of their own (`EOPNOTSUPP`).
    fn lset_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno>;
    fn statfs(&self) -> Result<StatFs, Errno>;
    /// Writes everything of this target to stable storage.
    fn sync(&self) -> Result<(), Errno>;

    /// Maps `length` bytes at `offset` and touches one byte of each page, writing if `write`; then
    /// unmaps. Calls `touched` after each page with the nanoseconds that the touch took.
    fn map_touch(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        write: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno>;

    /// A call that enters and leaves the target and does nothing else, for subtraction.
    fn empty_call(&self);

    /// Its time, where that is computed and not the machine's: nothing that drives the target then
    /// sleeps, spins or reads another clock. `None` for real targets.
    fn virtual_time(&self) -> Option<&dyn crate::VirtualTime> {
        None
    }

    /// What can be done to the target from outside.
    fn platform(&self) -> &dyn crate::Platform;
}

//! The file that is the disk, over FUSE.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fsage_sim::RequestKind;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::FallocateFlags;

use crate::pace::{Pace, now_ns};
use crate::{CONTROL, IMAGE, STATS};

const ROOT_INODE: u64 = 1;
const IMAGE_INODE: u64 = 2;
const STATS_INODE: u64 = 3;
const CONTROL_INODE: u64 = 4;
const FILES: [(u64, &str); 3] = [
    (IMAGE_INODE, IMAGE),
    (STATS_INODE, STATS),
    (CONTROL_INODE, CONTROL),
];

/// Requests that the kernel has under way at once.
const MOST_REQUESTS: u16 = 256;
/// Longest write of one request.
const LONGEST_WRITE: u32 = 1 << 20;
/// Nothing of the files' names and sizes ever changes.
const FOR_EVER: Duration = Duration::from_hours(1);
/// Above the thread that ends requests: an arrival must not wait while that one spins.
const RECEIVE_PRIORITY: i32 = 51;

/// The file system.
pub(crate) struct DiskFs {
    pub pace: Arc<Pace>,
    pub image: Arc<File>,
}

thread_local! {
    static REAL_TIME: Cell<bool> = const { Cell::new(false) };
}

/// The thread that receives requests is the library's; it is given its priority when it first does.
fn be_prompt() {
    if !REAL_TIME.replace(true)
        && let Ok(guard) = fsage_host::thread::real_time(RECEIVE_PRIORITY)
    {
        // For as long as the thread lives.
        std::mem::forget(guard);
    }
}

impl DiskFs {
    fn attributes(&self, inode: u64) -> FileAttr {
        let (kind, perm, size) = match inode {
            IMAGE_INODE => (FileType::RegularFile, 0o600, self.pace.size_bytes()),
            STATS_INODE => (FileType::RegularFile, 0o444, 0),
            CONTROL_INODE => (FileType::RegularFile, 0o200, 0),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn control(&self, data: &[u8]) -> Result<(), Errno> {
        match data.trim_ascii() {
            b"delays on" => self.pace.set_delays(true),
            b"delays off" => self.pace.set_delays(false),
            b"reset" => self.pace.reset(),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// Reads all of a range; what lies beyond the image is zero.
    fn read_image(&self, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let mut data = vec![0; length as usize];
        let mut at = 0;
        while let Some(rest) = data.get_mut(at..).filter(|r| !r.is_empty()) {
            match rustix::io::pread(&self.image, rest, offset + at as u64) {
                Ok(0) => break,
                Ok(n) => at += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Errno::from_i32(e.raw_os_error())),
            }
        }
        Ok(data)
    }

    fn write_image(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut at = 0;
        while let Some(rest) = data.get(at..).filter(|r| !r.is_empty()) {
            match rustix::io::pwrite(&self.image, rest, offset + at as u64) {
                Ok(0) => return Err(Errno::EIO),
                Ok(n) => at += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Errno::from_i32(e.raw_os_error())),
            }
        }
        Ok(())
    }
}

impl Filesystem for DiskFs {
    fn init(&mut self, _req: &Request, kernel: &mut KernelConfig) -> std::io::Result<()> {
        // Without it direct I/O of the loop device would be one request at a time. What an old
        // kernel does not have, it does without.
        let _ = kernel.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = kernel.set_max_background(MOST_REQUESTS);
        let _ = kernel.set_congestion_threshold(MOST_REQUESTS);
        let _ = kernel.set_max_write(LONGEST_WRITE);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = FILES.iter().find(|(_, n)| name == OsStr::new(n));
        match found {
            Some(&(inode, _)) if parent.0 == ROOT_INODE => {
                reply.entry(&FOR_EVER, &self.attributes(inode), Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(ino.0));
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<std::time::SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<std::time::SystemTime>,
        _chgtime: Option<std::time::SystemTime>,
        _bkuptime: Option<std::time::SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A shell's `>` truncates the control file; the disk's size is what it is.
        let attributes = self.attributes(ino.0);
        if ino.0 == IMAGE_INODE && size.is_some_and(|s| s != attributes.size) {
            reply.error(Errno::EPERM);
        } else {
            reply.attr(&FOR_EVER, &attributes);
        }
    }

    fn open(&self, _req: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // A close asks nothing: a process that is killed closes its files when nobody may answer any more.
        let flags = FopenFlags::FOPEN_DIRECT_IO
            | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
            | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), flags);
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let dots = [(ROOT_INODE, "."), (ROOT_INODE, "..")];
        let all = dots.iter().chain(FILES.iter()).enumerate();
        for (at, &(inode, name)) in all.skip(offset as usize) {
            let kind = self.attributes(inode).kind;
            if reply.add(INodeNo(inode), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let at = now_ns();
        be_prompt();
        if ino.0 == STATS_INODE {
            let text = serde_json::to_string(&self.pace.statistics()).unwrap_or_default() + "\n";
            let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
            return reply.data(rest.get(..size as usize).unwrap_or(rest));
        }
        let left = self.pace.size_bytes().saturating_sub(offset);
        let length = u64::from(size).min(left);
        if ino.0 != IMAGE_INODE || length == 0 {
            return reply.data(&[]);
        }
        // The data is fetched at once, so that its copy is not part of the lateness.
        match self.read_image(offset, length) {
            Ok(data) => {
                let end = Box::new(move || reply.data(&data));
                self.pace.submit(RequestKind::Read, offset, length, at, end);
            }
            Err(e) => reply.error(e),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let at = now_ns();
        be_prompt();
        let length = data.len() as u64;
        if ino.0 == CONTROL_INODE {
            return match self.control(data) {
                Ok(()) => reply.written(length as u32),
                Err(e) => reply.error(e),
            };
        }
        let end = offset.checked_add(length);
        if ino.0 != IMAGE_INODE || end.is_none_or(|e| e > self.pace.size_bytes()) {
            return reply.error(Errno::ENOSPC);
        }
        if length == 0 {
            return reply.written(0);
        }
        match self.write_image(offset, data) {
            Ok(()) => {
                let end = Box::new(move || reply.written(length as u32));
                self.pace
                    .submit(RequestKind::Write, offset, length, at, end);
            }
            Err(e) => reply.error(e),
        }
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let at = now_ns();
        be_prompt();
        if ino.0 != IMAGE_INODE {
            return reply.ok();
        }
        let end = Box::new(move || reply.ok());
        self.pace.submit(RequestKind::Flush, 0, 0, at, end);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A close is no flush of the disk. Kernels before 5.16 ask once, and after this answer never again.
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let zeroing = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let asked = FallocateFlags::from_bits_retain(mode as u32);
        // Disks with platters have no trim; the answer makes the loop device withdraw its own.
        if self.pace.rotates() || ino.0 != IMAGE_INODE || !asked.intersects(zeroing) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.image, hole, offset, length) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(Errno::from_i32(e.raw_os_error())),
        }
    }
}

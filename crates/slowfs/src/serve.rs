//! The calls of the kernel.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno as Code, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustc_hash::FxHashMap;
use rustix::fs::{self, AtFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::attr;
use crate::lower::{self, Changes, Owner};
use crate::node::Nodes;
use crate::slower::Slower;
use crate::slowing::Operation;

/// How long the kernel may believe names and attributes: nothing else changes what is served.
const BELIEVED: Duration = Duration::from_hours(24);

/// Room for entries of one listing call.
const LISTING_BYTES: usize = 32 << 10;

/// What the kernel has cached of a file stays: nothing else changes it. A close asks nothing: a process that is
/// killed closes its files when nobody may answer any more.
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_NOFLUSH);

/// A directory as the kernel sees it.
#[derive(Debug)]
pub struct Served {
    slower: Arc<Slower>,
    nodes: Nodes,
    device: u64,
    open: RwLock<FxHashMap<u64, Arc<Open>>>,
    next: AtomicU64,
}

/// An open file; a directory's position is shared by those who list it.
#[derive(Debug)]
struct Open {
    file: OwnedFd,
    listing: Mutex<()>,
}

type Answer<T> = Result<T, Errno>;

impl Served {
    /// Serves a directory. As many files are held open as the kernel knows of, so the limit on
    /// descriptors is raised as far as it goes.
    pub fn open(dir: &Path, slower: Arc<Slower>) -> Answer<Self> {
        let (root, stat) = lower::root(dir)?;
        let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        limit.current = limit.maximum;
        // Where it cannot be raised the kernel is told "too many open files" when it comes to that.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
        Ok(Self {
            slower,
            nodes: Nodes::new(root, stat.st_ino),
            device: stat.st_dev,
            open: RwLock::default(),
            next: AtomicU64::new(1),
        })
    }

    fn opened(&self, file: OwnedFd) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let listing = Mutex::new(());
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        open.insert(number, Arc::new(Open { file, listing }));
        FileHandle(number)
    }

    fn handle(&self, handle: FileHandle) -> Answer<Arc<Open>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle.0).map(Arc::clone).ok_or(Errno::BADF)
    }

    fn close(&self, handle: FileHandle) {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let closed = open.remove(&handle.0);
        drop(open);
        drop(closed);
    }

    /// Looks a name up and counts the answer. Another file system below is not served.
    fn entry(&self, parent: impl AsFd, name: &OsStr) -> Answer<FileAttr> {
        let (file, stat) = lower::lookup(parent, name)?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        let number = self.nodes.looked_up(stat.st_ino, file);
        Ok(attr::of(number, &stat))
    }

    /// Makes something under a name and answers with what is there then.
    fn made(
        &self,
        operation: Operation,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
        make: impl FnOnce(&OwnedFd) -> Answer<()>,
    ) {
        let made = self.slower.apply(operation, || {
            let parent = self.nodes.get(parent.0)?;
            make(&parent)?;
            self.entry(&*parent, name)
        });
        match made {
            Ok(attr) => reply.entry(&BELIEVED, &attr, Generation(0)),
            Err(error) => reply.error(code(error)),
        }
    }

    fn done(&self, operation: Operation, reply: ReplyEmpty, work: impl FnOnce() -> Answer<()>) {
        match self.slower.apply(operation, work) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(code(error)),
        }
    }

    /// Answers with extended attributes that `get` puts into a buffer, or, where the caller has none, with
    /// their size, which is what an empty buffer asks for.
    fn xattr(
        &self,
        ino: INodeNo,
        size: u32,
        reply: ReplyXattr,
        get: impl FnOnce(&OwnedFd, &mut [u8]) -> Answer<usize>,
    ) {
        let mut value = vec![0; size as usize];
        let found = self.slower.apply(Operation::Xattr, || {
            get(&*self.nodes.get(ino.0)?, &mut value)
        });
        match found {
            Ok(length) if size == 0 => reply.size(length as u32),
            Ok(length) => reply.data(value.get(..length).unwrap_or_default()),
            Err(error) => reply.error(code(error)),
        }
    }

    fn attributes(&self, ino: INodeNo) -> Answer<FileAttr> {
        let stat = lower::stat(&*self.nodes.get(ino.0)?)?;
        Ok(attr::of(ino.0, &stat))
    }

    /// Fills a listing from a position on; whole entries until it is full.
    fn list(&self, handle: FileHandle, from: u64, reply: &mut ReplyDirectory) -> Answer<()> {
        let open = self.handle(handle)?;
        let _alone = open.listing.lock().unwrap_or_else(PoisonError::into_inner);
        fs::seek(&open.file, SeekFrom::Start(from))?;
        let mut room = vec![MaybeUninit::uninit(); LISTING_BYTES];
        let mut entries = RawDir::new(&open.file, &mut room);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let number = self.nodes.number(entry.ino());
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let kind = attr::kind(entry.file_type());
            if reply.add(INodeNo(number), entry.next_entry_cookie(), kind, name) {
                break;
            }
        }
        Ok(())
    }
}

fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

fn owner(request: &Request) -> Owner {
    Owner {
        uid: request.uid(),
        gid: request.gid(),
    }
}

/// Answers with a value or the error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:ident => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(code(error)),
        }
    };
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, _: &mut KernelConfig) -> std::io::Result<()> {
        // The kernel has applied the caller's mask already.
        rustix::process::umask(fs::Mode::empty());
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.slower.apply(Operation::Lookup, || {
            self.entry(&*self.nodes.get(parent.0)?, name)
        });
        answer!(reply, found, attr => reply.entry(&BELIEVED, &attr, Generation(0)));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.nodes.forget(ino.0, lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let found = self
            .slower
            .apply(Operation::Getattr, || self.attributes(ino));
        answer!(reply, found, attr => reply.attr(&BELIEVED, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            mode,
            uid,
            gid,
            size,
            atime,
            mtime,
        };
        let changed = self.slower.apply(Operation::Setattr, || {
            let open = handle.map(|h| self.handle(h)).transpose()?;
            let file = self.nodes.get(ino.0)?;
            lower::change(&*file, open.as_ref().map(|o| &o.file), &changes)?;
            self.attributes(ino)
        });
        answer!(reply, changed, attr => reply.attr(&BELIEVED, &attr));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.slower.apply(Operation::Readlink, || {
            fs::readlinkat(&*self.nodes.get(ino.0)?, "", Vec::new())
        });
        answer!(reply, target, target => reply.data(target.as_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.made(Operation::Create, parent, name, reply, |parent| {
            lower::mknod(parent, name, mode, device.into(), owner(request))
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.made(Operation::Mkdir, parent, name, reply, |parent| {
            lower::mkdir(parent, name, mode, owner(request))
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.made(Operation::Symlink, parent, name, reply, |parent| {
            lower::symlink(parent, name, target, owner(request))
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.made(Operation::Link, parent, name, reply, |parent| {
            lower::link(&*self.nodes.get(ino.0)?, parent, name)
        });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(Operation::Unlink, reply, || {
            fs::unlinkat(&*self.nodes.get(parent.0)?, name, AtFlags::empty())
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(Operation::Rmdir, reply, || {
            fs::unlinkat(&*self.nodes.get(parent.0)?, name, AtFlags::REMOVEDIR)
        });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.done(Operation::Rename, reply, || {
            let (from, to) = (self.nodes.get(parent.0)?, self.nodes.get(new_parent.0)?);
            lower::rename(&*from, name, &*to, new_name, flags)
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.slower.apply(Operation::Open, || {
            lower::open(&*self.nodes.get(ino.0)?, flags.0)
        });
        answer!(reply, opened, file => reply.opened(self.opened(file), OPENED));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.slower.apply(Operation::Create, || {
            let parent = self.nodes.get(parent.0)?;
            let file = lower::create(&*parent, name, mode, flags, owner(request))?;
            Ok((self.entry(&*parent, name)?, file))
        });
        answer!(reply, created, made => {
            let handle = self.opened(made.1);
            reply.created(&BELIEVED, &made.0, Generation(0), handle, OPENED);
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.slower.apply(Operation::Read, || {
            lower::read(&self.handle(handle)?.file, offset, size)
        });
        answer!(reply, data, data => reply.data(&data));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.slower.apply(Operation::Write, || {
            lower::write(&self.handle(handle)?.file, offset, data)
        });
        answer!(reply, written, count => reply.written(count));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Kernels before 5.16 ask once, and after this answer never again.
        reply.error(Code::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.done(Operation::Fsync, reply, || {
            let open = self.handle(handle)?;
            if only_data {
                fs::fdatasync(&open.file)
            } else {
                fs::fsync(&open.file)
            }
        });
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let opened = self.slower.apply(Operation::Open, || {
            lower::open_dir(&*self.nodes.get(ino.0)?)
        });
        answer!(reply, opened, file => reply.opened(self.opened(file), FopenFlags::empty()));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self
            .slower
            .apply(Operation::Readdir, || self.list(handle, offset, &mut reply));
        answer!(reply, listed, _done => reply.ok());
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.close(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, ino, handle, only_data, reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let space = self
            .slower
            .apply(Operation::Statfs, || fs::fstatvfs(&*self.nodes.get(ino.0)?));
        answer!(reply, space, s => reply.statfs(
            s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree,
            s.f_bsize as u32, s.f_namemax as u32, s.f_frsize as u32,
        ));
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.done(Operation::Xattr, reply, || {
            lower::set_xattr(&*self.nodes.get(ino.0)?, name, value, flags)
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.xattr(ino, size, reply, |file, value| {
            lower::get_xattr(file, name, value)
        });
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.xattr(ino, size, reply, lower::list_xattr);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(Operation::Xattr, reply, || {
            lower::remove_xattr(&*self.nodes.get(ino.0)?, name)
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.done(Operation::Fallocate, reply, || {
            let mode = fs::FallocateFlags::from_bits_retain(mode as u32);
            fs::fallocate(&self.handle(handle)?.file, mode, offset, length)
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel asks only for data and holes; the rest it knows itself.
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO);
        let found = offset.and_then(|offset| {
            let to = match whence {
                3 => SeekFrom::Data(offset),
                4 => SeekFrom::Hole(offset),
                _ => return Err(Errno::INVAL),
            };
            fs::seek(&self.handle(handle)?.file, to)
        });
        answer!(reply, found, at => reply.offset(at as i64));
    }
}

//! What generators are made of: operations with the results that a target gives, step by step.

use std::collections::BTreeMap;

use fsage_core::{
    Errno, Fd, Op, OpFlags, OpKind, Outcome, PathId, PathTable, Pid, SourceError, Tid,
};
use rustc_hash::FxHashMap;

/// open(2): for reading.
pub const O_RDONLY: u32 = 0;
/// open(2): for writing.
pub const O_WRONLY: u32 = 1;
/// open(2): for both.
pub const O_RDWR: u32 = 2;
/// open(2): create it if it is not there.
pub const O_CREAT: u32 = 0o100;
/// open(2): fail if it is there.
pub const O_EXCL: u32 = 0o200;
/// open(2): cut it to nothing.
pub const O_TRUNC: u32 = 0o1000;
/// open(2): writes go to the end.
pub const O_APPEND: u32 = 0o2000;
/// open(2): a directory.
pub const O_DIRECTORY: u32 = 0o200_000;
/// A new file for writing, as creat(2) opens it.
pub const NEW: u32 = O_WRONLY | O_CREAT | O_TRUNC;

const SEEK_SET: u32 = 0;
const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
const PATH_MAX: u64 = 4096;

/// Files of a set-up are written, and read into the cache, in requests of this size.
pub const SETUP_REQUEST_BYTES: u64 = 1 << 20;

/// The C library lists a directory through a buffer of this size (glibc's opendir).
const DIRECTORY_BUFFER_BYTES: u64 = 32 << 10;

/// An open file of a generator: knows its position and size, so that each result is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    fd: Fd,
    /// Where the next transfer starts.
    pub position: u64,
    /// Size in bytes.
    pub size: u64,
    append: bool,
}

impl File {
    /// Whether the next read finds the end.
    pub fn at_end(&self) -> bool {
        self.position >= self.size
    }
}

/// Collects one process's operations. Paths are relative to the target's root. A descriptor is the
/// lowest free one from 3 on, as the kernel gives them.
#[derive(Debug)]
pub struct Ops {
    pub(crate) workload: &'static str,
    pub(crate) paths: PathTable,
    pub(crate) out: Vec<Op>,
    pid: Pid,
    tid: Tid,
    pub(crate) open: Vec<Fd>,
    pub(crate) failed: Option<SourceError>,
    /// What was made and is there: by name, and by its number in the order of making.
    there: FxHashMap<PathId, u64>,
    order: BTreeMap<u64, (PathId, bool)>,
    /// How many names were made.
    pub(crate) made: u64,
}

impl Ops {
    /// Nothing yet.
    pub fn new(workload: &'static str, process: u32) -> Self {
        Self {
            workload,
            paths: PathTable::new(),
            out: Vec::new(),
            pid: Pid(process),
            tid: Tid(process),
            open: Vec::new(),
            failed: None,
            there: FxHashMap::default(),
            order: BTreeMap::new(),
            made: 0,
        }
    }

    fn appeared(&mut self, path: Option<PathId>, directory: bool) {
        let Some(path) = path else { return };
        if let std::collections::hash_map::Entry::Vacant(entry) = self.there.entry(path) {
            entry.insert(self.made);
            self.order.insert(self.made, (path, directory));
            self.made += 1;
        }
    }

    fn vanished(&mut self, path: Option<PathId>) -> Option<bool> {
        let number = self.there.remove(&path?)?;
        Some(self.order.remove(&number)?.1)
    }

    /// Removes the last made of what is there, down to the one that was made as number `kept`;
    /// false if nothing is left. What a directory holds was made after it.
    pub(crate) fn remove_one(&mut self, kept: u64) -> bool {
        let Some((_, &(path, directory))) = self.order.range(kept..).next_back() else {
            return false;
        };
        let kind = if directory {
            OpKind::Rmdir
        } else {
            OpKind::Unlink
        };
        self.push(kind).path = Some(path);
        self.vanished(Some(path));
        true
    }

    /// Hands out what there is; an error comes before it. Returns how many operations that is.
    pub(crate) fn give(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let count = self.out.len();
        if batch.is_empty() {
            std::mem::swap(batch, &mut self.out);
        } else {
            batch.append(&mut self.out);
        }
        Ok(count)
    }

    /// The id of a path. The error of a full table is kept for the end of the step.
    pub fn path(&mut self, path: &[u8]) -> Option<PathId> {
        let id = self.paths.intern(path);
        if id.is_none() && self.failed.is_none() {
            let message = format!("workload '{}' needs more than 2^32 names", self.workload);
            self.failed = Some(SourceError::new(message));
        }
        id
    }

    /// Whether this process made that name and has not removed it.
    pub fn has(&self, path: impl AsRef<[u8]>) -> bool {
        let id = self.paths.find(path.as_ref());
        id.is_some_and(|id| self.there.contains_key(&id))
    }

    /// An operation with nothing known but its kind; further fields are the caller's.
    pub fn push(&mut self, kind: OpKind) -> &mut Op {
        self.out.push(Op::new(kind, self.pid, self.tid, 0));
        let last = self.out.len() - 1;
        &mut self.out[last]
    }

    /// An operation on a name.
    pub fn named(&mut self, kind: OpKind, path: impl AsRef<[u8]>) -> &mut Op {
        let id = self.path(path.as_ref());
        let op = self.push(kind);
        op.path = id;
        op
    }

    fn on(&mut self, kind: OpKind, file: &File) -> &mut Op {
        let op = self.push(kind);
        op.fd = Some(file.fd);
        op
    }

    /// Opens a file that has `size` bytes before; for a new one 0.
    pub fn open(&mut self, path: impl AsRef<[u8]>, flags: u32, size: u64) -> File {
        let mut fd = Fd(3);
        while self.open.contains(&fd) {
            fd.0 += 1;
        }
        self.open.push(fd);
        let size = if flags & O_TRUNC == 0 { size } else { 0 };
        let op = self.named(OpKind::Open, path);
        op.flags = flags;
        op.size_bytes = Some(size);
        op.result = Outcome::ok(fd.0 as u64);
        if flags & O_CREAT != 0 {
            let path = op.path;
            self.appeared(path, false);
        }
        File {
            fd,
            position: 0,
            size,
            append: flags & O_APPEND != 0,
        }
    }

    /// Tries to open a file that is not there.
    pub fn open_missing(&mut self, path: impl AsRef<[u8]>) {
        let op = self.named(OpKind::Open, path);
        op.result = Outcome::err(Errno::ENOENT);
    }

    /// Closes a file; returns its size.
    pub fn close(&mut self, file: File) -> u64 {
        self.open.retain(|&fd| fd != file.fd);
        self.on(OpKind::Close, &file);
        file.size
    }

    /// Reads at the file's position; returns the bytes that are there.
    pub fn read(&mut self, file: &mut File, length: u64) -> u64 {
        let got = length.min(file.size.saturating_sub(file.position));
        self.transfer(OpKind::Read, file, file.position, length, got, true);
        file.position += got;
        got
    }

    /// Writes at the file's position, or at its end if it was opened so.
    pub fn write(&mut self, file: &mut File, length: u64) {
        if file.append {
            file.position = file.size;
        }
        self.transfer(OpKind::Write, file, file.position, length, length, true);
        file.position += length;
        file.size = file.size.max(file.position);
    }

    /// Reads at an offset.
    pub fn pread(&mut self, file: &File, offset: u64, length: u64) -> u64 {
        let got = length.min(file.size.saturating_sub(offset));
        self.transfer(OpKind::Read, file, offset, length, got, false);
        got
    }

    /// Writes at an offset.
    pub fn pwrite(&mut self, file: &mut File, offset: u64, length: u64) {
        self.transfer(OpKind::Write, file, offset, length, length, false);
        file.size = file.size.max(offset + length);
    }

    fn transfer(
        &mut self,
        kind: OpKind,
        file: &File,
        offset: u64,
        length: u64,
        got: u64,
        implicit: bool,
    ) {
        let op = self.on(kind, file);
        op.offset = Some(offset);
        op.length = Some(length);
        op.result = Outcome::ok(got);
        op.size_bytes = Some(file.size);
        if implicit {
            op.record |= OpFlags::IMPLICIT_OFFSET;
        }
        if file.append {
            op.record |= OpFlags::APPEND;
        }
    }

    /// Goes to an offset from the start.
    pub fn seek(&mut self, file: &mut File, offset: u64) {
        file.position = offset;
        let op = self.on(OpKind::Seek, file);
        op.offset = Some(offset);
        op.flags = SEEK_SET;
        op.result = Outcome::ok(offset);
        op.size_bytes = Some(file.size);
    }

    /// Asks for an open file's attributes.
    pub fn fstat(&mut self, file: &File) {
        self.on(OpKind::Fstat, file).size_bytes = Some(file.size);
    }

    /// Makes an open file stable.
    pub fn fsync(&mut self, file: &File) {
        self.on(OpKind::Fsync, file).size_bytes = Some(file.size);
    }

    /// Writes back all of the file system, until the device has it.
    pub fn sync(&mut self) {
        self.push(OpKind::Syncfs);
    }

    /// Makes a directory.
    pub fn mkdir(&mut self, path: impl AsRef<[u8]>) {
        let op = self.named(OpKind::Mkdir, path);
        op.flags = 0o755;
        let path = op.path;
        self.appeared(path, true);
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, path: impl AsRef<[u8]>) {
        let path = self.named(OpKind::Rmdir, path).path;
        self.vanished(path);
    }

    /// Removes a name.
    pub fn unlink(&mut self, path: impl AsRef<[u8]>) {
        let path = self.named(OpKind::Unlink, path).path;
        self.vanished(path);
    }

    /// Asks for the attributes of what is there.
    pub fn stat(&mut self, path: impl AsRef<[u8]>, size: u64) {
        self.named(OpKind::Stat, path).size_bytes = Some(size);
    }

    /// Asks for the attributes of the name itself.
    pub fn lstat(&mut self, path: impl AsRef<[u8]>) {
        self.named(OpKind::Stat, path).flags = AT_SYMLINK_NOFOLLOW;
    }

    /// Asks for the attributes of what is not there.
    pub fn stat_missing(&mut self, path: impl AsRef<[u8]>) {
        self.named(OpKind::Stat, path).result = Outcome::err(Errno::ENOENT);
    }

    /// Gives a file another name.
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) {
        let to = self.path(to.as_ref());
        let op = self.named(OpKind::Rename, from);
        op.path2 = to;
        let from = op.path;
        let directory = self.vanished(from).unwrap_or(false);
        self.vanished(to);
        self.appeared(to, directory);
    }

    /// Makes a symbolic link with that text.
    pub fn symlink(&mut self, path: impl AsRef<[u8]>, target: &[u8]) {
        let target = self.path(target);
        let op = self.named(OpKind::Symlink, path);
        op.path2 = target;
        let path = op.path;
        self.appeared(path, false);
    }

    /// Reads the text of a symbolic link, which has `length` bytes.
    pub fn readlink(&mut self, path: impl AsRef<[u8]>, length: u64) {
        let op = self.named(OpKind::Readlink, path);
        op.length = Some(PATH_MAX);
        op.result = Outcome::ok(length);
    }

    /// Sets permission bits.
    pub fn chmod(&mut self, path: impl AsRef<[u8]>, mode: u32) {
        self.named(OpKind::Chmod, path).flags = mode;
    }

    /// Sets the times.
    pub fn utimens(&mut self, path: impl AsRef<[u8]>) {
        self.named(OpKind::Utimens, path);
    }

    /// Reads a whole file in requests of `request` bytes, the last of which finds the end, as
    /// cat(1) does.
    pub fn read_whole(&mut self, path: impl AsRef<[u8]>, size: u64, request: u64) {
        let mut file = self.open(path, O_RDONLY, size);
        while self.read(&mut file, request) > 0 {}
        self.close(file);
    }

    /// Reads a whole file as a compiler does, which asks for its size and reads that much.
    pub fn read_known(&mut self, path: impl AsRef<[u8]>, size: u64) {
        let mut file = self.open(path, O_RDONLY, size);
        self.fstat(&file);
        while !file.at_end() {
            self.read(&mut file, size);
        }
        self.close(file);
    }

    /// Makes a file new with `size` bytes in requests of `request`.
    pub fn write_whole(&mut self, path: impl AsRef<[u8]>, size: u64, request: u64) {
        let mut file = self.open(path, NEW, 0);
        while file.size < size {
            let length = request.min(size - file.size);
            self.write(&mut file, length);
        }
        self.close(file);
    }

    /// Writes the next piece of a file that is to have `size` bytes, at most `request` of them; gives the
    /// file back until it is whole, then closes it.
    pub fn write_next(&mut self, mut file: File, size: u64, request: u64) -> Option<File> {
        let length = request.min(size - file.size.min(size));
        self.write(&mut file, length);
        if file.size < size {
            return Some(file);
        }
        self.close(file);
        None
    }

    /// Copies a file as cp(1) does, without a call that copies inside the kernel.
    pub fn copy(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, size: u64, request: u64) {
        self.stat(from.as_ref(), size);
        let mut source = self.open(from, O_RDONLY, size);
        self.fstat(&source);
        let mut copy = self.open(to, NEW, 0);
        loop {
            let got = self.read(&mut source, request);
            if got == 0 {
                break;
            }
            self.write(&mut copy, got);
        }
        self.close(copy);
        self.close(source);
    }

    /// Lists a directory with these names as the C library does: the last call finds the end.
    pub fn list<'n>(&mut self, path: impl AsRef<[u8]>, names: impl IntoIterator<Item = &'n [u8]>) {
        let directory = self.open(path, O_RDONLY | O_DIRECTORY, 0);
        self.fstat(&directory);
        let mut held = 2 * entry_bytes(b".");
        for name in names {
            let more = entry_bytes(name);
            if held + more > DIRECTORY_BUFFER_BYTES {
                self.list_op(&directory, std::mem::take(&mut held));
            }
            held += more;
        }
        self.list_op(&directory, held);
        self.list_op(&directory, 0);
        self.close(directory);
    }

    fn list_op(&mut self, directory: &File, got: u64) {
        let op = self.on(OpKind::Readdir, directory);
        op.length = Some(DIRECTORY_BUFFER_BYTES);
        op.result = Outcome::ok(got);
        op.record |= OpFlags::DIRECTORY;
    }
}

/// `struct linux_dirent64`: 19 bytes, the name, its end, rounded up to 8.
fn entry_bytes(name: &[u8]) -> u64 {
    (19 + name.len() as u64 + 1).next_multiple_of(8)
}

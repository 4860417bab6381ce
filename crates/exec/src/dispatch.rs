//! One operation of a stream as one call of the target.

use fsage_core::{
    Access, Errno, Fd, FileSystem, Handle, Op, OpFlags, OpKind, OpenFlags, PathTable, Pid,
    RangeSync, SetAttr,
};

use fsage_namespace::flags::{O_PATH, follows_last};

use crate::buffer::{aligned, placed};
use crate::handles::{Directory, Handles};
use crate::payload::{PIECE_BYTES, Payload};
use crate::timer::{Called, Timer};

/// What became of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Its call was made.
    Ran(Called),
    /// It changed descriptors and needed no call.
    Free {
        /// When; 0 where that is not known.
        at_ns: u64,
    },
    /// It has no call: a target knows no such operation, or the descriptor is none of a file.
    Skipped,
}

/// The executing side of one stream.
pub struct Executor<'a> {
    fs: &'a dyn FileSystem,
    timer: Timer<'a>,
    handles: Handles<'a>,
    payload: Payload,
    buffer: Vec<u8>,
    names: (Vec<u8>, Vec<u8>),
}

impl<'a> Executor<'a> {
    /// An executor on `fs` whose open files stand in `directory`, which the caller closes.
    pub fn new(
        fs: &'a dyn FileSystem,
        directory: &'a Directory,
        payload: Payload,
        timer: Timer<'a>,
    ) -> Self {
        Self {
            fs,
            timer,
            handles: Handles::new(directory),
            payload,
            buffer: Vec::new(),
            names: (Vec::new(), Vec::new()),
        }
    }

    /// Executes one operation.
    pub fn execute(&mut self, op: &Op, paths: &PathTable) -> Outcome {
        match op.kind {
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => self.read(op),
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => self.write(op),
            OpKind::Open => self.open(op, paths),
            OpKind::Close => self.close(op),
            OpKind::Dup | OpKind::Fork | OpKind::Exit => self.process(op),
            OpKind::Stat
            | OpKind::Access
            | OpKind::Unlink
            | OpKind::Mkdir
            | OpKind::Rmdir
            | OpKind::Readlink
            | OpKind::Truncate
            | OpKind::Chmod
            | OpKind::Chown
            | OpKind::Utimens => self.named(op, paths),
            OpKind::Rename | OpKind::Link | OpKind::Symlink => self.two_names(op, paths),
            OpKind::Statfs | OpKind::Fstatfs => self.timed(|fs| fs.statfs().map(|_| 0)),
            OpKind::Sync | OpKind::Syncfs => self.timed(|fs| fs.sync().map(|()| 0)),
            _ => match self.handles.get(op.pid, op.fd) {
                Some(handle) => self.on_handle(op, handle),
                None => Outcome::Skipped,
            },
        }
    }

    fn timed(&self, call: impl FnOnce(&dyn FileSystem) -> Result<u64, Errno>) -> Outcome {
        Outcome::Ran(self.timer.call(self.fs, call))
    }

    fn open(&mut self, op: &Op, paths: &PathTable) -> Outcome {
        let Some(path) = op.path else {
            return Outcome::Skipped;
        };
        if op.record.contains(OpFlags::NOT_A_FILE) {
            return Outcome::Skipped;
        }
        let flags = open_flags(op.flags);
        let name = place(
            paths.get(path),
            op.dir.map(|d| paths.get(d)),
            &mut self.names.0,
        );
        let mut opened = None;
        let called = self.timer.call(self.fs, |fs| {
            let handle = fs.open(name, flags, 0o644)?;
            opened = Some(handle);
            Ok(0)
        });
        if let Some(handle) = opened {
            // The descriptor is the stream's; one that it did not get is closed again.
            let stale = match descriptor(op) {
                Some(fd) => self.handles.insert(op.pid, fd, handle),
                None => Some(handle),
            };
            self.close_silently(stale);
        }
        Outcome::Ran(called)
    }

    fn close(&mut self, op: &Op) -> Outcome {
        let Some(fd) = op.fd else {
            return Outcome::Skipped;
        };
        let known = self.handles.get(op.pid, op.fd).is_some();
        match self.handles.remove(op.pid, fd) {
            Some(handle) => self.timed(|fs| fs.close(handle).map(|()| 0)),
            // Its file has other descriptors.
            None if known => self.free(),
            None => Outcome::Skipped,
        }
    }

    /// What changes the table of descriptors and costs the target nothing.
    fn process(&mut self, op: &Op) -> Outcome {
        match op.kind {
            OpKind::Dup => {
                let (Some(from), Some(to)) = (op.fd, descriptor(op)) else {
                    return Outcome::Skipped;
                };
                if self.handles.get(op.pid, op.fd).is_none() {
                    return Outcome::Skipped;
                }
                let stale = self.handles.duplicate(op.pid, from, to);
                self.close_silently(stale);
            }
            OpKind::Fork => {
                if let Some(child) = op.length.and_then(|l| u32::try_from(l).ok()) {
                    for stale in self.handles.fork(op.pid, Pid(child)) {
                        self.close_silently(Some(stale));
                    }
                }
            }
            _ if op.length == Some(1) => {
                for handle in self.handles.exit(op.pid) {
                    self.close_silently(Some(handle));
                }
            }
            _ => {}
        }
        self.free()
    }

    fn free(&self) -> Outcome {
        Outcome::Free {
            at_ns: self.timer.now_ns(),
        }
    }

    fn close_silently(&self, handle: Option<Handle>) {
        if let Some(handle) = handle {
            // The stream did not ask for this close.
            let _ = self.timer.aside(|| self.fs.close(handle));
        }
    }

    fn read(&mut self, op: &Op) -> Outcome {
        let Some(handle) = self.handles.get(op.pid, op.fd) else {
            return Outcome::Skipped;
        };
        let mut left = op.length.unwrap_or(0);
        let mut at = explicit_offset(op);
        let buffer = aligned(&mut self.buffer, (left as usize).min(PIECE_BYTES));
        Outcome::Ran(self.timer.call(self.fs, |fs| {
            let mut total = 0;
            loop {
                let length = (left as usize).min(PIECE_BYTES);
                let piece = buffer.get_mut(..length).unwrap_or_default();
                let got = match at {
                    Some(offset) => fs.pread(handle, piece, offset)?,
                    None => fs.read(handle, piece)?,
                } as u64;
                total += got;
                left -= got.min(left);
                at = at.map(|offset| offset.saturating_add(got));
                if left == 0 || got < length as u64 {
                    return Ok(total);
                }
            }
        }))
    }

    fn write(&mut self, op: &Op) -> Outcome {
        let Some(handle) = self.handles.get(op.pid, op.fd) else {
            return Outcome::Skipped;
        };
        let mut left = op.length.unwrap_or(0);
        let mut at = explicit_offset(op);
        let payload = &mut self.payload;
        let direct = op.record.contains(OpFlags::DIRECT);
        let most = if direct { left as usize } else { 0 };
        let copy = aligned(&mut self.buffer, most.min(PIECE_BYTES));
        Outcome::Ran(self.timer.call(self.fs, |fs| {
            let mut total = 0;
            loop {
                let length = (left as usize).min(PIECE_BYTES);
                let piece = placed(payload.piece(length), copy, direct);
                let put = match at {
                    Some(offset) => fs.pwrite(handle, piece, offset)?,
                    None => fs.write(handle, piece)?,
                } as u64;
                total += put;
                left -= put.min(left);
                at = at.map(|offset| offset.saturating_add(put));
                if left == 0 || put < length as u64 {
                    return Ok(total);
                }
            }
        }))
    }

    fn on_handle(&mut self, op: &Op, handle: Handle) -> Outcome {
        let offset = op.offset.unwrap_or(0);
        let length = op.length.unwrap_or(0);
        match op.kind {
            // The target of a seek relative to the end or the position is the one it reached.
            OpKind::Seek => {
                let to = op.result.value().unwrap_or(offset);
                self.timed(|fs| fs.seek(handle, to))
            }
            OpKind::Fstat => self.timed(|fs| fs.fstat(handle).map(|_| 0)),
            OpKind::Ftruncate => self.timed(|fs| fs.ftruncate(handle, length).map(|()| 0)),
            OpKind::Fallocate if op.flags == 0 => {
                self.timed(|fs| fs.fallocate(handle, offset, length).map(|()| 0))
            }
            // The target lists a directory at once; the calls that followed have nothing to do.
            OpKind::Readdir if op.result.value() != Some(0) => {
                self.timed(|fs| fs.read_dir(handle).map(|_| op.result.value().unwrap_or(0)))
            }
            OpKind::Fsync => self.timed(|fs| fs.fsync(handle).map(|()| 0)),
            OpKind::Fdatasync => self.timed(|fs| fs.fdatasync(handle).map(|()| 0)),
            OpKind::SyncFileRange => self.timed(|fs| sync_range(fs, op, handle).map(|()| 0)),
            OpKind::Fault => {
                let write = op.flags & 1 != 0;
                self.timed(|fs| {
                    fs.map_touch(handle, offset, length.max(1), write, &mut |_| {})
                        .map(|()| op.result.value().unwrap_or(0))
                })
            }
            _ => Outcome::Skipped,
        }
    }

    fn named(&mut self, op: &Op, paths: &PathTable) -> Outcome {
        let Some(path) = op.path else {
            return Outcome::Skipped;
        };
        let name = place(
            paths.get(path),
            op.dir.map(|d| paths.get(d)),
            &mut self.names.0,
        );
        let length = op.length.unwrap_or(0);
        Outcome::Ran(self.timer.call(self.fs, |fs| match op.kind {
            OpKind::Stat if follows_last(op) == Some(false) => fs.lstat(name).map(|_| 0),
            OpKind::Stat => fs.stat(name).map(|_| 0),
            OpKind::Access => fs.access(name, access(op.flags)).map(|()| 0),
            OpKind::Unlink => fs.unlink(name).map(|()| 0),
            OpKind::Mkdir => fs.mkdir(name, op.flags & 0o7777).map(|()| 0),
            OpKind::Rmdir => fs.rmdir(name).map(|()| 0),
            OpKind::Readlink => fs.readlink(name).map(|target| target.len() as u64),
            OpKind::Truncate => fs.truncate(name, length).map(|()| 0),
            _ => attribute(fs, op, name),
        }))
    }

    fn two_names(&mut self, op: &Op, paths: &PathTable) -> Outcome {
        let (Some(first), Some(second)) = (op.path, op.path2) else {
            return Outcome::Skipped;
        };
        let dir = op.dir.map(|d| paths.get(d));
        let dir2 = op.dir2.or(op.dir).map(|d| paths.get(d));
        let one = place(paths.get(first), dir, &mut self.names.0);
        if op.kind == OpKind::Symlink {
            let target = paths.get(second);
            let called = self
                .timer
                .call(self.fs, |fs| fs.symlink(target, one).map(|()| 0));
            return Outcome::Ran(called);
        }
        let two = place(paths.get(second), dir2, &mut self.names.1);
        Outcome::Ran(self.timer.call(self.fs, |fs| match op.kind {
            OpKind::Rename => fs.rename(one, two).map(|()| 0),
            _ => fs.link(one, two).map(|()| 0),
        }))
    }
}

/// `chmod`, `chown`, `utimensat`: of what a name leads to, or of the name's own file.
pub(crate) fn attribute(fs: &dyn FileSystem, op: &Op, name: &[u8]) -> Result<u64, Errno> {
    let attr = match op.kind {
        OpKind::Chmod | OpKind::Fchmod => SetAttr::Mode(op.flags & 0o7777),
        OpKind::Chown | OpKind::Fchown => {
            SetAttr::Owner(op.offset.unwrap_or(0) as u32, op.length.unwrap_or(0) as u32)
        }
        _ => SetAttr::Times(0, 0),
    };
    if follows_last(op) == Some(false) {
        fs.lset_attr(name, attr).map(|()| 0)
    } else {
        fs.set_attr(name, attr).map(|()| 0)
    }
}

/// The descriptor that an operation gives.
fn descriptor(op: &Op) -> Option<Fd> {
    let value = op.result.value()?;
    i32::try_from(value).ok().map(Fd)
}

/// The offset of a transfer that names one; `None` for one at the file's own position.
pub(crate) fn explicit_offset(op: &Op) -> Option<u64> {
    if op.record.contains(OpFlags::IMPLICIT_OFFSET) {
        None
    } else {
        op.offset
    }
}

/// A path beneath the target's root: absolute ones lose their leading slashes, relative ones go
/// beneath `dir`.
pub fn place<'p>(path: &'p [u8], dir: Option<&[u8]>, out: &'p mut Vec<u8>) -> &'p [u8] {
    let beneath = |p: &'p [u8]| {
        if p.first() != Some(&b'/') {
            return p;
        }
        let start = p.iter().position(|&b| b != b'/').unwrap_or(p.len());
        p.get(start..).unwrap_or_default()
    };
    let Some(dir) = dir.filter(|_| path.first() != Some(&b'/')) else {
        return beneath(path);
    };
    out.clear();
    out.extend_from_slice(dir);
    if !out.is_empty() && !path.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(path);
    beneath(out)
}

/// The flags of open(2) on Linux's generic table.
pub fn open_flags(flags: u32) -> OpenFlags {
    let set = |bit: u32| flags & bit == bit;
    if set(O_PATH) {
        // It puts all others aside.
        return OpenFlags {
            directory: set(0o200_000),
            no_follow: set(0o400_000),
            ..OpenFlags::NAME
        };
    }
    OpenFlags {
        read: matches!(flags & 3, 0 | 2),
        write: matches!(flags & 3, 1 | 2),
        append: set(0o2000),
        create: set(0o100),
        exclusive: set(0o200),
        truncate: set(0o1000),
        directory: set(0o200_000),
        direct: set(0o40_000),
        no_follow: set(0o400_000),
        sync: set(0o10_000),
        name_only: false,
    }
}

/// `sync_file_range`. Where a target has none, what is waited for is what its fdatasync writes, and to start writing
/// is left to it.
pub(crate) fn sync_range(fs: &dyn FileSystem, op: &Op, handle: Handle) -> Result<(), Errno> {
    let what = RangeSync(op.flags);
    let (offset, length) = (op.offset.unwrap_or(0), op.length.unwrap_or(0));
    match fs.sync_file_range(handle, offset, length, what) {
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) if what.waits_after() => fs.fdatasync(handle),
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        done => done,
    }
}

pub(crate) fn access(mode: u32) -> Access {
    match mode {
        m if m & 2 != 0 => Access::Write,
        m if m & 4 != 0 => Access::Read,
        _ => Access::Exists,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_lands_beneath_the_target() {
        let mut out = Vec::new();
        assert_eq!(place(b"a/b", None, &mut out), b"a/b");
        assert_eq!(place(b"//a/b", None, &mut out), b"a/b");
        assert_eq!(place(b"/a", Some(b"/home"), &mut out), b"a");
        assert_eq!(place(b"b", Some(b"/home/x"), &mut out), b"home/x/b");
        assert_eq!(place(b"", Some(b"/"), &mut out), b"");
        assert_eq!(place(b"b", Some(b""), &mut out), b"b");
    }

    #[test]
    fn flags_of_open() {
        assert_eq!(open_flags(0), OpenFlags::READ);
        assert_eq!(open_flags(0o302), OpenFlags::CREATE_NEW);
        assert_eq!(open_flags(0o200_000), OpenFlags::DIRECTORY);
        assert_eq!(open_flags(0o10_000_102), OpenFlags::NAME);
        assert!(open_flags(0o10_400_000).no_follow && !open_flags(0o10_400_000).read);
        assert!(open_flags(0o4_010_000).sync && !open_flags(0o2001).read);
    }
}

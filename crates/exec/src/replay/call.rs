//! One operation as one call of the target, its names and its open file found already.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use fsage_core::{
    Errno, Fd, FileSystem, Handle, Op, OpFlags, OpKind, OpenFlags, RWF_DSYNC, RWF_SYNC,
};
use fsage_namespace::flags::{RENAME_EXCHANGE, follows_last};
use fsage_namespace::path::is_beneath;

use crate::buffer::{aligned, placed};
use crate::dispatch::{access, attribute, explicit_offset, open_flags, sync_range};
use crate::payload::{PIECE_BYTES, Payload};
use crate::timer::{Called, Timer};

/// As Linux: one call moves at most this much, whatever it asks for.
const CALL_BYTES: u64 = 0x7fff_f000;

const NONE: u64 = u64::MAX;
/// What is touched of a mapping before it is asked whether to go on.
const TOUCH_BYTES: u64 = 64 << 20;

/// An open file of the trace and what stands for it on the target, once it is open there.
#[derive(Debug)]
pub struct Slot {
    handle: AtomicU64,
    /// By which it is told from others in what is measured: descriptors of the trace are used again, and
    /// threads need not keep the order in which they were.
    number: AtomicI32,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            handle: AtomicU64::new(NONE),
            number: AtomicI32::new(0),
        }
    }
}

impl Slot {
    /// The number that it has, or the `next` one, which it then has.
    pub fn numbered(&self, next: &mut i32) {
        if self.number.load(Ordering::Relaxed) == 0 {
            *next += 1;
            self.number.store(*next, Ordering::Relaxed);
        }
    }

    /// The descriptor that stands for it in what is measured.
    pub fn fd(&self) -> Fd {
        Fd(self.number.load(Ordering::Relaxed))
    }

    fn set(&self, handle: Handle) {
        self.handle.store(handle.0, Ordering::Release);
    }

    fn get(&self) -> Result<Handle, Errno> {
        match self.handle.load(Ordering::Acquire) {
            NONE => Err(Errno::EBADF),
            handle => Ok(Handle(handle)),
        }
    }

    /// Takes the open file out, to be closed.
    pub fn take(&self) -> Option<Handle> {
        match self.handle.swap(NONE, Ordering::AcqRel) {
            NONE => None,
            handle => Some(Handle(handle)),
        }
    }
}

/// How an operation is carried out.
#[derive(Debug, Clone, Default)]
pub enum Call {
    /// It has no call; only what it lets go is closed.
    #[default]
    None,
    /// The call of its kind on a name.
    Name(Box<[u8]>),
    /// The call of its kind on two names; for a symbolic link the name and the text.
    Names(Box<[u8]>, Box<[u8]>),
    /// The call of its kind on an open file.
    File(Arc<Slot>),
    /// An open; without a slot the open file is not kept.
    Open(Box<[u8]>, Option<Arc<Slot>>),
    /// An open file without a name, made in a directory.
    Unnamed(Box<[u8]>, Arc<Slot>),
    /// A name for an open file.
    LinkOpen(Arc<Slot>, Box<[u8]>),
    /// The close of a slot.
    Close(Arc<Slot>),
    /// Attributes of an open file, by its name.
    Attribute(Box<[u8]>),
    /// A touch of a mapped page.
    Touch {
        /// The open file that was mapped.
        slot: Arc<Slot>,
        /// Whether the page is written.
        write: bool,
    },
}

impl Call {
    /// Its name on the target, empty where it has none.
    pub fn name(&self) -> &[u8] {
        match self {
            Self::Name(name)
            | Self::Names(name, _)
            | Self::Open(name, _)
            | Self::Unnamed(name, _)
            | Self::LinkOpen(_, name)
            | Self::Attribute(name) => name,
            Self::None | Self::File(_) | Self::Close(_) | Self::Touch { .. } => b"",
        }
    }
}

/// Carries out calls for one thread.
pub struct Performer<'a> {
    fs: &'a dyn FileSystem,
    timer: Timer<'a>,
    payload: Payload,
    buffer: Vec<u8>,
    /// For names that only this thread uses.
    number: u64,
    made: u64,
    /// Cuts a long transfer short once it is set.
    stop: &'a AtomicBool,
}

impl<'a> Performer<'a> {
    /// For one thread, the `number`th.
    pub fn new(
        fs: &'a dyn FileSystem,
        timer: Timer<'a>,
        payload: Payload,
        number: u64,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            fs,
            timer,
            payload,
            buffer: Vec::new(),
            number,
            made: 0,
            stop,
        }
    }

    /// Carries out a call; `None` for one that has nothing to do.
    pub fn perform(&mut self, op: &Op, call: &Call) -> Option<Called> {
        let result = match call {
            Call::None => return None,
            Call::Open(name, slot) => return Some(self.open(op, name, slot.as_deref())),
            Call::Unnamed(dir, slot) => return Some(self.unnamed(dir, slot)),
            Call::LinkOpen(slot, name) => {
                let handle = slot.get();
                return Some(self.timed(|fs| fs.link_open(handle?, name).map(|()| 0)));
            }
            Call::Close(slot) => {
                let Some(handle) = slot.take() else {
                    return Some(self.timed(|_| Err(Errno::EBADF)));
                };
                return Some(self.timed(|fs| fs.close(handle).map(|()| 0)));
            }
            Call::File(slot) => slot.get(),
            Call::Touch { slot, write } => {
                let (write, offset) = (*write, op.offset.unwrap_or(0));
                let length = op.length.unwrap_or(0).clamp(1, CALL_BYTES);
                let handle = slot.get();
                return Some(
                    self.timed(|fs| touch(fs, handle?, (offset, length), write, self.stop)),
                );
            }
            Call::Name(name) => return Some(self.timed(|fs| on_name(fs, op, name))),
            Call::Attribute(name) => return Some(self.timed(|fs| attribute(fs, op, name))),
            Call::Names(one, two) => return Some(self.names(op, one, two)),
        };
        Some(self.on_file(op, result))
    }

    /// Closes what nobody asked to close.
    pub fn close_silently(&self, handle: Handle) {
        let _ = self.timer.aside(|| self.fs.close(handle));
    }

    /// Opens an existing file that the trace found open, for both if that is allowed.
    pub fn open_inherited(&self, name: &[u8], slot: &Slot) {
        let opened = [OpenFlags::READ_WRITE, OpenFlags::READ]
            .into_iter()
            .find_map(|flags| self.timer.aside(|| self.fs.open(name, flags, 0)).ok());
        if let Some(handle) = opened {
            slot.set(handle);
        }
    }

    fn timed(&self, call: impl FnOnce(&dyn FileSystem) -> Result<u64, Errno>) -> Called {
        self.timer.call(self.fs, call)
    }

    fn open(&mut self, op: &Op, name: &[u8], slot: Option<&Slot>) -> Called {
        let flags = open_flags(op.flags);
        let mut opened = None;
        let done = self.timed(|fs| {
            opened = Some(fs.open(name, flags, 0o644)?);
            Ok(0)
        });
        match (opened, slot) {
            (Some(handle), Some(slot)) => slot.set(handle),
            // The trace did not get it.
            (Some(handle), None) => drop(self.timer.aside(|| self.fs.close(handle))),
            (None, _) => {}
        }
        done
    }

    /// `O_TMPFILE`, or where the target has no such call what comes next to it: a new file whose name goes at once.
    fn unnamed(&mut self, dir: &[u8], slot: &Slot) -> Called {
        let name = self.fresh_name(dir);
        let mut opened = None;
        let done = self.timed(|fs| {
            match fs.open_unnamed(dir, 0o600) {
                // Old kernels take it for the opening of a directory.
                Err(Errno::EOPNOTSUPP | Errno::EISDIR) => {}
                done => {
                    opened = Some(done?);
                    return Ok(0);
                }
            }
            opened = Some(fs.open(&name, OpenFlags::CREATE_NEW, 0o600)?);
            fs.unlink(&name)?;
            Ok(0)
        });
        if let Some(handle) = opened {
            slot.set(handle);
        }
        done
    }

    fn fresh_name(&mut self, dir: &[u8]) -> Vec<u8> {
        self.made += 1;
        let mut name = dir.to_vec();
        if !name.is_empty() {
            name.push(b'/');
        }
        name.extend_from_slice(format!(".fsage-{}-{}", self.number, self.made).as_bytes());
        name
    }

    fn names(&mut self, op: &Op, one: &[u8], two: &[u8]) -> Called {
        match op.kind {
            OpKind::Rename if op.flags & RENAME_EXCHANGE != 0 => {
                let dir = one.iter().rposition(|&b| b == b'/').unwrap_or(0);
                let between = self.fresh_name(one.get(..dir).unwrap_or_default());
                self.timed(|fs| exchange(fs, one, two, &between).map(|()| 0))
            }
            OpKind::Rename => self.timed(|fs| fs.rename(one, two).map(|()| 0)),
            OpKind::Link => self.timed(|fs| fs.link(one, two).map(|()| 0)),
            _ => self.timed(|fs| fs.symlink(two, one).map(|()| 0)),
        }
    }

    fn on_file(&mut self, op: &Op, handle: Result<Handle, Errno>) -> Called {
        let handle = match handle {
            Ok(handle) => handle,
            Err(errno) => return self.timed(|_| Err(errno)),
        };
        let (offset, length) = (op.offset.unwrap_or(0), op.length.unwrap_or(0));
        match op.kind {
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => {
                self.read(op, handle)
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => self.write(op, handle),
            OpKind::Seek => {
                let to = op.result.value().unwrap_or(offset);
                self.timed(|fs| fs.seek(handle, to))
            }
            OpKind::Fstat => self.timed(|fs| fs.fstat(handle).map(|_| 0)),
            OpKind::Ftruncate => self.timed(|fs| fs.ftruncate(handle, length).map(|()| 0)),
            OpKind::Fallocate => self.timed(|fs| fs.fallocate(handle, offset, length).map(|()| 0)),
            OpKind::Readdir => self.timed(|fs| fs.read_dir(handle).map(|_| 0)),
            OpKind::Fsync => self.timed(|fs| fs.fsync(handle).map(|()| 0)),
            OpKind::Fdatasync | OpKind::Msync => self.timed(|fs| fs.fdatasync(handle).map(|()| 0)),
            OpKind::SyncFileRange => self.timed(|fs| sync_range(fs, op, handle).map(|()| 0)),
            _ => self.timed(|fs| fs.fstat(handle).map(|_| 0)),
        }
    }

    fn read(&mut self, op: &Op, handle: Handle) -> Called {
        let mut left = op.length.unwrap_or(0).min(CALL_BYTES);
        let mut at = explicit_offset(op);
        let stop = self.stop;
        let buffer = aligned(&mut self.buffer, (left as usize).min(PIECE_BYTES));
        self.timer.call(self.fs, |fs| {
            let mut total = 0;
            loop {
                let length = (left as usize).min(PIECE_BYTES);
                let piece = buffer.get_mut(..length).unwrap_or_default();
                let got = match at {
                    Some(offset) => fs.pread(handle, piece, offset),
                    None => fs.read(handle, piece),
                };
                let got = match got {
                    Ok(got) => got as u64,
                    Err(_) if total > 0 => return Ok(total),
                    Err(errno) => return Err(errno),
                };
                total += got;
                left -= got.min(left);
                at = at.map(|offset| offset.saturating_add(got));
                if left == 0 || got < length as u64 || stop.load(Ordering::Relaxed) {
                    return Ok(total);
                }
            }
        })
    }

    fn write(&mut self, op: &Op, handle: Handle) -> Called {
        let mut left = op.length.unwrap_or(0).min(CALL_BYTES);
        let mut at = explicit_offset(op);
        let payload = &mut self.payload;
        let stop = self.stop;
        let direct = op.record.contains(OpFlags::DIRECT);
        let most = if direct {
            (left as usize).min(PIECE_BYTES)
        } else {
            0
        };
        let buffer = aligned(&mut self.buffer, most);
        self.timer.call(self.fs, |fs| {
            let mut total = 0;
            loop {
                let length = (left as usize).min(PIECE_BYTES);
                let piece = placed(payload.piece(length), buffer, direct);
                let put = match at {
                    Some(offset) => fs.pwrite(handle, piece, offset),
                    None => fs.write(handle, piece),
                };
                let put = match put {
                    Ok(put) => put as u64,
                    // As the kernel: what was moved before the error is the result.
                    Err(_) if total > 0 => return Ok(total),
                    Err(errno) => return Err(errno),
                };
                total += put;
                left -= put.min(left);
                at = at.map(|offset| offset.saturating_add(put));
                if left == 0 || put < length as u64 || stop.load(Ordering::Relaxed) {
                    return made_stable(fs, op, handle).map(|()| total);
                }
            }
        })
    }
}

/// Two names change their files: in one call, or where the target has none in three renames, of which one that fails leaves
/// the names as they were.
fn exchange(fs: &dyn FileSystem, one: &[u8], two: &[u8], between: &[u8]) -> Result<(), Errno> {
    match fs.exchange(one, two) {
        // The last is what Linux says of a file system that cannot.
        Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => {}
        done => return done,
    }
    // Nothing moves unless there are both.
    fs.lstat(one)?;
    fs.lstat(two)?;
    if one == two {
        return Ok(());
    }
    if is_beneath(one, two) || is_beneath(two, one) {
        return Err(Errno::EINVAL);
    }
    fs.rename(one, between)?;
    let moved = fs.rename(two, one).and_then(|()| {
        let last = fs.rename(between, two);
        if last.is_err() {
            let _ = fs.rename(one, two);
        }
        last
    });
    if moved.is_err() {
        let _ = fs.rename(between, one);
    }
    moved
}

/// What `pwritev2` was asked to do with what it wrote, in the same call.
fn made_stable(fs: &dyn FileSystem, op: &Op, handle: Handle) -> Result<(), Errno> {
    match op.flags {
        _ if op.kind != OpKind::Write => Ok(()),
        flags if flags & RWF_SYNC != 0 => fs.fsync(handle),
        flags if flags & RWF_DSYNC != 0 => fs.fdatasync(handle),
        _ => Ok(()),
    }
}

/// Touches the pages of a range, piece by piece.
fn touch(
    fs: &dyn FileSystem,
    handle: Handle,
    (offset, length): (u64, u64),
    write: bool,
    stop: &AtomicBool,
) -> Result<u64, Errno> {
    let (mut at, mut left) = (offset, length);
    while left > 0 && !stop.load(Ordering::Relaxed) {
        let piece = left.min(TOUCH_BYTES);
        fs.map_touch(handle, at, piece, write, &mut |_| {})?;
        at = at.checked_add(piece).ok_or(Errno::EINVAL)?;
        left -= piece;
    }
    Ok(0)
}

fn on_name(fs: &dyn FileSystem, op: &Op, name: &[u8]) -> Result<u64, Errno> {
    match op.kind {
        OpKind::Stat if follows_last(op) == Some(false) => fs.lstat(name).map(|_| 0),
        OpKind::Access => fs.access(name, access(op.flags)).map(|()| 0),
        OpKind::Unlink => fs.unlink(name).map(|()| 0),
        OpKind::Mkdir => fs.mkdir(name, op.flags & 0o7777).map(|()| 0),
        OpKind::Rmdir => fs.rmdir(name).map(|()| 0),
        OpKind::Readlink => fs.readlink(name).map(|target| target.len() as u64),
        OpKind::Truncate => fs.truncate(name, op.length.unwrap_or(0)).map(|()| 0),
        OpKind::Chmod | OpKind::Chown | OpKind::Utimens => attribute(fs, op, name),
        OpKind::Statfs | OpKind::Fstatfs => fs.statfs().map(|_| 0),
        OpKind::Sync | OpKind::Syncfs => fs.sync().map(|()| 0),
        OpKind::Mknod => {
            let handle = fs.open(name, OpenFlags::CREATE_NEW, op.flags & 0o777)?;
            fs.close(handle).map(|()| 0)
        }
        // `stat`, and what begins as one: `chdir`, `getxattr` and `listxattr` look the name up.
        _ => fs.stat(name).map(|_| 0),
    }
}

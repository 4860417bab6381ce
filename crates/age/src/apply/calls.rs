//! One operation of a workload as calls of the target.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{
    Errno, Fd, FileSystem, Handle, Op, OpFlags, OpKind, OpenFlags, PathId, PathTable, SetAttr,
};
use fsage_exec::{Payload, open_flags, place};
use fsage_format::result::aged::AgedTally;
use rustc_hash::FxHashMap;

use super::state::Kept;
use super::{ApplyError, ApplyOptions};

/// Moved by one call.
const CALL_BYTES: u64 = 1 << 20;

/// Names that are fsage's own, and no workload's. They lie in the root, where other names lead as well.
const OWN: &[u8] = b".fsage-";

fn is_own(name: &[u8]) -> bool {
    name.split(|&b| b == b'/').any(|part| part.starts_with(OWN))
}

/// What became of an operation.
enum Met {
    /// It was carried out.
    Done,
    /// The target is full.
    NoSpace,
    /// A file would be larger than one may be here.
    TooLarge,
    /// What it names is not there, or something else is.
    Absent,
    /// Its names lead out of the target or are none.
    Refused,
    /// It is none that changes what lies where.
    Other,
}

/// An open file of the workload.
struct Open {
    /// `None` for one that could not be opened, or is gone: what follows on it is passed over.
    handle: Option<Handle>,
    name: Box<[u8]>,
    flags: OpenFlags,
    /// Where a write without an offset goes.
    position: u64,
    /// The disk was full in a write to it.
    full: bool,
    /// Made, written or cut since it was opened.
    modified: bool,
}

/// Carries out a workload's operations.
pub struct Calls<'a> {
    fs: &'a dyn FileSystem,
    payload: Payload,
    fast: bool,
    stop: &'a AtomicBool,
    /// Time 0 of the workload and its last operation's, nanoseconds since 1970.
    times_ns: (u64, u64),
    /// The workload's root, without its first slash.
    root: Vec<u8>,
    open: FxHashMap<Fd, Open>,
    names: (Vec<u8>, Vec<u8>),
}

/// Whether operations of a kind change the target.
pub fn changes(kind: OpKind) -> bool {
    !matches!(
        kind,
        OpKind::Close | OpKind::Read | OpKind::Stat | OpKind::Fsync | OpKind::Fdatasync
    )
}

/// As errors tell it.
fn met(errno: Errno) -> Result<Met, Errno> {
    match errno {
        Errno::ENOSPC | Errno::EDQUOT | Errno::EMLINK => Ok(Met::NoSpace),
        Errno::EFBIG => Ok(Met::TooLarge),
        Errno::ENOENT
        | Errno::ENOTDIR
        | Errno::EEXIST
        | Errno::ENOTEMPTY
        | Errno::EISDIR
        | Errno::EBADF => Ok(Met::Absent),
        Errno::EXDEV | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::EINVAL | Errno::EBUSY => {
            Ok(Met::Refused)
        }
        other => Err(other),
    }
}

impl<'a> Calls<'a> {
    pub fn new(
        fs: &'a dyn FileSystem,
        payload: Payload,
        (root, start_ns): (&[u8], u64),
        options: ApplyOptions<'a>,
    ) -> Self {
        Self {
            fs,
            payload,
            fast: options.fast,
            stop: options.stop,
            times_ns: (start_ns, start_ns),
            root: trimmed(root).to_vec(),
            open: FxHashMap::default(),
            names: (Vec::new(), Vec::new()),
        }
    }

    /// The workload's descriptors.
    pub fn open_files(&self) -> impl Iterator<Item = Kept> {
        self.open.iter().map(|(fd, open)| Kept {
            fd: *fd,
            there: open.handle.is_some(),
            full: open.full,
            position: open.position,
        })
    }

    pub fn close_all(&mut self) {
        for open in std::mem::take(&mut self.open).into_values() {
            // Nothing is written through them any more.
            let _ = open.handle.map(|handle| self.close(handle, &open));
        }
    }

    /// Closes a file. One that was modified was so at the workload's time, not at that of its application.
    fn close(&self, handle: Handle, open: &Open) -> Result<(), Errno> {
        if open.modified {
            let at_ns = self.times_ns.1;
            // What has no times of files ages all the same.
            let _ = self.fs.futimens(handle, at_ns, at_ns);
        }
        self.fs.close(handle)
    }

    /// Takes note of an operation that an earlier run has carried out.
    pub fn pass(&mut self, op: &Op, paths: &PathTable) {
        let named =
            |path: Option<PathId>, dir, out| path.map(|p| name(paths, p, (&self.root, dir), out));
        match op.kind {
            OpKind::Open if op.result.is_ok() => {
                let Some(name) = named(op.path, op.dir, &mut self.names.0) else {
                    return;
                };
                if let Some(fd) = fd(op) {
                    let flags = open_flags(op.flags);
                    self.open.insert(
                        fd,
                        Open {
                            handle: None,
                            name: name.into(),
                            flags,
                            position: 0,
                            full: false,
                            modified: flags.create || flags.truncate,
                        },
                    );
                }
            }
            OpKind::Close => drop(op.fd.and_then(|fd| self.open.remove(&fd))),
            OpKind::Write | OpKind::Fallocate | OpKind::Ftruncate => {
                if let Some(open) = op.fd.and_then(|fd| self.open.get_mut(&fd)) {
                    open.modified = true;
                    if op.kind != OpKind::Ftruncate {
                        let at = op.offset.unwrap_or(open.position);
                        open.position = at.saturating_add(op.length.unwrap_or(0));
                    }
                }
            }
            OpKind::Rename if !self.open.is_empty() => {
                let (Some(from), Some(to)) = (
                    named(op.path, op.dir, &mut self.names.0),
                    named(op.path2, op.dir2.or(op.dir), &mut self.names.1),
                ) else {
                    return;
                };
                for open in self.open.values_mut() {
                    if let Some(rest) = open
                        .name
                        .strip_prefix(from)
                        .filter(|rest| matches!(rest, [] | [b'/', ..]))
                    {
                        open.name = [to, rest].concat().into();
                    }
                }
            }
            _ => {}
        }
    }

    /// Opens again what the run before had open.
    pub fn reopen(&mut self, kept: &[Kept]) {
        for (fd, open) in &mut self.open {
            let known = kept.iter().find(|kept| kept.fd == *fd);
            open.full = known.is_some_and(|kept| kept.full);
            open.position = known.map_or(open.position, |kept| kept.position);
            if known.is_none_or(|kept| kept.there) {
                let flags = OpenFlags {
                    create: false,
                    exclusive: false,
                    truncate: false,
                    append: false,
                    write: open.flags.write || open.flags.append,
                    ..open.flags
                };
                // One that was removed meanwhile is gone with the process that had it open.
                open.handle = self.fs.open(&open.name, flags, 0).ok();
            }
        }
    }

    /// Carries out one operation. One that is `doubtful` may have been carried out before.
    pub fn carry_out(
        &mut self,
        op: &Op,
        paths: &PathTable,
        row: u64,
        tally: &mut AgedTally,
        doubtful: bool,
    ) -> Result<(), ApplyError> {
        tally.operations += 1;
        self.times_ns.1 = self.times_ns.0.saturating_add(op.start_ns);
        let (mut one, mut two) = std::mem::take(&mut self.names);
        let first = op.path.map_or(b"".as_slice(), |p| {
            name(paths, p, (&self.root, op.dir), &mut one)
        });
        let second = op.path2.map_or(b"".as_slice(), |p| match op.kind {
            OpKind::Symlink => paths.get(p),
            _ => name(paths, p, (&self.root, op.dir2.or(op.dir)), &mut two),
        });
        let result = if is_own(first) || op.kind != OpKind::Symlink && is_own(second) {
            Ok(Met::Refused)
        } else if op.path.is_some() {
            self.on_names(op, (first, second), tally, doubtful)
        } else {
            self.on_file(op, row, tally)
        };
        let result = result.or_else(met);
        match &result {
            Ok(Met::NoSpace) => tally.no_space += 1,
            Ok(Met::TooLarge) => tally.too_large += 1,
            Ok(Met::Absent) => tally.absent += 1,
            Ok(Met::Refused) => tally.refused += 1,
            Ok(Met::Other) => tally.left_out += 1,
            Ok(Met::Done) | Err(_) => {}
        }
        let failed = |errno| ApplyError::Target {
            what: op.kind.name(),
            name: String::from_utf8_lossy(first).into_owned(),
            target: self.fs.name(),
            row,
            errno,
        };
        let result = result.map(drop).map_err(failed);
        self.names = (one, two);
        result
    }

    fn on_names(
        &mut self,
        op: &Op,
        (first, second): (&[u8], &[u8]),
        tally: &mut AgedTally,
        doubtful: bool,
    ) -> Result<Met, Errno> {
        // What failed in the workload's own world failed for a reason that need not hold here.
        if !op.result.is_ok() {
            return Ok(Met::Other);
        }
        // Done already if it was done a moment before the kill.
        let again = |result: Result<(), Errno>, was: Errno| match result {
            Err(errno) if doubtful && errno == was => Ok(()),
            result => result,
        };
        let fs = self.fs;
        match op.kind {
            OpKind::Open => return self.open(op, first, tally, doubtful),
            OpKind::Mkdir => {
                again(fs.mkdir(first, op.flags & 0o7777 | 0o700), Errno::EEXIST)?;
                tally.created += 1;
            }
            OpKind::Unlink => {
                again(fs.unlink(first), Errno::ENOENT)?;
                tally.removed += 1;
            }
            OpKind::Rmdir => {
                again(fs.rmdir(first), Errno::ENOENT)?;
                tally.removed += 1;
            }
            OpKind::Rename => again(fs.rename(first, second), Errno::ENOENT)?,
            OpKind::Link => {
                again(fs.link(first, second), Errno::EEXIST)?;
                tally.created += 1;
            }
            OpKind::Symlink => {
                again(fs.symlink(second, first), Errno::EEXIST)?;
                tally.created += 1;
            }
            OpKind::Truncate => {
                fs.truncate(first, op.length.unwrap_or(0))?;
                let at_ns = self.times_ns.1;
                let _ = fs.set_attr(first, SetAttr::Times(at_ns, at_ns));
            }
            _ => return Ok(Met::Other),
        }
        Ok(Met::Done)
    }

    fn open(
        &mut self,
        op: &Op,
        name: &[u8],
        tally: &mut AgedTally,
        doubtful: bool,
    ) -> Result<Met, Errno> {
        let asked = open_flags(op.flags);
        if asked.directory || op.record.contains(OpFlags::NOT_A_FILE) {
            return Ok(Met::Other);
        }
        // Where a write goes is known, and space is not allocated behind a descriptor that only reads.
        let flags = OpenFlags {
            append: false,
            write: asked.write || asked.append,
            direct: false,
            sync: false,
            ..asked
        };
        let mut opened = self.fs.open(name, flags, 0o644);
        if doubtful && opened == Err(Errno::EEXIST) {
            opened = self.fs.open(
                name,
                OpenFlags {
                    exclusive: false,
                    ..flags
                },
                0o644,
            );
        }
        let position = match (asked.append, opened) {
            (true, Ok(handle)) => self.fs.fstat(handle).map_or(0, |attr| attr.size_bytes),
            _ => 0,
        };
        if let Some(fd) = fd(op) {
            let open = Open {
                handle: opened.ok(),
                name: name.into(),
                flags,
                position,
                full: false,
                modified: asked.create || asked.truncate,
            };
            let stale = self.open.insert(fd, open);
            if let Some((handle, stale)) = stale.and_then(|stale| Some((stale.handle?, stale))) {
                self.close(handle, &stale)?;
            }
        } else if let Ok(handle) = opened {
            self.fs.close(handle)?;
        }
        opened?;
        tally.created += u64::from(asked.create);
        Ok(Met::Done)
    }

    fn on_file(&mut self, op: &Op, row: u64, tally: &mut AgedTally) -> Result<Met, Errno> {
        if matches!(op.kind, OpKind::Sync | OpKind::Syncfs) {
            // Of what was only allocated there is nothing to be written.
            if self.fast {
                return Ok(Met::Done);
            }
            return self.fs.sync().map(|()| Met::Done);
        }
        let Some(fd) = op.fd else {
            return Ok(Met::Other);
        };
        if op.kind == OpKind::Close {
            let open = self.open.remove(&fd);
            let Some((handle, open)) = open.and_then(|open| Some((open.handle?, open))) else {
                return Ok(Met::Absent);
            };
            return self.close(handle, &open).map(|()| Met::Done);
        }
        let Some(open) = self.open.get_mut(&fd) else {
            return Ok(Met::Absent);
        };
        let Some(handle) = open.handle else {
            return Ok(Met::Absent);
        };
        let length = op.length.unwrap_or(0);
        open.modified |= matches!(
            op.kind,
            OpKind::Write | OpKind::Fallocate | OpKind::Ftruncate
        );
        match op.kind {
            // A program that met a full disk, or a limit, writes no more to the file.
            OpKind::Write | OpKind::Fallocate if open.full => return Ok(Met::Absent),
            OpKind::Write | OpKind::Fallocate => {
                let at = op.offset.unwrap_or(open.position);
                open.position = at.saturating_add(length);
                let written = if self.fast || op.kind == OpKind::Fallocate {
                    allocate(self.fs, handle, at, length)
                } else {
                    let mut payload = self.payload.begun_at(row.wrapping_mul(7919));
                    write(self.fs, &mut payload, handle, (at, length), self.stop)
                };
                let (moved, failed) = written;
                tally.written_bytes += moved;
                if let Some(errno) = failed {
                    open.full = true;
                    return Err(errno);
                }
            }
            OpKind::Seek => open.position = op.result.value().unwrap_or(0),
            OpKind::Ftruncate => self.fs.ftruncate(handle, length)?,
            OpKind::Fsync | OpKind::Fdatasync if self.fast => {}
            OpKind::Fsync => self.fs.fsync(handle)?,
            OpKind::Fdatasync => self.fs.fdatasync(handle)?,
            _ => return Ok(Met::Other),
        }
        Ok(Met::Done)
    }
}

/// Bytes that were written, and what ended it before all were.
fn write(
    fs: &dyn FileSystem,
    payload: &mut Payload,
    handle: Handle,
    (at, length): (u64, u64),
    stop: &AtomicBool,
) -> (u64, Option<Errno>) {
    let mut moved = 0;
    while moved < length {
        if moved > 0 && stop.load(Ordering::Relaxed) {
            return (moved, Some(Errno::EINTR));
        }
        let piece = payload.piece((length - moved).min(CALL_BYTES) as usize);
        match fs.pwrite(handle, piece, at.saturating_add(moved)) {
            Ok(0) => return (moved, Some(Errno::ENOSPC)),
            Ok(put) => moved += put as u64,
            Err(errno) => return (moved, Some(errno)),
        }
    }
    (moved, None)
}

fn allocate(fs: &dyn FileSystem, handle: Handle, at: u64, length: u64) -> (u64, Option<Errno>) {
    if length == 0 {
        return (0, None);
    }
    match fs.fallocate(handle, at, length) {
        Ok(()) => (length, None),
        Err(errno) => (0, Some(errno)),
    }
}

/// A directory's name without the slashes around it.
fn trimmed(mut dir: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = dir {
        dir = rest;
    }
    dir
}

/// A name below the target's root; what lies outside of the workload's own root leads out of that too.
fn name<'p>(
    paths: &'p PathTable,
    path: PathId,
    (root, dir): (&[u8], Option<PathId>),
    out: &'p mut Vec<u8>,
) -> &'p [u8] {
    let name = place(paths.get(path), dir.map(|d| paths.get(d)), out);
    match name.strip_prefix(root) {
        _ if root.is_empty() => name,
        Some([b'/', below @ ..]) => below,
        Some([]) => b"",
        _ => b"..",
    }
}

/// The descriptor that an open got.
fn fd(op: &Op) -> Option<Fd> {
    op.result
        .value()
        .and_then(|value| i32::try_from(value).ok())
        .map(Fd)
}

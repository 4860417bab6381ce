//! Calls become operations; what the text leaves out comes from the state of the processes.

use fsage_core::{Errno, Fd, KindClass, Op, OpFlags, OpKind, Outcome, PathId, PathTable, Pid, Tid};
use fsage_namespace::SharedId;
use fsage_namespace::flags::{
    O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_TMPFILE, O_TRUNC, RESOLVE_IN_ROOT,
};
use fsage_namespace::path::{below_directory, below_root, join, moved};
use rustc_hash::FxHashMap;

use super::args::{Arg, FdName, fd_name, is_device};
use super::files::{Files, file_id};
use super::line::{Call, Ret};
use super::reached::{gone, linked};
use super::state::{Description, Place, Processes};
use super::symbols;
use super::table::{FdCall, PathCall, fd_call, makes_descriptor, path_call};
use crate::foreign::MOST_MOVED;

/// Longer working directories are forgotten; the kernel takes no longer path than 4096.
const MAX_DIR_BYTES: usize = 16_384;

/// Of more open files and directories not all are looked at when something is renamed: no text of the kind is strace's.
const MOST_MOVED_ALONG: usize = 1 << 16;

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It changed the state or gave operations.
    Known,
    /// It is none of those that are captured.
    Unknown,
    /// It never returned.
    Unreturned,
    /// Its arguments are not what the call takes; says what was expected.
    Malformed(&'static str),
}

/// A directory argument, resolved.
pub(super) struct Dir {
    pub fd: Option<i32>,
    pub path: Vec<u8>,
}

/// Everything known so far.
#[derive(Debug, Default)]
pub(super) struct Importer {
    pub paths: PathTable,
    pub processes: Processes,
    pub files: Files,
    /// Of a close that others have interrupted, the open file of its descriptor.
    pub closing: Option<SharedId>,
    /// The last name that was given to what a descriptor was open on, by file.
    pub given: FxHashMap<u32, Vec<u8>>,
    /// Whether a name in the call at hand lies in a directory that is wanted.
    pub named_under: bool,
}

impl Importer {
    /// Whether an operation of the call that was taken last is about what is wanted.
    pub fn is_wanted(&self, op: &Op) -> bool {
        let of_file = |id: fsage_core::FileId| {
            let number = u32::try_from(id.ino.saturating_sub(1)).unwrap_or(u32::MAX);
            self.files.info(number).under
        };
        self.files.takes_all()
            || op.kind.class() == KindClass::Process
            || op.kind == OpKind::Sync
            || self.named_under
            || op.file.is_some_and(of_file)
    }

    /// Takes one whole call of a thread.
    pub fn call(&mut self, tid: u32, start_ns: u64, call: &Call<'_>, ops: &mut Vec<Op>) -> Taken {
        let mut op = Op::new(
            OpKind::Open,
            Pid(self.processes.process(tid)),
            Tid(tid),
            start_ns,
        );
        self.named_under = false;
        op.latency_ns = call.latency_ns;
        op.result = match outcome(call) {
            Ok(outcome) => outcome,
            Err(taken) => return skipped(call, taken),
        };
        if moves_too_much(call.name, op.result) {
            return Taken::Malformed(
                "at most 2147479552 bytes, the most that one call of Linux moves",
            );
        }
        let taken = self.dispatch(op, call, ops);
        taken.map_or_else(Taken::Malformed, |known| {
            if known { Taken::Known } else { Taken::Unknown }
        })
    }

    fn dispatch(
        &mut self,
        op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<bool, &'static str> {
        match call.name {
            "sync" => ops.push(Op {
                kind: OpKind::Sync,
                ..op
            }),
            "dup" | "dup2" | "dup3" => self.dup(op, call, ops)?,
            "fcntl" | "fcntl64" => return self.fcntl(op, call, ops),
            "close_range" => self.close_range(op, call, ops)?,
            "munmap" | "msync" => self.unmap(op, call, ops)?,
            "copy_file_range" | "sendfile" | "sendfile64" | "splice" => {
                self.transfer(op, call, ops)?;
            }
            "ioctl" => return self.share(op, call, ops),
            "fork" | "vfork" | "clone" | "clone2" | "clone3" => self.fork(op, call, ops),
            "unshare" => {
                if op.result.is_ok() {
                    self.processes.unshare(op.tid.0, arg(call, 0)?.flags());
                }
            }
            "getcwd" => {
                if op.result.is_ok()
                    && let Some((path, false)) = arg(call, 0)?.string()
                {
                    let path = below_root(&self.root(op.tid.0), &path);
                    self.change_dir(op.tid.0, path);
                }
            }
            "chroot" | "pivot_root" => self.change_root(op, arg(call, 0)?),
            "utimensat" | "futimesat" if arg(call, 1)?.is_null() => {
                let op = Op {
                    kind: OpKind::Futimens,
                    ..op
                };
                self.on_fd(op, arg(call, 0)?, ops)?;
            }
            name if makes_descriptor(name) => self.not_files(op, call),
            name => {
                if let Some(row) = path_call(name) {
                    self.path_call(op, row, call, ops)?;
                } else if let Some(row) = fd_call(name) {
                    self.fd_call(op, row, call, ops)?;
                } else {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn path_call(
        &mut self,
        mut op: Op,
        row: PathCall,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        op.kind = row.kind;
        op.flags = row.implied | at(call, row.flags).map_or(0, flags_of);
        op.offset = at(call, row.offset).and_then(id_of);
        op.length = at(call, row.length).and_then(id_of);
        let tid = op.tid.0;
        let dir = self.directory(tid, at(call, row.dir))?;
        let text = arg_at(call, row.path)?;
        let path = if call.name == "openat2" && is_own_root(at(call, 2)) {
            text_of(&mut op, text).map(|path| below_directory(&path))
        } else {
            self.name_of(&mut op, text)
        };
        if op.kind == OpKind::Stat && path.as_deref() == Some(b"") && at(call, row.dir).is_some() {
            return self.stat_of_fd(op, call, &dir, ops);
        }
        if let Some(fd) = linked(&op, &dir, path.as_deref()) {
            return self.link_descriptor(op, fd, row, call, ops);
        }
        let own = path
            .as_deref()
            .and_then(|path| self.through_descriptor(&op, &dir, path));
        let (path, fd) = own.map_or((path, dir.fd), |own| (Some(own), None));
        op.fd = fd.map(Fd);
        op.path = path.as_deref().and_then(|path| self.paths.intern(path));
        op.dir = self.relative_to(path.as_deref(), &dir.path);
        if op.kind == OpKind::Unlink {
            op.kind = if op.flags & 0x200 == 0 {
                OpKind::Unlink
            } else {
                OpKind::Rmdir
            };
            op.flags = 0;
        }
        let dir2 = self.directory(tid, at(call, row.dir2))?;
        let two_names = matches!(op.kind, OpKind::Rename | OpKind::Link);
        let path2 = at(call, row.path2).and_then(|text| {
            if two_names {
                self.name_of(&mut op, text)
            } else {
                text_of(&mut op, text)
            }
        });
        op.path2 = path2.as_deref().and_then(|path| self.paths.intern(path));
        if two_names && dir2.path != dir.path {
            op.dir2 = self.relative_to(path2.as_deref(), &dir2.path);
        }
        if let Some(path) = path {
            let name = join(&dir.path, &path);
            let other = path2.map(|path| join(&dir2.path, &path));
            let second = other.as_deref().filter(|_| two_names);
            self.named_under = [Some(&name[..]), second]
                .into_iter()
                .flatten()
                .any(|name| self.files.is_under(name));
            self.name_effects(&mut op, call, &name, other.as_deref());
        }
        ops.push(op);
        Ok(())
    }

    /// `newfstatat` and `statx` with an empty path are `fstat`.
    fn stat_of_fd(
        &mut self,
        mut op: Op,
        call: &Call<'_>,
        dir: &Dir,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        op.kind = OpKind::Fstat;
        op.flags = 0;
        op.record = OpFlags::default();
        if dir.fd.is_none() {
            let file = self.files.named(&dir.path);
            self.stat_result(file, call);
            self.fill_file(&mut op, file);
            ops.push(op);
            return Ok(());
        }
        let fd = arg(call, 0)?;
        if let Some(file) = self.file_of_fd(op.tid.0, fd)? {
            self.stat_result(file, call);
        }
        self.on_fd(op, fd, ops)
    }

    /// What a call on a name that succeeded says about files; fills in file and size.
    fn name_effects(&mut self, op: &mut Op, call: &Call<'_>, name: &[u8], other: Option<&[u8]>) {
        let known = self.files.find(name);
        if !op.result.is_ok() {
            return;
        }
        let file = known.unwrap_or_else(|| self.files.named(name));
        match op.kind {
            OpKind::Open => return self.opened(op, call, name),
            OpKind::Stat => self.stat_result(file, call),
            _ => {}
        }
        self.fill_file(op, file);
        match op.kind {
            OpKind::Unlink | OpKind::Rmdir => self.files.remove(name),
            OpKind::Mkdir => {
                self.files.remove(name);
                let file = self.files.named(name);
                self.set_directory(file);
                self.fill_file(op, file);
            }
            OpKind::Truncate => self.set_size(file, op.length),
            OpKind::Chdir => {
                self.set_directory(file);
                self.fill_file(op, file);
                self.change_dir(op.tid.0, name.to_vec());
            }
            OpKind::Exec => drop(self.processes.exec(op.tid.0)),
            OpKind::Rename if op.flags & 2 != 0 => {
                if let Some(to) = other {
                    self.files.exchange(name, to);
                    self.move_held(name, to, true);
                }
            }
            OpKind::Rename => {
                if let Some(to) = other {
                    self.files.rename(name, to);
                    self.move_held(name, to, false);
                }
            }
            OpKind::Link => {
                if let Some(to) = other {
                    self.files.link(name, to);
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, op: &mut Op, call: &Call<'_>, name: &[u8]) {
        let flags = op.flags;
        let Some(fd) = op.result.value().and_then(|fd| i32::try_from(fd).ok()) else {
            return;
        };
        let reported = match call.ret {
            Ret::Value(_, tail) => fd_name(tail),
            _ => None,
        };
        if flags & O_TMPFILE != 0 {
            return self.opened_nameless(op, fd, reported, name);
        }
        // What is without a name was opened by way of a descriptor.
        let nameless = match &reported {
            Some(FdName::Path {
                path,
                deleted: true,
            }) => self.files.find(&gone(path)),
            _ => None,
        };
        let (path, not_a_file) = match reported {
            Some(FdName::Path { path, deleted }) if !deleted || nameless.is_some() => (path, false),
            Some(FdName::NotAFile) => (name.to_vec(), true),
            _ => (name.to_vec(), is_device(name)),
        };
        // The name was not there, so it is another file than before.
        let created = flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        if created {
            self.files.remove(&path);
        }
        let file = nameless.unwrap_or_else(|| self.files.named(&path));
        if flags & O_TRUNC != 0 || created {
            self.set_size(file, Some(0));
        }
        if flags & O_DIRECTORY != 0 {
            self.set_directory(file);
        }
        let description = Description {
            file: (!not_a_file).then_some(file),
            path,
            not_a_file,
            ..Description::opened(file, flags)
        };
        mark(op, &description);
        self.install(op.tid.0, fd, description, flags & O_CLOEXEC != 0);
        if not_a_file {
            op.record |= OpFlags::NOT_A_FILE;
        } else {
            self.fill_file(op, file);
        }
    }

    /// `st_size` and `st_mode` of a stat that returned.
    pub fn stat_result(&mut self, file: u32, call: &Call<'_>) {
        let field = |name, other| {
            call.args
                .iter()
                .find_map(|arg| arg.field(name).or_else(|| arg.field(other)))
        };
        if !matches!(call.ret, Ret::Value(0, _)) {
            return;
        }
        if let Some(mode) = field("st_mode", "stx_mode") {
            match mode.flags() & 0o170_000 {
                0o040_000 => self.set_directory(file),
                0o100_000 => {}
                _ => return,
            }
        }
        if let Some(size) = field("st_size", "stx_size").and_then(Arg::size) {
            self.set_size(file, Some(size));
        }
    }

    fn set_directory(&mut self, file: u32) {
        if let Some(info) = self.files.info_mut(file) {
            info.directory = true;
        }
    }

    pub fn set_size(&mut self, file: u32, size: Option<u64>) {
        if let Some(info) = self.files.info_mut(file) {
            info.size = size;
        }
    }

    /// Writes what is known of a file into an operation.
    pub fn fill_file(&self, op: &mut Op, file: u32) {
        let info = self.files.info(file);
        op.file = Some(file_id(file));
        op.size_bytes = info.size;
        if info.directory {
            op.record |= OpFlags::DIRECTORY;
        }
    }

    pub(super) fn change_dir(&mut self, tid: u32, path: Vec<u8>) {
        let directory = if path.len() > MAX_DIR_BYTES {
            Vec::new()
        } else {
            path
        };
        let root = self.root(tid);
        self.processes.set_directory(tid, Place { directory, root });
    }

    /// Directories of processes and open ones lie below `to` that lay below `from`.
    fn move_held(&mut self, from: &[u8], to: &[u8], exchange: bool) {
        let change = |name: &mut Vec<u8>| {
            let new = moved(name, from, to, exchange);
            if let Some(new) = new.filter(|new| new.len() <= MAX_DIR_BYTES) {
                *name = new;
            }
        };
        for place in self.processes.directories_mut().take(MOST_MOVED_ALONG) {
            change(&mut place.directory);
            change(&mut place.root);
        }
        for open in self.processes.opens_mut().take(MOST_MOVED_ALONG) {
            change(&mut open.path);
        }
    }

    /// What the absolute paths of a thread start from is another place now; no operation.
    fn change_root(&mut self, mut op: Op, arg: Arg<'_>) {
        let (tid, ok) = (op.tid.0, op.result.is_ok());
        if let Some(path) = self.name_of(&mut op, arg).filter(|_| ok) {
            let directory = self.working_directory(tid);
            let mut root = join(&directory, &path);
            if root == b"/" || root.len() > MAX_DIR_BYTES {
                root.clear();
            }
            self.processes.set_directory(tid, Place { directory, root });
        }
    }

    pub(super) fn working_directory(&self, tid: u32) -> Vec<u8> {
        let place = self.processes.directory(tid);
        place.map_or_else(Vec::new, |place| place.directory.clone())
    }

    pub(super) fn root(&self, tid: u32) -> Vec<u8> {
        let place = self.processes.directory(tid);
        place.map_or_else(Vec::new, |place| place.root.clone())
    }

    /// A file's name as all processes give it.
    pub(super) fn name_of(&self, op: &mut Op, arg: Arg<'_>) -> Option<Vec<u8>> {
        let path = text_of(op, arg)?;
        let root = self.root(op.tid.0);
        let changed = !root.is_empty() && path.starts_with(b"/");
        Some(if changed {
            below_root(&root, &path)
        } else {
            path
        })
    }

    /// The directory that a `dirfd` argument (or none) stands for.
    pub(super) fn directory(
        &mut self,
        tid: u32,
        arg: Option<Arg<'_>>,
    ) -> Result<Dir, &'static str> {
        let Some(arg) = arg else {
            return Ok(Dir {
                fd: None,
                path: self.working_directory(tid),
            });
        };
        let (fd, reported) = arg.fd().ok_or("a directory's descriptor or AT_FDCWD")?;
        let reported = match reported {
            Some(FdName::Path { path, .. }) => Some(path),
            _ => None,
        };
        let Some(fd) = fd else {
            if let Some(path) = reported {
                self.change_dir(tid, path);
            }
            return Ok(Dir {
                fd: None,
                path: self.working_directory(tid),
            });
        };
        let known = || {
            let open = self.processes.description(tid, Fd(fd));
            open.map(|d| d.path.clone())
        };
        Ok(Dir {
            fd: Some(fd),
            path: reported.or_else(known).unwrap_or_default(),
        })
    }

    pub(super) fn relative_to(&mut self, path: Option<&[u8]>, dir: &[u8]) -> Option<PathId> {
        let relative = path.is_some_and(|path| !path.starts_with(b"/"));
        if relative && dir.starts_with(b"/") {
            self.paths.intern(dir)
        } else {
            None
        }
    }
}

/// Whether a call says to have moved more than any can.
fn moves_too_much(name: &str, result: Outcome) -> bool {
    let moves = |row: FdCall| matches!(row.kind, OpKind::Read | OpKind::Write | OpKind::Readdir);
    let transfers = ["copy_file_range", "sendfile", "sendfile64", "splice"];
    result.value().is_some_and(|bytes| bytes > MOST_MOVED)
        && (transfers.contains(&name) || fd_call(name).is_some_and(moves))
}

fn skipped(call: &Call<'_>, taken: Taken) -> Taken {
    let captured = path_call(call.name).is_some() || fd_call(call.name).is_some();
    if captured { taken } else { Taken::Unknown }
}

/// Whether the directory of an `openat2` is the root of its name.
fn is_own_root(how: Option<Arg<'_>>) -> bool {
    let resolve = how.and_then(|how| how.field("resolve"));
    resolve.is_some_and(|it| u64::from(it.flags()) & RESOLVE_IN_ROOT != 0)
}

/// A path argument; an address instead of text marks the record.
pub(super) fn text_of(op: &mut Op, arg: Arg<'_>) -> Option<Vec<u8>> {
    let Some((text, cut)) = arg.string() else {
        op.record |= OpFlags::PATH_UNREADABLE;
        return None;
    };
    if cut {
        op.record |= OpFlags::PATH_TRUNCATED;
    }
    // A NUL cannot be part of a path.
    Some(text.split(|&b| b == 0).next().unwrap_or_default().to_vec())
}

/// What the descriptor says about every operation on it.
pub(super) fn mark(op: &mut Op, description: &Description) {
    for (is, flag) in [
        (description.append, OpFlags::APPEND),
        (description.direct, OpFlags::DIRECT),
        (description.not_a_file, OpFlags::NOT_A_FILE),
    ] {
        if is {
            op.record |= flag;
        }
    }
}

fn returns_address(name: &str) -> bool {
    matches!(name, "mmap" | "mmap2" | "mremap" | "brk" | "shmat")
}

fn outcome(call: &Call<'_>) -> Result<Outcome, Taken> {
    match call.ret {
        Ret::Value(..0, _) if !returns_address(call.name) => Err(Taken::Malformed(
            "the error's symbol behind a result below 0",
        )),
        // An address in the upper half keeps no meaning here.
        Ret::Value(value, _) => Ok(Outcome::ok(u64::try_from(value).unwrap_or(0))),
        Ret::Error(symbol) => symbols::errno(symbol)
            .map(Outcome::err)
            .ok_or(Taken::Malformed("an error by its symbol of errno(3)")),
        Ret::Unknown(Some(symbol)) if symbol.starts_with("ERESTART") => {
            Ok(Outcome::err(Errno::EINTR))
        }
        Ret::Unknown(_) => Err(Taken::Unreturned),
    }
}

/// The argument at a position that the call must have.
pub(super) fn arg<'a>(call: &Call<'a>, at: usize) -> Result<Arg<'a>, &'static str> {
    call.args.get(at).copied().ok_or("more arguments")
}

/// The argument at a position of a row; `None` where the row has none or the text lacks it.
pub(super) fn at<'a>(call: &Call<'a>, position: i8) -> Option<Arg<'a>> {
    call.args.get(usize::try_from(position).ok()?).copied()
}

pub(super) fn arg_at<'a>(call: &Call<'a>, position: i8) -> Result<Arg<'a>, &'static str> {
    at(call, position).ok_or("more arguments")
}

/// Flags, or the `flags` of `struct open_how`.
pub(super) fn flags_of(arg: Arg<'_>) -> u32 {
    if arg.0.starts_with(b"{") {
        arg.field("flags").map_or(0, Arg::flags)
    } else {
        arg.flags()
    }
}

/// A size, offset, uid or gid; -1 of a uid is its 32-bit pattern.
pub(super) fn id_of(arg: Arg<'_>) -> Option<u64> {
    arg.int().map(|value| {
        if value == -1 {
            u64::from(u32::MAX)
        } else {
            value as u64
        }
    })
}

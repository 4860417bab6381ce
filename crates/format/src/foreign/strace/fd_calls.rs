//! Calls on descriptors: offsets and sizes are kept up to date as far as the text allows.

use fsage_core::lock::{fcntl_lock_flags, flock_flags};
use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome};
use fsage_namespace::flags::{CLONE_FILES, CLONE_VM, FALLOC_FL_KEEP_SIZE, SEEK_END};
use fsage_namespace::{Mapping, SharedId};

use super::args::{Arg, FdName};
use super::calls::{Importer, arg, arg_at, at, flags_of, id_of, mark, text_of};
use super::line::Call;
use super::reached::gone;
use super::state::Description;
use super::table::FdCall;

/// `F_DUPFD`, `F_SETFD`, `F_SETFL`, … are told apart by name.
const LOCK_COMMANDS: [&[u8]; 6] = [
    b"F_GETLK",
    b"F_SETLK",
    b"F_SETLKW",
    b"F_OFD_GETLK",
    b"F_OFD_SETLK",
    b"F_OFD_SETLKW",
];

/// `l_type` and `l_whence` of a `struct flock`.
fn asked_of(lock: Arg<'_>) -> Option<(u16, u16)> {
    let kind = match lock.field("l_type")?.0 {
        b"F_RDLCK" => 0,
        b"F_WRLCK" => 1,
        b"F_UNLCK" => 2,
        _ => return None,
    };
    let whence = lock.field("l_whence")?.flags();
    Some((kind, u16::try_from(whence).ok()?))
}

/// A number where there is one; an error where that is longer than 64 bits.
fn number_of(arg: Arg<'_>) -> Result<Option<u64>, &'static str> {
    let digits = arg
        .0
        .first()
        .is_some_and(|&b| b == b'-' || b.is_ascii_digit());
    match arg.int() {
        None if digits => Err("a number of at most 64 bits"),
        number => Ok(number.map(|value| value as u64)),
    }
}

impl Importer {
    /// Brings a descriptor up to date with what `-y` says about it.
    fn sync_fd(&mut self, tid: u32, fd: i32, reported: Option<FdName>) {
        let known = self.processes.description(tid, Fd(fd)).cloned();
        let fresh = match reported {
            None => return,
            Some(FdName::NotAFile) => {
                if known.as_ref().is_some_and(|known| known.not_a_file) {
                    return;
                }
                Description {
                    not_a_file: true,
                    ..Description::default()
                }
            }
            Some(FdName::Path { path, deleted }) => {
                if let Some(known) = &known {
                    let same = known.file.is_some() && known.file == self.files.find(&path);
                    if known.path == path || same {
                        return;
                    }
                }
                let file = if deleted {
                    self.files.named(&gone(&path))
                } else {
                    self.files.named(&path)
                };
                Description {
                    file: Some(file),
                    path,
                    ..Description::default()
                }
            }
        };
        self.install(tid, fd, fresh, false);
    }

    /// Puts a description behind a descriptor, closing what was there.
    pub(super) fn install(
        &mut self,
        tid: u32,
        fd: i32,
        description: Description,
        close_on_exec: bool,
    ) {
        let open = self.processes.add(description);
        self.processes.install(tid, Fd(fd), open, close_on_exec);
    }

    /// A close that others interrupt: its number may be given to them before it ends.
    pub(super) fn begin_close(&mut self, tid: u32, fd: Arg<'_>) -> Option<SharedId> {
        let fd = Fd(self.fd_of(tid, fd).ok()?);
        if self.processes.open_of(tid, fd).is_none() {
            self.install(tid, fd.0, Description::default(), false);
        }
        let open = self.processes.open_of(tid, fd);
        let open = open.filter(|&open| self.processes.share(open))?;
        self.processes.close(tid, fd);
        Some(open)
    }

    /// It has ended.
    pub(super) fn end_close(&mut self) {
        if let Some(open) = self.closing.take() {
            self.processes.release(open);
        }
    }

    fn fd_of(&mut self, tid: u32, arg: Arg<'_>) -> Result<i32, &'static str> {
        let (fd, reported) = arg.fd().ok_or("a descriptor")?;
        let fd = fd.ok_or("a descriptor, not AT_FDCWD")?;
        self.sync_fd(tid, fd, reported);
        Ok(fd)
    }

    pub(super) fn file_of_fd(
        &mut self,
        tid: u32,
        arg: Arg<'_>,
    ) -> Result<Option<u32>, &'static str> {
        let fd = self.fd_of(tid, arg)?;
        Ok(self.processes.description(tid, Fd(fd)).and_then(|d| d.file))
    }

    /// Fills in what the descriptor says; returns a copy of its description.
    pub(super) fn describe(
        &mut self,
        op: &mut Op,
        arg: Arg<'_>,
    ) -> Result<Description, &'static str> {
        let description = if let Some(open) = self.closing {
            op.fd = arg.fd().and_then(|(fd, _)| fd).map(Fd);
            self.processes.open(open)
        } else {
            let fd = Fd(self.fd_of(op.tid.0, arg)?);
            op.fd = Some(fd);
            self.processes.description(op.tid.0, fd).map(|d| &*d)
        };
        let description = description.cloned().unwrap_or_default();
        mark(op, &description);
        if let Some(file) = description.file {
            self.fill_file(op, file);
        }
        Ok(description)
    }

    /// An operation that needs nothing but its descriptor.
    pub(super) fn on_fd(
        &mut self,
        mut op: Op,
        fd: Arg<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        self.describe(&mut op, fd)?;
        ops.push(op);
        Ok(())
    }

    pub(super) fn fd_call(
        &mut self,
        mut op: Op,
        row: FdCall,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        op.kind = row.kind;
        if op.kind == OpKind::Mmap && matches!(arg_at(call, row.fd)?.fd(), Some((Some(..0), _))) {
            return self.map_anonymous(op, call);
        }
        let description = self.describe(&mut op, arg_at(call, row.fd)?)?;
        op.flags = row.implied | at(call, row.flags).map_or(0, flags_of);
        if op.kind == OpKind::Lock {
            op.flags = flock_flags(op.flags);
        }
        let ids = op.kind == OpKind::Fchown;
        let number = |arg: Arg<'_>| {
            if ids { Ok(id_of(arg)) } else { number_of(arg) }
        };
        op.offset = at(call, row.offset).map_or(Ok(None), number)?;
        op.length = match at(call, row.length) {
            Some(arg) if row.vector => arg.iov_bytes(),
            Some(arg) => number(arg)?,
            None => None,
        };
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write) && !row.vector;
        let (moved, asked) = (op.result.value(), op.length);
        if moves && moved.zip(asked).is_some_and(|(moved, asked)| moved > asked) {
            return Err("a result of at most what was asked for");
        }
        if let Some(text) = at(call, row.path2) {
            let text = text_of(&mut op, text);
            op.path2 = text.and_then(|text| self.paths.intern(&text));
        }
        self.fd_effects(&mut op, &description, call)?;
        ops.push(op);
        Ok(())
    }

    fn fd_effects(
        &mut self,
        op: &mut Op,
        description: &Description,
        call: &Call<'_>,
    ) -> Result<(), &'static str> {
        let (tid, ok) = (op.tid.0, op.result.is_ok());
        match op.kind {
            OpKind::Read | OpKind::Write => self.moved(op, description),
            OpKind::Seek if ok => self.sought(op, description),
            OpKind::Mmap => self.mapped(op, description, call)?,
            OpKind::Close => {
                if let Some(fd) = op.fd.filter(|_| self.closing.is_none()) {
                    self.processes.close(tid, fd);
                }
            }
            OpKind::Fchdir if ok => {
                self.change_dir(tid, description.path.clone());
            }
            _ => {}
        }
        let Some(file) = description.file else {
            return Ok(());
        };
        match op.kind {
            OpKind::Fstat => {
                self.stat_result(file, call);
                self.fill_file(op, file);
            }
            OpKind::Ftruncate if ok => self.set_size(file, op.length),
            OpKind::Fallocate if ok && op.flags & FALLOC_FL_KEEP_SIZE == 0 => {
                let end = op
                    .offset
                    .unwrap_or(0)
                    .saturating_add(op.length.unwrap_or(0));
                self.grow(file, end);
            }
            OpKind::Readdir if ok => {
                if let Some(info) = self.files.info_mut(file) {
                    info.directory = true;
                }
                op.record |= OpFlags::DIRECTORY;
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn grow(&mut self, file: u32, end: u64) {
        if let Some(size) = self.files.info(file).size {
            self.set_size(file, Some(size.max(end)));
        }
    }

    /// A read or write: its offset, the position after it, the size that it shows.
    fn moved(&mut self, op: &mut Op, description: &Description) {
        let count = op.result.value().unwrap_or(0);
        op.length = Some(op.length.unwrap_or(count).max(count));
        // preadv2 and pwritev2 take -1 for the descriptor's own position.
        if op.offset == Some(u64::MAX) {
            op.offset = None;
        }
        let implicit = op.offset.is_none();
        if implicit && !description.not_a_file {
            op.record |= OpFlags::IMPLICIT_OFFSET;
            let at_end = op.kind == OpKind::Write && description.append;
            op.offset = if at_end {
                op.size_bytes
            } else {
                description.offset
            };
        }
        let end = op.offset.map(|offset| offset.saturating_add(count));
        if implicit
            && op.result.is_ok()
            && let Some(fd) = op.fd
            && let Some(open) = self.processes.description(op.tid.0, fd)
        {
            open.offset = end;
        }
        let (Some(file), Some(end), true) = (description.file, end, op.result.is_ok()) else {
            return;
        };
        if op.kind == OpKind::Write {
            if count > 0 {
                self.grow(file, end);
            }
        } else if op.size_bytes.is_none() && count > 0 && Some(count) < op.length {
            // A short read of a file stops at its end.
            self.set_size(file, Some(end));
        }
    }

    fn sought(&mut self, op: &Op, description: &Description) {
        let to = op.result.value();
        if let Some(fd) = op.fd
            && let Some(open) = self.processes.description(op.tid.0, fd)
        {
            open.offset = to;
        }
        if op.flags == SEEK_END
            && let (Some(file), Some(to), Some(by)) = (description.file, to, op.offset)
            && !self.files.info(file).directory
        {
            self.set_size(file, Some(to.wrapping_sub(by)));
        }
    }

    fn mapped(
        &mut self,
        op: &mut Op,
        description: &Description,
        call: &Call<'_>,
    ) -> Result<(), &'static str> {
        op.flags = (arg(call, 2)?.flags() & 0xff) | (arg(call, 3)?.flags() << 8);
        if let (Some(address), Some(_)) = (op.result.value(), op.fd) {
            let mapping = Mapping {
                length: op.length.unwrap_or(0),
                offset: op.offset.unwrap_or(0),
                file: description.file,
            };
            self.processes.map(op.tid.0, address, mapping);
        }
        Ok(())
    }

    /// An anonymous mapping over a file's takes the place of it.
    fn map_anonymous(&mut self, op: Op, call: &Call<'_>) -> Result<(), &'static str> {
        if let (Some(address), Some(length)) = (op.result.value(), arg(call, 1)?.size()) {
            self.processes.unmap(op.tid.0, address, length);
        }
        Ok(())
    }

    /// One operation for each file mapping in the range.
    pub(super) fn unmap(
        &mut self,
        op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        let address = arg(call, 0)?.int().ok_or("an address")? as u64;
        let length = arg(call, 1)?.size().ok_or("a length")?;
        let (kind, pieces, flags) = if call.name == "msync" {
            let pieces = self.processes.mapped(op.tid.0, address, length);
            (OpKind::Msync, pieces, arg(call, 2)?.flags())
        } else if op.result.is_ok() {
            (
                OpKind::Munmap,
                self.processes.unmap(op.tid.0, address, length),
                0,
            )
        } else {
            return Ok(());
        };
        for (index, piece) in pieces.into_iter().enumerate() {
            let mut op = Op { kind, flags, ..op };
            // The call's time is counted once.
            op.latency_ns = if index == 0 {
                op.latency_ns
            } else {
                op.latency_ns.map(|_| 0)
            };
            op.offset = Some(piece.offset);
            op.length = Some(piece.length);
            if let Some(file) = piece.file {
                self.fill_file(&mut op, file);
            }
            ops.push(op);
        }
        Ok(())
    }

    pub(super) fn dup(
        &mut self,
        mut op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        op.kind = OpKind::Dup;
        self.describe(&mut op, arg(call, 0)?)?;
        let on_exec = call.name == "dup3" && arg(call, 2)?.flags() & 0o2_000_000 != 0;
        self.duplicate(&op, on_exec);
        ops.push(op);
        Ok(())
    }

    fn duplicate(&mut self, op: &Op, close_on_exec: bool) {
        let new = op.result.value().and_then(|fd| i32::try_from(fd).ok());
        if let (Some(old), Some(new)) = (op.fd, new) {
            let tid = op.tid.0;
            if self.processes.open_of(tid, old).is_none() {
                self.install(tid, old.0, Description::default(), false);
            }
            self.processes.dup(tid, old, Fd(new), close_on_exec);
        }
    }

    pub(super) fn fcntl(
        &mut self,
        mut op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<bool, &'static str> {
        let command = arg(call, 1)?.0;
        if command.starts_with(b"F_DUPFD") {
            op.kind = OpKind::Dup;
            self.describe(&mut op, arg(call, 0)?)?;
            self.duplicate(&op, command == b"F_DUPFD_CLOEXEC");
            ops.push(op);
        } else if LOCK_COMMANDS.contains(&command) {
            op.kind = OpKind::Lock;
            let lock = at(call, 2);
            let number = |name| lock.and_then(|lock| lock.field(name)).and_then(Arg::int);
            (op.offset, op.length) = (
                number("l_start").map(|n| n as u64),
                number("l_len").map(|n| n as u64),
            );
            op.flags = fcntl_lock_flags(arg(call, 1)?.flags(), lock.and_then(asked_of));
            self.on_fd(op, arg(call, 0)?, ops)?;
        } else if command == b"F_SETFD" && op.result.is_ok() {
            let fd = self.fd_of(op.tid.0, arg(call, 0)?)?;
            let value = at(call, 2).is_some_and(|arg| arg.0 != b"0");
            self.processes.set_close_on_exec(op.tid.0, Fd(fd), value);
        } else if command == b"F_SETFL" && op.result.is_ok() {
            let fd = self.fd_of(op.tid.0, arg(call, 0)?)?;
            let flags = at(call, 2).map_or(0, Arg::flags);
            if let Some(open) = self.processes.description(op.tid.0, Fd(fd)) {
                open.append = flags & 0o2000 != 0;
                open.direct = flags & 0o40_000 != 0;
            }
        }
        Ok(true)
    }

    /// One close for each descriptor that the text has shown to be open.
    pub(super) fn close_range(
        &mut self,
        op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        if !op.result.is_ok() {
            return Ok(());
        }
        let first = arg(call, 0)?.int().ok_or("a first descriptor")?;
        let last = arg(call, 1)?.int().ok_or("a last descriptor")?;
        let flags = at(call, 2).map_or(0, Arg::flags);
        if flags & 2 != 0 {
            self.processes.unshare(op.tid.0, CLONE_FILES);
        }
        let fds = self.processes.descriptors(op.tid.0).into_iter();
        let fds = fds.filter(|fd| (first..=last).contains(&i64::from(fd.0)));
        for (index, fd) in fds.enumerate() {
            if flags & 4 != 0 {
                self.processes.set_close_on_exec(op.tid.0, fd, true);
                continue;
            }
            let mut op = Op {
                kind: OpKind::Close,
                ..op
            };
            op.latency_ns = if index == 0 {
                op.latency_ns
            } else {
                op.latency_ns.map(|_| 0)
            };
            let number = fd.0.to_string();
            self.describe(&mut op, Arg(number.as_bytes()))?;
            self.processes.close(op.tid.0, fd);
            ops.push(op);
        }
        Ok(())
    }

    pub(super) fn fork(&mut self, mut op: Op, call: &Call<'_>, ops: &mut Vec<Op>) {
        op.kind = OpKind::Fork;
        op.flags = clone_flags(call.name, &call.args);
        if let Some(child) = op.result.value().and_then(|tid| u32::try_from(tid).ok()) {
            self.processes.fork(op.tid.0, child, op.flags);
            op.length = Some(u64::from(self.processes.process(child)));
        }
        ops.push(op);
    }

    /// Descriptors of pipes, sockets and the like.
    pub(super) fn not_files(&mut self, op: Op, call: &Call<'_>) {
        if !op.result.is_ok() {
            return;
        }
        let description = Description {
            not_a_file: true,
            ..Description::default()
        };
        let text = match call.name {
            "pipe" | "pipe2" => call.args.first(),
            "socketpair" => call.args.get(3),
            _ => None,
        };
        let pair = text.map(|arg| {
            let inner = arg.0.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]"));
            let inner = inner.unwrap_or_default();
            let halves = inner
                .split(|&b| b == b',')
                .map(|part| Arg(part.trim_ascii()).fd());
            halves
                .flatten()
                .filter_map(|(fd, _)| fd)
                .collect::<Vec<i32>>()
        });
        let single = op.result.value().and_then(|fd| i32::try_from(fd).ok());
        for fd in pair.unwrap_or_else(|| single.into_iter().collect()) {
            let on_exec = call
                .args
                .iter()
                .any(|arg| arg.0.windows(7).any(|window| window == b"CLOEXEC"));
            self.install(op.tid.0, fd, description.clone(), on_exec);
        }
    }

    /// A thread's end.
    pub(super) fn exited(&mut self, tid: u32, start_ns: u64, code: i64) -> Op {
        let ended = self.processes.exit(tid);
        let mut op = Op::new(
            OpKind::Exit,
            fsage_core::Pid(ended.process),
            fsage_core::Tid(tid),
            start_ns,
        );
        op.length = Some(u64::from(ended.last));
        op.result = Outcome::ok(u64::try_from(code).unwrap_or(0));
        op
    }
}

/// The flags of a fork as its name or arguments give them.
pub(super) fn clone_flags(name: &str, args: &[Arg<'_>]) -> u32 {
    const CLONE_VFORK: u32 = 0x4000;
    match name {
        "fork" => 0,
        "vfork" => CLONE_VFORK | CLONE_VM,
        _ => {
            // The low byte is the signal sent at the child's end, not a flag.
            args.iter()
                .find_map(|arg| arg.field("flags"))
                .map_or(0, Arg::flags)
                & !0xff
        }
    }
}

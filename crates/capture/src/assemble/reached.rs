//! Names that lead through descriptors (`/dev/stdout`, `/proc/self/fd/3`) or directories (`/proc/self/cwd`), and calls that name a file by nothing but
//! its descriptor.
//!
//! What such a name means depends on who gives it and when. In a trace it is the name of the file that the descriptor
//! is open on: by that `--under` finds it, and whoever replays the trace can open it.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::rc::Rc;

use fsage_core::{Fd, FileId, Op, OpKind, Pid};
use fsage_namespace::flags::AT_EMPTY_PATH;
use fsage_namespace::path::join;
use fsage_namespace::reached::{Reached, Through, reached};

use super::Assembler;
use super::paths::{
    SYS_FCHMODAT2, SYS_GETXATTRAT, SYS_LISTXATTRAT, SYS_REMOVEXATTRAT, SYS_SETXATTRAT, value_size,
};
use super::process::Processes;
use crate::raw::{RawCall, RawFile};

impl Assembler {
    /// Calls that take a path but were given none: they act on the descriptor.
    pub(super) fn is_nameless(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        let a = call.args;
        let empty_path = u64::from(AT_EMPTY_PATH);
        let (kind, flags) = match nr {
            libc::SYS_newfstatat => (OpKind::Fstat, a[3]),
            libc::SYS_statx => (OpKind::Fstat, a[2]),
            libc::SYS_utimensat => (OpKind::Futimens, empty_path),
            libc::SYS_fchownat => (OpKind::Fchown, a[4]),
            SYS_FCHMODAT2 => (OpKind::Fchmod, a[3]),
            SYS_SETXATTRAT => (OpKind::Setxattr, a[2]),
            SYS_GETXATTRAT => (OpKind::Getxattr, a[2]),
            SYS_LISTXATTRAT => (OpKind::Listxattr, a[2]),
            SYS_REMOVEXATTRAT => (OpKind::Removexattr, a[2]),
            _ => return false,
        };
        if !names_nothing(call) || flags & empty_path == 0 {
            return false;
        }
        let mut op = self.begin_fd(kind, call, a[0], call.file.as_ref());
        if op.file.is_none() {
            let open = self.open_of(call.pid, a[0] as i32);
            op.file = open.and_then(|open| open.file);
        }
        match kind {
            OpKind::Fchown => (op.offset, op.length) = (Some(owner(a[2])), Some(owner(a[3]))),
            OpKind::Fchmod => op.flags = a[2] as u32,
            OpKind::Setxattr | OpKind::Getxattr => op.length = Some(value_size(call)),
            OpKind::Listxattr => op.length = Some(a[4]),
            _ => {}
        }
        if let Some(name) = &call.path2 {
            op.path2 = self.paths.intern(name);
        }
        self.emit(op);
        true
    }

    /// Whether the call opened a file by its handle: that tells no name, so the operation has one that the file has.
    pub(super) fn by_handle(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        if nr != libc::SYS_open_by_handle_at {
            return false;
        }
        let mut op = self.begin(OpKind::Open, call);
        op.flags = call.args[2] as u32;
        if let (Some(file), Some(fd)) = (&call.file, op.result.value()) {
            self.set_file(&mut op, file);
            self.wanted |= op.file.is_some_and(|id| self.wants_file(id));
            self.opened(call.pid, &op, None);
            let known = op.file.and_then(|id| self.names.any_of(id));
            let path = known.map(|path| Rc::from(&*path));
            if let Some(path) = path.or_else(|| self.path_of(call.pid, fd as i32, op.file)) {
                self.wanted = self.wanted || self.filter.takes_path(&path);
                op.path = self.paths.intern(&path);
                let wanted = self.wanted;
                if let Some(open) = self.processes.description(call.pid.0, Fd(fd as i32)) {
                    (open.path, open.wanted) = (Some(path), wanted);
                }
            }
        }
        self.emit(op);
        true
    }

    /// Whether the call gave a further name to what a descriptor is open on. It need not have one yet (`O_TMPFILE`),
    /// so the operation tells the descriptor, and a name where there is one.
    pub(super) fn links_descriptor(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        let Some(fd) = (nr == libc::SYS_linkat)
            .then(|| self.linked(call))
            .flatten()
        else {
            return false;
        };
        let mut op = self.begin(OpKind::Link, call);
        (op.fd, op.flags) = (Some(Fd(fd)), AT_EMPTY_PATH);
        op.file = self.descriptor_file(call.pid, fd);
        if let Some(path) = self.path_of(call.pid, fd, None) {
            self.wanted = self.wanted || self.filter.takes_path(&path);
            op.path = self.paths.intern(&path);
        }
        let new = self.name(&mut op, call, Some(call.args[2] as i32), true, false);
        if let (true, Some(new), Some(id)) = (op.result.is_ok(), new, op.file) {
            self.name_is(&new, id, false);
            self.names.give(id, &new);
        }
        self.emit(op);
        true
    }

    /// The descriptor of the caller whose file a `linkat` names.
    fn linked(&mut self, call: &RawCall) -> Option<i32> {
        let (dir, flags) = (call.args[0] as i32, call.args[4]);
        if names_nothing(call) {
            let named = flags & u64::from(AT_EMPTY_PATH) != 0 && dir != libc::AT_FDCWD;
            return named.then_some(dir);
        }
        if flags & libc::AT_SYMLINK_FOLLOW as u64 == 0 {
            return None;
        }
        let path = self.in_proc_or_dev(call.pid, Some(dir), call.path.as_deref()?)?;
        let reached = reached(&path, call.pid)?;
        match reached.through {
            Through::Fd(fd) if reached.pid == call.pid && reached.rest.is_empty() => Some(fd),
            _ => None,
        }
    }

    /// The file of a descriptor; it is wanted if its opening was.
    fn descriptor_file(&mut self, pid: Pid, fd: i32) -> Option<FileId> {
        let open = self.open_of(pid, fd)?;
        let id = open.file;
        self.wanted |= open.wanted || id.is_some_and(|id| self.wants_file(id));
        id
    }

    /// The name of its own that a file has which is named by way of a descriptor. `follows`: a symbolic link at the end is,
    /// as these are. `found` is the file where the call told it.
    pub(super) fn through_descriptor(
        &mut self,
        op: &Op,
        dir: Option<i32>,
        given: &[u8],
        follows: bool,
        found: Option<&RawFile>,
    ) -> Option<Vec<u8>> {
        if given.is_empty() {
            let fd = dir.filter(|&fd| fd != libc::AT_FDCWD && op.result.is_ok())?;
            return self.path_of(op.pid, fd, None).map(|path| path.to_vec());
        }
        let path = self.in_proc_or_dev(op.pid, dir, given)?;
        let Reached { pid, through, rest } = reached(&path, op.pid)?;
        let Through::Fd(fd) = through else {
            self.meet(pid);
            let top = match through {
                Through::Root => self.root_of(pid),
                _ => Some(self.working_directory(pid)?),
            };
            let named = !rest.is_empty() || follows;
            return named.then(|| join(top.as_deref().unwrap_or(b"/"), rest));
        };
        if rest.is_empty() {
            if !follows {
                return None;
            }
            self.descriptor_file(pid, fd);
            let found = found.map(|file| self.identify(file));
            return self.path_of(pid, fd, found).map(|path| path.to_vec());
        }
        let top = self.path_of(pid, fd, None)?;
        Some(join(&top, rest))
    }

    /// The absolute path of a name, if it may lead through a descriptor.
    fn in_proc_or_dev(&mut self, pid: Pid, dir: Option<i32>, given: &[u8]) -> Option<Vec<u8>> {
        let there = |path: &[u8]| path.starts_with(b"/proc") || path.starts_with(b"/dev");
        if given.first() == Some(&b'/') {
            return there(given).then(|| join(b"/", given));
        }
        let from = match dir {
            Some(fd) if fd != libc::AT_FDCWD => self.open_of(pid, fd)?.path,
            _ => {
                self.meet(pid);
                self.processes.directory(pid.0)?.directory.clone()
            }
        };
        let from = from.filter(|from| there(from))?;
        Some(join(&from, given))
    }

    /// A name that the file of a descriptor has now: that of its opening may be gone, or another file's. `found` is the
    /// file where the call told it.
    fn path_of(&mut self, pid: Pid, fd: i32, found: Option<FileId>) -> Option<Rc<[u8]>> {
        let open = self.open_of(pid, fd);
        let known = open.as_ref().and_then(|open| open.file);
        let path = open.as_ref().and_then(|open| open.path.clone());
        let Some(id) = found.or(known) else {
            // Open from before the capture: its name is from then.
            return path.filter(|path| !path.ends_with(b" (deleted)"));
        };
        let same = |other: FileId| (other.dev, other.ino) == (id.dev, id.ino);
        if known.is_none_or(same) {
            let inherited = open.is_some_and(|open| open.inherited);
            let has_it = |path: &[u8]| inherited || self.names.find(path).is_some_and(same);
            if let Some(path) = path.filter(|path| has_it(path)) {
                return Some(path);
            }
        }
        if let Some(path) = self.names.given(id) {
            return Some(path.into());
        }
        // Not opened by what is traced, or too many names ago.
        let now = fs::read_link(format!("/proc/{}/fd/{fd}", Processes::number(pid.0))).ok()?;
        let there = fs::symlink_metadata(&now).ok()?;
        let is_it = (there.dev(), there.ino()) == (id.dev.0, id.ino);
        is_it.then(|| now.as_os_str().as_bytes().into())
    }
}

/// Whether a call's path is empty or missing.
fn names_nothing(call: &RawCall) -> bool {
    call.args[1] == 0 || call.path.as_ref().is_some_and(Vec::is_empty)
}

/// -1 leaves it as it is; the argument is 32 bits wide.
fn owner(argument: u64) -> u64 {
    argument & 0xffff_ffff
}

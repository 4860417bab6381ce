//! Calls that are given names.

use fsage_core::{Fd, FileId, Op, OpFlags, OpKind};
use fsage_namespace::flags::{O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH};

use super::Assembler;
use super::process::Open;
use crate::raw::RawCall;

/// Files remembered as wanted; past that all are forgotten.
const WANTED_LIMIT: usize = 1 << 20;
const AT_SYMLINK_NOFOLLOW: u32 = libc::AT_SYMLINK_NOFOLLOW as u32;
pub(super) const SYS_FCHMODAT2: libc::c_long = 452;
pub(super) const SYS_SETXATTRAT: libc::c_long = 463;
pub(super) const SYS_GETXATTRAT: libc::c_long = 464;
pub(super) const SYS_LISTXATTRAT: libc::c_long = 465;
pub(super) const SYS_REMOVEXATTRAT: libc::c_long = 466;
/// `__O_TMPFILE`: the path names the directory, the file has no name.
const O_TMPFILE_BIT: u32 = 0o20_000_000;

/// How a call names its files.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    dir: Option<i32>,
    dir2: Option<i32>,
    flags: u64,
    offset: Option<u64>,
    length: Option<u64>,
    /// The last component is not followed if it is a symbolic link.
    entry: bool,
}

impl Assembler {
    /// Whether the call was one of these.
    pub(super) fn path_call(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        if self.is_nameless(nr, call) || self.links_descriptor(nr, call) || self.by_handle(nr, call)
        {
            return true;
        }
        let found = changing(nr, call)
            .or_else(|| setting(nr, call))
            .or_else(|| asking(nr, call));
        let Some((kind, shape)) = found else {
            return false;
        };
        let mut op = self.begin(kind, call);
        op.flags = shape.flags as u32;
        (op.offset, op.length) = (shape.offset, shape.length);
        let follows = !shape.entry && !creates_at_link(&op);
        let one = self.name(&mut op, call, shape.dir, false, follows);
        let two = self.name(&mut op, call, shape.dir2, true, false);
        self.identify_name(&mut op, call, shape.entry, one.as_deref());
        if let Some(path) = one.as_deref().filter(|_| !shape.entry && op.result.is_ok()) {
            self.wanted = self.wanted || self.filter.takes_target(path);
        }
        if op.result.is_ok() {
            self.remember(&op, call, one.as_deref(), two.as_deref());
        }
        self.emit(op);
        true
    }

    /// Fills in a path argument and its directory; returns its absolute path. `follows`: a symbolic link at its end is.
    pub(super) fn name(
        &mut self,
        op: &mut Op,
        call: &RawCall,
        mut dir: Option<i32>,
        second: bool,
        follows: bool,
    ) -> Option<Vec<u8>> {
        let given = if second {
            call.path2.as_ref()
        } else {
            call.path.as_ref()
        };
        if call.path_unreadable && given.is_none() && !second {
            op.record |= OpFlags::PATH_UNREADABLE;
        }
        let mut given = given?;
        let is_name = !second || matches!(op.kind, OpKind::Rename | OpKind::Link);
        let found = call.file.as_ref().filter(|_| reports_file(op));
        let own = is_name
            .then(|| self.through_descriptor(op, dir, given, follows, found))
            .flatten();
        let own = own.or_else(|| {
            self.kept_below_root(call.pid, dir, given)
                .filter(|_| is_name)
        });
        if let Some(own) = &own {
            (given, dir) = (own, None);
        }
        let id = self.paths.intern(given);
        if second {
            op.path2 = id;
        } else {
            op.path = id;
            op.fd = dir.filter(|&fd| fd != libc::AT_FDCWD).map(Fd);
        }
        if !is_name {
            return None;
        }
        let resolved = self.resolve(call.pid, dir, given);
        let directory = resolved.directory.and_then(|dir| self.paths.intern(&dir));
        if !second {
            op.dir = directory;
        } else if directory != op.dir {
            op.dir2 = directory;
        }
        resolved.absolute
    }

    /// The file that a name meant when the call began (of an open or stat: when it returned).
    fn identify_name(&mut self, op: &mut Op, call: &RawCall, entry: bool, path: Option<&[u8]>) {
        if reports_file(op)
            && let Some(file) = &call.file
        {
            self.set_file(op, file);
        } else if op.kind == OpKind::Exec {
            op.file = self.programs.remove(&call.pid);
            if let (true, Some(path)) = (op.result.is_ok(), path) {
                self.name_program(call.pid, path);
            }
        } else if let Some(path) = path
            && !creates(op.kind)
        {
            let known = if entry {
                self.names.find_entry(path)
            } else {
                self.names.find(path)
            };
            op.file = known;
            if let Some(id) = known {
                self.wanted |= self.filter.takes_device(id.dev);
            }
        }
    }

    /// What a successful call changed.
    fn remember(&mut self, op: &Op, call: &RawCall, path: Option<&[u8]>, path2: Option<&[u8]>) {
        if op.kind == OpKind::Open {
            self.opened(call.pid, op, path);
        }
        let Some(path) = path else { return };
        let is_dir = op.record.contains(OpFlags::DIRECTORY);
        match op.kind {
            OpKind::Stat => {
                let mode = call.file.map_or(0, |file| file.mode);
                if mode & libc::S_IFMT == libc::S_IFLNK {
                    self.names.set_link(path, op.file);
                } else if let Some(id) = op.file {
                    self.name_is(path, id, is_dir);
                }
            }
            OpKind::Unlink | OpKind::Rmdir => {
                if self.names.is_link(path) {
                    self.filter.links_changed();
                }
                self.names.remove(path);
            }
            OpKind::Mkdir => {
                self.names.remove(path);
                self.names.made_directory(path);
            }
            OpKind::Rename => {
                if let Some(path2) = path2 {
                    self.renamed(op, path, path2);
                }
            }
            OpKind::Link => {
                if let (Some(path2), Some(id)) = (path2, op.file) {
                    self.name_is(path2, id, false);
                }
            }
            OpKind::Symlink => {
                self.filter.links_changed();
                self.names.set_link(path, None);
            }
            OpKind::Readlink if !self.names.is_link(path) => self.names.set_link(path, None),
            OpKind::Chdir => {
                let file = call.file.map(|file| self.identify(&file));
                self.go_to(call.pid, Some(path.into()), file);
            }
            _ => {}
        }
    }

    /// A new descriptor.
    pub(super) fn opened(&mut self, pid: fsage_core::Pid, op: &Op, path: Option<&[u8]>) {
        let Some(fd) = op.result.value() else { return };
        let unnamed = op.flags & O_TMPFILE_BIT != 0;
        if let (Some(path), Some(id), false) = (path, op.file, unnamed) {
            self.name_is(path, id, op.record.contains(OpFlags::DIRECTORY));
        }
        self.meet(pid);
        let open = self.processes.add(Open {
            path: path.map(Into::into),
            file: op.file,
            inherited: false,
            wanted: self.wanted,
            renames: self.renames,
        });
        let on_exec = op.flags & O_CLOEXEC != 0;
        self.processes.install(pid.0, Fd(fd as i32), open, on_exec);
    }

    /// Remembers which file a name is, and whether that file is wanted by it.
    pub(super) fn name_is(&mut self, path: &[u8], id: FileId, is_dir: bool) {
        self.names.set(path, id, is_dir);
        if self.filter.takes_all() {
            return;
        }
        if self.filter.takes_path(path) || self.filter.takes_target(path) {
            if self.wanted_files.len() >= WANTED_LIMIT {
                self.wanted_files.clear();
            }
            self.wanted_files.insert((id.dev.0, id.ino));
        } else {
            // Another file by now, elsewhere.
            self.wanted_files.remove(&(id.dev.0, id.ino));
        }
    }

    /// Whether a file was last seen under a name that is wanted.
    pub(super) fn wants_file(&self, file: FileId) -> bool {
        self.wanted_files.contains(&(file.dev.0, file.ino))
    }
}

/// Whether the call tells the file that its name led to.
fn reports_file(op: &Op) -> bool {
    matches!(op.kind, OpKind::Open | OpKind::Stat) && op.result.is_ok()
}

/// Whether a symbolic link at the end of its name is the file that it is about.
fn creates_at_link(op: &Op) -> bool {
    match op.kind {
        OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink => true,
        OpKind::Open => {
            op.flags & O_NOFOLLOW != 0 || op.flags & O_EXCL != 0 && op.flags & O_CREAT != 0
        }
        _ => false,
    }
}

fn creates(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink | OpKind::Open
    )
}

/// The flags of an open that does what an `open_tree` with these does.
fn tree_flags(flags: u64) -> u64 {
    let close = u64::from(O_CLOEXEC);
    let no_follow = if flags & u64::from(AT_SYMLINK_NOFOLLOW) == 0 {
        0
    } else {
        O_NOFOLLOW
    };
    u64::from(O_PATH | no_follow) | flags & close
}

/// Of `struct xattr_args`: the value's address, then 32 bits of its size.
pub(super) fn value_size(call: &RawCall) -> u64 {
    call.extra[1] & 0xffff_ffff
}

impl Shape {
    /// Names relative to the directory of a descriptor.
    fn at(fd: u64) -> Self {
        Self::default().dir(fd)
    }

    /// Names that are not followed.
    fn entry() -> Self {
        Self::default().unfollowed()
    }

    /// The same, and the operation says so: other calls of its kind follow.
    fn itself() -> Self {
        Self::default().following(AT_SYMLINK_NOFOLLOW.into())
    }

    fn dir(mut self, fd: u64) -> Self {
        self.dir = Some(fd as i32);
        self
    }

    fn dir2(mut self, fd: u64) -> Self {
        self.dir2 = Some(fd as i32);
        self
    }

    fn unfollowed(mut self) -> Self {
        self.entry = true;
        self
    }

    fn flags(mut self, flags: u64) -> Self {
        self.flags = flags;
        self
    }

    fn length(mut self, length: u64) -> Self {
        self.length = Some(length);
        self
    }

    /// -1 leaves the owner as it is; the arguments are 32 bits wide.
    fn owner(mut self, uid: u64, gid: u64) -> Self {
        self.offset = Some(uid & 0xffff_ffff);
        self.length(gid & 0xffff_ffff)
    }

    /// `AT_SYMLINK_NOFOLLOW` or nothing.
    fn following(self, flags: u64) -> Self {
        let flags = flags & u64::from(AT_SYMLINK_NOFOLLOW);
        let shape = self.flags(flags);
        if flags == 0 {
            shape
        } else {
            shape.unfollowed()
        }
    }
}

/// Opens, and calls that make, move or remove a name.
fn changing(nr: libc::c_long, call: &RawCall) -> Option<(OpKind, Shape)> {
    let a = call.args;
    let (plain, entry, at) = (Shape::default(), Shape::entry(), Shape::at(a[0]));
    let entry_at = at.unfollowed();
    let pair = entry_at.dir2(a[2]);
    let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
    Some(match nr {
        libc::SYS_open => (OpKind::Open, plain.flags(a[1])),
        libc::SYS_creat => (OpKind::Open, plain.flags(creat)),
        libc::SYS_openat => (OpKind::Open, at.flags(a[2])),
        libc::SYS_openat2 => (OpKind::Open, at.flags(call.extra[0])),
        // What it opens names files and has no data.
        libc::SYS_open_tree => (OpKind::Open, at.flags(tree_flags(a[2]))),
        libc::SYS_unlink => (OpKind::Unlink, entry),
        libc::SYS_unlinkat if a[2] & libc::AT_REMOVEDIR as u64 != 0 => (OpKind::Rmdir, entry_at),
        libc::SYS_unlinkat => (OpKind::Unlink, entry_at),
        libc::SYS_rmdir => (OpKind::Rmdir, entry),
        libc::SYS_rename => (OpKind::Rename, entry),
        libc::SYS_renameat => (OpKind::Rename, pair),
        libc::SYS_renameat2 => (OpKind::Rename, pair.flags(a[4])),
        libc::SYS_mkdir => (OpKind::Mkdir, plain.flags(a[1])),
        libc::SYS_mkdirat => (OpKind::Mkdir, at.flags(a[2])),
        libc::SYS_mknod => (OpKind::Mknod, plain.flags(a[1])),
        libc::SYS_mknodat => (OpKind::Mknod, at.flags(a[2])),
        libc::SYS_link => (OpKind::Link, entry),
        libc::SYS_linkat if a[4] & libc::AT_SYMLINK_FOLLOW as u64 != 0 => {
            (OpKind::Link, at.dir2(a[2]).flags(a[4]))
        }
        libc::SYS_linkat => (OpKind::Link, pair.flags(a[4])),
        libc::SYS_symlink => (OpKind::Symlink, plain),
        libc::SYS_symlinkat => (OpKind::Symlink, plain.dir(a[1])),
        _ => return None,
    })
}

/// Calls that change what is behind a name.
fn setting(nr: libc::c_long, call: &RawCall) -> Option<(OpKind, Shape)> {
    let a = call.args;
    let (plain, itself, at) = (Shape::default(), Shape::itself(), Shape::at(a[0]));
    Some(match nr {
        libc::SYS_truncate => (OpKind::Truncate, plain.length(a[1])),
        libc::SYS_chmod => (OpKind::Chmod, plain.flags(a[1])),
        libc::SYS_fchmodat | SYS_FCHMODAT2 => (OpKind::Chmod, at.flags(a[2])),
        libc::SYS_chown => (OpKind::Chown, plain.owner(a[1], a[2])),
        libc::SYS_lchown => (OpKind::Chown, itself.owner(a[1], a[2])),
        libc::SYS_fchownat => (OpKind::Chown, at.following(a[4]).owner(a[2], a[3])),
        libc::SYS_utime | libc::SYS_utimes => (OpKind::Utimens, plain),
        libc::SYS_futimesat => (OpKind::Utimens, at),
        libc::SYS_utimensat => (OpKind::Utimens, at.following(a[3])),
        libc::SYS_setxattr => (OpKind::Setxattr, plain.length(a[3])),
        libc::SYS_lsetxattr => (OpKind::Setxattr, itself.length(a[3])),
        SYS_SETXATTRAT => {
            let shape = at.following(a[2]);
            (OpKind::Setxattr, shape.length(value_size(call)))
        }
        SYS_REMOVEXATTRAT => (OpKind::Removexattr, at.following(a[2])),
        libc::SYS_removexattr => (OpKind::Removexattr, plain),
        libc::SYS_lremovexattr => (OpKind::Removexattr, itself),
        _ => return None,
    })
}

/// Calls that only ask.
fn asking(nr: libc::c_long, call: &RawCall) -> Option<(OpKind, Shape)> {
    let a = call.args;
    let (plain, entry, at) = (Shape::default(), Shape::entry(), Shape::at(a[0]));
    let itself = Shape::itself();
    Some(match nr {
        libc::SYS_stat => (OpKind::Stat, plain),
        libc::SYS_lstat => (OpKind::Stat, itself),
        libc::SYS_newfstatat => (OpKind::Stat, at.following(a[3])),
        libc::SYS_statx => (OpKind::Stat, at.following(a[2])),
        libc::SYS_access => (OpKind::Access, plain.flags(a[1])),
        libc::SYS_faccessat | libc::SYS_faccessat2 => (OpKind::Access, at.flags(a[2])),
        libc::SYS_readlink => (OpKind::Readlink, entry.length(a[2])),
        libc::SYS_readlinkat => (OpKind::Readlink, at.unfollowed().length(a[3])),
        libc::SYS_statfs => (OpKind::Statfs, plain),
        libc::SYS_getxattr => (OpKind::Getxattr, plain.length(a[3])),
        libc::SYS_lgetxattr => (OpKind::Getxattr, itself.length(a[3])),
        SYS_GETXATTRAT => {
            let shape = at.following(a[2]);
            (OpKind::Getxattr, shape.length(value_size(call)))
        }
        SYS_LISTXATTRAT => (OpKind::Listxattr, at.following(a[2]).length(a[4])),
        libc::SYS_listxattr => (OpKind::Listxattr, plain.length(a[2])),
        libc::SYS_llistxattr => (OpKind::Listxattr, itself.length(a[2])),
        libc::SYS_chdir => (OpKind::Chdir, plain),
        libc::SYS_execve => (OpKind::Exec, plain),
        libc::SYS_execveat => (OpKind::Exec, at),
        _ => return None,
    })
}

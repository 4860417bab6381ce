//! Calls that are given names.

use fsage_core::{Fd, FileId, Op, OpFlags, OpKind};

use super::Assembler;
use super::process::Open;
use crate::raw::RawCall;

const AT_EMPTY_PATH: u64 = 0x1000;
const AT_SYMLINK_NOFOLLOW: u32 = libc::AT_SYMLINK_NOFOLLOW as u32;
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
        if self.is_nameless(nr, call) {
            return true;
        }
        let found = changing(nr, call).or_else(|| asking(nr, call));
        let Some((kind, shape)) = found else {
            return false;
        };
        let mut op = self.begin(kind, call);
        op.flags = shape.flags as u32;
        (op.offset, op.length) = (shape.offset, shape.length);
        let one = self.name(&mut op, call, shape.dir, false);
        let two = self.name(&mut op, call, shape.dir2, true);
        self.identify_name(&mut op, call, shape.entry, one.as_deref());
        if op.result.is_ok() {
            self.remember(&op, call, one.as_deref(), two.as_deref());
        }
        self.emit(op);
        true
    }

    /// Calls that take a path but were given none: they act on the descriptor.
    fn is_nameless(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        let flags = match nr {
            libc::SYS_newfstatat => call.args[3],
            libc::SYS_statx => call.args[2],
            libc::SYS_utimensat => AT_EMPTY_PATH,
            _ => return false,
        };
        let none = call.args[1] == 0 || call.path.as_ref().is_some_and(Vec::is_empty);
        if !none || flags & AT_EMPTY_PATH == 0 {
            return false;
        }
        let kind = if nr == libc::SYS_utimensat {
            OpKind::Futimens
        } else {
            OpKind::Fstat
        };
        let op = self.begin_fd(kind, call, call.args[0], call.file.as_ref());
        self.emit(op);
        true
    }

    /// Fills in a path argument and its directory; returns its absolute path.
    fn name(
        &mut self,
        op: &mut Op,
        call: &RawCall,
        dir: Option<i32>,
        second: bool,
    ) -> Option<Vec<u8>> {
        let given = if second {
            call.path2.as_ref()
        } else {
            call.path.as_ref()
        };
        if call.path_unreadable && given.is_none() && !second {
            op.record |= OpFlags::PATH_UNREADABLE;
        }
        let given = given?;
        let is_name = !second || matches!(op.kind, OpKind::Rename | OpKind::Link);
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
        let told = matches!(op.kind, OpKind::Open | OpKind::Stat) && op.result.is_ok();
        if told && let Some(file) = &call.file {
            self.set_file(op, file);
        } else if op.kind == OpKind::Exec {
            op.file = self.programs.remove(&call.pid);
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
                    self.names.set(path, id, is_dir);
                }
            }
            OpKind::Unlink | OpKind::Rmdir => self.names.remove(path),
            OpKind::Mkdir => {
                self.names.remove(path);
                self.names.made_directory(path);
            }
            OpKind::Rename => {
                if let Some(path2) = path2 {
                    self.names.rename(path, path2);
                }
            }
            OpKind::Link => {
                if let (Some(path2), Some(id)) = (path2, op.file) {
                    self.names.set(path2, id, false);
                }
            }
            OpKind::Symlink => self.names.set_link(path, None),
            OpKind::Readlink if !self.names.is_link(path) => self.names.set_link(path, None),
            OpKind::Chdir => {
                *self.process(call.pid).directory.borrow_mut() = Some(path.into());
            }
            _ => {}
        }
    }

    /// A new descriptor.
    pub(super) fn opened(&mut self, pid: fsage_core::Pid, op: &Op, path: Option<&[u8]>) {
        let Some(fd) = op.result.value() else { return };
        let unnamed = op.flags & O_TMPFILE_BIT != 0;
        if let (Some(path), Some(id), false) = (path, op.file, unnamed) {
            self.names
                .set(path, id, op.record.contains(OpFlags::DIRECTORY));
        }
        let open = Open {
            path: path.map(Into::into),
            file: op.file,
            cloexec: op.flags & libc::O_CLOEXEC as u32 != 0,
            inherited: false,
        };
        self.process(pid)
            .descriptors
            .borrow_mut()
            .insert(fd as i32, open);
    }

    /// Whether a file is known under a name that is wanted.
    pub(super) fn wants_file(&self, file: FileId) -> bool {
        !self.filter.takes_all()
            && self
                .names
                .has_file_where(file, |path| self.filter.takes_path(path))
    }
}

fn creates(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink | OpKind::Open
    )
}

/// Calls that change a name or what is behind it, and opens.
fn changing(nr: libc::c_long, call: &RawCall) -> Option<(OpKind, Shape)> {
    let a = call.args;
    let at = Shape {
        dir: Some(a[0] as i32),
        ..Shape::default()
    };
    let plain = Shape::default();
    let entry = Shape {
        entry: true,
        ..plain
    };
    let entry_at = Shape { entry: true, ..at };
    let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
    let pair = Shape {
        dir2: Some(a[2] as i32),
        ..entry_at
    };
    Some(match nr {
        libc::SYS_open => (
            OpKind::Open,
            Shape {
                flags: a[1],
                ..plain
            },
        ),
        libc::SYS_creat => (
            OpKind::Open,
            Shape {
                flags: creat,
                ..plain
            },
        ),
        libc::SYS_openat => (OpKind::Open, Shape { flags: a[2], ..at }),
        libc::SYS_openat2 => (
            OpKind::Open,
            Shape {
                flags: call.extra[0],
                ..at
            },
        ),
        libc::SYS_unlink => (OpKind::Unlink, entry),
        libc::SYS_unlinkat if a[2] & libc::AT_REMOVEDIR as u64 != 0 => (OpKind::Rmdir, entry_at),
        libc::SYS_unlinkat => (OpKind::Unlink, entry_at),
        libc::SYS_rmdir => (OpKind::Rmdir, entry),
        libc::SYS_rename => (OpKind::Rename, entry),
        libc::SYS_renameat => (OpKind::Rename, pair),
        libc::SYS_renameat2 => (
            OpKind::Rename,
            Shape {
                flags: a[4],
                ..pair
            },
        ),
        libc::SYS_mkdir => (
            OpKind::Mkdir,
            Shape {
                flags: a[1],
                ..plain
            },
        ),
        libc::SYS_mkdirat => (OpKind::Mkdir, Shape { flags: a[2], ..at }),
        libc::SYS_mknod => (
            OpKind::Mknod,
            Shape {
                flags: a[1],
                ..plain
            },
        ),
        libc::SYS_mknodat => (OpKind::Mknod, Shape { flags: a[2], ..at }),
        libc::SYS_link => (OpKind::Link, entry),
        libc::SYS_linkat => (
            OpKind::Link,
            Shape {
                flags: a[4],
                ..pair
            },
        ),
        libc::SYS_symlink => (OpKind::Symlink, plain),
        libc::SYS_symlinkat => (
            OpKind::Symlink,
            Shape {
                dir: Some(a[1] as i32),
                ..plain
            },
        ),
        libc::SYS_truncate => (
            OpKind::Truncate,
            Shape {
                length: Some(a[1]),
                ..plain
            },
        ),
        libc::SYS_chmod => (
            OpKind::Chmod,
            Shape {
                flags: a[1],
                ..plain
            },
        ),
        // 452: fchmodat2
        libc::SYS_fchmodat | 452 => (OpKind::Chmod, Shape { flags: a[2], ..at }),
        libc::SYS_chown => (OpKind::Chown, owner(a[1], a[2], plain)),
        libc::SYS_lchown => (OpKind::Chown, owner(a[1], a[2], entry)),
        libc::SYS_fchownat => (OpKind::Chown, owner(a[2], a[3], at)),
        libc::SYS_utime | libc::SYS_utimes => (OpKind::Utimens, plain),
        libc::SYS_futimesat | libc::SYS_utimensat => (OpKind::Utimens, at),
        libc::SYS_setxattr => (
            OpKind::Setxattr,
            Shape {
                length: Some(a[3]),
                ..plain
            },
        ),
        libc::SYS_lsetxattr => (
            OpKind::Setxattr,
            Shape {
                length: Some(a[3]),
                ..entry
            },
        ),
        libc::SYS_removexattr => (OpKind::Removexattr, plain),
        libc::SYS_lremovexattr => (OpKind::Removexattr, entry),
        _ => return None,
    })
}

fn owner(uid: u64, gid: u64, shape: Shape) -> Shape {
    // -1 leaves the owner as it is; the arguments are 32 bits wide.
    Shape {
        offset: Some(uid & 0xffff_ffff),
        length: Some(gid & 0xffff_ffff),
        ..shape
    }
}

/// Calls that only ask.
fn asking(nr: libc::c_long, call: &RawCall) -> Option<(OpKind, Shape)> {
    let a = call.args;
    let at = Shape {
        dir: Some(a[0] as i32),
        ..Shape::default()
    };
    let plain = Shape::default();
    let entry = Shape {
        entry: true,
        ..plain
    };
    let follow = |flags: u64| {
        let flags = flags as u32 & AT_SYMLINK_NOFOLLOW;
        Shape {
            flags: flags.into(),
            entry: flags != 0,
            ..at
        }
    };
    let lstat = Shape {
        flags: AT_SYMLINK_NOFOLLOW.into(),
        ..entry
    };
    Some(match nr {
        libc::SYS_stat => (OpKind::Stat, plain),
        libc::SYS_lstat => (OpKind::Stat, lstat),
        libc::SYS_newfstatat => (OpKind::Stat, follow(a[3])),
        libc::SYS_statx => (OpKind::Stat, follow(a[2])),
        libc::SYS_access => (
            OpKind::Access,
            Shape {
                flags: a[1],
                ..plain
            },
        ),
        libc::SYS_faccessat | libc::SYS_faccessat2 => (OpKind::Access, Shape { flags: a[2], ..at }),
        libc::SYS_readlink => (
            OpKind::Readlink,
            Shape {
                length: Some(a[2]),
                ..entry
            },
        ),
        libc::SYS_readlinkat => (
            OpKind::Readlink,
            Shape {
                length: Some(a[3]),
                entry: true,
                ..at
            },
        ),
        libc::SYS_statfs => (OpKind::Statfs, plain),
        libc::SYS_getxattr => (
            OpKind::Getxattr,
            Shape {
                length: Some(a[3]),
                ..plain
            },
        ),
        libc::SYS_lgetxattr => (
            OpKind::Getxattr,
            Shape {
                length: Some(a[3]),
                ..entry
            },
        ),
        libc::SYS_listxattr => (
            OpKind::Listxattr,
            Shape {
                length: Some(a[2]),
                ..plain
            },
        ),
        libc::SYS_llistxattr => (
            OpKind::Listxattr,
            Shape {
                length: Some(a[2]),
                ..entry
            },
        ),
        libc::SYS_chdir => (OpKind::Chdir, plain),
        libc::SYS_execve => (OpKind::Exec, plain),
        libc::SYS_execveat => (OpKind::Exec, at),
        _ => return None,
    })
}

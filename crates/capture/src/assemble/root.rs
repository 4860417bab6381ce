//! Processes whose absolute paths start elsewhere: chroot(2), pivot_root(2).
//!
//! A trace has everybody's paths: what `/etc/passwd` means to a process whose root is `/srv/new` is
//! `/srv/new/etc/passwd` in it. So a package manager that installs below a root of its own, or a build in a tree of
//! its own, is traced, filtered, predicted and replayed by the same rules as all others.
//!
//! Directories that are mounted a second time are no names of the first: that it happened is counted.

use std::rc::Rc;

use fsage_core::Pid;
use fsage_namespace::flags::RESOLVE_IN_ROOT;
use fsage_namespace::path::{below_directory, below_root, beneath, join};

use super::Assembler;
use super::process::Place;
use crate::raw::RawCall;

impl Assembler {
    /// Makes the absolute paths of a call everybody's.
    pub(super) fn everybodys_paths(&mut self, call: &mut RawCall) {
        let is_openat2 = libc::c_long::from(call.nr) == libc::SYS_openat2;
        if is_openat2 && call.extra[1] & RESOLVE_IN_ROOT != 0 {
            // The directory is this call's root.
            call.path = call.path.take().map(|path| below_directory(&path));
            return;
        }
        let names = [call.path.as_ref(), call.path2.as_ref()];
        if !names.into_iter().flatten().any(|path| is_absolute(path)) {
            return;
        }
        let pid = call.pid;
        call.path = call.path.take().map(|path| self.in_root_of(pid, path));
        // The second one may be an attribute's name or a link's text, which stay as they are.
        if matches!(
            libc::c_long::from(call.nr),
            libc::SYS_rename
                | libc::SYS_renameat
                | libc::SYS_renameat2
                | libc::SYS_link
                | libc::SYS_linkat
        ) {
            call.path2 = call.path2.take().map(|path| self.in_root_of(pid, path));
        }
    }

    /// A path as everybody gives it.
    pub(super) fn in_root_of(&mut self, pid: Pid, path: Vec<u8>) -> Vec<u8> {
        if !is_absolute(&path) {
            return path;
        }
        self.meet(pid);
        match self.root_of(pid) {
            Some(root) => below_root(&root, &path),
            None => path,
        }
    }

    /// A relative path of a process with a root of its own that leads above that, where `..` is the root itself; absolute.
    pub(super) fn kept_below_root(
        &mut self,
        pid: Pid,
        dir: Option<i32>,
        path: &[u8],
    ) -> Option<Vec<u8>> {
        let mut parts = path.split(|&byte| byte == b'/');
        if is_absolute(path) || !parts.any(|part| part == b"..") {
            return None;
        }
        let root = self.root_of(pid)?;
        let directory = match dir {
            Some(fd) if fd != libc::AT_FDCWD => self.directory_of(pid, fd)?,
            _ => self.working_directory(pid)?,
        };
        let below = beneath(&directory, &root)?;
        let leaves = beneath(&join(&directory, path), &root).is_none();
        leaves.then(|| below_root(&root, &join(&[b"/", below].concat(), path)))
    }

    /// Whether the call was one of those that change what absolute paths start from. They are no operations.
    pub(super) fn root_call(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        let again = match nr {
            libc::SYS_setns => {
                self.namespace_changed(call);
                return true;
            }
            libc::SYS_unshare => {
                self.unshared(call);
                return true;
            }
            libc::SYS_chroot | libc::SYS_pivot_root => false,
            libc::SYS_mount => call.args[3] & (libc::MS_BIND | libc::MS_MOVE) != 0,
            libc::SYS_move_mount => true,
            _ => return false,
        };
        self.mounted_again += u64::from(again && call.result == 0);
        let Some(path) = call.path.as_deref().filter(|_| call.result == 0) else {
            return true;
        };
        if let Some(new) = self.resolve(call.pid, None, path).absolute {
            let place = self.processes.directory(call.pid.0);
            let place = Place {
                root: Some(Rc::from(new)).filter(|root: &Rc<[u8]>| **root != *b"/"),
                ..place.cloned().unwrap_or_default()
            };
            self.processes.set_directory(call.pid.0, place);
        }
        true
    }
}

fn is_absolute(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
}

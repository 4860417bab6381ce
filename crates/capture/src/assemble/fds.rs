//! Calls on descriptors that move no data.

use fsage_core::lock::{fcntl_lock_flags, flock_flags};
use fsage_core::{CLOSE_BY_DUP, Fd, FileId, OpFlags, OpKind, Outcome};
use fsage_namespace::flags::CLONE_FILES;
use fsage_namespace::pending::is_another;

use super::Assembler;
use super::process::Open;
use crate::raw::RawCall;

const CLOSE_RANGE_UNSHARE: u64 = 2;
const CLOSE_RANGE_CLOEXEC: u64 = 4;

impl Assembler {
    /// Whether the call was one of these.
    pub(super) fn descriptor(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        match nr {
            libc::SYS_close => self.close(call),
            libc::SYS_close_range => self.close_range(call),
            libc::SYS_dup | libc::SYS_dup2 => self.dup(call, false),
            libc::SYS_dup3 => self.dup(call, call.args[2] & libc::O_CLOEXEC as u64 != 0),
            libc::SYS_fcntl => self.fcntl(call),
            libc::SYS_fchdir => self.fchdir(call),
            libc::SYS_sync => {
                let op = self.begin(OpKind::Sync, call);
                self.wanted = true;
                self.emit(op);
            }
            _ => return self.plain(nr, call),
        }
        true
    }

    /// The calls that leave no trace in the tables.
    fn plain(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        let [fd, one, two, three, ..] = call.args;
        let (kind, offset, length, flags) = match nr {
            libc::SYS_lseek => (OpKind::Seek, Some(one), None, two),
            libc::SYS_fstat => (OpKind::Fstat, None, None, 0),
            libc::SYS_fstatfs => (OpKind::Fstatfs, None, None, 0),
            libc::SYS_ftruncate => (OpKind::Ftruncate, None, Some(one), 0),
            libc::SYS_fallocate => (OpKind::Fallocate, Some(two), Some(three), one),
            libc::SYS_getdents | libc::SYS_getdents64 => (OpKind::Readdir, None, Some(two), 0),
            libc::SYS_fsync => (OpKind::Fsync, None, None, 0),
            libc::SYS_fdatasync => (OpKind::Fdatasync, None, None, 0),
            libc::SYS_syncfs => (OpKind::Syncfs, None, None, 0),
            libc::SYS_sync_file_range => (OpKind::SyncFileRange, Some(one), Some(two), three),
            libc::SYS_fchmod => (OpKind::Fchmod, None, None, one),
            libc::SYS_fchown => (OpKind::Fchown, Some(one), Some(two), 0),
            libc::SYS_flock => (OpKind::Lock, None, None, flock_flags(one as u32).into()),
            libc::SYS_fadvise64 => (OpKind::Advise, Some(one), Some(two), three),
            libc::SYS_readahead => (
                OpKind::Advise,
                Some(one),
                Some(two),
                libc::POSIX_FADV_WILLNEED as u64,
            ),
            libc::SYS_fsetxattr => (OpKind::Setxattr, None, Some(three), call.args[4]),
            libc::SYS_fgetxattr => (OpKind::Getxattr, None, Some(three), 0),
            libc::SYS_flistxattr => (OpKind::Listxattr, None, Some(two), 0),
            libc::SYS_fremovexattr => (OpKind::Removexattr, None, None, 0),
            _ => return false,
        };
        let mut op = self.begin_fd(kind, call, fd, call.file.as_ref());
        (op.offset, op.length, op.flags) = (offset, length, flags as u32);
        if let Some(name) = &call.path2 {
            op.path2 = self.paths.intern(name);
        }
        self.emit(op);
        true
    }

    fn close(&mut self, call: &RawCall) {
        let op = self.begin_fd(OpKind::Close, call, call.args[0], call.file.as_ref());
        let fd = call.args[0] as i32;
        // Gone even where close reports an error (close(2), "Dealing with error returns").
        if !self.is_given_again(call) {
            self.processes.close(call.pid.0, Fd(fd));
        }
        if call.file.is_some() || call.result < 0 {
            self.emit(op);
        }
    }

    /// Whether the number that a close has freed is another file's by now: calls are told as they end, and one that was
    /// given it ended first.
    fn is_given_again(&mut self, call: &RawCall) -> bool {
        let closed = call.file.map(|file| FileId {
            dev: self.devices.shown(file.dev),
            ino: file.ino,
            generation: file.generation,
        });
        let fd = Fd(call.args[0] as i32);
        let open = self.processes.description(call.pid.0, fd);
        is_another(open.and_then(|open| open.file), closed)
    }

    fn close_range(&mut self, call: &RawCall) {
        let [first, last, flags, ..] = call.args;
        if call.result != 0 {
            return;
        }
        self.meet(call.pid);
        let own;
        let call = if flags & CLOSE_RANGE_UNSHARE != 0 {
            let pid = self.unshare(call, CLONE_FILES);
            own = RawCall {
                pid,
                ..call.clone()
            };
            &own
        } else {
            call
        };
        let process = call.pid.0;
        let mut hit = self.processes.descriptors(process);
        hit.retain(|fd| (first..=last).contains(&(fd.0 as u64)));
        if flags & CLOSE_RANGE_CLOEXEC != 0 {
            for fd in hit {
                self.processes.set_close_on_exec(process, fd, true);
            }
            return;
        }
        let mut latency_ns = Some(call.latency_ns);
        for fd in hit {
            (self.wanted, self.unknown) = (self.filter.takes_all(), false);
            let mut op = self.begin_fd(OpKind::Close, call, fd.0 as u64, None);
            let open = self.processes.description(process, fd);
            op.file = open.and_then(|open| open.file);
            self.processes.close(process, fd);
            // One call closed them all; its time is told once.
            op.latency_ns = Some(latency_ns.take().unwrap_or(0));
            if op.file.is_some() {
                self.emit(op);
            }
        }
    }

    /// A descriptor of a file outside of what is traced takes the place of one within, which that closes: shells do so
    /// after each redirected command.
    fn replaced(&mut self, call: &RawCall, new: Fd) {
        let dup = (self.wanted, self.unknown);
        (self.wanted, self.unknown) = (self.filter.takes_all(), false);
        let mut op = self.begin_fd(OpKind::Close, call, new.0 as u64, None);
        let open = self.processes.description(call.pid.0, new);
        (op.file, op.result) = (open.and_then(|open| open.file), Outcome::from_raw(0));
        op.flags = CLOSE_BY_DUP;
        if op.file.is_some() {
            self.emit(op);
        }
        (self.wanted, self.unknown) = dup;
    }

    fn dup(&mut self, call: &RawCall, cloexec: bool) {
        let mut op = self.begin_fd(OpKind::Dup, call, call.args[0], call.file.as_ref());
        op.result = Outcome::from_raw(call.result);
        if let (Some(new), Some(old)) = (op.result.value(), op.fd)
            && new != old.0 as u64
        {
            let (process, new) = (call.pid.0, Fd(new as i32));
            if !self.wanted || op.record.contains(OpFlags::NOT_A_FILE) {
                self.replaced(call, new);
            }
            if self.processes.open_of(process, old).is_some() {
                self.processes.dup(process, old, new, cloexec);
            } else {
                let open = self.processes.add(Open {
                    path: None,
                    file: op.file,
                    inherited: false,
                    wanted: false,
                    renames: self.renames,
                });
                self.processes.install(process, new, open, cloexec);
            }
        }
        self.emit(op);
    }

    fn fcntl(&mut self, call: &RawCall) {
        let [fd, command, argument, ..] = call.args;
        match command as i32 {
            libc::F_DUPFD => self.dup(call, false),
            libc::F_DUPFD_CLOEXEC => self.dup(call, true),
            libc::F_SETFD if call.result >= 0 => {
                self.meet(call.pid);
                let value = argument & libc::FD_CLOEXEC as u64 != 0;
                let fd = Fd(fd as i32);
                self.processes.set_close_on_exec(call.pid.0, fd, value);
            }
            libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW => {
                let mut op = self.begin_fd(OpKind::Lock, call, fd, call.file.as_ref());
                op.offset = Some(call.extra[0]);
                op.length = Some(call.extra[1]);
                // l_type and l_whence, in the low half.
                let lock =
                    (argument >> 32 == 0).then_some((argument as u16, (argument >> 16) as u16));
                op.flags = fcntl_lock_flags(command as u32, lock);
                self.emit(op);
            }
            _ => {}
        }
    }

    fn fchdir(&mut self, call: &RawCall) {
        let mut op = self.begin_fd(OpKind::Fchdir, call, call.args[0], call.file.as_ref());
        let path = self.directory_of(call.pid, call.args[0] as i32);
        if call.result == 0 {
            self.go_to(call.pid, path.clone(), op.file);
        }
        // A later relative path starts here, so the operation tells where that is.
        op.path = path.and_then(|path| self.paths.intern(&path));
        self.emit(op);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::raw::{RawEvent, RawFile};
    use fsage_core::{Pid, Tid};

    /// Calls come as they end.
    #[test]
    fn a_close_that_ends_late_leaves_its_number_to_who_was_given_it() {
        let pid = Pid(1 << 30);
        let mut assembler = Assembler::new(0, &[]).unwrap();
        let mut take = |nr: libc::c_long, thread, start_ns, ino| {
            let file = RawFile {
                ino,
                mode: libc::S_IFREG,
                ..RawFile::default()
            };
            let opens = nr == libc::SYS_openat;
            let first = if opens { libc::AT_FDCWD as u64 } else { 3 };
            assembler.take(RawEvent::Call(Box::new(RawCall {
                nr: nr as u32,
                pid,
                tid: Tid(thread),
                start_ns,
                args: [first, 0, 0, 0, 0, 0],
                result: if opens { 3 } else { 0 },
                file: Some(file),
                path: opens.then(|| format!("/w/{ino}").into_bytes()),
                ..RawCall::default()
            })));
            let open = assembler.processes.description(pid.0, Fd(3));
            open.and_then(|open| open.file).map(|file| file.ino)
        };
        assert_eq!(take(libc::SYS_openat, 1, 0, 7), Some(7));
        assert_eq!(take(libc::SYS_openat, 2, 20, 8), Some(8));
        assert_eq!(take(libc::SYS_close, 1, 10, 7), Some(8));
        assert_eq!(take(libc::SYS_close, 2, 30, 8), None);
    }
}

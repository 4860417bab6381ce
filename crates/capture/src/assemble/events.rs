//! Events that are no system calls: processes, page faults, io_uring.

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, Pid, Tid};
use fsage_namespace::flags::O_NOFOLLOW;

use super::Assembler;
use crate::raw::{RawEvent, RawFile, uring};

const FSYNC_DATASYNC: u32 = 1;

/// The parts of [`RawEvent::Uring`].
struct Request {
    opcode: u8,
    offset: u64,
    length: u64,
    flags: u32,
    file: Option<RawFile>,
    fd: Option<i32>,
    path: Option<Vec<u8>>,
}

impl Assembler {
    pub(super) fn event(&mut self, event: RawEvent) {
        match event {
            RawEvent::Fork {
                at_ns,
                pid,
                tid,
                child_pid,
                child_tid,
                clone_flags,
            } => {
                let mut op = self.instant(OpKind::Fork, at_ns, pid, tid);
                op.result = Outcome::ok(child_tid.0.into());
                op.flags = clone_flags as u32;
                op.length = Some(child_pid.0.into());
                self.forked((pid, tid), (child_pid, child_tid), op.flags);
                self.emit(op);
                self.waits.fork(tid, child_tid);
            }
            RawEvent::Exec { pid, tid, file, .. } => {
                self.meet(pid);
                self.processes.exec_by(pid.0, tid.0);
                self.threads.remove(&pid);
                if let Some(file) = file {
                    let id = self.identify(&file);
                    self.programs.insert(pid, id);
                }
            }
            RawEvent::Exit {
                at_ns,
                pid,
                tid,
                last,
                code,
            } => {
                let mut op = self.instant(OpKind::Exit, at_ns, pid, tid);
                op.length = Some(last.into());
                op.result = Outcome::ok(exit_status(code) as u64);
                self.emit(op);
                self.ended(pid, tid, last);
                self.waits.exit(tid);
            }
            RawEvent::Wake { at_ns, tid, woken } => {
                self.waits.wake(self.since_start(at_ns), tid, woken);
            }
            RawEvent::Away {
                from_ns,
                back_ns,
                woken_ns,
                by_watched,
                tid,
            } => {
                let from_ns = self.since_start(from_ns);
                let woken_ns = woken_ns.map(|ns| self.since_start(ns));
                let back_ns = self.since_start(back_ns);
                self.waits.away(tid, from_ns, woken_ns, back_ns, by_watched);
            }
            RawEvent::Moved => self.renames = self.renames.wrapping_add(1),
            event => self.request_or_fault(event),
        }
    }

    fn request_or_fault(&mut self, event: RawEvent) {
        match event {
            RawEvent::Fault {
                at_ns,
                latency_ns,
                pid,
                tid,
                file,
                page,
                write,
                pages_missed,
                pages_ahead,
            } => {
                let task = self.task_of(pid, tid);
                let mut op = self.instant(OpKind::Fault, at_ns, task, tid);
                op.latency_ns = latency_ns;
                self.fault(op, &file, page, write, pages_missed, pages_ahead);
            }
            RawEvent::Uring {
                start_ns,
                latency_ns,
                pid,
                tid,
                opcode,
                result,
                file,
                fd,
                offset,
                length,
                flags,
                path,
            } => {
                let pid = self.task_of(pid, tid);
                let mut op = self.instant(OpKind::Read, start_ns, pid, tid);
                op.record = OpFlags::URING;
                op.latency_ns = Some(latency_ns);
                op.result = Outcome::from_raw(result.into());
                let path = path.map(|path| self.in_root_of(pid, path));
                let request = Request {
                    opcode,
                    offset,
                    length,
                    flags,
                    file,
                    fd,
                    path,
                };
                self.request(op, &request);
            }
            _ => {}
        }
    }

    /// What has a time but no call; always wanted, unless it says otherwise later.
    fn instant(&mut self, kind: OpKind, at_ns: u64, pid: Pid, tid: Tid) -> Op {
        self.wanted = true;
        self.unknown = false;
        Op::new(kind, pid, tid, self.since_start(at_ns))
    }

    fn request(&mut self, mut op: Op, request: &Request) {
        self.wanted = self.filter.takes_all();
        op.kind = match request.opcode {
            uring::READ | uring::READV | uring::READ_FIXED | uring::READV_FIXED => OpKind::Read,
            uring::WRITE | uring::WRITEV | uring::WRITE_FIXED | uring::WRITEV_FIXED => {
                OpKind::Write
            }
            uring::FSYNC if request.flags & FSYNC_DATASYNC != 0 => OpKind::Fdatasync,
            uring::FSYNC => OpKind::Fsync,
            uring::OPENAT | uring::OPENAT2 => OpKind::Open,
            uring::CLOSE => OpKind::Close,
            _ => return,
        };
        match op.kind {
            OpKind::Open => return self.open_request(op, request),
            OpKind::Close => {
                let fd = request.offset as i32;
                self.set_descriptor(&mut op, fd, request.file.as_ref());
                self.processes.close(op.pid.0, Fd(fd));
                return self.emit(op);
            }
            _ => {}
        }
        match (request.fd, &request.file) {
            (Some(fd), file) => self.set_descriptor(&mut op, fd, file.as_ref()),
            (None, Some(file)) => self.set_registered(&mut op, file),
            (None, None) => {}
        }
        if let Some(id) = op.file {
            self.wanted |= self.wants_file(id);
        }
        if matches!(op.kind, OpKind::Read | OpKind::Write) {
            place_request(&mut op, request);
        }
        self.emit(op);
    }

    /// The file of a request to what was registered with its ring: its descriptor may have been closed, so the file
    /// alone tells which it is.
    pub(super) fn set_registered(&mut self, op: &mut Op, file: &RawFile) {
        self.set_file(op, file);
        if let Some(id) = op.file {
            self.wanted |= self.wants_file(id);
        }
        // It was looked at when the request was done, and may have another size by it.
        op.size_bytes = op.size_bytes.filter(|_| !resizes(op.kind));
    }

    fn open_request(&mut self, mut op: Op, request: &Request) {
        op.flags = request.flags;
        let mut dir = request.offset as i32;
        let mut absolute = None;
        if let Some(path) = &request.path {
            let follows = op.flags & O_NOFOLLOW == 0;
            let found = request.file.as_ref().filter(|_| op.result.is_ok());
            let own = self.through_descriptor(&op, Some(dir), path, follows, found);
            if own.is_some() {
                dir = libc::AT_FDCWD;
            }
            let path = own.as_ref().unwrap_or(path);
            op.path = self.paths.intern(path);
            let resolved = self.resolve(op.pid, Some(dir), path);
            op.dir = resolved.directory.and_then(|dir| self.paths.intern(&dir));
            absolute = resolved.absolute;
        }
        op.fd = (dir != libc::AT_FDCWD).then_some(Fd(dir));
        if op.result.is_ok() {
            if let Some(file) = &request.file {
                self.set_file(&mut op, file);
            }
            self.opened(op.pid, &op, absolute.as_deref());
        }
        self.emit(op);
    }
}

fn resizes(kind: OpKind) -> bool {
    matches!(kind, OpKind::Write | OpKind::Fallocate | OpKind::Ftruncate)
}

fn place_request(op: &mut Op, request: &Request) {
    let vector = matches!(
        request.opcode,
        uring::READV | uring::WRITEV | uring::READV_FIXED | uring::WRITEV_FIXED
    );
    // Of a vector only the number of buffers is known, so what was moved stands for it.
    op.length = if vector {
        op.result.value()
    } else {
        Some(request.length)
    };
    if request.offset == u64::MAX {
        op.offset = request.file.map(|file| file.position);
        op.record |= OpFlags::IMPLICIT_OFFSET;
    } else {
        op.offset = Some(request.offset);
    }
}

/// From a wait status: the code, or 128 and the number of the signal.
pub(crate) fn exit_status(status: i32) -> i32 {
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        128 + libc::WTERMSIG(status)
    }
}

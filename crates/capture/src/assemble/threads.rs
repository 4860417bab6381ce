//! Threads whose descriptors or directory are their own: unshare(2), and clone(2) that shares less.
#![allow(unsafe_code)]

use fsage_core::{OpKind, Outcome, Pid, Tid};
use fsage_namespace::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, CLONE_VM};

use super::{Assembler, process};
use crate::raw::RawCall;

/// Of kcmp(2): descriptors, and what a directory is part of.
const KCMP_FILES: libc::c_int = 2;
const KCMP_FS: libc::c_int = 3;

/// Whether a thread shares that with its process's first one; so it is said where the kernel does not tell.
fn shares(pid: Pid, tid: u32, what: libc::c_int) -> bool {
    // SAFETY: kcmp takes five numbers and no memory.
    let found = unsafe { libc::syscall(libc::SYS_kcmp, pid.0, tid, what, 0, 0) };
    found <= 0
}

impl Assembler {
    /// What the calls of a thread are about, in what is known of processes.
    pub(super) fn task_of(&self, pid: Pid, tid: Tid) -> Pid {
        Pid(self.processes.task_of(pid.0, tid.0))
    }

    /// Looks at the threads of a process that runs already: how many there are, and whose descriptors or directory are not
    /// those of the first.
    pub(super) fn adopt_threads(&mut self, pid: Pid) {
        let threads = std::fs::read_dir(format!("/proc/{}/task", pid.0));
        let names = threads.into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let others: Vec<u32> = names.filter(|&tid: &u32| tid != pid.0).collect();
        if others.is_empty() {
            return;
        }
        self.threads.insert(pid, others.len() as u32);
        for tid in others {
            self.adopt_thread(pid, tid);
        }
    }

    fn adopt_thread(&mut self, pid: Pid, tid: u32) {
        let files = shares(pid, tid, KCMP_FILES);
        let place = shares(pid, tid, KCMP_FS);
        if files && place {
            return;
        }
        let flag = |shares: bool, flag: u32| if shares { flag } else { 0 };
        let flags = flag(files, CLONE_FILES) | flag(place, CLONE_FS);
        self.processes.thread(pid.0, pid.0, tid, flags);
        let task = self.processes.task_of(pid.0, tid);
        let root = format!("/proc/{tid}");
        if !place {
            self.processes.set_directory(task, process::place(&root));
        }
        if !files {
            for fd in self.processes.descriptors(task) {
                self.processes.close(task, fd);
            }
            process::read_descriptors(&root, task, &mut self.processes);
        }
    }

    /// A thread made another one, or a process.
    pub(super) fn forked(&mut self, maker: (Pid, Tid), made: (Pid, Tid), flags: u32) {
        let (pid, tid) = maker;
        self.meet(pid);
        if made.0 == pid {
            *self.threads.entry(pid).or_default() += 1;
            self.processes.thread(pid.0, tid.0, made.1.0, flags);
            return;
        }
        if self.processes.knows(made.0.0) {
            self.processes.exit(made.0.0);
        }
        self.threads.remove(&made.0);
        let from = self.task_of(pid, tid);
        self.processes.fork(from.0, made.0.0, flags);
    }

    /// A thread ended, and its process if it was the last.
    pub(super) fn ended(&mut self, pid: Pid, tid: Tid, last: bool) {
        self.processes.end_thread(tid.0);
        if last {
            self.threads.remove(&pid);
            self.processes.exit(pid.0);
        } else if let Some(others) = self.threads.get_mut(&pid) {
            *others = others.saturating_sub(1);
        }
    }

    /// unshare(2) itself is no operation.
    pub(super) fn unshared(&mut self, call: &RawCall) {
        let mut flags = call.args[0] as u32;
        // A mount namespace of its own needs a directory of its own (ksys_unshare).
        if flags & libc::CLONE_NEWNS as u32 != 0 {
            flags |= CLONE_FS;
        }
        let flags = flags & (CLONE_FILES | CLONE_FS);
        if call.result == 0 && flags != 0 {
            self.unshare(call, flags);
        }
    }

    /// Descriptors (`CLONE_FILES`) or directory (`CLONE_FS`) are the thread's own from here on; what its calls are about by
    /// that. Where it is not alone, an operation tells of its descriptors; where it is, a relative name tells by itself.
    pub(super) fn unshare(&mut self, call: &RawCall, flags: u32) -> Pid {
        self.meet(call.pid);
        let pid = Pid(self.processes.process_of(call.pid.0, call.tid.0));
        if pid == call.pid && self.threads.get(&pid).is_none_or(|&others| others == 0) {
            self.processes.unshare(pid.0, flags);
            return pid;
        }
        let shares = (CLONE_FILES | CLONE_FS) & !flags;
        self.processes.thread(pid.0, call.tid.0, call.tid.0, shares);
        if flags & CLONE_FILES != 0 {
            let mut op = self.begin(OpKind::Fork, call);
            (op.pid, op.result) = (pid, Outcome::ok(call.tid.0.into()));
            op.flags = shares | CLONE_THREAD | CLONE_VM;
            op.length = Some(pid.0.into());
            let before = (self.wanted, self.unknown);
            (self.wanted, self.unknown) = (true, false);
            self.emit(op);
            (self.wanted, self.unknown) = before;
        }
        self.task_of(pid, call.tid)
    }
}

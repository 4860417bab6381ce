//! The tracing thread: follows every stop of every tracee and makes events of them.
//!
//! A launched program stops at captured calls only (a seccomp stop at the entry, then one at the
//! exit); a process that was attached has no filter and stops at every call.

use std::collections::HashMap;
use std::sync::Arc;

use fsage_core::{Pid, Tid};

use super::calls;
use super::files;
use super::memory::{self, Text};
use super::shared::{Order, Shared};
use super::sys::{self, Resume, Stop, Waited};
use crate::CaptureError;
use crate::raw::{RawCall, RawEvent};

/// What stops a tracee made by another: it is traced from its first instruction on.
pub(super) const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

pub(super) const EVENT_STOP: i32 = 128;
pub(super) const CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// A wait status that is a stop: its signal and its event.
pub(super) fn stopped(status: i32) -> Option<(i32, i32)> {
    (status & 0xff == 0x7f).then_some(((status >> 8) & 0xff, status >> 16))
}

#[derive(Debug)]
struct Pending {
    call: Box<RawCall>,
    table: &'static calls::Call,
    /// Nanoseconds of the call that the tracee stood still for its tracer.
    paused_ns: u64,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub pid: Pid,
    pending: Option<Pending>,
    /// It was told to stop and has not done so yet.
    pub interrupted: bool,
}

/// A thread that stopped (or ended) before its maker's event has come.
#[derive(Debug)]
pub(super) struct Unannounced {
    pub status: i32,
    /// Who made it, as far as /proc could tell when it was first met.
    origin: Option<files::Status>,
    met_ns: u64,
}

impl Unannounced {
    /// The process whose event will tell of it.
    fn maker(&self, tid: Tid) -> Option<Pid> {
        let status = self.origin?;
        let is_thread = status.process != tid.0;
        Some(Pid(if is_thread {
            status.process
        } else {
            status.parent
        }))
    }
}

/// How long a maker that lives may take to tell of a child: it only has to get a processor.
const ANNOUNCED_WITHIN_NS: u64 = 5_000_000_000;

pub(super) struct Tracer {
    pub shared: Arc<Shared>,
    pub threads: HashMap<Tid, Thread>,
    /// Threads alive of each process.
    live: HashMap<Pid, u32>,
    pub unannounced: HashMap<Tid, Unannounced>,
    /// When children were told of without their maker's event, which may still come.
    adopted: HashMap<Tid, u64>,
    /// Stops that wait for the reader, with their time.
    pub held: Vec<(Tid, i32, u64)>,
    /// Whether a seccomp filter picks the calls.
    pub filtered: bool,
    /// The launched command.
    pub root: Option<Pid>,
    /// Set once the command's own program runs.
    pub recording: bool,
}

impl Tracer {
    pub fn new(shared: Arc<Shared>, filtered: bool) -> Self {
        Self {
            shared,
            threads: HashMap::new(),
            live: HashMap::new(),
            unannounced: HashMap::new(),
            adopted: HashMap::new(),
            held: Vec::new(),
            filtered,
            root: None,
            recording: true,
        }
    }

    pub fn add(&mut self, tid: Tid, pid: Pid) {
        let thread = Thread {
            pid,
            pending: None,
            interrupted: false,
        };
        if self.threads.insert(tid, thread).is_none() {
            *self.live.entry(pid).or_default() += 1;
        }
    }

    /// Traces until nothing is left or the order is to end.
    pub fn run(&mut self) -> Result<(), CaptureError> {
        self.shared.wait_for_reader();
        if self.filtered || self.shared.order() == Order::Run {
            for (tid, status, at_ns) in std::mem::take(&mut self.held) {
                self.handle_at(tid, status, at_ns);
            }
        }
        let mut killed = false;
        loop {
            let order = self.shared.order();
            if order >= Order::Stop && !self.filtered {
                return self.leave();
            }
            if order == Order::End && !killed {
                self.kill_all();
                killed = true;
            }
            let waited = sys::wait(true).map_err(|e| CaptureError::io("wait for a tracee", e))?;
            match waited {
                Waited::Status(tid, status) => self.handle(tid, status),
                Waited::Nothing => {}
                Waited::NoneLeft => return Ok(()),
            }
        }
    }

    /// A program under a filter cannot live on: without a tracer its captured calls give ENOSYS.
    fn kill_all(&mut self) {
        for &pid in self.live.keys() {
            sys::kill(pid);
        }
        for &tid in self.unannounced.keys() {
            sys::kill(Pid(tid.0));
        }
    }

    pub fn handle(&mut self, tid: Tid, status: i32) {
        self.handle_at(tid, status, sys::now_ns());
    }

    fn handle_at(&mut self, tid: Tid, status: i32, at_ns: u64) {
        if !self.threads.contains_key(&tid) {
            self.unannounced
                .entry(tid)
                .and_modify(|known| known.status = status)
                .or_insert_with(|| Unannounced {
                    status,
                    origin: files::status(tid),
                    met_ns: at_ns,
                });
            return;
        }
        let Some((signal, event)) = stopped(status) else {
            self.ended(tid, status, at_ns);
            return;
        };
        match event {
            libc::PTRACE_EVENT_SECCOMP => self.call_stop(tid, at_ns),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.made(tid, at_ns);
            }
            libc::PTRACE_EVENT_EXEC => self.executed(tid, at_ns),
            EVENT_STOP => self.event_stop(tid, signal),
            _ if signal == CALL_STOP => self.call_stop(tid, at_ns),
            // A signal on its way: delivered as it is.
            _ => self.resume(tid, signal),
        }
    }

    /// Goes on to wherever the thread must stop next.
    pub fn resume(&mut self, tid: Tid, signal: i32) {
        let to_call = !self.filtered || self.threads.get(&tid).is_some_and(|t| t.pending.is_some());
        let how = if to_call {
            Resume::ToCall
        } else {
            Resume::Free
        };
        // ESRCH: killed meanwhile; its end is reported by the next wait.
        let _ = sys::resume(tid, how, signal);
    }

    fn event_stop(&mut self, tid: Tid, signal: i32) {
        let group_stop = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if group_stop.contains(&signal) {
            let _ = sys::resume(tid, Resume::Listen, 0);
            return;
        }
        if self
            .threads
            .get_mut(&tid)
            .is_some_and(|t| std::mem::take(&mut t.interrupted))
        {
            super::attach::repair_interrupted_call(tid);
        }
        self.resume(tid, 0);
    }

    fn call_stop(&mut self, tid: Tid, at_ns: u64) {
        if self.shared.order() >= Order::Stop {
            if let Some(thread) = self.threads.get_mut(&tid) {
                thread.pending = None;
            }
            self.resume(tid, 0);
            return;
        }
        match sys::syscall_stop(tid) {
            Ok(Stop::Entry { nr, args }) => self.entered(tid, nr, args),
            Ok(Stop::Exit(result)) => self.returned(tid, result, at_ns),
            Ok(Stop::Entry32(nr)) if calls::CALLS_32.contains(&(nr as u32)) => {
                let (count, of_32_bit) = (0, 1);
                self.emit(RawEvent::Lost { count, of_32_bit });
            }
            Ok(Stop::Entry32(_) | Stop::Other) | Err(_) => {}
        }
        self.resume(tid, 0);
    }

    fn entered(&mut self, tid: Tid, nr: u64, args: [u64; 6]) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        thread.pending = None;
        let Some(table) = calls::find(nr, &args) else {
            return;
        };
        let args = match table.extra {
            calls::Extra::Clone => memory::ioctl_arguments(tid, args),
            _ => Some(args),
        };
        let Some(args) = args else { return };
        let descriptor = |argument: Option<u8>| {
            let value = *args.get(usize::from(argument?))?;
            files::of_descriptor(tid, value as i32, table.position)
        };
        let mut call = Box::new(RawCall {
            nr: table.nr,
            pid: thread.pid,
            tid,
            args,
            file: descriptor(table.fd),
            file2: descriptor(table.fd2),
            ..RawCall::default()
        });
        if matches!(table.extra, calls::Extra::Offsets(..)) {
            call.extra = memory::extra(tid, table.extra, &args);
        }
        if table.path_at_entry {
            read_paths(tid, table, &mut call);
        }
        // The last thing before it goes on: what the tracer did is not the call's time.
        call.start_ns = sys::now_ns();
        thread.pending = Some(Pending {
            call,
            table,
            paused_ns: 0,
        });
    }

    fn returned(&mut self, tid: Tid, result: i64, at_ns: u64) {
        let Some(Pending {
            mut call,
            table,
            paused_ns,
        }) = self
            .threads
            .get_mut(&tid)
            .and_then(|thread| thread.pending.take())
        else {
            return;
        };
        call.result = result;
        let latency_ns = at_ns
            .saturating_sub(call.start_ns)
            .saturating_sub(paused_ns);
        call.latency_ns = latency_ns - self.shared.stop_cost_ns(latency_ns);
        if table.opens && result >= 0 {
            call.file = files::of_descriptor(tid, result as i32, table.position);
        }
        if result == 0
            && let Some(mut file) = memory::stat_result(tid, table.stat, &call.args)
        {
            if let Some(known) = call.file.filter(|known| known.ino == file.ino) {
                (file.position, file.open_flags) = (known.position, known.open_flags);
            }
            call.file = Some(file);
        }
        if !matches!(table.extra, calls::Extra::Offsets(..)) {
            call.extra = memory::extra(tid, table.extra, &call.args);
        }
        if matches!(table.extra, calls::Extra::Flock) {
            call.args = memory::with_lock(tid, call.args);
        }
        if !table.path_at_entry {
            read_paths(tid, table, &mut call);
        }
        self.emit(RawEvent::Call(call));
    }

    fn emit(&self, event: RawEvent) {
        if self.recording {
            self.shared.push(event);
        }
    }

    fn made(&mut self, tid: Tid, at_ns: u64) {
        let child = sys::event_message(tid)
            .ok()
            .and_then(|message| u32::try_from(message).ok());
        if let (Some(child), Some(pid)) = (child.map(Tid), self.threads.get(&tid).map(|t| t.pid)) {
            let flags = clone_flags(tid);
            // One that was adopted has been told of, and may have ended by now; one that waits is another of its number.
            let was_adopted = self.adopted.remove(&child).is_some();
            if was_adopted && !self.unannounced.contains_key(&child) {
                return self.resume(tid, 0);
            }
            self.announce(child, pid, tid, flags, at_ns);
        }
        self.resume(tid, 0);
    }

    fn announce(&mut self, child: Tid, pid: Pid, tid: Tid, clone_flags: u64, at_ns: u64) {
        if self.threads.contains_key(&child) {
            return;
        }
        let is_thread = clone_flags & libc::CLONE_THREAD as u64 != 0;
        let child_pid = if is_thread { pid } else { Pid(child.0) };
        self.add(child, child_pid);
        let child_tid = child;
        self.emit(RawEvent::Fork {
            at_ns,
            pid,
            tid,
            child_pid,
            child_tid,
            clone_flags,
        });
        if let Some(waiting) = self.unannounced.remove(&child) {
            self.handle(child, waiting.status);
        }
    }

    /// A maker that was killed before its event leaves children that nobody announces. One that lives will announce
    /// them, with the flags that only it knows: a child's first stop often comes before its maker's.
    fn adopt_unannounced(&mut self, ended: Pid, at_ns: u64) {
        let is_left = |(&child, waiting): (&Tid, &Unannounced)| {
            let maker = waiting.maker(child)?;
            let late = at_ns.saturating_sub(waiting.met_ns) > ANNOUNCED_WITHIN_NS;
            let left = maker == ended || !self.live.contains_key(&maker) || late;
            left.then_some((child, maker, waiting.origin?.process == child.0))
        };
        let left: Vec<_> = self.unannounced.iter().filter_map(is_left).collect();
        let is_recent = |told_ns: u64| at_ns.saturating_sub(told_ns) <= ANNOUNCED_WITHIN_NS;
        self.adopted.retain(|_, told_ns| is_recent(*told_ns));
        for (child, maker, is_process) in left {
            // What ended with another may have been adopted with that.
            if !self.unannounced.contains_key(&child) {
                continue;
            }
            let flags = if is_process {
                0
            } else {
                libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS
            };
            self.adopted.insert(child, at_ns);
            self.announce(child, maker, Tid(maker.0), flags as u64, at_ns);
        }
    }

    fn executed(&mut self, tid: Tid, at_ns: u64) {
        // The caller takes the leader's number, and the leader vanishes without a report.
        let former = sys::event_message(tid).map_or(tid, |message| Tid(message as u32));
        let pid = self
            .threads
            .get(&tid)
            .map_or(Pid(tid.0), |thread| thread.pid);
        if former != tid
            && let Some(caller) = self.threads.remove(&former)
        {
            if let Some(live) = self.live.get_mut(&pid) {
                *live = live.saturating_sub(1);
            }
            self.threads.insert(tid, caller);
        }
        self.recording |= self.root == Some(pid);
        self.emit(RawEvent::Exec {
            at_ns,
            pid,
            tid: former,
            file: files::of_program(tid),
        });
        if let Some(pending) = self.threads.get_mut(&tid).and_then(|t| t.pending.as_mut()) {
            pending.paused_ns += sys::now_ns().saturating_sub(at_ns);
        }
        self.resume(tid, 0);
    }

    fn ended(&mut self, tid: Tid, status: i32, at_ns: u64) {
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        let pid = thread.pid;
        let live = self.live.get_mut(&pid).map_or(0, |live| {
            *live = live.saturating_sub(1);
            *live
        });
        if live == 0 {
            self.live.remove(&pid);
        }
        self.emit(RawEvent::Exit {
            at_ns,
            pid,
            tid,
            last: live == 0,
            code: status,
        });
        if self.root == Some(pid) && tid.0 == pid.0 {
            self.shared.set_exit_status(exit_status(status));
        }
        self.adopt_unannounced(pid, at_ns);
    }
}

/// The exit status as a shell gives it: 128 and the signal for a killed process.
pub(super) fn exit_status(status: i32) -> i32 {
    match status & 0x7f {
        0 => (status >> 8) & 0xff,
        signal => 128 + signal,
    }
}

/// The flags of the clone that a thread has just made, without the child's exit signal.
fn clone_flags(tid: Tid) -> u64 {
    let Ok(registers) = sys::registers(tid) else {
        return 0;
    };
    match registers.orig_rax as libc::c_long {
        libc::SYS_clone => registers.rdi & 0xffff_ff00,
        libc::SYS_vfork => (libc::CLONE_VFORK | libc::CLONE_VM) as u64,
        // struct clone_args begins with the flags.
        libc::SYS_clone3 => memory::first_word(tid, registers.rdi).unwrap_or(0),
        _ => 0,
    }
}

fn read_paths(tid: Tid, table: &calls::Call, call: &mut RawCall) {
    let args = call.args;
    let mut read = |argument: Option<u8>| {
        let address = *args.get(usize::from(argument?))?;
        match memory::string(tid, address) {
            Text::Absent => None,
            Text::Unreadable => {
                call.path_unreadable = true;
                None
            }
            Text::Bytes(text, truncated) => {
                call.path_truncated |= truncated;
                Some(text)
            }
        }
    };
    let (path, path2) = (read(table.path), read(table.path2));
    (call.path, call.path2) = (path, path2);
}

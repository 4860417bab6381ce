//! Telling the programs which tasks to watch.
#![allow(unsafe_code)]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fsage_core::{Pid, Tid};
use rustix::process::Signal;

use crate::CaptureError;

const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
/// `PIDFD_THREAD` (Linux 6.9): a descriptor of a thread, not of its process.
const PIDFD_THREAD: libc::c_uint = libc::O_EXCL as libc::c_uint;

/// The union `bpf_attr` of bpf(2) for an element.
#[repr(C)]
struct Element {
    map: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A descriptor of a process, or of one of its threads.
pub(super) fn pidfd(tid: Tid, thread: bool) -> io::Result<OwnedFd> {
    let flags = if thread { PIDFD_THREAD } else { 0 };
    // SAFETY: pidfd_open takes two numbers; the descriptor it returns belongs to nobody else.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, tid.0, flags);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd as i32))
    }
}

/// Whether threads can be named by descriptors.
pub(super) fn threads_have_pidfds() -> bool {
    pidfd(Tid(std::process::id()), true).is_ok()
}

/// How deep the PID namespace of this process is below the first one.
pub(super) fn pid_level() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("NSpid:"))
        .unwrap_or_default();
    line.split_whitespace().skip(2).count() as u32
}

/// Watches one thread. Not an error if it is gone.
pub(super) fn watch(
    tasks: BorrowedFd<'_>,
    value_size: usize,
    pid: Pid,
    tid: Tid,
) -> Result<(), CaptureError> {
    let failed = |e| CaptureError::io(format!("watch thread {} of process {}", tid.0, pid.0), e);
    let pidfd = match pidfd(tid, pid.0 != tid.0) {
        Ok(fd) => fd,
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
        Err(e) => return Err(failed(e)),
    };
    let mut value = vec![0u8; value_size.max(24)];
    // `tid` and `pid` of the `struct wire` that the state begins with.
    value[16..20].copy_from_slice(&tid.0.to_le_bytes());
    value[20..24].copy_from_slice(&pid.0.to_le_bytes());
    let key = pidfd.as_raw_fd();
    let update = Element {
        map: tasks.as_raw_fd() as u32,
        pad: 0,
        key: (&raw const key) as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the structure is the kernel's for this command; key and value live until the call
    // returns and are as long as the map says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_UPDATE_ELEM,
            &raw const update,
            size_of::<Element>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // ENOENT, ESRCH: it ended between the look at /proc and now.
    match error.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => Ok(()),
        _ => Err(failed(error)),
    }
}

/// Sends a signal to a process if it is watched; whether it was. A number that another process has
/// by now does no harm.
pub(super) fn signal_watched(
    tasks: BorrowedFd<'_>,
    value_size: usize,
    pid: Pid,
    signal: Signal,
) -> bool {
    let Ok(pidfd) = pidfd(Tid(pid.0), false) else {
        return false;
    };
    let mut value = vec![0u8; value_size.max(24)];
    let key = pidfd.as_raw_fd();
    let lookup = Element {
        map: tasks.as_raw_fd() as u32,
        pad: 0,
        key: (&raw const key) as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the structure is the kernel's for this command; key and value live until the call
    // returns and are as long as the map says.
    let found = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_LOOKUP_ELEM,
            &raw const lookup,
            size_of::<Element>(),
        )
    };
    found == 0 && crate::end::signal(pidfd.as_fd(), signal)
}

/// The threads of a process, none if it is gone.
pub(super) fn threads_of(pid: Pid) -> Vec<Tid> {
    let Ok(entries) = fs::read_dir(format!("/proc/{}/task", pid.0)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Tid))
        .collect()
}

/// The children of all threads of a process.
fn children_of(pid: Pid) -> Vec<Pid> {
    let mut children = Vec::new();
    for tid in threads_of(pid) {
        let path = format!("/proc/{}/task/{}/children", pid.0, tid.0);
        let text = fs::read_to_string(path).unwrap_or_default();
        children.extend(
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok().map(Pid)),
        );
    }
    children
}

/// Watches whole process trees. New tasks of watched ones are watched by the programs already, so
/// once a look at /proc brings nothing new, all are.
pub(super) fn watch_trees(
    tasks: BorrowedFd<'_>,
    value_size: usize,
    roots: &[Pid],
    with_threads: bool,
) -> Result<Vec<Pid>, CaptureError> {
    let mut seen = HashSet::new();
    let mut processes = Vec::new();
    loop {
        let before = seen.len();
        let mut open = roots.to_vec();
        let mut visited = HashSet::new();
        while let Some(pid) = open.pop() {
            if !visited.insert(pid) {
                continue;
            }
            if !processes.contains(&pid) {
                processes.push(pid);
            }
            for tid in threads_of(pid) {
                if (tid.0 == pid.0 || with_threads) && seen.insert((pid, tid)) {
                    watch(tasks, value_size, pid, tid)?;
                }
            }
            open.extend(children_of(pid));
        }
        if seen.len() == before {
            return Ok(processes);
        }
    }
}

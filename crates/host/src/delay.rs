//! How long the processes of a command waited for a processor and how much memory they had, all of them: what the kernel tells of every
//! thread that ends (its accounting/taskstats.rst), for those that descend from the command.
//!
//! The kernel counts that time for each thread always and adds nothing up; whoever is told of the ends of
//! threads can. It tells only root, in the first namespace of processes.

#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

// linux/genetlink.h, linux/taskstats.h
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET: u8 = 1;
const REGISTER_CPUS: u16 = 3;
const OF_THREAD: u16 = 4;
const STATS: u16 = 3;
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACKNOWLEDGE: u16 = 4;
/// Before this version it tells no process of a thread; version 15 has its fields elsewhere.
const VERSIONS: std::ops::RangeInclusive<u16> = 12..=64;
const BROKEN_VERSION: u16 = 15;

/// What the kernel may keep for this process to read: some ten thousand ends.
const BUFFER_BYTES: libc::c_int = 32 << 20;

/// How often ends are read: seldom enough to disturb nothing.
const EVERY: Duration = Duration::from_millis(20);

/// One thread that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    thread: u32,
    process: u32,
    parent: u32,
    delay_ns: u64,
    resident_bytes: u64,
}

/// What the threads of a command waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delay {
    /// Ready to run and without a processor, nanoseconds, all threads together.
    pub ns: u64,
    /// Threads that were counted.
    pub threads: u64,
    /// The largest resident size that one of their processes had, bytes, without what it was before it began its program
    /// (which getrusage(2) counts).
    pub max_resident_bytes: u64,
}

/// Listens to the ends of threads.
#[derive(Debug)]
pub struct ExitWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Vec<End>>>>,
    /// Children of this process that do not belong to the command.
    others: HashSet<u32>,
    _reaper: Reaper,
}

impl ExitWatch {
    /// Listens from now on; `None` where the kernel does not tell. Processes of the command whose parent ends
    /// become children of this process meanwhile.
    pub fn start() -> Option<Self> {
        let socket = listen()?;
        let others = children()?;
        let reaper = Reaper::become_one()?;
        let stop = Arc::new(AtomicBool::new(false));
        let reported = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("fsage-exits".into())
            .spawn(move || collect(&socket, &reported))
            .ok()?;
        Some(Self {
            stop,
            thread: Some(thread),
            others,
            _reaper: reaper,
        })
    }

    /// What `command`, which has been waited for, and all that descended from it and ended waited for; `None`
    /// where ends were missed.
    pub fn finish(mut self, command: u32) -> Option<Delay> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        let ends = thread.join().ok()??;
        let own = std::process::id();
        let roots = |end: &End| {
            end.process == command || end.parent == own && !self.others.contains(&end.process)
        };
        let members = members(&ends, roots);
        let mut delay = Delay::default();
        for (end, _) in ends.iter().zip(members).filter(|(_, is)| *is) {
            delay.ns = delay.ns.saturating_add(end.delay_ns);
            delay.threads += 1;
            delay.max_resident_bytes = delay.max_resident_bytes.max(end.resident_bytes);
            if end.parent == own && end.process != command && end.thread == end.process {
                Reaper::reap(end.process);
            }
        }
        // Nothing is counted where the command itself was not seen.
        (delay.threads > 0).then_some(delay)
    }
}

/// Which of the ends belong to a root: it is one, or its parent's end does. A parent ends after its children,
/// or its children get another; one number stands for several processes over time.
fn members(ends: &[End], is_root: impl Fn(&End) -> bool) -> Vec<bool> {
    let mut of_process: HashMap<u32, Vec<usize>> = HashMap::new();
    for (at, end) in ends.iter().enumerate() {
        if end.thread == end.process {
            of_process.entry(end.process).or_default().push(at);
        }
    }
    let parent = |at: usize| {
        let own = of_process.get(&ends.get(at)?.parent)?;
        let after = own.partition_point(|&other| other <= at);
        own.get(after).or(own.last()).copied()
    };
    let belongs = |mut at: usize| {
        // No chain is longer than all of them.
        for _ in 0..=ends.len() {
            if ends.get(at).is_some_and(&is_root) {
                return true;
            }
            match parent(at) {
                Some(next) if next != at => at = next,
                _ => return false,
            }
        }
        false
    };
    (0..ends.len()).map(belongs).collect()
}

/// Whoever loses its parent below this process becomes its child, until this is dropped.
#[derive(Debug)]
struct Reaper {
    before: libc::c_int,
}

impl Reaper {
    fn become_one() -> Option<Self> {
        let mut before: libc::c_int = 0;
        // SAFETY: writes one integer that outlives the call.
        let read = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut before) };
        // SAFETY: takes a number.
        let set = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        (read == 0 && set == 0).then_some(Self { before })
    }

    /// Takes note of the end of a child that nobody else waits for.
    fn reap(process: u32) {
        let mut status = 0;
        // SAFETY: writes one integer; a process that is no child gives ECHILD.
        unsafe { libc::waitpid(process as libc::pid_t, &raw mut status, libc::WNOHANG) };
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        // SAFETY: takes a number.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, self.before) };
    }
}

/// The children of this process, of all its threads.
fn children() -> Option<HashSet<u32>> {
    // Whether this kernel tells at all.
    std::fs::metadata("/proc/thread-self/children").ok()?;
    let mut found = HashSet::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread that has ended meanwhile has no children any more: another has them.
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(
            text.split_whitespace()
                .filter_map(|n| n.parse::<u32>().ok()),
        );
    }
    Some(found)
}

/// A socket to which the kernel tells the end of every thread.
fn listen() -> Option<OwnedFd> {
    // SAFETY: takes numbers, returns a descriptor or -1.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC)
    };
    if socket < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let size = BUFFER_BYTES;
    // SAFETY: reads one integer. Where it is refused, ends may be missed, which is told.
    unsafe {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        let value = (&raw const size).cast();
        let option = libc::SO_RCVBUFFORCE;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, length);
    }
    let mut buffer = vec![0; 1 << 16];
    send(
        &socket,
        &message((CONTROL, REQUEST), GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0"),
    )?;
    let family = answer(&socket, &mut buffer, |kind, body| {
        let id = attributes(body.get(4..)?).find(|(kind, _)| *kind == FAMILY_ID);
        let id = (kind == CONTROL).then_some(id?.1)?;
        Some(u16::from_ne_bytes(id.try_into().ok()?))
    })?;
    let mut cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?;
    cpus.truncate(cpus.trim_end().len());
    cpus.push('\0');
    let kind = (family, REQUEST | ACKNOWLEDGE);
    send(&socket, &message(kind, GET, REGISTER_CPUS, cpus.as_bytes()))?;
    // An error of 0 is the acknowledgement.
    let error = answer(&socket, &mut buffer, |kind, body| {
        (kind == ERROR).then_some(body.get(..4)? == [0; 4])
    });
    error?.then_some(socket)
}

/// What `of` makes of the answer to a request that was sent, which is there when it is. Ends of threads of the whole machine
/// may come before it: the kernel tells them from before it acknowledges, and at once to a socket that has the number of
/// an earlier one of this process. They are none of a command that is still to begin.
fn answer<T>(
    socket: &OwnedFd,
    buffer: &mut [u8],
    of: impl Fn(u16, &[u8]) -> Option<T>,
) -> Option<T> {
    loop {
        match receive(socket, buffer, libc::MSG_DONTWAIT) {
            Ok(length) => {
                let mut all = messages(buffer.get(..length)?);
                if let Some(found) = all.find_map(|(kind, body)| of(kind, body)) {
                    return Some(found);
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// A request with one attribute.
fn message((kind, flags): (u16, u16), command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((value.len() as u16 + 4).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let length = bytes.len() as u32;
    if let Some(first) = bytes.get_mut(..4) {
        first.copy_from_slice(&length.to_ne_bytes());
    }
    bytes
}

fn send(socket: &OwnedFd, message: &[u8]) -> Option<()> {
    // SAFETY: reads the bytes of the message.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            message.as_ptr().cast(),
            message.len(),
            0,
        )
    };
    (sent == message.len() as isize).then_some(())
}

fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: libc::c_int) -> std::io::Result<usize> {
    // SAFETY: writes at most as many bytes as the buffer has.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            flags,
        )
    };
    usize::try_from(got).map_err(|_| std::io::Error::last_os_error())
}

/// Reads ends until it is told to stop and there are no more; `None` if some were lost.
fn collect(socket: &OwnedFd, stop: &AtomicBool) -> Option<Vec<End>> {
    let mut buffer = vec![0; 1 << 16];
    let mut ends = Vec::new();
    loop {
        // What was told before the wish to stop is read after it.
        let last = stop.load(Ordering::Acquire);
        loop {
            match receive(socket, &mut buffer, libc::MSG_DONTWAIT) {
                Ok(length) => {
                    for (_, body) in messages(buffer.get(..length)?) {
                        take(body.get(4..)?, &mut ends)?;
                    }
                }
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        if last {
            return Some(ends);
        }
        std::thread::park_timeout(EVERY);
    }
}

/// The threads that a message tells of; `None` where it cannot be read.
fn take(body: &[u8], ends: &mut Vec<End>) -> Option<()> {
    for (_, nested) in attributes(body).filter(|(kind, _)| *kind == OF_THREAD) {
        let (_, stats) = attributes(nested).find(|(kind, _)| *kind == STATS)?;
        ends.push(end(stats)?);
    }
    Some(())
}

/// `struct taskstats`.
fn end(stats: &[u8]) -> Option<End> {
    let number = |at: usize| Some(u32::from_ne_bytes(stats.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(stats.get(at..at + 8)?.try_into().ok()?));
    let version = u16::from_ne_bytes(stats.get(..2)?.try_into().ok()?);
    if !VERSIONS.contains(&version) || version == BROKEN_VERSION {
        return None;
    }
    Some(End {
        delay_ns: long(24)?,
        // KiB; of a thread that has no memory of its own any more, 0.
        resident_bytes: long(200)?.saturating_mul(1024),
        thread: number(128)?,
        parent: number(132)?,
        process: number(368)?,
    })
}

/// The kind and the rest of each message after its header of 16 bytes.
fn messages(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    parts(bytes, 16, |head| {
        let length = u32::from_ne_bytes(head.get(..4)?.try_into().ok()?);
        let kind = u16::from_ne_bytes(head.get(4..6)?.try_into().ok()?);
        Some((length as usize, kind))
    })
}

/// The kind and the value of each attribute.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    parts(bytes, 4, |head| {
        let length = u16::from_ne_bytes(head.get(..2)?.try_into().ok()?);
        let kind = u16::from_ne_bytes(head.get(2..4)?.try_into().ok()?);
        Some((length.into(), kind & 0x3fff))
    })
}

/// Parts that begin with their length and are padded to 4 bytes; ends where one does not fit.
fn parts(
    bytes: &[u8],
    head_bytes: usize,
    head: fn(&[u8]) -> Option<(usize, u16)>,
) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (length, kind) = head(rest.get(..head_bytes)?)?;
        let body = rest.get(head_bytes..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(thread: u32, process: u32, parent: u32) -> End {
        End {
            thread,
            process,
            parent,
            delay_ns: 1,
            resident_bytes: 0,
        }
    }

    #[test]
    fn who_belongs_to_a_command_is_found_by_the_order_of_ends() {
        let ends = [
            ended(30, 30, 20), // A child of the first 20, which ends later.
            ended(31, 30, 20), // Its thread, whoever is first.
            ended(20, 20, 10),
            ended(50, 50, 99), // Nobody's.
            ended(40, 40, 20), // A child of the second 20.
            ended(20, 20, 99), // The number again, of a stranger.
            ended(60, 60, 10), // Its parent's first thread has ended before it.
            ended(10, 10, 1),
            ended(61, 61, 10),
        ];
        let found = members(&ends, |end| end.process == 10);
        let expected = [true, true, true, false, false, false, true, true, true];
        assert_eq!(found, expected);
        let round = [ended(1, 1, 2), ended(2, 2, 1)];
        assert_eq!(members(&round, |_| false), [false, false]);
    }

    /// It was `None` wherever a thread of the machine ended between request and acknowledgement.
    #[test]
    fn threads_that_end_meanwhile_hinder_no_listening() {
        const LISTENERS: u32 = 20_000;
        if !fsage_testing::root() {
            return;
        }
        if listen().is_none() {
            fsage_testing::not_run("the kernel tells nothing of threads that end");
            return;
        }
        let stop = AtomicBool::new(false);
        let missed = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        drop(std::thread::spawn(|| {}).join());
                    }
                });
            }
            let missed = (0..LISTENERS).filter(|_| listen().is_none()).count();
            stop.store(true, Ordering::Relaxed);
            missed
        });
        assert_eq!(missed, 0, "of {LISTENERS}");
    }

    #[test]
    fn damaged_messages_tell_nothing() {
        let mut good = message((7, 0), 2, OF_THREAD, &[0; 8]);
        for cut in 0..good.len() {
            assert_eq!(messages(good.get(..cut).unwrap()).count(), 0);
        }
        assert_eq!(messages(&good).count(), 1);
        let body = messages(&good).next().unwrap().1.to_vec();
        let mut ends = Vec::new();
        assert_eq!(take(&body[4..], &mut ends), None, "no statistics");
        good[0] = 255;
        assert_eq!(messages(&good).count(), 0);
        assert_eq!(end(&[12, 0]), None);
        let mut stats = vec![0; 400];
        stats[0] = 15;
        assert_eq!(end(&stats), None);
        stats[0] = 16;
        (stats[24], stats[128], stats[132], stats[200], stats[368]) = (9, 3, 1, 5, 2);
        let expected = End {
            thread: 3,
            process: 2,
            parent: 1,
            delay_ns: 9,
            resident_bytes: 5 << 10,
        };
        assert_eq!(end(&stats), Some(expected));
    }
}

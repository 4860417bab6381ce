//! What the programs themselves take of each call's latency.
//!
//! The clock is read when the program at a call's beginning is about to return and when the one at its end has found
//! its thread: what lies between that and the call (leaving one program, entering the other, a reading of the clock)
//! is in every latency: some 0.15 us, as much as the shortest calls take. A thread of our own makes a call that does
//! nothing but fail (7 ns); what that is told to take is taken off each latency.
//!
//! What they do before the first reading and after the second, some 0.3 us, is in the pauses between calls, and so is
//! what is taken off. The thread therefore makes a call on a file as well, one right after the other, as was done before
//! there were programs: how much longer one takes is what a pause has too much.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::mpsc;

use fsage_core::{Pid, Tid};

use super::{mover::Mover, seed, wire::Decoder};
use crate::raw::RawEvent;
use crate::session::{OwnTime, now};

/// Calls that are made, and of how many the least mean counts.
const CALLS: usize = 1024;
const PART: usize = 64;
/// Where it takes longer than this, something else was measured.
const MOST_NS: u64 = 2000;
/// A file.
const PROGRAM: &str = "/proc/self/exe";
/// How often records of the thread are waited for, 5 ms each time.
const TURNS: usize = 100;

/// What a call on a file takes as long as no program is there: for each they are entered, whoever makes it.
pub(super) fn alone_ns() -> u64 {
    let Ok(file) = File::open(PROGRAM) else {
        return 0;
    };
    let part_ns = || {
        let start_ns = now().0;
        (0..PART).for_each(|_| seek(file.as_raw_fd()));
        now().0.saturating_sub(start_ns) / PART as u64
    };
    (0..CALLS / PART).map(|_| part_ns()).min().unwrap_or(0)
}

/// Measures it, where a call took `alone_ns` before; 0 where that cannot be done. Nothing else is watched yet.
pub(super) fn measure(
    tasks: BorrowedFd<'_>,
    value_size: usize,
    mover: &Mover,
    decoder: &mut Decoder,
    alone_ns: u64,
) -> OwnTime {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("fsage-own".into())
        .spawn(move || {
            let file = File::open(PROGRAM).ok();
            let fd = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
            // SAFETY: takes nothing and cannot fail.
            let tid = unsafe { libc::gettid() };
            let _ = sender.send(Tid(tid as u32));
            if wait.recv().is_ok() {
                for fd in [-1, fd] {
                    (0..CALLS).for_each(|_| seek(fd));
                }
            }
        });
    let (Ok(thread), Ok(tid)) = (thread, receiver.recv()) else {
        return OwnTime::default();
    };
    let watched = seed::watch(tasks, value_size, Pid(std::process::id()), tid).is_ok();
    if watched {
        let _ = go.send(());
    }
    drop(go);
    let _ = thread.join();
    if !watched {
        return OwnTime::default();
    }
    let seen = collect(mover, decoder, tid);
    let sensible = |ns: &u64| *ns < MOST_NS;
    let within_ns = least(&seen.latencies).filter(sensible).unwrap_or(0);
    let apart: Vec<u64> = seen
        .starts
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    let watched_ns = least(&apart).filter(sensible).unwrap_or(0);
    OwnTime {
        within_ns,
        all_ns: match alone_ns {
            0 => 0,
            _ => watched_ns.saturating_sub(alone_ns),
        },
    }
}

/// What the thread's calls were told to be: latencies of those that failed, beginnings of the others.
#[derive(Debug, Default)]
struct Seen {
    latencies: Vec<u64>,
    starts: Vec<u64>,
}

/// The thread's calls, in order, until it has ended.
fn collect(mover: &Mover, decoder: &mut Decoder, tid: Tid) -> Seen {
    let (mut seen, mut ended) = (Seen::default(), false);
    for _ in 0..TURNS {
        if ended {
            break;
        }
        let more = mover.take(
            super::PATIENCE,
            &mut |record| match decoder.decode(record) {
                Some(RawEvent::Call(call))
                    if call.tid == tid && i64::from(call.nr) == libc::SYS_lseek =>
                {
                    if call.result < 0 {
                        seen.latencies.push(call.latency_ns);
                    } else {
                        seen.starts.push(call.start_ns);
                    }
                }
                Some(RawEvent::Exit { tid: of, .. }) => ended |= of == tid,
                _ => {}
            },
        );
        if !more {
            break;
        }
    }
    seen
}

/// The least mean of some calls in a row: whatever came between, in most of them nothing did.
fn least(latencies: &[u64]) -> Option<u64> {
    let parts = latencies.chunks_exact(PART);
    parts
        .map(|part| part.iter().sum::<u64>() / PART as u64)
        .min()
}

fn seek(fd: RawFd) {
    // SAFETY: tells a position, or fails where there is no such descriptor, and nothing else happens.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_between_some_of_the_calls_does_not_count() {
        let mut latencies = vec![100; 4 * PART];
        latencies[3 * PART..].fill(9000);
        latencies[5] = 1_000_000;
        assert_eq!(least(&latencies), Some(100));
        assert_eq!(least(&latencies[..PART - 1]), None);
    }
}

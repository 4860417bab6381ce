//! What the programs themselves take of each call's latency.
//!
//! The clock is read when the program at a call's beginning is about to return and when the one at its end has found
//! its thread: what lies between that and the call (leaving one program, entering the other, a reading of the clock)
//! is in every latency: some 0.15 us, as much as the shortest calls take. A thread of our own makes a call that does
//! nothing but fail (7 ns); what that is told to take is taken off each latency.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::sync::mpsc;

use fsage_core::{Pid, Tid};

use super::{mover::Mover, seed, wire::Decoder};
use crate::raw::RawEvent;

/// Calls that are made, and of how many the least mean counts.
const CALLS: usize = 1024;
const PART: usize = 64;
/// Where it takes longer than this, something else was measured.
const MOST_NS: u64 = 2000;
/// How often records of the thread are waited for, 5 ms each time.
const TURNS: usize = 100;

/// Measures it; 0 where that cannot be done. Nothing else is watched yet.
pub(super) fn measure(
    tasks: BorrowedFd<'_>,
    value_size: usize,
    mover: &Mover,
    decoder: &mut Decoder,
) -> u64 {
    let (sender, receiver) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new()
        .name("fsage-own".into())
        .spawn(move || {
            // SAFETY: takes nothing and cannot fail.
            let tid = unsafe { libc::gettid() };
            let _ = sender.send(Tid(tid as u32));
            if wait.recv().is_ok() {
                (0..CALLS).for_each(|_| fail());
            }
        });
    let (Ok(thread), Ok(tid)) = (thread, receiver.recv()) else {
        return 0;
    };
    let watched = seed::watch(tasks, value_size, Pid(std::process::id()), tid).is_ok();
    if watched {
        let _ = go.send(());
    }
    drop(go);
    let _ = thread.join();
    if !watched {
        return 0;
    }
    let latencies = collect(mover, decoder, tid);
    least(&latencies).filter(|&ns| ns < MOST_NS).unwrap_or(0)
}

/// The latencies of the thread's calls, in order, until it has ended.
fn collect(mover: &Mover, decoder: &mut Decoder, tid: Tid) -> Vec<u64> {
    let (mut latencies, mut ended) = (Vec::with_capacity(CALLS), false);
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
                    latencies.push(call.latency_ns);
                }
                Some(RawEvent::Exit { tid: of, .. }) => ended |= of == tid,
                _ => {}
            },
        );
        if !more {
            break;
        }
    }
    latencies
}

/// The least mean of some calls in a row: whatever came between, in most of them nothing did.
fn least(latencies: &[u64]) -> Option<u64> {
    let parts = latencies.chunks_exact(PART);
    parts
        .map(|part| part.iter().sum::<u64>() / PART as u64)
        .min()
}

fn fail() {
    // SAFETY: there is no such descriptor, and nothing else happens.
    unsafe { libc::lseek(-1, 0, libc::SEEK_CUR) };
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

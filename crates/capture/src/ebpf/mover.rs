//! The thread that empties the ring.
//!
//! It copies records into pieces of memory and does nothing else, at real-time priority where that
//! is allowed: so the ring has room however busy the processors are and however long operations
//! take to be made of the records. When much waits, it has the programs hold back calls
//! (`hold_back` in `bpf/record.h`), the longer the more waits, until what comes is less than what
//! is taken. What may wait is bounded all the same; at the bound nothing is moved, and the ring
//! fills.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use rustix::event::{Timespec, epoll};

use super::load::Pressure;
use crate::CaptureError;

/// Records are handed on in pieces of about this size.
const PIECE_BYTES: usize = 256 << 10;
/// The longest record: a head and two paths.
const RECORD_BYTES: usize = 16 << 10;
/// Pieces kept for their memory.
const SPARE_PIECES: usize = 16;
/// How long the ring is left alone unless it fills.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};
/// Calls are held back when half of what may wait does: 2 us, and twice as long with each further
/// sixteenth, 256 us at the last.
const HOLD_STEPS: usize = 8;
const HOLD_LEAST_NS: u64 = 2000;
/// Calls that are held back need room while pieces are written to a file.
const HELD_ROOM: usize = (64 << 20) / PIECE_BYTES;
/// How long to wait for a piece to be used up when no more may wait.
const FULL_PATIENCE: Duration = Duration::from_micros(500);
const LENGTH_BYTES: usize = 4;

/// Records, each behind its length.
type Piece = Vec<u8>;

struct Shared {
    /// Pieces handed on and not used up.
    waiting: AtomicUsize,
    ending: AtomicBool,
    spare: Mutex<VecDeque<Piece>>,
}

/// The reader's end of what the thread moves.
pub(super) struct Mover {
    shared: Arc<Shared>,
    pieces: mpsc::Receiver<Piece>,
    pieces_most: usize,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// Begins to move; about `spool_bytes` may wait. Calls are held back through `pressure`.
    pub(super) fn start(
        ring: RingBuf<MapData>,
        pressure: Option<Pressure>,
        spool_bytes: u64,
    ) -> Result<Self, CaptureError> {
        let shared = Arc::new(Shared {
            waiting: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
            spare: Mutex::default(),
        });
        let pieces_most = usize::try_from(spool_bytes / PIECE_BYTES as u64)
            .unwrap_or(usize::MAX)
            .max(2);
        let failed = |e| CaptureError::io("watch the ring", e);
        let bell = bell(&ring).map_err(failed)?;
        let (full, pieces) = mpsc::channel();
        let mut work = Work {
            ring,
            bell,
            shared: Arc::clone(&shared),
            full,
            piece: Vec::with_capacity(PIECE_BYTES),
            pieces_most,
            pressure,
            hold_ns: 0,
        };
        let thread = std::thread::Builder::new()
            .name("fsage-ring".into())
            .spawn(move || work.run())
            .map_err(|e| CaptureError::io("start a thread", e))?;
        Ok(Self {
            shared,
            pieces,
            pieces_most,
            thread: Some(thread),
        })
    }

    /// Nothing more will come into the ring: the thread ends when it has moved what is there.
    pub(super) fn end(&self) {
        self.shared.ending.store(true, Ordering::Release);
    }

    /// Hands on the records of the next piece, waiting a bounded time for one. `false` once there
    /// will be no more.
    pub(super) fn take(&self, patience: Duration, take: &mut dyn FnMut(&[u8])) -> bool {
        let mut piece = match self.pieces.recv_timeout(patience) {
            Ok(piece) => piece,
            Err(mpsc::RecvTimeoutError::Timeout) => return true,
            Err(mpsc::RecvTimeoutError::Disconnected) => return false,
        };
        let mut rest = piece.as_slice();
        while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
            let length = u32::from_ne_bytes(*length) as usize;
            let Some((record, behind)) = behind.split_at_checked(length) else {
                break;
            };
            take(record);
            rest = behind;
        }
        piece.clear();
        if let Ok(mut spare) = self.shared.spare.lock()
            && spare.len() < SPARE_PIECES
        {
            spare.push_back(piece);
        }
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        true
    }

    /// How much waits, of what may, in percent.
    pub(super) fn filled_percent(&self) -> usize {
        self.shared
            .waiting
            .load(Ordering::Acquire)
            .saturating_mul(100)
            / self.pieces_most
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Rings when the programs wake the reader, not for every record that waits.
fn bell(ring: &RingBuf<MapData>) -> std::io::Result<OwnedFd> {
    let bell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&bell, ring, epoll::EventData::new_u64(0), flags)?;
    Ok(bell)
}

struct Work {
    ring: RingBuf<MapData>,
    bell: OwnedFd,
    shared: Arc<Shared>,
    full: mpsc::Sender<Piece>,
    piece: Piece,
    pieces_most: usize,
    pressure: Option<Pressure>,
    hold_ns: u64,
}

impl Work {
    fn run(&mut self) {
        come_first();
        loop {
            // Asked first: what was sent before the end is in the ring by then.
            let ending = self.shared.ending.load(Ordering::Acquire);
            let emptied = self.empty_ring(ending);
            self.set_hold(self.shared.waiting.load(Ordering::Acquire));
            // Half a piece is worth handing on only to someone who has nothing to do.
            let idle = self.shared.waiting.load(Ordering::Acquire) == 0;
            if (idle || ending) && !self.hand_on() {
                return;
            }
            if ending {
                return;
            }
            if emptied {
                let mut events = [epoll::Event {
                    flags: epoll::EventFlags::empty(),
                    data: epoll::EventData::new_u64(0),
                }];
                // An interrupted wait is as good as one that is over.
                let _ = epoll::wait(&self.bell, &mut events, Some(&PATIENCE));
            } else {
                std::thread::sleep(FULL_PATIENCE);
            }
        }
    }

    /// Moves what there is; `false` if more may not wait. At the end everything must.
    fn empty_ring(&mut self, ending: bool) -> bool {
        loop {
            if self.piece.len() + LENGTH_BYTES + RECORD_BYTES > PIECE_BYTES {
                let waiting = self.shared.waiting.load(Ordering::Acquire);
                self.set_hold(waiting);
                let room = self.pieces_most + self.pressure.as_ref().map_or(0, |_| HELD_ROOM);
                if (waiting >= room && !ending) || !self.hand_on() {
                    return false;
                }
            }
            let Some(record) = self.ring.next() else {
                return true;
            };
            self.piece
                .extend_from_slice(&(record.len() as u32).to_ne_bytes());
            self.piece.extend_from_slice(&record);
        }
    }

    /// Has calls held back by how much waits.
    fn set_hold(&mut self, waiting: usize) {
        let hold_ns = hold_ns(waiting, self.pieces_most);
        if let Some(pressure) = &mut self.pressure
            && hold_ns != self.hold_ns
            && pressure.set(0, hold_ns, 0).is_ok()
        {
            self.hold_ns = hold_ns;
        }
    }

    /// `false` if nobody takes pieces any more.
    fn hand_on(&mut self) -> bool {
        if self.piece.is_empty() {
            return true;
        }
        // Never waits for a thread that has not its priority.
        let spare = self.shared.spare.try_lock().ok();
        let new = spare
            .and_then(|mut spare| spare.pop_front())
            .unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES));
        self.shared.waiting.fetch_add(1, Ordering::AcqRel);
        self.full
            .send(std::mem::replace(&mut self.piece, new))
            .is_ok()
    }
}

/// For how long calls are held back when so many pieces wait.
fn hold_ns(waiting: usize, most: usize) -> u64 {
    let half = most / 2;
    if waiting < half.max(1) {
        return 0;
    }
    let step = (waiting - half) * HOLD_STEPS / (most - half).max(1);
    HOLD_LEAST_NS << step.min(HOLD_STEPS - 1)
}

/// Lets this thread run before those that fill the ring: real-time priority, or a low nice value,
/// or neither where both are forbidden.
fn come_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads a structure that lives until it returns; 0 is this thread.
    let failed = unsafe {
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const priority,
        ) != 0
    };
    if failed {
        set_nice(-20);
    }
}

/// The nice value of this thread alone, and whether it could be set.
pub(super) fn set_nice(nice: i32) -> bool {
    // SAFETY: takes numbers; for 0 Linux means the thread that calls.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

/// The nice value of this thread.
pub(super) fn nice() -> i32 {
    // SAFETY: takes numbers; an error is -1, which is a nice value as well.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_waits_the_longer_calls_are_held_back() {
        assert_eq!(hold_ns(0, 2), 0);
        assert_eq!(hold_ns(499, 1000), 0);
        assert_eq!(hold_ns(500, 1000), HOLD_LEAST_NS);
        assert_eq!(hold_ns(700, 1000), HOLD_LEAST_NS << 3);
        assert_eq!(hold_ns(1000, 1000), HOLD_LEAST_NS << 7);
        assert_eq!(hold_ns(usize::MAX / 16, 1000), HOLD_LEAST_NS << 7);
    }
}

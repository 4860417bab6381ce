//! Capture by eBPF: programs on the kernel's trace points, one ring to read from.
//!
//! The kernel side is `bpf/fsage.bpf.c`. Everything there hangs on descriptors of this process, so
//! that it is gone when this process is, however it ended. Records go through three hands: the
//! programs put them into the ring, [`mover`] copies them out, and whoever polls makes events of
//! them. When the last falls behind, the second tells the first to hold back calls (they do so by
//! themselves when the ring is half full), so that nothing is lost.

mod load;
mod mover;
mod own;
mod seed;
mod wire;

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fsage_core::{Pid, Tid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::CaptureError;
use crate::raw::{Backend, HeldBack, RawEvent};
use crate::session::{Buffers, OwnTime};

/// How long to wait for records.
const PATIENCE: Duration = Duration::from_millis(5);
/// When so much of what may wait does, the thread that makes events of it goes before others, …
const URGENT_PERCENT: usize = 25;
/// … until only so much does.
const CALM_PERCENT: usize = 3;

/// A capture by eBPF.
pub struct EbpfBackend {
    loaded: load::Loaded,
    mover: mover::Mover,
    decoder: wire::Decoder,
    value_size: usize,
    adopt_threads: bool,
    /// The processes whose end is the capture's.
    roots: Vec<OwnedFd>,
    lost: u64,
    compat: u64,
    stopped: bool,
    ending: bool,
    /// The nice value that the polling thread had before it was urged on.
    calm_nice: Option<i32>,
}

impl EbpfBackend {
    /// Loads the programs. Nothing is watched yet.
    ///
    /// Errors: [`CaptureError::Unsupported`] where the kernel or the user's rights do not allow it.
    pub fn new(buffers: &Buffers) -> Result<Self, CaptureError> {
        let adopt_threads = !seed::threads_have_pidfds();
        let alone_ns = own::alone_ns();
        let mut loaded = load::load(buffers.ring_bytes(), buffers.throttle, adopt_threads)?;
        let info = loaded.tasks.info().map_err(|e| {
            CaptureError::io(
                "ask for the size of the task storage",
                std::io::Error::other(e),
            )
        })?;
        let value_size = info.value_size() as usize;
        let mut decoder = wire::Decoder::new(loaded.pages_known);
        let mover = {
            let (ring, pressure) = loaded.take_ring()?;
            let pressure = buffers.throttle.then_some(pressure);
            mover::Mover::start(ring, pressure, buffers.spool_bytes())?
        };
        // Threads that are watched by their leader would all be, and go on.
        if !adopt_threads {
            let tasks = loaded.tasks.fd().as_fd();
            decoder.own = own::measure(tasks, value_size, &mover, &mut decoder, alone_ns);
        }
        Ok(Self {
            value_size,
            decoder,
            mover,
            loaded,
            adopt_threads,
            roots: Vec::new(),
            lost: 0,
            compat: 0,
            stopped: false,
            ending: false,
            calm_nice: None,
        })
    }

    /// Whether pages missed and read ahead are seen.
    pub fn pages_known(&self) -> bool {
        self.loaded.pages_known
    }

    /// Watches these processes with all their threads and descendants; the capture ends when they
    /// have. Returns all processes that were found.
    pub fn watch(&mut self, roots: &[Pid]) -> Result<Vec<Pid>, CaptureError> {
        for pid in roots {
            let fd = seed::pidfd(Tid(pid.0), false)
                .map_err(|e| CaptureError::io(format!("find process {}", pid.0), e))?;
            self.roots.push(fd);
        }
        let tasks = self.loaded.tasks.fd().as_fd();
        seed::watch_trees(tasks, self.value_size, roots, !self.adopt_threads)
    }

    fn roots_ended(&self) -> bool {
        let mut fds: Vec<_> = self
            .roots
            .iter()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let none = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&none)).is_ok_and(|ready| ready == self.roots.len())
    }

    /// The thread that polls must not fall behind for want of a processor.
    fn urge(&mut self) {
        let filled = self.mover.filled_percent();
        match self.calm_nice {
            None if filled >= URGENT_PERCENT => {
                let before = mover::nice();
                if mover::set_nice(-20) {
                    self.calm_nice = Some(before);
                }
            }
            Some(before) if filled <= CALM_PERCENT => {
                mover::set_nice(before);
                self.calm_nice = None;
            }
            _ => {}
        }
    }

    fn report_lost(&mut self, take: &mut dyn FnMut(RawEvent)) {
        let Ok(counts) = self.loaded.counts.get(&0, 0) else {
            return;
        };
        let lost: u64 = counts.iter().map(|c| c.lost).sum();
        let compat: u64 = counts.iter().map(|c| c.compat).sum();
        if lost > self.lost || compat > self.compat {
            take(RawEvent::Lost {
                count: lost - self.lost,
                of_32_bit: compat - self.compat,
            });
            (self.lost, self.compat) = (lost, compat);
        }
    }
}

impl Backend for EbpfBackend {
    fn method(&self) -> &'static str {
        "ebpf"
    }

    fn poll(&mut self, take: &mut dyn FnMut(RawEvent)) -> Result<bool, CaptureError> {
        // Asked first: what a process did before its end is in the ring by then.
        if !self.ending && (self.stopped || self.roots_ended()) {
            self.ending = true;
            self.loaded.detach();
            self.mover.end();
        }
        let (mover, decoder) = (&self.mover, &mut self.decoder);
        let more = mover.take(PATIENCE, &mut |record| {
            if let Some(event) = decoder.decode(record) {
                take(event);
            }
        });
        self.report_lost(take);
        self.urge();
        Ok(more)
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn held_back(&self) -> HeldBack {
        let Ok(counts) = self.loaded.counts.get(&0, 0) else {
            return HeldBack::default();
        };
        HeldBack {
            calls: counts.iter().map(|c| c.held).sum(),
            total_ns: counts.iter().map(|c| c.held_ns).sum(),
        }
    }

    fn signal(&self, pid: Pid, signal: Signal) -> bool {
        seed::signal_watched(self.loaded.tasks.fd().as_fd(), self.value_size, pid, signal)
    }

    fn tells_waits(&self) -> bool {
        self.loaded.waits_known
    }

    fn own(&self) -> OwnTime {
        self.decoder.own
    }

    fn unseen(&self) -> Vec<&'static str> {
        let mut unseen = self.loaded.unseen.clone();
        unseen.push("calls of 32-bit programs (counted)");
        unseen
    }
}

impl Drop for EbpfBackend {
    fn drop(&mut self) {
        self.loaded.detach();
        if let Some(nice) = self.calm_nice {
            mover::set_nice(nice);
        }
    }
}

//! Capture by eBPF: programs on the kernel's trace points, one ring to read from.
//!
//! The kernel side is `bpf/fsage.bpf.c`. Everything there hangs on descriptors of this process, so
//! that it is gone when this process is, however it ended.

mod load;
mod seed;
mod wire;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fsage_core::{Pid, Tid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::CaptureError;
use crate::raw::{Backend, RawEvent};

/// How long to wait for records; what comes meanwhile waits in the ring.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};
/// Records handed on before the counters are looked at again.
const BATCH: usize = 1 << 14;

/// A capture by eBPF.
pub struct EbpfBackend {
    loaded: load::Loaded,
    decoder: wire::Decoder,
    value_size: usize,
    adopt_threads: bool,
    /// The processes whose end is the capture's.
    roots: Vec<OwnedFd>,
    lost: u64,
    compat: u64,
    stopped: bool,
}

impl EbpfBackend {
    /// Loads the programs; `ring_mib` is rounded up to a power of two. Nothing is watched yet.
    ///
    /// Errors: [`CaptureError::Unsupported`] where the kernel or the user's rights do not allow it.
    pub fn new(ring_mib: u32) -> Result<Self, CaptureError> {
        let mib = ring_mib.clamp(1, 1024).next_power_of_two();
        Self::with_ring_bytes(mib << 20)
    }

    /// The same with a ring of so many bytes, a power of two and whole pages.
    pub fn with_ring_bytes(bytes: u32) -> Result<Self, CaptureError> {
        let adopt_threads = !seed::threads_have_pidfds();
        let loaded = load::load(bytes, adopt_threads)?;
        let info = loaded.tasks.info().map_err(|e| {
            CaptureError::io(
                "ask for the size of the task storage",
                std::io::Error::other(e),
            )
        })?;
        let decoder = wire::Decoder::new(loaded.pages_known);
        Ok(Self {
            value_size: info.value_size() as usize,
            decoder,
            loaded,
            adopt_threads,
            roots: Vec::new(),
            lost: 0,
            compat: 0,
            stopped: false,
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

    fn drain(&mut self, take: &mut dyn FnMut(RawEvent)) -> usize {
        let mut count = 0;
        while count < BATCH
            && let Some(record) = self.loaded.ring.next()
        {
            count += 1;
            if let Some(event) = self.decoder.decode(&record) {
                take(event);
            }
        }
        count
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
        let ended = self.stopped || self.roots_ended();
        let mut count = self.drain(take);
        self.report_lost(take);
        if count == 0 && !ended {
            let ring: BorrowedFd<'_> = self.loaded.ring.as_fd();
            let mut fds = [PollFd::new(&ring, PollFlags::IN)];
            // An interrupted wait is as good as one that is over.
            let _ = poll(&mut fds, Some(&PATIENCE));
            count = self.drain(take);
        }
        Ok(!ended || count > 0)
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.loaded.detach();
    }

    fn unseen(&self) -> Vec<&'static str> {
        let mut unseen = self.loaded.unseen.clone();
        unseen.push("calls of 32-bit programs (counted)");
        unseen
    }
}

//! How fast the machine is at a moment: a fixed piece of work, timed.
//!
//! Clocks, neighbours on the same host and its memory make everything of a moment slower or faster alike.
//! What two measurements have in common falls out when each is divided by the reference taken beside it.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use fsage_core::Clock;
use rustix::fs::MemfdFlags;

use crate::MonotonicClock;

/// The work is done so often; the median counts, so that one interruption changes nothing.
const TIMES: usize = 5;
/// Empty system calls of one piece of work.
const CALLS: usize = 1500;
/// Reads of 4 KiB that the kernel copies from a file in memory.
const READS: usize = 500;
/// Loads of which each needs the one before.
const LOADS: usize = 4000;
/// What they lie in: more than the processor's caches hold.
const MEMORY_BYTES: usize = 32 << 20;
/// What is copied, in bytes.
const COPIED_BYTES: usize = 2 << 20;

/// The piece of work with what it works on.
#[derive(Debug)]
pub struct Reference {
    file: File,
    /// Each place holds the next, in one round through all.
    next: Vec<u32>,
    at: u32,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Reference {
    /// Makes what is worked on: 36 MiB. `None` where the kernel gives no file in memory.
    pub fn new() -> Option<Self> {
        let file = File::from(rustix::fs::memfd_create("fsage", MemfdFlags::CLOEXEC).ok()?);
        file.write_all_at(&[1; 4096], 0).ok()?;
        let places = (MEMORY_BYTES / size_of::<u32>()) as u32;
        // A full period needs an odd increment and a multiplier that is 1 more than a multiple of 4.
        let step = |place: u32| place.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) % places;
        Some(Self {
            file,
            next: (0..places).map(step).collect(),
            at: 0,
            from: vec![1; COPIED_BYTES],
            to: vec![0; COPIED_BYTES],
        })
    }

    /// What the work takes now on that CPU, or on any.
    pub fn take_on_ns(&mut self, cpu: Option<usize>) -> u64 {
        let _pinned = cpu.and_then(|cpu| crate::thread::pin(cpu).ok());
        self.take_ns()
    }

    /// What the work takes now, in nanoseconds: some 2 ms in all.
    pub fn take_ns(&mut self) -> u64 {
        let mut times = [0; TIMES];
        for time in &mut times {
            let start_ns = MonotonicClock.now_ns();
            self.work();
            *time = MonotonicClock.now_ns().saturating_sub(start_ns);
        }
        times.sort_unstable();
        times.get(TIMES / 2).copied().unwrap_or(1).max(1)
    }

    fn work(&mut self) {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        let mut page = [0; 4096];
        for _ in 0..READS {
            // It holds that much.
            let _ = black_box(self.file.read_at(&mut page, 0));
        }
        for _ in 0..LOADS {
            self.at = self.next.get(self.at as usize).copied().unwrap_or(0);
        }
        self.to.copy_from_slice(black_box(&self.from));
        black_box(&self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_takes_about_as_long_again_and_passes_through_all_of_the_memory() {
        let mut reference = Reference::new().unwrap();
        let mut seen = vec![false; reference.next.len()];
        let mut at = 0u32;
        for _ in 0..seen.len() {
            seen[at as usize] = true;
            at = reference.next[at as usize];
        }
        assert!(seen.iter().all(|&s| s), "one round through every place");
        reference.take_ns();
        // The least of several is what the machine can do; a busy one is slower, never faster.
        let least = |r: &mut Reference| (0..20).map(|_| r.take_ns()).min().unwrap();
        let (first, second) = (least(&mut reference), least(&mut reference));
        assert!(
            first.max(second) < 3 * first.min(second),
            "{first} {second}"
        );
    }
}

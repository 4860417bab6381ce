//! How fast the machine is at a moment: a fixed piece of work, timed.
//!
//! Clocks, neighbours on the same host and its memory make everything of a moment slower or faster alike.
//! What two measurements have in common falls out when each is divided by the reference taken beside it.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;

/// The work is timed so often; the median counts, so that one interruption changes nothing.
const TIMES: usize = 5;
/// Empty system calls of one piece of work.
const CALLS: usize = 1500;
/// Reads of 4 KiB that the kernel copies from a file in memory.
const READS: usize = 500;
/// What is copied, in bytes: it stays in the processor's own caches. Loads from beyond them took 25 to 40 % longer
/// after anything else had used the memory, on a machine whose system calls took the same within 2 %.
const COPIED_BYTES: usize = 128 << 10;
/// How often.
const COPIES: usize = 16;

/// The piece of work with what it works on.
#[derive(Debug)]
pub struct Reference {
    file: File,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Reference {
    /// Makes what is worked on. `None` where the kernel gives no file in memory.
    pub fn new() -> Option<Self> {
        let file = File::from(rustix::fs::memfd_create("fsage", MemfdFlags::CLOEXEC).ok()?);
        file.write_all_at(&[1; 4096], 0).ok()?;
        Some(Self {
            file,
            from: vec![1; COPIED_BYTES],
            to: vec![0; COPIED_BYTES],
        })
    }

    /// What the work takes now on that CPU, or on any.
    pub fn take_on_ns(&mut self, cpu: Option<usize>) -> u64 {
        let _pinned = cpu.and_then(|cpu| crate::thread::pin(cpu).ok());
        self.take_ns()
    }

    /// What the work takes now, in nanoseconds: some 2 ms in all, of which the first is to fill the caches.
    pub fn take_ns(&mut self) -> u64 {
        self.work();
        let mut times = [0; TIMES];
        for time in &mut times {
            let start_ns = processor_ns();
            self.work();
            *time = processor_ns().saturating_sub(start_ns);
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
        for _ in 0..COPIES {
            self.to.copy_from_slice(black_box(&self.from));
            black_box(&self.to);
        }
    }
}

/// Processor time of this thread: what others had of it meanwhile is no speed of the machine, and whoever measures keeps out
/// of such times.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was in the caches makes no difference; the least of several is what the machine can do.
    #[test]
    fn the_work_takes_as_long_again_whatever_was_done_before() {
        let mut reference = Reference::new().unwrap();
        let mut least = |before: &dyn Fn()| {
            let takes = (0..20).map(|_| {
                before();
                reference.take_ns()
            });
            takes.min().unwrap()
        };
        let alone = least(&|| ());
        let after_others = least(&|| drop(black_box(vec![1u8; 64 << 20])));
        assert!(
            alone.max(after_others) < 2 * alone.min(after_others),
            "{alone} {after_others}"
        );
    }
}

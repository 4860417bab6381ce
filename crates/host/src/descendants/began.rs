//! When a program took over its process: told by the process itself, right before it becomes the program,
//! through a page that it shares with fsage. Forking, joining a control group (which can block for 15 ms)
//! and starting are then outside of the clock.

use std::sync::atomic::{AtomicU64, Ordering};

use fsage_core::Clock;

use crate::MonotonicClock;
use crate::observe::{Usage, Whose};

/// The state of a process when its program began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Began {
    /// On the monotonic clock, nanoseconds.
    pub at_ns: u64,
    /// What the process had used until then; nothing of that is the program's.
    pub used: Usage,
    /// How long it had waited for a processor until then, nanoseconds; 0 where the kernel keeps no count.
    pub waited_ns: u64,
}

const FIELDS: usize = 8;

/// What the page holds: a time, then parts of a [`Usage`].
type Fields = [AtomicU64; FIELDS];

/// The page that both processes see.
#[derive(Debug)]
pub(super) struct Note {
    page: *mut Fields,
}

// SAFETY: the page is mapped until the drop, and holds atomics only.
unsafe impl Send for Note {}
// SAFETY: as above.
unsafe impl Sync for Note {}

impl Note {
    /// `None` where no page is to be had.
    pub(super) fn new() -> Option<Self> {
        // SAFETY: an anonymous mapping at a place of the kernel's choice touches no other memory.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Fields>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (page != libc::MAP_FAILED).then(|| Self { page: page.cast() })
    }

    fn fields(&self) -> &Fields {
        // SAFETY: the mapping is a page of zeros, aligned and long enough, for as long as self lives.
        unsafe { &*self.page }
    }

    /// Called between fork and exec: reads clocks and a file and stores numbers, nothing else.
    pub(super) fn write(&self) {
        let used = Usage::of(Whose::Process);
        let values = [
            used.user_ns,
            used.system_ns,
            used.minor_faults,
            used.major_faults,
            used.voluntary_switches,
            used.involuntary_switches,
            waited_ns(),
        ];
        let (at, rest) = (&self.fields()[0], &self.fields()[1..]);
        for (field, value) in rest.iter().zip(values) {
            field.store(value, Ordering::Relaxed);
        }
        at.store(MonotonicClock.now_ns(), Ordering::Release);
    }

    /// What was written; `None` if nothing was.
    pub(super) fn read(&self) -> Option<Began> {
        let fields = self.fields();
        let at_ns = fields[0].load(Ordering::Acquire);
        let of = |n: usize| fields[n].load(Ordering::Relaxed);
        (at_ns != 0).then(|| Began {
            at_ns,
            used: Usage {
                user_ns: of(1),
                system_ns: of(2),
                minor_faults: of(3),
                major_faults: of(4),
                voluntary_switches: of(5),
                involuntary_switches: of(6),
                ..Usage::default()
            },
            waited_ns: of(7),
        })
    }
}

/// The second field of this process's schedstat (kernel documentation, scheduler/sched-stats); neither allocates
/// nor locks.
fn waited_ns() -> u64 {
    let mut text = [0u8; 96];
    // SAFETY: open, read and close are async-signal-safe; the name ends in a zero, the buffer is as long as said.
    let length = unsafe {
        let file = libc::open(
            c"/proc/self/schedstat".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return 0;
        }
        let length = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        length
    };
    let text = text.get(..length.max(0) as usize).unwrap_or_default();
    let mut fields = text.split(|&b| b == b' ');
    let digits = fields.nth(1).unwrap_or_default();
    digits.iter().fold(0, |sum: u64, digit| {
        sum.wrapping_mul(10)
            .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

impl Drop for Note {
    fn drop(&mut self) {
        // SAFETY: nobody in this process refers to the page any more; the child has its own mapping.
        unsafe { libc::munmap(self.page.cast(), size_of::<Fields>()) };
    }
}

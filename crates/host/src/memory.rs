//! Memory that is not to be had ends the process with an error that names the limit, and not with an abort.
//!
//! Nothing is undone then, as after `kill -9`, and what waits beside fsage removes what it made
//! (`docs/decisions/0003-killed-processes-clean-up.md`): what would undo it here needs memory.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::limits::OF_MEMORY;

/// The system's allocator, but that it never gives nothing: the program says so and ends with exit code 1.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: every call goes to the system's allocator as it is; what comes back is passed on, and never null.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) };
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

fn given(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        none_left(bytes);
    }
    memory
}

/// Whether so much memory could be had at once, which is given back.
pub fn is_to_be_had(bytes: usize) -> bool {
    let Ok(layout) = Layout::array::<u8>(bytes.max(1)) else {
        return false;
    };
    // SAFETY: the layout has a size.
    let memory = unsafe { System.alloc(layout) };
    // What nobody looks at would not be reserved at all.
    let there = !std::hint::black_box(memory).is_null();
    if there {
        // SAFETY: it was given so, and nobody has it.
        unsafe { System.dealloc(memory, layout) };
    }
    there
}

/// A message, in memory that is there.
struct Message {
    bytes: [u8; 512],
    length: usize,
}

impl fmt::Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = self.bytes.get_mut(self.length..).unwrap_or_default();
        let most = rest.len().min(text.len());
        for (to, from) in rest.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.length += most;
        Ok(())
    }
}

/// What is said when so many bytes are not to be had; cut where there is no room for it.
fn message(bytes: usize) -> Message {
    let mut message = Message {
        bytes: [0; 512],
        length: 0,
    };
    // What there is no room for is cut, and nothing else fails.
    let _ = tell(&mut message, bytes);
    message
}

fn tell(to: &mut Message, bytes: usize) -> fmt::Result {
    write!(to, "fsage: failed to get {bytes} bytes of memory")?;
    let limits = || OF_MEMORY.into_iter().filter(|l| l.value().is_some());
    if limits().next().is_none() {
        return write!(to, ", which has no limit here (ulimit -v)\n{FREE}\n");
    }
    for (separator, limit) in [": ", ", "].into_iter().zip(limits()) {
        write!(to, "{separator}{limit}")?;
    }
    write!(to, "\nhint: raise it in the shell that starts fsage:")?;
    for (separator, limit) in [" ", "; "].into_iter().zip(limits()) {
        write!(to, "{separator}ulimit -{} unlimited", limit.option())?;
    }
    to.write_str("\n")
}

const FREE: &str = "hint: the machine, or the control group that fsage runs in, has no more of it: end what uses much";

/// Says what is missing and ends the process, without any memory.
fn none_left(bytes: usize) -> ! {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::SeqCst) {
        // Where a bar is drawn it goes.
        // SAFETY: only asks what descriptor 2 is.
        if unsafe { libc::isatty(2) } == 1 {
            write(b"\r\x1b[K");
        }
        let message = message(bytes);
        write(message.bytes.get(..message.length).unwrap_or_default());
        // SAFETY: ends the process; what runs at its usual end may need memory.
        unsafe { libc::_exit(1) };
    }
    // Another thread is at it.
    loop {
        // SAFETY: waits for a signal.
        unsafe { libc::pause() };
    }
}

fn write(bytes: &[u8]) {
    // SAFETY: the bytes are there; a stderr that is closed is nobody's concern.
    let _ = unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_to_be_had_is_told_with_its_limits() {
        let message = message(8 << 20);
        let said = std::str::from_utf8(&message.bytes[..message.length]).unwrap();
        assert!(
            said.starts_with("fsage: failed to get 8388608 bytes of memory"),
            "{said}"
        );
        assert!(
            said.contains("ulimit -v") && said.contains("\nhint: "),
            "{said}"
        );
        assert!(said.ends_with('\n'), "{said}");
    }

    #[test]
    fn nobody_has_all_memory() {
        assert!(is_to_be_had(1 << 20));
        assert!(!is_to_be_had(usize::MAX >> 2));
    }
}

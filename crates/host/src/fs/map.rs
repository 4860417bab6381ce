//! Page faults on a mapped file, one page at a time.
//!
//! A fault that the file system cannot serve (a hole on a full disk, a read error) comes as SIGBUS.
//! While a mapping is touched, a handler puts an anonymous page in its place and notes it, so that
//! a full disk is an error and not the end of the process.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use fsage_core::{Clock, Errno};

use crate::MonotonicClock;
use crate::error::last_errno;

thread_local! {
    /// The mapping that this thread touches now: first byte, end.
    static TOUCHED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// Whether a fault in it could not be served.
    static FAILED: Cell<bool> = const { Cell::new(false) };
}

/// What SIGBUS did before; `None` if the handler could not be installed.
static PREVIOUS: OnceLock<Option<libc::sigaction>> = OnceLock::new();

fn page_bytes() -> usize {
    rustix::param::page_size()
}

extern "C" fn on_bus_error(
    _signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let address = unsafe { (*info).si_addr() } as usize;
    let (start, end) = TOUCHED.get();
    if (start..end).contains(&address) {
        let page = page_bytes();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: replaces one page of the mapping that `touch` made and will unmap; nothing else
        // points into it. mmap is async-signal-safe on Linux.
        let mapped = unsafe {
            let at = (address & !(page - 1)) as *mut libc::c_void;
            libc::mmap(at, page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if mapped != libc::MAP_FAILED {
            FAILED.set(true);
            return;
        }
    }
    // Not ours: the same fault comes again under the handler that was there before.
    // SAFETY: a zeroed sigaction is SIG_DFL with an empty mask; both are valid arguments.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let previous = PREVIOUS.get().and_then(Option::as_ref).unwrap_or(&default);
        libc::sigaction(libc::SIGBUS, previous, std::ptr::null_mut());
    }
}

fn install_handler() -> Result<(), Errno> {
    let installed = PREVIOUS.get_or_init(|| {
        // SAFETY: both structures are plain data, valid when zeroed; the handler is
        // async-signal-safe: it reads thread-locals without destructors and calls mmap.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut previous: libc::sigaction = std::mem::zeroed();
            let done = libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous) == 0;
            done.then_some(previous)
        }
    });
    if installed.is_some() {
        Ok(())
    } else {
        Err(Errno::ENOSYS)
    }
}

/// A shared mapping of a file, unmapped on drop.
struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    fn new(fd: BorrowedFd<'_>, offset: u64, length: usize, write: bool) -> Result<Self, Errno> {
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let access = libc::PROT_READ | if write { libc::PROT_WRITE } else { 0 };
        // SAFETY: the kernel chooses the address; the file is only ever touched by `touch`.
        let start = unsafe {
            let any = std::ptr::null_mut();
            libc::mmap(
                any,
                length,
                access,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Self {
            start: start.cast(),
            length,
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        TOUCHED.set((0, 0));
        // SAFETY: exactly what was mapped.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// Touches one byte of each page; see [`fsage_core::FileSystem::map_touch`]. `offset` must be a
/// multiple of the page size and the pages must lie in the file, else `EINVAL`. `ENOSPC` where a
/// page could not be made, `EIO` where one could not be read.
pub(super) fn touch(
    fd: BorrowedFd<'_>,
    offset: u64,
    length: u64,
    write: bool,
    clock: &MonotonicClock,
    touched: &mut dyn FnMut(u64),
) -> Result<(), Errno> {
    let page = page_bytes();
    let size = rustix::fs::fstat(fd).map_err(super::ops::errno)?.st_size;
    let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
    let whole = u64::try_from(size).unwrap_or(0).div_ceil(page as u64) * page as u64;
    if length == 0 || end > whole {
        return Err(Errno::EINVAL);
    }
    let length = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
    install_handler()?;
    let mapping = Mapping::new(fd, offset, length, write)?;
    FAILED.set(false);
    TOUCHED.set((
        mapping.start as usize,
        mapping.start as usize + length.next_multiple_of(page),
    ));
    for at in (0..length).step_by(page) {
        let before = clock.now_ns();
        // SAFETY: inside the mapping, which lives until the end of this function; a page that
        // cannot be had is replaced by the SIGBUS handler. Volatile, so that each touch happens.
        unsafe {
            let byte = mapping.start.add(at);
            if write {
                // In one instruction, so that it faults once: a page that is read first is mapped to be read.
                AtomicU8::from_ptr(byte).fetch_add(1, Ordering::Relaxed);
            } else {
                byte.read_volatile();
            }
        }
        let after = clock.now_ns();
        if FAILED.get() {
            return Err(if write { Errno::ENOSPC } else { Errno::EIO });
        }
        touched(after - before);
    }
    Ok(())
}

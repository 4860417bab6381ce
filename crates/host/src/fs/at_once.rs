//! Reads that are all asked for before one of them is waited for, past the page cache (`io_submit`).
//!
//! The calls of 2002, since every kernel has them and containers that forbid io_uring allow them.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use fsage_core::Errno;

use super::ops::errno;
use crate::error::last_errno;

/// `IOCB_CMD_PREAD`.
const READ: u16 = 0;

/// What the kernel says of one that ended (`struct io_event`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Ended {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// A queue of the kernel. Its end waits for whatever is still there, so that no read outlives its buffer.
struct Queue(libc::c_ulong);

impl Queue {
    fn new(requests: usize) -> Result<Self, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one word, which lives as long as the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, requests, &raw mut context) };
        if made < 0 {
            return Err(last_errno());
        }
        Ok(Self(context))
    }

    /// Asks for all of them; how many the kernel took.
    fn ask(&self, requests: &mut [*mut libc::iocb]) -> Result<usize, Errno> {
        // SAFETY: each points to a request that lives, as its buffer does, until the queue is gone.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.0,
                requests.len(),
                requests.as_mut_ptr(),
            )
        };
        usize::try_from(taken).map_err(|_| last_errno())
    }

    /// Waits until so many have ended; what they read, or the first one's error.
    fn await_all(&self, ended: &mut [Ended]) -> Result<usize, Errno> {
        let mut came = 0;
        let mut bytes = 0;
        while came < ended.len() {
            // SAFETY: room for as many as are asked for; no timeout.
            let got = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.0,
                    1,
                    ended.len() - came,
                    ended.as_mut_ptr(),
                    std::ptr::null_mut::<libc::timespec>(),
                )
            };
            let got = match usize::try_from(got) {
                Ok(got) => got,
                Err(_) if last_errno() == Errno::EINTR => continue,
                Err(_) => return Err(last_errno()),
            };
            for one in ended.iter().take(got) {
                match usize::try_from(one.result) {
                    Ok(read) => bytes += read,
                    Err(_) => return Err(i32::try_from(-one.result).map_or(Errno::EIO, Errno)),
                }
            }
            came += got;
        }
        Ok(bytes)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by `new` and not used any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// See [`fsage_core::FileSystem::read_at_once`].
pub(super) fn read(
    fd: BorrowedFd<'_>,
    length: usize,
    offsets: &[u64],
    noted: &mut dyn FnMut(),
) -> Result<usize, Errno> {
    if offsets.is_empty() || length == 0 {
        return Ok(0);
    }
    let flags = rustix::fs::fcntl_getfl(fd).map_err(errno)?;
    if !flags.contains(rustix::fs::OFlags::DIRECT) {
        return Err(Errno::EINVAL);
    }
    // Devices take what lies at a page, so that each has pages of its own.
    let page = rustix::param::page_size();
    let each = length.next_multiple_of(page);
    let room = each.checked_mul(offsets.len()).ok_or(Errno::EINVAL)?;
    let mut buffer = vec![0u8; room + page];
    let first = buffer.as_ptr().align_offset(page);
    let mut requests: Vec<libc::iocb> = Vec::with_capacity(offsets.len());
    for (number, &offset) in offsets.iter().enumerate() {
        let at = first + number * each;
        let place = buffer.get_mut(at..at + length).ok_or(Errno::EINVAL)?;
        // SAFETY: all of it may be zero, which asks for nothing.
        let mut request: libc::iocb = unsafe { std::mem::zeroed() };
        request.aio_lio_opcode = READ;
        request.aio_fildes = fd.as_raw_fd().cast_unsigned();
        request.aio_buf = place.as_mut_ptr() as u64;
        request.aio_nbytes = length as u64;
        request.aio_offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        requests.push(request);
    }
    let mut pointers: Vec<*mut libc::iocb> = requests.iter_mut().map(std::ptr::from_mut).collect();
    let mut ended = vec![Ended::default(); pointers.len()];
    // Dropped before the buffer, as it was made after it.
    let queue = Queue::new(pointers.len())?;
    let mut from = 0;
    while let Some(rest) = pointers.get_mut(from..).filter(|rest| !rest.is_empty()) {
        // What was never asked for would be waited for without an end.
        from += match queue.ask(rest)? {
            0 => return Err(Errno::EIO),
            taken => taken,
        };
    }
    noted();
    let read = queue.await_all(&mut ended);
    noted();
    read
}

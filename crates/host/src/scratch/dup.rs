//! Exchanging what a descriptor refers to.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::error::last_errno;

/// dup3 onto the number of a shared descriptor, whose users see the new file from the next call on.
pub(super) fn onto(old: &Arc<OwnedFd>, new: BorrowedFd<'_>) -> rustix::io::Result<()> {
    // SAFETY: both descriptors are open and stay so; the number stays owned by `old`.
    let done = unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) };
    if done >= 0 {
        Ok(())
    } else {
        Err(rustix::io::Errno::from_raw_os_error(last_errno().0))
    }
}

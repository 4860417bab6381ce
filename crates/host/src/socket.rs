//! Sockets of this machine.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

/// Lets a socket hold so many bytes that are to be sent, or as many as it may; whether it holds more than before
/// is the kernel's to say.
pub fn send_room(socket: &impl AsFd, bytes: u32) {
    let fd = socket.as_fd().as_raw_fd();
    for option in [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF] {
        // SAFETY: the value is read during the call only and is as long as is said.
        let done = unsafe {
            libc::setsockopt(
                fd,
                libc::SOL_SOCKET,
                option,
                std::ptr::from_ref(&bytes).cast(),
                size_of::<u32>() as libc::socklen_t,
            )
        };
        if done == 0 {
            return;
        }
    }
}

//! Whether standard output was closed when the program began.
//!
//! Rust's runtime opens `/dev/null` in place of what is closed, before `main`, and what is written there succeeds. Nothing
//! tells it from a `/dev/null` that somebody gave: others open that for reading and writing too. So it is asked
//! before the runtime begins, where the loader calls what a program wants to be called first.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

extern "C" fn ask() {
    // SAFETY: F_GETFD only asks, and takes no address.
    let answer = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(answer == -1, Ordering::Relaxed);
}

// SAFETY: the section holds addresses of functions of this type, which are called once, before any thread.
#[used]
#[unsafe(link_section = ".init_array")]
static ASK: extern "C" fn() = ask;

/// Whether it was: then nobody has what is written to it.
pub fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

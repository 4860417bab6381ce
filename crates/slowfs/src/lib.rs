//! Slowfs (Traeger 2007, 12.1): a directory served a second time through FUSE, on which chosen
//! operations take a multiple of their time. It shows what a benchmark hides: how much slower a file
//! system can become before the benchmark says so.
//!
//! Always true in this crate:
//! * nothing but the given directory is served: names arrive one component at a time and are opened
//!   without following links, and another file system mounted below is refused;
//! * an operation is slowed by its own time, `factor - 1` times, spent on the processor and yielding it,
//!   as the study's rule says; the kernel's caches above stay as they are, so `read` slows what is read
//!   into the page cache and `lookup` what is not in the name cache;
//! * the mount goes with the process, however it ends.
//!
//! [`Slowing`] says what is slowed, [`Mounted`] is a mount, [`Launcher`] starts a process beside this one
//! that serves one; `serve` holds the calls, `lower` what they do beneath, `node` the files that the
//! kernel knows.

mod attr;
pub mod launch;
mod lower;
mod mounted;
mod node;
mod serve;
mod slower;
mod slowing;

pub use fsage_host::scratch::Unmounted;
pub use launch::Launcher;
pub use mounted::Mounted;
pub use slower::Slower;
pub use slowing::{Operation, Slowing, SlowingError};

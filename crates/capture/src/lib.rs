//! Live capture: the file system calls of running programs, as operations.
//!
//! Always true here:
//! * a capture never changes what the watched programs do, and leaves nothing behind in the kernel,
//!   however it ends (nothing is pinned, everything hangs on file descriptors of this process); it
//!   may make them slower, and then says by how much ([`CaptureSummary::held_back`]);
//! * what could not be recorded is counted ([`CaptureSummary::lost`]), never dropped in silence;
//! * times are nanoseconds of `CLOCK_MONOTONIC`, counted from the capture's start.
//!
//! Where to look next:
//! * [`capture`] in [`session`] is the way in;
//! * [`raw`] is what a backend yields: [`ebpf`] (needs privileges) and [`ptrace`] (needs none);
//! * [`assemble`] turns raw events into [`fsage_core::Op`]s: descriptors, directories, mappings,
//!   identities, offsets and their order.

pub mod assemble;
mod drain;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod ebpf;
mod end;
pub mod error;
pub mod ptrace;
pub mod raw;
pub mod session;
mod spawn;
mod start;

pub use error::CaptureError;
pub use raw::HeldBack;
pub use session::{
    Buffers, CaptureRequest, CaptureStart, CaptureSummary, Method, Notice, OwnTime, What, capture,
};

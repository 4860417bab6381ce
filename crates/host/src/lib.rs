//! fsage on POSIX: a directory as a target, its caches and its device, file systems made for one
//! experiment, and what the machine is.
//!
//! Always true in this crate:
//! * an operation of [`HostFs`] in [`Confinement::Trusted`] is exactly one system call;
//! * a name that came from a stranger goes through [`Confinement::Beneath`] and stays inside;
//! * no device is touched that [`Scratch`] did not attach, and mkfs runs on nothing else;
//! * what was mounted, attached or frozen is undone on drop, error, panic and signal, and after
//!   [`isolate`] by the kernel itself when the process is killed.
//!
//! Where to look next: `fs` for the operations, `cold` for caches, `scratch` for file systems on
//! images, `environment`, `machine` and `thread` for what a measurement records, `snapshot` for whole trees.

pub mod cachestat;
pub mod cleanup;
pub mod clock;
pub mod cold;
pub mod delay;
pub mod descendants;
pub mod device;
pub mod environment;
pub mod error;
pub mod fs;
pub mod guard;
pub mod kthread;
pub mod leftovers;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod mounts;
pub mod namespace;
pub mod observe;
pub mod pauses;
pub mod remove;
pub mod resident;
pub mod scratch;
pub mod signals;
pub mod snapshot;
pub mod socket;
pub mod speed;
pub mod stdout;
pub mod target;
pub mod thread;

mod freeze;
mod processes;

pub use clock::MonotonicClock;
pub use error::HostError;
pub use fs::HostFs;
pub use fsage_core::{ColdPolicy, Confinement, FsOptions as HostOptions};
pub use namespace::isolate;
pub use scratch::{Backing, Scratch, ScratchRecord, ScratchSpec};

//! Emulated disks in real time: a file whose reads, writes and flushes take as long as on a disk.
//!
//! A process of its own serves `disk.img` over FUSE and delays each request by a model of
//! `fsage-sim`; a loop device with direct I/O on top makes a block device of it, so that real file
//! systems run on a disk that this machine does not have.
//!
//! Always true in this crate:
//! * the model decides when a request ends, the clock only waits for it: being late with one request
//!   is measured and changes nothing in the model;
//! * a daemon ends with the process that launched it, however that ended, and holds nothing open on what it
//!   serves: either can be killed at any moment, and nobody waits for the other;
//! * nothing of the image is cached twice: FUSE and the loop device both bypass the page cache.
//!
//! Where to look next: [`serve`] for the daemon, [`launch`] for the side that starts one for a scratch file
//! system, [`hand`] for one that a user starts, `model` for where models come from.

mod fuse;
pub mod hand;
pub mod launch;
mod model;
mod pace;
pub mod serve;
mod statistics;

pub use launch::Launcher;
pub use model::{ModelSource, find};

/// The file that is the disk, in the daemon's mount.
pub const IMAGE: &str = "disk.img";
/// The file with the statistics so far, as JSON, in the daemon's mount.
pub const STATS: &str = "stats";
/// The file that takes `delays on`, `delays off` and `reset`, in the daemon's mount.
pub const CONTROL: &str = "control";

/// What can go wrong with an emulated disk; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum EmulatedDiskError {
    /// The model.
    #[error(transparent)]
    Model(#[from] fsage_sim::ModelError),
    /// The scheduler's name.
    #[error(transparent)]
    Policy(#[from] fsage_sim::PolicyError),
    /// The host.
    #[error(transparent)]
    Host(#[from] fsage_host::HostError),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried and on what.
        what: String,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
}

impl EmulatedDiskError {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io {
            what: what.into(),
            source: source.into(),
        }
    }
}

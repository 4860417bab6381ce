//! Disks as models: what a request costs, in virtual time.
//!
//! Always true in this crate:
//! * no clock and no randomness: time is an argument, and the same requests at the same times end at
//!   the same times;
//! * time never goes back, and every request that is accepted ends exactly once;
//! * a model is data (`models/*.toml`) that says where its figures come from; nothing of it is
//!   believed unchecked.
//!
//! Where to look next: [`Disk`] for the queue and its events, `hdd` and `ssd` for what a command costs,
//! [`DiskModel`] for the figures, [`Policy`] for the order of requests.

mod disk;
mod expect;
mod geometry;
mod hdd;
mod model;
mod scheduler;
mod seek;
mod ssd;

pub use disk::{Completion, Disk, DiskError, DiskOptions, Event, Request, RequestKind, Span};
pub use expect::Expectation;
pub use geometry::{Geometry, Place};
pub use model::{BUILT_IN, DiskModel, Hdd, Mechanism, ModelError, Ssd, built_in};
pub use scheduler::{Policy, PolicyError};
pub use seek::SeekCurve;

/// Bytes of a sector; every position and length is a whole number of them.
pub const SECTOR_BYTES: u64 = 512;

//! Which machine it is, and its wall clock. [`crate::environment`] tells all of it.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::environment::{kernel, read};

/// Which machine it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its name; empty where unknown.
    pub host: String,
    /// The kernel's release and build; empty where unknown.
    pub kernel: String,
}

/// The names of the machine and its kernel.
pub fn identity() -> Identity {
    Identity {
        host: read("/proc/sys/kernel/hostname").unwrap_or_default(),
        kernel: kernel().text(),
    }
}

/// Wall clock, in nanoseconds since the epoch.
pub fn unix_time_ns() -> u64 {
    #[allow(
        clippy::disallowed_methods,
        reason = "the host is where clocks are read"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

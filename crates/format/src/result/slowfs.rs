//! What a slowed file system has done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document;

/// What a slowed file system has done since it was started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowfsStatistics {
    /// What was slowed, as `read=32,lookup=4`; `none` for nothing.
    pub slow: String,
    /// Each operation that was asked for at least once.
    pub operations: Vec<SlowedOperation>,
}

/// One kind of operation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowedOperation {
    /// Its name, as in a slowing.
    pub operation: String,
    /// How many times its time it took; 1 for not slowed.
    pub factor: f64,
    /// How often the kernel asked for it.
    pub calls: u64,
    /// What they took of themselves, nanoseconds.
    pub own_ns: u64,
    /// What was added, nanoseconds: what the factor asks for, and `late_ns`.
    pub added_ns: u64,
    /// Of this, what was not asked for: the processor was not to be had in time.
    #[serde(default)]
    pub late_ns: u64,
}

document! {
    SlowfsStatistics, "fsage slowfs statistics", 1;
}

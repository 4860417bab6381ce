//! What killed runs have left on a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `fsage cleanup` found, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leftovers {
    /// `fsage cleanup`.
    pub format: String,
    /// Version of this format.
    pub version: u32,
    /// What was found, in the order in which it can be removed.
    pub found: Vec<Leftover>,
}

/// Something that fsage has made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leftover {
    /// `directory`, `mount point`, `mount`, `loop device` or `control group`.
    pub kind: String,
    /// Where.
    pub place: String,
    /// What it holds, in words.
    pub about: String,
    /// Why it stays: who owns or uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_use: Option<String>,
    /// Whether it was removed.
    pub removed: bool,
    /// Why it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

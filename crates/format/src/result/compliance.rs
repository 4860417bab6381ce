//! What `fsage check` found: what a result has, and lacks, of what the field's guidelines ask
//! (Traeger, Zadok, Joukov and Wright 2007, section 3).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the field `format` says.
pub const COMPLIANCE_FORMAT: &str = "fsage check";

/// The version of [`Compliance`] that this release writes.
pub const COMPLIANCE_VERSION: u32 = 1;

/// A result held against the guidelines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compliance {
    /// Always `fsage check`.
    pub format: String,
    /// Version of this structure.
    #[serde(rename = "version", alias = "compliance_version")]
    pub compliance_version: u32,
    /// The file or directory that was checked.
    pub path: String,
    /// What it is: the field `format` of the result.
    pub checked: String,
    /// The guidelines, in the order of the sections.
    pub guidelines: Vec<GuidelineFinding>,
    /// Guidelines that are met.
    pub met: u32,
    /// Guidelines of which something is missing.
    pub partly: u32,
    /// Guidelines that are not met.
    pub missing: u32,
    /// Guidelines that only the author can follow.
    pub author: u32,
    /// Guidelines that do not concern this result.
    pub not_applicable: u32,
    /// The environment as a paper tells it.
    pub paragraph: String,
}

/// One guideline and what the result has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuidelineFinding {
    /// Its name here, as `cache-state`.
    pub name: String,
    /// Where it stands in the study, as `3.2`.
    pub section: String,
    /// What it asks.
    pub asks: String,
    /// Whether the result has it.
    pub state: GuidelineState,
    /// What the result has.
    pub has: Vec<String>,
    /// What is missing, by name.
    pub missing: Vec<String>,
    /// What to do about it; absent where nothing is missing.
    pub advice: Option<String>,
}

/// Whether a result has what a guideline asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuidelineState {
    /// It has.
    Met,
    /// It has some of it.
    Partly,
    /// It has not.
    Missing,
    /// No record can show it: it is the author's to say.
    Author,
    /// It does not concern this result.
    NotApplicable,
}

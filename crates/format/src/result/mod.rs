//! Results that are stored and shown: what `predict`, `validate` and `show` found.
//!
//! They live here, beneath the crates that fill them in and the one that prints them, so that every
//! table, JSON document and page is made from what was stored and from nothing else.

pub mod aged;
pub mod aging;
pub mod character;
pub mod characterization;
pub mod cleanup;
pub mod comparison;
pub mod compliance;
pub mod disk;
pub mod environment;
pub mod evaluation;
pub mod experiment;
pub mod layout;
pub mod model;
mod place;
pub mod prediction;
pub mod replay;
pub mod run;
pub mod slowfs;
pub mod summary;
pub mod validation;

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::bounded::read_document;
use crate::error::{FormatError, Version};

/// A JSON document that is printed: what its fields `format` and `version` say. A result that is
/// stored has them as fields of its own.
pub trait Document {
    /// Of which kind it is.
    const FORMAT: &'static str;
    /// The version of its fields; a field that is renamed or means something else makes a new one.
    const VERSION: u32;
}

/// Says what documents of these types are.
#[macro_export]
macro_rules! document {
    ($($body:ty, $format:literal, $version:literal;)*) => {$(
        impl $crate::result::Document for $body {
            const FORMAT: &'static str = $format;
            const VERSION: u32 = $version;
        }
    )*};
}
pub use document;

/// A document with what it is before its fields.
#[derive(Debug, Serialize)]
pub struct Printed<'a, T> {
    format: &'static str,
    version: u32,
    #[serde(flatten)]
    body: &'a T,
}

impl<'a, T: Document> Printed<'a, T> {
    /// That document.
    pub fn new(body: &'a T) -> Self {
        Self {
            format: T::FORMAT,
            version: T::VERSION,
            body,
        }
    }
}

/// What stands before the lines of a document of many: `show TRACE --ops --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Head {
    /// Of which kind the lines are.
    pub format: String,
    /// The version of their fields.
    pub version: u32,
}

impl Head {
    /// Of lines that are such documents.
    pub fn of<T: Document>() -> Self {
        Self {
            format: T::FORMAT.to_owned(),
            version: T::VERSION,
        }
    }
}

/// A result that is kept in a file of its own.
pub trait Stored: DeserializeOwned {
    /// The version that this release writes, the last that it understands.
    const NEWEST: u32;
    /// The field that once held its version.
    const FORMER_FIELD: &'static str;
    /// Its version.
    fn version(&mut self) -> &mut u32;
    /// Leaves out what a file of the version `was` does not hold or means otherwise.
    fn raise(&mut self, _was: u64) {}
}

macro_rules! stored {
    ($($body:ty, $version:ident, $newest:path;)*) => {$(
        impl Stored for $body {
            const NEWEST: u32 = $newest;
            const FORMER_FIELD: &'static str = stringify!($version);
            fn version(&mut self) -> &mut u32 {
                &mut self.$version
            }
        }
    )*};
}

stored! {
    aged::AgedRun, version, aged::AGED_VERSION;
    comparison::Comparison, comparison_version, comparison::COMPARISON_VERSION;
    compliance::Compliance, compliance_version, compliance::COMPLIANCE_VERSION;
    experiment::Experiment, experiment_version, experiment::EXPERIMENT_VERSION;
    replay::Replay, replay_version, replay::REPLAY_VERSION;
    run::WorkloadRun, run_version, run::RUN_VERSION;
    validation::Validation, validation_version, validation::VALIDATION_VERSION;
}

impl Stored for prediction::Prediction {
    const NEWEST: u32 = prediction::PREDICTION_VERSION;
    const FORMER_FIELD: &'static str = "prediction_version";
    fn version(&mut self) -> &mut u32 {
        &mut self.version
    }
    /// Before version 3 places were by latency, and without a probability.
    fn raise(&mut self, was: u64) {
        if was < 3 {
            self.ranking.clear();
            self.pairs.clear();
        }
    }
}

/// Reads a stored result, also of an older version, as one of today.
pub fn load<T: Stored>(path: &Path) -> Result<T, FormatError> {
    let bytes = read_document(path, "a result of fsage (JSON)")?;
    let bad = |e: &serde_json::Error| {
        FormatError::corrupt(path, format!("line {}", e.line()), e.to_string())
    };
    let top: BTreeMap<String, &RawValue> = serde_json::from_slice(&bytes).map_err(|e| bad(&e))?;
    let version: u64 = ["version", T::FORMER_FIELD]
        .iter()
        .find_map(|name| top.get(*name)?.get().parse().ok())
        .unwrap_or(0);
    if version > u64::from(T::NEWEST) {
        return Err(FormatError::TooNew {
            path: path.to_owned(),
            found: Version(u32::try_from(version).unwrap_or(u32::MAX)),
            supported: Version(T::NEWEST),
            format: "result",
        });
    }
    let mut read: T = serde_json::from_slice(&bytes).map_err(|e| {
        let field = place::field_at(&bytes, e.line(), e.column());
        FormatError::corrupt(path, format!("field '{field}'"), e.to_string())
    })?;
    read.raise(version);
    *read.version() = T::NEWEST;
    Ok(read)
}

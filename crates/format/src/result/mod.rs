//! Results that are stored and shown: what `predict`, `validate` and `show` found.
//!
//! They live here, beneath the crates that fill them in and the one that prints them, so that every
//! table, JSON document and page is made from what was stored and from nothing else.

pub mod characterization;
pub mod cleanup;
pub mod comparison;
pub mod compliance;
pub mod disk;
pub mod environment;
pub mod experiment;
pub mod prediction;
pub mod replay;
pub mod run;
pub mod slowfs;
pub mod summary;
pub mod validation;

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{FormatError, Version};

/// Reads a stored result. `version_field` names the field with its version, of which `newest` is the
/// last that is understood.
pub fn load<T: DeserializeOwned>(
    path: &Path,
    version_field: &str,
    newest: u32,
) -> Result<T, FormatError> {
    let bytes = std::fs::read(path).map_err(|e| FormatError::io("read", path, e))?;
    let bad = |e: &serde_json::Error| {
        FormatError::corrupt(path, format!("line {}", e.line()), e.to_string())
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| bad(&e))?;
    let version = value
        .get(version_field)
        .and_then(Value::as_u64)
        .unwrap_or(0);
    if version > u64::from(newest) {
        return Err(FormatError::TooNew {
            path: path.to_owned(),
            found: Version(u32::try_from(version).unwrap_or(u32::MAX)),
            supported: Version(newest),
            format: "result",
        });
    }
    serde_path_to_error::deserialize(value).map_err(|e| {
        let place = format!("field '{}'", e.path());
        FormatError::corrupt(path, place, e.inner().to_string())
    })
}

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

/// Reads a stored result, of whose version `newest` is the last that is understood. `former_field`
/// names the field that once held its version.
pub fn load<T: DeserializeOwned>(
    path: &Path,
    former_field: &str,
    newest: u32,
) -> Result<T, FormatError> {
    let bytes = read_document(path, "a result of fsage (JSON)")?;
    let bad = |e: &serde_json::Error| {
        FormatError::corrupt(path, format!("line {}", e.line()), e.to_string())
    };
    let top: BTreeMap<String, &RawValue> = serde_json::from_slice(&bytes).map_err(|e| bad(&e))?;
    let version: u64 = ["version", former_field]
        .iter()
        .find_map(|name| top.get(*name)?.get().parse().ok())
        .unwrap_or(0);
    if version > u64::from(newest) {
        return Err(FormatError::TooNew {
            path: path.to_owned(),
            found: Version(u32::try_from(version).unwrap_or(u32::MAX)),
            supported: Version(newest),
            format: "result",
        });
    }
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let place = format!("field '{}'", e.path());
        FormatError::corrupt(path, place, e.inner().to_string())
    })
}

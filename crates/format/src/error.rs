//! Why a file cannot be read or written.

use std::fmt;
use std::path::{Path, PathBuf};

/// Version of one of fsage's own formats.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Version(pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why a file cannot be read or written. Each is a lowercase phrase that completes "failed to …" and
/// names the file, the place in it and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The operating system said no.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was done, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("read {}: it is {found}, expected {expected}", path.display())]
    WrongKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// The file is of the right kind and damaged.
    #[error("read {}: {place}: {problem}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where: a byte, a piece, a row, a line, a field.
        place: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// Written by a newer fsage.
    #[error(
        "read {}: it has version {found} of the {format} format; this fsage reads up to version \
         {supported}, a newer fsage reads it",
        path.display()
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// The file's version.
        found: Version,
        /// The newest that is read here.
        supported: Version,
    },
    /// Written by an older fsage whose format is no longer read.
    #[error(
        "read {}: it has version {found} of the {format} format, which fsage {last_reader} is the \
         last release to read; import it there and write it anew",
        path.display()
    )]
    TooOld {
        /// The file.
        path: PathBuf,
        /// The format's name.
        format: &'static str,
        /// The file's version.
        found: Version,
        /// The last release of fsage that reads it.
        last_reader: &'static str,
    },
    /// The data cannot be written in this format.
    #[error("write {}: {problem}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// What stands against it.
        problem: String,
    },
}

impl FormatError {
    /// An answer of the operating system.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        let source = match source.kind() {
            std::io::ErrorKind::IsADirectory => {
                std::io::Error::new(source.kind(), "Is a directory, expected a file")
            }
            _ => source,
        };
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    /// Damage at a place.
    pub fn corrupt(path: &Path, place: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            place: place.into(),
            problem: problem.into(),
        }
    }

    /// Data that the format cannot hold.
    pub fn unwritable(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unwritable {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}

/// Refuses a version that this release does not read.
pub(crate) fn check_version(
    path: &Path,
    format: &'static str,
    found: Version,
    supported: Version,
) -> Result<(), FormatError> {
    match found {
        Version(0) => Err(FormatError::corrupt(
            path,
            "version",
            format!("0 is no version of the {format} format, expected 1 to {supported}"),
        )),
        v if v > supported => Err(FormatError::TooNew {
            path: path.to_owned(),
            format,
            found,
            supported,
        }),
        _ => Ok(()),
    }
}

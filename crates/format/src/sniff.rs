//! Which of fsage's files a file is.

use std::path::Path;

use crate::error::FormatError;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A trace, `.fst`, whole or not.
    Trace,
    /// A snapshot, `.fss`, whole or not.
    Snapshot,
    /// A system profile, `.fsp`.
    Profile,
    /// A run record.
    Record,
}

/// Finds out what a file is by its contents; its name does not matter. An error says what it is
/// instead.
pub fn sniff(path: &Path) -> Result<FileKind, FormatError> {
    let _ = path;
    todo!()
}

/// What bytes that are none of fsage's look like, for an error.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let _ = bytes;
    todo!()
}

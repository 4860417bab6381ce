//! The directory of an experiment's results: one experiment in it at a time, the record of its steps, and what
//! one that goes on finds there.

use std::fs::File;
use std::path::{Path, PathBuf};

use fsage_format::FormatError;
use fsage_format::record::{RecordWriter, holds_records, read_records};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Where the record of an experiment is.
pub fn record_path(dir: &Path) -> PathBuf {
    dir.join("runs.jsonl")
}

/// A directory in which no other fsage works until this is dropped: two would mix their steps.
#[derive(Debug)]
pub(crate) struct Results<'a> {
    dir: &'a Path,
    kind: &'static str,
    _lock: File,
}

impl<'a> Results<'a> {
    /// Makes the directory where it is not there. Fails if another fsage works in it.
    pub fn open(dir: &'a Path, kind: &'static str) -> Result<Self, FormatError> {
        std::fs::create_dir_all(dir).map_err(|e| FormatError::io("make directory", dir, e))?;
        let lock = File::open(dir).map_err(|e| FormatError::io("open", dir, e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let what = "it is in use by another fsage; expected a directory of its own";
                return Err(FormatError::unwritable(dir, what));
            }
            Err(other) => return Err(FormatError::io("lock", dir, other.into())),
        }
        Ok(Self {
            dir,
            kind,
            _lock: lock,
        })
    }

    /// The record, to append to.
    pub fn record(&self) -> Result<RecordWriter, FormatError> {
        RecordWriter::open(&record_path(self.dir), self.kind)
    }
}

/// Every step that a directory holds; none where nothing was begun.
pub(crate) fn kept<E: DeserializeOwned>(dir: &Path, kind: &str) -> Result<Vec<E>, FormatError> {
    if holds_records(&record_path(dir)) {
        recorded(dir, kind)
    } else {
        Ok(Vec::new())
    }
}

/// Every step that a directory's record holds.
pub(crate) fn recorded<E: DeserializeOwned>(dir: &Path, kind: &str) -> Result<Vec<E>, FormatError> {
    let path = record_path(dir);
    // Whose they are is known before they are read as somebody's.
    let found = read_records::<IgnoredAny>(&path)?.head.kind;
    if found == kind {
        return Ok(read_records(&path)?.records);
    }
    let found = format!("it is of `{found}`, expected `{kind}`");
    Err(FormatError::corrupt(&path, "line 1", found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_is_done() {
        let dir = tempfile::tempdir().unwrap();
        let first = Results::open(dir.path(), "bench").unwrap();
        let error = Results::open(dir.path(), "validate")
            .unwrap_err()
            .to_string();
        assert!(error.contains("in use by another fsage"), "{error}");
        drop(first);
        Results::open(dir.path(), "validate").unwrap();
    }

    #[test]
    fn what_another_verb_kept_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path(), "bench").unwrap();
        assert!(kept::<u32>(dir.path(), "bench").unwrap().is_empty());
        results.record().unwrap().append(&7).unwrap();
        assert_eq!(kept::<u32>(dir.path(), "bench").unwrap(), [7]);
        let error = kept::<String>(dir.path(), "validate")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("it is of `bench`, expected `validate`"),
            "{error}"
        );
    }
}

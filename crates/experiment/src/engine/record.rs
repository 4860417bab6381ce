//! The directory of an experiment's results: one experiment in it at a time, the record of its steps, and what
//! one that goes on finds there.

use std::fs::File;
use std::path::{Path, PathBuf};

use fsage_format::record::{
    RECORD_FORMAT, RECORD_VERSION, RecordHead, RecordWriter, holds_records, parse_records,
    read_records, write_whole,
};
use fsage_format::whole::{self, HeldDir, settle};
use fsage_format::{FileKind, FormatError, sniff};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;
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
    _held: HeldDir,
}

impl<'a> Results<'a> {
    /// Makes the directory where it is not there. Fails if another fsage works in it.
    pub fn open(dir: &'a Path, kind: &'static str) -> Result<Self, FormatError> {
        std::fs::create_dir_all(dir).map_err(|e| FormatError::io("make directory", dir, e))?;
        let lock = claim(dir)?;
        let held = whole::hold(dir).map_err(|e| FormatError::io("open", dir, e))?;
        Ok(Self {
            dir,
            kind,
            _lock: lock,
            _held: held,
        })
    }

    /// Where the result will be. Fails if what stands there is none of that kind: it would be lost, as would what
    /// comes there meanwhile.
    pub fn result(&self, name: &str, kind: FileKind) -> Result<PathBuf, FormatError> {
        let file = self.dir.join(name);
        settle(&file).map_err(|e| FormatError::io("write", &file, e))?;
        if file.symlink_metadata().is_err() {
            return Ok(file);
        }
        let found = match sniff(&file) {
            Ok(found) if found == kind => return Ok(file),
            Ok(_) => "another result or input of fsage".to_owned(),
            Err(FormatError::WrongKind { found, .. }) => found,
            Err(other) => return Err(other),
        };
        let why = format!(
            "it is {found} and would be written over, expected a result of `fsage {}` or no file of that name in {}",
            self.kind,
            self.dir.display()
        );
        Err(FormatError::unwritable(&file, why))
    }

    /// The record, to append to.
    pub fn record(&self) -> Result<RecordWriter, FormatError> {
        RecordWriter::open(&record_path(self.dir), self.kind)
    }

    /// The record, with what it begins with: there is none that lacks it, whenever fsage is killed.
    pub fn begin<E: Serialize + DeserializeOwned>(
        &self,
        first: &E,
    ) -> Result<RecordWriter, FormatError> {
        let path = record_path(self.dir);
        if path.symlink_metadata().is_ok() {
            // Without a record, or somebody's.
            let mut record = self.record()?;
            record.append(first)?;
            return Ok(record);
        }
        let head = RecordHead {
            format: RECORD_FORMAT.to_owned(),
            version: RECORD_VERSION,
            kind: self.kind.to_owned(),
        };
        let unwritable = |e: serde_json::Error| FormatError::unwritable(&path, e.to_string());
        let mut text = serde_json::to_vec(&head).map_err(unwritable)?;
        text.push(b'\n');
        text.append(&mut serde_json::to_vec(first).map_err(unwritable)?);
        text.push(b'\n');
        // One that could not be read is not written.
        parse_records::<E>(&path, &text)?;
        write_whole(&path, &text)?;
        self.record()
    }
}

/// Keeps others of fsage's from a directory until what this returns is closed. Fails if another fsage works in it.
pub(crate) fn claim(dir: &Path) -> Result<File, FormatError> {
    let lock = File::open(dir).map_err(|e| FormatError::io("open", dir, e))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => {
            let what = "it is in use by another fsage; expected a directory of its own";
            Err(FormatError::unwritable(dir, what))
        }
        Err(other) => Err(FormatError::io("lock", dir, other.into())),
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

    /// A kill between the first two lines left an experiment without its plan.
    #[test]
    fn a_record_is_there_with_what_it_begins_with_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let results = Results::open(dir.path(), "bench").unwrap();
        let path = record_path(dir.path());
        let deep = (0..200).fold(serde_json::Value::Null, |value, _| vec![value].into());
        results.begin(&deep).unwrap_err();
        assert!(!path.exists(), "what cannot be read");
        results.begin(&7).unwrap().append(&8).unwrap();
        assert_eq!(kept::<u32>(dir.path(), "bench").unwrap(), [7, 8]);
        // Begun by an earlier release, that was killed then.
        let head = std::fs::read_to_string(&path).unwrap();
        let head = head.lines().next().unwrap().to_owned() + "\n";
        std::fs::write(&path, head).unwrap();
        results.begin(&9).unwrap();
        assert_eq!(kept::<u32>(dir.path(), "bench").unwrap(), [9]);
        // Somebody's.
        std::fs::write(&path, "mine\n").unwrap();
        results.begin(&9).unwrap_err();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine\n");
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

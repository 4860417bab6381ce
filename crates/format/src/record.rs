//! Run records: JSON lines, appended as each run ends, so that nothing is lost when a long
//! experiment is stopped.
//!
//! The first line names the format and its version; every further line is one record. A record is on
//! stable storage when [`RecordWriter::append`] returns. A last line that was cut off is left out
//! and said.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounded::{MAX_DOCUMENT_BYTES, read_document};
use crate::error::{FormatError, Version, check_version};
use crate::result::document;
use crate::whole::Whole;

/// What the field `format` of the first line says.
pub const RECORD_FORMAT: &str = "fsage run record";

/// The version that is written; every version up to it is read.
pub const RECORD_VERSION: Version = Version(1);

/// The first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct RecordHead {
    /// Always `fsage run record`.
    pub format: String,
    /// Version of the format.
    pub version: Version,
    /// What the records are of, e.g. `validate`.
    pub kind: String,
}

/// What `fsage show RECORD --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ShownRecord {
    /// The first line.
    pub head: RecordHead,
    /// Every further line; its fields depend on `head.kind`.
    pub records: Vec<serde_json::Value>,
}

document! {
    ShownRecord, "fsage shown record", 1;
}

/// Appends records to a file.
#[derive(Debug)]
pub struct RecordWriter {
    file: File,
    path: PathBuf,
}

impl RecordWriter {
    /// Opens the file for appending; makes it if it is not there. A last line that was cut off is
    /// removed, so that the next record begins on a line of its own. Refuses a file of another
    /// `kind`.
    pub fn open(path: &Path, kind: &str) -> Result<Self, FormatError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| FormatError::io("open", path, e))?;
        let mut bytes = Vec::new();
        (&mut file)
            .take(MAX_DOCUMENT_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|e| FormatError::io("read", path, e))?;
        let mut writer = Self {
            file,
            path: path.to_owned(),
        };
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
        if whole == 0
            && !bytes.is_empty()
            && !b"{\"format\":\"fsage run record\""
                .starts_with(bytes.get(..bytes.len().min(28)).unwrap_or_default())
        {
            return Err(wrong_kind(path, &bytes));
        }
        if whole == 0 {
            writer.rewind_to(0)?;
            let head = RecordHead {
                format: RECORD_FORMAT.to_owned(),
                version: RECORD_VERSION,
                kind: kind.to_owned(),
            };
            writer.append(&head)?;
            return Ok(writer);
        }
        let found = parse_head(path, &bytes)?;
        if found.kind != kind {
            return Err(FormatError::unwritable(
                path,
                format!("it holds records of '{}', expected '{kind}'", found.kind),
            ));
        }
        writer.rewind_to(whole as u64)?;
        Ok(writer)
    }

    fn rewind_to(&mut self, length: u64) -> Result<(), FormatError> {
        self.file
            .set_len(length)
            .and_then(|()| self.file.seek(SeekFrom::Start(length)))
            .map_err(|e| FormatError::io("write", &self.path, e))?;
        Ok(())
    }

    /// Appends one record; it is on stable storage when this returns.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<(), FormatError> {
        let mut line = serde_json::to_vec(record)
            .map_err(|e| FormatError::unwritable(&self.path, e.to_string()))?;
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| FormatError::io("write", &self.path, e))
    }
}

/// The records of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records<T> {
    /// The first line.
    pub head: RecordHead,
    /// Every whole record.
    pub records: Vec<T>,
    /// The number of the last line and its length in bytes, if it was cut off; it is left out.
    pub torn: Option<(usize, usize)>,
}

/// Reads every record of a file.
pub fn read_records<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, FormatError> {
    let bytes = read_document(path)?;
    parse_records(path, &bytes)
}

/// Reads every record from a file's bytes; errors name `path`.
pub fn parse_records<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<Records<T>, FormatError> {
    let head = parse_head(path, bytes)?;
    let mut out = Records {
        head,
        records: Vec::new(),
        torn: None,
    };
    for (index, line) in bytes.split_inclusive(|&b| b == b'\n').enumerate().skip(1) {
        let number = index + 1;
        if line.last() != Some(&b'\n') {
            out.torn = Some((number, line.len()));
        } else if !line.trim_ascii().is_empty() {
            let record = serde_json::from_slice(line).map_err(|e| {
                let text = e.to_string();
                let problem = text.split(" at line ").next().unwrap_or(&text).to_owned();
                FormatError::corrupt(
                    path,
                    format!("line {number}, column {}", e.column()),
                    problem,
                )
            })?;
            out.records.push(record);
        }
    }
    Ok(out)
}

fn parse_head(path: &Path, bytes: &[u8]) -> Result<RecordHead, FormatError> {
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    let head: RecordHead = serde_json::from_slice(line).map_err(|_| wrong_kind(path, bytes))?;
    if head.format != RECORD_FORMAT {
        return Err(wrong_kind(path, bytes));
    }
    check_version(path, "run record", head.version, RECORD_VERSION)?;
    Ok(head)
}

fn wrong_kind(path: &Path, bytes: &[u8]) -> FormatError {
    FormatError::WrongKind {
        path: path.to_owned(),
        found: crate::sniff::describe(bytes),
        expected: "a run record (JSON lines)",
    }
}

/// Writes a file whole or not at all, to stable storage.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FormatError> {
    let write = || {
        let mut file = Whole::create(path)?;
        file.write_all(bytes)?;
        file.commit()
    };
    write().map_err(|e| FormatError::io("write", path, e))
}

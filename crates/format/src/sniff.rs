//! Which of fsage's files a file is.

use std::io::{BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use serde::Deserialize;

use crate::error::FormatError;
use crate::image::IMAGE_MAGIC;
use crate::piece::{ENTRY_FORMAT, PARQUET_MAGIC, PieceFile};
use crate::profile::PROFILE_FORMAT;
use crate::record::RECORD_FORMAT;
use crate::result::aged::AGED_FORMAT;
use crate::result::comparison::COMPARISON_FORMAT;
use crate::result::compliance::COMPLIANCE_FORMAT;
use crate::result::experiment::EXPERIMENT_FORMAT;
use crate::result::prediction::PREDICTION_FORMAT;
use crate::result::replay::REPLAY_FORMAT;
use crate::result::run::RUN_FORMAT;
use crate::result::validation::VALIDATION_FORMAT;

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
    /// The result of `fsage predict`.
    Prediction,
    /// The result of `fsage validate`.
    Validation,
    /// The result of `fsage bench`.
    Experiment,
    /// The result of `fsage compare`.
    Comparison,
    /// The result of `fsage run`.
    Run,
    /// The result of `fsage replay`.
    Replay,
    /// The result of `fsage check`.
    Compliance,
    /// The result of `fsage age apply`.
    AgedRun,
    /// The image of a file system, `.fsi`, whole or not.
    Image,
    /// A model of a workload, `.fsm`.
    Model,
    /// A configuration of FileRunner, `.cfg`.
    FileRunner,
}

impl FileKind {
    /// What such a file is, with its article.
    pub fn what(self) -> &'static str {
        match self {
            Self::Trace => "a trace",
            Self::Snapshot => "a snapshot",
            Self::Profile => "a system profile",
            Self::Record => "a run record",
            Self::Prediction => "a result of predict",
            Self::Validation => "a result of validate",
            Self::Experiment => "a result of bench",
            Self::Comparison => "a result of compare",
            Self::Run => "a result of run",
            Self::Replay => "a result of replay",
            Self::Compliance => "a result of check",
            Self::AgedRun => "a result of age apply",
            Self::Image => "an image",
            Self::Model => "a model",
            Self::FileRunner => "a configuration of FileRunner",
        }
    }
}

const EXPECTED: &str =
    "a trace, a snapshot, a system profile, a model, an image, a result or a run record of fsage";

/// Bytes from which a file is told.
pub(crate) const ENOUGH: u64 = 4096;

/// Finds out what a file is by its contents; its name does not matter. An error says what it is
/// instead.
pub fn sniff(path: &Path) -> Result<FileKind, FormatError> {
    check_regular(path, EXPECTED)?;
    let mut begin = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(ENOUGH).read_to_end(&mut begin))
        .map_err(|e| FormatError::io("read", path, e))?;
    if begin.starts_with(PARQUET_MAGIC) {
        let file = PieceFile::open_any(path, EXPECTED)?;
        return match file.entry(ENTRY_FORMAT) {
            Some("trace") => Ok(FileKind::Trace),
            Some("snapshot") => Ok(FileKind::Snapshot),
            other => Err(wrong(
                path,
                other.map_or_else(
                    || "a Parquet file that fsage did not write".to_owned(),
                    |name| format!("a {name}, which a newer fsage wrote"),
                ),
            )),
        };
    }
    if begin.starts_with(IMAGE_MAGIC) {
        return Ok(FileKind::Image);
    }
    if let Some(kind) = model(&begin) {
        return Ok(kind);
    }
    match json_format(path, &begin)?.as_deref() {
        Some(PROFILE_FORMAT) => Ok(FileKind::Profile),
        Some(RECORD_FORMAT) => Ok(FileKind::Record),
        Some(PREDICTION_FORMAT) => Ok(FileKind::Prediction),
        Some(VALIDATION_FORMAT) => Ok(FileKind::Validation),
        Some(EXPERIMENT_FORMAT) => Ok(FileKind::Experiment),
        Some(COMPARISON_FORMAT) => Ok(FileKind::Comparison),
        Some(RUN_FORMAT) => Ok(FileKind::Run),
        Some(REPLAY_FORMAT) => Ok(FileKind::Replay),
        Some(COMPLIANCE_FORMAT) => Ok(FileKind::Compliance),
        Some(AGED_FORMAT) => Ok(FileKind::AgedRun),
        Some(other) => Err(wrong(path, format!("JSON of the format '{other}'"))),
        None => Err(wrong(path, describe(&begin))),
    }
}

/// The kind of model that a text begins like: its first line that is no comment tells.
fn model(begin: &[u8]) -> Option<FileKind> {
    let mut lines = begin.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#"))?;
    let mut parts = first.splitn(2, |&b| b == b'=').map(<[u8]>::trim_ascii);
    match (parts.next()?, parts.next()?) {
        (b"format", value) if value.starts_with(b"\"fsm\"") || value.starts_with(b"'fsm'") => {
            Some(FileKind::Model)
        }
        (b"IOChunkSize", _) => Some(FileKind::FileRunner),
        _ => None,
    }
}

/// Refuses what cannot be read more than once, before it is opened: a pipe would wait for its writer.
pub(crate) fn check_regular(path: &Path, expected: &'static str) -> Result<(), FormatError> {
    let about = std::fs::metadata(path).map_err(|e| FormatError::io("open", path, e))?;
    let kind = about.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let found = if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a pipe, which can be read only once"
    } else {
        "not a regular file"
    };
    Err(FormatError::WrongKind {
        path: path.to_owned(),
        found: found.to_owned(),
        expected,
    })
}

fn wrong(path: &Path, found: String) -> FormatError {
    FormatError::WrongKind {
        path: path.to_owned(),
        found,
        expected: EXPECTED,
    }
}

/// The text of the field `format`, if the file is a JSON object that has one. fsage writes it first;
/// other tools may have sorted the fields since, so the first value is read to its end if need be.
fn json_format(path: &Path, begin: &[u8]) -> Result<Option<String>, FormatError> {
    if let Some(first) = first_field(begin) {
        return Ok(Some(first));
    }
    if !begin.trim_ascii_start().starts_with(b"{") {
        return Ok(None);
    }
    let file = std::fs::File::open(path).map_err(|e| FormatError::io("read", path, e))?;
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(file));
    match Head::deserialize(&mut json) {
        Ok(head) => Ok(head.format),
        Err(e) if e.is_io() => Err(FormatError::io("read", path, e.into())),
        Err(_) => Ok(None),
    }
}

/// Everything else of the object is passed over, and not kept.
#[derive(Deserialize)]
struct Head {
    format: Option<String>,
}

/// The text of the first field if that is `format`.
fn first_field(begin: &[u8]) -> Option<String> {
    let rest = begin
        .trim_ascii_start()
        .strip_prefix(b"{")?
        .trim_ascii_start();
    let rest = rest.strip_prefix(b"\"format\"")?.trim_ascii_start();
    let rest = rest
        .strip_prefix(b":")?
        .trim_ascii_start()
        .strip_prefix(b"\"")?;
    let end = rest.iter().position(|&b| b == b'"')?;
    Some(String::from_utf8_lossy(rest.get(..end)?).into_owned())
}

/// What a file is, for an error, where another kind was expected; `begin` are its first bytes.
pub(crate) fn other(path: &Path, begin: &[u8]) -> String {
    match sniff(path) {
        Ok(kind) => format!("{} of fsage", kind.what()),
        Err(_) => describe(begin),
    }
}

/// What bytes that are none of fsage's look like, for an error.
pub(crate) fn describe(bytes: &[u8]) -> String {
    let begin = bytes.get(..bytes.len().min(512)).unwrap_or_default();
    let magics: [(&[u8], &str); 8] = [
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
        (b"\xfd7zXZ", "an xz archive"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x7fELF", "a program (ELF)"),
        (b"SQLite format 3", "an SQLite database"),
        (b"PAR1", "a Parquet file that fsage did not write"),
        (b"{", "JSON of another format"),
    ];
    if begin.is_empty() {
        return "an empty file".to_owned();
    }
    if let Some((_, name)) = magics.iter().find(|(magic, _)| begin.starts_with(magic)) {
        return (*name).to_owned();
    }
    let text = match std::str::from_utf8(begin) {
        Ok(text) => Some(text),
        // A character that is cut at the end of what was read.
        Err(e) if e.error_len().is_none() => {
            std::str::from_utf8(begin.get(..e.valid_up_to()).unwrap_or_default()).ok()
        }
        Err(_) => None,
    };
    match text {
        Some(text)
            if !text
                .chars()
                .any(|c| c.is_control() && !c.is_ascii_whitespace()) =>
        {
            "a text file".to_owned()
        }
        _ => "binary data of another format".to_owned(),
    }
}

//! Run records: JSON lines, appended as each run ends, so that nothing is lost when a long
//! experiment is stopped.
//!
//! The first line names the format and its version; every further line is one record. A record is on
//! stable storage when [`RecordWriter::append`] returns. A last line that was cut off is left out
//! and said.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::bounded::{MAX_LINE_BYTES, check_document};
use crate::error::{FormatError, Version, check_version};
use crate::result::document;
use crate::whole::Whole;
use crate::whole::place::Place;

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
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct ShownRecord {
    /// The first line.
    pub head: RecordHead,
    /// Every further line; its fields depend on `head.kind`.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub records: Vec<Box<RawValue>>,
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
        let whole = whole_lines(&mut file).map_err(|e| FormatError::io("read", path, e))?;
        let first = line(path, 1, &mut BufReader::new(&mut file))?;
        let mut writer = Self {
            file,
            path: path.to_owned(),
        };
        if whole == 0 {
            let begin = first.get(..first.len().min(28)).unwrap_or_default();
            if !b"{\"format\":\"fsage run record\"".starts_with(begin) {
                return Err(wrong_kind(path, &first));
            }
            writer.rewind_to(0)?;
            let head = RecordHead {
                format: RECORD_FORMAT.to_owned(),
                version: RECORD_VERSION,
                kind: kind.to_owned(),
            };
            let begun = writer.append(&head);
            if begun.is_err() && first.is_empty() {
                // As on a full disk; an empty file that stood there goes too, and no other that has come there.
                if let Ok(place) = Place::of(path) {
                    place.remove(&writer.file);
                }
            }
            return begun.map(|()| writer);
        }
        let found = parse_head(path, &first)?;
        if found.kind != kind {
            return Err(FormatError::unwritable(
                path,
                format!("it holds records of '{}', expected '{kind}'", found.kind),
            ));
        }
        writer.rewind_to(whole)?;
        Ok(writer)
    }

    fn rewind_to(&mut self, length: u64) -> Result<(), FormatError> {
        self.file
            .set_len(length)
            .and_then(|()| self.file.seek(SeekFrom::Start(length)))
            .map_err(|e| FormatError::io("write", &self.path, e))?;
        Ok(())
    }

    /// Appends one record; it is on stable storage when this returns. Refuses one that could not be read, and to go on
    /// where the file was moved.
    pub fn append<T: Serialize>(&mut self, record: &T) -> Result<(), FormatError> {
        let mut line = serde_json::to_vec(record)
            .map_err(|e| FormatError::unwritable(&self.path, e.to_string()))?;
        line.push(b'\n');
        if let Err(problem) = check_line(&line) {
            return Err(FormatError::unwritable(
                &self.path,
                format!("a record: {problem}"),
            ));
        }
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|e| FormatError::io("write", &self.path, e))?;
        self.is_there()
    }

    /// Fails if the path leads to another file by now: what follows would lie apart from it.
    fn is_there(&self) -> Result<(), FormatError> {
        let own = self.file.metadata();
        let own = own.map_err(|e| FormatError::io("look at", &self.path, e))?;
        let named = std::fs::metadata(&self.path).ok();
        let id = |about: &Metadata| (about.dev(), about.ino());
        if named.as_ref().map(id) == Some(id(&own)) {
            return Ok(());
        }
        Err(FormatError::unwritable(
            &self.path,
            "it was moved away or removed meanwhile; what was recorded is where it is now, and can be gone on with from \
             there",
        ))
    }
}

/// Whether a file holds a record beside its head: one that was begun and got no further, on a full disk or by
/// a kill, holds nothing that could be lost.
pub fn holds_records(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return path.exists();
    };
    let mut lines = BufReader::new(file.take(2 * MAX_LINE_BYTES)).split(b'\n');
    drop(lines.next());
    lines.next().is_some()
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

/// Reads every record of a file, however many: line by line, each as bounded as it was written.
pub fn read_records<T: DeserializeOwned>(path: &Path) -> Result<Records<T>, FormatError> {
    let file = File::open(path).map_err(|e| FormatError::io("read", path, e))?;
    read_lines(path, &mut BufReader::new(file))
}

/// Reads every record from a file's bytes; errors name `path`.
pub fn parse_records<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<Records<T>, FormatError> {
    read_lines(path, &mut &*bytes)
}

fn read_lines<T: DeserializeOwned>(
    path: &Path,
    from: &mut impl BufRead,
) -> Result<Records<T>, FormatError> {
    let mut out = Records {
        head: parse_head(path, &line(path, 1, from)?)?,
        records: Vec::new(),
        torn: None,
    };
    for number in 2.. {
        let line = line(path, number, from)?;
        if line.is_empty() {
            break;
        } else if line.last() != Some(&b'\n') || line.contains(&0) && only_zeros(path, from)? {
            out.torn = Some((number, line.len()));
        } else if !line.trim_ascii().is_empty() {
            let record = serde_json::from_slice(&line).map_err(|e| {
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

/// Whether nothing but zero bytes and ends of lines follows, as where a machine went down before what was appended was written;
/// what follows is read by that.
fn only_zeros(path: &Path, from: &mut impl BufRead) -> Result<bool, FormatError> {
    loop {
        let piece = from
            .fill_buf()
            .map_err(|e| FormatError::io("read", path, e))?;
        let count = piece.len();
        if count == 0 {
            return Ok(true);
        }
        if piece.iter().any(|byte| !b"\0\n".contains(byte)) {
            return Ok(false);
        }
        from.consume(count);
    }
}

/// The next line with its end, if that is there; empty after the last.
fn line(path: &Path, number: usize, from: &mut impl BufRead) -> Result<Vec<u8>, FormatError> {
    let mut line = Vec::new();
    from.take(MAX_LINE_BYTES + 1)
        .read_until(b'\n', &mut line)
        .map_err(|e| FormatError::io("read", path, e))?;
    match check_line(&line) {
        Ok(()) => Ok(line),
        Err(problem) => Err(FormatError::corrupt(
            path,
            format!("line {number}"),
            problem,
        )),
    }
}

fn check_line(line: &[u8]) -> Result<(), String> {
    if line.len() as u64 > MAX_LINE_BYTES {
        return Err(format!(
            "it goes on, expected at most {MAX_LINE_BYTES} bytes"
        ));
    }
    check_document(line)
}

/// How long a file is up to the end of its last whole line; it is then read from its begin. One that zero bytes follow was not
/// written to its end.
fn whole_lines(file: &mut File) -> std::io::Result<u64> {
    let length = file.metadata()?.len();
    let text = last(file, length, |byte| !b"\0\n".contains(&byte))?;
    let mut end = text.map_or(0, |at| at + 1);
    let mut next = [0];
    file.seek(SeekFrom::Start(end))?;
    if file.read(&mut next)? == 1 && next == *b"\n" {
        end += 1;
    }
    let end = last(file, end, |byte| byte == b'\n')?;
    file.rewind()?;
    Ok(end.map_or(0, |at| at + 1))
}

/// Where the last such byte is before `end`.
fn last(file: &mut File, mut end: u64, is: impl Fn(u8) -> bool) -> std::io::Result<Option<u64>> {
    let mut piece = vec![0; 1 << 16];
    while end > 0 {
        let begin = end.saturating_sub(piece.len() as u64);
        piece.truncate((end - begin) as usize);
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|&byte| is(byte)) {
            return Ok(Some(begin + at as u64));
        }
        end = begin;
    }
    Ok(None)
}

fn parse_head(path: &Path, bytes: &[u8]) -> Result<RecordHead, FormatError> {
    let head: RecordHead = serde_json::from_slice(bytes).map_err(|_| wrong_kind(path, bytes))?;
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

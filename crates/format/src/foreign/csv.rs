//! Traces as comma-separated values (RFC 4180), one row per operation, the columns of [`COLUMNS`].
//!
//! Lines end with CR LF and fields that hold a comma, a quote, CR or LF are quoted, as the RFC says.
//! An unknown value is an empty field. Paths are bytes: one that is not UTF-8, or that holds a
//! backslash or a control character, has those bytes written as `\xHH` (two hexadecimal digits;
//! the backslash itself too, so that [`unescape`] gives back every path exactly).

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use fsage_core::{Op, OpSink, PathId, PathTable, SinkError};

use crate::FormatError;

/// The columns: name and meaning.
pub const COLUMNS: &[(&str, &str)] = &[
    (
        "start_ns",
        "when it was issued, nanoseconds since the trace began",
    ),
    (
        "latency_ns",
        "how long the kernel worked on it, nanoseconds",
    ),
    ("pid", "process"),
    ("tid", "thread"),
    ("kind", "what was done, e.g. open, read, unlink"),
    ("result", "value returned, or the error number negated"),
    (
        "fd",
        "descriptor; for calls on names the directory's, empty for AT_FDCWD",
    ),
    ("dev_major", "device of the file"),
    ("dev_minor", "device of the file"),
    ("ino", "inode of the file"),
    ("generation", "generation of the inode, 0 where unknown"),
    ("path", "first path as given"),
    ("path2", "second path as given"),
    ("dir", "directory against which a relative path resolves"),
    ("dir2", "the same for the second path, where it differs"),
    ("offset_bytes", "offset; for chown the user id"),
    ("length_bytes", "length; for chown the group id"),
    ("flags", "flags of the call, decimal"),
    ("size_bytes", "size of the file"),
    ("pages_missed", "requested pages that were not cached"),
    ("pages_ahead", "pages read beyond the request"),
    ("record", "how the record came about, bits"),
];

/// Writes operations as CSV.
#[derive(Debug)]
pub struct CsvSink<W> {
    output: W,
    name: PathBuf,
    line: String,
}

impl<W: Write> CsvSink<W> {
    /// Writes the header to `output` (best buffered); errors name `name`.
    pub fn new(mut output: W, name: &Path) -> Result<Self, FormatError> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        output
            .write_all((names.join(",") + "\r\n").as_bytes())
            .map_err(|e| FormatError::io("write", name, e))?;
        Ok(Self {
            output,
            name: name.to_owned(),
            line: String::new(),
        })
    }

    /// Flushes what was written.
    pub fn finish(mut self) -> Result<(), FormatError> {
        self.output
            .flush()
            .map_err(|e| FormatError::io("write", &self.name, e))
    }

    fn row(&mut self, op: &Op, paths: &PathTable) {
        self.line.clear();
        self.number(Some(op.start_ns));
        self.number(op.latency_ns);
        self.number(Some(op.pid.0));
        self.number(Some(op.tid.0));
        self.number(Some(op.kind.name()));
        self.number(Some(op.result.raw()));
        self.number(op.fd.map(|fd| fd.0));
        self.number(op.file.map(|file| file.dev.major()));
        self.number(op.file.map(|file| file.dev.minor()));
        self.number(op.file.map(|file| file.ino));
        self.number(op.file.map(|file| file.generation));
        for path in [op.path, op.path2, op.dir, op.dir2] {
            self.path(path, paths);
        }
        self.number(op.offset);
        self.number(op.length);
        self.number(Some(op.flags));
        self.number(op.size_bytes);
        self.number(op.pages_missed);
        self.number(op.pages_ahead);
        self.number(Some(op.record.0));
        self.line.pop();
        self.line.push_str("\r\n");
    }

    fn number(&mut self, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            let _ = write!(self.line, "{value}");
        }
        self.line.push(',');
    }

    fn path(&mut self, path: Option<PathId>, paths: &PathTable) {
        if let Some(path) = path {
            let text = escape(paths.get(path));
            // A path that is given and empty is not one that is unknown.
            if text.is_empty() || text.contains([',', '"']) {
                let _ = write!(self.line, "\"{}\"", text.replace('"', "\"\""));
            } else {
                self.line.push_str(&text);
            }
        }
        self.line.push(',');
    }
}

impl<W: Write> OpSink for CsvSink<W> {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.row(op, paths);
        self.output
            .write_all(self.line.as_bytes())
            .map_err(|e| crate::foreign::sink_error(FormatError::io("write", &self.name, e)))
    }
}

/// A path as text that [`unescape`] turns back into the same bytes.
pub fn escape(path: &[u8]) -> String {
    let mut text = String::new();
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\\' || c.is_control() {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(text, "\\x{byte:02x}");
                }
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The bytes of an escaped path; `None` for text that [`escape`] does not write.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'\\' {
            let digits = std::str::from_utf8(tail.strip_prefix(b"x")?.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = tail.get(3..)?;
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use fsage_core::{OpKind, Pid, Tid};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_have_every_column_and_quotes_where_needed() {
        let mut paths = PathTable::new();
        let mut op = Op::new(OpKind::Rename, Pid(1), Tid(2), 3);
        op.path = paths.intern(b"a,\"b\"");
        op.path2 = paths.intern(b"\xff\\\n");
        op.dir = paths.intern(b"");
        let mut text = Vec::new();
        let mut sink = CsvSink::new(&mut text, Path::new("x.csv")).unwrap();
        sink.push(&op, &paths).unwrap();
        sink.finish().unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.split("\r\n");
        assert_eq!(lines.next().unwrap().split(',').count(), COLUMNS.len());
        let row = "3,,1,2,rename,0,,,,,,\"a,\"\"b\"\"\",\\xff\\x5c\\x0a,\"\",,,,0,,,,0";
        assert_eq!(lines.next(), Some(row));
        assert_eq!((lines.next(), lines.next()), (Some(""), None));
    }

    proptest! {
        #[test]
        fn paths_come_back(path in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = escape(&path);
            prop_assert!(!text.contains(['\r', '\n']));
            prop_assert_eq!(unescape(&text), Some(path));
        }
    }
}

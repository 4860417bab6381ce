//! Traces as comma-separated values (RFC 4180), one row per operation, the columns of [`COLUMNS`] and behind them what an
//! analysis has added to the trace.
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
use crate::trace::{AnnotationColumn, AnnotationValue};

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
    (
        "ready_ns",
        "since the thread's last operation: ready, behind others on the processors",
    ),
    (
        "asleep_ns",
        "since then: asleep until a timer, a device or somebody outside of the trace ended it",
    ),
    (
        "waited_ns",
        "since then: asleep until another thread of the trace ended it",
    ),
    (
        "after_tid",
        "the last of these waits ended after an operation of this thread",
    ),
    (
        "after_ops",
        "namely after this one of its operations, the first being 1",
    ),
    ("after_lag_ns", "so long after that one's end"),
    ("after_rest_ns", "for how long the thread then worked"),
    (
        "queued_ns",
        "within the operation: ready, behind others on the processors",
    ),
    ("blocked_ns", "within the operation: asleep"),
    ("sleeps", "before it, how often the thread fell asleep"),
];

/// So many columns every version has written.
const COLUMNS_OF_1: usize = 22;

fn header(columns: &[(&str, &str)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    names.join(",")
}

/// Whether a file that begins so is a trace that some version of this wrote.
pub fn begins_like(begin: &[u8]) -> bool {
    let first = COLUMNS.get(..COLUMNS_OF_1).unwrap_or(COLUMNS);
    begin.starts_with(header(first).as_bytes())
}

/// Writes operations as CSV.
#[derive(Debug)]
pub struct CsvSink<W> {
    output: W,
    name: PathBuf,
    line: String,
}

impl<W: Write> CsvSink<W> {
    /// Writes the header to `output` (best buffered), with the columns that an analysis has added to the trace; errors
    /// name `name`.
    pub fn new(output: W, name: &Path, added: &[AnnotationColumn]) -> Result<Self, FormatError> {
        let mut sink = Self {
            output,
            name: name.to_owned(),
            line: header(COLUMNS) + ",",
        };
        for column in added {
            sink.text(&escape(column.name.as_bytes()));
        }
        sink.end_line()?;
        Ok(sink)
    }

    /// Takes one operation and the values of the added columns, in their order.
    pub fn push_annotated(
        &mut self,
        op: &Op,
        paths: &PathTable,
        values: &[AnnotationValue],
    ) -> Result<(), FormatError> {
        self.row(op, paths);
        for value in values {
            match value {
                AnnotationValue::Absent => self.number(None::<u64>),
                AnnotationValue::Integer(value) => self.number(Some(value)),
                AnnotationValue::Number(value) => self.number(Some(value)),
                AnnotationValue::Text(value) => self.text(&escape(value.as_bytes())),
            }
        }
        self.end_line()
    }

    /// Writes the line, whose last field ends with a comma.
    fn end_line(&mut self) -> Result<(), FormatError> {
        self.line.pop();
        self.line.push_str("\r\n");
        let written = self.output.write_all(self.line.as_bytes());
        self.line.clear();
        written.map_err(|e| FormatError::io("write", &self.name, e))
    }

    /// Flushes what was written.
    pub fn finish(mut self) -> Result<(), FormatError> {
        self.output
            .flush()
            .map_err(|e| FormatError::io("write", &self.name, e))
    }

    fn row(&mut self, op: &Op, paths: &PathTable) {
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
        let some = |ns: u64| (ns > 0).then_some(ns);
        self.number(some(op.pause.ready_ns));
        self.number(some(op.pause.asleep_ns));
        self.number(some(op.pause.waited_ns));
        let after = op.pause.after;
        self.number(after.map(|after| after.tid.0));
        self.number(after.map(|after| after.ops));
        self.number(after.map(|after| after.lag_ns));
        self.number(after.map(|after| after.rest_ns));
        self.number(some(op.pause.queued_ns));
        self.number(some(op.pause.blocked_ns));
        self.number(some(op.pause.sleeps.into()));
    }

    fn number(&mut self, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            let _ = write!(self.line, "{value}");
        }
        self.line.push(',');
    }

    fn path(&mut self, path: Option<PathId>, paths: &PathTable) {
        match path {
            Some(path) => self.text(&escape(paths.get(path))),
            None => self.line.push(','),
        }
    }

    fn text(&mut self, text: &str) {
        // A text that is given and empty is not one that is unknown.
        if text.is_empty() || text.contains([',', '"']) {
            let _ = write!(self.line, "\"{}\"", text.replace('"', "\"\""));
        } else {
            self.line.push_str(text);
        }
        self.line.push(',');
    }
}

impl<W: Write> OpSink for CsvSink<W> {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.push_annotated(op, paths, &[])
            .map_err(crate::foreign::sink_error)
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
    use fsage_core::{After, OpKind, Pause, Pid, Tid};
    use proptest::prelude::*;

    use super::*;
    use crate::trace::AnnotationKind;

    #[test]
    fn rows_have_every_column_and_quotes_where_needed() {
        let mut paths = PathTable::new();
        let mut op = Op::new(OpKind::Rename, Pid(1), Tid(2), 3);
        op.path = paths.intern(b"a,\"b\"");
        op.path2 = paths.intern(b"\xff\\\n");
        op.dir = paths.intern(b"");
        op.pause = Pause {
            ready_ns: 4,
            asleep_ns: 5,
            waited_ns: 6,
            queued_ns: 7,
            blocked_ns: 12,
            sleeps: 13,
            after: Some(After {
                tid: Tid(8),
                ops: 9,
                lag_ns: 0,
                rest_ns: 10,
            }),
        };
        let added = |name: &str, kind| AnnotationColumn {
            name: name.into(),
            kind,
        };
        let added = [
            added("predicted_ns", AnnotationKind::Integer),
            added("share", AnnotationKind::Number),
            added("vector", AnnotationKind::Text),
            added("none", AnnotationKind::Text),
        ];
        let values = [
            AnnotationValue::Integer(11),
            AnnotationValue::Number(0.5),
            AnnotationValue::Text("1 RD4, 2 OPEN".into()),
            AnnotationValue::Absent,
        ];
        let mut text = Vec::new();
        let mut sink = CsvSink::new(&mut text, Path::new("x.csv"), &added).unwrap();
        sink.push_annotated(&op, &paths, &values).unwrap();
        sink.finish().unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.split("\r\n");
        let names = "start_ns,latency_ns,pid,tid,kind,result,fd,dev_major,dev_minor,ino,generation,path,path2,dir,dir2,\
                     offset_bytes,length_bytes,flags,size_bytes,pages_missed,pages_ahead,record,ready_ns,asleep_ns,\
                     waited_ns,after_tid,after_ops,after_lag_ns,after_rest_ns,queued_ns,blocked_ns,sleeps,predicted_ns,share,vector,none";
        assert_eq!(lines.next(), Some(names));
        let row = "3,,1,2,rename,0,,,,,,\"a,\"\"b\"\"\",\\xff\\x5c\\x0a,\"\",,,,0,,,,0,4,5,6,8,9,0,10,7,12,13,11,0.5,\
                   \"1 RD4, 2 OPEN\",";
        assert_eq!(lines.next(), Some(row));
        assert_eq!((lines.next(), lines.next()), (Some(""), None));
    }

    #[test]
    fn every_column_of_a_trace_is_one_here() {
        for column in crate::trace::columns::COLUMNS {
            let name = match column.name {
                "dev" => "dev_major",
                "offset" => "offset_bytes",
                "length" => "length_bytes",
                name => name,
            };
            assert!(COLUMNS.iter().any(|(own, _)| *own == name), "{name}");
        }
        assert!(begins_like(header(&COLUMNS[..COLUMNS_OF_1]).as_bytes()));
        assert!(begins_like(header(COLUMNS).as_bytes()));
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

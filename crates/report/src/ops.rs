//! Operations, one a line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fsage_core::{Op, OpFlags, PathTable};
use fsage_format::trace::{AnnotationColumn, AnnotationValue};
use schemars::JsonSchema;
use serde::Serialize;

use crate::plain::plain;
use crate::units;

/// One operation as a line, without its line feed: number, start in seconds, process and thread,
/// the call, its result and latency, pages missed and read ahead, the file.
pub fn line(index: u64, op: &Op, paths: &PathTable) -> String {
    let mut out = format!(
        "{index} {}.{:09} {}/{} {}(",
        op.start_ns / 1_000_000_000,
        op.start_ns % 1_000_000_000,
        op.pid.0,
        op.tid.0,
        op.kind.name()
    );
    arguments(&mut out, op, paths);
    out.push_str(") = ");
    match op.result.errno() {
        Some(errno) => out.push_str(errno.symbol().unwrap_or("unknown error")),
        None => push(&mut out, format_args!("{}", op.result.raw())),
    }
    match op.latency_ns {
        Some(ns) => push(&mut out, format_args!(" <{}>", units::duration(ns as f64))),
        None => out.push_str(" <not measured>"),
    }
    if let Some(size) = op.size_bytes {
        push(&mut out, format_args!(" size={size}"));
    }
    if op.pages_missed.is_some_and(|n| n > 0) || op.pages_ahead.is_some_and(|n| n > 0) {
        let pages = |n: Option<u32>| n.map_or("?".to_string(), |n| n.to_string());
        push(
            &mut out,
            format_args!(
                " missed={} ahead={}",
                pages(op.pages_missed),
                pages(op.pages_ahead)
            ),
        );
    }
    if let Some(file) = op.file {
        push(&mut out, format_args!(" file={}:{}", file.dev, file.ino));
    }
    let pause = &op.pause;
    for (name, ns) in [
        ("ready", pause.ready_ns),
        ("asleep", pause.asleep_ns),
        ("waited", pause.waited_ns),
        ("queued", pause.queued_ns),
        ("blocked", pause.blocked_ns),
    ] {
        if ns > 0 {
            push(
                &mut out,
                format_args!(" {name}={}", units::duration(ns as f64).replace(' ', "")),
            );
        }
    }
    if let Some(after) = pause.after {
        push(
            &mut out,
            format_args!(" after={}#{}", after.tid.0, after.ops),
        );
    }
    for (flag, name) in RECORD_FLAGS {
        if op.record.contains(*flag) {
            push(&mut out, format_args!(" {name}"));
        }
    }
    out
}

const RECORD_FLAGS: &[(OpFlags, &str)] = &[
    (OpFlags::PATH_UNREADABLE, "path-unreadable"),
    (OpFlags::PATH_TRUNCATED, "path-truncated"),
    (OpFlags::URING, "io_uring"),
    (OpFlags::DIRECT, "direct"),
    (OpFlags::NOT_A_FILE, "not-a-file"),
    (OpFlags::DEVICE, "device"),
    (OpFlags::COLD_DATA, "cold-data"),
    (OpFlags::COLD_NAMES, "cold-names"),
];

/// The columns that an analysis added, as ` name=value`.
pub fn annotations(columns: &[AnnotationColumn], values: &[AnnotationValue]) -> String {
    let mut out = String::new();
    for (column, value) in columns.iter().zip(values) {
        match value {
            AnnotationValue::Absent => {}
            AnnotationValue::Integer(n) => push(&mut out, format_args!(" {}={n}", column.name)),
            AnnotationValue::Number(x) => {
                push(
                    &mut out,
                    format_args!(" {}={}", column.name, units::significant(*x)),
                );
            }
            AnnotationValue::Text(text) => {
                push(&mut out, format_args!(" {}={}", column.name, plain(text)));
            }
        }
    }
    out
}

fn arguments(out: &mut String, op: &Op, paths: &PathTable) {
    let mut first = true;
    let mut add = |out: &mut String, text: std::fmt::Arguments<'_>| {
        if !std::mem::take(&mut first) {
            out.push_str(", ");
        }
        push(out, text);
    };
    if let Some(fd) = op.fd {
        add(out, format_args!("fd {}", fd.0));
    }
    if let Some(path) = op.path {
        add(out, format_args!("\"{}\"", paths.get(path).escape_ascii()));
    }
    if let Some(path) = op.path2 {
        add(out, format_args!("\"{}\"", paths.get(path).escape_ascii()));
    }
    if let Some(dir) = op.dir {
        add(
            out,
            format_args!("in \"{}\"", paths.get(dir).escape_ascii()),
        );
    }
    if let Some(offset) = op.offset {
        add(out, format_args!("offset {offset}"));
    }
    if let Some(length) = op.length {
        add(out, format_args!("length {length}"));
    }
    if op.flags != 0 {
        add(out, format_args!("flags {:#x}", op.flags));
    }
}

/// Writing to a string cannot fail.
fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// One operation as a JSON object: a line of `fsage show TRACE --ops --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OpRow {
    /// Its number, from 0.
    pub index: u64,
    /// Kind.
    pub kind: &'static str,
    /// Start, nanoseconds since the trace began.
    pub start_ns: u64,
    /// Latency, nanoseconds.
    pub latency_ns: Option<u64>,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Result: a value, or minus the error number.
    pub result: i64,
    /// Descriptor.
    pub fd: Option<i32>,
    /// Path as given; bytes that are not UTF-8 are escaped as `\\xNN`.
    pub path: Option<String>,
    /// Second path.
    pub path2: Option<String>,
    /// Directory against which `path` resolves.
    pub dir: Option<String>,
    /// Offset, bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: Option<u64>,
    /// Length, bytes.
    #[serde(rename = "length_bytes")]
    pub length: Option<u64>,
    /// Flags.
    pub flags: u32,
    /// Size of the file, bytes.
    pub size_bytes: Option<u64>,
    /// Pages missed.
    pub pages_missed: Option<u32>,
    /// Pages read ahead.
    pub pages_ahead: Option<u32>,
    /// Before it, ready to go on and behind others on the processors, ns.
    #[serde(default, skip_serializing_if = "nothing")]
    pub ready_ns: u64,
    /// Before it, asleep until a timer, a device or somebody outside of the trace ended it, ns.
    #[serde(default, skip_serializing_if = "nothing")]
    pub asleep_ns: u64,
    /// Before it, asleep until another thread of the trace ended it, ns.
    #[serde(default, skip_serializing_if = "nothing")]
    pub waited_ns: u64,
    /// Within it, ready to go on and behind others on the processors, ns; a part of its latency.
    #[serde(default, skip_serializing_if = "nothing")]
    pub queued_ns: u64,
    /// Within it, asleep, ns; a part of its latency.
    #[serde(default, skip_serializing_if = "nothing")]
    pub blocked_ns: u64,
    /// Before it, how often its thread fell asleep.
    #[serde(default, skip_serializing_if = "nothing")]
    pub sleeps: u64,
    /// The thread after an operation of which the last such wait ended, and after which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<[u32; 2]>,
    /// Device of the file, `major:minor`.
    pub device: Option<String>,
    /// Inode of the file.
    #[serde(rename = "ino")]
    pub inode: Option<u64>,
    /// What an analysis added, by column.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, serde_json::Value>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn nothing(ns: &u64) -> bool {
    *ns == 0
}

fsage_format::document! {
    OpRow, "fsage operations", 1;
}

impl OpRow {
    /// The row of one operation.
    pub fn new(
        index: u64,
        op: &Op,
        paths: &PathTable,
        columns: &[AnnotationColumn],
        values: &[AnnotationValue],
    ) -> Self {
        let text = |id: fsage_core::PathId| paths.get(id).escape_ascii().to_string();
        let annotations = columns
            .iter()
            .zip(values)
            .filter_map(|(column, value)| {
                let value = match value {
                    AnnotationValue::Absent => return None,
                    AnnotationValue::Integer(n) => serde_json::Value::from(*n),
                    AnnotationValue::Number(x) => serde_json::Value::from(*x),
                    AnnotationValue::Text(text) => serde_json::Value::from(text.as_str()),
                };
                Some((column.name.clone(), value))
            })
            .collect();
        Self {
            index,
            kind: op.kind.name(),
            start_ns: op.start_ns,
            latency_ns: op.latency_ns,
            pid: op.pid.0,
            tid: op.tid.0,
            result: op.result.raw(),
            fd: op.fd.map(|fd| fd.0),
            path: op.path.map(text),
            path2: op.path2.map(text),
            dir: op.dir.map(text),
            offset: op.offset,
            length: op.length,
            flags: op.flags,
            size_bytes: op.size_bytes,
            pages_missed: op.pages_missed,
            pages_ahead: op.pages_ahead,
            ready_ns: op.pause.ready_ns,
            asleep_ns: op.pause.asleep_ns,
            waited_ns: op.pause.waited_ns,
            queued_ns: op.pause.queued_ns,
            blocked_ns: op.pause.blocked_ns,
            sleeps: op.pause.sleeps.into(),
            after: op.pause.after.map(|a| [a.tid.0, a.ops]),
            device: op.file.map(|f| f.dev.to_string()),
            inode: op.file.map(|f| f.ino),
            annotations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_core::{Errno, Fd, OpKind, Outcome, Pid, Tid};

    #[test]
    fn a_line_holds_everything_and_no_line_feed() {
        let mut paths = PathTable::new();
        let mut op = Op::new(OpKind::Open, Pid(7), Tid(8), 1_500_000_000);
        op.path = paths.intern(b"a\n\xff");
        op.fd = Some(Fd(3));
        op.result = Outcome::err(Errno::ENOENT);
        op.latency_ns = Some(1234);
        assert_eq!(
            line(2, &op, &paths),
            "2 1.500000000 7/8 open(fd 3, \"a\\n\\xff\") = ENOENT <1.23 us>"
        );
    }
}

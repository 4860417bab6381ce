//! The one table of a trace's columns: it drives the writer, the reader's expectations, the
//! documentation and the tests.

use fsage_core::Op;

use crate::piece::Holds;

/// How a column is coded before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// Distinct values once, then their indices.
    Dictionary,
    /// Differences to the value before.
    Delta,
    /// As it is.
    Plain,
}

/// Reads an integer column's value from an operation.
pub(crate) type Get = fn(&Op) -> Option<u64>;

/// A column of the trace.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Holds,
    /// Whether a row may have no value.
    pub optional: bool,
    /// How it is coded; chosen by measurement on a PostMark trace.
    pub coding: Coding,
    /// The unit of its values, empty for names and numbers without one.
    pub unit: &'static str,
    /// What it says, one sentence without its full stop.
    pub what: &'static str,
    /// Integer columns: the value of an operation.
    pub(crate) get: Get,
}

macro_rules! columns {
    ($($id:ident $name:literal $holds:expr, $optional:literal, $coding:ident, $unit:literal, $get:expr, $what:literal;)*) => {
        /// The columns, in the order of the file.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: $name,
            holds: $holds,
            optional: $optional,
            coding: Coding::$coding,
            unit: $unit,
            what: $what,
            get: $get,
        },)*];

        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Id { $($id,)* }
    };
}

const TEXT: Get = |_| None;

columns! {
    Kind "kind" Holds::Text, false, Dictionary, "", TEXT,
        "what was done; the names are those of the table of kinds";
    StartNs "start_ns" Holds::Unsigned64, false, Delta, "ns", |op| Some(op.start_ns),
        "when it was issued, since the trace began";
    LatencyNs "latency_ns" Holds::Unsigned64, true, Plain, "ns", |op| op.latency_ns,
        "how long the kernel worked on it; absent if it was not measured";
    Pid "pid" Holds::Unsigned(32), false, Dictionary, "", |op| Some(op.pid.0.into()),
        "the process";
    Tid "tid" Holds::Unsigned(32), false, Dictionary, "", |op| Some(op.tid.0.into()),
        "the thread";
    Result "result" Holds::Signed64, false, Dictionary, "", |op| Some(op.result.raw() as u64),
        "what it returned: zero or more, or a negative error number";
    Fd "fd" Holds::Signed32, true, Dictionary, "", |op| op.fd.map(|fd| fd.0 as u32 as u64),
        "the descriptor it was given; for path operations the directory's, absent for `AT_FDCWD`";
    Dev "dev" Holds::Unsigned64, true, Dictionary, "", |op| op.file.map(|f| f.dev.0),
        "the device of the file it acted on, as `st_dev`; absent if the file is unknown";
    Ino "ino" Holds::Unsigned64, true, Dictionary, "", |op| op.file.map(|f| f.ino),
        "the inode number of that file";
    Generation "generation" Holds::Unsigned(32), true, Dictionary, "",
        |op| op.file.map(|f| f.generation.into()),
        "the inode's generation, 0 where it is unknown";
    Path "path" Holds::Text, true, Dictionary, "", TEXT,
        "the path as given";
    Path2 "path2" Holds::Text, true, Dictionary, "", TEXT,
        "the second path as given: the new name of a rename, the target of a symbolic link";
    Dir "dir" Holds::Text, true, Dictionary, "", TEXT,
        "the directory against which a relative `path` resolves, absolute";
    Dir2 "dir2" Holds::Text, true, Dictionary, "", TEXT,
        "the directory against which a relative `path2` resolves, where it differs";
    Offset "offset" Holds::Unsigned64, true, Dictionary, "bytes", |op| op.offset,
        "where in the file; see the table of kinds";
    Length "length" Holds::Unsigned64, true, Dictionary, "bytes", |op| op.length,
        "how much; see the table of kinds";
    Flags "flags" Holds::Unsigned(32), false, Dictionary, "", |op| Some(op.flags.into()),
        "flags of the call; see the table of kinds";
    SizeBytes "size_bytes" Holds::Unsigned64, true, Dictionary, "bytes", |op| op.size_bytes,
        "size of the file when the call began; for `open` and `stat`, when it returned";
    PagesMissed "pages_missed" Holds::Unsigned(32), true, Dictionary, "pages",
        |op| op.pages_missed.map(u64::from),
        "requested pages that were not in the page cache; absent if unknown";
    PagesAhead "pages_ahead" Holds::Unsigned(32), true, Dictionary, "pages",
        |op| op.pages_ahead.map(u64::from),
        "pages read beyond the request; absent if unknown";
    Record "record" Holds::Unsigned(16), false, Dictionary, "", |op| Some(op.record.0.into()),
        "how the record came about, a set of bits: 1 path unreadable, 2 path cut, 4 io_uring or libaio, \
         8 offset is the file's position, 16 `O_DIRECT`, 32 `O_APPEND`, 64 not a file, 128 directory, \
         256 waited for the device (told by targets in virtual time only); since version 3: 512 before it \
         dirty data was written back and cached data dropped, 1024 names and inodes as well; since version 4: \
         2048 the columns from `ready_ns` on are known";
    ReadyNs "ready_ns" Holds::Unsigned64, true, Dictionary, "ns", |op| some(op.pause.ready_ns),
        "since the thread's last operation: ready to go on, behind others on the processors; absent: not at \
         all; since version 4, as all that follow";
    AsleepNs "asleep_ns" Holds::Unsigned64, true, Dictionary, "ns", |op| some(op.pause.asleep_ns),
        "since then: asleep until a timer, a device or somebody outside of the trace ended it; the rest of \
         the pause the thread worked";
    WaitedNs "waited_ns" Holds::Unsigned64, true, Dictionary, "ns", |op| some(op.pause.waited_ns),
        "since then: asleep until another thread of the trace ended it";
    AfterTid "after_tid" Holds::Unsigned(32), true, Dictionary, "",
        |op| op.pause.after.map(|a| a.tid.0.into()),
        "the last of these waits ended after an operation of this thread: the waker, or whom the waker \
         itself had waited for since its own last operation";
    AfterOps "after_ops" Holds::Unsigned(32), true, Delta, "",
        |op| op.pause.after.map(|a| a.ops.into()),
        "namely after this one of its operations, the first being 1";
    AfterLagNs "after_lag_ns" Holds::Unsigned64, true, Dictionary, "ns",
        |op| op.pause.after.map(|a| a.lag_ns),
        "so long after that one's end, without what was waited for processors";
    AfterRestNs "after_rest_ns" Holds::Unsigned64, true, Dictionary, "ns",
        |op| op.pause.after.map(|a| a.rest_ns),
        "for how long the thread then worked or slept before this operation";
    QueuedNs "queued_ns" Holds::Unsigned64, true, Dictionary, "ns", |op| some(op.pause.queued_ns),
        "within the operation: ready to go on, behind others on the processors, a part of `latency_ns`; absent: not at all; \
         since version 5";
    BlockedNs "blocked_ns" Holds::Unsigned64, true, Dictionary, "ns", |op| some(op.pause.blocked_ns),
        "within the operation: asleep, a part of `latency_ns`; absent: not at all; since version 6, as what follows";
    Sleeps "sleeps" Holds::Unsigned(32), true, Dictionary, "",
        |op| some(op.pause.sleeps.into()),
        "since the thread's last operation: how often it fell asleep before this operation; absent: never";
}

/// Columns of versions before 4, of version 4, and of version 5.
pub(crate) const COLUMNS_OF_3: usize = Id::ReadyNs as usize;
pub(crate) const COLUMNS_OF_4: usize = Id::QueuedNs as usize;
pub(crate) const COLUMNS_OF_5: usize = Id::BlockedNs as usize;

fn some(ns: u64) -> Option<u64> {
    (ns > 0).then_some(ns)
}

/// Writes a path as text. [`unescape`] is its inverse.
pub use fsage_core::text::of_path as escape;

/// The same of a path of this machine.
pub fn path_text(path: &std::path::Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

/// The bytes of a path written by [`escape`]. A backslash that begins no escape stays as it is.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    if !text.contains(&b'\\') {
        return text.to_vec();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'\\', [b'\\', ..]) => {
                out.push(b'\\');
                rest = after.get(1..).unwrap_or_default();
            }
            (b'\\', [b'x', high, low, ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    rest = after.get(3..).unwrap_or_default();
                }
                _ => out.push(first),
            },
            _ => out.push(first),
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|d| d as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_are_the_places_in_the_table() {
        for (id, name) in [
            (Id::Kind, "kind"),
            (Id::Path, "path"),
            (Id::Record, "record"),
        ] {
            assert_eq!(COLUMNS[id as usize].name, name);
        }
    }

    #[test]
    fn escaping_keeps_every_path() {
        let all: Vec<u8> = (1..=255).collect();
        for path in [
            &b"/a/b"[..],
            b"\\",
            b"a\\x41",
            b"\xff\\\xfe",
            "/\u{e9}\n".as_bytes(),
            &all,
        ] {
            assert_eq!(unescape(escape(path).as_bytes()), path);
        }
        assert_eq!(escape(b"/a\xffb"), "/a\\xffb");
    }
}

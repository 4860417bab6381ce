//! fio's iologs, versions 2 and 3 (`fio --write_iolog`), as a stream of operations.
//!
//! A log names files, not descriptors: each open gets the process's lowest free one. What it does not
//! tell: how long anything took (operations have no latency), open flags (every open is for reading
//! and writing), whether anything failed. In version 2 there is no time but that of `wait`, which counts
//! from the wait before; in version 3 each line has its time in microseconds since the job began.
//!
//! Jobs that share a log write one header each and what they did behind it: each is a process of its
//! own here, and all begin together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use fsage_core::{
    DevId, Fd, FileId, Op, OpKind, OpSource, Outcome, PathId, PathTable, Pid, SourceError, Tid,
};
use fsage_namespace::path::{is_beneath, join};
use rustc_hash::FxHashMap;

use super::MOST_MOVED;
use crate::FormatError;
use crate::sniff::check_regular;

/// Jobs of one log; each is read through a descriptor of its own.
pub const MOST_JOBS: usize = 256;

/// A line is two numbers and the name of a file.
const MAX_LINE_BYTES: u64 = 16_384;

const HEADERS: [&str; 2] = ["fio version 2 iolog", "fio version 3 iolog"];
const O_RDWR: u32 = 2;
/// `FALLOC_FL_PUNCH_HOLE` and `FALLOC_FL_KEEP_SIZE`.
const PUNCH: u32 = 3;
const FIRST_DESCRIPTOR: i32 = 3;

/// What an import met, beside the operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IologReport {
    /// Operations yielded.
    pub operations: u64,
    /// Lines outside of the directories that are wanted.
    pub outside: u64,
    /// Jobs that wrote the log.
    pub jobs: usize,
}

/// What one job wrote.
struct Job {
    input: Box<dyn BufRead + Send>,
    version: u8,
    /// The line that was read last, from 1.
    line: u64,
    number: u32,
    /// The time of the job so far, in nanoseconds: in version 2 the sum of its waits.
    now_ns: u64,
    open: FxHashMap<Box<[u8]>, i32>,
    free: BinaryHeap<Reverse<i32>>,
    next: Option<Op>,
}

/// Operations from an iolog.
pub struct IologSource {
    name: PathBuf,
    jobs: Vec<Job>,
    /// The jobs' next operations: when, and whose.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    paths: PathTable,
    files: FxHashMap<PathId, u64>,
    under: Vec<Vec<u8>>,
    /// What relative names are below; empty where that is unknown.
    directory: Vec<u8>,
    report: IologReport,
}

impl std::fmt::Debug for IologSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IologSource")
            .field("name", &self.name)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// Where a job's part of the log lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    version: u8,
    /// Of its header, from 1.
    line: u64,
    from: u64,
    to: u64,
}

impl IologSource {
    /// Opens the log at `path`. Names that do not begin with a slash are below `directory` (absolute; empty: unknown). Of
    /// files outside of the directories `under` (absolute; none: all) nothing is yielded.
    pub fn open(path: &Path, directory: &[u8], under: &[Vec<u8>]) -> Result<Self, FormatError> {
        let failed = |e| FormatError::io("open", path, e);
        // Each job's part is read by itself, after all have been found.
        check_regular(path, "an iolog of fio in a file")?;
        let file = File::open(path).map_err(failed)?;
        let parts = parts(&mut BufReader::with_capacity(1 << 20, file), path)?;
        let mut readers: Vec<Box<dyn BufRead + Send>> = Vec::new();
        for part in &parts {
            let mut file = File::open(path).map_err(failed)?;
            file.seek(SeekFrom::Start(part.from)).map_err(failed)?;
            readers.push(Box::new(BufReader::new(file.take(part.to - part.from))));
        }
        Self::new(path, directory, under, &parts, readers)
    }

    /// Reads a log that is in memory.
    pub fn from_bytes(bytes: &[u8], name: &Path) -> Result<Self, FormatError> {
        let parts = parts(&mut &*bytes, name)?;
        let mut readers: Vec<Box<dyn BufRead + Send>> = Vec::new();
        for part in &parts {
            let range = part.from as usize..part.to as usize;
            let text = bytes.get(range).unwrap_or_default().to_vec();
            readers.push(Box::new(std::io::Cursor::new(text)));
        }
        Self::new(name, b"", &[], &parts, readers)
    }

    fn new(
        name: &Path,
        directory: &[u8],
        under: &[Vec<u8>],
        parts: &[Part],
        readers: Vec<Box<dyn BufRead + Send>>,
    ) -> Result<Self, FormatError> {
        let mut source = Self {
            name: name.to_owned(),
            jobs: Vec::new(),
            due: BinaryHeap::new(),
            paths: PathTable::new(),
            files: FxHashMap::default(),
            under: under.iter().map(|dir| join(b"/", dir)).collect(),
            directory: directory.to_vec(),
            report: IologReport {
                jobs: parts.len(),
                ..IologReport::default()
            },
        };
        for (number, (part, input)) in (0..).zip(parts.iter().zip(readers)) {
            source.jobs.push(Job {
                input,
                version: part.version,
                line: part.line,
                number: number + 1,
                now_ns: 0,
                open: FxHashMap::default(),
                free: BinaryHeap::new(),
                next: None,
            });
            source.advance(number as usize)?;
        }
        Ok(source)
    }

    /// What was met so far; whole once the source has ended.
    pub fn report(&self) -> IologReport {
        self.report
    }

    /// Reads on in one job's part up to its next operation.
    fn advance(&mut self, number: usize) -> Result<(), FormatError> {
        let mut text = Vec::new();
        loop {
            let Some(job) = self.jobs.get_mut(number) else {
                return Ok(());
            };
            if !read_line(&mut job.input, &mut text, &self.name, job.line + 1)? {
                job.next = None;
                return Ok(());
            }
            job.line += 1;
            let place = format!("line {}", job.line);
            let expected =
                |problem: String| FormatError::corrupt(&self.name, place.as_str(), problem);
            let text = text.trim_ascii_end();
            let shown = || text.get(..80).unwrap_or(text).escape_ascii();
            if text.is_empty() {
                continue;
            }
            let line = parse(text, job.version)
                .ok_or_else(|| expected(format!("{}, found `{}`", form(job.version), shown())))?;
            let wanted = self.under.is_empty()
                || self
                    .under
                    .iter()
                    .any(|dir| is_beneath(&join(&self.directory, line.file), dir));
            let op = job
                .take(&line)
                .map_err(|what| expected(format!("`{}` {what}", line.file.escape_ascii())))?;
            let Some(mut op) = op else { continue };
            if !wanted {
                self.report.outside += 1;
                continue;
            }
            let full = || FormatError::corrupt(&self.name, "its files", "there are too many");
            let path = self.paths.intern(line.file).ok_or_else(full)?;
            let known = self.files.len() as u64 + 1;
            op.file = Some(FileId {
                dev: DevId(0),
                ino: *self.files.entry(path).or_insert(known),
                generation: 0,
            });
            if op.kind == OpKind::Open {
                op.path = Some(path);
                let below = !line.file.starts_with(b"/") && !self.directory.is_empty();
                op.dir = below
                    .then(|| self.paths.intern(&self.directory).ok_or_else(full))
                    .transpose()?;
            }
            self.due.push(Reverse((op.start_ns, number)));
            job.next = Some(op);
            return Ok(());
        }
    }
}

impl Job {
    /// The operation of a line; `None` where it has none. The error says what is wrong with the file.
    fn take(&mut self, line: &IoLine<'_>) -> Result<Option<Op>, &'static str> {
        let too_late = "has a time that no clock shows";
        if let Some(time_us) = line.time_us {
            // Lines of a job with several threads may lie a little out of order.
            self.now_ns = time_us.checked_mul(1000).ok_or(too_late)?;
        }
        let mut op = Op::new(
            OpKind::Open,
            Pid(self.number),
            Tid(self.number),
            self.now_ns,
        );
        let fd = self.open.get(line.file).copied();
        match line.action {
            Action::Add => return Ok(None),
            Action::Wait => {
                let waited_ns = line.offset.checked_mul(1000);
                let now_ns = waited_ns.and_then(|ns| self.now_ns.checked_add(ns));
                self.now_ns = now_ns.ok_or(too_late)?;
                return Ok(None);
            }
            Action::Open => {
                if fd.is_some() {
                    return Err("is open already, expected it to be closed before");
                }
                let fresh = FIRST_DESCRIPTOR.saturating_add(self.open.len() as i32);
                let fd = self.free.pop().map_or(fresh, |Reverse(fd)| fd);
                self.open.insert(line.file.into(), fd);
                op.flags = O_RDWR;
                op.result = Outcome::ok(u64::from(fd.unsigned_abs()));
                return Ok(Some(op));
            }
            _ => {}
        }
        let fd = fd.ok_or("is not open, expected `open` before")?;
        op.fd = Some(Fd(fd));
        let range = (Some(line.offset), Some(line.length));
        (op.offset, op.length) = range;
        match line.action {
            Action::Close => {
                (op.offset, op.length) = (None, None);
                op.kind = OpKind::Close;
                self.open.remove(line.file);
                self.free.push(Reverse(fd));
            }
            Action::Read => op.kind = OpKind::Read,
            Action::Write => op.kind = OpKind::Write,
            Action::Trim => (op.kind, op.flags) = (OpKind::Fallocate, PUNCH),
            Action::SyncRange => op.kind = OpKind::SyncFileRange,
            sync => {
                (op.offset, op.length) = (None, None);
                op.kind = match sync {
                    Action::Datasync => OpKind::Fdatasync,
                    Action::Syncfs => OpKind::Syncfs,
                    _ => OpKind::Fsync,
                };
            }
        }
        let end = line.offset.checked_add(line.length);
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err("ends beyond 2^63 - 1 bytes, where no file does");
        }
        if matches!(op.kind, OpKind::Read | OpKind::Write) {
            if line.length > MOST_MOVED {
                return Err(
                    "moves more than 2147479552 bytes, the most that one call of Linux moves",
                );
            }
            op.result = Outcome::ok(line.length);
        }
        Ok(Some(op))
    }
}

impl OpSource for IologSource {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        while batch.len() - before < 1024 {
            let Some(Reverse((_, number))) = self.due.pop() else {
                break;
            };
            batch.extend(self.jobs.get_mut(number).and_then(|job| job.next.take()));
            self.advance(number).map_err(super::source_error)?;
        }
        self.report.operations += (batch.len() - before) as u64;
        Ok(batch.len() - before)
    }
}

/// Finds the parts of the jobs: each begins with a header.
fn parts(input: &mut dyn BufRead, name: &Path) -> Result<Vec<Part>, FormatError> {
    let mut parts: Vec<Part> = Vec::new();
    let (mut line, mut at) = (0, 0u64);
    let mut text = Vec::new();
    while read_line(input, &mut text, name, line + 1)? {
        line += 1;
        let end = at + text.len() as u64;
        let header = HEADERS
            .iter()
            .position(|header| text.trim_ascii_end() == header.as_bytes());
        let failed = |problem: String| FormatError::corrupt(name, format!("line {line}"), problem);
        if let Some(version) = header {
            if parts.len() >= MOST_JOBS {
                return Err(failed(format!("more than {MOST_JOBS} jobs wrote this log")));
            }
            if let Some(part) = parts.last_mut() {
                part.to = at;
            }
            parts.push(Part {
                version: version as u8 + 2,
                line,
                from: end,
                to: end,
            });
        } else if parts.is_empty() {
            let [two, three] = HEADERS;
            return Err(failed(format!("expected `{two}` or `{three}`")));
        }
        at = end;
    }
    let Some(last) = parts.last_mut() else {
        let [two, three] = HEADERS;
        let problem = format!("it is empty, expected `{two}` or `{three}`");
        return Err(FormatError::corrupt(name, "line 1", problem));
    };
    last.to = at;
    Ok(parts)
}

/// Reads a line with its end; whether there was one.
fn read_line(
    input: &mut dyn BufRead,
    text: &mut Vec<u8>,
    name: &Path,
    line: u64,
) -> Result<bool, FormatError> {
    text.clear();
    input
        .take(MAX_LINE_BYTES)
        .read_until(b'\n', text)
        .map_err(|e| FormatError::io("read", name, e))?;
    if text.len() as u64 >= MAX_LINE_BYTES && text.last() != Some(&b'\n') {
        let problem = format!("longer than {MAX_LINE_BYTES} bytes, expected a line of an iolog");
        return Err(FormatError::corrupt(name, format!("line {line}"), problem));
    }
    // What is cut may be another length, or another file.
    if text.last().is_some_and(|&last| last != b'\n') {
        let problem = "it ends within a line, expected a whole file";
        return Err(FormatError::corrupt(name, format!("line {line}"), problem));
    }
    Ok(!text.is_empty())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Open,
    Close,
    Wait,
    Read,
    Write,
    Trim,
    Sync,
    Datasync,
    Syncfs,
    SyncRange,
}

#[derive(Debug, PartialEq, Eq)]
struct IoLine<'a> {
    time_us: Option<u64>,
    file: &'a [u8],
    action: Action,
    offset: u64,
    length: u64,
}

fn form(version: u8) -> &'static str {
    if version == 2 {
        "expected `FILE add|open|close` or `FILE read|write|trim|sync|datasync|wait OFFSET LENGTH`"
    } else {
        "expected `TIME FILE add|open|close` or `TIME FILE read|write|trim|sync|datasync OFFSET LENGTH`"
    }
}

/// Takes a line apart, from its end: names of files may hold blanks.
fn parse(text: &[u8], version: u8) -> Option<IoLine<'_>> {
    let (time_us, rest) = if version == 3 {
        let (time, rest) = text.split_at(text.iter().position(|&b| b == b' ')?);
        (Some(number(time)?), rest.trim_ascii_start())
    } else {
        (None, text)
    };
    let line = |file, action, offset, length| IoLine {
        time_us,
        file,
        action,
        offset,
        length,
    };
    let (head, last) = last_word(rest)?;
    let managed = match last {
        b"add" => Some(Action::Add),
        b"open" => Some(Action::Open),
        b"close" => Some(Action::Close),
        _ => None,
    };
    if let Some(action) = managed {
        return Some(line(head, action, 0, 0));
    }
    let length = number(last)?;
    let (head, offset) = last_word(head)?;
    let (file, action) = last_word(head)?;
    let action = match action {
        b"read" => Action::Read,
        b"write" => Action::Write,
        b"trim" => Action::Trim,
        b"sync" => Action::Sync,
        b"datasync" => Action::Datasync,
        b"syncfs" => Action::Syncfs,
        b"sync_file_range" => Action::SyncRange,
        b"wait" if version == 2 => Action::Wait,
        _ => return None,
    };
    Some(line(file, action, number(offset)?, length))
}

/// What stands before the last word, and that word; neither is empty.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(|&b| b == b' ')?;
    let (head, word) = (text.get(..at)?.trim_ascii_end(), text.get(at + 1..)?);
    (!head.is_empty() && !word.is_empty()).then_some((head, word))
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(text: &str) -> Result<(Vec<Op>, IologReport), String> {
        let mut source = IologSource::from_bytes(text.as_bytes(), "x.log".as_ref())
            .map_err(|e| e.to_string())?;
        let mut ops = Vec::new();
        while source.next_batch(&mut ops).map_err(|e| e.to_string())? > 0 {}
        Ok((ops, source.report()))
    }

    #[test]
    fn version_2_counts_waits() {
        use OpKind::{Close, Fallocate, Fdatasync, Open, Read, Write};
        let text = "fio version 2 iolog\n/w/a b add\n/w/a b open\n/w/a b write 0 4096\n\
                    /w/a b wait 150 0\n/w/a b read 4096 512\n/w/a b datasync 0 0\n/w/a b trim 0 4096\n\
                    /w/a b close\n";
        let (ops, _) = ops(text).unwrap();
        let kinds: Vec<OpKind> = ops.iter().map(|op| op.kind).collect();
        assert_eq!(kinds, [Open, Write, Read, Fdatasync, Fallocate, Close]);
        assert_eq!(ops[1].start_ns, 0);
        assert_eq!(ops[2].start_ns, 150_000);
        assert_eq!((ops[2].offset, ops[2].length), (Some(4096), Some(512)));
        assert_eq!(ops[2].result, Outcome::ok(512));
        assert!(
            ops[1..]
                .iter()
                .all(|op| op.fd == Some(Fd(3)) && op.file == ops[0].file)
        );
    }

    #[test]
    fn jobs_of_one_log_run_together() {
        let text = "fio version 3 iolog\n1 /a add\n10 /a open\n30 /a read 0 8\n40 /a close\n\
                    fio version 3 iolog\n5 /b open\n20 /b sync 8 0\n50 /b close\n";
        let (ops, report) = ops(text).unwrap();
        let seen: Vec<(u64, u32)> = ops
            .iter()
            .map(|op| (op.start_ns / 1000, op.pid.0))
            .collect();
        assert_eq!(seen, [(5, 2), (10, 1), (20, 2), (30, 1), (40, 1), (50, 2)]);
        assert_eq!((report.jobs, report.operations), (2, 6));
        assert!(ops.iter().all(|op| op.latency_ns.is_none()));
    }

    #[test]
    fn descriptors_are_given_again() {
        let text = "fio version 2 iolog\n/a open\n/b open\n/a close\n/c open\n/d open\n";
        let (ops, _) = ops(text).unwrap();
        let fds: Vec<Option<u64>> = ops.iter().map(|op| op.result.value()).collect();
        assert_eq!(fds, [Some(3), Some(4), Some(0), Some(3), Some(5)]);
    }

    #[test]
    fn errors_name_the_line() {
        for (text, words) in [
            ("", "line 1"),
            ("0 1 4096\n", "fio version 2 iolog"),
            (
                "fio version 2 iolog\n/a read 0 1\n",
                "line 2: `/a` is not open",
            ),
            (
                "fio version 2 iolog\n/a open\n/a open\n",
                "line 3: `/a` is open already",
            ),
            (
                "fio version 2 iolog\n\n/a open x\n",
                "line 3: expected `FILE add",
            ),
            (
                "fio version 3 iolog\n/a open\n",
                "line 2: expected `TIME FILE",
            ),
            ("fio version 3 iolog\n1 /a open\n2 /a wait 1 1\n", "line 3"),
            ("fio version 2 iolog\n/a open\n/a read -1 1\n", "line 3"),
            (
                "fio version 2 iolog\n/a open\n/a read 18446744073709551616 1\n",
                "line 3",
            ),
            (
                "fio version 2 iolog\n/a open\n/a write 18446744073709551615 1\n",
                "line 3: `/a` ends beyond 2^63 - 1 bytes",
            ),
            (
                "fio version 2 iolog\n/a open\n/a read 0 2147479553\n",
                "line 3: `/a` moves more than 2147479552 bytes",
            ),
            (
                "fio version 2 iolog\n/a open\n/a wait 99999999999999999 0\n",
                "line 3: `/a` has a time that no clock shows",
            ),
            (
                "fio version 2 iolog\n/a open\n/a read 0 40",
                "line 3: it ends within a line",
            ),
        ] {
            let error = ops(text).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        let long = format!("fio version 2 iolog\n/{}", "x".repeat(20_000));
        assert!(ops(&long).unwrap_err().contains("line 2: longer"), "a line");
    }
}

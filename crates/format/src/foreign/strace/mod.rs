//! Text as strace writes it, read as a stream of operations ([`StraceSource`]) and written from one
//! ([`StraceSink`]).
//!
//! Read is what `strace -f -ttt -T -y` and its subsets without `-f`, `-T` or `-y` print; only the
//! time (`-ttt`) is required. What the text leaves out is reconstructed: descriptors with their
//! sharing by clone flags, offsets, working directories, sizes, mappings.
//!
//! What a text cannot tell:
//! * Files have no inode in it. Their ids are synthetic: device 0, inode 1 + the order in which
//!   their paths first appeared; paths are compared by spelling, so that a file reached through a
//!   symbolic link is another file unless `-y` printed the descriptor's path.
//! * The start directory without `-y`: relative paths have no `dir` until a `chdir` or `getcwd`
//!   with an absolute path. Sizes and offsets of files that were open before, until a call tells.
//! * Without a process column every line belongs to one process, numbered 0 (or as the first column
//!   that appears later says).
//! * io_uring and page faults; cache misses.
//!
//! One of up to [`TOLERATED_LINES`] lines (and 1 % of all) that strace did not write (a program's
//! own standard error between them) is skipped and counted; more are an error. So is the last one of a text that is cut.

mod args;
mod calls;
mod copies;
mod elsewhere;
mod export;
mod fd_calls;
mod files;
mod line;
mod order;
mod reached;
mod state;
mod symbols;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use fsage_core::{Op, OpFlags, OpKind, OpSource, PathTable, SourceError};
use fsage_namespace::SharedId;
use fsage_namespace::path::join;
use rustc_hash::FxHashMap;

use crate::FormatError;
use calls::{Importer, Taken};
use line::{Event, Line, parse_call, parse_line};
use order::Reorder;

pub use export::{NotCarried, StraceSink, begins_like};

/// How many lines that strace did not write are skipped whatever the length of the text; beyond it,
/// 1 % of the lines read so far are.
pub const TOLERATED_LINES: u64 = 16;

/// Longer lines are an error; strace's own are shorter than this unless asked for whole buffers.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// How many different names of calls are counted one by one.
const MAX_NAMES: usize = 1024;

/// Skipped lines that are told.
const SKIPPED_TOLD: usize = 3;

/// What an import met, beside the operations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StraceReport {
    /// Lines read.
    pub lines: u64,
    /// Operations yielded.
    pub operations: u64,
    /// Calls that are none of those that are captured and may be about files, by name.
    pub other_calls: BTreeMap<String, u64>,
    /// Calls that are known to be no operations on files, by name.
    pub no_file_calls: BTreeMap<String, u64>,
    /// Captured calls that never returned.
    pub unreturned: u64,
    /// Operations on pipes, sockets, devices and anonymous inodes, which are no file system's.
    pub not_files: u64,
    /// Operations outside of the directories that are wanted.
    pub outside: u64,
    /// Lines that strace did not write, or that could not be read.
    pub skipped_lines: u64,
    /// The first few of them and why, for a message.
    pub first_skipped: Vec<String>,
    /// The time of the first line, in nanoseconds on the text's own clock (`-ttt`: since the epoch);
    /// operations start relative to it.
    pub start_unix_ns: Option<u64>,
}

/// A call that is in flight.
#[derive(Debug)]
struct Pending {
    start_ns: u64,
    text: Vec<u8>,
    /// A fork whose child may already have been seen.
    fork_flags: Option<u32>,
    child: Option<u32>,
    /// The open file of the descriptor that a close has freed as it began.
    closing: Option<SharedId>,
}

/// Operations from a strace text.
#[derive(Debug)]
pub struct StraceSource<R> {
    input: R,
    name: PathBuf,
    importer: Importer,
    pending: FxHashMap<u32, Pending>,
    /// Those of them that are forks whose child was not seen, by start.
    forks: BTreeSet<(u64, u32)>,
    /// The thread of lines without a number.
    unnamed: Option<u32>,
    order: Reorder,
    report: StraceReport,
    ended: bool,
    line: Vec<u8>,
}

impl<R: BufRead> StraceSource<R> {
    /// Reads from `input`; errors name `name`.
    pub fn new(input: R, name: &Path) -> Self {
        Self {
            input,
            name: name.to_owned(),
            importer: Importer::default(),
            pending: FxHashMap::default(),
            forks: BTreeSet::new(),
            unnamed: None,
            order: Reorder::default(),
            report: StraceReport::default(),
            ended: false,
            line: Vec::new(),
        }
    }

    /// Wants operations on what lies in one of these directories alone (absolute, by spelling), and
    /// those on processes.
    #[must_use]
    pub fn under(mut self, directories: &[Vec<u8>]) -> Self {
        let normal = directories.iter().map(|dir| join(b"/", dir));
        self.importer.files.keep_under(normal.collect());
        self
    }

    /// What was met so far; whole once the source has ended.
    pub fn report(&self) -> &StraceReport {
        &self.report
    }

    /// Appends the next operations in the order of their start, at least one unless the text ended.
    pub fn read_ops(&mut self, batch: &mut Vec<Op>) -> Result<usize, FormatError> {
        let before = batch.len();
        while batch.len() == before {
            if self.ended {
                break;
            }
            for _ in 0..1024 {
                if !self.next_line()? {
                    self.finish()?;
                    break;
                }
            }
            let floor = if self.ended { None } else { Some(self.floor()) };
            self.order.take_until(floor, batch);
        }
        let count = batch.len() - before;
        self.report.operations += count as u64;
        Ok(count)
    }

    /// Operations may still appear from here on.
    fn floor(&self) -> u64 {
        let flying = self.pending.values().map(|pending| pending.start_ns).min();
        let last = self.order.last_line_ns();
        flying.map_or(last, |flying| flying.min(last))
    }

    fn next_line(&mut self) -> Result<bool, FormatError> {
        self.line.clear();
        let mut limited = (&mut self.input).take(MAX_LINE_BYTES);
        let read = limited
            .read_until(b'\n', &mut self.line)
            .map_err(|e| FormatError::io("read", &self.name, e))?;
        if read == 0 && self.report.lines == 0 {
            let problem = "it is empty, expected text of `strace -f -ttt -T`";
            return Err(FormatError::corrupt(&self.name, "line 1", problem));
        }
        if read == 0 {
            return Ok(false);
        }
        self.report.lines += 1;
        let mut cut = false;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read as u64 == MAX_LINE_BYTES {
            let problem = format!("a line of more than {MAX_LINE_BYTES} bytes, expected strace's");
            return Err(FormatError::corrupt(&self.name, self.place(), problem));
        } else {
            cut = !line::ends(&self.line);
        }
        let line = std::mem::take(&mut self.line);
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        let taken = if text.is_empty() {
            Ok(())
        } else if cut {
            Err("the end of the line, where the text is cut")
        } else {
            self.take_line(text)
        };
        if let Err(expected) = taken {
            self.skip(text, expected)?;
        }
        self.line = line;
        Ok(true)
    }

    fn place(&self) -> String {
        format!("line {}", self.report.lines)
    }

    fn skip(&mut self, text: &[u8], expected: &str) -> Result<(), FormatError> {
        self.report.skipped_lines += 1;
        let shown = text.get(..60).unwrap_or(text).escape_ascii().to_string();
        let problem = format!("expected {expected}, found `{shown}`");
        if expected == line::SINCE_THE_EPOCH {
            return Err(FormatError::corrupt(&self.name, self.place(), problem));
        }
        let allowed = TOLERATED_LINES.max(self.report.lines / 100);
        if self.report.skipped_lines > allowed {
            let problem = format!(
                "{problem}; {} lines are not strace's and {allowed} are tolerated",
                self.report.skipped_lines
            );
            return Err(FormatError::corrupt(&self.name, self.place(), problem));
        }
        let place = self.place();
        let first = &mut self.report.first_skipped;
        if first.len() < SKIPPED_TOLD {
            first.push(format!("{place}: {problem}"));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), FormatError> {
        self.ended = true;
        let calls = self
            .pending
            .values()
            .filter(|pending| is_captured(&pending.text))
            .count();
        self.report.unreturned += calls as u64;
        if self.report.skipped_lines > 0 && self.report.start_unix_ns.is_none() {
            let first = self
                .report
                .first_skipped
                .first()
                .cloned()
                .unwrap_or_default();
            let (place, problem) = first
                .split_once(": ")
                .unwrap_or(("line 1", "no strace text"));
            return Err(FormatError::corrupt(&self.name, place, problem));
        }
        Ok(())
    }

    fn take_line(&mut self, text: &[u8]) -> Result<(), &'static str> {
        let Line {
            tid,
            time_ns,
            event,
        } = parse_line(text)?;
        let Some(time_ns) = time_ns else {
            return Ok(());
        };
        // A line counts as strace's only when its call can be taken apart.
        let call = match &event {
            Event::Call(text) => Some(parse_call(text)?),
            _ => None,
        };
        let start = *self.report.start_unix_ns.get_or_insert(time_ns);
        let time_ns = time_ns
            .checked_sub(start)
            .ok_or("a time that is not before the first line's")?;
        // Without its blanks a text of `strace -r` is known by this.
        if start == 0 && time_ns < self.order.last_line_ns() {
            return Err(line::SINCE_THE_EPOCH);
        }
        let tid = self.thread(tid);
        self.order.line(time_ns);
        match event {
            Event::Call(_) => call.map_or(Ok(()), |call| self.take_call(tid, time_ns, &call, None)),
            Event::Unfinished(text) => self.interrupted(tid, time_ns, text),
            Event::Resumed { name, rest } => self.resumed(tid, name, rest),
            Event::Exited(code) => {
                self.ended_thread(tid, time_ns, code);
                Ok(())
            }
            Event::Killed => {
                self.ended_thread(tid, time_ns, 0);
                Ok(())
            }
            Event::Superseded(by) => {
                if let Some(pending) = self.landed(by) {
                    self.fly(tid, pending);
                }
                Ok(())
            }
            Event::Other => Ok(()),
        }
    }

    /// The thread of a line; the first sight of a child whose fork is still in flight is its birth.
    fn thread(&mut self, tid: Option<u32>) -> u32 {
        let Some(tid) = tid else {
            return self.unnamed.unwrap_or(0);
        };
        if self.importer.processes.knows(tid) {
            return tid;
        }
        if let Some((_, parent)) = self.forks.pop_first()
            && let Some(pending) = self.pending.get_mut(&parent)
        {
            pending.child = Some(tid);
            let flags = pending.fork_flags.unwrap_or(0);
            self.importer.processes.fork(parent, tid, flags);
        } else if self.unnamed.is_none() && self.importer.processes.knows(0) {
            self.importer.processes.renumber(0, tid);
            self.unnamed = Some(tid);
        }
        tid
    }

    fn interrupted(&mut self, tid: u32, start_ns: u64, text: &[u8]) -> Result<(), &'static str> {
        let name = name_of(text);
        let forks = matches!(name, b"fork" | b"vfork" | b"clone" | b"clone2" | b"clone3");
        let open = name.len() + 1;
        let whole = [text.get(open..).unwrap_or_default(), b")"].concat();
        let args = if forks || name == b"close" {
            args::split_args(&whole).map(|(args, _)| args)
        } else {
            None
        };
        let args = args.unwrap_or_default();
        let fork_flags =
            forks.then(|| fd_calls::clone_flags(std::str::from_utf8(name).unwrap_or(""), &args));
        // The thread now exists, so that a child can copy what it holds.
        self.importer.processes.process(tid);
        let closing = match args.first() {
            Some(&fd) if !forks => self.importer.begin_close(tid, fd),
            _ => None,
        };
        let pending = Pending {
            start_ns,
            text: text.to_vec(),
            fork_flags,
            child: None,
            closing,
        };
        if self.fly(tid, pending) {
            Err("the end of the thread's call before another one")
        } else {
            Ok(())
        }
    }

    /// A call is in flight; returns whether the thread had another one.
    fn fly(&mut self, tid: u32, pending: Pending) -> bool {
        let before = self.landed(tid);
        if pending.fork_flags.is_some() && pending.child.is_none() {
            self.forks.insert((pending.start_ns, tid));
        }
        self.pending.insert(tid, pending);
        before.is_some()
    }

    /// The call of the thread that was in flight, and is no more.
    fn landed(&mut self, tid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&tid)?;
        self.forks.remove(&(pending.start_ns, tid));
        Some(pending)
    }

    fn resumed(&mut self, tid: u32, name: &str, rest: &[u8]) -> Result<(), &'static str> {
        let Some(pending) = self.landed(tid) else {
            return Err("the call's beginning, `<unfinished ...>`, before its end");
        };
        if name_of(&pending.text) != name.as_bytes() {
            return Err("the end of the call that the thread had begun");
        }
        let whole = [&pending.text[..], rest].concat();
        let call = parse_call(&whole)?;
        self.importer.closing = pending.closing;
        let taken = self.take_call(tid, pending.start_ns, &call, pending.child);
        self.importer.end_close();
        taken
    }

    fn take_call(
        &mut self,
        tid: u32,
        start_ns: u64,
        call: &line::Call<'_>,
        child: Option<u32>,
    ) -> Result<(), &'static str> {
        // A fork that failed, or whose child was another: what was assumed is undone.
        if let Some(child) = child
            && call.ret != line::Ret::Value(i64::from(child), b"")
        {
            self.importer.processes.exit(child);
        }
        let mut ops = Vec::new();
        match self.importer.call(tid, start_ns, call, &mut ops) {
            Taken::Known => {}
            Taken::Unknown => self.count_other(call),
            Taken::Unreturned => self.report.unreturned += 1,
            Taken::Malformed(expected) => return Err(expected),
        }
        // The time of a copy stands with its first half that is kept.
        let mut copying_ns = None;
        for mut op in ops {
            if self.keeps(&op) {
                op.latency_ns = copying_ns.take().or(op.latency_ns);
                self.order.push(op);
            } else if op.kind == OpKind::CopyIn {
                copying_ns = op.latency_ns;
            }
        }
        Ok(())
    }

    /// As a capture does: what is not about a file is counted and left out (but opens, which take a
    /// descriptor's number). Neither a prediction nor a replay could use it, and its time is no file
    /// system's.
    fn keeps(&mut self, op: &Op) -> bool {
        let count = if op.record.contains(OpFlags::NOT_A_FILE) && op.kind != OpKind::Open {
            &mut self.report.not_files
        } else if !self.importer.is_wanted(op) {
            &mut self.report.outside
        } else {
            return true;
        };
        *count += 1;
        false
    }

    fn ended_thread(&mut self, tid: u32, time_ns: u64, code: i64) {
        self.landed(tid);
        let op = self.importer.exited(tid, time_ns, code);
        self.order.push(op);
    }

    fn count_other(&mut self, call: &line::Call<'_>) {
        let counts = if elsewhere::is_no_file_call(call) {
            &mut self.report.no_file_calls
        } else {
            &mut self.report.other_calls
        };
        if let Some(count) = counts.get_mut(call.name) {
            *count += 1;
        } else {
            let name = if counts.len() < MAX_NAMES {
                call.name
            } else {
                "(more)"
            };
            *counts.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
}

fn name_of(text: &[u8]) -> &[u8] {
    text.split(|&b| b == b'(').next().unwrap_or(text)
}

fn is_captured(text: &[u8]) -> bool {
    let name = std::str::from_utf8(name_of(text)).unwrap_or("");
    table::path_call(name).is_some() || table::fd_call(name).is_some()
}

impl<R: BufRead> OpSource for StraceSource<R> {
    fn paths(&self) -> &PathTable {
        &self.importer.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        self.read_ops(batch).map_err(super::source_error)
    }
}

#[cfg(test)]
mod tests;

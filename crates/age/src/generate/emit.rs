//! Operations in the order of time, and what they leave.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathId, PathTable, Pid, Tid};
use fsage_format::trace::{TraceEnd, TraceWriter};
use fsage_namespace::flags::{O_APPEND, O_CREAT, O_EXCL, O_TRUNC};

use super::{BLOCK_BYTES, DIRECTORY, DayProgress, GenerateError, refused};
use crate::made::{DAY_NS, HOUR_NS, Made};

const O_WRONLY: u32 = 1;

/// The largest single write.
const REQUEST_BYTES: u64 = 1 << 20;

/// Between the calls of one file's writing.
const BETWEEN_NS: u64 = 1000;

/// Text of names that is held before the table begins anew.
const TEXT_BYTES: usize = 4 << 20;

/// Within a day it is told after so many operations how many changes there are.
const TOLD_EVERY: u64 = 10_000;

/// The one process of an aging workload.
const PROCESS: u32 = 1;

/// A file's bytes in whole blocks.
pub fn blocks(size: u64) -> u64 {
    size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES)
}

/// Takes the file operations of a workload; without a trace it only counts.
pub struct Emitter<'a> {
    out: Option<TraceWriter>,
    paths: PathTable,
    directory: Option<PathId>,
    stop: &'a AtomicBool,
    step: DayProgress<'a>,
    steps: (u32, u32),
    now_ns: u64,
    /// The hour of the last operation, and whether something was written since the last sync.
    hour: u64,
    dirty: bool,
    live_bytes: u64,
    peak: (u64, u32),
    day: u32,
    made: Made,
    ends: Vec<u64>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        out: Option<TraceWriter>,
        stop: &'a AtomicBool,
        step: DayProgress<'a>,
        steps: (u32, u32),
    ) -> Self {
        Self {
            out,
            paths: PathTable::new(),
            directory: None,
            stop,
            step,
            steps,
            now_ns: 0,
            hour: 0,
            dirty: false,
            live_bytes: 0,
            peak: (0, 0),
            day: 0,
            made: Made::default(),
            ends: Vec::new(),
        }
    }

    /// Goes on to a time since the workload began; an earlier one than that of the last operation stays that.
    pub fn at(&mut self, ns: u64) {
        self.now_ns = self.now_ns.max(ns);
    }

    /// What the files and directories take now.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.made.operations
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.made.written_bytes
    }

    /// Notes something of the source that the workload leaves out.
    pub fn leave_out(&mut self, what: &str, count: u64) {
        if count > 0 {
            *self.made.left_out.entry(what.to_owned()).or_default() += count;
        }
    }

    /// Ends a day; the next operation is not before the next one.
    pub fn end_day(&mut self) -> Result<(), GenerateError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(GenerateError::Interrupted);
        }
        self.day += 1;
        let next_ns = u64::from(self.day) * DAY_NS;
        if self.now_ns > next_ns {
            return Err(refused(format!(
                "day {} has more operations than fit into a day",
                self.day - 1
            )));
        }
        self.now_ns = next_ns;
        self.ends.push(self.live_bytes);
        self.tell_progress();
        if self.paths.text_bytes() > TEXT_BYTES {
            self.paths.take();
            self.directory = None;
        }
        Ok(())
    }

    fn tell_progress(&mut self) {
        let (before, all) = self.steps;
        (self.step)(before + self.day, all, self.made.operations);
    }

    /// Makes a directory.
    pub fn mkdir(&mut self, path: &[u8]) -> Result<(), GenerateError> {
        let mut op = self.named(OpKind::Mkdir, path)?;
        op.flags = 0o755;
        self.put(&op)?;
        self.made.operations += 1;
        self.grow(0, 1);
        Ok(())
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, path: &[u8]) -> Result<(), GenerateError> {
        let op = self.named(OpKind::Rmdir, path)?;
        self.put(&op)?;
        self.made.operations += 1;
        self.grow(1, 0);
        Ok(())
    }

    /// Makes a file of `size` bytes, which is not there.
    pub fn create(&mut self, path: &[u8], size: u64) -> Result<(), GenerateError> {
        self.made.creates += 1;
        self.fill(path, O_WRONLY | O_CREAT | O_EXCL, 0..size, 0)
    }

    /// Writes a file of `old` bytes anew.
    pub fn rewrite(&mut self, path: &[u8], old: u64, size: u64) -> Result<(), GenerateError> {
        self.made.modifies += 1;
        self.fill(path, O_WRONLY | O_TRUNC, 0..size, old)
    }

    /// Adds to a file of `old` bytes.
    pub fn append(&mut self, path: &[u8], old: u64, size: u64) -> Result<(), GenerateError> {
        self.made.modifies += 1;
        self.fill(path, O_WRONLY | O_APPEND, old..size, old)
    }

    /// Writes some of a file of `old` bytes, the rest of which stays; it takes `more` bytes then, in whole blocks.
    pub fn write_beside(
        &mut self,
        path: &[u8],
        range: std::ops::Range<u64>,
        (old, more): (u64, u64),
    ) -> Result<(), GenerateError> {
        self.made.modifies += 1;
        self.change(0, more);
        self.open_and_write(path, O_WRONLY, range, old)
    }

    /// Writes out what a file has.
    pub fn fsync(&mut self, path: &[u8]) -> Result<(), GenerateError> {
        let mut op = self.named(OpKind::Open, path)?;
        op.flags = O_WRONLY;
        op.result = Outcome::ok(3);
        self.put(&op)?;
        for kind in [OpKind::Fsync, OpKind::Close] {
            let op = self.on(kind);
            self.put(&op)?;
        }
        Ok(())
    }

    /// Cuts a file of `old` bytes, or lengthens it by a hole.
    pub fn truncate(&mut self, path: &[u8], old: u64, size: u64) -> Result<(), GenerateError> {
        self.cut(path, (old, size), blocks(old) - blocks(size.min(old)))
    }

    /// The same of a file that may have holes: `freed` bytes, in whole blocks, go with what is cut.
    pub fn cut(
        &mut self,
        path: &[u8],
        (old, size): (u64, u64),
        freed: u64,
    ) -> Result<(), GenerateError> {
        let mut op = self.named(OpKind::Truncate, path)?;
        op.length = Some(size);
        op.size_bytes = Some(old);
        self.put(&op)?;
        self.made.operations += 1;
        self.made.modifies += 1;
        self.change(freed, 0);
        Ok(())
    }

    /// Removes a name; `freed` are the bytes of its file if it was the last.
    pub fn unlink(&mut self, path: &[u8], freed: u64) -> Result<(), GenerateError> {
        let op = self.named(OpKind::Unlink, path)?;
        self.put(&op)?;
        self.made.operations += 1;
        self.made.removes += 1;
        self.change(blocks(freed), 0);
        Ok(())
    }

    /// Renames; `replaced` are the bytes of the file that had the new name.
    pub fn rename(&mut self, from: &[u8], to: &[u8], replaced: u64) -> Result<(), GenerateError> {
        self.two_names(OpKind::Rename, from, to)?;
        self.change(blocks(replaced), 0);
        Ok(())
    }

    /// Gives a file another name.
    pub fn link(&mut self, from: &[u8], to: &[u8]) -> Result<(), GenerateError> {
        self.two_names(OpKind::Link, from, to)
    }

    /// Makes a symbolic link.
    pub fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), GenerateError> {
        self.made.creates += 1;
        self.two_names(OpKind::Symlink, path, target)
    }

    /// Ends the trace; its size in bytes.
    pub(super) fn finish(self, end: TraceEnd) -> Result<u64, GenerateError> {
        Ok(match self.out {
            Some(out) => out.finish(end)?,
            None => 0,
        })
    }

    /// What all of it came to.
    pub(super) fn tell(&self, made: &mut Made) {
        let size = made.size_bytes.max(1) as f64;
        let counted = &self.made;
        made.days = self.day;
        made.operations = counted.operations;
        made.trace_operations = counted.trace_operations;
        made.creates = counted.creates;
        made.removes = counted.removes;
        made.modifies = counted.modifies;
        made.written_bytes = counted.written_bytes;
        made.left_out.clone_from(&counted.left_out);
        made.peak_bytes = self.peak.0;
        // To six places, which is more than is meant.
        let share = |&bytes: &u64| (bytes as f64 / size * 1e6).round() / 1e6;
        made.utilisation = self.ends.iter().map(share).collect();
    }

    /// The day on which the files take the most.
    pub(super) fn peak_day(&self) -> u32 {
        self.peak.1
    }

    fn two_names(&mut self, kind: OpKind, path: &[u8], path2: &[u8]) -> Result<(), GenerateError> {
        let mut op = self.named(kind, path)?;
        if self.out.is_some() {
            op.path2 = Some(self.path(path2)?);
        }
        self.put(&op)?;
        self.made.operations += 1;
        Ok(())
    }

    fn fill(
        &mut self,
        path: &[u8],
        flags: u32,
        range: std::ops::Range<u64>,
        old: u64,
    ) -> Result<(), GenerateError> {
        let kept = if flags & O_TRUNC == 0 { old } else { 0 };
        self.change(blocks(old), blocks(kept));
        self.change(blocks(kept), blocks(range.end.max(kept)));
        self.open_and_write(path, flags, range, kept)
    }

    /// Of a file that has `kept` bytes once it is open.
    fn open_and_write(
        &mut self,
        path: &[u8],
        flags: u32,
        range: std::ops::Range<u64>,
        kept: u64,
    ) -> Result<(), GenerateError> {
        self.made.operations += 1;
        self.made.written_bytes += range.end.saturating_sub(range.start);
        let mut op = self.named(OpKind::Open, path)?;
        op.flags = flags;
        op.size_bytes = Some(kept);
        op.result = Outcome::ok(3);
        self.put(&op)?;
        let mut at = range.start;
        while at < range.end {
            let length = REQUEST_BYTES.min(range.end - at);
            let mut op = self.on(OpKind::Write);
            op.offset = Some(at);
            op.length = Some(length);
            op.size_bytes = Some(at.max(kept));
            op.result = Outcome::ok(length);
            // The position of a file that is opened anew; what lies elsewhere names its place.
            if flags & O_APPEND != 0 {
                op.record = OpFlags::IMPLICIT_OFFSET | OpFlags::APPEND;
            } else if range.start == 0 {
                op.record = OpFlags::IMPLICIT_OFFSET;
            }
            self.put(&op)?;
            at += length;
        }
        let close = self.on(OpKind::Close);
        self.put(&close)
    }

    fn on(&self, kind: OpKind) -> Op {
        let mut op = Op::new(kind, Pid(PROCESS), Tid(PROCESS), self.now_ns);
        op.fd = Some(Fd(3));
        op
    }

    fn named(&mut self, kind: OpKind, path: &[u8]) -> Result<Op, GenerateError> {
        let mut op = Op::new(kind, Pid(PROCESS), Tid(PROCESS), self.now_ns);
        if self.out.is_some() {
            op.path = Some(self.path(path)?);
            if self.directory.is_none() {
                self.directory = Some(self.path(DIRECTORY.as_bytes())?);
            }
            op.dir = self.directory;
        }
        Ok(op)
    }

    fn path(&mut self, path: &[u8]) -> Result<PathId, GenerateError> {
        let id = self.paths.intern(path);
        id.ok_or_else(|| refused("more than 2^32 names in a day"))
    }

    fn put(&mut self, op: &Op) -> Result<(), GenerateError> {
        // A day may be long.
        if self.stop.load(Ordering::Relaxed) {
            return Err(GenerateError::Interrupted);
        }
        if self.made.trace_operations.is_multiple_of(TOLD_EVERY) {
            self.tell_progress();
        }
        self.now_ns += BETWEEN_NS;
        // What was written is written back at the end of the hour, before the next one's first change: the kernel
        // does so after half a minute.
        let hour = op.start_ns / HOUR_NS;
        if hour > self.hour && op.fd.is_none() {
            // The day's end does so anyway.
            let today = hour / 24 == self.hour / 24;
            if std::mem::take(&mut self.dirty) && today {
                let sync = Op::new(OpKind::Sync, op.pid, op.tid, op.start_ns);
                self.put(&sync)?;
            }
            self.hour = hour;
        }
        self.dirty |= op.kind == OpKind::Write;
        self.made.trace_operations += 1;
        if let Some(out) = &mut self.out {
            out.push_annotated(op, &self.paths, &[])?;
        }
        Ok(())
    }

    fn grow(&mut self, before: u64, now: u64) {
        self.change(before * BLOCK_BYTES, now * BLOCK_BYTES);
    }

    fn change(&mut self, before: u64, now: u64) {
        self.live_bytes = self.live_bytes.saturating_sub(before).saturating_add(now);
        if self.live_bytes > self.peak.0 {
            self.peak = (self.live_bytes, self.day);
        }
    }
}

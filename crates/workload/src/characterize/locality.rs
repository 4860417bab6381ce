//! Open descriptors, and how accesses follow each other in open files.

use fsage_core::{Fd, FileId, Op, OpFlags, OpKind};
use fsage_namespace::Closed;
use fsage_namespace::descriptors::{Descriptors, follow, install, settle};
use fsage_namespace::flags::{CLONE_FILES, O_DIRECT};
use rustc_hash::FxHashMap;

use super::AccessPattern;

/// More descriptors and files than this are not followed.
const MAX_OPEN: usize = 1 << 20;

/// Where the last access of each direction ended.
#[derive(Debug, Clone, Copy, Default)]
struct Ends {
    read: Option<u64>,
    write: Option<u64>,
}

/// An open file, which all copies of its descriptor share.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    ends: Ends,
    /// Whether it was opened in the stream, so that its descriptors count as open.
    counted: bool,
    /// Whether it goes past the page cache.
    direct: bool,
}

/// All processes' descriptors.
#[derive(Debug, Default)]
pub(super) struct Locality {
    descriptors: Descriptors<Open>,
    /// Files accessed without a descriptor (traces that have none), by process.
    files: FxHashMap<(u32, FileId), Ends>,
    open: u64,
    pub reads: AccessPattern,
    pub writes: AccessPattern,
}

impl Locality {
    /// Descriptors open now.
    pub fn open(&self) -> u64 {
        self.open
    }

    /// Whether a transfer goes past the page cache.
    pub fn is_direct(&mut self, op: &Op) -> bool {
        let fd = op.fd.filter(|_| op.kind != OpKind::Fault);
        let open = fd.and_then(|fd| self.descriptors.description(op.pid.0, fd));
        open.is_some_and(|open| open.direct)
    }

    pub fn take(&mut self, op: &Op) {
        let closed = settle(&mut self.descriptors, op);
        self.closed(closed);
        let ok = op.result.is_ok();
        match op.kind {
            OpKind::Open if ok => self.opened(op, op.flags & O_DIRECT != 0),
            OpKind::Dup if ok => self.copied(op),
            OpKind::Close if ok => {
                let closed = op.fd.and_then(|fd| self.descriptors.close(op.pid.0, fd));
                self.closed(closed);
            }
            OpKind::Fork | OpKind::Exec | OpKind::Exit if ok => self.process(op),
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn if ok => {
                self.access(op, false);
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut if ok => self.access(op, true),
            _ => {}
        }
    }

    /// The descriptor that an operation gives, if it is followed. A trace without descriptors says nothing about how many
    /// are open.
    fn given(&self, op: &Op) -> Option<Fd> {
        let fd = op.result.value().and_then(|fd| i32::try_from(fd).ok())?;
        let is_file = !op.record.contains(OpFlags::NOT_A_FILE);
        (is_file && self.descriptors.held().0 < MAX_OPEN).then_some(Fd(fd))
    }

    fn opened(&mut self, op: &Op, direct: bool) {
        let Some(fd) = self.given(op) else {
            return;
        };
        let open = Open {
            ends: Ends::default(),
            counted: true,
            direct,
        };
        self.open += 1;
        let closed = install(&mut self.descriptors, op, fd, open);
        self.closed(closed);
    }

    fn copied(&mut self, op: &Op) {
        let (Some(new), Some(old)) = (self.given(op), op.fd) else {
            return;
        };
        if new == old {
            return;
        }
        match self.descriptors.description(op.pid.0, old) {
            Some(open) => {
                self.open += u64::from(open.counted);
                let closed = follow(&mut self.descriptors, op);
                self.closed(closed);
            }
            // Of what was there before the stream the copy alone is known to be open.
            None => self.opened(op, false),
        }
    }

    fn process(&mut self, op: &Op) {
        let before = self.descriptors.held().0;
        let table = match op.kind {
            OpKind::Fork => op.length.and_then(|child| u32::try_from(child).ok()),
            _ => Some(op.pid.0),
        };
        if op.kind == OpKind::Exec && self.descriptors.knows(op.pid.0) {
            // A new program has a table of its own, which may be a copy.
            self.descriptors.unshare(op.pid.0, CLONE_FILES);
            self.counts_copy(before, table);
        }
        let closed = follow(&mut self.descriptors, op);
        if op.kind == OpKind::Fork {
            self.counts_copy(before, table);
        }
        self.closed(closed);
    }

    /// Counts the descriptors of a table that is a copy: more are held than before.
    fn counts_copy(&mut self, before: usize, table: Option<u32>) {
        let Some(pid) = table.filter(|_| self.descriptors.held().0 > before) else {
            return;
        };
        for fd in self.descriptors.descriptors(pid) {
            let open = self.descriptors.description(pid, fd);
            self.open += u64::from(open.is_some_and(|open| open.counted));
        }
    }

    fn closed(&mut self, closed: impl IntoIterator<Item = Closed<Open>>) {
        for closed in closed {
            let open = closed.last.as_ref();
            let open = open.or_else(|| self.descriptors.open(closed.open));
            let counted = open.is_some_and(|open| open.counted);
            self.open = self.open.saturating_sub(u64::from(counted));
        }
    }

    fn ends(&mut self, op: &Op) -> Option<&mut Ends> {
        match (op.fd, op.file) {
            (Some(fd), _) => {
                let pid = op.pid.0;
                if self.descriptors.open_of(pid, fd).is_none() {
                    if self.descriptors.held().0 >= MAX_OPEN {
                        return None;
                    }
                    // It was there before the stream.
                    let open = self.descriptors.add(Open::default());
                    self.descriptors.install(pid, fd, open, false);
                }
                Some(&mut self.descriptors.description(pid, fd)?.ends)
            }
            (None, Some(file)) => {
                if self.files.len() >= MAX_OPEN {
                    self.files.clear();
                }
                Some(self.files.entry((op.pid.0, file)).or_default())
            }
            (None, None) => None,
        }
    }

    fn access(&mut self, op: &Op, write: bool) {
        if op.record.contains(OpFlags::NOT_A_FILE) {
            return;
        }
        let bytes = op.result.value().unwrap_or(0);
        let place = op.offset;
        let append = write && op.record.contains(OpFlags::APPEND);
        let sequential = match (place, self.ends(op)) {
            (Some(offset), Some(ends)) => {
                let end = if write {
                    &mut ends.write
                } else {
                    &mut ends.read
                };
                let follows = end.map_or(offset == 0, |end| end == offset);
                *end = Some(offset.saturating_add(bytes));
                Some(follows || append)
            }
            _ => None,
        };
        let pattern = if write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        match sequential {
            Some(true) => {
                pattern.sequential += 1;
                pattern.sequential_bytes = pattern.sequential_bytes.saturating_add(bytes);
            }
            Some(false) => {
                pattern.random += 1;
                pattern.random_bytes = pattern.random_bytes.saturating_add(bytes);
            }
            None => pattern.unknown += 1,
        }
    }
}

/// Fills in the share.
pub(super) fn with_share(pattern: AccessPattern) -> AccessPattern {
    let known = pattern.sequential + pattern.random;
    let sequential_percent = (known > 0).then(|| 100.0 * pattern.sequential as f64 / known as f64);
    AccessPattern {
        sequential_percent,
        ..pattern
    }
}

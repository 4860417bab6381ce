//! Open descriptors, and how accesses follow each other through them.

use fsage_core::{FileId, Op, OpFlags, OpKind};
use fsage_namespace::flags::{CLONE_THREAD, O_CLOEXEC, O_DIRECT};
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

#[derive(Debug, Clone, Copy, Default)]
struct Open {
    ends: Ends,
    close_on_exec: bool,
    /// Whether the descriptor was opened in the stream, so that it counts as an open file.
    counted: bool,
    /// Whether it goes past the page cache.
    direct: bool,
}

/// All processes' descriptors.
#[derive(Debug, Default)]
pub(super) struct Locality {
    tables: FxHashMap<u32, FxHashMap<i32, Open>>,
    /// Files accessed without a descriptor (traces that have none), by process.
    files: FxHashMap<(u32, FileId), Ends>,
    held: usize,
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
    pub fn is_direct(&self, op: &Op) -> bool {
        let fd = op.fd.filter(|_| op.kind != OpKind::Fault);
        fd.is_some_and(|fd| self.descriptor(op.pid.0, fd.0).direct)
    }

    /// What is known of a descriptor; nothing of one that was there before.
    fn descriptor(&self, pid: u32, fd: i32) -> Open {
        let table = self.tables.get(&pid);
        let open = table.and_then(|table| table.get(&fd));
        open.copied().unwrap_or_default()
    }

    pub fn take(&mut self, op: &Op) {
        let ok = op.result.is_ok();
        match op.kind {
            OpKind::Open | OpKind::Dup if ok => self.opened(op),
            OpKind::Close if ok => {
                if let Some(fd) = op.fd {
                    self.close(op.pid.0, fd.0);
                }
            }
            OpKind::Fork if ok && op.flags & CLONE_THREAD == 0 => self.fork(op),
            OpKind::Exec if ok => self.exec(op.pid.0),
            OpKind::Exit if op.length == Some(1) => self.exit(op.pid.0),
            OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn if ok => {
                self.access(op, false);
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut if ok => self.access(op, true),
            _ => {}
        }
    }

    fn opened(&mut self, op: &Op) {
        let Some(fd) = op.result.value().and_then(|fd| i32::try_from(fd).ok()) else {
            return;
        };
        // A trace without descriptors says nothing about how many are open.
        if op.record.contains(OpFlags::NOT_A_FILE) || self.held >= MAX_OPEN {
            return;
        }
        if op.kind == OpKind::Dup && op.fd.map(|old| old.0) == Some(fd) {
            return;
        }
        let direct = match op.kind {
            OpKind::Open => op.flags & O_DIRECT != 0,
            _ => op
                .fd
                .is_some_and(|old| self.descriptor(op.pid.0, old.0).direct),
        };
        self.close(op.pid.0, fd);
        let open = Open {
            ends: Ends::default(),
            close_on_exec: op.kind == OpKind::Open && op.flags & O_CLOEXEC != 0,
            counted: true,
            direct,
        };
        self.tables.entry(op.pid.0).or_default().insert(fd, open);
        self.held += 1;
        self.open += 1;
    }

    fn close(&mut self, pid: u32, fd: i32) {
        let old = self
            .tables
            .get_mut(&pid)
            .and_then(|table| table.remove(&fd));
        self.forget(old.into_iter());
    }

    fn forget(&mut self, gone: impl Iterator<Item = Open>) {
        for open in gone {
            self.held = self.held.saturating_sub(1);
            self.open = self.open.saturating_sub(u64::from(open.counted));
        }
    }

    fn fork(&mut self, op: &Op) {
        let Some(child) = op.length.and_then(|pid| u32::try_from(pid).ok()) else {
            return;
        };
        // A copy that is not kept is not made: every child of a process with many descriptors asks for one.
        let fits =
            |table: &&FxHashMap<i32, Open>| self.held.saturating_add(table.len()) <= MAX_OPEN;
        let table = self.tables.get(&op.pid.0).filter(fits);
        let Some(copy) = table.filter(|_| child != op.pid.0).cloned() else {
            return;
        };
        self.exit(child);
        self.held += copy.len();
        self.open += copy.values().filter(|open| open.counted).count() as u64;
        self.tables.insert(child, copy);
    }

    fn exec(&mut self, pid: u32) {
        let Some(table) = self.tables.get_mut(&pid) else {
            return;
        };
        let mut gone = Vec::new();
        table.retain(|_, open| {
            if open.close_on_exec {
                gone.push(*open);
            }
            !open.close_on_exec
        });
        self.forget(gone.into_iter());
    }

    fn exit(&mut self, pid: u32) {
        if let Some(table) = self.tables.remove(&pid) {
            self.forget(table.into_values());
        }
    }

    fn ends(&mut self, op: &Op) -> Option<&mut Ends> {
        let full = self.held >= MAX_OPEN;
        match (op.fd, op.file) {
            (Some(fd), _) => {
                let table = self.tables.entry(op.pid.0).or_default();
                if !table.contains_key(&fd.0) {
                    if full {
                        return None;
                    }
                    self.held += 1;
                }
                Some(&mut table.entry(fd.0).or_default().ends)
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

//! What each kind of operation on an open file does.

use fsage_core::{Fd, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::flags::{FALLOC_FL_KEEP_SIZE, O_APPEND, O_DIRECT};
use fsage_namespace::pending::is_another;
use fsage_namespace::registered::is_of_registered;

use super::process::OpenId;
use super::tree::{Ino, NodeKind};
use super::{Action, Namespace, Resolved};

const FALLOC_PUNCH_HOLE: u32 = 2;
const FALLOC_ZERO_RANGE: u32 = 16;

/// Bytes that a name takes in the buffer of `getdents64`, on average (a header of 19 bytes, a name,
/// rounded to 8).
const DIRENT_BYTES: u64 = 32;

/// What an operation on a descriptor tells its file to be.
fn kind_by(op: &Op) -> NodeKind {
    if op.record.contains(OpFlags::DIRECTORY) || op.kind == OpKind::Readdir {
        NodeKind::Directory
    } else {
        NodeKind::Regular
    }
}

impl Namespace {
    /// A file that is known by a descriptor alone.
    pub(super) fn nameless_of(&mut self, op: &Op) -> Ino {
        if let Some(node) = op.file.and_then(|id| self.tree.identified(id)) {
            return node;
        }
        let everything = self.scope.roots.is_empty() && self.scope.devices.is_empty();
        let inside = everything
            || op
                .file
                .is_some_and(|id| self.scope.devices.contains(&id.dev));
        let node = self.tree.nameless(kind_by(op), inside, false);
        if let Some(inode) = self.tree.inode_mut(node) {
            inode.untold = !inside;
        }
        node
    }

    /// The file of a descriptor that was opened before the trace began, by the path that the trace has for it.
    fn told_by_path(&mut self, op: &Op, paths: &PathTable) -> Option<Ino> {
        let path = op.path.filter(|_| op.result.is_ok())?;
        if !self.resolver.is_absolute(paths, path) {
            return None;
        }
        let walk = self.walk(op, paths, false, true)?;
        Some(self.learn(op, &walk, kind_by(op))).filter(|node| node.is_some())
    }

    pub(super) fn on_descriptor(&mut self, op: &Op, paths: &PathTable, out: &mut Resolved) {
        if op.record.contains(OpFlags::NOT_A_FILE) {
            if let (OpKind::Close, Some(fd)) = (op.kind, op.fd)
                && let Some(closed) = self.processes.close(op.pid.0, fd)
            {
                self.close(closed, out);
            }
            self.unexplained.not_files += 1;
            return;
        }
        let mut open = op.fd.and_then(|fd| self.processes.open_of(op.pid.0, fd));
        open = open.filter(|&open| !self.is_of_another(op, open));
        let mut node = open
            .and_then(|o| self.processes.open(o))
            .map(|o| o.ino)
            .or_else(|| op.file.and_then(|id| self.tree.identified(id)))
            .or_else(|| self.told_by_path(op, paths));
        if node.is_none() && op.file.is_some() {
            node = Some(self.nameless_of(op));
        }
        let Some(node) = node else {
            self.unexplained.unknown_descriptors += 1;
            return;
        };
        if is_of_registered(op) {
            open = Some(self.open_of_registered(op, node, out));
        } else if open.is_none()
            && let Some(fd) = op.fd.filter(|_| op.kind != OpKind::Close)
        {
            // Opened before the trace began, or by nothing that it tells.
            let id = self.make_open(op, node, false, false);
            if let Some(before) = self.processes.install(op.pid.0, fd, id, false) {
                self.close(before, out);
            }
            open = Some(id);
        }
        let tells = matches!(
            op.kind,
            OpKind::Read | OpKind::Write | OpKind::Fstat | OpKind::Lock
        );
        if tells || op.size_bytes.is_some() {
            self.observe(op, node, NodeKind::Regular);
        }
        out.node = Some(node);
        out.open = open;
        out.charged = self.tree.inode(node).is_some_and(|n| n.in_scope);
        if !out.charged {
            let untold = self.tree.inode(node).is_some_and(|n| n.untold);
            self.unexplained.unknown_descriptors += u64::from(untold);
            self.unexplained.out_of_scope += u64::from(!untold);
        }
        self.act_on_open(op, node, open, out);
    }

    /// Whether the trace says that an operation is on another file than its descriptor stands for, and knows that one.
    fn is_of_another(&self, op: &Op, open: OpenId) -> bool {
        let open = self.processes.open(open);
        let another = open.filter(|open| is_another(open.file, op.file));
        another.is_some_and(|open| {
            let other = op.file.and_then(|id| self.tree.identified(id));
            other.is_some_and(|other| other != open.ino)
        })
    }

    /// The open file of a request to a registered file.
    fn open_of_registered(&mut self, op: &Op, node: Ino, out: &mut Resolved) -> OpenId {
        let direct = op.record.contains(OpFlags::DIRECT);
        let process = op.pid.0;
        let hint = self.registered.last(process, node, direct);
        let found = self.processes.open_where(process, hint, |file| {
            file.ino == node && (file.flags == 0 || (file.flags & O_DIRECT != 0) == direct)
        });
        if let Some((fd, open)) = found {
            self.registered.set(process, node, direct, fd);
            return open;
        }
        // Registered and closed: the ring has it open.
        let (fd, old) = self.registered.make(process);
        if let Some(closed) = old.and_then(|(process, fd)| self.processes.close(process, fd)) {
            self.close(closed, out);
        }
        let open = self.make_open(op, node, false, false);
        self.processes.install(process, fd, open, true);
        self.registered.set(process, node, direct, fd);
        open
    }

    /// The rule of each kind that acts on an open file.
    fn act_on_open(&mut self, op: &Op, node: Ino, open: Option<OpenId>, out: &mut Resolved) {
        if op.kind == OpKind::Close {
            out.action = Action::Plain;
            // Where its number has been given again, that is another's.
            if let Some(fd) = op.fd.filter(|_| open.is_some())
                && let Some(closed) = self.processes.close(op.pid.0, fd)
            {
                out.action = self.close(closed, out);
            }
            return;
        }
        if !op.result.is_ok() {
            out.action = Action::Failed;
            return;
        }
        out.action = Action::Plain;
        match op.kind {
            OpKind::Dup => {
                let number = op.result.value().and_then(|v| i32::try_from(v).ok());
                if let (Some(fd), Some(number)) = (op.fd, number) {
                    let before = self.processes.give_duplicate(op, fd, Fd(number), false);
                    self.close_each(before, out);
                }
            }
            OpKind::Seek => {
                if let (Some(o), Some(to)) = (
                    open.and_then(|o| self.processes.open_mut(o)),
                    op.result.value(),
                ) {
                    o.position = to;
                }
            }
            OpKind::Fchdir => self.set_directory(op, node),
            OpKind::Ftruncate => {
                self.truncate(op, node, out);
                // As one that was opened with O_TRUNC is, and even if it was empty.
                if op.length == Some(0)
                    && let Some(o) = open.and_then(|o| self.processes.open_mut(o))
                {
                    o.truncated = true;
                }
            }
            OpKind::Fallocate => self.fallocate(op, node, out),
            OpKind::Readdir => {
                let bytes = op.result.value().unwrap_or(0);
                let entries = u32::try_from(bytes.div_ceil(DIRENT_BYTES)).unwrap_or(u32::MAX);
                out.action = Action::Readdir { entries };
            }
            OpKind::Read | OpKind::Sendfile | OpKind::SpliceIn | OpKind::CopyIn => {
                self.read(op, node, open, out);
            }
            // A copy's end moves nothing: its cost is on the side that reads.
            OpKind::CopyOut if op.result.value() == Some(0) => out.action = Action::None,
            OpKind::Write | OpKind::SpliceOut | OpKind::CopyOut => self.write(op, node, open, out),
            OpKind::Fault => self.fault(op, node, out),
            _ => {}
        }
    }

    fn fallocate(&mut self, op: &Op, node: Ino, out: &mut Resolved) {
        let from = op.offset.unwrap_or(0);
        let length = op.length.unwrap_or(0);
        let to = from.saturating_add(length);
        let new = length.saturating_sub(self.tree.space(node, from, to));
        let (punched, zeroed) = (
            op.flags & FALLOC_PUNCH_HOLE != 0,
            op.flags & FALLOC_ZERO_RANGE != 0,
        );
        // What is not a whole block stays, as zeros.
        let first = from
            .checked_next_multiple_of(self.block)
            .unwrap_or(u64::MAX);
        let end = (to - to % self.block).max(first);
        let space = self.tree.space(node, first, end);
        if punched {
            self.tree.deallocate(node, first, end);
        } else {
            self.tree.allocate(node, from, to);
            if op.flags & FALLOC_FL_KEEP_SIZE == 0
                && let Some(n) = self.tree.inode_mut(node)
            {
                n.size = n.size.max(to);
            }
        }
        out.action = if punched || zeroed {
            Action::Empty {
                from: first,
                to: end,
                space,
                reserved: !punched,
            }
        } else {
            Action::Allocate {
                length: new,
                end: to,
            }
        };
    }

    fn place(&self, op: &Op, open: Option<OpenId>, size: u64) -> u64 {
        let open = open.and_then(|o| self.processes.open(o));
        let append =
            op.record.contains(OpFlags::APPEND) || open.is_some_and(|o| o.flags & O_APPEND != 0);
        match op.offset {
            Some(offset) => offset,
            None if append && op.kind == OpKind::Write => size,
            None => open.map_or(0, |o| o.position),
        }
    }

    fn moved(&mut self, open: Option<OpenId>, to: u64, written: bool) -> bool {
        let Some(o) = open.and_then(|o| self.processes.open_mut(o)) else {
            return false;
        };
        let first = written && !o.written;
        o.position = to;
        o.written |= written;
        first
    }

    fn read(&mut self, op: &Op, node: Ino, open: Option<OpenId>, out: &mut Resolved) {
        let size = self.tree.size(node);
        let offset = self.place(op, open, size);
        // What is transferred is what there is, not what was asked for (6.1.3.5).
        let asked = op
            .result
            .value()
            .unwrap_or(0)
            .min(op.length.unwrap_or(u64::MAX));
        let end = offset.saturating_add(asked);
        // A read beyond the end tells of nothing there: assemblers look before they write what comes first last.
        if asked > 0 && end > size {
            self.tree.set_dense(node, end);
        }
        out.action = Action::Read {
            offset,
            length: asked,
            eof: asked == 0,
        };
        self.moved(open, end, false);
    }

    fn write(&mut self, op: &Op, node: Ino, open: Option<OpenId>, out: &mut Resolved) {
        let old_size = self.tree.size(node);
        let offset = self.place(op, open, old_size);
        let length = op
            .result
            .value()
            .unwrap_or(0)
            .min(op.length.unwrap_or(u64::MAX));
        let end = offset.saturating_add(length);
        let first = self.moved(open, end, true);
        out.action = Action::Write {
            offset,
            length,
            old_size,
            first,
        };
        // Space is given after stage 2 has looked at what was there: see `settle`.
        if let Some(n) = self.tree.inode_mut(node) {
            n.size = n.size.max(end);
        }
    }

    fn fault(&mut self, op: &Op, node: Ino, out: &mut Resolved) {
        let offset = op.offset.unwrap_or(0);
        let length = op.length.unwrap_or(4096).clamp(1, 1 << 21);
        let old_size = self.tree.size(node);
        out.action = if op.flags & 1 != 0 {
            Action::Write {
                offset,
                length,
                old_size,
                first: false,
            }
        } else {
            Action::Read {
                offset,
                length,
                eof: false,
            }
        };
    }

    /// Gives the space of a write, once the stages after have seen what was there before.
    #[inline]
    pub fn settle(&mut self, out: &Resolved) {
        if let (Action::Write { offset, length, .. }, Some(node)) = (out.action, out.node)
            && length > 0
        {
            let from = offset - offset % self.block;
            let end = offset.saturating_add(length);
            let to = end.checked_next_multiple_of(self.block).unwrap_or(u64::MAX);
            self.tree.allocate(node, from, to);
        }
    }
}

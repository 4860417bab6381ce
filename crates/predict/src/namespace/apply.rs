//! What each kind of operation does to the tree.

use fsage_core::{Errno, Fd, KindClass, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::Closed;
use fsage_namespace::flags::{
    CLONE_THREAD, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_TMPFILE, O_TRUNC,
    RENAME_EXCHANGE, follows_last,
};

use super::process::OpenFile;
use super::resolve::{Walk, can_be_there};
use super::tree::{Ino, NodeKind};
use super::{Action, Namespace, Resolved};

impl Namespace {
    pub(super) fn apply_kind(&mut self, op: &Op, paths: &PathTable, out: &mut Resolved) {
        let before = self.processes.settle(op, |open| open.file);
        self.close_each(before, out);
        match op.kind {
            OpKind::Fork => self.fork(op, out),
            OpKind::Exit => self.exit(op, out),
            kind if kind.class() == KindClass::Name => {
                // getxattr, statfs and link have forms on descriptors, which come without a path.
                if op.path.is_none() && op.fd.is_some() {
                    self.on_descriptor(op, paths, out);
                    if let (OpKind::Link, true, Some(node)) = (op.kind, op.result.is_ok(), out.node)
                    {
                        out.walks[1] = self.walk(op, paths, true, false);
                        self.add_name(node, out);
                    }
                } else {
                    self.on_name(op, paths, out);
                }
            }
            // One without a descriptor is fsage's own, of the target's root.
            kind if kind == OpKind::Sync || kind == OpKind::Syncfs && op.fd.is_none() => {
                out.charged = true;
                out.action = Action::Plain;
            }
            _ => self.on_descriptor(op, paths, out),
        }
    }

    fn fork(&mut self, op: &Op, out: &mut Resolved) {
        let child = op.length.and_then(|pid| u32::try_from(pid).ok());
        if op.flags & CLONE_THREAD != 0 {
            let thread = op.result.value().and_then(|tid| u32::try_from(tid).ok());
            if let Some(thread) = thread.filter(|&tid| tid != 0) {
                let gone = (self.processes).thread(op.pid.0, op.tid.0, thread, op.flags);
                self.close_each(gone, out);
            }
            return;
        }
        let makes_one = op.result.is_ok();
        if let Some(child) = child.filter(|&child| makes_one && child != op.pid.0) {
            // One of that number, if it is known, ended unseen.
            self.close_all(child, out);
            self.processes.fork(op.pid.0, child, op.flags);
            self.family.fork(op.pid.0, child, op.start_ns);
        }
    }

    fn close_all(&mut self, process: u32, out: &mut Resolved) {
        if self.processes.knows(process) {
            let ended = self.processes.exit(process);
            self.close_each(ended.closed, out);
        }
    }

    fn exit(&mut self, op: &Op, out: &mut Resolved) {
        let process = self.processes.process_of(op.pid.0, op.tid.0);
        let ended = self.processes.end_thread(op.tid.0);
        self.close_each(ended, out);
        if op.length == Some(1) {
            self.close_all(process, out);
        }
    }

    /// Descriptors that are closed by something else than a close.
    #[inline]
    pub(super) fn close_each(&mut self, closed: Vec<Closed<OpenFile>>, out: &mut Resolved) {
        for closed in closed {
            self.close(closed, out);
        }
    }

    /// What the close of a descriptor means for its file.
    pub(super) fn close(&mut self, closed: Closed<OpenFile>, out: &mut Resolved) -> Action {
        let last = closed.last.is_some();
        let open = closed.last.as_ref();
        let Some(&open) = open.or_else(|| self.processes.open(closed.open)) else {
            return Action::Plain;
        };
        out.closed.push((open.ino, open.serial, last));
        let mut unlinked = None;
        if last && let Some(node) = self.tree.inode_mut(open.ino) {
            node.opens = node.opens.saturating_sub(1);
            if node.opens == 0 && node.links == 0 {
                unlinked = Some(open.ino);
                out.freed.push(open.ino);
            }
        }
        let unlinked = unlinked.map(|ino| self.tree.held(ino));
        let (created, truncated, written) = (open.created, open.truncated, open.written);
        if last && truncated && written && unlinked.is_none() {
            out.rewritten.push(open.ino);
        }
        Action::Close {
            last,
            unlinked,
            created,
            truncated,
            written,
        }
    }

    pub(super) fn walk(
        &mut self,
        op: &Op,
        paths: &PathTable,
        second: bool,
        follow: bool,
    ) -> Option<Walk> {
        let (path, dir) = if second {
            (op.path2, op.dir2.or(op.dir))
        } else {
            (op.path, op.dir)
        };
        let path = path?;
        let base = if self.resolver.is_absolute(paths, path) {
            Ino::ROOT
        } else {
            self.base(op, paths, dir)
        };
        let exists = !matches!(
            op.result.errno(),
            Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP)
        );
        Some(
            self.resolver
                .resolve(&mut self.tree, paths, path, base, follow, exists),
        )
    }

    /// The file at the end of a walk that the trace shows to exist; learned if it is new.
    pub(super) fn learn(&mut self, op: &Op, walk: &Walk, kind: NodeKind) -> Ino {
        let mut node = walk.node;
        if !node.is_some() {
            let Some(last) = walk.last else {
                return Ino::NONE;
            };
            node = match op.file.and_then(|id| self.tree.identified(id)) {
                // Another name of a file that is known.
                Some(other) if kind != NodeKind::Directory => {
                    self.tree.attach(last, other);
                    other
                }
                _ => self.tree.create(last, kind, false),
            };
        }
        self.observe(op, node, kind);
        node
    }

    /// Takes over what the trace says of a file: identity, size, scope.
    pub(super) fn observe(&mut self, op: &Op, ino: Ino, kind: NodeKind) {
        if let Some(id) = op.file {
            if self.tree.inode(ino).is_some_and(|n| n.id != Some(id)) {
                self.tree.identify(ino, id);
            }
            if !self.scope.devices.is_empty() {
                let inside = self.scope.devices.contains(&id.dev);
                if let Some(node) = self.tree.inode_mut(ino) {
                    node.in_scope = inside;
                }
            }
        }
        let Some(node) = self.tree.inode_mut(ino) else {
            return;
        };
        if node.kind == NodeKind::Unknown {
            node.kind = kind;
        }
        let size = op
            .size_bytes
            .filter(|&s| s != node.size && node.kind == NodeKind::Regular);
        if let Some(size) = size {
            self.tree.set_dense(ino, size);
        }
    }

    fn on_name(&mut self, op: &Op, paths: &PathTable, out: &mut Resolved) {
        if op.record.contains(OpFlags::PATH_UNREADABLE) {
            self.unexplained.unreadable_paths += 1;
        }
        let follow = match op.kind {
            OpKind::Open => {
                op.flags & O_NOFOLLOW == 0 && op.flags & (O_CREAT | O_EXCL) != O_CREAT | O_EXCL
            }
            OpKind::Access
            | OpKind::Truncate
            | OpKind::Chmod
            | OpKind::Statfs
            | OpKind::Chdir
            | OpKind::Exec => true,
            _ => follows_last(op).unwrap_or(false),
        };
        let first = if op.kind == OpKind::Symlink || op.path.is_some() {
            self.walk(op, paths, false, follow)
        } else {
            None
        };
        let Some(walk) = first else {
            self.without_path(op, out);
            return;
        };
        out.walks[0] = Some(walk);
        let in_dir = self.tree.inode(walk.dir).is_some_and(|d| d.in_scope);
        if walk.prefix.is_none() {
            out.charged = in_dir || self.failing_in_scope(&walk);
            out.action = Action::Failed;
        } else {
            if matches!(op.kind, OpKind::Rename | OpKind::Link) {
                out.walks[1] = self.walk(op, paths, true, false);
            }
            self.act(op, paths, &walk, out);
            out.charged = out
                .node
                .and_then(|n| self.tree.inode(n))
                .map_or(in_dir, |n| n.in_scope);
        }
        self.unexplained.out_of_scope += u64::from(!out.charged);
    }

    fn failing_in_scope(&self, walk: &Walk) -> bool {
        let failing = self
            .resolver
            .steps(walk)
            .last()
            .and_then(|&d| self.tree.dentry(d));
        failing
            .and_then(|d| self.tree.inode(d.dir))
            .is_some_and(|d| d.in_scope)
    }

    /// An operation on a name that the trace does not hold.
    fn without_path(&mut self, op: &Op, out: &mut Resolved) {
        let node = op.file.and_then(|id| self.tree.identified(id));
        out.node = node;
        out.action = Action::Plain;
        let known = node.and_then(|n| self.tree.inode(n)).map(|n| n.in_scope);
        out.charged = known.unwrap_or(self.scope.roots.is_empty() && self.scope.devices.is_empty());
        if op.kind == OpKind::Open && op.result.is_ok() {
            let node = node.unwrap_or_else(|| self.nameless_of(op));
            self.observe(op, node, NodeKind::Regular);
            self.opened(op, node, false, out);
            out.node = Some(node);
        }
    }

    /// A file is given the second name of an operation.
    fn add_name(&mut self, node: Ino, out: &mut Resolved) {
        if let Some(last) = out.walks[1].and_then(|w| w.last)
            && self.tree.child(last).is_none()
        {
            self.tree.attach(last, node);
        }
        self.comes_into_scope(node, out);
    }

    /// The rule of each kind that acts on a name whose directories resolve.
    fn act(&mut self, op: &Op, paths: &PathTable, walk: &Walk, out: &mut Resolved) {
        let ok = op.result.is_ok();
        match op.kind {
            OpKind::Open => return self.open(op, walk, out),
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink if ok => {
                return self.make(op, paths, walk, out);
            }
            OpKind::Unlink if ok => return self.unlink(op, walk, out),
            OpKind::Rmdir if ok => {
                let node = self.learn(op, walk, NodeKind::Directory);
                out.node = Some(node);
                let held = self.tree.inode(node).map_or(0, |n| n.gone_entries);
                if let Some(last) = walk.last {
                    self.tree.detach(last);
                }
                out.action = Action::Rmdir { held };
                return;
            }
            OpKind::Rename if ok => return self.rename(op, walk, out),
            OpKind::Link if ok => {
                let node = self.learn(op, walk, NodeKind::Regular);
                out.node = Some(node);
                self.add_name(node, out);
                out.action = Action::Plain;
                return;
            }
            _ => {}
        }
        if !ok && self.missing(op, walk) {
            out.action = Action::Failed;
            return;
        }
        let directory = matches!(op.kind, OpKind::Chdir) || op.record.contains(OpFlags::DIRECTORY);
        let kind = if directory {
            NodeKind::Directory
        } else {
            NodeKind::Unknown
        };
        let node = if ok {
            self.learn(op, walk, kind)
        } else {
            walk.node
        };
        out.node = node.is_some().then_some(node);
        out.action = if ok { Action::Plain } else { Action::Failed };
        match op.kind {
            OpKind::Truncate if ok => self.truncate(op, node, out),
            OpKind::Chdir if ok => self.set_directory(op, node),
            OpKind::Exec if ok => {
                let gone = self.processes.exec_by(op.pid.0, op.tid.0);
                self.close_each(gone, out);
            }
            _ => {}
        }
    }

    pub(super) fn set_directory(&mut self, op: &Op, node: Ino) {
        let known = node.is_some().then_some(node);
        self.processes.set_directory(op.pid.0, known);
    }

    /// Whether the last component of a failed operation is missing; notes it.
    fn missing(&mut self, op: &Op, walk: &Walk) -> bool {
        let Some(last) = walk.last else { return false };
        match op.result.errno() {
            Some(Errno::ENOENT) => {
                // The trace knows better: somebody outside of it removed the file.
                self.tree.detach(last);
                true
            }
            _ => walk.node == Ino::NONE && !can_be_there(&self.tree, walk.dir, last),
        }
    }

    fn open(&mut self, op: &Op, walk: &Walk, out: &mut Resolved) {
        let asked_create = op.flags & O_CREAT != 0;
        if !op.result.is_ok() {
            let missing = self.missing(op, walk);
            out.node = (walk.node.is_some() && !missing).then_some(walk.node);
            out.action = Action::Failed;
            return;
        }
        if op.flags & O_TMPFILE != 0 {
            return self.open_nameless(op, walk, out);
        }
        let directory = op.flags & O_DIRECTORY != 0 || op.record.contains(OpFlags::DIRECTORY);
        let exclusive = op.flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
        let absent = walk.last.is_some_and(|l| {
            self.tree.child(l).is_none() && (exclusive || !self.may_exist(op, walk))
        });
        let created = asked_create && (absent || exclusive);
        let mut first_in_dir = false;
        let node = if let (true, Some(last)) = (created, walk.last) {
            first_in_dir = self
                .tree
                .inode(walk.dir)
                .is_some_and(|d| d.born && d.most_entries == 0);
            if let Some(old) = self.tree.detach(last) {
                self.drop_if_gone(old, out);
            }
            let node = self.tree.create(last, NodeKind::Regular, true);
            self.observe(op, node, NodeKind::Regular);
            node
        } else {
            let kind = if directory {
                NodeKind::Directory
            } else {
                NodeKind::Regular
            };
            let size = self.tree.inode(walk.node).map(|n| n.size);
            let node = self.learn(op, walk, kind);
            // What the trace says is its size after the call; what it had is what is cut off.
            if let (Some(size), true) = (size, op.flags & O_TRUNC != 0)
                && let Some(inode) = self.tree.inode_mut(node)
            {
                inode.size = size;
            }
            node
        };
        let truncated = (op.flags & O_TRUNC != 0 && !created)
            .then(|| self.tree.held(node))
            .filter(|held| held.size > 0);
        if truncated.is_some() {
            self.cut(node, 0);
        }
        let directory = directory || self.tree.kind(node) == NodeKind::Directory;
        self.opened(op, node, created, out);
        out.node = Some(node);
        out.action = Action::Open {
            created,
            first_in_dir,
            truncated,
            asked_create,
            directory,
        };
    }

    /// A new file in a directory, without a name until it is linked.
    fn open_nameless(&mut self, op: &Op, walk: &Walk, out: &mut Resolved) {
        let in_scope = self.tree.inode(walk.node).is_some_and(|d| d.in_scope);
        let node = self.tree.nameless(NodeKind::Regular, in_scope, true);
        self.observe(op, node, NodeKind::Regular);
        self.opened(op, node, true, out);
        out.node = Some(node);
        out.action = Action::Open {
            created: true,
            first_in_dir: false,
            truncated: None,
            asked_create: true,
            directory: false,
        };
    }

    /// Whether an open with `O_CREAT` of a name that is not known may have found a file: the
    /// directory was not seen whole and the file has data without `O_TRUNC`.
    fn may_exist(&self, op: &Op, walk: &Walk) -> bool {
        let Some(last) = walk.last else { return true };
        can_be_there(&self.tree, walk.dir, last) && op.size_bytes.is_some_and(|s| s > 0)
    }

    fn opened(&mut self, op: &Op, node: Ino, created: bool, out: &mut Resolved) {
        // File systems that flush what was truncated as it is closed do so even if it was empty.
        let truncated = op.flags & O_TRUNC != 0 && !created;
        let open = self.make_open(op, node, created, truncated);
        out.open = Some(open);
        let number = op
            .result
            .value()
            .and_then(|v| i32::try_from(v).ok())
            .unwrap_or(i32::MAX);
        let (fd, on_exec) = (Fd(number), op.flags & O_CLOEXEC != 0);
        let before = self.processes.give(op, fd, Some(open), on_exec);
        self.close_each(before, out);
    }

    fn make(&mut self, op: &Op, paths: &PathTable, walk: &Walk, out: &mut Resolved) {
        let kind = match op.kind {
            OpKind::Mkdir => NodeKind::Directory,
            OpKind::Symlink => NodeKind::Symlink,
            _ => NodeKind::Other,
        };
        if let Some(last) = walk.last {
            if let Some(old) = self.tree.detach(last) {
                self.drop_if_gone(old, out);
            }
            let node = self.tree.create(last, kind, true);
            self.observe(op, node, kind);
            if let (NodeKind::Symlink, Some(text)) = (kind, op.path2) {
                self.tree.set_target(node, paths.get(text));
            }
            out.node = Some(node);
        }
        out.action = Action::Plain;
    }

    /// Frees a file that has no name any more, unless it is open.
    fn drop_if_gone(&mut self, ino: Ino, out: &mut Resolved) -> bool {
        let gone = self.tree.is_gone(ino);
        if gone && !out.freed.contains(&ino) {
            out.freed.push(ino);
        }
        gone
    }

    fn unlink(&mut self, op: &Op, walk: &Walk, out: &mut Resolved) {
        let node = self.learn(op, walk, NodeKind::Regular);
        out.node = Some(node);
        let held = self.tree.held(node);
        if let Some(last) = walk.last {
            self.tree.detach(last);
        }
        let freed = self.drop_if_gone(node, out);
        out.action = Action::Unlink { freed, held };
    }

    fn rename(&mut self, op: &Op, walk: &Walk, out: &mut Resolved) {
        let node = self.learn(op, walk, NodeKind::Unknown);
        out.node = Some(node);
        out.action = Action::Rename { replaced: None };
        self.comes_into_scope(node, out);
        let to = out.walks[1].and_then(|w| w.last);
        let (Some(from), Some(to)) = (walk.last, to) else {
            return;
        };
        let exchange = op.flags & RENAME_EXCHANGE != 0;
        if let Some(other) = self.tree.rename(from, to, exchange)
            && !exchange
        {
            let held = self.tree.held(other);
            let freed = self.drop_if_gone(other, out);
            out.action = Action::Rename {
                replaced: Some((other, freed, held)),
            };
        }
    }

    /// A file that is given a name in a directory of the traced file system lies on it, whatever it was called before: no
    /// name leads to another file system's file.
    fn comes_into_scope(&mut self, node: Ino, out: &Resolved) {
        let dir = out.walks[1].and_then(|walk| self.tree.inode(walk.dir));
        let inside = dir.is_some_and(|dir| dir.in_scope);
        if let Some(file) = self.tree.inode_mut(node).filter(|_| inside) {
            file.in_scope = true;
        }
    }

    pub(super) fn cut(&mut self, node: Ino, size: u64) {
        let from = size
            .checked_next_multiple_of(self.block)
            .unwrap_or(u64::MAX);
        self.tree.deallocate(node, from, u64::MAX);
        if let Some(n) = self.tree.inode_mut(node) {
            n.size = size;
            if size == 0 {
                n.sparse = false;
            }
        }
    }

    pub(super) fn truncate(&mut self, op: &Op, node: Ino, out: &mut Resolved) {
        let old = self.tree.size(node);
        let new = op.length.unwrap_or(0);
        let space = self.tree.space(node, new, old);
        if new < old {
            self.cut(node, new);
        } else if let Some(n) = self.tree.inode_mut(node) {
            n.size = new;
        }
        out.action = Action::Truncate { old, new, space };
    }
}

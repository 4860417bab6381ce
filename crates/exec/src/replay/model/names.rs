//! Operations on names.

use std::sync::Arc;

use fsage_core::{Errno, Op, OpFlags, OpKind, PathTable};
use fsage_namespace::flags::{
    AT_EMPTY_PATH, O_CREAT, O_TRUNC, RENAME_EXCHANGE, RENAME_NOREPLACE, follows_end, follows_last,
};
use fsage_namespace::path::{PATH_BYTES, moved, normal};
use fsage_namespace::{Ino, NodeKind};

use super::{ENODATA, Found, Model, ReplayStep, Skip, Verdict};
use crate::replay::call::Call;
use crate::replay::order::{Key, Mode, Use};
use crate::replay::place::link_text;

const ELOOP: i32 = 40;
const ENAMETOOLONG: i32 = 36;
/// Of more processes not all directories are looked at when one is renamed: no machine has as many.
const MOST_MOVED: usize = 1 << 16;

/// Whether a name would be made, changed or removed that was not: the call failed, and what names and files
/// there are is not why.
pub(super) fn fails_elsewhere(op: &Op) -> bool {
    let Some(errno) = op.result.errno() else {
        return false;
    };
    let by_names = matches!(
        errno,
        Errno::ENOENT | Errno::EEXIST | Errno::ENOTDIR | Errno::EISDIR | Errno::ENOTEMPTY
    ) || matches!(errno.0, ELOOP | ENAMETOOLONG);
    let changes = match op.kind {
        OpKind::Open => op.flags & (O_CREAT | O_TRUNC) != 0,
        // Into itself.
        OpKind::Rename => errno != Errno::EINVAL,
        OpKind::Link
        | OpKind::Symlink
        | OpKind::Unlink
        | OpKind::Mkdir
        | OpKind::Rmdir
        | OpKind::Mknod
        | OpKind::Truncate
        | OpKind::Chmod
        | OpKind::Chown
        | OpKind::Utimens
        | OpKind::Fchmod
        | OpKind::Fchown
        | OpKind::Futimens => true,
        _ => false,
    };
    changes && !by_names
}

/// Whether a link is of the file that its descriptor is open on. In older traces it has an empty name.
fn of_descriptor(op: &Op, paths: &PathTable) -> bool {
    let unnamed = op.path.is_none_or(|path| paths.get(path).is_empty());
    op.fd.is_some() && (op.flags & AT_EMPTY_PATH != 0 || unnamed)
}

impl Model {
    pub(super) fn named(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let errno = op.result.errno();
        let directory = op.record.contains(OpFlags::DIRECTORY);
        let kind = match (op.kind, errno) {
            (OpKind::Mkdir, Some(Errno::EEXIST))
            | (_, Some(Errno::ENOTEMPTY))
            | (OpKind::Rmdir | OpKind::Chdir, None) => Some(NodeKind::Directory),
            (OpKind::Mkdir | OpKind::Mknod, None) => None,
            (OpKind::Readlink, None) => Some(NodeKind::Symlink),
            (OpKind::Truncate, None) => Some(NodeKind::Regular),
            (_, None) if directory => Some(NodeKind::Directory),
            (_, None | Some(Errno::EEXIST | Errno(ENODATA))) => Some(NodeKind::Unknown),
            (_, Some(_)) => None,
        };
        let follow = follows_end(&op);
        let found = self.find(&op, paths, op.path, op.dir, follow, kind)?;
        let (mut mode, node) = (Mode::Shared, found.walk.node);
        if op.result.is_ok() {
            mode = self.named_effect(step, &found, paths)?;
        } else if let (Some(Errno::ENOTEMPTY), Some(dir)) = (errno, node)
            && self.tree.inode(dir).is_none_or(|inode| inode.entries == 0)
        {
            // Something is in it, whatever its name.
            self.tree
                .learn(dir, b".fsage-kept", NodeKind::Regular, None);
        }
        found.uses(mode, &mut step.uses);
        if let Some(node) = node {
            let own = match op.kind {
                OpKind::Mkdir | OpKind::Rmdir => Key::Entries(node),
                _ => Key::File(node),
            };
            let changes = mode == Mode::Exclusive || op.kind == OpKind::Truncate;
            step.uses.push(Use(
                own,
                if changes {
                    Mode::Exclusive
                } else {
                    Mode::Shared
                },
            ));
        }
        if op.kind == OpKind::Mknod && op.flags & 0o170_000 != 0o100_000 && op.flags >> 12 != 0 {
            return Err(Skip::NoCall);
        }
        Ok(Call::Name(found.name))
    }

    /// What a call on a name did; how it uses the name.
    fn named_effect(
        &mut self,
        step: &mut ReplayStep,
        found: &Found,
        paths: &PathTable,
    ) -> Result<Mode, Skip> {
        let op = step.op;
        let last = found.walk.last.clone();
        Ok(match (op.kind, last) {
            (OpKind::Mkdir, Some((dir, name))) => {
                let node = self.tree.create(dir, &name, NodeKind::Directory);
                let node = node.ok_or(Skip::Impossible)?;
                step.uses.push(Use(Key::Directory(node), Mode::Exclusive));
                Mode::Exclusive
            }
            (OpKind::Mknod, Some((dir, name))) => {
                if matches!(op.flags & 0o170_000, 0 | 0o100_000) {
                    let made = self.tree.create(dir, &name, NodeKind::Regular);
                    made.ok_or(Skip::Impossible)?;
                }
                Mode::Exclusive
            }
            (OpKind::Unlink | OpKind::Rmdir, Some((dir, name))) => {
                let kind = if op.kind == OpKind::Rmdir {
                    NodeKind::Directory
                } else {
                    NodeKind::Regular
                };
                if let Some(node) = found.walk.node {
                    self.tree.expect(node, kind);
                    if op.kind == OpKind::Rmdir {
                        step.uses.push(Use(Key::Directory(node), Mode::Exclusive));
                    }
                }
                self.tree.detach(dir, &name);
                Mode::Exclusive
            }
            (OpKind::Chdir, _) => {
                let dir = op.dir.map(|d| paths.get(d));
                let path = op.path.map_or(&b""[..], |p| paths.get(p));
                if let Ok(text) = self.absolute(op.pid, path, dir) {
                    // By its own name where it has one: `cd x; cd ..` for ever stays short.
                    let own = found.walk.node.and_then(|n| self.tree.path(n));
                    let text = own.map_or(text, |path| normal(&path));
                    self.processes.set_directory(op.pid.0, Some(text));
                }
                Mode::Shared
            }
            _ => {
                if let (OpKind::Truncate, Some(node)) = (op.kind, found.walk.node) {
                    self.tree.set_size(node, op.length.unwrap_or(0));
                } else if op.kind != OpKind::Readlink {
                    self.note_file(&op, found.walk.node);
                }
                Mode::Shared
            }
        })
    }

    pub(super) fn two_names(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let ok = op.result.is_ok();
        if op.kind == OpKind::Symlink {
            return self.symlink(step, paths);
        }
        if op.kind == OpKind::Link && of_descriptor(&op, paths) {
            return self.link_open(step, paths);
        }
        if ok {
            self.incoming.call();
        }
        let kind = ok.then_some(NodeKind::Unknown);
        let exchange = op.kind == OpKind::Rename && op.flags & RENAME_EXCHANGE != 0;
        let follows = follows_last(&op).unwrap_or(false);
        let one = match self.find(&op, paths, op.path, op.dir, follows, kind) {
            Err(Skip::Outside) if ok && !exchange => self.brought(&op),
            Ok(mut one) if follows => {
                // Targets link what a name is, not what it leads to.
                let path = one.walk.node.and_then(|node| self.tree.path(node));
                if let Some(path) = path {
                    one.name = self.find_text(&path, false, None, &op)?.name;
                }
                Ok(one)
            }
            one => one,
        };
        let no_replace = op.kind == OpKind::Rename && op.flags & RENAME_NOREPLACE != 0;
        let exists = op.result.errno() == Some(Errno::EEXIST) || exchange && ok;
        let unnumbered = Op { file: None, ..op };
        let kind = exists.then_some(NodeKind::Unknown);
        let dir2 = op.dir2.or(op.dir);
        let two = self.find(&unnumbered, paths, op.path2, dir2, false, kind);
        let (one, two) = match (one, two) {
            (Ok(one), Ok(two)) => (one, two),
            // A name that goes outside cannot be followed.
            (Err(skip), _) | (_, Err(skip)) => return Err(skip),
        };
        if ok {
            let comes_in = !exchange && self.comes_in(&one, &two);
            self.two_names_effect(step, &one, &two, exchange)?;
            if comes_in {
                self.bring_in(one.walk.node, op.kind == OpKind::Link);
            }
        }
        let renames = op.kind == OpKind::Rename && ok;
        let changes = |ok: bool| if ok { Mode::Exclusive } else { Mode::Shared };
        one.uses(changes(renames), &mut step.uses);
        two.uses(changes(ok), &mut step.uses);
        if no_replace && exists {
            return Err(Skip::NoCall);
        }
        Ok(Call::Names(one.name, two.name))
    }

    /// A further name for what a descriptor is open on, or its first one.
    fn link_open(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let exists = op.result.errno() == Some(Errno::EEXIST);
        let open = self.open_of(step, paths)?;
        let file = self.processes.open(open).ok_or(Skip::UnknownDescriptor)?;
        let (slot, key) = (Arc::clone(&file.slot), file.key);
        let node = file.node.ok_or(Skip::UnknownDescriptor)?;
        let unnumbered = Op { file: None, ..op };
        let kind = exists.then_some(NodeKind::Unknown);
        let dir2 = op.dir2.or(op.dir);
        let found = self.find(&unnumbered, paths, op.path2, dir2, false, kind)?;
        // By a name that the file has every target can do it.
        let path = self.tree.path(node);
        let named = path.map(|path| self.find_text(&path, false, None, &unnumbered));
        let named = named.transpose()?;
        // Without the right to name files by descriptors alone it fails, and programs go on by way of /proc.
        if !op.result.is_ok() && !exists {
            return Err(Skip::FailedThen);
        }
        let mut mode = Mode::Shared;
        if op.result.is_ok() {
            let (dir, name) = found.walk.last.as_ref().ok_or(Skip::Impossible)?;
            self.tree.expect(node, NodeKind::Regular);
            if !self.tree.attach(*dir, name, node) {
                return Err(Skip::Impossible);
            }
            mode = Mode::Exclusive;
        }
        found.uses(mode, &mut step.uses);
        step.uses.push(Use(Key::File(node), Mode::Shared));
        if let Some(named) = named {
            named.uses(Mode::Shared, &mut step.uses);
            return Ok(Call::Names(named.name, found.name));
        }
        step.uses.push(Use(Key::Open(key), Mode::Shared));
        Ok(Call::LinkOpen(slot, found.name))
    }

    fn two_names_effect(
        &mut self,
        step: &mut ReplayStep,
        one: &Found,
        two: &Found,
        exchange: bool,
    ) -> Result<(), Skip> {
        let (Some(from), Some(to)) = (&one.walk.last, &two.walk.last) else {
            return Err(Skip::Impossible);
        };
        let node = one.walk.node;
        for node in [node, two.walk.node].into_iter().flatten() {
            step.uses.push(Use(Key::File(node), Mode::Shared));
            if step.op.kind == OpKind::Rename {
                step.uses.push(Use(Key::Directory(node), Mode::Exclusive));
                step.uses.push(Use(Key::Entries(node), Mode::Exclusive));
            }
        }
        let possible = match (step.op.kind, node) {
            (OpKind::Rename, _) => {
                let paths = self.path_in(from).zip(self.path_in(to));
                let (from, to) = ((from.0, &*from.1), (to.0, &*to.1));
                let renamed = self.tree.rename(from, to, exchange);
                if let Some((from, to)) = paths.filter(|_| renamed) {
                    self.move_directories(&from, &to, exchange);
                }
                renamed
            }
            (_, Some(node)) if self.tree.kind(node) != NodeKind::Directory => {
                self.tree.expect(node, NodeKind::Regular);
                self.tree.attach(to.0, &to.1, node)
            }
            _ => false,
        };
        possible.then_some(()).ok_or(Skip::Impossible)
    }

    fn path_in(&self, (dir, name): &(Ino, Box<[u8]>)) -> Option<Vec<u8>> {
        let mut path = self.tree.path(*dir)?;
        path.push(b'/');
        path.extend_from_slice(name);
        Some(path)
    }

    /// Processes are in directories that lie below `to` by now, and lay below `from`.
    fn move_directories(&mut self, from: &[u8], to: &[u8], exchange: bool) {
        for directory in self.processes.directories_mut().take(MOST_MOVED) {
            let Some(name) = directory.as_deref() else {
                continue;
            };
            let new = moved(name, from, to, exchange);
            if let Some(new) = new.filter(|new| new.len() < PATH_BYTES) {
                *directory = Some(new);
            }
        }
    }

    fn symlink(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let text = op.path2.map(|t| paths.get(t)).ok_or(Skip::UnreadablePath)?;
        if text.len() >= PATH_BYTES {
            return Err(Skip::UnreadablePath);
        }
        if text.is_empty() {
            return Err(Skip::Free);
        }
        let exists = op.result.errno() == Some(Errno::EEXIST);
        let kind = exists.then_some(NodeKind::Unknown);
        let found = self.find(&op, paths, op.path, op.dir, false, kind)?;
        let mut mode = Mode::Shared;
        if let (true, Some((dir, name))) = (op.result.is_ok(), &found.walk.last) {
            let node = self.tree.create(*dir, name, NodeKind::Symlink);
            let node = node.ok_or(Skip::Impossible)?;
            self.tree.set_target(node, text);
            mode = Mode::Exclusive;
        }
        found.uses(mode, &mut step.uses);
        let text = link_text(self.placement.as_ref(), &found.name, text);
        Ok(Call::Names(found.name, text))
    }
}

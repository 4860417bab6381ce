//! What operations on names change.

use fsage_core::{Op, OpFlags, OpKind, PathTable};
use fsage_namespace::descriptors::{gone, install};
use fsage_namespace::flags::{O_APPEND, O_DIRECTORY, O_TRUNC};
use rustc_hash::FxHashMap;

use super::super::model::Type;
use super::{Cursor, Opened, Out, Resolver};

impl Resolver {
    /// What a call is whose name lies elsewhere: where it brings something in from there, something is missing.
    pub(super) fn outside(&mut self, op: &Op, two: bool, paths: &PathTable) -> Out {
        let to = op.path2.filter(|_| two && op.result.is_ok());
        let brings = to.and_then(|to| self.path(op, to, op.dir2.or(op.dir), paths));
        if brings.is_some() {
            Out::Left
        } else {
            Out::Aside
        }
    }

    pub(super) fn change(&mut self, op: &Op, node: u32, to: u32, paths: &PathTable) {
        if op.record.contains(OpFlags::DIRECTORY) && op.kind != OpKind::Rmdir {
            self.made(node, Type::Directory);
        }
        match op.kind {
            OpKind::Open => self.opened(op, node),
            OpKind::Unlink | OpKind::Rmdir => {
                self.links.remove(&node);
                if op.kind == OpKind::Rmdir {
                    self.is_of(node, Type::Directory);
                }
                self.renamed.remove(&node);
                let fresh = self.content(node);
                if let Some(known) = self.nodes.get_mut(node as usize) {
                    (known.exists, known.file) = (false, fresh);
                }
            }
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink => {
                let kind = match op.kind {
                    OpKind::Mkdir => Type::Directory,
                    OpKind::Symlink => Type::Link,
                    _ => Type::File,
                };
                if let Some(text) = op.path2.filter(|_| kind == Type::Link) {
                    self.links.insert(node, paths.get(text).into());
                }
                self.made(node, kind);
            }
            OpKind::Readlink => self.made(node, Type::Link),
            OpKind::Rename => {
                let Some(from) = self.nodes.get(node as usize).cloned() else {
                    return;
                };
                let fresh = self.content(node);
                if from.kind.is_none() {
                    self.renamed.insert(to, node);
                } else {
                    self.renamed.remove(&to);
                }
                if let Some(known) = self.nodes.get_mut(node as usize) {
                    (known.exists, known.file) = (false, fresh);
                }
                if let Some(known) = self.nodes.get_mut(to as usize) {
                    (known.exists, known.kind, known.file) = (true, from.kind, from.file);
                }
                if let Some(file) = self.files.get_mut(from.file as usize) {
                    file.node = to;
                }
                if let Some(text) = self.links.remove(&node) {
                    self.links.insert(to, text);
                }
            }
            OpKind::Link => {
                let size = self.size(self.file_of(node));
                self.made(to, Type::File);
                self.set_size(self.file_of(to), size);
            }
            OpKind::Truncate => self.set_size(self.file_of(node), op.length.unwrap_or(0)),
            _ => {}
        }
    }

    pub(super) fn made(&mut self, node: u32, kind: Type) {
        self.is_of(node, kind);
        if let Some(known) = self.nodes.get_mut(node as usize) {
            known.exists = true;
        }
    }

    /// What is there is of that kind, and was so under the names that it had before.
    pub(super) fn is_of(&mut self, node: u32, kind: Type) {
        let mut next = Some(node);
        while let Some(known) = next.and_then(|node| self.nodes.get_mut(node as usize)) {
            known.kind = Some(kind);
            next = next.and_then(|node| self.renamed.remove(&node));
            let unknown = |node: &u32| {
                self.nodes
                    .get(*node as usize)
                    .is_some_and(|n| n.kind.is_none())
            };
            next = next.filter(unknown);
        }
    }

    fn opened(&mut self, op: &Op, node: u32) {
        let directory = op.flags & O_DIRECTORY != 0 || op.record.contains(OpFlags::DIRECTORY);
        let Some(known) = self.nodes.get_mut(node as usize) else {
            return;
        };
        known.exists = true;
        let file = known.file;
        if directory {
            self.is_of(node, Type::Directory);
        }
        if op.flags & O_TRUNC != 0 {
            self.set_size(file, 0);
        }
        if let Some(id) = op.file {
            self.ids.insert(id, file);
        }
        let Some(fd) = op.result.value().and_then(|fd| i32::try_from(fd).ok()) else {
            return;
        };
        let pid = op.pid.0;
        let opened = Opened {
            file,
            pid,
            append: op.flags & O_APPEND != 0,
            mapped: false,
            cursor: Cursor::default(),
        };
        *self.held.entry((pid, file)).or_default() += 1;
        *self.held_by_any.entry(file).or_default() += 1;
        for old in gone(install(
            &mut self.descriptors,
            op,
            fsage_core::Fd(fd),
            opened,
        )) {
            self.let_go(old);
        }
    }
}

/// One fewer of a key.
pub(super) fn fewer<K: std::hash::Hash + Eq>(counts: &mut FxHashMap<K, u32>, key: &K) {
    if let Some(n) = counts.get_mut(key) {
        *n -= 1;
        if *n == 0 {
            counts.remove(key);
        }
    }
}

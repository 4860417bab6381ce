//! Programs that take files in the order in which their directory lists them. The traced file system may list by a hash
//! of the names, the predicted one in the order of creation: there the same program comes to another file at that turn.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Passing, View};
use crate::namespace::tree::Ino;

/// What a process has taken of a directory since it listed it.
#[derive(Debug, Clone, Default)]
struct Pass {
    serial: u32,
    pid: u32,
    /// Its entries in the order of creation, and by name.
    by_creation: Vec<(u64, Ino)>,
    by_name: FxHashMap<u32, u32>,
    taken: FxHashSet<u32>,
    /// The last one's place in either order; `None` once one came out of it.
    last_order: Option<u64>,
    last_name: Option<u32>,
}

/// Directories that were listed, and which files stand for the ones that were taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Listings {
    passes: FxHashMap<u32, Pass>,
    stand_ins: FxHashMap<u32, Ino>,
}

impl Listings {
    /// The file is gone, and its number is free.
    pub fn forget(&mut self, ino: Ino) {
        self.stand_ins.remove(&ino.0);
    }
}

impl View {
    /// A process lists a directory.
    pub(super) fn listed(&mut self, step: &Passing<'_>, dir: Ino) {
        let open = step.resolved.open.and_then(|id| step.ns.processes.open(id));
        let (serial, pid) = (open.map_or(0, |o| o.serial), step.op.pid.0);
        if !self.sizes.lists_by_creation
            || matches!(self.listings.passes.get(&dir.0), Some(p) if p.serial == serial)
        {
            return;
        }
        let entries = step.ns.tree.entries(dir);
        let ranks = entries.iter().zip(0..);
        let by_name = ranks.map(|((_, ino), rank)| (ino.0, rank)).collect();
        let order = |ino: Ino| step.ns.tree.inode(ino).map_or(u64::MAX, |i| i.order);
        let mut by_creation: Vec<(u64, Ino)> =
            entries.iter().map(|&(_, ino)| (order(ino), ino)).collect();
        by_creation.sort_unstable_by_key(|entry| entry.0);
        let pass = Pass {
            serial,
            pid,
            by_creation,
            by_name,
            last_order: Some(0),
            last_name: Some(0),
            ..Pass::default()
        };
        self.listings.passes.insert(dir.0, pass);
    }

    /// A process takes a file: if neither in the order of names nor of creation, then in that of the listing.
    #[inline]
    pub(super) fn take_listed(&mut self, step: &Passing<'_>) {
        if self.listings.passes.is_empty() {
            return;
        }
        let Some((ino, inode)) = step
            .resolved
            .node
            .and_then(|ino| Some((ino, step.ns.tree.inode(ino)?)))
        else {
            return;
        };
        let Some(pass) = self.listings.passes.get_mut(&inode.parent) else {
            return;
        };
        let Some(&name) = pass
            .by_name
            .get(&ino.0)
            .filter(|_| pass.pid == step.op.pid.0)
        else {
            return;
        };
        let turn = pass.taken.len();
        if !pass.taken.insert(ino.0) {
            return;
        }
        pass.last_order = pass.last_order.filter(|&l| l <= inode.order);
        pass.last_order = pass.last_order.map(|_| inode.order);
        pass.last_name = pass.last_name.filter(|&l| l <= name).map(|_| name);
        let other = pass.by_creation.get(turn).map(|entry| entry.1);
        match other.filter(|_| pass.last_order.is_none() && pass.last_name.is_none()) {
            Some(other) => self.listings.stand_ins.insert(ino.0, other),
            None => self.listings.stand_ins.remove(&ino.0),
        };
    }

    /// The file in whose place on the device the program finds itself when it comes to this one.
    #[inline]
    pub(super) fn placed(&self, step: &Passing<'_>, ino: Ino) -> Ino {
        let alike = |other: &&Ino| {
            let kind = |ino| {
                step.ns
                    .tree
                    .inode(ino)
                    .map(|i| (i.kind, i.physical.is_some()))
            };
            kind(**other) == kind(ino)
        };
        let other = self.listings.stand_ins.get(&ino.0).filter(alike);
        other.copied().unwrap_or(ino)
    }
}

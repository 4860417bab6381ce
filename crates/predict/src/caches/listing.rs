//! Programs that take files in the order in which their directory lists them. The traced file system may list by a hash
//! of the names, the predicted one in the order of creation: there the same program comes to another file at that turn.

use fsage_cache::PAGE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Passing, View};
use crate::namespace::tree::{Ino, NodeKind};

/// Among so many the first that is taken is one of the first in an order.
const FIRST: u32 = 8;

/// What a process has taken of a directory since it listed it.
#[derive(Debug, Clone, Default)]
struct Pass {
    serial: u32,
    pid: u32,
    /// Its files and its other entries in the order of creation, all by name.
    by_creation: [Vec<(u64, Ino)>; 2],
    by_name: FxHashMap<u32, u32>,
    taken: FxHashSet<u32>,
    /// How many of either were taken: whoever comes to a file on one system comes to none of the directories in its
    /// place on another.
    turns: [usize; 2],
    /// The last one's place in either order; `None` once one came out of it.
    last_order: Option<u64>,
    last_name: Option<u32>,
}

/// Directories that were listed, and which files stand for the ones that were taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Listings {
    passes: FxHashMap<u32, Pass>,
    stand_ins: FxHashMap<u32, Ino>,
    /// The file that was read last as one of these, and where it is taken to lie.
    last: Option<(Ino, u64)>,
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
        let mut by_creation = [Vec::new(), Vec::new()];
        for &(_, ino) in &entries {
            let inode = step.ns.tree.inode(ino);
            let order = inode.map_or(u64::MAX, |i| i.order);
            let [files, others] = &mut by_creation;
            let regular = inode.is_some_and(|i| i.kind == NodeKind::Regular);
            (if regular { files } else { others }).push((order, ino));
        }
        for of_kind in &mut by_creation {
            of_kind.sort_unstable_by_key(|entry| entry.0);
        }
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
        if !pass.taken.insert(ino.0) {
            return;
        }
        let [files, others] = &pass.by_creation;
        let [of_files, of_others] = &mut pass.turns;
        let (of_kind, turns) = match inode.kind {
            NodeKind::Regular => (files, of_files),
            _ => (others, of_others),
        };
        let turn = std::mem::replace(turns, *turns + 1);
        if pass.taken.len() == 1 {
            // Who goes by name or by creation begins at the first of them, or at one that comes soon.
            pass.last_name = pass.last_name.filter(|_| name < FIRST);
            let mut first = of_kind.iter().take(FIRST as usize);
            pass.last_order = pass
                .last_order
                .filter(|_| first.any(|entry| entry.1 == ino));
        }
        pass.last_order = pass.last_order.filter(|&l| l <= inode.order);
        pass.last_order = pass.last_order.map(|_| inode.order);
        pass.last_name = pass.last_name.filter(|&l| l <= name).map(|_| name);
        let other = of_kind.get(turn).map(|entry| entry.1);
        match other.filter(|_| pass.last_order.is_none() && pass.last_name.is_none()) {
            Some(other) => self.listings.stand_ins.insert(ino.0, other),
            None => self.listings.stand_ins.remove(&ino.0),
        };
    }

    /// Where the next file lies, in bytes on the device, for a thread that takes them as their directory lists them on a
    /// system that lists in the order of creation: after the last one, as they were written in that order too.
    pub(super) fn next_listed(&mut self, step: &Passing<'_>, ino: Ino, offset: u64) -> Option<u64> {
        if let Some((_, first)) = self.listings.last.filter(|last| last.0 == ino) {
            return Some(first.saturating_add(offset));
        }
        let listed = self.listings.stand_ins.contains_key(&ino.0);
        let same = self.last_reader == Some(step.op.tid);
        let end = self.last_data.end().filter(|_| listed && same);
        self.listings.last = end.map(|end| (ino, end.next_multiple_of(PAGE_BYTES)));
        self.listings
            .last
            .map(|(_, first)| first.saturating_add(offset))
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
        let ino = other.copied().unwrap_or(ino);
        self.shared(step, ino).unwrap_or(ino)
    }
}

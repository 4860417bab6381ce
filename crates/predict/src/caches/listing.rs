//! Programs that take files in the order in which their directory lists them. The traced file system may list by a hash
//! of the names, the predicted one in the order of creation: there the same program comes to another file at that turn.

use fsage_cache::PAGE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Passing, View};
use crate::namespace::tree::{Ino, NodeKind};

/// Among so many the first that is taken is one of the first in an order.
const FIRST: usize = 8;

/// Who has taken so many of a directory, in no other order, goes by the listing.
const FOLLOWS: usize = 6;

/// How many places of each other those are that several processes come to at once.
const AT_ONCE: usize = 4;

/// The order in which a process comes to the files of a directory.
#[derive(Debug, Clone)]
struct Track {
    taken: FxHashSet<u32>,
    /// How far it is by creation, by creation from the last one, by name and by name from the last one; `None` once one
    /// came out of that order.
    runs: [Option<usize>; 4],
    /// Who came to the last one.
    taker: Option<u32>,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            taken: FxHashSet::default(),
            runs: [Some(0); 4],
            taker: None,
        }
    }
}

impl Track {
    /// Of a process that goes by the listing.
    fn listed() -> Self {
        Self {
            runs: [None; 4],
            ..Self::default()
        }
    }

    /// Process `taker` comes to one for the first time, with its place among so many by creation and by name: whether
    /// those so far came in no such order, so in that of the listing. `None` for one that was there before.
    fn take(&mut self, ino: Ino, taker: u32, places: [(usize, usize); 2]) -> Option<bool> {
        if !self.taken.insert(ino.0) {
            return None;
        }
        let one = self.taker.replace(taker).is_none_or(|last| last == taker);
        let apart = if one { 0 } else { AT_ONCE };
        let begins = self.taken.len() == 1;
        let places = places.into_iter();
        let places = places.flat_map(|(place, of)| [place, of.saturating_sub(place + 1)]);
        for (run, place) in self.runs.iter_mut().zip(places) {
            // Who goes by an order begins at the first in it, or at one that comes soon.
            let follows = |&far: &usize| {
                if begins {
                    place < FIRST
                } else {
                    far <= place + apart
                }
            };
            *run = run.filter(follows).map(|far| far.max(place));
        }
        Some(self.runs.iter().all(Option::is_none))
    }
}

/// What a process has taken of a directory since it listed it.
#[derive(Debug, Clone, Default)]
struct Pass {
    serial: u32,
    /// Who listed it, and when.
    pid: u32,
    at_ns: u64,
    /// Its files and its other entries in the order of creation, all by name.
    by_creation: [Vec<(u64, Ino)>; 2],
    by_name: FxHashMap<u32, usize>,
    /// How many of either were taken: whoever comes to a file on one system comes to none of the directories in its
    /// place on another.
    turns: [usize; 2],
    /// At which turn each was.
    turn_of: FxHashMap<u32, usize>,
    /// In which order they were come to.
    track: Track,
    /// Whose turn it was whose data was read last; `None` once one was read that comes before it.
    last_read: Option<usize>,
}

/// Where a process reads files that were listed.
#[derive(Debug, Clone, Default)]
struct Reader {
    /// The directory of the last one, and those that it left for one that does not lie in them.
    dir: Option<u32>,
    left: FxHashSet<u32>,
    /// Whether it came back to one of these: then it has an order of its own over all of them.
    own_order: bool,
}

impl Reader {
    /// It reads a file of a directory; whether it may go by the listings so far. `within`: whether that lies in the one of
    /// its last read.
    fn reads(&mut self, dir: u32, within: impl FnOnce(u32) -> bool) -> bool {
        let left = self
            .dir
            .replace(dir)
            .filter(|&last| last != dir && !within(last));
        self.left.extend(left.filter(|_| !self.own_order));
        self.own_order |= self.left.contains(&dir);
        !self.own_order
    }
}

/// Directories that were listed, and which files stand for the ones that were taken.
#[derive(Debug, Clone, Default)]
pub(super) struct Listings {
    passes: FxHashMap<u32, Pass>,
    /// Processes that took the files of a directory as it lists them, so that they do in the next too.
    followers: FxHashSet<u32>,
    /// Where processes read.
    readers: FxHashMap<u32, Reader>,
    /// Whether the tree was made a directory at a time, once that was asked.
    made_whole: Option<bool>,
    stand_ins: FxHashMap<u32, Ino>,
    /// The file that was read last as one of these, and where it is taken to lie.
    last: Option<(Ino, u64)>,
    /// Where the last request ended in each of the places among which directories take turns.
    ends: FxHashMap<u64, u64>,
}

impl Listings {
    /// A process is another program, or gone, and its number is free.
    #[cold]
    pub fn another_program(&mut self, pid: u32) {
        self.followers.remove(&pid);
        self.readers.remove(&pid);
    }

    /// The file is gone, and its number is free.
    pub fn forget(&mut self, ino: Ino) {
        self.stand_ins.remove(&ino.0);
    }
}

/// Whether most files lie right after one of their own directory: the tree was made a directory at a time.
fn made_whole(step: &Passing<'_>) -> bool {
    let mut files: Vec<(u64, u32)> = (step.ns.tree.inodes().iter())
        .filter_map(|inode| Some((inode.physical?, inode.parent)))
        .collect();
    files.sort_unstable();
    let beside = files.windows(2).filter(|pair| match pair {
        [(_, one), (_, next)] => one == next,
        _ => false,
    });
    2 * beside.count() > files.len()
}

impl View {
    /// A process lists a directory.
    pub(super) fn listed(&mut self, step: &Passing<'_>, dir: Ino) {
        let open = step.resolved.open.and_then(|id| step.ns.processes.open(id));
        let (serial, pid) = (open.map_or(0, |o| o.serial), step.op.pid.0);
        if !self.sizes.file_system.lists_by_creation()
            || matches!(self.listings.passes.get(&dir.0), Some(p) if p.serial == serial)
        {
            return;
        }
        if let Some(reader) = self.listings.readers.get_mut(&pid) {
            reader.left.remove(&dir.0);
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
            at_ns: step.op.start_ns,
            by_creation,
            by_name,
            track: self.first_track(step, pid),
            last_read: Some(0),
            ..Pass::default()
        };
        self.listings.passes.insert(dir.0, pass);
    }

    /// What is taken of a process before it comes to a directory's first file. Whoever went by the listing of the last goes on
    /// where that ended, if the tree was made a directory at a time, or in that one's own place where they take turns.
    fn first_track(&mut self, step: &Passing<'_>, pid: u32) -> Track {
        if !self.listings.followers.contains(&pid) {
            return Track::default();
        }
        let whole = *self
            .listings
            .made_whole
            .get_or_insert_with(|| made_whole(step));
        if whole || self.sizes.directories_in_turn.is_some() {
            Track::listed()
        } else {
            Track::default()
        }
    }

    /// A process takes a file that it, or one that works with it, listed: if in no order of names or of creation, from the
    /// first or from the last, then in that of the listing.
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
        let Some(&name) = pass.by_name.get(&ino.0) else {
            return;
        };
        let pid = step.op.pid.0;
        if !step.ns.family.together(pid, pass.pid, pass.at_ns) {
            return;
        }
        let [files, others] = &pass.by_creation;
        let [of_files, of_others] = &mut pass.turns;
        let (of_kind, turns) = match inode.kind {
            NodeKind::Regular => (files, of_files),
            _ => (others, of_others),
        };
        let made = of_kind.partition_point(|entry| entry.0 < inode.order);
        let places = [(made, of_kind.len()), (name, pass.by_name.len())];
        let Some(listed) = pass.track.take(ino, pid, places) else {
            return;
        };
        if listed && pass.track.taken.len() >= FOLLOWS {
            self.listings.followers.insert(pass.pid);
        }
        let turn = std::mem::replace(turns, *turns + 1);
        pass.turn_of.insert(ino.0, turn);
        let other = of_kind.get(turn).map(|entry| entry.1);
        match other.filter(|_| listed) {
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
        let listed = self.read_as_listed(step, ino);
        let same = self.last_reader == Some(step.op.tid);
        let end = match self.turn_of(step, ino) {
            // Whoever goes from one directory to the next goes on in that one's place.
            Some(turn) => self.listings.ends.get(&turn).copied(),
            None => self.last_data.end(),
        };
        let end = end.filter(|_| listed && same);
        self.listings.last = end.map(|end| (ino, end.next_multiple_of(PAGE_BYTES)));
        self.listings
            .last
            .map(|(_, first)| first.saturating_add(offset))
    }

    /// Whether a program came to a file as its directory lists it.
    fn as_listed(&self, ino: Ino) -> bool {
        self.listings.stand_ins.contains_key(&ino.0)
    }

    /// A request for data of a file ended there.
    pub(super) fn data_ends(&mut self, step: &Passing<'_>, ino: Ino, end: u64) {
        if let Some(turn) = self.turn_of(step, ino) {
            self.listings.ends.insert(turn, end);
        }
    }

    /// Whether files to which a process came as their directory lists them are read in that order too. rsync looks at
    /// all as they are listed, and reads them by name: each where it lies.
    fn read_as_listed(&mut self, step: &Passing<'_>, ino: Ino) -> bool {
        if !self.as_listed(ino) {
            return false;
        }
        let tree = &step.ns.tree;
        let parent = tree.inode(ino).map_or(u32::MAX, |i| i.parent);
        // Whoever goes down into a directory comes back to what is left of the one above.
        let within = |above: u32| {
            let up = |&dir: &u32| {
                tree.inode(Ino(dir))
                    .map(|i| i.parent)
                    .filter(|&up| up != dir)
            };
            std::iter::successors(Some(parent), up).any(|dir| dir == above)
        };
        let reader = self.listings.readers.entry(step.op.pid.0).or_default();
        let by_listings = reader.reads(parent, within);
        let Some(pass) = self.listings.passes.get_mut(&parent) else {
            return by_listings;
        };
        let turn = pass.turn_of.get(&ino.0).copied();
        // Some are passed over: what is read elsewhere, or not at all.
        let follows = pass.last_read.zip(turn);
        let follows = follows.filter(|(last, turn)| by_listings && last <= turn);
        pass.last_read = follows.map(|(_, turn)| turn);
        let listed = pass.last_read.is_some();
        if !listed {
            self.listings.stand_ins.remove(&ino.0);
        }
        listed
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_to_a_directory_that_was_left_has_an_order_of_its_own() {
        // 2 lies in 1, 3 beside it.
        let reads = |dirs: &[u32]| {
            let mut reader = Reader::default();
            let within = |dir: u32| move |above: u32| (dir, above) == (2, 1);
            let each = dirs.iter().map(|&dir| reader.reads(dir, within(dir)));
            each.collect::<Vec<_>>()
        };
        assert_eq!(reads(&[1, 1, 2, 2, 1, 3]), [true; 6]);
        assert_eq!(reads(&[1, 3, 3, 1, 2]), [true, true, true, false, false]);
    }

    #[test]
    fn several_processes_that_go_by_name_from_the_last_are_not_far_apart() {
        let listed = |names: &[usize], takers: u32| {
            let mut track = Track::default();
            let mut listed = false;
            for (turn, &name) in (0..).zip(names) {
                // Made in another order.
                let places = [(name * 7 % 17, 17), (name, 17)];
                let taken = track.take(Ino(name as u32), turn % takers, places);
                listed = taken.unwrap();
                assert_eq!(track.take(Ino(name as u32), 0, places), None);
            }
            listed
        };
        let backwards = [15, 16, 14, 11, 12, 13, 10, 9, 8, 6, 7, 5];
        assert!(!listed(&backwards, 4));
        assert!(listed(&backwards, 1));
        let anyhow = [15, 3, 14, 11, 0, 13, 10, 1, 8, 16, 7, 5];
        assert!(listed(&anyhow, 4));
    }
}

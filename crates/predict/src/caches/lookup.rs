//! Lookups: name cache, attribute cache, directory blocks (Smith 2001, 4.4.5.2 and 6.1.3.4).

use fsage_cache::{PAGE_BYTES, PageState, Touch};

use super::{Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::drive::{Found, Of, Request};
use crate::namespace::Action;
use crate::namespace::resolve::Walk;
use crate::namespace::tree::{DentryId, Ino, Inode};
use crate::paces::Paces;
use crate::pattern::{NEXT_BYTES, Placed, Relation};

/// Files in creation order whose inodes one request brings at least: a block of ext4, which reads ahead up to 32; xfs
/// has chunks of 64, a leaf of btrfs about as many.
pub(crate) const INODES_TOGETHER: u64 = 16;

/// Spreads numbers over all others (the golden ratio of 2^64).
const ANYWHERE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Lookups are charged as in a loop: what a pause adds to the resolution of a path is in the costs of
/// calls after that pause, from which the suite subtracts lookups as in a loop. Only the first search
/// for a missing name runs code of the file system that a repeated one does not, and is charged by
/// its own pause.
const BACK_TO_BACK: Gap = Gap::NONE;

/// Accesses and hits of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HitCount {
    /// Accesses.
    pub accesses: u64,
    /// Those that hit.
    pub hits: u64,
}

impl HitCount {
    pub(super) fn add(&mut self, hit: bool) {
        self.accesses += 1;
        self.hits += u64::from(hit);
    }
}

impl View {
    /// Charges every lookup of a walk.
    #[inline]
    pub(super) fn look_up(&mut self, step: &Passing<'_>, walk: &Walk, charges: &mut Vec<Charge>) {
        let ns = step.ns;
        if self.prefix_epoch != ns.epoch() {
            self.prefix_epoch = ns.epoch();
            self.hot.clear();
        }
        let same = self.last_dir == walk.dir;
        self.last_dir = walk.dir;
        let steps = ns.steps(walk);
        let hot = walk
            .prefix
            .is_some_and(|p| self.hot.get(p as usize) == Some(&self.epoch));
        if hot {
            // Where names can be evicted, this use keeps the directories of the path.
            if self.sizes.names.is_some() || self.sizes.attributes.is_some() {
                for &dentry in steps {
                    self.remember(dentry, ns.tree.child(dentry));
                }
            }
            self.hits(steps.len() as u64, same, charges);
        } else {
            let before = (self.name_hits, self.attribute_hits, self.epoch);
            for (index, &dentry) in steps.iter().enumerate() {
                let nearest = index + 1 == steps.len();
                self.component(step, dentry, same || !nearest, charges);
            }
            let all_hit = self.name_hits.accesses - before.0.accesses
                == self.name_hits.hits - before.0.hits
                && self.attribute_hits.accesses - before.1.accesses
                    == self.attribute_hits.hits - before.1.hits;
            if let (Some(p), true) = (walk.prefix, all_hit && before.2 == self.epoch) {
                let index = p as usize;
                if index >= self.hot.len() {
                    self.hot.resize((index + 1).next_power_of_two(), 0);
                }
                if let Some(epoch) = self.hot.get_mut(index) {
                    *epoch = self.epoch;
                }
            }
        }
        if let (Some(last), true) = (walk.last, walk.prefix.is_some()) {
            self.last_component(step, walk, last, same, charges);
        }
    }

    /// Directories all of which are cached. Those above the last two components are the same for
    /// neighbouring directories and warm in the processor's caches.
    #[inline]
    fn hits(&mut self, count: u64, same: bool, charges: &mut Vec<Charge>) {
        if count == 0 {
            return;
        }
        self.name_hits.accesses += count;
        self.name_hits.hits += count;
        self.attribute_hits.accesses += count;
        self.attribute_hits.hits += count;
        if same {
            charges.push(Charge::many(Stem::LusBc, BACK_TO_BACK, count as f64));
            return;
        }
        if count > 1 {
            charges.push(Charge::many(Stem::LusBc, BACK_TO_BACK, (count - 1) as f64));
        }
        charges.push(Charge::once(Stem::LurBc, BACK_TO_BACK));
    }

    /// The last component; its file may have been made, removed or found missing by this operation.
    #[inline]
    fn last_component(
        &mut self,
        step: &Passing<'_>,
        walk: &Walk,
        last: DentryId,
        same: bool,
        charges: &mut Vec<Charge>,
    ) {
        let gone = matches!(
            step.resolved.action,
            Action::Unlink { .. } | Action::Rmdir { .. }
        );
        let created = matches!(step.resolved.action, Action::Open { created: true, .. });
        let makes = created || Self::makes(step, walk);
        match step.ns.tree.child(last) {
            _ if makes => self.new_name(step, walk, last, same, charges),
            Some(_) => self.component(step, last, same, charges),
            None if gone || walk.node.is_some() => {
                self.found(step, last, walk.node, walk.dir, same, charges);
                self.names.remove(last.0);
            }
            None => self.missing(step, last, walk.dir, charges),
        }
    }

    /// Whether the operation gives this name to a file.
    fn makes(step: &Passing<'_>, walk: &Walk) -> bool {
        use fsage_core::OpKind::{Link, Mkdir, Mknod, Rename, Symlink};
        let second = step.resolved.walks[1].is_some_and(|w| w.last == walk.last);
        step.op.result.is_ok()
            && match step.op.kind {
                Mkdir | Mknod | Symlink => true,
                Link | Rename => second && !walk.node.is_some(),
                _ => false,
            }
    }

    /// A name that the operation makes: its directory is searched for it first. The cost of the call
    /// was measured with the lookup of a cached name taken off, so one is charged.
    fn new_name(
        &mut self,
        step: &Passing<'_>,
        walk: &Walk,
        last: DentryId,
        same: bool,
        charges: &mut Vec<Charge>,
    ) {
        let child = step.ns.tree.child(last);
        self.search_gap(step.op);
        if self.directory_block(step, walk.dir, Entry::Missing) {
            self.name_hits.add(true);
            self.attribute_hits.add(true);
            let stem = if same { Stem::LusBc } else { Stem::LurBc };
            charges.push(Charge::once(stem, BACK_TO_BACK));
        } else {
            self.name_hits.add(false);
            self.attribute_hits.add(false);
            charges.push(Charge::once(Stem::LumNc, BACK_TO_BACK));
            self.reads_names();
            self.went_to_device(step, walk.dir, Relation::Other);
        }
        self.remember(last, child);
        if let Some(child) = child {
            self.state(child).seen = true;
            self.comes(child);
        }
    }

    /// One component that a file has.
    #[inline]
    fn component(
        &mut self,
        step: &Passing<'_>,
        id: DentryId,
        same: bool,
        charges: &mut Vec<Charge>,
    ) {
        let Some(dentry) = step.ns.tree.dentry(id) else {
            return;
        };
        if dentry.positive {
            self.found(step, id, dentry.ino, dentry.dir, same, charges);
        } else {
            self.missing(step, id, dentry.dir, charges);
        }
    }

    #[inline]
    fn found(
        &mut self,
        step: &Passing<'_>,
        id: DentryId,
        ino: Ino,
        dir: Ino,
        same: bool,
        charges: &mut Vec<Charge>,
    ) {
        // A directory above the traced file system is another one's and always cached here.
        let inside = step.ns.tree.inode(dir).is_some_and(|d| d.in_scope);
        let (name, attribute) = if inside {
            self.remember(id, Some(ino))
        } else {
            (true, true)
        };
        self.name_hits.add(name);
        self.attribute_hits.add(attribute);
        let gap = BACK_TO_BACK;
        if name && attribute {
            charges.push(Charge::once(
                if same { Stem::LusBc } else { Stem::LurBc },
                gap,
            ));
            return;
        }
        self.brought = ino;
        self.comes(ino);
        let locality = self.sizes.locality;
        let seen = std::mem::replace(&mut self.state(ino).seen, true);
        let block = self.directory_block(step, dir, Entry::Of(ino));
        if block && (seen || !locality) {
            // 6.1.3.4: the directory's block is in the page cache, so this is memory speed. The size
            // of the directory matters only where that was measured.
            let entries = step.ns.tree.inode(dir).map_or(0, |d| d.entries);
            charges.push(Charge::sized(Stem::Lud, gap, f64::from(entries)));
            return;
        }
        if !block {
            self.reads_directory(step, dir, false, charges);
            self.reads_names();
        }
        let ino = self.placed(step, ino);
        let inode = step.ns.tree.inode(ino);
        // The inodes of neighbours lie in blocks that were read with theirs.
        let stretch = self.stretch_of(step, ino);
        let there = inode.is_some() && !self.inodes_there.insert(stretch);
        let off = self.next_stretch.map(|next| next.abs_diff(stretch));
        if !attribute {
            self.comes_to_inodes(stretch, there);
        }
        if !there {
            self.arm_away = true;
            self.rooms.leaves();
            self.next_stretch = stretch.checked_add(1);
            if block && self.sizes.stretches {
                self.reads_inodes(step, stretch.saturating_mul(PAGE_BYTES), charges);
            }
        }
        let relation =
            match inode.map(|inode| self.last_meta.relation(Placed::traced(ino, inode), 0)) {
                Some(Relation::Next) => Relation::Next,
                _ if block && there => Relation::Near,
                relation => relation.unwrap_or(Relation::Other),
            };
        let in_dir = same
            || !matches!(
                relation,
                Relation::Other | Relation::Parent | Relation::Child
            );
        self.went_to_device(step, ino, relation);
        let brought = Brought {
            attribute,
            next: relation == Relation::Next,
            in_dir,
            block,
            there,
            off,
        };
        self.charge_brought(brought, charges);
    }

    /// Charges a lookup by what of it comes from the device.
    fn charge_brought(&self, brought: Brought, charges: &mut Vec<Charge>) {
        let (sizes, gap) = (self.sizes, BACK_TO_BACK);
        let Brought { block, there, .. } = brought;
        let stem = match brought {
            Brought {
                attribute: true,
                in_dir: true,
                ..
            } => Stem::LusAc,
            Brought {
                attribute: true, ..
            } => Stem::LurAc,
            Brought { in_dir: true, .. } if !sizes.locality => Stem::LusNc,
            _ if !sizes.locality => Stem::LurNc,
            Brought { next: true, .. } if !sizes.stretches => Stem::LunNc,
            // In the order of creation one of so many brings what the others find.
            Brought { off: Some(0), .. } if block && !there && sizes.stretches => {
                let all = INODES_TOGETHER as f64;
                charges.push(Charge::many(Stem::LunNc, gap, all));
                charges.push(Charge::many(Stem::LusNc, gap, 1.0 - all));
                return;
            }
            // What comes from the device: the inode and the directory's block, or one of them, or neither. Coming
            // back to a directory the inode may lie as far as in one where much lies between.
            _ => match (block, there) {
                (true, true) => Stem::LusNc,
                (true, false) => Stem::LufNc,
                (false, true) => Stem::LumNc,
                (false, false) => Stem::LurNc,
            },
        };
        charges.push(Charge::once(stem, gap));
        // Where nothing is read ahead, so far off in a table is as far as in a file.
        let off = brought
            .off
            .filter(|_| stem == Stem::LufNc && sizes.arm_alone);
        if off.is_some_and(|blocks| blocks * PAGE_BYTES <= NEXT_BYTES) {
            charges.push(Charge::sized(Stem::RfS, gap, 4.0));
            charges.push(Charge {
                times: -1.0,
                ..Charge::sized(Stem::RfF, gap, 4.0)
            });
        }
    }

    /// A component that nothing has (6.1.3.7): the first time, again, or with a cold directory.
    fn missing(&mut self, step: &Passing<'_>, id: DentryId, dir: Ino, charges: &mut Vec<Charge>) {
        let inside = step.ns.tree.inode(dir).is_some_and(|d| d.in_scope);
        let again = self.names.touch(id.0) == Touch::Hit;
        let gap = if again {
            BACK_TO_BACK
        } else {
            self.search_gap(step.op)
        };
        self.name_hits.add(again);
        let stem = if again {
            Stem::Lumr
        } else if !inside || self.directory_block(step, dir, Entry::Missing) {
            Stem::Lum
        } else {
            self.reads_directory(step, dir, false, charges);
            self.reads_names();
            self.went_to_device(step, dir, Relation::Other);
            Stem::LumNc
        };
        charges.push(Charge::once(stem, gap));
    }

    /// The blocks of a directory are read, for a `listing` or a lookup, whose own cost holds the way to directories that lie
    /// apart.
    pub(super) fn reads_directory(
        &mut self,
        step: &Passing<'_>,
        dir: Ino,
        listing: bool,
        charges: &mut Vec<Charge>,
    ) {
        let first = self.directory_place(step, dir);
        let charged = listing || !self.sizes.directories_apart;
        self.goes_to(step, (Of::Directories, first), charged, charges);
    }

    /// Inodes are read. Their own cost holds the way to them but where directories take turns.
    fn reads_inodes(&mut self, step: &Passing<'_>, first: u64, charges: &mut Vec<Charge>) {
        if self.sizes.directories_in_turn.is_some() {
            self.goes_to(step, (Of::Inodes, first), true, charges);
        } else {
            self.asks_names(Of::Inodes, first, true);
        }
    }

    /// A block of metadata is read; whether the way there is `charged`.
    fn goes_to(
        &mut self,
        step: &Passing<'_>,
        (of, first): (Of, u64),
        charged: bool,
        charges: &mut Vec<Charge>,
    ) {
        let elsewhere = self.lies_elsewhere((of, first), step.op.start_ns);
        let moves = self.moves_to((of, first), step);
        if moves > 0.0 && charged {
            let way = if elsewhere { Stem::RfO } else { Stem::RfF };
            charges.push(Charge {
                times: moves,
                ..Charge::sized(way, BACK_TO_BACK, 4.0)
            });
        }
        self.asks_names(of, first, moves < 1.0);
    }

    /// A block of metadata is asked for and waited for.
    fn asks_names(&mut self, of: Of, first: u64, near: bool) {
        self.request = Some(Request {
            of,
            first,
            end: first.saturating_add(PAGE_BYTES),
            waits: true,
            near,
            ahead: false,
        });
    }

    /// Whether what is of one of the directories that take turns lies in another place than what was read last.
    fn lies_elsewhere(&mut self, (of, first): (Of, u64), now_ns: u64) -> bool {
        let Some((apart, _)) = self.sizes.directories_in_turn else {
            return false;
        };
        let drive = self.drive.as_mut().map(Paces::usual);
        let distance = drive.and_then(|drive| drive.distance(of, first, now_ns));
        distance.is_none_or(|bytes| bytes >= apart / 2)
    }

    /// At how much of the paces the arm has to move to a block of metadata. Those of directories lie beside the ones of
    /// directories created before and after them.
    fn moves_to(&mut self, (of, first): (Of, u64), step: &Passing<'_>) -> f64 {
        let Some(drive) = self.drive.as_mut() else {
            return 0.0;
        };
        let (now_ns, until_ns) = (step.op.start_ns, step.op.end_ns());
        let place = (first, first.saturating_add(PAGE_BYTES));
        let found = drive.find(|drive| {
            let found = drive.ask(of, place, now_ns, until_ns);
            if found == Found::Held {
                drive.answers(until_ns.saturating_sub(now_ns));
            }
            found
        });
        let away = found.iter().filter(|found| **found == Found::Elsewhere);
        away.count() as f64 / found.len() as f64
    }

    fn went_to_device(&mut self, step: &Passing<'_>, ino: Ino, relation: Relation) {
        self.relation = relation;
        if let Some(inode) = step.ns.tree.inode(ino) {
            self.last_meta.note(Placed::traced(ino, inode), 0);
        }
    }

    /// Uses name and attributes; whether each was cached.
    #[inline]
    pub(super) fn remember(&mut self, id: DentryId, ino: Option<Ino>) -> (bool, bool) {
        let name = self.names.touch(id.0);
        let attribute = ino.map_or(Touch::Hit, |i| self.attributes.touch(i.0));
        if matches!(name, Touch::Miss(Some(_))) || matches!(attribute, Touch::Miss(Some(_))) {
            self.epoch += 1;
        }
        (name == Touch::Hit, attribute == Touch::Hit)
    }

    /// A new inode is made beside those that were made last; whether their block has to be read.
    pub(super) fn brings_last_inodes(&mut self, step: &Passing<'_>) -> bool {
        let all = step.ns.tree.inodes().iter().zip(0..);
        let old = all.filter(|(inode, _)| inode.in_scope && !inode.born && inode.links > 0);
        let mut absent = true;
        if let Some((_, ino)) = old.max_by_key(|(inode, _)| inode.order) {
            let last = self.stretch_of(step, Ino(ino));
            absent = self.inodes_there.insert(last);
            self.comes_to_inodes(last, !absent);
            self.next_stretch = last.checked_add(1);
        }
        self.arm_away = true;
        self.rooms.leaves();
        absent
    }

    /// Blocks of names were read: where an arm has to move it has left the inodes.
    pub(super) fn reads_names(&mut self) {
        self.arm_away = true;
        self.rooms.leaves();
        self.leaves_inodes();
    }

    /// Something other than inodes was asked of the device.
    pub(super) fn leaves_inodes(&mut self) {
        if self.sizes.arm_alone {
            self.next_stretch = None;
        }
    }

    /// Whether the block of a directory that an entry lies in is in the page cache; it is after this. A directory
    /// made in the trace never was on disk alone, nor was a block that was begun in it.
    fn directory_block(&mut self, step: &Passing<'_>, dir: Ino, entry: Entry) -> bool {
        let born = step.ns.tree.inode(dir).is_some_and(|d| d.born);
        let block = if born {
            Some(0)
        } else {
            self.block_of(step, dir, entry)
        };
        let Some(block) = block.filter(|_| !self.names_in_inode(step, dir)) else {
            return true;
        };
        let state = self.pages.peek(dir.0, block);
        let _ = self.pages.read(dir.0, block, false);
        if !born {
            self.comes_to_names(dir, block, state != PageState::Absent);
        }
        born || state != PageState::Absent
    }

    /// The block of a directory that an entry lies in, as it was when names were made cold last: names lie in the order
    /// in which their files were created, those that are missing anywhere. `None`: in one that was begun since.
    fn block_of(&mut self, step: &Passing<'_>, dir: Ino, entry: Entry) -> Option<u64> {
        let tree = &step.ns.tree;
        let blocks = self.blocks_of(step, dir);
        if blocks < 2 {
            return Some(0);
        }
        let each = u64::from(self.sizes.names_of_block);
        let old = self.old_names.entry(dir.0).or_insert_with(|| {
            let old = |(_, ino)| tree.inode(ino).filter(|i| !i.born).map(|i| i.order);
            let mut orders: Vec<u64> = tree.entries(dir).into_iter().filter_map(old).collect();
            orders.sort_unstable();
            OldNames { orders, missed: 0 }
        });
        let read = (old.orders.len() as u64).div_ceil(each).max(1);
        let block = match entry {
            Entry::Missing => {
                old.missed += 1;
                (old.missed.wrapping_mul(ANYWHERE) >> 32) % blocks
            }
            Entry::Of(ino) => {
                let order = tree.inode(ino).map_or(0, |i| i.order);
                old.orders.partition_point(|&o| o < order) as u64 / each
            }
        };
        (block < read).then_some(block)
    }

    /// Whether the names of a directory are kept in its inode.
    pub(super) fn names_in_inode(&self, step: &Passing<'_>, dir: Ino) -> bool {
        let Some((room, each)) = self.sizes.file_system.keeps_names_in_inode() else {
            return false;
        };
        // Of one that was not seen whole nobody knows how many there are.
        let few = |d: &Inode| d.complete && u64::from(d.most_entries) * (each + 1) <= room;
        step.ns.tree.inode(dir).is_some_and(few)
            && step.ns.tree.name_bytes(dir, each as usize) <= room as usize
    }

    /// Blocks of a directory.
    pub(super) fn blocks_of(&self, step: &Passing<'_>, dir: Ino) -> u64 {
        let most = step.ns.tree.inode(dir).map_or(0, |d| d.most_entries);
        let each = self.sizes.names_of_block;
        most.checked_div(each)
            .map_or(1, |_| u64::from(most.div_ceil(each)))
    }
}

/// What a lookup that goes to the device finds.
#[derive(Debug, Clone, Copy)]
struct Brought {
    /// The attributes are cached.
    attribute: bool,
    /// It is the next in creation order, of the directory of the last one.
    next: bool,
    in_dir: bool,
    /// The directory's block, and the inode's, were there.
    block: bool,
    there: bool,
    /// How many stretches of inodes off the one after the last that was read.
    off: Option<u64>,
}

/// What is looked up in a directory.
#[derive(Debug, Clone, Copy)]
enum Entry {
    /// A file's name.
    Of(Ino),
    /// One that no file has.
    Missing,
}

/// A directory of several blocks as names were made cold last.
#[derive(Debug, Clone)]
pub(super) struct OldNames {
    /// The places of its files in the order of creation.
    orders: Vec<u64>,
    /// Names that were asked for since and that none has.
    missed: u64,
}

//! Where new inodes are placed, on systems that pass over those that were freed a short while ago.
//!
//! ext4 without a journal, which serves ext2 too, gives no inode again that was freed in an earlier second of the
//! last minutes: a crash could leave two files in one (`recently_deleted` in `fs/ext4/ialloc.c`). Each create looks
//! for the lowest number of its directory's group that is free and not such a one, and so passes over all of those
//! below. Where a group has no other, the last of them is taken after all have been passed over.
//!
//! A group has as many inodes as `mkfs` makes by default for 128 MiB. A file is placed in its directory's group, a new
//! directory in its parent's as long as that has enough free ones (Orlov's rule, for a file system that is mostly empty).

use std::collections::VecDeque;

use super::{Passing, View};
use crate::cost::{Charge, Gap, Stem};
use crate::namespace::tree::Ino;

/// Inodes of a group.
const GROUP: usize = 8192;
const WORDS: usize = GROUP / 64;
/// A group in which more than so many are taken gets no new directories.
const CROWDED: usize = GROUP / 4;
/// Groups that are told apart; what comes beyond shares the last.
const GROUPS: usize = 1 << 12;
/// How long those whose block was not written back are passed over: 60 s, and 300 s more.
const RECENT_S: u64 = 360;

type Bits = Box<[u64; WORDS]>;

#[derive(Debug, Clone)]
struct Group {
    taken: Bits,
    /// Freed in this second, and in earlier ones.
    now: Bits,
    recent: Bits,
    count: usize,
}

impl Default for Group {
    fn default() -> Self {
        let none = || Box::new([0; WORDS]);
        Self {
            taken: none(),
            now: none(),
            recent: none(),
            count: 0,
        }
    }
}

/// The place of an inode, counted over all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place(u32);

impl Place {
    /// Of a file that was there before the trace, by its place in the order of the snapshot.
    pub fn of_old(number: u32) -> Self {
        Self(number)
    }

    fn group(self) -> usize {
        (self.0 as usize / GROUP).min(GROUPS - 1)
    }
}

/// All of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Inodes {
    groups: Vec<Group>,
    /// The second that it is.
    second: u64,
    /// What was freed in which second.
    freed: VecDeque<(u64, usize, Bits)>,
}

impl Inodes {
    /// So many files are there before the trace.
    pub fn begin(&mut self, old: usize) {
        for number in 0..old.min(GROUP * GROUPS) {
            self.take(Place(number as u32));
        }
    }

    /// Whether [`Self::begin`] is still to come.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Nothing is known to be freed recently: the blocks of inodes have left memory.
    pub fn make_cold(&mut self) {
        self.freed.clear();
        for group in &mut self.groups {
            (*group.now, *group.recent) = ([0; WORDS], [0; WORDS]);
        }
    }

    fn group(&mut self, at: usize) -> &mut Group {
        let at = at.min(GROUPS - 1);
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, Group::default);
        }
        &mut self.groups[at]
    }

    fn take(&mut self, place: Place) {
        let (word, bit) = (place.0 as usize % GROUP / 64, 1 << (place.0 % 64));
        let group = self.group(place.group());
        group.count += usize::from(group.taken[word] & bit == 0);
        group.taken[word] |= bit;
        group.now[word] &= !bit;
        group.recent[word] &= !bit;
    }

    /// A file is gone at `now_ns`.
    pub fn free(&mut self, place: Place, now_ns: u64) {
        self.pass(now_ns);
        let (word, bit) = (place.0 as usize % GROUP / 64, 1 << (place.0 % 64));
        let group = self.group(place.group());
        if group.taken[word] & bit != 0 {
            group.count -= 1;
            group.taken[word] &= !bit;
            group.now[word] |= bit;
        }
    }

    /// A file, or a directory, is made in the directory at `dir`: where, and how many are passed over.
    pub fn make(&mut self, dir: Place, directory: bool, now_ns: u64) -> (Place, u32) {
        self.pass(now_ns);
        let least = if directory { GROUP - CROWDED } else { 1 };
        let mut at = dir.group();
        while at + 1 < GROUPS && GROUP - self.group(at).count < least {
            at += 1;
        }
        let (bit, passed) = self.group(at).first();
        let place = Place((at * GROUP + bit) as u32);
        self.take(place);
        (place, passed)
    }

    /// Time passes: what was freed before this second is passed over from now on, for a while.
    fn pass(&mut self, now_ns: u64) {
        let second = now_ns / 1_000_000_000;
        if second <= self.second {
            return;
        }
        let before = std::mem::replace(&mut self.second, second);
        for (at, group) in self.groups.iter_mut().enumerate() {
            let now = std::mem::replace(&mut *group.now, [0; WORDS]);
            if now != [0; WORDS] {
                for (all, new) in group.recent.iter_mut().zip(now) {
                    *all |= new;
                }
                self.freed.push_back((before, at, Box::new(now)));
            }
        }
        while let Some((_, at, bits)) = self.freed.pop_front_if(|f| f.0 + RECENT_S < second) {
            if let Some(group) = self.groups.get_mut(at) {
                for (all, old) in group.recent.iter_mut().zip(*bits) {
                    *all &= !old;
                }
            }
        }
    }
}

impl Group {
    /// The first that can be had, and how many are passed over.
    fn first(&self) -> (usize, u32) {
        let mut passed = 0;
        let mut last = 0;
        for (word, (taken, recent)) in self.taken.iter().zip(self.recent.iter()).enumerate() {
            let free = !(taken | recent);
            if free != 0 {
                let bit = free.trailing_zeros();
                let below = recent & ((1u64 << bit) - 1);
                return (word * 64 + bit as usize, passed + below.count_ones());
            }
            if *recent != 0 {
                last = word * 64 + 63 - recent.leading_zeros() as usize;
            }
            passed += recent.count_ones();
        }
        (last, passed)
    }
}

impl View {
    /// An inode is made, which may pass over others that were freed.
    pub(super) fn places(
        &mut self,
        step: &Passing<'_>,
        directory: bool,
        charges: &mut Vec<Charge>,
    ) {
        let (Some(ino), Some(walk)) = (step.resolved.node, step.resolved.walks[0]) else {
            return;
        };
        if !self.sizes.passes_freed {
            return;
        }
        if self.inodes.is_empty() {
            let all = step.ns.tree.inodes().iter();
            self.inodes
                .begin(all.filter(|i| i.in_scope && !i.born).count());
        }
        let dir = self.state(walk.dir).place;
        let dir = dir.unwrap_or(Place::of_old(walk.dir.0));
        let (place, passed) = self.inodes.make(dir, directory, step.op.start_ns);
        self.state(ino).place = Some(place);
        if passed > 0 {
            charges.push(Charge::many(Stem::CrP, Gap::NONE, f64::from(passed)));
        }
    }

    pub(super) fn frees(&mut self, ino: Ino, now_ns: u64) {
        if self.sizes.passes_freed && ino.is_some() {
            let place = self.state(ino).place.unwrap_or(Place::of_old(ino.0));
            self.inodes.free(place, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn made(inodes: &mut Inodes, files: usize, now_ns: u64) -> (Vec<Place>, u32) {
        let all = (0..files).map(|_| inodes.make(Place::default(), false, now_ns));
        let all: Vec<_> = all.collect();
        let passed = all.iter().map(|m| m.1).sum();
        (all.into_iter().map(|m| m.0).collect(), passed)
    }

    #[test]
    fn what_was_freed_in_this_second_is_given_again_and_what_was_before_is_passed_over() {
        let mut inodes = Inodes::default();
        inodes.begin(10);
        let (files, _) = made(&mut inodes, 100, 0);
        for &file in &files {
            inodes.free(file, 5);
        }
        assert_eq!(made(&mut inodes, 10, 9), (files[..10].to_vec(), 0));
        // 90 are passed over by each of three.
        let (later, passed) = made(&mut inodes, 3, SECOND);
        assert_eq!((later[0].0, passed), (110, 270));
        // Six minutes later they are as any other.
        assert_eq!(made(&mut inodes, 1, 400 * SECOND), (vec![files[10]], 0));
    }

    #[test]
    fn a_group_without_others_gives_what_it_has_passed_over() {
        let mut inodes = Inodes::default();
        let (files, _) = made(&mut inodes, GROUP, 0);
        for &file in &files[..1000] {
            inodes.free(file, 0);
        }
        assert_eq!(made(&mut inodes, 1, SECOND), (vec![files[999]], 1000));
        // What is cold is not known to be recent.
        inodes.make_cold();
        assert_eq!(made(&mut inodes, 1, SECOND), (vec![files[0]], 0));
    }

    #[test]
    fn directories_leave_a_crowded_group_and_files_a_full_one() {
        let mut inodes = Inodes::default();
        inodes.begin(CROWDED + 1);
        assert_eq!(inodes.make(Place(0), true, 0).0.group(), 1);
        assert_eq!(inodes.make(Place(0), false, 0).0.group(), 0);
        inodes.begin(GROUP);
        assert_eq!(inodes.make(Place(0), false, 0).0.group(), 1);
    }
}

//! PostMark's table of files, with choices in constant time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_core::PathId;

use crate::random::Random;

/// A file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub path: PathId,
    /// Its size in bytes.
    pub size_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    file: File,
    /// Where the slot stands in `live`.
    position: usize,
}

/// A table of slots, filled as PostMark fills it: behind the last one filled, and from the first
/// hole on where that is taken. The order matters: the pool is deleted in it at the end.
#[derive(Debug)]
pub struct Pool {
    limit: u64,
    slots: Vec<Option<Slot>>,
    live: Vec<usize>,
    /// Slots that were freed; some may be in use again.
    holes: BinaryHeap<Reverse<usize>>,
    next: usize,
}

impl Pool {
    /// An empty table that holds up to `limit` files.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            slots: Vec::new(),
            live: Vec::new(),
            holes: BinaryHeap::new(),
            next: 0,
        }
    }

    /// Whether no file exists.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Slots that were ever used; the rest is free.
    pub fn slots(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The slot for the next file, `None` where the table is full.
    pub fn free_slot(&mut self) -> Option<u64> {
        if (self.next as u64) < self.limit && self.is_free(self.next) {
            return Some(self.next as u64);
        }
        while let Some(&Reverse(hole)) = self.holes.peek() {
            if self.is_free(hole) {
                return Some(hole as u64);
            }
            self.holes.pop();
        }
        let fresh = self.slots();
        (fresh < self.limit).then_some(fresh)
    }

    fn is_free(&self, slot: usize) -> bool {
        self.slots.get(slot).is_none_or(Option::is_none)
    }

    /// Puts a file into a slot that is free, or replaces the one that is there.
    pub fn insert(&mut self, slot: u64, file: File) {
        let slot = slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        if let Some(there) = entry {
            there.file = file;
        } else {
            *entry = Some(Slot {
                file,
                position: self.live.len(),
            });
            self.live.push(slot);
            self.next = slot + 1;
        }
    }

    /// The file in a slot.
    pub fn get(&self, slot: u64) -> Option<File> {
        self.slots.get(slot as usize)?.map(|s| s.file)
    }

    /// Takes the file out of a slot.
    pub fn remove(&mut self, slot: u64) -> Option<File> {
        let slot = slot as usize;
        let Slot { file, position } = self.slots.get_mut(slot)?.take()?;
        self.live.swap_remove(position);
        if let Some(&moved) = self.live.get(position)
            && let Some(Some(entry)) = self.slots.get_mut(moved)
        {
            entry.position = position;
        }
        self.holes.push(Reverse(slot));
        Some(file)
    }

    /// The slot of a file drawn uniformly from those that exist.
    pub fn choose(&self, random: &mut Random) -> Option<u64> {
        self.live
            .get(random.below(self.live.len() as u64) as usize)
            .map(|&slot| slot as u64)
    }
}

//! Which frame holds which page of a file, and when the page was evicted.

use std::collections::BTreeMap;

/// What is known of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It was never in the cache.
    Never,
    /// This frame holds it.
    Frame(u32),
    /// It was evicted when the cache's age was this (31 bits, wrapping).
    Evicted(u32),
}

const SHADOW: u32 = 1 << 31;
/// Pages of a file that lie in the table itself: to follow a pointer costs as much as all the rest.
const NEAR: u64 = 4;
/// Pages of a file up to which the others lie in one flat vector: 16 MiB.
const FLAT: u64 = 4096;
const CHUNK: u64 = 64;

type Far = BTreeMap<u64, Box<[u32; CHUNK as usize]>>;

/// The page table of one file: flat for its first 16 MiB, chunks of 64 pages beyond.
#[derive(Debug, Clone, Default)]
pub struct PageTable {
    near: [u32; NEAR as usize],
    flat: Vec<u32>,
    far: Option<Box<Far>>,
}

impl PageTable {
    /// What is known of `page`.
    #[inline]
    pub fn get(&self, page: u64) -> Entry {
        let raw = if page < NEAR {
            self.near.get(page as usize).copied()
        } else if page < FLAT {
            self.flat.get((page - NEAR) as usize).copied()
        } else {
            self.far
                .as_ref()
                .and_then(|far| far.get(&(page / CHUNK)))
                .and_then(|c| c.get((page % CHUNK) as usize))
                .copied()
        };
        match raw {
            None | Some(0) => Entry::Never,
            Some(raw) if raw & SHADOW != 0 => Entry::Evicted(raw & !SHADOW),
            Some(raw) => Entry::Frame(raw - 1),
        }
    }

    /// Notes what is known of `page`.
    #[inline]
    pub fn set(&mut self, page: u64, entry: Entry) {
        let raw = match entry {
            Entry::Never => 0,
            Entry::Frame(frame) => (frame + 1) & !SHADOW,
            Entry::Evicted(age) => (age & !SHADOW) | SHADOW,
        };
        if let Some(slot) = self
            .near
            .get_mut(usize::try_from(page).unwrap_or(usize::MAX))
        {
            *slot = raw;
            return;
        }
        if page < FLAT {
            let index = (page - NEAR) as usize;
            if index >= self.flat.len() {
                if raw == 0 {
                    return;
                }
                self.flat
                    .reserve_exact((index + 1).saturating_sub(self.flat.len()).max(2));
                self.flat.resize(index + 1, 0);
            }
            if let Some(slot) = self.flat.get_mut(index) {
                *slot = raw;
            }
            return;
        }
        let far = self.far.get_or_insert_default();
        let chunk = far
            .entry(page / CHUNK)
            .or_insert_with(|| Box::new([0; CHUNK as usize]));
        if let Some(slot) = chunk.get_mut((page % CHUNK) as usize) {
            *slot = raw;
        }
    }

    /// The frames that hold the first pages, as far as they are in the table itself.
    #[inline]
    pub fn near_frames(&self) -> impl Iterator<Item = u32> + '_ {
        let held = self.near.iter().filter(|&&r| r != 0 && r & SHADOW == 0);
        held.map(|&r| r - 1)
    }

    /// Forgets every page from `first` on, handing the frames that held them to `free`.
    pub fn cut(&mut self, first: u64, mut free: impl FnMut(u32)) {
        let within =
            |from: u64, len: usize| (first.saturating_sub(from).min(FLAT) as usize).min(len);
        let near = self.near.iter_mut().skip(within(0, NEAR as usize));
        let near = near.map(std::mem::take);
        let keep = within(NEAR, self.flat.len());
        for raw in near.chain(self.flat.drain(keep..)) {
            if raw != 0 && raw & SHADOW == 0 {
                free(raw - 1);
            }
        }
        if first == 0 {
            self.flat = Vec::new();
        }
        let Some(far) = &mut self.far else { return };
        let from = first.max(FLAT);
        for (_, chunk) in far.split_off(&(from.div_ceil(CHUNK))) {
            chunk
                .iter()
                .filter(|&&r| r != 0 && r & SHADOW == 0)
                .for_each(|&r| free(r - 1));
        }
        let within = (from % CHUNK) as usize;
        if within != 0
            && let Some(chunk) = far.get_mut(&(from / CHUNK))
        {
            for raw in chunk.iter_mut().skip(within) {
                if *raw != 0 && *raw & SHADOW == 0 {
                    free(*raw - 1);
                }
                *raw = 0;
            }
        }
    }

    /// Forgets evictions in chunks that hold no page any more, so that memory follows the cache and
    /// not the files (the kernel's shadow shrinker does the same).
    pub fn prune(&mut self) {
        if let Some(far) = &mut self.far {
            far.retain(|_, chunk| chunk.iter().any(|&r| r != 0 && r & SHADOW == 0));
        }
    }

    /// Chunks beyond the first 16 MiB.
    pub fn chunks(&self) -> usize {
        self.far.as_ref().map_or(0, |far| far.len())
    }

    /// The frames that hold pages of this file.
    pub fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        let far = self.far.iter().flat_map(|far| far.values());
        let near = self.near.iter().chain(&self.flat);
        near.chain(far.flat_map(|c| c.iter()))
            .filter(|&&r| r != 0 && r & SHADOW == 0)
            .map(|&r| r - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_pages_are_kept_and_cut() {
        let mut table = PageTable::default();
        let pages = [
            0,
            5,
            FLAT - 1,
            FLAT,
            FLAT + 63,
            FLAT + 64,
            1 << 40,
            (1 << 52) - 1,
        ];
        for (i, &page) in pages.iter().enumerate() {
            table.set(page, Entry::Frame(i as u32));
        }
        table.set(7, Entry::Evicted(9));
        assert_eq!(table.get(7), Entry::Evicted(9));
        for (i, &page) in pages.iter().enumerate() {
            assert_eq!(table.get(page), Entry::Frame(i as u32));
        }
        let mut freed = Vec::new();
        table.cut(FLAT + 1, |f| freed.push(f));
        freed.sort_unstable();
        assert_eq!(freed, [4, 5, 6, 7]);
        assert_eq!(table.get(FLAT), Entry::Frame(3));
        assert_eq!(table.frames().collect::<Vec<_>>(), [0, 1, 2, 3]);
        table.cut(0, |f| freed.push(f));
        assert_eq!(table.frames().count(), 0);
    }
}

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
/// Pages of a file that lie in one flat vector: 16 MiB.
const FLAT: u64 = 4096;
const CHUNK: u64 = 64;

/// The page table of one file: flat for its first 16 MiB, chunks of 64 pages beyond.
#[derive(Debug, Clone, Default)]
pub struct PageTable {
    flat: Vec<u32>,
    far: BTreeMap<u64, Box<[u32; CHUNK as usize]>>,
}

impl PageTable {
    /// What is known of `page`.
    #[inline]
    pub fn get(&self, page: u64) -> Entry {
        let raw = if page < FLAT {
            self.flat.get(page as usize).copied()
        } else {
            self.far
                .get(&(page / CHUNK))
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
        if page < FLAT {
            let index = page as usize;
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
        let chunk = self
            .far
            .entry(page / CHUNK)
            .or_insert_with(|| Box::new([0; CHUNK as usize]));
        if let Some(slot) = chunk.get_mut((page % CHUNK) as usize) {
            *slot = raw;
        }
    }

    /// Forgets every page from `first` on, handing the frames that held them to `free`.
    pub fn cut(&mut self, first: u64, mut free: impl FnMut(u32)) {
        let keep = usize::try_from(first.min(FLAT))
            .unwrap_or(usize::MAX)
            .min(self.flat.len());
        for raw in self.flat.drain(keep..) {
            if raw != 0 && raw & SHADOW == 0 {
                free(raw - 1);
            }
        }
        if first == 0 {
            self.flat = Vec::new();
        }
        if self.far.is_empty() {
            return;
        }
        let from = first.max(FLAT);
        for (_, chunk) in self.far.split_off(&(from.div_ceil(CHUNK))) {
            chunk
                .iter()
                .filter(|&&r| r != 0 && r & SHADOW == 0)
                .for_each(|&r| free(r - 1));
        }
        let within = (from % CHUNK) as usize;
        if within != 0
            && let Some(chunk) = self.far.get_mut(&(from / CHUNK))
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
        self.far
            .retain(|_, chunk| chunk.iter().any(|&r| r != 0 && r & SHADOW == 0));
    }

    /// Chunks beyond the first 16 MiB.
    pub fn chunks(&self) -> usize {
        self.far.len()
    }

    /// The frames that hold pages of this file.
    pub fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        self.flat
            .iter()
            .chain(self.far.values().flat_map(|c| c.iter()))
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

//! What readers left before a page, by which the kernel knows one that goes on.

use super::{PageCache, PageState};

impl PageCache {
    /// How many pages directly before this one are in the cache, up to `most`: traces of a reader in order. Twice as many
    /// if they begin where the file does (`page_cache_sync_ra` of Linux).
    pub fn history(&self, file: u32, page: u64, most: u64) -> u64 {
        let is_there = |before: &u64| self.peek(file, page - before) != PageState::Absent;
        let pages = (1..=most.min(page)).take_while(is_there).count() as u64;
        if pages == page { pages * 2 } else { pages }
    }
}

#[cfg(test)]
mod tests {
    use super::super::WriteBack;
    use crate::policy::{Policy, Start};

    use super::*;

    #[test]
    fn pages_directly_before_one_are_its_history() {
        let mut cache = PageCache::new(Policy::Linux, Some(100), Start::Cold, WriteBack::default());
        for page in [0, 1, 2, 10, 12, 13] {
            cache.read(1, page, false);
        }
        // Two, as many as are looked for, none; all of a beginning count twice.
        assert_eq!(
            [14, 11, 9].map(|page| cache.history(1, page, 32)),
            [2, 1, 0]
        );
        assert_eq!([cache.history(1, 14, 1), cache.history(1, 3, 32)], [1, 6]);
        assert_eq!([cache.history(2, 5, 32), cache.history(1, 0, 32)], [0, 0]);
    }
}

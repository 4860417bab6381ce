//! What is dirty altogether, and the file of which that has been so for longest.

use super::PageCache;

impl PageCache {
    /// Pages that wait to be written back.
    pub fn dirty(&self) -> u64 {
        let done = self.counts.cancelled + self.counts.written;
        self.counts.dirtied.saturating_sub(done)
    }

    /// Writes back the file that has been dirty for longest; returns it, how many pages that were and the first of
    /// them.
    pub fn clean_oldest(&mut self) -> Option<(u32, u64, u64)> {
        while let Some((_, file, epoch)) = self.due.pop_front() {
            let Some(known) = self.files.get(file as usize) else {
                continue;
            };
            if known.epoch != epoch || known.dirty == 0 {
                continue;
            }
            let frames = known.table.frames();
            let frames = frames.filter_map(|index| self.frames.get(index as usize));
            let dirty = frames.filter(|frame| frame.dirty_epoch == epoch);
            let first = dirty.map(|frame| frame.page).min().unwrap_or(0);
            return Some((file, self.clean(file), first));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{PageCache, Policy, Start, WriteBack};

    #[test]
    fn files_are_written_in_the_order_in_which_they_became_dirty() {
        let mut cache = PageCache::new(Policy::Linux, None, Start::Cold, WriteBack::default());
        for (file, page) in [(1, 7), (2, 0), (1, 5), (3, 1), (2, 1)] {
            cache.write(file, page, 0, 0);
        }
        cache.cut(3, 0);
        assert_eq!((cache.dirty(), cache.clean_oldest()), (4, Some((1, 2, 5))));
        // One that was clean since is behind those that were not.
        cache.write(1, 9, 0, 0);
        assert_eq!(cache.clean_oldest(), Some((2, 2, 0)));
        assert_eq!(cache.clean_oldest(), Some((1, 1, 9)));
        assert_eq!((cache.dirty(), cache.clean_oldest()), (0, None));
    }
}

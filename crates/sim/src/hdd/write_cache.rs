//! Written data that is not on the medium yet.

use std::collections::BTreeMap;

/// A run of dirty sectors that begins at its key.
#[derive(Debug, Clone, Copy)]
struct Run {
    end: u64,
    /// The write that made it, counted from 1.
    write: u64,
}

/// Dirty runs, without overlaps, and what is being written of them.
#[derive(Debug)]
pub(super) struct WriteCache {
    runs: BTreeMap<u64, Run>,
    capacity: u64,
    dirty: u64,
    writes: u64,
    /// Sectors on their way to the medium, and the oldest write among them.
    moving: Option<(u64, u64)>,
    /// Where the last destage ended: the next one goes on upwards (C-LOOK).
    position: u64,
}

impl WriteCache {
    /// A cache of so many sectors; 0 for none.
    pub fn new(capacity: u64) -> Self {
        Self {
            runs: BTreeMap::new(),
            capacity,
            dirty: 0,
            writes: 0,
            moving: None,
            position: 0,
        }
    }

    /// Whether a write of that length ever fits.
    pub fn takes(&self, sectors: u64) -> bool {
        sectors <= self.capacity
    }

    /// Nothing is left that could be destaged.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn is_half_full(&self) -> bool {
        self.dirty * 2 > self.capacity
    }

    /// Takes a write; `false` if there is no room now.
    pub fn insert(&mut self, first: u64, end: u64) -> bool {
        if self.dirty + (end - first) > self.capacity {
            return false;
        }
        self.remove(first, end);
        self.writes += 1;
        self.dirty += end - first;
        let write = self.writes;
        self.runs.insert(first, Run { end, write });
        true
    }

    /// Whether all of these sectors are in it.
    pub fn holds(&self, first: u64, end: u64) -> bool {
        let mut at = first;
        for (&start, run) in self.runs.range(..end).rev() {
            // Runs come from the highest down: find those that cover `first..end` without a hole.
            if run.end <= first {
                break;
            }
            at = start;
        }
        if at > first {
            return false;
        }
        let mut covered = at;
        for (&start, run) in self.runs.range(at..end) {
            if start > covered {
                return false;
            }
            covered = run.end;
        }
        covered >= end
    }

    /// The number of the last write.
    pub fn last_write(&self) -> u64 {
        self.writes
    }

    /// The oldest write that is not wholly on the medium.
    pub fn oldest_write(&self) -> Option<u64> {
        let waiting = self.runs.values().map(|r| r.write).min();
        let moving = self.moving.map(|(_, write)| write);
        waiting.into_iter().chain(moving).min()
    }

    /// Takes out the next run upwards, with what follows it without a gap, at most `longest` sectors.
    pub fn take(&mut self, longest: u64) -> Option<(u64, u64)> {
        let next = self.runs.range(self.position..).next();
        let first = next.or_else(|| self.runs.iter().next()).map(|(&f, _)| f)?;
        let (mut end, mut oldest) = (first, u64::MAX);
        while let Some(run) = self.runs.get(&end).copied() {
            let (start, room) = (end, first + longest - end);
            if room == 0 {
                break;
            }
            self.runs.remove(&start);
            end = run.end.min(start + room);
            oldest = oldest.min(run.write);
            if end < run.end {
                self.runs.insert(end, run);
                break;
            }
        }
        self.position = end;
        self.moving = Some((end - first, oldest));
        Some((first, end - first))
    }

    /// What was taken out is on the medium.
    pub fn destaged(&mut self) {
        if let Some((sectors, _)) = self.moving.take() {
            self.dirty -= sectors.min(self.dirty);
        }
    }

    /// Drops what is overwritten.
    fn remove(&mut self, first: u64, end: u64) {
        let before = self.runs.range(..first).next_back().map(|(&s, r)| (s, *r));
        if let Some((start, run)) = before
            && run.end > first
        {
            self.dirty -= run.end.min(end) - first;
            self.runs.insert(start, Run { end: first, ..run });
            if run.end > end {
                self.runs.insert(end, run);
            }
        }
        let inside: Vec<u64> = self.runs.range(first..end).map(|(&s, _)| s).collect();
        for start in inside {
            if let Some(run) = self.runs.remove(&start) {
                self.dirty -= run.end.min(end) - start;
                if run.end > end {
                    self.runs.insert(end, run);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_do_not_overlap_and_are_taken_upwards() {
        let mut cache = WriteCache::new(100);
        assert!(cache.insert(10, 20) && cache.insert(20, 30) && cache.insert(15, 25));
        assert_eq!(cache.dirty, 20);
        assert!(cache.holds(10, 30) && cache.holds(12, 28));
        assert!(!cache.holds(5, 12) && !cache.holds(28, 31));
        assert!(!cache.insert(100, 181));
        assert!(cache.insert(50, 60));
        assert_eq!(cache.take(8), Some((10, 8)));
        assert_eq!(cache.oldest_write(), Some(1));
        cache.destaged();
        assert_eq!(cache.take(64), Some((18, 12)));
        cache.destaged();
        assert_eq!(cache.take(64), Some((50, 10)));
        assert_eq!(cache.dirty, 10);
        cache.destaged();
        assert_eq!((cache.dirty, cache.take(64)), (0, None));
        assert_eq!(cache.oldest_write(), None);
    }
}

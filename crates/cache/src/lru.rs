//! A set of dense ids that forgets the one used longest ago.

use crate::list::{Links, List};
use crate::policy::Start;

/// What a touch found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// The id was there.
    Hit,
    /// It was not, and now is; this other id had to go.
    Miss(Option<u32>),
}

/// The name cache and the attribute cache: LRU over dense ids (`u32::MAX` is none), O(1).
///
/// Until it is full it only stamps the time of each touch; the order is made once, when the first
/// eviction needs it, so a cache far larger than what is touched costs one store for each touch.
#[derive(Debug, Clone)]
pub struct LruSet {
    capacity: usize,
    start: Start,
    clock: u64,
    /// Time of the last touch; 0: never touched, `GONE`: evicted or removed.
    stamps: Vec<u64>,
    len: usize,
    order: Option<(Links, List)>,
}

const GONE: u64 = u64::MAX;

impl LruSet {
    /// An empty set of at most `capacity` ids; `None`: without a bound.
    pub fn new(capacity: Option<u64>, start: Start) -> Self {
        let capacity = capacity.map_or(usize::MAX, |c| {
            usize::try_from(c.max(1)).unwrap_or(usize::MAX)
        });
        Self {
            capacity,
            start,
            clock: 0,
            stamps: Vec::new(),
            len: 0,
            order: None,
        }
    }

    /// Drops everything; what was never touched is not there either.
    pub fn make_cold(&mut self) {
        *self = Self::new(Some(self.capacity as u64), Start::Cold);
    }

    /// How many ids it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `id` is there (under a warm start also if it was never touched).
    pub fn contains(&self, id: u32) -> bool {
        match self.stamps.get(id as usize) {
            Some(&GONE) => false,
            Some(0) | None => self.start == Start::Warm,
            Some(_) => true,
        }
    }

    /// Uses `id`; brings it in if it is not there.
    #[inline]
    pub fn touch(&mut self, id: u32) -> Touch {
        let index = id as usize;
        if id == u32::MAX {
            return Touch::Miss(None);
        }
        if index >= self.stamps.len() {
            self.stamps.resize((index + 1).next_power_of_two(), 0);
        }
        self.clock += 1;
        let Some(stamp) = self.stamps.get_mut(index) else {
            return Touch::Miss(None);
        };
        let before = std::mem::replace(stamp, self.clock);
        if before != 0 && before != GONE {
            if let Some((links, list)) = &mut self.order
                && list.front() != Some(id)
            {
                list.remove(links, id);
                list.push_front(links, id);
            }
            return Touch::Hit;
        }
        self.len += 1;
        let evicted = if self.len > self.capacity {
            self.evict(id)
        } else {
            None
        };
        if let Some((links, list)) = &mut self.order {
            list.push_front(links, id);
        }
        if before == 0 && self.start == Start::Warm {
            Touch::Hit
        } else {
            Touch::Miss(evicted)
        }
    }

    /// Takes `id` out (its name was removed).
    pub fn remove(&mut self, id: u32) {
        let Some(stamp) = self.stamps.get_mut(id as usize) else {
            return;
        };
        let before = std::mem::replace(stamp, GONE);
        if before == 0 || before == GONE {
            return;
        }
        self.len -= 1;
        if let Some((links, list)) = &mut self.order {
            list.remove(links, id);
        }
    }

    /// Drops the oldest id to make room for `newcomer`, whose stamp is set already.
    fn evict(&mut self, newcomer: u32) -> Option<u32> {
        let stamps = &self.stamps;
        let (links, list) = self.order.get_or_insert_with(|| {
            let mut ids: Vec<u32> = (0..stamps.len() as u32)
                .filter(|&i| {
                    i != newcomer && stamps.get(i as usize).is_some_and(|&s| s != 0 && s != GONE)
                })
                .collect();
            ids.sort_unstable_by_key(|&i| stamps.get(i as usize).copied());
            let (mut links, mut list) = (Links::default(), List::default());
            for id in ids {
                list.push_front(&mut links, id);
            }
            (links, list)
        });
        let oldest = list.pop_back(links)?;
        if let Some(stamp) = self.stamps.get_mut(oldest as usize) {
            *stamp = GONE;
        }
        self.len -= 1;
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cycle_one_longer_than_the_cache_never_hits() {
        let mut set = LruSet::new(Some(4), Start::Cold);
        let hits = (0..50u32)
            .filter(|i| set.touch(i % 5) == Touch::Hit)
            .count();
        assert_eq!(hits, 0);
        let mut set = LruSet::new(Some(5), Start::Cold);
        let hits = (0..50u32)
            .filter(|i| set.touch(i % 5) == Touch::Hit)
            .count();
        assert_eq!(hits, 45);
    }

    #[test]
    fn nothing_is_there_once_it_was_made_cold() {
        let mut set = LruSet::new(Some(2), Start::Warm);
        set.touch(1);
        set.make_cold();
        assert_eq!(
            (set.touch(1), set.touch(2)),
            (Touch::Miss(None), Touch::Miss(None))
        );
        assert_eq!(set.touch(3), Touch::Miss(Some(1)));
    }

    #[test]
    fn warm_means_present_until_evicted() {
        let mut set = LruSet::new(Some(2), Start::Warm);
        assert_eq!(set.touch(1), Touch::Hit);
        assert_eq!(set.touch(2), Touch::Hit);
        assert_eq!(set.touch(3), Touch::Hit);
        assert_eq!(set.touch(1), Touch::Miss(Some(2)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_list_that_is_searched(
            capacity in 1u64..8,
            steps in prop::collection::vec((0u32..16, prop::bool::weighted(0.1)), 0..200),
        ) {
            let mut set = LruSet::new(Some(capacity), Start::Cold);
            let mut oracle: Vec<u32> = Vec::new();
            for (id, remove) in steps {
                let found = oracle.iter().position(|&x| x == id).map(|i| oracle.remove(i));
                if remove {
                    set.remove(id);
                } else {
                    let mut evicted = None;
                    if found.is_none() && oracle.len() as u64 == capacity {
                        evicted = Some(oracle.remove(0));
                    }
                    oracle.push(id);
                    let want = if found.is_some() { Touch::Hit } else { Touch::Miss(evicted) };
                    prop_assert_eq!(set.touch(id), want);
                }
                prop_assert_eq!(set.len(), oracle.len());
                for i in 0..16 {
                    prop_assert_eq!(set.contains(i), oracle.contains(&i));
                }
            }
        }
    }
}

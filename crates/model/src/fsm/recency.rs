//! What was used when, in the order of the last use: distances and the one at a distance, both in logarithmic
//! time (Bennett and Kruskal 1975, with a binary indexed tree).

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Keys in the order of their last use.
#[derive(Debug, Clone)]
pub struct Recency<K> {
    at: FxHashMap<K, usize>,
    slots: Vec<Option<K>>,
    /// Over the slots: how many are taken.
    tree: Vec<u32>,
}

impl<K> Default for Recency<K> {
    fn default() -> Self {
        Self {
            at: FxHashMap::default(),
            slots: Vec::new(),
            tree: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> Recency<K> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    fn add(&mut self, slot: usize, taken: bool) {
        let mut i = slot + 1;
        while let Some(n) = self.tree.get_mut(i) {
            *n = if taken { *n + 1 } else { n.saturating_sub(1) };
            i += i & i.wrapping_neg();
        }
    }

    /// Taken slots before `slot`.
    fn before(&self, slot: usize) -> usize {
        let (mut i, mut sum) = (slot, 0);
        while i > 0 {
            sum += self.tree.get(i).copied().unwrap_or(0) as usize;
            i &= i - 1;
        }
        sum
    }

    /// Begins with the taken slots alone.
    fn compact(&mut self) {
        let kept: Vec<K> = self.slots.drain(..).flatten().collect();
        let room = (2 * kept.len()).next_power_of_two().max(16);
        self.tree = vec![0; room + 1];
        for (slot, key) in kept.into_iter().enumerate() {
            self.slots.push(Some(key));
            self.at.insert(key, slot);
            self.add(slot, true);
        }
    }

    /// Uses a key, which is the latest then.
    pub fn touch(&mut self, key: K) {
        self.remove(&key);
        if self.slots.len() + 1 >= self.tree.len() {
            self.compact();
        }
        let slot = self.slots.len();
        self.slots.push(Some(key));
        self.at.insert(key, slot);
        self.add(slot, true);
    }

    /// Takes a key out; whether it was there.
    pub fn remove(&mut self, key: &K) -> bool {
        let Some(slot) = self.at.remove(key) else {
            return false;
        };
        if let Some(place) = self.slots.get_mut(slot) {
            *place = None;
        }
        self.add(slot, false);
        true
    }

    /// Takes out all but those of which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        for slot in &mut self.slots {
            if let Some(key) = slot.filter(|key| !keep(key)) {
                self.at.remove(&key);
                *slot = None;
            }
        }
        self.compact();
    }

    /// How many others were used since.
    pub fn distance(&self, key: &K) -> Option<usize> {
        let slot = *self.at.get(key)?;
        Some(self.len() - self.before(slot) - 1)
    }

    /// The key since whose use so many others were used.
    pub fn nth(&self, distance: usize) -> Option<K> {
        let mut rank = self.len().checked_sub(distance + 1)?;
        let (mut slot, mut step) = (0, self.tree.len().next_power_of_two() / 2);
        while step > 0 {
            if let Some(&n) = self.tree.get(slot + step).filter(|n| **n as usize <= rank) {
                slot += step;
                rank -= n as usize;
            }
            step /= 2;
        }
        self.slots.get(slot).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list_that_is_searched(steps in prop::collection::vec((0u8..5, 0u16..40), 0..400)) {
            let (mut recency, mut list) = (Recency::default(), Vec::<u16>::new());
            for (what, key) in steps {
                let found = list.iter().position(|&k| k == key);
                prop_assert_eq!(recency.distance(&key), found);
                if let Some(at) = found {
                    list.remove(at);
                }
                if what == 0 {
                    prop_assert_eq!(recency.remove(&key), found.is_some());
                } else if what == 1 && key < 5 {
                    recency.retain(|k| k % 3 != key % 3);
                    list.retain(|k| k % 3 != key % 3);
                } else {
                    recency.touch(key);
                    list.insert(0, key);
                }
                for (d, &k) in list.iter().enumerate() {
                    prop_assert_eq!(recency.nth(d), Some(k));
                }
                prop_assert_eq!(recency.nth(list.len()), None);
                prop_assert_eq!(recency.len(), list.len());
            }
        }
    }
}

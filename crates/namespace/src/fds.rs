//! The descriptors of one process.

use fsage_core::Fd;
use rustc_hash::FxHashMap;

/// Descriptors below this, and below three times as many as there are, have a place of their own:
/// kernels give the lowest one that is free.
const LOW: usize = 64;

/// What each descriptor stands for. Any number is one, negative ones too.
#[derive(Debug, Clone)]
pub struct Fds<T> {
    low: Vec<Option<T>>,
    /// Those beyond `low`.
    high: FxHashMap<i32, T>,
    taken: usize,
}

impl<T> Default for Fds<T> {
    fn default() -> Self {
        Self {
            low: Vec::new(),
            high: FxHashMap::default(),
            taken: 0,
        }
    }
}

impl<T: Copy> Fds<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// What it stands for.
    #[inline]
    pub fn get(&self, fd: Fd) -> Option<T> {
        match usize::try_from(fd.0) {
            Ok(at) if at < self.low.len() => self.low.get(at).copied().flatten(),
            _ => self.high.get(&fd.0).copied(),
        }
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, fd: Fd) -> Option<&mut T> {
        match usize::try_from(fd.0) {
            Ok(at) if at < self.low.len() => self.low.get_mut(at)?.as_mut(),
            _ => self.high.get_mut(&fd.0),
        }
    }

    /// Sets a descriptor; returns what it stood for.
    pub fn insert(&mut self, fd: Fd, value: T) -> Option<T> {
        let old = match usize::try_from(fd.0) {
            Ok(at) if at < LOW.max(self.taken.saturating_mul(3)).max(self.low.len()) => {
                self.reach(at);
                self.low.get_mut(at).and_then(|place| place.replace(value))
            }
            _ => self.high.insert(fd.0, value),
        };
        self.taken += usize::from(old.is_none());
        old
    }

    /// Makes a place in `low`, and moves there what now belongs there.
    #[inline]
    fn reach(&mut self, at: usize) {
        let from = self.low.len();
        if at < from {
            return;
        }
        self.low.resize(at + 1, None);
        if !self.high.is_empty() {
            for (fd, place) in (0..).zip(&mut self.low).skip(from) {
                *place = self.high.remove(&fd);
            }
        }
    }

    /// Takes a descriptor away; returns what it stood for.
    #[inline]
    pub fn remove(&mut self, fd: Fd) -> Option<T> {
        let old = match usize::try_from(fd.0) {
            Ok(at) if at < self.low.len() => self.low.get_mut(at)?.take(),
            _ => self.high.remove(&fd.0),
        };
        self.taken -= usize::from(old.is_some());
        old
    }

    /// Every descriptor, in order.
    pub fn in_order(&self) -> Vec<(Fd, T)> {
        let mut high: Vec<(Fd, T)> = self.high.iter().map(|(&fd, &v)| (Fd(fd), v)).collect();
        high.sort_unstable_by_key(|(fd, _)| *fd);
        let negative = high.partition_point(|(fd, _)| fd.0 < 0);
        let low = (0..).zip(&self.low);
        let low = low.filter_map(|(fd, value)| Some((Fd(fd), (*value)?)));
        high.splice(negative..negative, low);
        high
    }

    /// What all of them stand for, in no order.
    pub fn values(&self) -> impl Iterator<Item = T> {
        let low = self.low.iter().copied().flatten();
        low.chain(self.high.values().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_far_descriptor_costs_no_more_than_a_near_one() {
        let mut fds = Fds::default();
        for fd in [63, 189, 567, 4000, 100_000, i32::MAX, i32::MIN, -1] {
            fds.insert(Fd(fd), fd);
        }
        assert!(fds.low.len() <= 2 * LOW);
        for fd in 0..10_000 {
            fds.insert(Fd(fd), fd);
        }
        assert!(fds.high.len() <= 4, "ordinary ones have a place");
        let order: Vec<i32> = fds.in_order().iter().map(|(fd, _)| fd.0).collect();
        assert!(order.is_sorted() && order.len() == fds.len());
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..3u8, -2..400i32, 0..4u8), 0..600)) {
            let (mut fds, mut map) = (Fds::default(), BTreeMap::new());
            for (what, fd, far) in steps {
                let fd = Fd(if far == 0 { fd.wrapping_mul(7_919) } else { fd / i32::from(far) });
                if what == 0 {
                    prop_assert_eq!(fds.remove(fd), map.remove(&fd));
                } else {
                    prop_assert_eq!(fds.insert(fd, fd.0), map.insert(fd, fd.0));
                }
                prop_assert_eq!(fds.get(fd), map.get(&fd).copied());
                prop_assert_eq!(fds.get_mut(fd).copied(), map.get(&fd).copied());
                prop_assert_eq!(fds.len(), map.len());
            }
            prop_assert_eq!(fds.values().count(), map.len());
            prop_assert_eq!(fds.in_order(), map.into_iter().collect::<Vec<_>>());
        }
    }
}

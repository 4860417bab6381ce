//! The page cache against a model that searches lists, and on scans whose misses are known.

use fsage_cache::{PageCache, PageState, Policy, Start, WriteBack};
use proptest::prelude::*;

fn cache(policy: Policy, pages: u64) -> PageCache {
    PageCache::new(policy, Some(pages), Start::Cold, WriteBack::default())
}

/// Plain LRU as a vector; the end is the newest.
#[derive(Default)]
struct SlowLru(Vec<(u32, u64)>);

impl SlowLru {
    fn read(&mut self, key: (u32, u64), capacity: usize) -> bool {
        let found = self
            .0
            .iter()
            .position(|&k| k == key)
            .map(|i| self.0.remove(i));
        if found.is_none() && self.0.len() == capacity {
            self.0.remove(0);
        }
        self.0.push(key);
        found.is_some()
    }
}

/// The two lists of Linux as vectors; the end is the newest.
#[derive(Default)]
struct SlowLinux {
    inactive: Vec<((u32, u64), bool)>,
    active: Vec<((u32, u64), bool)>,
    gone: std::collections::HashMap<(u32, u64), usize>,
    age: usize,
}

impl SlowLinux {
    fn read(&mut self, key: (u32, u64), capacity: usize) -> bool {
        if let Some(page) = self.active.iter_mut().find(|p| p.0 == key) {
            page.1 = true;
            return true;
        }
        if let Some(i) = self.inactive.iter().position(|p| p.0 == key) {
            if self.inactive[i].1 {
                self.inactive.remove(i);
                self.active.push((key, false));
                self.age += 1;
            } else {
                self.inactive[i].1 = true;
            }
            return true;
        }
        let near = self
            .gone
            .get(&key)
            .is_some_and(|&at| self.age - at <= self.active.len());
        if near {
            self.age += 1;
        }
        while self.inactive.len() + self.active.len() >= capacity {
            while self.inactive.len() < self.active.len() {
                let page = self.active.remove(0);
                self.inactive.push(page);
            }
            let (victim, _) = self.inactive.remove(0);
            self.gone.insert(victim, self.age);
            self.age += 1;
        }
        if near {
            self.active.push((key, false));
        } else {
            self.inactive.push((key, true));
        }
        false
    }
}

proptest! {
    #[test]
    fn both_policies_agree_with_searched_lists(
        capacity in 1u64..12,
        reads in prop::collection::vec((0u32..3, 0u64..10), 0..400),
    ) {
        let mut lru = cache(Policy::Lru, capacity);
        let mut linux = cache(Policy::Linux, capacity);
        let (mut slow_lru, mut slow_linux) = (SlowLru::default(), SlowLinux::default());
        for (file, page) in reads {
            let hit = |state| !matches!(state, PageState::Absent);
            prop_assert_eq!(hit(lru.read(file, page, false)), slow_lru.read((file, page), capacity as usize));
            prop_assert_eq!(hit(linux.read(file, page, false)), slow_linux.read((file, page), capacity as usize));
            prop_assert_eq!(linux.len(), slow_linux.active.len() + slow_linux.inactive.len());
        }
    }

    #[test]
    fn dirty_pages_are_counted_whatever_happens(
        steps in prop::collection::vec((0u8..6, 0u32..3, 0u64..9, 0u64..100), 0..300),
        linux in any::<bool>(),
    ) {
        let policy = if linux { Policy::Linux } else { Policy::Lru };
        let mut cache = cache(policy, 6);
        for (what, file, page, seconds) in steps {
            match what {
                0 | 1 => { cache.write(file, page, 1, seconds * 1_000_000_000); }
                2 => { cache.read(file, page, false); }
                3 => { cache.clean(file); }
                4 => cache.cut(file, page),
                _ => { cache.expire(seconds * 1_000_000_000, |_| {}); }
            }
            let dirty: u64 = (0..3).map(|f| cache.dirty_pages(f)).sum();
            let seen = (0..3)
                .flat_map(|f| (0..9).map(move |p| (f, p)))
                .filter(|&(f, p)| matches!(cache.peek(f, p), PageState::Dirty(_)))
                .count() as u64;
            prop_assert_eq!(dirty, seen);
            let c = cache.counts();
            prop_assert_eq!(c.dirtied, c.written + c.cancelled + dirty);
            prop_assert!(cache.len() <= 6);
        }
    }
}

/// Measured in a memory cgroup of 256 MiB: cycling through 240 MiB never misses after the first
/// pass, through 256 MiB and more it always does.
#[test]
fn a_cyclic_scan_falls_off_a_cliff() {
    for policy in [Policy::Lru, Policy::Linux] {
        for (pages, misses) in [(960, 960), (1024, 1024), (1025, 3 * 1025)] {
            let mut cache = cache(policy, 1024);
            for _ in 0..3 {
                (0..pages).for_each(|p| {
                    cache.read(0, p, false);
                });
            }
            assert_eq!(cache.counts().misses, misses, "{policy:?} {pages}");
        }
    }
}

/// Measured: uniform random reads over N MiB miss 1 - 254/N of the time, within 0.005.
#[test]
fn random_reads_miss_by_the_share_that_does_not_fit() {
    for policy in [Policy::Lru, Policy::Linux] {
        let (held, all) = (2540u64, 5120u64);
        let mut cache = cache(policy, held);
        let mut state = 1u64;
        let mut run = |cache: &mut PageCache, count: u32| {
            let before = cache.counts().misses;
            for _ in 0..count {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                cache.read(0, (state >> 33) % all, false);
            }
            (cache.counts().misses - before) as f64 / f64::from(count)
        };
        run(&mut cache, 100_000);
        let missed = run(&mut cache, 400_000);
        let expected = 1.0 - held as f64 / all as f64;
        assert!(
            (missed - expected).abs() < 0.005,
            "{policy:?}: {missed} instead of {expected}"
        );
    }
}

/// Measured in the same cgroup: 100 MiB read once are lost to a scan of 1 GiB, read twice they stay.
#[test]
fn pages_read_twice_survive_a_scan_under_linux_only() {
    let lost = |policy, times| {
        let mut cache = cache(policy, 256 * 10);
        for _ in 0..times {
            (0..1000).for_each(|p| {
                cache.read(0, p, false);
            });
        }
        (0..10_240).for_each(|p| {
            cache.read(1, p, false);
        });
        (0..1000)
            .filter(|&p| cache.peek(0, p) == PageState::Absent)
            .count()
    };
    assert_eq!(lost(Policy::Linux, 1), 1000);
    assert_eq!(lost(Policy::Linux, 2), 0);
    assert_eq!(lost(Policy::Lru, 2), 1000);
}

#[test]
fn dirty_pages_go_after_thirty_seconds_and_the_next_round_of_the_flusher() {
    let second = 1_000_000_000;
    let mut cache = cache(Policy::Linux, 100);
    cache.write(3, 0, 7, second);
    cache.write(3, 1, 7, 20 * second);
    assert_eq!(cache.peek(3, 1), PageState::Dirty(7));
    assert_eq!(cache.expire(34 * second, |_| {}), 0);
    let mut files = Vec::new();
    assert_eq!(cache.expire(35 * second, |f| files.push(f)), 2);
    assert_eq!((files, cache.dirty_pages(3)), (vec![3], 0));
    assert_eq!(cache.peek(3, 0), PageState::Clean);
}

/// Runs are counted as pages become dirty, in any order, and as a range of them is written.
#[test]
fn dirty_pages_lie_in_runs_and_a_range_of_them_is_written() {
    let mut cache = cache(Policy::Linux, 100);
    for page in [9, 2, 0, 1, 5, 7, 6, 6] {
        cache.write(3, page, 7, 0);
    }
    assert_eq!((cache.dirty_pages(3), cache.dirty_runs(3)), (7, 3));
    assert_eq!(cache.clean_range(3, 1, 3), (2, Some(1)));
    assert_eq!((cache.dirty_pages(3), cache.dirty_runs(3)), (5, 3));
    let states = [0, 1].map(|page| cache.peek(3, page));
    assert_eq!(states, [PageState::Dirty(7), PageState::Clean]);
    assert_eq!(cache.clean_range(3, 6, 7), (1, Some(6)));
    assert_eq!(cache.dirty_runs(3), 4);
    cache.cut(3, 7);
    assert_eq!((cache.dirty_pages(3), cache.dirty_runs(3)), (2, 2));
    assert_eq!(cache.clean_range(3, 0, u64::MAX), (2, Some(0)));
    assert_eq!((cache.clean(3), cache.dirty_runs(3)), (0, 0));
    assert_eq!(cache.counts().written, 5);
    // What becomes dirty again has its own time.
    cache.write(3, 0, 7, 40_000_000_000);
    assert_eq!(cache.expire(60_000_000_000, |_| {}), 0);
}

#[test]
fn made_cold_everything_is_written_and_absent_but_what_is_kept() {
    let mut cache = PageCache::new(Policy::Linux, Some(100), Start::Warm, WriteBack::default());
    cache.write(1, 0, 7, 0);
    cache.read(2, 0, false);
    cache.make_cold(|file| file == 2);
    assert_eq!((cache.counts().written, cache.dirty_pages(1)), (1, 0));
    let states = [(1, 0), (1, 1), (2, 0), (3, 0)].map(|(file, page)| cache.peek(file, page));
    let absent = PageState::Absent;
    assert_eq!(states, [absent, absent, PageState::Clean, absent]);
    assert_eq!(cache.len(), 1);
}

/// What is dropped on demand leaves no shadow: once it is back, it is as new, and goes before what was used.
#[test]
fn what_was_dropped_comes_back_as_something_new() {
    let mut cache = cache(Policy::Linux, 4);
    for file in [1, 1, 1, 2] {
        cache.read(file, 0, false);
    }
    cache.drop_clean(2, (0, u64::MAX));
    for file in 2..8 {
        cache.read(file, 0, false);
    }
    let there = |file| cache.peek(file, 0) != PageState::Absent;
    assert_eq!((there(1), there(2)), (true, false));
}

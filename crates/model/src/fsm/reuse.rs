//! How soon pages are used again: the hits of caches of every size at once (Mattson 1970), in memory that does not grow
//! with the pages (Waldspurger 2015, SHARDS of fixed size).

use rustc_hash::FxHashSet;

use super::recency::Recency;

/// What a page has.
pub const PAGE_BYTES: u64 = 4096;

/// Pages of one request that are looked at: no call moves more.
const REQUEST_PAGES: u64 = 1 << 19;

/// So many pages are followed, each of them; of more every second one, every fourth and so on.
const FOLLOWED: usize = 1 << 19;

/// A page: its file and its number in it.
type Page = (u32, u64);

/// What is known of page accesses.
#[derive(Debug)]
pub struct Reuse {
    pages: Recency<Page>,
    /// Those used since [`Reuse::next_window`].
    window: FxHashSet<Page>,
    /// How many page accesses had so many other followed pages since the last; each stands for `2^halvings`.
    distances: Vec<u64>,
    /// All page accesses.
    accesses: u64,
    /// Those that the followed ones stand for.
    stood_for: u64,
    halvings: u32,
    most: usize,
}

impl Default for Reuse {
    fn default() -> Self {
        Self::of_at_most(FOLLOWED)
    }
}

/// The same for a page every time, and as good as random (the finalizer of SplitMix64; Steele 2014).
fn hash((file, page): Page) -> u64 {
    let mut z = page ^ u64::from(file).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn is_followed(page: Page, halvings: u32) -> bool {
    hash(page).trailing_zeros() >= halvings
}

impl Reuse {
    /// One that follows at most so many pages.
    pub fn of_at_most(most: usize) -> Self {
        Self {
            pages: Recency::default(),
            window: FxHashSet::default(),
            distances: Vec::new(),
            accesses: 0,
            stood_for: 0,
            halvings: 0,
            most: most.max(2),
        }
    }

    /// An access to so many bytes of a file.
    pub fn take(&mut self, file: u32, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let first = offset / PAGE_BYTES;
        let last = (offset.saturating_add(bytes) - 1) / PAGE_BYTES;
        for page in first..=last.min(first.saturating_add(REQUEST_PAGES)) {
            self.accesses = self.accesses.saturating_add(1);
            self.touch((file, page));
        }
    }

    fn touch(&mut self, page: Page) {
        if !is_followed(page, self.halvings) {
            return;
        }
        let weight = 1 << self.halvings;
        self.stood_for = self.stood_for.saturating_add(weight);
        self.window.insert(page);
        if let Some(distance) = self.pages.distance(&page) {
            if distance >= self.distances.len() {
                self.distances.resize(distance + 1, 0);
            }
            if let Some(n) = self.distances.get_mut(distance) {
                *n = n.saturating_add(weight);
            }
        }
        self.pages.touch(page);
        if self.pages.len() > self.most {
            self.halve();
        }
    }

    /// Follows every second page of those that are followed.
    fn halve(&mut self) {
        self.halvings += 1;
        let halvings = self.halvings;
        self.pages.retain(|&page| is_followed(page, halvings));
        self.window.retain(|&page| is_followed(page, halvings));
        let pairs = self.distances.chunks(2);
        self.distances = pairs
            .map(|pair| pair.iter().fold(0, |sum: u64, n| sum.saturating_add(*n)))
            .collect();
    }

    /// Page accesses.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Distinct pages.
    pub fn footprint(&self) -> usize {
        self.pages.len() << self.halvings
    }

    /// Distinct pages used since this was asked last.
    pub fn next_window(&mut self) -> usize {
        let used = self.window.len() << self.halvings;
        self.window.clear();
        used
    }

    /// Of the pages, what share is followed.
    pub fn followed(&self) -> f64 {
        0.5_f64.powi(self.halvings.min(1000).cast_signed())
    }

    /// What share of page accesses a cache of so many pages has, as it goes by the last use.
    pub fn hits(&self, pages: usize) -> f64 {
        let hits: u64 = self.distances.iter().take(pages >> self.halvings).sum();
        hits as f64 / self.stood_for.max(1) as f64
    }
}

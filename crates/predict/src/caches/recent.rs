//! Which files were touched recently, as far as processors' caches remember.

use std::collections::VecDeque;
use std::hint::black_box;

/// What a core's own caches hold: 1 to 2 MiB on processors of servers.
const OWN_BYTES: u64 = 2 << 20;
/// What is surely held by a cache that cores share.
const SHARED_BYTES: u64 = 16 << 20;
/// Dentry, inode and what leads to a file's pages: about 20 lines of 64 bytes.
const FILE_BYTES: u64 = 1280;

/// When a file was touched before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touched {
    /// Its lines are among the last of a core's own caches.
    Recently,
    /// Among those of a shared one.
    AWhileAgo,
    /// Neither, or never.
    LongAgo,
}

/// The files that were touched, the latest first, as far as caches hold them.
#[derive(Debug, Clone)]
pub(super) struct Recent {
    own: Held,
    shared: Held,
    now: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            own: Held::of(OWN_BYTES),
            shared: Held::of(SHARED_BYTES),
            now: usize::MAX,
        }
    }
}

impl Recent {
    /// Touches a file and `bytes` of the `size` that it holds. When it was touched before.
    #[inline]
    pub fn touch(&mut self, file: usize, bytes: u64, size: u64) -> Touched {
        if self.now == file {
            if bytes > 0 {
                self.own.touch(file, bytes, size);
                self.shared.touch(file, bytes, size);
            }
            return Touched::Recently;
        }
        self.now = file;
        let own = self.own.touch(file, bytes, size);
        let shared = self.shared.touch(file, bytes, size);
        match (own, shared) {
            (true, _) => Touched::Recently,
            (_, true) => Touched::AWhileAgo,
            _ => Touched::LongAgo,
        }
    }

    /// Touches what is known of the files that were touched longest ago.
    pub fn touch_oldest(&self) {
        for held in [&self.own, &self.shared] {
            for &(file, _) in held.touches.iter().take(OLDEST) {
                black_box(held.files.get(file as usize).map(|f| f.bytes));
            }
        }
    }

    /// Touches what is known of a file that is to come.
    #[inline]
    pub fn touch_ahead(&self, file: usize) {
        black_box(self.own.files.get(file).map(|f| f.bytes));
        black_box(self.shared.files.get(file).map(|f| f.bytes));
    }
}

/// Touches that are gone past before long.
const OLDEST: usize = 32;

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// 0 for a file that is not held.
    bytes: u32,
    /// The number of its last touch.
    touched: u32,
}

/// Touches that are no file's last may be kept so many beyond as many as there are files.
const STALE: usize = 1024;

/// Files by their last touch, up to so many bytes. A touch is noted behind all others and the one before it stays: to
/// take that out would ask memory for its neighbours.
#[derive(Debug, Clone)]
struct Held {
    most: u64,
    bytes: u64,
    files: Vec<Slot>,
    /// Files that are held.
    count: usize,
    /// Files and numbers of touches, in order; a file is where its last touch is.
    touches: VecDeque<(u32, u32)>,
    number: u32,
}

impl Held {
    fn of(most: u64) -> Self {
        Self {
            most,
            bytes: 0,
            files: Vec::new(),
            count: 0,
            touches: VecDeque::new(),
            number: 0,
        }
    }

    /// Whether the file was held; it is after this, as the latest.
    fn touch(&mut self, file: usize, bytes: u64, size: u64) -> bool {
        let Ok(index) = u32::try_from(file) else {
            return false;
        };
        if file >= self.files.len() {
            let places = (file + 1).next_power_of_two();
            self.files.resize(places, Slot::default());
        }
        self.number = self.number.wrapping_add(1);
        let Some(slot) = self.files.get_mut(file) else {
            return false;
        };
        let had = u64::from(slot.bytes);
        // What is moved again lies where it lay.
        let all = size.max(bytes).saturating_add(FILE_BYTES);
        let weight = had.max(FILE_BYTES).saturating_add(bytes).min(all);
        let weight = weight.min(self.most).min(u64::from(u32::MAX));
        *slot = Slot {
            bytes: weight as u32,
            touched: self.number,
        };
        self.bytes = self.bytes - had + weight;
        self.count += usize::from(had == 0);
        match self.touches.back_mut() {
            Some(last) if last.0 == index => last.1 = self.number,
            _ => self.touches.push_back((index, self.number)),
        }
        while self.bytes > self.most && self.forget_oldest(index) {}
        if self.touches.len() > 2 * self.count + STALE {
            let files = &self.files;
            let is_last = |&(file, number): &(u32, u32)| {
                let slot = files.get(file as usize);
                slot.is_some_and(|s| s.bytes > 0 && s.touched == number)
            };
            self.touches.retain(is_last);
        }
        had > 0
    }

    /// Goes past the oldest touch, and lets go of its file if it has none after that; `false` if it is `kept`, which has no
    /// other before it.
    fn forget_oldest(&mut self, kept: u32) -> bool {
        let Some(&(file, number)) = self.touches.front() else {
            return false;
        };
        let slot = self.files.get_mut(file as usize);
        if let Some(slot) = slot.filter(|s| s.bytes > 0 && s.touched == number) {
            if file == kept {
                return false;
            }
            self.bytes -= u64::from(std::mem::take(&mut slot.bytes));
            self.count -= 1;
        }
        self.touches.pop_front();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_forgotten_after_many_others() {
        let mut recent = Recent::default();
        assert_eq!(recent.touch(1, 0, 0), Touched::LongAgo);
        assert_eq!(recent.touch(1, 0, 0), Touched::Recently);
        let others = (OWN_BYTES / FILE_BYTES) as usize;
        for other in 2..=others {
            assert_eq!(recent.touch(other, 0, 0), Touched::LongAgo);
        }
        assert_eq!(recent.touch(1, 0, 0), Touched::Recently, "as many as fit");
        for other in 2..=others + 2 {
            recent.touch(other, 0, 0);
        }
        assert_eq!(recent.touch(1, 0, 0), Touched::AWhileAgo);
        for other in 2..=(SHARED_BYTES / FILE_BYTES) as usize + 2 {
            recent.touch(other, 0, 0);
        }
        assert_eq!(recent.touch(1, 0, 0), Touched::LongAgo);
    }

    #[test]
    fn the_same_few_files_forget_nothing_and_what_is_read_counts() {
        let mut recent = Recent::default();
        recent.touch(1, 0, 0);
        for turn in 0..100_000 {
            recent.touch(2 + turn % 10, 0, 0);
        }
        for turn in 0..100_000 {
            recent.touch(2 + turn % 10, 4096, 4096);
        }
        assert_eq!(recent.touch(1, 0, 0), Touched::Recently, "the same pages");
        recent.touch(2, OWN_BYTES, OWN_BYTES);
        assert_eq!(recent.touch(1, 0, 0), Touched::AWhileAgo);
        recent.touch(2, u64::MAX / 2, 0);
        assert_eq!(recent.touch(1, 0, 0), Touched::LongAgo);
    }

    /// By a list that is searched.
    #[test]
    fn it_is_a_list_by_last_touch() {
        let (mut held, mut list) = (Held::of(100_000), Vec::<(usize, u64)>::new());
        let mut random = 1u64;
        for turn in 0..200_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Few files for a while, so that many touches are no file's last.
            let among = if turn % 20_000 < 10_000 { 200 } else { 5 };
            let file = (random >> 33) % among;
            let (bytes, size) = ((random >> 20) % 9000, (random >> 10) % 20_000);
            let file = file as usize;
            let found = list.iter().position(|&(f, _)| f == file);
            let had = found.map_or(0, |at| list.remove(at).1);
            let all = size.max(bytes) + FILE_BYTES;
            list.push((file, (had.max(FILE_BYTES) + bytes).min(all)));
            let sum = |list: &[(usize, u64)]| list.iter().map(|&(_, b)| b).sum::<u64>();
            while sum(&list) > 100_000 && list.len() > 1 {
                list.remove(0);
            }
            assert_eq!(held.touch(file, bytes, size), found.is_some(), "{turn}");
            assert_eq!((held.bytes, held.count), (sum(&list), list.len()), "{turn}");
            assert!(held.touches.len() <= 2 * held.count + STALE);
        }
    }
}

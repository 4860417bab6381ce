//! Which files were touched recently, as far as processors' caches remember.

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
}

/// Nobody.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    /// 0 for a file that is not held.
    bytes: u32,
}

/// Files by their last touch, up to so many bytes.
#[derive(Debug, Clone)]
struct Held {
    most: u64,
    bytes: u64,
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Held {
    fn of(most: u64) -> Self {
        Self {
            most,
            bytes: 0,
            links: Vec::new(),
            first: NONE,
            last: NONE,
        }
    }

    /// Whether the file was held; it is after this, as the first.
    fn touch(&mut self, file: usize, bytes: u64, size: u64) -> bool {
        let Ok(index) = u32::try_from(file) else {
            return false;
        };
        if file >= self.links.len() {
            let none = Link {
                before: NONE,
                after: NONE,
                bytes: 0,
            };
            self.links.resize((file + 1).next_power_of_two(), none);
        }
        let had = self.links.get(file).map_or(0, |l| l.bytes);
        if had > 0 {
            self.unlink(index);
        }
        // What is moved again lies where it lay.
        let all = size.max(bytes).saturating_add(FILE_BYTES);
        let weight = u64::from(had)
            .max(FILE_BYTES)
            .saturating_add(bytes)
            .min(all);
        let weight = weight.min(self.most).min(u64::from(u32::MAX)) as u32;
        self.bytes = self.bytes - u64::from(had) + u64::from(weight);
        let first = std::mem::replace(&mut self.first, index);
        if let Some(link) = self.links.get_mut(file) {
            *link = Link {
                before: NONE,
                after: first,
                bytes: weight,
            };
        }
        match self.links.get_mut(first as usize) {
            Some(link) => link.before = index,
            None => self.last = index,
        }
        while self.bytes > self.most && self.last != index {
            let last = self.last;
            self.unlink(last);
            if let Some(link) = self.links.get_mut(last as usize) {
                self.bytes -= u64::from(std::mem::take(&mut link.bytes));
            }
        }
        had > 0
    }

    fn unlink(&mut self, index: u32) {
        let Some(&Link { before, after, .. }) = self.links.get(index as usize) else {
            return;
        };
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.last = before,
        }
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
}

//! Which files were touched recently, as far as the processor's caches remember.

/// Files whose dentry and inode stay in a processor's second-level cache: about 20 lines of 64 bytes
/// each, beside data.
const HELD: u64 = 256;

/// Files that stay, with some KiB of their data, in a cache of tens of MiB that cores share.
const SHARED: u64 = 4096;

/// When a file was touched before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touched {
    /// Within the last [`HELD`] changes of file.
    Recently,
    /// Within the last [`SHARED`].
    AWhileAgo,
    /// Longer ago, or never.
    LongAgo,
}

/// Touches of files, counted where the file changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// By file: the count at its last touch; 0 for never.
    last: Vec<u64>,
    count: u64,
    now: usize,
}

impl Recent {
    /// Touches a file. When it was touched before.
    #[inline]
    pub fn touch(&mut self, file: usize) -> Touched {
        if file >= self.last.len() {
            self.last.resize((file + 1).next_power_of_two(), 0);
        }
        if self.now != file || self.count == 0 {
            self.count += 1;
            self.now = file;
        }
        let Some(last) = self.last.get_mut(file) else {
            return Touched::LongAgo;
        };
        let before = std::mem::replace(last, self.count);
        match self.count - before {
            _ if before == 0 => Touched::LongAgo,
            changes if changes <= HELD + 1 => Touched::Recently,
            changes if changes <= SHARED + 1 => Touched::AWhileAgo,
            _ => Touched::LongAgo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_forgotten_after_many_others() {
        let mut recent = Recent::default();
        assert_eq!(recent.touch(1), Touched::LongAgo);
        assert_eq!(recent.touch(1), Touched::Recently);
        for other in 2..=257 {
            assert_eq!(recent.touch(other), Touched::LongAgo);
        }
        assert_eq!(recent.touch(1), Touched::Recently, "256 others beside it");
        for other in 300..=557 {
            recent.touch(other);
        }
        assert_eq!(recent.touch(1), Touched::AWhileAgo);
        for other in 600..=4700 {
            recent.touch(other);
        }
        assert_eq!(recent.touch(1), Touched::LongAgo);
    }
}

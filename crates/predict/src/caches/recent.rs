//! Which files were touched recently, as far as the processor's caches remember.

/// Files whose dentry and inode stay in a processor's second-level cache: about 20 lines of 64 bytes
/// each, beside data.
const HELD: u64 = 256;

/// Touches of files, counted where the file changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// By file: the count at its last touch; 0 for never.
    last: Vec<u64>,
    count: u64,
    now: usize,
}

impl Recent {
    /// Touches a file. Whether it was touched within the last [`HELD`] changes of file.
    #[inline]
    pub fn touch(&mut self, file: usize) -> bool {
        if file >= self.last.len() {
            self.last.resize((file + 1).next_power_of_two(), 0);
        }
        if self.now != file || self.count == 0 {
            self.count += 1;
            self.now = file;
        }
        let Some(last) = self.last.get_mut(file) else {
            return false;
        };
        let before = std::mem::replace(last, self.count);
        before > 0 && self.count - before <= HELD + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_forgotten_after_many_others() {
        let mut recent = Recent::default();
        assert!(!recent.touch(1));
        assert!(recent.touch(1));
        for other in 2..=257 {
            assert!(!recent.touch(other));
        }
        assert!(recent.touch(1), "256 others are held beside it");
        for other in 300..=557 {
            recent.touch(other);
        }
        assert!(!recent.touch(1));
    }
}

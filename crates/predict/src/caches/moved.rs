//! Which data was moved a moment ago, so that a processor's own caches hold it: a read of it copies from there.

use std::ops::RangeInclusive;

use crate::namespace::tree::Ino;

/// What passes through a core's own caches before data has left them: half of what they hold on processors of servers, as
/// a program's own work takes its part.
const HELD_BYTES: u64 = 1 << 20;
/// Pages that are remembered, several times as many as are held: two may want one place.
const PLACES: usize = 1 << 11;
/// Of a call no more pages are remembered: what larger ones move drives itself out.
const MOST_PAGES: usize = 16;

/// Pages and how much had been moved when each was last.
#[derive(Debug, Clone)]
pub(super) struct Moved {
    places: Box<[(u64, u64)]>,
    moved_bytes: u64,
}

impl Default for Moved {
    fn default() -> Self {
        Self {
            places: vec![(u64::MAX, 0); PLACES].into_boxed_slice(),
            moved_bytes: 0,
        }
    }
}

impl Moved {
    /// A call moves so many bytes of these pages of a file. Whether the first of them was moved a moment ago.
    #[inline]
    pub fn touch(&mut self, ino: Ino, pages: RangeInclusive<u64>, bytes: u64) -> bool {
        let (now, mut hot) = (self.moved_bytes, false);
        let first = *pages.start();
        for page in pages.take(MOST_PAGES) {
            let key = u64::from(ino.0) << 40 ^ page;
            let place = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.ilog2());
            let Some(held) = self.places.get_mut(place as usize) else {
                continue;
            };
            hot |= page == first && held.0 == key && now - held.1 < HELD_BYTES;
            *held = (key, now);
        }
        self.moved_bytes += bytes;
        hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_moved_a_moment_ago_is_hot() {
        let mut moved = Moved::default();
        let mut touch = |ino, page, bytes| moved.touch(Ino(ino), page..=page, bytes);
        assert!(!touch(1, 0, 4096));
        assert!(touch(1, 0, 4096));
        assert!(!touch(2, 0, 4096) && !touch(1, 1, 4096));
        assert!(touch(1, 0, 4096));
        // What passes through drives it out.
        assert!(!touch(3, 0, 1 << 20));
        assert!(!touch(1, 0, 4096));
    }
}

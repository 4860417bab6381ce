//! What the kernel brings in before it is asked for.

use fsage_cache::PAGE_BYTES;

use super::{Passing, View};
use crate::namespace::process::OpenId;
use crate::namespace::tree::Ino;

impl View {
    /// Brings in what a reader who goes on will ask for next, of pages `first` to `last` that it read now.
    #[inline]
    pub(super) fn read_ahead(
        &mut self,
        step: &Passing<'_>,
        ino: Ino,
        (open, serial): (OpenId, u32),
        first: u64,
        last: u64,
        missed: bool,
    ) {
        let most = self.sizes.read_ahead;
        let Some(mut stream) = self.stream(open, serial).copied() else {
            return;
        };
        // Who said so (fadvise) gets what it asks for.
        let most = if stream.goes_anywhere { 0 } else { most };
        let history = || self.pages.history(ino.0, first, most);
        let ahead = stream.read((first, last), missed, most, history);
        if let Some(kept) = self.stream(open, serial) {
            *kept = stream;
        }
        if ahead.is_empty() {
            return;
        }
        let size = step.ns.tree.inode(ino).map_or(0, |n| n.size);
        let end = ahead.end.min(size.div_ceil(PAGE_BYTES));
        let mut came = false;
        for page in ahead.start..end {
            if self.holds_data(step, ino, page) && self.pages.prefetch(ino.0, page) {
                self.misses(page);
                came = true;
            }
        }
        if came {
            self.came_together(ino, 0, most);
        }
    }
}

//! Requests one by one, for a device whose arm has to move and that reads nothing ahead by itself: what an operation
//! asks of it depends on where each piece of a file lies, and what it takes on who else asks meanwhile.

use fsage_cache::PAGE_BYTES;

use super::{Passing, View};
use crate::arm::Ask;
use crate::namespace::tree::Ino;

impl View {
    /// The operation comes to pages of a file, some of which may be on their way for another.
    pub(super) fn comes_to(&mut self, ino: Ino, pages: std::ops::RangeInclusive<u64>) {
        if self.sizes.arm_alone {
            self.asks.comes_to = Some((ino.0, *pages.start(), pages.end().saturating_add(1)));
        }
    }

    /// A page has to be read.
    #[inline]
    pub(super) fn misses(&mut self, page: u64) {
        if self.sizes.arm_alone {
            self.missed.push(page);
        }
    }

    /// Asks for the pages that were missed, for each run of them that lies together on the device; `waits`: until they are
    /// there.
    pub(super) fn ask_missed(&mut self, step: &Passing<'_>, ino: Ino, waits: bool) {
        let pages = std::mem::take(&mut self.missed);
        let placed = self.placed(step, ino);
        for &page in &pages {
            let block = self.block_of_page(step, placed, page);
            let all = &mut self.asks.all;
            let last = all.last_mut().filter(|ask| {
                let behind = ask.block.map(|first| first + ask.pages);
                ask.first + ask.pages == page && behind == block && ask.waits == waits
            });
            match last {
                Some(ask) => ask.pages += 1,
                None => all.push(Ask {
                    write: false,
                    waits,
                    block,
                    pages: 1,
                    file: ino.0,
                    first: page,
                }),
            }
        }
        self.missed = pages;
        self.missed.clear();
    }

    /// A file's pages are written, and the operation waits.
    pub(super) fn ask_write(&mut self, ino: Ino, block: Option<u64>, (first, pages): (u64, u64)) {
        self.asks.all.push(Ask {
            write: true,
            waits: true,
            block,
            pages,
            file: ino.0,
            first,
        });
    }

    /// Where a page lies, in pages: as it was written, or where the trace found it.
    fn block_of_page(&mut self, step: &Passing<'_>, ino: Ino, page: u64) -> Option<u64> {
        let given = self.rooms.given(ino, page);
        given.or_else(|| {
            let file = self.file(step, ino)?;
            Some(file.byte(page.saturating_mul(PAGE_BYTES))? / PAGE_BYTES)
        })
    }
}

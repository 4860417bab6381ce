//! Requests one by one, for a device whose arm has to move and that reads nothing ahead by itself: what an operation
//! asks of it depends on where each piece of a file lies, and what it takes on who else asks meanwhile.

use fsage_cache::PAGE_BYTES;

use super::{Passing, View};
use crate::arm::{Ask, Step};
use crate::namespace::tree::Ino;

/// Where blocks of directories and of inodes are taken to lie, in pages: far from each other and from data.
const DIRECTORIES: u64 = 1 << 48;
const INODES: u64 = 1 << 60;
/// A directory's blocks lie together, and far from another's.
const OF_DIRECTORY: u64 = 1 << 20;
/// What inodes are of, which is no file.
const TABLE: u32 = u32::MAX - 1;

impl View {
    /// Comes to a block of a directory, which is in memory or not.
    pub(super) fn comes_to_names(&mut self, dir: Ino, block: u64, there: bool) {
        let place = DIRECTORIES + u64::from(dir.0) * OF_DIRECTORY + block;
        self.comes_to_block((dir.0, block), place, there);
    }

    /// The same of a block of inodes.
    pub(super) fn comes_to_inodes(&mut self, stretch: u64, there: bool) {
        self.comes_to_block((TABLE, stretch), INODES.saturating_add(stretch), there);
    }

    fn comes_to_block(&mut self, (file, page): (u32, u64), block: u64, there: bool) {
        if !self.sizes.arm_alone {
            return;
        }
        self.asks.names = true;
        self.asks.all.push(if there {
            Step::Comes(file, page, page.saturating_add(1))
        } else {
            Step::Asks(Ask {
                write: false,
                waits: true,
                block: Some(block),
                pages: 1,
                file,
                first: page,
            })
        });
    }

    /// The operation comes to pages of a file, some of which may be on their way for another.
    pub(super) fn comes_to(&mut self, ino: Ino, pages: std::ops::RangeInclusive<u64>) {
        if self.sizes.arm_alone {
            let end = pages.end().saturating_add(1);
            self.asks.all.push(Step::Comes(ino.0, *pages.start(), end));
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
            if let Some(Step::Asks(ask)) = all.last_mut()
                && ask.goes_on_in((ino.0, page), block, waits)
            {
                ask.pages += 1;
            } else {
                all.push(Step::Asks(Ask {
                    write: false,
                    waits,
                    block,
                    pages: 1,
                    file: ino.0,
                    first: page,
                }));
            }
        }
        self.missed = pages;
        self.missed.clear();
    }

    /// A file's pages are written, and the operation waits.
    pub(super) fn ask_write(&mut self, ino: Ino, block: Option<u64>, (first, pages): (u64, u64)) {
        self.asks.all.push(Step::Asks(Ask {
            write: true,
            waits: true,
            block,
            pages,
            file: ino.0,
            first,
        }));
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

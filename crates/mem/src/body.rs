//! What a file holds: pages where something was written, and where each lies on the device.

use std::hash::Hasher;
use std::sync::Arc;

use fsage_core::Piece;
use rustc_hash::{FxHashMap, FxHasher};

/// Bytes of a page and of a block.
pub(crate) const PAGE: u64 = fsage_cache::PAGE_BYTES;
const PAGE_LEN: usize = PAGE as usize;

/// One page that has room on the device.
#[derive(Debug)]
struct Page {
    block: u64,
    /// `None`: room that was reserved and never written.
    bytes: Option<Held>,
}

/// The bytes of a page; pages that hold the same may share them.
type Held = Arc<[u8; PAGE_LEN]>;

/// Pages that were filled lately and may be filled with the same again: what is written mostly comes from few
/// buffers.
const LATELY: usize = 4096;

/// What all files hold together.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    lately: Vec<Option<Held>>,
    /// Pages that take memory.
    pages: u64,
}

impl Pool {
    /// Pages that take memory, each that is shared once.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    fn place(&mut self, bytes: &[u8; PAGE_LEN]) -> Option<&mut Option<Held>> {
        if self.lately.is_empty() {
            self.lately.resize(LATELY, None);
        }
        let mut hasher = FxHasher::default();
        hasher.write(bytes.get(..64).unwrap_or_default());
        let hash = hasher.finish();
        self.lately.get_mut((hash ^ (hash >> 32)) as usize % LATELY)
    }

    /// How many pages hold these bytes.
    fn holders(&mut self, held: &Held) -> usize {
        let lately = self.place(held);
        let own = lately.is_some_and(|place| place.as_ref().is_some_and(|p| Arc::ptr_eq(p, held)));
        Arc::strong_count(held) - usize::from(own)
    }

    fn give_back(&mut self, held: &Held) {
        self.pages -= u64::from(self.holders(held) <= 1);
    }

    /// The bytes of a page that was filled: those of another where it holds the same.
    fn share(&mut self, held: Held) -> Held {
        let known = match self.place(&held) {
            Some(Some(known)) if Arc::ptr_eq(known, &held) => return held,
            Some(Some(known)) if *known == held => Arc::clone(known),
            Some(place) => {
                *place = Some(Arc::clone(&held));
                return held;
            }
            None => return held,
        };
        self.give_back(&held);
        // Nobody may have held it but this place.
        self.pages += u64::from(Arc::strong_count(&known) == 2);
        known
    }
}

/// Contents of a regular file.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub size_bytes: u64,
    pages: FxHashMap<u64, Page>,
    /// Consecutive pages mostly come together: one beyond the last that was given room.
    end_page: u64,
}

impl Body {
    /// Pages that have room.
    pub(crate) fn blocks(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Where a page lies; `None` for a hole.
    pub(crate) fn block(&self, page: u64) -> Option<u64> {
        self.pages.get(&page).map(|p| p.block)
    }

    /// Whether a page must be read from the device to be known.
    pub(crate) fn written(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|p| p.bytes.is_some())
    }

    /// Where it lies, in the order of the file.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let mut pages: Vec<_> = self.pages.iter().collect();
        pages.sort_unstable_by_key(|(page, _)| **page);
        let mut pieces: Vec<Piece> = Vec::new();
        for (page, at) in pages {
            let (offset_bytes, device_bytes) = (page * PAGE, at.block * PAGE);
            let written = at.bytes.is_some();
            let goes_on = |piece: &&mut Piece| {
                let length = piece.length_bytes;
                piece.written == written
                    && piece.offset_bytes + length == offset_bytes
                    && piece.device_bytes + length == device_bytes
            };
            match pieces.last_mut().filter(goes_on) {
                Some(piece) => piece.length_bytes += PAGE,
                None => pieces.push(Piece {
                    offset_bytes,
                    device_bytes,
                    length_bytes: PAGE,
                    written,
                }),
            }
        }
        pieces
    }

    /// Gives room at `block` to a page that has none.
    pub(crate) fn allocate(&mut self, page: u64, block: u64) {
        self.end_page = self.end_page.max(page + 1);
        self.pages.insert(page, Page { block, bytes: None });
    }

    /// Copies what there is at `offset`; holes are zero.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let within = (at % PAGE) as usize;
            let take = (PAGE_LEN - within).min(out.len() - done);
            let Some(target) = out.get_mut(done..done + take) else {
                return;
            };
            let bytes = self.pages.get(&(at / PAGE)).and_then(|p| p.bytes.as_ref());
            match bytes.and_then(|b| b.get(within..within + take)) {
                Some(source) => target.copy_from_slice(source),
                None => target.fill(0),
            }
            done += take;
        }
    }

    /// Stores at `offset`, in pages that have room.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], pool: &mut Pool) {
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let within = (at % PAGE) as usize;
            let (now, later) = rest.split_at((PAGE_LEN - within).min(rest.len()));
            if let Some(page) = self.pages.get_mut(&(at / PAGE)) {
                let old = page.bytes.take();
                let own = old.as_ref().is_some_and(|held| pool.holders(held) <= 1);
                pool.pages += u64::from(!own);
                let mut held = old.unwrap_or_else(|| Arc::new([0; PAGE_LEN]));
                if let Some(target) = Arc::make_mut(&mut held).get_mut(within..within + now.len()) {
                    target.copy_from_slice(now);
                }
                let filled = within + now.len() == PAGE_LEN;
                page.bytes = Some(if filled { pool.share(held) } else { held });
            }
            at += now.len() as u64;
            rest = later;
        }
        self.size_bytes = self.size_bytes.max(at);
    }

    /// Cuts or extends to `size_bytes`; returns how many pages lost their room.
    pub(crate) fn resize(&mut self, size_bytes: u64, pool: &mut Pool) -> u64 {
        let keep = size_bytes.div_ceil(PAGE);
        let before = self.pages.len();
        if size_bytes < self.size_bytes {
            let mut give_back = |page: &Page| {
                if let Some(held) = &page.bytes {
                    pool.give_back(held);
                }
            };
            if keep == 0 {
                self.pages.drain().for_each(|(_, page)| give_back(&page));
            } else if keep < self.end_page && self.end_page - keep < before as u64 {
                (keep..self.end_page).for_each(|page| {
                    if let Some(page) = self.pages.remove(&page) {
                        give_back(&page);
                    }
                });
            } else if keep < self.end_page {
                let cut = self.pages.extract_if(|&page, _| page >= keep);
                cut.for_each(|(_, page)| give_back(&page));
            }
            self.end_page = self.end_page.min(keep);
            let within = (size_bytes % PAGE) as usize;
            if within != 0
                && let Some(page) = self.pages.get_mut(&(size_bytes / PAGE))
                && let Some(bytes) = &mut page.bytes
            {
                pool.pages += u64::from(pool.holders(bytes) > 1);
                let bytes = Arc::make_mut(bytes);
                bytes.iter_mut().skip(within).for_each(|b| *b = 0);
            }
        }
        self.size_bytes = size_bytes;
        (before - self.pages.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_what_lies_together_and_is_alike() {
        let (mut pool, mut body) = (Pool::default(), Body::default());
        for (page, block) in [(0, 7), (1, 8), (2, 20), (3, 21), (5, 22)] {
            body.allocate(page, block);
        }
        body.write(0, &[7; 3 * PAGE_LEN], &mut pool);
        let piece = |page, block, pages, written| Piece {
            offset_bytes: page * PAGE,
            device_bytes: block * PAGE,
            length_bytes: pages * PAGE,
            written,
        };
        let expected = [
            piece(0, 7, 2, true),
            piece(2, 20, 1, true),
            piece(3, 21, 1, false),
            piece(5, 22, 1, false),
        ];
        assert_eq!(body.pieces(), expected);
    }

    #[test]
    fn equal_pages_are_held_once_and_holes_not_at_all() {
        let (mut pool, mut bodies) = (Pool::default(), [Body::default(), Body::default()]);
        let mut number = 0;
        for body in &mut bodies {
            for page in 0..4 {
                body.allocate(page, number);
                number += 1;
            }
            body.write(0, &[7; 4 * PAGE_LEN], &mut pool);
            body.resize(1 << 40, &mut pool);
        }
        assert_eq!(pool.pages(), 1);
        // A write to one of them is seen in no other.
        bodies[0].write(PAGE + 5, &[9], &mut pool);
        assert_eq!(pool.pages(), 2);
        let mut found = [0; 1];
        bodies[1].read(PAGE + 5, &mut found);
        assert_eq!(found, [7]);
        bodies[0].read(PAGE + 5, &mut found);
        assert_eq!(found, [9]);
        bodies[0].resize(10, &mut pool);
        assert_eq!(pool.pages(), 2, "the first page's rest is cut off");
        bodies[0].resize(0, &mut pool);
        assert_eq!(pool.pages(), 1);
        bodies[1].resize(0, &mut pool);
        assert_eq!(pool.pages(), 0);
        bodies[0].allocate(0, 1);
        bodies[0].write(0, &[7; PAGE_LEN], &mut pool);
        assert_eq!(pool.pages(), 1);
    }
}

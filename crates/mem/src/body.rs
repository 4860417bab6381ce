//! What a file holds: pages where something was written, and where each lies on the device.

use rustc_hash::FxHashMap;

/// Bytes of a page and of a block.
pub(crate) const PAGE: u64 = fsage_cache::PAGE_BYTES;
const PAGE_LEN: usize = PAGE as usize;

/// One page that has room on the device.
#[derive(Debug)]
struct Page {
    block: u64,
    /// `None`: room that was reserved and never written.
    bytes: Option<Box<[u8; PAGE_LEN]>>,
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
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let within = (at % PAGE) as usize;
            let (now, later) = rest.split_at((PAGE_LEN - within).min(rest.len()));
            if let Some(page) = self.pages.get_mut(&(at / PAGE)) {
                let bytes = page.bytes.get_or_insert_with(|| Box::new([0; PAGE_LEN]));
                if let Some(target) = bytes.get_mut(within..within + now.len()) {
                    target.copy_from_slice(now);
                }
            }
            at += now.len() as u64;
            rest = later;
        }
        self.size_bytes = self.size_bytes.max(at);
    }

    /// Cuts or extends to `size_bytes`; returns how many pages lost their room.
    pub(crate) fn resize(&mut self, size_bytes: u64) -> u64 {
        let keep = size_bytes.div_ceil(PAGE);
        let before = self.pages.len();
        if size_bytes < self.size_bytes {
            if keep == 0 {
                self.pages.clear();
            } else if keep < self.end_page && self.end_page - keep < before as u64 {
                (keep..self.end_page).for_each(|page| {
                    self.pages.remove(&page);
                });
            } else if keep < self.end_page {
                self.pages.retain(|&page, _| page < keep);
            }
            self.end_page = self.end_page.min(keep);
            let within = (size_bytes % PAGE) as usize;
            if within != 0
                && let Some(page) = self.pages.get_mut(&(size_bytes / PAGE))
                && let Some(bytes) = &mut page.bytes
            {
                bytes.iter_mut().skip(within).for_each(|b| *b = 0);
            }
        }
        self.size_bytes = size_bytes;
        (before - self.pages.len()) as u64
    }
}

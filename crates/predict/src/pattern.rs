//! Stage 3: how a disk-bound request lies to the one before it (Smith 2001, 4.4.5.3 and A.5).
//!
//! Requests that the caches satisfy are ignored: a relation is always to the last request that went
//! to the device. Data and metadata are followed apart, because on disk a file's data does not lie
//! beside its inode: "the next file's data" follows the last file's data.

use serde::{Deserialize, Serialize};

use crate::drive::Of;
use crate::namespace::tree::{Ino, Inode};

/// The relation of a request to the last one that went to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// Satisfied by the caches (the thesis's `REL_CACHED`).
    #[default]
    Cached,
    /// Goes on where the last one ended (`REL_SAME`, and sequential).
    Sequential,
    /// The same file, elsewhere (`REL_SAME`).
    Same,
    /// The next file in creation order.
    Next,
    /// The same directory (`REL_SAMEDIR`), at most 16 files away in creation order.
    Near,
    /// The same directory, farther away.
    Far,
    /// The last target is the directory of this one (`REL_PARENT`).
    Parent,
    /// This target is the directory of the last one (`REL_CHILD`).
    Child,
    /// Nothing of the above (`REL_UNKNOWN`).
    Other,
}

impl Relation {
    /// The next one, where that is known and it is of another file.
    pub fn or_next(self, known: bool) -> Self {
        match self {
            Self::Sequential | Self::Same => self,
            _ if known => Self::Next,
            _ => self,
        }
    }

    /// The name in annotated traces.
    pub fn name(self) -> &'static str {
        match self {
            Relation::Cached => "cached",
            Relation::Sequential => "sequential",
            Relation::Same => "same",
            Relation::Next => "next",
            Relation::Near => "near",
            Relation::Far => "far",
            Relation::Parent => "parent",
            Relation::Child => "child",
            Relation::Other => "other",
        }
    }
}

/// A file, and where it lies on the device in bytes, where that is known.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// The file.
    pub ino: Ino,
    /// What is known of it.
    pub inode: &'a Inode,
    /// Its first byte on the device.
    pub first: Option<u64>,
    /// Where it lies among those that the trace makes, where nobody knows more.
    pub after: Option<u64>,
    /// Where pieces of it begin, in the file and on the device; without any all lies behind the first byte.
    pub pieces: &'a [(u64, u64)],
}

impl<'a> Placed<'a> {
    /// A file where the trace's own system put it.
    pub fn traced(ino: Ino, inode: &'a Inode) -> Self {
        Self {
            ino,
            inode,
            first: inode.physical,
            after: None,
            pieces: inode.pieces.as_deref().unwrap_or_default(),
        }
    }

    /// Where a byte of it lies.
    pub fn byte(&self, offset: u64) -> Option<u64> {
        let behind = self.pieces.partition_point(|&(from, _)| from <= offset);
        match behind.checked_sub(1).and_then(|at| self.pieces.get(at)) {
            Some(&(from, at)) => at.checked_add(offset - from),
            None => self.first.and_then(|p| p.checked_add(offset)),
        }
    }

    /// How far the device goes from one page to the next, for each of `pages` that does not lie behind the one before.
    pub fn jumps(&self, pages: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = u64> {
        let page = fsage_cache::PAGE_BYTES;
        let ends = [*pages.start(), *pages.end()].map(|number| number.saturating_mul(page));
        let begins = self.pieces.iter().filter_map(move |&(from, at)| {
            let within = from > 0 && (ends[0]..=ends[1]).contains(&from);
            let before = self.byte(from.checked_sub(page)?).filter(|_| within)?;
            Some(before.saturating_add(page).abs_diff(at))
        });
        begins.filter(|&bytes| bytes > 0)
    }

    /// Where its page lies.
    fn page(&self, offset: u64) -> Option<u64> {
        self.byte(offset - offset % fsage_cache::PAGE_BYTES)
    }

    /// Where what ends at the end of a page ends.
    fn end(&self, offset: u64) -> Option<u64> {
        let page = fsage_cache::PAGE_BYTES;
        match offset.checked_sub(page) {
            Some(last) => self.byte(last)?.checked_add(page),
            None => self.byte(offset),
        }
    }

    /// What a byte of it is of for a drive, and where.
    pub(crate) fn place(&self, offset: u64) -> (Of, u64) {
        match self.byte(offset) {
            Some(first) => (Of::Data, first),
            None => (
                Of::Unplaced,
                self.after
                    .unwrap_or(self.inode.order << 24)
                    .saturating_add(offset),
            ),
        }
    }
}

/// Files that lie at most so far apart in creation order are near.
pub(crate) const NEAR_FILES: u64 = 16;
/// Bytes between two files on the device up to which one is the next, near, or far.
pub(crate) const NEXT_BYTES: u64 = 64 << 10;
pub(crate) const NEAR_BYTES: u64 = 1 << 20;
const FAR_BYTES: u64 = 128 << 20;

/// The last request that went to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracker {
    ino: Ino,
    dir: u32,
    order: u64,
    /// Where it ended in the file, in bytes.
    end: u64,
    /// Where it ended on the device, in bytes.
    physical_end: Option<u64>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self {
            ino: Ino::NONE,
            dir: Ino::NONE.0,
            order: 0,
            end: 0,
            physical_end: None,
        }
    }
}

impl Tracker {
    /// The relation of a request for `offset` of a file.
    pub fn relation(&self, file: Placed<'_>, offset: u64) -> Relation {
        let Placed { ino, inode, .. } = file;
        if !self.ino.is_some() {
            return Relation::Other;
        }
        if self.ino == ino {
            let page = fsage_cache::PAGE_BYTES;
            let goes_on = offset / page == self.end / page || offset == self.end;
            return if goes_on && !self.jumps_to(file, offset) {
                Relation::Sequential
            } else {
                Relation::Same
            };
        }
        if let Some(bytes) = self.bytes_to(file, offset) {
            return if bytes <= NEXT_BYTES {
                Relation::Next
            } else if bytes <= NEAR_BYTES {
                Relation::Near
            } else if bytes <= FAR_BYTES && inode.parent == self.dir {
                Relation::Far
            } else {
                Relation::Other
            };
        }
        if inode.parent == self.ino.0 {
            return Relation::Parent;
        }
        if self.dir == ino.0 {
            return Relation::Child;
        }
        if inode.parent != self.dir {
            return Relation::Other;
        }
        match (
            inode.order.checked_sub(self.order),
            inode.order.abs_diff(self.order),
        ) {
            (Some(1 | 2), _) => Relation::Next,
            (_, 0..=NEAR_FILES) => Relation::Near,
            _ => Relation::Far,
        }
    }

    /// Whether what goes on in a file at `offset` lies in another piece of it.
    fn jumps_to(&self, file: Placed<'_>, offset: u64) -> bool {
        let (Some(here), Some(there)) = (file.page(offset), self.physical_end) else {
            return false;
        };
        // The page in which the last request ended, or the one behind it.
        let goes_on = here == there || here.checked_add(fsage_cache::PAGE_BYTES) == Some(there);
        !file.pieces.is_empty() && !goes_on
    }

    /// Bytes from the end of the last request to `offset` of the same file; of one in pieces, on the device.
    pub fn distance(&self, file: Placed<'_>, offset: u64) -> Option<u64> {
        if self.ino != file.ino {
            return None;
        }
        let on_device = self.bytes_to(file, offset);
        let in_pieces = on_device.filter(|_| !file.pieces.is_empty());
        Some(in_pieces.unwrap_or_else(|| offset.abs_diff(self.end)))
    }

    /// Bytes on the device from the end of the last request to `offset` of a file, where that is known; pages are
    /// asked for whole.
    pub fn bytes_to(&self, file: Placed<'_>, offset: u64) -> Option<u64> {
        let here = file.page(offset)?;
        self.physical_end.map(|there| here.abs_diff(there))
    }

    /// Whether it is known that `offset` of a file lies before the end of the last request on the device.
    pub fn passed(&self, file: Placed<'_>, offset: u64) -> bool {
        file.page(offset)
            .zip(self.physical_end)
            .is_some_and(|(here, there)| here < there)
    }

    /// Whether `offset` of a file lies before the end of the last request in it.
    pub fn goes_back(&self, file: Placed<'_>, offset: u64) -> bool {
        let unknown = self.bytes_to(file, offset).is_none();
        self.ino == file.ino && (self.passed(file, offset) || unknown && offset < self.end)
    }

    /// Where the last request ended on the device.
    pub fn end(&self) -> Option<u64> {
        self.physical_end
    }

    /// The last request ended there instead.
    pub fn ends_at(&mut self, bytes: u64) {
        self.physical_end = Some(bytes);
    }

    /// Notes a request that went to the device and ended at `end` of the file.
    pub fn note(&mut self, file: Placed<'_>, end: u64) {
        let Placed { ino, inode, .. } = file;
        *self = Self {
            ino,
            dir: inode.parent,
            order: inode.order,
            end,
            physical_end: end
                .checked_next_multiple_of(fsage_cache::PAGE_BYTES)
                .and_then(|end| file.end(end)),
        };
    }
}

/// Whether a processor's caches hold a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Untouched {
    /// It was touched recently.
    #[default]
    No,
    /// It was a while ago: a core's own caches do not, a shared one may.
    AWhileAgo,
    /// It was not, but its neighbour in creation order was, beside which it lies in memory.
    Beside,
    /// It was not.
    Far,
}

/// How a program says that it reads an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Advice {
    /// Nothing.
    #[default]
    Usual,
    /// Nothing is brought ahead.
    Anywhere,
    /// Twice as much is brought at a time.
    InOrder,
}

/// Read-ahead of one open file, as the kernel's on-demand read-ahead does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stream {
    /// Which open it is of; another open's is stale.
    pub serial: u32,
    /// Page after the last one read.
    pub next_page: u64,
    /// First page not brought in ahead.
    ahead_end: u64,
    /// Pages of the window.
    window: u64,
    /// What was asked for last before the program came to it: its first page, and how many they are until it comes.
    coming: (u64, u64),
    started: bool,
    /// What the program said of how it reads (fadvise).
    pub advice: Advice,
    /// What processors' caches held of the file when it was opened.
    pub untouched: Untouched,
}

impl Stream {
    /// A stream of an open file that has not been read.
    pub fn new(serial: u32) -> Self {
        Self {
            serial,
            ..Self::default()
        }
    }

    /// Whether nothing was read yet.
    pub fn is_fresh(&self) -> bool {
        !self.started
    }

    /// Pages were asked for that the program has not come to, and not by its own waiting for one of them.
    pub fn asks(&mut self, pages: &std::ops::Range<u64>) {
        self.coming = (pages.start, pages.end.saturating_sub(pages.start));
    }

    /// How many pages the request has whose first is among these, once.
    pub fn comes_to(&mut self, (first, last): (u64, u64)) -> u64 {
        let (start, pages) = self.coming;
        if pages == 0 || !(first..=last).contains(&start) {
            return 0;
        }
        self.coming.1 = 0;
        pages
    }

    /// Notes that pages `first` to `last` were read, `missed` saying that one was not there. Returns
    /// the pages to bring in ahead: `get_init_ra_size` on a miss that begins or continues a
    /// sequence, doubled (`get_next_ra_size`) when the reader comes to the last window. For a random miss nothing, unless
    /// `history` says that more pages before it are in the cache than are asked for: then as many again.
    pub fn read(
        &mut self,
        (first, last): (u64, u64),
        missed: bool,
        most: u64,
        history: impl FnOnce() -> u64,
    ) -> std::ops::Range<u64> {
        // A miss at the beginning of a file is the beginning of a sequence.
        let sequential = if self.started {
            first == self.next_page || first + 1 == self.next_page || missed && first == 0
        } else {
            first == 0
        };
        self.started = true;
        self.next_page = last.saturating_add(1);
        let request = last - first + 1;
        if most == 0 || !sequential {
            if missed {
                let before = if most == 0 { 0 } else { history() };
                let goes_on = before > request && request <= most;
                let window = (before + request).min(most);
                self.window = if goes_on { window } else { 0 };
                self.ahead_end = if goes_on { first + window } else { 0 };
                return self.next_page..self.ahead_end;
            }
            return 0..0;
        }
        if missed {
            self.window = initial_window(request, most);
        } else if self.window > 0
            && self.next_page.saturating_add(self.window / 2) >= self.ahead_end
        {
            self.window = next_window(self.window, most);
        } else {
            return 0..0;
        }
        let from = if missed {
            self.next_page
        } else {
            self.ahead_end.max(self.next_page)
        };
        let to = if missed {
            first.saturating_add(self.window.max(request))
        } else {
            from.saturating_add(self.window)
        };
        self.ahead_end = to.max(from);
        from..self.ahead_end
    }
}

fn initial_window(request: u64, most: u64) -> u64 {
    let size = request.min(most).next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

fn next_window(window: u64, most: u64) -> u64 {
    if window < most / 16 {
        4 * window
    } else {
        (2 * window).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_reader_doubles_its_window() {
        let mut stream = Stream::new(1);
        assert_eq!(stream.read((0, 0), true, 32, || 0), 1..4);
        assert_eq!(stream.read((1, 1), false, 32, || 0), 4..12);
        let mut page = 2;
        let mut end = 12;
        while page < 200 {
            let ahead = stream.read((page, page), false, 32, || 0);
            if !ahead.is_empty() {
                assert_eq!(ahead.start, end);
                end = ahead.end;
                assert!(ahead.end - ahead.start <= 32);
            }
            page += 1;
            assert!(end > page, "page {page} would not be there");
        }
    }

    #[test]
    fn a_reader_comes_to_a_request_once() {
        let mut stream = Stream::new(1);
        stream.asks(&(4..12));
        assert_eq!(stream.comes_to((3, 3)), 0);
        assert_eq!(stream.comes_to((4, 4)), 8);
        assert_eq!(stream.comes_to((4, 4)), 0);
    }

    #[test]
    fn random_reads_bring_nothing_ahead() {
        let mut stream = Stream::new(1);
        for page in [50, 7, 90, 3] {
            assert!(stream.read((page, page), true, 32, || 0).is_empty());
        }
    }

    #[test]
    fn a_random_read_behind_pages_that_are_there_brings_as_many_again() {
        let mut stream = Stream::new(1);
        assert_eq!(stream.read((50, 50), true, 32, || 6), 51..57);
        // As many as are asked for are no sequence, nor is what asks for more than is ever read ahead.
        assert!(stream.read((90, 93), true, 32, || 4).is_empty());
        assert!(stream.read((200, 263), true, 32, || 500).is_empty());
        // The first page is the beginning of one, whatever was read before.
        assert_eq!(stream.read((0, 0), true, 32, || 0), 1..4);
    }

    #[test]
    fn relations_by_creation_order_and_by_bytes() {
        let file = |parent, order, physical| {
            let mut inode = Inode::default();
            (inode.parent, inode.order, inode.physical) = (parent, order, physical);
            inode
        };
        let relation = |t: &Tracker, ino, inode: Inode, offset| {
            t.relation(Placed::traced(Ino(ino), &inode), offset)
        };
        let mut t = Tracker::default();
        assert_eq!(relation(&t, 5, file(1, 10, None), 0), Relation::Other);
        t.note(Placed::traced(Ino(5), &file(1, 10, None)), 8192);
        assert_eq!(
            relation(&t, 5, file(1, 10, None), 8192),
            Relation::Sequential
        );
        assert_eq!(relation(&t, 5, file(1, 10, None), 99_999), Relation::Same);
        assert_eq!(relation(&t, 6, file(1, 11, None), 0), Relation::Next);
        assert_eq!(relation(&t, 6, file(1, 2, None), 0), Relation::Near);
        assert_eq!(relation(&t, 6, file(1, 200, None), 0), Relation::Far);
        assert_eq!(relation(&t, 6, file(2, 11, None), 0), Relation::Other);
        assert_eq!(relation(&t, 6, file(5, 11, None), 0), Relation::Parent);
        assert_eq!(relation(&t, 1, file(0, 1, None), 0), Relation::Child);
        t.note(Placed::traced(Ino(5), &file(1, 10, Some(1 << 30))), 4096);
        assert_eq!(
            relation(&t, 6, file(2, 99, Some((1 << 30) + 8192)), 0),
            Relation::Next
        );
        assert_eq!(
            relation(&t, 6, file(1, 11, Some(1 << 40)), 0),
            Relation::Other
        );
        // Beyond what a disk reads ahead, another directory's files are elsewhere on the next system.
        let apart = Some((1 << 30) + (8 << 20));
        assert_eq!(relation(&t, 6, file(1, 11, apart), 0), Relation::Far);
        assert_eq!(relation(&t, 6, file(2, 11, apart), 0), Relation::Other);
    }
}

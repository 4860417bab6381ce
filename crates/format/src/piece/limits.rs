//! What a file may cost its reader: no more than a file of its size can honestly hold.
//!
//! Compression and repetition let a few bytes stand for very many. What fsage writes stays far below
//! these bounds (`tests/bombs.rs` holds the most compressible trace and snapshot against them), or ends
//! with an error where it would not ([`Long`]): a file beyond them was made to cost memory or time.

use std::hash::BuildHasher as _;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::thrift::Expected;

/// The most rows that a row group of another writer may have.
pub(crate) const MAX_GROUP_ROWS: u64 = 1 << 20;

/// The most bytes that one row group may take in the file.
pub(crate) const MAX_GROUP_BYTES: u64 = 1 << 29;

/// The most slots of a column with lists.
pub(crate) const MAX_LIST_SLOTS: u64 = 1 << 23;

/// The most that one page may hold when it is decompressed. What fsage writes has at most one piece
/// in a page; the longest are dictionaries of paths.
pub(crate) const MAX_PAGE_BYTES: u64 = 128 << 20;

/// Rows that any file may have, and further ones for each of its bytes: a piece of equal operations
/// takes about 13 rows a byte.
const ROWS: (u64, u64) = (1 << 20, 64);

/// Bytes of decompressed pages, for the whole file.
const PAGES: (u64, u64) = (256 << 20, 1024);

/// Bytes of decoded columns, for one piece; lists are bounded by [`MAX_LIST_SLOTS`].
const HELD: (u64, u64) = (256 << 20, 64);

/// Bytes of the texts that are given out again for each row, for the whole file.
const TEXTS: (u64, u64) = (256 << 20, 256);

/// Bytes of distinct paths, for the whole file.
const PATHS: (u64, u64) = (256 << 20, 64);

/// No piece holds more, however large its file.
const MAX_HELD_BYTES: u64 = 1 << 30;

/// What is left of something that the size of a file bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowance {
    what: &'static str,
    all: u64,
    left: u64,
    bytes: u64,
}

impl Allowance {
    fn new(what: &'static str, (floor, each): (u64, u64), bytes: u64) -> Self {
        let all = floor.saturating_add(each.saturating_mul(bytes));
        Self {
            what,
            all,
            left: all,
            bytes,
        }
    }

    /// Rows of a file of that size.
    pub(crate) fn rows(bytes: u64) -> Self {
        Self::new("rows", ROWS, bytes)
    }

    /// Decompressed pages of a file of that size.
    pub(crate) fn pages(bytes: u64) -> Self {
        Self::new("bytes of decompressed pages", PAGES, bytes)
    }

    /// Decoded columns of a piece of that size.
    pub(crate) fn held(bytes: u64) -> Self {
        let mut this = Self::new("bytes of decoded values", HELD, bytes);
        this.all = this.all.min(MAX_HELD_BYTES);
        this.left = this.all;
        this
    }

    /// Texts given out of a file of that size.
    pub(crate) fn texts(bytes: u64) -> Self {
        Self::new("bytes of text", TEXTS, bytes)
    }

    /// Distinct paths of a file of that size.
    pub(crate) fn paths(bytes: u64) -> Self {
        Self::new("bytes of distinct paths", PATHS, bytes)
    }

    /// Takes some of it.
    pub(crate) fn take(&mut self, count: u64) -> Result<(), Expected> {
        self.left = self.left.checked_sub(count).ok_or_else(|| {
            format!(
                "more than {} {}, expected at most that in {} bytes",
                self.all, self.what, self.bytes
            )
        })?;
        Ok(())
    }
}

/// What a text of a writer takes beside its bytes, where its reader keeps each once.
pub(crate) const PATH_BYTES: usize = 64;

/// Bytes of a text from which on a writer counts it: shorter ones do not come to what a reader refuses.
const LONG_BYTES: usize = 1024;

/// The long distinct paths of a file that is written, which its reader is to accept.
#[derive(Debug, Default)]
pub(crate) struct Long {
    seen: FxHashSet<u64>,
    bytes: u64,
}

impl Long {
    /// Counts a path, where `written` bytes of the file are there already.
    pub(crate) fn take(&mut self, path: &[u8], written: u64) -> Result<(), Expected> {
        if path.len() < LONG_BYTES || !self.seen.insert(FxBuildHasher.hash_one(path)) {
            return Ok(());
        }
        self.bytes += (path.len() + PATH_BYTES) as u64;
        Allowance::paths(written).take(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_ends_where_it_says() {
        let mut rows = Allowance::rows(10);
        assert_eq!(rows.take((1 << 20) + 640), Ok(()));
        let error = rows.take(1).unwrap_err();
        assert_eq!(
            error,
            "more than 1049216 rows, expected at most that in 10 bytes"
        );
        assert!(Allowance::pages(u64::MAX).take(u64::MAX).is_ok());
        assert!(Allowance::held(u64::MAX).take((1 << 30) + 1).is_err());
    }
}

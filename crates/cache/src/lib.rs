//! Models of a kernel's caches: which accesses hit, which reach the device.
//!
//! Always true in this crate: models are pure (no I/O, no clock, no randomness; time is an argument
//! in nanoseconds); ids are small dense numbers that the caller gives out; memory grows with what
//! was touched and not with the number of accesses; nothing panics on any argument.
//!
//! * [`PageCache`]: pages of files under a [`Policy`]: plain LRU as in Smith 2001, 4.4.5.2, or the
//!   two lists of Linux. Also which pages are dirty, since when and by whose writing.
//! * [`LruSet`]: the name cache and the attribute cache.
//! * [`table`](PageTable): which frame holds which page of a file, and what was evicted when.

mod list;
mod lru;
mod page;
mod policy;
mod table;

pub use lru::{LruSet, Touch};
pub use page::{CacheCounts, PageCache, PageState, WriteBack};
pub use policy::{Policy, Start};
pub use table::{Entry, PageTable};

/// Bytes of a page; Linux's on every machine that fsage runs on.
pub const PAGE_BYTES: u64 = 4096;

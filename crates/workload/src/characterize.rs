//! Characterises a stream of operations: its mix, sizes, locality and footprint.
//!
//! [`Characterizer`] takes operations one by one and keeps memory bounded by the number of distinct
//! files, paths, processes and open descriptors (each capped, which the result says), not by the
//! length of the stream. [`Characterization`] is what it found; `fsage show` prints it.
//!
//! Conventions: bytes and sizes count files only, not pipes, sockets or devices; a page has
//! 4096 bytes; an access is sequential if it starts where the last one of its direction through the
//! same open file ended, and the first one if it starts at 0.

mod collect;
mod footprint;
mod hot;
mod locality;
mod pauses;
mod series;
mod sizes;

pub use collect::Characterizer;
pub use fsage_format::result::characterization::*;

#[cfg(test)]
mod tests;

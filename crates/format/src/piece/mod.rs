//! Parquet files in pieces that survive a crash.
//!
//! A finished file is an ordinary Parquet file. After each row group (a *piece*) its writer also puts
//! a *trailer* into the file, which no other Parquet reader looks at: a footer that describes only
//! that row group, with checksums and the place of the previous trailer. Where the file's own footer
//! is missing or damaged, the last whole trailer is found from the end and the chain walked back, so
//! that every whole piece is read. The checksums are also verified when a finished file is read.
//! Before the file's own footer stands a *seal* with its checksum, so that no bit of what it says can
//! change unseen; a file of version 1 has none.
//!
//! * `trailer`: the bytes of trailer and seal. `writer`: writes. `file`: opens and reads pieces;
//!   `recover`: what is whole of a file without its end. `limits`: what a file may cost.
//! * `thrift`, `footer`, `chunk`, `decode`: reading Parquet with every length checked. The parquet
//!   crate only writes: its reader takes some lengths on trust and panics on some damage.

mod chunk;
mod decode;
mod file;
mod footer;
mod limits;
mod recover;
mod schema;
mod thrift;
mod trailer;
mod writer;

pub(crate) use chunk::Column;
pub(crate) use file::PieceFile;
pub(crate) use footer::Physical;
pub(crate) use limits::{Allowance, Long, PATH_BYTES};
pub use schema::Holds;
pub(crate) use schema::primitive;
pub use trailer::Checksum;
pub(crate) use writer::{Buffer, Data, PieceWriter, schema_error};

/// Whether a file begins as those of pieces do, whose first trailer stands before the first piece.
pub fn begins_like(begin: &[u8]) -> bool {
    let behind = begin.strip_prefix(PARQUET_MAGIC);
    behind.is_some_and(|behind| behind.starts_with(trailer::HEAD_MAGIC))
}

/// Metadata entry that names the format: `trace`, `snapshot`.
pub(crate) const ENTRY_FORMAT: &str = "fsage.format";
/// Metadata entry that holds the format's version.
pub(crate) const ENTRY_VERSION: &str = "fsage.version";
/// Metadata entry that holds what is known at the end; only a finished file has it.
pub(crate) const ENTRY_END: &str = "fsage.end";
/// Metadata entry of trailers: what had been lost when the piece was written.
pub(crate) const ENTRY_LOST: &str = "fsage.lost_so_far";

/// Parquet's own magic, at both ends of a file.
pub(crate) const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// What distinguishes one format from another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    /// Value of [`ENTRY_FORMAT`].
    pub name: &'static str,
    /// What an error expects.
    pub expected: &'static str,
    /// The newest version that is read.
    pub version: crate::error::Version,
}

//! Every file that fsage reads or writes.
//!
//! Always true in this crate: any bytes are an answer or an error that names the file, the place in
//! it and what was expected; no length that a file states is trusted before it is checked against
//! what is there; a newer format version is refused by name; what is whole of a truncated file is
//! read, and the loss is said. No clock and no randomness.
//!
//! * [`own`]: fsage's own files. [`trace`]: `.fst`, one row per operation; [`snapshot`]: `.fss`, one row
//!   per file. Both are ordinary Parquet files, written in pieces that survive a crash ([`piece`]); their
//!   columns stand in one table each, which also makes the documentation ([`docs`]). [`profile`]: `.fsp`, a
//!   system profile in JSON; [`image`]: `.fsi`, a whole file system; [`record`]: run records, JSON lines.
//! * [`schema`]: the published JSON schemas. [`sniff()`]: which of them a file is.
//! * [`result`]: what `predict`, `validate` and `show` found, stored and shown.
//! * [`bounded`]: texts read without costing more than they hold. [`whole`]: files written whole
//!   or not at all.
//! * [`foreign`]: the formats of other tools. [`mod@anonymize`]: files without their names.

pub mod anonymize;
pub mod bounded;
pub mod docs;
pub mod error;
pub mod foreign;
pub mod own;
pub mod piece;
pub mod result;
pub mod schema;
mod sniff;
pub mod whole;

pub use error::{FormatError, Version};
pub use own::{image, profile, record, snapshot, trace};
pub use sniff::{FileKind, sniff};

//! fsage's own files: traces, snapshots, system profiles and run records.

pub mod profile;
pub mod record;
pub mod snapshot;
pub mod trace;

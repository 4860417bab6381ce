//! fsage's own files: traces, snapshots, system profiles, images and run records.

pub mod image;
pub mod profile;
pub mod record;
pub mod snapshot;
pub mod trace;

//! Results that are stored and shown: what `predict`, `validate` and `show` found.
//!
//! They live here, beneath the crates that fill them in and the one that prints them, so that every
//! table, JSON document and page is made from what was stored and from nothing else.

pub mod characterization;
pub mod prediction;
pub mod validation;

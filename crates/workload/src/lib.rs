//! Workloads: generators that yield operations, and what characterises a stream of them.
//!
//! Always true in this crate: no I/O, no clock; every random choice comes from a seed that is an
//! argument; a generator given the same parameters and seed yields the same operations.

pub mod characterize;

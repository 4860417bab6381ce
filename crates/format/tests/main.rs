//! The tests of the crate from its outside, a file each. A new file is named here: one program for all is linked in the
//! time of one. `cargo xtask test` runs each file as a program of its own, with its name.

mod anonymize;
mod common;
mod corpus;
mod docs;
mod flips;
mod foreign_hbench;
mod foreign_strace;
mod golden;
mod json;
mod mutated;
mod profile_possible;
mod snapshot;
mod trace;

//! The tests of the crate from its outside, a file each. A new file is named here: one program for all is linked in the
//! time of one. `cargo xtask test` runs each file as a program of its own, with its name.

mod blocks;
mod calibration;
mod common;
mod context;
mod mapped;
mod processes;
mod properties;
mod scope;
mod states;
mod thesis;

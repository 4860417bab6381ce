//! The tests of the crate from its outside, a file each. A new file is named here: one program for all is linked in the
//! time of one. `cargo xtask test` runs each file as a program of its own, with its name.

mod begin;
mod begun;
mod common;
mod context;
mod export;
mod faithful;
mod fsm;
mod kept_open;
mod order;
mod possible;
mod properties;
mod reuse;
mod time;

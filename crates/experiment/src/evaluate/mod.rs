//! Models held against what they stand for: `fsage model evaluate` (Farhat 2017, chapter 5).
//!
//! * [`plan`]: what is run, where, how often. [`run`]: all of it, by the [engine](crate::engine). `step`: one run of
//!   one side. `judge`: what is said of it, a pure function of what was kept.

mod judge;
pub mod plan;
pub mod run;
mod step;

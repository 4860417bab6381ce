//! The microbenchmark suite: a target in, its system profile out (Smith 2001, 4.4.3).
//!
//! Always true in this crate:
//! * every row of the table of metrics (`fsage_core::metric`) has exactly one procedure, and what a
//!   procedure could not measure is absent with its reason, never zero;
//! * an estimate is the mean that a workload pays; the median and the samples stand beside it;
//! * everything happens below one directory of the target, which is gone afterwards;
//! * every random choice comes from the request's seed, time from the target's clock.
//!
//! Where to look next: [`run`] in `suite` for the order of things, `registry` for the procedures,
//! `group` for how each is measured, `lab` for how one call is timed, `measurements` for what becomes of the
//! samples, `pause` for what happens between calls.

mod budget;
mod device;
mod dirents;
mod error;
mod far;
mod group;
mod lab;
mod left;
mod measurements;
mod neighbours;
mod opened;
mod pause;
mod places;
mod population;
mod probe;
mod random;
mod registry;
mod request;
mod sched;
mod stall;
mod suite;
mod together;
mod walk;
mod watch;

pub use budget::NO_TIME;
pub use error::{ProfileError, is_failure};
pub use left::Left;
pub use request::{ProfileRequest, list};
pub use suite::{Progress, run};

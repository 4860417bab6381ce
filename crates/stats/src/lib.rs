//! Statistics: pure functions, each of which cites its method.
//!
//! Always true in this crate: no I/O, no clock; randomness only from a seed that is an argument;
//! nothing is trimmed or filtered silently; inputs of any length and any value give an answer or
//! `None`, never a panic. A NaN among the samples makes the result NaN.
//!
//! * One set of samples: [`summary`], [`mean_interval`], [`median_interval`], [`bootstrap`],
//!   [`histogram`], [`series`] (samples that depend on each other).
//! * Two sets: [`welch`]. Pairs: [`correlate`], [`relative_errors`].
//! * Curves: [`interpolate::Curve`], [`line::fit`], [`knee`].
//! * When to stop measuring: [`Stopping`].

#![allow(
    clippy::float_cmp,
    reason = "ties and points of a curve are exact values"
)]

pub mod bootstrap;
pub mod compare;
pub mod correlate;
pub mod describe;
pub mod error;
pub mod histogram;
pub mod interpolate;
pub mod interval;
pub mod knee;
pub mod line;
pub mod series;
pub mod special;
pub mod stop;
pub mod student;

pub use compare::{Welch, welch};
pub use describe::{Summary, mean, median, quantile, stddev, summary};
pub use error::{RelativeErrors, relative_errors};
pub use interval::{Interval, mean_interval, median_interval};
pub use stop::{StopReason, Stopping};

//! Statistics: pure functions, each of which cites its method.
//!
//! Always true in this crate: no I/O, no clock; randomness only from a seed that is an argument;
//! nothing is trimmed or filtered silently; inputs of any length and any value give an answer or
//! `None`, never a panic. A NaN among the samples makes the result NaN.
//!
//! * One set of samples: [`summary`], [`mean_interval`], [`median_interval`], [`bootstrap`],
//!   [`histogram`].
//! * What samples hide: [`normality`], [`drift`](mod@drift), [`outlier`], [`change`].
//! * Two sets: [`welch`], [`ratio`], [`effect`], [`rank_sum`]; several tests at once: [`holm`]. Pairs: [`correlate`], [`relative_errors`].
//! * Curves: [`interpolate::linear`], [`line::fit`].
//! * When to stop measuring: [`Stopping`].

#![allow(
    clippy::float_cmp,
    reason = "ties and points of a curve are exact values"
)]

pub mod bootstrap;
pub mod change;
pub mod compare;
pub mod correlate;
pub mod describe;
pub mod drift;
pub mod error;
pub mod family;
pub mod histogram;
pub mod interpolate;
pub mod interval;
pub mod line;
pub mod normal;
pub mod normality;
pub mod outlier;
pub mod rank;
pub mod special;
pub mod stop;
pub mod student;

pub use change::{Steady, changes, steady};
pub use compare::{Effect, Welch, effect, positive_ratio, ratio, welch};
pub use describe::{Summary, mean, median, quantile, stddev, summary};
pub use drift::{Drift, drift};
pub use error::{RelativeErrors, relative_errors};
pub use family::{SIGNIFICANCE, holm};
pub use histogram::median_of_ranks;
pub use interval::{
    Interval, IntervalKind, mean_interval, median_interval, positive_mean_interval,
    positive_mean_interval_kind, usable,
};
pub use normality::{Normality, shapiro_wilk};
pub use outlier::outliers;
pub use rank::rank_sum;
pub use stop::{StopReason, Stopping};

//! Profiles of version 1: what they say in today's words.

use fsage_core::metric::Unit;

use super::{MetricValue, PROFILE_VERSION, SystemProfile};

/// Fewer samples tell nothing of their spread.
const LEAST_OF_INTERVAL: u32 = 3;

/// The entry by which version 1 said that the measurement was broken off.
const INTERRUPTED: &str = "interrupted";

/// What was subtracted from a call (the empty call, lookups) could be more than it took: by less than
/// this, in nanoseconds.
const SUBTRACTED_NS: f64 = 100_000.0;

/// Turns a profile of version 1 into one of today.
pub(super) fn bring_up(profile: &mut SystemProfile) {
    profile.version = PROFILE_VERSION;
    if profile.environment.extra.remove(INTERRUPTED).is_some() {
        profile.incomplete = Some(INTERRUPTED.to_owned());
    }
    for metric in &mut profile.metrics {
        // An interval of no width stood for one that was not known; sizes of blocks are exact.
        let exact = metric.unit == Unit::Bytes.name();
        if metric.runs < LEAST_OF_INTERVAL && metric.low == metric.high && !exact {
            (metric.low, metric.high) = (None, None);
        }
        if metric.unit == Unit::Ns.name() {
            not_negative(metric);
        }
        // Symmetric intervals reached below zero.
        metric.low = metric.low.map(|low| low.max(0.0));
    }
}

/// Times that were less than what was subtracted from them are under the resolution: nothing.
fn not_negative(metric: &mut MetricValue) {
    let quantiles = metric.quantiles.iter_mut().map(|q| &mut q.value);
    for value in metric.samples.iter_mut().chain(quantiles) {
        if (-SUBTRACTED_NS..0.0).contains(value) {
            *value = 0.0;
        }
    }
}

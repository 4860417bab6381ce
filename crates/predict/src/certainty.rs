//! How sure a prediction is: its intervals, and the probability of an order.
//!
//! Times are positive, and errors of predictions are factors; so all of this is about logarithms.
//! Two sources are put together: the intervals of the profile's metrics, and the error that the model
//! had where predictions were held against measurement. The second includes what two profiles of one
//! target differ by, since each validated target was profiled once.

use fsage_stats::student;

use crate::result::IntervalPart;

/// Errors have tails far longer than the normal distribution's: one pair in ten of the kept
/// validations is off by more than three times the median.
const DEGREES: f64 = 3.0;

/// 97.5 % quantile of Student's t with [`DEGREES`].
const T_975: f64 = 3.182;

/// Half-width of a 95 % interval in standard errors, normal.
pub const Z_95: f64 = 1.96;

/// Scales of the model's errors, ln(predicted / measured), as Student's t with 3 degrees of freedom. Of one
/// total, on a device that is memory and on any other: the least with which 95 of 100 intervals hold over runs that the model
/// of then had not seen (`benchmarks/scales.py`: 0.145 of 160 pairs of `benchmarks/runs/2026-11-27-matrix-open-9`, 0.285 of 40
/// of `2026-11-26-matrix-ten-new`), rounded up.
const ONE_MEMORY: f64 = 0.16;
const ONE_DEVICE: f64 = 0.30;

/// Of the ratio of two systems' totals for one workload, in which cancels what is common to
/// both. In memory the least with which 95 of 100 of 240 ratios of `benchmarks/runs/2026-11-27-matrix-open-9` hold; the others are
/// maximum likelihood over the pairs of `2026-11-22-matrix-3-runs` and `2026-11-22-matrix`, 2 times 42 pairs of two systems on disks,
/// 2 times 112 of one each.
const RATIO_MEMORY: f64 = 0.18;
const RATIO_DEVICE: f64 = 0.40;
const RATIO_MIXED: f64 = 0.34;

/// What programs take between their calls: of one elapsed time, and of the ratio of two. From the
/// workload `compile` of `benchmarks/runs/2026-11-20-validate-ram` and `2026-11-21-validate-ram`.
const ONE_THINK: f64 = 0.10;
const RATIO_THINK: f64 = 0.04;

/// Scale of the error of costs that hang on where files lie to each other, where only the trace tells of
/// that: reads of `tar` that were predicted as far from one another took a third to a tenth.
const UNPLACED: f64 = 0.6;

/// Scale of the error of metrics that were disturbed when they were measured: profiles of one target
/// made beside other work differ by two and more.
const MARKED: f64 = 0.5;

/// From this probability on an order is told apart.
pub const APART: f64 = 0.95;

/// From this share on marked metrics on nothing is said of an order.
const MOSTLY: f64 = 0.5;

/// Shares of a total that hang on places that nobody told, and on marked metrics, from which on it is
/// said.
pub const UNPLACED_SAID: f64 = 0.2;
/// See [`UNPLACED_SAID`].
pub const MARKED_SAID: f64 = 0.05;

/// Share of a total on metrics of unknown intervals from which on it is said.
pub const UNKNOWN_SAID: f64 = 0.05;

/// A metric whose interval is unknown is taken to be off by a factor of two with 5 %.
pub const UNKNOWN_RELATIVE: f64 = 1.0 / Z_95;

/// What is known of a system's totals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Totals {
    /// Total latency in nanoseconds.
    pub latency_ns: f64,
    /// Elapsed time in nanoseconds.
    pub elapsed_ns: f64,
    /// Standard error of the latency's logarithm, from the profile.
    pub profile: f64,
    /// Whether the device is memory.
    pub in_memory: bool,
    /// The share of the latency that hangs on where files lie, of which nothing is known.
    pub unplaced: f64,
    /// The share of it that stands on marked metrics.
    pub marked: f64,
}

impl Totals {
    /// Scale of the model's error of the latency.
    pub fn model(&self) -> f64 {
        let scale = if self.in_memory {
            ONE_MEMORY
        } else {
            ONE_DEVICE
        };
        scale.hypot(self.unplaced * UNPLACED)
    }

    /// Standard error of the latency's logarithm by the profile: its intervals, and its marks.
    pub fn profile_error(&self) -> f64 {
        self.profile.hypot(self.marked * MARKED)
    }

    /// Of what half of the latency's interval is made: the model, where files lie, the profile, its marks.
    pub fn parts(&self) -> Vec<IntervalPart> {
        let model = Self {
            unplaced: 0.0,
            ..*self
        };
        let all = [
            ("the model", T_975 * model.model()),
            (
                "places of files that nothing tells",
                T_975 * self.unplaced * UNPLACED,
            ),
            ("the profile's intervals", Z_95 * self.profile),
            ("disturbed metrics", Z_95 * self.marked * MARKED),
        ];
        let some = all.into_iter().filter(|part| part.1 > 0.0);
        some.map(|(what, log_half_width)| IntervalPart {
            what: what.to_owned(),
            log_half_width,
        })
        .collect()
    }

    /// Half of the 95 % interval of the latency's logarithm.
    pub fn latency_half(&self) -> f64 {
        (T_975 * self.model()).hypot(Z_95 * self.profile_error())
    }

    /// Half of the 95 % interval of the elapsed time's logarithm: the file system's share of it is as
    /// uncertain as the latency, the rest as programs' own time.
    pub fn elapsed_half(&self) -> f64 {
        let share = self.share();
        (share * self.latency_half()).hypot((1.0 - share) * T_975 * ONE_THINK)
    }

    /// The share of the elapsed time that the file system may be the reason for. Where threads wait at
    /// the same time that is at most all of it.
    fn share(&self) -> f64 {
        if self.elapsed_ns > 0.0 {
            (self.latency_ns / self.elapsed_ns).clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

/// Standard error of the logarithm of a sum with that standard error: the lognormal distribution of
/// the same mean and variance.
pub fn log_error(value: f64, error: f64) -> f64 {
    if value > 0.0 {
        (error / value).powi(2).ln_1p().sqrt()
    } else {
        0.0
    }
}

/// The interval of a value whose logarithm is known within `half`; `None` where it is of no use.
pub fn interval(value: f64, half: f64) -> Option<(f64, f64)> {
    let factor = half.exp();
    let (low, high) = (value / factor, value * factor);
    fsage_stats::usable(low, high).then_some((low, high))
}

/// The probability that the second one's latency would be measured to be larger than the first one's.
pub fn latency_order(first: &Totals, second: &Totals) -> f64 {
    let scale =
        ratio_scale(first, second).hypot(first.profile_error().hypot(second.profile_error()));
    order(
        (first, first.latency_ns),
        (second, second.latency_ns),
        scale,
    )
}

/// The same of the elapsed times.
pub fn elapsed_order(first: &Totals, second: &Totals) -> f64 {
    let (a, b) = (first.share(), second.share());
    let model = ratio_scale(first, second) * f64::midpoint(a * a, b * b).sqrt();
    let think = RATIO_THINK * (1.0 - f64::midpoint(a, b));
    let profile = (a * first.profile_error()).hypot(b * second.profile_error());
    order(
        (first, first.elapsed_ns),
        (second, second.elapsed_ns),
        model.hypot(think).hypot(profile),
    )
}

fn ratio_scale(first: &Totals, second: &Totals) -> f64 {
    let scale = match (first.in_memory, second.in_memory) {
        (true, true) => RATIO_MEMORY,
        (false, false) => RATIO_DEVICE,
        _ => RATIO_MIXED,
    };
    // Files lie as they do for both, but not as far from each other in time.
    scale.hypot(UNPLACED * first.unplaced.hypot(second.unplaced) / 2.0)
}

fn order(first: (&Totals, f64), second: (&Totals, f64), scale: f64) -> f64 {
    let ((first, first_ns), (second, second_ns)) = (first, second);
    if first.marked.max(second.marked) > MOSTLY {
        0.5
    } else {
        order_of(first_ns, second_ns, scale)
    }
}

fn order_of(first_ns: f64, second_ns: f64, scale: f64) -> f64 {
    if first_ns <= 0.0 || second_ns <= 0.0 {
        return match first_ns.total_cmp(&second_ns) {
            std::cmp::Ordering::Less => 1.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 0.0,
        };
    }
    let ratio = (second_ns / first_ns).ln();
    if scale > 0.0 {
        student::cdf(ratio / scale, DEGREES)
    } else {
        0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(latency_ns: f64, elapsed_ns: f64, profile: f64, in_memory: bool) -> Totals {
        Totals {
            latency_ns,
            elapsed_ns,
            profile,
            in_memory,
            unplaced: 0.0,
            marked: 0.0,
        }
    }

    #[test]
    fn what_stands_on_unknown_places_or_marked_metrics_is_less_sure() {
        let sure = totals(1e9, 1e9, 0.02, true);
        let (mut unplaced, mut marked) = (sure, sure);
        (unplaced.unplaced, marked.marked) = (0.9, 0.9);
        for unsure in [unplaced, marked] {
            let parts = unsure.parts();
            let sum: f64 = parts.iter().map(|p| p.log_half_width.powi(2)).sum();
            assert!(parts.len() == 3 && (sum.sqrt() / unsure.latency_half() - 1.0).abs() < 1e-12);
            assert!(unsure.latency_half() > 1.5 * sure.latency_half());
            let slow = totals(1.9e9, 1.9e9, 0.02, true);
            let p = elapsed_order(&unsure, &slow);
            assert!(p < 0.95 && elapsed_order(&sure, &slow) > 0.95, "{p}");
        }
        // However far apart: nobody knows by how much disturbed metrics are off.
        let slow = totals(1e12, 1e12, 0.02, true);
        let orders = [elapsed_order(&marked, &slow), latency_order(&slow, &marked)];
        assert!(orders.iter().all(|p| (p - 0.5).abs() < 1e-12), "{orders:?}");
        assert!(elapsed_order(&unplaced, &slow) > 0.95);
    }

    #[test]
    fn intervals_of_positive_things_are_positive_and_useless_ones_are_none() {
        // 2.26 s with a standard error of 65 s, as a profile said once.
        let profile = log_error(2.26e9, 65e9);
        let total = totals(2.26e9, 2.4e9, profile, true);
        assert_eq!(interval(2.26e9, total.latency_half()), None);
        let total = totals(1e9, 1.2e9, 0.05, true);
        let (low, high) = interval(1e9, total.latency_half()).unwrap();
        assert!(
            low > 0.0 && low < 1e9 && high > 1e9 && high < 2.5e9,
            "{low} {high}"
        );
        assert!(total.elapsed_half() < total.latency_half());
    }

    #[test]
    fn an_order_is_as_likely_as_the_difference_is_large() {
        let a = totals(1e9, 1e9, 0.0, true);
        let p = |ratio: f64| elapsed_order(&a, &totals(1e9 * ratio, 1e9 * ratio, 0.0, true));
        assert!((p(1.0) - 0.5).abs() < 1e-9);
        assert!(
            p(1.05) < 0.7 && p(1.5) < 0.95 && p(2.0) > 0.95,
            "{}",
            p(1.5)
        );
        assert!((p(1.5) + p(1.0 / 1.5) - 1.0).abs() < 1e-9);
        // On disks the model is off by more.
        let disk = |ns| totals(ns, ns, 0.0, false);
        assert!(elapsed_order(&disk(1e9), &disk(2e9)) < p(2.0));
        // Where programs think for most of the time, little is uncertain.
        let think = |fs: f64| totals(fs, 8e9 + fs, 0.0, true);
        assert!(elapsed_half_relative(&think(35e6)) < 0.4);
        assert!(latency_order(&think(35e6), &think(371e6)) > 0.99);
    }

    fn elapsed_half_relative(of: &Totals) -> f64 {
        of.elapsed_half().exp() - 1.0
    }
}

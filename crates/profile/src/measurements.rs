//! Samples as they come in, and what becomes of them in the profile.

use std::collections::HashMap;

use fsage_core::metric::{MetricId, Unit};
use fsage_format::profile::{MetricValue, Quantile};
use fsage_stats::describe::{quantile_sorted, sorted as ascending};
use fsage_stats::{Interval, Stopping, mean_interval, median_interval};

use crate::far::Far;

/// Samples kept in the profile, as batch means where there were more calls.
const KEPT_SAMPLES: usize = 200;
/// A cached call that took this many times its median was interrupted.
const INTERRUPTED_TIMES: f64 = 20.0;
/// The same for samples of a batch in which one call was preempted.
const SPOILT_TIMES: f64 = 5.0;
/// Runs of samples of which the median is taken, and the fewest samples of one.
const MOST_RUNS: usize = 15;
const LEAST_OF_RUN: usize = 8;
/// Nothing shorter counts as an interruption, in nanoseconds.
const INTERRUPTED_LEAST_NS: f64 = 20_000.0;

/// Fewer samples tell nothing of their spread.
const LEAST_OF_INTERVAL: usize = 3;
/// An interval of a mean from a twentieth to twenty times the estimate says nothing.
const MOST_OF_INTERVAL: f64 = 3.0;
/// With so many samples one that is far from the rest has had its chance to recur.
const VERIFIED: usize = 60;

/// When a metric is known well enough: 10 batches, 95 % half-width under 5 % of the estimate.
pub(crate) const RULE: Stopping = Stopping {
    min_runs: 10,
    max_runs: 100_000,
    half_width_relative: 0.05,
};

/// Calls that waited for the device although such calls normally do not.
#[derive(Debug, Clone, Copy, Default)]
struct Stalls {
    calls: usize,
    ns: f64,
}

impl Stalls {
    /// What a reader should know of them.
    fn note(self, of: usize) -> Option<String> {
        let share = 100.0 * self.calls as f64 / of.max(1) as f64;
        (self.calls > 0).then(|| {
            format!(
                "{} of {of} calls ({share:.2} %) waited for the device, {:.1} ms in all, and are left out of \
                 the estimate",
                self.calls,
                self.ns / 1e6
            )
        })
    }
}

/// What is known of one metric.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// One value a call (or whatever the procedure calls a sample), in order, in the metric's unit
    /// or, with `kib`, in nanoseconds.
    pub values: Vec<f64>,
    /// Which of them slept for the device although calls of the kind normally do not, ascending.
    stalled: Vec<usize>,
    /// Whether that is known from a computed clock: such a call need not have taken far longer than others.
    computed: bool,
    /// Which slept while this measurement's own device served them, ascending.
    served: Vec<usize>,
    /// Samples thrown away because the thread had been preempted or interrupted.
    pub preempted: u32,
    /// What a reader should know.
    pub note: Option<String>,
    /// Whether the truth is at least this.
    pub lower_bound: bool,
    /// KiB that each sample moved, for rates.
    pub kib: Option<f64>,
    /// The estimate and its interval, where they do not come from the mean of the values.
    pub given: Option<(f64, Option<(f64, f64)>)>,
    /// How many calls that was made from.
    pub counted: usize,
    /// Whether the samples are operations a second, not times.
    pub rates: bool,
    /// Whether they are seconds, not nanoseconds.
    pub seconds: bool,
    /// Whether a sample far above the median is an interruption and not the call's own cost.
    pub steady: bool,
    /// Whether the calls wait for a device or another thread: what else runs on the machine then
    /// makes single samples arbitrarily large.
    pub waits: bool,
    /// What makes the estimate suspect.
    pub marks: Vec<String>,
    /// Whether others had the machine as well.
    pub disturbed: bool,
    /// What the reference work took beside it.
    pub reference_ns: Option<u64>,
    /// Samples of batches that were preempted, for when there are no others.
    set_aside: Vec<f64>,
    /// Why sampling ended.
    pub stop: &'static str,
}

/// A sample that does not count yet.
#[derive(Debug, Clone, Copy)]
struct Sample {
    id: MetricId,
    value: f64,
    slept: Slept,
}

/// Whether the thread slept for most of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slept {
    /// It did not, or it cannot be told.
    No,
    /// For the device, although calls of the kind normally do not.
    Stalled,
    /// The same on a clock that is computed and tells what was waited.
    Waited,
    /// For a device that nobody else uses, as such calls do.
    Served,
}

/// Everything measured so far.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    series: HashMap<MetricId, Series>,
    pending: Vec<Sample>,
}

impl Measurements {
    /// Takes a sample that counts once the batch is committed.
    pub(crate) fn push(&mut self, id: MetricId, value: f64, slept: Slept) {
        self.pending.push(Sample { id, value, slept });
    }

    /// Keeps the batch's samples.
    pub(crate) fn commit(&mut self, waits: bool) {
        for sample in std::mem::take(&mut self.pending) {
            let series = self.entry(sample.id);
            match sample.slept {
                Slept::Stalled => series.stalled.push(series.values.len()),
                Slept::Waited => {
                    series.stalled.push(series.values.len());
                    series.computed = true;
                }
                Slept::Served => series.served.push(series.values.len()),
                Slept::No => {}
            }
            series.values.push(sample.value);
            series.waits |= waits;
        }
    }

    /// Samples of the batch so far.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Throws the batch's samples away and counts them as preempted.
    pub(crate) fn reject(&mut self) {
        for sample in std::mem::take(&mut self.pending) {
            let series = self.entry(sample.id);
            series.preempted += 1;
            series.set_aside.push(sample.value);
        }
    }

    /// How much of every series there is now.
    pub(crate) fn mark(&self) -> HashMap<MetricId, (usize, usize)> {
        self.series
            .iter()
            .map(|(&id, s)| (id, (s.values.len(), s.set_aside.len())))
            .collect()
    }

    /// Forgets what came after a mark.
    pub(crate) fn rollback(&mut self, mark: &HashMap<MetricId, (usize, usize)>) {
        for (id, series) in &mut self.series {
            let (values, set_aside) = mark.get(id).copied().unwrap_or_default();
            series.values.truncate(values);
            series.stalled.retain(|&place| place < values);
            series.served.retain(|&place| place < values);
            series.set_aside.truncate(set_aside);
        }
    }

    /// Forgets the batch without counting it.
    pub(crate) fn forget(&mut self) {
        self.pending.clear();
    }

    /// The series of a metric, made if there is none.
    pub(crate) fn series(&mut self, id: MetricId) -> &mut Series {
        self.entry(id)
    }

    fn entry(&mut self, id: MetricId) -> &mut Series {
        self.series.entry(id).or_insert_with(|| Series {
            // Those of a file's bytes come as times: see `Series::kib`.
            rates: id.unit() == Unit::OpsPerS,
            seconds: matches!(id.unit(), Unit::Seconds | Unit::Ratio),
            ..Series::default()
        })
    }

    /// Takes the series of some metrics out, to measure them anew.
    pub(crate) fn take(&mut self, ids: &[MetricId]) -> Vec<(MetricId, Series)> {
        let taken = ids.iter().map(|&id| Some((id, self.series.remove(&id)?)));
        taken.flatten().collect()
    }

    /// Puts series back in place of those that are there now.
    pub(crate) fn put(&mut self, series: Vec<(MetricId, Series)>) {
        self.series.extend(series);
    }

    /// Samples of a metric so far, those of the batch in progress too.
    pub(crate) fn taken(&self, id: MetricId) -> usize {
        self.count(id) + self.pending.iter().filter(|s| s.id == id).count()
    }

    /// Number of committed samples.
    pub(crate) fn count(&self, id: MetricId) -> usize {
        self.series.get(&id).map_or(0, |s| s.values.len())
    }

    /// Mean of what was committed, interruptions and stalls left out.
    pub(crate) fn mean(&self, id: MetricId) -> Option<f64> {
        let series = self.series.get(&id)?;
        let own = series.own();
        (!own.values.is_empty()).then(|| fsage_stats::mean(&own.values))
    }

    /// The estimate as it would stand in the profile.
    pub(crate) fn estimate(&self, id: MetricId) -> Option<f64> {
        let series = self.series.get(&id)?;
        let own = series.own();
        let measured = series.given.is_some() || !own.values.is_empty();
        measured.then(|| series.estimate(&own.values).0)
    }

    /// Whether it has one.
    pub(crate) fn known(&self, id: MetricId) -> bool {
        self.estimate(id).is_some()
    }

    /// Whether a metric is known well enough.
    pub(crate) fn precise(&self, id: MetricId) -> bool {
        let Some(series) = self.series.get(&id) else {
            return false;
        };
        if series.given.is_some() {
            return true;
        }
        let own = series.own();
        // A sample far from the rest is a reason to look whether it comes again.
        if own.far.is_suspect() && own.values.len() < VERIFIED {
            return false;
        }
        RULE.check_interval(own.values.len(), || series.interval(&own.values))
            == Some(fsage_stats::StopReason::Precise)
    }

    /// The value for the profile, `None` if nothing was measured.
    pub(crate) fn value(&self, id: MetricId) -> Option<MetricValue> {
        let series = self.series.get(&id)?;
        let mut value = series.value(id)?;
        // After a pause the processor's caches hold less than in a loop.
        let hot = id.with_gap(0).filter(|_| series.steady && id.gap() > 0);
        if let Some(hot) = hot.and_then(|hot| self.value(hot))
            && id.unit() == Unit::Ns
            && value.estimate < hot.estimate
        {
            // With the samples that it is made of.
            value = MetricValue {
                name: value.name,
                // Both ends or neither.
                high: hot
                    .high
                    .map(|hot| value.high.map_or(hot, |own| own.max(hot))),
                preempted: value.preempted,
                note: Some(format!(
                    "under the resolution (on average {:.0} ns): what it costs back to back",
                    value.mean
                )),
                ..hot
            };
        }
        Some(value)
    }
}

/// Means of at most [`KEPT_SAMPLES`] runs of consecutive samples.
fn batches(values: &[f64]) -> Vec<f64> {
    let size = values.len().div_ceil(KEPT_SAMPLES).max(1);
    values.chunks(size).map(fsage_stats::mean).collect()
}

impl Series {
    /// The samples without interruptions, and how many those were.
    fn sound(&self) -> (Vec<f64>, u32) {
        if !self.steady && !self.needs_those_set_aside() {
            return (self.values.clone(), 0);
        }
        if self.needs_those_set_aside() {
            // Most calls of a preempted batch were not the one that waited.
            let mut all = self.values.clone();
            all.extend(&self.set_aside);
            let limit = SPOILT_TIMES * fsage_stats::median(&all).abs();
            return (
                all.into_iter()
                    .filter(|&v| v <= limit.max(1000.0))
                    .collect(),
                0,
            );
        }
        let limit = INTERRUPTED_TIMES * fsage_stats::median(&self.values).abs();
        let limit = limit.max(INTERRUPTED_LEAST_NS);
        let kept: Vec<f64> = self
            .values
            .iter()
            .copied()
            .filter(|&v| v <= limit)
            .collect();
        let lost = self.values.len() - kept.len();
        (kept, lost as u32)
    }

    /// The samples of which the estimate is made, and what is left out of it: stalls, and what is far
    /// from the rest and did not recur. A stall is a call that slept for the device and took far longer
    /// than such calls do; where waiting is what most of them do, nothing is one.
    fn own(&self) -> Own {
        let (values, _) = self.sound();
        let (values, stalls) = self.without_stalls(values);
        // Of operations a second a far sample is a fast one, which nothing outside makes.
        let far = if self.rates {
            Far::default()
        } else {
            let least = INTERRUPTED_LEAST_NS * self.unit_ns();
            // What the device served was no processor's that others had, if places are still those of samples.
            let served = if values.len() == self.values.len() {
                self.served.as_slice()
            } else {
                &[]
            };
            Far::of(&values, least, self.disturbed, served)
        };
        Own {
            values: far.without(&values),
            stalls,
            far,
        }
    }

    fn without_stalls(&self, values: Vec<f64>) -> (Vec<f64>, Stalls) {
        if self.stalled.is_empty()
            || (self.steady && !self.computed)
            || self.needs_those_set_aside()
        {
            return (values, Stalls::default());
        }
        let limit = match self.computed {
            true if 2 * self.stalled.len() < values.len() => 0.0,
            true => f64::INFINITY,
            false => INTERRUPTED_TIMES * fsage_stats::median(&values).abs(),
        };
        let mut stalls = Stalls::default();
        let mut places = self.stalled.iter().peekable();
        let mut kept = Vec::with_capacity(values.len());
        for (place, value) in values.into_iter().enumerate() {
            let slept = places.next_if(|&&p| p == place).is_some();
            if slept && value > limit {
                stalls.calls += 1;
                stalls.ns += value;
            } else {
                kept.push(value);
            }
        }
        (kept, stalls)
    }

    /// Whether too little is left without the batches that were preempted.
    fn needs_those_set_aside(&self) -> bool {
        self.values.len() < RULE.min_runs && !self.set_aside.is_empty()
    }

    /// The mean or, of calls that wait, the median of the means of runs of samples: the calls' own
    /// skewness is in every run, a burst of other load in few.
    fn centre(&self, values: &[f64]) -> f64 {
        match self.run_means(values) {
            Some(means) => fsage_stats::median(&means),
            None => fsage_stats::mean(values),
        }
    }

    /// The means of consecutive runs of samples of calls that wait, if there are enough for that.
    fn run_means(&self, values: &[f64]) -> Option<Vec<f64>> {
        let runs = (values.len() / LEAST_OF_RUN).min(MOST_RUNS);
        let chunks = values.chunks(values.len().div_ceil(runs.max(1)).max(1));
        (self.waits && runs >= 3).then(|| chunks.map(fsage_stats::mean).collect())
    }

    /// The 95 % interval of [`Self::centre`]; `None` where there are too few samples to tell. Of a
    /// median of runs it lies between two of them in their order (binomial, distribution-free). Of a mean
    /// it is Student's on the scale of logarithms (delta method): what is positive and skewed is never
    /// below zero, and a mean of times is not below all of them.
    fn interval(&self, values: &[f64]) -> Option<Interval> {
        if values.len() < LEAST_OF_INTERVAL {
            return None;
        }
        let Some(means) = self.run_means(values) else {
            let mut interval = mean_interval(&batches(values), 0.95)?;
            let centre = interval.estimate;
            let half = (interval.high - centre) / centre;
            if centre <= 0.0 || half > MOST_OF_INTERVAL {
                return None;
            }
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            interval.low = (centre / half.exp()).max(least).min(centre);
            interval.high = centre * half.exp();
            return Some(interval);
        };
        // Too few runs for it: all of them.
        median_interval(&means, 0.95).or_else(|| {
            let sorted = ascending(&means);
            Some(Interval {
                estimate: fsage_stats::median(&means),
                low: sorted.first().copied()?,
                high: sorted.last().copied()?,
                confidence: 1.0 - 2f64.powi(1 - sorted.len() as i32),
            })
        })
    }

    /// The estimate and its interval, in the metric's unit.
    fn estimate(&self, own: &[f64]) -> (f64, Option<(f64, f64)>) {
        if let Some(given) = self.given {
            return given;
        }
        let estimate = if own.is_empty() {
            0.0
        } else {
            self.centre(own)
        };
        let interval = self.interval(own).map(|i| (i.low, i.high));
        match self.kib {
            Some(kib) => (
                rate(kib, estimate),
                interval.map(|(low, high)| (rate(kib, high), rate(kib, low))),
            ),
            None => (estimate, interval),
        }
    }

    fn value(&self, id: MetricId) -> Option<MetricValue> {
        let (values, interrupted) = self.sound();
        let mut samples = batches(&values);
        if samples.is_empty() && self.given.is_none() {
            return None;
        }
        let own = self.own();
        let (mut estimate, mut interval) = self.estimate(&own.values);
        let mut sorted = ascending(&values);
        if let Some(kib) = self.kib {
            for value in &mut samples {
                *value = rate(kib, *value);
            }
            sorted = sorted.into_iter().rev().map(|ns| rate(kib, ns)).collect();
        }
        // What was less than what is subtracted from it is under the resolution.
        let least = if id.unit() == Unit::Ns { 1.0 } else { 0.0 };
        for value in samples.iter_mut().chain(&mut sorted) {
            *value = value.max(least);
        }
        let mut note = self.note.clone().or_else(|| own.stalls.note(values.len()));
        let mut marks = self.marks.clone();
        if let Some(words) = own.far.words(own.values.len() + own.far.places.len()) {
            if own.far.is_suspect() {
                marks.push(words);
            } else if note.is_none() {
                note = Some(words);
            }
        }
        if self.needs_those_set_aside() {
            marks.push("the machine was busy: samples of preempted batches are among these".into());
        }
        if id.unit() == Unit::Ns && estimate < 1.0 {
            (estimate, interval) = (1.0, interval.map(|(low, high)| (low.min(1.0), high)));
            note = Some("what was subtracted is as large: under the resolution".to_owned());
        }
        let interval = interval.map(|(low, high)| (low.min(estimate).max(0.0), high.max(estimate)));
        let of_sorted = |of: &dyn Fn() -> f64| if sorted.is_empty() { estimate } else { of() };
        let q = |p| of_sorted(&|| quantile_sorted(&sorted, p));
        Some(MetricValue {
            name: id.to_string(),
            unit: id.unit().name().to_owned(),
            estimate,
            low: interval.map(|i| i.0),
            high: interval.map(|i| i.1),
            lower_bound: self.lower_bound,
            mean: of_sorted(&|| fsage_stats::mean(&sorted)),
            median: q(0.5),
            quantiles: [0.05, 0.25, 0.75, 0.95, 0.99, 1.0]
                .map(|p| Quantile { p, value: q(p) })
                .to_vec(),
            runs: values.len().max(self.counted).max(1) as u32,
            preempted: self.preempted + interrupted,
            stop: self.stop.to_owned(),
            samples,
            note,
            marks,
            reference_ns: self.reference_ns,
        })
    }

    /// How many of the samples' units a nanosecond is.
    fn unit_ns(&self) -> f64 {
        if self.seconds { 1e-9 } else { 1.0 }
    }
}

/// KiB a second where so many KiB take so long.
fn rate(kib: f64, ns: f64) -> f64 {
    kib * 1e9 / ns.max(1.0)
}

/// What the estimate is made of, and what is left out.
struct Own {
    values: Vec<f64>,
    stalls: Stalls,
    far: Far,
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the numbers are exact in binary")]
mod tests {
    use super::*;

    #[test]
    fn what_a_clock_tells_to_have_waited_is_no_part_however_short() {
        let mut measurements = Measurements::default();
        let estimate = |measurements: &mut Measurements, waited: usize| {
            for call in 0..40 {
                let waits = call < waited;
                let slept = if waits { Slept::Waited } else { Slept::Served };
                measurements.push(id("WN64"), if waits { 40.0 } else { 10.0 }, slept);
            }
            measurements.commit(false);
            measurements.mean(id("WN64")).unwrap()
        };
        assert!((estimate(&mut measurements, 4) - 10.0).abs() < 1e-9);
        // Where most wait it is their own cost.
        assert!(estimate(&mut measurements, 40) > 20.0);
    }

    fn stalled(is: bool) -> Slept {
        if is { Slept::Stalled } else { Slept::No }
    }

    fn id(name: &str) -> MetricId {
        MetricId::parse(name).unwrap()
    }

    #[test]
    fn the_estimate_is_the_mean_and_the_median_is_kept() {
        let mut measurements = Measurements::default();
        for value in [10.0, 10.0, 10.0, 50.0] {
            measurements.push(id("CR"), value, Slept::No);
        }
        measurements.commit(false);
        let value = measurements.value(id("CR")).unwrap();
        assert_eq!((value.estimate, value.median, value.runs), (20.0, 10.0, 4));
        assert!(value.low < Some(20.0) && value.high > Some(20.0));
        assert!(value.low > Some(0.0), "positive and skewed: {value:?}");
    }

    #[test]
    fn what_is_taken_from_another_metric_is_as_uncertain_above() {
        let mut measurements = Measurements::default();
        for (hot, paused) in [(350.0, 270.0), (380.0, 330.0), (410.0, 280.0)] {
            measurements.push(id("STAT"), hot, Slept::No);
            measurements.push(id("STAT_G1"), paused, Slept::No);
        }
        measurements.commit(false);
        measurements.series(id("STAT_G1")).steady = true;
        let [hot, paused] = ["STAT", "STAT_G1"].map(|name| measurements.value(id(name)).unwrap());
        assert_eq!(paused.estimate, hot.estimate);
        assert_eq!(paused.samples, hot.samples, "what it is made of");
        assert!(
            paused.high >= hot.high && hot.high > Some(hot.estimate),
            "{paused:?}"
        );
    }

    #[test]
    fn a_rate_comes_from_the_mean_time() {
        let mut measurements = Measurements::default();
        for ns in [1000.0, 2000.0, 3000.0] {
            measurements.push(id("RD4"), ns, Slept::No);
        }
        measurements.commit(false);
        measurements.series(id("RD4")).kib = Some(4.0);
        let value = measurements.value(id("RD4")).unwrap();
        assert!((value.estimate - 4.0 * 1e9 / 2000.0).abs() < 1e-6);
        assert!(value.low <= Some(value.estimate) && Some(value.estimate) <= value.high);
    }

    #[test]
    fn interruptions_of_steady_calls_are_counted_and_rejected_batches_too() {
        let mut measurements = Measurements::default();
        for value in [300.0; 50].into_iter().chain([4e6]) {
            measurements.push(id("STAT"), value, Slept::No);
        }
        measurements.commit(false);
        measurements.push(id("STAT"), 900.0, Slept::No);
        measurements.reject();
        measurements.series(id("STAT")).steady = true;
        let value = measurements.value(id("STAT")).unwrap();
        assert_eq!(
            (value.estimate, value.preempted, value.runs),
            (300.0, 2, 50)
        );
    }

    #[test]
    fn what_waited_for_the_device_is_no_part_of_the_estimate_and_stays_among_the_samples() {
        let mut measurements = Measurements::default();
        for turn in 0..99 {
            measurements.push(id("CR"), 10.0, stalled(turn == 0));
        }
        measurements.push(id("CR"), 1e6, Slept::Stalled);
        measurements.push(id("CR"), 910.0, Slept::No);
        measurements.commit(false);
        let value = measurements.value(id("CR")).unwrap();
        assert_eq!(
            (value.estimate, value.runs, value.preempted),
            (19.0, 101, 0)
        );
        assert!(value.samples.contains(&1e6) && value.mean > 9000.0);
        let note = value.note.unwrap();
        assert!(note.starts_with("1 of 101 calls (0.99 %)"), "{note}");
        assert!(measurements.mean(id("CR")) == Some(19.0));
    }

    #[test]
    fn where_most_calls_wait_none_is_left_out() {
        let mut measurements = Measurements::default();
        for value in [1e6, 2e6, 3e6].into_iter().cycle().take(30) {
            measurements.push(id("RMF4"), value, Slept::Stalled);
        }
        measurements.commit(false);
        let value = measurements.value(id("RMF4")).unwrap();
        assert_eq!((value.estimate, value.note), (2e6, None));
    }

    #[test]
    fn one_of_fifteen_samples_does_not_decide_and_is_reported() {
        // FSYN16 on a busy machine: a median of 83 us and a mean of 14.2 ms.
        let mut measurements = Measurements::default();
        for turn in 0..15 {
            let ns = if turn == 7 { 213e6 } else { 83e3 };
            measurements.push(id("FSYN16"), ns, Slept::No);
        }
        measurements.commit(true);
        assert!(!measurements.precise(id("FSYN16")), "it may come again");
        let value = measurements.value(id("FSYN16")).unwrap();
        assert_eq!((value.estimate, value.median, value.runs), (83e3, 83e3, 15));
        assert!(value.mean > 1e7 && value.samples.contains(&213e6));
        assert!(
            value.marks[0].contains("did not recur"),
            "{:?}",
            value.marks
        );
    }

    #[test]
    fn what_recurs_is_the_calls_own_cost() {
        let mut measurements = Measurements::default();
        for turn in 0..1000 {
            let ns = if turn % 40 == 20 { 1e6 } else { 1e4 };
            measurements.push(id("CR"), ns, Slept::No);
        }
        measurements.commit(false);
        let value = measurements.value(id("CR")).unwrap();
        assert_eq!((value.estimate, value.marks.len()), (34_750.0, 0));
    }

    #[test]
    fn the_interval_of_few_samples_is_unknown() {
        let mut measurements = Measurements::default();
        for (count, known) in [(1, false), (2, false), (3, true)] {
            measurements.push(id("FDSO"), 1e3 + f64::from(count), Slept::No);
            measurements.commit(true);
            let value = measurements.value(id("FDSO")).unwrap();
            assert_eq!(value.interval().is_some(), known, "{count} samples");
        }
        // Of the least squares nothing is known but the constant.
        measurements.series(id("RDO")).given = Some((500.0, None));
        assert_eq!(measurements.value(id("RDO")).unwrap().interval(), None);
    }

    #[test]
    fn intervals_of_skewed_times_are_never_negative() {
        let mut measurements = Measurements::default();
        for ns in [1.0, 2.0, 1.0, 900.0, 700.0] {
            measurements.push(id("STAT"), ns * 1e3, Slept::No);
        }
        measurements.commit(false);
        let (low, high) = measurements.value(id("STAT")).unwrap().interval().unwrap();
        assert!(low >= 1e3 && high > 600e3, "{low} {high}");
        // What is nearly all subtracted has a spread that says nothing.
        for ns in [-900.0, 1100.0, -1000.0, 1000.0] {
            measurements.push(id("SEEK"), ns, Slept::No);
        }
        measurements.commit(false);
        assert_eq!(measurements.value(id("SEEK")).unwrap().interval(), None);
    }

    #[test]
    fn no_call_costs_less_after_a_pause_than_in_a_loop() {
        let mut measurements = Measurements::default();
        for turn in 0..9 {
            measurements.push(id("STAT"), 300.0, Slept::No);
            measurements.push(id("STAT_G2000"), 40.0 + f64::from(turn) - 60.0, Slept::No);
        }
        measurements.commit(false);
        assert_eq!(measurements.value(id("STAT_G2000")).unwrap().estimate, 1.0);
        measurements.series(id("STAT_G2000")).steady = true;
        let value = measurements.value(id("STAT_G2000")).unwrap();
        assert_eq!((value.estimate, value.median), (300.0, 300.0));
        assert!(value.note.unwrap().contains("back to back"));
    }

    #[test]
    fn an_interval_has_both_ends_or_neither() {
        for paused in [1, 2, 30] {
            let mut measurements = Measurements::default();
            for turn in 0..40 {
                measurements.push(id("SEEK"), 40.0 + f64::from(turn % 3), Slept::No);
            }
            for _ in 0..paused {
                measurements.push(id("SEEK_G2000"), 20.0, Slept::No);
            }
            measurements.commit(false);
            measurements.series(id("SEEK")).steady = true;
            measurements.series(id("SEEK_G2000")).steady = true;
            let value = measurements.value(id("SEEK_G2000")).unwrap();
            assert!(value.estimate >= 40.0);
            assert_eq!(value.low.is_some(), value.high.is_some(), "{paused}");
        }
    }

    #[test]
    fn no_estimate_lies_outside_of_its_samples() {
        let mut random = crate::random::Random::new(7);
        for turn in 0..400 {
            let mut measurements = Measurements::default();
            let ids = ["STAT", "STAT_G1", "CR", "FSYN16", "RD4"].map(id);
            for id in ids {
                for _ in 0..=random.below(120) {
                    let usual = 1.0 + random.below(400) as f64 - 50.0;
                    let far = [1.0, 1.0, 1.0, 30.0, 4000.0][random.below(5)];
                    measurements.push(id, usual * far, stalled(far > 1.0));
                    if random.below(9) == 0 {
                        measurements.reject();
                    }
                }
                measurements.commit(random.below(2) == 0);
                let series = measurements.series(id);
                series.steady = random.below(2) == 0;
                series.disturbed = random.below(2) == 0;
            }
            measurements.series(id("RD4")).kib = Some(4.0);
            for value in ids.iter().filter_map(|&id| measurements.value(id)) {
                // What is kept of many samples are means of some.
                let least = value.samples.iter().copied().fold(f64::INFINITY, f64::min);
                let most = value.samples.iter().copied().fold(value.median, f64::max);
                let slack = 1.0 + 1e-9;
                assert!(
                    value.estimate <= most * slack && value.estimate * slack >= least,
                    "{turn}: {} of {least} to {most}: {value:?}",
                    value.estimate
                );
            }
        }
    }

    #[test]
    fn what_was_never_sampled_has_no_value() {
        assert!(Measurements::default().value(id("CR")).is_none());
    }
}

//! Samples that lie far from the rest: a call's own cost if they recur, else somebody else's.
//!
//! A workload pays the mean, stalls included. But a machine that took a processor or a disk away once
//! shows the same: a few samples of a thousand times the median. What is the call's own comes again and
//! again over the measurement; what comes once, or all at one time, is not known to be. Where a few outweigh all
//! others, the next measurement would say something else: how much they bring is not known.

/// A sample is far from this many times the median on. Calls of ten times the cost are usual: commits,
/// allocations, cold lines.
const FAR_TIMES: f64 = 10.0;
/// Parts of a measurement, and in how many of them far samples must have come to be the call's own.
const PARTS: usize = 5;
const RECURS_IN: usize = 3;
/// From this share of the samples on they are no exception: there are two kinds of call.
const USUAL_SHARE: f64 = 0.2;
/// The same on a disturbed machine.
const DISTURBED_SHARE: f64 = 0.4;
/// From this share of far samples on that the device served, disturbance is not why.
const SERVED_SHARE: f64 = 0.8;
/// So many of them, each weighed by its share of their sum, are enough to say how much they bring; a few that
/// outweigh all others would be others in the next measurement.
const ENOUGH: f64 = 20.0;
/// Fewer samples have no rest to be far from.
const LEAST: usize = 3;
/// What is left out changes the mean by more than this: the estimate is suspect.
const SUSPECT_SHARE: f64 = 0.05;

/// What was found of a series.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Far {
    /// The places of samples that are far from the rest and left out, ascending.
    pub places: Vec<usize>,
    /// The largest of them.
    pub largest: f64,
    /// The median of all; less than what is subtracted from the samples, it is below zero.
    pub median: f64,
    /// Whether it was the disturbance that let them out.
    disturbed: bool,
    /// Whether they recurred, but are too few.
    few: bool,
    /// How much the mean would be more with them, as a share; infinite where it is not above zero without.
    pub share: f64,
}

impl Far {
    /// Of samples in the order in which they were taken; nothing under `least` is far. Where the machine was
    /// disturbed what recurs may be the disturbance, and nothing far decides, unless nearly all of it is at the
    /// places (ascending) that the measurement's own device served.
    pub(crate) fn of(values: &[f64], least: f64, disturbed: bool, served: &[usize]) -> Far {
        if values.len() < LEAST {
            return Far::default();
        }
        let median = fsage_stats::median(values);
        let limit = (FAR_TIMES * median.abs()).max(least);
        let places: Vec<usize> = (0..values.len())
            .filter(|&place| values.get(place).is_some_and(|&v| v > limit))
            .collect();
        let of_device = places.iter().filter(|p| served.binary_search(p).is_ok());
        let is_served = of_device.count() as f64 >= SERVED_SHARE * places.len() as f64;
        let disturbed = disturbed && !is_served;
        let far = || places.iter().filter_map(|&p| values.get(p).copied());
        let recurs = !disturbed && recurs(&places, values.len());
        let own = if disturbed {
            usual(&places, values.len(), DISTURBED_SHARE)
        } else {
            usual(&places, values.len(), USUAL_SHARE)
                || recurs && (is_served || weight(far()) >= ENOUGH)
        };
        if places.is_empty() || own {
            return Far::default();
        }
        let sum: f64 = values.iter().sum();
        let of_far: f64 = far().sum();
        let n = values.len() as f64;
        let rest = (sum - of_far) / (n - places.len() as f64).max(1.0);
        Far {
            largest: far().fold(0.0, f64::max),
            median,
            disturbed,
            few: recurs,
            share: if rest > 0.0 {
                (sum / n - rest) / rest
            } else {
                f64::INFINITY
            },
            places,
        }
    }

    /// The others, in their order.
    pub(crate) fn without(&self, values: &[f64]) -> Vec<f64> {
        let mut places = self.places.iter().peekable();
        let kept = values.iter().enumerate();
        kept.filter(|(place, _)| places.next_if(|&p| p == place).is_none())
            .map(|(_, &v)| v)
            .collect()
    }

    /// Whether leaving them out changes the estimate.
    pub(crate) fn is_suspect(&self) -> bool {
        self.share > SUSPECT_SHARE
    }

    /// What a reader must know.
    pub(crate) fn words(&self, of: usize) -> Option<String> {
        let count = self.places.len();
        (count > 0).then(|| {
            format!(
                "{count} of {of} samples, {}, {} and {} left out of the estimate{}",
                if self.median > 0.0 {
                    format!("up to {:.0} times the median", self.largest / self.median)
                } else {
                    "far above a median that is not above zero".to_owned()
                },
                if self.disturbed {
                    "came while others used the machine"
                } else if self.few {
                    "are too few to say how much they bring"
                } else {
                    "did not recur over the measurement"
                },
                if count == 1 { "is" } else { "are" },
                if self.share.is_finite() {
                    let them = if count == 1 { "it" } else { "them" };
                    format!(
                        "; with {them} the mean were {:.0} % more",
                        100.0 * self.share
                    )
                } else {
                    String::new()
                }
            )
        })
    }
}

/// Whether samples at these places of so many came again and again.
fn recurs(places: &[usize], of: usize) -> bool {
    let count = places.len();
    let mut parts = [false; PARTS];
    for place in places {
        if let Some(part) = parts.get_mut(place * PARTS / of.max(1)) {
            *part = true;
        }
    }
    count >= RECURS_IN && parts.iter().filter(|&&p| p).count() >= RECURS_IN
}

/// How many of equal size would be as sure a sum as these (Kish's effective size).
fn weight(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, squares) = values.fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
    sum * sum / f64::max(squares, f64::MIN_POSITIVE)
}

/// Whether so many are a kind of their own.
fn usual(places: &[usize], of: usize, share: f64) -> bool {
    places.len() >= 2 && places.len() as f64 > share * of as f64
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the numbers are exact in binary")]
mod tests {
    use super::*;

    fn with(far: &[usize], of: usize) -> Vec<f64> {
        let mut values = vec![100.0; of];
        for &place in far {
            values[place] = 200_000.0;
        }
        values
    }

    #[test]
    fn one_of_fifteen_decides_nothing() {
        let values = with(&[6], 15);
        let far = Far::of(&values, 0.0, false, &[]);
        assert_eq!((far.places.as_slice(), far.largest), (&[6][..], 200_000.0));
        assert!(far.is_suspect());
        assert_eq!(far.without(&values), vec![100.0; 14]);
        let words = far.words(15).unwrap();
        assert!(
            words.starts_with("1 of 15 samples, up to 2000 times"),
            "{words}"
        );
    }

    #[test]
    fn a_burst_is_none_of_the_calls_own_and_what_recurs_is() {
        assert_eq!(
            Far::of(&with(&[500, 501, 502, 503, 504], 1000), 0.0, false, &[])
                .places
                .len(),
            5
        );
        let recurring: Vec<usize> = (0..25).map(|i| i * 40).collect();
        assert_eq!(
            Far::of(&with(&recurring, 1000), 0.0, false, &[]),
            Far::default()
        );
        // Four of a thousand are not enough to say how often they come, nor is one that outweighs 24.
        let few = Far::of(&with(&[10, 300, 700, 900], 1000), 0.0, false, &[]);
        assert!(few.words(1000).unwrap().contains("too few"));
        let mut uneven = with(&recurring, 1000);
        uneven[400] *= 100.0;
        assert_eq!(Far::of(&uneven, 0.0, false, &[]).places.len(), 25);
        // Where others had the machine it may be theirs.
        let busy = Far::of(&with(&[10, 300, 700, 900], 1000), 0.0, true, &[]);
        assert_eq!(busy.places.len(), 4);
        assert!(
            busy.words(1000)
                .unwrap()
                .contains("others used the machine")
        );
        let own = |served| Far::of(&with(&[10, 300, 700, 900], 1000), 0.0, true, served);
        assert_eq!(own(&[10, 300, 500, 700, 900]), Far::default());
        assert_eq!(own(&[10, 300, 500]).places.len(), 4);
        // Every fourth call is no exception.
        assert_eq!(Far::of(&with(&[1, 5], 8), 0.0, false, &[]), Far::default());
    }

    #[test]
    fn what_is_short_or_alone_is_not_far() {
        assert_eq!(Far::of(&with(&[6], 15), 1e6, false, &[]), Far::default());
        assert_eq!(Far::of(&[1.0, 1e9], 0.0, false, &[]), Far::default());
        let rare = Far::of(&with(&[50_000], 100_000), 0.0, false, &[]);
        assert!(!rare.places.is_empty() && !rare.is_suspect());
    }
}

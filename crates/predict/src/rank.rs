//! Which system is faster, and how sure that is.

use crate::certainty::{APART, Totals, elapsed_order, latency_order};
use crate::result::{Confidence, MARKED_MOST, PairRank, Ranked};

/// From this probability on an order is called likely.
const LIKELY: f64 = 0.75;

/// A system in the race.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The system.
    pub name: String,
    /// What tells its target from others; empty where nobody knows.
    pub target: String,
    /// Its totals.
    pub totals: Totals,
}

/// The order by elapsed time, and how sure that of each pair is. What one trace takes on two profiles
/// of one target differs by chance alone.
pub fn rank(entries: &[Entry]) -> (Vec<Ranked>, Vec<PairRank>) {
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by(|a, b| {
        let (a, b) = (&a.totals, &b.totals);
        (a.elapsed_ns.total_cmp(&b.elapsed_ns)).then(a.latency_ns.total_cmp(&b.latency_ns))
    });
    let is_disturbed = |e: &Entry| e.totals.marked > MARKED_MOST;
    let steady = order.iter().filter(|e| !is_disturbed(e)).count();
    let mut among_steady = 0;
    let fastest = order.first().map_or(0.0, |e| e.totals.elapsed_ns);
    let ranked = order
        .iter()
        .zip(1..)
        .map(|(e, place)| Ranked {
            place,
            name: e.name.clone(),
            elapsed_ns: e.totals.elapsed_ns,
            latency_total_ns: e.totals.latency_ns,
            ratio: ratio(e.totals.elapsed_ns, fastest),
            disturbed: is_disturbed(e),
            place_told: (steady > 1 && !is_disturbed(e)).then(|| {
                among_steady += 1;
                among_steady
            }),
        })
        .collect();
    let mut pairs = Vec::new();
    for (i, fast) in order.iter().enumerate() {
        pairs.extend(order.iter().skip(i + 1).map(|slow| pair(fast, slow)));
    }
    (ranked, pairs)
}

fn ratio(slow: f64, fast: f64) -> f64 {
    if fast > 0.0 { slow / fast } else { 1.0 }
}

fn pair(fast: &Entry, slow: &Entry) -> PairRank {
    let same_target = !fast.target.is_empty() && fast.target == slow.target;
    let (a, b) = (&fast.totals, &slow.totals);
    let (probability, latency_probability) = if same_target {
        (0.5, 0.5)
    } else {
        (elapsed_order(a, b), latency_order(a, b))
    };
    PairRank {
        faster: fast.name.clone(),
        slower: slow.name.clone(),
        ratio: ratio(b.elapsed_ns, a.elapsed_ns),
        probability,
        confidence: match probability {
            p if p >= APART => Confidence::Apart,
            p if p >= LIKELY => Confidence::Likely,
            _ => Confidence::NotDistinguishable,
        },
        latency_ratio: ratio(b.latency_ns, a.latency_ns),
        latency_probability,
        same_target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, ns: f64, target: &str) -> Entry {
        Entry {
            name: name.to_owned(),
            target: target.to_owned(),
            totals: Totals {
                latency_ns: ns,
                elapsed_ns: ns,
                profile: 0.02,
                in_memory: true,
                unplaced: 0.0,
                marked: 0.0,
            },
        }
    }

    #[test]
    fn order_and_confidence() {
        let (ranked, pairs) = rank(&[
            entry("b", 220.0, ""),
            entry("a", 100.0, ""),
            entry("c", 222.0, ""),
        ]);
        let names: Vec<&str> = ranked.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let sure: Vec<Confidence> = pairs.iter().map(|p| p.confidence).collect();
        assert_eq!(
            sure,
            [
                Confidence::Apart,
                Confidence::Apart,
                Confidence::NotDistinguishable
            ]
        );
        let (_, pairs) = rank(&[entry("a", 100.0, ""), entry("b", 135.0, "")]);
        assert_eq!(pairs[0].confidence, Confidence::Likely);
        assert!(pairs[0].probability > 0.75 && pairs[0].probability < 0.95);
    }

    #[test]
    fn the_place_of_what_was_disturbed_is_not_known() {
        let mut all = [entry("a", 100.0, ""), entry("b", 220.0, "")];
        all[1].totals.marked = 0.6;
        let disturbed = rank(&all).0.into_iter().map(|ranked| ranked.disturbed);
        assert_eq!(disturbed.collect::<Vec<_>>(), [false, true]);
        let place = |all: &[Entry]| {
            let ranked = rank(all).0.into_iter();
            ranked.map(|r| r.place_told).collect::<Vec<_>>()
        };
        assert_eq!(place(&all), [None, None], "of one no order is told");
        let mut all = [
            entry("a", 100.0, ""),
            entry("b", 220.0, ""),
            entry("c", 300.0, ""),
        ];
        assert_eq!(place(&all), [Some(1), Some(2), Some(3)]);
        all[0].totals.marked = 0.6;
        assert_eq!(place(&all), [None, Some(1), Some(2)]);
    }

    #[test]
    fn two_profiles_of_one_target_are_not_told_apart() {
        let (_, pairs) = rank(&[entry("a", 43.5, "x"), entry("b", 1840.0, "x")]);
        assert_eq!(pairs[0].confidence, Confidence::NotDistinguishable);
        assert!(pairs[0].same_target);
        let (_, pairs) = rank(&[entry("a", 43.5, "x"), entry("b", 1840.0, "y")]);
        assert_eq!(pairs[0].confidence, Confidence::Apart);
    }
}

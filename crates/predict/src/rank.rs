//! Which system is faster, and how sure that is.

use crate::result::{Confidence, PairRank, Ranked};

/// Systems closer than this were ranked wrongly by a prototype, whatever their intervals (all of its
/// misses lay between 2 and 13 % apart).
const SURE_RATIO: f64 = 1.15;
const LIKELY_RATIO: f64 = 1.05;

/// A total with its standard error.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// The system.
    pub name: String,
    /// Total latency in nanoseconds.
    pub latency_ns: f64,
    /// Its standard error in nanoseconds.
    pub error_ns: f64,
}

/// The order of the totals, and how sure each pair is.
pub fn rank(totals: &[Total]) -> (Vec<Ranked>, Vec<PairRank>) {
    let mut order: Vec<&Total> = totals.iter().collect();
    order.sort_by(|a, b| a.latency_ns.total_cmp(&b.latency_ns));
    let fastest = order.first().map_or(0.0, |t| t.latency_ns);
    let ratio = |slow: f64, fast: f64| if fast > 0.0 { slow / fast } else { 1.0 };
    let ranked = order
        .iter()
        .zip(1..)
        .map(|(t, place)| Ranked {
            place,
            name: t.name.clone(),
            latency_total_ns: t.latency_ns,
            ratio: ratio(t.latency_ns, fastest),
        })
        .collect();
    let mut pairs = Vec::new();
    for (i, fast) in order.iter().enumerate() {
        for slow in order.iter().skip(i + 1) {
            let error = fast.error_ns.hypot(slow.error_ns);
            let difference = slow.latency_ns - fast.latency_ns;
            let z = if error > 0.0 {
                (difference / error).min(1e6)
            } else if difference > 0.0 {
                1e6
            } else {
                0.0
            };
            let ratio = ratio(slow.latency_ns, fast.latency_ns);
            let confidence = if z >= 1.96 && ratio >= SURE_RATIO {
                Confidence::Sure
            } else if z >= 1.0 && ratio >= LIKELY_RATIO {
                Confidence::Likely
            } else {
                Confidence::NotDistinguishable
            };
            let (faster, slower) = (fast.name.clone(), slow.name.clone());
            pairs.push(PairRank {
                faster,
                slower,
                ratio,
                confidence,
                z,
            });
        }
    }
    (ranked, pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(name: &str, latency_ns: f64, error_ns: f64) -> Total {
        Total {
            name: name.to_owned(),
            latency_ns,
            error_ns,
        }
    }

    #[test]
    fn order_and_confidence() {
        let (ranked, pairs) = rank(&[
            total("b", 130.0, 5.0),
            total("a", 100.0, 5.0),
            total("c", 131.0, 5.0),
        ]);
        let names: Vec<&str> = ranked.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let sure: Vec<Confidence> = pairs.iter().map(|p| p.confidence).collect();
        assert_eq!(
            sure,
            [
                Confidence::Sure,
                Confidence::Sure,
                Confidence::NotDistinguishable
            ]
        );
        let (_, pairs) = rank(&[total("a", 100.0, 0.0), total("b", 108.0, 0.0)]);
        assert_eq!(pairs[0].confidence, Confidence::Likely);
        let (_, pairs) = rank(&[total("a", 0.0, 0.0), total("b", 0.0, 0.0)]);
        assert_eq!(pairs[0].confidence, Confidence::NotDistinguishable);
    }
}

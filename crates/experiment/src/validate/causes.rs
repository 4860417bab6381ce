//! What the error consists of: which kinds of operations, on which targets, so that the reader sees
//! what to mend first.

use std::collections::BTreeMap;

use fsage_format::result::validation::{Cause, KindCause, Pair};

/// The difference of every kind in every pair, largest first. Each weighs by its part of its pair's
/// measured latency: all pairs count alike, as in the average error.
pub fn causes(pairs: &[Pair]) -> Vec<Cause> {
    let mut causes: Vec<Cause> = pairs
        .iter()
        .filter(|p| p.measured_ns > 0.0)
        .flat_map(|pair| {
            pair.kinds.iter().map(|kind| Cause {
                group: pair.group.clone(),
                workload: pair.workload.clone(),
                target: pair.target.clone(),
                kind: kind.kind.clone(),
                count: kind.measured_count,
                measured_ns: kind.measured_ns,
                predicted_ns: kind.predicted_ns,
                of_pair: (kind.predicted_ns - kind.measured_ns) / pair.measured_ns,
                share: 0.0,
            })
        })
        .filter(|cause| cause.of_pair != 0.0)
        .collect();
    let total: f64 = causes.iter().map(|c| c.of_pair.abs()).sum();
    for cause in &mut causes {
        cause.share = cause.of_pair.abs() / total;
    }
    // The sort is stable: equal weights stay in the order of the pairs.
    causes.sort_by(|a, b| b.share.total_cmp(&a.share));
    causes
}

/// The same added up by group and kind, largest first. Expects `causes` to be sorted.
pub fn by_kind(causes: &[Cause]) -> Vec<KindCause> {
    let mut sums: BTreeMap<(&Option<String>, &String), KindCause> = BTreeMap::new();
    for cause in causes {
        let sum = sums
            .entry((&cause.group, &cause.kind))
            .or_insert_with(|| KindCause {
                group: cause.group.clone(),
                kind: cause.kind.clone(),
                share: 0.0,
                share_high: 0.0,
                share_low: 0.0,
                most_in: format!("{} on {}", cause.workload, cause.target),
            });
        sum.share += cause.share;
        if cause.of_pair > 0.0 {
            sum.share_high += cause.share;
        } else {
            sum.share_low += cause.share;
        }
    }
    let mut sums: Vec<KindCause> = sums.into_values().collect();
    sums.sort_by(|a, b| b.share.total_cmp(&a.share));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::judge::tests::pair;
    use fsage_format::result::validation::{Distribution, PairKind};

    fn kind(name: &str, measured_ns: f64, predicted_ns: f64) -> PairKind {
        PairKind {
            kind: name.into(),
            count: 1,
            measured_count: 1.0,
            measured_ns,
            predicted_ns,
            measured_distribution: Distribution::default(),
            predicted_distribution: Distribution::default(),
        }
    }

    #[test]
    fn what_weighs_most_comes_first_whatever_the_scale_of_its_pair() {
        let mut slow = pair("w", "disk", 1e9, 1e9);
        slow.kinds = vec![kind("read", 9e8, 8e8), kind("open", 1e8, 1e8)];
        let mut fast = pair("w", "ram", 1000.0, 900.0);
        fast.kinds = vec![kind("read", 600.0, 800.0), kind("open", 400.0, 100.0)];
        let found = causes(&[slow, fast, pair("v", "none", 0.0, 1.0)]);
        let reported: Vec<String> = found
            .iter()
            .map(|c| format!("{} {} {:+.1} {:.3}", c.target, c.kind, c.of_pair, c.share))
            .collect();
        assert_eq!(
            reported,
            [
                "ram open -0.3 0.500",
                "ram read +0.2 0.333",
                "disk read -0.1 0.167"
            ]
        );
        let kinds = by_kind(&found);
        assert_eq!(kinds.len(), 2);
        let read = kinds.iter().find(|k| k.kind == "read").unwrap();
        assert!((read.share - 0.5).abs() < 1e-12);
        assert!((read.share_high - 1.0 / 3.0).abs() < 1e-12);
        assert!((read.share_low - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(read.most_in, "w on ram");
        assert!(by_kind(&causes(&[])).is_empty());
    }
}

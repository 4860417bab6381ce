//! What is said of predictions once everything is measured. Pure: the tables of Smith 2001, 4.5.4.5
//! from the pairs alone.

use std::collections::BTreeMap;

use fsage_format::result::validation::{
    Figures, GroupFigures, Judgement, NamedError, Pair, WrongRank,
};
use fsage_stats::{correlate, positive_mean_interval, relative_errors, stddev, usable};

use super::causes::{by_kind, causes};

/// Difference beyond which a wrong order counts as significant, a fraction of the faster one.
const SIGNIFICANT_DIFFERENCE: f64 = 0.15;

/// The mean of the measured runs, its 95 % interval where that says more than that the mean is positive, and its
/// coefficient of variation.
pub fn measured(runs_ns: &[u64]) -> (f64, Option<(f64, f64)>, Option<f64>) {
    let samples: Vec<f64> = runs_ns.iter().map(|&ns| ns as f64).collect();
    let mean = fsage_stats::mean(&samples);
    let interval = positive_mean_interval(&samples, 0.95).map(|i| (i.low, i.high));
    let interval = interval.filter(|&(low, high)| usable(low, high));
    let variation = (samples.len() > 1 && mean > 0.0).then(|| stddev(&samples) / mean);
    (mean, interval, variation)
}

/// Judges all pairs, raw and, where there are as many of them, `at_equal_speed`. Pairs without a measurement above
/// zero are left out of the errors.
pub fn judge_both(pairs: &[Pair], at_equal_speed: &[Pair]) -> Judgement {
    let both = !pairs.is_empty() && pairs.len() == at_equal_speed.len();
    Judgement {
        equal_speed: both.then(|| Box::new(judge(at_equal_speed))),
        ..judge(pairs)
    }
}

/// Judges all pairs.
fn judge(pairs: &[Pair]) -> Judgement {
    let all: Vec<&Pair> = pairs.iter().collect();
    let (figures, ranks_wrong) = figures(&all);
    let causes = causes(pairs);
    Judgement {
        by_target: averages(&all, |p| &p.target),
        by_workload: averages(&all, |p| &p.workload),
        figures,
        ranks_wrong,
        groups: groups(pairs),
        causes_by_kind: by_kind(&causes),
        causes,
        equal_speed: None,
    }
}

fn groups(pairs: &[Pair]) -> Vec<GroupFigures> {
    let mut names: Vec<&String> = Vec::new();
    for name in pairs.iter().filter_map(|p| p.group.as_ref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let of = |name: &String| -> GroupFigures {
        let its: Vec<&Pair> = pairs
            .iter()
            .filter(|p| p.group.as_ref() == Some(name))
            .collect();
        GroupFigures {
            name: name.clone(),
            figures: figures(&its).0,
            by_workload: averages(&its, |p| &p.workload),
        }
    };
    names.into_iter().map(of).collect()
}

fn figures(pairs: &[&Pair]) -> (Figures, Vec<WrongRank>) {
    let measured: Vec<(f64, f64)> = pairs
        .iter()
        .filter(|p| p.measured_ns > 0.0)
        .map(|p| (p.measured_ns, p.predicted_ns))
        .collect();
    let errors = relative_errors(&measured);
    let mean_of = |values: Vec<f64>| (!values.is_empty()).then(|| fsage_stats::mean(&values));
    let elapsed = pairs.iter().filter_map(|p| p.elapsed_error);
    let variation = pairs.iter().filter_map(|p| p.measured_variation);
    let ranks = Ranks::of(pairs);
    let figures = Figures {
        average_error: errors.as_ref().map(|e| e.average),
        median_error: errors.as_ref().map(|e| e.median),
        rms_error: errors.as_ref().map(|e| e.rms),
        correlation: correlate::pearson(&measured),
        average_elapsed_error: mean_of(elapsed.map(f64::abs).collect()),
        average_variation: mean_of(variation.collect()),
        ranks_right: ranks.right,
        ranks_total: ranks.total,
        ranks_apart_right: ranks.apart_right,
        ranks_apart_total: ranks.apart_total,
    };
    (figures, ranks.wrong)
}

fn averages(pairs: &[&Pair], key: impl Fn(&Pair) -> &String) -> Vec<NamedError> {
    let mut order: Vec<&String> = Vec::new();
    let mut errors: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for pair in pairs.iter().filter(|p| p.measured_ns > 0.0) {
        let name = key(pair);
        if !order.contains(&name) {
            order.push(name);
        }
        errors.entry(name).or_default().push(pair.error.abs());
    }
    order
        .into_iter()
        .map(|name| NamedError {
            name: name.clone(),
            average_error: fsage_stats::mean(&errors[name]),
        })
        .collect()
}

/// Every two targets of each workload, compared. Measured ties have no order to get right.
#[derive(Debug, Default)]
struct Ranks {
    right: u32,
    total: u32,
    apart_right: u32,
    apart_total: u32,
    wrong: Vec<WrongRank>,
}

impl Ranks {
    fn of(pairs: &[&Pair]) -> Self {
        let mut ranks = Self::default();
        for (i, a) in pairs.iter().enumerate() {
            for b in pairs
                .iter()
                .skip(i + 1)
                .filter(|b| b.workload == a.workload)
            {
                if a.measured_ns <= b.measured_ns {
                    ranks.compare(a, b);
                } else {
                    ranks.compare(b, a);
                }
            }
        }
        ranks
    }

    fn compare(&mut self, faster: &Pair, slower: &Pair) {
        if faster.measured_ns <= 0.0 || faster.measured_ns >= slower.measured_ns {
            return;
        }
        let known = faster.measured_interval_ns.is_some() && slower.measured_interval_ns.is_some();
        let disjoint = disjoint(faster, slower);
        let apart = known && disjoint;
        let predicted_ns = |pair: &Pair| pair.ranked_ns.unwrap_or(pair.predicted_ns);
        let right = predicted_ns(faster) < predicted_ns(slower);
        self.total += 1;
        self.right += u32::from(right);
        self.apart_total += u32::from(apart);
        self.apart_right += u32::from(apart && right);
        if right {
            return;
        }
        let ratio = slower.measured_ns / faster.measured_ns;
        self.wrong.push(WrongRank {
            workload: faster.workload.clone(),
            faster: faster.target.clone(),
            slower: slower.target.clone(),
            measured_ratio: ratio,
            apart,
            significant: ratio > 1.0 + SIGNIFICANT_DIFFERENCE && disjoint,
        });
    }
}

/// Whether the measured intervals do not overlap; of single runs nothing says that they do. Of several without an
/// interval it is too wide to be of use, and overlaps.
fn disjoint(faster: &Pair, slower: &Pair) -> bool {
    let wide = |p: &Pair| p.measured_interval_ns.is_none() && p.judged_by() > 1;
    match (faster.measured_interval_ns, slower.measured_interval_ns) {
        (Some((_, high)), Some((low, _))) => high < low,
        _ => !wide(faster) && !wide(slower),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::validate) fn pair(
        workload: &str,
        target: &str,
        measured_ns: f64,
        predicted_ns: f64,
    ) -> Pair {
        Pair {
            workload: workload.into(),
            target: target.into(),
            group: None,
            trace_on: "a".into(),
            measured_ns,
            measured_runs_ns: vec![],
            traced_runs: 0,
            measured_interval_ns: Some((measured_ns * 0.95, measured_ns * 1.05)),
            measured_variation: None,
            predicted_ns,
            predicted_interval_ns: Some((predicted_ns, predicted_ns)),
            error: (predicted_ns - measured_ns) / measured_ns,
            measured_elapsed_ns: 0.0,
            predicted_elapsed_ns: 0.0,
            elapsed_error: None,
            equal_speed: None,
            ranked_ns: None,
            predicted_writeback_ns: 0.0,
            kinds: vec![],
            warnings: vec![],
        }
    }

    /// Table 4.7 of the thesis, in seconds.
    #[allow(clippy::too_many_lines, reason = "a table")]
    fn table_4_7() -> Vec<Pair> {
        let rows: [(&str, [(f64, f64); 4]); 8] = [
            (
                "Kernel Build",
                [
                    (51.10, 58.49),
                    (45.14, 51.73),
                    (15.07, 12.21),
                    (12.61, 7.76),
                ],
            ),
            (
                "SDET 1",
                [(19.43, 21.00), (2.60, 2.98), (11.07, 8.76), (1.43, 1.25)],
            ),
            (
                "SDET 2",
                [(45.94, 42.02), (6.20, 8.63), (24.53, 17.50), (2.49, 4.23)],
            ),
            (
                "SDET 4",
                [
                    (109.04, 81.65),
                    (13.27, 16.75),
                    (50.06, 34.02),
                    (4.63, 8.16),
                ],
            ),
            (
                "SDET 6",
                [
                    (180.20, 116.41),
                    (45.79, 27.26),
                    (73.50, 47.41),
                    (8.57, 12.27),
                ],
            ),
            (
                "SDET 8",
                [
                    (250.60, 204.70),
                    (61.44, 81.35),
                    (97.98, 65.92),
                    (11.56, 16.68),
                ],
            ),
            (
                "SDET 10",
                [
                    (311.04, 275.65),
                    (108.12, 124.27),
                    (118.09, 81.33),
                    (13.22, 20.90),
                ],
            ),
            (
                "PostMark",
                [
                    (547.01, 342.86),
                    (449.89, 154.71),
                    (193.27, 124.62),
                    (75.67, 52.63),
                ],
            ),
        ];
        let targets = ["Slow FFS", "Slow FFS+SU", "Fast FFS", "Fast FFS+SU"];
        rows.iter()
            .flat_map(|(workload, values)| {
                targets
                    .iter()
                    .zip(values)
                    .map(|(target, &(m, p))| pair(workload, target, m, p))
            })
            .collect()
    }

    #[test]
    fn the_thesis_tables_come_out_of_its_own_pairs() {
        let judged = judge(&table_4_7());
        let percent: Vec<String> = judged
            .by_target
            .iter()
            .map(|e| format!("{:.1}", e.average_error * 100.0))
            .collect();
        // Table 4.8 says 19.8, 31.1, 29.4 and 46.7: from unrounded latencies.
        assert_eq!(percent, ["19.8", "31.0", "29.4", "46.6"]);
        let kernel = &judged.by_workload[0];
        assert_eq!(format!("{:.1}", kernel.average_error * 100.0), "21.6");
        // Figure 4.20 says 0.966; the pairs of Table 4.7 give 0.928, and their logarithms 0.976.
        assert_eq!(
            format!("{:.3}", judged.figures.correlation.unwrap()),
            "0.928"
        );
        assert_eq!(judged.figures.ranks_total, 48);
        // 95.8 % of 48.
        assert_eq!(judged.figures.ranks_right, 46, "{:?}", judged.ranks_wrong);
    }

    #[test]
    fn the_order_is_that_of_predictions_that_are_corrected_alike() {
        let mut pairs = vec![pair("w", "a", 100.0, 150.0), pair("w", "b", 120.0, 130.0)];
        assert_eq!(judge(&pairs).figures.ranks_right, 0);
        pairs[0].ranked_ns = Some(105.0);
        let judged = judge(&pairs);
        assert_eq!(judged.figures.ranks_right, 1);
        let average = judged.figures.average_error.unwrap();
        assert!(
            (average - f64::midpoint(0.5, 10.0 / 120.0)).abs() < 1e-9,
            "{average}"
        );
    }

    #[test]
    fn at_equal_speed_the_same_is_said_of_other_predictions() {
        let raw = [pair("w", "a", 100.0, 150.0), pair("w", "b", 200.0, 140.0)];
        let equal = [pair("w", "a", 100.0, 110.0), pair("w", "b", 200.0, 180.0)];
        let both = judge_both(&raw, &equal);
        let of = |j: &Judgement| {
            (
                (100.0 * j.figures.average_error.unwrap()).round(),
                j.figures.ranks_right,
            )
        };
        assert_eq!(of(&both), (40.0, 0));
        assert_eq!(of(&both.equal_speed.unwrap()), (10.0, 1));
        assert_eq!(
            judge_both(&raw, &equal[..1]).equal_speed,
            None,
            "of one pair it is unknown"
        );
    }

    #[test]
    fn an_interval_that_says_nothing_is_none_and_sets_nothing_apart() {
        let (mean, interval, variation) = measured(&[1_000, 4_000_000]);
        assert_eq!((mean, interval), (2_000_500.0, None));
        assert!(variation.is_some());
        assert!(measured(&[1_000, 1_010, 1_005]).1.is_some());
        let mut pairs = [pair("w", "a", 100.0, 2.0), pair("w", "b", 200.0, 1.0)];
        pairs[1].measured_interval_ns = None;
        assert!(judge(&pairs).ranks_wrong[0].significant, "of one run");
        pairs[1].measured_runs_ns = vec![10, 390];
        let judged = judge(&pairs);
        assert!(!judged.ranks_wrong[0].significant);
        assert_eq!(judged.figures.ranks_apart_total, 0);
    }

    #[test]
    fn a_wrong_order_of_what_overlaps_is_not_significant() {
        let judged = judge(&[pair("w", "a", 100.0, 2.0), pair("w", "b", 105.0, 1.0)]);
        let figures = &judged.figures;
        assert_eq!((figures.ranks_right, figures.ranks_total), (0, 1));
        assert_eq!(figures.ranks_apart_total, 0, "the intervals overlap");
        assert!(!judged.ranks_wrong[0].significant);
        let judged = judge(&[pair("w", "a", 100.0, 2.0), pair("w", "b", 150.0, 1.0)]);
        assert!(judged.ranks_wrong[0].significant);
    }

    #[test]
    fn groups_are_judged_alone() {
        let mut pairs = vec![
            pair("w", "a", 100.0, 110.0),
            pair("w", "b", 200.0, 100.0),
            pair("w", "c", 9000.0, 9000.0),
            pair("v", "c", 1000.0, 500.0),
        ];
        for pair in &mut pairs {
            let group = if pair.target == "c" { "disk" } else { "ram" };
            pair.group = Some(group.into());
            pair.elapsed_error = (pair.target == "c").then_some(-0.25);
            pair.measured_variation = Some(0.02);
        }
        let judged = judge(&pairs);
        assert_eq!(
            (judged.figures.ranks_right, judged.figures.ranks_total),
            (2, 3)
        );
        assert_eq!(judged.figures.average_variation, Some(0.02));
        let [ram, disk] = judged.groups.as_slice() else {
            panic!("{:?}", judged.groups)
        };
        assert_eq!((ram.name.as_str(), disk.name.as_str()), ("ram", "disk"));
        assert!((ram.figures.average_error.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!((ram.figures.ranks_right, ram.figures.ranks_total), (0, 1));
        assert_eq!(
            (ram.figures.ranks_apart_right, ram.figures.ranks_apart_total),
            (0, 1)
        );
        assert_eq!(ram.figures.average_elapsed_error, None);
        assert_eq!(disk.figures.average_elapsed_error, Some(0.25));
        assert_eq!(disk.by_workload.len(), 2);
        assert!((disk.by_workload[1].average_error - 0.5).abs() < 1e-12);
        assert_eq!(disk.figures.ranks_total, 0, "one target has no rank");
    }

    #[test]
    fn single_runs_have_no_intervals_to_differ_by_more_than() {
        let mut pairs = [pair("w", "a", 100.0, 2.0), pair("w", "b", 200.0, 1.0)];
        for pair in &mut pairs {
            pair.measured_interval_ns = None;
        }
        let judged = judge(&pairs);
        assert_eq!(judged.figures.ranks_total, 1);
        assert_eq!(judged.figures.ranks_apart_total, 0);
        assert!(!judged.ranks_wrong[0].apart && judged.ranks_wrong[0].significant);
    }
}

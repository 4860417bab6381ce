//! A comparison as tables and sentences.

use std::collections::BTreeSet;

use fsage_format::result::comparison::{
    ComparedMetric, ComparedPair, ComparedSide, Comparison, Difference, Estimate, NotCompared,
    SampleSummary, Verdict,
};

use crate::environment::virtual_among;
use crate::labels::Labels;
use crate::page::Page;
use crate::table::{Align, TextTable};
use crate::units;

/// Differences of the environment that are told one by one; the rest is in the JSON.
const TOLD: usize = 20;

/// A longer value of the environment is cut; the JSON has all of it.
const LONGEST_VALUE: usize = 60;

/// A smaller effect, however sure, is no headline.
pub(crate) const WORTH_TELLING: f64 = 0.01;

/// Of an interval that says too little.
pub(crate) const UNUSABLE: &str = "unusable";

/// Rows of the table over all pairs.
const ROWS: usize = 14;

/// What a terminal shows of a comparison: the finding and one table over all pairs; with `details` everything. Of
/// metrics that were not required only those that differ are among the details, unless `all` is asked for.
pub fn text(comparison: &Comparison, details: bool, all: bool, width: u16) -> String {
    let sides = || comparison.pairs.iter().flat_map(|p| [&p.a, &p.b]);
    let labels = Labels::side_by_side(width, sides().map(|s| s.configuration.as_str()));
    let comparison = &labels.put(comparison);
    let sides = || comparison.pairs.iter().flat_map(|p| [&p.a, &p.b]);
    let mut page = Page::new(width);
    finding(&mut page, comparison);
    if let Some(said) = virtual_among(sides().map(|s| (s.target.as_str(), s.virtual_time))) {
        page.say(said);
    }
    page.blank();
    page.table(&overview(comparison, width));
    let rows = required(comparison).count();
    if rows > ROWS && !details {
        page.say(format!("and {} more (--details)", rows - ROWS));
    }
    page.blank();
    if details {
        for pair in &comparison.pairs {
            page.blank();
            pair_text(&mut page, pair, all, width);
        }
        page.blank();
        families(&mut page, comparison);
    } else {
        let others = comparison.pairs.iter().flat_map(|p| &p.metrics);
        let others = others.filter(|m| !m.required && differs(m)).count();
        if others > 0 {
            page.say(format!(
                "of the other metrics {others} differ{} by {} or more",
                if others == 1 { "s" } else { "" },
                units::percent(WORTH_TELLING)
            ));
        }
        settings(&mut page, comparison);
    }
    let left = |what: &NotCompared| format!("not compared: {}: {}", what.what, what.why);
    let most = if details { usize::MAX } else { 2 };
    for what in comparison.not_compared.iter().take(most) {
        page.say(left(what));
    }
    for warning in comparison.warnings.iter().take(most) {
        page.say(format!("note: {warning}"));
    }
    if !details {
        page.say("tests, causes, every metric: --details; all of it: --json");
    }
    page.finish()
}

/// Each pair's required metrics.
fn required(comparison: &Comparison) -> impl Iterator<Item = (&ComparedPair, &ComparedMetric)> {
    comparison.pairs.iter().flat_map(|pair| {
        let its = pair.metrics.iter().filter(|m| m.required);
        its.map(move |m| (pair, m))
    })
}

/// Whether it differs significantly and by so much that somebody would ask for it.
fn differs(m: &ComparedMetric) -> bool {
    let significant = matches!(m.verdict, Verdict::Larger | Verdict::Smaller);
    significant
        && m.ratio
            .is_none_or(|r| (r.value - 1.0).abs() >= WORTH_TELLING)
}

/// Whether anything differs that is to have a cause.
fn apart(pair: &ComparedPair) -> bool {
    pair.metrics.iter().any(differs)
}

/// What a difference may be due to; where there is none, in how much they differ all the same.
fn settings(page: &mut Page, comparison: &Comparison) {
    let distinct = |of: &dyn Fn(&ComparedPair) -> bool| {
        let pairs = comparison.pairs.iter().filter(|pair| of(pair));
        let all: BTreeSet<&str> = pairs
            .flat_map(|pair| &pair.differences)
            .map(|difference| difference.what.as_str())
            .collect();
        all.len() as u64
    };
    let causes = distinct(&apart);
    let all = distinct(&|_| true);
    if causes > 0 {
        page.say(format!(
            "{} of configuration or environment may be the cause",
            units::counted(causes, "difference")
        ));
    } else if all > 0 {
        page.say(format!(
            "they differ in {} of configuration or environment",
            units::counted(all, "setting")
        ));
    }
}

fn finding(page: &mut Page, comparison: &Comparison) {
    for (name, experiment) in ["A", "B"].iter().zip(&comparison.experiments) {
        let host = experiment.host.as_ref();
        let host = host.map_or(String::new(), |h| format!(" on {h}"));
        if comparison.experiments.len() > 1 || experiment.interrupted {
            let stopped = if experiment.interrupted {
                ", stopped before its end"
            } else {
                ""
            };
            page.say(format!("{name}: {}{host}{stopped}", experiment.path));
        }
    }
    let all: Vec<_> = required(comparison).collect();
    let apart: Vec<_> = all.iter().filter(|(_, m)| differs(m)).collect();
    let tested = all.iter().filter(|(_, m)| m.test.is_some()).count();
    if all.is_empty() {
        page.say("no metric that was required is in both: nothing to say");
        return;
    }
    if apart.is_empty() {
        let why = if all.iter().all(|(_, m)| m.verdict == Verdict::Equal) {
            "every required metric is equal"
        } else if tested == 0 {
            "nothing could be tested (single runs, or none that vary)"
        } else {
            "no difference of 1 % or more is significant"
        };
        let all = units::counted(all.len() as u64, "comparison");
        page.say(format!("{why}, in {all}"));
        return;
    }
    let size = |m: &ComparedMetric| m.ratio.map_or(f64::INFINITY, |r| r.value.ln().abs());
    let largest = apart.iter().max_by(|a, b| size(a.1).total_cmp(&size(b.1)));
    let largest = largest.map_or(String::new(), |(pair, m)| {
        let ratio = m.ratio.map_or(String::new(), |r| {
            format!(" x{:.2} ({})", r.value, ends(&r))
        });
        format!(
            "; largest: {} of {}{ratio} against {}",
            m.metric, pair.b.configuration, pair.a.configuration
        )
    });
    page.say(format!(
        "{} of {} differ{} significantly and by 1 % or more{largest}",
        apart.len(),
        units::counted(all.len() as u64, "comparison"),
        if apart.len() == 1 { "s" } else { "" }
    ));
}

fn overview(comparison: &Comparison, width: u16) -> TextTable {
    let columns = [
        ("b", Align::Prose),
        ("a", Align::Prose),
        ("metric", Align::Left),
        ("a's mean", Align::Right),
        ("b's mean", Align::Right),
        ("b / a", Align::Right),
        ("p", Align::Right),
        ("so", Align::Whole),
    ];
    let mut table = TextTable::new(&columns, width).dropping(&["a's mean", "p", "b's mean"]);
    let same = comparison.experiments.len() > 1;
    for (pair, m) in required(comparison).take(ROWS) {
        let (a, b) = (&pair.a.configuration, &pair.b.configuration);
        table.row([
            b.clone(),
            if same && a == b {
                "same in A".to_owned()
            } else {
                a.clone()
            },
            m.metric.clone(),
            units::metric(m.a.mean, &m.unit),
            units::metric(m.b.mean, &m.unit),
            m.ratio.map_or_else(
                || match quotient(m) {
                    Some(value) => format!("x{value:.3} (no bounds)"),
                    None => "-".to_owned(),
                },
                |r| match ends(&r).as_str() {
                    "" | UNUSABLE => format!("x{:.3} (unusable)", r.value),
                    ends => format!("x{:.3} ({ends})", r.value),
                },
            ),
            m.test.map_or(String::new(), |t| probability(t.p_corrected)),
            if matches!(m.verdict, Verdict::Larger | Verdict::Smaller) && !differs(m) {
                "under 1 %".to_owned()
            } else {
                verdict(m).to_owned()
            },
        ]);
    }
    table
}

fn families(page: &mut Page, comparison: &Comparison) {
    for family in &comparison.families {
        let of = match family.name.as_str() {
            "required" => "required metrics",
            _ => "other metrics",
        };
        let (tests, correction) = (family.tests, &family.correction);
        page.say(match family.correction.as_str() {
            "none" => format!("{of}: one test, nothing to correct"),
            _ => {
                format!(
                    "{of}: {tests} tests at once, p by {correction}'s correction for all of them"
                )
            }
        });
    }
    if !comparison.families.is_empty() {
        page.say(
            "intervals are 95 %, each by itself: Student's t for means (log-normal where runs vary much), \
             Welch's for differences, Fieller's for ratios",
        );
    }
}

fn pair_text(page: &mut Page, pair: &ComparedPair, all: bool, width: u16) {
    let side = |s: &ComparedSide| {
        let runs = units::counted(s.runs.into(), "run");
        format!("{} ({runs})", s.configuration)
    };
    page.say(format!("b: {}", side(&pair.b)));
    page.say(format!("with a: {}", side(&pair.a)));
    for metric in pair.metrics.iter().filter(|m| m.required) {
        page.say(format!("{}: {}", metric.metric, metric.text));
        for warning in &metric.warnings {
            page.item(warning);
        }
    }
    let reported = |m: &&ComparedMetric| all || m.required || differs(m);
    let (shown, left): (Vec<&ComparedMetric>, Vec<_>) = pair.metrics.iter().partition(reported);
    if pair.metrics.is_empty() {
        page.say("no metric in common");
    } else {
        page.append(&table(&shown, width));
    }
    if !left.is_empty() {
        page.say(format!(
            "{}: no significant difference of 1 % or more (--all shows them)",
            units::counted(left.len() as u64, "other metric")
        ));
    }
    differences(page, pair);
    for warning in &pair.warnings {
        page.say(format!("note: {warning}"));
    }
}

fn table(metrics: &[&ComparedMetric], width: u16) -> String {
    let columns = [
        ("metric", Align::Left),
        ("a", Align::Right),
        ("b", Align::Right),
        ("b / a", Align::Right),
        ("interval", Align::Right),
        ("p", Align::Right),
        ("g", Align::Right),
        ("so", Align::Whole),
    ];
    let mut table = TextTable::new(&columns, width).dropping(&["g"]);
    // Their own intervals are `show --details`'s.
    let mean = |samples: &SampleSummary, unit: &str| match width {
        ..110 => units::metric(samples.mean, unit),
        _ => units::with_ends(samples.mean, samples.lower, samples.upper, unit),
    };
    for m in metrics {
        let times = quotient(m);
        table.row([
            m.metric.clone(),
            mean(&m.a, &m.unit),
            mean(&m.b, &m.unit),
            times.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}")),
            match m.ratio.as_ref() {
                Some(ratio) => ends(ratio),
                None if times.is_some() => "no bounds".to_owned(),
                None => String::new(),
            },
            m.test.map_or(String::new(), |t| probability(t.p_corrected)),
            m.effect
                .map_or(String::new(), |e| format!("{:.2}", e.hedges_g)),
            verdict(m).to_owned(),
        ]);
    }
    table.render()
}

/// How many times the mean of `a` that of `b` is; there is no such number where that of `a` is 0.
fn quotient(m: &ComparedMetric) -> Option<f64> {
    let value = m.ratio.map_or(m.b.mean / m.a.mean, |r| r.value);
    value.is_finite().then_some(value)
}

fn ends(estimate: &Estimate) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) if units::is_unusable(Some(low), Some(high)) => UNUSABLE.to_owned(),
        (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
        _ => String::new(),
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

/// Whether a ratio's interval, which is of one test by itself, lies on one side of 1.
fn alone_significant(metric: &ComparedMetric) -> bool {
    let (low, high) = metric.ratio.map_or((None, None), |r| (r.low, r.high));
    low.is_some_and(|low| low > 1.0) || high.is_some_and(|high| high < 1.0)
}

fn verdict(metric: &ComparedMetric) -> &'static str {
    match metric.verdict {
        Verdict::Larger => "b larger",
        Verdict::Smaller => "b smaller",
        // The interval is of this test alone, and tells what it told.
        Verdict::NoSignificantDifference if alone_significant(metric) => "not once corrected",
        Verdict::NoSignificantDifference => "not significant",
        Verdict::Equal => "equal",
        Verdict::Untestable => "not testable",
    }
}

fn differences(page: &mut Page, pair: &ComparedPair) {
    let all: &[Difference] = &pair.differences;
    if all.is_empty() {
        page.say("configuration and recorded environment: no difference");
        return;
    }
    page.say(if apart(pair) {
        "what differs beside the measurement, and may be the cause:"
    } else {
        "what differs beside the measurement:"
    });
    for difference in all.iter().take(TOLD) {
        page.item(format!(
            "{}: a {}, b {}",
            difference.what,
            shown(difference.a.as_deref()),
            shown(difference.b.as_deref())
        ));
    }
    if all.len() > TOLD {
        page.item(format!("and {} more (--json)", all.len() - TOLD));
    }
}

fn shown(value: Option<&str>) -> String {
    match value {
        None => "unknown".to_owned(),
        Some(text) if text.chars().count() > LONGEST_VALUE => {
            let begin: String = text.chars().take(LONGEST_VALUE).collect();
            format!("'{begin}…'")
        }
        Some(text) => format!("'{text}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(mean: f64) -> SampleSummary {
        SampleSummary {
            n: 10,
            mean,
            lower: Some(mean * 0.9),
            upper: Some(mean * 1.1),
            median: mean,
            sd: Some(mean / 10.0),
            outliers: 0,
            normal_p: None,
        }
    }

    fn metric(name: &str, unit: &str, a: f64, b: f64) -> ComparedMetric {
        ComparedMetric {
            metric: name.into(),
            unit: unit.into(),
            required: true,
            a: samples(a),
            b: samples(b),
            difference: Estimate {
                value: b - a,
                low: None,
                high: None,
            },
            ratio: None,
            test: None,
            effect: None,
            verdict: Verdict::Untestable,
            text: String::new(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn an_interval_and_its_verdict_say_one_thing() {
        let mut m = metric("elapsed", "ns", 1e9, 2.176e9);
        m.verdict = Verdict::NoSignificantDifference;
        let with = |low, high| {
            let ratio = Estimate {
                value: 2.176,
                low: Some(low),
                high: Some(high),
            };
            ComparedMetric {
                ratio: Some(ratio),
                ..m.clone()
            }
        };
        let wide = with(1.059, 36.396);
        let said = table(&[&wide], 120);
        assert!(
            said.contains("unusable") && !said.contains("36.396"),
            "{said}"
        );
        let said = table(&[&with(1.059, 4.396)], 120);
        assert!(said.contains("not once corrected"), "{said}");
        let said = table(&[&with(0.9, 4.396)], 120);
        assert!(
            said.contains("not significant") && !said.contains("corrected"),
            "{said}"
        );
    }

    fn side(configuration: &str) -> ComparedSide {
        ComparedSide {
            experiment: 0,
            configuration: configuration.into(),
            target: "/t".into(),
            workload: "w".into(),
            runs: 10,
            virtual_time: false,
        }
    }

    #[test]
    fn causes_are_offered_where_there_is_a_difference() {
        let pair = |verdict: Verdict| ComparedPair {
            a: side("a"),
            b: side("b"),
            metrics: vec![ComparedMetric {
                verdict,
                ..metric("elapsed", "ns", 1e9, 2e9)
            }],
            differences: ["kernel", "governor"]
                .map(|what| Difference {
                    what: what.into(),
                    a: Some("1".into()),
                    b: Some("2".into()),
                })
                .to_vec(),
            warnings: Vec::new(),
        };
        let said = |verdicts: &[Verdict], details: bool| {
            let comparison = Comparison {
                format: String::new(),
                comparison_version: 2,
                experiments: Vec::new(),
                pairs: verdicts.iter().copied().map(pair).collect(),
                families: Vec::new(),
                not_compared: Vec::new(),
                warnings: Vec::new(),
            };
            text(&comparison, details, false, 100)
        };
        let none = Verdict::NoSignificantDifference;
        let same = said(&[none, none], false);
        assert!(same.contains("they differ in 2 settings of"), "{same}");
        assert!(!same.contains("cause\n"), "{same}");
        assert!(said(&[none], true).contains("beside the measurement:\n"));
        let apart = said(&[none, Verdict::Larger], false);
        assert!(
            apart.contains("2 differences of configuration or environment may be the cause"),
            "{apart}"
        );
        assert!(said(&[Verdict::Larger], true).contains("and may be the cause:\n"));
    }

    #[test]
    fn what_it_is_for_is_there_at_80_columns() {
        let mut m = metric("device_sectors_written", "ns", 1.003e9, 2.176e9);
        m.a.upper = Some(1.7e9);
        m.verdict = Verdict::NoSignificantDifference;
        m.test = Some(fsage_format::result::comparison::WelchTest {
            t: 1.0,
            df: 2.0,
            p: 0.4385,
            p_corrected: 0.4385,
            rank_p: None,
        });
        let said = table(&[&m], 80);
        for word in ["2.169", "no bounds", "0.4385", "not significant"] {
            assert!(said.contains(word), "`{word}` is missing:\n{said}");
        }
    }

    #[test]
    fn there_is_no_ratio_to_nothing() {
        let all = [
            metric("user", "ns", 0.0, 0.0),
            metric("swaps", "", 0.0, 5.0),
            metric("gone", "", 5.0, 0.0),
        ];
        let comparison = Comparison {
            format: String::new(),
            comparison_version: 2,
            experiments: Vec::new(),
            pairs: vec![ComparedPair {
                a: side("a"),
                b: side("b"),
                metrics: all.to_vec(),
                differences: Vec::new(),
                warnings: Vec::new(),
            }],
            families: Vec::new(),
            not_compared: Vec::new(),
            warnings: Vec::new(),
        };
        let tables = [
            table(&all.each_ref(), 120),
            overview(&comparison, 120).render(),
        ];
        for said in tables {
            for name in ["user", "swaps"] {
                let row = said.lines().find(|row| row.contains(name)).unwrap();
                let has = |word: &str| row.split_whitespace().any(|found| found == word);
                assert!(has("-") && !row.contains("bounds"), "{said}");
                assert!(!row.contains("NaN") && !row.contains("inf"), "{said}");
            }
            assert!(
                said.contains("0.000") && said.contains("no bounds"),
                "{said}"
            );
        }
    }

    #[test]
    fn values_are_written_as_an_experiment_writes_them() {
        let all = [
            metric("cpu_share", "share", 0.4, 0.5),
            metric("device_sectors_read", "sectors", 2048.0, 4096.0),
            metric("elapsed", "ns", 1.5e9, 2e9),
        ];
        let said = table(&all.each_ref(), 120);
        for value in ["40.0 ± 4.0 %", "2 MiB ± 205 KiB", "1.5 ± 0.15 s"] {
            assert!(said.contains(value), "`{value}` is missing:\n{said}");
        }
    }
}

//! A comparison as tables and sentences.

use fsage_format::result::comparison::{
    ComparedMetric, ComparedPair, ComparedSide, Comparison, Difference, Estimate, SampleSummary,
    Verdict,
};

use crate::table::{Align, TextTable};
use crate::units;

/// Differences of the environment that are told one by one; the rest is in the JSON.
const TOLD: usize = 20;

/// A longer value of the environment is cut; the JSON has all of it.
const LONGEST_VALUE: usize = 60;

/// Everything that a terminal shows of a comparison. Of metrics that were not required only those that
/// differ, unless `all` is asked for.
pub fn text(comparison: &Comparison, all: bool, width: u16) -> String {
    let mut out = String::new();
    for (name, experiment) in ["A", "B"].iter().zip(&comparison.experiments) {
        let host = experiment.host.as_ref();
        let host = host.map_or(String::new(), |h| format!(", on {h}"));
        out.push_str(&format!(
            "{name}: {}{host}, seed {}\n",
            experiment.path, experiment.seed
        ));
    }
    for pair in &comparison.pairs {
        out.push('\n');
        out.push_str(&pair_text(pair, all, width));
    }
    out.push('\n');
    out.push_str(&families(comparison));
    for left in &comparison.not_compared {
        out.push_str(&format!("not compared: {}: {}\n", left.what, left.why));
    }
    for warning in &comparison.warnings {
        out.push_str(&format!("note: {warning}\n"));
    }
    out
}

fn families(comparison: &Comparison) -> String {
    let mut out = String::new();
    for family in &comparison.families {
        let of = match family.name.as_str() {
            "required" => "required metrics",
            _ => "other metrics",
        };
        let (tests, correction) = (family.tests, &family.correction);
        out.push_str(&match family.correction.as_str() {
            "none" => format!("{of}: one test, nothing to correct\n"),
            _ => format!(
                "{of}: {tests} tests at once, p by {correction}'s correction for all of them\n"
            ),
        });
    }
    if !out.is_empty() {
        out.push_str(
            "intervals are 95 %, each by itself: Student's t for means, Welch's for differences, \
                      Fieller's for ratios\n",
        );
    }
    out
}

fn pair_text(pair: &ComparedPair, all: bool, width: u16) -> String {
    let side = |s: &ComparedSide| format!("{} ({} runs)", s.configuration, s.runs);
    let mut out = format!("b: {}\nwith a: {}\n", side(&pair.b), side(&pair.a));
    for metric in pair.metrics.iter().filter(|m| m.required) {
        out.push_str(&format!("{}: {}\n", metric.metric, metric.text));
        for warning in &metric.warnings {
            out.push_str(&format!("  {warning}\n"));
        }
    }
    let told = |m: &&ComparedMetric| {
        let differs = !matches!(m.verdict, Verdict::NoSignificantDifference | Verdict::Equal);
        all || m.required || differs
    };
    let (shown, left): (Vec<&ComparedMetric>, Vec<_>) = pair.metrics.iter().partition(told);
    if pair.metrics.is_empty() {
        out.push_str("no metric in common\n");
    } else {
        out.push_str(&table(&shown, width));
    }
    if !left.is_empty() {
        out.push_str(&format!(
            "{} other metrics: no significant difference (--all shows them)\n",
            left.len()
        ));
    }
    out.push_str(&differences(&pair.differences));
    for warning in &pair.warnings {
        out.push_str(&format!("note: {warning}\n"));
    }
    out
}

fn table(metrics: &[&ComparedMetric], width: u16) -> String {
    let columns = [
        ("metric", Align::Left),
        ("a", Align::Right),
        ("b", Align::Right),
        ("b / a", Align::Right),
        ("interval", Align::Left),
        ("p", Align::Right),
        ("g", Align::Right),
        ("", Align::Left),
    ];
    let mut table = TextTable::new(&columns, width);
    for m in metrics {
        let ratio = m.ratio.as_ref();
        table.row([
            m.metric.clone(),
            mean(&m.a, &m.unit),
            mean(&m.b, &m.unit),
            ratio.map_or(String::new(), |r| format!("{:.3}", r.value)),
            ratio.map_or(String::new(), ends),
            m.test.map_or(String::new(), |t| probability(t.p_corrected)),
            m.effect
                .map_or(String::new(), |e| format!("{:.2}", e.hedges_g)),
            verdict(m).to_owned(),
        ]);
    }
    table.render()
}

/// The mean with half the width of its interval, where there is one.
fn mean(samples: &SampleSummary, unit: &str) -> String {
    match (samples.lower, samples.upper) {
        (Some(low), Some(high)) => units::plus_minus(samples.mean, (high - low) / 2.0, unit),
        _ => units::metric(samples.mean, unit),
    }
}

fn ends(estimate: &Estimate) -> String {
    match (estimate.low, estimate.high) {
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

fn verdict(metric: &ComparedMetric) -> &'static str {
    match metric.verdict {
        Verdict::Larger => "b larger",
        Verdict::Smaller => "b smaller",
        Verdict::NoSignificantDifference => "not significant",
        Verdict::Equal => "equal",
        Verdict::Untestable => "not testable",
    }
}

fn differences(all: &[Difference]) -> String {
    if all.is_empty() {
        return "configuration and recorded environment: no difference\n".to_owned();
    }
    let mut out = String::from("what differs beside the measurement, and may be the cause:\n");
    for difference in all.iter().take(TOLD) {
        out.push_str(&format!(
            "  {}: a {}, b {}\n",
            difference.what,
            shown(difference.a.as_deref()),
            shown(difference.b.as_deref())
        ));
    }
    if all.len() > TOLD {
        out.push_str(&format!("  and {} more (--json)\n", all.len() - TOLD));
    }
    out
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

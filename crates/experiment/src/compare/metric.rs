//! One metric of two configurations.

use fsage_format::result::comparison::{
    ComparedMetric, EffectSize, Estimate, SampleSummary, Verdict, WelchTest,
};
use fsage_format::result::experiment::{Configuration, MetricSummary};
use fsage_stats::{
    effect, outliers, positive_mean_interval, rank_sum, ratio, shapiro_wilk, summary, welch,
};

/// A metric that at least one of the two has.
pub(super) struct Found<'a> {
    pub name: &'a str,
    a: Option<&'a MetricSummary>,
    b: Option<&'a MetricSummary>,
    samples_a: Vec<f64>,
    samples_b: Vec<f64>,
}

/// All metrics of either, in the order of the first.
pub(super) fn each<'a>(a: &'a Configuration, b: &'a Configuration) -> Vec<Found<'a>> {
    let only_b = b.metrics.iter().filter(|m| a.metric(&m.metric).is_none());
    a.metrics
        .iter()
        .chain(only_b)
        .map(|m| Found {
            name: &m.metric,
            a: a.metric(&m.metric),
            b: b.metric(&m.metric),
            samples_a: a.samples(&m.metric),
            samples_b: b.samples(&m.metric),
        })
        .collect()
}

/// The names of the metrics that both have.
pub(super) fn common<'a>(a: &'a Configuration, b: &'a Configuration) -> Vec<&'a str> {
    let both = a.metrics.iter().filter(|m| b.metric(&m.metric).is_some());
    both.map(|m| m.metric.as_str()).collect()
}

/// Compares; the error says why that has no meaning. Verdict, words and corrected p follow once all
/// tests are made.
pub(super) fn compare(
    found: &Found<'_>,
    name_a: &str,
    name_b: &str,
) -> Result<ComparedMetric, String> {
    let (a, b) = match (found.a, found.b) {
        (Some(a), Some(b)) => (a, b),
        (Some(_), None) => return Err(format!("only '{name_a}' has it")),
        _ => return Err(format!("only '{name_b}' has it")),
    };
    if a.unit != b.unit {
        return Err(format!(
            "'{name_a}' has it in {}, '{name_b}' in {}: other units",
            named_unit(&a.unit),
            named_unit(&b.unit)
        ));
    }
    let (x, y) = (&found.samples_a, &found.samples_b);
    if let Some((name, _)) = [(name_a, x), (name_b, y)]
        .iter()
        .find(|(_, s)| s.is_empty())
    {
        return Err(format!("no run of '{name}' has it"));
    }
    let tested = welch(y, x);
    Ok(ComparedMetric {
        metric: found.name.to_owned(),
        unit: a.unit.clone(),
        required: a.required || b.required,
        a: reported(x),
        b: reported(y),
        difference: Estimate {
            value: fsage_stats::mean(y) - fsage_stats::mean(x),
            low: tested.map(|t| t.low),
            high: tested.map(|t| t.high),
        },
        ratio: ratio(y, x).map(|r| Estimate {
            value: r.estimate,
            low: Some(r.low),
            high: Some(r.high),
        }),
        test: tested.map(|t| WelchTest {
            t: t.t,
            df: t.df,
            p: t.p,
            p_corrected: t.p,
            rank_p: rank_sum(x, y),
        }),
        effect: effect(y, x).map(|e| EffectSize {
            hedges_g: e.hedges_g,
            a12: e.a12,
        }),
        verdict: Verdict::Untestable,
        text: String::new(),
        warnings: Vec::new(),
    })
}

fn named_unit(unit: &str) -> &str {
    if unit.is_empty() { "no unit" } else { unit }
}

fn reported(samples: &[f64]) -> SampleSummary {
    let s = summary(samples);
    let positive = positive_mean_interval(samples, 0.95);
    let known = |value: f64| value.is_finite().then_some(value);
    SampleSummary {
        n: u32::try_from(s.n).unwrap_or(u32::MAX),
        mean: s.mean,
        lower: positive.map_or(known(s.low), |i| Some(i.low)),
        upper: positive.map_or(known(s.high), |i| Some(i.high)),
        median: s.median,
        sd: known(s.stddev),
        outliers: u32::try_from(outliers(samples).len()).unwrap_or(u32::MAX),
        normal_p: shapiro_wilk(samples).map(|n| n.p),
    }
}

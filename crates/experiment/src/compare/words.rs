//! What follows from a comparison, in words.

use fsage_format::result::comparison::{ComparedMetric, Estimate, SampleSummary, Verdict};

use fsage_stats::SIGNIFICANCE;

/// Differences of this many pooled standard deviations are called small, medium, large (Cohen 1988).
const SIZES: [(f64, &str); 3] = [(0.2, "small"), (0.5, "medium"), (0.8, "large")];

/// A sentence on one metric.
pub(super) fn sentence(m: &ComparedMetric, a: &str, b: &str) -> String {
    match m.verdict {
        Verdict::Equal => format!("equal: every run of '{a}' and '{b}' gives the same value"),
        Verdict::Untestable => untestable(m, a, b),
        Verdict::NoSignificantDifference => {
            let mut text = "no significant difference".to_owned();
            text.push_str(&p_of(m));
            if let Some(Estimate {
                low: Some(low),
                high: Some(high),
                ..
            }) = m.ratio
            {
                text.push_str(&if fsage_stats::usable(low, high) {
                    // The interval is of this test by itself.
                    let alone = if low > 1.0 || high < 1.0 {
                        " before the correction for all tests"
                    } else {
                        ""
                    };
                    format!(
                        ": '{b}' differs from '{a}' by {} to {}{alone}",
                        signed_percent(low - 1.0),
                        signed_percent(high - 1.0)
                    )
                } else {
                    ": the interval of the difference is too wide to be of use".to_owned()
                });
            }
            text
        }
        Verdict::Larger | Verdict::Smaller => different(m, a, b),
    }
}

fn different(m: &ComparedMetric, a: &str, b: &str) -> String {
    let larger = m.verdict == Verdict::Larger;
    let word = match (m.unit.as_str(), larger) {
        ("ns" | "s", true) => "longer",
        ("ns" | "s", false) => "shorter",
        (_, true) => "higher",
        (_, false) => "lower",
    };
    let mut text = format!("'{b}' is {word} than '{a}'");
    match m.ratio {
        Some(Estimate {
            value,
            low: Some(low),
            high: Some(high),
        }) if !fsage_stats::usable(low, high) => text.push_str(&format!(
            ": {} times as much (the interval is too wide to be of use)",
            factor(value)
        )),
        Some(Estimate {
            value,
            low: Some(low),
            high: Some(high),
        }) => text.push_str(&format!(
            ": {} times as much ({} to {})",
            factor(value),
            factor(low),
            factor(high)
        )),
        _ => text
            .push_str(" (the ratio has no bounds: the mean of the one below is not told from 0)"),
    }
    text.push_str(&p_of(m));
    if let Some(effect) = m.effect {
        text.push_str(&format!(
            ", a {} effect (g = {:.2}, A12 = {:.2})",
            size(effect.hedges_g),
            effect.hedges_g,
            effect.a12
        ));
    }
    text
}

fn untestable(m: &ComparedMetric, a: &str, b: &str) -> String {
    let few: Vec<String> = [(a, &m.a), (b, &m.b)]
        .iter()
        .filter(|(_, s)| s.n < 2)
        .map(|(name, _)| format!("'{name}'"))
        .collect();
    if few.is_empty() {
        return format!(
            "not testable: neither '{a}' nor '{b}' varies from run to run, and they differ; no interval \
             can be given"
        );
    }
    format!(
        "not testable: {} has a single run, from which no variation is known",
        few.join(" and ")
    )
}

fn p_of(m: &ComparedMetric) -> String {
    let Some(test) = m.test else {
        return String::new();
    };
    if test.p_corrected > test.p {
        format!(
            ", p {} (uncorrected {})",
            probability(test.p_corrected),
            probability(test.p)
        )
    } else {
        format!(", p {}", probability(test.p))
    }
}

/// What makes a test doubtful: added to the metric's warnings.
pub(super) fn doubts(m: &mut ComparedMetric, a: &str, b: &str) {
    let mut all = Vec::new();
    for (side, samples) in [(a, &m.a), (b, &m.b)] {
        if let Some(p) = samples.normal_p.filter(|p| *p < SIGNIFICANCE) {
            all.push(format!(
                "'{side}': the samples are not normally distributed (Shapiro-Wilk p {}); the interval of \
                 the mean is approximate",
                probability(p)
            ));
        }
        if samples.outliers > 0 {
            all.push(format!(
                "'{side}': {} of {} samples lie far from the others and are counted all the same",
                samples.outliers, samples.n
            ));
        }
    }
    if let Some(doubt) = disagreement(m) {
        all.push(doubt);
    }
    m.warnings = all;
}

/// The rank test sees what Welch's does not, or the other way round.
fn disagreement(m: &ComparedMetric) -> Option<String> {
    let test = m.test?;
    let rank_p = test.rank_p?;
    // With so few samples the rank test finds nothing whatever they are.
    let could_see = |s: &SampleSummary| s.n >= 4;
    let welch_sees = test.p < SIGNIFICANCE;
    let rank_sees = rank_p < SIGNIFICANCE;
    (welch_sees != rank_sees && could_see(&m.a) && could_see(&m.b)).then(|| {
        format!(
            "the rank test disagrees (p {}, Welch's p {}, both uncorrected): look at the samples",
            probability(rank_p),
            probability(test.p)
        )
    })
}

fn size(g: f64) -> &'static str {
    let reached = SIZES.iter().rev().find(|(least, _)| g.abs() >= *least);
    reached.map_or("negligible", |(_, name)| name)
}

/// `= 0.012`, to two digits that count, or that it is tiny.
pub(super) fn probability(p: f64) -> String {
    if p < 0.0001 {
        return "< 0.0001".to_owned();
    }
    let decimals = match p {
        p if p < 0.001 => 5,
        p if p < 0.01 => 4,
        p if p < 0.1 => 3,
        _ => 2,
    };
    format!("= {p:.decimals$}")
}

fn signed_percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn factor(value: f64) -> String {
    if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

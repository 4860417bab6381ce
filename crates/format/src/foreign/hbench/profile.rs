//! The text system profile of HBench-FS (Smith 2001, A.4): `benchmark result` a line, `#` comments,
//! units of Table 4.4.

use std::fmt::Write as _;
use std::path::Path;

use fsage_core::metric::Unit as MetricUnit;

use crate::FormatError;
use crate::profile::{Environment, MetricValue, SystemProfile};

/// How a result of Table 4.4 becomes one of fsage's.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// Kilobytes of 1024 bytes.
    Kilobytes,
    /// Name entries, files.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds, nanoseconds in fsage.
    Milliseconds,
    /// Kilobytes a second.
    Throughput,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// fsage's unit and how many of it are one of HBench-FS's.
    fn scale(self) -> (&'static str, f64) {
        match self {
            Self::Kilobytes => (MetricUnit::Kib.name(), 1.0),
            Self::Count => (MetricUnit::Count.name(), 1.0),
            Self::Bytes => (MetricUnit::Bytes.name(), 1.0),
            Self::Milliseconds => (MetricUnit::Ns.name(), 1e6),
            Self::Throughput => (MetricUnit::KibPerS.name(), 1.0),
            Self::Seconds => (MetricUnit::Seconds.name(), 1.0),
        }
    }
}

/// Single results of Table 4.4.
const NAMES: &[(&str, Unit)] = &[
    ("BC", Unit::Kilobytes),
    ("DNLC", Unit::Count),
    ("MDC", Unit::Count),
    ("BS", Unit::Bytes),
    ("FS", Unit::Bytes),
    ("LUS_BC", Unit::Milliseconds),
    ("LUS_NC", Unit::Milliseconds),
    ("LUS_AC", Unit::Milliseconds),
    ("LUR_BC", Unit::Milliseconds),
    ("LUR_NC", Unit::Milliseconds),
    ("LUR_AC", Unit::Milliseconds),
    ("RDC", Unit::Throughput),
    ("WRC", Unit::Throughput),
    ("RDO", Unit::Milliseconds),
    ("WRO", Unit::Milliseconds),
    ("OPEN", Unit::Milliseconds),
    ("CR", Unit::Milliseconds),
    ("RM", Unit::Milliseconds),
    ("STAT", Unit::Milliseconds),
    ("MKDIR", Unit::Milliseconds),
    ("RMDIR", Unit::Milliseconds),
    ("RENAME", Unit::Milliseconds),
    ("CHMOD", Unit::Milliseconds),
];

/// Series of Table 4.4: a prefix and a number.
const SERIES: &[(&str, Unit)] = &[
    ("RD", Unit::Throughput),
    ("RRD", Unit::Throughput),
    ("WR", Unit::Seconds),
    ("TR", Unit::Milliseconds),
    ("TRC", Unit::Milliseconds),
];

fn unit_of(name: &str) -> Option<Unit> {
    if let Some((_, unit)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Some(*unit);
    }
    SERIES
        .iter()
        .find(|(prefix, _)| {
            name.strip_prefix(prefix)
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        })
        .map(|(_, unit)| *unit)
}

/// Reads a profile; it is called `title`, errors name `path`. The thesis gives no intervals: each
/// metric has one run and its interval is the estimate.
pub fn parse(text: &str, path: &Path, title: &str) -> Result<SystemProfile, FormatError> {
    let mut profile = SystemProfile::new(title, Environment::default());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let bad =
            |problem: String| FormatError::corrupt(path, format!("line {}", index + 1), problem);
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, result] = fields[..] else {
            return Err(bad(format!(
                "{} fields, expected `benchmark result`",
                fields.len()
            )));
        };
        let Some(unit) = unit_of(name) else {
            let shown: String = name.chars().take(40).collect();
            return Err(bad(format!("`{shown}` is no benchmark of Table 4.4")));
        };
        let value = result
            .parse::<f64>()
            .ok()
            .filter(|v| v.is_finite() && *v >= 0.0);
        let Some(value) = value else {
            let shown: String = result.chars().take(40).collect();
            return Err(bad(format!(
                "the result is `{shown}`, expected a number of zero or more"
            )));
        };
        if profile.get(name).is_some() {
            return Err(bad(format!("`{name}` stands twice, expected once")));
        }
        profile.metrics.push(metric(name, unit, value));
    }
    profile.check(path)?;
    Ok(profile)
}

fn metric(name: &str, unit: Unit, value: f64) -> MetricValue {
    let (unit, scale) = unit.scale();
    let value = value * scale;
    MetricValue {
        name: name.to_owned(),
        unit: unit.to_owned(),
        estimate: value,
        // One figure: nothing is known of its spread.
        low: None,
        high: None,
        mean: value,
        median: value,
        runs: 1,
        note: Some("from an HBench-FS profile, which holds one figure".to_owned()),
        ..MetricValue::default()
    }
}

/// A profile as HBench-FS text, and the names of the metrics that Table 4.4 does not have.
pub fn to_text(profile: &SystemProfile) -> (String, Vec<String>) {
    let mut text = String::new();
    let mut left_out = Vec::new();
    for line in profile.name.lines() {
        let _ = writeln!(text, "# {line}");
    }
    for metric in &profile.metrics {
        match unit_of(&metric.name).and_then(|unit| in_unit(metric, unit)) {
            Some(value) => {
                let _ = writeln!(text, "{} {value}", metric.name);
            }
            None => left_out.push(metric.name.clone()),
        }
    }
    (text, left_out)
}

/// The estimate in HBench-FS's unit; `None` where the profile's unit does not convert to it.
fn in_unit(metric: &MetricValue, unit: Unit) -> Option<f64> {
    let (expected, scale) = unit.scale();
    (metric.unit == expected).then(|| metric.estimate / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# slow\nBC 8192\nDNLC 3000\nBS 8192\nLUS_BC 0.004\nRDC 90000.5\nRD64 4000\nWR100 12.5\nTRC1 3.25\n";

    #[test]
    fn units_are_those_of_table_4_4_and_survive_both_ways() {
        let profile = parse(TEXT, Path::new("p"), "slow").unwrap();
        let of = |name: &str| profile.get(name).map(|m| (m.estimate, m.unit.as_str()));
        assert_eq!(of("BC"), Some((8192.0, "KiB")));
        assert_eq!(of("LUS_BC"), Some((4000.0, "ns")));
        assert_eq!(of("RD64"), Some((4000.0, "KiB/s")));
        assert_eq!(of("WR100"), Some((12.5, "s")));
        assert_eq!(of("TRC1"), Some((3_250_000.0, "ns")));
        assert_eq!(to_text(&profile), (TEXT.to_owned(), Vec::new()));
    }

    #[test]
    fn units_are_those_of_the_table_of_metrics() {
        let named = NAMES.iter().map(|(name, unit)| ((*name).to_owned(), *unit));
        let series = ["RD64", "RRD4", "WR0", "TR1", "TRC1024"];
        let series = series
            .iter()
            .map(|name| ((*name).to_owned(), unit_of(name).unwrap()));
        for (name, unit) in named.chain(series) {
            let metric = fsage_core::metric::MetricId::parse(&name);
            assert_eq!(
                metric.map(|m| m.unit().name()),
                Some(unit.scale().0),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_line() {
        for (text, said) in [
            ("BC", "line 1: 1 fields"),
            ("\nBC -1", "line 2: the result is `-1`"),
            ("BC NaN", "line 1: the result is `NaN`"),
            ("NOPE 1", "`NOPE` is no benchmark"),
            ("BC 1\nBC 2", "line 2: `BC` stands twice"),
        ] {
            let error = parse(text, Path::new("p"), "x").unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

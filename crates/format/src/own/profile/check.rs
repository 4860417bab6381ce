//! What a profile must be to be used: values that a measurement can give. Every error names the file,
//! the metric, the field and what was expected.

use std::path::Path;

use fsage_core::metric::{MetricId, Unit};
use serde::Deserialize;

use super::{MetricValue, PROFILE_FORMAT, PROFILE_VERSION, SystemProfile};
use crate::error::{FormatError, Version, check_version};

/// Every unit of the table, with the least and the largest value that a figure in it may have: from
/// what no device reaches to some that no memory, disk or week holds. A rate of nothing would cost for
/// ever.
const UNITS: [(Unit, f64, f64); 8] = [
    (Unit::Ns, 0.0, 1e15),
    (Unit::Seconds, 0.0, 1e6),
    (Unit::KibPerS, 1e-6, 1e13),
    (Unit::OpsPerS, 1e-6, 1e13),
    (Unit::Kib, 0.0, 1e15),
    (Unit::Bytes, 0.0, 1e18),
    (Unit::Count, 0.0, 1e15),
    (Unit::Ratio, 0.0, 1e9),
];

/// What rounding may do to numbers that are in order.
const ROUNDING: f64 = 1e-9;

impl SystemProfile {
    /// Whether every metric is sound: named once, in the unit of the table of metrics, its values
    /// finite and possible, its estimate in its interval. Errors name `path`, the metric and the field.
    pub fn check(&self, path: &Path) -> Result<(), FormatError> {
        let mut seen = rustc_hash::FxHashSet::default();
        for (index, metric) in self.metrics.iter().enumerate() {
            if metric.name.is_empty() {
                let place = format!("metric {}", index + 1);
                return Err(FormatError::corrupt(path, place, "no name, expected one"));
            }
            let bad = |problem: String| {
                FormatError::corrupt(path, format!("metric {}", metric.name), problem)
            };
            if !seen.insert(metric.name.as_str()) {
                return Err(bad("stands twice, expected once".to_owned()));
            }
            metric.possible().map_err(bad)?;
        }
        Ok(())
    }
}

impl MetricValue {
    /// What no measurement gives in it, in words; `None` where all of it is possible.
    pub fn problem(&self) -> Option<String> {
        self.possible().err()
    }

    /// What is wrong with it, if anything is.
    fn possible(&self) -> Result<(), String> {
        let (least, most) = self.bounds()?;
        let range = |what: &str, value: f64, least: f64| {
            if value.is_finite() && (least..=most).contains(&value) {
                return Ok(());
            }
            // No one reads three hundred digits.
            let value = match value {
                _ if value.abs() < 1e16 => value.to_string(),
                _ => format!("{value:e}"),
            };
            Err(format!(
                "{what} is {value} {}, expected {least} to {most:e}",
                self.unit
            ))
        };
        range("estimate", self.estimate, least)?;
        range("mean", self.mean, 0.0)?;
        range("median", self.median, 0.0)?;
        match (self.low, self.high) {
            (None, None) => {}
            (Some(low), Some(high)) => {
                range("low", low, 0.0)?;
                range("high", high, 0.0)?;
                self.in_interval(low, high)?;
            }
            (low, _) => {
                let lacks = if low.is_none() { "low" } else { "high" };
                return Err(format!(
                    "{lacks} is missing, expected both ends of the interval or neither"
                ));
            }
        }
        for (index, &sample) in self.samples.iter().enumerate() {
            range(&format!("sample {}", index + 1), sample, 0.0)?;
        }
        self.quantiles_in_order(range)
    }

    /// The least and the largest value in its unit.
    fn bounds(&self) -> Result<(f64, f64), String> {
        if self.unit.is_empty() {
            return Err("no unit, expected one".to_owned());
        }
        let expected = MetricId::parse(&self.name).map(|id| id.unit().name());
        if let Some(expected) = expected.filter(|&e| e != self.unit) {
            return Err(format!(
                "unit is {:?}, expected \"{expected}\"",
                shortened(&self.unit)
            ));
        }
        let known = UNITS.iter().find(|(unit, ..)| unit.name() == self.unit);
        known.map(|&(_, least, most)| (least, most)).ok_or_else(|| {
            let names: Vec<&str> = UNITS.iter().map(|(unit, ..)| unit.name()).collect();
            format!(
                "unit is {:?}, expected one of {}",
                shortened(&self.unit),
                names.join(", ")
            )
        })
    }

    fn in_interval(&self, low: f64, high: f64) -> Result<(), String> {
        if low > high {
            return Err(format!(
                "its interval {low} to {high} is empty, expected low to be at most high"
            ));
        }
        let slack = high.abs() * ROUNDING;
        if self.estimate < low - slack || self.estimate > high + slack {
            return Err(format!(
                "estimate is {}, expected it in its interval {low} to {high}",
                self.estimate
            ));
        }
        Ok(())
    }

    fn quantiles_in_order(
        &self,
        range: impl Fn(&str, f64, f64) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut last = (0.0f64, 0.0f64);
        for quantile in &self.quantiles {
            let (p, value) = (quantile.p, quantile.value);
            if !(0.0..=1.0).contains(&p) {
                return Err(format!("a quantile's p is {p}, expected 0 to 1"));
            }
            range(&format!("quantile {p}"), value, 0.0)?;
            if p < last.0 || value < last.1 * (1.0 - ROUNDING) {
                return Err(format!(
                    "quantile {p} is {value} after quantile {} of {}, expected them ascending",
                    last.0, last.1
                ));
            }
            last = (p, value);
        }
        Ok(())
    }
}

/// Of a text from a file as much as an error can hold.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// What is read.
pub(super) const EXPECTED: &str = "a system profile (JSON)";

/// Refuses what is no profile before its fields are looked at, so that the error names the cause.
pub(super) fn head(path: &Path, bytes: &[u8]) -> Result<Version, FormatError> {
    #[derive(Deserialize)]
    struct Head {
        format: Option<String>,
        version: Option<u32>,
    }
    let wrong = |found: String| FormatError::WrongKind {
        path: path.to_owned(),
        found,
        expected: EXPECTED,
    };
    let head: Head = match serde_json::from_slice(bytes) {
        Ok(head) => head,
        Err(e) if bytes.trim_ascii_start().starts_with(b"{") => return Err(at_line(path, &e)),
        Err(_) => return Err(wrong(crate::sniff::describe(bytes))),
    };
    match head.format.as_deref() {
        Some(PROFILE_FORMAT) => {}
        Some(other) => return Err(wrong(format!("JSON of the format '{}'", shortened(other)))),
        None => return Err(wrong("JSON without a field 'format'".to_owned())),
    }
    let Some(version) = head.version.map(Version) else {
        return Err(FormatError::corrupt(
            path,
            "field 'version'",
            "missing, expected a number",
        ));
    };
    check_version(path, "system profile", version, PROFILE_VERSION)?;
    Ok(version)
}

pub(super) fn at_line(path: &Path, e: &serde_json::Error) -> FormatError {
    let place = format!("line {}, column {}", e.line(), e.column());
    let text = e.to_string();
    let problem = text.split(" at line ").next().unwrap_or(&text).to_owned();
    FormatError::corrupt(path, place, problem)
}

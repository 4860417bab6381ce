//! A profile that no measurement gives is refused by name; one of version 1 is read in today's words.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use fsage_format::profile::SystemProfile;
use serde_json::{Value, json};

/// A profile of one metric as JSON; `change` overwrites fields of the metric.
fn text(version: u32, name: &str, unit: &str, change: &Value) -> String {
    let mut metric = json!({
        "name": name, "unit": unit, "estimate": 100.0, "low": 90.0, "high": 110.0, "mean": 101.0,
        "median": 99.0, "quantiles": [{"p": 0.25, "value": 95.0}, {"p": 0.75, "value": 105.0}],
        "runs": 12, "samples": [95.0, 105.0]
    });
    for (field, value) in change.as_object().unwrap() {
        metric[field.as_str()] = value.clone();
    }
    json!({
        "format": "fsage system profile", "version": version, "name": "x", "environment": {},
        "metrics": [metric]
    })
    .to_string()
}

fn parse(text: &str) -> Result<SystemProfile, String> {
    SystemProfile::parse(Path::new("bad.fsp"), text.as_bytes()).map_err(|e| e.to_string())
}

/// A metric's name and unit, what is wrong with it, and what must be said.
type Case = (&'static str, &'static str, Value, &'static str);

fn units_and_samples() -> Vec<Case> {
    vec![
        (
            "STAT",
            "furlong",
            json!({}),
            "unit is \"furlong\", expected \"ns\"",
        ),
        (
            "NEWER",
            "furlong",
            json!({}),
            "unit is \"furlong\", expected one of ns, s, KiB/s",
        ),
        (
            "STAT",
            "KiB/s",
            json!({}),
            "unit is \"KiB/s\", expected \"ns\"",
        ),
        (
            "STAT",
            "ns",
            json!({"samples": [5.0, -1e6]}),
            "sample 2 is -1000000 ns, expected 0 to",
        ),
        (
            "STAT",
            "ns",
            json!({"quantiles": [{"p": 7, "value": 95.0}]}),
            "p is 7, expected 0 to 1",
        ),
        (
            "STAT",
            "ns",
            json!({"quantiles": [{"p": 0.5, "value": 9.0}, {"p": 0.9, "value": 8.0}]}),
            "expected them ascending",
        ),
        (
            "STAT",
            "ns",
            json!({"quantiles": [{"p": 0.5, "value": -1e6}]}),
            "quantile 0.5 is -1000000",
        ),
    ]
}

fn estimates() -> Vec<Case> {
    vec![
        (
            "STAT",
            "ns",
            json!({"estimate": 200.0}),
            "estimate is 200, expected it in its interval 90 to 110",
        ),
        ("STAT", "ns", json!({"low": 120.0}), "empty"),
        (
            "STAT",
            "ns",
            json!({"low": null}),
            "low is missing, expected both ends",
        ),
        ("STAT", "ns", json!({"low": -5.0}), "low is -5"),
        (
            "STAT",
            "ns",
            json!({"estimate": 1e300, "high": 1e300}),
            "estimate is 1e300 ns, expected 0 to 1e15",
        ),
        (
            "STAT",
            "ns",
            json!({"estimate": 1e23, "high": 1e23}),
            "expected 0 to 1e15",
        ),
        (
            "STAT",
            "ns",
            json!({"estimate": -1.0, "low": 0.0}),
            "estimate is -1 ns",
        ),
        (
            "STAT",
            "ns",
            json!({"estimate": null}),
            "invalid type: null",
        ),
        (
            "STAT",
            "ns",
            json!({"mean": 2e15}),
            "mean is 2000000000000000 ns",
        ),
        (
            "RD64",
            "KiB/s",
            json!({"estimate": 0.0, "low": 0.0}),
            "estimate is 0 KiB/s, expected 0.000001",
        ),
    ]
}

#[test]
fn impossible_values_are_refused_by_file_metric_field_and_expectation() {
    for (name, unit, change, expected) in units_and_samples().into_iter().chain(estimates()) {
        // Intervals of version 1 were symmetric, and reach below zero in honest files.
        let low_was_free = change == json!({"low": -5.0});
        for version in [1, 2].into_iter().skip(usize::from(low_was_free)) {
            let error = parse(&text(version, name, unit, &change)).unwrap_err();
            let says = |part: &str| assert!(error.contains(part), "{version} {change}: {error}");
            says(expected);
            says("bad.fsp");
            if change != json!({"estimate": null}) {
                says(&format!("metric {name}"));
            }
        }
    }
    assert!(parse(&text(2, "STAT", "ns", &json!({}))).is_ok());
    let nan = text(2, "STAT", "ns", &json!({})).replace("100.0", "NaN");
    assert!(parse(&nan).unwrap_err().contains("bad.fsp"));
}

#[test]
fn an_interval_of_no_width_from_few_samples_is_unknown_in_version_1() {
    let of = |unit: &str, name: &str, runs: u32| {
        let one = json!({"runs": runs, "low": 100.0, "high": 100.0});
        parse(&text(1, name, unit, &one)).unwrap().metrics[0].interval()
    };
    assert_eq!(of("ns", "FDSO", 1), None);
    assert_eq!(of("ns", "FDSO", 2), None);
    // As coarse as the clock may be, hundreds of samples tell that.
    assert_eq!(of("ns", "EMPTY", 400), Some((100.0, 100.0)));
    // The size of a block is what it is.
    assert_eq!(of("B", "BS", 1), Some((100.0, 100.0)));
    let saved = parse(&text(
        1,
        "FDSO",
        "ns",
        &json!({"runs": 1, "low": 100.0, "high": 100.0}),
    ));
    let again = serde_json::to_string(&saved.unwrap()).unwrap();
    assert!(
        again.contains("\"version\":3") && again.contains("\"low\":null"),
        "{again}"
    );
    assert_eq!(parse(&again).unwrap().metrics[0].interval(), None);
}

#[test]
fn a_profile_says_whether_it_is_whole() {
    let whole = parse(&text(2, "STAT", "ns", &json!({}))).unwrap();
    assert!(whole.is_whole() && whole.incomplete_reason().is_none());
    let mut broken = whole;
    broken.incomplete = Some("interrupted after 9 s".to_owned());
    let again = parse(&serde_json::to_string(&broken).unwrap()).unwrap();
    assert!(!again.is_whole());
    assert_eq!(again.incomplete_reason(), Some("interrupted after 9 s"));
    // As version 1 said it.
    let old = text(1, "STAT", "ns", &json!({})).replace(
        "\"environment\":{}",
        "\"environment\":{\"extra\":{\"interrupted\":\"yes\"}}",
    );
    assert_eq!(
        parse(&old).unwrap().incomplete_reason(),
        Some("interrupted")
    );
}

/// The nearest text of a number reads back as that number, whatever its digits.
#[test]
fn what_is_read_and_saved_again_is_the_same_to_the_byte() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (dir.path().join("a.fsp"), dir.path().join("b.fsp"));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let samples: Vec<f64> = (0..20_000)
        .map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            95.0 + 10.0 * (random >> 11) as f64 / (1_u64 << 53) as f64
        })
        .collect();
    let version = fsage_format::profile::PROFILE_VERSION.0;
    let text = text(version, "STAT", "ns", &json!({"samples": samples}));
    parse(&text).unwrap().save(&first).unwrap();
    let read = SystemProfile::load(&first).unwrap();
    assert_eq!(read.metrics[0].samples, samples);
    read.save(&second).unwrap();
    assert!(std::fs::read(&first).unwrap() == std::fs::read(&second).unwrap());
}

//! The estimators against SciPy's (`tests/golden/golden.py` made the values).

#![allow(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "tests compare exact values"
)]

use fsage_stats::{
    correlate, drift, effect, line, mean_interval, median_interval, normal, positive_ratio,
    quantile, rank_sum, ratio, shapiro_wilk, student, summary, welch,
};
use serde_json::Value;

fn rows(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).unwrap();
    let rows = file["rows"].as_array().unwrap().clone();
    assert!(!rows.is_empty());
    rows
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap())
        .collect()
}

fn pairs(row: &Value) -> Vec<(f64, f64)> {
    numbers(&row["x"])
        .into_iter()
        .zip(numbers(&row["y"]))
        .collect()
}

/// Within a relative 1e-9 of SciPy's value, or an absolute one near 0.
#[track_caller]
fn close(mine: f64, golden: &Value, what: &str) {
    let golden = golden.as_f64().unwrap();
    let error = (mine - golden).abs();
    assert!(
        error <= 1e-9 * golden.abs().max(1e-3),
        "{what}: {mine} is not {golden}"
    );
}

/// As [`close`], to the seven digits that SciPy's normal scores have.
#[track_caller]
fn near(mine: f64, golden: &Value, what: &str) {
    let golden = golden.as_f64().unwrap();
    let error = (mine - golden).abs();
    assert!(
        error <= 1e-5 * golden.abs().max(1e-3),
        "{what}: {mine} is not {golden}"
    );
}

#[test]
fn summaries_and_intervals() {
    for row in rows(include_str!("golden/summary.json")) {
        let x = numbers(&row["x"]);
        let n = x.len();
        let s = summary(&x);
        close(s.mean, &row["mean"], "mean");
        close(s.stddev, &row["stddev"], "stddev");
        close(s.low, &row["low"], "low");
        close(s.high, &row["high"], "high");
        let mine = [s.min, s.p5, s.p25, s.median, s.p75, s.p95, s.p99, s.max];
        for (mine, golden) in mine.iter().zip(row["quantiles"].as_array().unwrap()) {
            close(*mine, golden, "quantile");
        }
        let median = median_interval(&x, 0.95);
        match (
            median,
            row["median_low"].as_f64(),
            row["median_high"].as_f64(),
        ) {
            (Some(interval), Some(low), Some(high)) => {
                assert_eq!((interval.low, interval.high), (low, high), "n = {n}");
                assert!(interval.confidence >= 0.95);
            }
            (None, None, None) => assert!(n < 6),
            other => panic!("n = {n}: {other:?}"),
        }
        assert_eq!(mean_interval(&x, 0.95).unwrap().low, s.low);
        assert_eq!(quantile(&x, 0.25), s.p25);
    }
}

#[test]
fn welchs_test() {
    for row in rows(include_str!("golden/welch.json")) {
        let test = welch(&numbers(&row["a"]), &numbers(&row["b"])).unwrap();
        close(test.t, &row["t"], "t");
        close(test.df, &row["df"], "df");
        close(test.p, &row["p"], "p");
        close(test.low, &row["low"], "low");
        close(test.high, &row["high"], "high");
    }
}

#[test]
fn students_t() {
    for row in rows(include_str!("golden/student.json")) {
        let (p, df) = (row["p"].as_f64().unwrap(), row["df"].as_f64().unwrap());
        let q = student::quantile(p, df);
        close(q, &row["quantile"], "quantile");
        assert!((student::cdf(q, df) - p).abs() < 1e-12);
    }
}

#[test]
fn correlation_and_lines() {
    for row in rows(include_str!("golden/pairs.json")) {
        let pairs = pairs(&row);
        match correlate::pearson(&pairs) {
            Some(r) => close(r, &row["pearson"], "pearson"),
            // Two points always lie on a line.
            None => assert!(pairs.len() < 3),
        }
        let line = line::fit(&pairs).unwrap();
        close(line.slope, &row["slope"], "slope");
        close(line.intercept, &row["intercept"], "intercept");
        close(line.r_squared, &row["r_squared"], "r squared");
        match row["slope_half_width"].as_f64() {
            Some(_) => close(
                line.slope_half_width,
                &row["slope_half_width"],
                "half-width",
            ),
            None => assert!(line.slope_half_width.is_nan()),
        }
    }
}

#[test]
fn the_normal_distribution() {
    for row in rows(include_str!("golden/normal.json")) {
        let (z, golden) = (row["z"].as_f64().unwrap(), row["tail"].as_f64().unwrap());
        let mine = normal::upper_tail(z);
        assert!((mine - golden).abs() <= 1e-11 * golden, "{z}: {mine}");
        if z.abs() < 5.0 {
            assert!((normal::quantile(1.0 - golden) - z).abs() < 1e-9, "{z}");
        }
    }
}

#[test]
fn shapiro_and_wilks_test() {
    for row in rows(include_str!("golden/normality.json")) {
        let x = numbers(&row["x"]);
        let test = shapiro_wilk(&x).unwrap();
        near(test.w, &row["w"], "W");
        near(test.p, &row["p"], "p");
    }
    assert_eq!(shapiro_wilk(&[1.0, 2.0]), None);
    assert_eq!(shapiro_wilk(&[5.0; 10]), None);
}

#[test]
fn drift_by_order() {
    for row in rows(include_str!("golden/drift.json")) {
        let found = drift(&numbers(&row["x"])).unwrap();
        close(found.tau, &row["tau"], "tau");
        close(found.p, &row["p"], "p");
        close(found.slope, &row["slope"], "slope");
    }
    assert_eq!(drift(&[1.0, 1.0, 1.0]), None);
}

#[test]
fn ratios_and_effects() {
    for row in rows(include_str!("golden/effect.json")) {
        let (a, b) = (numbers(&row["a"]), numbers(&row["b"]));
        let found = effect(&a, &b).unwrap();
        close(found.hedges_g, &row["hedges_g"], "g");
        close(found.a12, &row["a12"], "A12");
        match ratio(&a, &b) {
            Some(interval) => {
                close(interval.estimate, &row["ratio"], "ratio");
                close(interval.low, &row["low"], "low");
                close(interval.high, &row["high"], "high");
            }
            None => assert!(row["low"].is_null()),
        }
    }
    assert_eq!(ratio(&[1.0, 2.0], &[-5.0, 5.1]), None);
    assert_eq!(ratio(&[2.0, 2.0], &[4.0, 4.0]).unwrap().high, 0.5);
}

#[test]
fn ratios_of_what_cannot_be_negative() {
    // Narrow: Fieller's own.
    let (a, b) = ([10.0, 10.5, 9.8], [5.0, 5.1, 4.9]);
    assert_eq!(positive_ratio(&a, &b), ratio(&a, &b));
    // Runs a factor of six apart: Fieller's goes below 0, and has no bounds the other way round; this one has positive
    // ends, the same factor to each side, and of the inverse the inverse.
    let (a, b) = ([0.5, 3.0, 2.0], [2.0, 2.5, 2.2]);
    assert!(ratio(&a, &b).unwrap().low < 0.0);
    let found = positive_ratio(&a, &b).unwrap();
    assert!(0.0 < found.low && found.low < found.estimate);
    assert!((found.estimate / found.low / (found.high / found.estimate) - 1.0).abs() < 1e-12);
    assert_eq!(ratio(&b, &a), None);
    let inverse = positive_ratio(&b, &a).unwrap();
    assert!((found.low * inverse.high - 1.0).abs() < 1e-12);
    assert_eq!(positive_ratio(&[0.0, 3.0, 2.0], &b).unwrap().low, 0.0);
    assert_eq!(positive_ratio(&[-1.0, 3.0], &b), None);
    assert_eq!(positive_ratio(&[1.0], &b), None);
}

#[test]
fn heavy_tails_from_2_to_30_samples() {
    let mut sizes = std::collections::BTreeSet::new();
    for row in rows(include_str!("golden/heavy.json")) {
        let (a, b) = (numbers(&row["a"]), numbers(&row["b"]));
        sizes.insert(a.len());
        let found = summary(&a);
        close(found.mean, &row["mean"], "mean");
        close(found.stddev, &row["stddev"], "stddev");
        close(found.low, &row["low"], "low");
        close(found.high, &row["high"], "high");
        let test = welch(&a, &b).unwrap();
        close(test.t, &row["t"], "t");
        close(test.df, &row["df"], "df");
        close(test.p, &row["p"], "p");
        close(test.low, &row["welch_low"], "Welch low");
        close(test.high, &row["welch_high"], "Welch high");
        let size = effect(&a, &b).unwrap();
        close(size.hedges_g, &row["hedges_g"], "g");
        close(size.a12, &row["a12"], "A12");
        close(rank_sum(&a, &b).unwrap(), &row["rank_p"], "rank p");
        match ratio(&a, &b) {
            Some(interval) => {
                close(interval.low, &row["ratio_low"], "ratio low");
                close(interval.high, &row["ratio_high"], "ratio high");
            }
            None => assert!(row["ratio_low"].is_null()),
        }
        if a.len() > 2 {
            let found = shapiro_wilk(&a).unwrap();
            near(found.w, &row["w"], "W");
            near(found.p, &row["normal_p"], "p of W");
        }
    }
    assert!(sizes.into_iter().eq(2..=30));
}

#[test]
fn rank_sums_with_ties() {
    for row in rows(include_str!("golden/ties.json")) {
        let (a, b) = (numbers(&row["a"]), numbers(&row["b"]));
        close(rank_sum(&a, &b).unwrap(), &row["p"], "rank p");
    }
}

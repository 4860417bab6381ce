//! Words of certainty held against what was measured: the kept validations of `benchmarks/runs`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "gzip is waited for"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use fsage_predict::certainty::{Totals, elapsed_order, interval, latency_order};
use serde_json::Value;

/// The validations whose errors the constants were taken from, and so the most that they can say.
const KEPT: [&str; 2] = ["2026-11-22-matrix-3-runs", "2026-11-22-matrix"];

struct Kept {
    workload: String,
    totals: Totals,
    measured_ns: f64,
    measured_elapsed_ns: f64,
}

fn kept(run: &str) -> Vec<Kept> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benchmarks/runs");
    let file: PathBuf = root.join(run).join("validation.json.gz");
    let out = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    assert!(out.status.success(), "{}", file.display());
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let pairs = all["pairs"].as_array().unwrap();
    pairs
        .iter()
        .map(|p| {
            let number = |name: &str| p[name].as_f64().unwrap();
            let high = p["predicted_interval_ns"][1].as_f64().unwrap();
            let latency_ns = number("predicted_ns");
            let error = (high - latency_ns) / 1.96;
            Kept {
                workload: p["workload"].as_str().unwrap().to_owned(),
                totals: Totals {
                    latency_ns,
                    elapsed_ns: number("predicted_elapsed_ns"),
                    profile: fsage_predict::certainty::log_error(latency_ns, error),
                    in_memory: p["group"] == "ram",
                    unplaced: 0.0,
                    marked: 0.0,
                },
                measured_ns: number("measured_ns"),
                measured_elapsed_ns: number("measured_elapsed_ns"),
            }
        })
        .collect()
}

/// Orders that were said with at least that probability, and those of them that were right.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    said: u32,
    right: u32,
}

impl Score {
    fn count(&mut self, probability: f64, least: f64, first_is_less: bool) {
        let (p, right) = if probability >= 0.5 {
            (probability, first_is_less)
        } else {
            (1.0 - probability, !first_is_less)
        };
        if p >= least {
            self.said += 1;
            self.right += u32::from(right);
        }
    }

    fn holds(self, least: f64) -> bool {
        f64::from(self.right) >= least * f64::from(self.said)
    }
}

#[test]
fn of_what_is_said_with_95_percent_at_least_95_percent_is_right() {
    for run in KEPT {
        let pairs = kept(run);
        assert_eq!(pairs.len(), 56);
        for least in [0.95, 0.75] {
            let (mut elapsed, mut latency) = (Score::default(), Score::default());
            for (i, a) in pairs.iter().enumerate() {
                for b in pairs
                    .iter()
                    .skip(i + 1)
                    .filter(|b| b.workload == a.workload)
                {
                    let p = elapsed_order(&a.totals, &b.totals);
                    elapsed.count(p, least, a.measured_elapsed_ns < b.measured_elapsed_ns);
                    let p = latency_order(&a.totals, &b.totals);
                    latency.count(p, least, a.measured_ns < b.measured_ns);
                }
            }
            // Words that are never used would always be right.
            let said = elapsed.said.min(latency.said);
            assert!(said >= 80, "{run} {least}: {elapsed:?} {latency:?}");
            assert!(
                elapsed.holds(least) && latency.holds(least),
                "{run} {least}: {elapsed:?} {latency:?}"
            );
        }
    }
}

#[test]
fn intervals_hold_what_was_measured() {
    for run in KEPT {
        let pairs = kept(run);
        let (mut usable, mut latency, mut elapsed) = (0, 0, 0);
        for p in &pairs {
            let t = &p.totals;
            let within = |i: Option<(f64, f64)>, ns: f64| i.is_some_and(|i| i.0 <= ns && ns <= i.1);
            let (a, b) = (
                interval(t.latency_ns, t.latency_half()),
                interval(t.elapsed_ns, t.elapsed_half()),
            );
            usable += u32::from(a.is_some() && b.is_some());
            latency += u32::from(a.is_none() || within(a, p.measured_ns));
            elapsed += u32::from(b.is_none() || within(b, p.measured_elapsed_ns));
        }
        assert!(
            usable >= 50 && latency >= 52 && elapsed >= 52,
            "{run}: {usable} {latency} {elapsed}"
        );
    }
}

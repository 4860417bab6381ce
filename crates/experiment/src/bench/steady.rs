//! Where a phase's throughput is steady.

use fsage_format::result::experiment::SteadyPart;
use fsage_format::result::run::{PhaseRun, RunPoint};
use fsage_stats::{Steady, steady};

/// More points than this say nothing more.
const SERIES_POINTS: usize = 256;

/// Fewer intervals than this do not tell a warm-up from chance.
const FEWEST_POINTS: usize = 20;

/// Segments of fewer points are chance.
const SHORTEST: usize = 3;

/// How far levels may lie from the last one (Traeger 2007, 3.4 asks 5 % of a mean).
const TOLERANCE: f64 = 0.05;

/// Joins neighbours of a series until it is short.
pub fn coarsen(phase: &mut PhaseRun) {
    while phase.series.len() > SERIES_POINTS {
        let joined = phase.series.chunks(2).map(|pair| {
            pair.iter().fold(
                RunPoint {
                    operations: 0,
                    bytes: 0,
                    latency_ns: 0,
                },
                |sum, p| RunPoint {
                    operations: sum.operations + p.operations,
                    bytes: sum.bytes + p.bytes,
                    latency_ns: sum.latency_ns + p.latency_ns,
                },
            )
        });
        phase.series = joined.collect();
        phase.series_interval_ns *= 2;
    }
}

/// The steady part of a phase by the change points of its throughput; `None` for one too short to tell.
pub fn part(phase: &PhaseRun) -> Option<SteadyPart> {
    // The last interval is not a whole one.
    let whole = phase.series.split_last()?.1;
    if whole.len() < FEWEST_POINTS || phase.series_interval_ns == 0 {
        return None;
    }
    let seconds = phase.series_interval_ns as f64 / 1e9;
    let rates: Vec<f64> = whole
        .iter()
        .map(|p| p.operations as f64 / seconds)
        .collect();
    let mean = |rates: &[f64]| (!rates.is_empty()).then(|| fsage_stats::mean(rates));
    Some(match steady(&rates, SHORTEST, TOLERANCE) {
        Steady::From { sample } => {
            let (warm_up, rest) = rates.split_at(sample.min(rates.len()));
            SteadyPart {
                steady: true,
                warm_up_ns: sample as u64 * phase.series_interval_ns,
                warm_up_operations_per_s: mean(warm_up),
                steady_operations_per_s: mean(rest),
            }
        }
        Steady::Never => SteadyPart {
            steady: false,
            warm_up_ns: phase.elapsed_ns,
            warm_up_operations_per_s: mean(&rates),
            steady_operations_per_s: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn phase(operations: impl Iterator<Item = u64>) -> PhaseRun {
        let series: Vec<RunPoint> = operations
            .map(|operations| RunPoint {
                operations,
                bytes: operations * 10,
                latency_ns: 1,
            })
            .collect();
        PhaseRun {
            role: "run".into(),
            name: "x".into(),
            streams: Vec::new(),
            cold: None,
            elapsed_ns: series.len() as u64 * 10_000_000,
            operations: series.iter().map(|p| p.operations).sum(),
            operations_per_s: 0.0,
            bytes_read: 0,
            bytes_written: 0,
            latency_total_ns: 0,
            cpu_ns: 0,
            run_delay_ns: None,
            kinds: Vec::new(),
            skipped: BTreeMap::new(),
            unexpected: 0,
            mismatches: Vec::new(),
            series_interval_ns: 10_000_000,
            series,
            layout: None,
        }
    }

    #[test]
    fn a_warm_up_is_reported_apart() {
        let rate = |i: u64| if i < 40 { 50 } else { 100 } + i * 7919 % 5;
        let found = part(&phase((0..200).map(rate))).unwrap();
        assert!(found.steady);
        assert_eq!(found.warm_up_ns, 400_000_000);
        let (before, after) = (
            found.warm_up_operations_per_s,
            found.steady_operations_per_s,
        );
        assert!((5000.0..5500.0).contains(&before.unwrap()), "{found:?}");
        assert!((10_000.0..10_500.0).contains(&after.unwrap()), "{found:?}");
        let late = part(&phase((0..200).rev().map(rate))).unwrap();
        assert!(!late.steady && late.steady_operations_per_s.is_none());
        assert_eq!(part(&phase((0..20).map(rate))), None, "too short");
    }

    #[test]
    fn a_long_series_is_joined() {
        let mut phase = phase((0..1001).map(|i| i % 3));
        let sum = phase.operations;
        coarsen(&mut phase);
        assert_eq!(
            (phase.series.len(), phase.series_interval_ns),
            (251, 40_000_000)
        );
        assert_eq!(phase.series.iter().map(|p| p.operations).sum::<u64>(), sum);
    }
}

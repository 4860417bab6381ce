//! What is written behind slows the rest down (Smith 2001, 4.4.3.2.5 and eq. 4).

use fsage_core::metric::{MetricId, family};

use crate::cost::SystemVector;

/// What a workload leaves to be written behind.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Load {
    /// Bytes written by calls.
    pub bytes: u64,
    /// Blocks that became dirty and were not cut off before they were written.
    pub blocks: u64,
    /// Times that a clean file became dirty.
    pub bursts: u64,
    /// Creates, removals and renames.
    pub metadata_ops: u64,
    /// From the first operation to the last, in nanoseconds.
    pub run_ns: u64,
    /// Predicted latency of all operations, in nanoseconds.
    pub latency_ns: f64,
}

/// Blocks for each burst from which on a file is a stream, as in the benchmark of WR, and not a
/// small file, as in that of WB.
const STREAM_BLOCKS: u64 = 16;

/// The result of eq. 4.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Overhead {
    /// Additional time, in nanoseconds.
    pub overhead_ns: f64,
    /// The slowdown that the measured curves give for this load: 0.1 is 10 % longer.
    pub slowdown: f64,
    /// Share of the run in which the file system is active, at most 1.
    pub utilization: f64,
    /// KiB written for each second of the run.
    pub kib_per_s: f64,
}

/// Asynchronous overhead = slowdown * total latency * utilization (eq. 4).
pub fn equation_4(slowdown: f64, latency_ns: f64, utilization: f64) -> f64 {
    slowdown * latency_ns * utilization
}

/// Share of the run in which the file system is active; 1 if it would need longer than the run.
pub fn utilization(latency_ns: f64, run_ns: u64) -> f64 {
    if run_ns == 0 {
        1.0
    } else {
        (latency_ns / run_ns as f64).min(1.0)
    }
}

/// The overhead of a load on a system. Streams are charged by bytes (WR), small files by blocks
/// (WB, where measured), creates and removals by their number (WM, where measured).
pub fn overhead(vector: &SystemVector, load: &Load) -> Overhead {
    let utilization = utilization(load.latency_ns, load.run_ns);
    let seconds = load.run_ns as f64 / 1e9;
    if seconds <= 0.0 {
        return Overhead {
            utilization,
            ..Overhead::default()
        };
    }
    let kib_per_s = load.bytes as f64 / 1024.0 / seconds;
    let by_bytes = slowdown_by_bytes(vector, kib_per_s);
    let by_blocks = ratio(vector, "WB", load.blocks as f64 / seconds);
    let stream = load.blocks >= STREAM_BLOCKS.saturating_mul(load.bursts.max(1));
    let data = match (by_bytes, by_blocks) {
        (Some(bytes), _) if stream => bytes,
        (_, Some(blocks)) => blocks,
        (Some(bytes), None) => bytes,
        (None, None) => 0.0,
    };
    let metadata = ratio(vector, "WM", load.metadata_ops as f64 / seconds).unwrap_or(0.0);
    let slowdown = (data + metadata).max(0.0);
    let overhead_ns = equation_4(slowdown, load.latency_ns, utilization);
    Overhead {
        overhead_ns,
        slowdown,
        utilization,
        kib_per_s,
    }
}

/// From the times of the fixed workload: how much longer than without load.
fn slowdown_by_bytes(vector: &SystemVector, kib_per_s: f64) -> Option<f64> {
    let idle = vector.get(MetricId::parse("WR0")?)?.value;
    if idle <= 0.0 {
        return None;
    }
    let points = points(vector, "WR").map(|(load, seconds)| (load, seconds / idle - 1.0));
    curve(&points.collect::<Vec<_>>(), kib_per_s)
}

/// From slowdowns themselves, which are factors: 1 is none.
fn ratio(vector: &SystemVector, stem: &str, rate: f64) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = points(vector, stem)
        .map(|(load, factor)| (load, factor - 1.0))
        .collect();
    if points.is_empty() {
        return None;
    }
    points.push((0.0, 0.0));
    curve(&points, rate)
}

fn points<'a>(vector: &'a SystemVector, stem: &str) -> impl Iterator<Item = (f64, f64)> + 'a {
    let metrics = family(stem)
        .map(|f| f.metrics().collect::<Vec<_>>())
        .unwrap_or_default();
    metrics
        .into_iter()
        .filter_map(|id| Some((f64::from(id.point()?), vector.get(id)?.value)))
}

fn curve(points: &[(f64, f64)], at: f64) -> Option<f64> {
    Some(fsage_stats::interpolate::linear(points, at)?.max(0.0))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_4_4_5_4_to_the_last_digit() {
        // 10 s of latency in a run of 25 s with a slowdown of 13.9 %.
        let utilization = utilization(10.0, 25);
        assert_eq!(utilization, 0.4);
        let total = 0.139 * 10.0;
        assert!((total - 1.39_f64).abs() < 1e-12);
        assert!((equation_4(0.139, 10.0, utilization) - 0.556).abs() < 1e-12);
        assert_eq!(super::utilization(30.0, 25), 1.0);
    }

    #[test]
    fn the_same_example_from_a_measured_curve() {
        // WR0 and WR1024 such that the load of 500 KiB/s slows down by 13.9 %.
        let metric = |name: &str, value: f64| (MetricId::parse(name).unwrap(), value, value, value);
        let at_1024 = 10.0 * (1.0 + 0.139 * 1024.0 / 500.0);
        let vector = SystemVector::new("slow", [metric("WR0", 10.0), metric("WR1024", at_1024)]);
        let load = Load {
            bytes: 500 * 1024 * 25,
            run_ns: 25_000_000_000,
            latency_ns: 10e9,
            ..Load::default()
        };
        let result = overhead(&vector, &load);
        assert!((result.slowdown - 0.139).abs() < 1e-12);
        assert!((result.overhead_ns - 0.556e9).abs() < 1.0, "{result:?}");
    }

    #[test]
    fn small_files_are_charged_by_blocks() {
        let metric = |name: &str, value: f64| (MetricId::parse(name).unwrap(), value, value, value);
        let vector = SystemVector::new(
            "s",
            [
                metric("WR0", 1.0),
                metric("WR1024", 1.0),
                metric("WB256", 1.5),
                metric("WM256", 1.25),
            ],
        );
        let load = Load {
            bytes: 4096 * 256,
            blocks: 256,
            bursts: 256,
            metadata_ops: 256,
            run_ns: 1_000_000_000,
            latency_ns: 1e9,
        };
        assert!((overhead(&vector, &load).slowdown - 0.75).abs() < 1e-12);
    }
}

//! What the executor found, as it is stored.

use std::collections::BTreeMap;

use fsage_core::{Errno, OpKind};
use fsage_exec::{KindResult, Mismatch, RunResult};
use fsage_format::result::run::{KindRun, PhaseRun, RunPoint, StreamRun, Unexpected};

/// A phase's result. `cold` says how caches were made cold before it.
pub fn phase(role: &str, name: &str, cold: Option<String>, result: &RunResult) -> PhaseRun {
    let seconds = result.elapsed_ns as f64 / 1e9;
    let rate = if seconds > 0.0 {
        result.operations as f64 / seconds
    } else {
        0.0
    };
    PhaseRun {
        role: role.to_string(),
        name: name.to_string(),
        streams: result
            .streams
            .iter()
            .map(|s| StreamRun {
                elapsed_ns: s.elapsed_ns,
                operations: s.operations,
                bytes_read: s.bytes_read,
                bytes_written: s.bytes_written,
            })
            .collect(),
        cold,
        elapsed_ns: result.elapsed_ns,
        operations: result.operations,
        operations_per_s: rate,
        bytes_read: result.bytes_read,
        bytes_written: result.bytes_written,
        latency_total_ns: result.latency_total_ns,
        cpu_ns: result.cpu_ns,
        run_delay_ns: result.run_delay_ns,
        kinds: result.kinds.iter().map(|(k, r)| kind(*k, r)).collect(),
        skipped: names(&result.skipped),
        unexpected: result.unexpected,
        mismatches: result
            .mismatches
            .iter()
            .map(|m| reported(name, m))
            .collect(),
        series_interval_ns: result.series_interval_ns,
        series: result
            .series
            .iter()
            .map(|p| RunPoint {
                operations: p.operations,
                bytes: p.bytes,
                latency_ns: p.latency_ns,
            })
            .collect(),
        layout: None,
    }
}

fn names(counts: &BTreeMap<OpKind, u64>) -> BTreeMap<String, u64> {
    let named = |(k, n): (&OpKind, &u64)| (k.name().to_string(), *n);
    counts.iter().map(named).collect()
}

fn kind(kind: OpKind, r: &KindResult) -> KindRun {
    KindRun {
        kind: kind.name().to_string(),
        count: r.count,
        latency_total_ns: r.latency_total_ns,
        mean_ns: r.latency_total_ns as f64 / r.count.max(1) as f64,
        min_ns: r.min_ns,
        p50_ns: r.p50_ns,
        p90_ns: r.p90_ns,
        p95_ns: r.p95_ns,
        p99_ns: r.p99_ns,
        p999_ns: r.p999_ns,
        max_ns: r.max_ns,
        bytes: r.bytes,
        errors: r
            .errors
            .iter()
            .map(|(&errno, &count)| (symbol(errno), count))
            .collect(),
        unexpected: r.unexpected,
        distribution: r.distribution.clone(),
    }
}

/// An operation that did not end as expected.
pub fn reported(phase: &str, mismatch: &Mismatch) -> Unexpected {
    Unexpected {
        phase: phase.to_string(),
        stream: mismatch.stream as u64,
        index: mismatch.index,
        kind: mismatch.kind.name().to_string(),
        path: mismatch.path.clone(),
        expected: outcome(mismatch.expected),
        actual: outcome(mismatch.actual),
    }
}

fn outcome(raw: i64) -> String {
    match i32::try_from(raw) {
        Ok(errno) if errno < 0 => symbol(-errno),
        _ => raw.to_string(),
    }
}

fn symbol(errno: i32) -> String {
    Errno(errno)
        .symbol()
        .map_or_else(|| format!("errno {errno}"), str::to_string)
}

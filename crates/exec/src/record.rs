//! Counting what one stream's operations did.

use std::collections::BTreeMap;

use fsage_core::{Errno, KindClass, Op, OpKind, PathTable};
use fsage_stats::median_of_ranks;
use hdrhistogram::Histogram;

use crate::result::{KindResult, Mismatch, RunResult, SeriesPoint, StreamResult};

/// Mismatches that are kept with their particulars; all are counted.
const KEPT_MISMATCHES: usize = 20;

/// Points of a series; when a run outlasts them, pairs are joined and the interval doubles.
const SERIES_POINTS: usize = 4096;

struct KindRecord {
    latencies: Histogram<u64>,
    latency_total_ns: u64,
    bytes: u64,
    errors: BTreeMap<i32, u64>,
    unexpected: u64,
}

/// The counts of one stream.
pub struct Recorder {
    stream: usize,
    kinds: Vec<Option<Box<KindRecord>>>,
    skipped: BTreeMap<OpKind, u64>,
    index: u64,
    mismatches: Vec<Mismatch>,
    broken: Option<Mismatch>,
    series: Series,
}

impl Recorder {
    /// Counts for stream number `stream`; a series of points `interval_ns` wide from `start_ns` on,
    /// none for 0.
    pub fn new(stream: usize, start_ns: u64, interval_ns: u64) -> Self {
        let mut kinds = Vec::new();
        kinds.resize_with(OpKind::ALL.len(), || None);
        Self {
            stream,
            kinds,
            skipped: BTreeMap::new(),
            index: 0,
            mismatches: Vec::new(),
            broken: None,
            series: Series::new(start_ns, interval_ns),
        }
    }

    /// Counts an operation that ran; returns whether it ended as the stream expected.
    pub fn ran(
        &mut self,
        op: &Op,
        paths: &PathTable,
        result: Result<u64, Errno>,
        latency_ns: u64,
        end_ns: u64,
    ) -> bool {
        self.index += 1;
        let Some(slot) = self.kinds.get_mut(op.kind as usize) else {
            return true;
        };
        let record = slot.get_or_insert_with(new_record);
        // Saturates at the histogram's highest value, an hour; the total does not.
        record.latencies.saturating_record(latency_ns);
        record.latency_total_ns = record.latency_total_ns.saturating_add(latency_ns);
        let bytes = match result {
            Ok(value) if is_transfer(op.kind) => value,
            _ => 0,
        };
        record.bytes = record.bytes.saturating_add(bytes);
        if let Err(errno) = result {
            *record.errors.entry(errno.0).or_default() += 1;
        }
        let expected = as_expected(op, result);
        if !expected {
            record.unexpected += 1;
            if self.mismatches.len() < KEPT_MISMATCHES {
                let mismatch = mismatch(self.stream, self.index - 1, op, paths, result);
                self.mismatches.push(mismatch);
            }
        }
        self.series.add(end_ns, bytes, latency_ns);
        expected
    }

    /// The operation counted last ended the run.
    pub fn broke_off(&mut self, op: &Op, paths: &PathTable, result: Result<u64, Errno>) {
        self.broken = Some(mismatch(self.stream, self.index - 1, op, paths, result));
    }

    /// Counts an operation that has no call.
    pub fn skipped(&mut self, kind: OpKind) {
        self.index += 1;
        *self.skipped.entry(kind).or_default() += 1;
    }

    /// What the stream did in `elapsed_ns`.
    pub fn stream(&self, elapsed_ns: u64) -> StreamResult {
        let mut sum = StreamResult {
            elapsed_ns,
            ..StreamResult::default()
        };
        for (&kind, record) in OpKind::ALL.iter().zip(&self.kinds) {
            let Some(record) = record else { continue };
            sum.operations += record.latencies.len();
            if is_read(kind) {
                sum.bytes_read = sum.bytes_read.saturating_add(record.bytes);
            } else {
                sum.bytes_written = sum.bytes_written.saturating_add(record.bytes);
            }
        }
        sum
    }

    /// Puts several streams' counts together.
    pub fn merge(recorders: Vec<Recorder>) -> RunResult {
        let mut total = RunResult::default();
        let mut kinds: BTreeMap<OpKind, Box<KindRecord>> = BTreeMap::new();
        let mut series = Series::new(0, 0);
        for recorder in recorders {
            for (&kind, record) in OpKind::ALL.iter().zip(recorder.kinds) {
                let Some(record) = record else { continue };
                match kinds.get_mut(&kind) {
                    Some(sum) => add_record(sum, &record),
                    None => drop(kinds.insert(kind, record)),
                }
            }
            for (kind, count) in recorder.skipped {
                *total.skipped.entry(kind).or_default() += count;
            }
            total.mismatches.extend(recorder.mismatches);
            total.broken = total.broken.or(recorder.broken);
            series.merge(recorder.series);
        }
        total.mismatches.truncate(KEPT_MISMATCHES);
        for (kind, record) in kinds {
            let result = kind_result(&record);
            total.operations += result.count;
            total.latency_total_ns = total
                .latency_total_ns
                .saturating_add(result.latency_total_ns);
            total.unexpected += result.unexpected;
            if is_read(kind) {
                total.bytes_read = total.bytes_read.saturating_add(result.bytes);
            } else {
                total.bytes_written = total.bytes_written.saturating_add(result.bytes);
            }
            total.kinds.insert(kind, result);
        }
        total.series_interval_ns = series.interval_ns;
        total.series = series.points;
        total
    }
}

fn new_record() -> Box<KindRecord> {
    let latencies = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
        .or_else(|_| Histogram::new(3))
        .unwrap_or_else(|_| unreachable!("three digits are a valid precision"));
    Box::new(KindRecord {
        latencies,
        latency_total_ns: 0,
        bytes: 0,
        errors: BTreeMap::new(),
        unexpected: 0,
    })
}

fn add_record(sum: &mut KindRecord, more: &KindRecord) {
    // Both have the same bounds, so that none of the values is refused.
    let _ = sum.latencies.add(&more.latencies);
    sum.latency_total_ns = sum.latency_total_ns.saturating_add(more.latency_total_ns);
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.unexpected += more.unexpected;
    for (&errno, &count) in &more.errors {
        *sum.errors.entry(errno).or_default() += count;
    }
}

fn kind_result(record: &KindRecord) -> KindResult {
    let at = |q| record.latencies.value_at_quantile(q);
    KindResult {
        count: record.latencies.len(),
        latency_total_ns: record.latency_total_ns,
        min_ns: record.latencies.min(),
        p50_ns: median_of_ranks(record.latencies.len(), at),
        p90_ns: at(0.9),
        p95_ns: at(0.95),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        max_ns: record.latencies.max(),
        bytes: record.bytes,
        errors: record.errors.clone(),
        unexpected: record.unexpected,
        distribution: record
            .latencies
            .iter_recorded()
            .map(|v| (v.value_iterated_to(), v.count_at_value()))
            .collect(),
    }
}

fn mismatch(
    stream: usize,
    index: u64,
    op: &Op,
    paths: &PathTable,
    result: Result<u64, Errno>,
) -> Mismatch {
    let path = op.path.map(|p| paths.display(p).into_owned());
    Mismatch {
        stream,
        index,
        kind: op.kind,
        path: path.unwrap_or_default(),
        expected: op.result.raw(),
        actual: raw(result),
    }
}

fn is_transfer(kind: OpKind) -> bool {
    kind.class() == KindClass::Data && kind != OpKind::Fault
}

fn is_read(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn
    )
}

fn raw(result: Result<u64, Errno>) -> i64 {
    match result {
        Ok(value) => i64::try_from(value).unwrap_or(i64::MAX),
        Err(errno) => -i64::from(errno.0),
    }
}

/// Errors must be the same ones; of a transfer the bytes moved too.
pub(crate) fn as_expected(op: &Op, result: Result<u64, Errno>) -> bool {
    match result {
        Err(errno) => op.result.errno() == Some(errno),
        Ok(value) => op
            .result
            .value()
            .is_some_and(|v| !is_transfer(op.kind) || v == value),
    }
}

/// Points by the time at which operations ended.
struct Series {
    start_ns: u64,
    interval_ns: u64,
    points: Vec<SeriesPoint>,
    /// When the last point ends.
    boundary_ns: u64,
}

impl Series {
    fn new(start_ns: u64, interval_ns: u64) -> Self {
        Self {
            start_ns,
            interval_ns,
            points: Vec::new(),
            boundary_ns: start_ns,
        }
    }

    fn add(&mut self, end_ns: u64, bytes: u64, latency_ns: u64) {
        if self.interval_ns == 0 {
            return;
        }
        if end_ns >= self.boundary_ns {
            self.extend(end_ns);
        }
        if let Some(point) = self.points.last_mut() {
            point.operations += 1;
            point.bytes = point.bytes.saturating_add(bytes);
            point.latency_ns = point.latency_ns.saturating_add(latency_ns);
        }
    }

    /// Adds points up to the one that holds `end_ns`.
    fn extend(&mut self, end_ns: u64) {
        let since = end_ns.saturating_sub(self.start_ns);
        while since / self.interval_ns >= SERIES_POINTS as u64 {
            self.halve();
        }
        self.points.resize(
            (since / self.interval_ns) as usize + 1,
            SeriesPoint::default(),
        );
        let width = (self.points.len() as u64).saturating_mul(self.interval_ns);
        self.boundary_ns = self.start_ns.saturating_add(width);
    }

    fn halve(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        self.points = self
            .points
            .chunks(2)
            .map(|pair| {
                pair.iter().fold(SeriesPoint::default(), |mut sum, point| {
                    add_point(&mut sum, point);
                    sum
                })
            })
            .collect();
    }

    fn merge(&mut self, mut other: Series) {
        if other.interval_ns == 0 {
            return;
        }
        if self.interval_ns == 0 {
            *self = other;
            return;
        }
        while self.interval_ns < other.interval_ns {
            self.halve();
        }
        while other.interval_ns < self.interval_ns {
            other.halve();
        }
        if self.points.len() < other.points.len() {
            self.points
                .resize(other.points.len(), SeriesPoint::default());
        }
        for (mine, theirs) in self.points.iter_mut().zip(&other.points) {
            add_point(mine, theirs);
        }
    }
}

fn add_point(sum: &mut SeriesPoint, more: &SeriesPoint) {
    sum.operations += more.operations;
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.latency_ns = sum.latency_ns.saturating_add(more.latency_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_joins_its_points() {
        let mut series = Series::new(100, 10);
        for i in 0..20_000_u64 {
            series.add(100 + i * 10, 1, 2);
        }
        assert_eq!(series.interval_ns, 80);
        assert_eq!(series.points.len(), 2500);
        assert!(
            series
                .points
                .iter()
                .all(|p| p.operations == 8 && p.latency_ns == 16)
        );
        let mut fine = Series::new(100, 10);
        fine.add(100 + 85, 5, 5);
        fine.merge(series);
        assert_eq!(fine.points.len(), 2500);
        assert_eq!(
            (fine.points[1].operations, fine.points[0].operations),
            (9, 8)
        );
        assert_eq!(fine.points.iter().map(|p| p.bytes).sum::<u64>(), 20_005);
    }
}

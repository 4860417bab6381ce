//! Counting a replay: results and times held against the trace's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fsage_core::{Errno, Op, OpKind, Tid};
use fsage_stats::median_of_ranks;
use hdrhistogram::Histogram;

use super::model::Skip;
use crate::record::as_expected;

/// Differences that are kept with their particulars; all are counted.
pub const DIFFERENCES_KEPT: usize = 20;

/// Quantiles of times, in nanoseconds, to three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// How many there are.
    pub count: u64,
    /// Their sum.
    pub total_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One kind of operation in a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindReplay {
    /// The kind.
    pub kind: OpKind,
    /// Operations that ran.
    pub operations: u64,
    /// Those whose result was not the trace's.
    pub differ: u64,
    /// Failures on the target by error number, expected ones included.
    pub errors: BTreeMap<i32, u64>,
    /// Latencies in the trace, of those that ran and have one.
    pub traced: Times,
    /// Latencies on the target.
    pub replayed: Times,
}

/// One operation whose result was not the trace's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which operation of the trace, from 0.
    pub row: u64,
    /// Its thread.
    pub tid: Tid,
    /// Its kind.
    pub kind: OpKind,
    /// Its name on the target, empty for a call on an open file.
    pub name: Vec<u8>,
    /// The trace's result: a value, or an error number below 0.
    pub expected: i64,
    /// The target's, likewise.
    pub actual: i64,
}

#[derive(Debug)]
struct Series {
    quantiles: Histogram<u64>,
    total_ns: u64,
}

impl Series {
    fn new() -> Self {
        Self {
            quantiles: Histogram::new(3)
                .unwrap_or_else(|_| unreachable!("three digits are a valid precision")),
            total_ns: 0,
        }
    }

    fn add(&mut self, ns: u64) {
        // It grows as it has to; only a value beyond all bounds is refused.
        let _ = self.quantiles.record(ns.max(1));
        self.total_ns = self.total_ns.saturating_add(ns);
    }

    fn times(&self) -> Times {
        let at = |q| self.quantiles.value_at_quantile(q);
        if self.quantiles.is_empty() {
            return Times::default();
        }
        Times {
            count: self.quantiles.len(),
            total_ns: self.total_ns,
            p50_ns: median_of_ranks(self.quantiles.len(), at),
            p99_ns: at(0.99),
            max_ns: self.quantiles.max(),
        }
    }
}

#[derive(Debug)]
struct Counts {
    operations: u64,
    differ: u64,
    errors: BTreeMap<i32, u64>,
    traced: Series,
    replayed: Series,
}

/// All threads count here.
#[derive(Debug)]
pub struct Tally {
    kinds: Vec<Mutex<Option<Box<Counts>>>>,
    skipped: Mutex<BTreeMap<(OpKind, Skip), u64>>,
    /// What these took in the trace.
    skipped_ns: AtomicU64,
    differences: Mutex<Vec<Difference>>,
    start_errors: Mutex<Series>,
    /// First start and last end on the target's clock.
    span: Mutex<Option<(u64, u64)>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            kinds: OpKind::ALL.iter().map(|_| Mutex::new(None)).collect(),
            skipped: Mutex::default(),
            skipped_ns: AtomicU64::new(0),
            differences: Mutex::default(),
            start_errors: Mutex::new(Series::new()),
            span: Mutex::new(None),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that ran.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    /// Which operation of the trace.
    pub row: u64,
    /// The operation.
    pub op: &'a Op,
    /// Its name on the target.
    pub name: &'a [u8],
    /// What the target said.
    pub result: Result<u64, Errno>,
    /// Start and end on the target's clock.
    pub span_ns: (u64, u64),
    /// When it should have started; `None` as fast as possible.
    pub due_ns: Option<u64>,
}

impl Tally {
    /// Counts an operation that ran.
    pub fn ran(&self, ran: &Ran<'_>) {
        let (op, (start_ns, end_ns)) = (ran.op, ran.span_ns);
        let differs = !as_expected(op, ran.result);
        if let Some(slot) = self.kinds.get(op.kind as usize) {
            let mut slot = lock(slot);
            let counts = slot.get_or_insert_with(|| {
                Box::new(Counts {
                    operations: 0,
                    differ: 0,
                    errors: BTreeMap::new(),
                    traced: Series::new(),
                    replayed: Series::new(),
                })
            });
            counts.operations += 1;
            counts.differ += u64::from(differs);
            if let Err(errno) = ran.result {
                *counts.errors.entry(errno.0).or_default() += 1;
            }
            if let Some(latency_ns) = op.latency_ns {
                counts.traced.add(latency_ns);
            }
            counts.replayed.add(end_ns.saturating_sub(start_ns));
        }
        if differs {
            self.differs(ran);
        }
        if let Some(due_ns) = ran.due_ns {
            lock(&self.start_errors).add(start_ns.abs_diff(due_ns));
        }
        let mut span = lock(&self.span);
        *span = Some(span.map_or((start_ns, end_ns), |(first, last)| {
            (first.min(start_ns), last.max(end_ns))
        }));
    }

    fn differs(&self, ran: &Ran<'_>) {
        let mut kept = lock(&self.differences);
        // The earliest ones tell most: the others often follow from them.
        let at = kept.partition_point(|d| d.row < ran.row);
        if at >= DIFFERENCES_KEPT {
            return;
        }
        let difference = Difference {
            row: ran.row,
            tid: ran.op.tid,
            kind: ran.op.kind,
            name: ran.name.to_vec(),
            expected: ran.op.result.raw(),
            actual: match ran.result {
                Ok(value) => i64::try_from(value).unwrap_or(i64::MAX),
                Err(errno) => -i64::from(errno.0),
            },
        };
        kept.insert(at, difference);
        kept.truncate(DIFFERENCES_KEPT);
    }

    /// Counts an operation that has no call.
    pub fn skipped(&self, op: &Op, why: Skip) {
        *lock(&self.skipped).entry((op.kind, why)).or_default() += 1;
        let ns = op.latency_ns.unwrap_or(0);
        self.skipped_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// By kind, only those that ran.
    pub fn kinds(&self) -> Vec<KindReplay> {
        let counted = OpKind::ALL.iter().zip(&self.kinds);
        counted
            .filter_map(|(&kind, slot)| {
                lock(slot).as_ref().map(|counts| KindReplay {
                    kind,
                    operations: counts.operations,
                    differ: counts.differ,
                    errors: counts.errors.clone(),
                    traced: counts.traced.times(),
                    replayed: counts.replayed.times(),
                })
            })
            .collect()
    }

    /// What was skipped.
    pub fn skips(&self) -> BTreeMap<(OpKind, Skip), u64> {
        lock(&self.skipped).clone()
    }

    /// What that took in the trace, nanoseconds.
    pub fn skipped_ns(&self) -> u64 {
        self.skipped_ns.load(Ordering::Relaxed)
    }

    /// The first differences by their place in the trace.
    pub fn differences(&self) -> Vec<Difference> {
        lock(&self.differences).clone()
    }

    /// How far starts were from when they were due.
    pub fn start_errors(&self) -> Times {
        lock(&self.start_errors).times()
    }

    /// From the first start to the last end on the target, nanoseconds.
    pub fn elapsed_ns(&self) -> u64 {
        lock(&self.span).map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

//! What a daemon has served, and how late it was.

use fsage_format::result::disk::{DiskLateness, DiskRequests};
use hdrhistogram::Histogram;

/// Longest lateness that is told apart, nanoseconds (a minute).
const LONGEST_NS: u64 = 60_000_000_000;

/// Counts as the daemon goes.
#[derive(Debug)]
pub(crate) struct Counting {
    pub counts: [DiskRequests; 3],
    pub deepest: u64,
    late: Option<Histogram<u64>>,
}

impl Counting {
    pub fn new() -> Self {
        Self {
            counts: Default::default(),
            deepest: 0,
            // Three digits from 1 ns to a minute: these bounds are always taken.
            late: Histogram::new_with_bounds(1, LONGEST_NS, 3).ok(),
        }
    }

    pub fn late(&mut self, late_ns: u64) {
        if let Some(histogram) = &mut self.late {
            histogram.saturating_record(late_ns);
        }
    }

    pub fn lateness(&self) -> DiskLateness {
        let Some(h) = self.late.as_ref().filter(|h| !h.is_empty()) else {
            return DiskLateness::default();
        };
        let us = |ns: u64| ns as f64 / 1e3;
        DiskLateness {
            requests: h.len(),
            mean_us: h.mean() / 1e3,
            p50_us: us(h.value_at_quantile(0.5)),
            p99_us: us(h.value_at_quantile(0.99)),
            max_us: us(h.max()),
        }
    }
}

//! What two streams of operations are held against each other by, without running either.

use std::collections::BTreeMap;

use fsage_core::{KindClass, Op, OpKind, OpSink, PathTable, SinkError};

use super::carry::carried;
use super::generate::Generator;
use super::resolve::{Done, NONE, Resolver, is_write};
use super::reuse::{PAGE_BYTES, Reuse};

/// What a stream comes to.
#[derive(Debug, Default)]
pub struct Measures {
    resolver: Resolver,
    /// Operations by kind, as [`OpKind::ALL`] has them.
    pub counts: Vec<u64>,
    /// Of these the failed ones.
    pub failed: Vec<u64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// What a run carries out as another kind of operation than it is, or not at all; of what was played alone.
    pub otherwise: BTreeMap<(OpKind, Option<OpKind>), u64>,
    /// From the first operation to the last; of what was played alone.
    pub elapsed_ns: u64,
    reuse: Reuse,
}

impl Measures {
    /// Of files below these directories.
    pub fn new(under: &[Vec<u8>]) -> Self {
        let none = vec![0; OpKind::ALL.len()];
        Self {
            resolver: Resolver::new(under),
            counts: none.clone(),
            failed: none,
            ..Self::default()
        }
    }

    /// Counts an operation.
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        let done = self.resolver.apply(op, paths).ok();
        let Some(done) = done.filter(Done::counts) else {
            return;
        };
        for (counts, one) in [
            (&mut self.counts, true),
            (&mut self.failed, !op.result.is_ok()),
        ] {
            if let Some(n) = counts.get_mut(done.form.kind as usize) {
                *n += u64::from(one);
            }
        }
        if op.kind.class() != KindClass::Data {
            return;
        }
        let mut bytes = done.moved;
        if op.kind == OpKind::Fault {
            bytes = PAGE_BYTES;
        } else if is_write(op) {
            self.bytes_written = self.bytes_written.saturating_add(bytes);
        } else {
            self.bytes_read = self.bytes_read.saturating_add(bytes);
        }
        if done.file != NONE {
            self.reuse.take(done.file, done.offset, bytes);
        }
    }

    /// Distinct pages.
    pub fn footprint(&self) -> usize {
        self.reuse.footprint()
    }

    /// What share of page accesses a cache of so many pages has, as it goes by the last use.
    pub fn hits(&self, pages: usize) -> f64 {
        self.reuse.hits(pages)
    }

    /// All that a generator does.
    pub fn play(&mut self, generator: &mut Generator) {
        let mut paths = PathTable::new();
        let mut span_ns: Option<(u64, u64)> = None;
        while let Some((_, batch)) = generator.any() {
            // Who begins a process does nothing by that.
            if !batch.calls.is_empty() {
                let span = span_ns.get_or_insert(batch.span_ns);
                *span = (span.0.min(batch.span_ns.0), span.1.max(batch.span_ns.1));
                self.elapsed_ns = span.1.saturating_sub(span.0);
            }
            for mut call in batch.calls {
                let mut id = |path: &Option<std::sync::Arc<[u8]>>| {
                    path.as_ref().and_then(|p| paths.intern(p))
                };
                (call.op.path, call.op.path2) = (id(&call.path), id(&call.path2));
                let (kind, run) = (call.op.kind, carried(&call.op));
                if run != Some(kind) {
                    *self.otherwise.entry((kind, run)).or_default() += 1;
                }
                self.take(&call.op, &paths);
            }
            if paths.len() > 1 << 16 {
                paths.take();
            }
        }
    }
}

impl OpSink for Measures {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.take(op, paths);
        Ok(())
    }
}

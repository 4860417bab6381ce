//! What a measured stream of operations comes to: the figures by which two runs are held against each other.

use std::collections::BTreeMap;

use fsage_cache::{CacheCounts, PAGE_BYTES, PageCache, Policy, Start, WriteBack};
use fsage_core::{KindClass, Op, OpFlags, OpKind, OpSink, PathTable, SinkError};
use fsage_namespace::flags::O_CREAT;
use fsage_stats::histogram::FineHistogram;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::fsm::carried;
use crate::fsm::model::Pick;
use crate::fsm::resolve::{Done, NONE, Out, Resolver, is_write};
use crate::fsm::step::At;

/// Pages of one request that are looked at: no call moves more.
const REQUEST_PAGES: u64 = 1 << 19;
/// Pieces of time that are counted apart; as many of half the length are when these are full.
const PIECES: usize = 4096;
/// How long a piece is at first, nanoseconds.
const FIRST_PIECE_NS: u64 = 1 << 10;

/// What operations that do the like took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActFigures {
    /// How many.
    pub operations: u64,
    /// All their latencies, nanoseconds.
    pub latency_total_ns: u64,
    /// How these are distributed, nanoseconds.
    pub latency: FineHistogram,
    /// The same of the bytes that they moved; empty for those that move none.
    pub size: FineHistogram,
}

/// A cache through which the accesses to pages were put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// Its size.
    pub pages: u64,
    /// Accesses.
    pub accesses: u64,
    /// Those of pages that it had.
    pub hits: u64,
}

/// What a stream comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations on file systems.
    pub operations: u64,
    /// Of these the failed ones.
    pub errors: u64,
    /// By kind.
    pub kinds: BTreeMap<String, u64>,
    /// The failed ones by kind.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Those that no run of a model does, by kind, which are counted nowhere else ([`FigureSink::as_modelled`]).
    #[serde(default)]
    pub left_out: BTreeMap<String, u64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// From the start of the first to the end of the last, nanoseconds.
    pub elapsed_ns: u64,
    /// By what they do: `create`, `open` (of what was there), `read`, `write`, `delete`, `stat`, `fsync`; others by
    /// their kind.
    pub acts: BTreeMap<String, ActFigures>,
    /// Reads and writes that moved data.
    pub transfers: u64,
    /// Those that went on where the last one on the open file had ended.
    pub sequential: u64,
    /// Reads of which is known whether they missed a cached page, and those that did not.
    pub cached: Option<(u64, u64)>,
    /// Operations in equal pieces of time, from the first on.
    pub curve: Vec<u64>,
    /// How long such a piece is, nanoseconds.
    pub piece_ns: u64,
    /// Distinct pages that were accessed.
    pub pages: u64,
    /// What caches of some sizes had of the accesses to pages.
    pub caches: Vec<CacheFigures>,
}

impl Figures {
    /// Latencies of all operations, nanoseconds.
    pub fn latency_total_ns(&self) -> u64 {
        self.acts.values().map(|act| act.latency_total_ns).sum()
    }

    /// What share of the operations had started after each hundredth of the time.
    pub fn progress(&self) -> Vec<f64> {
        let whole_ns = self.elapsed_ns.max(1) as f64;
        let all = self.curve.iter().sum::<u64>().max(1) as f64;
        let mut before = vec![0_u64];
        for count in &self.curve {
            before.push(before.last().unwrap_or(&0) + count);
        }
        let at = |hundredth: u32| {
            let pieces = whole_ns * f64::from(hundredth) / 100.0 / self.piece_ns.max(1) as f64;
            let whole = pieces.floor();
            let of = |piece: usize| {
                before
                    .get(piece)
                    .or(before.last())
                    .map_or(0.0, |&n| n as f64)
            };
            let (low, high) = (of(whole as usize), of(whole as usize + 1));
            (low + (high - low) * (pieces - whole)) / all
        };
        (1..=100).map(at).collect()
    }
}

/// Takes a stream.
#[derive(Debug)]
pub struct FigureSink {
    resolver: Resolver,
    figures: Figures,
    /// Whether the target tells which calls waited for its device.
    tells_device: bool,
    first_ns: Option<u64>,
    caches: Vec<PageCache>,
    seen: FxHashSet<(u32, u64)>,
    kinds: BTreeMap<&'static str, u64>,
    failed: BTreeMap<&'static str, u64>,
    as_modelled: bool,
    left_out: BTreeMap<&'static str, u64>,
    acts: BTreeMap<&'static str, ActFigures>,
}

impl FigureSink {
    /// Of files below these directories; `tells_device` if operations say which of them waited for the device.
    /// Accesses are put through caches of so many pages, which are empty at first.
    pub fn new(under: &[Vec<u8>], tells_device: bool, caches: &[u64]) -> Self {
        let cache = |&pages: &u64| {
            PageCache::new(
                Policy::Linux,
                Some(pages),
                Start::Cold,
                WriteBack::default(),
            )
        };
        let sized = |&pages: &u64| CacheFigures {
            pages,
            ..CacheFigures::default()
        };
        Self {
            resolver: Resolver::new(under),
            figures: Figures {
                piece_ns: FIRST_PIECE_NS,
                caches: caches.iter().map(sized).collect(),
                ..Figures::default()
            },
            tells_device,
            first_ns: None,
            caches: caches.iter().map(cache).collect(),
            seen: FxHashSet::default(),
            kinds: BTreeMap::new(),
            failed: BTreeMap::new(),
            as_modelled: false,
            left_out: BTreeMap::new(),
            acts: BTreeMap::new(),
        }
    }

    /// The same of what a run of a model does alone: what a tracer sees of a program beside that is left out, and told.
    #[must_use]
    pub fn as_modelled(self) -> Self {
        Self {
            as_modelled: true,
            ..self
        }
    }

    /// What it comes to.
    pub fn finish(mut self) -> Figures {
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        self.figures.kinds = self.kinds.into_iter().map(named).collect();
        self.figures.failed = self.failed.into_iter().map(named).collect();
        self.figures.left_out = self.left_out.into_iter().map(named).collect();
        let named = |(name, act): (&str, ActFigures)| (name.to_owned(), act);
        self.figures.acts = self.acts.into_iter().map(named).collect();
        self.figures.pages = self.seen.len() as u64;
        for (cache, figures) in self.caches.iter().zip(&mut self.figures.caches) {
            let CacheCounts { hits, misses, .. } = cache.counts();
            // Writes were counted as they came: the cache counts reads alone.
            figures.hits += hits;
            figures.accesses += hits + misses;
        }
        self.figures
    }

    fn take(&mut self, op: &Op, paths: &PathTable) {
        let kind = called(op.kind);
        let op = &Op { kind, ..*op };
        let done = self.resolver.apply(op, paths);
        let as_done = self.as_modelled.then(|| modelled(op, &done));
        let Some(latency_ns) = op.latency_ns.filter(|_| op.in_file_system()) else {
            return;
        };
        let Some(kind) = as_done.unwrap_or(Some(op.kind)) else {
            *self.left_out.entry(op.kind.name()).or_default() += 1;
            return;
        };
        let (op, done) = (&Op { kind, ..*op }, done.ok());
        let figures = &mut self.figures;
        figures.operations += 1;
        if !op.result.is_ok() {
            figures.errors += 1;
            *self.failed.entry(op.kind.name()).or_default() += 1;
        }
        *self.kinds.entry(op.kind.name()).or_default() += 1;
        let first_ns = *self.first_ns.get_or_insert(op.start_ns);
        figures.elapsed_ns = figures.elapsed_ns.max(op.end_ns().saturating_sub(first_ns));
        started(figures, op.start_ns.saturating_sub(first_ns));
        let act = self.acts.entry(act(op, done.as_ref())).or_default();
        act.operations += 1;
        act.latency_total_ns = act.latency_total_ns.saturating_add(latency_ns);
        act.latency.add(latency_ns);
        if op.kind.class() != KindClass::Data || !op.result.is_ok() {
            return;
        }
        let bytes = op.bytes_moved();
        act.size.add(bytes);
        let write = is_write(op);
        let moved = if write {
            &mut figures.bytes_written
        } else {
            &mut figures.bytes_read
        };
        *moved = moved.saturating_add(bytes);
        if bytes == 0 {
            return;
        }
        figures.transfers += 1;
        if !write {
            let missed = match op.pages_missed {
                Some(pages) => Some(pages > 0),
                None => self
                    .tells_device
                    .then(|| op.record.contains(OpFlags::DEVICE)),
            };
            if let Some(missed) = missed {
                let (known, cached) = figures.cached.get_or_insert((0, 0));
                *known += 1;
                *cached += u64::from(!missed);
            }
        }
        if let Some(done) = done {
            figures.sequential += u64::from(done.form.at == At::Next);
            self.access(&done, bytes, (write, op.start_ns));
        }
    }

    fn access(&mut self, done: &Done, bytes: u64, (write, now_ns): (bool, u64)) {
        if done.file == NONE {
            return;
        }
        let first = done.offset / PAGE_BYTES;
        let last = (done.offset.saturating_add(bytes) - 1) / PAGE_BYTES;
        for page in first..=last.min(first.saturating_add(REQUEST_PAGES)) {
            self.seen.insert((done.file, page));
            for (cache, figures) in self.caches.iter_mut().zip(&mut self.figures.caches) {
                if write {
                    let before = cache.write(done.file, page, 0, now_ns);
                    figures.accesses += 1;
                    figures.hits += u64::from(before != fsage_cache::PageState::Absent);
                } else {
                    cache.read(done.file, page, false);
                }
            }
        }
    }
}

impl OpSink for FigureSink {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.take(op, paths);
        Ok(())
    }
}

/// Counts an operation in its piece of time.
fn started(figures: &mut Figures, at_ns: u64) {
    while at_ns / figures.piece_ns >= PIECES as u64 {
        let pairs = figures.curve.chunks(2).map(|pair| pair.iter().sum());
        figures.curve = pairs.collect();
        figures.piece_ns = figures.piece_ns.saturating_mul(2);
    }
    let piece = (at_ns / figures.piece_ns) as usize;
    if figures.curve.len() <= piece {
        figures.curve.resize(piece + 1, 0);
    }
    if let Some(count) = figures.curve.get_mut(piece) {
        *count += 1;
    }
}

/// As what an operation is carried out: a copy in the kernel is a read and a write for every target, and a replay tells it so.
fn called(kind: OpKind) -> OpKind {
    match kind {
        OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => OpKind::Read,
        OpKind::CopyOut | OpKind::SpliceOut => OpKind::Write,
        kind => kind,
    }
}

/// As what a run of a model does an operation; `None` of what it does not: what targets have no calls for, second names of
/// descriptors, and their closes, which let no file go.
fn modelled(op: &Op, done: &Result<Done, Out>) -> Option<OpKind> {
    let is_aside = matches!(done, Err(Out::Aside));
    if is_aside && matches!(op.kind, OpKind::Dup | OpKind::Close) {
        return None;
    }
    // Who goes to a directory looks it up, as the model has it.
    if op.kind == OpKind::Chdir && done.is_ok() {
        return Some(OpKind::Stat);
    }
    carried(op)
}

/// What an operation does, as the dissertation's tables have it (Farhat 2017, Figures 49 to 63).
fn act(op: &Op, done: Option<&Done>) -> &'static str {
    match op.kind {
        OpKind::Open if op.flags & O_CREAT != 0 && op.result.is_ok() => {
            // What this call was the first to find was not there before.
            let made = |done: &Done| matches!(done.pick, Pick::New | Pick::Gone);
            if done.is_some_and(made) {
                "create"
            } else {
                "open"
            }
        }
        OpKind::Unlink => "delete",
        OpKind::Stat | OpKind::Fstat => "stat",
        OpKind::Fsync | OpKind::Fdatasync => "fsync",
        kind => kind.name(),
    }
}

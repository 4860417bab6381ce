//! What a model knows of a trace, for a person: phases, groups, reuse, popularity, what ran at once. One pass, in
//! memory that grows with files and threads and not with operations.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fsage_core::{KindClass, Op, OpKind, OpSink, PathTable, SinkError};
use fsage_format::result::character::{
    CacheHits, Concurrency, GroupStats, KindCount, PhaseStats, Popularity, PopularityShare,
    Reuse as ReuseStats, Timeline,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::fit::together;
use super::gather::{Gather, Thread};
use super::group::{groups, phases};
use super::resolve::{Done, NONE, is_write};
use super::reuse::{PAGE_BYTES, Reuse};

/// Phases that are told of.
const PHASES: usize = 8;
/// Pieces of the timeline.
const PIECES: u64 = 60;
/// Pieces with as many operations each in which phases are looked for.
const BINS: usize = 256;
/// The smallest cache that is told of, in pages.
const LEAST_CACHE_PAGES: usize = 16;
const MOST_UNDER_WAY: usize = 63;
const MOST_PIDS: usize = 16;
/// The most used files, percent of all.
const MOST_USED: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// Of a group: sums, from when to when each thread was there, and processes.
type Members = (Sums, Vec<(u64, u64)>, Vec<u32>);

/// Sums of operations.
#[derive(Debug, Clone, Default)]
struct Sums {
    start_ns: u64,
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
    latency_ns: u64,
    kinds: Vec<u64>,
}

impl Sums {
    fn add(&mut self, op: &Op, (read, written): (u64, u64)) {
        if self.operations == 0 {
            self.start_ns = op.start_ns;
        }
        self.operations += 1;
        self.bytes_read = self.bytes_read.saturating_add(read);
        self.bytes_written = self.bytes_written.saturating_add(written);
        let latency_ns = op.latency_ns.unwrap_or(0);
        self.latency_ns = self.latency_ns.saturating_add(latency_ns);
        self.kinds.resize(OpKind::ALL.len(), 0);
        if let Some(n) = self.kinds.get_mut(op.kind as usize) {
            *n += 1;
        }
    }

    /// Those that came later beside.
    fn merge(&mut self, other: &Self) {
        if self.operations == 0 {
            self.start_ns = other.start_ns;
        }
        self.operations += other.operations;
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(other.bytes_written);
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
        self.kinds.resize(OpKind::ALL.len(), 0);
        for (mine, n) in self.kinds.iter_mut().zip(&other.kinds) {
            *mine += n;
        }
    }

    /// The mix, most operations first.
    fn mix(&self) -> Vec<KindCount> {
        let counts = OpKind::ALL.iter().zip(&self.kinds);
        let mut mix: Vec<KindCount> = counts
            .filter(|(_, n)| **n > 0)
            .map(|(&kind, &operations)| KindCount { kind, operations })
            .collect();
        mix.sort_by_key(|k| (Reverse(k.operations), k.kind));
        mix
    }
}

/// Takes a trace's operations and finds out what a model would know of it.
#[derive(Debug)]
pub struct Character {
    gather: Gather,
    reuse: Reuse,
    timeline: Timeline,
    first_ns: u64,
    in_piece: FxHashSet<u32>,
    bins: Vec<Sums>,
    of_bin: u64,
    of_thread: Vec<Sums>,
    /// By content: operations, and whether one found it or made it. A name where nothing ever was is no file.
    of_file: Vec<(u64, bool)>,
    /// Of contents under further names of a file: that of the first.
    links: FxHashMap<u32, u32>,
    ends_ns: BinaryHeap<Reverse<u64>>,
    others_under_way: Vec<u64>,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// Operations on files.
    pub operations: u64,
    /// Times in which the mix is the same.
    pub phases: Vec<PhaseStats>,
    /// Processes that behave alike.
    pub groups: Vec<GroupStats>,
    /// How soon pages are used again.
    pub reuse: ReuseStats,
    /// How operations spread over files.
    pub popularity: Popularity,
    /// What ran at once.
    pub concurrency: Concurrency,
    /// What happened when.
    pub timeline: Timeline,
}

impl Character {
    /// Of files below these directories, in a trace whose first and last operations begin at these times.
    pub fn new(under: &[Vec<u8>], first_ns: u64, last_ns: u64) -> Self {
        let piece_ns = (last_ns.saturating_sub(first_ns) / PIECES).saturating_add(1);
        Self {
            gather: Gather::counting(under),
            reuse: Reuse::default(),
            timeline: Timeline {
                piece_ns,
                ..Timeline::default()
            },
            first_ns,
            in_piece: FxHashSet::default(),
            bins: Vec::new(),
            of_bin: 1,
            of_thread: Vec::new(),
            of_file: Vec::new(),
            links: FxHashMap::default(),
            ends_ns: BinaryHeap::new(),
            others_under_way: vec![0; MOST_UNDER_WAY + 1],
        }
    }

    /// Takes an operation.
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        let (thread, Some(done)) = self.gather.take(op, paths) else {
            return;
        };
        let moved = match op.kind {
            OpKind::Fault => (0, 0),
            _ if op.kind.class() != KindClass::Data => (0, 0),
            _ if is_write(op) => (0, done.moved),
            _ => (done.moved, 0),
        };
        self.when(op, moved, thread);
        self.pages(op, &done);
        self.bin(op, moved);
        self.under_way(op);
        at(&mut self.of_thread, thread).add(op, moved);
        if op.kind == OpKind::Link && op.result.is_ok() {
            let name = self.gather.resolver.file_of(done.to);
            self.links.insert(name, done.file);
        }
        if done.file != NONE {
            let file = self.links.get(&done.file).copied().unwrap_or(done.file);
            let (operations, is_there) = at(&mut self.of_file, file);
            *operations += 1;
            *is_there |= op.result.is_ok();
        }
    }

    fn when(&mut self, op: &Op, (read, written): (u64, u64), thread: u32) {
        let since = op.start_ns.saturating_sub(self.first_ns);
        let piece = (since / self.timeline.piece_ns).min(PIECES - 1) as usize;
        while self.timeline.operations.len() <= piece {
            if !self.timeline.operations.is_empty() {
                self.end_piece();
            }
            let of = &mut self.timeline;
            for series in [
                &mut of.operations,
                &mut of.bytes_read,
                &mut of.bytes_written,
            ] {
                series.push(0);
            }
        }
        self.in_piece.insert(thread);
        let of = &mut self.timeline;
        for (series, more) in [
            (&mut of.operations, 1),
            (&mut of.bytes_read, read),
            (&mut of.bytes_written, written),
        ] {
            if let Some(sum) = series.last_mut() {
                *sum = sum.saturating_add(more);
            }
        }
    }

    fn end_piece(&mut self) {
        let bytes = |pages: usize| pages as u64 * PAGE_BYTES;
        let of = &mut self.timeline;
        of.working_set_bytes.push(bytes(self.reuse.next_window()));
        of.footprint_bytes.push(bytes(self.reuse.footprint()));
        of.threads.push(self.in_piece.len() as u64);
        self.in_piece.clear();
    }

    fn pages(&mut self, op: &Op, done: &Done) {
        if op.kind.class() != KindClass::Data || done.file == NONE {
            return;
        }
        let bytes = match op.kind {
            OpKind::Fault => PAGE_BYTES,
            _ => done.moved,
        };
        self.reuse.take(done.file, done.offset, bytes);
    }

    /// Pieces of as many operations each: twice as many in each once there are too many.
    fn bin(&mut self, op: &Op, moved: (u64, u64)) {
        if self.bins.last().is_none_or(|b| b.operations >= self.of_bin) {
            if self.bins.len() == BINS {
                let pairs = self.bins.chunks(2);
                let sum = |pair: &[Sums]| {
                    pair.iter().fold(Sums::default(), |mut sum, b| {
                        sum.merge(b);
                        sum
                    })
                };
                self.bins = pairs.map(sum).collect();
                self.of_bin *= 2;
            }
            self.bins.push(Sums::default());
        }
        if let Some(bin) = self.bins.last_mut() {
            bin.add(op, moved);
        }
    }

    fn under_way(&mut self, op: &Op) {
        while self.ends_ns.peek().is_some_and(|end| end.0 <= op.start_ns) {
            self.ends_ns.pop();
        }
        let others = self.ends_ns.len().min(MOST_UNDER_WAY);
        if let Some(n) = self.others_under_way.get_mut(others) {
            *n += 1;
        }
        self.ends_ns.push(Reverse(op.end_ns()));
    }

    /// What was found; `None` where no operation was on a file.
    pub fn finish(mut self) -> Option<Found> {
        self.gather.end();
        let (first_ns, last_ns) = self.gather.span_ns?;
        self.end_piece();
        while self.others_under_way.len() > 1 && self.others_under_way.last() == Some(&0) {
            self.others_under_way.pop();
        }
        let worked: Vec<&Thread> = self.gather.threads.iter().collect();
        let spans = worked.iter().filter(|t| !t.mix.is_empty());
        let spans: Vec<(u64, u64)> = spans.map(|t| t.span_ns).collect();
        Some(Found {
            operations: self.gather.operations,
            phases: self.phases(first_ns, last_ns),
            groups: self.groups(),
            reuse: self.reuse(),
            popularity: self.popularity(),
            concurrency: Concurrency {
                threads: spans.len() as u64,
                threads_at_once: at_once(spans),
                others_under_way: std::mem::take(&mut self.others_under_way),
            },
            timeline: std::mem::take(&mut self.timeline),
        })
    }

    fn phases(&self, first_ns: u64, last_ns: u64) -> Vec<PhaseStats> {
        let counts: Vec<Vec<u64>> = self.bins.iter().map(|b| b.kinds.clone()).collect();
        let starts = phases(&counts, PHASES);
        let ends = starts.iter().copied().skip(1).chain([self.bins.len()]);
        let begins = |bin: usize| self.bins.get(bin).map_or(last_ns, |b| b.start_ns);
        let mut found = Vec::new();
        for (&from, to) in starts.iter().zip(ends) {
            let mut sums = Sums::default();
            for bin in self.bins.get(from..to).unwrap_or_default() {
                sums.merge(bin);
            }
            let start_ns = begins(from).saturating_sub(first_ns);
            found.push(PhaseStats {
                start_ns,
                span_ns: begins(to).saturating_sub(first_ns).saturating_sub(start_ns),
                operations: sums.operations,
                bytes_read: sums.bytes_read,
                bytes_written: sums.bytes_written,
                kinds: sums.mix(),
            });
        }
        found
    }

    /// The groups that a model has, most operations first.
    fn groups(&self) -> Vec<GroupStats> {
        let threads = &self.gather.threads;
        let of = groups(&self.gather, &together(&self.gather)).of;
        let mut sums: Vec<Members> = Vec::new();
        for (number, (thread, group)) in threads.iter().zip(of).enumerate() {
            if thread.mix.is_empty() {
                continue;
            }
            let (all, spans, pids) = at(&mut sums, group);
            if let Some(own) = self.of_thread.get(number) {
                all.merge(own);
            }
            spans.push(thread.span_ns);
            if pids.len() < MOST_PIDS && !pids.contains(&thread.pid) {
                pids.push(thread.pid);
            }
        }
        let stats = sums.into_iter().map(|(sums, spans, pids)| GroupStats {
            processes: spans.len() as u64,
            at_once: at_once(spans),
            pids,
            operations: sums.operations,
            bytes_read: sums.bytes_read,
            bytes_written: sums.bytes_written,
            latency_total_ns: sums.latency_ns,
            kinds: sums.mix(),
        });
        let mut stats: Vec<GroupStats> = stats.filter(|g| g.processes > 0).collect();
        stats.sort_by_key(|g| (Reverse(g.operations), g.pids.first().copied()));
        stats
    }

    fn reuse(&self) -> ReuseStats {
        let footprint = self.reuse.footprint();
        let sizes = std::iter::successors(Some(LEAST_CACHE_PAGES), |pages| {
            (*pages < footprint).then(|| pages.saturating_mul(2))
        });
        ReuseStats {
            page_accesses: self.reuse.accesses(),
            footprint_bytes: footprint as u64 * PAGE_BYTES,
            sampled_percent: 100.0 * self.reuse.followed(),
            hits: sizes
                .map(|pages| CacheHits {
                    cache_bytes: pages as u64 * PAGE_BYTES,
                    hit_percent: 100.0 * self.reuse.hits(pages),
                })
                .collect(),
        }
    }

    fn popularity(&self) -> Popularity {
        let resolver = &self.gather.resolver;
        let is_file = |file: u32| !resolver.is_directory(file);
        let used = (0..).zip(&self.of_file);
        let used = used.filter(|(file, (_, is_there))| *is_there && is_file(*file));
        let mut counts: Vec<u64> = used.map(|(_, (n, _))| *n).collect();
        counts.sort_unstable_by_key(|n| Reverse(*n));
        let all: u64 = counts.iter().sum();
        let share = |percent: f64| {
            let most = (counts.len() as f64 * percent / 100.0).round().max(1.0);
            let of: u64 = counts.iter().take(most as usize).sum();
            PopularityShare {
                files_percent: percent,
                operations_percent: 100.0 * of as f64 / all.max(1) as f64,
            }
        };
        Popularity {
            files: counts.len() as u64,
            operations: all,
            shares: if counts.is_empty() {
                Vec::new()
            } else {
                MOST_USED.map(share).to_vec()
            },
        }
    }
}

impl OpSink for Character {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.take(op, paths);
        Ok(())
    }
}

/// The place of a number, made where there is none.
fn at<T: Default + Clone>(all: &mut Vec<T>, number: u32) -> &mut T {
    let place = number as usize;
    if all.len() <= place {
        all.resize(place + 1, T::default());
    }
    &mut all[place]
}

/// The most spans that have a moment in common.
pub(super) fn at_once(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut most = 0;
    for (start, end) in spans {
        while ends.peek().is_some_and(|e| e.0 <= start) {
            ends.pop();
        }
        ends.push(Reverse(end));
        most = most.max(ends.len());
    }
    most as u64
}

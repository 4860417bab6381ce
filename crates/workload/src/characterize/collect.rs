//! The sink that characterises.

use fsage_core::{KindClass, Op, OpFlags, OpKind, OpSink, PathTable, SinkError};
use fsage_stats::median_of_ranks;
use hdrhistogram::Histogram;
use rustc_hash::{FxHashMap, FxHashSet};

use super::footprint::Footprint;
use super::hot::Hot;
use super::locality::{Locality, with_share};
use super::pauses::PauseSums;
use super::series::Series;
use super::sizes::SizeHistogram;
use super::{Characterization, KindStats, PageCache, ProcessStats};

/// Processes beyond it are summed up.
const MAX_PROCESSES: usize = 65_536;
/// Linux's `NAME_MAX`: what is longer is nobody's program.
const LONGEST_NAME: usize = 255;
const PAGE_BYTES: u64 = 4096;
/// Two digits: quantiles are exact to 1 %.
const DIGITS: u8 = 2;

#[derive(Debug, Default)]
struct KindTally {
    count: u64,
    errors: u64,
    total_ns: u64,
    max_ns: u64,
    latencies: Option<Histogram<u64>>,
}

/// Takes operations and finds out what they are like.
#[derive(Debug, Default)]
pub struct Characterizer {
    kinds: Vec<KindTally>,
    operations: u64,
    errors: u64,
    bytes_read: u64,
    bytes_written: u64,
    bytes_not_files: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    total_ns: u64,
    without_latency: u64,
    read_sizes: SizeHistogram,
    write_sizes: SizeHistogram,
    processes: FxHashMap<u32, ProcessStats>,
    /// Numbers of processes that have ended.
    ended: FxHashSet<u32>,
    /// Processes whose number another one has by now.
    former: Vec<ProcessStats>,
    other_operations: u64,
    pages: Option<(u64, u64, u64)>,
    series: Series,
    locality: Locality,
    footprint: Footprint,
    pauses: PauseSums,
    hot: Hot,
    /// Programs and parents of processes, from what they executed and began.
    programs: FxHashMap<u32, String>,
    parents: FxHashMap<u32, u32>,
}

/// The direction of a data operation on a file.
fn direction(kind: OpKind) -> Option<bool> {
    match kind {
        OpKind::Read | OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => Some(false),
        OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => Some(true),
        _ => None,
    }
}

/// How long a file system worked on an operation.
fn in_file_system_ns(op: &Op) -> Option<u64> {
    op.latency_ns.filter(|_| op.in_file_system())
}

impl Characterizer {
    /// Nothing seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one operation whose paths are ids in `paths`.
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        self.operations += 1;
        let first = *self.first_ns.get_or_insert(op.start_ns);
        self.last_ns = self.last_ns.max(op.end_ns());
        self.series.tick(op.start_ns.saturating_sub(first));
        self.kind(op);
        let (read, written) = self.data(op);
        self.process(op, read, written);
        self.program(op, paths);
        self.hot.take(op, (read, written), paths);
        self.locality.take(op);
        self.series.set_open(self.locality.open());
        self.footprint.take(op, paths);
        self.pauses.take(op);
    }

    fn kind(&mut self, op: &Op) {
        let index = op.kind as usize;
        if self.kinds.len() <= index {
            self.kinds
                .resize_with(OpKind::ALL.len().max(index + 1), KindTally::default);
        }
        let Some(kind) = self.kinds.get_mut(index) else {
            return;
        };
        kind.count += 1;
        if !op.result.is_ok() {
            kind.errors += 1;
            self.errors += 1;
        }
        let Some(latency_ns) = in_file_system_ns(op) else {
            self.without_latency += u64::from(op.latency_ns.is_none());
            return;
        };
        kind.total_ns = kind.total_ns.saturating_add(latency_ns);
        kind.max_ns = kind.max_ns.max(latency_ns);
        self.total_ns = self.total_ns.saturating_add(latency_ns);
        if kind.latencies.is_none() {
            kind.latencies = Histogram::new(DIGITS).ok();
        }
        if let Some(latencies) = &mut kind.latencies {
            // Two digits of any 64-bit value fit after it has grown; a day is where it is cut.
            latencies.auto(true);
            let _ = latencies.record(latency_ns.min(1 << 47));
        }
    }

    /// Counts bytes and pages; returns bytes read and written.
    fn data(&mut self, op: &Op) -> (u64, u64) {
        if op.kind.class() != KindClass::Data {
            return (0, 0);
        }
        let bytes = op.bytes_moved();
        if op.record.contains(OpFlags::NOT_A_FILE) {
            self.bytes_not_files = self.bytes_not_files.saturating_add(bytes);
            return (0, 0);
        }
        self.pages(op);
        // Copies ask for as much as there may be (cp asks for 2^63 bytes): what was moved tells more.
        let size = match op.kind {
            OpKind::CopyIn | OpKind::CopyOut | OpKind::Sendfile => bytes,
            _ => op.length.unwrap_or(bytes),
        };
        match direction(op.kind) {
            Some(false) => {
                self.read_sizes.add(size);
                self.bytes_read = self.bytes_read.saturating_add(bytes);
                (bytes, 0)
            }
            Some(true) => {
                self.write_sizes.add(size);
                self.bytes_written = self.bytes_written.saturating_add(bytes);
                (0, bytes)
            }
            None => (0, 0),
        }
    }

    fn pages(&mut self, op: &Op) {
        let Some(missed) = op.pages_missed else {
            return;
        };
        if direction(op.kind) == Some(true) || self.locality.is_direct(op) {
            return;
        }
        let bytes = if op.kind == OpKind::Fault {
            1
        } else {
            op.bytes_moved()
        };
        let from = op.offset.unwrap_or(0);
        let requested = if bytes == 0 {
            0
        } else {
            from.saturating_add(bytes - 1) / PAGE_BYTES - from / PAGE_BYTES + 1
        };
        let (all, misses, ahead) = self.pages.get_or_insert((0, 0, 0));
        *all += requested;
        *misses += u64::from(missed).min(requested);
        *ahead += u64::from(op.pages_ahead.unwrap_or(0));
    }

    fn process(&mut self, op: &Op, read: u64, written: u64) {
        let pid = op.pid.0;
        let known = self.processes.len() + self.former.len();
        if !self.processes.contains_key(&pid) && known >= MAX_PROCESSES {
            self.other_operations += 1;
            return;
        }
        let process = self.processes.entry(pid).or_insert(ProcessStats {
            pid,
            name: None,
            parent_pid: None,
            operations: 0,
            bytes_read: 0,
            bytes_written: 0,
            latency_total_ns: 0,
        });
        process.operations += 1;
        process.bytes_read = process.bytes_read.saturating_add(read);
        process.bytes_written = process.bytes_written.saturating_add(written);
        let latency_ns = in_file_system_ns(op).unwrap_or(0);
        process.latency_total_ns = process.latency_total_ns.saturating_add(latency_ns);
        if op.kind == OpKind::Exit && op.length == Some(1) {
            self.ended.insert(pid);
        }
    }

    /// A process was begun; its number may have been that of one that has ended.
    fn begun(&mut self, child: u32, parent: u32) {
        if self.ended.remove(&child)
            && let Some(process) = self.processes.remove(&child)
        {
            let former = self.with_names(process);
            self.former.push(former);
        }
        if self.parents.len() < MAX_PROCESSES {
            self.parents.insert(child, parent);
        }
    }

    fn with_names(&mut self, mut process: ProcessStats) -> ProcessStats {
        process.name = self.programs.remove(&process.pid);
        process.parent_pid = self.parents.remove(&process.pid);
        process
    }

    fn program(&mut self, op: &Op, paths: &PathTable) {
        let pid = op.pid.0;
        match (op.kind, op.path, op.result.value()) {
            (OpKind::Exec, Some(path), Some(_)) if self.programs.len() < MAX_PROCESSES => {
                let path = paths.get(path);
                let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
                let name = name.get(..LONGEST_NAME).unwrap_or(name);
                self.programs
                    .insert(pid, String::from_utf8_lossy(name).into_owned());
            }
            (OpKind::Fork, _, Some(_)) => {
                let child = op.length.and_then(|child| u32::try_from(child).ok());
                if let Some(child) = child.filter(|&child| child != pid) {
                    self.begun(child, pid);
                }
            }
            _ => {}
        }
    }

    /// What was found; `lost` operations are known to be missing from the stream.
    pub fn finish(mut self, lost: u64) -> Characterization {
        let (distinct_files, distinct_directories, distinct_capped) = self.footprint.distinct();
        let (files_hottest, directories_hottest) = self.hot.finish();
        let mut processes = std::mem::take(&mut self.former);
        let last = std::mem::take(&mut self.processes);
        processes.extend(last.into_values().map(|process| self.with_names(process)));
        processes.sort_by_key(|p| (std::cmp::Reverse(p.operations), p.pid));
        Characterization {
            operations: self.operations,
            lost,
            errors: self.errors,
            bytes_read: self.bytes_read,
            bytes_written: self.bytes_written,
            bytes_not_files: self.bytes_not_files,
            span_ns: self.last_ns.saturating_sub(self.first_ns.unwrap_or(0)),
            latency_total_ns: self.total_ns,
            latency_unknown: self.without_latency,
            kinds: kind_stats(&self.kinds, self.total_ns),
            read_sizes: self.read_sizes.buckets(),
            write_sizes: self.write_sizes.buckets(),
            file_sizes: self.footprint.file_sizes().buckets(),
            reads: with_share(self.locality.reads),
            writes: with_share(self.locality.writes),
            open_files_max: self.series.most(),
            over_time: self.series.finish(),
            processes,
            processes_other_operations: self.other_operations,
            files_hottest,
            directories_hottest,
            pauses: self.pauses.finish(),
            page_cache: self.pages.map(|(requested, missed, ahead)| PageCache {
                pages_requested: requested,
                pages_missed: missed,
                pages_ahead: ahead,
                hit_percent: percent(requested.saturating_sub(missed), requested),
            }),
            distinct_files,
            distinct_directories,
            distinct_capped,
            depth: self.footprint.depth(),
        }
    }
}

fn kind_stats(kinds: &[KindTally], total_ns: u64) -> Vec<KindStats> {
    let mut stats: Vec<KindStats> = OpKind::ALL
        .iter()
        .zip(kinds)
        .filter(|(_, kind)| kind.count > 0)
        .map(|(&name, kind)| {
            let latencies = kind.latencies.as_ref();
            let of = |l: &Histogram<u64>, share| l.value_at_quantile(share).min(kind.max_ns);
            let at = |quantile| latencies.map(|l| of(l, quantile));
            KindStats {
                kind: name,
                count: kind.count,
                errors: kind.errors,
                latency_total_ns: kind.total_ns,
                latency_percent: percent(kind.total_ns, total_ns),
                latency_p50_ns: latencies.map(|l| median_of_ranks(l.len(), |share| of(l, share))),
                latency_p90_ns: at(0.9),
                latency_p99_ns: at(0.99),
                latency_p999_ns: at(0.999),
                latency_max_ns: latencies.map(|_| kind.max_ns),
            }
        })
        .collect();
    stats.sort_by_key(|s| (std::cmp::Reverse((s.latency_total_ns, s.count)), s.kind));
    stats
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

impl OpSink for Characterizer {
    fn push(&mut self, op: &Op, paths: &PathTable) -> Result<(), SinkError> {
        self.take(op, paths);
        Ok(())
    }
}

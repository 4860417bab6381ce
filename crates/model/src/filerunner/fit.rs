//! Fitting: the trace is gone through twice. The first time tells how many time chunks and what I/O chunk size are
//! needed, the second fills the matrix.
//!
//! The dissertation runs a configuration for each size that it tries and looks at the totals. Here what such a run
//! would do follows from the trace: each chunk does its creates, then its writes, reads and deletes, in the time that
//! they took, and each request has the size of its step (Equation 1).

use std::collections::BTreeMap;

use fsage_core::{Op, PathTable};
use fsage_namespace::path::components;
use rustc_hash::FxHashMap;

use super::config::{Config, size_of};
use super::follow::{Follower, Left, Seen};
use super::matrix::{MOST_CELLS, Matrix, chunk_of};
use super::operation::Operation;

/// Numbers of time chunks that are tried, coarse to fine.
pub const CHUNKS: [u32; 9] = [1, 2, 5, 10, 20, 50, 100, 200, 500];
/// An operation is done at another time if it is moved by more than this part of the whole; a burst that lies in one
/// chunk cannot be told from another in that chunk. With as many chunks none is.
const MOMENTS: usize = 500;
/// The coarsest I/O chunk that is tried, as in the dissertation; then each half of the one before.
const IO_CHUNK_BYTES: u64 = 1 << 20;
const IO_TRIES: usize = 21;

/// Pieces of time in which operations are counted.
const BINS: usize = 1 << 14;
const FIRST_BIN_NS: u64 = 1000;

/// Why no model could be fitted; completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Nothing to hold on to.
    #[error(
        "fit {trace}: none of its {operations} operations is a create, write, read or delete of a file that counts"
    )]
    Nothing {
        /// The trace.
        trace: String,
        /// How many it has.
        operations: u64,
    },
    /// The matrix does not fit into memory.
    #[error(
        "fit {trace}: more than {MOST_CELLS} combinations of time chunk, process, operation, size and depth, expected \
         fewer chunks (--chunks) or larger steps of size (--io-chunk)"
    )]
    TooMany {
        /// The trace.
        trace: String,
    },
}

/// How far a number of time chunks is from the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChunkTry {
    /// The number.
    pub chunks: u32,
    /// Of the four operations that are run, the largest share of one that is done at another time: the greatest
    /// distance between the cumulated shares over the relative time (Kolmogorov and Smirnov's), each held against
    /// those a [moment](MOMENTS) before and after.
    pub distance: f64,
}

/// How far the bytes of a size of I/O chunk are from the trace's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IoTry {
    /// The size, bytes.
    pub io_chunk_bytes: u64,
    /// The bytes that would be read, and written.
    pub read_bytes: u128,
    /// See `read_bytes`.
    pub written_bytes: u128,
}

/// Counts of the operations that are run, over time, in bins whose width grows with the time.
#[derive(Debug, Clone)]
struct Series {
    bin_ns: u64,
    bins: Vec<[u64; 4]>,
}

impl Series {
    fn add(&mut self, since_ns: u64, stage: usize) {
        while since_ns / self.bin_ns >= BINS as u64 {
            for to in 0..self.bins.len().div_ceil(2) {
                let both = [2 * to, 2 * to + 1].map(|from| self.bins.get(from).copied());
                let [first, second] = both.map(Option::unwrap_or_default);
                if let Some(bin) = self.bins.get_mut(to) {
                    *bin = std::array::from_fn(|i| first[i] + second[i]);
                }
            }
            self.bins.truncate(self.bins.len().div_ceil(2));
            self.bin_ns = self.bin_ns.saturating_mul(2);
        }
        let bin = (since_ns / self.bin_ns) as usize;
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, [0; 4]);
        }
        if let Some(count) = self.bins.get_mut(bin).and_then(|b| b.get_mut(stage)) {
            *count += 1;
        }
    }
}

/// The first pass.
#[derive(Debug)]
pub struct Scan {
    follower: Follower,
    operations: u64,
    left: FxHashMap<Left, u64>,
    counted: BTreeMap<Operation, u64>,
    cached: u64,
    /// The directory that holds everything that counts, by the directories of its path.
    above: Option<Vec<Vec<u8>>>,
    /// Whether depths are those below given roots.
    rooted: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    series: Series,
    /// How long the operations took that are run.
    latency_ns: [u64; 4],
    read_bytes: u64,
    written_bytes: u64,
    tries: [IoTry; IO_TRIES],
}

impl Scan {
    /// Of what lies below `roots`; see [`Follower::new`].
    pub fn new(roots: &[Vec<u8>], nameless: bool) -> Self {
        Self {
            follower: Follower::new(roots, nameless),
            operations: 0,
            left: FxHashMap::default(),
            counted: BTreeMap::new(),
            cached: 0,
            above: None,
            rooted: !roots.is_empty(),
            first_ns: None,
            last_ns: 0,
            series: Series {
                bin_ns: FIRST_BIN_NS,
                bins: Vec::new(),
            },
            latency_ns: [0; 4],
            read_bytes: 0,
            written_bytes: 0,
            tries: std::array::from_fn(|halvings| IoTry {
                io_chunk_bytes: IO_CHUNK_BYTES >> halvings,
                read_bytes: 0,
                written_bytes: 0,
            }),
        }
    }

    /// Takes the next operation.
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        self.operations += 1;
        let (above, rooted) = (&mut self.above, self.rooted);
        let mut hold = |path: &[u8]| {
            if !rooted {
                hold(above, path);
            }
        };
        let seen = match self.follower.take(op, paths, &mut hold) {
            Ok(seen) => seen,
            Err(why) => {
                *self.left.entry(why).or_default() += 1;
                return;
            }
        };
        let first_ns = *self.first_ns.get_or_insert(op.start_ns);
        self.last_ns = self.last_ns.max(op.start_ns);
        *self.counted.entry(seen.operation).or_default() += 1;
        let Some(stage) = seen.operation.stage() else {
            return;
        };
        self.series.add(op.start_ns.saturating_sub(first_ns), stage);
        if let Some(sum) = self.latency_ns.get_mut(stage) {
            *sum = sum.saturating_add(op.latency_ns.unwrap_or(0));
        }
        self.sizes(&seen);
    }

    fn sizes(&mut self, seen: &Seen) {
        let read = match seen.operation {
            Operation::READ => true,
            Operation::WRITE => false,
            _ => return,
        };
        let total = if read {
            self.cached += u64::from(seen.cached);
            &mut self.read_bytes
        } else {
            &mut self.written_bytes
        };
        *total = total.saturating_add(seen.bytes);
        for tried in &mut self.tries {
            let chunk = tried.io_chunk_bytes;
            let bytes = u128::from(size_of(seen.bytes / chunk, chunk));
            if read {
                tried.read_bytes += bytes;
            } else {
                tried.written_bytes += bytes;
            }
        }
    }

    /// Ends the pass over `trace`; an error if there is nothing that could be run.
    pub fn finish(self, trace: &str) -> Result<Scanned, FitError> {
        let run = Operation::RUN.iter();
        if !run.into_iter().any(|o| self.counted.contains_key(o)) {
            return Err(FitError::Nothing {
                trace: trace.to_owned(),
                operations: self.operations,
            });
        }
        let above = self.above.unwrap_or_default().len() as u32;
        Ok(Scanned {
            operations: self.operations,
            left: Left::ALL
                .into_iter()
                .filter_map(|why| Some((why, *self.left.get(&why)?)))
                .collect(),
            counted: self.counted,
            cached: self.cached,
            above,
            span_ns: (self.first_ns.unwrap_or(0), self.last_ns),
            series: self.series,
            latency_ns: self.latency_ns,
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            tries: self.tries,
        })
    }
}

/// Keeps the directories that `above` and the path of a file have in common.
fn hold(above: &mut Option<Vec<Vec<u8>>>, path: &[u8]) {
    let mut names = components(path);
    names.next_back();
    match above {
        Some(above) => {
            let common = above.iter().zip(names).take_while(|(a, b)| a == b);
            let common = common.count();
            above.truncate(common);
        }
        None => *above = Some(names.map(<[u8]>::to_vec).collect()),
    }
}

/// What the first pass found.
#[derive(Debug)]
pub struct Scanned {
    /// Operations of the trace.
    pub operations: u64,
    /// Those that are left out, by reason.
    pub left: Vec<(Left, u64)>,
    /// The others by number.
    pub counted: BTreeMap<Operation, u64>,
    /// Reads that were cached.
    pub cached: u64,
    /// Directories above the one that holds everything; 0 where roots were given.
    pub above: u32,
    /// When the first and the last of the others were issued.
    pub span_ns: (u64, u64),
    series: Series,
    latency_ns: [u64; 4],
    /// Bytes read, and written.
    pub read_bytes: u64,
    /// See `read_bytes`.
    pub written_bytes: u64,
    tries: [IoTry; IO_TRIES],
}

impl Scanned {
    /// How far that many time chunks are from the trace.
    pub fn try_chunks(&self, chunks: u32) -> ChunkTry {
        let totals = self.series.bins.iter().fold([0; 4], sums);
        let span = (0, self.span_ns.1.saturating_sub(self.span_ns.0));
        let bins = (0..).zip(&self.series.bins);
        let bins: Vec<(u32, [u64; 4])> = bins
            .map(|(bin, counts): (u64, _)| {
                let start_ns = bin.saturating_mul(self.series.bin_ns);
                (chunk_of(start_ns, span, chunks), *counts)
            })
            .collect();
        // Both cumulated to the end of each bin.
        let (mut trace, mut model) = (Vec::new(), Vec::new());
        let mut before = [0_u64; 4];
        for chunk in bins.chunk_by(|a, b| a.0 == b.0) {
            let within = chunk.iter().map(|(_, counts)| counts).fold([0; 4], sums);
            let ends = self.stage_ends(&within, &totals);
            let mut done = before;
            for (number, (_, counts)) in (1..).zip(chunk) {
                done = sums(done, counts);
                trace.push(done.map(|n| n as f64));
                let at = f64::from(number) / chunk.len() as f64;
                model.push(std::array::from_fn(|stage| {
                    let from = if stage == 0 { 0.0 } else { ends[stage - 1] };
                    before[stage] as f64 + within[stage] as f64 * part(at, from, ends[stage])
                }));
            }
            before = done;
        }
        ChunkTry {
            chunks,
            distance: apart(&trace, &model, &totals),
        }
    }

    /// When the stages of a chunk with these operations end, of its time.
    fn stage_ends(&self, counts: &[u64; 4], totals: &[u64; 4]) -> [f64; 4] {
        let known = self
            .latency_ns
            .iter()
            .zip(totals)
            .all(|(&ns, &n)| ns > 0 || n == 0);
        let cost = |stage: usize| {
            let each = if known {
                self.latency_ns[stage] as f64 / totals[stage].max(1) as f64
            } else {
                1.0
            };
            counts[stage] as f64 * each
        };
        let all: f64 = (0..4).map(cost).sum();
        let mut end = 0.0;
        std::array::from_fn(|stage| {
            end += cost(stage) / all.max(f64::MIN_POSITIVE);
            end
        })
    }

    /// Numbers of chunks from coarse to fine until one is within `goal` of the trace; the last is the one to take.
    pub fn search_chunks(&self, goal: f64) -> Vec<ChunkTry> {
        let mut tries = Vec::new();
        for chunks in CHUNKS {
            tries.push(self.try_chunks(chunks));
            if tries.last().is_some_and(|t| t.distance <= goal) {
                break;
            }
        }
        tries
    }

    /// How far the bytes of a try are from the trace's, of these: of reads and of writes.
    pub fn off(&self, tried: &IoTry) -> (f64, f64) {
        let off = |model: u128, trace: u64| match trace {
            0 if model == 0 => 0.0,
            0 => 1.0,
            _ => model as f64 / trace as f64 - 1.0,
        };
        (
            off(tried.read_bytes, self.read_bytes),
            off(tried.written_bytes, self.written_bytes),
        )
    }

    /// Sizes of I/O chunks from coarse to fine until the bytes are within `goal` of the trace's; the last is the one
    /// to take.
    pub fn search_io(&self, goal: f64) -> Vec<IoTry> {
        let mut tries = Vec::new();
        for tried in self.tries {
            tries.push(tried);
            let (read, written) = self.off(&tried);
            if read.abs() <= goal && written.abs() <= goal {
                break;
            }
        }
        tries
    }
}

/// How much of what goes on from `from` to `to` is done by `at`.
fn part(at: f64, from: f64, to: f64) -> f64 {
    if to > from {
        ((at - from) / (to - from)).clamp(0.0, 1.0)
    } else {
        f64::from(u8::from(at >= to))
    }
}

/// The greatest distance between the shares of an operation that are done by the same [moment](MOMENTS).
fn apart(trace: &[[f64; 4]], model: &[[f64; 4]], totals: &[u64; 4]) -> f64 {
    let moment = trace.len() / MOMENTS + 1;
    let mut distance: f64 = 0.0;
    for (at, model) in model.iter().enumerate() {
        let early = at.checked_sub(moment).and_then(|at| trace.get(at));
        let late = trace.get(at + moment).or(trace.last());
        for stage in 0..4 {
            let least = early.map_or(0.0, |done| done[stage]);
            let most = late.map_or(0.0, |done| done[stage]);
            let off = (least - model[stage]).max(model[stage] - most);
            distance = distance.max(off / totals[stage].max(1) as f64);
        }
    }
    distance
}

fn sums(mut a: [u64; 4], b: &[u64; 4]) -> [u64; 4] {
    for (a, b) in a.iter_mut().zip(b) {
        *a += b;
    }
    a
}

/// The second pass.
#[derive(Debug)]
pub struct Fitter {
    follower: Follower,
    matrix: Matrix,
    span_ns: (u64, u64),
    above: u32,
    chunks: u32,
    io_chunk_bytes: u64,
    trace: String,
}

impl Fitter {
    /// Of the same files as the scan of `trace`.
    pub fn new(
        trace: &str,
        scanned: &Scanned,
        (roots, nameless): (&[Vec<u8>], bool),
        chunks: u32,
        io_chunk_bytes: u64,
    ) -> Self {
        Self {
            follower: Follower::new(roots, nameless),
            matrix: Matrix::default(),
            span_ns: scanned.span_ns,
            above: scanned.above,
            chunks,
            io_chunk_bytes,
            trace: trace.to_owned(),
        }
    }

    /// Takes the next operation.
    pub fn take(&mut self, op: &Op, paths: &PathTable) -> Result<(), FitError> {
        let Ok(seen) = self.follower.take(op, paths, &mut |_| ()) else {
            return Ok(());
        };
        let chunk = chunk_of(op.start_ns, self.span_ns, self.chunks);
        let added = self
            .matrix
            .add(&seen, op.pid, chunk, self.io_chunk_bytes, self.above);
        added.map_err(|_| FitError::TooMany {
            trace: self.trace.clone(),
        })
    }

    /// The configuration, and how many processes there were.
    pub fn finish(self) -> (Config, u64) {
        let processes = self.matrix.processes();
        (
            self.matrix.config(self.chunks, self.io_chunk_bytes),
            processes,
        )
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::{Fd, OpKind, Outcome, Pid, Tid};

    use super::*;

    /// The C program of Appendix C: `chunks` times each of creates, writes, reads and deletes, evenly.
    fn scanned(chunks: u64, each: u64) -> Scanned {
        let mut scan = Scan::new(&[], false);
        let mut paths = PathTable::new();
        let mut now_ns = 0;
        let mut take = |kind, chunk: u64, file: u64| {
            let mut op = Op::new(kind, Pid(1), Tid(1), now_ns);
            now_ns += 1_000_000;
            let fd = 3 + file;
            op.path = paths.intern(format!("/d/{chunk}-{file}.txt").as_bytes());
            (op.flags, op.size_bytes) = (0o100, Some(0));
            op.result = Outcome::ok(if kind == OpKind::Open {
                fd
            } else {
                1000 * (1 + file % 5)
            });
            op.fd = Some(Fd(fd as i32));
            scan.take(&op, &paths);
        };
        for chunk in 0..chunks {
            for kind in [OpKind::Open, OpKind::Write, OpKind::Read, OpKind::Unlink] {
                for file in 0..each {
                    take(kind, chunk, file);
                }
            }
        }
        scan.finish("t.fst").unwrap()
    }

    /// Figures 38 to 43: at 10 and 20 chunks of a workload that varies ten times its operations overlap, from 200 on
    /// its pattern is there.
    #[test]
    fn a_workload_that_varies_needs_chunks_as_short_as_what_it_does() {
        let scanned = scanned(10, 50);
        let at = |chunks| scanned.try_chunks(chunks).distance;
        assert!(at(1) > 0.2, "{}", at(1));
        assert!(at(200) < 0.01 && at(500) < 0.01, "{} {}", at(200), at(500));
        let tries = scanned.search_chunks(0.05);
        assert!(
            tries.len() > 2 && tries.is_sorted_by_key(|t| t.chunks),
            "{tries:?}"
        );
        assert_eq!(scanned.counted.values().sum::<u64>(), 2000);
        let single = super::tests::scanned(1, 1);
        assert!(single.search_chunks(0.01).last().unwrap().distance <= 0.01);
    }

    #[test]
    fn bytes_come_nearer_with_smaller_steps() {
        let scanned = scanned(2, 50);
        let tries = scanned.search_io(0.05);
        assert_eq!(tries[0].io_chunk_bytes, 1 << 20);
        assert_eq!(tries[0].read_bytes, 100 << 19);
        let (read, written) = scanned.off(tries.last().unwrap());
        assert!(read.abs() <= 0.05 && written.abs() <= 0.05 && tries.len() > 5);
        assert_eq!(
            scanned.off(scanned.search_io(0.0).last().unwrap()),
            (0.0, 0.0)
        );
    }

    #[test]
    fn a_long_trace_is_held_in_so_many_bins() {
        let mut series = Series {
            bin_ns: FIRST_BIN_NS,
            bins: Vec::new(),
        };
        for at in 0..40 {
            series.add(1 << at, 2);
        }
        assert!(series.bins.len() <= BINS);
        assert_eq!(series.bins.iter().map(|b| b[2]).sum::<u64>(), 40);
    }
}

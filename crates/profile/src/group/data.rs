//! Cached reads, and the writes to files that exist already.

use fsage_core::metric::MetricId;
use fsage_core::{Handle, OpenFlags};

use super::cold::{of_round, scattered};
use crate::error::Res;
use crate::lab::{Batch, GAPS, Lab, PAYLOAD_BYTES};
use crate::population::Population;
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "cached reads",
        stems: &["RC", "RCF", "RCH", "RDO", "RDC", "REOF"],
        share: (25, 30),
        run: reads,
    },
    Procedure {
        name: "writes to existing files",
        stems: &["WO", "WK", "WA", "WRO", "WRC"],
        share: (35, 40),
        run: rewrites,
    },
    Procedure {
        name: "writes to uncached files",
        stems: &["WU", "WP"],
        share: (15, 20),
        run: uncached,
    },
    Procedure {
        name: "sparse files and reserved space",
        stems: &["RHO", "WH", "FALLOC", "SKD"],
        share: (15, 20),
        run: sparse,
    },
];

const SIZES_KIB: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Pauses of successive rounds: half of them back to back.
const GAP_OF_ROUND: [usize; 8] = [0, 1, 0, 4, 2, 0, 3, 0];

/// How often data and a hole are looked for in each file.
const SEEKS: u64 = 16;

/// A large reservation, and the free space that it is made in.
const LARGE_KIB: u32 = 65_536;
const ROOM_FOR_LARGE: u64 = 512 << 20;

fn probes(stem: &str) -> [(u32, Probe); 6] {
    SIZES_KIB.map(|kib| (kib, Probe::at(stem, kib)))
}

/// One file and its size.
struct Stored {
    path: Vec<u8>,
    bytes: u64,
}

/// Cached files several times as large together as the CPU's caches, so that the page, the inode and
/// the data of any of them come from memory, as in a process that reads many files.
struct Pool {
    root: String,
    small: Vec<Stored>,
    medium: Vec<Stored>,
    large: Vec<Stored>,
}

/// Files of 0.5 to 16 KiB, and the directories of all.
const SMALL: usize = 5000;
const POOL_DIRS: usize = 50;
/// Files of 64 KiB and of 1 MiB.
const MEDIUM: usize = 320;
const MEDIUM_BYTES: u64 = 64 << 10;
const LARGE: usize = 48;

impl Pool {
    fn create(lab: &mut Lab<'_>) -> Res<Self> {
        let root = lab.fresh_dir("c")?;
        for dir in 0..POOL_DIRS {
            lab.fs.mkdir(format!("{root}/d{dir}").as_bytes(), 0o755)?;
        }
        let room = lab.room_bytes();
        let fitting = |wanted: usize, bytes: u64| wanted.min((room / 3 / bytes) as usize).max(1);
        // A large one takes as long as many small ones.
        let small_count = lab.files_in_time(fitting(SMALL, 8 << 10));
        let small = store(lab, &root, "s", small_count, None)?;
        let medium_count = lab.files_in_time(fitting(MEDIUM, MEDIUM_BYTES) * 4) / 4;
        let medium = store(lab, &root, "m", medium_count, Some(MEDIUM_BYTES))?;
        let large_count = lab.files_in_time(fitting(LARGE, PAYLOAD_BYTES as u64) * 16) / 16;
        let large = store(lab, &root, "l", large_count, Some(PAYLOAD_BYTES as u64))?;
        lab.settle_in_time()?;
        Ok(Self {
            root,
            small,
            medium,
            large,
        })
    }

    /// The files in which requests of a size are made.
    fn of(&self, kib: u32) -> &[Stored] {
        match kib {
            0..=4 => &self.small,
            5..=16 => &self.medium,
            _ => &self.large,
        }
    }

    /// How many of them for one batch.
    fn files_of(kib: u32) -> usize {
        match kib {
            0..=4 => 24,
            5..=16 => 12,
            _ => 4,
        }
    }
}

/// Files of a size, or of 0.5 to 16 KiB, over the directories.
fn store(
    lab: &mut Lab<'_>,
    root: &str,
    tag: &str,
    count: usize,
    bytes: Option<u64>,
) -> Res<Vec<Stored>> {
    let mut made = Vec::with_capacity(count);
    for number in 0..count {
        let dir = lab.random.below(POOL_DIRS);
        let path = format!("{root}/d{dir}/{tag}{number:04}").into_bytes();
        let bytes = bytes.unwrap_or_else(|| 512 * (1 + lab.random.below(32) as u64));
        lab.make_file(&path, bytes)?;
        made.push(Stored { path, bytes });
        if number % 256 == 0 {
            lab.check()?;
        }
    }
    Ok(made)
}

/// Any of the files is opened and read to its end, with the read that says so.
fn reads(lab: &mut Lab<'_>) -> Res {
    let pool = Pool::create(lab)?;
    lab.steady(&["RC", "RCF", "RCH", "REOF"]);
    let sizes = probes("RC");
    let mut buffer = vec![0u8; PAYLOAD_BYTES];
    let rounds = (lab.scale(16, 24), lab.scale(40, 200));
    lab.rounds(&["RC", "RCF", "RCH", "REOF"], rounds, |lab, round| {
        let _quiet = lab.sched.quiet();
        let gap = GAP_OF_ROUND
            .get(round % GAP_OF_ROUND.len())
            .copied()
            .unwrap_or(0);
        for (kib, probe) in sizes {
            let files = pool.of(kib);
            lab.begin(Batch::Cached);
            for _ in 0..Pool::files_of(kib) {
                let index = lab.random.below(files.len());
                let Some(file) = files.get(index) else {
                    continue;
                };
                lab.with_open(&file.path, OpenFlags::READ, |lab, handle| {
                    read_all(lab, handle, (kib, probe), gap, file.bytes, &mut buffer)
                })?;
            }
            lab.end()?;
        }
        Ok(())
    })?;
    line(lab, "RC", "RDO", "RDC");
    lab.discard(&pool.root)
}

fn read_all(
    lab: &mut Lab<'_>,
    handle: Handle,
    (kib, probe): (u32, Probe),
    gap: usize,
    size: u64,
    buffer: &mut [u8],
) -> Res {
    let fs = lab.fs;
    let Some(piece) = buffer.get_mut(..(kib as usize) << 10) else {
        return Ok(());
    };
    let bytes = piece.len() as u64;
    let first = Probe::at("RCF", kib);
    let first = if first.id(0).is_some() { first } else { probe };
    for at in (0..size).step_by(piece.len()) {
        // The last may be shorter and is no read of this size.
        let whole = size - at >= bytes;
        let probe = match whole {
            true if at == 0 => first,
            true => probe,
            false => Probe::of(""),
        };
        lab.call(probe, gap, || fs.pread(handle, piece, at))?;
    }
    lab.call(Probe::of("REOF"), gap, || fs.pread(handle, piece, size))?;
    let again = Probe::at("RCH", kib);
    if again.id(0).is_some() {
        let whole = |&at: &u64| size - at >= bytes;
        for at in (0..size).step_by(piece.len()).filter(whole) {
            lab.call(again, 0, || fs.pread(handle, piece, at))?;
        }
    }
    Ok(())
}

/// Equation 3 of Smith 2001: the overhead of a call, after each pause, and the rate of the copy, by
/// least squares over the series.
fn line(lab: &mut Lab<'_>, series: &str, overhead: &str, rate: &str) {
    for gap in 0..GAPS {
        let points: Vec<(f64, f64)> = probes(series)
            .iter()
            .filter_map(|(kib, probe)| {
                let mean = probe
                    .id(gap)
                    .and_then(|id: MetricId| lab.measurements.mean(id))?;
                Some((f64::from(*kib), mean))
            })
            .collect();
        let Some(fit) = fsage_stats::line::fit(&points).filter(|f| f.slope > 0.0) else {
            continue;
        };
        // A line over three orders of magnitude may cross zero above it; no call costs less than
        // the smallest of the series says.
        let smallest = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
        let constant = if fit.intercept > 0.0 {
            fit.intercept.min(smallest)
        } else {
            smallest
        };
        let note = format!("least squares over {} points of {series}", points.len());
        if let Some(id) = Probe::of(overhead).id(gap) {
            let series = lab.measurements.series(id);
            series.given = Some((constant, None));
            series.stop = "precise";
            series.note = Some(note.clone());
        }
        if gap == 0 {
            let kib_per_s = |ns_per_kib: f64| 1e9 / ns_per_kib.max(0.1);
            let half = Some(fit.slope_half_width).filter(|h| h.is_finite());
            let ends = half.map(|half| {
                let fastest = (fit.slope - half).max(fit.slope / 10.0);
                (kib_per_s(fit.slope + half), kib_per_s(fastest))
            });
            lab.give(Probe::of(rate), (kib_per_s(fit.slope), ends), "precise");
            lab.remark(rate, &note);
        }
    }
}

/// Per round: clean data of any files over (WK), then the same files opened again in another order,
/// their dirty pages over (WO); then, clean again and cut to end inside a page, appended to (WA).
fn rewrites(lab: &mut Lab<'_>) -> Res {
    let pool = Pool::create(lab)?;
    let (clean, dirty, append) = (probes("WK"), probes("WO"), probes("WA"));
    let rounds = (lab.scale(8, 16), lab.scale(24, 100));
    lab.rounds(&["WO", "WK", "WA"], rounds, |lab, round| {
        let gap = GAP_OF_ROUND
            .get(round % GAP_OF_ROUND.len())
            .copied()
            .unwrap_or(0);
        lab.settle()?;
        let mut chosen = choose(lab, &pool);
        for (_, file) in &chosen {
            lab.bring_back(&file.path, file.bytes)?;
        }
        for states in [&clean, &dirty] {
            lab.begin(Batch::Changing);
            for &(place, file) in &chosen {
                let Some(&(kib, probe)) = states.get(place) else {
                    continue;
                };
                lab.with_open(&file.path, OpenFlags::WRITE, |lab, handle| {
                    write_over(lab, handle, (kib, probe), gap, file.bytes)
                })?;
            }
            lab.end()?;
            lab.random.shuffle(&mut chosen);
        }
        appends(lab, &pool.root, &append, gap)
    })?;
    line(lab, "WK", "WRO", "WRC");
    lab.discard(&pool.root)
}

/// Files for each size of request, in random order, no file twice: only once is it clean.
fn choose<'p>(lab: &mut Lab<'_>, pool: &'p Pool) -> Vec<(usize, &'p Stored)> {
    let mut chosen = Vec::new();
    let mut orders = [4u32, 16, 64].map(|kib| lab.random.order(pool.of(kib).len()));
    for (place, kib) in SIZES_KIB.into_iter().enumerate() {
        let class = match kib {
            0..=4 => 0,
            5..=16 => 1,
            _ => 2,
        };
        let Some(order) = orders.get_mut(class) else {
            continue;
        };
        let fits = |file: &&Stored| file.bytes >= u64::from(kib) << 10;
        for _ in 0..Pool::files_of(kib) {
            let file = order.pop().and_then(|index| pool.of(kib).get(index));
            chosen.extend(file.filter(fits).map(|file| (place, file)));
        }
    }
    lab.random.shuffle(&mut chosen);
    chosen
}

/// Whole blocks of a file from its beginning; the same for every state of it.
fn write_over(
    lab: &mut Lab<'_>,
    handle: Handle,
    (kib, probe): (u32, Probe),
    gap: usize,
    size: u64,
) -> Res {
    let fs = lab.fs;
    let bytes = (kib as usize) << 10;
    // Less than a page counts as a page of its own.
    let step = bytes.max(4096);
    let calls = (size as usize / step).clamp(1, 8);
    for turn in 0..calls {
        let Some(piece) = lab.payload.get(..bytes).map(<[u8]>::to_vec) else {
            break;
        };
        lab.call(probe, gap, || {
            fs.pwrite(handle, &piece, (turn * step) as u64)
        })?;
    }
    Ok(())
}

/// Small files that end inside a page, written back, opened again.
fn appends(lab: &mut Lab<'_>, dir: &str, states: &[(u32, Probe); 6], gap: usize) -> Res {
    let mut grown = Vec::new();
    for turn in 0..24u32 {
        let path = format!("{dir}/a{turn}").into_bytes();
        let size = 512 + 1024 * u64::from(turn % 3) + 4096 * u64::from(turn % 5);
        lab.make_file(&path, size)?;
        grown.push((path, size));
    }
    lab.settle()?;
    let fs = lab.fs;
    lab.begin(Batch::Cached);
    for (turn, (path, size)) in grown.iter().enumerate() {
        let Some(&(kib, probe)) = states.get(turn % states.len()) else {
            continue;
        };
        let piece = lab
            .payload
            .get(..(kib as usize) << 10)
            .unwrap_or_default()
            .to_vec();
        lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
            lab.call(probe, gap, || fs.pwrite(handle, &piece, *size))
                .map(|_| ())
        })?;
    }
    lab.end()?;
    for (path, _) in grown {
        fs.unlink(&path)?;
    }
    Ok(())
}

/// Files of a round of which a part of a block is written, each once: see `cold.rs`.
const PARTS_OF_ROUND: usize = 48;

fn uncached(lab: &mut Lab<'_>) -> Res {
    let whole = probes("WU");
    let rounds = (lab.scale(2, 4), lab.scale(4, 10));
    let small = Population::create_apart(lab, 12 * PARTS_OF_ROUND, 45, (4..=64, 48))?;
    let order = scattered(lab, &small);
    lab.rounds(&["WU", "WP"], rounds, |lab, round| {
        let dir = lab.fresh_dir("u")?;
        let most = (lab.room_bytes() / PAYLOAD_BYTES as u64) as usize;
        let mut paths = Vec::new();
        for number in 0..lab.scale(48, 72).min(most).max(1) {
            let path = format!("{dir}/u{number:03}").into_bytes();
            lab.make_file(&path, PAYLOAD_BYTES as u64)?;
            paths.push(path);
        }
        lab.make_data_cold()?;
        for path in &paths {
            lab.fs.stat(path)?;
        }
        small.warm_names(lab)?;
        // Before anything is left to be written back.
        partial(lab, &small, of_round(&order, round, PARTS_OF_ROUND))?;
        lab.begin(Batch::Writing);
        for (number, path) in paths.iter().enumerate() {
            let Some(&(kib, probe)) = whole.get(number % whole.len()) else {
                continue;
            };
            lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                // Pages are written whole: 1 KiB would have to read the rest of its page.
                let probe = if kib < 4 { Probe::of("") } else { probe };
                write_over(lab, handle, (kib.max(4), probe), 0, PAYLOAD_BYTES as u64)
            })?;
        }
        lab.end()?;
        lab.clear(&dir)
    })?;
    small.remove(lab)
}

/// 512 bytes inside of the last block of small files anywhere, as an append or an update in place
/// finds it; and 1 KiB, which is a part of a block too and stands for WU1.
fn partial(lab: &mut Lab<'_>, population: &Population, order: &[usize]) -> Res {
    let fs = lab.fs;
    let (part, one) = (Probe::at("WP", 1), Probe::at("WU", 1));
    let piece = lab.payload.get(..1024).unwrap_or_default().to_vec();
    lab.cold_batch(part, |lab| {
        for (turn, &index) in order.iter().enumerate() {
            let Some(item) = population.items.get(index) else {
                continue;
            };
            let at = (u64::from(item.size_kib) << 10).saturating_sub(3072);
            let (probe, bytes) = if turn % 2 == 0 {
                (part, 512)
            } else {
                (one, 1024)
            };
            let piece = piece.get(..bytes).unwrap_or_default();
            lab.with_open(&item.path, OpenFlags::WRITE, |lab, handle| {
                lab.call(probe, 0, || fs.pwrite(handle, piece, at))
                    .map(|_| ())
            })?;
        }
        Ok(())
    })
}

fn sparse(lab: &mut Lab<'_>) -> Res {
    let small = [1u32, 4, 16, 64];
    let reads = small.map(|kib| (kib, Probe::at("RHO", kib)));
    let writes = small.map(|kib| (kib, Probe::at("WH", kib)));
    let mut reserve = probes("FALLOC").to_vec();
    let free = lab.fs.statfs().map_or(0, |s| s.available_bytes);
    // What a log or an image is given at once; where there is room, and so much more that it is one piece.
    if free >= ROOM_FOR_LARGE {
        reserve.push((LARGE_KIB, Probe::at("FALLOC", LARGE_KIB)));
    }
    let rounds = (lab.scale(6, 12), lab.scale(20, 60));
    let mut no_reserve = None;
    let seeks = [1, 16, 256, 1024].map(|pieces| (pieces, Probe::at("SKD", pieces)));
    let mut no_seek = None;
    lab.rounds(&["RHO", "WH", "FALLOC", "SKD"], rounds, |lab, _| {
        let dir = lab.fresh_dir("h")?;
        for turn in 0..4 {
            let path = format!("{dir}/s{turn}").into_bytes();
            let flags = OpenFlags::CREATE_NEW;
            lab.with_open(&path, flags, |lab, handle| {
                holes(lab, handle, &reads, &writes)
            })?;
        }
        for &(kib, probe) in &reserve {
            let path = format!("{dir}/f{kib}").into_bytes();
            let fs = lab.fs;
            lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
                lab.begin(Batch::Cached);
                let done = lab.call(probe, 0, || fs.fallocate(handle, 0, u64::from(kib) << 10));
                if let Err(halt) = done
                    && kib < LARGE_KIB
                {
                    no_reserve = Some(halt.reason());
                }
                lab.end().map(|_| ())
            })?;
        }
        for (pieces, probe) in seeks {
            let path = format!("{dir}/k{pieces}").into_bytes();
            lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
                let refused = looks_for_data(lab, handle, (u64::from(pieces), probe))?;
                no_seek = no_seek.take().or(refused);
                Ok(())
            })?;
        }
        lab.clear(&dir)
    })?;
    for (stem, why) in [("FALLOC", no_reserve), ("SKD", no_seek)] {
        if let Some(reason) = why {
            lab.absent(stem, &reason);
        }
    }
    Ok(())
}

/// Data and holes are looked for in turn in a file of so many dirty pieces; why they cannot be.
fn looks_for_data(
    lab: &mut Lab<'_>,
    handle: Handle,
    (pieces, probe): (u64, Probe),
) -> Res<Option<String>> {
    let fs = lab.fs;
    let block = lab.payload.get(..4096).unwrap_or_default().to_vec();
    // A hole first and last.
    fs.ftruncate(handle, (2 * pieces + 1) * 4096)?;
    for piece in 0..pieces {
        fs.pwrite(handle, &block, (2 * piece + 1) * 4096)?;
    }
    let mut refused = None;
    lab.begin(Batch::Cached);
    for turn in 0..SEEKS {
        // Apart from one another, and each as often as all others.
        let piece = turn * 397 % pieces;
        for (at, hole) in [(2 * piece, false), (2 * piece + 1, true)] {
            let done = lab.call(probe, 0, || fs.seek_next(handle, at * 4096, hole));
            refused = refused.or(done.err().map(|halt| halt.reason()));
        }
    }
    lab.end()?;
    Ok(refused)
}

/// Every second block of a file that is one hole is read, then written.
fn holes(
    lab: &mut Lab<'_>,
    handle: Handle,
    reads: &[(u32, Probe); 4],
    writes: &[(u32, Probe); 4],
) -> Res {
    let fs = lab.fs;
    let mut buffer = vec![0u8; 64 << 10];
    fs.ftruncate(handle, 16 << 20)?;
    lab.begin(Batch::Cached);
    for (&(kib, read), &(_, write)) in reads.iter().zip(writes) {
        let bytes = (kib as usize) << 10;
        let step = bytes.max(4096) * 2;
        let from = 1u64 << 20 << (kib.trailing_zeros() / 2);
        let piece = lab.payload.get(..bytes).unwrap_or_default().to_vec();
        for turn in 0..8u64 {
            let at = from + turn * step as u64;
            let Some(space) = buffer.get_mut(..bytes) else {
                break;
            };
            lab.call(read, 0, || fs.pread(handle, space, at))?;
        }
        for turn in 0..8u64 {
            // Beyond what was read: a page that a read has put into the cache is not new.
            let at = from + (8 + turn) * step as u64;
            if at + bytes as u64 <= 16 << 20 {
                lab.call(write, 0, || fs.pwrite(handle, &piece, at))?;
            }
        }
    }
    lab.end().map(|_| ())
}

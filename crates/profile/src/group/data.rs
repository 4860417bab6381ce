//! Cached reads, and the writes to files that exist already.

use fsage_core::metric::MetricId;
use fsage_core::{Handle, OpenFlags};

use crate::error::Res;
use crate::lab::{Batch, Lab, PAYLOAD_BYTES, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "cached reads",
        stems: &["RC", "RDO", "RDC"],
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
        stems: &["RHO", "WH", "FALLOC"],
        share: (15, 20),
        run: sparse,
    },
];

const SIZES_KIB: [u32; 6] = [1, 4, 16, 64, 256, 1024];
const GAPS: [usize; 8] = [0, 0, 0, 0, 1, 2, 2, 3];

fn probes(stem: &str) -> [(u32, Probe); 6] {
    SIZES_KIB.map(|kib| (kib, Probe::at(stem, kib)))
}

/// Files of 1 MiB, of which each call takes a part: as many as there is room for.
fn files(lab: &mut Lab<'_>, wanted: usize, dir: &str) -> Res<Vec<Vec<u8>>> {
    let most = (lab.room_bytes() / PAYLOAD_BYTES as u64) as usize;
    let mut made = Vec::new();
    for number in 0..wanted.min(most).max(1) {
        let path = format!("{dir}/m{number:03}").into_bytes();
        lab.make_file(&path, PAYLOAD_BYTES as u64)?;
        made.push(path);
    }
    Ok(made)
}

fn reads(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("c")?;
    let paths = {
        let n = lab.scale(48, 96);
        files(lab, n, &dir)?
    };
    lab.settle()?;
    lab.steady(&["RC"]);
    let sizes = probes("RC");
    let mut buffer = vec![0u8; PAYLOAD_BYTES];
    let rounds = (lab.scale(12, 24), lab.scale(40, 200));
    lab.rounds(&["RC"], rounds, |lab, round| {
        let _quiet = lab.sched.quiet();
        let gap = GAPS.get(round % GAPS.len()).copied().unwrap_or(0);
        for (kib, probe) in sizes {
            let bytes = u64::from(kib) << 10;
            lab.begin(Batch::Cached);
            for _ in 0..if kib >= 256 { 4 } else { 32 } {
                let index = lab.random.below(paths.len());
                let Some(path) = paths.get(index) else {
                    continue;
                };
                let handle = lab.fs.open(path, OpenFlags::READ, 0)?;
                // The first read of an open file differs from the ones after it.
                let at = lab.random.below((PAYLOAD_BYTES as u64 / bytes) as usize) as u64 * bytes;
                let result = read_twice(lab, handle, probe, gap, at, bytes, &mut buffer);
                lab.fs.close(handle)?;
                result?;
            }
            lab.end()?;
        }
        Ok(())
    })?;
    line(lab, "RC", "RDO", "RDC");
    Ok(crate::population::remove_tree(lab.fs, dir.as_bytes())?)
}

fn read_twice(
    lab: &mut Lab<'_>,
    handle: Handle,
    probe: Probe,
    gap: usize,
    at: u64,
    bytes: u64,
    buffer: &mut [u8],
) -> Res {
    let fs = lab.fs;
    let next = if at + 2 * bytes <= PAYLOAD_BYTES as u64 {
        at + bytes
    } else {
        0
    };
    for offset in [at, next] {
        let Some(piece) = buffer.get_mut(..bytes as usize) else {
            break;
        };
        lab.call(probe, gap, || fs.pread(handle, piece, offset))?;
    }
    Ok(())
}

/// Equation 3 of Smith 2001: the overhead of a call, after each pause, and the rate of the copy, by
/// least squares over the series.
fn line(lab: &mut Lab<'_>, series: &str, overhead: &str, rate: &str) {
    for gap in 0..4 {
        let points: Vec<(f64, f64)> = probes(series)
            .iter()
            .filter_map(|(kib, probe)| {
                let mean = probe.id(gap).and_then(|id: MetricId| lab.book.mean(id))?;
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
            let series = lab.book.series(id);
            series.given = Some((constant, constant, constant));
            series.stop = "precise";
            series.note = Some(note.clone());
        }
        if gap == 0 {
            let half = if fit.slope_half_width.is_finite() {
                fit.slope_half_width
            } else {
                0.0
            };
            let kib_per_s = |ns_per_kib: f64| 1e9 / ns_per_kib.max(0.1);
            let slowest = kib_per_s(fit.slope + half);
            let fastest = kib_per_s((fit.slope - half).max(fit.slope / 10.0));
            lab.give(
                Probe::of(rate),
                (kib_per_s(fit.slope), slowest, fastest),
                "precise",
            );
            lab.remark(rate, &note);
        }
    }
}

/// Per round and file: clean data over (WK), then the file closed and opened, its dirty pages over
/// (WO); then, clean again and cut to end inside a page, appended to (WA).
fn rewrites(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("w")?;
    let paths = {
        let n = lab.scale(48, 96);
        files(lab, n, &dir)?
    };
    let (clean, dirty, append) = (probes("WK"), probes("WO"), probes("WA"));
    let rounds = (lab.scale(8, 16), lab.scale(24, 100));
    lab.rounds(&["WO", "WK", "WA"], rounds, |lab, round| {
        let gap = GAPS.get(round % GAPS.len()).copied().unwrap_or(0);
        lab.settle()?;
        for states in [&clean, &dirty] {
            lab.begin(Batch::Cached);
            for (number, path) in paths.iter().enumerate() {
                let Some(&(kib, probe)) = states.get(number % states.len()) else {
                    continue;
                };
                lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                    write_over(lab, handle, kib, probe, gap)
                })?;
            }
            lab.end()?;
        }
        appends(lab, &dir, &append, gap)
    })?;
    line(lab, "WK", "WRO", "WRC");
    Ok(crate::population::remove_tree(lab.fs, dir.as_bytes())?)
}

/// Whole blocks at a place of the file; the same for every state of it.
fn write_over(lab: &mut Lab<'_>, handle: Handle, kib: u32, probe: Probe, gap: usize) -> Res {
    let fs = lab.fs;
    let bytes = (kib as usize) << 10;
    // Less than a page counts as a page of its own.
    let step = bytes.max(4096);
    let calls = (PAYLOAD_BYTES / step).min(8);
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

fn uncached(lab: &mut Lab<'_>) -> Res {
    let (whole, part) = (probes("WU"), Probe::at("WP", 1));
    let rounds = (lab.scale(2, 4), lab.scale(4, 10));
    lab.rounds(&["WU", "WP"], rounds, |lab, _| {
        let dir = lab.fresh_dir("u")?;
        let paths = {
            let n = lab.scale(56, 84);
            files(lab, n, &dir)?
        };
        lab.make_data_cold()?;
        for path in &paths {
            lab.fs.stat(path)?;
        }
        lab.begin(Batch::Blocking);
        for (number, path) in paths.iter().enumerate() {
            let state = whole.get(number % whole.len());
            let Some(&(kib, probe)) = state.filter(|_| number % 7 != 6) else {
                continue;
            };
            lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                // Pages are written whole: 1 KiB would have to read the rest of its page.
                write_over(
                    lab,
                    handle,
                    kib.max(4),
                    if kib < 4 { Probe::of("") } else { probe },
                    0,
                )
            })?;
        }
        lab.end()?;
        lab.cold_batch(|lab| {
            for path in paths.iter().skip(6).step_by(7) {
                lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                    partial(lab, handle, part, whole.first().map_or(part, |p| p.1))
                })?;
            }
            Ok(())
        })?;
        Ok(crate::population::remove_tree(lab.fs, dir.as_bytes())?)
    })
}

/// 512 bytes inside of blocks that are not cached, far from each other; and 1 KiB of them, which is
/// a part of a block too and stands for WU1.
fn partial(lab: &mut Lab<'_>, handle: Handle, part: Probe, one: Probe) -> Res {
    let fs = lab.fs;
    let piece = lab.payload.get(..1024).unwrap_or_default().to_vec();
    for turn in 0..4u64 {
        let at = turn * (256 << 10);
        let half = piece.get(..512).unwrap_or_default();
        lab.call(part, 0, || fs.pwrite(handle, half, at + 1024))?;
        lab.call(one, 0, || fs.pwrite(handle, &piece, at + (128 << 10)))?;
    }
    Ok(())
}

fn sparse(lab: &mut Lab<'_>) -> Res {
    let small = [1u32, 4, 16, 64];
    let reads = small.map(|kib| (kib, Probe::at("RHO", kib)));
    let writes = small.map(|kib| (kib, Probe::at("WH", kib)));
    let reserve = probes("FALLOC");
    let rounds = (lab.scale(6, 12), lab.scale(20, 60));
    let mut no_reserve = None;
    lab.rounds(&["RHO", "WH", "FALLOC"], rounds, |lab, _| {
        let dir = lab.fresh_dir("h")?;
        for turn in 0..4 {
            let path = format!("{dir}/s{turn}").into_bytes();
            let flags = OpenFlags::CREATE_NEW;
            lab.with_open(&path, flags, |lab, handle| {
                holes(lab, handle, &reads, &writes)
            })?;
        }
        for (kib, probe) in reserve {
            let path = format!("{dir}/f{kib}").into_bytes();
            let fs = lab.fs;
            lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
                lab.begin(Batch::Cached);
                let done = lab.call(probe, 0, || fs.fallocate(handle, 0, u64::from(kib) << 10));
                if let Err(halt) = done {
                    no_reserve = Some(halt.reason());
                }
                lab.end().map(|_| ())
            })?;
        }
        Ok(crate::population::remove_tree(lab.fs, dir.as_bytes())?)
    })?;
    if let Some(reason) = no_reserve {
        lab.absent("FALLOC", &reason);
    }
    Ok(())
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

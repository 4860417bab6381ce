//! What is written behind slows the rest down: a fixed workload beside a paced writer (Smith 2001,
//! 4.4.3.2.5). By bytes as there, and by blocks and by metadata operations.

use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::{Errno, FileSystem, Handle, OpenFlags};

use crate::error::Res;
use crate::lab::Lab;
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::together::{Next, Stream, at_once};

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "slowdown by bytes written",
        stems: &["WR"],
        share: (60, 40),
        run: by_bytes,
    },
    Procedure {
        name: "slowdown by blocks written",
        stems: &["WB"],
        share: (0, 25),
        run: by_blocks,
    },
    Procedure {
        name: "slowdown by creates",
        stems: &["WM"],
        share: (0, 25),
        run: by_names,
    },
];

/// What the paced thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    None,
    /// KiB per second, in one stream.
    Stream(u32),
    /// Blocks of 4 KiB per second, one to a file.
    Blocks(u32),
    /// Creates and unlinks per second.
    Names(u32),
}

/// Times the fixed workload is repeated for one sample.
const REPEATS: usize = 24;
/// The stream starts again at its file's beginning after this many bytes.
const STREAM_BYTES: u64 = 64 << 20;
const TICK_NS: u64 = 5_000_000;

/// The hot truncation test: create, write, read, truncate, write, remove. Samples are seconds.
fn fixed<'s>(
    fs: &'s dyn FileSystem,
    (dir, payload): (&'s str, &'s [u8]),
    (runs, samples): (usize, &'s mut Vec<f64>),
    over: impl Fn() -> bool + Send + 's,
    done: &'s AtomicBool,
) -> Stream<'s> {
    const CALLS: usize = 6;
    let piece = payload.get(..64 << 10).unwrap_or_default();
    let mut buffer = vec![0u8; 64 << 10];
    let (mut turn, mut start_ns) = (0, 0);
    let mut step = move |open: &mut Option<Handle>| {
        let now_ns = fs.clock().now_ns();
        let number = turn / CALLS;
        if number == REPEATS {
            samples.push(now_ns.saturating_sub(start_ns) as f64 / 1e9);
            turn = 0;
            if samples.len() < runs && !over() {
                // The load has to be there while the workload runs, and after it to be written.
                return Ok(Next::At(now_ns + TICK_NS));
            }
        }
        if samples.len() >= runs || over() {
            return Ok(Next::End);
        }
        if turn == 0 {
            start_ns = now_ns;
        }
        let path = format!("{dir}/x{number}").into_bytes();
        match (turn % CALLS, *open) {
            (1 | 4, Some(handle)) => drop(fs.pwrite(handle, piece, 0)?),
            (2, Some(handle)) => drop(fs.pread(handle, &mut buffer, 0)?),
            (3, Some(handle)) => fs.ftruncate(handle, 0)?,
            (5, _) => {
                open.take().map_or(Ok(()), |handle| fs.close(handle))?;
                fs.unlink(&path)?;
            }
            _ => *open = Some(fs.open(&path, OpenFlags::CREATE_NEW, 0o644)?),
        }
        turn += 1;
        Ok(Next::Step)
    };
    let mut open = None;
    Box::new(move || {
        let next = step(&mut open);
        if matches!(next, Ok(Next::End) | Err(_)) {
            // However it ends: the load ends with it, and no file stays open.
            done.store(true, Ordering::Relaxed);
            open.take().map_or(Ok(()), |handle| fs.close(handle))?;
        }
        next
    })
}

/// Seconds of the fixed workload under a load, once for each run.
fn under(lab: &mut Lab<'_>, load: Load, runs: usize) -> Res<Vec<f64>> {
    lab.settle()?;
    let dir = lab.fresh_dir("wb")?;
    let done = AtomicBool::new(false);
    let mut samples = Vec::new();
    let (fs, stop, limit_ns) = (lab.fs, lab.stop, lab.limit_ns());
    let over = || stop.load(Ordering::Relaxed) || fs.clock().now_ns() >= limit_ns;
    let stream = match load {
        Load::Stream(_) => Some(fs.open(
            format!("{dir}/stream").as_bytes(),
            OpenFlags::CREATE_NEW,
            0o644,
        )?),
        _ => None,
    };
    let measured = fixed(fs, (&dir, &lab.payload), (runs, &mut samples), over, &done);
    let mut streams = vec![measured];
    if load != Load::None {
        streams.push(paced(fs, (&dir, &lab.payload), (load, stream), &done));
    }
    let ended = at_once(fs, streams);
    if let Some(handle) = stream {
        fs.close(handle)?;
    }
    for span in ended {
        span?;
    }
    lab.check()?;
    lab.clear(&dir)?;
    Ok(samples)
}

/// What the load writes, as often as it says, until the measured workload is done.
fn paced<'s>(
    fs: &'s dyn FileSystem,
    (dir, payload): (&'s str, &'s [u8]),
    (load, stream): (Load, Option<Handle>),
    done: &'s AtomicBool,
) -> Stream<'s> {
    let start_ns = fs.clock().now_ns();
    let (rate, unit) = match load {
        Load::None => (1, 1),
        Load::Stream(kib_per_s) => (u64::from(kib_per_s), 64),
        Load::Blocks(per_s) | Load::Names(per_s) => (u64::from(per_s), 1),
    };
    let mut made = 0u64;
    Box::new(move || {
        if done.load(Ordering::Relaxed) {
            return Ok(Next::End);
        }
        let due_ns = start_ns + ((made + unit) * 1_000_000_000).div_ceil(rate);
        if fs.clock().now_ns() < due_ns {
            return Ok(Next::At(due_ns));
        }
        match (load, stream) {
            (Load::Stream(_), Some(handle)) => {
                let piece = payload.get(..64 << 10).unwrap_or_default();
                fs.pwrite(handle, piece, made * 1024 % STREAM_BYTES)?;
            }
            (Load::Blocks(_), _) => one_block(fs, dir, payload, made)?,
            _ => one_name(fs, dir, made)?,
        }
        made += unit;
        Ok(Next::Step)
    })
}

/// 4 KiB to one of a thousand files, in turn.
fn one_block(fs: &dyn FileSystem, dir: &str, payload: &[u8], turn: u64) -> Result<(), Errno> {
    let path = format!("{dir}/b{}", turn % 1000);
    let flags = OpenFlags {
        create: true,
        ..OpenFlags::WRITE
    };
    let handle = fs.open(path.as_bytes(), flags, 0o644)?;
    let wrote = fs.pwrite(
        handle,
        payload.get(..4096).unwrap_or_default(),
        turn / 1000 % 16 * 4096,
    );
    fs.close(handle)?;
    wrote.map(|_| ())
}

/// An empty file made, or the one of fifty turns ago removed.
fn one_name(fs: &dyn FileSystem, dir: &str, turn: u64) -> Result<(), Errno> {
    if turn.is_multiple_of(2) {
        let path = format!("{dir}/n{turn}");
        let handle = fs.open(path.as_bytes(), OpenFlags::CREATE_NEW, 0o644)?;
        return fs.close(handle);
    }
    match turn.checked_sub(101) {
        Some(old) => fs.unlink(format!("{dir}/n{old}").as_bytes()),
        None => Ok(()),
    }
}

fn by_bytes(lab: &mut Lab<'_>) -> Res {
    lab.rounds(&["WR"], (lab.scale(2, 4), lab.scale(6, 20)), |lab, _| {
        for kib_per_s in [0u32, 1024, 4096, 16384, 65536, 262_144] {
            let load = if kib_per_s == 0 {
                Load::None
            } else {
                Load::Stream(kib_per_s)
            };
            let runs = lab.scale(8, 25);
            for sample in under(lab, load, runs)? {
                lab.add(Probe::at("WR", kib_per_s), 0, sample);
            }
            lab.measurements.commit(true);
        }
        Ok(())
    })
}

/// Ratios to the mean without load of the same round, so that drift cancels.
fn ratios(lab: &mut Lab<'_>, stem: &str, load: fn(u32) -> Load) -> Res {
    lab.rounds(&[stem], (3, 12), |lab, _| {
        let alone = fsage_stats::mean(&under(lab, Load::None, 15)?).max(1e-9);
        for rate in [256u32, 1024, 4096, 16384] {
            for sample in under(lab, load(rate), 15)? {
                lab.add(Probe::at(stem, rate), 0, sample / alone);
            }
            lab.measurements.commit(true);
        }
        Ok(())
    })
}

fn by_blocks(lab: &mut Lab<'_>) -> Res {
    ratios(lab, "WB", Load::Blocks)
}

fn by_names(lab: &mut Lab<'_>) -> Res {
    ratios(lab, "WM", Load::Names)
}

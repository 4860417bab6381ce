//! What is written behind slows the rest down: a fixed workload beside a paced writer (Smith 2001,
//! 4.4.3.2.5). By bytes as there, and by blocks and by metadata operations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fsage_core::{Errno, FileSystem, OpenFlags};

use crate::error::{Halt, Res};
use crate::lab::Lab;
use crate::probe::Probe;
use crate::registry::Procedure;

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
const TICK: Duration = Duration::from_millis(5);

/// The hot truncation test: create, write, read, truncate, write, remove.
fn fixed(lab: &Lab<'_>, dir: &str) -> Res {
    let fs = lab.fs;
    let piece = lab.payload.get(..64 << 10).unwrap_or_default();
    let mut buffer = vec![0u8; 64 << 10];
    for number in 0..REPEATS {
        let path = format!("{dir}/x{number}").into_bytes();
        let handle = fs.open(&path, OpenFlags::CREATE_NEW, 0o644)?;
        let mut work = || {
            fs.pwrite(handle, piece, 0)?;
            fs.pread(handle, &mut buffer, 0)?;
            fs.ftruncate(handle, 0)?;
            fs.pwrite(handle, piece, 0)?;
            Ok::<_, Errno>(())
        };
        let done = work();
        fs.close(handle)?;
        done?;
        fs.unlink(&path)?;
    }
    Ok(())
}

/// Mean seconds of the fixed workload under a load, and its samples.
fn under(lab: &mut Lab<'_>, load: Load, runs: usize) -> Res<Vec<f64>> {
    lab.settle()?;
    let dir = lab.fresh_dir("wb")?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (fs, payload) = (lab.fs, lab.payload.clone());
    let samples = std::thread::scope(|scope| {
        let writer = (load != Load::None)
            .then(|| scope.spawn(|| write_paced(fs, &dir, &payload, load, &stop, &done)));
        let mut samples = Vec::new();
        let mut result = Ok(());
        for _ in 0..runs {
            let start = lab.clock.now_ns();
            result = fixed(lab, &dir).and_then(|()| lab.check());
            if result.is_err() {
                break;
            }
            samples.push(lab.clock.now_ns().saturating_sub(start) as f64 / 1e9);
            // The load has to be there while the workload runs, and after it to be written.
            std::thread::sleep(TICK);
        }
        stop.store(true, Ordering::Relaxed);
        if let Some(writer) = writer {
            let wrote = writer.join().unwrap_or(Err(Errno::EIO));
            result = result.and(wrote.map_err(Halt::from));
        }
        result.map(|()| samples)
    });
    lab.clear(&dir)?;
    samples
}

fn write_paced(
    fs: &dyn FileSystem,
    dir: &str,
    payload: &[u8],
    load: Load,
    stop: &AtomicBool,
    done: &AtomicU64,
) -> Result<(), Errno> {
    let start = fs.clock().now_ns();
    let stream = match load {
        Load::Stream(_) => Some(fs.open(
            format!("{dir}/stream").as_bytes(),
            OpenFlags::CREATE_NEW,
            0o644,
        )?),
        _ => None,
    };
    let (rate, unit) = match load {
        Load::None => (0, 1),
        Load::Stream(kib_per_s) => (u64::from(kib_per_s), 64),
        Load::Blocks(per_s) | Load::Names(per_s) => (u64::from(per_s), 1),
    };
    let mut made = 0u64;
    let mut result = Ok(());
    while result.is_ok() && !stop.load(Ordering::Relaxed) {
        let due = fs.clock().now_ns().saturating_sub(start) / 1000 * rate / 1_000_000;
        if made + unit > due {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        result = match (load, stream) {
            (Load::Stream(_), Some(handle)) => {
                let piece = payload.get(..64 << 10).unwrap_or_default();
                fs.pwrite(handle, piece, made * 1024 % STREAM_BYTES)
                    .map(|_| ())
            }
            (Load::Blocks(_), _) => one_block(fs, dir, payload, made),
            _ => one_name(fs, dir, made),
        };
        made += unit;
        done.store(made, Ordering::Relaxed);
    }
    if let Some(handle) = stream {
        fs.close(handle)?;
    }
    result
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
            lab.book.commit(true);
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
            lab.book.commit(true);
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

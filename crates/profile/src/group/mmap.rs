//! Mapped files.

use fsage_core::{Handle, OpenFlags};
use fsage_host::observe::{Usage, Whose};

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "mapped files",
    stems: &[
        "MMAP", "MUNMAP", "MFR", "MFW", "MFWH", "MFRH", "MFRB", "MFRK", "MFWB", "MFWK", "MFWD",
    ],
    share: (15, 25),
    run: mapped,
}];

/// Sizes of mappings in bytes.
const SIZES: [u64; 3] = [PAGE, PAGE, LONG];
const PAGE: u64 = 4096;
const LONG: u64 = 1 << 20;

/// Sizes of new files without any space, in bytes: of each all comes by one fault.
const HOLES: [u64; 2] = [PAGE, 64 << 10];

/// Files of which each page was written by itself, and some that were written in one go.
const FILES: [(&str, usize); 2] = [("f", 24), ("b", 4)];
/// What the kernel maps where its large pages begin: no piece lies across the end of a table of pages.
const ALIGNED: u64 = 2 << 20;

fn mapped(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("m")?;
    let mut paths = FILES.map(|(name, files)| {
        let path = |number| format!("{dir}/{name}{number}").into_bytes();
        (0..files).map(path).collect::<Vec<_>>()
    });
    let [alone, together] = &mut paths;
    for path in &*alone {
        lab.make_file(path, 0)?;
        lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
            let mut pages = (0..LONG).step_by(PAGE as usize);
            pages.try_for_each(|at| lab.fill(handle, at, PAGE))
        })?;
    }
    for path in &*together {
        lab.make_file(path, 0)?;
        // Each write as long as its piece is to be, and where one begins.
        lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
            let piece = lab.payload.get(..LONG as usize).unwrap_or_default();
            let mut pieces = (0..ALIGNED).step_by(LONG as usize);
            pieces.try_for_each(|at| Ok(lab.fs.pwrite(handle, piece, at).map(drop)?))
        })?;
    }
    for path in together.iter().take(1) {
        lab.with_open(path, OpenFlags::READ, |lab, handle| {
            if lab.fs.platform().dirty_bytes(handle).is_none() {
                lab.absent("MFWD", "the system does not tell what is dirty of a file");
            }
            Ok(())
        })?;
    }
    lab.settle_in_time()?;
    lab.steady(&["MMAP", "MUNMAP", "MFR"]);
    if lab.fs.virtual_time().is_some() {
        lab.absent(
            "MFRH",
            "a target that computes its times does not count major faults",
        );
    }
    let stems = ["MMAP", "MUNMAP", "MFR", "MFW", "MFWH", "MFRB", "MFWB"];
    let rounds = (lab.scale(8, 16), lab.scale(30, 100));
    lab.rounds(&stems, rounds, |lab, round| {
        let gap = [0, 0, 1, 0, 2, 3, 4].get(round % 7).copied().unwrap_or(0);
        let write = round % 2 == 1;
        lab.settle_in_time()?;
        lab.begin(Batch::Cached);
        for path in &*alone {
            let size = lab.random.pick(&SIZES, PAGE);
            lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
                one(lab, handle, gap, size, write)
            })?;
        }
        if write {
            let sizes = HOLES.iter().cycle().take(HOLES.len() * 4);
            sizes.copied().try_for_each(|size| hole(lab, &dir, size))?;
        }
        for (number, path) in together.iter().enumerate() {
            lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
                if write && number == 0 {
                    stored(lab, handle)
                } else {
                    pieces(lab, handle, write)
                }
            })?;
        }
        lab.end().map(|_| ())
    })?;
    let note = "the target maps, touches and unmaps in one call: MMAP is half of what 4 KiB cost \
                beside the faults, MUNMAP what is left";
    lab.remark("MMAP", note);
    lab.remark("MUNMAP", note);
    lab.clear(&dir)
}

fn one(lab: &mut Lab<'_>, handle: Handle, gap: usize, size: u64, write: bool) -> Res {
    let (map, unmap) = (Probe::of("MMAP"), Probe::at("MUNMAP", (size >> 10) as u32));
    let fault = Probe::of(if write { "MFW" } else { "MFR" });
    let ((), clock_ns) = lab.timed(|| Ok(()))?;
    // The target asks for the size, maps and unmaps: three calls.
    let (_, fstat_ns) = lab.timed(|| lab.fs.fstat(handle))?;
    lab.pause(gap);
    let touches = touch(lab, handle, size, write, clock_ns)?;
    let base = lab.base_ns.first().copied().unwrap_or_default();
    let beside_ns = touches.total_ns - touches.spent_ns;
    let both = (beside_ns - fstat_ns - 2.0 * (base - clock_ns)).max(2.0);
    // Unmapping takes longer with every page, mapping does not.
    if size == PAGE {
        lab.add(map, gap, both / 2.0);
    }
    if let (false, Some(id)) = (write, map.id(gap)) {
        let one = lab
            .measurements
            .mean(id)
            .unwrap_or(both / 2.0)
            .min(both - 1.0);
        lab.add(unmap, gap, both - one);
    }
    for (_, ns) in touches.faults {
        lab.add(fault, 0, ns);
    }
    Ok(())
}

/// Maps a file, touches each page and unmaps it; how long the touches took that faulted, beside what all of it took, in
/// nanoseconds. A touch of a page that is far from the processor takes as long as a short fault, so they are counted.
fn touch(lab: &Lab<'_>, handle: Handle, size: u64, write: bool, clock_ns: f64) -> Res<Touches> {
    let pages = size.div_ceil(PAGE) as usize;
    let mut touches = Vec::with_capacity(pages);
    let computed = lab.fs.virtual_time().is_some();
    let before = Usage::of(Whose::Thread);
    let ((), total_ns) =
        lab.timed(|| (lab.fs).map_touch(handle, 0, size, write, &mut |ns| touches.push(ns)))?;
    let used = Usage::of(Whose::Thread).since(&before);
    let spent_ns = touches.iter().map(|&ns| ns as f64 + clock_ns).sum();
    let each = |(page, &ns): (usize, &u64)| (page, (ns as f64 - clock_ns).max(1.0));
    let mut faults: Vec<_> = touches.iter().enumerate().map(each).collect();
    faults.sort_by(|a, b| b.1.total_cmp(&a.1));
    let major = used.major_faults as usize;
    let count = used.minor_faults as usize + major;
    faults.truncate(if computed { pages } else { count });
    Ok(Touches {
        faults,
        major: if computed { 0 } else { major },
        spent_ns,
        total_ns,
    })
}

/// What stores take in a new file of so many bytes where nothing was written before.
fn hole(lab: &mut Lab<'_>, dir: &str, size: u64) -> Res {
    let path = format!("{dir}/h").into_bytes();
    let ((), clock_ns) = lab.timed(|| Ok(()))?;
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        lab.fs.ftruncate(handle, size)?;
        let touches = touch(lab, handle, size, true, clock_ns)?;
        for (number, &(_, ns)) in touches.faults.iter().enumerate() {
            // What brings pages takes longer than what finds them.
            let probe = if number < touches.major {
                Probe::at("MFRH", (size >> 10) as u32)
            } else {
                Probe::of("MFWH")
            };
            lab.add(probe, 0, ns);
        }
        Ok(())
    })?;
    Ok(lab.fs.unlink(&path)?)
}

/// What one mapping was.
struct Touches {
    /// The page and the time of each touch that faulted, the longest first, without what the clock takes.
    faults: Vec<(usize, f64)>,
    /// How many of them brought what was not in memory.
    major: usize,
    /// All touches together.
    spent_ns: f64,
    /// With mapping and unmapping.
    total_ns: f64,
}

/// How much a fault maps where pages came together, and how long it takes.
fn pieces(lab: &mut Lab<'_>, handle: Handle, write: bool) -> Res {
    let (fault, maps) = if write {
        ("MFWB", "MFWK")
    } else {
        ("MFRB", "MFRK")
    };
    let ((), clock_ns) = lab.timed(|| Ok(()))?;
    let touches = touch(lab, handle, ALIGNED, write, clock_ns)?;
    // Of a file's last piece Linux maps windows of 64 KiB, to be read.
    let pages = (LONG / PAGE) as usize;
    let others = touches.faults.into_iter().filter(|&(page, _)| page < pages);
    let mut count = 0;
    for (_, ns) in others {
        lab.add(Probe::of(fault), 0, ns);
        count += 1;
    }
    if count > 0 {
        lab.add(Probe::of(maps), 0, (LONG >> 10) as f64 / f64::from(count));
    }
    Ok(())
}

/// How much is dirty after one store.
fn stored(lab: &mut Lab<'_>, handle: Handle) -> Res {
    let platform = lab.fs.platform();
    if platform.dirty_bytes(handle) != Some(0) {
        return Ok(());
    }
    lab.fs.map_touch(handle, 0, PAGE, true, &mut |_| {})?;
    if let Some(bytes) = platform.dirty_bytes(handle) {
        lab.add(Probe::of("MFWD"), 0, bytes as f64 / 1024.0);
    }
    Ok(())
}

//! Mapped files.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "mapped files",
    stems: &["MMAP", "MUNMAP", "MFR", "MFW"],
    share: (15, 25),
    run: mapped,
}];

/// Sizes of mappings in bytes.
const SIZES: [u64; 3] = [PAGE, PAGE, 1 << 20];
const PAGE: u64 = 4096;
/// A touch under this found its page mapped already by the fault before it: entering the kernel for
/// a fault and leaving it alone takes longer.
const FAULT_LEAST_NS: u64 = 220;

fn mapped(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("m")?;
    let mut paths = Vec::new();
    for number in 0..24 {
        let path = format!("{dir}/f{number}").into_bytes();
        lab.make_file(&path, 1 << 20)?;
        paths.push(path);
    }
    lab.settle_in_time()?;
    lab.steady(&["MMAP", "MUNMAP", "MFR"]);
    let stems = ["MMAP", "MUNMAP", "MFR", "MFW"];
    let rounds = (lab.scale(8, 16), lab.scale(30, 100));
    lab.rounds(&stems, rounds, |lab, round| {
        let gap = [0, 0, 1, 0, 2, 3, 4].get(round % 7).copied().unwrap_or(0);
        lab.settle_in_time()?;
        lab.begin(Batch::Cached);
        for path in &paths {
            let size = lab.random.pick(&SIZES, PAGE);
            lab.with_open(path, OpenFlags::READ_WRITE, |lab, handle| {
                one(lab, handle, gap, size, round % 2 == 1)
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

fn one(lab: &mut Lab<'_>, handle: fsage_core::Handle, gap: usize, size: u64, write: bool) -> Res {
    let fs = lab.fs;
    let (map, unmap) = (Probe::of("MMAP"), Probe::at("MUNMAP", (size >> 10) as u32));
    let fault = Probe::of(if write { "MFW" } else { "MFR" });
    let ((), clock_ns) = lab.timed(|| Ok(()))?;
    // The target asks for the size, maps and unmaps: three calls.
    let (_, fstat_ns) = lab.timed(|| fs.fstat(handle))?;
    let mut touches = Vec::new();
    lab.pause(gap);
    let ((), total) =
        lab.timed(|| fs.map_touch(handle, 0, size, write, &mut |ns| touches.push(ns)))?;
    let spent: f64 = touches.iter().map(|&ns| ns as f64 + clock_ns).sum();
    let base = lab.base_ns.first().copied().unwrap_or_default();
    let both = (total - spent - fstat_ns - 2.0 * (base - clock_ns)).max(2.0);
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
    for ns in touches.into_iter().filter(|&ns| ns >= FAULT_LEAST_NS) {
        lab.add(fault, 0, (ns as f64 - clock_ns).max(1.0));
    }
    Ok(())
}

//! Truncation by size, cached and cold, and to sizes other than nothing.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "truncation",
        stems: &["TR", "TRX", "TRP", "TRXD", "TRPD", "TRD"],
        share: (20, 40),
        run: cached,
    },
    Procedure {
        name: "truncation of uncached files",
        stems: &["TRC"],
        share: (0, 40),
        run: cold,
    },
];

const POWERS: std::ops::RangeInclusive<u32> = 0..=16;
const GAP_OF_CHUNK: [usize; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4];

/// Sizes of files that are cut or grown while nothing of them is written back, and how many a round has of each.
const UNWRITTEN_KIB: [u32; 3] = [4, 64, 1024];
const UNWRITTEN: usize = 5;
/// By how much: whole blocks and a part of one.
const CUT: u64 = 16 << 10;
const ODD: u64 = 1900;
const GROWN: u64 = 5000;

/// Files of each size of a round: many small ones, one of the largest.
fn count(power: u32) -> usize {
    match power {
        0..=8 => 6,
        9..=11 => 3,
        _ => 1,
    }
}

fn make(lab: &mut Lab<'_>, dir: &str) -> Res<Vec<(Vec<u8>, u32)>> {
    let mut room = lab.room_bytes();
    let mut files = Vec::new();
    for power in POWERS {
        let bytes = 1024u64 << power;
        for number in 0..count(power) {
            if room < bytes {
                break;
            }
            room -= bytes;
            let path = format!("{dir}/t{power}-{number}").into_bytes();
            lab.make_file(&path, bytes)?;
            files.push((path, power));
        }
        lab.check()?;
    }
    lab.random.shuffle(&mut files);
    Ok(files)
}

fn cut(lab: &mut Lab<'_>, stem: &str, files: &[(Vec<u8>, u32)], kind: Batch) -> Res {
    let fs = lab.fs;
    for chunk in files.chunks(8) {
        lab.begin(kind);
        for (path, power) in chunk {
            let probe = Probe::at(stem, 1 << power);
            if kind == Batch::Cached {
                lab.bring_back(path, 1024 << power)?;
            }
            lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                lab.call(probe, 0, || fs.ftruncate(handle, 0))
            })?;
        }
        lab.end()?;
    }
    Ok(())
}

fn cached(lab: &mut Lab<'_>) -> Res {
    let rounds = (lab.scale(2, 4), lab.scale(4, 12));
    lab.rounds(
        &["TR", "TRX", "TRP", "TRXD", "TRPD", "TRD"],
        rounds,
        |lab, _| {
            let dir = lab.fresh_dir("t")?;
            let files = make(lab, &dir)?;
            lab.settle()?;
            cut(lab, "TR", &files, Batch::Cached)?;
            partly(lab, &dir)?;
            unwritten(lab, &dir)?;
            lab.clear(&dir)
        },
    )
}

/// Small files grown, larger ones halved.
fn partly(lab: &mut Lab<'_>, dir: &str) -> Res {
    let fs = lab.fs;
    for (stem, size, new) in [("TRX", 4u64 << 10, 1u64 << 20), ("TRP", 64 << 10, 32 << 10)] {
        let probe = Probe::of(stem);
        let mut paths = Vec::new();
        for number in 0..64 {
            let path = format!("{dir}/{stem}{number}").into_bytes();
            lab.make_file(&path, size)?;
            paths.push(path);
        }
        lab.settle()?;
        for chunk in paths.chunks(8) {
            let gap = lab.random.pick(&GAP_OF_CHUNK, 0);
            lab.begin(Batch::Cached);
            for path in chunk {
                lab.with_open(path, OpenFlags::WRITE, |lab, handle| {
                    lab.call(probe, gap, || fs.ftruncate(handle, new))
                })?;
            }
            lab.end()?;
        }
    }
    Ok(())
}

/// Files cut and grown before anything of them was written back.
fn unwritten(lab: &mut Lab<'_>, dir: &str) -> Res {
    let fs = lab.fs;
    for kib in UNWRITTEN_KIB {
        let size = u64::from(kib) << 10;
        if lab.room_bytes() < 2 * UNWRITTEN as u64 * (size + CUT) {
            break;
        }
        let changes = [
            ("TRPD", size + CUT, size - ODD),
            ("TRXD", size, size + GROWN),
            ("TRD", size, 0),
        ];
        for (stem, size, new) in changes {
            lab.begin(Batch::Blocking);
            for number in 0..UNWRITTEN {
                let path = format!("{dir}/{stem}{kib}-{number}").into_bytes();
                lab.make_file(&path, size)?;
                lab.with_open(&path, OpenFlags::WRITE, |lab, handle| {
                    lab.call(Probe::at(stem, kib), 0, || fs.ftruncate(handle, new))
                })?;
            }
            lab.end()?;
        }
    }
    Ok(())
}

fn cold(lab: &mut Lab<'_>) -> Res {
    lab.rounds(&["TRC"], (lab.scale(1, 4), lab.scale(2, 12)), |lab, _| {
        let dir = lab.fresh_dir("t")?;
        let files = make(lab, &dir)?;
        lab.make_data_cold()?;
        cut(lab, "TRC", &files, Batch::Blocking)?;
        lab.clear(&dir)
    })
}

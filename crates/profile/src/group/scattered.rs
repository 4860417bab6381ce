//! What blocks cost that lie apart from each other.
//!
//! How many can be dirty before a write waits, and what writes wait from then on: btrfs keeps room for where each of them
//! will be, and writes all where it finds none. And what it takes to find space for each of a new file's.

use fsage_core::OpenFlags;

use super::changes::{WAITED_NS, found, waits};
use super::sync::{fresh, write};
use crate::error::{Halt, Res};
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "scattered writes without room",
        stems: &["BTH", "BTW"],
        share: (20, 15),
        run: scattered,
    },
    Procedure {
        name: "places of a new file",
        stems: &["FSYNR"],
        share: (5, 10),
        run: places,
    },
];

const FILE_BYTES: u64 = 64 << 20;
const BLOCK: u64 = 4096;
/// From one block to the next, in blocks: a prime, so that all come before one comes again.
const ELSEWHERE: u64 = 5167;
/// How long is looked, and how many blocks are written at the most, in a quick and in a full measurement.
const LOOK_NS: (usize, usize) = (1_500_000_000, 10_000_000_000);
const MOST: (usize, usize) = (4_000, 16_000);
/// The least share of the time of all writes that those which wait take where room is what they wait for.
const WAITING_SHARE: f64 = 0.5;
/// Blocks of a new file, and how far one begins from the next where they lie apart.
const PLACES: u64 = 64;
const APART: u64 = 1 << 20;

fn scattered(lab: &mut Lab<'_>) -> Res {
    let blocks = FILE_BYTES.min(lab.room_bytes() / 4) / BLOCK;
    if blocks <= ELSEWHERE {
        return Err(Halt::Absent(
            "too little free space for scattered blocks".to_owned(),
        ));
    }
    let path = lab.fresh("sb").into_bytes();
    lab.make_file(&path, blocks * BLOCK)?;
    lab.settle()?;
    let end_ns = lab.scale(LOOK_NS.0, LOOK_NS.1) as u64 + lab.clock.now_ns();
    let most = lab.scale(MOST.0, MOST.1).min(blocks as usize);
    let payload = std::mem::take(&mut lab.payload);
    let block = payload.get(..BLOCK as usize).unwrap_or_default();
    let done = lab.with_open(&path, OpenFlags::READ_WRITE, |lab, handle| {
        let mut took = Vec::with_capacity(most);
        while took.len() < most && !lab.over() && lab.clock.now_ns() < end_ns {
            let at = took.len() as u64 * ELSEWHERE % blocks * BLOCK;
            let (start, queued) = (lab.clock.now_ns(), lab.sched.run_delay_ns());
            lab.fs.pwrite(handle, block, at)?;
            let queued = lab.sched.run_delay_ns().saturating_sub(queued);
            let passed = lab.clock.now_ns().saturating_sub(start);
            took.push(passed.saturating_sub(queued) as f64);
            lab.check()?;
        }
        Ok(took)
    });
    lab.payload = payload;
    let took = done?;
    let none = "no write waited for room, by as much as was written (BTH)";
    found(lab, ("BTH", "BTW"), took.len(), waits_of(&took), none);
    lab.fs.unlink(&path)?;
    lab.settle_in_time()?;
    lab.rounds(&["BTW"], (1, 1), |_, _| Ok(()))
}

/// What so many writes tell, each by what it took.
fn waits_of(took: &[f64]) -> Option<(f64, Vec<f64>)> {
    let waiting: f64 = took.iter().filter(|&&ns| ns > WAITED_NS).sum();
    let all: f64 = took.iter().sum();
    waits(took).filter(|_| waiting > WAITING_SHARE * all)
}

/// New files of so many blocks, in one piece and apart, by turns.
fn places(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("sn")?;
    let mut paths = Vec::new();
    let rounds = (lab.scale(4, 8), lab.scale(12, 40));
    lab.rounds(&["FSYNR"], rounds, |lab, _| {
        lab.begin(Batch::Blocking);
        let together_ns = synced(lab, &dir, BLOCK, &mut paths)?;
        let apart_ns = synced(lab, &dir, APART, &mut paths)?;
        let each_ns = (apart_ns - together_ns).max(0.0) / (PLACES - 1) as f64;
        lab.add(Probe::of("FSYNR"), 0, each_ns);
        lab.end().map(|_| ())
    })?;
    paths.iter().try_for_each(|path| Ok(lab.fs.unlink(path)?))
}

/// What the fsync of a new file takes whose blocks lie so far from each other.
fn synced(lab: &mut Lab<'_>, dir: &str, every: u64, paths: &mut Vec<Vec<u8>>) -> Res<f64> {
    let (fs, path) = (lab.fs, fresh(lab, dir));
    paths.push(path.clone());
    lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
        for number in 0..PLACES {
            write(lab, handle, number * every, BLOCK as usize)?;
        }
        Ok(lab.timed(|| fs.fsync(handle))?.1)
    })
}

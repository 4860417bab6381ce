//! How many blocks apart from each other can be dirty before a write waits, and what writes wait from then on: btrfs keeps
//! room for where each of them will be, and writes all where it finds none.

use super::changes::{WAITED_NS, found, waits};
use crate::error::{Halt, Res};
use crate::lab::Lab;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "scattered writes without room",
    stems: &["BTH", "BTW"],
    share: (20, 15),
    run: scattered,
}];

const FILE_BYTES: u64 = 64 << 20;
const BLOCK: u64 = 4096;
/// From one block to the next, in blocks: a prime, so that all come before one comes again.
const ELSEWHERE: u64 = 5167;
/// How long is looked, and how many blocks are written at the most, in a quick and in a full measurement.
const LOOK_NS: (usize, usize) = (1_500_000_000, 10_000_000_000);
const MOST: (usize, usize) = (4_000, 16_000);
/// The least share of the time of all writes that those which wait take where room is what they wait for.
const WAITING_SHARE: f64 = 0.5;

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
    let done = lab.with_open(&path, fsage_core::OpenFlags::READ_WRITE, |lab, handle| {
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

//! How many changes of names fit before a call waits for room in which to keep them, and what a change waits from then
//! on: a file system with little room for metadata writes back and commits whenever a call cannot reserve what it needs.
//! In memory none waits for long; what is written back takes its time from those that go on.

use super::caches::record;
use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "changes without room",
    stems: &["MTH", "MTW", "DFH", "DFW"],
    share: (30, 20),
    run: changes,
}];

/// Directories in which files are made and removed, and what a file holds: small ones, as mail and sources.
const DIRS: usize = 10;
const FILE_BYTES: u64 = 8 << 10;
/// Every so many changes one removes a file, so that those that are not written back yet grow in number: each of them
/// takes room.
const REMOVES: usize = 3;
/// A change that takes longer waited for something.
pub(super) const WAITED_NS: f64 = 1e6;
/// After so many waits what a change waits on average is known at all, and into how many parts it is divided.
const LEAST_WAITS: usize = 3;
const PARTS: usize = 10;
/// Among the first files none is late: a call is that takes so many times what they take, and so long in nanoseconds.
const FIRST: usize = 50;
const LATE_TIMES: f64 = 8.0;
const LATE_NS: f64 = 200_000.0;
/// Files behind the first late one that tell what each costs; by how much more they cost, most parts of them, and in how
/// many of these others are late: a machine that became slower makes all of them dearer and few of them late.
const LEAST_BEHIND: usize = 200;
const DEARER: f64 = 1.25;
const DEARER_PARTS: usize = 8;
const LATE_PARTS: usize = 6;
/// How long is looked, and how many changes are tried at the most, in a quick and in a full measurement.
const LOOK_NS: (usize, usize) = (1_500_000_000, 10_000_000_000);
const MOST: (usize, usize) = (3_000, 20_000);

/// Files that are made, and some that go again.
struct Files {
    dir: String,
    made: usize,
    there: Vec<usize>,
}

impl Files {
    fn path(&self, number: usize) -> Vec<u8> {
        format!("{}/{}/{number}", self.dir, number % DIRS).into_bytes()
    }

    /// The next change; how long it took, without waiting for a processor.
    fn change(&mut self, lab: &mut Lab<'_>, turn: usize) -> Res<f64> {
        let at = lab.random.below(self.there.len().max(1));
        let (start, queued) = (lab.clock.now_ns(), lab.sched.run_delay_ns());
        if turn % REMOVES == REMOVES - 1 {
            let number = self.there.swap_remove(at);
            lab.fs.unlink(&self.path(number))?;
        } else {
            lab.make_file(&self.path(self.made), FILE_BYTES)?;
            self.there.push(self.made);
            self.made += 1;
        }
        let took = lab.clock.now_ns().saturating_sub(start);
        let queued = lab.sched.run_delay_ns().saturating_sub(queued);
        Ok(took.saturating_sub(queued) as f64)
    }
}

fn changes(lab: &mut Lab<'_>) -> Res {
    lab.settle()?;
    let dir = lab.fresh_dir("ch")?;
    for number in 0..DIRS {
        lab.fs.mkdir(format!("{dir}/{number}").as_bytes(), 0o755)?;
    }
    let end_ns = lab.scale(LOOK_NS.0, LOOK_NS.1) as u64 + lab.clock.now_ns();
    let room = (lab.room_bytes() / FILE_BYTES) as usize;
    let most = lab.scale(MOST.0, MOST.1).min(room);
    let mut files = Files {
        dir,
        made: 0,
        there: Vec::new(),
    };
    let (mut took, mut made) = (Vec::with_capacity(most), Vec::with_capacity(most));
    while took.len() < most && !lab.over() && lab.clock.now_ns() < end_ns {
        let before = files.made;
        let ns = files.change(lab, took.len())?;
        took.push(ns);
        if files.made > before {
            made.push((files.there.len(), ns));
        }
        lab.check()?;
    }
    // Where nothing takes long, what files cost more has all that calls wait for.
    let more = dearer(&made).filter(|_| !lab.stalls.slow_device);
    let waits = waits(&took).filter(|_| more.is_none());
    let dirty = made
        .iter()
        .map(|&(there, _)| there)
        .max()
        .unwrap_or_default();
    let none = match waits {
        Some(_) => "calls wait for room instead (MTW)",
        None => "no file cost more, by as many as were dirty (DFH)",
    };
    let none_waits = match more {
        Some(_) => "files cost more instead (DFW)",
        None => "no call waited for room, by as much as was changed (MTH)",
    };
    found(lab, ("DFH", "DFW"), dirty, more, none);
    found(lab, ("MTH", "MTW"), took.len(), waits, none_waits);
    // What is on the device makes room for what is removed.
    lab.settle_in_time()?;
    lab.clear(&files.dir)?;
    lab.rounds(&["MTW", "DFW"], (1, 1), |_, _| Ok(()))
}

/// How many files were dirty at the first that was late, and how much more than those before it the ones behind it took on
/// average, in each of some parts of them; nothing where most parts were no dearer, or had none that was late. Of files
/// that were made in turn, each with how many were dirty by then and what it took.
fn dearer(made: &[(usize, f64)]) -> Option<(f64, Vec<f64>)> {
    let mut first: Vec<f64> = made.get(..FIRST)?.iter().map(|&(_, ns)| ns).collect();
    first.sort_by(f64::total_cmp);
    let late_ns = LATE_NS.max(LATE_TIMES * first.get(FIRST / 2)?);
    let late = made.iter().position(|&(_, ns)| ns > late_ns)?;
    let (before, behind) = (made.get(..late)?, made.get(late + 1..)?);
    if late < FIRST || behind.len() < LEAST_BEHIND {
        return None;
    }
    let mean =
        |part: &[(usize, f64)]| part.iter().map(|&(_, ns)| ns).sum::<f64>() / part.len() as f64;
    let before_ns = mean(before);
    let parts = || behind.chunks(behind.len().div_ceil(PARTS));
    let dear = parts().filter(|part| mean(part) > DEARER * before_ns);
    let late_in = parts().filter(|part| part.iter().any(|&(_, ns)| ns > late_ns));
    if dear.count() < DEARER_PARTS || late_in.count() < LATE_PARTS {
        return None;
    }
    let more = parts()
        .map(|part| (mean(part) - before_ns).max(0.0))
        .collect();
    Some((made.get(late)?.0 as f64, more))
}

/// Keeps what calls tell, of which so many were tried: how many fit and what each takes longer from then on, by their metrics;
/// `none` says why it does not.
pub(super) fn found(
    lab: &mut Lab<'_>,
    (fit, longer): (&str, &str),
    tried: usize,
    fitted: Option<(f64, Vec<f64>)>,
    none: &str,
) {
    let Some((fits, parts)) = fitted else {
        let note =
            "none took longer again and again; time, or as many as are tried, ended the search";
        record(lab, fit, tried as f64, None, note);
        lab.absent(longer, none);
        return;
    };
    let note = "from then on calls took longer again and again";
    record(lab, fit, fits, Some(fits + 1.0), note);
    lab.begin(Batch::Blocking);
    for each_ns in parts {
        lab.add(Probe::of(longer), 0, each_ns);
    }
    lab.measurements.commit(false);
}

/// How many changes came before the first that waited, and what one waited on average in each of some parts of those
/// behind it; nothing where too few waited to tell.
pub(super) fn waits(took: &[f64]) -> Option<(f64, Vec<f64>)> {
    let first = took.iter().position(|&ns| ns > WAITED_NS)?;
    // The first wait made the room that the changes behind it use up.
    let behind = took.get(first + 1..)?;
    if behind.iter().filter(|&&ns| ns > WAITED_NS).count() < LEAST_WAITS {
        return None;
    }
    let parts = behind.chunks(behind.len().div_ceil(PARTS));
    let waited = |part: &[f64]| part.iter().filter(|&&ns| ns > WAITED_NS).sum::<f64>();
    let each = parts.map(|part| waited(part) / part.len() as f64);
    Some((first as f64, each.collect()))
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_waits_is_told_from_the_first_wait_on() {
        let call = 10_000.0;
        let waiting =
            |every: usize| move |n: usize| if n.is_multiple_of(every) { 40e6 } else { call };
        // Thirty fit; of those behind one of twenty waits 40 ms.
        let took: Vec<f64> = std::iter::repeat_n(call, 30)
            .chain((0..401).map(waiting(20)))
            .collect();
        let (fits, each) = waits(&took).unwrap();
        assert_eq!((fits, each.len()), (30.0, 10));
        assert!(each.iter().all(|&ns| ns == 2e6), "{each:?}");
        // One that came by chance is no sign that others wait, and none is none.
        let mut took = vec![call; 400];
        assert_eq!(waits(&took), None);
        took[100] = 30e6;
        assert_eq!(waits(&took), None);
        assert_eq!(waits(&[]), None);
    }

    #[test]
    fn files_that_cost_more_behind_a_late_one_are_told() {
        let made = |cost: &dyn Fn(usize) -> f64| -> Vec<(usize, f64)> {
            (0..1000).map(|n| (n / 2, cost(n))).collect()
        };
        let (fits, more) = dearer(&made(&|n| match n {
            ..300 => 20_000.0,
            300 => 15e6,
            _ if n % 40 == 0 => 1e6,
            _ => 50_000.0,
        }))
        .unwrap();
        assert_eq!((fits, more.len()), (150.0, 10));
        assert!(more.iter().all(|ns| (40e3..65e3).contains(ns)), "{more:?}");
        // A machine that became slower makes others dearer, not late.
        let slower = |n| [20_000.0, 30_000.0][usize::from(n > 300)];
        assert_eq!(
            dearer(&made(&|n| if n == 300 { 15e6 } else { slower(n) })),
            None
        );
        // One that is late by chance changes nothing; what grows slowly has no threshold; too few tell nothing.
        assert_eq!(
            dearer(&made(&|n| if n == 300 { 15e6 } else { 20_000.0 })),
            None
        );
        assert_eq!(dearer(&made(&|n| 20_000.0 + 100.0 * n as f64)), None);
        assert_eq!(
            dearer(&made(&|n| if n > 900 { 15e6 } else { 20_000.0 })),
            None
        );
        assert_eq!(dearer(&[]), None);
    }
}

//! Time: what a measurement may still begin, what it begins with, and what is left out.

use std::cell::Cell;
use std::collections::BTreeSet;

use crate::error::{Halt, Res};
use crate::lab::Lab;
use crate::probe::Probe;
use crate::registry::Procedure;

/// The reason of a metric that is absent because the time did not reach to it.
pub const NO_TIME: &str = "no time left";

/// Procedures by what they are worth to a prediction: what nearly every workload does, then what costs
/// most where it is done, then the rest.
const BY_VALUE: [&str; 51] = [
    "empty call",
    // It tells of a file system as it is made: what comes later gives its metadata more room.
    "changes without room",
    "block sizes",
    "cached lookups",
    "calls on cached files",
    "new files",
    "cached reads",
    "fsync, single",
    "cold files",
    "writes to existing files",
    "uncached reads of a large file",
    "directories, renames and links",
    "renames of files not written back",
    "removal of clean files",
    "cold lookups",
    "cached directories",
    "descriptors, locks, extended attributes",
    "mapped files",
    "fsync in sequences",
    "changes of attributes",
    "truncation",
    "copies that share blocks",
    "writes to uncached files",
    "scattered writes without room",
    "places of a new file",
    "fsyncs of many files",
    "slowdown by bytes written",
    "cold directories",
    "cold files of several threads",
    "removal of uncached files",
    "files made in a row",
    "closes of truncated and removed files",
    "read-ahead",
    "sparse files and reserved space",
    "hard links in a row",
    "files touched a while ago",
    "fsyncs of several threads",
    "sendfile to sockets",
    "first allocations after a cold start",
    "lookups of cached inodes",
    "removal of directories that held many",
    "page cache",
    "name and inode caches",
    "sync and ranges",
    "truncation of uncached files",
    "several threads",
    "uncached reads by distance",
    "lookups by directory size",
    "slowdown by blocks written",
    "slowdown by creates",
    "dirty throttling",
];

/// What makes names, and what comes before all that frees inodes, among which names that are made later would be
/// searched (`Lab::start_afresh`).
const MAKING: [&str; 4] = [
    "first allocations after a cold start",
    "directories, renames and links",
    "descriptors, locks, extended attributes",
    "files made in a row",
];
const FREEING: &str = "new files";
/// What passing over a freed inode takes at least, where that is done.
const PASSED_NS: f64 = 2.0;

/// The least that a procedure is begun with, for each part of its share: a fourth of what it has in a
/// quick measurement of the usual length.
const LEAST_NS_OF_SHARE: u64 = 16_000_000;

/// The share of what is left of a procedure's time that a population may take to make and to remove.
/// Some have four.
const OF_FILES: f64 = 0.2;
/// Fewer files are no population.
const LEAST_FILES: usize = 48;
/// What a file takes to make and to remove before any was made: in memory.
const FILE_NS: f64 = 30_000.0;
/// What is removed at the end was used last long ago, and a journal that others fill has to be waited for.
const CLEAN_UP_FACTOR: f64 = 3.0;
/// Files after which the older ones count half.
const FILES_KNOWN: f64 = 2000.0;

/// What things take here, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// Files made, and the time for all; the older ones count less.
    made: Cell<(f64, f64)>,
    removed: Cell<(f64, f64)>,
    /// Files that stand.
    standing: Cell<u64>,
    /// The last write-back of everything, and the last cold state, in nanoseconds.
    pub settle_ns: Cell<u64>,
    pub cold_ns: Cell<u64>,
    /// What making the file system anew took the last time.
    pub anew_ns: Cell<u64>,
    /// What write-backs, cold states and removals took so far.
    pub prepared_ns: Cell<u64>,
}

fn mean(of: &Cell<(f64, f64)>) -> f64 {
    let (count, ns) = of.get();
    if count > 0.0 { ns / count } else { FILE_NS }
}

fn count(of: &Cell<(f64, f64)>, files: f64, took_ns: u64) {
    let (count, ns) = of.get();
    let fade = if count > FILES_KNOWN { 0.5 } else { 1.0 };
    of.set((count * fade + files, ns * fade + took_ns as f64));
}

impl Costs {
    /// A file was made.
    pub(crate) fn made(&self, took_ns: u64) {
        count(&self.made, 1.0, took_ns);
        self.standing.set(self.standing.get() + 1);
    }

    /// What is no measurement took so long.
    pub(crate) fn prepared(&self, took_ns: u64) {
        let so_far = self.prepared_ns.get();
        self.prepared_ns.set(so_far.saturating_add(took_ns));
    }

    /// The file system was made anew: nothing stands.
    pub(crate) fn made_anew(&self, took_ns: u64) {
        self.anew_ns.set(took_ns);
        self.standing.set(0);
    }

    /// Whether anything stands.
    pub(crate) fn stands(&self) -> bool {
        self.standing.get() > 0
    }

    /// A tree with so many entries was removed.
    pub(crate) fn removed(&self, entries: u64, took_ns: u64) {
        self.prepared(took_ns);
        if entries > 0 {
            count(&self.removed, entries as f64, took_ns);
        }
        self.standing
            .set(self.standing.get().saturating_sub(entries));
    }

    /// What the removal of everything that stands is thought to take, in nanoseconds.
    pub(crate) fn removal_ns(&self) -> u64 {
        (self.standing.get() as f64 * mean(&self.removed)) as u64
    }

    /// What is kept for it, in nanoseconds.
    pub(crate) fn clean_up_ns(&self) -> u64 {
        (self.removal_ns() as f64 * CLEAN_UP_FACTOR) as u64
    }
}

impl Lab<'_> {
    /// Whether the procedure must not begin anything any more.
    pub(crate) fn spent(&self) -> bool {
        self.stopped() || self.clock.now_ns() >= self.limit_ns()
    }

    /// When it must have ended.
    pub(crate) fn limit_ns(&self) -> u64 {
        if self.sampled {
            self.hard_ns
        } else {
            self.last_ns
        }
    }

    /// Ends the procedure if what takes `ns` more cannot be done in its time, or if the user asked for the end.
    pub(crate) fn afford(&self, ns: u64) -> Res {
        if self.stopped() {
            return Err(Halt::Stopped);
        }
        if self.clock.now_ns().saturating_add(ns) >= self.limit_ns() {
            return Err(Halt::Time);
        }
        Ok(())
    }

    /// How many of so many files, each of a mean size, the procedure's time allows.
    pub(crate) fn files_in_time(&self, wanted: usize) -> usize {
        let left = self.deadline_ns.saturating_sub(self.clock.now_ns());
        let each = mean(&self.costs.made) + mean(&self.costs.removed);
        let most = (left as f64 * OF_FILES / each.max(1.0)) as usize;
        wanted.min(most.max(LEAST_FILES))
    }

    /// When the measurement must begin to clean up. What lies on a file system that goes with its target
    /// need not be removed.
    pub(crate) fn end_ns(&self, all_ns: u64) -> u64 {
        if self.own_device {
            return all_ns;
        }
        all_ns.saturating_sub(self.costs.clean_up_ns())
    }
}

fn rank(procedure: &Procedure) -> usize {
    rank_of(procedure.name)
}

fn rank_of(name: &str) -> usize {
    let place = BY_VALUE.iter().position(|&other| other == name);
    place.unwrap_or(usize::MAX)
}

/// Whether what it makes would be searched among inodes that were freed before, which this system passes over.
pub(crate) fn meets_freed(lab: &Lab<'_>, procedure: &Procedure) -> bool {
    let each = Probe::of("CRP").id(0);
    let each_ns = each.and_then(|id| lab.measurements.estimate(id));
    let makes = procedure.name == FREEING || MAKING.contains(&procedure.name);
    makes && each_ns.is_some_and(|ns| ns > PASSED_NS)
}

/// Its place where the most valuable comes first, and what makes names before what frees inodes.
fn turn(procedure: &Procedure) -> (usize, usize) {
    match MAKING.iter().position(|&name| name == procedure.name) {
        Some(place) => (rank_of(FREEING), place),
        None => (rank(procedure), MAKING.len()),
    }
}

/// What is begun with the time that is left over: the least that each of them takes, the cheapest first.
pub(crate) fn cheapest_first(
    procedures: &mut [&'static Procedure],
    share: impl Fn(&Procedure) -> u64,
) {
    procedures.sort_by_key(|p| (share(p), rank(p)));
}

/// The least that a procedure is begun with.
pub(crate) fn least_ns(share: u64) -> u64 {
    share * LEAST_NS_OF_SHARE
}

/// The most valuable first, which are cheap calls, each after what it depends on: for a time that was asked
/// for, of which the first cold state may take more than is thought.
pub(crate) fn by_value(mut procedures: Vec<&'static Procedure>) -> Vec<&'static Procedure> {
    procedures.sort_by_key(|p| turn(p));
    let mut ordered: Vec<&'static Procedure> = Vec::with_capacity(procedures.len());
    for procedure in &procedures {
        place(procedure, &procedures, &mut ordered);
    }
    ordered
}

fn place(
    one: &'static Procedure,
    all: &[&'static Procedure],
    ordered: &mut Vec<&'static Procedure>,
) {
    if ordered.iter().any(|p| p.name == one.name) {
        return;
    }
    let families = one
        .stems
        .iter()
        .filter_map(|s| fsage_core::metric::family(s));
    let needed: Vec<&str> = families
        .flat_map(|f| f.row().depends.iter().copied())
        .collect();
    for before in all {
        if before.name != one.name && before.stems.iter().any(|s| needed.contains(s)) {
            place(before, all, ordered);
        }
    }
    ordered.push(one);
}

/// Of the chosen procedures those for which there is time, the most valuable first.
pub(crate) fn affordable(
    chosen: &[&'static Procedure],
    time_ns: u64,
    share: impl Fn(&Procedure) -> u64,
) -> BTreeSet<&'static str> {
    let mut by_value: Vec<&&Procedure> = chosen.iter().collect();
    by_value.sort_by_key(|p| rank(p));
    let mut left = time_ns;
    let mut taken = BTreeSet::new();
    for procedure in by_value {
        let least = least_ns(share(procedure));
        // The most valuable is measured as well as the time allows.
        if least > left && taken.len() > 3 {
            continue;
        }
        left = left.saturating_sub(least);
        taken.insert(procedure.name);
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use fsage_core::FileSystem;

    use super::*;
    use crate::population::{Order, Population};
    use crate::registry::procedures;

    #[test]
    fn every_procedure_has_its_value() {
        let mut named: Vec<&str> = BY_VALUE.to_vec();
        let mut known: Vec<&str> = procedures().iter().map(|p| p.name).collect();
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(named, known);
    }

    #[test]
    fn the_most_valuable_comes_first_and_after_what_it_needs() {
        let order = by_value(procedures());
        assert_eq!(order.len(), procedures().len());
        let at = |name: &str| order.iter().position(|p| p.name == name).unwrap();
        assert!(at("empty call") < 3);
        assert!(at("calls on cached files") < at("cold files"));
        // What makes names comes before what removes any.
        for making in MAKING {
            assert!(at("calls on cached files") < at(making) && at(making) < at(FREEING));
            let usual = |name| procedures().iter().position(|p| p.name == name).unwrap();
            assert!(usual(making) < usual(FREEING), "{making}");
        }
        for (place, procedure) in order.iter().enumerate() {
            let families = procedure.stems.iter();
            let families = families.filter_map(|s| fsage_core::metric::family(s));
            for needed in families.flat_map(|f| f.row().depends) {
                let owner = order.iter().position(|p| p.stems.contains(needed));
                assert!(owner.unwrap() <= place, "{}: {needed}", procedure.name);
            }
        }
    }

    #[test]
    fn what_makes_names_is_not_measured_again_where_freed_inodes_are_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let options = fsage_host::HostOptions::default();
        let fs = fsage_host::HostFs::open(dir.path(), options).unwrap();
        let stop = AtomicBool::new(false);
        let mut lab = Lab::new(&fs, (None, None), "work".to_owned(), 1, true, &stop);
        let all = procedures();
        let meets = |lab: &Lab<'_>| -> Vec<&str> {
            let met = all.iter().filter(|p| meets_freed(lab, p));
            met.map(|p| p.name).collect()
        };
        assert_eq!(meets(&lab), [""; 0], "nobody knows");
        let mut passes = |ns: f64| {
            lab.give(Probe::of("CRP"), (ns, None), "runs");
            meets(&lab).len()
        };
        assert_eq!((passes(0.5), passes(50.0)), (0, MAKING.len() + 1));
        assert!(meets(&lab).contains(&FREEING) && !meets(&lab).contains(&"cold files"));
    }

    #[test]
    fn whatever_looks_at_the_time_heeds_a_request_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let options = fsage_host::HostOptions::default();
        let fs = fsage_host::HostFs::open(dir.path(), options).unwrap();
        fs.mkdir(b"work", 0o700).unwrap();
        let stop = AtomicBool::new(false);
        let mut lab = Lab::new(&fs, (None, None), "work".to_owned(), 1, true, &stop);
        assert!(!lab.spent() && !lab.over() && !lab.part_over(usize::MAX));
        assert_eq!(lab.make_file(b"work/file", 4096), Ok(()));
        stop.store(true, Ordering::Relaxed);
        assert!(lab.spent() && lab.over() && lab.part_over(0));
        // A population of thousands is made of these.
        assert_eq!(lab.make_file(b"work/another", 4096), Err(Halt::Stopped));
        // A batch is ended without pauses, and what is in it is no sample any more.
        lab.begin(crate::lab::Batch::Changing);
        let called = lab.call(Probe::of("CR"), crate::lab::LONGEST, || Ok(1));
        assert_eq!((called, lab.measurements.pending()), (Ok(1), 0));
        assert_eq!(lab.end(), Err(Halt::Stopped));
        let made = Population::plan(&mut lab, 1000, 8, Order::Scattered);
        assert_eq!(made.map(|_| ()), Err(Halt::Stopped));
    }

    #[test]
    fn a_short_time_goes_to_the_most_valuable() {
        let quick: Vec<_> = procedures().into_iter().filter(|p| p.share.0 > 0).collect();
        let share = |p: &Procedure| u64::from(p.share.0);
        let all = affordable(&quick, 48_000_000_000, share);
        assert_eq!(all.len(), quick.len());
        let few = affordable(&quick, 2_000_000_000, share);
        assert!(few.len() < quick.len() && few.contains("calls on cached files"));
        assert!(!few.contains("cold files of several threads"), "{few:?}");
        assert!(affordable(&quick, 1, share).contains("empty call"));
    }
}

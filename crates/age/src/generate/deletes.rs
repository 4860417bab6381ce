//! When files went that one snapshot has and the next has not.

use fsage_workload::random::Random;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// How deletions are given their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletes {
    /// At random while there is other activity, as in the papers.
    Uniform,
    /// By what is known: nothing went after its directory's last change or after its blocks were another's, nor
    /// before it was last in the way of another; what went in one directory mostly went together, and what went near
    /// other activity there went soon after it.
    Learnt,
}

impl Deletes {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Learnt => "learnt",
        }
    }
}

/// How programs delete; learnt from traces by `fsage age short-lived`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Habits {
    /// Deletions that follow another one in the same directory within ten seconds, 0 to 1.
    pub together: f64,
    /// Of the others, those that follow another operation there within ten seconds, 0 to 1.
    pub near: f64,
    /// Mean of what lies between within these ten seconds.
    pub gap_s: f64,
}

impl Default for Habits {
    /// Where no trace was learnt from: `rm -r` and `make clean` come before single deletions.
    fn default() -> Self {
        Self {
            together: 0.7,
            near: 0.5,
            gap_s: 0.5,
        }
    }
}

/// A file that went.
#[derive(Debug, Clone, Copy)]
pub struct Removal {
    /// Its inode.
    pub ino: u64,
    /// Its directory.
    pub dir: u64,
    /// Whether it is one itself.
    pub directory: bool,
    /// When its directory last changed, where that is known and lies between the snapshots.
    pub changed_ns: Option<u64>,
    /// When it was last in the way of another file's blocks.
    pub kept_ns: Option<u64>,
    /// When the first of its blocks were another file's.
    pub reused_ns: Option<u64>,
    /// When its inode was made anew.
    pub replaced_ns: Option<u64>,
}

/// A time for each, directories after what lay in them. `busy` are the times of other operations by directory,
/// `range` the first and last of all.
pub fn remove_times(
    deletes: Deletes,
    removals: &[Removal],
    busy: &FxHashMap<u64, Vec<u64>>,
    range: (u64, u64),
    habits: Habits,
    random: &mut Random,
) -> Vec<(u64, u64)> {
    let mut times: FxHashMap<u64, u64> = FxHashMap::default();
    let uniform = |random: &mut Random, until: u64| {
        range.0 + random.below(until.saturating_sub(range.0).max(1))
    };
    match deletes {
        Deletes::Uniform => {
            for removal in removals {
                let ns = removal
                    .replaced_ns
                    .unwrap_or_else(|| uniform(random, range.1));
                times.insert(removal.ino, ns);
            }
        }
        Deletes::Learnt => learnt(removals, busy, range, habits, random, &mut times),
    }
    after_contents(removals, &mut times);
    removals
        .iter()
        .filter_map(|r| Some((r.ino, *times.get(&r.ino)?)))
        .collect()
}

/// No directory goes before what lies in it.
fn after_contents(removals: &[Removal], times: &mut FxHashMap<u64, u64>) {
    let above: FxHashMap<u64, u64> = removals.iter().map(|r| (r.ino, r.dir)).collect();
    for removal in removals {
        let (mut ns, mut at) = (times.get(&removal.ino).copied().unwrap_or(0), removal.dir);
        for _ in 0..above.len() {
            let Some(time) = times.get_mut(&at) else {
                break;
            };
            if *time > ns {
                break;
            }
            ns += 1;
            *time = ns;
            let Some(&next) = above.get(&at) else { break };
            at = next;
        }
    }
}

fn learnt(
    removals: &[Removal],
    busy: &FxHashMap<u64, Vec<u64>>,
    range: (u64, u64),
    habits: Habits,
    random: &mut Random,
    times: &mut FxHashMap<u64, u64>,
) {
    let gone: FxHashMap<u64, &Removal> = removals.iter().map(|r| (r.ino, r)).collect();
    // What lay in a directory that went, went with the highest one of these.
    let tree_of = |removal: &Removal| {
        let mut top = *removal;
        for _ in 0..gone.len() {
            match gone.get(&top.dir) {
                Some(above) if above.directory => top = **above,
                _ => break,
            }
        }
        top
    };
    let gap_ns = (habits.gap_s.clamp(0.0, 10.0) * 1e9) as u64;
    let chance = |random: &mut Random, share: f64| {
        (random.below(1 << 32) as f64) < share.clamp(0.0, 1.0) * f64::from(u32::MAX)
    };
    // The last that went in a directory, and one by one before it.
    let mut last: FxHashMap<u64, u64> = FxHashMap::default();
    for removal in removals.iter().rev() {
        if let Some(ns) = removal.replaced_ns {
            times.insert(removal.ino, ns);
            continue;
        }
        let top = tree_of(removal);
        let key = if top.ino == removal.ino {
            removal.dir
        } else {
            top.ino
        };
        let there = busy.get(&top.dir).map_or(&[][..], Vec::as_slice);
        let changed = top.changed_ns.unwrap_or(range.1);
        let until = removal.reused_ns.unwrap_or(changed).min(changed);
        let earlier = |random: &mut Random, ns: u64| {
            let ns = ns.saturating_sub(random.exponential(gap_ns));
            ns.min(until).max(range.0)
        };
        let in_tree = top.ino != removal.ino;
        let ns = match last.get(&key) {
            Some(&ns) if in_tree || chance(random, habits.together) => earlier(random, ns),
            // A change of the directory that nothing made explains was the deletion.
            None if until == changed && top.changed_ns.is_some_and(|c| !there.contains(&c)) => {
                until
            }
            _ if !there.is_empty() && chance(random, habits.near) => {
                let at = random.below(there.len() as u64) as usize;
                let ns = there.get(at).copied().unwrap_or(until);
                (ns + random.exponential(gap_ns)).min(until)
            }
            _ => range.0 + random.below(until.saturating_sub(range.0).max(1)),
        };
        let ns = ns.max(
            removal
                .kept_ns
                .map_or(0, |kept| kept.saturating_add(1).min(until)),
        );
        last.insert(key, ns);
        times.insert(removal.ino, ns);
    }
}

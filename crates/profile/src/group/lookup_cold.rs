//! Lookups that reach the device, by their relation to the lookup before, and those whose inode is
//! cached and whose name is not.

use std::collections::BTreeSet;

use fsage_core::{Access, Errno, OpenFlags};

use super::elsewhere::Elsewhere;
use crate::error::{Halt, Res};
use crate::lab::{Batch, LONG_ORDER, Lab};
use crate::population::{FILE_COMPONENTS, Order, Population};
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::walk;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "cold lookups",
        stems: &["LUS_NC", "LUN_NC", "LUF_NC", "LUR_NC", "LUM_NC"],
        share: (40, 50),
        run: uncached,
    },
    Procedure {
        name: "lookups of cached inodes",
        stems: &["LUS_AC", "LUR_AC"],
        share: (15, 20),
        run: by_another_name,
    },
    Procedure {
        name: "first allocations after a cold start",
        stems: &ALLOCATIONS,
        share: (15, 20),
        run: first_allocations,
    },
    Procedure {
        name: "lookups by directory size",
        stems: &["LUD"],
        share: (0, 25),
        run: by_size,
    },
];

/// The mean of access of a cached directory: what is not the last component.
fn shallow(lab: &Lab<'_>, dir: &str) -> Res<f64> {
    let mut times = Vec::new();
    for _ in 0..50 {
        times.push(
            lab.timed(|| lab.fs.access(dir.as_bytes(), Access::Exists))?
                .1,
        );
    }
    Ok(fsage_stats::median(&times))
}

/// Inodes that the model takes to come with one request (`predict`, lookups): files in creation order.
const TOGETHER: usize = 16;

/// Which of the files that are looked up are samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sampled {
    All,
    /// Those before which more than [`TOGETHER`] of their directory were: the device is among inodes again after it has
    /// read the directory's block.
    Later,
    /// Those whose inode came with one that was asked for before: of [`TOGETHER`] in creation order some before and
    /// some behind were.
    There,
    /// Those beside which none was asked for.
    Apart,
}

impl Sampled {
    /// Whether a file is one, of which `place` others of its directory were asked for before.
    fn takes(self, number: usize, place: usize, looked_up: &BTreeSet<usize>) -> bool {
        let before = looked_up.range(..number).next_back();
        let behind = looked_up.range(number + 1..).next();
        match self {
            Self::All => true,
            Self::Later => place > TOGETHER,
            Self::There => before.zip(behind).is_some_and(|(a, b)| b - a <= TOGETHER),
            Self::Apart => {
                before.is_none_or(|a| number - a >= TOGETHER)
                    && behind.is_none_or(|b| b - number >= TOGETHER)
            }
        }
    }
}

/// Looks the items of an order up; samples are the last components alone. `looked_up` are those that were before since
/// all was made cold.
fn visit(
    lab: &mut Lab<'_>,
    (population, order): (&Population, &[usize]),
    (probe, sampled): (Probe, Sampled),
    looked_up: &mut BTreeSet<usize>,
) -> Res {
    let fs = lab.fs;
    let Some(first) = population.dirs.first() else {
        return Ok(());
    };
    fs.access(first.as_bytes(), Access::Exists)?;
    let rest = shallow(lab, first)?;
    let mut in_dir = (usize::MAX, 0);
    lab.cold_batch(probe, |lab| {
        for (taken, &index) in order.iter().enumerate() {
            let Some(item) = population.items.get(index) else {
                continue;
            };
            // Neighbours share what one request of the device brings.
            if lab.part_over(taken / if order.len() > LONG_ORDER { 4 } else { 1 }) {
                break;
            }
            let place = if in_dir.0 == item.dir {
                in_dir.1 + 1
            } else {
                0
            };
            in_dir = (item.dir, place);
            let ((), ns) = lab.timed(|| fs.access(&item.path, Access::Exists))?;
            if sampled.takes(item.number, place, looked_up) {
                lab.add(probe, 0, (ns - rest).max(1.0));
            }
            looked_up.insert(item.number);
        }
        Ok(())
    })
}

fn uncached(lab: &mut Lab<'_>) -> Res {
    let files = lab.scale(1600, 4500);
    let spread = Population::create(lab, files, 45, Order::ByDirectory)?;
    // A directory of thousands has many blocks, which would be in the lookups far away in it too.
    let one = if has_room(&spread) {
        Population::default()
    } else {
        let files = lab.scale(1000, 3000);
        Population::create(lab, files, 1, Order::ByDirectory)?
    };
    let (next, near, far) = (
        Probe::of("LUN_NC"),
        Probe::of("LUS_NC"),
        Probe::of("LUF_NC"),
    );
    // Of few files there are too few of those.
    let in_order = if has_room(&spread) {
        Sampled::Later
    } else {
        Sampled::All
    };
    let elsewhere = Elsewhere::create(lab)?;
    let stems = ["LUS_NC", "LUN_NC", "LUF_NC", "LUR_NC", "LUM_NC"];
    lab.rounds(&stems, (lab.scale(2, 4), lab.scale(3, 10)), |lab, _| {
        lab.begin_part(5);
        elsewhere.make_cold(lab)?;
        // Every directory is warm before its files are asked for, or the cost would be two.
        let order: Vec<usize> = (0..spread.items.len()).collect();
        warm(lab, &spread)?;
        visit(
            lab,
            (&spread, &order),
            (next, in_order),
            &mut BTreeSet::new(),
        )?;
        lab.begin_part(4);
        elsewhere.make_cold(lab)?;
        warm(lab, &spread)?;
        let order: Vec<usize> = (0..spread.dirs.len())
            .flat_map(|d| walk::near(&mut lab.random, &spread.of_dir(d)))
            .collect();
        visit(
            lab,
            (&spread, &order),
            (near, Sampled::There),
            &mut BTreeSet::new(),
        )?;
        lab.begin_part(3);
        if !one.items.is_empty() {
            elsewhere.make_cold(lab)?;
            warm(lab, &one)?;
            let order = walk::far(&mut lab.random, one.items.len(), one.items.len() / 10);
            visit(
                lab,
                (&one, &order),
                (far, Sampled::Apart),
                &mut BTreeSet::new(),
            )?;
        }
        lab.begin_part(2);
        elsewhere.make_cold(lab)?;
        one_of_each(lab, &spread)?;
        lab.begin_part(1);
        elsewhere.make_cold(lab)?;
        missing(lab, &spread)
    })?;
    if !one.items.is_empty() {
        one.discard(lab)?;
    }
    elsewhere.discard(lab)?;
    spread.discard(lab)
}

fn warm(lab: &Lab<'_>, population: &Population) -> Res {
    for dir in &population.dirs {
        lab.fs.access(dir.as_bytes(), Access::Exists)?;
    }
    Ok(())
}

/// Whether directories hold so many files that two of one are [`TOGETHER`] and more apart, and from those of the next.
fn has_room(population: &Population) -> bool {
    population.items.len() > population.dirs.len() * (2 * TOGETHER + 2)
}

/// One file in each directory, the directories in random order: the inode of the directory is warm, what it holds is
/// not. Then another in each, far from the one before: the directory's block is there, and the inode is not.
fn one_of_each(lab: &mut Lab<'_>, population: &Population) -> Res {
    warm(lab, population)?;
    let mut looked_up = BTreeSet::new();
    for (stem, sampled, from) in [
        ("LUR_NC", Sampled::All, 0),
        ("LUF_NC", Sampled::Apart, TOGETHER + 2),
    ] {
        let mut order = Vec::new();
        let dirs = match sampled {
            Sampled::Apart => walk::far(
                &mut lab.random,
                population.dirs.len(),
                population.dirs.len(),
            ),
            _ => lab.random.order(population.dirs.len()),
        };
        for dir in dirs {
            let inside = population.of_dir(dir);
            let least = inside.len().saturating_sub(2 * TOGETHER).max(1);
            let near = inside.iter().skip(from).take(least);
            let near: Vec<usize> = near.copied().collect();
            if !near.is_empty() {
                order.push(lab.random.pick(&near, 0));
            }
        }
        visit(
            lab,
            (population, &order),
            (Probe::of(stem), sampled),
            &mut looked_up,
        )?;
        if !has_room(population) {
            break;
        }
    }
    Ok(())
}

/// One name that is not there in each directory.
fn missing(lab: &mut Lab<'_>, population: &Population) -> Res {
    let fs = lab.fs;
    warm(lab, population)?;
    let Some(first) = population.dirs.first() else {
        return Ok(());
    };
    let rest = shallow(lab, first)?;
    let probe = Probe::of("LUM_NC");
    let order = lab.random.order(population.dirs.len());
    lab.cold_batch(probe, |lab| {
        for dir in order {
            let Some(dir) = population.dirs.get(dir) else {
                continue;
            };
            let path = format!("{dir}/not-there.h").into_bytes();
            let (result, ns) = lab.timed(|| Ok(fs.access(&path, Access::Exists)))?;
            if result == Err(Errno::ENOENT) {
                lab.add(probe, 0, (ns - rest).max(1.0));
            }
        }
        Ok(())
    })
}

/// Hard links: the inode is warmed through one name and asked for by another.
fn by_another_name(lab: &mut Lab<'_>) -> Res {
    let fs = lab.fs;
    let files = lab.scale(400, 1500);
    let population = Population::create(lab, files, 40, Order::ByDirectory)?;
    let links = lab.fresh_dir("k")?;
    let mut same = Vec::new();
    let mut other = Vec::new();
    for (number, item) in population.items.iter().enumerate() {
        let path = if number % 2 == 0 {
            format!("{links}/l{number}")
        } else {
            let dir = lab.random.below(population.dirs.len());
            format!(
                "{}/l{number}",
                population.dirs.get(dir).map_or("", String::as_str)
            )
        };
        fs.link(&item.path, path.as_bytes())
            .map_err(|e| Halt::Absent(format!("the target refuses hard links: {e}")))?;
        if number % 2 == 0 {
            same.push(path);
        } else {
            other.push(path);
        }
    }
    let elsewhere = Elsewhere::create(lab)?;
    let rounds = (lab.scale(2, 4), lab.scale(3, 10));
    lab.rounds(&["LUS_AC", "LUR_AC"], rounds, |lab, _| {
        elsewhere.make_cold(lab)?;
        population.warm_names(lab)?;
        fs.access(links.as_bytes(), Access::Exists)?;
        let rest = shallow(lab, &links)?;
        lab.random.shuffle(&mut other);
        for (stem, paths) in [("LUS_AC", &same), ("LUR_AC", &other)] {
            let probe = Probe::of(stem);
            lab.begin(Batch::Blocking);
            for path in paths {
                let ((), ns) = lab.timed(|| fs.access(path.as_bytes(), Access::Exists))?;
                lab.add(probe, 0, (ns - rest).max(1.0));
            }
            lab.end()?;
        }
        Ok(())
    })?;
    elsewhere.discard(lab)?;
    lab.discard(&links)?;
    population.discard(lab)
}

/// Directories of the population.
const GROUPS: usize = 16;
const BLOCK: u64 = 4096;
const ALLOCATIONS: [&str; 3] = ["CRC", "MKDIRC", "WFC"];

/// The first create, the first mkdir and the first write after a cold start, in turn, in any directory, whose own blocks
/// are cached. Others beside it find what that brings.
fn first_allocations(lab: &mut Lab<'_>) -> Res {
    let fs = lab.fs;
    lab.start_afresh()?;
    let population = Population::create(lab, 400, GROUPS, Order::ByDirectory)?;
    let elsewhere = Elsewhere::create(lab)?;
    let rounds = (lab.scale(6, 12), lab.scale(12, 60));
    lab.rounds(&ALLOCATIONS, rounds, |lab, round| {
        elsewhere.make_cold(lab)?;
        let dir = lab.random.below(population.dirs.len());
        let Some(dir) = population.dirs.get(dir) else {
            return Ok(());
        };
        lab.with_open(dir.as_bytes(), OpenFlags::DIRECTORY, |_, h| {
            Ok(fs.read_dir(h)?)
        })?;
        let path = format!("{dir}/new{round}").into_bytes();
        match ALLOCATIONS.get(round % ALLOCATIONS.len()) {
            Some(&"MKDIRC") => {
                lab.begin(Batch::Blocking);
                let probe = Probe::of("MKDIRC");
                lab.call_path(probe, 0, FILE_COMPONENTS, || fs.mkdir(&path, 0o755))?;
            }
            Some(&"WFC") => return first_write(lab, &population),
            _ => {
                lab.begin(Batch::Blocking);
                let call = || fs.open(&path, OpenFlags::CREATE_NEW, 0o644);
                let handle = lab.call_path(Probe::of("CRC"), 0, FILE_COMPONENTS, call)?;
                fs.close(handle)?;
            }
        }
        lab.end().map(|_| ())
    })?;
    elsewhere.discard(lab)?;
    population.discard(lab)
}

/// Appends a block to any file.
fn first_write(lab: &mut Lab<'_>, population: &Population) -> Res {
    let fs = lab.fs;
    let item = lab.random.below(population.items.len());
    let Some(item) = population.items.get(item) else {
        return Ok(());
    };
    let end = fs.stat(&item.path)?.size_bytes;
    let at = end.next_multiple_of(BLOCK);
    lab.with_open(&item.path, OpenFlags::READ_WRITE, |lab, handle| {
        lab.begin(Batch::Blocking);
        lab.call(Probe::of("WFC"), 0, || {
            fs.pwrite(handle, &[1; BLOCK as usize], at)
        })?;
        lab.end()?;
        Ok(fs.ftruncate(handle, end)?)
    })
}

/// Links to one inode: under the limits of the common file systems.
const LINKS_OF_ONE: u32 = 30_000;

/// Names whose directory is in the page cache and which are not in the name cache themselves: all is
/// made cold, then the directory is listed. Names are links to one inode, which is warm.
fn by_size(lab: &mut Lab<'_>) -> Res {
    let fs = lab.fs;
    for entries in [10u32, 1000, 100_000] {
        let probe = Probe::at("LUD", entries);
        let dir = lab.fresh_dir("g")?;
        // Links cost a name and no inode. A new inode where the last one takes no more of them.
        let mut shared = vec![format!("{dir}/00000000")];
        lab.make_file(format!("{dir}/00000000").as_bytes(), 0)?;
        for number in 1..entries {
            let path = format!("{dir}/{number:08}");
            let linked = shared.last().is_some_and(|s| {
                number % LINKS_OF_ONE != 0 && fs.link(s.as_bytes(), path.as_bytes()).is_ok()
            });
            if !linked {
                lab.make_file(path.as_bytes(), 0)?;
                shared.push(path);
            }
            if number % 1024 == 0 {
                lab.check()?;
            }
        }
        let most = entries.min(400) as usize;
        lab.rounds(&["LUD"], (2, 6), |lab, _| {
            lab.make_cold()?;
            // A listing reads every block of the directory and makes no names.
            lab.with_open(dir.as_bytes(), OpenFlags::DIRECTORY, |_, h| {
                Ok(fs.read_dir(h)?)
            })?;
            for path in &shared {
                fs.access(path.as_bytes(), Access::Exists)?;
            }
            let rest = shallow(lab, &dir)?;
            lab.begin(Batch::Blocking);
            for _ in 0..most {
                let number = lab.random.below(entries as usize);
                let path = format!("{dir}/{number:08}").into_bytes();
                let ((), ns) = lab.timed(|| fs.access(&path, Access::Exists))?;
                lab.add(probe, 0, (ns - rest).max(1.0));
            }
            lab.end().map(|_| ())
        })?;
        lab.clear(&dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_those_whose_inode_surely_came_or_surely_did_not() {
        let looked_up = BTreeSet::from([10, 26, 60]);
        let of = |sampled: Sampled| {
            let all = (0..90).filter(|n| !looked_up.contains(n));
            let taken: Vec<usize> = all.filter(|&n| sampled.takes(n, n, &looked_up)).collect();
            (taken.first().copied(), taken.last().copied(), taken.len())
        };
        // Wherever blocks of sixteen begin, each file between two that are so near is in the block of one.
        assert_eq!(of(Sampled::There), (Some(11), Some(25), 15));
        assert_eq!(of(Sampled::Apart), (Some(42), Some(89), 17));
        assert_eq!(of(Sampled::All).2, 87);
        assert_eq!(of(Sampled::Later), (Some(17), Some(89), 71));
    }
}

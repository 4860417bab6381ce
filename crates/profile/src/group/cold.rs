//! Files and directories read from the device, by their relation to what was read before.

use std::ops::RangeInclusive;

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::{Batch, LONG_ORDER, Lab};
use crate::population::{Item, Population};
use crate::probe::Probe;
use crate::registry::Procedure;
use crate::walk;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "cold files",
        stems: &["RFN", "RFS", "RFF", "RFO", "RF"],
        share: (50, 60),
        run: files,
    },
    Procedure {
        name: "cold directories",
        stems: &["RDIRC", "RDIRCE"],
        share: (12, 15),
        run: directories,
    },
];

/// Files of a round that are read in no other: by their first 4 KiB, far away in one directory and in
/// any; and whole. What was read before may lie in the drive's own buffer, which no remount empties.
const FAR_OF_ROUND: usize = 90;
const ANY_OF_ROUND: usize = 110;
const WHOLE_OF_ROUND: usize = 90;
/// Files whose first 4 KiB are read, and what lies beside each. They end there: what read-ahead brings of a larger
/// file makes the next request wait, and is charged for what it is. No file system keeps 4 KiB in its inode.
const FIRST: (RangeInclusive<u32>, u64) = (4..=4, 24);
/// A device from which reads take less is memory.
const IN_MEMORY_NS: f64 = 1e5;
/// After which pauses reads far away come where that counts.
const GAP_OF_READ: [usize; 8] = [0, 2, 0, 3, 0, 4, 1, 4];
/// Rounds for which there are such files, in a quick and in a full measurement.
const ONCE_ROUNDS: (usize, usize) = (9, 16);

fn files(lab: &mut Lab<'_>) -> Res {
    let count = lab.scale(1600, 4500);
    // A request for more than 4 KiB is charged for the rest of it: larger files would count twice.
    let spread = Population::create_dense(lab, count, 45)?;
    let once = Once::create(lab)?;
    let stems = ["RFN", "RFS", "RFF", "RFO", "RF"];
    let rounds = (lab.scale(2, 4), lab.scale(3, ONCE_ROUNDS.1));
    lab.rounds(&stems, rounds, |lab, round| {
        lab.begin_part(5);
        let order: Vec<usize> = (0..spread.items.len()).collect();
        visit(lab, &spread, &order, "RFN")?;
        lab.begin_part(4);
        let order: Vec<usize> = (0..spread.dirs.len())
            .flat_map(|d| walk::near(&mut lab.random, &spread.of_dir(d)))
            .collect();
        visit(lab, &spread, &order, "RFS")?;
        lab.begin_part(3);
        let (one, order) = &once.one;
        visit(lab, one, of_round(order, round, FAR_OF_ROUND), "RFF")?;
        lab.begin_part(2);
        let (any, order) = &once.any;
        visit(lab, any, of_round(order, round, ANY_OF_ROUND), "RFO")?;
        lab.begin_part(1);
        whole(lab, &once, round)
    })?;
    super::sync::note_pauses(lab, &["RFF"]);
    once.discard(lab)?;
    spread.discard(lab)
}

/// Files that are read once, and their orders.
struct Once {
    /// Read by their first 4 KiB, in one directory and in many.
    one: (Population, Vec<usize>),
    any: (Population, Vec<usize>),
    /// Read whole, in many directories, and a few of 256 KiB beside them.
    whole: (Population, Vec<usize>),
    large: Vec<Item>,
}

impl Once {
    fn create(lab: &mut Lab<'_>) -> Res<Self> {
        let rounds = lab.scale(ONCE_ROUNDS.0, ONCE_ROUNDS.1);
        let any = Population::create_apart(lab, rounds * ANY_OF_ROUND, 45, FIRST)?;
        let any_order = scattered(lab, &any);
        let whole = Population::create_apart(lab, rounds * WHOLE_OF_ROUND, 45, (1..=64, 16))?;
        let whole_order = scattered(lab, &whole);
        let large = larger(lab, &whole)?;
        let one = Population::create_apart(lab, rounds * FAR_OF_ROUND * 4 / 3, 1, FIRST)?;
        let far = walk::far(&mut lab.random, one.items.len(), rounds * FAR_OF_ROUND);
        Ok(Self {
            one: (one, far),
            any: (any, any_order),
            whole: (whole, whole_order),
            large,
        })
    }

    /// What is left stays: inodes that are freed count for creates that come later, see `Lab::start_afresh`.
    fn discard(&self, lab: &Lab<'_>) -> Res {
        for population in [&self.one.0, &self.any.0, &self.whole.0] {
            population.discard(lab)?;
        }
        Ok(())
    }
}

/// The part of an order that is a round's; where files are few and rounds many, an earlier one again.
pub(super) fn of_round(order: &[usize], round: usize, most: usize) -> &[usize] {
    let parts = order.chunks(most.max(1));
    let place = round % parts.len().max(1);
    order.chunks(most.max(1)).nth(place).unwrap_or_default()
}

/// Files in random order, no two of one directory after each other.
pub(super) fn scattered(lab: &mut Lab<'_>, population: &Population) -> Vec<usize> {
    let mut last = usize::MAX;
    let order = lab.random.order(population.items.len());
    order
        .into_iter()
        .filter(|&i| {
            let dir = population.items.get(i).map_or(last, |item| item.dir);
            std::mem::replace(&mut last, dir) != dir
        })
        .collect()
}

/// A few files of 256 KiB beside the population's.
fn larger(lab: &mut Lab<'_>, population: &Population) -> Res<Vec<Item>> {
    let mut made = Vec::new();
    for (dir, path) in population.dirs.iter().enumerate().take(lab.scale(24, 45)) {
        let path = format!("{path}/large").into_bytes();
        lab.make_file(&path, 256 << 10)?;
        made.push(Item {
            path,
            size_kib: 256,
            dir,
            number: population.items.len() + dir,
        });
    }
    Ok(made)
}

/// Makes all cold, warms the names, and samples the first read of 4 KiB of each file of an order.
fn visit(lab: &mut Lab<'_>, population: &Population, order: &[usize], stem: &str) -> Res {
    lab.make_data_cold()?;
    population.warm_names(lab)?;
    let fs = lab.fs;
    let probe = Probe::of(stem);
    let mut buffer = vec![0u8; 4096];
    // Beside a device that is not memory, what processors' caches hold is nothing. Earlier rounds tell.
    let before = probe.id(0).and_then(|id| lab.measurements.mean(id));
    let pauses = stem == "RFF" && before.is_some_and(|ns| ns < IN_MEMORY_NS);
    let pauses = pauses && lab.fs.virtual_time().is_none();
    lab.cold_batch(probe, |lab| {
        for (taken, &index) in order.iter().enumerate() {
            let Some(item) = population.items.get(index) else {
                continue;
            };
            // Neighbours share what one request of the device brings.
            if lab.part_over(taken / if order.len() > LONG_ORDER { 4 } else { 1 }) {
                break;
            }
            lab.asked_bytes += buffer.len() as u64;
            let gap = GAP_OF_READ.get(taken % 8).filter(|_| pauses);
            lab.with_open(&item.path, OpenFlags::READ, |lab, handle| {
                let gap = gap.copied().unwrap_or(0);
                lab.call(probe, gap, || fs.pread(handle, &mut buffer, 0))
                    .map(|_| ())
            })?;
        }
        Ok(())
    })
}

/// Whole files by one call, in random order over the directories.
fn whole(lab: &mut Lab<'_>, once: &Once, round: usize) -> Res {
    lab.make_data_cold()?;
    let (population, order) = &once.whole;
    population.warm_names(lab)?;
    for item in &once.large {
        lab.fs.stat(&item.path)?;
    }
    let mut chosen: Vec<&Item> = of_round(order, round, WHOLE_OF_ROUND)
        .iter()
        .filter_map(|&i| population.items.get(i))
        .collect();
    chosen.extend(&once.large);
    lab.random.shuffle(&mut chosen);
    let fs = lab.fs;
    let mut buffer = vec![0u8; 256 << 10];
    lab.cold_batch(Probe::at("RF", 4), |lab| {
        for (taken, item) in chosen.into_iter().enumerate() {
            if lab.part_over(taken / 3) {
                break;
            }
            let probe = Probe::at("RF", item.size_kib);
            let Some(space) = buffer.get_mut(..(item.size_kib as usize) << 10) else {
                continue;
            };
            lab.asked_bytes += space.len() as u64;
            lab.with_open(&item.path, OpenFlags::READ, |lab, handle| {
                lab.call(probe, 0, || fs.pread(handle, space, 0))
                    .map(|_| ())
            })?;
        }
        Ok(())
    })
}

const ENTRIES: [usize; 4] = [1, 20, 200, 1000];

fn directories(lab: &mut Lab<'_>) -> Res {
    let mut dirs = Vec::new();
    for entries in ENTRIES {
        for _ in 0..if entries < 200 { 16 } else { 4 } {
            let dir = lab.fresh_dir("q")?;
            for number in 0..entries {
                lab.make_file(format!("{dir}/entry-{number:05}").as_bytes(), 0)?;
            }
            dirs.push((dir, entries));
        }
        lab.check()?;
    }
    let (fixed, each) = (Probe::of("RDIRC"), Probe::of("RDIRCE"));
    lab.rounds(
        &["RDIRC", "RDIRCE"],
        (lab.scale(3, 10), lab.scale(6, 20)),
        |lab, _| {
            lab.make_cold()?;
            let mut points = Vec::new();
            let order = lab.random.order(dirs.len());
            let before = lab.sectors_read();
            lab.begin(Batch::Blocking);
            for index in order {
                let Some((dir, entries)) = dirs.get(index) else {
                    continue;
                };
                // The open makes the inode warm; the listing is what reads.
                let calls = crate::dirents::list(lab, dir, 0)?;
                points.push((*entries as f64, (calls.iter().sum(), 1.0)));
            }
            if before.is_some() && lab.sectors_read() == before {
                lab.measurements.forget();
                return Ok(());
            }
            let Some((constant, slope)) = crate::dirents::fit(&points) else {
                return Ok(());
            };
            lab.add(fixed, 0, constant);
            lab.add(each, 0, slope);
            lab.end().map(|_| ())
        },
    )?;
    dirs.iter().try_for_each(|(dir, _)| lab.discard(dir))
}

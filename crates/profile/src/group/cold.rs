//! Files and directories read from the device, by their relation to what was read before.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::lab::{Batch, LONG_ORDER, Lab};
use crate::population::{Item, Order, Population};
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

fn files(lab: &mut Lab<'_>) -> Res {
    let count = lab.scale(1600, 4500);
    let mut spread = Population::create(lab, count, 45, Order::ByDirectory)?;
    // Nothing is read of an empty file.
    spread.items.retain(|i| i.size_kib > 0);
    let large = larger(lab, &spread)?;
    let in_one = lab.scale(800, 2000);
    let mut one = Population::create(lab, in_one, 1, Order::ByDirectory)?;
    one.items.retain(|i| i.size_kib > 0);
    let stems = ["RFN", "RFS", "RFF", "RFO", "RF"];
    lab.rounds(&stems, (lab.scale(2, 4), lab.scale(3, 10)), |lab, _| {
        lab.begin_part(5);
        let order: Vec<usize> = (0..spread.items.len()).collect();
        visit(lab, &spread, &order, "RFN")?;
        lab.begin_part(4);
        let order: Vec<usize> = (0..spread.dirs.len())
            .flat_map(|d| walk::near(&mut lab.random, &spread.of_dir(d)))
            .collect();
        visit(lab, &spread, &order, "RFS")?;
        lab.begin_part(3);
        let order = walk::far(&mut lab.random, one.items.len(), one.items.len() / 6);
        visit(lab, &one, &order, "RFF")?;
        // A sixth of the files: later ones would lie beside what was read before.
        lab.begin_part(2);
        let order = scattered(lab, &spread, spread.items.len() / 6);
        visit(lab, &spread, &order, "RFO")?;
        lab.begin_part(1);
        whole(lab, &spread, &large)
    })?;
    one.remove(lab)?;
    spread.remove(lab)
}

/// Files in random order, no two of one directory after each other.
fn scattered(lab: &mut Lab<'_>, population: &Population, most: usize) -> Vec<usize> {
    let mut last = usize::MAX;
    let order = lab.random.order(population.items.len());
    order
        .into_iter()
        .filter(|&i| {
            let dir = population.items.get(i).map_or(last, |item| item.dir);
            std::mem::replace(&mut last, dir) != dir
        })
        .take(most)
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
    lab.cold_batch(|lab| {
        for (taken, &index) in order.iter().enumerate() {
            let Some(item) = population.items.get(index) else {
                continue;
            };
            // Neighbours share what one request of the device brings.
            if lab.part_over(taken / if order.len() > LONG_ORDER { 4 } else { 1 }) {
                break;
            }
            lab.with_open(&item.path, OpenFlags::READ, |lab, handle| {
                lab.call(probe, 0, || fs.pread(handle, &mut buffer, 0))
                    .map(|_| ())
            })?;
        }
        Ok(())
    })
}

/// Whole files by one call, in random order over the directories.
fn whole(lab: &mut Lab<'_>, population: &Population, large: &[Item]) -> Res {
    lab.make_data_cold()?;
    population.warm_names(lab)?;
    for item in large {
        lab.fs.stat(&item.path)?;
    }
    let order = scattered(lab, population, population.items.len() / 4);
    let mut chosen: Vec<&Item> = order
        .iter()
        .filter_map(|&i| population.items.get(i))
        .collect();
    chosen.extend(large);
    lab.random.shuffle(&mut chosen);
    let fs = lab.fs;
    let mut buffer = vec![0u8; 256 << 10];
    lab.cold_batch(|lab| {
        for (taken, item) in chosen.into_iter().enumerate() {
            if lab.part_over(taken / 3) {
                break;
            }
            let probe = Probe::at("RF", item.size_kib);
            let Some(space) = buffer.get_mut(..(item.size_kib as usize) << 10) else {
                continue;
            };
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
                lab.book.forget();
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
    for (dir, _) in dirs {
        crate::population::remove_tree(lab.fs, dir.as_bytes())?;
    }
    Ok(())
}

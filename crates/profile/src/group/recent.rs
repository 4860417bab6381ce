//! Calls on files that were touched a while ago: not in a core's own caches, but perhaps in the one
//! that cores share.

use fsage_core::OpenFlags;

use crate::error::Res;
use crate::group::calls::{FEW, stat_mean};
use crate::lab::{Batch, Lab};
use crate::population::{Order, Population};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "files touched a while ago",
    stems: &["OBJR", "RCR"],
    share: (8, 12),
    run: files,
}];

/// Files of all, with what they hold about 7 MiB: more than a core's own cache, less than most shared
/// ones.
const FILES: usize = 600;
const DIRS: usize = 24;
/// Requests, as large as the file or smaller.
const SIZES_KIB: [u32; 3] = [1, 4, 16];
/// stats of one sample.
const OBJECTS: usize = 128;

fn files(lab: &mut Lab<'_>) -> Res {
    let population = Population::create(lab, FILES, DIRS, Order::Scattered)?;
    lab.settle_in_time()?;
    population.warm_data(lab)?;
    lab.steady(&["OBJR", "RCR"]);
    let mut buffer = vec![0u8; 16 << 10];
    let rounds = (lab.scale(4, 6), lab.scale(12, 40));
    lab.rounds(&["OBJR", "RCR"], rounds, |lab, round| {
        let kib = SIZES_KIB.get(round % 3).copied().unwrap_or(4);
        first_reads(lab, &population, kib, &mut buffer)?;
        objects(lab, &population)
    })?;
    population.discard(lab)
}

/// Every file is opened and read once, in random order.
fn first_reads(lab: &mut Lab<'_>, population: &Population, kib: u32, buffer: &mut [u8]) -> Res {
    let order = lab.random.order(population.items.len());
    let _quiet = lab.sched.quiet();
    let fs = lab.fs;
    let probe = Probe::at("RCR", kib);
    let Some(piece) = buffer.get_mut(..(kib as usize) << 10) else {
        return Ok(());
    };
    lab.begin(Batch::Cached);
    for index in order {
        let Some(item) = population.items.get(index) else {
            continue;
        };
        // A shorter file is read all the same: it is touched as the others are.
        let probe = if item.size_kib >= kib {
            probe
        } else {
            Probe::of("")
        };
        lab.with_open(&item.path, OpenFlags::READ, |lab, handle| {
            lab.call(probe, 0, || fs.pread(handle, piece, 0))
                .map(|_| ())
        })?;
    }
    lab.end().map(|_| ())
}

/// stat of any of the files less stat of the same few.
fn objects(lab: &mut Lab<'_>, population: &Population) -> Res {
    let few = population.few(lab, FEW)?;
    let order = lab.random.order(population.items.len());
    let any: Vec<_> = order
        .into_iter()
        .filter_map(|index| population.items.get(index))
        .take(OBJECTS)
        .collect();
    let _quiet = lab.sched.quiet();
    lab.begin(Batch::Cached);
    let any = stat_mean(lab, &any)?;
    let again: Vec<_> = few.iter().copied().cycle().take(OBJECTS).collect();
    let hot = stat_mean(lab, &again)?;
    lab.add(Probe::of("OBJR"), 0, (any - hot).max(1.0));
    lab.end().map(|_| ())
}

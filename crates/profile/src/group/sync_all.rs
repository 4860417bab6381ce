//! Waiting until all is on stable storage, and until a range of a file is.

use fsage_core::{OpenFlags, RangeSync};

use super::sync::{fresh, write};
use crate::error::Res;
use crate::lab::{Batch, LONGEST, Lab, PAYLOAD_BYTES};
use crate::population::{Order, Population};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "sync and ranges",
    stems: &RANGES,
    share: (8, 20),
    run: ranges,
}];

const RANGES: [&str; 5] = ["SYNC", "SYNF", "SYND", "SYNO", "SFR"];
/// How few files a sync finds dirty, and how many files or new directories more.
const FEW_DIRTY: usize = 20;
const MORE_DIRTY: usize = 100;
/// As many as an archive has: what a disk's turn is among them does not hide what each takes.
const MANY_DIRTY: usize = 1000;
/// Directories that were there before, in some of which names are made.
const OLD_DIRS: usize = 800;
const BLOCK_BYTES: usize = 4096;

/// How long a sync takes that finds so many small files dirty, of which each is in the next of some directories, and so
/// many directories new.
fn sync_of(
    lab: &mut Lab<'_>,
    (dir, dirs): (&str, &[&str]),
    (files, new): (usize, usize),
) -> Res<f64> {
    let fs = lab.fs;
    let (mut paths, mut made) = (Vec::new(), Vec::new());
    for turn in 0..new {
        let path = format!("{dir}/d{turn}").into_bytes();
        fs.mkdir(&path, 0o755)?;
        made.push(path);
    }
    for (turn, dir) in dirs.iter().cycle().take(files).enumerate() {
        let path = format!("{dir}/{turn}").into_bytes();
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            write(lab, handle, 0, (1 + turn % 4) * BLOCK_BYTES)
        })?;
        paths.push(path);
    }
    // Who makes many files does not sync at once.
    lab.pause(LONGEST);
    let ((), took_ns) = lab.timed(|| fs.sync())?;
    paths.iter().try_for_each(|path| fs.unlink(path))?;
    made.iter().try_for_each(|path| fs.rmdir(path))?;
    // What was removed is no part of the next.
    lab.settle()?;
    Ok(took_ns)
}

/// What each of many files, of many directories more and of many directories that were there before adds to a sync: a
/// commit has a cost of its own, by the depth of trees on some.
fn many_files(lab: &mut Lab<'_>, dir: &str, old: &Population) -> Res {
    lab.begin(Batch::Blocking);
    let only = [dir];
    let here = (dir, only.as_slice());
    let few_ns = sync_of(lab, here, (FEW_DIRTY, 0))?;
    let more_ns = sync_of(lab, here, (FEW_DIRTY + MORE_DIRTY, 0))?;
    let many_ns = sync_of(lab, here, (FEW_DIRTY + MANY_DIRTY, 0))?;
    let new_ns = sync_of(lab, here, (FEW_DIRTY, MORE_DIRTY))?;
    let order = lab.random.order(old.dirs.len());
    let some = order.into_iter().filter_map(|i| old.dirs.get(i));
    let some: Vec<&str> = some.take(MORE_DIRTY).map(String::as_str).collect();
    let old_ns = sync_of(lab, (dir, &some), (FEW_DIRTY + MORE_DIRTY, 0))?;
    let more = MORE_DIRTY as f64;
    for (stem, ns, count) in [
        ("SYNF", many_ns - few_ns, MANY_DIRTY as f64),
        ("SYND", new_ns - few_ns, more),
        ("SYNO", old_ns - more_ns, some.len() as f64),
    ] {
        // Less than nothing by chance, which the mean of several is not.
        lab.add(Probe::of(stem), 0, ns / count.max(1.0));
    }
    lab.end().map(|_| ())
}

fn ranges(lab: &mut Lab<'_>) -> Res {
    let dir = lab.fresh_dir("v")?;
    // What computed commits hold depends on what others left.
    let old = match lab.fs.virtual_time() {
        None => Population::create(lab, OLD_DIRS, OLD_DIRS, Order::ByDirectory)?,
        Some(_) => Population::default(),
    };
    lab.settle()?;
    let mut no_ranges = None;
    lab.rounds(&RANGES, (lab.scale(3, 10), lab.scale(3, 40)), |lab, _| {
        let fs = lab.fs;
        let path = fresh(lab, &dir);
        if fs.virtual_time().is_none() {
            many_files(lab, &dir, &old)?;
        }
        lab.with_open(&path, OpenFlags::CREATE_NEW, |lab, handle| {
            lab.begin(Batch::Blocking);
            write(lab, handle, 0, PAYLOAD_BYTES)?;
            lab.call(Probe::of("SYNC"), 0, || fs.sync())?;
            write(lab, handle, 0, PAYLOAD_BYTES)?;
            let range = || fs.sync_file_range(handle, 0, 0, RangeSync::AWAIT);
            no_ranges = lab.call(Probe::of("SFR"), 0, range).err();
            lab.end().map(|_| ())
        })?;
        // The next one's blocks are new ones, as a program's are.
        match fs.virtual_time() {
            None => Ok(()),
            Some(_) => Ok(fs.unlink(&path)?),
        }
    })?;
    if let Some(halt) = no_ranges {
        lab.absent("SFR", &halt.reason());
    }
    if !old.dirs.is_empty() {
        old.discard(lab)?;
    }
    lab.clear(&dir)
}

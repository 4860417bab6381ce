//! Calls that make, move and remove names, and closes that do more than close.

use std::time::Duration;

use fsage_core::{Handle, OpenFlags};

use crate::budget::NO_TIME;
use crate::error::Res;
use crate::lab::{Batch, Lab};
use crate::population::{FILE_COMPONENTS, Item, LIVE_DIRS, LIVE_FILES, Order, Population};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "directories, renames and links",
        stems: &[
            "CRF", "MKDIR", "RMDIR", "RENAME", "RENAMER", "RML", "LINK", "SYMLINK", "READLINK",
        ],
        share: (25, 40),
        run: names,
    },
    Procedure {
        name: "hard links in a row",
        stems: &["LINKR"],
        share: (4, 6),
        run: links_in_a_row,
    },
    Procedure {
        name: "closes of truncated and removed files",
        stems: CLOSES,
        share: (10, 20),
        run: closes,
    },
    Procedure {
        name: "renames of files not written back",
        stems: &["RENAMED", "CRP"],
        share: (6, 12),
        run: renamed_dirty,
    },
    Procedure {
        name: "removal of directories that held many",
        stems: &["RMDIRB"],
        share: (4, 12),
        run: emptied,
    },
];

/// What makes names, and what moves and removes them.
const MAKING: &[&str] = &["CRF", "MKDIR", "LINK", "SYMLINK"];
const MOVING: &[&str] = &["RMDIR", "RENAME", "RENAMER", "RML", "READLINK"];
const CLOSES: &[&str] = &["CLOSET", "TRF", "CLOSEU"];
/// Files whose inodes are free when others are created, of which so many are.
const FREED: usize = 1000;
const CREATED: usize = 48;
/// After so long it is another second.
const SECOND: Duration = Duration::from_millis(1010);
/// That is waited for where the procedure's own time is at least this part of it: in a measurement of ten seconds the
/// wait alone would take what ten others have.
const OWN_OF_SECOND: u32 = 8;
const GAP_OF_CHUNK: [usize; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4];
const BATCH: usize = 32;
/// Files of a round, and of those whose links are read again and again.
const PART: usize = 480;
const FEW: usize = 4;
/// Two paths in one directory, and in two.
const TWO_PATHS: Components = FILE_COMPONENTS.and_beside(4);
const APART: Components = Components { same: 4, other: 4 };
/// Two paths of three components, all but the names as in the last call.
const IN_A_ROW: Components = Components { same: 6, other: 0 };

fn names(lab: &mut Lab<'_>) -> Res {
    let start_ns = lab.clock.now_ns();
    let half_ns = start_ns + lab.deadline_ns.saturating_sub(start_ns) / 2;
    // Nothing here is made cold after this, and what is removed comes after all that is made: see
    // `Lab::start_afresh`.
    lab.start_afresh()?;
    let mut population = Population::create(lab, LIVE_FILES, LIVE_DIRS, Order::Scattered)?;
    let parts = LIVE_FILES.div_ceil(PART);
    let few = lab.random.order(population.items.len());
    let few: Vec<Item> = few
        .into_iter()
        .take(FEW)
        .filter_map(|i| population.items.get(i).cloned())
        .collect();
    population
        .items
        .retain(|i| few.iter().all(|f| f.path != i.path));
    let rounds = (lab.scale(2, 3), lab.scale(3, parts - 1));
    lab.settle()?;
    let mut made = 0;
    lab.rounds(MAKING, rounds, |lab, round| {
        let part = population.items.chunks(PART).nth(round);
        let late = round > 0 && lab.clock.now_ns() > half_ns;
        let Some(part) = part.filter(|_| !late) else {
            return Ok(());
        };
        for item in part {
            // What is renamed over holds no cached data, where that can be had.
            lab.with_open(&item.path, OpenFlags::READ, |lab, handle| {
                let _ = lab.fs.platform().evict(handle);
                Ok(())
            })?;
        }
        allocate(lab, &population, round)?;
        made = round + 1;
        for chunk in part.chunks(BATCH) {
            let gap = lab.random.pick(&GAP_OF_CHUNK, 0);
            directories(lab, chunk, gap)?;
            links(lab, chunk, gap)?;
        }
        Ok(())
    })?;
    lab.rounds(MOVING, (made.min(rounds.0), made), |lab, round| {
        // Every file is renamed once.
        let Some(part) = population.items.chunks(PART).take(made).nth(round) else {
            return Ok(());
        };
        for chunk in part.chunks(BATCH) {
            let gap = lab.random.pick(&GAP_OF_CHUNK, 0);
            renames(lab, &population, chunk, gap)?;
            read_links(lab, &few, gap)?;
            remove_directories(lab, chunk, gap)?;
        }
        Ok(())
    })?;
    population.discard(lab)
}

fn with(path: &[u8], suffix: &str) -> Vec<u8> {
    let mut name = path.to_vec();
    name.extend_from_slice(suffix.as_bytes());
    name
}

/// Lists each directory and makes one directory and one file beside what there is in it, untimed: all of
/// its own blocks, bitmaps and tables of inodes are cached after this.
fn allocate(lab: &Lab<'_>, population: &Population, round: usize) -> Res {
    let fs = lab.fs;
    for dir in &population.dirs {
        let handle = fs.open(dir.as_bytes(), OpenFlags::DIRECTORY, 0)?;
        let listed = fs.read_dir(handle);
        fs.close(handle)?;
        listed?;
        let new = format!("{dir}/a{round}");
        fs.mkdir(new.as_bytes(), 0o755)?;
        lab.make_file(format!("{new}/f").as_bytes(), 0)?;
    }
    Ok(())
}

/// mkdir in several parents, the first create in each of some of them.
fn directories(lab: &mut Lab<'_>, chunk: &[Item], gap: usize) -> Res {
    let fs = lab.fs;
    let (mkdir, first) = (Probe::of("MKDIR"), Probe::of("CRF"));
    let made: Vec<Vec<u8>> = chunk.iter().map(|i| with(&i.path, ".d")).collect();
    lab.begin(Batch::Changing);
    for dir in &made {
        lab.call_path(mkdir, gap, FILE_COMPONENTS, || fs.mkdir(dir, 0o755))?;
    }
    lab.end()?;
    lab.begin(Batch::Changing);
    for dir in made.iter().step_by(4) {
        let file = with(dir, "/f");
        let handle = lab.call_path(first, 0, FILE_COMPONENTS.below(1), || {
            fs.open(&file, OpenFlags::CREATE_NEW, 0o644)
        })?;
        fs.close(handle)?;
    }
    lab.end().map(|_| ())
}

/// rmdir of those directories in which nothing was created.
fn remove_directories(lab: &mut Lab<'_>, chunk: &[Item], gap: usize) -> Res {
    let fs = lab.fs;
    let rmdir = Probe::of("RMDIR");
    lab.begin(Batch::Changing);
    for (_, item) in chunk.iter().enumerate().filter(|(i, _)| i % 4 != 0) {
        let dir = with(&item.path, ".d");
        lab.call_path(rmdir, gap, FILE_COMPONENTS, || fs.rmdir(&dir))?;
    }
    lab.end().map(|_| ())
}

const LINK_TARGET: &[u8] = b"../a/target/of/twenty";

/// readlink of few links, everything in the CPU's caches.
fn read_links(lab: &mut Lab<'_>, few: &[Item], gap: usize) -> Res {
    let fs = lab.fs;
    let readlink = Probe::of("READLINK");
    let links: Vec<Vec<u8>> = few.iter().map(|i| with(&i.path, ".s")).collect();
    for link in &links {
        fs.symlink(LINK_TARGET, link)?;
        fs.readlink(link)?;
    }
    lab.begin(Batch::Cached);
    for link in links.iter().cycle().take(BATCH) {
        lab.call_path(readlink, gap, FILE_COMPONENTS, || fs.readlink(link))?;
    }
    lab.end()?;
    for link in links {
        fs.unlink(&link)?;
    }
    Ok(())
}

fn links(lab: &mut Lab<'_>, chunk: &[Item], gap: usize) -> Res {
    let fs = lab.fs;
    let (link, symlink) = (Probe::of("LINK"), Probe::of("SYMLINK"));
    lab.begin(Batch::Changing);
    for item in chunk {
        let new = with(&item.path, ".s");
        lab.call_path(symlink, gap, FILE_COMPONENTS, || {
            fs.symlink(LINK_TARGET, &new)
        })?;
    }
    lab.end()?;
    lab.begin(Batch::Changing);
    let mut refused = false;
    for item in chunk {
        let new = with(&item.path, ".l");
        // Two paths, of which the second differs in its last component only.
        let made = lab.call_path(link, gap, TWO_PATHS, || fs.link(&item.path, &new));
        if made.is_err() {
            refused = true;
            break;
        }
    }
    lab.end()?;
    if refused {
        lab.absent("LINK", "the target refuses hard links");
    }
    Ok(())
}

/// Files of a directory that are linked into another one after another, the first of them untimed.
const ROW: usize = 32;

fn links_in_a_row(lab: &mut Lab<'_>) -> Res {
    let fs = lab.fs;
    let probe = Probe::of("LINKR");
    let rounds = (lab.scale(4, 8), lab.scale(12, 24));
    let mut refused = false;
    lab.rounds(&["LINKR"], rounds, |lab, _| {
        let (from, to) = (lab.fresh_dir("lf")?, lab.fresh_dir("lt")?);
        let files: Vec<Vec<u8>> = (0..ROW)
            .map(|n| format!("{from}/f{n}").into_bytes())
            .collect();
        files
            .iter()
            .try_for_each(|file| lab.make_file(file, 4096))?;
        lab.settle()?;
        lab.begin(Batch::Changing);
        for (turn, file) in files.iter().enumerate() {
            let new = format!("{to}/f{turn}").into_bytes();
            fs.stat(file)?;
            let made = if turn == 0 {
                fs.link(file, &new).map_err(Into::into)
            } else {
                lab.call_path(probe, 0, IN_A_ROW, || fs.link(file, &new))
            };
            if made.is_err() {
                refused = true;
                break;
            }
        }
        lab.end()?;
        lab.clear(&from)?;
        lab.clear(&to)
    })?;
    if refused {
        lab.absent("LINKR", "the target refuses hard links");
    }
    Ok(())
}

/// Half of the files to a free name here or in another directory, then the other half over them.
fn renames(lab: &mut Lab<'_>, population: &Population, chunk: &[Item], gap: usize) -> Res {
    let fs = lab.fs;
    let (rename, over) = (Probe::of("RENAME"), Probe::of("RENAMER"));
    let (moved, kept) = chunk.split_at(chunk.len() / 2);
    lab.begin(Batch::Changing);
    let mut at = Vec::new();
    for (turn, item) in moved.iter().enumerate() {
        let mut new = with(&item.path, ".r");
        if turn % 2 == 1 {
            let dir = lab.random.below(population.dirs.len());
            let name = lab.random.next();
            let dir = population.dirs.get(dir).map_or("", String::as_str);
            new = format!("{dir}/r{name:016x}").into_bytes();
        }
        let paths = if turn % 2 == 1 { APART } else { TWO_PATHS };
        lab.call_path(rename, gap, paths, || fs.rename(&item.path, &new))?;
        at.push(new);
    }
    lab.end()?;
    // What a workload renames over goes, and its space with it.
    lab.begin(Batch::Changing);
    for item in kept {
        let link = with(&item.path, ".l");
        if fs.lstat(&link).is_ok() {
            lab.call_path(Probe::of("RML"), gap, FILE_COMPONENTS, || fs.unlink(&link))?;
        }
    }
    lab.end()?;
    lab.begin(Batch::Changing);
    for (from, item) in at.iter().zip(kept) {
        lab.call_path(over, gap, APART, || fs.rename(from, &item.path))?;
    }
    lab.end().map(|_| ())
}

/// Truncates a file, writes it again and closes it by `close`.
fn rewrite(
    lab: &mut Lab<'_>,
    item: &Item,
    page: &[u8],
    close: impl FnOnce(&mut Lab<'_>, Handle) -> Res,
) -> Res {
    let flags = OpenFlags {
        truncate: true,
        ..OpenFlags::WRITE
    };
    let handle = lab.fs.open(&item.path, flags, 0)?;
    let wrote = lab.fs.pwrite(handle, page, 0);
    close(lab, handle)?;
    wrote?;
    Ok(())
}

/// What is needed to measure creates beside inodes that were freed in an earlier second.
struct Freed {
    dir: String,
    before_ns: f64,
    files: usize,
    at_ns: u64,
}

impl Freed {
    /// Creates some files, and makes and removes many in another directory.
    fn prepare(lab: &mut Lab<'_>) -> Res<Self> {
        let (dir, many) = (lab.fresh_dir("s")?, lab.fresh_dir("t")?);
        let before_ns = Self::create(lab, &dir, 0)?;
        let names = (0..FREED).map(|n| format!("{many}/{n}").into_bytes());
        let names: Vec<Vec<u8>> = names.collect();
        names.iter().try_for_each(|name| lab.make_file(name, 0))?;
        names.iter().try_for_each(|name| lab.fs.unlink(name))?;
        Ok(Self {
            dir,
            before_ns,
            files: FREED,
            at_ns: lab.clock.now_ns(),
        })
    }

    /// What a create takes: the median of some.
    fn create(lab: &Lab<'_>, dir: &str, turn: usize) -> Res<f64> {
        let mut times = Vec::with_capacity(CREATED);
        for number in 0..CREATED {
            let path = format!("{dir}/{turn}-{number}").into_bytes();
            let (handle, ns) = lab.timed(|| lab.fs.open(&path, OpenFlags::CREATE_NEW, 0o644))?;
            lab.fs.close(handle)?;
            times.push(ns);
        }
        Ok(fsage_stats::median(&times))
    }

    /// Creates others, once it is another second.
    fn measure(self, lab: &mut Lab<'_>) -> Res {
        let passed_ns = lab.clock.now_ns().saturating_sub(self.at_ns);
        lab.rest(SECOND.saturating_sub(Duration::from_nanos(passed_ns)));
        lab.begin(Batch::Changing);
        for turn in 1..=3 {
            let more_ns = Self::create(lab, &self.dir, turn)? - self.before_ns;
            lab.add(
                Probe::of("CRP"),
                0,
                (more_ns / self.files.max(1) as f64).max(0.0),
            );
        }
        lab.end().map(|_| ())
    }
}

fn closes(lab: &mut Lab<'_>) -> Res {
    let (truncated, unlinked) = (Probe::of("CLOSET"), Probe::of("CLOSEU"));
    let rounds = (lab.scale(2, 4), lab.scale(5, 16));
    lab.rounds(CLOSES, rounds, |lab, _| {
        let fs = lab.fs;
        let files = lab.scale(400, 1200);
        let population = Population::create(lab, files, 24, Order::Scattered)?;
        lab.settle()?;
        let page: Vec<u8> = lab.payload.get(..4096).unwrap_or_default().to_vec();
        for chunk in population.items.chunks(BATCH) {
            let gap = lab.random.pick(&GAP_OF_CHUNK, 0);
            lab.begin(Batch::Changing);
            for item in chunk {
                rewrite(lab, item, &page, |lab, handle| {
                    lab.call(truncated, gap, || fs.close(handle))
                })?;
            }
            lab.end()?;
            lab.begin(Batch::Blocking);
            for item in chunk.iter().step_by(4) {
                rewrite(lab, item, &page, |_, handle| Ok(fs.close(handle)?))?;
                lab.with_open(&item.path, OpenFlags::WRITE, |lab, handle| {
                    lab.call(Probe::of("TRF"), gap, || fs.ftruncate(handle, 0))
                })?;
            }
            lab.end()?;
            lab.begin(Batch::Changing);
            for item in chunk {
                let path = with(&item.path, ".u");
                let handle = fs.open(&path, OpenFlags::CREATE_NEW, 0o600)?;
                let wrote = fs.pwrite(handle, &page, 0);
                let gone = fs.unlink(&path);
                lab.call(unlinked, gap, || fs.close(handle))?;
                wrote?;
                gone?;
            }
            lab.end()?;
        }
        population.discard(lab)
    })
}

/// Sizes of what is renamed before it is written back, and how many a round has of each.
const NEW_KIB: [u32; 4] = [4, 16, 64, 256];
const NEW: usize = 6;
/// Two paths of three components in the directory of the last call.
const SAME_DIR: Components = Components { same: 6, other: 0 };

fn renamed_dirty(lab: &mut Lab<'_>) -> Res {
    let own_ns = lab.deadline_ns.saturating_sub(lab.clock.now_ns());
    let waits = Duration::from_nanos(own_ns) >= SECOND / OWN_OF_SECOND;
    let mut freed = waits.then(|| Freed::prepare(lab)).transpose()?;
    let rounds = (lab.scale(2, 4), lab.scale(4, 12));
    lab.rounds(&["RENAMED"], rounds, |lab, _| {
        // As many inodes are taken from those that were freed.
        if let Some(freed) = &mut freed {
            freed.files = freed.files.saturating_sub(NEW * NEW_KIB.len());
        }
        let fs = lab.fs;
        let dir = lab.fresh_dir("o")?;
        let mut files = Vec::new();
        for kib in NEW_KIB {
            for number in 0..NEW {
                let old = format!("{dir}/{kib}-{number}").into_bytes();
                lab.make_file(&old, 4096)?;
                files.push((kib, old));
            }
        }
        lab.settle()?;
        lab.random.shuffle(&mut files);
        lab.begin(Batch::Changing);
        for (kib, old) in &files {
            let new = with(old, ".new");
            lab.make_file(&new, u64::from(*kib) << 10)?;
            lab.call_path(Probe::at("RENAMED", *kib), 0, SAME_DIR, || {
                fs.rename(&new, old)
            })?;
        }
        lab.end()?;
        lab.discard(&dir)
    })?;
    let Some(freed) = freed else {
        lab.absent("CRP", NO_TIME);
        return Ok(());
    };
    freed.measure(lab)
}

/// Directories that are emptied together.
const EMPTIED: usize = 4;

fn emptied(lab: &mut Lab<'_>) -> Res {
    let probe = Probe::of("RMDIRB");
    let (held, rounds) = (1000, (lab.scale(2, 4), lab.scale(4, 10)));
    lab.rounds(&["RMDIRB"], rounds, |lab, _| {
        let fs = lab.fs;
        let mut dirs = Vec::new();
        for _ in 0..EMPTIED {
            dirs.push(lab.fresh_dir("e")?);
        }
        // In any order over all of them, so that what is remembered of the names lies anywhere.
        let names: Vec<String> = lab
            .random
            .order(held * EMPTIED)
            .into_iter()
            .filter_map(|n| Some(format!("{}/held-{n:05}", dirs.get(n % EMPTIED)?)))
            .collect();
        for name in &names {
            lab.make_file(name.as_bytes(), 0)?;
        }
        for name in &names {
            fs.unlink(name.as_bytes())?;
        }
        for dir in &dirs {
            lab.begin(Batch::Blocking);
            lab.call_path(probe, 0, Components::elsewhere(2), || {
                fs.rmdir(dir.as_bytes())
            })?;
            // A single call: when it was preempted there is nothing else to keep.
            lab.end()?;
        }
        Ok(())
    })
}

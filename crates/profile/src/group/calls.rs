//! Calls that neither create nor remove names, everything cached.

use fsage_core::{Access, Errno, FileSystem, Handle, OpenFlags, SetAttr};

use crate::error::Res;
use crate::lab::{Batch, GAPS, LONGEST, Lab};
use crate::population::{
    DIR_COMPONENTS, FILE_COMPONENTS, Item, LIVE_DIRS, LIVE_FILES, Order, Population,
};
use crate::probe::{Components, Probe};
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[
    Procedure {
        name: "calls on cached files",
        stems: &[
            "OPEN", "OPENC", "OPEND", "OPENM", "CLOSE", "STAT", "STATM", "FSTAT", "ACCESS", "SEEK",
            "STATFS", "OBJ", "OBJN",
        ],
        share: (30, 30),
        run: reading,
    },
    Procedure {
        name: "changes of attributes",
        stems: &["CHMOD", "CHOWN", "UTIMENS"],
        share: (12, 20),
        run: changing,
    },
    Procedure {
        name: "cached directories",
        stems: &["RDIR", "RDIRE"],
        share: (8, 15),
        run: directories,
    },
];

/// Files on which calls are made again and again, so that how cold a file is does not count for
/// the call but for `OBJ`.
pub(crate) const FEW: usize = 4;
/// Calls of one sample of `OBJ`.
const OBJECTS: usize = 128;
/// Descriptors that are open at once.
const OPEN_AT_ONCE: usize = 48;
const MODE: u32 = 0o644;

/// Calls of a batch, by gap.
fn count_of(gap: usize) -> usize {
    match gap {
        0 => 4 * OPEN_AT_ONCE,
        LONGEST => 2 * FEW,
        _ => OPEN_AT_ONCE,
    }
}

type PathCall = fn(&dyn FileSystem, &[u8]) -> Result<(), Errno>;

fn reading(lab: &mut Lab<'_>) -> Res {
    let population = Population::create(lab, LIVE_FILES, LIVE_DIRS, Order::Scattered)?;
    lab.settle_in_time()?;
    population.warm_data(lab)?;
    let stems = [
        "OPEN", "OPENC", "OPEND", "OPENM", "CLOSE", "STAT", "STATM", "FSTAT", "ACCESS", "SEEK",
        "STATFS", "OBJ", "OBJN",
    ];
    lab.steady(&stems);
    let calls: [(Probe, PathCall); 2] = [
        (Probe::of("STAT"), |fs, path| fs.stat(path).map(|_| ())),
        (Probe::of("ACCESS"), |fs, path| {
            fs.access(path, Access::Read)
        }),
    ];
    let rounds = (lab.scale(2, 4), lab.scale(6, 30));
    lab.rounds(&stems, rounds, |lab, _| {
        for gap in 0..GAPS {
            for (probe, call) in calls {
                path_calls(lab, &population, probe, gap, call)?;
            }
            missing_names(lab, &population, gap)?;
            for _ in 0..count_of(gap).div_ceil(OPEN_AT_ONCE) {
                opened(lab, &population, gap)?;
            }
        }
        for _ in 0..4 {
            untouched(lab, &population)?;
        }
        Ok(())
    })?;
    population.discard(lab)
}

/// One call on the same few files in turn.
fn path_calls(
    lab: &mut Lab<'_>,
    population: &Population,
    probe: Probe,
    gap: usize,
    call: PathCall,
) -> Res {
    let few = population.few(lab, FEW)?;
    let _quiet = lab.sched.quiet();
    let fs = lab.fs;
    lab.begin(Batch::Cached);
    for item in few.iter().cycle().take(count_of(gap)) {
        lab.call_path(probe, gap, FILE_COMPONENTS, || call(fs, &item.path))?;
    }
    lab.end().map(|_| ())
}

/// Opens and stats of names that are known to be missing, freed from the lookup that says so.
fn missing_names(lab: &mut Lab<'_>, population: &Population, gap: usize) -> Res {
    /// The directory's last component; the missing name is `LUMR`.
    const ABOVE: Components = Components { same: 2, other: 1 };
    let (open, stat) = (Probe::of("OPENM"), Probe::of("STATM"));
    let failing = Probe::of("LUMR")
        .id(0)
        .and_then(|id| lab.measurements.mean(id));
    let Some(failing) = failing else {
        return Ok(());
    };
    let names: Vec<Vec<u8>> = population
        .few(lab, FEW)?
        .iter()
        .map(|item| [item.path.as_slice(), b".missing"].concat())
        .collect();
    let _quiet = lab.sched.quiet();
    let fs = lab.fs;
    let refused = |result: Result<(), Errno>| match result {
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
        Ok(()) => Err(Errno::EEXIST),
    };
    let calls: [(Probe, PathCall); 2] = [
        (open, |fs, path| {
            fs.open(path, OpenFlags::READ, 0).map(|_| ())
        }),
        (stat, |fs, path| fs.stat(path).map(|_| ())),
    ];
    let base = lab.base_ns.get(gap).copied().unwrap_or_default();
    for (probe, call) in calls {
        lab.begin(Batch::Cached);
        // Once untimed, so that each is known to be missing.
        for name in &names {
            refused(call(fs, name))?;
        }
        for name in names.iter().cycle().take(count_of(gap)) {
            lab.pause(gap);
            let ((), ns) = lab.timed(|| refused(call(fs, name)))?;
            lab.add(probe, gap, ns - base - lab.resolution_ns(ABOVE) - failing);
        }
        lab.end()?;
    }
    Ok(())
}

/// stat of any file of the population, and of one after another in creation order, less stat of the
/// same few: what a file costs that is not in the CPU's caches.
fn untouched(lab: &mut Lab<'_>, population: &Population) -> Res {
    let few = population.few(lab, FEW)?;
    let _quiet = lab.sched.quiet();
    let any: Vec<&Item> = (0..OBJECTS)
        .filter_map(|_| {
            let index = lab.random.below(population.items.len());
            population.items.get(index)
        })
        .collect();
    let first = lab.random.below(population.items.len());
    let next = population.items.iter().cycle().skip(first);
    let next: Vec<&Item> = next.take(OBJECTS).collect();
    let again = few.iter().copied().cycle().take(any.len()).collect();
    let mut means = [0.0; 3];
    lab.begin(Batch::Cached);
    for (mean, items) in means.iter_mut().zip([any, next, again]) {
        *mean = stat_mean(lab, &items)?;
    }
    let [any, next, hot] = means;
    lab.add(Probe::of("OBJ"), 0, any - hot);
    lab.add(Probe::of("OBJN"), 0, (next - hot).max(1.0));
    lab.end().map(|_| ())
}

/// What a stat of each of the items takes on average.
pub(crate) fn stat_mean(lab: &Lab<'_>, items: &[&Item]) -> Res<f64> {
    let mut taken = Vec::with_capacity(items.len());
    for item in items {
        taken.push(lab.timed(|| lab.fs.stat(&item.path))?.1);
    }
    Ok(trimmed(&taken))
}

/// The mean without interruptions, which are far above the median.
fn trimmed(values: &[f64]) -> f64 {
    let limit = 8.0 * fsage_stats::median(values);
    let sound: Vec<f64> = values.iter().copied().filter(|&v| v < limit).collect();
    fsage_stats::mean(&sound)
}

/// Opens of some files, what can be asked of an open file, and their closes.
fn opened(lab: &mut Lab<'_>, population: &Population, gap: usize) -> Res {
    let _quiet = lab.sched.quiet();
    let fs = lab.fs;
    let (open, open_create, open_dir) = (Probe::of("OPEN"), Probe::of("OPENC"), Probe::of("OPEND"));
    let create = OpenFlags {
        create: true,
        ..OpenFlags::READ
    };
    let mut handles = Vec::with_capacity(OPEN_AT_ONCE);
    let few = population.few(lab, FEW)?;
    lab.begin(Batch::Cached);
    let mut result = Ok(());
    for (turn, item) in few
        .iter()
        .cycle()
        .take(count_of(gap).min(OPEN_AT_ONCE))
        .enumerate()
    {
        // Every fourth turn is another kind of call: all kinds meet all files.
        let turn = turn + turn / few.len();
        let Some(dir) = population.dirs.get(item.dir) else {
            continue;
        };
        let opened = match turn % 4 {
            0 => lab.call_path(open_create, gap, FILE_COMPONENTS, || {
                fs.open(&item.path, create, MODE)
            }),
            1 => lab.call_path(open_dir, gap, DIR_COMPONENTS, || {
                fs.open(dir.as_bytes(), OpenFlags::DIRECTORY, 0)
            }),
            _ => lab.call_path(open, gap, FILE_COMPONENTS, || {
                fs.open(&item.path, OpenFlags::READ, 0)
            }),
        };
        match opened {
            Ok(handle) => handles.push((handle, turn % 4 != 1, u64::from(item.size_kib) << 10)),
            Err(halt) => {
                result = Err(halt);
                break;
            }
        }
    }
    result = result.and_then(|()| on_handles(lab, &handles, gap));
    let close = Probe::of("CLOSE");
    for (handle, _, _) in handles {
        result = result.and(lab.call(close, gap, || fs.close(handle)));
    }
    result?;
    lab.end().map(|_| ())
}

fn on_handles(lab: &mut Lab<'_>, handles: &[(Handle, bool, u64)], gap: usize) -> Res {
    let fs = lab.fs;
    let (fstat, seek, statfs) = (Probe::of("FSTAT"), Probe::of("SEEK"), Probe::of("STATFS"));
    for &(handle, _, _) in handles {
        lab.call(fstat, gap, || fs.fstat(handle))?;
    }
    for &(handle, is_file, size) in handles.iter().filter(|h| h.1) {
        debug_assert!(is_file);
        lab.call(seek, gap, || fs.seek(handle, size))?;
    }
    for _ in handles.iter().take(12) {
        lab.call(statfs, gap, || fs.statfs())?;
    }
    Ok(())
}

fn changing(lab: &mut Lab<'_>) -> Res {
    let files = lab.scale(200, 1000);
    let population = Population::create(lab, files, 40, Order::Scattered)?;
    lab.settle_in_time()?;
    let (chmod, chown, utimens) = (Probe::of("CHMOD"), Probe::of("CHOWN"), Probe::of("UTIMENS"));
    let me = owner(lab);
    let rounds = (lab.scale(2, 4), lab.scale(5, 20));
    lab.rounds(&["CHMOD", "CHOWN", "UTIMENS"], rounds, |lab, round| {
        let times = SetAttr::Times(1_000_000_000 + round as u64, 1_000_000_000 + round as u64);
        let mode = SetAttr::Mode(0o600 | (round as u32 % 8));
        for gap in 0..GAPS {
            for (probe, attr) in [(chmod, Some(mode)), (chown, me), (utimens, Some(times))] {
                let Some(attr) = attr else { continue };
                change(lab, &population, probe, gap, attr)?;
            }
        }
        Ok(())
    })?;
    if me.is_none() {
        lab.absent("CHOWN", "the owner of a file cannot be told here");
    }
    population.discard(lab)
}

fn change(
    lab: &mut Lab<'_>,
    population: &Population,
    probe: Probe,
    gap: usize,
    attr: SetAttr,
) -> Res {
    let few = population.few(lab, FEW)?;
    let fs = lab.fs;
    lab.begin(Batch::Changing);
    for item in few.iter().cycle().take(count_of(gap)) {
        lab.call_path(probe, gap, FILE_COMPONENTS, || {
            fs.set_attr(&item.path, attr)
        })?;
    }
    lab.end().map(|_| ())
}

/// The owner that the files have already.
fn owner(lab: &Lab<'_>) -> Option<SetAttr> {
    lab.host_dir.as_ref()?;
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    Some(SetAttr::Owner(uid, gid))
}

/// Sizes of the directories over which the line is fitted.
const ENTRIES: [usize; 5] = [0, 10, 50, 200, 1000];

/// The first getdents64 of a directory pays for its entries, the one after the last for none.
fn directories(lab: &mut Lab<'_>) -> Res {
    let mut dirs = Vec::new();
    for entries in ENTRIES {
        for _ in 0..4 {
            let dir = lab.fresh_dir("r")?;
            for number in 0..entries {
                lab.make_file(format!("{dir}/entry-{number:05}").as_bytes(), 0)?;
            }
            dirs.push((dir, entries));
        }
        lab.check()?;
    }
    lab.settle_in_time()?;
    let (fixed, each) = (Probe::of("RDIR"), Probe::of("RDIRE"));
    let rounds = (lab.scale(10, 20), lab.scale(40, 200));
    lab.rounds(&["RDIR", "RDIRE"], rounds, |lab, _| {
        let gap = lab.random.pick(&[0, 0, 1, 2, 3, 4], 0);
        let _quiet = lab.sched.quiet();
        let mut points = Vec::new();
        lab.begin(Batch::Cached);
        for index in lab.random.order(dirs.len()) {
            let Some((dir, entries)) = dirs.get(index) else {
                continue;
            };
            let calls = crate::dirents::list(lab, dir, gap)?;
            let total: f64 = calls.iter().sum();
            // Every call beyond the fit's one is an empty or a further one of the same constant.
            points.push((*entries as f64, (total, calls.len() as f64)));
        }
        let Some((constant, slope)) = crate::dirents::fit(&points) else {
            return Ok(());
        };
        lab.add(fixed, gap, constant);
        if gap == 0 {
            lab.add(each, 0, slope);
        }
        lab.end().map(|_| ())
    })?;
    dirs.iter().try_for_each(|(dir, _)| lab.discard(dir))
}

//! Resolution of one component, everything cached (Smith 2001, 4.4.3.2.1, footnote 3).

use fsage_core::{Access, Errno};

use crate::error::Res;
use crate::lab::{Batch, GAPS, LONGEST, Lab};
use crate::population::{Order, Population};
use crate::probe::Probe;
use crate::registry::Procedure;

pub(crate) const PROCEDURES: &[Procedure] = &[Procedure {
    name: "cached lookups",
    stems: &["LUS_BC", "LUR_BC", "LUM", "LUMR"],
    share: (10, 10),
    run: cached,
}];

/// The mean cost of two kinds of access whose difference is one component.
#[derive(Default, Clone)]
struct Pair {
    shallow: Vec<f64>,
    deep: Vec<f64>,
}

impl Pair {
    /// The difference and its 95 % half-width. Interruptions, far above the median, are left out.
    fn difference(&self) -> Option<(f64, f64)> {
        let sound = |values: &[f64]| -> Vec<f64> {
            let limit = 8.0 * fsage_stats::median(values);
            values.iter().copied().filter(|&v| v < limit).collect()
        };
        let shallow = fsage_stats::mean_interval(&sound(&self.shallow), 0.95)?;
        let deep = fsage_stats::mean_interval(&sound(&self.deep), 0.95)?;
        let half = (deep.high - deep.estimate).hypot(shallow.high - shallow.estimate);
        Some((deep.estimate - shallow.estimate, half))
    }
}

/// Also sets what is subtracted for each component of a path.
pub(crate) fn cached(lab: &mut Lab<'_>) -> Res {
    let files = lab.scale(1500, 4000);
    let population = Population::create(lab, files, 40, Order::Scattered)?;
    population.warm_names(lab)?;
    let _quiet = lab.sched.quiet();
    let mut same: [Pair; GAPS] = Default::default();
    let mut other: [Pair; GAPS] = Default::default();
    lab.steady(&["LUM", "LUMR"]);
    let rounds = (lab.scale(2, 6), lab.scale(3, 12));
    lab.rounds(&["LUM", "LUMR"], rounds, |lab, _| {
        for gap in 0..GAPS {
            let count = match gap {
                0 => 1500,
                LONGEST => lab.scale(6, 20),
                _ => 150,
            };
            if let (Some(s), Some(o)) = (same.get_mut(gap), other.get_mut(gap)) {
                in_one_directory(lab, &population, gap, count, s)?;
                over_directories(lab, &population, gap, count, o)?;
            }
            missing(lab, &population, gap, count / 2, (&same, &other))?;
        }
        Ok(())
    })?;
    for (stem, pairs, components) in [("LUS_BC", &same, 2.0), ("LUR_BC", &other, 1.0)] {
        let probe = Probe::of(stem);
        for (gap, pair) in pairs.iter().enumerate() {
            let (Some(id), Some((estimate, half))) = (probe.id(gap), pair.difference()) else {
                continue;
            };
            let (estimate, half) = ((estimate / components).max(5.0), half / components);
            let series = lab.measurements.series(id);
            let low = (estimate - half).max(0.0);
            series.given = Some((estimate, Some((low, estimate + half))));
            series.counted = pair.deep.len() + pair.shallow.len();
            series.stop = "runs";
            series.note = Some(format!(
                "difference of means of {} and {} calls",
                pair.deep.len(),
                pair.shallow.len()
            ));
            if gap == 0 {
                *(if stem == "LUS_BC" {
                    &mut lab.lookup_ns.0
                } else {
                    &mut lab.lookup_ns.1
                }) = estimate;
            }
        }
    }
    population.discard(lab)
}

/// access(w) and access(w/p/d), the same again and again: what two components cost that were in
/// the last call's path.
fn in_one_directory(
    lab: &mut Lab<'_>,
    population: &Population,
    gap: usize,
    count: usize,
    pair: &mut Pair,
) -> Res {
    let fs = lab.fs;
    let dir = lab.random.below(population.dirs.len());
    let Some(dir) = population.dirs.get(dir) else {
        return Ok(());
    };
    let top = lab.work.clone();
    for _ in 0..count {
        lab.pause(gap);
        pair.deep
            .push(lab.timed(|| fs.access(dir.as_bytes(), Access::Exists))?.1);
        lab.pause(gap);
        pair.shallow
            .push(lab.timed(|| fs.access(top.as_bytes(), Access::Exists))?.1);
    }
    lab.check()
}

/// access(p) and access(p/d) over directories in random order: what one component costs that was
/// not in the last call's path. How cold a file itself is counts for the call that uses it.
fn over_directories(
    lab: &mut Lab<'_>,
    population: &Population,
    gap: usize,
    count: usize,
    pair: &mut Pair,
) -> Res {
    let fs = lab.fs;
    for _ in 0..count {
        let dir = lab.random.below(population.dirs.len());
        let Some(dir) = population.dirs.get(dir) else {
            continue;
        };
        lab.pause(gap);
        pair.deep
            .push(lab.timed(|| fs.access(dir.as_bytes(), Access::Exists))?.1);
        lab.pause(gap);
        pair.shallow.push(
            lab.timed(|| fs.access(population.root.as_bytes(), Access::Exists))?
                .1,
        );
    }
    lab.check()
}

/// Names never asked for before, and then the same again. What the components before and the call
/// itself cost is subtracted: access of a directory.
fn missing(
    lab: &mut Lab<'_>,
    population: &Population,
    gap: usize,
    count: usize,
    (same, other): (&[Pair; GAPS], &[Pair; GAPS]),
) -> Res {
    let fs = lab.fs;
    let root = other
        .get(gap)
        .map_or(0.0, |p| fsage_stats::median(&p.shallow));
    let difference = |pairs: &[Pair; GAPS]| {
        let found = pairs.get(gap).and_then(Pair::difference);
        found.map_or(0.0, |(difference, _)| difference)
    };
    // One component of another directory than the last call's, and of two one that was in its path.
    let (one, known) = (difference(other), difference(same) / 2.0);
    let (first, again) = (Probe::of("LUM"), Probe::of("LUMR"));
    // What a repeated lookup costs more after the pause counts for the call (STATM, OPENM).
    let shown = |lab: &Lab<'_>, gap| again.id(gap).and_then(|id| lab.measurements.mean(id));
    let warmer = match (shown(lab, gap), shown(lab, 0)) {
        (Some(paused), Some(back_to_back)) if gap > 0 => paused - back_to_back,
        _ => 0.0,
    };
    lab.begin(Batch::Cached);
    for _ in 0..count {
        let dir = lab.random.below(population.dirs.len());
        let Some(dir) = population.dirs.get(dir) else {
            continue;
        };
        let path = format!("{dir}/m{:08x}.h", lab.random.next() as u32).into_bytes();
        // The second time the directory was in the last call's path.
        for (probe, directory) in [(first, root + one), (again, root + known)] {
            lab.pause(gap);
            let (result, ns) = lab.timed(|| Ok(fs.access(&path, Access::Exists)))?;
            match result {
                Err(Errno::ENOENT) => {
                    let less = if probe.id(gap) == first.id(gap) {
                        warmer
                    } else {
                        0.0
                    };
                    lab.add(probe, gap, ns - directory - less);
                }
                Err(errno) => return Err(errno.into()),
                Ok(()) => {}
            }
        }
    }
    lab.end().map(|_| ())
}

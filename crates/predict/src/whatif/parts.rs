//! The parts of a system that have a name of their own in what-if: `memory`, `disk.seek`, `fsync`.

use fsage_core::metric::{FamilyId, MetricId, family};

use crate::cost::{Slot, Stem, SystemVector};

/// Something that a change speaks of.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// These metrics.
    Metrics(Vec<MetricId>),
    /// These metrics as times, so that a factor of 0.5 is half the time, also for rates.
    Group(Vec<MetricId>),
    /// The machine's memory: the page cache and, as far as they were measured, the caches of names and
    /// attributes.
    Memory,
    /// The page cache alone.
    Cache,
    /// All that the device does; a factor of 2 is a device twice as fast.
    Disk,
    /// The time to get to a place on the device; a factor of 2 is twice as long.
    Seek,
    /// The rate at which the device moves data.
    Bandwidth,
}

/// Names of parts that are not metrics.
const PARTS: &[(&str, Part)] = &[
    ("memory", Part::Memory),
    ("cache", Part::Cache),
    ("disk", Part::Disk),
    ("disk.seek", Part::Seek),
    ("disk.rate", Part::Bandwidth),
];

/// Names of groups of families: what a person calls them, and the families' names or, ending in `*`,
/// how they begin.
const GROUPS: &[(&str, &[&str])] = &[
    ("fsync", &["FSY*", "FDS*", "SYNC", "SFR*"]),
    ("lookup", &["LU*"]),
    ("open", &["OPEN*"]),
    ("create", &["CR", "CRF", "CRC"]),
    ("close", &["CLOSE*"]),
    ("stat", &["STAT", "STATM", "FSTAT"]),
    ("mkdir", &["MKDIR*"]),
    ("rmdir", &["RMDIR*"]),
    ("rename", &["RENAME*"]),
    ("unlink", &["RM", "RML", "RMF", "RMD", "RMFC"]),
    (
        "truncate",
        &["TR", "TRC", "TRX", "TRP", "TRXD", "TRPD", "TRD"],
    ),
    ("readdir", &["RDIR*"]),
    (
        "read",
        &[
            "RDO", "RDC", "RC*", "REOF", "RHO", "SND*", "RD", "RRD", "RF*", "RX",
        ],
    ),
    (
        "write",
        &[
            "WRO", "WRC", "WF", "WN", "WD", "WE", "WA", "WO", "WK", "WU", "WP", "WH", "WFC",
            "FALLOC",
        ],
    ),
];

/// Families at the device, of several threads or after a rest, beside those that rules charge.
const DEVICE_SCALING: [&str; 4] = ["RXA", "RFT", "SC_RR_D", "SC_FS_D"];

impl Part {
    /// What a name means: a family, a metric or all metrics that begin so, as they are spelled; else a
    /// part or a group, which are in small letters.
    pub fn named(name: &str) -> Option<Self> {
        let metrics = matching(name);
        if !metrics.is_empty() {
            return Some(Part::Metrics(metrics));
        }
        let part = PARTS.iter().find(|p| p.0 == name);
        let group = || group(name).map(Part::Group);
        part.map(|p| p.1.clone()).or_else(group)
    }
}

/// The metrics of a group by its name.
pub fn group(name: &str) -> Option<Vec<MetricId>> {
    let families = families(name)?.into_iter();
    Some(families.flat_map(FamilyId::metrics).collect())
}

/// The families of a group by its name.
pub fn families(name: &str) -> Option<Vec<FamilyId>> {
    let (_, families) = GROUPS.iter().find(|g| g.0 == name)?;
    let belongs = |stem: &str| {
        families.iter().any(|f| match f.strip_suffix('*') {
            Some(start) => stem.starts_with(start),
            None => *f == stem,
        })
    };
    Some(FamilyId::all().filter(|f| belongs(f.row().stem)).collect())
}

/// The families of the group that a family belongs to; none where it belongs to none.
pub fn group_of(family: FamilyId) -> Vec<FamilyId> {
    let mut groups = groups().filter_map(families);
    groups.find(|all| all.contains(&family)).unwrap_or_default()
}

/// The names of all groups.
pub fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|g| g.0)
}

fn matching(pattern: &str) -> Vec<MetricId> {
    if let Some(start) = pattern.strip_suffix('*') {
        return MetricId::all()
            .filter(|id| id.to_string().starts_with(start))
            .collect();
    }
    match (MetricId::parse(pattern), family(pattern)) {
        // A scalar's name also is its family's: its pauses change with it.
        (_, Some(family)) => family.metrics().collect(),
        (Some(id), None) => vec![id],
        (None, None) => Vec::new(),
    }
}

/// The three names nearest to one that means nothing.
pub fn nearest(name: &str) -> Vec<String> {
    nearest_of(name, PARTS.iter().map(|p| p.0).chain(measured()))
}

/// The three names of families and groups of metrics nearest to one.
pub fn nearest_metrics(name: &str) -> Vec<String> {
    nearest_of(name, measured())
}

fn measured() -> impl Iterator<Item = &'static str> {
    groups().chain(FamilyId::all().map(|f| f.row().stem))
}

fn nearest_of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<char> = name.to_lowercase().chars().take(40).collect();
    let mut all: Vec<(usize, &str)> = names
        .map(|candidate| {
            let letters: Vec<char> = candidate.to_lowercase().chars().collect();
            // Letters that are all there are a slip of the fingers.
            let slip = sorted(&wanted) == sorted(&letters);
            let away = distance(&wanted, &letters);
            (if slip { away.min(1) } else { away }, candidate)
        })
        .collect();
    all.sort_unstable();
    all.into_iter()
        .take(3)
        .map(|(_, name)| name.to_owned())
        .collect()
}

fn sorted(letters: &[char]) -> Vec<char> {
    let mut letters = letters.to_vec();
    letters.sort_unstable();
    letters
}

/// Letters to insert, leave out or replace (Levenshtein).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let next = (diagonal + usize::from(x != y))
                .min(left + 1)
                .min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The metrics of the device that a vector holds.
fn device_metrics(vector: &SystemVector) -> Vec<(Slot, MetricId, f64)> {
    let rules = Stem::ALL.iter().copied().filter(|s| s.at_device());
    let scaling = DEVICE_SCALING.iter().filter_map(|s| family(s));
    rules
        .filter_map(Stem::family)
        .chain(scaling)
        .flat_map(FamilyId::metrics)
        .filter_map(|id| {
            let slot = vector.slots().slot(id)?;
            Some((slot, id, vector.get(id)?.value))
        })
        .collect()
}

/// A device `factor` times as fast; how many metrics that changes.
pub fn speed_up(vector: &mut SystemVector, factor: f64) -> usize {
    let all = device_metrics(vector);
    for &(slot, id, now) in &all {
        let to = if id.unit().is_rate() {
            now * factor
        } else {
            now / factor
        };
        vector.change(slot, to);
    }
    all.len()
}

/// The time to get to a place times `seek`, the time to move data times `moving`. What a request takes
/// beyond the sequential rate for its size is the first; how many metrics that changes.
pub fn reach(vector: &mut SystemVector, seek: f64, moving: f64) -> usize {
    let Some(sequential) = sequential_ns_per_kib(vector) else {
        return 0;
    };
    let rules = |id: MetricId| !DEVICE_SCALING.contains(&id.family().row().stem);
    let mut changed = 0;
    for (slot, id, now) in device_metrics(vector).into_iter().filter(|m| rules(m.1)) {
        let stem = id.family().row().stem;
        let straight = ["RD", "DTR"].contains(&stem);
        let kib = moved_kib(id);
        let all = if id.unit().is_rate() {
            if now <= 0.0 {
                continue;
            }
            kib * 1e9 / now
        } else {
            now
        };
        let data = if straight {
            all
        } else {
            (kib * sequential).min(all)
        };
        let to = (all - data) * seek + data * moving;
        if (to - all).abs() <= all * 1e-12 {
            continue;
        }
        changed += 1;
        vector.change(
            slot,
            if id.unit().is_rate() {
                kib * 1e9 / to
            } else {
                to
            },
        );
    }
    changed
}

/// Data that a metric of the device moves, KiB.
fn moved_kib(id: MetricId) -> f64 {
    let row = id.family().row();
    let by_kib = row.points.is_some_and(|p| p.unit == "KiB");
    match (row.stem, id.point()) {
        // Its points are distances.
        ("RX" | "RXA", _) => 4.0,
        (_, Some(kib)) if by_kib => f64::from(kib),
        (stem, None) if stem.starts_with("RF") || stem == "WP" => 4.0,
        (_, None) if id.unit().is_rate() => 1.0,
        _ => 0.0,
    }
}

/// From the largest sequential reads that were measured.
fn sequential_ns_per_kib(vector: &SystemVector) -> Option<f64> {
    let rates = family("RD")?.metrics().filter_map(|id| vector.get(id));
    let rate = rates.map(|e| e.value).fold(0.0, f64::max);
    (rate > 0.0).then(|| 1e9 / rate)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "exact by construction")]
mod tests {
    use super::*;

    #[test]
    fn every_group_holds_metrics_and_every_name_in_it_is_one() {
        for (name, families) in GROUPS {
            assert!(!group(name).unwrap().is_empty(), "{name}");
            for f in *families {
                let start = f.trim_end_matches('*');
                let there = FamilyId::all().any(|id| match f.strip_suffix('*') {
                    Some(start) => id.row().stem.starts_with(start),
                    None => id.row().stem == *f,
                });
                assert!(there, "{name}: {start}");
            }
        }
    }

    #[test]
    fn a_metrics_own_name_means_no_group() {
        let stems = |name: &str| match Part::named(name) {
            Some(Part::Metrics(ids)) => {
                let mut stems: Vec<&str> = ids.iter().map(|id| id.family().row().stem).collect();
                stems.dedup();
                stems
            }
            other => panic!("{name}: {other:?}"),
        };
        for family in FamilyId::all() {
            let stem = family.row().stem;
            assert_eq!(stems(stem), [stem]);
        }
        assert!(matches!(Part::named("open"), Some(Part::Group(all)) if all.len() > 5));
        assert_eq!(Part::named("Fsync"), None);
        assert_eq!(Part::named("memory"), Some(Part::Memory));
    }

    #[test]
    fn the_nearest_names_are_found() {
        assert_eq!(nearest("memroy").first().unwrap(), "memory");
        assert!(nearest("fsnyc").contains(&"fsync".to_owned()));
        assert!(nearest("RENAM").contains(&"RENAME".to_owned()));
        assert_eq!(nearest("").len(), 3);
    }

    fn disk() -> SystemVector {
        let m = |name: &str, v: f64| (MetricId::parse(name).unwrap(), v, v, v);
        // 100 KiB/ms in sequence; 10 ms to get anywhere.
        SystemVector::new(
            "disk",
            [
                m("RD64", 1e5),
                m("RRD4", 4.0 / 10.04e-3),
                m("RFO", 10.04e6),
                m("FSY0", 20e6),
                m("STAT", 300.0),
            ],
        )
    }

    #[test]
    fn a_disk_is_faster_as_a_whole_or_in_its_parts() {
        let value = |v: &SystemVector, name: &str| v.named(name).unwrap().value;
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
        let mut v = disk();
        assert_eq!(speed_up(&mut v, 2.0), 4);
        assert_eq!((value(&v, "RD64"), value(&v, "RFO")), (2e5, 5.02e6));
        assert_eq!(value(&v, "STAT"), 300.0);
        let mut v = disk();
        assert_eq!(reach(&mut v, 0.5, 1.0), 3);
        assert!(near(value(&v, "RFO"), 5.04e6), "{}", value(&v, "RFO"));
        assert!(near(value(&v, "RRD4"), 4.0 / 5.04e-3));
        assert!(near(value(&v, "FSY0"), 10e6) && value(&v, "RD64") == 1e5);
        let mut v = disk();
        assert_eq!(reach(&mut v, 1.0, 0.5), 3);
        assert!(near(value(&v, "RD64"), 2e5) && near(value(&v, "RFO"), 10.02e6));
        assert_eq!(value(&v, "FSY0"), 20e6);
    }
}

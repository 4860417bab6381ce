//! The one table of everything a system profile may hold.
//!
//! A [`Family`] is a row of the table: a scalar (`STAT`) or a series over one parameter (`RD64`:
//! sequential reads of 64 KiB). Names are Table 4.4's of Smith 2001 and extend it in the same
//! manner. A family with *gaps* is also measured with that long a pause since the last call of its
//! kind, data and instruction caches polluted meanwhile: `STAT_G10` is `STAT` after 10 us.
//!
//! Costs of calls are times inside the kernel: the empty call is subtracted; costs of calls that
//! take a path also exclude the resolution of its components, which the `LU…` families give.

mod table;

use std::fmt;

pub use table::FAMILIES;

/// Unit of a metric's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// KiB per second.
    KibPerS,
    /// KiB.
    Kib,
    /// Bytes.
    Bytes,
    /// A count (entries of a cache, files).
    Count,
    /// Seconds.
    Seconds,
    /// A factor.
    Ratio,
    /// Operations per second.
    OpsPerS,
}

impl Unit {
    /// How the unit is written in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::KibPerS => "KiB/s",
            Unit::Kib => "KiB",
            Unit::Bytes => "B",
            Unit::Count => "count",
            Unit::Seconds => "s",
            Unit::Ratio => "ratio",
            Unit::OpsPerS => "ops/s",
        }
    }

    /// Whether a larger value means a faster system.
    pub fn is_rate(self) -> bool {
        matches!(self, Unit::KibPerS | Unit::OpsPerS)
    }
}

/// What a family belongs to; groups are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Sizes and thresholds.
    Parameters,
    /// Resolution of one path component.
    Lookup,
    /// Calls on names and attributes, everything cached.
    Calls,
    /// Cached reads and every kind of write.
    Data,
    /// Reads that reach the device.
    Cold,
    /// Truncation and removal by size.
    Truncate,
    /// Waiting for stable storage.
    Sync,
    /// Mapped files.
    Mmap,
    /// Slowdown by what is written behind.
    WriteBack,
    /// Several threads at once.
    Scaling,
}

impl Group {
    /// Every group, in the order in which they are measured.
    pub const ALL: &'static [Group] = &[
        Group::Parameters,
        Group::Lookup,
        Group::Calls,
        Group::Data,
        Group::Mmap,
        Group::Truncate,
        Group::Sync,
        Group::Cold,
        Group::Scaling,
        Group::WriteBack,
    ];

    /// The group's name in listings and for `--only`.
    pub fn name(self) -> &'static str {
        match self {
            Group::Parameters => "parameters",
            Group::Lookup => "lookup",
            Group::Calls => "calls",
            Group::Data => "data",
            Group::Cold => "cold",
            Group::Truncate => "truncate",
            Group::Sync => "sync",
            Group::Mmap => "mmap",
            Group::WriteBack => "writeback",
            Group::Scaling => "scaling",
        }
    }
}

/// The parameter of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points {
    /// What the number in the name counts: `KiB`, `entries`, `KiB/s`, `blocks/s`, `threads`.
    pub unit: &'static str,
    /// The measured values, ascending.
    pub values: &'static [u32],
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// The name, or what stands before the number of a series.
    pub stem: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// The series' parameter, `None` for a scalar.
    pub points: Option<Points>,
    /// Whether it is also measured after the pauses of [`GAPS_US`].
    pub gaps: bool,
    /// What it belongs to.
    pub group: Group,
    /// Whether `--quick` measures it.
    pub quick: bool,
    /// Its name in a sentence, at most 60 characters and no other family's.
    pub short: &'static str,
    /// What it measures, one sentence without its full stop.
    pub what: &'static str,
    /// How it is measured.
    pub how: &'static str,
    /// Section of the work that names it, or `extended` with the reason.
    pub source: &'static str,
    /// Families that must be measured before it.
    pub depends: &'static [&'static str],
}

/// The pauses of families with gaps, in microseconds; index 0 is the back-to-back loop.
pub const GAPS_US: [u32; 5] = [0, 1, 10, 150, 2000];

/// One metric: a family, a point of its series (0 for a scalar) and a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetricId {
    family: u16,
    point: u16,
    gap: u8,
}

/// The family of that stem.
pub fn family(stem: &str) -> Option<FamilyId> {
    FAMILIES
        .iter()
        .position(|f| f.stem == stem)
        .map(|i| FamilyId(i as u16))
}

/// A row of the table by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FamilyId(u16);

impl FamilyId {
    /// Every family.
    pub fn all() -> impl Iterator<Item = FamilyId> {
        (0..FAMILIES.len() as u16).map(FamilyId)
    }

    /// The row.
    pub fn row(self) -> &'static Family {
        &FAMILIES[self.0 as usize]
    }

    /// The metric of a scalar family, or the first point of a series, back to back.
    pub fn scalar(self) -> MetricId {
        MetricId {
            family: self.0,
            point: 0,
            gap: 0,
        }
    }

    /// The metric at `point` of the series; `None` if the table has no such point.
    pub fn at(self, point: u32) -> Option<MetricId> {
        let values = self.row().points?.values;
        let index = values.iter().position(|&v| v == point)?;
        Some(MetricId {
            family: self.0,
            point: index as u16,
            gap: 0,
        })
    }

    /// Every metric of the family: all points, all gaps.
    pub fn metrics(self) -> impl Iterator<Item = MetricId> {
        let row = self.row();
        let points = row.points.map_or(1, |p| p.values.len()) as u16;
        let gaps = if row.gaps { GAPS_US.len() } else { 1 } as u8;
        (0..points).flat_map(move |point| {
            (0..gaps).map(move |gap| MetricId {
                family: self.0,
                point,
                gap,
            })
        })
    }
}

impl MetricId {
    /// Every metric of the table.
    pub fn all() -> impl Iterator<Item = MetricId> {
        FamilyId::all().flat_map(FamilyId::metrics)
    }

    /// The metric of that name.
    pub fn parse(name: &str) -> Option<MetricId> {
        let (base, gap) = match name.rsplit_once("_G") {
            Some((base, us)) => match us.parse::<u32>() {
                Ok(us) => (base, GAPS_US.iter().position(|&g| g == us && g > 0)? as u8),
                Err(_) => (name, 0),
            },
            None => (name, 0),
        };
        let id = match family(base) {
            Some(id) if id.row().points.is_none() => id.scalar(),
            _ => {
                let digits = base.len() - base.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let (stem, number) = base.split_at(base.len() - digits);
                family(stem)?.at(number.parse().ok()?)?
            }
        };
        id.with_gap(gap)
    }

    /// Its family.
    pub fn family(self) -> FamilyId {
        FamilyId(self.family)
    }

    /// The value of the series' parameter, `None` for a scalar.
    pub fn point(self) -> Option<u32> {
        self.family()
            .row()
            .points
            .and_then(|p| p.values.get(self.point as usize).copied())
    }

    /// The index in [`GAPS_US`].
    pub fn gap(self) -> usize {
        self.gap as usize
    }

    /// The same metric after the pause `GAPS_US[gap]`; `None` if the family has no gaps.
    pub fn with_gap(self, gap: u8) -> Option<MetricId> {
        let allowed = gap == 0 || (self.family().row().gaps && (gap as usize) < GAPS_US.len());
        allowed.then_some(MetricId { gap, ..self })
    }

    /// What it measures, in words: the family's, its size and its pause.
    pub fn words(self) -> String {
        let row = self.family().row();
        let mut words = row.what.to_owned();
        if let (Some(point), Some(points)) = (self.point(), row.points) {
            words = format!("{words}: {point} {}", points.unit);
        }
        match GAPS_US.get(self.gap()) {
            Some(us) if self.gap > 0 => format!("{words}, after a pause of {us} us"),
            _ => words,
        }
    }

    /// Unit of its value.
    pub fn unit(self) -> Unit {
        self.family().row().unit
    }
}

impl fmt::Display for MetricId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.family().row().stem)?;
        if let Some(point) = self.point() {
            write!(f, "{point}")?;
        }
        if self.gap > 0 {
            write!(f, "_G{}", GAPS_US[self.gap()])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_is_unique_and_parses_back() {
        let mut seen = HashSet::new();
        for id in MetricId::all() {
            let name = id.to_string();
            assert!(seen.insert(name.clone()), "{name} stands twice");
            assert_eq!(MetricId::parse(&name), Some(id), "{name}");
        }
        assert!(MetricId::parse("RD3").is_none());
        assert!(MetricId::parse("STAT_G7").is_none());
        assert!(MetricId::parse("BC_G10").is_none());
    }

    #[test]
    fn short_names_are_short_and_no_two_are_alike() {
        let mut seen = HashSet::new();
        for row in FAMILIES.iter() {
            assert!(
                (3..=60).contains(&row.short.chars().count()),
                "{}",
                row.stem
            );
            assert!(seen.insert(row.short), "{}: {}", row.stem, row.short);
        }
    }

    #[test]
    fn every_dependency_exists_and_points_ascend() {
        for row in FAMILIES.iter() {
            for name in row.depends {
                assert!(family(name).is_some(), "{} depends on {name}", row.stem);
            }
            if let Some(points) = row.points {
                assert!(points.values.is_sorted_by(|a, b| a < b), "{}", row.stem);
            }
        }
    }

    #[test]
    fn table_4_4_is_there_in_full() {
        let mut names: Vec<String> = [
            "BC", "DNLC", "MDC", "BS", "FS", "LUS_BC", "LUS_NC", "LUS_AC", "LUR_BC", "LUR_NC",
            "LUR_AC", "RDC", "WRC", "WR0", "RDO", "WRO", "OPEN", "CR", "RM", "STAT", "MKDIR",
            "RMDIR", "RENAME", "CHMOD",
        ]
        .map(String::from)
        .to_vec();
        names.extend((0..=12).flat_map(|i| [format!("RD{}", 1 << i), format!("RRD{}", 1 << i)]));
        names.extend((0..=16).flat_map(|i| [format!("TR{}", 1 << i), format!("TRC{}", 1 << i)]));
        for name in names {
            assert!(MetricId::parse(&name).is_some(), "{name}");
        }
    }
}

//! The scores that `fsage age apply` noted at each simulated day's end, beside those of snapshots.

use std::path::{Path, PathBuf};

use fsage_format::FormatError;
use fsage_format::bounded::read_document;
use fsage_format::result::layout::{Layout, Score, SizeClass};
use serde::Deserialize;

use crate::made::{MadeNight, days_between, days_of};

/// What is read of the result.
#[derive(Deserialize)]
struct Applied {
    days: Vec<Day>,
    /// Of the target's file system.
    block_bytes: Option<u64>,
    /// Of the last of them.
    #[serde(default)]
    by_size: Vec<SizeClass>,
    /// Null where nothing is known of it.
    made: Option<Made>,
}

/// The snapshots that the workload was made from; none where it was made of something else.
#[derive(Default, Deserialize)]
struct Made {
    #[serde(default)]
    nights: Vec<MadeNight>,
}

#[derive(Deserialize)]
struct Day {
    #[serde(rename = "day")]
    number: u64,
    counted_blocks: Option<u64>,
    optimal_blocks: Option<u64>,
}

/// The simulated days of an application.
pub struct AppliedDays {
    path: PathBuf,
    applied: Applied,
}

impl AppliedDays {
    /// Reads the result of the application.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        let bytes = read_document(path, "a snapshot, or the JSON of fsage age apply")?;
        let applied = serde_json::from_slice(&bytes)
            .map_err(|e| FormatError::corrupt(path, format!("line {}", e.line()), e.to_string()))?;
        Ok(Self {
            path: path.to_owned(),
            applied,
        })
    }
}

/// For each of these snapshots the simulated day that ends with it, or the last before it that had operations. Which day
/// that is the workload tells by when its snapshots were taken; of one that does not, one alone is of the last day, else the
/// first snapshot ends day 0 and nights are whole days, as [`crate::made::days_between`] counts them.
pub fn of_days(days: AppliedDays, snapshots: &[Layout]) -> Vec<Layout> {
    let AppliedDays { path, applied } = days;
    let nights = applied.made.map(|made| made.nights).unwrap_or_default();
    let in_order = |pair: &[MadeNight]| matches!(pair, [a, b] if a.taken_unix_ns < b.taken_unix_ns);
    let numbers: Vec<Option<u64>> = if nights.len() > 1 && nights.windows(2).all(in_order) {
        let taken = snapshots.iter().map(|snapshot| snapshot.taken_unix_ns);
        taken.map(|ns| day_of(&nights, ns)).collect()
    } else if snapshots.len() == 1 {
        vec![applied.days.last().map(|day| day.number)]
    } else {
        let days = days_of(snapshots.iter().map(|snapshot| snapshot.taken_unix_ns));
        days.into_iter().map(Some).collect()
    };
    let last = applied.days.last().map(|day| day.number);
    let of = |(snapshot, number): (&Layout, Option<u64>)| {
        let day = number.and_then(|number| applied.days.iter().rfind(|day| day.number <= number));
        let score = day.and_then(|d| Score::of(d.counted_blocks?, d.optimal_blocks?));
        let which = number.map_or("before its first day".into(), |n| format!("day {n}"));
        Layout {
            target: format!("{} {which}", path.display()),
            taken_unix_ns: snapshot.taken_unix_ns,
            day: number,
            block_bytes: applied.block_bytes.unwrap_or(0),
            score,
            by_size: if day.is_some() && day.map(|day| day.number) == last {
                applied.by_size.clone()
            } else {
                Vec::new()
            },
            ..Layout::default()
        }
    };
    snapshots.iter().zip(numbers).map(of).collect()
}

/// The day that a snapshot ends: that of the night of which it is, or so much later than the last before it.
fn day_of(nights: &[MadeNight], taken_unix_ns: u64) -> Option<u64> {
    let night = nights.iter().rfind(|n| n.taken_unix_ns <= taken_unix_ns)?;
    if night.taken_unix_ns == taken_unix_ns {
        return Some(night.day);
    }
    Some(night.day + u64::from(days_between(night.taken_unix_ns, taken_unix_ns)))
}

//! The scores that `fsage age apply` noted at each simulated day's end, beside those of snapshots.

use std::path::Path;

use fsage_format::FormatError;
use fsage_format::bounded::read_document;
use fsage_format::result::layout::{Layout, Score};
use serde::Deserialize;

use crate::made::days_between;

/// What is read of the result.
#[derive(Deserialize)]
struct Applied {
    days: Vec<Day>,
}

#[derive(Deserialize)]
struct Day {
    #[serde(rename = "day")]
    number: u64,
    counted_blocks: Option<u64>,
    optimal_blocks: Option<u64>,
}

/// For each of these snapshots the simulated day that ends with it, or the last before it that had operations: nights
/// are whole days, as [`crate::made::days_between`] counts them.
pub fn of_days(path: &Path, snapshots: &[Layout]) -> Result<Vec<Layout>, FormatError> {
    let bytes = read_document(path, "a snapshot, or the JSON of fsage age apply")?;
    let applied: Applied = serde_json::from_slice(&bytes)
        .map_err(|e| FormatError::corrupt(path, format!("line {}", e.line()), e.to_string()))?;
    let (mut number, mut before) = (0_u64, None);
    let of = |snapshot: &Layout| {
        number += before.map_or(0, |ns| days_between(ns, snapshot.taken_unix_ns).into());
        before = Some(snapshot.taken_unix_ns);
        let day = applied.days.iter().rfind(|day| day.number <= number);
        let score = day.and_then(|d| Score::of(d.counted_blocks?, d.optimal_blocks?));
        Layout {
            target: format!("{} day {number}", path.display()),
            taken_unix_ns: snapshot.taken_unix_ns,
            score,
            ..Layout::default()
        }
    };
    Ok(snapshots.iter().map(of).collect())
}

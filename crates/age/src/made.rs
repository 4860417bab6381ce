//! How an aging workload was made: written into its trace, and read back by who applies it.

use fsage_format::result::aging;
use fsage_format::trace::TraceMeta;

pub use aging::{AGING_ENTRY as ENTRY, AgingKind, Made, MadeNight};

/// The version of [`Made`] that is written; every version up to it is read.
pub const MADE_VERSION: u32 = 1;

/// Nanoseconds of a day.
pub const DAY_NS: u64 = 86_400_000_000_000;

/// Nanoseconds of an hour.
pub const HOUR_NS: u64 = DAY_NS / 24;

/// Whole days from one snapshot to the next, at least one.
pub fn days_between(from_ns: u64, to_ns: u64) -> u32 {
    let ns = to_ns.saturating_sub(from_ns);
    (ns.saturating_add(DAY_NS / 2) / DAY_NS).clamp(1, 36_500) as u32
}

/// The day that each of some snapshots ends, of which the first ends day 0, by when they were taken.
pub(crate) fn days_of(taken_unix_ns: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let (mut day, mut before) = (0, None);
    let of = |ns: u64| {
        day += before.map_or(0, |before| u64::from(days_between(before, ns)));
        before = Some(ns);
        day
    };
    taken_unix_ns.into_iter().map(of).collect()
}

/// Why a trace is no aging workload that can be used; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum MadeError {
    /// It is an ordinary trace.
    #[error(
        "use it as an aging workload: its metadata has no entry `aging`, expected a trace that `fsage age generate` made"
    )]
    Missing,
    /// Another release made it.
    #[error(
        "use it as an aging workload: it is of version {found}, this release reads up to {MADE_VERSION}"
    )]
    Version {
        /// Its version.
        found: u64,
    },
    /// The entry is no JSON of that kind.
    #[error("use it as an aging workload: entry `aging` of its metadata: {0}")]
    Unreadable(String),
}

/// What a trace says of how it was made.
pub fn of_trace(meta: &TraceMeta) -> Result<Made, MadeError> {
    let text = meta.extra.get(ENTRY).ok_or(MadeError::Missing)?;
    let bad = |e: serde_json::Error| MadeError::Unreadable(e.to_string());
    let value: serde_json::Value = serde_json::from_str(text).map_err(bad)?;
    let found = value.get("version").and_then(serde_json::Value::as_u64);
    match found {
        Some(found) if found > u64::from(MADE_VERSION) => Err(MadeError::Version { found }),
        _ => serde_json::from_value(value).map_err(bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(text: &str) -> TraceMeta {
        TraceMeta {
            extra: [(ENTRY.to_owned(), text.to_owned())].into(),
            ..TraceMeta::default()
        }
    }

    #[test]
    fn another_version_is_refused_by_name() {
        let made = Made {
            version: MADE_VERSION,
            days: 3,
            ..Made::default()
        };
        let text = serde_json::to_string(&made).unwrap();
        assert_eq!(of_trace(&meta(&text)).unwrap(), made);
        let newer = text.replacen("\"version\":1", "\"version\":7", 1);
        let error = of_trace(&meta(&newer)).unwrap_err().to_string();
        assert!(error.contains("version 7"), "{error}");
        assert!(matches!(
            of_trace(&TraceMeta::default()),
            Err(MadeError::Missing)
        ));
        for bad in ["", "[]", "{\"version\":1}"] {
            assert!(
                matches!(of_trace(&meta(bad)), Err(MadeError::Unreadable(_))),
                "{bad}"
            );
        }
    }
}

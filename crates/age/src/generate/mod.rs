//! Makes aging workloads: from snapshots, a git history, models of workloads and named usage profiles (the thesis, 3.2.1).
//!
//! Always true here:
//! * a source writes its operations into an [`Emitter`], in the order of time, day after day; the emitter knows what
//!   the files take;
//! * every workload is made twice: once for what it amounts to and whether it fits, then into the trace. The same
//!   seed gives the same bytes;
//! * memory grows with the files that are there and with one day's operations, not with all of them.

mod deletes;
mod emit;
mod files;
mod git;
mod growth;
mod learn;
mod model;
mod plan;
pub mod profile;
mod short;
mod snapshots;
mod state;
mod tree;
mod walk;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use fsage_core::Seed;
use fsage_format::FormatError;
use fsage_format::trace::{GENERATED, TraceEnd, TraceMeta, TraceWriter};

pub use deletes::{Deletes, Habits};
pub use emit::Emitter;
pub use git::GitSource;
pub use learn::Learner;
pub use model::ModelSource;
pub use profile::{PROFILES, Profile};
pub use short::ShortLived;
pub use snapshots::{SnapshotOptions, SnapshotSource};

use crate::made::{AgingKind, DAY_NS, ENTRY, MADE_VERSION, Made};

/// Files are counted in blocks of so many bytes: those of ext4, xfs and btrfs.
pub const BLOCK_BYTES: u64 = 4096;

/// The directory in which the workload is thought to run.
const DIRECTORY: &str = "/aged";

/// The smallest file system for which a workload is made.
pub const SMALLEST_BYTES: u64 = 16 << 20;

/// The most of a file system that files may take: it keeps some for its inodes, maps and journal.
pub const FULLEST: f64 = 0.95;

/// Why a workload cannot be made; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A file could not be read or written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// What is asked or given makes no workload.
    #[error("make the aging workload: {0}")]
    Refused(String),
    /// It was stopped.
    #[error("make the aging workload: interrupted")]
    Interrupted,
}

/// A phrase as an error.
pub(crate) fn refused(problem: impl Into<String>) -> GenerateError {
    GenerateError::Refused(problem.into())
}

/// What is asked beside the source.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Where random choices begin.
    pub seed: Seed,
    /// Simulated days; the source's own otherwise.
    pub days: Option<u32>,
    /// Size of the file system, bytes; the source's own otherwise.
    pub size_bytes: Option<u64>,
    /// The utilisation to hold, 0 to 1.
    pub fill: Option<f64>,
    /// How many times the source's activity.
    pub scale: Option<f64>,
}

impl Wanted {
    fn check(&self) -> Result<(), GenerateError> {
        if let Some(fill) = self.fill.filter(|f| !(0.01..=FULLEST).contains(f)) {
            return Err(refused(format!(
                "a fill of {fill}, expected 0.01 to {FULLEST}: a file system keeps some of its space for itself"
            )));
        }
        if let Some(scale) = self.scale.filter(|s| !(1e-3..=1e3).contains(s)) {
            return Err(refused(format!(
                "a scale of {scale}, expected 0.001 to 1000"
            )));
        }
        if let Some(days) = self.days.filter(|d| !(1..=36_500).contains(d)) {
            return Err(refused(format!("{days} days, expected 1 to 36500")));
        }
        let small = self.size_bytes.filter(|&s| s < SMALLEST_BYTES);
        if let Some(small) = small {
            return Err(refused(format!(
                "a file system of {small} bytes, expected at least {SMALLEST_BYTES}"
            )));
        }
        Ok(())
    }
}

/// Where a workload comes from.
pub trait Source {
    /// What is known of it before: kind, source, days and size of the file system.
    fn made(&self) -> Made;
    /// Puts out all its operations; the same each time.
    fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError>;
}

/// What an emission is at: the day, of how many, of the first or second pass, and the changes of this pass so far.
pub type DayProgress<'a> = &'a mut dyn FnMut(u32, u32, u64);

/// What the workload of `source` amounts to; refused if it does not fit.
pub fn outline(
    source: &mut dyn Source,
    step: DayProgress<'_>,
    stop: &AtomicBool,
) -> Result<Made, GenerateError> {
    let mut made = source.made();
    let days = made.days;
    let mut first = Emitter::new(None, stop, step, (0, days * 2));
    source.emit(&mut first)?;
    first.tell(&mut made);
    made.version = MADE_VERSION;
    env!("CARGO_PKG_VERSION").clone_into(&mut made.generator);
    if made.size_bytes == 0 {
        // Nobody says what it is for: one that it fills to four fifths at most.
        made.size_bytes = (made.peak_bytes / 4 * 5)
            .next_multiple_of(1 << 20)
            .max(SMALLEST_BYTES);
        first.tell(&mut made);
    }
    if made.peak_bytes > made.size_bytes {
        return Err(refused(format!(
            "on day {} its files take {} bytes, more than the {} bytes of the file system: expected --size of at \
             least {}M",
            first.peak_day(),
            made.peak_bytes,
            made.size_bytes,
            (made.peak_bytes as f64 / FULLEST / f64::from(1 << 20)).ceil()
        )));
    }
    Ok(made)
}

/// Makes the workload of `source` and writes it to `path`; also tells the trace's size in bytes. Nothing is written
/// of one that does not fit.
pub fn generate(
    source: &mut dyn Source,
    path: &Path,
    step: DayProgress<'_>,
    stop: &AtomicBool,
) -> Result<(Made, u64), GenerateError> {
    let made = outline(source, &mut *step, stop)?;
    let entry = serde_json::to_string(&made).map_err(|e| refused(e.to_string()))?;
    let meta = TraceMeta {
        fsage: made.generator.clone(),
        directory: DIRECTORY.into(),
        clock: "simulated".into(),
        method: GENERATED.into(),
        under: vec![DIRECTORY.into()],
        seed: Some(made.seed),
        extra: [(ENTRY.to_owned(), entry)].into(),
        ..TraceMeta::default()
    };
    let writer = TraceWriter::create_whole(path, meta)?;
    let mut second = Emitter::new(Some(writer), stop, step, (made.days, made.days * 2));
    source.emit(&mut second)?;
    let end = TraceEnd {
        elapsed_ns: u64::from(made.days) * DAY_NS,
        ..TraceEnd::default()
    };
    let file_bytes = second.finish(end)?;
    Ok((made, file_bytes))
}

/// The workload of a built-in profile.
pub fn of_profile(name: &str, wanted: &Wanted) -> Result<Box<dyn Source>, GenerateError> {
    wanted.check()?;
    let profile = PROFILES.iter().find(|p| p.name == name).ok_or_else(|| {
        let names: Vec<&str> = PROFILES.iter().map(|p| p.name).collect();
        refused(format!(
            "no profile `{name}`, expected one of {}",
            names.join(", ")
        ))
    })?;
    Ok(Box::new(plan::ProfileSource::new(profile, wanted)?))
}

/// The first fields of what was made.
pub(crate) fn begun(kind: AgingKind, source: &str, wanted: &Wanted) -> Made {
    Made {
        kind,
        source: source.to_owned(),
        seed: wanted.seed.0,
        block_bytes: BLOCK_BYTES,
        fill: wanted.fill,
        scale: wanted.scale.unwrap_or(1.0),
        ..Made::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct OneLongDay;

    impl Source for OneLongDay {
        fn made(&self) -> Made {
            Made::default()
        }

        fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
            loop {
                out.mkdir(b"d")?;
            }
        }
    }

    struct OneDay;

    impl Source for OneDay {
        fn made(&self) -> Made {
            Made {
                days: 1,
                ..Made::default()
            }
        }

        fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
            for _ in 0..25_000 {
                out.mkdir(b"d")?;
            }
            out.end_day()
        }
    }

    #[test]
    fn progress_is_told_within_a_day() {
        let mut reported = Vec::new();
        let mut step = |done, all, changes| reported.push((done, all, changes));
        let made = outline(&mut OneDay, &mut step, &AtomicBool::new(false)).unwrap();
        assert_eq!(made.operations, 25_000);
        let within = [(0, 2, 0), (0, 2, 10_000), (0, 2, 20_000), (1, 2, 25_000)];
        assert_eq!(reported, within);
    }

    #[test]
    fn a_signal_does_not_wait_for_the_end_of_a_day() {
        let made = outline(&mut OneLongDay, &mut |_, _, _| (), &AtomicBool::new(true));
        assert!(matches!(made, Err(GenerateError::Interrupted)));
    }
}

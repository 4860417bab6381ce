//! From snapshots, by the thesis's three steps (3.2.1): the files of the first, what lies between each two, and files
//! that lived between them.

use std::path::Path;

use fsage_core::FileType;

use super::deletes::Deletes;
use super::emit::Emitter;
use super::short::ShortLived;
use super::state::{Groups, Night, nights, read};
use super::walk::Walk;
use super::{GenerateError, Source, Wanted, begun, refused};
use crate::made::{AgingKind, Made, MadeNight, days_between, days_of};

/// What is asked beside.
#[derive(Debug, Default)]
pub struct SnapshotOptions {
    /// How deletions get their times; by what the snapshots allow otherwise.
    pub deletes: Option<Deletes>,
    /// Files that live less than a night.
    pub short_lived: Option<ShortLived>,
    /// Files are placed by their inode's group, whatever their names.
    pub by_group: bool,
    /// Inodes of a group, where the snapshots do not tell.
    pub inodes_per_group: Option<u64>,
}

/// Snapshots as a source.
pub struct SnapshotSource {
    nights: Vec<Night>,
    groups: Option<Groups>,
    pub(super) deletes: Deletes,
    pub(super) short: Option<ShortLived>,
    pub(super) made: Made,
    /// What its files may take.
    pub(super) most_bytes: u64,
    /// Profiles of short-lived files a day.
    pub(super) profiles: u64,
}

/// For so many bytes of the file system there is one profile of short-lived files a day.
const PROFILE_BYTES: u64 = 40_000_000;

impl SnapshotSource {
    /// The snapshots of that directory.
    pub fn new(
        dir: &Path,
        wanted: &Wanted,
        options: SnapshotOptions,
    ) -> Result<Self, GenerateError> {
        wanted.check()?;
        if wanted.fill.is_some() {
            return Err(refused(
                "--fill is for profiles: a workload from snapshots is as full as they are; --size asks for another file system",
            ));
        }
        let mut nights = nights(dir)?;
        let first = nights.first().map(|n| n.meta.clone()).unwrap_or_default();
        let groups = groups(&nights, &options)?;
        let size_bytes = wanted.size_bytes.unwrap_or(first.total_bytes);
        if size_bytes == 0 {
            return Err(refused(
                "the snapshots do not tell the size of their file system: expected --size",
            ));
        }
        if wanted.scale.is_some() && options.short_lived.is_none() {
            return Err(refused(
                "--scale multiplies files that live less than a night, of which snapshots know nothing: expected --short-lived too",
            ));
        }
        let mut ends = ends(&nights);
        if let Some(days) = wanted.days {
            let last = ends.last().map_or(0, |night| night.day);
            if u64::from(days) > last + 1 {
                return Err(refused(format!(
                    "--days {days}: the snapshots are of {} days, expected at most as many",
                    last + 1
                )));
            }
            let within = ends.iter().filter(|night| night.day < days.into()).count();
            if within < 2 {
                return Err(refused(format!(
                    "--days {days}: between the first two snapshots the workload has {} days, expected at least as many",
                    ends.get(1).map_or(2, |night| night.day + 1)
                )));
            }
            ends.truncate(within);
            nights.truncate(ends.len());
        }
        let days = ends.last().map_or(0, |night| night.day) as u32 + 1;
        let deletes = options
            .deletes
            .unwrap_or(if groups.is_some() || first.taken_unix_ns == 0 {
                Deletes::Uniform
            } else {
                Deletes::Learnt
            });
        let profiles = size_bytes as f64 / PROFILE_BYTES as f64 * wanted.scale.unwrap_or(1.0);
        let source = dir.display().to_string();
        let made = Made {
            days,
            size_bytes,
            deletes: Some(deletes.name().to_owned()),
            short_lived: options.short_lived.as_ref().map(|s| s.source.clone()),
            nights: ends,
            source_block_bytes: Some(first.block_bytes).filter(|&bytes| bytes > 0),
            ..begun(AgingKind::Snapshots, &source, wanted)
        };
        Ok(Self {
            nights,
            groups,
            deletes,
            short: options.short_lived,
            made,
            most_bytes: size_bytes - size_bytes / 33,
            profiles: (profiles.round() as u64).max(1),
        })
    }
}

fn groups(nights: &[Night], options: &SnapshotOptions) -> Result<Option<Groups>, GenerateError> {
    let Some(night) = nights.first() else {
        return Ok(None);
    };
    if !options.by_group && !nameless(night)? {
        return Ok(None);
    }
    let number = |key: &str| {
        night
            .meta
            .extra
            .get(key)?
            .parse::<u64>()
            .ok()
            .filter(|&n| n > 0)
    };
    let inodes = options
        .inodes_per_group
        .or_else(|| number("inodes_per_group"));
    let inodes = inodes.filter(|&n| n > 0).ok_or_else(|| {
        refused("files are placed by their inode's group, and the snapshots do not tell how many inodes a group has: expected --inodes-per-group")
    })?;
    let bytes = number("blocks_per_group").map(|blocks| blocks * night.meta.block_bytes.max(1));
    let count = bytes.map_or(1, |bytes| night.meta.total_bytes.div_ceil(bytes));
    Ok(Some(Groups { inodes, count }))
}

/// Whether a snapshot has inodes without names.
fn nameless(night: &Night) -> Result<bool, GenerateError> {
    let mut reader = fsage_format::snapshot::SnapshotReader::open(&night.path)?;
    let mut batch = Vec::new();
    reader.next_batch(&mut batch)?;
    Ok(batch
        .iter()
        .any(|e| e.path.is_empty() && e.file_type != FileType::Directory))
}

/// Each snapshot with the day that it ends.
fn ends(nights: &[Night]) -> Vec<MadeNight> {
    let taken: Vec<u64> = nights
        .iter()
        .map(|night| night.meta.taken_unix_ns)
        .collect();
    let days = days_of(taken.iter().copied());
    let ends = days.into_iter().zip(taken);
    ends.map(|(day, taken_unix_ns)| MadeNight { day, taken_unix_ns })
        .collect()
}

fn days(pair: &[Night]) -> u32 {
    let [a, b] = pair else { return 1 };
    days_between(a.meta.taken_unix_ns, b.meta.taken_unix_ns)
}

impl Source for SnapshotSource {
    fn made(&self) -> Made {
        self.made.clone()
    }

    fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut walk = Walk::new(self);
        let Some(first) = self.nights.first() else {
            return Ok(());
        };
        let mut before = read(first, self.groups)?;
        out.leave_out(
            "names that are no files, directories or links",
            before.others,
        );
        walk.first(&before, first, out)?;
        for pair in self.nights.windows(2) {
            let [_, night] = pair else { continue };
            let next = read(night, self.groups)?;
            walk.night(&before, &next, days(pair), night, out)?;
            before = next;
        }
        Ok(())
    }
}

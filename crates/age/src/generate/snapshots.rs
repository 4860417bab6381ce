//! From snapshots, by the thesis's three steps (3.2.1): the files of the first, what lies between each two, and files
//! that lived between them.

use std::path::Path;

use fsage_core::{FileType, Seed};
use fsage_workload::random::{Random, stream_seed};
use rustc_hash::FxHashMap;

use super::deletes::{Deletes, Removal, remove_times};
use super::emit::{Emitter, blocks};
use super::short::{Busy, Laid, ShortLived};
use super::state::{Groups, Inode, Night, ROOT, State, nights, read, seconds};
use super::tree::Tree;
use super::{GenerateError, Source, Wanted, begun, refused};
use crate::made::{AgingKind, DAY_NS, Made};

/// How far a file's change may lie outside of its night and be believed.
const SLACK_NS: i64 = 600_000_000_000;

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
    deletes: Deletes,
    short: Option<ShortLived>,
    made: Made,
    most_bytes: u64,
    /// Snapshots a day.
    profiles: u64,
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
        if let Some(days) = wanted.days {
            nights.truncate((days as usize).max(2));
        }
        let days = nights.windows(2).map(days_between).sum::<u32>() + 1;
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

/// Whole days from one snapshot to the next, at least one.
fn days_between(pair: &[Night]) -> u32 {
    let [a, b] = pair else { return 1 };
    let ns = b.meta.taken_unix_ns.saturating_sub(a.meta.taken_unix_ns);
    ((ns + DAY_NS / 2) / DAY_NS).clamp(1, 36_500) as u32
}

impl Source for SnapshotSource {
    fn made(&self) -> Made {
        self.made.clone()
    }

    fn emit(&mut self, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut walk = Walk {
            tree: Tree::default(),
            random: Random::new(Seed(self.made.seed)),
            draws: Random::new(stream_seed(Seed(self.made.seed), 1)),
            day: 0,
            source: self,
            events: Vec::new(),
            laid: Vec::new(),
        };
        let Some(first) = self.nights.first() else {
            return Ok(());
        };
        let mut before = read(first, self.groups)?;
        out.leave_out(
            "names that are no files, directories or links",
            before.others,
        );
        walk.first(&before, out)?;
        for pair in self.nights.windows(2) {
            let [_, night] = pair else { continue };
            let next = read(night, self.groups)?;
            walk.night(&before, &next, days_between(pair), night, out)?;
            before = next;
        }
        Ok(())
    }
}

/// What happens to an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Make(u64),
    /// With what it had before where it was, or not.
    Modify(u64, bool),
    Settle(u64),
    Remove(u64),
    ShortMake(usize),
    ShortRemove(usize),
}

#[derive(Debug, Clone, Copy)]
struct Event {
    ns: u64,
    what: What,
}

struct Walk<'s> {
    source: &'s SnapshotSource,
    tree: Tree,
    random: Random,
    /// Of short-lived files, so that deletions are the same with and without them.
    draws: Random,
    day: u32,
    events: Vec<Event>,
    laid: Vec<Laid>,
}

impl Walk<'_> {
    /// The files of the first snapshot, in the order of their last change, over its day.
    fn first(&mut self, state: &State, out: &mut Emitter<'_>) -> Result<(), GenerateError> {
        let mut order: Vec<(i64, u64)> = state
            .inodes
            .iter()
            .map(|(&ino, i)| (i.ctime_ns, ino))
            .collect();
        // Directories of groups come first, in the order of the groups.
        order.sort_by_key(|&(ns, ino)| (ns, if ns == 0 { !ino } else { ino }));
        let apart_ns = (DAY_NS / (order.len() as u64 + 2)).min(1_000_000_000);
        for (nth, (_, ino)) in order.into_iter().enumerate() {
            out.at(nth as u64 * apart_ns);
            self.tree.make(ino, state, out)?;
        }
        self.day = 1;
        out.end_day()
    }

    /// What lies between two snapshots, and the days that it takes.
    fn night(
        &mut self,
        before: &State,
        next: &State,
        days: u32,
        night: &Night,
        out: &mut Emitter<'_>,
    ) -> Result<(), GenerateError> {
        let span = Span::new(before, next, self.day, days);
        let removed = self.compare(before, next, span, night)?;
        self.removals(before, next, &removed, span);
        self.short_lived(next, span);
        self.events.sort_by_key(|e| e.ns);
        self.tree.doomed = removed.iter().copied().collect();
        for event in std::mem::take(&mut self.events) {
            while event.ns >= u64::from(self.day + 1) * DAY_NS && self.day + 1 < span.last_day() {
                self.day += 1;
                out.end_day()?;
            }
            out.at(event.ns);
            self.put(event.what, next, out)?;
        }
        // What could not go before because something lay in it.
        for ino in removed {
            if self.tree.doomed.contains(&ino) {
                self.tree.remove_all(ino, out)?;
            }
        }
        while let Some(ino) = self.tree.aside.pop() {
            self.tree.settle(ino, next, out)?;
        }
        while self.day < span.last_day() {
            self.day += 1;
            out.end_day()?;
        }
        self.laid.clear();
        Ok(())
    }

    /// Finds what was made, changed, renamed and removed; returns what was removed, what lies in a directory after it.
    fn compare(
        &mut self,
        before: &State,
        next: &State,
        span: Span,
        night: &Night,
    ) -> Result<Vec<u64>, GenerateError> {
        let (mut changed, mut outside) = (0_u64, 0_u64);
        let mut inodes: Vec<u64> = next.inodes.keys().copied().collect();
        inodes.sort_unstable();
        let mut removed = Vec::new();
        for ino in inodes {
            let Some(now) = next.inodes.get(&ino) else {
                continue;
            };
            let old = before.inodes.get(&ino);
            let same = old.filter(|old| old.ident == now.ident && old.kind == now.kind);
            if same.is_some_and(|old| {
                old.ctime_ns == now.ctime_ns && old.size == now.size && old.names == now.names
            }) {
                continue;
            }
            let ns = if now.ctime_ns == 0 {
                span.begin_ns + self.random.below(span.length_ns)
            } else {
                let inside =
                    same.is_some_and(|o| o.ctime_ns == now.ctime_ns) || span.holds(now.ctime_ns);
                changed += 1;
                outside += u64::from(!inside);
                span.map(now.ctime_ns)
            };
            self.change(ino, now, same, ns);
            if same.is_none() && old.is_some() {
                removed.push(ino);
            }
        }
        if outside > 2 && outside * 2 > changed {
            return Err(refused(format!(
                "{}: {outside} of {changed} files that changed since the snapshot before it, {} earlier, did so by \
                 their ctime at another time: the clock jumped",
                night.path.display(),
                seconds(span.real_ns)
            )));
        }
        removed.extend(
            before
                .inodes
                .keys()
                .filter(|ino| !next.inodes.contains_key(ino)),
        );
        removed.sort_unstable();
        removed.dedup();
        Ok(removed)
    }

    fn change(&mut self, ino: u64, now: &Inode, same: Option<&Inode>, ns: u64) {
        let mut event = |what| self.events.push(Event { ns, what });
        let Some(old) = same else {
            event(What::Make(ino));
            return;
        };
        // Also where its names are the same: its directory may be another of that number.
        event(What::Settle(ino));
        if now.kind == FileType::Regular && (old.size, old.mtime_ns) != (now.size, now.mtime_ns) {
            // Where nothing moved, it was written in place or added to; the last extent may have grown.
            let kept = !old.extents.is_empty()
                && now.extents.len() >= old.extents.len()
                && old.extents.iter().zip(&now.extents).all(|(a, b)| {
                    (a.logical_bytes, a.physical_bytes) == (b.logical_bytes, b.physical_bytes)
                        && a.length_bytes <= b.length_bytes
                });
            event(What::Modify(ino, kept));
        }
    }

    /// Gives deletions their times.
    fn removals(&mut self, before: &State, next: &State, removed: &[u64], span: Span) {
        let mut busy: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        let mut made: FxHashMap<u64, u64> = FxHashMap::default();
        for event in &self.events {
            if let What::Make(ino) | What::Modify(ino, _) | What::Settle(ino) = event.what
                && let Some((dir, _)) = next.inodes.get(&ino).and_then(|i| i.names.first())
            {
                busy.entry(*dir).or_default().push(event.ns);
                if matches!(event.what, What::Make(_)) {
                    made.insert(ino, event.ns);
                }
            }
        }
        let range = (
            self.events
                .iter()
                .map(|e| e.ns)
                .min()
                .unwrap_or(span.begin_ns),
            self.events
                .iter()
                .map(|e| e.ns)
                .max()
                .unwrap_or(span.begin_ns + span.length_ns - 1),
        );
        let removals: Vec<Removal> = removed
            .iter()
            .filter_map(|&ino| {
                let inode = before.inodes.get(&ino)?;
                let dir = inode.names.first()?.0;
                let changed_ns = next.inodes.get(&dir).map(|d| d.mtime_ns);
                let changed_ns = changed_ns
                    .filter(|&ns| ns != 0 && span.holds(ns))
                    .map(|ns| span.map(ns));
                Some(Removal {
                    ino,
                    dir,
                    directory: inode.kind == FileType::Directory,
                    changed_ns,
                    replaced_ns: made.get(&ino).copied(),
                })
            })
            .collect();
        let habits = self
            .source
            .short
            .as_ref()
            .map(|s| s.habits)
            .unwrap_or_default();
        let times = remove_times(
            self.source.deletes,
            &removals,
            &busy,
            range,
            habits,
            &mut self.random,
        );
        // Before what is made at the same time.
        let events = times.into_iter().map(|(ino, ns)| Event {
            ns,
            what: What::Remove(ino),
        });
        self.events.splice(0..0, events);
    }

    fn short_lived(&mut self, next: &State, span: Span) {
        let Some(short) = &self.source.short else {
            return;
        };
        let mut busy = Busy::default();
        for event in &self.events {
            if let What::Make(ino) | What::Modify(ino, _) = event.what
                && let Some((dir, _)) = next.inodes.get(&ino).and_then(|i| i.names.first())
            {
                busy.note(*dir, event.ns);
            }
        }
        for day in span.day..span.last_day() {
            let laid = short.lay(day, self.source.profiles, &busy, &mut self.draws);
            for file in laid {
                let index = self.laid.len();
                self.events.push(Event {
                    ns: file.made_ns,
                    what: What::ShortMake(index),
                });
                self.events.push(Event {
                    ns: file.gone_ns,
                    what: What::ShortRemove(index),
                });
                self.laid.push(file);
            }
        }
    }

    fn put(
        &mut self,
        what: What,
        next: &State,
        out: &mut Emitter<'_>,
    ) -> Result<(), GenerateError> {
        match what {
            What::Make(ino) => self.tree.make(ino, next, out),
            What::Modify(ino, added) => self.tree.modify(ino, added, next, out),
            What::Settle(ino) => self.tree.settle(ino, next, out),
            What::Remove(ino) if self.tree.doomed.contains(&ino) && self.tree.is_empty(ino) => {
                self.tree.remove(ino, out)
            }
            What::Remove(_) => Ok(()),
            What::ShortMake(index) => {
                let Some(file) = self.laid.get_mut(index) else {
                    return Ok(());
                };
                if out.live_bytes() + blocks(file.size) > self.source.most_bytes {
                    out.leave_out("short-lived files for which there was no room", 1);
                    return Ok(());
                }
                if !self.tree.has(file.dir) || self.tree.doomed.contains(&file.dir) {
                    file.dir = ROOT;
                }
                file.there = true;
                let path = short_path(&self.tree, file, index);
                out.create(&path, file.size)
            }
            What::ShortRemove(index) => match self.laid.get(index) {
                Some(file) if file.there => {
                    out.unlink(&short_path(&self.tree, file, index), file.size)
                }
                _ => Ok(()),
            },
        }
    }
}

fn short_path(tree: &Tree, file: &Laid, index: usize) -> Vec<u8> {
    let mut path = tree.path(file.dir);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(format!(".short-{index:x}").as_bytes());
    path
}

/// The time between two snapshots, real and simulated.
#[derive(Debug, Clone, Copy)]
struct Span {
    from_ns: i64,
    real_ns: u64,
    begin_ns: u64,
    length_ns: u64,
    day: u32,
    days: u32,
}

impl Span {
    fn new(before: &State, next: &State, day: u32, days: u32) -> Self {
        Self {
            from_ns: before.taken_ns as i64,
            real_ns: next.taken_ns.saturating_sub(before.taken_ns).max(1),
            begin_ns: u64::from(day) * DAY_NS,
            // The last minute is left for what takes its time.
            length_ns: u64::from(days) * DAY_NS - 60_000_000_000,
            day,
            days,
        }
    }

    fn last_day(self) -> u32 {
        self.day + self.days
    }

    fn holds(self, ns: i64) -> bool {
        let off = ns.saturating_sub(self.from_ns);
        off >= -SLACK_NS && off <= (self.real_ns as i64).saturating_add(SLACK_NS)
    }

    /// The simulated time of a real one; what lies outside comes to the nearer end.
    fn map(self, ns: i64) -> u64 {
        let off = ns
            .saturating_sub(self.from_ns)
            .clamp(0, self.real_ns as i64) as u128;
        let at = off * u128::from(self.length_ns) / u128::from(self.real_ns);
        self.begin_ns + at as u64
    }
}

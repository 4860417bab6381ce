//! What a stream touches: files with their sizes, directories, how deep names lie.

use fsage_core::{DevId, Errno, FileId, KindClass, Op, OpFlags, OpKind, PathId, PathTable};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;

use super::Depth;
use super::sizes::SizeHistogram;
use crate::ops::O_DIRECTORY;

/// More distinct things than this are not told apart.
const MAX_DISTINCT: usize = 1 << 20;
/// Depths from here on are one.
const DEPTHS: usize = 64;

/// A name's depth, and its directory as a hash.
type Place = (u32, u64);

#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// Last size seen; `None` for what is not a regular file or has no known size.
    files: FxHashMap<FileId, Option<u64>>,
    /// The generation seen last: some captures tell it of open files only, and 0 of names.
    generations: FxHashMap<(DevId, u64), u32>,
    /// Files that were opened and of which no operation tells more than the name, as hashes.
    named: FxHashSet<u64>,
    places: FxHashMap<(Option<PathId>, PathId), Place>,
    /// The table of paths that they are of.
    epoch: u32,
    directories: FxHashSet<u64>,
    capped: bool,
    depth_counts: Vec<u64>,
    depth_total: u64,
    depth_max: u64,
}

impl Footprint {
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        self.file(op, paths);
        if op.kind.class() != KindClass::Name {
            return;
        }
        // A name that was not found may have no directory either.
        let found = !matches!(op.result.errno(), Some(Errno::ENOENT | Errno::ENOTDIR));
        self.name(op.dir, op.path, found, paths);
        if matches!(op.kind, OpKind::Rename | OpKind::Link) {
            self.name(op.dir2.or(op.dir), op.path2, found, paths);
        }
    }

    fn file(&mut self, op: &Op, paths: &PathTable) {
        let Some(file) = op.file else {
            return self.named_file(op, paths);
        };
        let file = self.whole(file);
        if !self.files.contains_key(&file) && self.files.len() >= MAX_DISTINCT {
            self.capped = true;
            return;
        }
        let seen = self.files.entry(file).or_insert(None);
        if op.record.contains(OpFlags::DIRECTORY) || op.record.contains(OpFlags::NOT_A_FILE) {
            return;
        }
        let after = match op.kind {
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut if op.result.is_ok() => {
                let end = op
                    .offset
                    .map(|offset| offset.saturating_add(op.result.value().unwrap_or(0)));
                op.size_bytes.max(end)
            }
            OpKind::Truncate | OpKind::Ftruncate if op.result.is_ok() => op.length,
            _ => op.size_bytes,
        };
        *seen = after.or(*seen);
    }

    /// The file as it is known with its generation; what was known of it without is its own from now on.
    fn whole(&mut self, mut file: FileId) -> FileId {
        let key = (file.dev, file.ino);
        if file.generation == 0 {
            file.generation = self.generations.get(&key).copied().unwrap_or(0);
        } else if self.generations.len() < MAX_DISTINCT
            && self.generations.insert(key, file.generation).is_none()
            && let Some(size) = self.files.remove(&FileId {
                generation: 0,
                ..file
            })
        {
            self.files.insert(file, size);
        }
        file
    }

    fn named_file(&mut self, op: &Op, paths: &PathTable) {
        let is_file = !op.record.contains(OpFlags::DIRECTORY)
            && !op.record.contains(OpFlags::NOT_A_FILE)
            && op.flags & O_DIRECTORY == 0;
        let Some(path) = op.path.filter(|_| is_file) else {
            return;
        };
        if op.kind != OpKind::Open || !op.result.is_ok() {
            return;
        }
        let (dir, path) = (
            op.dir.map_or(&b""[..], |dir| paths.get(dir)),
            paths.get(path),
        );
        let mut hasher = FxHasher::default();
        hasher.write(if path.starts_with(b"/") { b"" } else { dir });
        hasher.write_u8(0);
        hasher.write(path);
        if self.named.len() < MAX_DISTINCT {
            self.named.insert(hasher.finish());
        } else {
            self.capped = true;
        }
    }

    fn name(&mut self, dir: Option<PathId>, path: Option<PathId>, found: bool, paths: &PathTable) {
        let Some(path) = path else { return };
        let (depth, directory) = self.place(dir, path, paths);
        let depth = u64::from(depth);
        self.depth_total = self.depth_total.saturating_add(depth);
        self.depth_max = self.depth_max.max(depth);
        let slot = (depth as usize).min(DEPTHS - 1);
        if self.depth_counts.len() <= slot {
            self.depth_counts.resize(slot + 1, 0);
        }
        if let Some(count) = self.depth_counts.get_mut(slot) {
            *count += 1;
        }
        if !found {
            return;
        }
        if self.directories.len() < MAX_DISTINCT {
            self.directories.insert(directory);
        } else if !self.directories.contains(&directory) {
            self.capped = true;
        }
    }

    fn place(&mut self, dir: Option<PathId>, path: PathId, paths: &PathTable) -> Place {
        if self.epoch != paths.epoch() {
            self.epoch = paths.epoch();
            self.places.clear();
        }
        if let Some(place) = self.places.get(&(dir, path)) {
            return *place;
        }
        let base = dir.map_or(&b""[..], |dir| paths.get(dir));
        let place = place(base, paths.get(path));
        if self.places.len() >= MAX_DISTINCT {
            self.places.clear();
        }
        self.places.insert((dir, path), place);
        place
    }

    pub fn distinct(&self) -> (u64, u64, bool) {
        (
            (self.files.len() + self.named.len()) as u64,
            self.directories.len() as u64,
            self.capped,
        )
    }

    pub fn file_sizes(&self) -> SizeHistogram {
        let mut sizes = SizeHistogram::default();
        for size in self.files.values().flatten() {
            sizes.add(*size);
        }
        sizes
    }

    pub fn depth(self) -> Depth {
        let names: u64 = self.depth_counts.iter().sum();
        Depth {
            mean: (names > 0).then(|| self.depth_total as f64 / names as f64),
            max: self.depth_max,
            operations: self.depth_counts,
        }
    }
}

/// Depth and directory of a name by its spelling: `.` and `..` are resolved, links are not.
fn place(base: &[u8], path: &[u8]) -> Place {
    let base = if path.starts_with(b"/") {
        &b""[..]
    } else {
        base
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in base.split(|&b| b == b'/').chain(path.split(|&b| b == b'/')) {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let mut hasher = FxHasher::default();
    let absolute = path.starts_with(b"/") || base.starts_with(b"/");
    hasher.write_u8(u8::from(absolute));
    for part in parts.iter().take(parts.len().saturating_sub(1)) {
        hasher.write(part);
        hasher.write_u8(b'/');
    }
    (parts.len() as u32, hasher.finish())
}

//! What a stream touches: files with their sizes, directories, how deep names lie.

use fsage_core::{DevId, Errno, FileId, KindClass, Op, OpFlags, OpKind, PathId, PathTable};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;

use super::Depth;
use super::sizes::SizeHistogram;
use crate::ops::{O_CREAT, O_DIRECTORY};

/// More distinct things than this are not told apart.
const MAX_DISTINCT: usize = 1 << 20;
/// Depths from here on are one.
const DEPTHS: usize = 64;

/// A name's depth, and its directory as a hash.
type Place = (u32, u64);

#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// Last size seen of what is no directory; `None` where no size is known.
    files: FxHashMap<FileId, Option<u64>>,
    /// The generation seen last: some captures tell it of open files only, and 0 of names.
    generations: FxHashMap<(DevId, u64), u32>,
    /// Files that were opened and of which no operation tells more than the name, as hashes of it.
    named: FxHashSet<u64>,
    /// Those that had a name before something else had it.
    gone: u64,
    /// Numbers of what was removed, and last sizes of what had one before something else was made with it.
    removed: FxHashSet<(DevId, u64)>,
    replaced: Vec<Option<u64>>,
    places: FxHashMap<(Option<PathId>, PathId), Place>,
    /// The table of paths that they are of.
    epoch: u32,
    /// Directories that were used or in which names were, as hashes of their names.
    directories: FxHashSet<u64>,
    /// Directories that were used, and whether under a name: those are among the named ones.
    directory_ids: FxHashMap<(DevId, u64), bool>,
    capped: bool,
    depth_counts: Vec<u64>,
    depth_total: u64,
    depth_max: u64,
}

impl Footprint {
    pub fn take(&mut self, op: &Op, paths: &PathTable) {
        if let Some(file) = op.file.filter(|_| op.result.is_ok()) {
            self.comes_or_goes(op.kind, op.flags, file);
        }
        // What tells nothing of its file is on what the file was known to be.
        let known = |file: FileId| {
            op.size_bytes.is_none() && self.directory_ids.contains_key(&(file.dev, file.ino))
        };
        let is_directory = is_directory(op) || op.file.is_some_and(known);
        if is_directory {
            self.directory(op, paths);
        } else {
            self.file(op, paths);
        }
        if op.kind.class() != KindClass::Name {
            return;
        }
        // A name that was not found may have no directory either. Who only looks at a directory uses that, not the one
        // above.
        let looks =
            is_directory && !matches!(op.kind, OpKind::Mkdir | OpKind::Rmdir | OpKind::Rename);
        let found = !matches!(op.result.errno(), Some(Errno::ENOENT | Errno::ENOTDIR)) && !looks;
        self.name(op.dir, op.path, found, paths);
        if matches!(op.kind, OpKind::Rename | OpKind::Link) {
            self.name(op.dir2.or(op.dir), op.path2, found, paths);
        }
    }

    fn directory(&mut self, op: &Op, paths: &PathTable) {
        let name = op.path.map(|path| {
            let base = op.dir.map_or(&b""[..], |dir| paths.get(dir));
            Spelled::of(base, paths.get(path)).whole()
        });
        if let Some(name) = name {
            self.directory_named(name);
        }
        let Some(file) = op.file else {
            return;
        };
        let key = (file.dev, file.ino);
        // A file that was opened was one, whatever has its number now.
        let other = self.generations.get(&key).is_some_and(|&generation| {
            let before = FileId { generation, ..file };
            file.generation == 0 && self.files.contains_key(&before)
        });
        let file = if other { file } else { self.whole(file) };
        // What was met as a file before anything told that it is none, unless that was removed.
        if self.removed.remove(&key) {
            self.replace(file);
        } else {
            self.files.remove(&file);
        }
        if self.directory_ids.len() < MAX_DISTINCT || self.directory_ids.contains_key(&key) {
            *self.directory_ids.entry(key).or_default() |= name.is_some();
        } else {
            self.capped = true;
        }
    }

    /// Where no generation is told, what is made with the number of something that was removed is another file.
    fn comes_or_goes(&mut self, kind: OpKind, flags: u32, file: FileId) {
        let key = (file.dev, file.ino);
        let makes = match kind {
            OpKind::Open => flags & O_CREAT != 0,
            OpKind::Mkdir | OpKind::Mknod | OpKind::Symlink => true,
            _ => false,
        };
        if matches!(kind, OpKind::Unlink | OpKind::Rmdir) {
            if self.removed.len() < MAX_DISTINCT {
                self.removed.insert(key);
            }
        } else if makes && file.generation == 0 && self.removed.remove(&key) {
            self.replace(file);
        }
    }

    /// Something else has the number of a file now.
    fn replace(&mut self, file: FileId) {
        let replaced = self.files.remove(&file);
        if self.replaced.len() < MAX_DISTINCT {
            self.replaced.extend(replaced);
        } else {
            self.capped = true;
        }
    }

    fn directory_named(&mut self, name: u64) {
        if self.directories.len() < MAX_DISTINCT {
            self.directories.insert(name);
        } else if !self.directories.contains(&name) {
            self.capped = true;
        }
    }

    fn file(&mut self, op: &Op, paths: &PathTable) {
        if op.record.contains(OpFlags::NOT_A_FILE) {
            return;
        }
        let Some(file) = op.file else {
            return self.named_file(op, paths);
        };
        let file = self.whole(file);
        if !self.files.contains_key(&file) && self.files.len() >= MAX_DISTINCT {
            self.capped = true;
            return;
        }
        let seen = self.files.entry(file).or_insert(None);
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

    /// What is removed and made anew under its name is another file, as it is where operations tell its identity.
    fn named_file(&mut self, op: &Op, paths: &PathTable) {
        let opens = op.kind == OpKind::Open;
        let moves = matches!(op.kind, OpKind::Unlink | OpKind::Rename) && !self.named.is_empty();
        let Some(path) = op.path.filter(|_| op.result.is_ok() && (opens || moves)) else {
            return;
        };
        let spelled = |dir: Option<PathId>, path| {
            let base = dir.map_or(&b""[..], |dir| paths.get(dir));
            Spelled::of(base, paths.get(path)).whole()
        };
        let name = spelled(op.dir, path);
        if !opens {
            let was_there = self.named.remove(&name);
            let to = op.path2.filter(|_| op.kind == OpKind::Rename && was_there);
            let stays = to.is_some_and(|to| self.named.insert(spelled(op.dir2.or(op.dir), to)));
            self.gone += u64::from(was_there && !stays);
        } else if self.named.len() < MAX_DISTINCT {
            self.named.insert(name);
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
        if found {
            self.directory_named(directory);
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
        let place = Spelled::of(base, paths.get(path)).place();
        if self.places.len() >= MAX_DISTINCT {
            self.places.clear();
        }
        self.places.insert((dir, path), place);
        place
    }

    /// Files, directories, and whether there are more of either.
    pub fn distinct(&self) -> (u64, u64, bool) {
        let named = self.named.difference(&self.directories).count();
        let unnamed = self.directory_ids.values().filter(|named| !**named).count();
        (
            (self.files.len() + self.replaced.len() + named) as u64 + self.gone,
            (self.directories.len() + unnamed) as u64,
            self.capped,
        )
    }

    pub fn file_sizes(&self) -> SizeHistogram {
        let mut sizes = SizeHistogram::default();
        for size in self.files.values().chain(&self.replaced).flatten() {
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

/// Whether an operation is on a directory, as far as it tells.
fn is_directory(op: &Op) -> bool {
    op.record.contains(OpFlags::DIRECTORY)
        || op.result.is_ok()
            && match op.kind {
                OpKind::Open => op.flags & O_DIRECTORY != 0,
                OpKind::Mkdir
                | OpKind::Rmdir
                | OpKind::Readdir
                | OpKind::Chdir
                | OpKind::Fchdir => true,
                _ => false,
            }
}

/// A name by its spelling: `.` and `..` are resolved, links are not.
struct Spelled<'a> {
    is_absolute: bool,
    parts: Vec<&'a [u8]>,
}

impl<'a> Spelled<'a> {
    fn of(base: &'a [u8], path: &'a [u8]) -> Self {
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
        Self {
            is_absolute: path.starts_with(b"/") || base.starts_with(b"/"),
            parts,
        }
    }

    /// The hash of its first parts.
    fn hash(&self, parts: usize) -> u64 {
        let mut hasher = FxHasher::default();
        hasher.write_u8(u8::from(self.is_absolute));
        for part in self.parts.iter().take(parts) {
            hasher.write(part);
            hasher.write_u8(b'/');
        }
        hasher.finish()
    }

    fn whole(&self) -> u64 {
        self.hash(self.parts.len())
    }

    /// Its depth, and its directory.
    fn place(&self) -> Place {
        let above = self.parts.len().saturating_sub(1);
        (self.parts.len() as u32, self.hash(above))
    }
}

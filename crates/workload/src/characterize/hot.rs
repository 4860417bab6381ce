//! Where the time went: by file and by directory.

use fsage_core::{FileId, KindClass, Op, OpFlags, OpKind, PathId, PathTable};
use fsage_namespace::path::join;
use rustc_hash::FxHashMap;

use super::NameStats;

/// Names beyond it are not told apart; most of the time is rarely there.
const MAX_NAMES: usize = 1 << 18;
/// Nor are they beyond so many bytes of names: a few bytes of a trace may each make a long one.
const MAX_NAME_BYTES: usize = 64 << 20;
/// How many are told.
const TOLD: usize = 20;

/// Sums of one name.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
    latency_ns: u64,
}

impl Sums {
    fn add(&mut self, op: &Op, (read, written): (u64, u64)) {
        self.operations += 1;
        self.bytes_read = self.bytes_read.saturating_add(read);
        self.bytes_written = self.bytes_written.saturating_add(written);
        let latency_ns = op.latency_ns.filter(|_| op.in_file_system());
        self.latency_ns = self.latency_ns.saturating_add(latency_ns.unwrap_or(0));
    }
}

/// A file: the place of its directory among the directories.
#[derive(Debug)]
struct File {
    directory: usize,
    sums: Sums,
    /// It is itself a directory.
    is_directory: bool,
}

/// Sums by name. A name is that of the program's spelling; symbolic links are not followed.
#[derive(Debug, Default)]
pub(super) struct Hot {
    files: Vec<File>,
    /// By its name without `.` and `..`.
    by_path: FxHashMap<Box<[u8]>, usize>,
    directories: Vec<Sums>,
    by_directory: FxHashMap<Box<[u8]>, usize>,
    name_bytes: usize,
    /// The name under which a file was last met.
    by_id: FxHashMap<FileId, usize>,
    /// Spellings met before, of the table's epoch.
    spelled: FxHashMap<(Option<PathId>, PathId), usize>,
    epoch: u32,
}

impl Hot {
    /// Takes an operation that moved so many bytes out of and into a file.
    pub fn take(&mut self, op: &Op, moved: (u64, u64), paths: &PathTable) {
        if op.record.contains(OpFlags::NOT_A_FILE) || matches!(op.kind, OpKind::Fork | OpKind::Exit)
        {
            return;
        }
        let named = match (op.kind.class(), op.path) {
            (KindClass::Name, Some(path)) => self.named(op.dir, path, paths),
            _ => None,
        };
        if let (Some(index), Some(id)) = (named, op.file)
            && (self.by_id.len() < MAX_NAMES || self.by_id.contains_key(&id))
        {
            self.by_id.insert(id, index);
        }
        let known = || op.file.and_then(|id| self.by_id.get(&id).copied());
        let Some(index) = named.or_else(known) else {
            return;
        };
        let Some(file) = self.files.get_mut(index) else {
            return;
        };
        file.sums.add(op, moved);
        file.is_directory |= op.record.contains(OpFlags::DIRECTORY)
            || matches!(
                op.kind,
                OpKind::Mkdir | OpKind::Rmdir | OpKind::Chdir | OpKind::Readdir
            );
        if let Some(sums) = self.directories.get_mut(file.directory) {
            sums.add(op, moved);
        }
    }

    fn named(&mut self, dir: Option<PathId>, path: PathId, paths: &PathTable) -> Option<usize> {
        if self.epoch != paths.epoch() {
            self.epoch = paths.epoch();
            self.spelled.clear();
        }
        if let Some(&index) = self.spelled.get(&(dir, path)) {
            return Some(index);
        }
        let base = dir.map_or(&b""[..], |dir| paths.get(dir));
        let whole = normal(base, paths.get(path));
        let index = match self.by_path.get(whole.as_slice()) {
            Some(&index) => index,
            None => self.add(whole)?,
        };
        if self.spelled.len() >= MAX_NAMES {
            self.spelled.clear();
        }
        self.spelled.insert((dir, path), index);
        Some(index)
    }

    fn add(&mut self, path: Vec<u8>) -> Option<usize> {
        if self.files.len() >= MAX_NAMES || self.name_bytes + 2 * path.len() > MAX_NAME_BYTES {
            return None;
        }
        self.name_bytes += path.len();
        let split = path.iter().rposition(|&b| b == b'/');
        let above = match split {
            Some(0) => &b"/"[..],
            Some(at) => &path[..at],
            None => &b"."[..],
        };
        let directory = if let Some(&index) = self.by_directory.get(above) {
            index
        } else {
            let index = self.directories.len();
            self.by_directory.insert(above.into(), index);
            self.name_bytes += above.len();
            self.directories.push(Sums::default());
            index
        };
        let index = self.files.len();
        self.by_path.insert(path.into(), index);
        self.files.push(File {
            directory,
            sums: Sums::default(),
            is_directory: false,
        });
        Some(index)
    }

    /// The hottest files and directories, most time first.
    pub fn finish(&self) -> (Vec<NameStats>, Vec<NameStats>) {
        let file = |path, &index: &usize| {
            let file = self.files.get(index).filter(|f| !f.is_directory)?;
            (!self.by_directory.contains_key(path)).then_some(file.sums)
        };
        let directory = |&index: &usize| self.directories.get(index).copied();
        let files = self.by_path.iter();
        let directories = self.by_directory.iter();
        (
            hottest(files.filter_map(|(path, index)| Some((path, file(path, index)?)))),
            hottest(directories.filter_map(|(path, index)| Some((path, directory(index)?)))),
        )
    }
}

fn hottest<'a>(all: impl Iterator<Item = (&'a Box<[u8]>, Sums)>) -> Vec<NameStats> {
    let mut all: Vec<(&Box<[u8]>, Sums)> = all.collect();
    all.sort_by_key(|(path, sums)| {
        let most = (sums.latency_ns, sums.operations);
        (std::cmp::Reverse(most), *path)
    });
    all.into_iter()
        .take(TOLD)
        .map(|(path, sums)| NameStats {
            path: match std::str::from_utf8(path) {
                Ok(text) => text.to_owned(),
                Err(_) => path.escape_ascii().to_string(),
            },
            operations: sums.operations,
            bytes_read: sums.bytes_read,
            bytes_written: sums.bytes_written,
            latency_total_ns: sums.latency_ns,
        })
        .collect()
}

/// A name by its spelling, seen from `base`.
fn normal(base: &[u8], path: &[u8]) -> Vec<u8> {
    let mut out = join(base, path);
    if out.is_empty() {
        out.push(b'.');
    }
    out
}

#[cfg(test)]
mod tests {
    use fsage_core::{Op, OpKind, PathTable, Pid, Tid};

    use super::{Hot, MAX_NAME_BYTES, normal};

    #[test]
    fn long_names_are_told_apart_within_a_budget_of_bytes() {
        let mut paths = PathTable::default();
        let dir = paths.intern(&[b'd'; 4000]);
        let mut hot = Hot::default();
        for number in 0..40_000 {
            let mut op = Op::new(OpKind::Stat, Pid(1), Tid(1), 0);
            op.dir = dir;
            op.path = paths.intern(format!("f{number}").as_bytes());
            hot.take(&op, (0, 0), &paths);
        }
        let bytes =
            |map: &super::FxHashMap<Box<[u8]>, usize>| map.keys().map(|k| k.len()).sum::<usize>();
        let held = bytes(&hot.by_path) + bytes(&hot.by_directory);
        assert!(
            held <= MAX_NAME_BYTES && held > MAX_NAME_BYTES / 2,
            "{held}"
        );
        assert_eq!(held, hot.name_bytes);
        assert_eq!(hot.finish().0.len(), 20);
    }

    #[test]
    fn names_are_made_plain() {
        let of = |base: &str, path: &str| {
            String::from_utf8(normal(base.as_bytes(), path.as_bytes())).unwrap()
        };
        assert_eq!(of("/a/b", "../c/./d"), "/a/c/d");
        assert_eq!(of("/a", "/x//y/"), "/x/y");
        assert_eq!(of("/a", "../../.."), "/");
        assert_eq!(of("", "../f"), "../f");
        assert_eq!(of("", "."), ".");
    }
}

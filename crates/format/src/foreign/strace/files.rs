//! The files a strace text names, told apart by path.

use fsage_core::{DevId, FileId};
use fsage_namespace::path::{PATH_BYTES, is_beneath};
use rustc_hash::FxHashMap;

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileInfo {
    pub size: Option<u64>,
    pub directory: bool,
    /// Whether a name of it lies in one of the directories that are wanted.
    pub under: bool,
}

/// A name, and the names below it: a directory is renamed with all of them at once.
#[derive(Debug, Default)]
struct Name {
    file: Option<u32>,
    below: FxHashMap<Box<[u8]>, u32>,
}

/// Files by path. Ids are synthetic: device 0, inode = 1 + the order in which files were first
/// named; a name that was removed and made again is a new file, a renamed file stays the same, and
/// a hard link is a second name for one file.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// The first is above all; [`Files::free`] has those that are none's.
    names: Vec<Name>,
    free: Vec<u32>,
    infos: Vec<FileInfo>,
    /// Absolute directories without a slash at their end; none: all are wanted.
    under: Vec<Vec<u8>>,
}

impl Files {
    /// Wants what lies in these directories alone.
    pub fn keep_under(&mut self, directories: Vec<Vec<u8>>) {
        self.under = directories;
    }

    pub fn takes_all(&self) -> bool {
        self.under.is_empty()
    }

    /// Whether a path is one of the directories that are wanted or lies in one.
    pub fn is_under(&self, path: &[u8]) -> bool {
        self.takes_all() || self.under.iter().any(|dir| is_beneath(path, dir))
    }

    /// The file of a path, new if the path was not seen.
    pub fn named(&mut self, path: &[u8]) -> u32 {
        if let Some(file) = self.find(path) {
            return file;
        }
        let file = self.infos.len() as u32;
        self.infos.push(FileInfo {
            under: self.is_under(path),
            ..FileInfo::default()
        });
        self.set(path, file);
        file
    }

    /// A new file that has no name; `shown` is what strace shows of a descriptor of it.
    pub fn nameless(&mut self, under: bool, shown: Option<&[u8]>) -> u32 {
        let file = self.infos.len() as u32;
        self.infos.push(FileInfo {
            size: Some(0),
            directory: false,
            under,
        });
        if let Some(shown) = shown {
            self.set(shown, file);
        }
        file
    }

    /// A name's place, with those above it.
    fn walk(&self, path: &[u8]) -> Option<Vec<u32>> {
        let mut places = vec![0];
        for part in path.split(|&b| b == b'/') {
            let above = self.names.get(*places.last()? as usize)?;
            places.push(*above.below.get(part)?);
        }
        Some(places)
    }

    fn place(&self, path: &[u8]) -> Option<u32> {
        path.split(|&b| b == b'/').try_fold(0, |at: u32, part| {
            self.names.get(at as usize)?.below.get(part).copied()
        })
    }

    /// The place of a name, made if there is none.
    fn made(&mut self, path: &[u8]) -> u32 {
        if self.names.is_empty() {
            self.names.push(Name::default());
        }
        let mut at = 0;
        for part in path.split(|&b| b == b'/') {
            let below = self.names.get(at as usize).map(|name| &name.below);
            if let Some(&next) = below.and_then(|below| below.get(part)) {
                at = next;
                continue;
            }
            let next = self.free.pop().unwrap_or(self.names.len() as u32);
            if next as usize == self.names.len() {
                self.names.push(Name::default());
            }
            if let Some(name) = self.names.get_mut(at as usize) {
                name.below.insert(part.into(), next);
            }
            at = next;
        }
        at
    }

    fn set(&mut self, path: &[u8], file: u32) {
        let at = self.made(path) as usize;
        if let Some(name) = self.names.get_mut(at) {
            name.file = Some(file);
        }
    }

    fn take_below(&mut self, path: &[u8]) -> FxHashMap<Box<[u8]>, u32> {
        let name = self
            .place(path)
            .and_then(|at| self.names.get_mut(at as usize));
        name.map(|name| std::mem::take(&mut name.below))
            .unwrap_or_default()
    }

    /// What lies below `path` from now on; what lay there before is forgotten.
    fn put_below(&mut self, path: &[u8], below: FxHashMap<Box<[u8]>, u32>) {
        let at = self.made(path) as usize;
        let Some(name) = self.names.get_mut(at) else {
            return;
        };
        let mut gone: Vec<u32> = std::mem::replace(&mut name.below, below)
            .into_values()
            .collect();
        while let Some(at) = gone.pop() {
            if let Some(name) = self.names.get_mut(at as usize) {
                gone.extend(std::mem::take(name).below.into_values());
                self.free.push(at);
            }
        }
    }

    /// Every file below comes to lie in a directory that is wanted, where it did not before.
    fn want_below(&mut self, path: &[u8]) {
        let mut rest: Vec<(u32, Vec<u8>)> =
            Vec::from_iter(self.place(path).zip(Some(path.to_vec())));
        while let Some((at, path)) = rest.pop() {
            let Some(name) = self.names.get(at as usize) else {
                continue;
            };
            if let Some(file) = name.file
                && self.is_under(&path)
                && let Some(info) = self.infos.get_mut(file as usize)
            {
                info.under = true;
            }
            let wanted = |path: &[u8]| {
                self.is_under(path) || self.under.iter().any(|dir| is_beneath(dir, path))
            };
            let next = name
                .below
                .iter()
                .map(|(part, &at)| (at, [&path, &b"/"[..], part].concat()));
            rest.extend(next.filter(|(_, path)| path.len() < PATH_BYTES && wanted(path)));
        }
    }

    pub fn find(&self, path: &[u8]) -> Option<u32> {
        self.names.get(self.place(path)? as usize)?.file
    }

    pub fn info(&self, file: u32) -> FileInfo {
        self.infos.get(file as usize).copied().unwrap_or_default()
    }

    pub fn info_mut(&mut self, file: u32) -> Option<&mut FileInfo> {
        self.infos.get_mut(file as usize)
    }

    pub fn remove(&mut self, path: &[u8]) {
        let Some(mut places) = self.walk(path) else {
            return;
        };
        if let Some(name) = places
            .last()
            .and_then(|&at| self.names.get_mut(at as usize))
        {
            name.file = None;
        }
        // What has neither a file nor anything below is no name.
        let mut parts = path.rsplit(|&b| b == b'/');
        while let (Some(at), Some(part)) = (places.pop(), parts.next()) {
            let empty = |name: &Name| name.file.is_none() && name.below.is_empty();
            if !self.names.get(at as usize).is_some_and(empty) {
                return;
            }
            let above = places
                .last()
                .and_then(|&at| self.names.get_mut(at as usize));
            if let Some(above) = above {
                above.below.remove(part);
                self.free.push(at);
            }
        }
    }

    pub fn link(&mut self, from: &[u8], to: &[u8]) {
        let file = self.named(from);
        self.name(file, to);
    }

    /// Gives a file a name, which may be another one's no more.
    pub fn name(&mut self, file: u32, path: &[u8]) {
        let under = self.is_under(path);
        if let Some(info) = self.infos.get_mut(file as usize) {
            info.under |= under;
        }
        // Longer names come from renames that cannot have been.
        if path.len() < PATH_BYTES {
            self.set(path, file);
        }
    }

    /// Renames a file, or a directory with everything under it; not into itself, which cannot have been.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        let file = self.named(from);
        if from.is_empty() || from == to || is_beneath(to, from) {
            return;
        }
        let below = self.take_below(from);
        self.remove(from);
        self.name(file, to);
        if !below.is_empty() && to.len() < PATH_BYTES {
            self.put_below(to, below);
            self.renamed(from, to);
        }
    }

    /// What lies below `to` lay below `from`.
    fn renamed(&mut self, from: &[u8], to: &[u8]) {
        // All of it was wanted before, or nothing of it is.
        let some = self.is_under(to) || self.under.iter().any(|dir| is_beneath(dir, to));
        if some && !self.is_under(from) {
            self.want_below(to);
        }
    }

    pub fn exchange(&mut self, a: &[u8], b: &[u8]) {
        let (first, second) = (self.named(a), self.named(b));
        self.name(second, a);
        self.name(first, b);
        if a == b || is_beneath(a, b) || is_beneath(b, a) {
            return;
        }
        let (below_a, below_b) = (self.take_below(a), self.take_below(b));
        self.put_below(a, below_b);
        self.put_below(b, below_a);
        self.renamed(a, b);
        self.renamed(b, a);
    }
}

/// The identity that operations carry.
pub(super) fn file_id(file: u32) -> FileId {
    FileId {
        dev: DevId(0),
        ino: u64::from(file) + 1,
        generation: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_into_itself() {
        let mut files = Files::default();
        let file = files.named(b"/d/x");
        for _ in 0..5 {
            files.rename(b"/d", b"/d/x/d");
            files.rename(b"", b"/elsewhere");
        }
        assert_eq!(files.find(b"/d/x"), Some(file));
        // Above all, the root, /d, /d/x, and the empty name, which is the root's.
        assert_eq!(files.names.len(), 4, "{:?}", files.names);
    }

    #[test]
    fn what_is_wanted_is_so_by_any_of_its_names() {
        let mut files = Files::default();
        files.keep_under(vec![b"/w".to_vec()]);
        let (inside, outside) = (files.named(b"/w/a"), files.named(b"/ww/a"));
        assert!(files.info(inside).under && !files.info(outside).under);
        files.rename(b"/ww", b"/w/b");
        assert!(files.info(outside).under);
        assert_eq!(files.find(b"/w/b/a"), Some(outside));
    }

    #[test]
    fn renaming_a_directory_takes_its_files_along() {
        let mut files = Files::default();
        let (dir, file, other) = (
            files.named(b"/d"),
            files.named(b"/d/x"),
            files.named(b"/dx"),
        );
        files.rename(b"/d", b"/e");
        assert_eq!(
            (files.find(b"/e"), files.find(b"/e/x")),
            (Some(dir), Some(file))
        );
        assert_eq!(
            (files.find(b"/d/x"), files.find(b"/dx")),
            (None, Some(other))
        );
    }

    #[test]
    fn a_renamed_tree_is_what_it_was_and_leaves_nothing() {
        let mut files = Files::default();
        let path = |top: &str| [top, &"/d".repeat(50)].concat().into_bytes();
        let deep = files.named(&path("/a"));
        let names = files.names.len();
        for _ in 0..1000 {
            files.rename(b"/a", b"/b");
            files.rename(b"/b", b"/a");
        }
        assert_eq!(files.find(&path("/a")), Some(deep));
        assert!(files.names.len() <= names + 1, "{}", files.names.len());
        let other = files.named(b"/b/x");
        files.exchange(b"/a", b"/b");
        assert_eq!(
            (files.find(&path("/b")), files.find(b"/a/x")),
            (Some(deep), Some(other))
        );
        files.remove(&path("/b"));
        assert_eq!(files.find(&path("/b")), None);
        // Over a directory that is known to hold something.
        files.rename(b"/a", b"/b");
        assert_eq!(
            (files.find(b"/b/x"), files.find(b"/a/x")),
            (Some(other), None)
        );
        assert_eq!(files.named(b"/a/y"), files.named(b"/a/y"));
    }

    #[test]
    fn what_a_rename_brings_below_a_wanted_directory_is_wanted() {
        let mut files = Files::default();
        files.keep_under(vec![b"/w/in".to_vec()]);
        let (inside, beside) = (files.named(b"/x/in/f"), files.named(b"/x/f"));
        files.rename(b"/x", b"/w");
        assert!(files.info(inside).under && !files.info(beside).under);
    }
}

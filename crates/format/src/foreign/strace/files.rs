//! The files a strace text names, told apart by path.

use std::collections::BTreeMap;
use std::ops::Bound;

use fsage_core::{DevId, FileId};
use fsage_namespace::path::{PATH_BYTES, is_beneath};

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileInfo {
    pub size: Option<u64>,
    pub directory: bool,
    /// Whether a name of it lies in one of the directories that are wanted.
    pub under: bool,
}

/// Files by path. Ids are synthetic: device 0, inode = 1 + the order in which files were first
/// named; a name that was removed and made again is a new file, a renamed file stays the same, and
/// a hard link is a second name for one file.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: BTreeMap<Box<[u8]>, u32>,
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
        if let Some(&file) = self.names.get(path) {
            return file;
        }
        let file = self.infos.len() as u32;
        self.infos.push(FileInfo {
            under: self.is_under(path),
            ..FileInfo::default()
        });
        self.names.insert(path.into(), file);
        file
    }

    pub fn find(&self, path: &[u8]) -> Option<u32> {
        self.names.get(path).copied()
    }

    pub fn info(&self, file: u32) -> FileInfo {
        self.infos.get(file as usize).copied().unwrap_or_default()
    }

    pub fn info_mut(&mut self, file: u32) -> Option<&mut FileInfo> {
        self.infos.get_mut(file as usize)
    }

    pub fn remove(&mut self, path: &[u8]) {
        self.names.remove(path);
    }

    pub fn link(&mut self, from: &[u8], to: &[u8]) {
        let file = self.named(from);
        self.name(file, to);
    }

    fn name(&mut self, file: u32, path: &[u8]) {
        let under = self.is_under(path);
        if let Some(info) = self.infos.get_mut(file as usize) {
            info.under |= under;
        }
        // Longer names come from renames that cannot have been.
        if path.len() < PATH_BYTES {
            self.names.insert(path.into(), file);
        }
    }

    /// Renames a file, or a directory with everything under it; not into itself, which cannot have been.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        let file = self.named(from);
        if from.is_empty() || from == to || is_beneath(to, from) {
            return;
        }
        self.names.remove(from);
        self.name(file, to);
        let prefix = [from, b"/"].concat();
        let below = (Bound::Excluded(&prefix[..]), Bound::Unbounded);
        let moved: Vec<(Box<[u8]>, u32)> = self
            .names
            .range::<[u8], _>(below)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|(path, &file)| (path.clone(), file))
            .collect();
        for (path, file) in moved {
            self.names.remove(&path);
            let rest = path.get(from.len()..).unwrap_or_default();
            self.name(file, &[to, rest].concat());
        }
    }

    pub fn exchange(&mut self, a: &[u8], b: &[u8]) {
        let (first, second) = (self.named(a), self.named(b));
        self.name(second, a);
        self.name(first, b);
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
        assert_eq!(files.names.len(), 3, "{:?}", files.names);
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
}

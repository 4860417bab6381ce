//! The files a strace text names, told apart by path.

use std::collections::BTreeMap;
use std::ops::Bound;

use fsage_core::{DevId, FileId};

/// What is known of a file.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileInfo {
    pub size: Option<u64>,
    pub directory: bool,
}

/// Files by path. Ids are synthetic: device 0, inode = 1 + the order in which files were first
/// named; a name that was removed and made again is a new file, a renamed file stays the same, and
/// a hard link is a second name for one file.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: BTreeMap<Box<[u8]>, u32>,
    infos: Vec<FileInfo>,
}

impl Files {
    /// The file of a path, new if the path was not seen.
    pub fn named(&mut self, path: &[u8]) -> u32 {
        if let Some(&file) = self.names.get(path) {
            return file;
        }
        let file = self.infos.len() as u32;
        self.infos.push(FileInfo::default());
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
        self.names.insert(to.into(), file);
    }

    /// Renames a file, or a directory with everything under it.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) {
        let file = self.named(from);
        if from == to {
            return;
        }
        self.names.remove(from);
        self.names.insert(to.into(), file);
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
            self.names
                .insert([to, &path[from.len()..]].concat().into(), file);
        }
    }

    pub fn exchange(&mut self, a: &[u8], b: &[u8]) {
        let (first, second) = (self.named(a), self.named(b));
        self.names.insert(a.into(), second);
        self.names.insert(b.into(), first);
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

/// Joins a directory and a path and removes `.`, `..` and doubled slashes by their spelling alone:
/// the text does not say which names are symbolic links. A relative result starts at the unknown
/// directory in which the text starts.
pub(crate) fn join(dir: &[u8], path: &[u8]) -> Vec<u8> {
    let absolute = path.starts_with(b"/") || dir.starts_with(b"/");
    let dir = if path.starts_with(b"/") {
        &b""[..]
    } else {
        dir
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in dir.split(|&b| b == b'/').chain(path.split(|&b| b == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => match parts.last() {
                Some(&last) if last != b".." => drop(parts.pop()),
                _ if absolute => {}
                _ => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    let body = parts.join(&b'/');
    if absolute {
        [b"/", &body[..]].concat()
    } else {
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_is_lexical() {
        let cases: [(&[u8], &[u8], &[u8]); 6] = [
            (b"/a/b", b"../c", b"/a/c"),
            (b"/a", b"/x//y/.", b"/x/y"),
            (b"", b"../../x", b"../../x"),
            (b"d", b"..", b""),
            (b"/", b"../..", b"/"),
            (b"sub", b"f", b"sub/f"),
        ];
        for (dir, path, joined) in cases {
            assert_eq!(join(dir, path), joined);
        }
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

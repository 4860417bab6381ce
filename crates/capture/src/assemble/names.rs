//! Which file was last seen under which name.

use fsage_core::FileId;
use fsage_namespace::path::is_beneath;
use rustc_hash::{FxHashMap, FxHashSet};

/// Names remembered; past that all are forgotten, so that memory stays bounded (about 50 MB).
const NAMES_LIMIT: usize = 200_000;

#[derive(Debug, Clone, Copy)]
struct Known {
    id: FileId,
    is_dir: bool,
}

/// Which file was last seen under a name, for the calls of which the kernel tells no file.
#[derive(Debug, Default)]
pub(super) struct Names {
    files: FxHashMap<Box<[u8]>, Known>,
    /// Directories that were made under these names, not seen since.
    made: FxHashSet<Box<[u8]>>,
    /// The name that a file was given last, by a rename or link.
    given: FxHashMap<(u64, u64), Box<[u8]>>,
    /// Names that are symbolic links themselves, and the link's own identity.
    links: FxHashMap<Box<[u8]>, Option<FileId>>,
}

impl Names {
    /// The file that opening `path` reaches.
    pub(super) fn find(&self, path: &[u8]) -> Option<FileId> {
        self.files.get(path).map(|known| known.id)
    }

    /// What `path` itself names: a symbolic link is not followed.
    pub(super) fn find_entry(&self, path: &[u8]) -> Option<FileId> {
        self.links
            .get(path)
            .copied()
            .unwrap_or_else(|| self.find(path))
    }

    /// Whether `path` is known to name a symbolic link.
    pub(super) fn is_link(&self, path: &[u8]) -> bool {
        self.links.contains_key(path)
    }

    pub(super) fn set(&mut self, path: &[u8], id: FileId, is_dir: bool) {
        let new = Known { id, is_dir };
        if let Some(known) = self.files.get_mut(path) {
            *known = new;
            return;
        }
        if self.files.len() >= NAMES_LIMIT {
            self.files.clear();
        }
        self.files.insert(path.into(), new);
    }

    /// The name that a file was given last by a rename or link, if it still has it.
    pub(super) fn given(&self, id: FileId) -> Option<&[u8]> {
        let name = self.given.get(&(id.dev.0, id.ino))?;
        let has_it = self.find(name)?;
        ((has_it.dev, has_it.ino) == (id.dev, id.ino)).then_some(name)
    }

    pub(super) fn give(&mut self, id: FileId, name: &[u8]) {
        if self.given.len() >= NAMES_LIMIT {
            self.given.clear();
        }
        self.given.insert((id.dev.0, id.ino), name.into());
    }

    pub(super) fn made_directory(&mut self, path: &[u8]) {
        if self.made.len() >= NAMES_LIMIT {
            self.made.clear();
        }
        self.made.insert(path.into());
    }

    pub(super) fn set_link(&mut self, path: &[u8], id: Option<FileId>) {
        if self.links.len() >= NAMES_LIMIT {
            self.links.clear();
        }
        self.links.insert(path.into(), id);
    }

    pub(super) fn remove(&mut self, path: &[u8]) {
        self.files.remove(path);
        self.links.remove(path);
        self.made.remove(path);
    }

    /// `from` is called `to` now, and if it is known to be a directory, so is everything below.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8]) {
        let file = self.files.remove(from);
        let link = self.links.remove(from);
        let made = self.made.remove(from);
        self.remove(to);
        if let Some(known) = file {
            self.set(to, known.id, known.is_dir);
            self.give(known.id, to);
        }
        if let Some(id) = link {
            self.set_link(to, id);
        }
        if made {
            self.made_directory(to);
        }
        if made || file.is_some_and(|known| known.is_dir) {
            let inside: Vec<_> = self
                .files
                .keys()
                .filter(|name| is_beneath(name, from))
                .cloned()
                .collect();
            for name in inside {
                if let Some(known) = self.files.remove(&name) {
                    let rest = name.get(from.len()..).unwrap_or_default();
                    self.set(&[to, rest].concat(), known.id, known.is_dir);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_tree_takes_its_names_along() {
        let id = |ino| FileId {
            ino,
            ..FileId::default()
        };
        let mut names = Names::default();
        names.set(b"/d", id(1), true);
        names.set(b"/d/f", id(2), false);
        names.set(b"/dd/f", id(3), false);
        names.rename(b"/d", b"/e");
        assert_eq!(names.find(b"/e/f"), Some(id(2)));
        assert_eq!(names.find(b"/d/f"), None);
        assert_eq!(names.find(b"/dd/f"), Some(id(3)));
    }
}

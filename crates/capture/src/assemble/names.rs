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

    /// The same, or any other name that the file is known by; looked for once.
    pub(super) fn any_of(&mut self, id: FileId) -> Option<Box<[u8]>> {
        if let Some(name) = self.given(id) {
            return Some(name.into());
        }
        let same = |known: &Known| (known.id.dev, known.id.ino) == (id.dev, id.ino);
        let named = self.files.iter().find(|(_, known)| same(known));
        let name = named.map(|(name, _)| name.clone())?;
        self.give(id, &name);
        Some(name)
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

    /// Whether `path` is known to name no directory.
    pub(super) fn is_file(&self, path: &[u8]) -> bool {
        self.files.get(path).is_some_and(|known| !known.is_dir)
    }

    /// Whether `path` is known to name a directory.
    pub(super) fn is_directory(&self, path: &[u8]) -> bool {
        self.made.contains(path) || self.files.get(path).is_some_and(|known| known.is_dir)
    }

    /// `from` is called `to` now, and everything below if it is `whole`, a directory. With `exchange`, what was called `to`
    /// is called `from`.
    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], whole: bool, exchange: bool) {
        let moved = self.take(from, whole);
        if exchange {
            let other = self.take(to, whole);
            self.put(from, other);
        } else {
            self.remove(to);
        }
        if let Some((_, known)) = moved.files.first().filter(|(rest, _)| rest.is_empty()) {
            self.give(known.id, to);
        }
        self.put(to, moved);
    }

    /// Takes what is known of a name, and of all below it if it is `whole`.
    fn take(&mut self, name: &[u8], whole: bool) -> Taken {
        let mut taken = Taken::default();
        let rest = |path: &[u8]| Box::from(path.get(name.len()..).unwrap_or_default());
        if let Some(known) = self.files.remove(name) {
            taken.files.push((Box::default(), known));
        }
        if let Some(link) = self.links.remove(name) {
            taken.links.push((Box::default(), link));
        }
        if self.made.remove(name) {
            taken.made.push(Box::default());
        }
        if whole {
            let files = self.files.extract_if(|path, _| is_beneath(path, name));
            taken
                .files
                .extend(files.map(|(path, known)| (rest(&path), known)));
            let links = self.links.extract_if(|path, _| is_beneath(path, name));
            taken
                .links
                .extend(links.map(|(path, link)| (rest(&path), link)));
            let made = self.made.extract_if(|path| is_beneath(path, name));
            taken.made.extend(made.map(|path| rest(&path)));
        }
        taken
    }

    /// Gives what was taken of one name to another.
    fn put(&mut self, name: &[u8], taken: Taken) {
        for (rest, known) in taken.files {
            let path = [name, &rest].concat();
            if let Some(given) = self.given.get_mut(&(known.id.dev.0, known.id.ino)) {
                *given = path.as_slice().into();
            }
            self.set(&path, known.id, known.is_dir);
        }
        for (rest, link) in taken.links {
            self.set_link(&[name, &rest].concat(), link);
        }
        for rest in taken.made {
            self.made_directory(&[name, &rest].concat());
        }
    }
}

/// What is known of a name and of those below it, by what follows behind it.
#[derive(Debug, Default)]
struct Taken {
    files: Vec<(Box<[u8]>, Known)>,
    links: Vec<(Box<[u8]>, Option<FileId>)>,
    made: Vec<Box<[u8]>>,
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
        names.set_link(b"/d/l", None);
        names.rename(b"/d", b"/e", true, false);
        assert_eq!(names.find(b"/e/f"), Some(id(2)));
        assert_eq!(names.find(b"/d/f"), None);
        assert_eq!(names.find(b"/dd/f"), Some(id(3)));
        assert!(names.is_link(b"/e/l") && !names.is_link(b"/d/l"));
        names.rename(b"/e", b"/dd", true, true);
        let both = [names.find(b"/dd/f"), names.find(b"/e/f")];
        assert_eq!(both, [Some(id(2)), Some(id(3))]);
    }
}

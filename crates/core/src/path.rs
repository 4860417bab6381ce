//! Paths interned once, so that an operation stays small.

use rustc_hash::FxHashMap;

use crate::PathId;

/// The distinct paths of one stream. Paths are bytes, not text: any byte but NUL may occur.
///
/// Memory grows with the number of distinct paths, not with the number of operations; what lives for
/// long and cannot know how many there will be [begins anew](PathTable::take) at times.
#[derive(Debug, Default, Clone)]
pub struct PathTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    index: FxHashMap<Box<[u8]>, PathId>,
    epoch: u32,
}

impl PathTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// The id of `path`, added if it is new. `None` only when 2^32 - 2 paths are held already.
    pub fn intern(&mut self, path: &[u8]) -> Option<PathId> {
        if let Some(&id) = self.index.get(path) {
            return Some(id);
        }
        let id = PathId::from_index(self.ends.len())?;
        self.bytes.extend_from_slice(path);
        self.ends.push(self.bytes.len());
        self.index.insert(path.into(), id);
        Some(id)
    }

    /// The id of `path` if the table holds it.
    pub fn find(&self, path: &[u8]) -> Option<PathId> {
        self.index.get(path).copied()
    }

    /// The bytes of a path; empty for an id of another table.
    pub fn get(&self, id: PathId) -> &[u8] {
        let index = id.index();
        let Some(&end) = self.ends.get(index) else {
            return &[];
        };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[start..end]
    }

    /// The path as text, with a replacement character for what is not UTF-8.
    pub fn display(&self, id: PathId) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(id))
    }

    /// How often the table has begun anew. Who remembers ids looks whether it has.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Bytes of the paths held.
    pub fn text_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets all paths, to begin anew with other ids. Returns a table that still holds them.
    pub fn take(&mut self) -> Self {
        let epoch = self.epoch.wrapping_add(1);
        std::mem::replace(
            self,
            Self {
                epoch,
                ..Self::default()
            },
        )
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interning_gives_one_id_per_path() {
        let mut table = PathTable::new();
        let a = table.intern(b"/a").unwrap();
        let b = table.intern(b"\xff\n").unwrap();
        assert_eq!(table.intern(b"/a"), Some(a));
        assert_ne!(a, b);
        assert_eq!(table.get(b), b"\xff\n");
        assert_eq!(table.len(), 2);
        assert_eq!(table.find(b"/b"), None);
    }

    #[test]
    fn a_table_that_begins_anew_says_so() {
        let mut table = PathTable::new();
        let a = table.intern(b"/a").unwrap();
        let old = table.take();
        assert_eq!(old.get(a), b"/a");
        assert_eq!((table.len(), table.text_bytes()), (0, 0));
        assert_ne!(table.epoch(), old.epoch());
    }
}

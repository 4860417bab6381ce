//! A source tree, indexed for the five phases.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::program::{EntryKind, SourceTree, TreeEntry};

/// What a directory holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Its path below the root, empty for the root.
    pub path: Vec<u8>,
    /// The names in it.
    pub names: Vec<Vec<u8>>,
}

/// A source tree. Numbers of files are indices of `entries`.
#[derive(Debug)]
pub struct CompiledTree {
    /// As given: a directory before what it holds.
    pub entries: Vec<TreeEntry>,
    /// Every directory, the root first, parents before children.
    pub listings: Vec<Listing>,
    /// What is compiled: the C and C++ sources, or every file where there are none.
    pub sources: Vec<usize>,
    /// Every header.
    pub headers: Vec<usize>,
    /// Headers by their directory.
    by_directory: FxHashMap<Vec<u8>, Vec<usize>>,
    paths: FxHashSet<Vec<u8>>,
}

impl CompiledTree {
    /// The index of a tree. An entry whose directory is not in the tree is left out.
    pub fn new(source: &SourceTree) -> Self {
        let mut tree = Self {
            entries: Vec::new(),
            listings: vec![Listing::default()],
            sources: Vec::new(),
            headers: Vec::new(),
            by_directory: FxHashMap::default(),
            paths: FxHashSet::default(),
        };
        let mut directories: FxHashMap<Vec<u8>, usize> = FxHashMap::default();
        directories.insert(Vec::new(), 0);
        for entry in &source.entries {
            let Some(&parent) = directories.get(parent(&entry.path)) else {
                continue;
            };
            if entry.path.is_empty() || !tree.paths.insert(entry.path.clone()) {
                continue;
            }
            if let Some(listing) = tree.listings.get_mut(parent) {
                listing.names.push(name(&entry.path).to_vec());
            }
            if entry.kind == EntryKind::Directory {
                directories.insert(entry.path.clone(), tree.listings.len());
                tree.listings.push(Listing {
                    path: entry.path.clone(),
                    names: Vec::new(),
                });
            }
            tree.sort(tree.entries.len(), entry);
            tree.entries.push(entry.clone());
        }
        if tree.sources.is_empty() {
            tree.sources = (0..tree.entries.len())
                .filter(|&i| tree.file(i).is_some())
                .collect();
        }
        tree
    }

    fn sort(&mut self, number: usize, entry: &TreeEntry) {
        if !matches!(entry.kind, EntryKind::File { .. }) {
            return;
        }
        match extension(&entry.path) {
            b"c" | b"cc" | b"cpp" | b"cxx" | b"C" => self.sources.push(number),
            b"h" | b"hh" | b"hpp" | b"hxx" | b"inc" => {
                self.headers.push(number);
                self.by_directory
                    .entry(parent(&entry.path).to_vec())
                    .or_default()
                    .push(number);
            }
            _ => {}
        }
    }

    /// Path and size of a file, `None` for what is not one.
    pub fn file(&self, number: usize) -> Option<(&[u8], u64)> {
        let entry = self.entries.get(number)?;
        match entry.kind {
            EntryKind::File { size_bytes } => Some((&entry.path, size_bytes)),
            _ => None,
        }
    }

    /// The headers in a directory.
    pub fn headers_of(&self, directory: &[u8]) -> &[usize] {
        self.by_directory.get(directory).map_or(&[], Vec::as_slice)
    }

    /// Whether the tree holds that path.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }
}

/// The directory of a path, empty for the root.
pub fn parent(path: &[u8]) -> &[u8] {
    path.iter()
        .rposition(|&b| b == b'/')
        .and_then(|at| path.get(..at))
        .unwrap_or_default()
}

/// The last component of a path.
pub fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}

fn extension(path: &[u8]) -> &[u8] {
    let name = name(path);
    name.iter()
        .rposition(|&b| b == b'.')
        .and_then(|at| name.get(at + 1..))
        .unwrap_or_default()
}

/// A tree of the original's size: about 70 files and 200 kB (Howard 1988).
pub fn built_in() -> SourceTree {
    let mut entries = Vec::new();
    let mut push = |path: String, kind| {
        entries.push(TreeEntry {
            path: path.into_bytes(),
            kind,
        });
    };
    for (directory, sources, headers) in [
        ("app", 12, 2),
        ("doc", 0, 0),
        ("include", 0, 12),
        ("lib", 20, 4),
        ("tools", 10, 0),
    ] {
        push(directory.to_owned(), EntryKind::Directory);
        let file = |size_bytes: u64| EntryKind::File { size_bytes };
        for i in 0..sources {
            // From 1.5 to 6 kB.
            let size = 1500 + (i * 2777 + sources * 131) % 4600;
            push(format!("{directory}/part{i}.c"), file(size));
        }
        for i in 0..headers {
            push(
                format!("{directory}/{directory}{i}.h"),
                file(400 + i * 613 % 2100),
            );
        }
        if directory == "doc" {
            for i in 0..5 {
                push(format!("doc/page{i}.txt"), file(900 + i * 1100));
            }
        } else {
            push(format!("{directory}/Makefile"), file(600));
        }
    }
    push("README".to_owned(), EntryKind::File { size_bytes: 1800 });
    SourceTree { entries }
}

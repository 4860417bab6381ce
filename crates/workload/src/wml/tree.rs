//! The files and directories of a fileset, laid out as filebench lays them out.

use std::collections::BTreeSet;
use std::sync::Arc;

use fsage_core::Seed;

use crate::random::Random;

use super::distribution::{Distribution, Number};

/// Deeper trees are cut: each level takes nine bytes of a path.
const DEEPEST: f64 = 100.0;

/// Their paths are held in memory.
const MOST_DIRECTORIES: usize = 2_000_000;
const MOST_PATH_BYTES: usize = 256 << 20;

/// The largest file: what ext4 takes.
pub(super) const MOST_FILE_BYTES: u64 = 16 << 40;

/// A fileset as it is defined.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// Its name.
    pub(super) name: String,
    /// Where it stands, relative to the target's root.
    pub(super) root: String,
    pub(super) entries: u64,
    pub(super) leaf_directories: u64,
    pub(super) size: Number,
    /// Files per directory, on average.
    pub(super) width: Number,
    /// The depth of each directory, if it is given.
    pub(super) depth: Option<Number>,
    /// The shape of the gamma distribution of widths and depths; 0 for the averages themselves.
    pub(super) gamma: f64,
    /// The share of files that exist at the start, in percent.
    pub(super) prealloc: u64,
    pub(super) readonly: bool,
    pub(super) writeonly: bool,
    /// Whether its files may be in the cache at the start.
    pub(super) cached: bool,
}

/// A file.
#[derive(Debug, Clone, Copy)]
pub(super) struct File {
    /// The index of its directory.
    pub(super) directory: u32,
    /// Its name is this number.
    pub(super) serial: u32,
    /// The size that it is meant to have, in bytes.
    pub(super) size: u64,
}

/// A fileset with every file and directory; the same for the same definition and seed.
#[derive(Debug)]
pub(super) struct FilesetTree {
    pub(super) definition: Definition,
    /// Paths of the directories, the first is the root; each comes after the one that holds it.
    pub(super) directories: Vec<String>,
    /// The directory that holds each of them; the root holds itself.
    pub(super) parents: Vec<u32>,
    pub(super) files: Vec<File>,
    /// Directories that hold nothing, to be made and removed: parent and name.
    pub(super) leaves: Vec<(u32, u32)>,
    /// The order in which files that exist at the start are made.
    pub(super) order: Vec<u32>,
    /// The same for leaf directories.
    pub(super) leaf_order: Vec<u32>,
    path_bytes: usize,
}

struct Level {
    directory: u32,
    width: f64,
    leaf: bool,
    made: u32,
}

impl FilesetTree {
    /// Lays a fileset out; `None` if it takes more than two million directories, or more memory than is
    /// had for their names.
    pub(super) fn new(definition: Definition, seed: Seed) -> Option<Self> {
        let mut tree = Self {
            directories: vec![definition.root.clone()],
            parents: vec![0],
            files: Vec::new(),
            leaves: Vec::new(),
            order: Vec::new(),
            leaf_order: Vec::new(),
            path_bytes: 0,
            definition,
        };
        let mut random = Random::new(seed);
        tree.populate(&mut random, true);
        tree.populate(&mut random, false);
        let prealloc = tree.definition.prealloc;
        tree.order = chosen(tree.files.len(), prealloc, &mut random);
        tree.leaf_order = chosen(tree.leaves.len(), prealloc, &mut random);
        (!tree.is_too_large()).then_some(tree)
    }

    fn is_too_large(&self) -> bool {
        self.directories.len() > MOST_DIRECTORIES || self.path_bytes > MOST_PATH_BYTES
    }

    /// Fills directories one after the other with files or leaf directories: a directory that is
    /// deep enough takes as many as it is wide, others take directories, and the root goes on until
    /// there are enough.
    fn populate(&mut self, random: &mut Random, files: bool) {
        let wanted = if files {
            self.definition.entries
        } else {
            self.definition.leaf_directories
        };
        let mut open = vec![Level {
            directory: 0,
            width: f64::INFINITY,
            leaf: false,
            made: 0,
        }];
        while let Some(level) = open.last_mut() {
            let have = if files {
                self.files.len()
            } else {
                self.leaves.len()
            };
            if have as u64 >= wanted || f64::from(level.made) >= level.width || self.is_too_large()
            {
                open.pop();
                continue;
            }
            level.made += 1;
            let (directory, serial) = (level.directory, level.made);
            if !level.leaf {
                let deep = open.len() as f64 + 1.0;
                let next = self.directory(directory, serial, deep, files, random);
                open.push(next);
            } else if files {
                let size = self.definition.size.whole(random).min(MOST_FILE_BYTES);
                self.files.push(File {
                    directory,
                    serial,
                    size,
                });
            } else {
                self.leaves.push((directory, serial));
            }
        }
    }

    fn directory(
        &mut self,
        parent: u32,
        serial: u32,
        deep: f64,
        files: bool,
        random: &mut Random,
    ) -> Level {
        let definition = &self.definition;
        let total = (definition.entries + definition.leaf_directories) as f64;
        let mean_width = match &definition.width {
            Number::Fixed(width) => *width,
            Number::Drawn(distribution) => mean(distribution),
        };
        let mean_depth = if mean_width > 1.0 {
            total.ln() / mean_width.ln()
        } else {
            1.0
        };
        let spread = |mean: f64, random: &mut Random| {
            if definition.gamma > 0.0 {
                Number::gamma(mean, definition.gamma).real(random)
            } else {
                mean
            }
        };
        let depth = match &definition.depth {
            Some(depth) => depth.real(random),
            None => spread(mean_depth, random),
        };
        let width = match &definition.width {
            Number::Fixed(width) => spread(*width, random),
            drawn @ Number::Drawn(_) => drawn.real(random),
        };
        // Leaf directories stand in directories of their own.
        let name = if files { "" } else { "d" };
        let path = self.directories.get(parent as usize);
        let path = format!("{}/{name}{serial:08}", path.map_or("", String::as_str));
        let directory = self.directories.len() as u32;
        self.path_bytes += path.len();
        self.directories.push(path);
        self.parents.push(parent);
        Level {
            directory,
            width: width.max(1.0),
            leaf: deep >= depth.floor().clamp(1.0, DEEPEST),
            made: 0,
        }
    }

    /// The path of a file.
    pub(super) fn file(&self, index: usize) -> String {
        match self.files.get(index) {
            Some(file) => self.below(file.directory, file.serial),
            None => String::new(),
        }
    }

    /// The path of a leaf directory.
    pub(super) fn leaf(&self, index: usize) -> String {
        match self.leaves.get(index) {
            Some((directory, serial)) => self.below(*directory, *serial),
            None => String::new(),
        }
    }

    fn below(&self, directory: u32, serial: u32) -> String {
        let directory = self.directories.get(directory as usize);
        format!("{}/{serial:08}", directory.map_or("", String::as_str))
    }
}

/// For each fileset the directories down to its own that were not there for those before it, in the order
/// in which the set-up makes them.
pub(super) fn above(trees: &[Arc<FilesetTree>]) -> Vec<Vec<String>> {
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let mut made = Vec::new();
    for tree in trees {
        let root = &tree.definition.root;
        let ends = root.match_indices('/').map(|(at, _)| at);
        let paths = ends.chain([root.len()]);
        let paths = paths.filter_map(|end| root.get(..end));
        made.push(
            paths
                .filter(|path| known.insert(path))
                .map(str::to_owned)
                .collect(),
        );
        known.extend(tree.directories.iter().map(String::as_str));
    }
    made
}

/// The mean of a distribution of widths, by a hundred draws of its own.
fn mean(distribution: &Distribution) -> f64 {
    let mut random = Random::new(Seed(1));
    (0..100)
        .map(|_| distribution.draw(&mut random))
        .sum::<f64>()
        / 100.0
}

/// `percent` of the numbers under `count`, in random order (Fisher and Yates).
fn chosen(count: usize, percent: u64, random: &mut Random) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count as u32).collect();
    let wanted = (count as u64 * percent.min(100)).div_ceil(100) as usize;
    for i in 0..wanted {
        let j = i + random.below((count - i) as u64) as usize;
        all.swap(i, j);
    }
    all.truncate(wanted);
    all
}

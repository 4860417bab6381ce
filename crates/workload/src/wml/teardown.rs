//! Removes what the set-up and the run of a script have left: files, leaf directories, then the
//! directories from the last one made to the first.

use std::sync::{Arc, Mutex};

use fsage_core::{Op, OpKind, OpSource, PathTable, SourceError};

use super::setup::{AHEAD, op, push};
use super::state::{FileState, Shared};
use super::thread::lock;
use super::tree::{FilesetTree, above};

/// Where it is in a fileset.
#[derive(Debug, Clone, Copy)]
enum At {
    File(usize),
    Leaf(usize),
    /// That many directories are left.
    Directory(usize),
    /// That many of those above the fileset are left.
    Above(usize),
}

/// The stream that removes filesets, the last one first. It goes by what the threads left; where they
/// ran in another process that is not known, and it removes nothing: the directory goes as a whole.
pub(super) struct Teardown {
    trees: Vec<Arc<FilesetTree>>,
    shared: Arc<Mutex<Shared>>,
    /// For each fileset the directories above it that were made for it.
    above: Vec<Vec<String>>,
    /// Filesets that are left, and where in the last of them.
    left: usize,
    at: At,
    paths: PathTable,
}

impl Teardown {
    pub(super) fn new(trees: Vec<Arc<FilesetTree>>, shared: Arc<Mutex<Shared>>) -> Self {
        Self {
            above: above(&trees),
            left: trees.len(),
            trees,
            shared,
            at: At::File(0),
            paths: PathTable::new(),
        }
    }

    fn remove(
        &mut self,
        kind: OpKind,
        path: &str,
        size: Option<u64>,
        batch: &mut Vec<Op>,
    ) -> Result<(), SourceError> {
        let mut removed = op(kind);
        removed.size_bytes = size;
        push(&mut self.paths, removed, path, batch)
    }

    /// What the run left of a file and of a leaf directory.
    fn file(&self, set: usize, index: usize) -> Option<FileState> {
        let shared = lock(&self.shared);
        shared.filesets.get(set)?.files.get(index).copied()
    }

    fn leaf(&self, set: usize, index: usize) -> Option<bool> {
        let shared = lock(&self.shared);
        shared.filesets.get(set)?.leaf_exists.get(index).copied()
    }

    /// One name of fileset number `set`; false at its end.
    fn step(
        &mut self,
        set: usize,
        tree: &FilesetTree,
        batch: &mut Vec<Op>,
    ) -> Result<bool, SourceError> {
        self.at = match self.at {
            At::File(n) => match self.file(set, n) {
                Some(file) => {
                    if file.exists {
                        let path = tree.file(n);
                        self.remove(OpKind::Unlink, &path, Some(file.size), batch)?;
                    }
                    At::File(n + 1)
                }
                None => At::Leaf(0),
            },
            At::Leaf(n) => match self.leaf(set, n) {
                Some(there) => {
                    if there {
                        self.remove(OpKind::Rmdir, &tree.leaf(n), None, batch)?;
                    }
                    At::Leaf(n + 1)
                }
                None => At::Directory(tree.directories.len()),
            },
            // The first is the fileset's own: the last of those above.
            At::Directory(left) if left > 1 => {
                if let Some(path) = tree.directories.get(left - 1) {
                    self.remove(OpKind::Rmdir, path, None, batch)?;
                }
                At::Directory(left - 1)
            }
            At::Directory(_) => At::Above(self.above.get(set).map_or(0, Vec::len)),
            At::Above(0) => return Ok(false),
            At::Above(left) => {
                let path = self.above.get(set).and_then(|made| made.get(left - 1));
                if let Some(path) = path.cloned() {
                    self.remove(OpKind::Rmdir, &path, None, batch)?;
                }
                At::Above(left - 1)
            }
        };
        Ok(true)
    }
}

impl OpSource for Teardown {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        if !lock(&self.shared).begun {
            return Ok(0);
        }
        while batch.len() - before < AHEAD && self.left > 0 {
            let set = self.left - 1;
            let Some(tree) = self.trees.get(set).map(Arc::clone) else {
                break;
            };
            if !self.step(set, &tree, batch)? {
                self.left = set;
                self.at = At::File(0);
            }
        }
        Ok(batch.len() - before)
    }
}

//! Makes the filesets of a script: directories, then the files that exist at the start.

use std::sync::Arc;

use fsage_core::{Fd, Op, OpFlags, OpKind, OpSource, Outcome, PathTable, Pid, SourceError, Tid};

use crate::ops::{O_CREAT, O_RDWR};

use super::tree::{FilesetTree, above};

/// filebench fills files in writes of this size.
const PIECE_BYTES: u64 = 1 << 20;

const FD: Fd = Fd(3);

/// The generator works this many operations ahead of the target at the least.
pub(super) const AHEAD: usize = 128;

enum At {
    /// Directories of the fileset that were made by now; the first with those above it.
    Directory(usize),
    File(usize),
    /// Of this file so many bytes are written.
    Within(usize, u64),
    Leaf(usize),
}

/// The stream that sets filesets up, one after the other.
pub(super) struct Setup {
    trees: Vec<Arc<FilesetTree>>,
    /// For each fileset the directories above it that are made for it.
    above: Vec<Vec<String>>,
    tree: usize,
    at: At,
    paths: PathTable,
}

impl Setup {
    pub(super) fn new(trees: Vec<Arc<FilesetTree>>) -> Self {
        Self {
            above: above(&trees),
            trees,
            tree: 0,
            at: At::Directory(0),
            paths: PathTable::new(),
        }
    }

    fn make_directory(&mut self, path: &str, batch: &mut Vec<Op>) -> Result<(), SourceError> {
        let mut made = op(OpKind::Mkdir);
        made.flags = 0o755;
        push(&mut self.paths, made, path, batch)
    }

    fn open(
        &mut self,
        tree: &FilesetTree,
        index: usize,
        batch: &mut Vec<Op>,
    ) -> Result<(), SourceError> {
        let mut open = op(OpKind::Open);
        open.flags = O_RDWR | O_CREAT;
        open.size_bytes = Some(0);
        open.result = Outcome::ok(FD.0 as u64);
        push(&mut self.paths, open, &tree.file(index), batch)
    }

    /// Goes on with a file of which so much is written; returns how much is then, `None` once it is
    /// closed.
    fn fill(size: u64, mut written: u64, batch: &mut Vec<Op>) -> Option<u64> {
        let most = batch.len() + AHEAD;
        while written < size {
            if batch.len() >= most {
                return Some(written);
            }
            let length = (size - written).min(PIECE_BYTES);
            let mut write = op(OpKind::Write);
            write.fd = Some(FD);
            write.offset = Some(written);
            write.length = Some(length);
            write.result = Outcome::ok(length);
            write.size_bytes = Some(written);
            write.record = OpFlags::IMPLICIT_OFFSET;
            batch.push(write);
            written += length;
        }
        let mut close = op(OpKind::Close);
        close.fd = Some(FD);
        batch.push(close);
        None
    }

    /// One directory or file more; false at the end of the fileset.
    fn step(&mut self, tree: &FilesetTree, batch: &mut Vec<Op>) -> Result<bool, SourceError> {
        self.at = match self.at {
            At::Directory(0) => {
                let above = self.above.get_mut(self.tree).map(std::mem::take);
                for path in above.unwrap_or_default() {
                    self.make_directory(&path, batch)?;
                }
                At::Directory(1)
            }
            At::Directory(n) => match tree.directories.get(n) {
                Some(path) => {
                    self.make_directory(path, batch)?;
                    At::Directory(n + 1)
                }
                None => At::File(0),
            },
            At::File(n) => match tree.order.get(n) {
                Some(&index) => {
                    self.open(tree, index as usize, batch)?;
                    At::Within(n, 0)
                }
                None => At::Leaf(0),
            },
            At::Within(n, written) => {
                let file = tree.order.get(n).and_then(|&i| tree.files.get(i as usize));
                match Self::fill(file.map_or(0, |f| f.size), written, batch) {
                    Some(written) => At::Within(n, written),
                    None => At::File(n + 1),
                }
            }
            At::Leaf(n) => match tree.leaf_order.get(n) {
                Some(&index) => {
                    self.make_directory(&tree.leaf(index as usize), batch)?;
                    At::Leaf(n + 1)
                }
                None => return Ok(false),
            },
        };
        Ok(true)
    }
}

/// Adds an operation on that name.
pub(super) fn push(
    paths: &mut PathTable,
    op: Op,
    path: &str,
    batch: &mut Vec<Op>,
) -> Result<(), SourceError> {
    let id = paths.intern(path.as_bytes());
    let id = id.ok_or_else(|| SourceError::new("a script needs more than 2^32 names"))?;
    batch.push(Op {
        path: Some(id),
        ..op
    });
    Ok(())
}

/// An operation of the one process that makes filesets and removes them.
pub(super) fn op(kind: OpKind) -> Op {
    Op::new(kind, Pid(1), Tid(1), 0)
}

impl OpSource for Setup {
    fn paths(&self) -> &PathTable {
        &self.paths
    }

    fn next_batch(&mut self, batch: &mut Vec<Op>) -> Result<usize, SourceError> {
        let before = batch.len();
        while batch.len() - before < AHEAD {
            let Some(tree) = self.trees.get(self.tree).map(Arc::clone) else {
                break;
            };
            if !self.step(&tree, batch)? {
                self.tree += 1;
                self.at = At::Directory(0);
            }
        }
        Ok(batch.len() - before)
    }
}

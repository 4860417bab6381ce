//! What traces tell of short-lived files and of how files are deleted.

use std::collections::BTreeMap;

use fsage_core::{Fd, FileId, Op, OpKind, OpSource, PathId, PathTable, Pid, SourceError};
use fsage_namespace::flags::O_CREAT;
use fsage_namespace::path::{join, normal};
use rustc_hash::FxHashMap;

use super::deletes::Habits;
use super::short::{ShortFile, ShortLived, ShortProfile};
use crate::made::DAY_NS;

/// What follows another operation in its directory within this time is near it.
const NEAR_NS: u64 = 10_000_000_000;

/// A file of whose making the trace tells.
#[derive(Debug, Clone, Copy)]
struct Made {
    ns: u64,
    size: u64,
}

#[derive(Debug, Default, Clone, Copy)]
struct Directory {
    removed_ns: Option<u64>,
    other_ns: Option<u64>,
}

/// Reads traces one after the other.
#[derive(Debug, Default)]
pub struct Learner {
    sources: Vec<String>,
    /// By trace, day and directory.
    profiles: BTreeMap<(usize, u64, Vec<u8>), Vec<ShortFile>>,
    files: FxHashMap<Vec<u8>, Made>,
    open: FxHashMap<(Pid, Fd), Vec<u8>>,
    known: FxHashMap<FileId, Vec<u8>>,
    directories: FxHashMap<Vec<u8>, Directory>,
    removed: u64,
    together: u64,
    near: u64,
    gaps_ns: u64,
}

impl Learner {
    /// Takes a trace that began in `directory`.
    pub fn take(
        &mut self,
        name: &str,
        directory: &[u8],
        source: &mut dyn OpSource,
    ) -> Result<(), SourceError> {
        self.sources.push(name.to_owned());
        self.files.clear();
        self.open.clear();
        self.known.clear();
        self.directories.clear();
        let mut batch = Vec::new();
        while source.next_batch(&mut batch)? > 0 {
            for op in batch.drain(..).filter(|op: &Op| op.result.is_ok()) {
                self.operation(&op, source.paths(), directory);
            }
        }
        Ok(())
    }

    /// What was learnt.
    pub fn finish(self) -> ShortLived {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let habits = if self.removed == 0 {
            Habits::default()
        } else {
            Habits {
                together: rounded(share(self.together, self.removed)),
                near: rounded(share(self.near, self.removed - self.together)),
                gap_s: rounded(share(self.gaps_ns, self.together + self.near) / 1e9),
            }
        };
        let profiles = self.profiles.into_values().map(|mut files| {
            files.sort_by(|a, b| a.0.total_cmp(&b.0));
            let first = files.first().map_or(0.0, |f| f.0);
            for file in &mut files {
                *file = (rounded(file.0 - first), rounded(file.1), file.2);
            }
            ShortProfile { files }
        });
        ShortLived::new(self.sources.join(", "), habits, profiles.collect())
    }

    fn operation(&mut self, op: &Op, paths: &PathTable, directory: &[u8]) {
        let path = |path: Option<PathId>, dir: Option<PathId>| {
            let dir = dir.map_or(directory, |d| paths.get(d));
            path.map(|p| normal(&join(dir, paths.get(p))))
        };
        match op.kind {
            OpKind::Open => {
                let Some(path) = path(op.path, op.dir) else {
                    return;
                };
                let new = op.flags & O_CREAT != 0 && op.size_bytes.is_none_or(|s| s == 0);
                if new && !self.files.contains_key(&path) {
                    self.active(&path, op.start_ns);
                    self.files.insert(
                        path.clone(),
                        Made {
                            ns: op.start_ns,
                            size: 0,
                        },
                    );
                }
                if let Some(fd) = op.result.value().and_then(|v| i32::try_from(v).ok()) {
                    self.open.insert((op.pid, Fd(fd)), path.clone());
                }
                if let Some(file) = op.file {
                    self.known.insert(file, path);
                }
            }
            OpKind::Close => {
                if let Some(fd) = op.fd {
                    self.open.remove(&(op.pid, fd));
                }
            }
            OpKind::Write | OpKind::CopyOut | OpKind::SpliceOut => self.written(op),
            OpKind::Unlink => {
                if let Some(path) = path(op.path, op.dir) {
                    self.gone(&path, op.start_ns);
                }
            }
            OpKind::Rename => {
                let (Some(from), Some(to)) =
                    (path(op.path, op.dir), path(op.path2, op.dir2.or(op.dir)))
                else {
                    return;
                };
                if self.files.contains_key(&to) {
                    self.gone(&to, op.start_ns);
                }
                self.active(&to, op.start_ns);
                if let Some(made) = self.files.remove(&from) {
                    self.files.insert(to.clone(), made);
                }
                for held in self.open.values_mut().chain(self.known.values_mut()) {
                    if *held == from {
                        held.clone_from(&to);
                    }
                }
            }
            _ => {}
        }
    }

    fn written(&mut self, op: &Op) {
        let held = op.fd.and_then(|fd| self.open.get(&(op.pid, fd)));
        let held = held.or_else(|| self.known.get(&op.file?));
        let bytes = op.result.value().unwrap_or(0);
        let at = op.offset.or(op.size_bytes).unwrap_or(0);
        if let Some(made) = held.and_then(|path| self.files.get_mut(path)) {
            made.size = made.size.max(at.saturating_add(bytes));
        }
    }

    fn active(&mut self, path: &[u8], ns: u64) {
        self.directories.entry(above(path)).or_default().other_ns = Some(ns);
    }

    fn gone(&mut self, path: &[u8], ns: u64) {
        let dir = above(path);
        let known = self.directories.entry(dir.clone()).or_default();
        let since = |at: Option<u64>| {
            at.map(|at| ns.saturating_sub(at))
                .filter(|&gap| gap <= NEAR_NS)
        };
        self.removed += 1;
        if let Some(gap) = since(known.removed_ns) {
            self.together += 1;
            self.gaps_ns += gap;
        } else if let Some(gap) = since(known.other_ns) {
            self.near += 1;
            self.gaps_ns += gap;
        }
        known.removed_ns = Some(ns);
        let Some(made) = self.files.remove(path) else {
            return;
        };
        let day = made.ns / DAY_NS;
        if day == ns / DAY_NS {
            let key = (self.sources.len(), day, dir);
            let second = |ns: u64| ns as f64 / 1e9;
            let file = (
                second(made.ns % DAY_NS),
                second(ns.saturating_sub(made.ns)),
                made.size,
            );
            self.profiles.entry(key).or_default().push(file);
        }
    }
}

fn above(path: &[u8]) -> Vec<u8> {
    let at = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    path.get(..at).unwrap_or_default().to_vec()
}

/// To a microsecond.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

//! What a snapshot says, by inode.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fsage_core::FileType;
use fsage_format::snapshot::{Extent, SnapshotEntry, SnapshotMeta, SnapshotReader};
use fsage_host::scratch::is_own;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{BLOCK_BYTES, GenerateError, refused};

/// A name: the inode of its directory and itself.
pub type Name = (u64, Box<[u8]>);

/// The root, whatever its inode's number.
pub const ROOT: u64 = 0;

/// An inode at the time of a snapshot.
#[derive(Debug, Clone)]
pub struct Inode {
    /// What tells it from another of the same number: the generation, else the birth.
    pub ident: u64,
    /// What it is.
    pub kind: FileType,
    /// Size in bytes.
    pub size: u64,
    /// Of these, how many hold data.
    pub data: u64,
    /// Birth, nanoseconds since the epoch; 0 where unknown.
    pub born_ns: i64,
    /// Last change, nanoseconds since the epoch; 0 where unknown.
    pub ctime_ns: i64,
    /// Last modification.
    pub mtime_ns: i64,
    /// Where its data lies.
    pub extents: Box<[Extent]>,
    /// Its names.
    pub names: Vec<Name>,
    /// The target of a symbolic link.
    pub target: Box<[u8]>,
}

/// All of a snapshot.
#[derive(Debug, Default)]
pub struct State {
    /// When it was taken, nanoseconds since the epoch.
    pub taken_ns: u64,
    /// By number.
    pub inodes: FxHashMap<u64, Inode>,
    /// Names that are neither files, directories nor symbolic links, or lie nowhere.
    pub others: u64,
}

/// A snapshot that is to be read.
#[derive(Debug, Clone)]
pub struct Night {
    /// The file.
    pub path: PathBuf,
    /// What it says about itself.
    pub meta: SnapshotMeta,
}

/// The groups of inodes, where files are to be placed by them.
#[derive(Debug, Clone, Copy)]
pub struct Groups {
    /// Inodes in each.
    pub inodes: u64,
    /// How many there are at least.
    pub count: u64,
}

impl Groups {
    /// The directory that stands for a group; no inode has that number.
    pub fn directory(group: u64) -> u64 {
        u64::MAX - group
    }
}

/// The snapshots of a directory, by name; all whole, of one file system, one after the other. Another name of one of
/// them, as the last that `--previous` is given, is no night of its own.
pub fn nights(dir: &Path) -> Result<Vec<Night>, GenerateError> {
    let failed = |e: std::io::Error| refused(format!("read {}: {e}", dir.display()));
    let (mut paths, mut seen) = (Vec::new(), FxHashSet::default());
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|e| e == "fss") {
            paths.push(path);
        }
    }
    paths.sort();
    // What cannot be looked at is reported when it is opened.
    paths.retain(|path| match path.metadata() {
        Ok(about) => seen.insert((about.dev(), about.ino())),
        Err(_) => true,
    });
    if paths.len() < 2 {
        return Err(refused(format!(
            "snapshots in {}: {}, expected at least two files that end in .fss",
            dir.display(),
            paths.len()
        )));
    }
    let mut nights: Vec<Night> = Vec::new();
    for path in paths {
        let reader = SnapshotReader::open(&path)?;
        if !reader.loss().is_none() {
            return Err(refused(format!("{}: {}", path.display(), reader.loss())));
        }
        let night = Night {
            meta: reader.meta().clone(),
            path,
        };
        if let Some(before) = nights.last() {
            follows(before, &night)?;
        }
        nights.push(night);
    }
    Ok(nights)
}

/// Requires that a snapshot is of the same file system as the one before it, and later.
fn follows(before: &Night, night: &Night) -> Result<(), GenerateError> {
    let (a, b) = (&before.meta, &night.meta);
    let facts = [
        ("machine", a.host.clone(), b.host.clone()),
        ("directory", a.root.clone(), b.root.clone()),
        ("file system", a.file_system.clone(), b.file_system.clone()),
        ("size", a.total_bytes.to_string(), b.total_bytes.to_string()),
    ];
    if let Some((what, a, b)) = facts.iter().find(|(_, a, b)| a != b) {
        return Err(refused(format!(
            "{} and {} are of different file systems: {what} `{a}` and `{b}`",
            before.path.display(),
            night.path.display()
        )));
    }
    if a.taken_unix_ns > 0 && b.taken_unix_ns <= a.taken_unix_ns {
        return Err(refused(format!(
            "{} comes after {} by its name and was taken {} before it: snapshots out of order, one of them twice, or a clock set back",
            night.path.display(),
            before.path.display(),
            seconds(a.taken_unix_ns - b.taken_unix_ns)
        )));
    }
    Ok(())
}

pub(super) fn seconds(ns: u64) -> String {
    format!("{} s", ns / 1_000_000_000)
}

/// Reads one; with `groups` files are placed by their inode's.
pub fn read(night: &Night, groups: Option<Groups>) -> Result<State, GenerateError> {
    let mut reader = SnapshotReader::open(&night.path)?;
    let mut state = State {
        taken_ns: night.meta.taken_unix_ns,
        ..State::default()
    };
    let mut paths: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut dirs: FxHashMap<Vec<u8>, u64> = [(Vec::new(), ROOT)].into_iter().collect();
    let mut batch = Vec::new();
    while reader.next_batch(&mut batch)? > 0 {
        for entry in batch.drain(..) {
            let directory = entry.file_type == FileType::Directory;
            // The file system's own, which a target has as well.
            let own = entry.path.is_empty() || entry.path == b"lost+found";
            if directory && (own || groups.is_some()) || is_own(&entry.path) {
                continue;
            }
            if entry.file_type == FileType::Other || entry.ino == ROOT {
                state.others += 1;
                continue;
            }
            if directory {
                dirs.insert(entry.path.clone(), entry.ino);
            }
            paths.push((entry.ino, entry.path.clone()));
            state
                .inodes
                .entry(entry.ino)
                .or_insert_with(|| inode(entry));
        }
    }
    match groups {
        Some(groups) => place(&mut state, groups),
        None => name(&mut state, paths, &dirs),
    }
    Ok(state)
}

fn inode(entry: SnapshotEntry) -> Inode {
    let born_ns = entry.btime_ns.unwrap_or(0);
    let known = entry.generation != 0;
    let sparse = entry.allocated_bytes + BLOCK_BYTES < entry.size_bytes;
    Inode {
        ident: if known {
            entry.generation.into()
        } else {
            born_ns as u64
        },
        kind: entry.file_type,
        size: entry.size_bytes,
        data: if sparse {
            entry.allocated_bytes
        } else {
            entry.size_bytes
        },
        born_ns,
        ctime_ns: entry.ctime_ns,
        mtime_ns: entry.mtime_ns,
        extents: entry.extents.into(),
        names: Vec::new(),
        target: entry.link_target.unwrap_or_default().into(),
    }
}

fn name(state: &mut State, paths: Vec<(u64, Vec<u8>)>, dirs: &FxHashMap<Vec<u8>, u64>) {
    for (ino, path) in paths {
        let at = path.iter().rposition(|&b| b == b'/');
        let (dir, name) = match at {
            Some(at) => (path.get(..at), path.get(at + 1..)),
            None => (Some(&b""[..]), Some(&path[..])),
        };
        let dir = dir.and_then(|d| dirs.get(d)).copied();
        let good = name.filter(|n| !n.is_empty() && *n != b"." && *n != b"..");
        if let (Some(dir), Some(name), Some(inode)) = (dir, good, state.inodes.get_mut(&ino)) {
            inode.names.push((dir, name.into()));
        } else {
            state.others += 1;
        }
    }
    for inode in state.inodes.values_mut() {
        inode.names.sort();
        if inode.kind == FileType::Directory {
            inode.names.truncate(1);
        }
    }
    let mut lost: Vec<u64> = state
        .inodes
        .keys()
        .copied()
        .filter(|&ino| !reaches_root(state, ino))
        .collect();
    lost.sort_unstable();
    state.others += lost.len() as u64;
    state
        .inodes
        .retain(|ino, _| lost.binary_search(ino).is_err());
}

/// More directories than a path can have.
const DEEPEST: usize = 2048;

fn reaches_root(state: &State, ino: u64) -> bool {
    let mut at = ino;
    for _ in 0..DEEPEST {
        if at == ROOT {
            return true;
        }
        let Some((dir, _)) = state.inodes.get(&at).and_then(|i| i.names.first()) else {
            return false;
        };
        at = *dir;
    }
    false
}

/// One directory for every group, files in that of their inode (the thesis, 3.2.2).
fn place(state: &mut State, groups: Groups) {
    let group = |ino: u64| ino.saturating_sub(1) / groups.inodes;
    let last = state
        .inodes
        .keys()
        .map(|&ino| group(ino))
        .max()
        .unwrap_or(0);
    for (ino, inode) in &mut state.inodes {
        let name = format!("i{ino}-{:x}", inode.ident);
        inode.names = vec![(Groups::directory(group(*ino)), name.into_bytes().into())];
    }
    for group in 0..groups.count.max(last + 1) {
        let directory = Inode {
            ident: 0,
            kind: FileType::Directory,
            size: 0,
            data: 0,
            born_ns: 0,
            ctime_ns: 0,
            mtime_ns: 0,
            extents: Box::default(),
            names: vec![(ROOT, format!("cg{group:04}").into_bytes().into())],
            target: Box::default(),
        };
        state.inodes.insert(Groups::directory(group), directory);
    }
}

//! Whether the target's tree is the one that the trace leads to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use fsage_core::target::list_dir;
use fsage_core::{Errno, FileSystem, FileType, Op, OpKind};
use fsage_namespace::NodeKind;
use fsage_namespace::flags::{FALLOC_FL_KEEP_SIZE, RENAME_WHITEOUT};

use super::build::placed;
use super::model::Skip;
use super::place::{Placement, link_text};
use super::tree::ReplayTree;

/// Wrong names that are kept with their particulars; all are counted.
pub const WRONG_KEPT: usize = 20;

/// What is wrong with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The trace leads to it and it is not there.
    Missing,
    /// It is there and the trace does not lead to it.
    Unexpected,
    /// It is of another type: what was expected, what is there.
    Type(&'static str, &'static str),
    /// It is of another size: what was expected, what is there, bytes.
    Size(u64, u64),
    /// It is a symbolic link with another text.
    Target,
    /// It could not be looked at.
    Unreadable(Errno),
}

/// A name whose file is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Its name on the target.
    pub name: Vec<u8>,
    /// What is wrong.
    pub fault: Fault,
}

/// What a comparison of trees gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Names that were expected.
    pub names: u64,
    /// Names that are wrong.
    pub wrong: u64,
    /// The first of them in the order of their names.
    pub first: Vec<Wrong>,
}

struct Expected {
    kind: NodeKind,
    size: u64,
    target: Option<Box<[u8]>>,
}

/// Whether an operation changed names or sizes on the traced machine for which a target has no call, or none for all of it:
/// special files, what a rename leaves in a name's place, ranges that are cut out of files and put into them. Neither tree
/// that is compared has what it did.
pub fn is_in_no_tree(op: &Op, skip: Option<Skip>) -> bool {
    let (ok, without) = (op.result.is_ok(), skip == Some(Skip::NoCall));
    match op.kind {
        OpKind::Rename => ok && skip.is_none() && op.flags & RENAME_WHITEOUT != 0,
        OpKind::Mknod => ok && without,
        OpKind::Fallocate => ok && without && op.flags & FALLOC_FL_KEEP_SIZE == 0,
        _ => false,
    }
}

/// Compares names, types, sizes and texts of links below the root of `fs` with `tree`; `None` once `stop`
/// is set.
pub fn verify(
    fs: &dyn FileSystem,
    tree: &ReplayTree,
    placement: &Placement,
    stop: &AtomicBool,
) -> Option<Verified> {
    let mut expected: BTreeMap<Vec<u8>, Expected> = BTreeMap::new();
    // Nothing here fails: the closure never does.
    let _ = placed(tree, placement, &mut |placed| {
        let text = placed.node.and_then(|n| tree.target(n));
        let entry = Expected {
            kind: placed.node.map_or(NodeKind::Directory, |n| tree.kind(n)),
            size: placed.node.map_or(0, |n| tree.size(n)),
            target: text.map(|text| link_text(Some(placement), &placed.name, text)),
        };
        expected.insert(placed.name, entry);
        Ok(())
    });
    let mut found = Verified {
        names: expected.len() as u64,
        ..Verified::default()
    };
    let mut wrong: Vec<Wrong> = Vec::new();
    let mut note = |name: Vec<u8>, fault| {
        found.wrong += 1;
        if wrong.len() < WRONG_KEPT * 64 {
            wrong.push(Wrong { name, fault });
        }
    };
    let mut pending: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(dir) = pending.pop() {
        let names = match list(fs, &dir) {
            Ok(names) => names,
            Err(errno) => {
                note(dir, Fault::Unreadable(errno));
                continue;
            }
        };
        for name in names {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let mut path = dir.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            let (file_type, fault) = look(fs, &path, expected.remove(&path));
            if let Some(fault) = fault {
                note(path.clone(), fault);
            }
            if file_type == Some(FileType::Directory) {
                pending.push(path);
            }
        }
    }
    for name in expected.into_keys() {
        note(name, Fault::Missing);
    }
    wrong.sort_by(|a, b| a.name.cmp(&b.name));
    wrong.truncate(WRONG_KEPT);
    found.first = wrong;
    Some(found)
}

fn list(fs: &dyn FileSystem, dir: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
    let entries = list_dir(fs, dir)?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

fn look(
    fs: &dyn FileSystem,
    path: &[u8],
    expected: Option<Expected>,
) -> (Option<FileType>, Option<Fault>) {
    let attr = match fs.lstat(path) {
        Ok(attr) => attr,
        Err(errno) => return (None, Some(Fault::Unreadable(errno))),
    };
    let found = Some(attr.file_type);
    let Some(expected) = expected else {
        return (found, Some(Fault::Unexpected));
    };
    let same = matches!(expected.kind, NodeKind::Unknown | NodeKind::Other)
        || expected.kind == attr.file_type.into();
    let fault = if !same {
        Some(Fault::Type(
            kind_name(expected.kind),
            kind_name(attr.file_type.into()),
        ))
    } else if expected.kind == NodeKind::Regular && attr.size_bytes != expected.size {
        Some(Fault::Size(expected.size, attr.size_bytes))
    } else if let Some(text) = expected.target
        && expected.kind == NodeKind::Symlink
    {
        match fs.readlink(path) {
            Ok(found) if found == *text => None,
            Ok(_) => Some(Fault::Target),
            Err(errno) => Some(Fault::Unreadable(errno)),
        }
    } else {
        None
    };
    (found, fault)
}

fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Regular => "file",
        NodeKind::Directory => "directory",
        NodeKind::Symlink => "symlink",
        NodeKind::Unknown | NodeKind::Other => "other",
    }
}

//! A workload carried out by the rules of names alone.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a test that cannot go on has failed; one rule for each kind of operation"
)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use fsage_age::made::{DAY_NS, Made, of_trace};
use fsage_core::{OpKind, OpSource};
use fsage_format::trace::TraceReader;

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thing {
    Directory,
    /// By number, so that two names can be one file.
    File(usize),
    Link(Vec<u8>),
}

/// What a workload leaves.
#[allow(dead_code, reason = "not every test looks at all of it")]
pub struct Left {
    pub names: BTreeMap<Vec<u8>, Thing>,
    pub sizes: HashMap<usize, u64>,
    pub made: Made,
}

/// Carries a trace out; every operation must be possible where it stands, and the sums those that the trace tells.
pub fn carried_out(path: &Path) -> Left {
    let mut reader = TraceReader::open(path).unwrap();
    let made = of_trace(reader.meta()).unwrap();
    let mut names: BTreeMap<Vec<u8>, Thing> = BTreeMap::new();
    let mut sizes: HashMap<usize, u64> = HashMap::new();
    let mut written_to: HashMap<usize, u64> = HashMap::new();
    let (mut batch, mut last_ns, mut open, mut files, mut written) = (Vec::new(), 0, 0, 0, 0);
    while reader.next_batch(&mut batch).unwrap() > 0 {
        for op in batch.drain(..) {
            assert!(op.start_ns >= last_ns && op.start_ns < u64::from(made.days) * DAY_NS);
            last_ns = op.start_ns;
            let name = |id: Option<_>| reader.paths().get(id.unwrap()).to_vec();
            let shown = op.path.map(|p| reader.paths().display(p).into_owned());
            let within = |names: &BTreeMap<Vec<u8>, Thing>, dir: &[u8]| {
                let from = [dir, b"/"].concat();
                let next = names.range(from.clone()..).next();
                next.is_some_and(|(n, _)| n.starts_with(&from))
            };
            let placeable = |names: &BTreeMap<Vec<u8>, Thing>, path: &[u8]| {
                let above = path.iter().rposition(|&b| b == b'/').map(|at| &path[..at]);
                above.is_none_or(|dir| names.get(dir) == Some(&Thing::Directory))
            };
            match op.kind {
                OpKind::Mkdir => {
                    let path = name(op.path);
                    assert!(placeable(&names, &path), "{shown:?}");
                    assert!(names.insert(path, Thing::Directory).is_none(), "{shown:?}");
                }
                OpKind::Symlink => {
                    let path = name(op.path);
                    assert!(placeable(&names, &path), "{shown:?}");
                    assert!(
                        names.insert(path, Thing::Link(name(op.path2))).is_none(),
                        "{shown:?}"
                    );
                }
                OpKind::Open => {
                    let path = name(op.path);
                    if op.flags & 0o100 != 0 {
                        assert!(placeable(&names, &path), "{shown:?}");
                        files += 1;
                        assert!(
                            names.insert(path.clone(), Thing::File(files)).is_none(),
                            "{shown:?}"
                        );
                        sizes.insert(files, 0);
                        written_to.insert(files, 0);
                    }
                    let Some(Thing::File(file)) = names.get(&path) else {
                        panic!("{shown:?} is no file")
                    };
                    open = *file;
                    if op.flags & 0o1000 != 0 {
                        sizes.insert(open, 0);
                        written_to.insert(open, 0);
                    }
                }
                OpKind::Write => {
                    let size = sizes.get_mut(&open).unwrap();
                    assert_eq!(*size, op.offset.unwrap());
                    *size += op.length.unwrap();
                    written_to.insert(open, *size);
                    written += op.length.unwrap();
                }
                OpKind::Truncate => {
                    let Some(Thing::File(file)) = names.get(&name(op.path)) else {
                        panic!("{shown:?}")
                    };
                    sizes.insert(*file, op.length.unwrap());
                }
                OpKind::Close | OpKind::Fsync | OpKind::Sync => {}
                OpKind::Unlink => {
                    let gone = names.remove(&name(op.path));
                    assert!(gone.is_some_and(|t| t != Thing::Directory), "{shown:?}");
                }
                OpKind::Rmdir => {
                    let path = name(op.path);
                    assert!(!within(&names, &path), "{shown:?} is not empty");
                    assert_eq!(names.remove(&path), Some(Thing::Directory), "{shown:?}");
                }
                OpKind::Link => {
                    let (from, to) = (names.get(&name(op.path)).cloned(), name(op.path2));
                    assert!(placeable(&names, &to), "{shown:?}");
                    assert!(names.insert(to, from.unwrap()).is_none(), "{shown:?}");
                }
                OpKind::Rename => {
                    let (from, to) = (name(op.path), name(op.path2));
                    assert!(
                        !to.starts_with(&[&from[..], b"/"].concat()),
                        "{shown:?} into itself"
                    );
                    let thing = names.remove(&from).unwrap_or_else(|| panic!("{shown:?}"));
                    assert!(placeable(&names, &to), "{shown:?}");
                    let below: Vec<Vec<u8>> = names
                        .range([&from[..], b"/"].concat()..)
                        .map(|(n, _)| n.clone())
                        .take_while(|n| n.starts_with(&[&from[..], b"/"].concat()))
                        .collect();
                    for old in below {
                        let moved = names.remove(&old).unwrap();
                        names.insert([&to[..], &old[from.len()..]].concat(), moved);
                    }
                    let over = names.insert(to, thing);
                    assert!(over.is_none_or(|t| t != Thing::Directory), "{shown:?}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(written, made.written_bytes);
    let mut there: Vec<usize> = names
        .values()
        .filter_map(|t| {
            if let Thing::File(f) = t {
                Some(*f)
            } else {
                None
            }
        })
        .collect();
    there.sort_unstable();
    there.dedup();
    let blocks: u64 = there
        .iter()
        .map(|f| written_to[f].div_ceil(4096) * 4096)
        .sum();
    let directories = names.values().filter(|t| **t == Thing::Directory).count() as u64;
    let taken = (blocks + directories * 4096) as f64;
    let expected = made.utilisation.last().unwrap() * made.size_bytes as f64;
    assert!(
        (taken - expected).abs() < 1e-5 * made.size_bytes as f64,
        "{taken} {expected}"
    );
    Left { names, sizes, made }
}

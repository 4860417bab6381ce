use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use fsage_core::{Op, OpKind, OpSource, PathTable};

use crate::stdio::{buffered_read, buffered_write};

use super::calls::{O_APPEND, O_CREAT, O_RDONLY, straight};
use super::pool::{File, Pool};
use super::*;
use crate::WorkloadSpec;

fn config(spec: &str) -> Config {
    match spec.parse().unwrap() {
        WorkloadSpec::Generated { values, .. } => Config::from_values(&values),
        WorkloadSpec::Command(_) => panic!("not a generator"),
    }
}

fn drain(source: &mut PostMark) -> Vec<Op> {
    let mut ops = Vec::new();
    while source.next_batch(&mut ops).unwrap() > 0 {}
    ops
}

#[test]
fn the_seed_decides_everything() {
    let make = |seed: u64| {
        let mut source = PostMark::new(&config(&format!("postmark:subdirs=5,seed={seed}")));
        let ops = drain(&mut source);
        let names: Vec<Vec<u8>> = ops
            .iter()
            .filter_map(|o| o.path)
            .map(|p| source.paths().get(p).to_vec())
            .collect();
        (ops, names)
    };
    assert_eq!(make(1), make(1));
    assert_ne!(make(1).1, make(2).1);
}

#[test]
fn buffered_transfers_are_the_c_librarys() {
    let mut ops = Vec::new();
    buffered_write(10_000, 512, 4096, |offset, length| {
        ops.push((offset, length));
    });
    assert_eq!(ops, [(0, 4096), (4096, 4096), (8192, 1808)]);
    ops.clear();
    buffered_write(8192, 512, 4096, |offset, length| ops.push((offset, length)));
    assert_eq!(ops, [(0, 4096), (4096, 4096)]);
    ops.clear();
    buffered_write(20_000, 10_000, 4096, |offset, length| {
        ops.push((offset, length));
    });
    assert_eq!(
        ops,
        [(0, 8192), (8192, 4096), (12_288, 4096), (16_384, 3616)]
    );
    let mut reads = Vec::new();
    buffered_read(10_000, 512, 4096, |offset, asked, got| {
        reads.push((offset, asked, got));
    });
    assert_eq!(
        reads,
        [(0, 4096, 4096), (4096, 4096, 4096), (8192, 4096, 1808)]
    );
}

#[test]
fn without_a_buffer_an_empty_request_ends_each_whole_file() {
    let mut requests = Vec::new();
    straight(1024, 512, |offset, length| requests.push((offset, length)));
    assert_eq!(requests, [(0, 512), (512, 512), (1024, 0)]);
}

/// PostMark's own table search, as an oracle for the pool.
struct Table {
    sizes: Vec<u64>,
    next: usize,
}

impl Table {
    fn find_free(&mut self) -> Option<usize> {
        if self.next < self.sizes.len() && self.sizes[self.next] == 0 {
            return Some(self.next);
        }
        (0..self.sizes.len()).find(|&i| self.sizes[i] == 0)
    }
}

proptest! {
    #[test]
    fn slots_are_filled_in_postmarks_order(limit in 1_u64..12, steps in prop::collection::vec((any::<bool>(), 0_usize..12), 0..200)) {
        let mut pool = Pool::new(limit);
        let mut table = Table { sizes: vec![0; limit as usize], next: 0 };
        let path = PathTable::new().intern(b"x").unwrap();
        for (create, pick) in steps {
            if create {
                let (mine, theirs) = (pool.free_slot(), table.find_free());
                prop_assert_eq!(mine, theirs.map(|i| i as u64));
                if let Some(slot) = theirs {
                    pool.insert(slot as u64, File { path, size_bytes: 1 });
                    table.sizes[slot] = 1;
                    table.next = slot + 1;
                }
            } else {
                let slot = pick % limit as usize;
                let there = std::mem::take(&mut table.sizes[slot]) == 1;
                prop_assert_eq!(pool.remove(slot as u64).is_some(), there);
            }
            prop_assert_eq!(pool.is_empty(), table.sizes.iter().all(|&s| s == 0));
        }
    }

    #[test]
    fn every_stream_is_a_valid_history(
        files in 1_u64..40,
        transactions in 0_u64..200,
        low in 1_u64..6000,
        spread in 0_u64..9000,
        subdirs in 0_u64..5,
        (read, write) in (1_u64..9000, 1_u64..9000),
        (bias_read, bias_create) in (-1_i64..=10, -1_i64..=10),
        buffering: bool,
        seed: u64,
    ) {
        let config = Config {
            files, transactions, size_low_bytes: low, size_high_bytes: low + spread, subdirs,
            read_bytes: read, write_bytes: write, bias_read, bias_create,
            buffer_bytes: buffering.then_some(4096), threads: 1, seed: Seed(seed),
        };
        let mut source = PostMark::new(&config);
        let ops = drain(&mut source);
        check_history(&ops, source.paths(), &source.tally(), &config);
    }
}

/// Replays the stream on a map of names to sizes and checks each result that it claims.
fn check_history(ops: &[Op], paths: &PathTable, tally: &Tally, config: &Config) {
    let mut files: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut directories: BTreeSet<&[u8]> = BTreeSet::new();
    let mut open: Option<(&[u8], u64, u32)> = None;
    let mut counted = Tally {
        transactions: tally.transactions,
        ..Tally::default()
    };
    for op in ops {
        let path = op.path.map(|p| paths.get(p));
        match op.kind {
            OpKind::Mkdir => assert!(directories.insert(path.unwrap())),
            OpKind::Rmdir => assert!(directories.remove(path.unwrap())),
            OpKind::Open => {
                let path = path.unwrap();
                assert!(open.is_none());
                let is_new = !files.contains_key(path);
                if op.flags & O_CREAT != 0 && is_new {
                    assert_eq!(op.flags & O_APPEND, 0);
                    files.insert(path, 0);
                    counted.created += 1;
                } else if op.flags & O_APPEND != 0 {
                    counted.appended += 1;
                } else {
                    assert_eq!(op.flags, O_RDONLY);
                    counted.read += 1;
                }
                assert_eq!(op.size_bytes, files.get(path).copied());
                if let Some(slash) = path.iter().position(|&b| b == b'/') {
                    assert!(directories.contains(&path[..slash]));
                }
                open = Some((path, 0, op.flags));
            }
            OpKind::Close => assert!(open.take().is_some()),
            OpKind::Unlink => {
                assert!(files.remove(path.unwrap()).is_some());
                counted.deleted += 1;
            }
            OpKind::Read | OpKind::Write | OpKind::Seek => {
                let (path, position, flags) = open.as_mut().unwrap();
                let size = files.get_mut(path).unwrap();
                let value = op.result.value().unwrap();
                if op.kind == OpKind::Seek {
                    *position = *size;
                    assert_eq!(value, *size);
                } else if op.kind == OpKind::Read {
                    assert_eq!(value, op.length.unwrap().min(*size - *position));
                    assert_eq!(op.offset, Some(*position));
                    *position += value;
                    counted.bytes_read += value;
                } else {
                    if *flags & O_APPEND != 0 {
                        *position = *size;
                    }
                    assert_eq!(op.offset, Some(*position));
                    *position += value;
                    *size = *position;
                    counted.bytes_written += value;
                    assert!(*size <= config.size_high_bytes);
                }
            }
            OpKind::Fstat => assert!(open.is_some()),
            other => panic!("{other:?} in a PostMark stream"),
        }
    }
    counted.deleted_alone = tally.deleted_alone;
    assert_eq!(counted, *tally);
    assert!(files.is_empty() && directories.is_empty() && open.is_none());
}

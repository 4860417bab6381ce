//! What the tests of this crate share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "shared by tests, each of which uses a part"
)]

use std::path::Path;

use fsage_core::{
    After, DevId, Fd, FileId, FileType, Op, OpFlags, OpKind, OpSink, OpSource, Outcome, PathId,
    PathTable, Pause, Pid, Tid,
};
use fsage_format::snapshot::{
    Extent, SnapshotEnd, SnapshotEntry, SnapshotMeta, SnapshotReader, SnapshotWriter,
};
use fsage_format::trace::{TraceEnd, TraceMeta, TraceReader, TraceWriter};

/// A pseudo-random sequence that is the same every time.
pub struct Sequence(pub u64);

impl Sequence {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let x = self.0 ^ (self.0 >> 29);
        x.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 32)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// `count` operations with every field taking every kind of value, some of them extreme.
pub fn operations(count: usize, seed: u64) -> (PathTable, Vec<Op>) {
    let mut random = Sequence(seed);
    let mut paths = PathTable::new();
    let names: Vec<PathId> = [
        &b"/a"[..],
        b"",
        b"caf\xc3\xa9",
        b"bad\xff\xfe",
        b"back\\x41",
        b"new\nline",
    ]
    .iter()
    .map(|n| paths.intern(n).unwrap())
    .collect();
    let mut ops: Vec<Op> = (0..count)
        .map(|i| operation(&mut random, i, &names))
        .collect();
    // Versions before 4 hold the same operations without these.
    for op in &mut ops {
        let mut ns = || {
            let by = random.below(64);
            random.next() >> by
        };
        op.pause = Pause {
            ready_ns: ns() & ns(),
            asleep_ns: ns(),
            waited_ns: ns(),
            after: (ns() & 1 == 0).then(|| After {
                tid: Tid(ns() as u32),
                ops: ns() as u32,
                lag_ns: ns(),
                rest_ns: ns(),
            }),
            ..Pause::default()
        };
        // Version 4 holds the same without this, version 5 without what follows.
        op.pause.queued_ns = op.pause.asleep_ns / 2;
        op.pause.blocked_ns = op.pause.asleep_ns / 3;
        op.pause.sleeps = (op.pause.asleep_ns % 5) as u32;
    }
    (paths, ops)
}

fn operation(random: &mut Sequence, index: usize, names: &[PathId]) -> Op {
    let extreme = |random: &mut Sequence| match random.below(8) {
        0 => u64::MAX,
        1 => 0,
        2 => u64::from(u32::MAX),
        3 => random.next(),
        _ => random.next() % 100_000,
    };
    let maybe = |random: &mut Sequence| (random.below(3) > 0).then(|| extreme(random));
    let mut op = Op::new(OpKind::Read, Pid(0), Tid(0), 0);
    op.kind = OpKind::ALL[random.below(OpKind::ALL.len())];
    op.start_ns = if random.below(1000) == 0 {
        random.next()
    } else {
        index as u64 * 1000
    };
    op.record = OpFlags(random.next() as u16);
    op.latency_ns = maybe(random);
    op.pid = Pid(random.next() as u32);
    op.tid = Tid(random.below(3) as u32);
    op.result = Outcome::from_raw(random.next() as i64 >> random.below(64));
    op.fd = maybe(random).map(|v| Fd(v as i32));
    op.file = maybe(random).map(|v| FileId {
        dev: DevId(v),
        ino: !v,
        generation: v as u32,
    });
    let name = |random: &mut Sequence| names.get(random.below(names.len() + 2)).copied();
    op.path = name(random);
    op.path2 = name(random);
    op.dir = name(random);
    op.dir2 = name(random);
    op.offset = maybe(random);
    op.length = maybe(random);
    op.flags = random.next() as u32;
    op.size_bytes = maybe(random);
    op.pages_missed = maybe(random).map(|v| v as u32);
    op.pages_ahead = maybe(random).map(|v| v as u32);
    op
}

/// Writes a whole trace with a piece after every `per_piece` operations.
pub fn write_trace(path: &Path, paths: &PathTable, ops: &[Op], per_piece: usize) {
    let meta = TraceMeta {
        host: "here".to_owned(),
        ..TraceMeta::default()
    };
    let mut writer = TraceWriter::create(path, meta).unwrap();
    for (i, op) in ops.iter().enumerate() {
        writer.push(op, paths).unwrap();
        if (i + 1) % per_piece == 0 {
            writer.set_lost_so_far(7);
            writer.flush_piece().unwrap();
        }
    }
    let end = TraceEnd {
        operations_lost: 9,
        ..TraceEnd::default()
    };
    let size = writer.finish(end).unwrap();
    assert_eq!(size, std::fs::metadata(path).unwrap().len());
}

/// Everything that an open trace yields.
pub fn drain(reader: &mut TraceReader) -> Result<Vec<Op>, String> {
    let mut ops = Vec::new();
    loop {
        match reader.next_batch(&mut ops) {
            Ok(0) => return Ok(ops),
            Ok(_) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// The path ids of an operation replaced by their bytes, so that two tables can be compared.
pub fn named(op: &Op, paths: &PathTable) -> (Op, [Option<Vec<u8>>; 4]) {
    let mut plain = *op;
    (plain.path, plain.path2, plain.dir, plain.dir2) = (None, None, None, None);
    (
        plain,
        [op.path, op.path2, op.dir, op.dir2].map(|p| p.map(|p| paths.get(p).to_vec())),
    )
}

/// Asserts that two streams are the same, paths by their bytes.
pub fn assert_same(expected: (&PathTable, &[Op]), found: (&PathTable, &[Op])) {
    assert_eq!(expected.1.len(), found.1.len());
    for (a, b) in expected.1.iter().zip(found.1) {
        assert_eq!(named(a, expected.0), named(b, found.0));
    }
}

/// `count` entries with every field taking every kind of value.
pub fn entries(count: usize, seed: u64) -> Vec<SnapshotEntry> {
    let mut random = Sequence(seed);
    (0..count)
        .map(|i| SnapshotEntry {
            path: if i == 0 {
                Vec::new()
            } else {
                format!("d{}/f\u{e9}{i}", i % 7).into_bytes()
            },
            ino: random.next() >> random.below(64),
            generation: random.next() as u32,
            file_type: [
                FileType::Regular,
                FileType::Directory,
                FileType::Symlink,
                FileType::Other,
            ][random.below(4)],
            size_bytes: random.next() >> random.below(64),
            allocated_bytes: random.next() >> 30,
            links: random.below(4) as u32,
            link_target: (random.below(3) == 0).then(|| b"to\xff".to_vec()),
            mode: random.below(0o10000) as u32,
            uid: random.below(3) as u32,
            gid: random.next() as u32,
            atime_ns: random.next() as i64,
            mtime_ns: random.below(1 << 30) as i64,
            ctime_ns: -(random.below(1 << 30) as i64),
            btime_ns: (random.below(2) == 0).then(|| random.next() as i64),
            extents: (0..random.below(5))
                .map(|e| Extent {
                    logical_bytes: e as u64 * 4096,
                    physical_bytes: random.next(),
                    length_bytes: random.next() >> 40,
                    flags: random.next() as u32,
                })
                .collect(),
        })
        .collect()
}

/// Writes a whole snapshot.
pub fn write_snapshot(path: &Path, entries: &[SnapshotEntry]) {
    let meta = SnapshotMeta {
        root: "/mnt".to_owned(),
        dev: 1793,
        ..SnapshotMeta::default()
    };
    let mut writer = SnapshotWriter::create(path, meta).unwrap();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer
        .finish(SnapshotEnd {
            vanished: 3,
            ..SnapshotEnd::default()
        })
        .unwrap();
}

/// Everything that an open snapshot yields.
pub fn drain_snapshot(reader: &mut SnapshotReader) -> Result<Vec<SnapshotEntry>, String> {
    let mut out = Vec::new();
    loop {
        match reader.next_batch(&mut out) {
            Ok(0) => return Ok(out),
            Ok(_) => {}
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Makes a file as another Parquet writer would leave it: without the magic of trailers and seal.
pub fn unsealed(bytes: &mut [u8]) {
    for magic in [b"FSGPIECE", b"FSGSEALS"] {
        while let Some(at) = bytes.windows(8).position(|w| w == magic) {
            bytes[at] = b'X';
        }
    }
}

/// One damage of `bytes`: flipped bits, a cut, a repeated or removed part, extreme numbers.
pub fn mutate(bytes: &[u8], random: &mut Sequence) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(3) {
        // The last bytes of a Parquet file are its most fragile: aim there half of the time.
        let length = out.len();
        let recent = length.saturating_sub(random.below(2000));
        let at = if random.below(2) == 0 {
            random.below(length)
        } else {
            recent.min(length)
        };
        match random.below(6) {
            0 | 1 => {
                if let Some(byte) = out.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            2 => out.truncate(at),
            3 => {
                let end = (at + random.below(64)).min(length);
                out.drain(at.min(end)..end);
            }
            4 => {
                let from = random.below(length);
                let part = out[from..(from + random.below(200)).min(length)].to_vec();
                out.splice(at..at, part);
            }
            _ => {
                let extreme = [0u8, 0x7f, 0x80, 0xff][random.below(4)];
                let end = (at + random.below(10)).min(length);
                out[at.min(end)..end].fill(extreme);
            }
        }
    }
    out
}

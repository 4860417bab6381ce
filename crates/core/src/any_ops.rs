//! Streams of operations as no program makes them: for tests of everything that follows a trace.
//!
//! Kinds, names, descriptors, sizes and results are drawn without regard for each other: a directory
//! is renamed into itself, a file is written at the end of the address space, a child is its own
//! parent. Names are few, so that they collide; numbers are ordinary or extreme. The same bytes and seed
//! give the same stream.

use crate::{
    After, DevId, Errno, Fd, FileId, Op, OpFlags, OpKind, Outcome, PathId, PathTable, Pid, Tid,
    VecSource,
};

/// Where choices come from: given bytes first, then a sequence from the seed (Steele, Lea and Flood
/// 2014, `SplitMix64`).
#[derive(Debug, Clone)]
struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl Choices<'_> {
    fn next(&mut self) -> u64 {
        if let Some((head, rest)) = self.bytes.split_at_checked(2) {
            self.bytes = rest;
            return head.iter().fold(0, |sum, &b| sum << 8 | u64::from(b));
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T], otherwise: T) -> T {
        let at = self.below(all.len() as u64) as usize;
        all.get(at).copied().unwrap_or(otherwise)
    }
}

const NAMES: &[&str] = &["a", "b", "c", "d", "link", ".", "..", "a/b", "b/a", "c/d/e"];
const ROOTS: &[&str] = &["/w", "/w/a", "/w/a/b", "/w/b", "/w/c/d", "/", "/w/link"];
const ERRORS: &[Errno] = &[
    Errno::ENOENT,
    Errno::EEXIST,
    Errno::ENOTDIR,
    Errno::EISDIR,
    Errno::ENOTEMPTY,
    Errno::EBADF,
    Errno::ELOOP,
    Errno::ENOSPC,
    Errno::EINTR,
];

/// Sizes and offsets: whole pages and parts of them, and what arithmetic breaks at.
const SIZES: &[u64] = &[
    0,
    1,
    511,
    4096,
    4097,
    65_536,
    1 << 20,
    (1 << 31) - 4096,
    1 << 32,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Flags that change what an open, a rename or a mapping means; the rest is drawn.
const FLAGS: &[u32] = &[
    0,
    1,
    2,
    0o100,
    0o101,
    0o301,
    0o1101,
    0o2001,
    0o200_000,
    0o400_000,
    0o2_000_000,
    0o20_200_002,
    0x100,
    0x1_0f00,
    0x103,
    0x203,
    u32::MAX,
];

struct Maker<'a> {
    choices: Choices<'a>,
    paths: PathTable,
    now_ns: u64,
    most_bytes: u64,
}

impl Maker<'_> {
    fn size(&mut self) -> u64 {
        let size = if self.choices.one_in(3) {
            self.choices.of(SIZES, 0)
        } else {
            self.choices.below(100_000)
        };
        size.min(self.most_bytes)
    }

    fn path(&mut self) -> Option<PathId> {
        let choices = &mut self.choices;
        let mut text = String::new();
        if !choices.one_in(4) {
            text.push_str(choices.of(ROOTS, "/w"));
            text.push('/');
        }
        match choices.below(60) {
            0 => text.push_str(&"a/".repeat(choices.below(3000) as usize)),
            1 => text.push_str(&"n".repeat(choices.below(300) as usize)),
            2 => text = format!("/w/{}", choices.below(100_000)),
            3 => text.push_str("\u{1b}[31m\n\t\u{7f}"),
            4 => text.clear(),
            _ => {
                for _ in 0..=choices.below(3) {
                    text.push_str(choices.of(NAMES, "a"));
                    text.push('/');
                }
            }
        }
        if !choices.one_in(8) && text.len() > 1 {
            text.pop();
        }
        self.paths.intern(text.as_bytes())
    }

    fn some_path(&mut self, missing_in: u64) -> Option<PathId> {
        if self.choices.one_in(missing_in) {
            return None;
        }
        self.path()
    }

    fn result(&mut self, kind: OpKind) -> Outcome {
        if self.choices.one_in(4) {
            return Outcome::err(self.choices.of(ERRORS, Errno::ENOENT));
        }
        let small = matches!(kind, OpKind::Open | OpKind::Dup | OpKind::Fork);
        Outcome::ok(match kind {
            _ if small && !self.choices.one_in(20) => self.choices.below(12),
            OpKind::Read | OpKind::Write | OpKind::Seek | OpKind::Readdir => self.size(),
            _ if self.choices.one_in(10) => self.size(),
            _ => 0,
        })
    }

    fn operation(&mut self) -> Op {
        let choices = &mut self.choices;
        // Names are what a tree breaks at: half of the operations change some.
        let kind = if choices.one_in(2) {
            let names = [
                OpKind::Rename,
                OpKind::Link,
                OpKind::Mkdir,
                OpKind::Symlink,
                OpKind::Open,
                OpKind::Rmdir,
                OpKind::Unlink,
                OpKind::Chdir,
                OpKind::Fork,
            ];
            choices.of(&names, OpKind::Rename)
        } else {
            choices.of(OpKind::ALL, OpKind::Read)
        };
        let pid = Pid(choices.below(5) as u32);
        let tid = Tid(if choices.one_in(6) {
            choices.below(5) as u32
        } else {
            pid.0
        });
        self.now_ns = self.now_ns.saturating_add(match choices.below(50) {
            0 => choices.next(),
            _ => choices.below(20_000),
        });
        let mut op = Op::new(kind, pid, tid, self.now_ns);
        op.latency_ns = match self.choices.below(20) {
            0 => None,
            1 => Some(self.choices.next()),
            _ => Some(self.choices.below(50_000)),
        };
        op.result = self.result(kind);
        op.flags = if self.choices.one_in(10) {
            self.choices.next() as u32
        } else {
            self.choices.of(FLAGS, 0)
        };
        self.operands(&mut op);
        op
    }

    fn operands(&mut self, op: &mut Op) {
        let choices = &mut self.choices;
        let any_fd = if choices.one_in(20) {
            choices.of(&[-1, i32::MAX, i32::MIN, 1023, 1024], -1)
        } else {
            choices.below(12) as i32
        };
        op.fd = (!choices.one_in(5)).then_some(Fd(any_fd));
        op.file = choices.one_in(2).then(|| FileId {
            dev: DevId(choices.below(2)),
            ino: choices.below(8),
            generation: 0,
        });
        op.record = if choices.one_in(6) {
            OpFlags(1 << choices.below(8))
        } else {
            OpFlags::default()
        };
        op.path = self.some_path(10);
        op.path2 = self.some_path(3);
        op.dir = self.some_path(3);
        op.dir2 = self.some_path(3);
        op.offset = self.choices.one_in(2).then(|| self.size());
        op.length = (!self.choices.one_in(5)).then(|| self.size());
        if matches!(op.kind, OpKind::Fork | OpKind::Exit) {
            op.length = Some(self.choices.below(6));
        }
        op.size_bytes = self.choices.one_in(3).then(|| self.size());
        op.pages_missed = self.choices.one_in(8).then(|| self.choices.next() as u32);
        op.pages_ahead = self.choices.one_in(8).then(|| self.choices.next() as u32);
        if self.choices.one_in(4) {
            op.record |= OpFlags::WAITS;
            op.pause.asleep_ns = self.choices.below(1_000_000);
            op.pause.waited_ns = self.choices.below(1_000_000);
            op.pause.after = self.choices.one_in(2).then(|| After {
                tid: Tid(self.choices.below(6) as u32),
                ops: self.choices.below(60) as u32,
                lag_ns: self.choices.below(1_000_000),
                rest_ns: self.choices.below(1_000_000),
            });
        }
    }
}

/// So many operations from `bytes` and, once those are used up, from `seed`; sizes and offsets of at
/// most `most_bytes`.
pub fn any_ops(bytes: &[u8], seed: u64, operations: usize, most_bytes: u64) -> VecSource {
    let mut maker = Maker {
        choices: Choices { bytes, state: seed },
        paths: PathTable::new(),
        now_ns: 0,
        most_bytes,
    };
    let ops = (0..operations).map(|_| maker.operation()).collect();
    VecSource::new(maker.paths, ops)
}

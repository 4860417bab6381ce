//! Answered operations on their way from a stream to the thread that takes them.
//!
//! What a stream writes was last read by another processor, so that each cache line of it costs: an operation
//! takes less than half of its own size here, and what streams rarely tell stands apart.

use fsage_core::{Fd, FileId, Op, OpFlags, OpKind, Outcome, PathId, Pause, Pid, Tid};

/// What was measured of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub start_ns: u64,
    pub latency_ns: Option<u64>,
    pub result: Outcome,
    pub record: OpFlags,
}

/// Operations, each as its stream gave it and with what was measured.
#[derive(Debug, Default)]
pub(crate) struct PackedOps {
    ops: Vec<Packed>,
    rare: Vec<Rare>,
}

/// Which of the numbers of a [`Packed`] are known.
mod known {
    pub const LATENCY: u8 = 1;
    pub const FD: u8 = 2;
    pub const OFFSET: u8 = 4;
    pub const LENGTH: u8 = 8;
    pub const SIZE: u8 = 16;
    /// The next [`super::Rare`] belongs to it.
    pub const RARE: u8 = 32;
}

#[derive(Debug)]
struct Packed {
    start_ns: u64,
    latency_ns: u64,
    result: Outcome,
    offset: u64,
    length: u64,
    size_bytes: u64,
    pid: Pid,
    tid: Tid,
    fd: Fd,
    flags: u32,
    path: Option<PathId>,
    path2: Option<PathId>,
    dir: Option<PathId>,
    dir2: Option<PathId>,
    record: OpFlags,
    kind: OpKind,
    known: u8,
}

#[derive(Debug, Clone, Copy, Default)]
struct Rare {
    file: Option<FileId>,
    pages_missed: Option<u32>,
    pages_ahead: Option<u32>,
    pause: Pause,
}

impl PackedOps {
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub fn clear(&mut self) {
        self.ops.clear();
        self.rare.clear();
    }

    /// When the first of them started.
    pub fn first_ns(&self) -> Option<u64> {
        self.ops.first().map(|op| op.start_ns)
    }

    #[inline]
    pub fn push(&mut self, op: &Op, answered: &Answered) {
        let is_rare = op.file.is_some()
            || op.pages_missed.is_some()
            || op.pages_ahead.is_some()
            || op.pause != Pause::default();
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        self.ops.push(Packed {
            start_ns: answered.start_ns,
            latency_ns: answered.latency_ns.unwrap_or(0),
            result: answered.result,
            offset: op.offset.unwrap_or(0),
            length: op.length.unwrap_or(0),
            size_bytes: op.size_bytes.unwrap_or(0),
            pid: op.pid,
            tid: op.tid,
            fd: op.fd.unwrap_or(Fd(0)),
            flags: op.flags,
            path: op.path,
            path2: op.path2,
            dir: op.dir,
            dir2: op.dir2,
            record: answered.record,
            kind: op.kind,
            known: flag(answered.latency_ns.is_some(), known::LATENCY)
                | flag(op.fd.is_some(), known::FD)
                | flag(op.offset.is_some(), known::OFFSET)
                | flag(op.length.is_some(), known::LENGTH)
                | flag(op.size_bytes.is_some(), known::SIZE)
                | flag(is_rare, known::RARE),
        });
        if is_rare {
            self.rare.push(Rare {
                file: op.file,
                pages_missed: op.pages_missed,
                pages_ahead: op.pages_ahead,
                pause: op.pause,
            });
        }
    }

    /// The operations as they were, with what was measured.
    pub fn iter(&self) -> impl Iterator<Item = Op> {
        let mut rare = self.rare.iter();
        self.ops.iter().map(move |packed| {
            let is = |flag: u8| packed.known & flag != 0;
            let rare = is(known::RARE).then(|| rare.next().copied()).flatten();
            let rare = rare.unwrap_or_default();
            Op {
                kind: packed.kind,
                record: packed.record,
                start_ns: packed.start_ns,
                latency_ns: is(known::LATENCY).then_some(packed.latency_ns),
                pid: packed.pid,
                tid: packed.tid,
                result: packed.result,
                fd: is(known::FD).then_some(packed.fd),
                file: rare.file,
                path: packed.path,
                path2: packed.path2,
                dir: packed.dir,
                dir2: packed.dir2,
                offset: is(known::OFFSET).then_some(packed.offset),
                length: is(known::LENGTH).then_some(packed.length),
                flags: packed.flags,
                size_bytes: is(known::SIZE).then_some(packed.size_bytes),
                pages_missed: rare.pages_missed,
                pages_ahead: rare.pages_ahead,
                pause: rare.pause,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use fsage_core::{After, DevId};

    use super::*;

    /// Each field known and not known in turn, so that a rare one meets its own operation.
    #[test]
    fn operations_come_out_as_they_went_in() {
        let path = PathId::from_index(7);
        let whole = Op {
            record: OpFlags::DEVICE,
            latency_ns: Some(4),
            result: Outcome::ok(11),
            fd: Some(Fd(-1)),
            file: Some(FileId {
                dev: DevId(1),
                ino: 2,
                generation: 3,
            }),
            path,
            path2: PathId::from_index(8),
            dir: PathId::from_index(9),
            dir2: PathId::from_index(10),
            offset: Some(0),
            length: Some(u64::MAX),
            flags: 6,
            size_bytes: Some(12),
            pages_missed: Some(0),
            pages_ahead: Some(5),
            pause: Pause {
                ready_ns: 1,
                after: Some(After {
                    tid: Tid(1),
                    ops: 2,
                    lag_ns: 3,
                    rest_ns: 4,
                }),
                ..Pause::default()
            },
            ..Op::new(OpKind::Rename, Pid(1), Tid(2), 3)
        };
        let bare = Op::new(OpKind::Close, Pid(5), Tid(6), 9);
        let mut ops = vec![whole, bare, whole];
        for clear in [
            |op: &mut Op| op.latency_ns = None,
            |op: &mut Op| op.fd = None,
            |op: &mut Op| op.file = None,
            |op: &mut Op| op.path = None,
            |op: &mut Op| op.path2 = None,
            |op: &mut Op| op.dir = None,
            |op: &mut Op| op.dir2 = None,
            |op: &mut Op| op.offset = None,
            |op: &mut Op| op.length = None,
            |op: &mut Op| op.size_bytes = None,
            |op: &mut Op| op.pages_missed = None,
            |op: &mut Op| op.pages_ahead = None,
            |op: &mut Op| op.pause = Pause::default(),
        ] {
            let mut op = whole;
            clear(&mut op);
            ops.push(op);
            ops.push(bare);
        }
        let mut packed = PackedOps::default();
        for op in &ops {
            let answered = Answered {
                start_ns: op.start_ns,
                latency_ns: op.latency_ns,
                result: op.result,
                record: op.record,
            };
            packed.push(op, &answered);
        }
        assert_eq!(packed.iter().collect::<Vec<_>>(), ops);
        assert_eq!(packed.first_ns(), Some(3));
        assert_eq!(size_of::<Packed>(), 88);
        packed.clear();
        assert!(packed.is_empty() && packed.iter().next().is_none());
    }
}

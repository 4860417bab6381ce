//! What a replay measured, as operations of the target: the calls that were made, by the names that
//! they had there.

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathId, PathTable};
use fsage_namespace::flags::AT_EMPTY_PATH;

use super::call::{Call, Slot};
use crate::measured::{Door, Lane};
use crate::timer::Called;

/// Names that are held before the table begins anew.
const NAMES_BYTES: usize = 1 << 20;

/// What a record of the trace says of the operation itself, not of how it was captured.
const OF_THE_CALL: u16 =
    OpFlags::IMPLICIT_OFFSET.0 | OpFlags::DIRECT.0 | OpFlags::APPEND.0 | OpFlags::DIRECTORY.0;

/// Tells what one thread measured.
pub struct Recorder<'d> {
    lane: Lane<'d>,
    names: PathTable,
}

impl<'d> Recorder<'d> {
    pub fn new(door: &'d Door) -> Self {
        Self {
            lane: Lane::new(door),
            names: PathTable::new(),
        }
    }

    /// Hands over what there is: the thread rests.
    pub fn rests(&mut self) {
        self.lane.hand_over();
    }

    /// A call. `false` once nobody takes it any more.
    pub fn ran(&mut self, op: &Op, call: &Call, called: &Called) -> bool {
        let op = self.made(op, call);
        self.lane.ran(&op, &self.names, called)
    }

    /// An open that no operation of the trace asked for, or what needs no call, at that time.
    pub fn free(&mut self, op: &Op, opened: Option<(&[u8], &Slot)>, at_ns: u64) -> bool {
        let mut reported = bare(op);
        match (opened, op.kind) {
            (Some((name, slot)), _) => {
                (reported.kind, reported.flags) = (OpKind::Open, 2);
                reported.fd = None;
                reported.path = self.name(name);
                reported.result = opens(slot);
            }
            (None, OpKind::Fork | OpKind::Exit) => {}
            // Descriptors are told by their files: those of the trace say nothing here.
            (None, _) => return true,
        }
        self.lane.free(&reported, &self.names, at_ns)
    }

    /// The operation that the call was.
    fn made(&mut self, op: &Op, call: &Call) -> Op {
        let mut made = bare(op);
        match call {
            Call::None => {}
            Call::Name(name) => {
                made.kind = named_as(op.kind);
                if made.kind != op.kind {
                    made.flags = 0;
                }
                made.fd = None;
                made.path = self.name(name);
            }
            Call::Attribute(name) => {
                made.kind = match op.kind {
                    OpKind::Fchmod => OpKind::Chmod,
                    OpKind::Fchown => OpKind::Chown,
                    OpKind::Futimens => OpKind::Utimens,
                    kind => kind,
                };
                made.fd = None;
                made.path = self.name(name);
            }
            Call::Names(one, two) => {
                made.fd = None;
                (made.path, made.path2) = (self.name(one), self.name(two));
            }
            Call::Open(name, slot) => {
                made.fd = None;
                made.path = self.name(name);
                if let Some(slot) = slot {
                    made.result = opens(slot);
                }
            }
            Call::Unnamed(dir, slot) => {
                made.fd = None;
                made.path = self.name(dir);
                made.result = opens(slot);
            }
            Call::LinkOpen(slot, name) => {
                (made.fd, made.flags) = (Some(slot.fd()), AT_EMPTY_PATH);
                made.path2 = self.name(name);
            }
            Call::File(slot) => {
                made.kind = on_file_as(op.kind);
                made.fd = Some(slot.fd());
            }
            Call::Close(slot) => made.fd = Some(slot.fd()),
            Call::Touch { slot, write } => {
                (made.kind, made.flags) = (OpKind::Fault, u32::from(*write));
                made.fd = Some(slot.fd());
            }
        }
        made
    }

    fn name(&mut self, name: &[u8]) -> Option<PathId> {
        if self.names.text_bytes() > NAMES_BYTES {
            self.names.take();
        }
        self.names.intern(name)
    }
}

fn opens(slot: &Slot) -> Outcome {
    let Fd(fd) = slot.fd();
    Outcome::ok(fd.unsigned_abs().into())
}

/// Without what is true only where it was traced.
fn bare(op: &Op) -> Op {
    Op {
        record: OpFlags(op.record.0 & OF_THE_CALL),
        flags: op.flags,
        offset: op.offset,
        length: op.length,
        result: op.result,
        fd: op.fd,
        ..Op::new(op.kind, op.pid, op.tid, 0)
    }
}

/// What stands for a call on a name: what targets do not know looks the name up.
fn named_as(kind: OpKind) -> OpKind {
    match kind {
        OpKind::Access
        | OpKind::Unlink
        | OpKind::Mkdir
        | OpKind::Rmdir
        | OpKind::Readlink
        | OpKind::Truncate
        | OpKind::Chmod
        | OpKind::Chown
        | OpKind::Utimens
        | OpKind::Statfs
        | OpKind::Sync
        | OpKind::Syncfs
        | OpKind::Mknod => kind,
        OpKind::Fstatfs => OpKind::Statfs,
        _ => OpKind::Stat,
    }
}

/// What stands for a call on an open file.
fn on_file_as(kind: OpKind) -> OpKind {
    match kind {
        OpKind::CopyIn | OpKind::Sendfile | OpKind::SpliceIn => OpKind::Read,
        OpKind::CopyOut | OpKind::SpliceOut => OpKind::Write,
        OpKind::Msync => OpKind::Fdatasync,
        OpKind::Read
        | OpKind::Write
        | OpKind::Seek
        | OpKind::Ftruncate
        | OpKind::Fallocate
        | OpKind::Readdir
        | OpKind::Fsync
        | OpKind::Fdatasync
        | OpKind::SyncFileRange => kind,
        _ => OpKind::Fstat,
    }
}

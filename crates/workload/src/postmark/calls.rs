//! The calls that PostMark makes, and what the C library makes of its reads and writes.

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathId, Pid, Tid};
use fsage_namespace::flags::SEEK_END;

pub use crate::ops::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

/// One file is open at a time, on the lowest free descriptor.
const FD: Fd = Fd(3);

pub fn op(kind: OpKind) -> Op {
    Op::new(kind, Pid(1), Tid(1), 0)
}

pub fn on_fd(kind: OpKind) -> Op {
    let mut op = op(kind);
    op.fd = Some(FD);
    op
}

pub fn open(path: PathId, flags: u32, size_bytes: u64, out: &mut Vec<Op>) {
    let mut open = op(OpKind::Open);
    open.path = Some(path);
    open.flags = flags;
    open.size_bytes = Some(size_bytes);
    open.result = Outcome::ok(FD.0 as u64);
    out.push(open);
}

pub fn close() -> Op {
    on_fd(OpKind::Close)
}

/// A transfer at the file's position.
pub fn data(kind: OpKind, offset: u64, length: u64, got: u64, size: u64, record: OpFlags) -> Op {
    let mut op = on_fd(kind);
    op.offset = Some(offset);
    op.length = Some(length);
    op.result = Outcome::ok(got);
    op.size_bytes = Some(size);
    op.record = record | OpFlags::IMPLICIT_OFFSET;
    op
}

/// Requests of whole blocks and then one of what remains, which may be nothing: PostMark issues it
/// all the same.
pub fn straight(length: u64, block: u64, mut request: impl FnMut(u64, u64)) {
    for i in 0..length / block {
        request(i * block, block);
    }
    request(length / block * block, length % block);
}

/// What `fopen(…, "a")` does at once: it goes to the end.
pub fn seek_end(size_bytes: u64) -> Op {
    let mut seek = on_fd(OpKind::Seek);
    seek.offset = Some(0);
    seek.flags = SEEK_END;
    seek.result = Outcome::ok(size_bytes);
    seek.size_bytes = Some(size_bytes);
    seek
}

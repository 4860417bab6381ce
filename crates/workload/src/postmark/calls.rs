//! The calls that PostMark makes, and what the C library makes of its reads and writes.

use fsage_core::{Fd, Op, OpFlags, OpKind, Outcome, PathId, Pid, Tid};

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_CREAT: u32 = 0o100;
pub const O_TRUNC: u32 = 0o1000;
pub const O_APPEND: u32 = 0o2000;
const SEEK_END: u32 = 2;

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

/// What the C library makes of `fwrite` calls of `block` bytes: the buffer is filled and written
/// when more comes; what is at least a buffer long goes straight through in whole buffers.
pub fn buffered_write(length: u64, block: u64, buffer: u64, mut request: impl FnMut(u64, u64)) {
    let (mut written, mut held, mut left) = (0, 0, length);
    let mut issue = |written: &mut u64, bytes: u64| {
        request(*written, bytes);
        *written += bytes;
    };
    while left > 0 {
        let mut put = block.min(left);
        left -= put;
        if held + put > buffer || (held == 0 && put >= buffer) {
            if held > 0 {
                put -= buffer - held;
                issue(&mut written, buffer);
                held = 0;
            }
            let through = put - put % buffer;
            if through > 0 {
                issue(&mut written, through);
            }
            put -= through;
        }
        held += put;
    }
    if held > 0 {
        issue(&mut written, held);
    }
}

/// What it makes of `fread` calls: `request(offset, asked, got)` for each read. A call that wants at
/// least a buffer reads whole buffers straight through.
pub fn buffered_read(length: u64, block: u64, buffer: u64, mut request: impl FnMut(u64, u64, u64)) {
    let (mut position, mut held, mut left) = (0, 0, length);
    while left > 0 {
        let mut want = block.min(left);
        left -= want;
        let taken = want.min(held);
        want -= taken;
        held -= taken;
        if want >= buffer {
            let through = want - want % buffer;
            request(position, through, through);
            position += through;
            want -= through;
        }
        if want > 0 {
            let got = buffer.min(length - position);
            request(position, buffer, got);
            position += got;
            held = got - want;
        }
    }
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

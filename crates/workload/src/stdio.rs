//! What the C library makes of a program's small reads and writes.

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

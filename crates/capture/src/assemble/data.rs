//! Calls that move data, and mappings.

use fsage_core::{
    COPY_SHARES, COPY_WHOLE_BLOCKS, FileId, Op, OpFlags, OpKind, Outcome, RWF_APPEND, RWF_NOAPPEND,
};
use fsage_namespace::Mapping;

use super::Assembler;
use crate::raw::{FIEMAP, RawCall, RawFile};

const PAGE: u64 = 4096;
/// `SYNC_FILE_RANGE_WRITE_AND_WAIT`.
const WRITE_AND_WAIT: u32 = 7;
/// What is written here drops caches.
const DROP_CACHES: &[u8] = b"/proc/sys/vm/drop_caches";

/// Where a data call acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// At the file's position.
    Position,
    /// At argument 3.
    Argument,
    /// The same, all ones mean the position; argument 5 are flags of this one call.
    Flagged,
}

impl Assembler {
    /// Whether the call was one of these.
    pub(super) fn data(&mut self, nr: libc::c_long, call: &RawCall) -> bool {
        use OpKind::{Read, Write};
        let length = call.args[2];
        let vector = call.extra[0];
        match nr {
            libc::SYS_read => self.transfer(Read, call, At::Position, length),
            libc::SYS_write => self.transfer(Write, call, At::Position, length),
            libc::SYS_pread64 => self.transfer(Read, call, At::Argument, length),
            libc::SYS_pwrite64 => self.transfer(Write, call, At::Argument, length),
            libc::SYS_readv => self.transfer(Read, call, At::Position, vector),
            libc::SYS_writev => self.transfer(Write, call, At::Position, vector),
            libc::SYS_preadv => self.transfer(Read, call, At::Argument, vector),
            libc::SYS_pwritev => self.transfer(Write, call, At::Argument, vector),
            libc::SYS_preadv2 => self.transfer(Read, call, At::Flagged, vector),
            libc::SYS_pwritev2 => self.transfer(Write, call, At::Flagged, vector),
            libc::SYS_copy_file_range => {
                let flags = whole_blocks(call, call.extra);
                self.copy(call, call.extra, call.args[4], flags);
            }
            libc::SYS_ioctl => self.share(call),
            libc::SYS_sendfile if is_regular(call.file2) => self.send_to_file(call),
            libc::SYS_sendfile => {
                let op = self.begin_fd(OpKind::Sendfile, call, call.args[1], call.file.as_ref());
                let mut op = placed(op, call.file.as_ref(), call.extra[0], call.args[3]);
                op.flags = u16::try_from(call.extra[1]).map_or(0, u32::from);
                self.emit(op);
            }
            libc::SYS_splice => self.splice(call),
            libc::SYS_mmap => self.mmap(call),
            libc::SYS_munmap => self.munmap(call),
            libc::SYS_mremap => self.mremap(call),
            libc::SYS_msync => self.msync(call),
            _ => return false,
        }
        true
    }

    fn transfer(&mut self, kind: OpKind, call: &RawCall, at: At, length: u64) {
        let mut op = self.begin_fd(kind, call, call.args[0], call.file.as_ref());
        op.length = Some(length);
        let explicit = at != At::Position && call.args[3] != u64::MAX;
        if at == At::Flagged {
            op.flags = call.args[5] as u32;
        }
        let appends = match op.flags {
            flags if flags & RWF_APPEND != 0 => true,
            flags if explicit && flags & RWF_NOAPPEND != 0 => false,
            _ => kind == OpKind::Write && op.record.contains(OpFlags::APPEND),
        };
        if appends {
            op.offset = op.size_bytes;
            // A file that was opened to append knows by itself where.
            if op.flags & RWF_APPEND == 0 {
                op.record |= OpFlags::IMPLICIT_OFFSET;
            }
        } else if explicit {
            if kind == OpKind::Write {
                op.record.0 &= !OpFlags::APPEND.0;
            }
            op.offset = Some(call.args[3]);
        } else {
            op.offset = call.file.map(|file| file.position);
            op.record |= OpFlags::IMPLICIT_OFFSET;
        }
        // Files of /proc are empty.
        if kind == OpKind::Write && call.result > 0 && op.size_bytes == Some(0) {
            let open = self.open_of(call.pid, call.args[0] as i32);
            if open.and_then(|open| open.path).as_deref() == Some(DROP_CACHES) {
                self.order.made_cold(op.end_ns());
            }
        }
        self.emit(op);
    }

    /// `FICLONE` and `FICLONERANGE`, as `copy_file_range` of as many bytes. One that a file system refuses copies nothing;
    /// whoever asked copies in another way.
    fn share(&mut self, call: &RawCall) {
        let [to, request, from, offset, length, offset_to] = call.args;
        if request as u32 == FIEMAP {
            return self.map_blocks(call);
        }
        if call.result != 0 {
            return;
        }
        let size = call.file.map_or(0, |file| file.size_bytes);
        let length = match length {
            0 => size.saturating_sub(offset),
            length => length,
        };
        let mut copy = call.clone();
        (copy.args[0], copy.args[2]) = (from, to);
        copy.result = i64::try_from(length).unwrap_or(i64::MAX);
        let offsets = [offset, offset_to];
        let flags = COPY_SHARES | whole_blocks(&copy, offsets);
        self.copy(&copy, offsets, length, flags);
    }

    /// `FIEMAP` that has the file's data written before, and waits for it.
    fn map_blocks(&mut self, call: &RawCall) {
        let file = call.file.as_ref();
        let mut op = self.begin_fd(OpKind::SyncFileRange, call, call.args[0], file);
        (op.offset, op.length, op.flags) = (Some(0), Some(0), WRITE_AND_WAIT);
        self.emit(op);
    }

    /// `sendfile` into a file, at its position: a copy that shares nothing.
    fn send_to_file(&mut self, call: &RawCall) {
        let mut copy = call.clone();
        (copy.args[0], copy.args[2]) = (call.args[1], call.args[0]);
        self.copy(&copy, [call.extra[0], u64::MAX], call.args[3], 0);
    }

    /// Each side is wanted or not by itself; the call's time is told once, with the first that is.
    fn copy(&mut self, call: &RawCall, offsets: [u64; 2], length: u64, flags: u32) {
        let sides = [
            (OpKind::CopyIn, call.args[0], call.file, offsets[0]),
            (OpKind::CopyOut, call.args[2], call.file2, offsets[1]),
        ];
        let mut latency_ns = Some(call.latency_ns);
        for (kind, fd, file, offset) in sides {
            (self.wanted, self.unknown) = (self.filter.takes_all(), false);
            let mut op = self.begin_fd(kind, call, fd, file.as_ref());
            if kind == OpKind::CopyOut {
                (op.pages_missed, op.pages_ahead) = (call.pages_missed.map(|_| 0), None);
            }
            if self.wanted {
                op.latency_ns = Some(latency_ns.take().unwrap_or(0));
            }
            op.flags = flags;
            self.emit(placed(op, file.as_ref(), offset, length));
        }
    }

    fn splice(&mut self, call: &RawCall) {
        let sides = [
            (OpKind::SpliceIn, call.args[0], call.file, call.extra[0]),
            (OpKind::SpliceOut, call.args[2], call.file2, call.extra[1]),
        ];
        for (kind, fd, file, offset) in sides {
            if is_regular(file) {
                let op = self.begin_fd(kind, call, fd, file.as_ref());
                self.emit(placed(op, file.as_ref(), offset, call.args[4]));
            }
        }
    }

    fn mmap(&mut self, call: &RawCall) {
        let [_, length, protection, flags, fd, offset] = call.args;
        if flags & libc::MAP_ANONYMOUS as u64 != 0 {
            return;
        }
        let mut op = self.begin_fd(OpKind::Mmap, call, fd, call.file.as_ref());
        op.offset = Some(offset);
        op.length = Some(length);
        op.flags = (protection as u32 & 0xff) | ((flags as u32) << 8);
        if let (Some(file), Some(address)) = (op.file, op.result.value()) {
            self.map(call.pid, address, length, offset, file);
        }
        self.emit(op);
    }

    fn munmap(&mut self, call: &RawCall) {
        let [address, length, ..] = call.args;
        if call.result == 0
            && let Some(piece) = self.unmap(call.pid, address, length)
        {
            let op = self.begin(OpKind::Munmap, call);
            self.mapped(op, piece);
        }
    }

    /// Only moves what is known; growing or shrinking a mapping is no operation of its own.
    fn mremap(&mut self, call: &RawCall) {
        let [old, old_length, new_length, ..] = call.args;
        if let Ok(new) = u64::try_from(call.result)
            && let Some(piece) = self.unmap(call.pid, old, old_length)
        {
            self.map(call.pid, new, new_length, piece.offset, piece.file);
        }
    }

    fn msync(&mut self, call: &RawCall) {
        let [address, length, flags, ..] = call.args;
        if let Some(piece) = self.first_mapped(call.pid, address, length) {
            let mut op = self.begin(OpKind::Msync, call);
            op.flags = flags as u32;
            self.mapped(op, piece);
        }
    }

    /// An operation on a mapped range of a file.
    fn mapped(&mut self, mut op: Op, piece: Mapping<FileId>) {
        let Mapping {
            length,
            offset,
            file,
        } = piece;
        let key = (file.dev.0, file.ino);
        let generation = self
            .generations
            .get(&key)
            .map_or(file.generation, |of| of.generation);
        op.file = Some(FileId { generation, ..file });
        op.offset = Some(offset);
        op.length = Some(length);
        self.wanted |= self.filter.takes_device(file.dev) || self.wants_file(file);
        self.emit(op);
    }

    pub(super) fn fault(
        &mut self,
        mut op: Op,
        file: &RawFile,
        page: u64,
        write: bool,
        missed: u32,
        ahead: u32,
    ) {
        (self.wanted, self.unknown) = (self.filter.takes_all(), false);
        self.set_file(&mut op, file);
        if let Some(id) = op.file {
            self.wanted |= self.wants_file(id);
        }
        op.offset = Some(page.saturating_mul(PAGE));
        op.length = Some(PAGE);
        op.flags = u32::from(write);
        op.pages_missed = Some(missed);
        op.pages_ahead = Some(ahead);
        op.result = Outcome::ok(0);
        self.emit(op);
    }
}

fn is_regular(file: Option<RawFile>) -> bool {
    file.is_some_and(|file| file.mode & libc::S_IFMT == libc::S_IFREG)
}

/// [`COPY_WHOLE_BLOCKS`] where a copy is of whole blocks between two files of one file system.
fn whole_blocks(call: &RawCall, [from, to]: [u64; 2]) -> u32 {
    let (Some(source), Some(sink), Ok(length)) =
        (call.file, call.file2, u64::try_from(call.result))
    else {
        return 0;
    };
    let place = |offset, file: RawFile| {
        if offset == u64::MAX {
            file.position
        } else {
            offset
        }
    };
    let (from, to) = (place(from, source), place(to, sink));
    let end = |from: u64| from.saturating_add(length);
    let to_the_ends = end(from) >= source.size_bytes && end(to) >= sink.size_bytes;
    let whole = source.dev == sink.dev
        && from.is_multiple_of(PAGE)
        && to.is_multiple_of(PAGE)
        && (length.is_multiple_of(PAGE) || to_the_ends);
    if whole { COPY_WHOLE_BLOCKS } else { 0 }
}

/// With offset and length; an offset of all ones means the file's position.
fn placed(mut op: Op, file: Option<&RawFile>, offset: u64, length: u64) -> Op {
    op.length = Some(length);
    if offset == u64::MAX {
        op.offset = file.map(|file| file.position);
        op.record |= OpFlags::IMPLICIT_OFFSET;
    } else {
        op.offset = Some(offset);
    }
    op
}

//! Copies between two descriptors: `copy_file_range`, `sendfile`, `splice`, and `ioctl` with `FICLONE` or `FICLONERANGE`,
//! which share blocks.

use fsage_core::{COPY_SHARES, COPY_WHOLE_BLOCKS, Op, OpFlags, OpKind, Outcome};

use super::args::Arg;
use super::calls::{Importer, arg};
use super::line::Call;
use super::state::Description;

/// File systems share blocks of this size or of a part of it.
const BLOCK: u64 = 4096;

/// [`COPY_WHOLE_BLOCKS`] where a copy from one (offset, size) to another begins on blocks and ends on one or where the
/// files do. The text tells no device: both files are taken to be on one. Nothing where an offset or a size is unknown.
fn whole_blocks(from: Option<(u64, u64)>, to: Option<(u64, u64)>, length: u64) -> u32 {
    let (Some((from, source)), Some((to, sink))) = (from, to) else {
        return 0;
    };
    let at_ends = from.saturating_add(length) >= source && to.saturating_add(length) >= sink;
    let whole = from.is_multiple_of(BLOCK)
        && to.is_multiple_of(BLOCK)
        && (length.is_multiple_of(BLOCK) || at_ends);
    if whole { COPY_WHOLE_BLOCKS } else { 0 }
}

/// The request of an `ioctl`, of which strace tells all names that a number has: `BTRFS_IOC_CLONE or FICLONE`.
fn is_request(arg: Arg<'_>, name: &[u8]) -> bool {
    arg.0.split(|&b| b == b' ').any(|word| word == name)
}

impl Importer {
    /// `ioctl`: whether it was a copy, which one that failed is not, as whoever asked copies in another way; nor one
    /// of so much as nobody knows.
    pub(super) fn share(
        &mut self,
        op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<bool, &'static str> {
        let request = arg(call, 1)?;
        let (all, part) = (
            is_request(request, b"FICLONE"),
            is_request(request, b"FICLONERANGE"),
        );
        if !(all || part) || !op.result.is_ok() {
            return Ok(all || part);
        }
        let asked = arg(call, 2)?;
        let number = |name: &str| asked.field(name).and_then(Arg::size).unwrap_or(0);
        let (source, offset, length, to) = if part {
            let source = asked.field("src_fd").ok_or("`src_fd`")?;
            let length = number("src_length");
            (source, number("src_offset"), length, number("dest_offset"))
        } else {
            (asked, 0, 0, 0)
        };
        let mut input = Op {
            kind: OpKind::CopyIn,
            ..op
        };
        let read = self.describe(&mut input, source)?;
        // 0 is all that there is.
        let rest = || input.size_bytes.map(|size| size.saturating_sub(offset));
        let Some(length) = Some(length).filter(|&n| n > 0).or_else(rest) else {
            return Ok(false);
        };
        let mut output = Op {
            kind: OpKind::CopyOut,
            latency_ns: op.latency_ns.map(|_| 0),
            ..op
        };
        let written = self.describe(&mut output, arg(call, 0)?)?;
        let from = input.size_bytes.map(|size| (offset, size));
        let flags =
            COPY_SHARES | whole_blocks(from, output.size_bytes.map(|size| (to, size)), length);
        for (op, description, offset) in [(&mut input, &read, offset), (&mut output, &written, to)]
        {
            (op.length, op.result, op.flags) = (Some(length), Outcome::ok(length), flags);
            self.side(op, description, Some(offset));
        }
        ops.extend([input, output]);
        Ok(true)
    }

    /// `copy_file_range`, `sendfile`, `splice`: a reading and a writing side.
    pub(super) fn transfer(
        &mut self,
        op: Op,
        call: &Call<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), &'static str> {
        // Positions: input, its offset, output, its offset, length.
        let (at_in, off_in, at_out, off_out, at_len) = match call.name {
            "copy_file_range" | "splice" => (0, 1, 2, Some(3), 4),
            _ => (1, 2, 0, None, 3),
        };
        let length = arg(call, at_len)?.size();
        let mut input = Op { length, ..op };
        let source = self.describe(&mut input, arg(call, at_in)?)?;
        let mut output = Op { length, ..op };
        let sink = self.describe(&mut output, arg(call, at_out)?)?;
        let explicit =
            |at: Option<usize>| at.and_then(|at| call.args.get(at)).and_then(|a| a.size());
        let (in_offset, out_offset) = (explicit(Some(off_in)), explicit(off_out));
        if call.name == "copy_file_range" {
            let from = in_offset.or(source.offset).zip(input.size_bytes);
            let to = out_offset.or(sink.offset).zip(output.size_bytes);
            let flags = whole_blocks(from, to, op.result.value().unwrap_or(0));
            (input.flags, output.flags) = (flags, flags);
        }
        let (reads, writes) = match call.name {
            "copy_file_range" => (Some(OpKind::CopyIn), Some(OpKind::CopyOut)),
            "splice" => (
                source.file.map(|_| OpKind::SpliceIn),
                sink.file.map(|_| OpKind::SpliceOut),
            ),
            _ if sink.file.is_some() => (Some(OpKind::CopyIn), Some(OpKind::CopyOut)),
            _ => (Some(OpKind::Sendfile), None),
        };
        if let Some(kind) = reads {
            input.kind = kind;
            self.side(&mut input, &source, in_offset);
            ops.push(input);
        } else {
            self.side(&mut input, &source, in_offset);
        }
        // The writing side is advanced even where no operation stands for it.
        output.kind = writes.unwrap_or(OpKind::Write);
        output.latency_ns = if reads.is_some() {
            op.latency_ns.map(|_| 0)
        } else {
            op.latency_ns
        };
        self.side(&mut output, &sink, out_offset);
        if writes.is_some() {
            ops.push(output);
        }
        Ok(())
    }

    fn side(&mut self, op: &mut Op, description: &Description, offset: Option<u64>) {
        let count = op.result.value().unwrap_or(0);
        let ok = op.result.is_ok();
        op.offset = offset;
        if offset.is_none() && !description.not_a_file {
            op.record |= OpFlags::IMPLICIT_OFFSET;
            op.offset = description.offset;
        }
        let end = op.offset.map(|offset| offset.saturating_add(count));
        if offset.is_none()
            && ok
            && let Some(fd) = op.fd
            && let Some(open) = self.processes.description(op.tid.0, fd)
        {
            open.offset = end;
        }
        let writes = matches!(op.kind, OpKind::CopyOut | OpKind::SpliceOut | OpKind::Write);
        if let (true, true, Some(file), Some(end)) = (writes, count > 0, description.file, end) {
            self.grow(file, end);
        }
    }
}

//! Reads and writes.

use fsage_core::{Op, OpFlags, OpKind, Outcome};
use fsage_namespace::flags::SEEK_END;

use super::code::{Flowop, FlowopKind};
use super::flowops::{Answer, size};
use super::state::Shared;
use super::thread::{Done, Release, ThreadStream};

/// What one call of Linux moves at most (`MAX_RW_COUNT`).
const CALL_BYTES: u64 = 0x7fff_f000;

/// What a flowop does at once is held in memory.
const MOST_TRANSFERS: u64 = 1 << 20;

/// A descriptor and the file that it names: fileset and index.
type Named = (usize, (usize, usize));

impl ThreadStream {
    /// The descriptor and file of a transfer, opened where the descriptor has none.
    fn opened_file(
        &mut self,
        flowop: &Flowop,
        held: &mut Shared,
    ) -> Result<Result<Named, Done>, String> {
        let at = self.descriptor(flowop);
        let slot = self.slot(at);
        if slot.open {
            let name = |set: usize| {
                held.filesets
                    .get(set)
                    .map(|f| f.tree.definition.name.as_str())
            };
            if let (Some(wanted), Some((set, _))) = (flowop.fileset, slot.file)
                && wanted != set
            {
                let (has, wants) = (name(set).unwrap_or(""), name(wanted).unwrap_or(""));
                return Err(format!(
                    "descriptor {at} is of '{has}' and not of '{wants}'"
                ));
            }
        } else {
            match self.open(flowop, at, held)? {
                Done::Yes => {}
                other => return Ok(Err(other)),
            }
        }
        self.rotate(flowop, &Done::Yes);
        let Some(file) = self.slot(at).file else {
            return Err(format!("the file of descriptor {at} was deleted"));
        };
        let fileset = held.filesets.get(file.0);
        let definition = fileset.map(|f| &f.tree.definition);
        if flowop.kind.writes() && definition.is_some_and(|d| d.readonly) {
            return Err("a write to a fileset that is readonly".to_owned());
        }
        if !flowop.kind.writes() && definition.is_some_and(|d| d.writeonly) {
            return Err("a read from a fileset that is writeonly".to_owned());
        }
        Ok(Ok((at, file)))
    }

    /// Whether a transfer of at most `most` bytes may begin. How much a read gets at the end of a file
    /// must not depend on chance: it waits for writes that make the file longer, and they for it.
    fn joins(
        &mut self,
        flowop: &Flowop,
        at: usize,
        (fileset, index): (usize, usize),
        most: u64,
        held: &mut Shared,
    ) -> bool {
        let position = self.slot(at).position;
        let Some(file) = held.file(fileset, index) else {
            return true;
        };
        let end = if flowop.random {
            most
        } else {
            position.saturating_add(most)
        };
        let appends = matches!(
            flowop.kind,
            FlowopKind::Append | FlowopKind::AppendRandom | FlowopKind::WriteWhole
        );
        let release = if flowop.kind.writes() {
            if !appends && end <= file.size {
                return true;
            }
            if file.reading > 0 {
                return false;
            }
            file.growing += 1;
            Release::Grown { fileset, index }
        } else {
            if flowop.kind != FlowopKind::ReadWhole && end <= file.settled {
                return true;
            }
            if file.growing > 0 {
                return false;
            }
            file.reading += 1;
            Release::Read { fileset, index }
        };
        self.releases.push(release);
        true
    }

    /// Reads and writes: opens a file first where the descriptor has none.
    pub(super) fn transfer(&mut self, flowop: &Flowop, held: &mut Shared) -> Answer {
        let (at, file) = match self.opened_file(flowop, held)? {
            Ok(found) => found,
            Err(done) => return Ok(done),
        };
        let fileset = held.filesets.get(file.0);
        let meant = fileset
            .and_then(|f| f.tree.files.get(file.1))
            .map_or(0, |f| f.size);
        let working_set = match flowop.working_set.whole(&mut self.set.random) {
            0 => meant,
            bytes => bytes,
        };
        let request = flowop.iosize.whole(&mut self.set.random);
        let most = if flowop.random { working_set } else { request };
        if !self.joins(flowop, at, file, most, held) {
            return Ok(Done::Wait("transfers at the end of its file".to_owned()));
        }
        match flowop.kind {
            FlowopKind::ReadWhole => {
                let request = whole_piece(request, working_set, size(file, held))?;
                self.read_whole(at, file, request, held);
            }
            FlowopKind::WriteWhole => {
                let source = self.slot(flowop.srcfd).file;
                if flowop.srcfd > 0 && source.is_none() {
                    return Err(format!(
                        "descriptor {} (srcfd) was never opened",
                        flowop.srcfd
                    ));
                }
                let length = match source {
                    Some((set, index)) => held
                        .filesets
                        .get(set)
                        .and_then(|f| f.tree.files.get(index))
                        .map_or(working_set, |f| f.size),
                    None => working_set,
                };
                let request = whole_piece(request, length, length)?;
                self.write_whole(at, file, [request, length], held);
            }
            FlowopKind::Append => {
                let length = nonzero(request)?;
                self.append(at, file, length, held);
            }
            FlowopKind::AppendRandom => {
                let length = 1 + self.set.random.below(nonzero(request)?);
                self.append(at, file, length, held);
            }
            _ if flowop.random => {
                let length = nonzero(request)?;
                if length > working_set {
                    return Err(format!(
                        "iosize {length} is larger than the file of {working_set} bytes"
                    ));
                }
                let offset = self.set.random.below(working_set / length) * length;
                self.at_offset(flowop, at, file, [offset, length], held);
            }
            _ => self.at_position(flowop, at, file, nonzero(request)?, held),
        }
        Ok(Done::Yes)
    }

    pub(super) fn on(&self, kind: OpKind, at: usize) -> Op {
        let mut op = self.op(kind);
        op.fd = Some(self.fd(at));
        if self.slot(at).direct && matches!(kind, OpKind::Read | OpKind::Write) {
            op.record |= OpFlags::DIRECT;
        }
        op
    }

    fn seek(&mut self, at: usize, to: u64, whence: u32, size: u64) {
        let mut seek = self.on(OpKind::Seek, at);
        seek.offset = Some(if whence == SEEK_END { 0 } else { to });
        seek.flags = whence;
        seek.result = Outcome::ok(to);
        seek.size_bytes = Some(size);
        self.batch.push(seek);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.position = to;
        }
    }

    /// One read or write at the descriptor's position; returns the bytes that it moves.
    fn sequential(
        &mut self,
        kind: OpKind,
        at: usize,
        length: u64,
        file: (usize, usize),
        held: &mut Shared,
    ) -> u64 {
        let position = self.slot(at).position;
        let size = size(file, held);
        let moved = match kind {
            OpKind::Read => length.min(size.saturating_sub(position)),
            _ => length,
        };
        let mut op = self.on(kind, at);
        op.offset = Some(position);
        op.length = Some(length);
        op.result = Outcome::ok(moved);
        op.size_bytes = Some(size);
        op.record |= OpFlags::IMPLICIT_OFFSET;
        self.batch.push(op);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.position = position.saturating_add(moved);
        }
        if kind == OpKind::Write {
            grow(file, position.saturating_add(moved), held);
        }
        moved
    }

    fn read_whole(&mut self, at: usize, file: (usize, usize), request: u64, held: &mut Shared) {
        self.seek(at, 0, 0, size(file, held));
        while self.sequential(OpKind::Read, at, request, file, held) > 0 {}
    }

    fn write_whole(
        &mut self,
        at: usize,
        file: (usize, usize),
        [request, length]: [u64; 2],
        held: &mut Shared,
    ) {
        let mut left = length;
        while left > 0 {
            let piece = left.min(request);
            self.sequential(OpKind::Write, at, piece, file, held);
            left -= piece;
        }
    }

    fn append(&mut self, at: usize, file: (usize, usize), length: u64, held: &mut Shared) {
        let end = size(file, held);
        self.seek(at, end, SEEK_END, end);
        self.sequential(OpKind::Write, at, length, file, held);
    }

    fn at_offset(
        &mut self,
        flowop: &Flowop,
        at: usize,
        file: (usize, usize),
        [offset, length]: [u64; 2],
        held: &mut Shared,
    ) {
        let size = size(file, held);
        let writes = flowop.kind.writes();
        let mut op = self.on(if writes { OpKind::Write } else { OpKind::Read }, at);
        let moved = if writes {
            length
        } else {
            length.min(size.saturating_sub(offset))
        };
        op.offset = Some(offset);
        op.length = Some(length);
        op.result = Outcome::ok(moved);
        op.size_bytes = Some(size);
        self.batch.push(op);
        if writes {
            grow(file, offset + length, held);
        }
    }

    /// A sequential transfer; a read that finds the end goes back to the start.
    fn at_position(
        &mut self,
        flowop: &Flowop,
        at: usize,
        file: (usize, usize),
        length: u64,
        held: &mut Shared,
    ) {
        if flowop.kind.writes() {
            self.sequential(OpKind::Write, at, length, file, held);
        } else if self.sequential(OpKind::Read, at, length, file, held) == 0 {
            self.seek(at, 0, 0, size(file, held));
        }
    }
}

fn grow((set, index): (usize, usize), end: u64, held: &mut Shared) {
    let fileset = held.filesets.get_mut(set);
    if let Some(file) = fileset.and_then(|f| f.files.get_mut(index)) {
        file.size = file.size.max(end);
    }
}

fn nonzero(iosize: u64) -> Result<u64, String> {
    if iosize == 0 {
        return Err("its iosize is 0".to_owned());
    }
    if iosize > CALL_BYTES {
        return Err(format!(
            "its iosize is {iosize}, expected at most {CALL_BYTES}: what one call of Linux moves"
        ));
    }
    Ok(iosize)
}

/// What one transfer of a whole file moves: the iosize, or where there is none, as much as can be.
fn whole_piece(iosize: u64, otherwise: u64, size: u64) -> Result<u64, String> {
    let piece = match iosize {
        0 => otherwise.clamp(1, CALL_BYTES),
        _ => nonzero(iosize)?,
    };
    if size / piece >= MOST_TRANSFERS {
        return Err(format!(
            "a file of {size} bytes takes {} transfers of {piece}, expected at most {MOST_TRANSFERS}",
            size / piece
        ));
    }
    Ok(piece)
}

//! What is done to an open file.

use fsage_core::{KindClass, Op, OpFlags, OpKind};

use super::super::model::{Stage, Type};
use super::super::step::{At, Form, LARGEST};
use super::{Cursor, Done, KEPT, Out, Resolver, flags, is_write};

const PAGE_BYTES: u64 = 4096;

/// In a file of so many bytes it matters where exactly something is, and not how soon its page is used again.
const SMALL_BYTES: u64 = 16 * PAGE_BYTES;

/// What one call moves at the most, as Linux has it.
const MOST_MOVED_BYTES: u64 = (1 << 31) - 4096;

impl Resolver {
    /// The content that an operation without a name is about.
    fn open_file(&mut self, op: &Op) -> Option<u32> {
        if let Some(open) = op
            .fd
            .and_then(|fd| self.descriptors.description(op.pid.0, fd))
        {
            return Some(open.file);
        }
        // It was open before the trace began: what the trace calls it is all that is known.
        let id = op.file?;
        if let Some(&file) = self.ids.get(&id) {
            return Some(file);
        }
        if !self.under.is_empty() {
            return None;
        }
        let node = self.node(format!("/\0{}/{}", id.dev.0, id.ino).as_bytes())?;
        let file = self.file_of(node);
        let is_directory = op.record.contains(OpFlags::DIRECTORY) || op.kind == OpKind::Readdir;
        let kind = if is_directory {
            Type::Directory
        } else {
            Type::File
        };
        self.made(node, kind);
        self.ids.insert(id, file);
        Some(file)
    }

    /// A close counts where it lets the file go; others are free. One that leaves it to a mapping is
    /// told as [`KEPT`].
    pub(super) fn close(&mut self, op: &Op) -> Result<Done, Out> {
        let fd = op.fd.filter(|_| op.result.is_ok()).ok_or(Out::Aside)?;
        let open = self
            .descriptors
            .description(op.pid.0, fd)
            .copied()
            .ok_or(Out::Aside)?;
        let kept = if open.mapped { KEPT } else { 0 };
        let done = self.done(op, open.file, Form::plain(OpKind::Close, kept, 0));
        let last = self
            .descriptors
            .close(op.pid.0, fd)
            .and_then(|c| c.last)
            .ok_or(Out::Aside)?;
        let kept = self.kept.entry(last.pid).or_default();
        if last.mapped && kept.iter().all(|open| open.file != last.file) {
            kept.push(last);
        } else {
            self.let_go(last);
        }
        Ok(done)
    }

    pub(super) fn on_file(&mut self, op: &Op) -> Result<Done, Out> {
        let file = self.open_file(op).ok_or(Out::Left)?;
        let mut done = self.done(op, file, Form::plain(op.kind, flags(op), 0));
        let transfer = op.kind.class() == KindClass::Data || op.kind == OpKind::Seek;
        if let Some(size) = op.size_bytes {
            self.learn(done.node, true, None);
            if let Some(node) = self
                .nodes
                .get_mut(done.node as usize)
                .filter(|n| n.first == Some(true))
            {
                node.size.get_or_insert(size);
            }
            self.set_size(file, size);
        }
        if transfer {
            self.transfer(op, &mut done);
        } else {
            done.bytes = op.length.map(|b| b.min(LARGEST)).filter(|_| {
                matches!(
                    op.kind,
                    OpKind::Ftruncate
                        | OpKind::Fallocate
                        | OpKind::Mmap
                        | OpKind::Munmap
                        | OpKind::SyncFileRange
                        | OpKind::Msync
                )
            });
            match (op.kind, op.length) {
                (OpKind::Ftruncate, Some(length)) => self.set_size(file, length),
                (OpKind::Fallocate, Some(length)) if op.flags == 0 => {
                    let size = self
                        .size(file)
                        .max(op.offset.unwrap_or(0).saturating_add(length));
                    self.set_size(file, size);
                }
                (OpKind::Readdir, _) => self.made(done.node, Type::Directory),
                (OpKind::Mmap, _) => {
                    let open = op
                        .fd
                        .and_then(|fd| self.descriptors.description(op.pid.0, fd));
                    if let Some(open) = open {
                        open.mapped = true;
                    }
                }
                _ => {}
            }
            done.form.bytes = done.bytes.filter(|b| is_usual(*b));
        }
        Ok(done)
    }

    fn transfer(&mut self, op: &Op, done: &mut Done) {
        let (pid, file) = (op.pid.0, done.file);
        let size = self.size(file);
        let write = is_write(op);
        let open = op.fd.and_then(|fd| self.descriptors.description(pid, fd));
        let append = op.record.contains(OpFlags::APPEND) || open.as_ref().is_some_and(|o| o.append);
        let implicit = op.record.contains(OpFlags::IMPLICIT_OFFSET);
        let explicit = op.kind.class() == KindClass::Data && !implicit && !append;
        let cursor = match open {
            Some(open) => &mut open.cursor,
            None => self.mapped.entry((pid, file)).or_default(),
        };
        let before = *cursor;
        let offset = match op.kind {
            OpKind::Seek => op.result.value().unwrap_or(0),
            _ => op.offset.unwrap_or(before.end),
        };
        let moved = op.bytes_moved();
        let gap = offset.wrapping_sub(before.end) as i64;
        let passed = if op.kind == OpKind::Fault {
            op.length.unwrap_or(0)
        } else {
            moved
        };
        done.form.at = if append && write {
            At::End
        } else {
            let place = Place { offset, gap, size };
            let seeks = op.kind == OpKind::Seek;
            // Who finds nothing reads behind the end.
            let nothing = moved == 0 && op.length.is_some_and(|asked| asked > 0);
            place.seen_from(before, write || seeks || nothing, explicit || seeks)
        };
        // Who began somewhere does not go on until the end, though he may come there.
        let placed = match done.form.at {
            At::None | At::Next | At::Again => before.placed,
            At::Start | At::End => false,
            At::From | At::Back => true,
            At::Skip(_) | At::Random => size > SMALL_BYTES,
        };
        *cursor = Cursor {
            start: offset,
            end: offset.saturating_add(passed),
            gap,
            placed,
        };
        done.form.explicit = explicit;
        (done.offset, done.moved) = (offset, moved);
        if op.kind != OpKind::Seek {
            let asked = asked_bytes(op, moved, offset.saturating_add(moved) >= size);
            done.bytes = Some(asked.min(LARGEST));
            done.form.bytes = done.bytes.filter(|b| is_usual(*b));
        }
        if let Some(content) = self.files.get_mut(file as usize) {
            match done.form.at {
                At::End if !tells_how_far(op, append, write) => {}
                At::Random => {
                    let place = offset / PAGE_BYTES;
                    let places = content.places.get_or_insert_default();
                    done.place = places.distance(&place).map_or(0, |d| d as u64 + 1);
                    places.touch(place);
                }
                at => done.place = from_edge(at, offset, size),
            }
            content.stage.moves(op, moved, write);
            if write {
                content.size = content.size.max(offset.saturating_add(moved));
                if let Some(node) = self.nodes.get_mut(content.node as usize) {
                    node.largest = node.largest.max(content.size);
                }
            }
            done.at_end = !placed && offset.saturating_add(moved) >= content.size;
        }
    }
}

/// Whether it is told how far beyond the end of a file a place lies. What is read beyond an end that the trace does not tell may
/// lie anywhere there; what is written beyond what is known of a file makes it so large, wherever its end was.
fn tells_how_far(op: &Op, append: bool, write: bool) -> bool {
    !append && (op.size_bytes.is_some() || write || op.kind == OpKind::Seek)
}

impl Stage {
    /// A transfer moved so many bytes; a fault always moves a page.
    fn moves(&mut self, op: &Op, bytes: u64, write: bool) {
        if bytes > 0 || op.kind == OpKind::Fault {
            self.moved(write);
        }
    }
}

/// Where a transfer starts: from the file's start, and from where the one before ended; in a file so large.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    gap: i64,
    size: u64,
}

impl Place {
    /// Where that is as the one before sees it; whether it may lie beyond the end, and whether the call names it.
    fn seen_from(self, before: Cursor, beyond: bool, explicit: bool) -> At {
        let Self { offset, gap, size } = self;
        if offset == before.end {
            At::Next
        } else if offset == before.start {
            At::Again
        } else if offset == 0 {
            At::Start
        } else if offset >= size && beyond {
            At::End
        } else if gap == before.gap && gap.unsigned_abs() < 16 << 20 {
            At::Skip(gap)
        } else if explicit {
            somewhere(offset, size)
        } else {
            At::Random
        }
    }
}

/// How a place in the middle that a call names is told: by the start or the end where it is on their page or the file is small, as of heads
/// and of tables of contents; else it is any.
fn somewhere(offset: u64, size: u64) -> At {
    let near = if size <= SMALL_BYTES {
        SMALL_BYTES
    } else {
        PAGE_BYTES
    };
    match size.checked_sub(offset) {
        Some(before_end) if before_end <= near && before_end < offset => At::Back,
        _ if offset <= near => At::From,
        _ => At::Random,
    }
}

/// How far a place is from the edge of the file that it is told by, bytes.
fn from_edge(at: At, offset: u64, size: u64) -> u64 {
    let far = match at {
        At::From => offset,
        At::Back => size.saturating_sub(offset),
        // What lies between is a hole.
        At::End => offset.saturating_sub(size),
        _ => 0,
    };
    far.min(LARGEST)
}

/// What is asked of a call: of a read at the end how it is asked, else only what was moved counts.
fn asked_bytes(op: &Op, moved: u64, at_end: bool) -> u64 {
    match op.kind {
        OpKind::Read if !at_end && op.length != Some(0) => moved.max(1),
        OpKind::Write
        | OpKind::CopyIn
        | OpKind::CopyOut
        | OpKind::Sendfile
        | OpKind::SpliceIn
        | OpKind::SpliceOut => moved,
        _ => op.length.unwrap_or(moved).min(MOST_MOVED_BYTES),
    }
}

/// Requests of such sizes are meant so; others follow from what there is to write.
pub(super) fn is_usual(bytes: u64) -> bool {
    bytes > 0 && bytes.is_multiple_of(512) && bytes <= 1 << 20
}

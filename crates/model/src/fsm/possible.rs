//! What can be done to a file at all: a model does nothing that no trace could have had.

use fsage_core::{Errno, KindClass, Op, OpKind};
use fsage_namespace::flags::{O_CREAT, O_DIRECTORY, O_TRUNC};

use super::model::{Type, Visit};
use super::names::{Name, Opened};
use super::step::VisitStep;

const PAGE_BYTES: u64 = 4096;

/// What a file must be, so that what is done to it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Whether it is a directory, or must not be one.
    pub directory: Option<bool>,
    /// Whether there is something in it: beyond the end of a file no page can be touched.
    pub content: bool,
}

/// Whether an operation can be done to a directory alone, or to none; `None` where it is done to either.
pub fn of_directory(kind: OpKind, flags: u32) -> Option<bool> {
    match kind {
        OpKind::Open if flags & O_DIRECTORY != 0 => Some(true),
        OpKind::Open if flags & (3 | O_CREAT | O_TRUNC) != 0 => Some(false),
        OpKind::Readdir | OpKind::Rmdir => Some(true),
        OpKind::Unlink
        | OpKind::Readlink
        | OpKind::Truncate
        | OpKind::Ftruncate
        | OpKind::Fallocate
        | OpKind::Mmap
        | OpKind::Munmap
        | OpKind::Msync
        | OpKind::SyncFileRange => Some(false),
        kind if kind.class() == KindClass::Data => Some(false),
        _ => None,
    }
}

impl Visit {
    /// What its file must be, so that its steps end as they did.
    pub fn needs(&self) -> Needs {
        let steps = || self.steps.iter().filter(|step| step.form.error == 0);
        let directory = steps().find_map(|step| of_directory(step.form.kind, step.form.flags));
        let touches = |step: &VisitStep| match step.form.kind {
            OpKind::Fault => Some(true),
            _ if step.form.is_write() => Some(false),
            OpKind::Truncate | OpKind::Ftruncate | OpKind::Fallocate => Some(false),
            _ => None,
        };
        Needs {
            directory,
            content: steps().find_map(touches) == Some(true),
        }
    }
}

/// The error of a call by name that is for directories, or for none, where the other is there.
pub fn is_another(kind: OpKind, flags: u32, there: Type) -> Option<Errno> {
    let of = of_directory(kind, flags)?;
    match there {
        Type::Directory => (!of).then_some(Errno::EISDIR),
        Type::File => of.then_some(Errno::ENOTDIR),
        // That of what it leads to.
        Type::Link => None,
    }
}

/// Whether a call that goes by a descriptor can be about a name, by the descriptor `open` where it is known.
pub fn can_be(op: &Op, name: &Name, open: Option<&Opened>) -> bool {
    let size = match open {
        Some(open) => name.size_of(open),
        None if name.opened.is_empty() && name.kept.is_empty() => name.size,
        // Which of them it will be is not known.
        None => 1,
    };
    let of = of_directory(op.kind, op.flags);
    // Beyond the end there is no page.
    let is_there = op.kind != OpKind::Fault || size > 0;
    is_there && of.is_none_or(|is| is == name.is_directory())
}

/// A page fault where the model has one, on the pages of a file of at least one byte: files are of other sizes than
/// in the trace.
pub fn inside(offset: u64, bytes: u64, size: u64) -> (u64, u64) {
    let whole = size.max(1).div_ceil(PAGE_BYTES) * PAGE_BYTES;
    let offset = (offset / PAGE_BYTES * PAGE_BYTES).min(whole - PAGE_BYTES);
    (offset, bytes.clamp(1, whole - offset))
}

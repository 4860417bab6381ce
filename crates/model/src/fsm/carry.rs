//! What becomes of a call on a target: no target maps files, and none has calls for all that a trace has.

use fsage_core::{Op, OpKind};
use fsage_namespace::flags::MS_SYNC;

use super::model::Model;
use super::step::is_xattr;

/// As which kind of operation a run of a model carries a call out; `None` where it does not.
pub fn carried(op: &Op) -> Option<OpKind> {
    match op.kind {
        // As a replay does it.
        OpKind::Msync if op.flags & MS_SYNC != 0 => Some(OpKind::Fdatasync),
        // What is touched of a mapping is told as faults; a listing's last call is part of the first, which goes on to its end.
        OpKind::Msync
        | OpKind::Mmap
        | OpKind::Munmap
        | OpKind::Advise
        | OpKind::Lock
        | OpKind::Chdir
        | OpKind::Fchdir
        | OpKind::Mknod => None,
        OpKind::Readdir if op.result.value() == Some(0) => None,
        OpKind::Fallocate if op.flags != 0 => None,
        kind => Some(kind).filter(|&kind| !is_xattr(kind)),
    }
}

impl Model {
    /// Kinds of calls that take their time on a file system and that no run of the model does.
    pub fn not_carried(&self) -> Vec<OpKind> {
        let steps = self.visits.iter().flat_map(|visit| &visit.steps);
        let mut kinds: Vec<OpKind> = steps
            .filter(|step| match step.form.kind {
                OpKind::Fallocate => step.form.flags != 0,
                kind => is_xattr(kind) || kind == OpKind::Mknod,
            })
            .map(|step| step.form.kind)
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

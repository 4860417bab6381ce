//! What forks, execs, exits and dups of a stream do to descriptors, for all who keep nothing of processes but these.

use fsage_core::{Fd, Op, OpKind};

use crate::flags::{CLONE_THREAD, O_CLOEXEC};
use crate::{Closed, Processes};

/// Descriptors of a stream's processes. `O`: what is kept of an open file.
pub type Descriptors<O> = Processes<O, ()>;

/// What nobody has open any more.
pub fn gone<O>(closed: Vec<Closed<O>>) -> impl Iterator<Item = O> {
    closed.into_iter().filter_map(|c| c.last)
}

/// Brings descriptors to where they are as an operation begins; returns what was closed by that.
pub fn settle<O>(descriptors: &mut Descriptors<O>, op: &Op) -> Vec<Closed<O>> {
    descriptors.settle(op, |_| None)
}

/// Follows an operation that makes or ends processes or copies a descriptor; returns what was closed by it.
pub fn follow<O>(descriptors: &mut Descriptors<O>, op: &Op) -> Vec<Closed<O>> {
    let pid = op.pid.0;
    let Some(value) = op.result.value() else {
        return Vec::new();
    };
    match op.kind {
        OpKind::Fork if op.flags & CLONE_THREAD == 0 => {
            let child = op.length.and_then(|child| u32::try_from(child).ok());
            if let Some(child) = child.filter(|&child| child != pid) {
                descriptors.fork(pid, child, op.flags);
            }
            Vec::new()
        }
        OpKind::Exec => descriptors.exec(pid),
        OpKind::Exit if op.length == Some(1) && descriptors.knows(pid) => {
            descriptors.exit(pid).closed
        }
        OpKind::Dup => match (op.fd, i32::try_from(value)) {
            (Some(old), Ok(new)) => {
                let close_on_exec = op.flags & O_CLOEXEC != 0;
                descriptors.give_duplicate(op, old, Fd(new), close_on_exec)
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Gives an open file to the descriptor that `op` tells of, as it ends if it opens that; returns what was closed by that.
pub fn install<O>(descriptors: &mut Descriptors<O>, op: &Op, fd: Fd, open: O) -> Vec<Closed<O>> {
    let open = descriptors.add(open);
    if op.kind == OpKind::Open {
        return descriptors.give(op, fd, Some(open), op.flags & O_CLOEXEC != 0);
    }
    let closed = descriptors.install(op.pid.0, fd, open, false);
    closed.into_iter().collect()
}

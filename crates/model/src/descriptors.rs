//! What forks, execs, exits and dups of a trace do to descriptors, for every model alike.

use fsage_core::{Fd, Op, OpKind};
use fsage_namespace::flags::{CLONE_THREAD, O_CLOEXEC};
use fsage_namespace::{Closed, Processes};

/// Descriptors of a trace's processes. `O`: what is kept of an open file.
pub type Descriptors<O> = Processes<O, ()>;

/// Brings descriptors to where they are as an operation begins; returns what nobody has open any more.
pub fn settle<O>(descriptors: &mut Descriptors<O>, op: &Op) -> Vec<O> {
    gone(descriptors.settle(op, |_| None))
}

fn gone<O>(closed: Vec<Closed<O>>) -> Vec<O> {
    closed.into_iter().filter_map(|c| c.last).collect()
}

/// Follows an operation that makes or ends processes or copies a descriptor; returns what nobody has open any more.
pub fn follow<O>(descriptors: &mut Descriptors<O>, op: &Op) -> Vec<O> {
    let pid = op.pid.0;
    let Some(value) = op.result.value() else {
        return Vec::new();
    };
    let closed = match op.kind {
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
    };
    gone(closed)
}

/// Gives an open file to the descriptor that `op` tells of, as it ends if it opens that; returns what nobody has open
/// any more.
pub fn install<O>(descriptors: &mut Descriptors<O>, op: &Op, fd: Fd, open: O) -> Vec<O> {
    let open = descriptors.add(open);
    let closed = if op.kind == OpKind::Open {
        descriptors.give(op, fd, Some(open), op.flags & O_CLOEXEC != 0)
    } else {
        let closed = descriptors.install(op.pid.0, fd, open, false);
        closed.into_iter().collect()
    };
    gone(closed)
}

//! Processes and their descriptors.

use std::sync::Arc;

use fsage_core::{Fd, OpFlags, OpKind, PathTable, Tid};
use fsage_namespace::flags::CLONE_THREAD;
use fsage_namespace::{Closed, NodeKind, SharedId};

use super::{Model, OpenFile, ReplayStep, Skip, Verdict};
use crate::replay::call::{Call, Slot};

impl Model {
    /// What changes descriptors and processes.
    pub(super) fn process(&mut self, step: &mut ReplayStep, paths: &PathTable) -> Verdict {
        let op = step.op;
        let value = op.result.value();
        let fd = value.and_then(|v| i32::try_from(v).ok()).map(Fd);
        match op.kind {
            OpKind::Close => return self.close(step),
            OpKind::Dup => {
                let (Some(from), Some(to)) = (op.fd, fd) else {
                    return Err(Skip::Free);
                };
                let gone = match self.open_of(step, paths) {
                    Ok(_) => self.processes.give_duplicate(&op, from, to, false),
                    Err(_) => self.processes.give(&op, to, None, false),
                };
                self.let_go(gone, &mut step.closes);
            }
            OpKind::Fork => {
                let made = value.and_then(|v| u32::try_from(v).ok()).map(Tid);
                step.starts = made.filter(|&tid| tid != op.tid);
                let child = op.length.and_then(|l| u32::try_from(l).ok());
                let process = self.processes.process_of(op.pid.0, op.tid.0);
                if let Some(child) = child.filter(|&c| c != process) {
                    // One of that number, if it is known, ended unseen.
                    self.end(child, &mut step.closes);
                    self.processes.fork(op.pid.0, child, op.flags);
                } else if let Some(thread) = made.filter(|_| op.flags & CLONE_THREAD != 0) {
                    let gone = self.processes.thread(process, op.tid.0, thread.0, op.flags);
                    self.let_go(gone, &mut step.closes);
                }
            }
            OpKind::Exec => {
                if op.result.is_ok() {
                    let gone = self.processes.exec_by(op.pid.0, op.tid.0);
                    self.let_go(gone, &mut step.closes);
                    self.find(&op, paths, op.path, op.dir, true, Some(NodeKind::Regular))?;
                }
                return Err(Skip::NoCall);
            }
            _ => {
                step.ends = true;
                let process = self.processes.process_of(op.pid.0, op.tid.0);
                let gone = self.processes.end_thread(op.tid.0);
                self.let_go(gone, &mut step.closes);
                if op.length == Some(1) {
                    self.end(process, &mut step.closes);
                }
            }
        }
        Err(Skip::Free)
    }

    fn end(&mut self, process: u32, closes: &mut Vec<Arc<Slot>>) {
        if self.processes.knows(process) {
            let ended = self.processes.exit(process);
            self.let_go(ended.closed, closes);
        }
    }

    fn close(&mut self, step: &mut ReplayStep) -> Verdict {
        let op = step.op;
        let fd = op.fd.ok_or(Skip::UnknownDescriptor)?;
        let unknown = if op.record.contains(OpFlags::NOT_A_FILE) {
            Skip::NotAFile
        } else {
            Skip::UnknownDescriptor
        };
        let open = self.processes.open_of(op.pid.0, fd);
        // Where its number has been given again, that is another's.
        open.filter(|&open| !self.is_of_another(&op, open))
            .ok_or(unknown)?;
        let closed = self.processes.close(op.pid.0, fd).ok_or(unknown)?;
        let mut closes = Vec::new();
        self.let_go([closed], &mut closes);
        let slot = closes.pop().ok_or(Skip::Free)?;
        Ok(Call::Close(slot))
    }

    /// Descriptors are gone; the last one of an open file lets it go.
    pub(super) fn let_go(
        &mut self,
        closed: impl IntoIterator<Item = Closed<OpenFile>>,
        closes: &mut Vec<Arc<Slot>>,
    ) {
        for file in closed.into_iter().filter_map(|closed| closed.last) {
            if let Some(node) = file.node {
                self.tree.hold(node, false);
            }
            closes.push(file.slot);
            self.released.push(file.key);
        }
    }

    /// What held an open file beside its descriptors is done with it.
    pub(super) fn release(&mut self, open: SharedId, closes: &mut Vec<Arc<Slot>>) {
        let last = self.processes.release(open);
        self.let_go([Closed { open, last }], closes);
    }
}

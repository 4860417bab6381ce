//! Processes and their descriptors.

use std::sync::Arc;

use fsage_core::{Fd, OpFlags, OpKind, PathTable, Pid, Tid};

use super::{Model, Skip, Step, Verdict};
use crate::replay::call::{Call, Slot};
use crate::replay::tree::Kind;

/// Descriptors that all processes may have: as many as a machine holds at once, and few enough for
/// memory. A child beyond them begins with none.
const DESCRIPTORS: usize = 1 << 22;

/// How many descriptors there can be, counted now and then.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    counted: usize,
    since: usize,
}

impl Descriptors {
    /// Whether there is room for so many more.
    fn take(&mut self, more: usize, count: impl FnOnce() -> usize) -> bool {
        self.since += more.max(1);
        if self.since >= DESCRIPTORS / 8 {
            (self.counted, self.since) = (count(), more);
        }
        self.counted + self.since <= DESCRIPTORS
    }
}

impl Model {
    /// What changes descriptors and processes.
    pub(super) fn process(&mut self, step: &mut Step, paths: &PathTable) -> Verdict {
        let op = step.op;
        let value = op.result.value();
        let fd = value.and_then(|v| i32::try_from(v).ok()).map(Fd);
        match op.kind {
            OpKind::Close => return self.close(step),
            OpKind::Dup => {
                let (Some(from), Some(to)) = (op.fd, fd) else {
                    return Err(Skip::Free);
                };
                let open = self.descriptor(op.pid, from);
                if from != to {
                    self.drop_descriptor(op.pid, to, &mut step.closes);
                    if let Some(open) = open {
                        self.refer(op.pid, to, open, false);
                    }
                }
            }
            OpKind::Fork => {
                step.starts = value.and_then(|v| u32::try_from(v).ok()).map(Tid);
                let child = op.length.and_then(|l| u32::try_from(l).ok()).map(Pid);
                if let Some(child) = child.filter(|&c| c != op.pid) {
                    self.fork(op.pid, child, &mut step.closes);
                }
            }
            OpKind::Exec => {
                if op.result.is_ok() {
                    self.close_on_exec(op.pid, &mut step.closes);
                    self.find(&op, paths, op.path, op.dir, true, Some(Kind::File))?;
                }
                return Err(Skip::NoCall);
            }
            _ => {
                step.ends = true;
                if op.length == Some(1) {
                    let process = self.processes.remove(&op.pid).unwrap_or_default();
                    for (open, _) in process.fds.into_values() {
                        self.release(open, &mut step.closes);
                    }
                }
            }
        }
        Err(Skip::Free)
    }

    fn close_on_exec(&mut self, pid: Pid, closes: &mut Vec<Arc<Slot>>) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        let mut gone = Vec::new();
        process.fds.retain(|_, (open, cloexec)| {
            if *cloexec {
                gone.push(*open);
            }
            !*cloexec
        });
        for open in gone {
            self.release(open, closes);
        }
    }

    fn close(&mut self, step: &mut Step) -> Verdict {
        let op = step.op;
        let fd = op.fd.ok_or(Skip::UnknownDescriptor)?;
        let open =
            self.descriptor(op.pid, fd)
                .ok_or(if op.record.contains(OpFlags::NOT_A_FILE) {
                    Skip::NotAFile
                } else {
                    Skip::UnknownDescriptor
                })?;
        if let Some(process) = self.processes.get_mut(&op.pid) {
            process.fds.remove(&fd);
        }
        let mut closes = Vec::new();
        self.release(open, &mut closes);
        let slot = closes.pop().ok_or(Skip::Free)?;
        Ok(Call::Close(slot))
    }

    pub(in crate::replay) fn descriptor(&self, pid: Pid, fd: Fd) -> Option<u64> {
        self.processes
            .get(&pid)?
            .fds
            .get(&fd)
            .map(|(open, _)| *open)
    }

    fn refer(&mut self, pid: Pid, fd: Fd, open: u64, cloexec: bool) {
        if let Some(file) = self.opens.get_mut(&open) {
            file.references += 1;
            let process = self.processes.entry(pid).or_default();
            process.fds.insert(fd, (open, cloexec));
        }
    }

    pub(super) fn drop_descriptor(&mut self, pid: Pid, fd: Fd, closes: &mut Vec<Arc<Slot>>) {
        let process = self.processes.get_mut(&pid);
        if let Some((open, _)) = process.and_then(|p| p.fds.remove(&fd)) {
            self.release(open, closes);
        }
    }

    /// One reference less; the last one lets the open file go.
    pub(super) fn release(&mut self, open: u64, closes: &mut Vec<Arc<Slot>>) {
        let Some(file) = self.opens.get_mut(&open) else {
            return;
        };
        file.references = file.references.saturating_sub(1);
        if file.references == 0
            && let Some(file) = self.opens.remove(&open)
        {
            if let Some(node) = file.node {
                self.tree.hold(node, false);
            }
            closes.push(file.slot);
            self.released.push(open);
        }
    }

    fn fork(&mut self, parent: Pid, child: Pid, closes: &mut Vec<Arc<Slot>>) {
        let stale = self.processes.remove(&child).unwrap_or_default();
        for (open, _) in stale.fds.into_values() {
            self.release(open, closes);
        }
        let more = self.processes.get(&parent).map_or(0, |p| p.fds.len());
        let count = || self.processes.values().map(|p| p.fds.len()).sum();
        let room = self.descriptors.take(more, count);
        let Some(process) = self.processes.get(&parent) else {
            return;
        };
        let directory = process.directory.clone();
        let fds: Vec<(Fd, (u64, bool))> = process.fds.iter().map(|(&fd, &o)| (fd, o)).collect();
        for (fd, (open, cloexec)) in fds.into_iter().filter(|_| room) {
            self.refer(child, fd, open, cloexec);
        }
        self.processes.entry(child).or_default().directory = directory;
    }
}

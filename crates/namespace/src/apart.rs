//! Threads that share less than their process does.
//!
//! Calls are told by process. A thread whose descriptors or directory are its own (unshare(2), clone(2) with
//! `CLONE_THREAD` alone) is a task beside it, by a number that no process has.

use crate::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, CLONE_VM};
use crate::{Closed, Processes};

/// No process and no thread has a number with this bit (`PID_MAX_LIMIT` is 2^22).
const APART: u32 = 1 << 31;

const BOTH: u32 = CLONE_FILES | CLONE_FS;

impl<O, D: Clone + Default, F: Copy> Processes<O, D, F> {
    /// The task that a thread's calls are about: its process, or the thread itself.
    #[inline]
    pub fn task_of(&self, process: u32, thread: u32) -> u32 {
        if !self.apart.is_empty() && self.apart.get(&thread) == Some(&process) {
            return thread | APART;
        }
        process
    }

    /// The process of such a task, which is about that thread.
    #[inline]
    pub fn process_of(&self, task: u32, thread: u32) -> u32 {
        let process = self.apart.get(&thread).filter(|_| task & APART != 0);
        process.copied().unwrap_or(task)
    }

    /// The number by which /proc has such a task.
    pub fn number(task: u32) -> u32 {
        task & !APART
    }

    /// A thread of a task makes another one, with these flags of clone(2); or, if it makes itself, goes on sharing
    /// no more than these say. What was closed, of one of that number that ended unseen.
    pub fn thread(&mut self, task: u32, maker: u32, thread: u32, flags: u32) -> Vec<Closed<O>> {
        let process = self.process_of(task, maker);
        let from = self.task_of(process, maker);
        if maker == thread && from != process {
            self.unshare(from, BOTH & !flags);
            return Vec::new();
        }
        let gone = self.end_thread(thread);
        if from != process || flags & BOTH != BOTH {
            let task = thread | APART;
            self.fork(from, task, flags & BOTH | CLONE_THREAD | CLONE_VM);
            self.apart.insert(thread, process);
        }
        gone
    }

    /// A thread ended: what was closed, if descriptors were its own.
    pub fn end_thread(&mut self, thread: u32) -> Vec<Closed<O>> {
        match self.apart.remove(&thread) {
            Some(_) => self.exit(thread | APART).closed,
            None => Vec::new(),
        }
    }

    /// A thread runs a program, which ends all others of its process: what is its own becomes the process's.
    pub fn exec_by(&mut self, task: u32, thread: u32) -> Vec<Closed<O>> {
        let process = self.process_of(task, thread);
        let mut closed = Vec::new();
        if self.apart.remove(&thread).is_some() {
            closed = self.exit(process).closed;
            self.renumber(thread | APART, process);
        }
        closed.extend(self.exec(process));
        closed
    }
}

//! Who begins whom, and who waits until those have ended.

use fsage_core::{Op, OpFlags};
use fsage_namespace::flags::CLONE_THREAD;

use super::super::model::{Pick, Stage};
use super::super::resolve::{NONE, State};
use super::{Gather, Visited};

/// What a thread has instead of the shape of a visit where it begins a process.
pub const FORKS: u32 = u32::MAX;

/// A process that is begun.
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    /// The thread that begins it.
    pub by: u32,
    /// The thread that begins; `None` where it did nothing, not even end.
    pub child: Option<u32>,
    start_ns: u64,
}

impl Gather {
    /// A thread begins a process. What it has open the other has, too: a visit does not go on across that.
    pub(super) fn fork(&mut self, id: u32, op: &Op, child: u32) {
        if op.flags & CLONE_THREAD != 0 {
            return;
        }
        self.close(id);
        let (think_ns, waits) = self.pause(id, op);
        let number = self.forks.len() as u32;
        self.forks.push(Fork {
            by: id,
            child: None,
            start_ns: op.start_ns,
        });
        self.starts.insert(child, number);
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        thread.end_ns = Some(op.start_ns);
        if thread.span_ns == (0, 0) {
            thread.span_ns.0 = op.start_ns;
        }
        thread.span_ns.1 = thread.span_ns.1.max(op.start_ns);
        if self.counts_only {
            return;
        }
        self.visits.push(Visited {
            start_ns: op.start_ns,
            think_ns,
            took_ns: 0,
            thread: id,
            shape: FORKS,
            node: NONE,
            to: NONE,
            pick: Pick::None,
            to_pick: Pick::None,
            before: Stage::default(),
            state: State::default(),
            begins: number,
            waits,
        });
    }

    /// A thread does its first operation: what it took to come there it thought.
    pub(super) fn begins(&mut self, tid: u32, id: u32) {
        let Some(number) = self.starts.remove(&tid) else {
            return;
        };
        let fork = self.forks.get_mut(number as usize);
        if let (Some(fork), Some(thread)) = (fork, self.threads.get_mut(id as usize)) {
            fork.child = Some(id);
            thread.fork = Some(number);
            thread.end_ns = Some(fork.start_ns);
        }
    }

    /// A thread does something; so those are of the model that it was begun by.
    pub(super) fn acts(&mut self, id: u32) {
        let mut next = Some(id);
        while let Some(thread) = next.and_then(|id| self.threads.get_mut(id as usize)) {
            if std::mem::replace(&mut thread.is_active, true) {
                return;
            }
            let fork = thread.fork.and_then(|fork| self.forks.get(fork as usize));
            next = fork.map(|fork| fork.by);
        }
    }

    /// A thread has ended: who began it may have waited for that.
    pub(super) fn ended(&mut self, id: u32, now_ns: u64) {
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        thread.exit_ns = Some(now_ns);
        let fork = thread.fork.filter(|_| thread.is_active);
        let fork = fork.and_then(|fork| self.forks.get(fork as usize));
        let parent = fork.and_then(|fork| self.threads.get_mut(fork.by as usize));
        if let Some(parent) = parent {
            parent.ended_ns = Some(now_ns);
        }
    }

    /// Whether the pause before an operation of a thread was until one had ended that it had begun: where the trace does not
    /// tell what threads wait for, it was if one ended in it.
    pub(super) fn waited(&mut self, id: u32, op: &Op) {
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return;
        };
        let ended_ns = thread.ended_ns.take();
        let waits = !op.record.contains(OpFlags::WAITS) || op.pause.waited_ns > 0;
        if let Some(ended_ns) = ended_ns.filter(|_| waits) {
            thread.waited_ns = Some(ended_ns);
            thread.has_waited = true;
        }
    }

    /// How long a thread thought before an operation, and whether it waited before that for one that it had begun.
    pub(super) fn pause(&mut self, id: u32, op: &Op) -> (u64, bool) {
        let Some(thread) = self.threads.get_mut(id as usize) else {
            return (0, false);
        };
        let waited_ns = thread.waited_ns.take();
        // What a thread does before its first operation is no pause of its.
        let since = thread.end_ns.max(waited_ns).unwrap_or(op.start_ns);
        let pause_ns = op.start_ns.saturating_sub(since);
        let think_ns = pause_ns.saturating_sub(op.record.held_back_ns());
        thread.came_ns.get_or_insert(think_ns);
        (think_ns, waited_ns.is_some())
    }

    /// Who did nothing but begin others is told by that.
    pub(super) fn fork_alone(&mut self) {
        for fork in &self.forks {
            let did = |id: u32| self.threads.get(id as usize).is_some_and(|t| t.is_active);
            if !fork.child.is_some_and(did) {
                continue;
            }
            if let Some(parent) = self.threads.get_mut(fork.by as usize)
                && (parent.mix.is_empty() || parent.mix.contains_key(&FORKS))
            {
                *parent.mix.entry(FORKS).or_default() += 1;
            }
        }
    }
}

//! Processes that others begin and wait for.

use rustc_hash::FxHashMap;

use super::super::gather::Visited;
use super::Fit;

/// What threads have begun so far.
#[derive(Debug, Default)]
pub(super) struct Begun {
    /// Of each those that may not have ended.
    living: FxHashMap<u32, Vec<u32>>,
    /// What one thought, and whether it waited, before it began what is none of the model's.
    carried: FxHashMap<u32, (u64, bool)>,
}

impl Begun {
    /// How long a thread thought before a visit, and for how many it did not wait and one more, 0 where it did not wait; `None`
    /// where what it does is none of the model's. `first`: the thread has done nothing before.
    pub(super) fn before(
        &mut self,
        fit: &Fit<'_>,
        visit: &Visited,
        first: bool,
    ) -> Option<(u64, u64)> {
        let thread = visit.thread;
        let carried = self.carried.remove(&thread);
        let first = first && carried.is_none();
        let carried = carried.unwrap_or_default();
        // Those that no line begins come when it is their turn, and do not think before that.
        let known = fit.gather.threads.get(thread as usize);
        let came_ns = known.and_then(|t| t.came_ns);
        let came_ns = came_ns.filter(|_| first && !fit.is_started(thread as usize));
        let think_ns = visit.think_ns.saturating_sub(came_ns.unwrap_or(0));
        let think_ns = carried.0.saturating_add(think_ns);
        let waits = visit.waits || carried.1;
        if visit.begins != super::NONE && fit.started(visit).is_none() {
            self.carried.insert(thread, (think_ns, waits));
            return None;
        }
        let living = self.living.entry(thread).or_default();
        let ended_ns = |child: u32| {
            let child = fit.gather.threads.get(child as usize);
            child.and_then(|c| c.exit_ns)
        };
        let mut left = 0;
        if waits {
            living.retain(|&child| ended_ns(child).is_none_or(|ns| ns > visit.start_ns));
            left = living.len() as u64 + 1;
        }
        let forks = &fit.gather.forks;
        let child = forks.get(visit.begins as usize).and_then(|f| f.child);
        living.extend(child);
        Some((think_ns, left))
    }
}

impl Fit<'_> {
    /// Whether a thread is begun by a line of another: it is the only one of its process, and does something, and the other
    /// waited for any. Who begins servers and lets them go tells nothing that their times do not.
    pub(super) fn is_started(&self, thread: usize) -> bool {
        let known = self.gather.threads.get(thread);
        let known = known.filter(|t| !t.mix.is_empty() && self.together.get(thread) == Some(&0));
        let fork = known.and_then(|t| self.gather.forks.get(t.fork? as usize));
        let parent = fork.and_then(|f| self.gather.threads.get(f.by as usize));
        parent.is_some_and(|parent| parent.has_waited)
    }

    /// The group, from 1, of the process that begins with what is no visit, where that is one of the model.
    pub(super) fn started(&self, visit: &Visited) -> Option<u32> {
        let fork = self.gather.forks.get(visit.begins as usize)?;
        let child = fork.child.filter(|&c| self.is_started(c as usize))?;
        self.groups.of.get(child as usize).map(|group| group + 1)
    }
}

//! Which processes work together: what one lists another reads, at the other end of a pipe or as its child.

use rustc_hash::FxHashMap;

/// So many processes are known at once; those before are of long ago.
const MOST: usize = 1 << 16;

/// Nobody has more ancestors that matter; a loop of numbers that were given again ends here too.
const MOST_ABOVE: usize = 64;

/// Whose child each process is, and since when (nanoseconds of the trace).
#[derive(Debug, Clone, Default)]
pub struct Family {
    parents: FxHashMap<u32, (u32, u64)>,
}

impl Family {
    /// A process starts another at `at_ns`.
    pub fn fork(&mut self, parent: u32, child: u32, at_ns: u64) {
        if self.parents.len() >= MOST {
            self.parents.clear();
        }
        self.parents.insert(child, (parent, at_ns));
    }

    fn parent(&self, pid: u32) -> Option<(u32, u64)> {
        self.parents.get(&pid).copied()
    }

    /// Whether a process may go by what another listed then: it is that one or of its descendants, or comes from one
    /// that ran beside it. What both come from is a shell, which starts the next program after that.
    pub fn together(&self, pid: u32, lister: u32, listed_ns: u64) -> bool {
        let up = |from: u32| {
            std::iter::successors(Some(from), |&pid| Some(self.parent(pid)?.0)).take(MOST_ABOVE)
        };
        for one in up(pid) {
            if one == lister {
                return true;
            }
            if up(lister).any(|above| above == one) {
                return false;
            }
            match self.parent(one) {
                Some((_, born_ns)) if born_ns > listed_ns => {}
                Some(_) => return true,
                None => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_s_other_end_and_a_child_work_with_who_lists_and_the_next_command_does_not() {
        let mut family = Family::default();
        let mut fork = |parent, child, at_ns| family.fork(parent, child, at_ns);
        // A shell, find | xargs, what xargs and find start, and the next command.
        fork(1, 2, 10);
        fork(2, 3, 20);
        fork(2, 4, 30);
        fork(4, 5, 200);
        fork(3, 6, 300);
        fork(2, 7, 400);
        for other in [3, 4, 5, 6] {
            assert!(family.together(other, 3, 100), "{other}");
        }
        for other in [1, 2, 7, 99] {
            assert!(!family.together(other, 3, 100), "{other}");
        }
    }
}

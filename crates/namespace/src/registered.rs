//! Files that programs registered with a ring of io_uring: requests name them by an index, which no trace
//! follows, and their descriptors may be closed since. The file of a request is known, and by it the open file.

use std::collections::VecDeque;
use std::hash::Hash;

use fsage_core::{Fd, Op, OpFlags, OpKind};
use rustc_hash::FxHashMap;

/// Open files that are kept though no descriptor names them.
const KEPT: usize = 512;
/// What is remembered of which descriptor it was.
const REMEMBERED: usize = 1 << 16;
/// They have numbers that no descriptor has.
const FIRST: i32 = i32::MIN / 2;

/// Which descriptor stands for a registered file. A file, `N`, may be open directly and not.
#[derive(Debug, Clone)]
pub struct Registered<N> {
    fds: FxHashMap<(u32, N, bool), Fd>,
    kept: VecDeque<(u32, Fd)>,
    made: i32,
}

impl<N> Default for Registered<N> {
    fn default() -> Self {
        Self {
            fds: FxHashMap::default(),
            kept: VecDeque::new(),
            made: 0,
        }
    }
}

/// Whether an operation is a request to a registered file, or one whose descriptor was not recorded.
#[inline]
pub fn is_of_registered(op: &Op) -> bool {
    use OpKind::{Fdatasync, Fsync, Read, Write};
    op.fd.is_none()
        && op.record.contains(OpFlags::URING)
        && matches!(op.kind, Read | Write | Fsync | Fdatasync)
}

impl<N: Copy + Eq + Hash> Registered<N> {
    /// The descriptor that stood for it the last time.
    pub fn last(&self, process: u32, file: N, direct: bool) -> Option<Fd> {
        self.fds.get(&(process, file, direct)).copied()
    }

    /// This descriptor stands for it now.
    pub fn set(&mut self, process: u32, file: N, direct: bool, fd: Fd) {
        if self.fds.len() >= REMEMBERED {
            self.fds.clear();
        }
        self.fds.insert((process, file, direct), fd);
    }

    /// A number for an open file that no descriptor names; with it the process and number of the one that is
    /// to be closed, as too many are open.
    pub fn make(&mut self, process: u32) -> (Fd, Option<(u32, Fd)>) {
        let fd = Fd(FIRST + self.made);
        self.made = (self.made + 1) % (1 << 29);
        self.kept.push_back((process, fd));
        let old = (self.kept.len() > KEPT).then(|| self.kept.pop_front());
        (fd, old.flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_without_descriptors_are_bounded_and_the_oldest_goes() {
        let mut registered = Registered::<u32>::default();
        let first = registered.make(7);
        assert_eq!(first.1, None);
        let others: Vec<_> = (1..KEPT).map(|_| registered.make(8)).collect();
        assert!(others.iter().all(|(fd, old)| fd.0 < 0 && old.is_none()));
        assert_eq!(registered.make(9).1, Some((7, first.0)));
    }
}

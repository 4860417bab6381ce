//! How much room the trace's own data takes, told from below: a trace that needs more than the target has is not begun.
//!
//! What is written beyond what a file held before counts; what is written into holes before that does not, and what goes
//! is taken off whole. So nothing is refused that fits.

use fsage_namespace::Ino;

use super::{ReplayTree, Replayed};

/// Bytes beyond those of the start.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Room {
    now: i64,
    most: i64,
}

impl Room {
    fn add(&mut self, bytes: i64) {
        self.now = self.now.saturating_add(bytes);
        self.most = self.most.max(self.now);
    }
}

/// Up to where a file of that size has data.
fn filled_to(own: &Replayed, size: u64) -> u64 {
    let of_start = !own.start.names.is_empty() && !own.start.changed;
    own.filled_to.max(if of_start { size } else { 0 })
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl ReplayTree {
    /// The most bytes that the trace has added at once.
    pub fn most_added(&self) -> u64 {
        u64::try_from(self.room.most).unwrap_or(0)
    }

    /// A range gets data; its file's size is not changed yet.
    pub fn fill(&mut self, node: Ino, from: u64, to: u64) {
        let size = self.size(node);
        let Some(inode) = self.inode_mut(node) else {
            return;
        };
        let before = filled_to(inode, size);
        if to > before {
            inode.filled_to = to;
            self.room.add(signed(to - from.max(before)));
        }
    }

    /// Data from there on goes.
    pub(super) fn empty_from(&mut self, node: Ino, at: u64) {
        let size = self.size(node);
        let Some(inode) = self.inode_mut(node) else {
            return;
        };
        let before = filled_to(inode, size);
        inode.filled_to = before.min(at);
        if before > at {
            self.room.add(-signed(before - at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_namespace::NodeKind;

    #[test]
    fn room_is_what_was_there_at_once() {
        let mut tree = ReplayTree::new(true);
        let top = tree.directory(b"/d");
        let old = tree.learn(top, b"old", NodeKind::Regular, None).unwrap();
        tree.saw_size(old, 100);
        // In place, then beyond its end.
        tree.fill(old, 0, 100);
        assert_eq!(tree.most_added(), 0);
        tree.fill(old, 50, 130);
        tree.extend(old, 130);
        assert_eq!(tree.most_added(), 30);
        let new = tree.create(top, b"new", NodeKind::Regular).unwrap();
        for _ in 0..3 {
            tree.fill(new, 0, 1000);
            tree.extend(new, 1000);
            tree.set_size(new, 0);
        }
        assert_eq!(tree.most_added(), 1030);
        // A hole takes none, and what goes makes room.
        tree.set_size(new, 1 << 40);
        tree.detach(top, b"old");
        tree.fill(new, 0, 1100);
        assert_eq!(tree.most_added(), 1030);
        tree.fill(new, 1 << 40, (1 << 40) + 500);
        assert_eq!(tree.most_added(), 1100 - 100 + 500);
    }
}

//! How names come and go, and what keeps the tree a tree.

use fsage_namespace::Ino;

use super::ReplayTree;

/// Directories that lie deeper are moved nowhere: no call can name them.
const DEPTH: usize = fsage_namespace::path::PATH_BYTES;

impl ReplayTree {
    /// Whether names can be made in it: what has several names is no directory.
    pub(super) fn may_hold(&self, dir: Ino) -> bool {
        self.inode(dir).is_some_and(|inode| inode.links <= 1)
    }

    /// Whether `node` can get a name in `dir`, given that it loses the one that it has.
    fn may_move(&self, node: Ino, dir: Ino) -> bool {
        let Some(inode) = self.inode(node) else {
            return false;
        };
        let one_name = inode.entries == 0 || inode.links <= 1;
        let outside = inode.entries == 0 && node != dir || self.lies_outside(dir, node);
        one_name && outside && self.may_hold(dir)
    }

    /// Whether `dir` is neither `node` nor lies in it.
    fn lies_outside(&self, dir: Ino, node: Ino) -> bool {
        let mut at = dir;
        for _ in 0..DEPTH {
            if at == node {
                return false;
            }
            match self.inode(at).map(|inode| Ino(inode.parent)) {
                Some(parent) if at != Ino::ROOT && parent.is_some() => at = parent,
                _ => return true,
            }
        }
        false
    }

    /// The name by which it was found last: of several, the one that is sure to be there.
    pub(super) fn found(&mut self, node: Ino, dir: Ino, name: &[u8]) {
        if let Some(inode) = self.inode_mut(node)
            && (inode.parent != dir.0 || *inode.name != *name)
        {
            inode.parent = dir.0;
            inode.name = name.into();
        }
    }

    /// Gives a file a further name that the trace made; a file that had it loses it. Whether that can
    /// be.
    pub fn attach(&mut self, dir: Ino, name: &[u8], node: Ino) -> bool {
        let alone = self.inode(node).is_some_and(|inode| inode.entries == 0);
        if !alone || node == dir || !self.may_hold(dir) {
            return false;
        }
        self.hold(node, true);
        self.detach(dir, name);
        self.put(dir, name, node);
        self.hold(node, false);
        true
    }

    pub(super) fn put(&mut self, dir: Ino, name: &[u8], node: Ino) {
        let id = self.files.name(dir, name);
        self.files.attach(id, node);
        self.found(node, dir, name);
    }

    /// Takes a name away; the file goes with its last name unless it is open.
    pub fn detach(&mut self, dir: Ino, name: &[u8]) -> Option<Ino> {
        self.spend(dir, name);
        let id = self.find(dir, name)?;
        let node = self.files.detach(id);
        self.forget_name(dir, name);
        self.release(node?);
        node
    }

    /// Moves a name, what had the new one loses it; with `exchange`, two names change their files.
    /// Whether that can be.
    pub fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), exchange: bool) -> bool {
        let (node, other) = (self.child_of(from.0, from.1), self.child_of(to.0, to.1));
        let Some(node) = node.filter(|_| other.is_some() || !exchange) else {
            return !exchange;
        };
        if other == Some(node) {
            return true;
        }
        let other_may = |other| {
            if exchange {
                self.may_move(other, from.0)
            } else {
                // What is replaced must not hold what replaces it.
                self.lies_outside(from.0, other)
            }
        };
        if !self.may_move(node, to.0) || !other.is_none_or(other_may) {
            return false;
        }
        self.spend(from.0, from.1);
        self.spend(to.0, to.1);
        let (old, new) = (self.name(from.0, from.1), self.name(to.0, to.1));
        self.files.rename(old, new, exchange);
        self.found(node, to.0, to.1);
        self.forget_name(from.0, from.1);
        match other {
            Some(other) if exchange => self.found(other, from.0, from.1),
            Some(other) => self.release(other),
            None => {}
        }
        true
    }

    /// Frees a file without names that nobody has open, and what was in it. One of the start is kept
    /// for its names.
    pub(super) fn release(&mut self, node: Ino) {
        let mut going = vec![node];
        while let Some(node) = going.pop() {
            let gone = self.is_gone(node);
            let Some(inode) = self.inode_mut(node).filter(|inode| !inode.freed) else {
                continue;
            };
            if inode.links == 0 {
                inode.parent = Ino::NONE.0;
            }
            if gone {
                let of_start = !inode.start.names.is_empty();
                inode.freed = !of_start;
                self.empty_from(node, 0);
                going.extend(self.files.empty(node));
                self.files.forget(node, !of_start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsage_namespace::NodeKind;

    fn tree(dirs: &[&str]) -> ReplayTree {
        let mut tree = ReplayTree::new(true);
        for dir in dirs {
            tree.directory(dir.as_bytes());
        }
        tree
    }

    fn at(tree: &mut ReplayTree, path: &str) -> (Ino, Box<[u8]>) {
        tree.walk(Ino::ROOT, path.as_bytes(), false, false)
            .last
            .unwrap()
    }

    fn rename(tree: &mut ReplayTree, from: &str, to: &str) -> bool {
        let (from, to) = (at(tree, from), at(tree, to));
        tree.rename((from.0, &from.1), (to.0, &to.1), false)
    }

    fn link(tree: &mut ReplayTree, from: &str, to: &str) -> bool {
        let node = tree.walk(Ino::ROOT, from.as_bytes(), false, false).node;
        let to = at(tree, to);
        tree.attach(to.0, &to.1, node.unwrap())
    }

    #[test]
    fn nothing_comes_to_lie_in_itself() {
        let mut tree = tree(&["/a/b/c", "/x"]);
        assert!(!rename(&mut tree, "/a", "/a/b/c/d"));
        assert!(!rename(&mut tree, "/a/b", "/a/b/c"));
        assert!(!rename(&mut tree, "/a/b/c", "/a"));
        assert!(!link(&mut tree, "/a", "/a/b/again"));
        assert!(!link(&mut tree, "/a", "/again"), "of a directory");
        assert!(!link(&mut tree, "/x", "/x/own"));
        let (one, two) = (at(&mut tree, "/a"), at(&mut tree, "/a/b/c"));
        assert!(!tree.rename((one.0, &one.1), (two.0, &two.1), true));
        assert!(rename(&mut tree, "/a/b", "/x/b"));
        assert!(rename(&mut tree, "/a", "/x/b/c/a"));
        let deepest = tree.walk(Ino::ROOT, b"/x/b/c/a", false, false).node;
        assert_eq!(tree.path(deepest.unwrap()).unwrap(), b"/x/b/c/a");
        assert!(!rename(&mut tree, "/x", "/x/b/c/a/x"));
    }

    #[test]
    fn a_name_that_is_gone_hides_no_circle() {
        // Its last name goes; the directory that it becomes lies under the first one.
        let mut tree = tree(&["/a", "/b"]);
        let (a, b) = (at(&mut tree, "/a/f"), at(&mut tree, "/b/f"));
        let file = tree.create(a.0, &a.1, NodeKind::Unknown).unwrap();
        assert!(tree.attach(b.0, &b.1, file));
        tree.detach(b.0, &b.1);
        tree.directory(b"/a/f/inside");
        assert!(!rename(&mut tree, "/a", "/a/f/inside/a"));
        assert!(rename(&mut tree, "/b", "/a/f/b"));
    }

    #[test]
    fn what_has_several_names_holds_none() {
        let mut tree = tree(&["/a", "/b"]);
        let (a, b) = (at(&mut tree, "/a/f"), at(&mut tree, "/b/f"));
        let file = tree.create(a.0, &a.1, NodeKind::Unknown).unwrap();
        assert!(tree.attach(b.0, &b.1, file));
        assert!(tree.create(file, b"child", NodeKind::Regular).is_none());
        assert!(
            tree.learn(file, b"child", NodeKind::Regular, None)
                .is_none()
        );
        assert!(
            tree.walk(Ino::ROOT, b"/a/f/x/y", false, true)
                .node
                .is_none()
        );
    }

    #[test]
    fn a_tree_that_goes_takes_all_of_it_along() {
        let mut tree = tree(&["/a/b/c"]);
        let (dir, name) = at(&mut tree, "/a/b/c");
        let open = tree.child_of(dir, &name).unwrap();
        tree.hold(open, true);
        let (dir, name) = at(&mut tree, "/a");
        tree.detach(dir, &name);
        assert_eq!(tree.path(open), None);
        assert!(tree.entries(Ino::ROOT).is_empty());
    }

    #[test]
    fn few_bytes_teach_few_names() {
        let mut tree = tree(&[]);
        let deep = "/a".repeat(2000);
        for n in 0..2000 {
            tree.learned.operation();
            tree.walk(Ino::ROOT, deep.as_bytes(), true, true);
            let from = at(&mut tree, "/a");
            let name = format!("b{n}");
            tree.rename((from.0, &from.1), (Ino::ROOT, name.as_bytes()), false);
        }
        assert!(tree.len().0 < 400_000, "{}", tree.len().0);
    }
}

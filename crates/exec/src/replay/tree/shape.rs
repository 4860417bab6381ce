//! How names come and go, and what keeps the tree a tree.

use rustc_hash::FxHashMap;

use super::{Node, Tree};

/// Directories that lie deeper are moved nowhere: no call can name them.
const DEPTH: usize = fsage_namespace::path::PATH_BYTES;

impl Tree {
    /// Whether names can be made in it: what has several names is no directory.
    pub(super) fn may_hold(&self, dir: Node) -> bool {
        self.get(dir).is_some_and(|inode| inode.links <= 1)
    }

    /// Whether `node` can get a name in `dir`, given that it loses the one that it has.
    fn may_move(&self, node: Node, dir: Node) -> bool {
        let Some(inode) = self.get(node) else {
            return false;
        };
        let one_name = inode.children.is_empty() || inode.links <= 1;
        let outside = inode.children.is_empty() && node != dir || self.lies_outside(dir, node);
        one_name && outside && self.may_hold(dir)
    }

    /// Whether `dir` is neither `node` nor lies in it.
    fn lies_outside(&self, dir: Node, node: Node) -> bool {
        let mut at = dir;
        for _ in 0..DEPTH {
            if at == node {
                return false;
            }
            match self.get(at).and_then(|inode| inode.parent) {
                Some(parent) => at = parent,
                None => return true,
            }
        }
        false
    }

    /// The name by which it was found last: of several, the one that is sure to be there.
    pub(super) fn found(&mut self, node: Node, dir: Node, name: &[u8]) {
        if let Some(inode) = self.get_mut(node)
            && (inode.parent != Some(dir) || *inode.name != *name)
        {
            inode.parent = Some(dir);
            inode.name = name.into();
        }
    }

    /// Gives a file a further name that the trace made; a file that had it loses it. Whether that can
    /// be.
    pub fn attach(&mut self, dir: Node, name: &[u8], node: Node) -> bool {
        let alone = self
            .get(node)
            .is_some_and(|inode| inode.children.is_empty());
        if !alone || node == dir || !self.may_hold(dir) {
            return false;
        }
        self.hold(node, true);
        self.detach(dir, name);
        self.put(dir, name, node);
        self.hold(node, false);
        true
    }

    pub(super) fn put(&mut self, dir: Node, name: &[u8], node: Node) {
        if let Some(inode) = self.get_mut(dir) {
            inode.children.insert(name.into(), node);
        }
        if let Some(inode) = self.get_mut(node) {
            inode.links += 1;
            inode.parent = Some(dir);
            inode.name = name.into();
        }
    }

    /// Takes a name away; the file goes with its last name unless it is open.
    pub fn detach(&mut self, dir: Node, name: &[u8]) -> Option<Node> {
        self.spend(dir, name);
        let node = self.get_mut(dir)?.children.remove(name)?;
        self.lose_name(node);
        self.release(node);
        Some(node)
    }

    fn lose_name(&mut self, node: Node) {
        if let Some(inode) = self.get_mut(node) {
            inode.links = inode.links.saturating_sub(1);
            if inode.links == 0 {
                inode.parent = None;
            }
        }
    }

    /// Moves a name; what had the new one loses it. Whether that can be.
    pub fn rename(&mut self, from: (Node, &[u8]), to: (Node, &[u8])) -> bool {
        let Some(node) = self.child(from.0, from.1) else {
            return true;
        };
        let target = self.child(to.0, to.1);
        if target == Some(node) {
            return true;
        }
        // What is replaced must not hold what replaces it.
        let replaced = target.is_none_or(|target| self.lies_outside(from.0, target));
        if !replaced || !self.may_move(node, to.0) {
            return false;
        }
        // Held, so that it does not go between its two names.
        self.hold(node, true);
        self.detach(from.0, from.1);
        self.detach(to.0, to.1);
        self.put(to.0, to.1, node);
        self.hold(node, false);
        true
    }

    /// Two names change their files. Whether that can be.
    pub fn exchange(&mut self, one: (Node, &[u8]), two: (Node, &[u8])) -> bool {
        let (Some(a), Some(b)) = (self.child(one.0, one.1), self.child(two.0, two.1)) else {
            return false;
        };
        if a == b {
            return true;
        }
        if !self.may_move(a, two.0) || !self.may_move(b, one.0) {
            return false;
        }
        self.hold(a, true);
        self.hold(b, true);
        self.detach(one.0, one.1);
        self.detach(two.0, two.1);
        self.put(one.0, one.1, b);
        self.put(two.0, two.1, a);
        self.hold(a, false);
        self.hold(b, false);
        true
    }

    /// Frees a file without names that nobody has open, and what was in it. One of the start is kept
    /// for its names.
    pub(super) fn release(&mut self, node: Node) {
        let mut going = vec![node];
        while let Some(node) = going.pop() {
            let Some(inode) = self.get_mut(node) else {
                continue;
            };
            if inode.links > 0 || inode.opens > 0 || inode.freed || node == Node::ROOT {
                continue;
            }
            let id = inode.id.take();
            let of_start = !inode.start.names.is_empty();
            let children: FxHashMap<_, _> = std::mem::take(&mut inode.children);
            inode.freed = !of_start;
            if let Some(id) = id.filter(|id| self.by_id.get(id) == Some(&node)) {
                self.by_id.remove(&id);
            }
            if !of_start {
                self.free.push(node);
            }
            for child in children.into_values() {
                self.lose_name(child);
                going.push(child);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn tree(dirs: &[&str]) -> Tree {
        let mut tree = Tree::new(true);
        for dir in dirs {
            tree.directory(dir.as_bytes());
        }
        tree
    }

    fn at(tree: &mut Tree, path: &str) -> (Node, Box<[u8]>) {
        tree.walk(Node::ROOT, path.as_bytes(), false, false)
            .last
            .unwrap()
    }

    fn rename(tree: &mut Tree, from: &str, to: &str) -> bool {
        let (from, to) = (at(tree, from), at(tree, to));
        tree.rename((from.0, &from.1), (to.0, &to.1))
    }

    fn link(tree: &mut Tree, from: &str, to: &str) -> bool {
        let node = tree.walk(Node::ROOT, from.as_bytes(), false, false).node;
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
        assert!(!tree.exchange((one.0, &one.1), (two.0, &two.1)));
        assert!(rename(&mut tree, "/a/b", "/x/b"));
        assert!(rename(&mut tree, "/a", "/x/b/c/a"));
        let deepest = tree.walk(Node::ROOT, b"/x/b/c/a", false, false).node;
        assert_eq!(tree.path(deepest.unwrap()).unwrap(), b"/x/b/c/a");
        assert!(!rename(&mut tree, "/x", "/x/b/c/a/x"));
    }

    #[test]
    fn a_name_that_is_gone_hides_no_circle() {
        // Its last name goes; the directory that it becomes lies under the first one.
        let mut tree = tree(&["/a", "/b"]);
        let (a, b) = (at(&mut tree, "/a/f"), at(&mut tree, "/b/f"));
        let file = tree.create(a.0, &a.1, Kind::Unknown).unwrap();
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
        let file = tree.create(a.0, &a.1, Kind::Unknown).unwrap();
        assert!(tree.attach(b.0, &b.1, file));
        assert!(tree.create(file, b"child", Kind::File).is_none());
        assert!(tree.learn(file, b"child", Kind::File, None).is_none());
        assert!(
            tree.walk(Node::ROOT, b"/a/f/x/y", false, true)
                .node
                .is_none()
        );
    }

    #[test]
    fn a_tree_that_goes_takes_all_of_it_along() {
        let mut tree = tree(&["/a/b/c"]);
        let (dir, name) = at(&mut tree, "/a/b/c");
        let open = tree.child(dir, &name).unwrap();
        tree.hold(open, true);
        let (dir, name) = at(&mut tree, "/a");
        tree.detach(dir, &name);
        assert_eq!(tree.path(open), None);
        assert!(tree.entries(Node::ROOT).is_empty());
    }

    #[test]
    fn few_bytes_teach_few_names() {
        let mut tree = tree(&[]);
        let deep = "/a".repeat(2000);
        for n in 0..2000 {
            tree.learned.operation();
            tree.walk(Node::ROOT, deep.as_bytes(), true, true);
            let from = at(&mut tree, "/a");
            let name = format!("b{n}");
            tree.rename((from.0, &from.1), (Node::ROOT, name.as_bytes()));
        }
        assert!(tree.nodes.len() < 400_000, "{}", tree.nodes.len());
    }
}

//! The tree of names against a plain one: nodes behind `Rc`, found by walking down from the root.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fsage_core::{DevId, FileId};
use fsage_namespace::{Ino, NodeKind, Tree, Way};
use proptest::prelude::*;

/// A file told plainly: it is there while something holds its `Rc`.
struct Plain {
    number: u64,
    kind: NodeKind,
    target: Option<Vec<u8>>,
    names: RefCell<BTreeMap<Vec<u8>, Rc<Plain>>>,
    above: RefCell<Option<Rc<Plain>>>,
    links: Cell<u32>,
}

impl Plain {
    fn new(number: u64, kind: NodeKind, target: Option<Vec<u8>>) -> Rc<Self> {
        Rc::new(Self {
            number,
            kind,
            target,
            names: RefCell::default(),
            above: RefCell::default(),
            links: Cell::new(0),
        })
    }

    fn put(dir: &Rc<Plain>, name: &[u8], file: &Rc<Plain>) {
        dir.names
            .borrow_mut()
            .insert(name.to_vec(), Rc::clone(file));
        *file.above.borrow_mut() = Some(Rc::clone(dir));
        file.links.set(file.links.get() + 1);
    }

    fn take(dir: &Rc<Plain>, name: &[u8]) -> Option<Rc<Plain>> {
        let file = dir.names.borrow_mut().remove(name)?;
        file.links.set(file.links.get() - 1);
        Some(file)
    }
}

/// Resolves by rewriting the text of the path until no link is left in it.
fn plainly(root: &Rc<Plain>, path: &[u8]) -> Option<Rc<Plain>> {
    let mut names: Vec<Vec<u8>> = parts(path);
    let mut links = 0;
    'again: loop {
        let mut at = Rc::clone(root);
        for index in 0..names.len() {
            if names[index] == b".." {
                let above = at.above.borrow().clone();
                at = above.unwrap_or_else(|| Rc::clone(root));
                continue;
            }
            let next = at.names.borrow().get(&names[index]).cloned()?;
            if let Some(target) = &next.target {
                links += 1;
                if links > 40 {
                    return None;
                }
                let before = if target[0] == b'/' { 0 } else { index };
                let mut longer = names[..before].to_vec();
                longer.extend(parts(target));
                longer.extend_from_slice(&names[index + 1..]);
                names = longer;
                continue 'again;
            }
            at = next;
        }
        return Some(at);
    }
}

fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|&b| b == b'/').map(<[u8]>::to_vec);
    parts.filter(|p| !p.is_empty() && p != b".").collect()
}

/// The same by the tree.
fn resolved(tree: &Tree<u64>, path: &[u8]) -> Option<Ino> {
    let mut way = Way::new(Ino::ROOT, path, 0);
    while let Some(name) = way.next() {
        if &*name == b".." {
            way.at = tree.above(way.at);
            continue;
        }
        let next = tree.child_of(way.at, &name)?;
        match tree.target(next) {
            Some(text) if !way.follow(text) => return None,
            Some(_) => {}
            None => way.at = next,
        }
    }
    Some(way.at)
}

#[derive(Debug, Clone)]
enum Change {
    Make(NodeKind, Vec<u8>, Vec<u8>),
    Link(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>, bool),
    Rename(Vec<u8>, Vec<u8>, bool),
    Hold(Vec<u8>),
    Close(usize),
}

fn any_path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![6 => "[a-d]", 1 => Just("..".to_string()), 1 => Just(".".to_string())];
    (any::<bool>(), proptest::collection::vec(part, 1..5)).prop_map(|(absolute, parts)| {
        let path = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
        path.into_bytes()
    })
}

fn any_change() -> impl Strategy<Value = Change> {
    let kind = prop_oneof![
        Just(NodeKind::Regular),
        Just(NodeKind::Directory),
        Just(NodeKind::Symlink)
    ];
    prop_oneof![
        4 => (kind, any_path(), any_path()).prop_map(|(k, p, t)| Change::Make(k, p, t)),
        1 => (any_path(), any_path()).prop_map(|(a, b)| Change::Link(a, b)),
        2 => (any_path(), any::<bool>()).prop_map(|(p, forget)| Change::Remove(p, forget)),
        2 => (any_path(), any_path(), any::<bool>()).prop_map(|(a, b, x)| Change::Rename(a, b, x)),
        1 => any_path().prop_map(Change::Hold),
        1 => (0..8usize).prop_map(Change::Close),
    ]
}

fn id(number: u64) -> FileId {
    FileId {
        dev: DevId(1),
        ino: number,
        generation: 0,
    }
}

struct Both {
    tree: Tree<u64>,
    root: Rc<Plain>,
    open: Vec<(Ino, Rc<Plain>)>,
    made: u64,
}

impl Both {
    /// A directory and a name in it, as both have them.
    fn place(&self, path: &[u8]) -> Option<(Ino, Rc<Plain>, Vec<u8>)> {
        let mut names = parts(path);
        let name = names.pop().filter(|name| name != b"..")?;
        let above = names.join(&b'/');
        let dir = plainly(&self.root, &above).filter(|d| d.kind == NodeKind::Directory)?;
        Some((resolved(&self.tree, &above).unwrap(), dir, name))
    }

    fn gone(&mut self, ino: Ino, file: &Rc<Plain>) {
        let open = self.open.iter().any(|(_, other)| Rc::ptr_eq(other, file));
        assert_eq!(self.tree.is_gone(ino), file.links.get() == 0 && !open);
        if self.tree.is_gone(ino) {
            self.tree.empty(ino);
            self.tree.forget(ino, file.kind != NodeKind::Directory);
            assert_eq!(self.tree.identified(id(file.number)), None);
        }
    }

    fn apply(&mut self, change: &Change) -> Option<()> {
        match change {
            Change::Make(kind, path, text) => {
                let (ino, dir, name) = self.place(path)?;
                if dir.names.borrow().contains_key(&name) {
                    return None;
                }
                self.made += 1;
                let target = (*kind == NodeKind::Symlink).then(|| text.clone());
                Plain::put(&dir, &name, &Plain::new(self.made, *kind, target.clone()));
                let name = self.tree.name(ino, &name);
                let made = self.tree.create(name, *kind, self.made);
                self.tree.identify(made, id(self.made));
                if let Some(text) = target {
                    self.tree.set_target(made, &text);
                }
            }
            Change::Link(from, to) => {
                let (ino, dir, name) = self.place(from)?;
                let file = dir.names.borrow().get(&name).cloned()?;
                let node = self.tree.child_of(ino, &name).unwrap();
                let (ino, dir, name) = self.place(to)?;
                if file.kind == NodeKind::Directory || dir.names.borrow().contains_key(&name) {
                    return None;
                }
                Plain::put(&dir, &name, &file);
                let name = self.tree.name(ino, &name);
                self.tree.attach(name, node);
            }
            Change::Remove(path, forget) => {
                let (ino, dir, name) = self.place(path)?;
                let held = |f: &Rc<Plain>| !f.names.borrow().is_empty();
                if dir.names.borrow().get(&name).is_some_and(held) {
                    return None;
                }
                let file = Plain::take(&dir, &name);
                let node = self.tree.find(ino, &name).and_then(|n| self.tree.detach(n));
                assert_eq!(node.is_some(), file.is_some());
                if *forget {
                    self.tree.forget_name(ino, &name);
                    assert_eq!(self.tree.find(ino, &name), None);
                }
                self.gone(node?, &file?);
            }
            Change::Rename(from, to, exchange) => self.rename(from, to, *exchange)?,
            Change::Hold(path) => {
                let file = plainly(&self.root, path)?;
                let ino = resolved(&self.tree, path).unwrap();
                self.tree.inode_mut(ino)?.opens += 1;
                self.open.push((ino, file));
            }
            Change::Close(index) => {
                if *index < self.open.len() {
                    let (ino, file) = self.open.remove(*index);
                    self.tree.inode_mut(ino)?.opens -= 1;
                    if ino != Ino::ROOT {
                        self.gone(ino, &file);
                    }
                }
            }
        }
        Some(())
    }

    fn rename(&mut self, from: &[u8], to: &[u8], exchange: bool) -> Option<()> {
        let (ino, dir, name) = self.place(from)?;
        let (ino2, dir2, name2) = self.place(to)?;
        let one = dir.names.borrow().get(&name).cloned()?;
        let two = dir2.names.borrow().get(&name2).cloned();
        // What is moved must not come to lie in itself, and only an empty directory is replaced.
        for (file, into) in [(Some(&one), &dir2), (two.as_ref(), &dir)] {
            let mut at = Some(Rc::clone(into));
            while let Some(dir) = at {
                if file.is_some_and(|file| Rc::ptr_eq(file, &dir)) {
                    return None;
                }
                let above = dir.above.borrow().clone();
                at = above;
            }
        }
        if !exchange
            && two
                .as_ref()
                .is_some_and(|two| !two.names.borrow().is_empty())
        {
            return None;
        }
        let (a, b) = (self.tree.name(ino, &name), self.tree.name(ino2, &name2));
        let before = self.tree.child(b);
        let other = self.tree.rename(a, b, exchange);
        if two.as_ref().is_some_and(|two| Rc::ptr_eq(two, &one)) {
            assert_eq!(other, None);
            return None;
        }
        assert_eq!(other, before);
        Plain::take(&dir, &name);
        Plain::take(&dir2, &name2);
        if let Some(two) = two.as_ref().filter(|_| exchange) {
            Plain::put(&dir, &name, two);
        }
        Plain::put(&dir2, &name2, &one);
        if !exchange {
            self.gone(other?, &two?);
        }
        Some(())
    }

    /// Every name below, and what is known of its file.
    fn same(&self, ino: Ino, dir: &Rc<Plain>) {
        let names = dir.names.borrow();
        let entries = self.tree.entries(ino);
        assert_eq!(entries.len(), names.len());
        assert_eq!(self.tree.inode(ino).unwrap().entries as usize, names.len());
        for ((name, node), (plain_name, file)) in entries.into_iter().zip(names.iter()) {
            assert_eq!(name, plain_name);
            let inode = self.tree.inode(node).unwrap();
            assert_eq!((inode.kind, inode.links), (file.kind, file.links.get()));
            assert_eq!(**inode, file.number);
            assert_eq!(self.tree.identified(id(file.number)), Some(node));
            assert_eq!(self.tree.target(node), file.target.as_deref());
            if file.kind == NodeKind::Directory {
                assert_eq!(self.tree.above(node), ino);
                self.same(node, file);
            }
        }
    }
}

proptest! {
    #[test]
    fn it_is_the_tree_that_the_changes_make(
        changes in proptest::collection::vec(any_change(), 0..80),
        paths in proptest::collection::vec(any_path(), 8),
    ) {
        let root = Plain::new(0, NodeKind::Directory, None);
        let mut both = Both { tree: Tree::new(0), root, open: Vec::new(), made: 0 };
        for change in &changes {
            both.apply(change);
            both.same(Ino::ROOT, &Rc::clone(&both.root));
            for path in &paths {
                let plain = plainly(&both.root, path).map(|f| f.number);
                let node = resolved(&both.tree, path);
                prop_assert_eq!(node.map(|n| **both.tree.inode(n).unwrap()), plain);
            }
        }
    }
}

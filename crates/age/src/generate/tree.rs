//! The names as they are while a workload goes on, and the calls that lead from one snapshot's to the next's.

use fsage_core::FileType;
use rustc_hash::{FxHashMap, FxHashSet};

use super::GenerateError;
use super::emit::Emitter;
use super::state::{Inode, Name, ROOT, State};

#[derive(Debug)]
struct Node {
    directory: bool,
    /// Bytes that go with it.
    data: u64,
    size: u64,
    names: Vec<Name>,
}

/// What is there.
#[derive(Debug, Default)]
pub struct AgedTree {
    nodes: FxHashMap<u64, Node>,
    taken: FxHashMap<Name, u64>,
    /// Children of directories.
    entries: FxHashMap<u64, u64>,
    /// Inodes of what is there that are yet to go.
    pub doomed: FxHashSet<u64>,
    /// What was taken aside and is yet to come to its place.
    pub aside: Vec<u64>,
    /// With how many bytes files are made that grow on later that day.
    pub begun: FxHashMap<u64, u64>,
    /// Files and how far they are written when they are written out at once.
    pub written_out: FxHashSet<(u64, u64)>,
}

type Done = Result<(), GenerateError>;

impl AgedTree {
    /// Whether it is there.
    pub fn has(&self, ino: u64) -> bool {
        ino == ROOT || self.nodes.contains_key(&ino)
    }

    /// Its path, by its first name.
    pub fn path(&self, ino: u64) -> Vec<u8> {
        let mut parts: Vec<&[u8]> = Vec::new();
        let mut at = ino;
        while let Some((dir, name)) = self.nodes.get(&at).and_then(|n| n.names.first()) {
            parts.push(name);
            at = *dir;
        }
        parts.reverse();
        parts.join(&b'/')
    }

    fn path_of(&self, (dir, name): &Name) -> Vec<u8> {
        let mut path = self.path(*dir);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn attach(&mut self, ino: u64, name: Name) {
        *self.entries.entry(name.0).or_default() += 1;
        self.taken.insert(name.clone(), ino);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names.push(name);
        }
    }

    fn detach(&mut self, ino: u64, name: &Name) {
        if let Some(entries) = self.entries.get_mut(&name.0) {
            *entries = entries.saturating_sub(1);
        }
        self.taken.remove(name);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.names.retain(|n| n != name);
        }
    }

    /// Makes what `next` has under that number, its directories before it.
    pub fn make(&mut self, ino: u64, next: &State, out: &mut Emitter<'_>) -> Done {
        if self.doomed.contains(&ino) {
            // Replaced: the one before it goes first.
            self.remove_all(ino, out)?;
        }
        if self.has(ino) {
            return Ok(());
        }
        let Some(inode) = next.inodes.get(&ino) else {
            return Ok(());
        };
        let Some(first) = inode.names.first() else {
            return Ok(());
        };
        self.make(first.0, next, out)?;
        let over = self.over(inode, first);
        if over.is_none() {
            self.clear(first, out)?;
        }
        let begun = self.begun.remove(&ino);
        let (data, size) = begun.map_or((inode.data, inode.size), |bytes| (bytes, bytes));
        let path = self.path_of(first);
        match inode.kind {
            FileType::Directory => out.mkdir(&path)?,
            FileType::Symlink => out.symlink(&path, &inode.target)?,
            _ => self.make_file(ino, (data, size), (&path, over, first), out)?,
        }
        self.nodes.insert(
            ino,
            Node {
                directory: inode.kind == FileType::Directory,
                data,
                size,
                names: Vec::new(),
            },
        );
        self.attach(ino, first.clone());
        for name in inode.names.iter().skip(1) {
            self.add_name(ino, name, next, out)?;
        }
        self.write_out(ino, data, out)
    }

    /// What is written to other files before it goes on lies behind it.
    fn write_out(&self, ino: u64, to: u64, out: &mut Emitter<'_>) -> Done {
        if self.written_out.contains(&(ino, to)) {
            out.fsync(&self.path(ino))?;
        }
        Ok(())
    }

    /// The file that the new one takes the name of: both were there at once, so it was renamed over.
    fn over(&self, inode: &Inode, name: &Name) -> Option<u64> {
        let old = *self.taken.get(name)?;
        let node = self.nodes.get(&old)?;
        let plain = inode.kind == FileType::Regular && !node.directory && node.names.len() == 1;
        (plain && self.doomed.contains(&old)).then_some(old)
    }

    fn make_file(
        &mut self,
        ino: u64,
        (data, size): (u64, u64),
        (path, over, name): (&[u8], Option<u64>, &Name),
        out: &mut Emitter<'_>,
    ) -> Done {
        let Some(old) = over else {
            out.create(path, data)?;
            return hole(path, data, size, out);
        };
        let beside = self.path_of(&(name.0, format!(".new-{ino}").into_bytes().into()));
        out.create(&beside, data)?;
        hole(&beside, data, size, out)?;
        let replaced = self.nodes.get(&old).map_or(0, |n| n.data);
        out.rename(&beside, path, replaced)?;
        self.detach(old, name);
        self.nodes.remove(&old);
        self.doomed.remove(&old);
        Ok(())
    }

    fn add_name(&mut self, ino: u64, name: &Name, next: &State, out: &mut Emitter<'_>) -> Done {
        self.make(name.0, next, out)?;
        self.clear(name, out)?;
        let (from, to) = (self.path(ino), self.path_of(name));
        out.link(&from, &to)?;
        self.attach(ino, name.clone());
        Ok(())
    }

    /// Frees a name: what has it goes if it is to go, or aside until its turn comes.
    fn clear(&mut self, name: &Name, out: &mut Emitter<'_>) -> Done {
        let Some(&old) = self.taken.get(name) else {
            return Ok(());
        };
        let empty = self.entries.get(&old).is_none_or(|&n| n == 0);
        if self.doomed.contains(&old) && empty {
            return self.remove(old, out);
        }
        self.set_aside(old, name, out)
    }

    fn rename(&mut self, ino: u64, from: &Name, to: Name, out: &mut Emitter<'_>) -> Done {
        let (path, path2) = (self.path_of(from), self.path_of(&to));
        out.rename(&path, &path2, 0)?;
        self.detach(ino, from);
        self.attach(ino, to);
        Ok(())
    }

    /// Takes it to the root until its turn comes.
    fn set_aside(&mut self, ino: u64, from: &Name, out: &mut Emitter<'_>) -> Done {
        self.aside.push(ino);
        let name = format!(".moved-{ino}-{}", self.aside.len());
        self.rename(ino, from, (ROOT, name.into_bytes().into()), out)
    }

    /// Gives it the names that `next` has for it.
    pub fn settle(&mut self, ino: u64, next: &State, out: &mut Emitter<'_>) -> Done {
        let Some(inode) = next.inodes.get(&ino) else {
            return Ok(());
        };
        let has = |tree: &Self| {
            tree.nodes
                .get(&ino)
                .map(|n| n.names.clone())
                .unwrap_or_default()
        };
        for name in &inode.names {
            let names = has(self);
            if names.contains(name) {
                continue;
            }
            self.make(name.0, next, out)?;
            if self.beneath(name.0, ino) {
                // What it is to lie in lies in it: that one's turn comes first.
                self.out_of_the_way(name.0, ino, next, out)?;
                if self.beneath(name.0, ino) {
                    continue;
                }
            }
            self.clear(name, out)?;
            match has(self).iter().find(|n| !inode.names.contains(n)).cloned() {
                Some(gone) => self.rename(ino, &gone, name.clone(), out)?,
                None => self.add_name(ino, name, next, out)?,
            }
        }
        for gone in has(self).iter().filter(|n| !inode.names.contains(n)) {
            let path = self.path_of(gone);
            out.unlink(&path, 0)?;
            self.detach(ino, gone);
        }
        Ok(())
    }

    fn beneath(&self, mut dir: u64, ino: u64) -> bool {
        while dir != ROOT {
            if dir == ino {
                return true;
            }
            let Some(name) = self.nodes.get(&dir).and_then(|n| n.names.first()) else {
                return false;
            };
            dir = name.0;
        }
        false
    }

    /// Takes the directory between `dir` and `ino` that is not to stay there to the root.
    fn out_of_the_way(&mut self, dir: u64, ino: u64, next: &State, out: &mut Emitter<'_>) -> Done {
        let mut at = dir;
        while at != ROOT && at != ino {
            let Some(name) = self.nodes.get(&at).and_then(|n| n.names.first()).cloned() else {
                break;
            };
            let stays = next
                .inodes
                .get(&at)
                .is_some_and(|i| i.names.contains(&name));
            if !stays || name.0 == ino {
                return self.set_aside(at, &name, out);
            }
            at = name.0;
        }
        Ok(())
    }

    /// Writes it up to so many bytes of what `next` has, anew or behind what it had.
    pub fn modify(
        &mut self,
        ino: u64,
        (to, anew): (u64, bool),
        next: &State,
        out: &mut Emitter<'_>,
    ) -> Done {
        let path = self.path(ino);
        let (Some(inode), Some(node)) = (next.inodes.get(&ino), self.nodes.get_mut(&ino)) else {
            return Ok(());
        };
        let (old, last) = (node.data, to >= inode.data);
        let whole = old == node.size && (!last || inode.data == inode.size);
        (node.data, node.size) = (to, if last { inode.size } else { to });
        if anew || !whole || to < old {
            out.rewrite(&path, old, to)?;
        } else if to > old {
            out.append(&path, old, to)?;
        }
        if last {
            hole(&path, to, inode.size, out)?;
        }
        self.write_out(ino, to, out)
    }

    /// Removes all its names, and it with them.
    pub fn remove(&mut self, ino: u64, out: &mut Emitter<'_>) -> Done {
        self.doomed.remove(&ino);
        let Some(node) = self.nodes.get(&ino) else {
            return Ok(());
        };
        let (names, data, directory) = (node.names.clone(), node.data, node.directory);
        for (nth, name) in names.iter().enumerate() {
            let path = self.path_of(name);
            if directory {
                out.rmdir(&path)?;
            } else {
                let last = nth + 1 == names.len();
                out.unlink(&path, if last { data } else { 0 })?;
            }
            self.detach(ino, name);
        }
        self.nodes.remove(&ino);
        Ok(())
    }

    /// Removes it with what lies in it and is to go; what is to stay goes aside.
    pub fn remove_all(&mut self, ino: u64, out: &mut Emitter<'_>) -> Done {
        let mut within: Vec<(Name, u64)> = Vec::new();
        if !self.is_empty(ino) {
            let names = self.taken.iter().filter(|((dir, _), _)| *dir == ino);
            within = names.map(|(name, &child)| (name.clone(), child)).collect();
            within.sort();
        }
        for (name, child) in within {
            if self.taken.get(&name) != Some(&child) {
                // It went with another of its names.
                continue;
            }
            if self.doomed.contains(&child) {
                self.remove_all(child, out)?;
            } else {
                self.set_aside(child, &name, out)?;
            }
        }
        self.remove(ino, out)
    }

    /// Whether nothing lies in it.
    pub fn is_empty(&self, ino: u64) -> bool {
        self.entries.get(&ino).is_none_or(|&n| n == 0)
    }
}

fn hole(path: &[u8], data: u64, size: u64, out: &mut Emitter<'_>) -> Done {
    if size > data {
        out.truncate(path, data, size)?;
    }
    Ok(())
}

//! What is there while a model is played, and the changes that its calls come to.

use std::collections::BTreeMap;
use std::ops::Range;

use fsage_core::Op;
use fsage_namespace::flags::{O_CREAT, O_TRUNC};
use fsage_namespace::path::{is_beneath, moved};
use rustc_hash::FxHashMap;

use super::super::GenerateError;
use super::super::emit::{Emitter, blocks};
use super::held::Held;

/// Where symbolic links lead: to nothing.
const ELSEWHERE: &[u8] = b"elsewhere";

type Done = Result<(), GenerateError>;

#[derive(Debug, Default)]
struct Node {
    is_directory: bool,
    size: u64,
    /// Where it has blocks.
    held: Held,
    /// The paths that lead to it; one of a directory. Of one that was removed while it is open the last that did.
    names: Vec<Vec<u8>>,
    /// Descriptors that it is open by.
    opens: u32,
}

/// What is left out where a name that is needed again was that of a file which is still written.
const NAMELESS: &str = "bytes written to files that no name led to any more";

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is made.
    New,
    /// What it had goes.
    Anew,
    /// The rest of it stays.
    Beside,
}

/// What is to be written to a file in one piece.
#[derive(Debug)]
struct Writing {
    node: u32,
    how: How,
    range: Range<u64>,
}

/// The names that are there, what is open, and what is yet to be written.
#[derive(Debug, Default)]
pub(super) struct Tree {
    names: BTreeMap<Vec<u8>, u32>,
    nodes: FxHashMap<u32, Node>,
    made: u32,
    /// Files that were removed while they are open, by their last name: their blocks are there until the last close, so
    /// they are removed then.
    removed: BTreeMap<Vec<u8>, u32>,
    /// By process and descriptor.
    open: BTreeMap<(u32, i32), u32>,
    writing: Option<Writing>,
}

impl Tree {
    /// A visit has ended: what it wrote is written.
    pub fn write(&mut self, out: &mut Emitter<'_>) -> Done {
        let Some(Writing { node, how, range }) = self.writing.take() else {
            return Ok(());
        };
        let Some(node) = self.nodes.get_mut(&node) else {
            out.leave_out(NAMELESS, range.end.saturating_sub(range.start));
            return Ok(());
        };
        let (old, end) = (node.size, range.end);
        let Some(path) = node.names.first() else {
            return Ok(());
        };
        match how {
            How::New | How::Anew => {
                let freed = std::mem::take(&mut node.held).bytes();
                node.size = end;
                node.held.add(&range);
                if how == How::New {
                    out.create(path, end)
                } else {
                    out.rewrite(path, freed, end)
                }
            }
            How::Beside => {
                node.size = end.max(old);
                let more = node.held.add(&range);
                if range.start == old && more == blocks(end) - blocks(old) {
                    out.append(path, old, end)
                } else {
                    out.write_beside(path, range, (old, more))
                }
            }
        }
    }

    /// A file of the population.
    pub fn make(&mut self, out: &mut Emitter<'_>, path: &[u8], size: u64) -> Done {
        if let Some(node) = self.add(out, path, false) {
            node.size = size;
            node.held.add(&(0..size));
            out.create(path, size)?;
        }
        Ok(())
    }

    pub fn open(&mut self, out: &mut Emitter<'_>, path: &[u8], op: &Op) -> Done {
        self.write(out)?;
        let how = match self.names.get(path) {
            Some(_) if op.flags & O_TRUNC != 0 => Some(How::Anew),
            Some(_) => None,
            None if op.flags & O_CREAT != 0 => {
                self.give_up(out, path)?;
                if self.add(out, path, false).is_none() {
                    return Ok(());
                }
                Some(How::New)
            }
            None => return Ok(()),
        };
        let Some(&node) = self.names.get(path) else {
            return Ok(());
        };
        let Some(known) = self.nodes.get(&node).filter(|known| !known.is_directory) else {
            return Ok(());
        };
        // Cutting nothing is no change.
        let how = how.filter(|how| *how == How::New || known.size > 0);
        self.writing = how.map(|how| Writing {
            node,
            how,
            range: 0..0,
        });
        if let Some(fd) = op.result.value() {
            if let Some(known) = self.nodes.get_mut(&node) {
                known.opens += 1;
            }
            let before = self.open.insert((op.pid.0, fd as i32), node);
            self.closed(out, before)?;
        }
        Ok(())
    }

    pub fn close(&mut self, out: &mut Emitter<'_>, op: &Op) -> Done {
        let node = key_of(op).and_then(|key| self.open.remove(&key));
        self.closed(out, node)
    }

    /// A process ends, and with it what it has open.
    pub fn exit(&mut self, out: &mut Emitter<'_>, pid: u32) -> Done {
        let its = self.open.range((pid, i32::MIN)..=(pid, i32::MAX));
        let its: Vec<_> = its.map(|(key, _)| *key).collect();
        for key in its {
            let node = self.open.remove(&key);
            self.closed(out, node)?;
        }
        Ok(())
    }

    /// A day is the model's whole run, whose processes end with it: no file without a name is left.
    pub fn end_day(&mut self, out: &mut Emitter<'_>) -> Done {
        let names: Vec<_> = self.removed.keys().cloned().collect();
        names.iter().try_for_each(|name| self.give_up(out, name))
    }

    /// A descriptor of a file is closed: with the last a file goes that has no name any more.
    fn closed(&mut self, out: &mut Emitter<'_>, node: Option<u32>) -> Done {
        let Some(known) = node.and_then(|node| self.nodes.get_mut(&node)) else {
            return Ok(());
        };
        known.opens = known.opens.saturating_sub(1);
        let last = known.names.first().filter(|_| known.opens == 0);
        let removed = last.filter(|name| self.removed.get(*name).copied() == node);
        match removed.cloned() {
            Some(path) => self.give_up(out, &path),
            None => Ok(()),
        }
    }

    /// A file that was removed under this name while it was open goes, whether or not it is open still.
    fn give_up(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        if !self.removed.contains_key(path) {
            return Ok(());
        }
        self.write(out)?;
        let Some(node) = self.removed.remove(path) else {
            return Ok(());
        };
        let freed = self.nodes.remove(&node).map_or(0, |n| n.held.bytes());
        out.unlink(path, freed)
    }

    /// The same of all below a directory.
    fn give_up_below(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        let first = [path, b"/"].concat();
        let names = self.removed.range(first.clone()..).map(|(name, _)| name);
        let below: Vec<_> = names
            .take_while(|n| n.starts_with(&first))
            .cloned()
            .collect();
        below.iter().try_for_each(|name| self.give_up(out, name))
    }

    /// Bytes at a place; at the end where that is not said.
    pub fn writes(&mut self, out: &mut Emitter<'_>, op: &Op, at: Option<u64>, bytes: u64) -> Done {
        let Some(node) = self.of(op).filter(|_| bytes > 0) else {
            return Ok(());
        };
        let size = self.nodes.get(&node).map_or(0, |known| known.size);
        let of_it = self.writing.as_mut().filter(|w| w.node == node);
        if let Some(writing) = of_it {
            let end = match writing.how {
                How::Beside => size.max(writing.range.end),
                How::New | How::Anew => writing.range.end,
            };
            if at.unwrap_or(end) == writing.range.end {
                writing.range.end = writing.range.end.saturating_add(bytes);
                return Ok(());
            }
        }
        self.write(out)?;
        let size = self.nodes.get(&node).map_or(0, |known| known.size);
        let at = at.unwrap_or(size);
        self.writing = Some(Writing {
            node,
            how: How::Beside,
            range: at..at.saturating_add(bytes),
        });
        Ok(())
    }

    pub fn fsync(&mut self, out: &mut Emitter<'_>, op: &Op) -> Done {
        self.write(out)?;
        let node = self.of(op).and_then(|node| self.nodes.get(&node));
        match node.and_then(|node| node.names.first()) {
            Some(path) => out.fsync(path),
            None => Ok(()),
        }
    }

    pub fn cut_open(&mut self, out: &mut Emitter<'_>, op: &Op) -> Done {
        match self.of(op) {
            Some(node) => self.cut_node(out, node, op.length.unwrap_or(0)),
            None => Ok(()),
        }
    }

    pub fn cut(&mut self, out: &mut Emitter<'_>, path: &[u8], size: u64) -> Done {
        match self.names.get(path) {
            Some(&node) => self.cut_node(out, node, size),
            None => Ok(()),
        }
    }

    fn cut_node(&mut self, out: &mut Emitter<'_>, node: u32, size: u64) -> Done {
        self.write(out)?;
        let known = self.nodes.get_mut(&node).filter(|n| !n.is_directory);
        let Some(known) = known.filter(|known| known.size != size) else {
            return Ok(());
        };
        let old = std::mem::replace(&mut known.size, size);
        let freed = known.held.cut(size);
        match known.names.first() {
            Some(path) => out.cut(path, (old, size), freed),
            None => Ok(()),
        }
    }

    pub fn mkdir(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        self.write(out)?;
        self.give_up(out, path)?;
        if self.add(out, path, true).is_some() {
            out.mkdir(path)?;
        }
        Ok(())
    }

    pub fn symlink(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        self.write(out)?;
        self.give_up(out, path)?;
        if self.add(out, path, false).is_some() {
            out.symlink(path, ELSEWHERE)?;
        }
        Ok(())
    }

    pub fn rmdir(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        self.write(out)?;
        if self.is_directory(path) && self.below(path).is_empty() {
            self.give_up_below(out, path)?;
            self.remove(path);
            out.rmdir(path)?;
        }
        Ok(())
    }

    pub fn unlink(&mut self, out: &mut Emitter<'_>, path: &[u8]) -> Done {
        // What it is written goes on, and it goes with its last close.
        if let Some(&node) = self.names.get(path)
            && let Some(known) = self.nodes.get(&node)
            && known.opens > 0
            && known.names.len() == 1
        {
            self.names.remove(path);
            self.removed.insert(path.to_vec(), node);
            return Ok(());
        }
        self.write(out)?;
        if self.names.contains_key(path) && !self.is_directory(path) {
            let freed = self.remove(path);
            out.unlink(path, freed)?;
        }
        Ok(())
    }

    pub fn link(&mut self, out: &mut Emitter<'_>, from: &[u8], to: &[u8]) -> Done {
        self.write(out)?;
        let Some(&node) = self.names.get(from) else {
            return Ok(());
        };
        if self.is_directory(from) || self.names.contains_key(to) || !self.has_above(to) {
            return Ok(());
        }
        self.give_up(out, to)?;
        self.names.insert(to.to_vec(), node);
        if let Some(known) = self.nodes.get_mut(&node) {
            known.names.push(to.to_vec());
        }
        out.link(from, to)
    }

    pub fn rename(&mut self, out: &mut Emitter<'_>, from: &[u8], to: &[u8]) -> Done {
        self.write(out)?;
        let same = self.names.get(from) == self.names.get(to);
        let is_directory = self.is_directory(from);
        let replaces = self.names.contains_key(to);
        let cannot = !self.names.contains_key(from)
            || same
            || is_beneath(to, from)
            || !self.has_above(to)
            || replaces && self.is_directory(to) != is_directory
            || !self.below(to).is_empty();
        if cannot {
            return Ok(());
        }
        self.give_up(out, to)?;
        self.give_up_below(out, from)?;
        let replaced = if replaces { self.remove(to) } else { 0 };
        let mut all = self.below(from);
        all.push(from.to_vec());
        for old in all {
            let Some(node) = self.names.remove(&old) else {
                continue;
            };
            let Some(new) = moved(&old, from, to, false) else {
                continue;
            };
            let names = self.nodes.get_mut(&node).map(|known| &mut known.names);
            if let Some(name) = names.and_then(|names| names.iter_mut().find(|n| **n == old)) {
                name.clone_from(&new);
            }
            self.names.insert(new, node);
        }
        out.rename(from, to, replaced)
    }

    /// A new name, where there is a directory for it and none of that name.
    fn add(&mut self, out: &mut Emitter<'_>, path: &[u8], is_directory: bool) -> Option<&mut Node> {
        if self.names.contains_key(path) {
            return None;
        }
        if !self.has_above(path) {
            out.leave_out("names without a directory", 1);
            return None;
        }
        self.made += 1;
        self.names.insert(path.to_vec(), self.made);
        let node = Node {
            is_directory,
            names: vec![path.to_vec()],
            ..Node::default()
        };
        Some(self.nodes.entry(self.made).insert_entry(node).into_mut())
    }

    /// A name goes; how many bytes go with it.
    fn remove(&mut self, path: &[u8]) -> u64 {
        let Some(number) = self.names.remove(path) else {
            return 0;
        };
        let Some(node) = self.nodes.get_mut(&number) else {
            return 0;
        };
        node.names.retain(|name| name != path);
        if !node.names.is_empty() {
            return 0;
        }
        let freed = node.held.bytes();
        self.nodes.remove(&number);
        freed
    }

    fn is_directory(&self, path: &[u8]) -> bool {
        let node = self.names.get(path).and_then(|node| self.nodes.get(node));
        node.is_some_and(|node| node.is_directory)
    }

    fn has_above(&self, path: &[u8]) -> bool {
        let end = path.iter().rposition(|&b| b == b'/');
        end.is_none_or(|end| self.is_directory(path.get(..end).unwrap_or_default()))
    }

    /// All names below one.
    fn below(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let first = [path, b"/"].concat();
        let names = self.names.range(first.clone()..).map(|(name, _)| name);
        names
            .take_while(|n| n.starts_with(&first))
            .cloned()
            .collect()
    }

    /// The file that a call is about.
    fn of(&self, op: &Op) -> Option<u32> {
        self.open.get(&key_of(op)?).copied()
    }
}

fn key_of(op: &Op) -> Option<(u32, i32)> {
    Some((op.pid.0, op.fd?.0))
}

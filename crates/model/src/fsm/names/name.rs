//! A name of a model that is played, and who has it open.

use std::sync::Arc;

use super::super::model::{Stage, Type};
use super::super::possible::Needs;
use super::super::recency::Recency;
use super::Wish;

/// A descriptor.
#[derive(Debug, Clone, Copy)]
pub struct Opened {
    /// Whose.
    pub pid: u32,
    /// Which thread opened it.
    pub tid: u32,
    /// Its number, and where the numbers of that thread begin.
    pub fd: (i32, i32),
    /// The visit that opened it.
    pub by: (u32, u64),
    /// Whether others used it, too.
    pub shared: bool,
    /// Whether it was opened for reading (0), writing (1) or both (2).
    pub access: u32,
    /// Whether writes go to the end.
    pub append: bool,
    /// Whether transfers go past the page cache.
    pub direct: bool,
    /// Of a file that has no name any more: its size in bytes.
    pub unnamed: Option<u64>,
    /// The position that the kernel keeps.
    pub position: u64,
    /// Where the last transfer started and ended.
    pub last: (u64, u64),
}

/// Where a process touched a mapping of a file last: each goes its own way there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Touched {
    pid: u32,
    last: (u64, u64),
}

impl Touched {
    /// Where a process goes on.
    pub fn of(self, pid: u32) -> (u64, u64) {
        if self.pid == pid { self.last } else { (0, 0) }
    }

    /// A process touched this.
    pub fn by(pid: u32, last: (u64, u64)) -> Self {
        Self { pid, last }
    }
}

/// A name, and what is there.
#[derive(Debug, Clone)]
pub struct Name {
    /// The class, 0 of none.
    pub class: u32,
    /// The directory.
    pub above: u32,
    /// What is or was there last.
    pub kind: Type,
    /// Whether something is there.
    pub exists: bool,
    /// Its size in bytes.
    pub size: u64,
    /// What was moved of it since it is there.
    pub stage: Stage,
    /// Names in it.
    pub children: u32,
    /// Who has it open, the last one last.
    pub opened: Vec<Opened>,
    /// Descriptors that stand for mappings of it, one of each process at the most.
    pub kept: Vec<Opened>,
    /// Where a mapping of it was touched last.
    pub mapped: Touched,
    /// Places at random that were used; of most files none are.
    pub places: Option<Box<Recency<u64>>>,
    /// The visit that made, removed or wrote it.
    pub changed: Option<(u32, u64)>,
    /// The last visit of each thread since then.
    pub users: Vec<(u32, u64)>,
    /// Of a directory: the last visit of each thread to anything below it, since it was changed itself.
    pub inside: Vec<(u32, u64)>,
    pub(super) path: Option<Arc<[u8]>>,
}

impl Name {
    /// The size of the file of one of its descriptors.
    pub fn size_of(&self, open: &Opened) -> u64 {
        open.unnamed.unwrap_or(self.size)
    }

    /// Sets the size of the file of descriptor number `at`.
    pub fn set_size_of(&mut self, at: usize, size: u64) {
        match self.opened.get_mut(at).and_then(|o| o.unnamed.as_mut()) {
            Some(unnamed) => *unnamed = size,
            None => self.size = size,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == Type::Directory
    }

    /// Whether it is as it must be, by its name.
    pub(super) fn suits(&self, needs: Needs) -> bool {
        let content = !needs.content || self.size > 0;
        content && needs.directory.is_none_or(|is| is == self.is_directory())
    }

    /// Whether a process has it open for what is done: to write, to read or either, with so much left.
    pub(super) fn is_open_for(&self, wish: Wish, rest: Option<(u64, u64)>) -> bool {
        let pid = wish.pid;
        if wish
            .needs
            .directory
            .is_some_and(|is| is != self.is_directory())
        {
            return false;
        }
        let mapped = |o: &Opened| o.pid == pid && !(wish.needs.content && self.size_of(o) == 0);
        if wish.mapped && self.kept.iter().any(mapped) {
            return true;
        }
        let fits = |open: &Opened| match wish.writes {
            Some(true) => open.access != 0,
            Some(false) => open.access != 1,
            None => true,
        };
        let left = |open: &Opened| {
            if wish.needs.content && self.size_of(open) == 0 {
                return false;
            }
            let left = self.size_of(open).saturating_sub(open.last.1);
            rest.is_none_or(|(least, most)| (least..=most).contains(&left))
        };
        let mut opened = self.opened.iter();
        opened.any(|o| o.pid == pid && fits(o) && left(o))
    }

    /// What is there loses the name; who has it open keeps it.
    pub fn let_go(&mut self) {
        for open in self.opened.iter_mut().chain(&mut self.kept) {
            open.unnamed.get_or_insert(self.size);
        }
    }
}

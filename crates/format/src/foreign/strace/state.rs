//! What the processes of a strace text hold: descriptors with their offsets, working directories,
//! mappings, and the files behind them.
//!
//! Always true: an index into a [`Shared`] table is held by exactly as many owners as it counts;
//! the memory is bounded by what the text names and by [`MAX_HELD`], never by a number in it.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

/// The most descriptors and mappings held over all tables; copies made by a fork beyond it start
/// empty.
const MAX_HELD: usize = 1 << 21;

/// Things with several owners.
#[derive(Debug)]
pub(super) struct Shared<T> {
    items: Vec<Option<(T, u32)>>,
    free: Vec<usize>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Shared<T> {
    pub fn add(&mut self, item: T) -> usize {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.items.get_mut(id)
        {
            *slot = Some((item, 1));
            return id;
        }
        self.items.push(Some((item, 1)));
        self.items.len() - 1
    }

    pub fn get(&self, id: usize) -> Option<&T> {
        self.items.get(id)?.as_ref().map(|(item, _)| item)
    }

    pub fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        self.items.get_mut(id)?.as_mut().map(|(item, _)| item)
    }

    pub fn share(&mut self, id: usize) -> usize {
        if let Some(Some((_, owners))) = self.items.get_mut(id) {
            *owners = owners.saturating_add(1);
        }
        id
    }

    /// Gives up one share; the item if it was the last.
    pub fn release(&mut self, id: usize) -> Option<T> {
        let slot = self.items.get_mut(id)?;
        let (_, owners) = slot.as_mut()?;
        *owners -= 1;
        if *owners > 0 {
            return None;
        }
        self.free.push(id);
        slot.take().map(|(item, _)| item)
    }
}

/// An open file description.
#[derive(Debug, Clone, Default)]
pub(super) struct Description {
    /// Index in [`Files`]; `None` where nothing names the file.
    pub file: Option<u32>,
    /// Absolute, or relative to an unknown start directory.
    pub path: Vec<u8>,
    pub offset: Option<u64>,
    pub append: bool,
    pub direct: bool,
    pub not_a_file: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    description: usize,
    close_on_exec: bool,
}

/// A mapping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    pub length: u64,
    pub file: Option<u32>,
    pub offset: u64,
    pub fd: i32,
}

type Table = FxHashMap<i32, Slot>;
type Maps = BTreeMap<u64, Mapping>;

#[derive(Debug, Clone, Copy)]
struct Task {
    pid: u32,
    table: usize,
    cwd: usize,
    maps: usize,
}

/// All processes of one text.
#[derive(Debug, Default)]
pub(super) struct Processes {
    tasks: FxHashMap<u32, Task>,
    threads: FxHashMap<u32, u32>,
    tables: Shared<Table>,
    cwds: Shared<Vec<u8>>,
    maps: Shared<Maps>,
    descriptions: Shared<Description>,
    held: usize,
}

pub(super) const CLONE_VM: u32 = 0x100;
pub(super) const CLONE_FS: u32 = 0x200;
pub(super) const CLONE_FILES: u32 = 0x400;
pub(super) const CLONE_THREAD: u32 = 0x1_0000;

impl Processes {
    pub fn knows(&self, tid: u32) -> bool {
        self.tasks.contains_key(&tid)
    }

    /// The process of a thread; a thread never seen before is a process of its own.
    pub fn pid(&mut self, tid: u32) -> u32 {
        self.task(tid).pid
    }

    /// The thread `old` was one whose number the text had not told: it is `new`.
    pub fn rename_task(&mut self, old: u32, new: u32) {
        if self.tasks.contains_key(&new) {
            return;
        }
        if let Some(task) = self.tasks.remove(&old) {
            let pid = if task.pid == old { new } else { task.pid };
            self.leave(task.pid);
            *self.threads.entry(pid).or_insert(0) += 1;
            self.tasks.insert(new, Task { pid, ..task });
        }
    }

    fn task(&mut self, tid: u32) -> Task {
        if let Some(&task) = self.tasks.get(&tid) {
            return task;
        }
        let task = Task {
            pid: tid,
            table: self.tables.add(Table::default()),
            cwd: self.cwds.add(Vec::new()),
            maps: self.maps.add(Maps::default()),
        };
        self.tasks.insert(tid, task);
        *self.threads.entry(tid).or_insert(0) += 1;
        task
    }

    /// A new thread or process. One that the text has shown already keeps what it did.
    pub fn fork(&mut self, parent: u32, child: u32, flags: u32) {
        let from = self.task(parent);
        if self.tasks.contains_key(&child) {
            return;
        }
        let table = if flags & CLONE_FILES != 0 {
            self.tables.share(from.table)
        } else {
            self.copy_table(from.table)
        };
        let cwd = if flags & CLONE_FS != 0 {
            self.cwds.share(from.cwd)
        } else {
            let copy = self.cwds.get(from.cwd).cloned().unwrap_or_default();
            self.cwds.add(copy)
        };
        let maps = if flags & CLONE_VM != 0 {
            self.maps.share(from.maps)
        } else {
            self.copy_maps(from.maps)
        };
        let pid = if flags & CLONE_THREAD != 0 {
            from.pid
        } else {
            child
        };
        self.tasks.insert(
            child,
            Task {
                pid,
                table,
                cwd,
                maps,
            },
        );
        *self.threads.entry(pid).or_insert(0) += 1;
    }

    fn copy_table(&mut self, id: usize) -> usize {
        let mut copy = self.tables.get(id).cloned().unwrap_or_default();
        if self.held.saturating_add(copy.len()) > MAX_HELD {
            copy.clear();
        }
        for slot in copy.values() {
            self.descriptions.share(slot.description);
        }
        self.held += copy.len();
        self.tables.add(copy)
    }

    fn copy_maps(&mut self, id: usize) -> usize {
        let mut copy = self.maps.get(id).cloned().unwrap_or_default();
        if self.held.saturating_add(copy.len()) > MAX_HELD {
            copy.clear();
        }
        self.held += copy.len();
        self.maps.add(copy)
    }

    fn drop_table(&mut self, id: usize) {
        if let Some(table) = self.tables.release(id) {
            self.held -= table.len().min(self.held);
            for slot in table.values() {
                self.descriptions.release(slot.description);
            }
        }
    }

    fn drop_maps(&mut self, id: usize) {
        if let Some(maps) = self.maps.release(id) {
            self.held -= maps.len().min(self.held);
        }
    }

    /// A new program: its own table without the descriptors that close on exec, no mappings.
    pub fn exec(&mut self, tid: u32) {
        let task = self.task(tid);
        let table = self.copy_table(task.table);
        self.drop_table(task.table);
        self.drop_maps(task.maps);
        let maps = self.maps.add(Maps::default());
        let mut closed = Vec::new();
        if let Some(table) = self.tables.get_mut(table) {
            table.retain(|_, slot| {
                if slot.close_on_exec {
                    closed.push(slot.description);
                }
                !slot.close_on_exec
            });
        }
        self.held -= closed.len().min(self.held);
        for description in closed {
            self.descriptions.release(description);
        }
        self.tasks.insert(
            tid,
            Task {
                table,
                maps,
                ..task
            },
        );
    }

    /// `unshare` of descriptors or directories.
    pub fn unshare(&mut self, tid: u32, flags: u32) {
        let mut task = self.task(tid);
        if flags & CLONE_FILES != 0 {
            let table = self.copy_table(task.table);
            self.drop_table(task.table);
            task.table = table;
        }
        if flags & CLONE_FS != 0 {
            let copy = self.cwds.get(task.cwd).cloned().unwrap_or_default();
            self.cwds.release(task.cwd);
            task.cwd = self.cwds.add(copy);
        }
        self.tasks.insert(tid, task);
    }

    /// A thread ends. Whether it was its process's last, and the process.
    pub fn exit(&mut self, tid: u32) -> (u32, bool) {
        let task = self.task(tid);
        self.tasks.remove(&tid);
        self.drop_table(task.table);
        self.drop_maps(task.maps);
        self.cwds.release(task.cwd);
        (task.pid, self.leave(task.pid))
    }

    fn leave(&mut self, pid: u32) -> bool {
        let Some(count) = self.threads.get_mut(&pid) else {
            return true;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.threads.remove(&pid);
        }
        last
    }

    pub fn cwd(&mut self, tid: u32) -> Vec<u8> {
        let task = self.task(tid);
        self.cwds.get(task.cwd).cloned().unwrap_or_default()
    }

    pub fn set_cwd(&mut self, tid: u32, path: Vec<u8>) {
        let task = self.task(tid);
        if let Some(cwd) = self.cwds.get_mut(task.cwd) {
            *cwd = path;
        }
    }

    /// Puts a description behind a descriptor, closing what was there.
    pub fn install(&mut self, tid: u32, fd: i32, description: Description, close_on_exec: bool) {
        let description = self.descriptions.add(description);
        self.install_id(tid, fd, description, close_on_exec);
    }

    fn install_id(&mut self, tid: u32, fd: i32, description: usize, close_on_exec: bool) {
        let task = self.task(tid);
        if self.held >= MAX_HELD {
            self.descriptions.release(description);
            return;
        }
        let Some(table) = self.tables.get_mut(task.table) else {
            return;
        };
        match table.insert(
            fd,
            Slot {
                description,
                close_on_exec,
            },
        ) {
            Some(old) => drop(self.descriptions.release(old.description)),
            None => self.held += 1,
        }
    }

    /// `dup`: both descriptors share one description. Whether the old one was known.
    pub fn dup(&mut self, tid: u32, old: i32, new: i32, close_on_exec: bool) -> bool {
        let task = self.task(tid);
        let Some(slot) = self
            .tables
            .get(task.table)
            .and_then(|table| table.get(&old))
        else {
            return false;
        };
        let description = slot.description;
        if old != new {
            self.descriptions.share(description);
            self.install_id(tid, new, description, close_on_exec);
        }
        true
    }

    pub fn close(&mut self, tid: u32, fd: i32) {
        let task = self.task(tid);
        let slot = self
            .tables
            .get_mut(task.table)
            .and_then(|table| table.remove(&fd));
        if let Some(slot) = slot {
            self.held -= 1;
            self.descriptions.release(slot.description);
        }
    }

    /// The descriptors in `first..=last`, in order.
    pub fn open_in(&mut self, tid: u32, first: i64, last: i64) -> Vec<i32> {
        let task = self.task(tid);
        let mut fds: Vec<i32> = self
            .tables
            .get(task.table)
            .into_iter()
            .flat_map(|table| table.keys().copied())
            .filter(|&fd| (first..=last).contains(&i64::from(fd)))
            .collect();
        fds.sort_unstable();
        fds
    }

    pub fn set_close_on_exec(&mut self, tid: u32, fd: i32, value: bool) {
        let task = self.task(tid);
        if let Some(slot) = self.tables.get_mut(task.table).and_then(|t| t.get_mut(&fd)) {
            slot.close_on_exec = value;
        }
    }

    pub fn description(&mut self, tid: u32, fd: i32) -> Option<&mut Description> {
        let task = self.task(tid);
        let slot = *self.tables.get(task.table)?.get(&fd)?;
        self.descriptions.get_mut(slot.description)
    }

    /// Records a file mapping; what it covers is unmapped first.
    pub fn map(&mut self, tid: u32, address: u64, mapping: Mapping) {
        self.unmap(tid, address, mapping.length);
        let task = self.task(tid);
        if self.held < MAX_HELD
            && let Some(maps) = self.maps.get_mut(task.maps)
        {
            maps.insert(address, mapping);
            self.held += 1;
        }
    }

    /// Removes a range and returns the pieces of file mappings that it held.
    pub fn unmap(&mut self, tid: u32, address: u64, length: u64) -> Vec<Mapping> {
        let task = self.task(tid);
        let Some(maps) = self.maps.get_mut(task.maps) else {
            return Vec::new();
        };
        let before = maps.len();
        let pieces = overlaps(maps, address, length);
        let end = address.saturating_add(length);
        for (start, whole, _) in &pieces {
            maps.remove(start);
            let whole_end = start.saturating_add(whole.length);
            if *start < address {
                maps.insert(
                    *start,
                    Mapping {
                        length: address - start,
                        ..*whole
                    },
                );
            }
            if whole_end > end {
                let offset = whole.offset.saturating_add(end - start);
                maps.insert(
                    end,
                    Mapping {
                        length: whole_end - end,
                        offset,
                        ..*whole
                    },
                );
            }
        }
        self.held = (self.held + maps.len()).saturating_sub(before);
        pieces.into_iter().map(|(_, _, piece)| piece).collect()
    }

    /// The pieces of file mappings within a range.
    pub fn mapped(&mut self, tid: u32, address: u64, length: u64) -> Vec<Mapping> {
        let task = self.task(tid);
        let maps = self.maps.get(task.maps);
        maps.map(|maps| overlaps(maps, address, length))
            .unwrap_or_default()
            .into_iter()
            .map(|(_, _, piece)| piece)
            .collect()
    }
}

/// Where each overlapping mapping starts, the whole of it, and the piece in the range.
fn overlaps(maps: &Maps, address: u64, length: u64) -> Vec<(u64, Mapping, Mapping)> {
    let end = address.saturating_add(length);
    let mut found: Vec<_> = maps
        .range(..end)
        .rev()
        .take_while(|(start, mapping)| start.saturating_add(mapping.length) > address)
        .map(|(&start, &whole)| {
            let from = start.max(address);
            let to = start.saturating_add(whole.length).min(end);
            let offset = whole.offset.saturating_add(from - start);
            (
                start,
                whole,
                Mapping {
                    length: to - from,
                    offset,
                    ..whole
                },
            )
        })
        .collect();
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(path: &[u8]) -> Description {
        Description {
            path: path.to_vec(),
            offset: Some(0),
            ..Description::default()
        }
    }

    #[test]
    fn tables_are_shared_or_copied_as_clone_says() {
        let mut all = Processes::default();
        all.install(1, 3, described(b"/a"), false);
        all.fork(1, 2, CLONE_FILES | CLONE_THREAD | CLONE_FS | CLONE_VM);
        all.fork(1, 10, 0);
        all.close(2, 3);
        assert!(all.description(1, 3).is_none(), "threads share");
        assert!(all.description(10, 3).is_some(), "processes do not");
        assert_eq!((all.pid(2), all.pid(10)), (1, 10));
        assert_eq!(all.exit(2), (1, false));
        assert_eq!(all.exit(1), (1, true));
    }

    #[test]
    fn offsets_are_shared_across_dup_and_fork() {
        let mut all = Processes::default();
        all.install(1, 3, described(b"/a"), true);
        assert!(all.dup(1, 3, 4, false));
        all.fork(1, 2, 0);
        all.description(2, 4).unwrap().offset = Some(7);
        assert_eq!(all.description(1, 3).unwrap().offset, Some(7));
        all.exec(1);
        assert!(all.description(1, 3).is_none());
        assert!(all.description(1, 4).is_some());
        for tid in [1, 2] {
            all.exit(tid);
        }
        assert_eq!(all.held, 0);
        assert!(
            all.descriptions.items.iter().all(Option::is_none),
            "nothing leaks"
        );
    }

    #[test]
    fn unmapping_splits() {
        let mut all = Processes::default();
        all.map(
            1,
            0x1000,
            Mapping {
                length: 0x3000,
                file: Some(1),
                offset: 0,
                fd: 3,
            },
        );
        let pieces = all.unmap(1, 0x2000, 0x1000);
        assert_eq!(
            pieces,
            vec![Mapping {
                length: 0x1000,
                file: Some(1),
                offset: 0x1000,
                fd: 3
            }]
        );
        let left = all.mapped(1, 0, u64::MAX);
        assert_eq!(
            left.iter().map(|m| m.offset).collect::<Vec<_>>(),
            vec![0, 0x2000]
        );
        assert_eq!(all.held, 2);
    }
}

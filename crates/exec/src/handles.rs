//! Which open file of the target stands for a descriptor of the stream.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_core::{Fd, FileSystem, Handle, Pid};
use fsage_namespace::Fds;
use rustc_hash::FxHashMap;

/// The open files of all processes of a run. Streams that act as one process share its descriptors,
/// as threads do; a duplicated descriptor shares its file and position, a child has its parent's, as
/// in the kernel; a file is closed with its last descriptor.
#[derive(Debug, Default)]
pub struct Directory {
    processes: Mutex<FxHashMap<Pid, Arc<HandleTable>>>,
    /// Descriptors beyond the first, for the files that have them.
    shared: Mutex<FxHashMap<Handle, u32>>,
    /// Whether there was ever one.
    any_shared: AtomicBool,
}

#[derive(Debug, Default)]
struct HandleTable {
    open: Mutex<Fds<Handle>>,
    /// How often a descriptor was taken away or replaced: what was looked up before may be stale.
    /// Changed only by who holds the table.
    changes: AtomicU64,
}

impl HandleTable {
    /// What was looked up before may be stale; `_held` is this process's table.
    fn change(&self, _held: &MutexGuard<'_, Fds<Handle>>) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes
            .store(changes.wrapping_add(1), Ordering::Release);
    }
}

/// A lock that a panic elsewhere does not spoil: each holder leaves the maps whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Directory {
    fn process(&self, pid: Pid) -> Arc<HandleTable> {
        Arc::clone(lock(&self.processes).entry(pid).or_default())
    }

    fn share(&self, handle: Handle) {
        *lock(&self.shared).entry(handle).or_default() += 1;
        self.any_shared.store(true, Ordering::Relaxed);
    }

    /// Takes one descriptor of a file away; the file, if that was its last one.
    fn release(&self, handle: Handle) -> Option<Handle> {
        if !self.any_shared.load(Ordering::Relaxed) {
            return Some(handle);
        }
        let mut shared = lock(&self.shared);
        match shared.get_mut(&handle) {
            None => return Some(handle),
            Some(1) => drop(shared.remove(&handle)),
            Some(more) => *more -= 1,
        }
        None
    }

    /// Closes what is still open, when all streams have ended.
    pub fn close_all(&self, fs: &dyn FileSystem) {
        let mut handles: Vec<Handle> = Vec::new();
        for (_, process) in lock(&self.processes).drain() {
            handles.extend(std::mem::take(&mut *lock(&process.open)).values());
        }
        handles.sort_unstable();
        handles.dedup();
        lock(&self.shared).clear();
        for handle in handles {
            // Nothing was asked of this close, so nothing can be told about its error.
            let _ = fs.close(handle);
        }
    }
}

/// A stream's view of the directory: it remembers its process and the descriptor that it used last,
/// since most streams go on with both.
#[derive(Debug)]
pub struct Handles<'d> {
    directory: &'d Directory,
    process: Option<(Pid, Arc<HandleTable>)>,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    pid: Pid,
    fd: Fd,
    handle: Handle,
    /// The process's changes when it was looked up.
    changes: u64,
}

impl<'d> Handles<'d> {
    /// A view for one stream.
    pub fn new(directory: &'d Directory) -> Self {
        Self {
            directory,
            process: None,
            last: None,
        }
    }

    fn process(&mut self, pid: Pid) -> &HandleTable {
        if self.process.as_ref().is_none_or(|(p, _)| *p != pid) {
            self.process = None;
            self.last = None;
        }
        let directory = self.directory;
        &self
            .process
            .get_or_insert_with(|| (pid, directory.process(pid)))
            .1
    }

    /// The file of a descriptor.
    pub fn get(&mut self, pid: Pid, fd: Option<Fd>) -> Option<Handle> {
        let fd = fd?;
        if let (Some(last), Some((_, process))) = (&self.last, &self.process)
            && last.fd == fd
            && last.pid == pid
            && last.changes == process.changes.load(Ordering::Acquire)
        {
            return Some(last.handle);
        }
        let process = self.process(pid);
        let changes = process.changes.load(Ordering::Acquire);
        let handle = lock(&process.open).get(fd)?;
        self.last = Some(Last {
            pid,
            fd,
            handle,
            changes,
        });
        Some(handle)
    }

    /// Sets a descriptor; returns a file to be closed if that took its last descriptor away.
    #[must_use]
    pub fn insert(&mut self, pid: Pid, fd: Fd, handle: Handle) -> Option<Handle> {
        let process = self.process(pid);
        let mut open = lock(&process.open);
        let old = open.insert(fd, handle);
        if old.is_some() {
            process.change(&open);
        }
        // Read while the table is held: who removes the descriptor then counts after this.
        let changes = process.changes.load(Ordering::Relaxed);
        drop(open);
        self.last = Some(Last {
            pid,
            fd,
            handle,
            changes,
        });
        old.and_then(|old| self.directory.release(old))
    }

    /// Makes `to` a duplicate of `from`; returns a file to be closed if `to` was its last one.
    #[must_use]
    pub fn duplicate(&mut self, pid: Pid, from: Fd, to: Fd) -> Option<Handle> {
        let handle = self.get(pid, Some(from))?;
        if from == to {
            return None;
        }
        self.directory.share(handle);
        self.insert(pid, to, handle)
    }

    /// Takes a descriptor away; returns its file if that was the last one.
    #[must_use]
    pub fn remove(&mut self, pid: Pid, fd: Fd) -> Option<Handle> {
        let process = self.process(pid);
        let mut open = lock(&process.open);
        let handle = open.remove(fd)?;
        process.change(&open);
        drop(open);
        self.directory.release(handle)
    }

    /// Gives a new process its parent's descriptors; returns the files to be closed that an older
    /// process of that number had kept.
    #[must_use]
    pub fn fork(&mut self, parent: Pid, child: Pid) -> Vec<Handle> {
        if parent == child {
            return Vec::new();
        }
        let stale = self.exit(child);
        let copies = lock(&self.process(parent).open).in_order();
        for (fd, handle) in copies {
            self.directory.share(handle);
            // The child has none left that this could replace.
            let _ = self.insert(child, fd, handle);
        }
        stale
    }

    /// Takes all descriptors of a process away; returns the files to be closed.
    #[must_use]
    pub fn exit(&mut self, pid: Pid) -> Vec<Handle> {
        let process = self.process(pid);
        let mut open = lock(&process.open);
        let gone = std::mem::take(&mut *open).in_order();
        process.change(&open);
        drop(open);
        gone.into_iter()
            .filter_map(|(_, handle)| self.directory.release(handle))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pid = Pid(1);

    #[test]
    fn a_file_closes_with_its_last_descriptor() {
        let directory = Directory::default();
        let mut h = Handles::new(&directory);
        assert_eq!(h.insert(P, Fd(3), Handle(7)), None);
        assert_eq!(h.duplicate(P, Fd(3), Fd(4)), None);
        assert_eq!(h.fork(P, Pid(2)), []);
        assert_eq!(h.remove(P, Fd(3)), None);
        assert_eq!(h.exit(P), []);
        assert_eq!(h.get(Pid(2), Some(Fd(4))), Some(Handle(7)));
        assert_eq!(h.remove(Pid(2), Fd(3)), None);
        assert_eq!(h.exit(Pid(2)), [Handle(7)]);
        assert_eq!(h.get(Pid(2), Some(Fd(4))), None);
    }

    #[test]
    fn a_duplicate_onto_an_open_descriptor_closes_it() {
        let directory = Directory::default();
        let mut h = Handles::new(&directory);
        let _ = h.insert(P, Fd(3), Handle(7));
        let _ = h.insert(P, Fd(4), Handle(8));
        assert_eq!(h.duplicate(P, Fd(3), Fd(4)), Some(Handle(8)));
        assert_eq!(h.duplicate(P, Fd(4), Fd(4)), None);
        assert_eq!(h.remove(P, Fd(4)), None);
        assert_eq!(h.remove(P, Fd(3)), Some(Handle(7)));
    }

    /// Descriptors of any number, in order.
    #[test]
    fn any_descriptor_has_a_place() {
        let directory = Directory::default();
        let mut h = Handles::new(&directory);
        let fds = [Fd(-1), Fd(0), Fd(255), Fd(256), Fd(i32::MAX)];
        for (n, fd) in (0..).zip(fds) {
            assert_eq!(h.insert(P, fd, Handle(n)), None);
        }
        for (n, fd) in (0..).zip(fds) {
            assert_eq!(h.get(P, Some(fd)), Some(Handle(n)));
            assert_eq!(h.insert(P, fd, Handle(n + 10)), Some(Handle(n)));
        }
        assert_eq!(h.remove(P, Fd(255)), Some(Handle(12)));
        assert_eq!(h.remove(P, Fd(255)), None);
        assert_eq!(h.remove(P, Fd(7)), None);
        assert_eq!(h.exit(P), [10, 11, 13, 14].map(Handle));
    }

    #[test]
    fn threads_of_a_process_see_each_others_changes() {
        let directory = Directory::default();
        let (mut a, mut b) = (Handles::new(&directory), Handles::new(&directory));
        assert_eq!(a.insert(P, Fd(3), Handle(7)), None);
        assert_eq!(b.get(P, Some(Fd(3))), Some(Handle(7)));
        assert_eq!(b.insert(P, Fd(3), Handle(9)), Some(Handle(7)));
        assert_eq!(a.get(P, Some(Fd(3))), Some(Handle(9)));
        assert_eq!(a.remove(P, Fd(3)), Some(Handle(9)));
        assert_eq!(b.get(P, Some(Fd(3))), None);
        assert_eq!(a.insert(Pid(2), Fd(3), Handle(1)), None);
        assert_eq!(b.get(P, Some(Fd(3))), None, "processes are apart");
    }
}

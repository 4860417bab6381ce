//! Which open file of the target stands for a descriptor of the stream.

use fsage_core::{Fd, FileSystem, Handle, Pid};
use rustc_hash::FxHashMap;

/// Descriptors of the stream's processes. A duplicated descriptor shares its file and position, a
/// child has its parent's, as in the kernel; the file is closed with its last descriptor.
#[derive(Debug, Default)]
pub struct Handles {
    open: FxHashMap<(Pid, Fd), Handle>,
    /// The descriptor opened last: most streams go on with it.
    last: Option<((Pid, Fd), Handle)>,
    /// Descriptors beyond the first, for the files that have them.
    shared: FxHashMap<Handle, u32>,
}

impl Handles {
    /// The file of a descriptor.
    pub fn get(&self, pid: Pid, fd: Option<Fd>) -> Option<Handle> {
        let key = (pid, fd?);
        match self.last {
            Some((last, handle)) if last == key => Some(handle),
            _ => self.open.get(&key).copied(),
        }
    }

    /// Sets a descriptor; returns a file to be closed if that took its last descriptor away.
    #[must_use]
    pub fn insert(&mut self, pid: Pid, fd: Fd, handle: Handle) -> Option<Handle> {
        self.open
            .insert((pid, fd), handle)
            .and_then(|old| self.release(old))
    }

    /// Makes `to` a duplicate of `from`; returns a file to be closed if `to` was its last one.
    #[must_use]
    pub fn duplicate(&mut self, pid: Pid, from: Fd, to: Fd) -> Option<Handle> {
        let handle = self.get(pid, Some(from))?;
        if from == to {
            return None;
        }
        *self.shared.entry(handle).or_default() += 1;
        self.insert(pid, to, handle)
    }

    /// Takes a descriptor away; returns its file if that was the last one.
    #[must_use]
    pub fn remove(&mut self, pid: Pid, fd: Fd) -> Option<Handle> {
        self.open
            .remove(&(pid, fd))
            .and_then(|handle| self.release(handle))
    }

    fn release(&mut self, handle: Handle) -> Option<Handle> {
        if self.shared.is_empty() {
            return Some(handle);
        }
        match self.shared.get_mut(&handle) {
            None => Some(handle),
            Some(1) => {
                self.shared.remove(&handle);
                None
            }
            Some(more) => {
                *more -= 1;
                None
            }
        }
    }

    /// Gives a new process its parent's descriptors; returns the files to be closed that an older
    /// process of that number had kept.
    #[must_use]
    pub fn fork(&mut self, parent: Pid, child: Pid) -> Vec<Handle> {
        if parent == child {
            return Vec::new();
        }
        let stale = self.exit(child);
        let copies: Vec<(Fd, Handle)> = self
            .open
            .iter()
            .filter(|(k, _)| k.0 == parent)
            .map(|(k, h)| (k.1, *h))
            .collect();
        self.last = None;
        for (fd, handle) in copies {
            *self.shared.entry(handle).or_default() += 1;
            self.open.insert((child, fd), handle);
        }
        stale
    }

    /// Takes all descriptors of a process away; returns the files to be closed.
    #[must_use]
    pub fn exit(&mut self, pid: Pid) -> Vec<Handle> {
        let mut gone: Vec<Fd> = self
            .open
            .keys()
            .filter(|k| k.0 == pid)
            .map(|k| k.1)
            .collect();
        gone.sort_unstable();
        gone.into_iter()
            .filter_map(|fd| self.remove(pid, fd))
            .collect()
    }

    /// Closes what is still open.
    pub fn close_all(&mut self, fs: &dyn FileSystem) {
        let mut handles: Vec<Handle> = self.open.drain().map(|(_, handle)| handle).collect();
        handles.sort_unstable();
        handles.dedup();
        self.shared.clear();
        self.last = None;
        for handle in handles {
            // Nothing was asked of this close, so nothing can be told about its error.
            let _ = fs.close(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Pid = Pid(1);

    #[test]
    fn a_file_closes_with_its_last_descriptor() {
        let mut h = Handles::default();
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
        let mut h = Handles::default();
        let _ = h.insert(P, Fd(3), Handle(7));
        let _ = h.insert(P, Fd(4), Handle(8));
        assert_eq!(h.duplicate(P, Fd(3), Fd(4)), Some(Handle(8)));
        assert_eq!(h.duplicate(P, Fd(4), Fd(4)), None);
        assert_eq!(h.remove(P, Fd(4)), None);
        assert_eq!(h.remove(P, Fd(3)), Some(Handle(7)));
    }
}

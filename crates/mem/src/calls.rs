//! The calls: each charged with what the truth says, beside what it meets.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fsage_core::{
    Access, Attr, Clock, DirEntry, Errno, FileSystem, FileType, Handle, OpenFlags, Platform,
    RangeSync, SetAttr, StatFs, VirtualTime,
};

use crate::body::{Body, PAGE};
use crate::inode::{Directory, Node, Open, ROOT};
use crate::read_ahead::Stream;
use crate::state::State;
use crate::truth::Truth;

const MOST_LINKS: u32 = 65_000;

/// A file system in memory whose costs are a [`Truth`], or a directory of one.
#[derive(Debug)]
pub struct MemFs {
    shared: Arc<Shared>,
    /// The directory that its paths begin in.
    root: u32,
}

#[derive(Debug)]
struct Shared {
    name: String,
    truth: Truth,
    state: Mutex<State>,
    /// The state's clock, to be read without waiting for it.
    clock_ns: AtomicU64,
}

impl MemFs {
    /// An empty one; `name` is what reports call it.
    pub fn new(name: &str, truth: Truth) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::new(State::new(truth.clone())),
            truth,
            clock_ns: AtomicU64::new(0),
        });
        Self { shared, root: ROOT }
    }

    /// One of its directories as the root of paths; nothing above can be named.
    pub fn below(&self, dir: &[u8]) -> Result<Self, Errno> {
        let root = self.call(|state| {
            let found = state.walk(dir, true)?.found()?;
            state.inodes.get(found)?.dir()?;
            Ok(found)
        })?;
        let shared = Arc::clone(&self.shared);
        Ok(Self { shared, root })
    }

    /// What is stated of it.
    pub fn truth(&self) -> &Truth {
        &self.shared.truth
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.shared.state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.shared.clock_ns.load(Ordering::Relaxed)
    }

    /// Tells the clock how far the state has come.
    pub(crate) fn tell(&self, state: &State) {
        self.shared.clock_ns.store(state.now_ns, Ordering::Relaxed);
    }

    /// One call.
    fn call<T>(&self, body: impl FnOnce(&mut State) -> Result<T, Errno>) -> Result<T, Errno> {
        let mut state = self.lock();
        state.enter();
        state.root = self.root;
        let result = body(&mut state);
        self.tell(&state);
        result
    }

    /// A call on an open file.
    fn of_handle<T>(
        &self,
        handle: Handle,
        cost_ns: u64,
        body: impl FnOnce(&mut State, u32) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.call(|state| {
            state.cpu(cost_ns);
            let ino = state.handles.get(handle.0)?.ino;
            body(state, ino)
        })
    }

    fn attributes(&self, path: &[u8], follow: bool) -> Result<Attr, Errno> {
        let calls = &self.truth().calls;
        self.call(|state| {
            let found = state.walk(path, follow).and_then(|place| place.found());
            state.cpu(if found.is_ok() {
                calls.stat_ns
            } else {
                calls.stat_missing_ns
            });
            let ino = found?;
            Ok(state.inodes.get(ino)?.attr(ino))
        })
    }
}

impl State {
    fn open(&mut self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<u64, Errno> {
        let follow = !(flags.no_follow || flags.create && flags.exclusive);
        let opened = self.open_place(path, flags, mode, follow);
        let (ino, made) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                self.cpu(self.truth.calls.open_missing_ns);
                return Err(errno);
            }
        };
        let (file_type, calls) = (self.inodes.get(ino)?.file_type(), &self.truth.calls);
        let cost_ns = match file_type {
            _ if made => calls.create_ns,
            FileType::Directory => calls.open_directory_ns,
            _ if flags.create => calls.open_create_ns,
            _ => calls.open_ns,
        };
        self.cpu(cost_ns);
        if flags.truncate && !made && self.inodes.get(ino)?.body().is_ok() {
            self.truncate(ino, 0)?;
        }
        self.inodes.get(ino)?.open += 1;
        Ok(self.handles.add(Open {
            ino,
            flags,
            position: 0,
            stream: Stream::default(),
        }))
    }

    fn open_place(
        &mut self,
        path: &[u8],
        flags: OpenFlags,
        mode: u32,
        follow: bool,
    ) -> Result<(u32, bool), Errno> {
        let place = self.walk(path, follow)?;
        let Some(ino) = place.ino else {
            if !flags.create {
                return Err(Errno::ENOENT);
            }
            if place.slash {
                return Err(Errno::EISDIR);
            }
            return Ok((
                self.create(&place, Node::File(Body::default()), mode)?,
                true,
            ));
        };
        if flags.create && flags.exclusive {
            return Err(Errno::EEXIST);
        }
        match self.inodes.get(ino)?.file_type() {
            FileType::Symlink if !flags.name_only => Err(Errno::ELOOP),
            FileType::Symlink | FileType::Regular if flags.directory => Err(Errno::ENOTDIR),
            FileType::Directory if flags.write || flags.create => Err(Errno::EISDIR),
            _ => Ok((ino, false)),
        }
    }

    fn close(&mut self, handle: u64) -> Result<(), Errno> {
        let ino = self.handles.remove(handle)?.ino;
        let inode = self.inodes.get(ino)?;
        inode.open = inode.open.saturating_sub(1);
        self.free_if_last(ino)
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<(), Errno> {
        let place = self.walk(path, false)?;
        let ino = place.found()?;
        if !place.is_name() {
            return Err(Errno::EINVAL);
        }
        if !self.inodes.get(ino)?.dir()?.entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.remove_name(place.parent, &place.name)?;
        let parent = self.inodes.get(place.parent)?;
        parent.links = parent.links.saturating_sub(1);
        self.drop_link(ino)
    }

    fn unlink(&mut self, path: &[u8]) -> Result<(), Errno> {
        let place = self.walk(path, false)?;
        let ino = place.found()?;
        if self.inodes.get(ino)?.file_type() == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        self.remove_name(place.parent, &place.name)?;
        self.drop_link(ino)
    }

    fn link(&mut self, existing: &[u8], new: &[u8]) -> Result<(), Errno> {
        let ino = self.walk(existing, false)?.found()?;
        let place = self.walk(new, false)?;
        let inode = self.inodes.get(ino)?;
        if inode.file_type() == FileType::Directory {
            return Err(Errno::EPERM);
        }
        if place.ino.is_some() {
            return Err(Errno::EEXIST);
        }
        if inode.links >= MOST_LINKS {
            return Err(Errno::EMLINK);
        }
        inode.links += 1;
        self.enter_name(place.parent, &place.name, ino)?;
        self.change_inode(ino, true);
        Ok(())
    }

    /// Says whether it went over something.
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<bool, Errno> {
        let from = self.walk(from, false)?;
        let ino = from.found()?;
        let to = self.walk(to, false)?;
        if !from.is_name() || !to.is_name() {
            return Err(Errno::EBUSY);
        }
        if to.ino == Some(ino) {
            return Ok(false);
        }
        let is_dir = self.inodes.get(ino)?.file_type() == FileType::Directory;
        if is_dir && self.lies_below(to.parent, ino)? {
            return Err(Errno::EINVAL);
        }
        if let Some(over) = to.ino {
            match &self.inodes.get(over)?.node {
                Node::Dir(_) if !is_dir => return Err(Errno::EISDIR),
                Node::Dir(dir) if !dir.entries.is_empty() => return Err(Errno::ENOTEMPTY),
                Node::File(_) | Node::Link(_) if is_dir => return Err(Errno::ENOTDIR),
                _ => {}
            }
            self.remove_name(to.parent, &to.name)?;
            self.drop_link(over)?;
        } else if to.slash && !is_dir {
            return Err(Errno::ENOTDIR);
        }
        self.remove_name(from.parent, &from.name)?;
        self.enter_name(to.parent, &to.name, ino)?;
        self.change_inode(ino, true);
        if is_dir {
            self.inodes.get(ino)?.dir()?.parent = to.parent;
            self.inodes.get(from.parent)?.links -= 1;
            if to.ino.is_none() {
                self.inodes.get(to.parent)?.links += 1;
            }
        }
        Ok(to.ino.is_some())
    }
}

impl FileSystem for MemFs {
    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn open(&self, path: &[u8], flags: OpenFlags, mode: u32) -> Result<Handle, Errno> {
        self.call(|state| state.open(path, flags, mode)).map(Handle)
    }

    fn close(&self, handle: Handle) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.close_ns);
            state.close(handle.0)
        })
    }

    fn read(&self, handle: Handle, buf: &mut [u8]) -> Result<usize, Errno> {
        self.call(|state| {
            let at = state.handles.get(handle.0)?.position;
            let bytes = state.read(handle.0, at, buf)?;
            state.handles.get(handle.0)?.position = at + bytes as u64;
            Ok(bytes)
        })
    }

    fn write(&self, handle: Handle, buf: &[u8]) -> Result<usize, Errno> {
        self.call(|state| {
            let at = state.handles.get(handle.0)?.position;
            let (bytes, end) = state.write(handle.0, Some(at), buf)?;
            state.handles.get(handle.0)?.position = end;
            Ok(bytes)
        })
    }

    fn pread(&self, handle: Handle, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.call(|state| state.read(handle.0, offset, buf))
    }

    fn pwrite(&self, handle: Handle, buf: &[u8], offset: u64) -> Result<usize, Errno> {
        self.call(|state| {
            state
                .write(handle.0, Some(offset), buf)
                .map(|(bytes, _)| bytes)
        })
    }

    fn seek(&self, handle: Handle, offset: u64) -> Result<u64, Errno> {
        if i64::try_from(offset).is_err() {
            return Err(Errno::EINVAL);
        }
        let cost_ns = self.truth().calls.seek_ns;
        self.of_handle(handle, cost_ns, |state, _| state.moves(handle, offset))
    }

    fn seek_next(&self, handle: Handle, offset: u64, hole: bool) -> Result<u64, Errno> {
        self.of_handle(handle, self.truth().calls.seek_ns, |state, ino| {
            let to = state.inodes.get(ino)?.next(offset, hole)?;
            state.moves(handle, to)
        })
    }

    fn read_dir(&self, handle: Handle) -> Result<Vec<DirEntry>, Errno> {
        self.of_handle(handle, self.truth().calls.list_ns, |state, ino| {
            let from = state.handles.get(handle.0)?.position;
            state.inodes.get(ino)?.dir()?;
            if from > 0 {
                return Ok(Vec::new());
            }
            let listed = state.list(ino)?;
            state.handles.get(handle.0)?.position = listed.len() as u64 + 1;
            state.cpu(listed.len() as u64 * self.truth().calls.list_entry_ns);
            let mut entries = Vec::with_capacity(listed.len());
            for (name, entry) in listed {
                entries.push(DirEntry {
                    name: name.into_vec(),
                    ino: u64::from(entry.ino),
                    file_type: Some(state.inodes.get(entry.ino)?.file_type()),
                });
            }
            Ok(entries)
        })
    }

    fn fsync(&self, handle: Handle) -> Result<(), Errno> {
        self.of_handle(handle, self.truth().calls.fsync_ns, |state, ino| {
            state.make_stable(ino, false, false)
        })
    }

    fn fdatasync(&self, handle: Handle) -> Result<(), Errno> {
        self.of_handle(handle, self.truth().calls.fsync_ns, |state, ino| {
            state.make_stable(ino, false, true)
        })
    }

    fn sync_file_range(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        what: RangeSync,
    ) -> Result<(), Errno> {
        self.of_handle(handle, self.truth().calls.start_writing_ns, |state, ino| {
            state.sync_range(ino, (offset, length), what)
        })
    }

    fn ftruncate(&self, handle: Handle, size: u64) -> Result<(), Errno> {
        self.of_handle(handle, 0, |state, ino| {
            if !state.handles.get(handle.0)?.flags.write {
                return Err(Errno::EINVAL);
            }
            state.truncate(ino, size)
        })
    }

    fn fallocate(&self, handle: Handle, offset: u64, length: u64) -> Result<(), Errno> {
        let end = offset.checked_add(length).filter(|_| length > 0);
        let end = end.ok_or(Errno::EINVAL)?;
        self.of_handle(handle, self.truth().calls.reserve_ns, |state, ino| {
            if !state.handles.get(handle.0)?.flags.write {
                return Err(Errno::EBADF);
            }
            if length > state.truth.space.total_mib << 20 {
                return Err(Errno::ENOSPC);
            }
            state.allocate(ino, offset / PAGE, end.div_ceil(PAGE))?;
            let body = state.inodes.get(ino)?.body()?;
            body.size_bytes = body.size_bytes.max(end);
            state.change_inode(ino, true);
            Ok(())
        })
    }

    fn fstat(&self, handle: Handle) -> Result<Attr, Errno> {
        self.of_handle(handle, self.truth().calls.fstat_ns, |state, ino| {
            Ok(state.inodes.get(ino)?.attr(ino))
        })
    }

    fn stat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, true)
    }

    fn lstat(&self, path: &[u8]) -> Result<Attr, Errno> {
        self.attributes(path, false)
    }

    fn access(&self, path: &[u8], _: Access) -> Result<(), Errno> {
        self.call(|state| {
            let found = state.walk(path, true).and_then(|place| place.found());
            state.cpu(self.truth().calls.access_ns);
            found.map(|_| ())
        })
    }

    fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.unlink_ns);
            state.unlink(path)
        })
    }

    fn mkdir(&self, path: &[u8], mode: u32) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.mkdir_ns);
            let place = state.walk(path, false)?;
            if place.ino.is_some() {
                return Err(Errno::EEXIST);
            }
            let dir = Directory::below(place.parent);
            state.create(&place, Node::Dir(dir), mode).map(|_| ())
        })
    }

    fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.rmdir_ns);
            state.rmdir(path)
        })
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let calls = &self.truth().calls;
        self.call(|state| {
            let over = state.rename(from, to);
            state.cpu(if over == Ok(true) {
                calls.rename_over_ns
            } else {
                calls.rename_ns
            });
            over.map(|_| ())
        })
    }

    fn link(&self, existing: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.link_ns);
            state.link(existing, new)
        })
    }

    fn symlink(&self, target: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.symlink_ns);
            if target.is_empty() || target.contains(&0) {
                return Err(Errno::ENOENT);
            }
            let place = state.walk(new, false)?;
            if place.ino.is_some() {
                return Err(Errno::EEXIST);
            }
            state
                .create(&place, Node::Link(target.into()), 0o777)
                .map(|_| ())
        })
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.readlink_ns);
            let ino = state.walk(path, false)?.found()?;
            match &state.inodes.get(ino)?.node {
                Node::Link(target) => Ok(target.to_vec()),
                _ => Err(Errno::EINVAL),
            }
        })
    }

    fn truncate(&self, path: &[u8], size: u64) -> Result<(), Errno> {
        self.call(|state| {
            let ino = state.walk(path, true)?.found()?;
            state.truncate(ino, size)
        })
    }

    fn set_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        self.call(|state| state.set_attr(path, attr, true))
    }

    fn lset_attr(&self, path: &[u8], attr: SetAttr) -> Result<(), Errno> {
        if matches!(attr, SetAttr::Mode(_)) {
            return self.call(|_| Err(Errno::EOPNOTSUPP));
        }
        self.call(|state| state.set_attr(path, attr, false))
    }

    fn statfs(&self) -> Result<StatFs, Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.statfs_ns);
            let space = &self.truth().space;
            let total = space.total_mib << 20;
            let free = total.saturating_sub(state.used_blocks * PAGE);
            Ok(StatFs {
                block_bytes: PAGE as u32,
                fragment_bytes: PAGE as u32,
                total_bytes: total,
                free_bytes: free,
                available_bytes: free,
                files: space.files,
                free_files: space.files.saturating_sub(state.inodes.count),
            })
        })
    }

    fn sync(&self) -> Result<(), Errno> {
        self.call(|state| {
            state.cpu(self.truth().calls.sync_ns);
            state.sync_all();
            Ok(())
        })
    }

    fn map_touch(
        &self,
        handle: Handle,
        offset: u64,
        length: u64,
        write: bool,
        touched: &mut dyn FnMut(u64),
    ) -> Result<(), Errno> {
        let calls = &self.truth().calls;
        // Its size is asked for before, as of a directory of a machine.
        let attr = self.fstat(handle)?;
        // A file's last page is there as a whole.
        let whole = attr.size_bytes.div_ceil(PAGE).saturating_mul(PAGE);
        let end = offset
            .checked_add(length)
            .filter(|&end| length > 0 && end <= whole);
        let end = end.ok_or(Errno::EINVAL)?;
        if !offset.is_multiple_of(PAGE) {
            return Err(Errno::EINVAL);
        }
        self.of_handle(handle, calls.map_ns, |state, ino| {
            let flags = state.handles.get(handle.0)?.flags;
            if !flags.read || (write && !flags.write) {
                return Err(Errno::EACCES);
            }
            for page in offset / PAGE..end.div_ceil(PAGE) {
                let start_ns = state.now_ns;
                state.fault(ino, page, write)?;
                touched(state.now_ns - start_ns);
            }
            Ok(())
        })?;
        self.call(|state| {
            state.cpu(calls.unmap_ns);
            Ok(())
        })
    }

    fn empty_call(&self) {
        // Entering and leaving is all there is.
        let _ = self.call(|_| Ok(()));
    }

    fn virtual_time(&self) -> Option<&dyn VirtualTime> {
        Some(self)
    }

    fn platform(&self) -> &dyn Platform {
        self
    }
}

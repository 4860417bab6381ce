//! Which process has which descriptors, directory and mappings, and who shares them.
//!
//! A *task* is what the stream numbers: a thread where its calls are told by thread (each with its own
//! clone flags), a process where they are told by process. One that is met for the first time is a
//! process of its own, with nothing open.
//!
//! Always true: an open file goes with the last descriptor, or other owner, that holds it; what goes is
//! handed back to the caller, in the order of the descriptors.
//!
//! Who follows a stream in which calls of threads overlap [settles](Processes::settle) each operation first and
//! [gives](Processes::give) descriptors where others [install](Processes::install) them.

use fsage_core::Fd;
use rustc_hash::FxHashMap;

use crate::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, CLONE_VM};
use crate::pending::Pending;
use crate::{Fds, Mapping, Maps, Shared, SharedId};

/// Descriptors and mappings of all tasks together, beyond which copies begin empty: more than a
/// machine holds at once, and few enough for memory.
const MOST_COPIED: usize = 1 << 22;

/// The same, beyond which nothing is added.
const MOST_HELD: usize = 1 << 24;

/// What a mapping counts in these: it takes more memory.
const MAPPING_COUNTS: usize = 2;

/// What a descriptor stands for: an open file, and whether exec closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot(std::num::NonZeroU32);

impl Slot {
    fn new(open: SharedId, close_on_exec: bool) -> Option<Self> {
        let bits = (open.0 + 1) << 1 | u32::from(close_on_exec);
        std::num::NonZeroU32::new(bits).map(Self)
    }

    #[inline]
    fn open(self) -> SharedId {
        SharedId((self.0.get() >> 1) - 1)
    }

    fn close_on_exec(self) -> bool {
        self.0.get() & 1 != 0
    }
}

/// A descriptor that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed<O> {
    /// The open file that it stood for.
    pub open: SharedId,
    /// That file, if this was the last that held it.
    pub last: Option<O>,
}

/// A task that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended<O> {
    /// Its process.
    pub process: u32,
    /// Whether it was the last task of it.
    pub last: bool,
    /// Its descriptors, if nobody shares them; and what its last calls replaced.
    pub closed: Vec<Closed<O>>,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    process: u32,
    fds: SharedId,
    directory: SharedId,
    maps: SharedId,
}

/// All tasks of a stream. `O`: what is kept of an open file; `D`: of a working directory, its default
/// where that is not known; `F`: of a mapped file.
#[derive(Debug, Clone)]
pub struct Processes<O, D, F = ()> {
    tasks: FxHashMap<u32, Task>,
    /// The task that was asked for last, and its descriptors.
    last: Option<(u32, SharedId)>,
    /// Tasks of each process that has any.
    members: FxHashMap<u32, u32>,
    fds: Shared<Fds<Slot>>,
    directories: Shared<D>,
    maps: Shared<Maps<F>>,
    /// The open files.
    opens: Shared<O>,
    held: usize,
    /// The processes of threads that are tasks of their own.
    pub(crate) apart: FxHashMap<u32, u32>,
    /// Descriptors that calls will have given by their ends, the first to end last.
    pub(crate) pending: Vec<Pending>,
}

impl<O, D, F> Default for Processes<O, D, F> {
    fn default() -> Self {
        Self {
            tasks: FxHashMap::default(),
            last: None,
            members: FxHashMap::default(),
            fds: Shared::default(),
            directories: Shared::default(),
            maps: Shared::default(),
            opens: Shared::default(),
            held: 0,
            apart: FxHashMap::default(),
            pending: Vec::new(),
        }
    }
}

impl<O, D: Clone + Default, F: Copy> Processes<O, D, F> {
    /// Whether the task was met before and has not ended.
    pub fn knows(&self, task: u32) -> bool {
        self.tasks.contains_key(&task)
    }

    /// Every task.
    pub fn tasks(&self) -> impl Iterator<Item = u32> {
        self.tasks.keys().copied()
    }

    /// The process of a task, which is met by that.
    pub fn process(&mut self, task: u32) -> u32 {
        self.task(task).process
    }

    /// The task `old` was one whose number the stream had not told: it is `new`.
    pub fn renumber(&mut self, old: u32, new: u32) {
        if self.knows(new) {
            return;
        }
        if let Some(task) = self.tasks.remove(&old) {
            let process = if task.process == old {
                new
            } else {
                task.process
            };
            self.leave(task.process);
            self.enter(new, Task { process, ..task });
            let pending = self.pending.iter_mut().filter(|p| p.task == old);
            pending.for_each(|p| p.task = new);
        }
    }

    fn task(&mut self, number: u32) -> Task {
        if let Some(&task) = self.tasks.get(&number) {
            return task;
        }
        let task = Task {
            process: number,
            fds: self.fds.add(Fds::default()),
            directory: self.directories.add(D::default()),
            maps: self.maps.add(Maps::default()),
        };
        self.enter(number, task);
        task
    }

    fn enter(&mut self, number: u32, task: Task) {
        self.last = None;
        self.tasks.insert(number, task);
        *self.members.entry(task.process).or_insert(0) += 1;
    }

    /// One task of the process fewer; whether that was the last.
    fn leave(&mut self, process: u32) -> bool {
        self.last = None;
        let Some(members) = self.members.get_mut(&process) else {
            return true;
        };
        *members -= 1;
        let last = *members == 0;
        if last {
            self.members.remove(&process);
        }
        last
    }

    /// A new task, as clone(2) makes it with these flags. One that the stream has shown already keeps
    /// what it has: who knows that it is another ends the old one before.
    pub fn fork(&mut self, parent: u32, child: u32, flags: u32) {
        let from = self.task(parent);
        if self.knows(child) {
            return;
        }
        let asks = |flag| flags & flag != 0;
        let task = Task {
            process: if asks(CLONE_THREAD) {
                from.process
            } else {
                child
            },
            fds: self.fds_for(from.fds, asks(CLONE_FILES)),
            directory: self.directory_for(from.directory, asks(CLONE_FS)),
            maps: self.maps_for(from.maps, asks(CLONE_VM)),
        };
        self.enter(child, task);
    }

    /// The same table for one more owner, or a copy of it.
    fn fds_for(&mut self, id: SharedId, share: bool) -> SharedId {
        if share && self.fds.share(id) {
            return id;
        }
        let from = self.fds.get(id);
        let copy = from.filter(|fds| self.held.saturating_add(fds.len()) <= MOST_COPIED);
        let copy = copy.cloned().unwrap_or_default();
        for slot in copy.values() {
            self.opens.share(slot.open());
        }
        self.held += copy.len();
        self.fds.add(copy)
    }

    fn directory_for(&mut self, id: SharedId, share: bool) -> SharedId {
        if share && self.directories.share(id) {
            return id;
        }
        let copy = self.directories.get(id).cloned().unwrap_or_default();
        self.directories.add(copy)
    }

    fn maps_for(&mut self, id: SharedId, share: bool) -> SharedId {
        if share && self.maps.share(id) {
            return id;
        }
        let counts = |maps: &&Maps<F>| self.held.saturating_add(maps.len() * MAPPING_COUNTS);
        let copy = self.maps.get(id).filter(|m| counts(m) <= MOST_COPIED);
        let copy = copy.cloned().unwrap_or_default();
        self.held += copy.len() * MAPPING_COUNTS;
        self.maps.add(copy)
    }

    fn drop_fds(&mut self, id: SharedId) -> Vec<Closed<O>> {
        let Some(fds) = self.fds.release(id) else {
            return Vec::new();
        };
        self.held = self.held.saturating_sub(fds.len());
        let slots = fds.in_order().into_iter();
        slots.map(|(_, slot)| self.closed(slot.open())).collect()
    }

    fn drop_maps(&mut self, id: SharedId) {
        if let Some(maps) = self.maps.release(id) {
            self.held = self.held.saturating_sub(maps.len() * MAPPING_COUNTS);
        }
    }

    fn closed(&mut self, open: SharedId) -> Closed<O> {
        let last = self.opens.release(open);
        Closed { open, last }
    }

    /// A new program: descriptors of its own without those that close on exec, no mappings. What was
    /// closed.
    pub fn exec(&mut self, task: u32) -> Vec<Closed<O>> {
        let mut closed = self.settle_task(task);
        self.unshare(task, CLONE_FILES);
        let from = self.task(task);
        let on_exec = |(_, slot): &(Fd, Slot)| slot.close_on_exec();
        let fds = self.fds.get(from.fds).map(Fds::in_order);
        let going: Vec<_> = fds.into_iter().flatten().filter(on_exec).collect();
        let going = going.into_iter().filter_map(|(fd, _)| self.close(task, fd));
        closed.extend(going);
        self.drop_maps(from.maps);
        let maps = self.maps.add(Maps::default());
        self.tasks.insert(task, Task { maps, ..from });
        closed
    }

    /// Descriptors ([`CLONE_FILES`]) or directory ([`CLONE_FS`]) are the task's own from here on.
    pub fn unshare(&mut self, number: u32, flags: u32) {
        let mut task = self.task(number);
        if flags & CLONE_FILES != 0 && self.fds.is_shared(task.fds) {
            let copy = self.fds_for(task.fds, false);
            self.drop_fds(task.fds);
            task.fds = copy;
        }
        if flags & CLONE_FS != 0 && self.directories.is_shared(task.directory) {
            let copy = self.directory_for(task.directory, false);
            self.directories.release(task.directory);
            task.directory = copy;
        }
        self.last = None;
        self.tasks.insert(number, task);
    }

    /// A task ends.
    pub fn exit(&mut self, number: u32) -> Ended<O> {
        let mut closed = self.settle_task(number);
        let task = self.task(number);
        self.tasks.remove(&number);
        closed.extend(self.drop_fds(task.fds));
        self.drop_maps(task.maps);
        self.directories.release(task.directory);
        Ended {
            process: task.process,
            last: self.leave(task.process),
            closed,
        }
    }

    /// The working directory; `None` of a task that was never met.
    pub fn directory(&self, task: u32) -> Option<&D> {
        self.directories.get(self.tasks.get(&task)?.directory)
    }

    /// Changes the working directory.
    pub fn set_directory(&mut self, task: u32, directory: D) {
        let id = self.task(task).directory;
        if let Some(place) = self.directories.get_mut(id) {
            *place = directory;
        }
    }

    /// Adds an open file, held by the caller until it [installs](Self::install) or
    /// [releases](Self::release) it.
    pub fn add(&mut self, open: O) -> SharedId {
        self.opens.add(open)
    }

    /// An open file.
    #[inline]
    pub fn open(&self, id: SharedId) -> Option<&O> {
        self.opens.get(id)
    }

    /// An open file, to change it.
    #[inline]
    pub fn open_mut(&mut self, id: SharedId) -> Option<&mut O> {
        self.opens.get_mut(id)
    }

    /// Every open file.
    pub fn opens(&self) -> impl Iterator<Item = &O> {
        self.opens.iter()
    }

    /// The same, to change them.
    pub fn opens_mut(&mut self) -> impl Iterator<Item = &mut O> {
        self.opens.iter_mut()
    }

    /// An open file of any process that is as wanted.
    pub fn find_open(&self, wanted: impl Fn(&O) -> bool) -> Option<SharedId> {
        self.opens.find(wanted)
    }

    /// Every working directory, to change it; one that several tasks share is one.
    pub fn directories_mut(&mut self) -> impl Iterator<Item = &mut D> {
        self.directories.iter_mut()
    }

    /// One more holds the open file. Whether there is one.
    pub fn share(&mut self, id: SharedId) -> bool {
        self.opens.share(id)
    }

    /// Who held it beside the descriptors lets it go; the open file, if that was the last.
    pub fn release(&mut self, id: SharedId) -> Option<O> {
        self.opens.release(id)
    }

    /// The open file of a descriptor.
    #[inline]
    pub fn open_of(&mut self, task: u32, fd: Fd) -> Option<SharedId> {
        Some(self.fds_of(task)?.get(fd)?.open())
    }

    /// The descriptor of a task whose open file is as wanted, and the open file: `hint` if it is, else the
    /// first one.
    pub fn open_where(
        &mut self,
        task: u32,
        hint: Option<Fd>,
        wanted: impl Fn(&O) -> bool,
    ) -> Option<(Fd, SharedId)> {
        let fits = |opens: &Shared<O>, open: SharedId| opens.get(open).is_some_and(&wanted);
        if let Some(fd) = hint
            && let Some(open) = self.open_of(task, fd)
            && fits(&self.opens, open)
        {
            return Some((fd, open));
        }
        let fds = self.fds_of(task)?.in_order();
        let mut all = fds.into_iter().map(|(fd, slot)| (fd, slot.open()));
        all.find(|&(_, open)| fits(&self.opens, open))
    }

    /// The table of descriptors of a task.
    pub(crate) fn table_of(&self, task: u32) -> Option<SharedId> {
        Some(self.tasks.get(&task)?.fds)
    }

    /// The open file of a descriptor in a table.
    pub(crate) fn fd_in(&self, table: SharedId, fd: Fd) -> Option<SharedId> {
        Some(self.fds.get(table)?.get(fd)?.open())
    }

    #[inline]
    fn fds_of(&mut self, task: u32) -> Option<&mut Fds<Slot>> {
        let id = match self.last {
            Some((last, id)) if last == task => id,
            _ => {
                let id = self.tasks.get(&task)?.fds;
                self.last = Some((task, id));
                id
            }
        };
        self.fds.get_mut(id)
    }

    /// What is kept of the open file of a descriptor.
    pub fn description(&mut self, task: u32, fd: Fd) -> Option<&mut O> {
        let open = self.open_of(task, fd)?;
        self.opens.get_mut(open)
    }

    /// Gives an open file, held by the caller until now, to a descriptor; what that named before is
    /// closed.
    #[inline]
    pub fn install(
        &mut self,
        task: u32,
        fd: Fd,
        open: SharedId,
        close_on_exec: bool,
    ) -> Option<Closed<O>> {
        if self.fds_of(task).is_none() {
            self.task(task);
        }
        let slot = Slot::new(open, close_on_exec).filter(|_| self.held < MOST_HELD);
        let Some((fds, slot)) = self.fds_of(task).zip(slot) else {
            return Some(self.closed(open));
        };
        let old = fds.insert(fd, slot);
        self.held += usize::from(old.is_none());
        old.map(|old| self.closed(old.open()))
    }

    /// dup(2): both descriptors share an open file. What `new` named before is closed. Nothing happens
    /// where `old` is not known.
    pub fn dup(&mut self, task: u32, old: Fd, new: Fd, close_on_exec: bool) -> Option<Closed<O>> {
        let open = self.open_of(task, old).filter(|_| old != new)?;
        self.opens.share(open);
        self.install(task, new, open, close_on_exec)
    }

    /// A descriptor goes.
    #[inline]
    pub fn close(&mut self, task: u32, fd: Fd) -> Option<Closed<O>> {
        let slot = self.fds_of(task)?.remove(fd)?;
        self.held = self.held.saturating_sub(1);
        Some(self.closed(slot.open()))
    }

    /// The descriptors of a task, in order.
    pub fn descriptors(&self, task: u32) -> Vec<Fd> {
        let task = self.tasks.get(&task);
        let fds = task.and_then(|t| self.fds.get(t.fds)).map(Fds::in_order);
        fds.into_iter().flatten().map(|(fd, _)| fd).collect()
    }

    /// `FD_CLOEXEC` of a descriptor.
    pub fn set_close_on_exec(&mut self, task: u32, fd: Fd, value: bool) {
        if let Some(slot) = self.fds_of(task).and_then(|fds| fds.get_mut(fd)) {
            *slot = Slot::new(slot.open(), value).unwrap_or(*slot);
        }
    }

    /// Maps a range of a file; what it covers is unmapped first.
    pub fn map(&mut self, task: u32, address: u64, mapping: Mapping<F>) {
        let room = self.held < MOST_COPIED;
        self.change_maps(task, |maps| {
            if room {
                maps.map(address, mapping);
            } else {
                maps.unmap(address, mapping.length);
            }
        });
    }

    /// Unmaps a range; returns the pieces of file mappings that it held, in order.
    pub fn unmap(&mut self, task: u32, address: u64, length: u64) -> Vec<Mapping<F>> {
        self.change_maps(task, |maps| maps.unmap(address, length))
    }

    fn change_maps<T: Default>(&mut self, task: u32, change: impl FnOnce(&mut Maps<F>) -> T) -> T {
        let id = self.task(task).maps;
        let Some(maps) = self.maps.get_mut(id) else {
            return T::default();
        };
        let before = maps.len() * MAPPING_COUNTS;
        let out = change(maps);
        self.held = (self.held + maps.len() * MAPPING_COUNTS).saturating_sub(before);
        out
    }

    /// The pieces of file mappings within a range, in order.
    pub fn mapped(&self, task: u32, address: u64, length: u64) -> Vec<Mapping<F>> {
        let maps = self.tasks.get(&task).and_then(|t| self.maps.get(t.maps));
        maps.map(|maps| maps.mapped(address, length))
            .unwrap_or_default()
    }

    /// Descriptors and mappings held, for tests of what must not leak; and open files.
    pub fn held(&self) -> (usize, usize) {
        (self.held, self.opens.len())
    }
}
